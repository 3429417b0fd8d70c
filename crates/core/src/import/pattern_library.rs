//! The files of loop-engineering, the pattern library: the loops of `LOOP.md`, the limits of `gate.yaml` and
//! `loop-budget.md`. The library has no runtime, so each loop becomes the shipped pattern of the same name with these
//! limits.

use super::tables::{self, TableRow};
use super::{ImportFit, ImportNotes, ImportedLoop, place, read_tree, whole_file};
use crate::level::LoopLevel;
use crate::patterns::{LoopPattern, PatternFit};
use crate::spec::path::SpecPath;
use crate::spec::reader::value::SpecValue;
use crate::spec::seed_cadence::add_cadence;
use crate::spec::{ActionKind, DiffGate, DiffRule, Gate, LoopSpec, SpecProblems, Triggers, read_loop_file, rules};
use crate::units::parse_tokens;
use std::collections::BTreeMap;

/// The file with the active loops.
pub const LOOPS_FILE: &str = "LOOP.md";
/// The file with the limits of changes.
pub const GATE_FILE: &str = "gate.yaml";
/// The file with the ceilings of each loop.
pub const BUDGET_FILE: &str = "loop-budget.md";

/// The limits of changes: `gate.yaml`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LibraryGate {
    /// Globs of paths that may not change.
    pub denylist: Vec<String>,
    /// The most files of a change.
    pub files_max: Option<u64>,
}

impl LibraryGate {
    /// Reads `gate.yaml`.
    ///
    /// # Errors
    /// Every problem of the file at once.
    pub fn read(bytes: &[u8], notes: &mut ImportNotes) -> Result<Self, SpecProblems> {
        read_tree(GATE_FILE, bytes, |root| {
            let mut gate = Self::default();
            for (entry, at) in root.entries("a mapping with `denylist` and `maxFiles`")? {
                gate.set(&entry.key, &at, root, notes);
            }
            Some(gate)
        })
    }

    fn set(&mut self, key: &str, at: &SpecValue<'_>, root: &SpecValue<'_>, notes: &mut ImportNotes) {
        let source = place(GATE_FILE, at.node);
        match key {
            "version" => {}
            "denylist" => {
                self.denylist = at.text_list().unwrap_or_default();
                for violation in rules::glob_violations(&SpecPath::root_key("denylist"), &self.denylist) {
                    at.findings.add_violation(violation, root.node);
                }
                notes.changed(&source, key, "`protect` of every loop: a change to an existing file there is rejected, from the real diff; loop-gate asks for a person, and trusts the paths that its caller names");
            }
            "maxFiles" => {
                self.files_max = at.whole(1..=100_000);
                notes.changed(
                    &source,
                    key,
                    "the gate `small`: a larger change is rejected, where loop-gate asks for a person",
                );
            }
            "autoMergeAllowlist" => {
                notes.not_carried(&source, key, "nothing is merged without a person; see `level: L3` and `allow`")
            }
            key => notes.not_carried(&source, key, "loop-engineering documents no such key"),
        }
    }
}

/// The files of a library, as text.
#[derive(Debug, Clone, Copy, Default)]
pub struct PatternLibrary<'a> {
    /// `LOOP.md`.
    pub loops: &'a str,
    /// `loop-budget.md`; empty if there is none.
    pub budget: &'a str,
    /// Paths of files from the root of the repository that every maker sees, such as `STATE.md`.
    pub context: &'a [String],
    /// The repository and the user's configuration.
    pub fit: ImportFit<'a>,
}

