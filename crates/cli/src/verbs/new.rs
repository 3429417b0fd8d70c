//! `new PATTERN`: writes the loop file of a pattern and its skills into `.loopwright/`, adapted to the repository. It
//! never overwrites a file and asks no questions.

use super::{CommandContext, CommandError, VerbResult, init, patterns, safe};
use crate::context::LOOPS_FOLDER;
use loopwright::git::{GitErrorKind, UserRepo};
use loopwright_core::name::LoopName;
use loopwright_core::patterns::{LoopPattern, PatternFit};
use loopwright_core::spec::{OnOff, ProbeSpec, read_loop_file};
use serde::Serialize;
use std::io;
use std::path::Path;

#[derive(Debug, clap::Args)]
pub(crate) struct NewArgs {
    /// The pattern; `loopwright patterns` lists them
    #[arg(value_name = "PATTERN")]
    pattern: String,
    /// The name of the loop [default: the name of the pattern]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
}

/// The document of `new --json`.
#[derive(Debug, Serialize)]
struct Document {
    schema: u32,
    pattern: &'static str,
    #[serde(rename = "loop")]
    name: String,
    level: &'static str,
    written: Vec<String>,
    /// Skill files that already existed and were not changed.
    kept: Vec<String>,
    /// The command that runs the repository's tests, if one was recognised.
    tests: Option<Vec<String>>,
    /// Steps that are needed before the loop can run, or before it can do more than report.
    notes: Vec<String>,
    /// Commands to type next.
    next: Vec<String>,
}

pub(crate) async fn run(args: NewArgs, cx: &CommandContext) -> VerbResult {
    let pattern = patterns::find(&args.pattern)?;
    let name = args.name.as_deref().unwrap_or(pattern.name);
    let name = LoopName::parse(name).map_err(|error| {
        CommandError::invalid(format!("`{name}` is not a valid name for a loop: {error}")).hint("give another `--name`")
    })?;
    let repo = cx.repo().await?;
    refuse_existing(cx, &repo, &name)?;
    let branch = checked_out_branch(cx, &repo).await?;
    let project = init::RepoProject::read(cx, &repo).await?;
    let tests = project.test_command();
    let instructions = if project.instructions.is_empty() { OnOff::Off } else { OnOff::On };
    let gates: Vec<_> = project.first_choices();
    let setup = &project.plan.setup;
    let fit = PatternFit { name: Some(&name), tests: &gates, setup, branch: branch.as_deref(), instructions };
    let file = format!("{LOOPS_FOLDER}/{name}.md");
    let text = pattern.loop_file(&fit);
    let spec = read_loop_file(&file, text.as_bytes()).map_err(|problems| CommandError::failed(problems.to_string()))?;
    let mut document = Document {
        schema: 1,
        pattern: pattern.name,
        name: name.to_string(),
        level: spec.level.short(),
        written: Vec::new(),
        kept: Vec::new(),
        notes: init::missing_commit_notes(cx, &repo).await,
        next: next_commands(&pattern, &name, tests.as_deref()),
        tests,
    };
    document.notes.extend(open_points(&pattern, document.tests.is_some()));
    // The loop file comes last, so that no loop exists without its skills.
    for skill in pattern.skills {
        document.write_skill(&repo.work_tree, skill.file, skill.text)?;
    }
    init::write_new(&repo.work_tree.join(&file), &text).map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => already_there(&file),
        _ => CommandError::failed(format!("write `{file}`: {error}")),
    })?;
    document.written.push(file);
    Ok(cx.out.answer(&document, || page(&document)))
}

/// The branch of the working copy; `None` on a detached commit, and in a repository without a commit.
pub(super) async fn checked_out_branch(cx: &CommandContext, repo: &UserRepo) -> Result<Option<String>, CommandError> {
    match cx.git().head(repo, None).await {
        Ok(head) => Ok(head.branch),
        Err(error) if matches!(error.kind, GitErrorKind::NoCommits) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Refuses a name that a loop of this repository has, in any file.
fn refuse_existing(cx: &CommandContext, repo: &UserRepo, name: &LoopName) -> Result<(), CommandError> {
    let loops = cx.loops(repo)?;
    let same = loops.loops.iter().find(|file| file.spec.name().is_same(name));
    let own = format!("{LOOPS_FOLDER}/{name}.md");
    match same.map(|file| file.file.as_str()) {
        Some(file) => Err(already_there(file)),
        None if repo.work_tree.join(&own).symlink_metadata().is_ok() => Err(already_there(&own)),
        None => Ok(()),
    }
}

fn already_there(file: &str) -> CommandError {
    CommandError::invalid(format!("`{file}` already exists, and `new` overwrites nothing"))
        .hint("give the loop another name: --name NAME")
}

impl Document {
    fn write_skill(&mut self, root: &Path, file: &str, text: &str) -> Result<(), CommandError> {
        let name = format!(".loopwright/skills/{file}");
        match init::write_new(&root.join(&name), text) {
            Ok(()) => self.written.push(name),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => self.kept.push(name),
            Err(error) => return Err(CommandError::failed(format!("write `{name}`: {error}"))),
        }
        Ok(())
    }
}

/// The parts that a person has to complete.
pub(super) fn open_points(pattern: &LoopPattern, has_tests: bool) -> Vec<String> {
    let mut notes = Vec::new();
    if pattern.needs_tests() && !has_tests {
        notes.push(
            "no test command was recognised: the loop only reports until you add one as a gate and set `level: L2`"
                .to_owned(),
        );
    }
    match pattern.spec().on.probe {
        Some(ProbeSpec::Named(name)) if name == "outdated" => notes.push(REGISTRY.to_owned()),
        Some(ProbeSpec::Ask(ask)) if ask.probe == "outdated" => notes.push(REGISTRY.to_owned()),
        Some(_) if pattern.text.contains("\n# network: ") => notes.push(FORGE.to_owned()),
        Some(_) | None => {}
    }
    notes
}

const REGISTRY: &str =
    "name the hosts of your package registry under `network:`; the loop finds newer versions only there";
const FORGE: &str = "name the host of your forge under `network:`, so that the loop can read diffs";

fn next_commands(pattern: &LoopPattern, name: &LoopName, tests: Option<&[String]>) -> Vec<String> {
    let check = format!("loopwright check {name}");
    let gates = (pattern.needs_tests() && tests.is_some()).then(|| format!("loopwright gates test {name}"));
    let run = format!("loopwright run {name} --dry-run");
    [Some(check), gates, Some(run), Some("loopwright up".to_owned())].into_iter().flatten().collect()
}

fn page(document: &Document) -> String {
    let mut lines: Vec<_> = document.written.iter().map(|name| format!("wrote {name}")).collect();
    lines.extend(document.kept.iter().map(|name| format!("kept  {name}: it already exists")));
    lines.push(format!("level {}", document.level));
    lines.extend(document.tests.iter().map(|run| format!("tests {}", safe(&run.join(" ")))));
    lines.extend(document.notes.iter().map(|note| format!("note: {note}")));
    lines.extend(document.next.iter().map(|next| format!("next: {next}")));
    lines.join("\n")
}
