//! `check [LOOP]`: all problems that can be found before a round, at once.

use super::programs::{GateProgramLine, gate_programs};
use super::{CommandContext, CommandExit, VerbResult, safe};
use crate::context::{
    CheckedLoopFile, FileProblem, LOOPS_FOLDER, LoopPreflight, PreflightCache, RepoLoops, error_from_problems, prompts,
};
use crate::error::with_count;
use crate::output::TextStyle;
use loopwright::boundary::{self, HostSupport};
use loopwright_core::after::{self, AfterProblem, FollowerLoop};
use loopwright_core::round::BoundaryLevel;
use serde::Serialize;

#[derive(Debug, clap::Args)]
pub(crate) struct CheckArgs {
    /// The loop to check [default: all loops]
    #[arg(value_name = "LOOP")]
    name: Option<String>,
}

/// The document of `check --json`.
#[derive(Debug, Serialize)]
struct Document {
    schema: u32,
    loops: Vec<Line>,
    problems: Vec<FileProblem>,
}

/// One loop of the document.
#[derive(Debug, Serialize)]
struct Line {
    #[serde(rename = "loop")]
    name: String,
    file: String,
    ok: bool,
    level: &'static str,
    notes: Vec<String>,
    /// The program that each gate runs, with its version; empty in a check of all loops, which starts no program.
    programs: Vec<GateProgramLine>,
}

pub(crate) async fn run(args: CheckArgs, cx: &CommandContext) -> VerbResult {
    let repo = cx.repo().await?;
    let loops = cx.loops(&repo)?;
    let chosen: Vec<&CheckedLoopFile> = match &args.name {
        Some(name) => vec![loops.find(name)?],
        None => loops.loops.iter().collect(),
    };
    // With a name, only that loop is checked; its file has no problems, else it would not have been found.
    let mut problems = if args.name.is_some() { Vec::new() } else { loops.problems.clone() };
    problems.extend(cx.try_config(Some(&repo.work_tree)).err().unwrap_or_default());
    problems.extend(prompts::check_prompts(&repo.work_tree));
    let host = cx.probe_host().await;
    let (mut lines, mut cache) = (Vec::new(), PreflightCache::new(cx, &repo)?);
    for file in chosen {
        // With a broken configuration, which is already reported, the loop is checked without it.
        let spec = cache.with_configured_agents(&file.spec);
        let mut found = LoopPreflight::check(&CheckedLoopFile { file: file.file.clone(), spec }, &mut cache).await?;
        found.notes.extend(held(file, &host));
        if args.name.is_some() {
            found.programs = gate_programs(cx, &repo, &file.spec).await;
        }
        lines.push(line(file, &found));
        problems.extend(found.problems);
    }
    follow(&loops, args.name.as_deref(), &mut lines, &mut problems);
    Ok(finish(cx, &Document { schema: 1, loops: lines, problems }))
}