impl PatternLibrary<'_> {
    /// The loops of the library.
    ///
    /// # Errors
    /// Cadences that cannot be read, and a `LOOP.md` without a table of loops.
    pub fn loops(&self, gate: &LibraryGate, notes: &mut ImportNotes) -> Result<Vec<ImportedLoop>, SpecProblems> {
        let rows = tables::rows(self.loops, &["pattern", "loop"]);
        if rows.is_empty() {
            let hint = "a table with the columns Pattern, Cadence and Status lists the active loops";
            return Err(whole_file(LOOPS_FILE, "no table of loops", Some(hint)));
        }
        let budgets = self.budgets(notes);
        let (mut loops, mut problems) = (Vec::new(), SpecProblems::default());
        for row in &rows {
            match self.one(row, gate, &budgets, notes) {
                Ok(found) => loops.extend(found),
                Err(found) => problems.extend(found),
            }
        }
        if problems.is_empty() { Ok(loops) } else { Err(problems) }
    }

    fn one(
        &self,
        row: &TableRow,
        gate: &LibraryGate,
        budgets: &BTreeMap<String, (u64, usize)>,
        notes: &mut ImportNotes,
    ) -> Result<Option<ImportedLoop>, SpecProblems> {
        let source = format!("{LOOPS_FILE}:{}", row.line);
        let name = slug(row.cell(&["pattern", "loop"]).unwrap_or_default());
        let status = row.cell(&["status", "level", "mode"]).unwrap_or_default().to_lowercase();
        let Some(pattern) = LoopPattern::find(&name) else {
            let text = format!(
                "no shipped loop is called {name:?}: `loopwright patterns` lists them; a loop file of your own has `name`, `intent` and `# Maker`"
            );
            notes.not_carried(&source, "pattern", text);
            return Ok(None);
        };
        if let Some(word) = ["paused", "retired", "disabled", "off", "draft", "l0"]
            .into_iter()
            .find(|word| status.split(|c: char| !c.is_alphanumeric()).any(|part| part == *word))
        {
            notes.not_carried(
                &source,
                "status",
                format!("`{name}` is {word}: `loopwright new {name}` writes it when you want it"),
            );
            return Ok(None);
        }
        let mut spec = self.fitted(&pattern);
        level(&mut spec, &status, &source, notes);
        if let Some(text) = row.cell(&["cadence", "schedule"]) {
            cadence(&mut spec, text, &source, notes)?;
        }
        limits(&mut spec, gate);
        if let Some((tokens, line)) = budgets.get(&name) {
            spec.budget.day.tokens = Some(*tokens);
            spec.budget.round.tokens = spec.budget.round.tokens.map(|round| round.min(*tokens));
            notes.carried(
                &format!("{BUDGET_FILE}:{line}"),
                "max tokens/day",
                format!("`budget.day.tokens: {tokens}` of `{name}`, reserved before each start"),
            );
        }
        spec.context = self.context.to_vec();
        if let Some(forge) = self.fit.forge {
            spec.forge = forge.to_owned();
        }
        notes.carried(
            &source,
            "pattern",
            format!("`{name}`: the shipped loop with its probe, gates, rubric and skills"),
        );
        if let Some(command) = row.cell(&["command", "run"]) {
            notes.not_carried(&source, "command", format!("{command:?}: the daemon starts the loop (`loopwright up`)"));
        }
        let comment = [format!("Imported from loop-engineering, {source}. Read it before you run it.")];
        ImportedLoop::new(&source, spec, &comment).map(Some)
    }

    fn fitted(&self, pattern: &LoopPattern) -> LoopSpec {
        let tests: Vec<_> = self.fit.tests.map(|run| ("tests".to_owned(), run.to_vec())).into_iter().collect();
        let (setup, branch) = (self.fit.setup, self.fit.branch);
        let text = pattern.loop_file(&PatternFit { tests: &tests, setup, branch, ..PatternFit::default() });
        read_loop_file("loop.md", text.as_bytes()).map_or_else(|_| pattern.spec(), crate::spec::CheckedSpec::into_spec)
    }

    /// The tokens of a day and the line, for each loop.
    fn budgets(&self, notes: &mut ImportNotes) -> BTreeMap<String, (u64, usize)> {
        let mut found = BTreeMap::new();
        for row in tables::rows(self.budget, &["loop", "pattern"]) {
            let source = format!("{BUDGET_FILE}:{}", row.line);
            let name = slug(row.cell(&["loop", "pattern"]).unwrap_or_default());
            if let Some(runs) = row.cell(&["runs"]) {
                notes.not_carried(
                    &source,
                    "max runs/day",
                    format!("{runs:?}: the cadence and `budget.day` limit the runs of `{name}`"),
                );
            }
            if let Some(spawns) = row.cell(&["spawn", "sub-agent"]) {
                notes.not_carried(
                    &source,
                    "max sub-agent spawns",
                    format!("{spawns:?}: the round's tokens, money and processes are limited instead"),
                );
            }
            let Some(text) = row.cell(&["token"]) else { continue };
            match parse_tokens(&text.to_lowercase().replace([',', '_', ' '], "")).filter(|tokens| *tokens > 0) {
                Some(tokens) => drop(found.insert(name, (tokens, row.line))),
                None => notes.not_carried(&source, "max tokens/day", format!("{text:?} is not a number of tokens")),
            }
        }
        found
    }
}

