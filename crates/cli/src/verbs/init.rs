//! `init`: writes `.loopwright/` with a configuration and loops that fit the repository, after it has run the gates of
//! those loops once. It never overwrites a file of the user, and asks only on a terminal.

mod detect;
mod example;
mod trial;

pub(super) use detect::RepoProject;

use super::{CommandContext, CommandError, VerbResult, new, patterns, safe};
use crate::context::{AgentAccess, AgentAvailability};
use clap::ValueEnum;
use loopwright::git::{GitErrorKind, UserRepo};
use loopwright_core::gate::GateStatus;
use loopwright_core::patterns::{LoopPattern, PatternFit};
use loopwright_core::spec::{AgentUse, Argv, OnOff};
use serde::Serialize;
use std::fs;
use std::io::{self, Write as _};
use std::path::Path;
use trial::{ChosenGate, ChosenGates};

#[derive(Debug, clap::Args)]
pub(crate) struct InitArgs {
    /// Also write a shipped loop, adapted to the repository; may be repeated
    #[arg(long = "loop", value_name = "NAME")]
    loops: Vec<String>,
    /// The agent that does the work [default: the first one with access to its model]
    #[arg(long, value_name = "AGENT")]
    agent: Option<String>,
    /// Whether makers see AGENTS.md, CLAUDE.md and GEMINI.md, as data [default: on if there is one]
    #[arg(long, value_name = "ON|OFF")]
    instructions: Option<SwitchWord>,
    /// Do not run the set-up and the gates
    #[arg(long)]
    no_run: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum SwitchWord {
    On,
    Off,
}

/// The document of `init --json`.
#[derive(Debug, Serialize)]
struct Document {
    schema: u32,
    written: Vec<String>,
    /// Files that already existed and were not changed.
    kept: Vec<String>,
    /// The ecosystems that were recognised.
    kinds: Vec<String>,
    /// The commands that install the dependencies.
    setup: Vec<Argv>,
    /// The command that runs the repository's tests, if one was recognised.
    tests: Option<Argv>,
    /// The gates, and their results on base.
    gates: Vec<GateLine>,
    /// Agents found on this machine.
    agents: Vec<&'static str>,
    /// The maker of the example loops: the first agent with access to its model, else a script.
    maker: &'static str,
    /// The checker of the example loops.
    checker: &'static str,
    /// Whether makers see the repository's own instructions.
    instructions: OnOff,
    /// Steps that are needed before a loop can run.
    notes: Vec<String>,
    /// Commands to type next.
    next: Vec<String>,
}

/// One gate of the document.
#[derive(Debug, Serialize)]
struct GateLine {
    name: String,
    run: Argv,
    /// Its status on base; `None` if it did not run.
    status: Option<GateStatus>,
    finding: Option<String>,
    note: Option<String>,
}

impl From<&ChosenGate> for GateLine {
    fn from(gate: &ChosenGate) -> Self {
        let tried = gate.tried.as_ref();
        Self {
            name: gate.name.clone(),
            run: gate.run.clone(),
            status: tried.map(|tried| tried.status),
            finding: tried.and_then(|tried| tried.finding.clone()),
            note: tried.and_then(|tried| tried.note.clone()),
        }
    }
}

pub(crate) async fn run(args: InitArgs, cx: &CommandContext) -> VerbResult {
    let mut wanted = Vec::new();
    for name in &args.loops {
        wanted.push(patterns::find(name)?);
    }
    let repo = cx.repo().await?;
    let mut notes = missing_commit_notes(cx, &repo).await;
    let has_commit = notes.is_empty();
    let project = RepoProject::read(cx, &repo).await?;
    let found = AgentAvailability::read_all(cx, Some(&repo.work_tree))?;
    let cast = ExampleAgents::choose(&found, args.agent.as_deref())?;
    notes.extend(idle(&found));
    notes.extend(project.plan.notes.iter().cloned());
    let instructions = instructions(cx, &args, &project);
    wanted.extend(offer_loops(cx, &args)?);
    let mut files = InitFiles::new(&repo.work_tree);
    files.write(".loopwright/config.yaml", example::CONFIG)?;
    files.write(".loopwright/first-look.script", example::SCRIPT)?;
    let mut example = example::ExampleLoop {
        setup: &project.plan.setup,
        gates: ChosenGates::untried(&project.plan),
        cast: &cast,
        instructions,
        shown: &project.instructions,
    };
    let is_new = files.write(FIRST_LOOK, &example.first_look())?;
    if is_new && has_commit && !args.no_run && !project.plan.gates.is_empty() {
        example.gates = ChosenGates::try_plan(cx, &repo, &project.plan).await?;
        files.rewrite(FIRST_LOOK, &example.first_look())?;
    }
    if let Some(text) = example.first_change().filter(|_| is_new) {
        files.write(FIRST_CHANGE, &text)?;
    }
    let tests: Vec<(String, Argv)> =
        example.gates.gates.iter().map(|gate| (gate.name.clone(), gate.run.clone())).collect();
    let fit = PatternFit { tests: &tests, setup: &project.plan.setup, instructions, ..PatternFit::default() };
    for pattern in &wanted {
        notes.extend(files.add_pattern(cx, &repo, pattern, &fit).await?);
    }
    notes.extend(trial_notes(&example.gates));
    let document = Document {
        schema: 1,
        next: next_commands(&files, &wanted, &example.gates),
        written: files.written,
        kept: files.kept,
        kinds: project.plan.kinds.clone(),
        setup: project.plan.setup.clone(),
        tests: tests.first().map(|(_, run)| run.clone()),
        gates: example.gates.gates.iter().map(GateLine::from).collect(),
        agents: found.iter().filter(|one| one.installed.is_some()).map(|one| one.agent.word()).collect(),
        maker: cast.maker.word(),
        checker: cast.checker.word(),
        instructions,
        notes,
    };
    Ok(cx.out.answer(&document, || page(cx, &document, &example.gates)))
}

const FIRST_LOOK: &str = ".loopwright/loops/first-look.md";
const FIRST_CHANGE: &str = ".loopwright/loops/first-change.md";

/// Whether the loops show the repository's own instructions: the flag, else a person's answer, else yes if there are any.
fn instructions(cx: &CommandContext, args: &InitArgs, project: &RepoProject) -> OnOff {
    let is_on = match args.instructions {
        Some(word) => word == SwitchWord::On,
        None if project.instructions.is_empty() => false,
        None if cx.out.can_ask() => {
            let names = project.instructions.join(", ");
            !cx.out.ask_line(&format!("Show {names} to the makers, as data? [Y/n]")).to_lowercase().starts_with('n')
        }
        None => true,
    };
    if is_on { OnOff::On } else { OnOff::Off }
}

/// The shipped loops that a person at a terminal names.
fn offer_loops(cx: &CommandContext, args: &InitArgs) -> Result<Vec<LoopPattern>, CommandError> {
    if !args.loops.is_empty() || !cx.out.can_ask() {
        return Ok(Vec::new());
    }
    let names: Vec<_> = LoopPattern::all().map(|pattern| pattern.name).collect();
    cx.out.print(&format!("Shipped loops: {}", names.join(", ")));
    let answer = cx.out.ask_line("Add which of them? Names, or Enter for none:");
    answer.split([' ', ',']).filter(|name| !name.is_empty()).map(patterns::find).collect()
}

/// The agents of the example loops.
pub(super) struct ExampleAgents {
    maker: AgentUse,
    checker: AgentUse,
    /// Hosts to which an agent with its own sign-in connects itself.
    hosts: Vec<&'static str>,
}

impl ExampleAgents {
    /// The named agent, or the first usable one, and another one as its checker; a script if there is none.
    fn choose(found: &[AgentAvailability], named: Option<&str>) -> Result<Self, CommandError> {
        let script = Self { maker: AgentUse::Scripted, checker: AgentUse::Scripted, hosts: Vec::new() };
        let usable = || found.iter().filter(|one| one.is_usable());
        let maker = match named {
            None => usable().next(),
            Some("scripted") => return Ok(script),
            Some(named) => Some(found.iter().find(|one| one.agent.word() == named).ok_or_else(|| {
                let words: Vec<_> = found.iter().map(|one| one.agent.word()).collect();
                CommandError::invalid(format!("no agent is called `{named}`"))
                    .hint(format!("it is one of: {}, scripted", words.join(", ")))
            })?),
        };
        let Some(maker) = maker else { return Ok(script) };
        let other = usable().find(|one| one.agent != maker.agent).filter(|_| named.is_none());
        let checker = other.unwrap_or(maker);
        let own = [maker, checker].into_iter().filter(|one| one.access == AgentAccess::Login);
        let mut hosts: Vec<_> = own.flat_map(|one| loopwright::agents::login_hosts(one.agent)).copied().collect();
        hosts.dedup();
        Ok(Self { maker: maker.agent, checker: checker.agent, hosts })
    }
}

/// Agents that are installed but have no access to their model.
fn idle(found: &[AgentAvailability]) -> impl Iterator<Item = String> {
    found.iter().filter(|one| one.installed.is_some()).filter_map(|one| match &one.access {
        AgentAccess::Missing(hint) => Some(format!("{} is installed but has no key: {hint}", one.agent.word())),
        AgentAccess::Key(..) | AgentAccess::Keyless(_) | AgentAccess::Login | AgentAccess::NotNeeded => None,
    })
}

/// A note for a repository without a commit, because loops work on commits.
pub(super) async fn missing_commit_notes(cx: &CommandContext, repo: &UserRepo) -> Vec<String> {
    match cx.git().head(repo, None).await {
        Err(error) if matches!(error.kind, GitErrorKind::NoCommits) => {
            vec!["this repository has no commit yet; a loop needs one: git add -A && git commit -m start".to_owned()]
        }
        _ => Vec::new(),
    }
}

/// Writes a file that must not exist yet; a link in its place is not followed.
pub(super) fn write_new(path: &Path, text: &str) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::OpenOptions::new().write(true).create_new(true).open(path)?.write_all(text.as_bytes())
}

