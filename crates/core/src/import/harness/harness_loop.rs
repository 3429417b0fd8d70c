//! The meaning of a definition of loop-harness here. loop-harness ships what a second agent accepts; an imported loop
//! that sends anything starts at L2, so that a person approves it.

use super::{HarnessDefaults, HarnessDefinition, HarnessOutput, skill};
use crate::import::{ImportFit, ImportNotes};
use crate::level::LoopLevel;
use crate::spec::seed_cadence::add_cadence;
use crate::spec::{
    ActionKind, AgentSpec, AgentUse, Ask, CheckMode, Gate, LoopSpec, OutputSpec, ProbeSpec, Role, RunGate,
};
use crate::units::TimeSpan;

/// The tools that every adapter knows.
const TOOLS: [&str; 7] = ["Read", "Glob", "Grep", "Edit", "Write", "Bash", "WebFetch"];
/// The most items of one kind that an imported loop sends in a round.
const SENT_MAX: u32 = 10;
/// The most attempts of a round.
const ATTEMPTS_MAX: u32 = 10;
/// The longest round.
const WALL_MAX_MINUTES: u64 = 24 * 60;

/// A definition with everything that decides its meaning.
#[derive(Debug, Clone, Copy)]
pub struct HarnessLoop<'a> {
    /// The definition.
    pub definition: &'a HarnessDefinition,
    /// The defaults of the installation.
    pub defaults: HarnessDefaults,
    /// The text of its skill.
    pub skill: &'a str,
    /// The repository and the user's configuration.
    pub fit: ImportFit<'a>,
}