/// Checks `on.after`: a problem is reported at the loop that names the other.
fn follow(loops: &RepoLoops, only: Option<&str>, lines: &mut [Line], problems: &mut Vec<FileProblem>) {
    let has = |file: &CheckedLoopFile| file.spec.on.probe.is_some();
    let all = loops.loops.iter();
    let followers: Vec<FollowerLoop<'_>> = all
        .clone()
        .map(|file| FollowerLoop { name: &file.spec.name, after: &file.spec.on.after, has_probe: has(file) })
        .collect();
    // An unusable file may be the loop that another one follows.
    let broken: Vec<String> = loops.problems.iter().map(|found| stem(&found.file)).collect();
    let known = all.clone().map(|file| file.spec.name.as_str()).chain(broken.iter().map(String::as_str)).collect();
    for problem in after::problems(&followers, &known) {
        let (names, text, hint) = match problem {
            AfterProblem::Unknown { name, after, near } => {
                let hint = near.map(|near| format!("did you mean `{near}`?"));
                (vec![name], format!("`on.after` names `{after}`, but there is no such loop"), hint)
            }
            AfterProblem::Ring { ring, rests: true } => {
                let note = format!("it is in a cycle that stops only when a probe finds no work: {}", shown(&ring));
                lines
                    .iter_mut()
                    .filter(|line| ring.contains(&line.name))
                    .for_each(|line| line.notes.push(note.clone()));
                continue;
            }
            AfterProblem::Ring { ring, rests: false } => {
                let hint = "remove one `after`, or give one of them a `probe`".to_owned();
                let text = format!("`on.after` makes an endless cycle: {}", shown(&ring));
                (ring, text, Some(hint))
            }
        };
        let Some(file) =
            all.clone().find(|file| names.contains(&file.spec.name) && only.is_none_or(|only| file.spec.name == only))
        else {
            continue;
        };
        lines.iter_mut().filter(|line| line.name == file.spec.name).for_each(|line| line.ok = false);
        let finding = FileProblem::for_file(file.file.clone(), text);
        problems.push(match hint {
            Some(hint) => finding.with_hint(&hint),
            None => finding,
        });
    }
}

fn shown(ring: &[String]) -> String {
    let names: Vec<String> = ring.iter().chain(ring.first()).map(|name| format!("`{name}`")).collect();
    names.join(" → ")
}

fn stem(file: &str) -> String {
    let name = file.rsplit('/').next().unwrap_or(file);
    name.split('.').next().unwrap_or(name).to_owned()
}

/// The boundary of the loop on this machine, where it is weaker than it should be.
fn held(file: &CheckedLoopFile, host: &HostSupport) -> Option<String> {
    match boundary::decide(file.spec.level, file.spec.sandbox, host) {
        Ok(held) => match held.level {
            BoundaryLevel::Kernel => None,
            BoundaryLevel::Process => Some(
                "this host cannot confine its agents; they can access everything that you can: loopwright doctor"
                    .to_owned(),
            ),
            BoundaryLevel::Off => {
                Some("the loop sets `sandbox: off`: its agents and gates can access everything that you can".to_owned())
            }
        },
        Err(refused) => Some(format!("it would be refused here: {}", refused.text)),
    }
}

fn line(file: &CheckedLoopFile, found: &LoopPreflight) -> Line {
    let spec = &file.spec;
    Line {
        name: spec.name.clone(),
        file: file.file.clone(),
        ok: found.problems.is_empty(),
        level: spec.level.short(),
        notes: found.notes.clone(),
        programs: found.programs.clone(),
    }
}

fn finish(cx: &CommandContext, document: &Document) -> CommandExit {
    cx.out.answer(document, || page(cx, document));
    if document.problems.is_empty() {
        return CommandExit::DONE;
    }
    if !cx.out.is_json() {
        cx.out.error(&error_from_problems(&document.problems));
    }
    CommandExit::USAGE
}

fn page(cx: &CommandContext, document: &Document) -> String {
    if document.loops.is_empty() && document.problems.is_empty() {
        return format!("no loop files in {LOOPS_FOLDER}/; `loopwright init` writes one");
    }
    if document.loops.is_empty() {
        return "no loop file is usable".to_owned();
    }
    let wide = document.loops.iter().map(|line| line.name.chars().count()).max().unwrap_or(0);
    let mut lines = Vec::new();
    for line in &document.loops {
        let (look, word) = if line.ok { (TextStyle::Green, "ok ") } else { (TextStyle::Red, "bad") };
        let word = cx.out.style(look, word);
        lines.push(format!("{word}  {:<wide$}  {}  {}", line.name, line.level, safe(&line.file)));
        lines.extend(line.programs.iter().map(|program| format!("     {}", safe(&program.text()))));
        lines.extend(line.notes.iter().map(|note| format!("     note: {}", safe(note))));
    }
    if document.problems.is_empty() {
        lines.push(format!("{} checked", with_count(document.loops.len(), "loop")));
    }
    lines.join("\n")
}
