//! `patterns [NAME]`: the loops that Loopwright ships, as a list or one of them with its whole file. `new` writes them.

use super::{CommandContext, CommandError, CommandExit, VerbResult};
use crate::context::nearest;
use crate::output::{TextTable, safe_lines};
use crate::view::repo_view::describe_cadence;
use loopwright_core::patterns::LoopPattern;
use serde::Serialize;
use serde_json::json;

#[derive(Debug, clap::Args)]
pub(crate) struct PatternsArgs {
    /// The pattern to show [default: list all patterns]
    #[arg(value_name = "NAME")]
    name: Option<String>,
}

/// One pattern.
#[derive(Debug, Serialize)]
struct Line {
    name: &'static str,
    intent: String,
    level: &'static str,
    cadence: String,
    /// The kinds of items that it may send.
    output: Vec<&'static str>,
    /// The most that one round, and all rounds of a day, may cost.
    usd_round: Option<f64>,
    usd_day: Option<f64>,
    /// Whether it stays at L1 until it has the repository's test command.
    needs_tests: bool,
}

/// The document of `patterns NAME --json`.
#[derive(Debug, Serialize)]
struct PatternDocument {
    schema: u32,
    #[serde(flatten)]
    line: Line,
    text: &'static str,
    skills: Vec<SkillDocument>,
}

#[derive(Debug, Serialize)]
struct SkillDocument {
    file: &'static str,
    text: &'static str,
}

pub(crate) fn run(args: &PatternsArgs, cx: &CommandContext) -> VerbResult {
    match &args.name {
        None => Ok(list(cx)),
        Some(name) => Ok(show(cx, find(name)?)),
    }
}

/// The pattern of this name, or an error that names the patterns.
pub(super) fn find(name: &str) -> Result<LoopPattern, CommandError> {
    let names = || LoopPattern::all().map(|pattern| pattern.name);
    LoopPattern::find(name).ok_or_else(|| {
        let error = CommandError::unknown(format!("no pattern is called `{name}`"));
        let error = match nearest(name, names()) {
            Some(near) => error.hint(format!("did you mean `{near}`?")),
            None => error,
        };
        error.hint(format!("patterns: {}", names().collect::<Vec<_>>().join(", ")))
    })
}

fn line(pattern: &LoopPattern) -> Line {
    let spec = pattern.spec();
    Line {
        name: pattern.name,
        level: spec.level.short(),
        cadence: describe_cadence(&spec.on),
        output: spec.output.iter().map(|output| output.kind.word()).collect(),
        usd_round: spec.budget.round.usd.map(|usd| usd.dollars()),
        usd_day: spec.budget.day.usd.map(|usd| usd.dollars()),
        needs_tests: pattern.needs_tests(),
        intent: spec.intent,
    }
}

fn list(cx: &CommandContext) -> CommandExit {
    let patterns: Vec<Line> = LoopPattern::all().map(|pattern| line(&pattern)).collect();
    cx.out.answer(&json!({"schema": 1, "patterns": &patterns}), || {
        let row = |line: &Line| [line.name, line.level, &line.cadence, &line.intent].map(str::to_owned);
        let table = TextTable::new(["NAME", "LEVEL", "CADENCE", "INTENT"], patterns.iter().map(row));
        let next = "read one: loopwright patterns NAME; use one: loopwright new NAME";
        format!("{}\n{}", table.render_for(&cx.out), cx.out.wrapped(next))
    })
}

fn show(cx: &CommandContext, pattern: LoopPattern) -> CommandExit {
    let skills = pattern.skills.iter().map(|skill| SkillDocument { file: skill.file, text: skill.text }).collect();
    let shown = PatternDocument { schema: 1, line: line(&pattern), text: pattern.text, skills };
    cx.out.answer(&shown, || safe_lines(shown.text.trim_end()))
}