impl HarnessLoop<'_> {
    /// The loop; each key of the definition gets a note.
    #[must_use]
    pub fn spec(&self, notes: &mut ImportNotes) -> LoopSpec {
        let definition = self.definition;
        let mut spec = LoopSpec::new(definition.name.clone(), self.intent(notes), self.level(notes));
        notes.carried(definition.place("name"), "name", format!("`name: {}`", definition.name));
        self.triggers(&mut spec, notes);
        self.agent(&mut spec, notes);
        self.verification(&mut spec, notes);
        self.limits(&mut spec, notes);
        self.outputs(&mut spec, notes);
        spec.skills = vec![definition.skill.clone()];
        notes.carried(definition.place("skill"), "skill", format!("`.loopwright/skills/{}`", definition.skill));
        skill::examine(&format!("skills/{}", definition.skill), self.skill, notes);
        spec.prompts.maker = Some(self.prompt(&spec));
        self.other_keys(notes);
        spec
    }

    /// Lines for the top of the loop file: what a person still has to decide.
    #[must_use]
    pub fn comments(&self) -> Vec<String> {
        let mut lines =
            vec![format!("Imported from loop-harness, {}. Read it before you run it.", self.definition.file)];
        if self.fit.forge.is_none() && self.output() != HarnessOutput::LogOnly {
            lines.push("forge: github   # add this line after you have configured the forge".to_owned());
        }
        if self.output() == HarnessOutput::SlackMessage && !self.fit.has_slack {
            lines.push("output: [slack, report]   # replace `output` after you have configured `slack`".to_owned());
        }
        lines
    }

    fn output(&self) -> HarnessOutput {
        self.definition.output.unwrap_or(HarnessOutput::LogOnly)
    }

    fn changes_code(&self) -> bool {
        matches!(self.output(), HarnessOutput::Pr | HarnessOutput::Commit)
    }

    fn intent(&self, notes: &mut ImportNotes) -> String {
        let file = format!("skills/{}", self.definition.skill);
        let (intent, origin) = match skill::intent(self.skill) {
            Some(intent) => (intent, "taken from the first sentence of the skill"),
            None => (format!("Do the work of the skill {}.", self.definition.skill), "the skill has no first sentence"),
        };
        notes.changed(
            &file,
            "intent",
            format!("loop-harness has no `intent`: {origin}; every brief and report shows it"),
        );
        intent
    }

    fn level(&self, notes: &mut ImportNotes) -> LoopLevel {
        let (place, output) = (self.definition.place("output"), self.output());
        match (self.definition.output, output) {
            (None, _) => {
                notes.changed(place, "output", "the file sets no `output`: the loop only reports, at L1");
                LoopLevel::L1Report
            }
            (Some(HarnessOutput::LogOnly), _) => {
                notes.carried(place, "output", "`log-only` is L1: the loop reads and writes a report");
                LoopLevel::L1Report
            }
            (Some(_), output) => {
                let text = format!(
                    "`{output}` is sent after a person approves it (L2); loop-harness sends what its verifier accepts"
                );
                notes.changed(place, "output", text);
                LoopLevel::L2Assisted
            }
        }
    }

    fn triggers(&self, spec: &mut LoopSpec, notes: &mut ImportNotes) {
        let definition = self.definition;
        match &definition.cadence {
            Some(cadence) => {
                // The reader of the definition refuses any other text.
                let _ = add_cadence(&mut spec.on, cadence);
                let text = format!("`on`: {}; a moment that was missed is caught up once", spec.cadence());
                notes.carried(definition.place("cadence"), "cadence", text);
            }
            None => notes.changed(&definition.file, "cadence", "the file sets none: the loop starts only manually"),
        }
        match definition.trigger.as_deref() {
            None | Some("schedule") => {}
            Some(trigger) => {
                let text = format!(
                    "`{trigger}` was polling at the cadence, and still is; `on.push`, `on.files` and `on.webhook` are real triggers"
                );
                notes.changed(definition.place("trigger"), "trigger", text);
            }
        }
        spec.on.probe = starter_probe(&definition.name, self.fit.branch);
        let key = "RESULT: DONE items=";
        match &spec.on.probe {
            Some(_) => {
                let text =
                    "a probe finds the items, and the engine records which are processed; the line is only a claim";
                notes.changed(&definition.file, key, text);
            }
            None => {
                let text = "the maker chooses its items, and its state names the processed ones; the line is only a claim, so later items are not recorded: write `on.probe`";
                notes.changed(&definition.file, key, text);
            }
        }
    }

    fn agent(&self, spec: &mut LoopSpec, notes: &mut ImportNotes) {
        let definition = self.definition;
        let mut agent = AgentSpec::new(AgentUse::Claude);
        for tool in &definition.allowed_tools {
            let name = tool.split('(').next().unwrap_or(tool).trim();
            let place = definition.place("allowed_tools");
            if !TOOLS.contains(&name) {
                notes.not_carried(
                    place,
                    "allowed_tools",
                    format!("agents here have no tool {tool:?}; the tools are {}", TOOLS.join(", ")),
                );
                continue;
            }
            if name != tool {
                notes.changed(
                    place,
                    "allowed_tools",
                    format!("{tool:?} is the whole tool `{name}` here; the sandbox limits it"),
                );
            }
            if !agent.tools.iter().any(|known| known == name) {
                agent.tools.push(name.to_owned());
            }
        }
        if !agent.tools.is_empty() {
            notes.carried(
                definition.place("allowed_tools"),
                "allowed_tools",
                format!("`agents.maker.tools`: {}", agent.tools.join(", ")),
            );
        }
        spec.agents.insert(Role::Maker, agent);
    }

    fn verification(&self, spec: &mut LoopSpec, notes: &mut ImportNotes) {
        let definition = self.definition;
        let (place, verify) = (definition.place("verify"), definition.verify.unwrap_or(self.defaults.verify));
        match (verify, spec.level) {
            (true, _) => notes.changed(
                place,
                "verify",
                "a checker returns a scored verdict with evidence, after the gates; no printed line counts",
            ),
            (false, LoopLevel::L1Report) => {
                spec.check = CheckMode::None;
                notes.carried(place, "verify", "`check: none`; its reports say so");
            }
            (false, _) => notes.changed(place, "verify", "a loop that sends anything always has a checker"),
        }
        if let (true, Some(tests)) = (self.changes_code(), self.fit.tests) {
            spec.gates.push(Gate::Run(RunGate::new("tests", tests.to_vec())));
            spec.setup = self.fit.setup.to_vec();
            notes.changed(
                place,
                "gates",
                format!("added: `{}` must pass on a fresh checkout before the checker runs", tests.join(" ")),
            );
        } else if self.changes_code() {
            notes.changed(place, "gates", "none: no test command was recognised; add a gate to the loop file");
        }
    }

    fn limits(&self, spec: &mut LoopSpec, notes: &mut ImportNotes) {
        let definition = self.definition;
        let retries = definition.max_retries.unwrap_or(self.defaults.max_retries);
        spec.attempts = retries.saturating_add(1).min(ATTEMPTS_MAX);
        let text = format!(
            "`attempts: {}` within one round, with the reasons of each rejection; three failed rounds send an item to the inbox",
            spec.attempts
        );
        notes.changed(definition.place("max_retries"), "max_retries", text);
        let minutes = u64::from(definition.timeout_minutes.unwrap_or(self.defaults.timeout_minutes));
        let whole = (minutes * 2 * u64::from(spec.attempts)).min(WALL_MAX_MINUTES).max(minutes);
        spec.budget.role.wall = Some(TimeSpan::secs(minutes * 60));
        spec.budget.round.wall = Some(TimeSpan::secs(whole * 60));
        let text =
            format!("`budget.role.wall: {minutes}m` for each session, `budget.round.wall: {whole}m` for the round");
        notes.carried(definition.place("timeout_minutes"), "timeout_minutes", text);
        let text =
            "loop-harness has none: a round has at most 400k tokens, 5 USD and 100 turns, a day 20 USD; see `budget`";
        notes.changed(&definition.file, "budget", text);
    }

    fn outputs(&self, spec: &mut LoopSpec, notes: &mut ImportNotes) {
        use ActionKind::{Commit, IssueComment, IssueLabel, PrComment, PrInline, PrReview, PullRequest, Report, Slack};
        let kinds: &[ActionKind] = match self.output() {
            HarnessOutput::Pr => &[PullRequest, Report],
            HarnessOutput::Commit => &[Commit, Report],
            HarnessOutput::IssueComment => &[IssueComment, IssueLabel, PrComment, PrInline, PrReview, Report],
            HarnessOutput::SlackMessage if self.fit.has_slack => &[Slack, Report],
            HarnessOutput::SlackMessage | HarnessOutput::LogOnly => &[Report],
        };
        let is_many = |kind: ActionKind| !matches!(kind, PullRequest | Commit | Report);
        spec.output = kinds
            .iter()
            .map(|kind| OutputSpec { max: if is_many(*kind) { SENT_MAX } else { 1 }, ..OutputSpec::new(*kind) })
            .collect();
        let place = self.definition.place("output");
        if let Some(forge) = self.fit.forge {
            spec.forge = forge.to_owned();
        } else if self.output() != HarnessOutput::LogOnly {
            notes.changed(place, "output", "no forge of your configuration has this repository, so outputs stay in the local forge; see the settings below");
        }
        if self.output() == HarnessOutput::SlackMessage && !self.fit.has_slack {
            notes.changed(
                place,
                "output",
                "Slack is not configured, so the loop writes a report; see the settings below",
            );
        }
        match self.output() {
            HarnessOutput::Pr => {
                notes.changed(place, "output", "pull requests are drafts on the branch `loop/<loop>/<round>`")
            }
            HarnessOutput::IssueComment => {
                notes.changed(place, "output", format!("at most {SENT_MAX} of each kind in a round"))
            }
            _ => {}
        }
    }

    fn other_keys(&self, notes: &mut ImportNotes) {
        let definition = self.definition;
        if definition.sets("worktree") {
            let text = "every round has a private copy, never a linked worktree; `LOOP_WORKTREE_ROOT` has no effect, the copies are below the state directory";
            notes.changed(definition.place("worktree"), "worktree", text);
        }
        if definition.sets("state_file") {
            notes.changed(
                definition.place("state_file"),
                "state_file",
                "the state is in Loopwright's store: `loopwright show LOOP`, `loopwright forget LOOP`",
            );
        }
        if definition.notify_slack {
            notes.not_carried(definition.place("notify_slack"), "notify_slack", "nothing is reported to Slack about runs; `loopwright inbox` and `loopwright status` show what needs a person");
        }
        for key in &definition.unknown {
            notes.not_carried(definition.place(key), key, "loop-harness documents no such key");
        }
    }

    fn prompt(&self, spec: &LoopSpec) -> String {
        let skill = &self.definition.skill;
        let item = match spec.on.probe {
            Some(_) => "The brief names the item of this round. Process this item and no other.",
            None => "`$LOOP_STATE_SUMMARY` names a JSON file with the items that are done. Do not process them again.",
        };
        let output = match self.output() {
            HarnessOutput::Pr => {
                "Change the files in the current folder; commits are not needed. Write the text of the pull request to `PR_BODY.md` in this folder, title first."
            }
            HarnessOutput::Commit => {
                "Change the files in the current folder; commits are not needed. Write the message to `commit.md` in `$LOOP_OUTBOX`."
            }
            HarnessOutput::IssueComment => {
                "Change no files. Stage each output in `$LOOP_OUTBOX`, under the names that the skill uses, such as `01-issue-comment-7.md`."
            }
            HarnessOutput::SlackMessage | HarnessOutput::LogOnly => {
                "Change no files. Stage the result as `report.md` in `$LOOP_OUTBOX`, or as `slack.md` if this loop may send it."
            }
        };
        format!(
            "Do the work that the skill `{skill}` describes. The skill was written for loop-harness; here these rules come first:\n\n\
             1. {item}\n\
             2. {output}\n\
             3. You have no token and no network, and `$LOOP_CONNECTORS` does not exist: push nothing and post nothing. If you cannot do the work without them, write the reason to `CANNOT.md` in `$LOOP_OUTBOX`.\n\
             4. A last line `RESULT: …` is allowed. It is a claim; the gates and the checker decide.\n"
        )
        .trim_end()
        .to_owned()
    }
}

/// The probe of a starter loop, by its name: the same question that its skill asks the forge.
fn starter_probe(name: &str, branch: Option<&str>) -> Option<ProbeSpec> {
    let named = |probe: &str| Some(ProbeSpec::Named(probe.to_owned()));
    match name {
        "triage-ci" => {
            let branch = Some(branch.unwrap_or("main").to_owned());
            Some(ProbeSpec::Ask(Box::new(Ask { branch, ..Ask::new("failing-ci") })))
        }
        "issue-groomer" => named("open-issues"),
        "pr-reviewer" => named("open-prs"),
        "dependency-updater" => named("outdated"),
        "doc-sync" => named("commits"),
        _ => None,
    }
}