/// The files of one `init`.
struct InitFiles<'a> {
    root: &'a Path,
    written: Vec<String>,
    kept: Vec<String>,
}

impl<'a> InitFiles<'a> {
    fn new(root: &'a Path) -> Self {
        Self { root, written: Vec::new(), kept: Vec::new() }
    }

    /// Writes a file unless it exists, and returns whether it is new.
    fn write(&mut self, name: &str, text: &str) -> Result<bool, CommandError> {
        match write_new(&self.root.join(name), text) {
            Ok(()) => self.written.push(name.to_owned()),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => self.kept.push(name.to_owned()),
            Err(error) => return Err(self.unwritten(name, &error)),
        }
        Ok(self.written.iter().any(|written| written == name))
    }

    /// Replaces a file that this command has written.
    fn rewrite(&self, name: &str, text: &str) -> Result<(), CommandError> {
        fs::write(self.root.join(name), text).map_err(|error| self.unwritten(name, &error))
    }

    fn unwritten(&self, name: &str, error: &io::Error) -> CommandError {
        let path = self.root.join(name);
        CommandError::failed(format!("write `{}`: {error}", safe(&path.display().to_string())))
            .hint("loops are files of the repository: make its folder writable for you, then try again")
    }

    /// Writes a shipped loop with its skills, and returns the parts that a person has to complete.
    async fn add_pattern(
        &mut self,
        cx: &CommandContext,
        repo: &UserRepo,
        pattern: &LoopPattern,
        fit: &PatternFit<'_>,
    ) -> Result<Vec<String>, CommandError> {
        let branch = new::checked_out_branch(cx, repo).await?;
        for skill in pattern.skills {
            self.write(&format!(".loopwright/skills/{}", skill.file), skill.text)?;
        }
        let text = pattern.loop_file(&PatternFit { branch: branch.as_deref(), ..*fit });
        self.write(&format!(".loopwright/loops/{}.md", pattern.name), &text)?;
        Ok(new::open_points(pattern, !fit.tests.is_empty()))
    }
}