/// The name of a loop from the text of a cell: `Daily Triage` is `daily-triage`.
fn slug(text: &str) -> String {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    words.map(str::to_ascii_lowercase).collect::<Vec<_>>().join("-")
}

/// The level that the table names, never more than the pattern's; L1 if it names none.
fn level(spec: &mut LoopSpec, status: &str, source: &str, notes: &mut ImportNotes) {
    let named = [("l3", LoopLevel::L3Unattended), ("l2", LoopLevel::L2Assisted), ("l1", LoopLevel::L1Report)];
    let named = named.into_iter().find(|(word, _)| status.contains(word)).map(|(_, level)| level);
    let shipped = spec.level;
    spec.level = named.unwrap_or(LoopLevel::L1Report).min(shipped);
    let short = spec.level.short();
    match named {
        Some(named) if named == spec.level => {
            notes.carried(source, "level", format!("`level: {short}`, enforced by the program"))
        }
        Some(named) => notes.changed(
            source,
            "level",
            format!(
                "{} becomes {short}: the shipped loop starts there, and L2 needs the repository's tests as a gate",
                named.short()
            ),
        ),
        None => notes.changed(source, "level", "the table names no level, so the loop starts at L1"),
    }
}

/// A cadence, or a range such as `5m-15m`, of which the slower end counts.
fn cadence(spec: &mut LoopSpec, text: &str, source: &str, notes: &mut ImportNotes) -> Result<(), SpecProblems> {
    let mut on = Triggers::default();
    let spans: Vec<String> = text.split(['-', '–', '—']).map(|part| part.trim().to_lowercase()).collect();
    let unit = spans.last().and_then(|last| last.chars().last()).filter(char::is_ascii_alphabetic);
    let span = |part: &String| match (part.bytes().all(|byte| byte.is_ascii_digit()), unit) {
        (true, Some(unit)) => crate::units::TimeSpan::parse(&format!("{part}{unit}")),
        _ => crate::units::TimeSpan::parse(part),
    };
    let read: Option<Vec<_>> = spans.iter().map(span).collect();
    if let Some(slowest) = read.and_then(|spans| spans.into_iter().max()) {
        on.every.push(slowest);
    } else if add_cadence(&mut on, text).is_none() {
        let hint = "write `15m`, `5m-15m`, `daily 08:00` or a cron line into the table";
        return Err(whole_file(
            LOOPS_FILE,
            &format!("line {}: {text:?} is not a cadence", source.rsplit(':').next().unwrap_or_default()),
            Some(hint),
        ));
    }
    let Triggers { every, cron, daily, weekly, .. } = on;
    (spec.on.every, spec.on.cron, spec.on.daily, spec.on.weekly) = (every, cron, daily, weekly);
    let shown = spec.cadence();
    match spans.len() {
        1 => notes.carried(source, "cadence", format!("`on`: {shown}")),
        _ => notes.changed(
            source,
            "cadence",
            format!("{text:?} becomes {shown}, the slower end; the probe costs nothing while there is no work"),
        ),
    }
    Ok(())
}

fn limits(spec: &mut LoopSpec, gate: &LibraryGate) {
    for glob in &gate.denylist {
        if !spec.protect.contains(glob) {
            spec.protect.push(glob.clone());
        }
    }
    let Some(files) = gate.files_max else { return };
    let changes_code = [ActionKind::PullRequest, ActionKind::Commit].into_iter().any(|kind| spec.outputs(kind));
    let diff = spec.gates.iter_mut().find_map(|gate| match gate {
        Gate::Diff(gate) => Some(&mut gate.diff),
        _ => None,
    });
    match diff {
        Some(diff) => diff.files_max = Some(diff.files_max.map_or(files, |own| own.min(files))),
        None if changes_code => {
            let diff = DiffRule { files_max: Some(files), ..DiffRule::default() };
            spec.gates.push(Gate::Diff(DiffGate { name: "small".to_owned(), diff }));
        }
        None => {}
    }
}