/// The results of the trial that a person has to act on.
fn trial_notes(gates: &ChosenGates) -> Vec<String> {
    let mut notes = Vec::new();
    if let Some(problem) = &gates.problem {
        notes.push(format!("the gates could not be tried: {}", problem.text));
        notes.extend(problem.hints.iter().cloned());
        notes
            .push(format!("correct `setup:` or the gates in {FIRST_LOOK}, then try them again with the command below"));
    }
    notes.extend(gates.replaced.iter().chain(&gates.left_out).cloned());
    notes
}

/// The commands that a person types next. A round would fail where the trial failed, so after one there is only the trial.
fn next_commands(files: &InitFiles<'_>, wanted: &[LoopPattern], gates: &ChosenGates) -> Vec<String> {
    if gates.problem.is_some() {
        return vec!["loopwright gates test first-look".to_owned()];
    }
    let mut next = vec!["loopwright run first-look".to_owned()];
    if files.written.iter().any(|name| name == FIRST_CHANGE) {
        next.push("loopwright run first-change".to_owned());
    }
    next.extend(wanted.iter().map(|pattern| format!("loopwright run {}", pattern.name)));
    if wanted.is_empty() {
        next.push("loopwright patterns".to_owned());
    }
    next
}

fn page(cx: &CommandContext, document: &Document, gates: &ChosenGates) -> String {
    let mut lines: Vec<_> = document.written.iter().map(|name| format!("wrote {name}")).collect();
    lines.extend(document.kept.iter().map(|name| format!("kept  {name}: it already exists")));
    lines.extend((!document.kinds.is_empty()).then(|| format!("found {}", safe(&document.kinds.join(", ")))));
    lines.extend(document.setup.iter().map(|run| format!("setup {}", safe(&run.join(" ")))));
    lines.extend(document.gates.iter().map(|gate| format!("tests {}", safe(&gate.run.join(" ")))));
    if document.gates.is_empty() {
        lines.push("tests not recognised: add a gate to the loop file".to_owned());
    }
    lines.extend(gates.gates.iter().filter_map(|gate| gate.tried.as_ref()).flat_map(|tried| tried.page_lines(cx)));
    lines.push(match document.agents.as_slice() {
        [] => "agents none found; the example uses a script, and any command can be an agent".to_owned(),
        found => format!(
            "agents {}; the example's maker is {}, its checker {}",
            found.join(", "),
            document.maker,
            document.checker
        ),
    });
    lines.extend(document.notes.iter().map(|note| format!("note: {}", safe(note))));
    lines.extend(document.next.iter().map(|next| format!("next: {next}")));
    lines.join("\n")
}
