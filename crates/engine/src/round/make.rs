//! Make: the maker's input, and its output, which is read once its whole process tree is dead. Its text is recorded as
//! a claim.

use super::context::{RoundContext, object_name};
use super::gate::CandidateGates;
use super::isolate::RoundSandbox;
use super::journal::RoundJournal;
use super::money::RoundBudget;
use super::role_runner::{FileAccess, RoleCall, RoleRun, RoleRunner, RoleTurn, RoleView};
use super::{StageError, bounds, brief, workspace_trouble};
use crate::staging;
use crate::workspace::{CommitSnapshot, Workspace};
use loopwright_core::level::LoopLevel;
use loopwright_core::memory::{self, MemoryNotes};
use loopwright_core::outbox::{self, OutboxEntryKind, StagedFile};
use loopwright_core::round::{
    AgentRun, Attempt, AttemptFeedback, Event, MakerResult, Phase, RoleResult, RoundFacts, Stage, StagedBatch,
};
use loopwright_core::secrets::CandidateTexts;
use loopwright_core::spec::{LoopSpec, Role};
use std::collections::BTreeSet;
use std::path::Path;

/// The most characters of the maker's last message that are recorded.
const TEXT_MAX: usize = 64 << 10;

/// The request's text in the workspace, and the most bytes that are read of base's own file of that name.
const PR_BODY: &str = "PR_BODY.md";
const PR_BODY_MAX: usize = 1 << 20;

pub(super) async fn make(
    cx: &RoundContext<'_>,
    journal: &mut RoundJournal,
    budget: &mut RoundBudget,
    sandbox: &mut RoundSandbox,
    gates: &mut CandidateGates,
    feedback: Option<&AttemptFeedback>,
) -> Result<Event, StageError> {
    let facts = journal.facts();
    let spec = facts.started.spec.clone();
    budget.ensure_time_left(&spec)?;
    // A later start of the same attempt: a provider blocked the last one, or the next phase is due.
    let again = matches!(journal.round().phase(), Phase::Making(AgentRun::Again | AgentRun::NextPhase));
    let attempt = facts.attempt_number() + u32::from(!again);
    let phase = facts.maker_phase(attempt).map(|(at, phase)| (at + 1, phase.title.clone()));
    let turn = RoleTurn::next(cx, journal.round(), Role::Maker)?;
    let on = match &phase {
        Some((number, title)) => format!(", phase {number}: {title}"),
        None if again => ", on what is there".to_owned(),
        None => String::new(),
    };
    cx.stage(Stage::Make, format!("attempt {attempt} with {}{on}", turn.agent.name()));
    if !spec.gates.is_empty() {
        // Gate programs are found before a maker can replace them.
        gates.resolve(cx, facts, &sandbox.views).await?;
    }
    let workspace = sandbox.workspace(Stage::Make)?.clone();
    sandbox.prepare_base(cx, &spec, &workspace.base, Stage::Make, budget).await?;
    if let Some(best) = facts.restarts_from().filter(|_| !again) {
        cx.stage(Stage::Make, format!("from the files of attempt {best}, the best so far"));
        restore(cx, facts, &workspace, best).await?;
    }
    let outbox_trouble = |error: &dyn std::error::Error| StageError::broke(Stage::Make, "outbox", error);
    if phase.as_ref().is_none_or(|(number, _)| *number == 1) {
        // The items that a phase staged stay for the next one.
        staging::clear(&workspace.outbox).map_err(|error| outbox_trouble(&error))?;
    }
    let before = facts.attempt().filter(|_| again).map_or(0, |attempt| attempt.starts);
    let name = if before > 0 { format!("maker-{attempt}-{}", before + 1) } else { format!("maker-{attempt}") };
    let prompt = brief::maker_brief(cx, journal.round(), attempt, feedback, workspace.withheld().len()).await?;
    let phase = phase.map(|(number, _)| u32::try_from(number).unwrap_or(u32::MAX));
    let call = RoleCall { phase, ..RoleCall::new(turn, attempt, name, prompt, maker_view(&workspace)) };
    let run = Box::pin(RoleRunner { cx, journal, budget, sandbox }.run(call)).await?;
    let body = cx.objects().read_blob(&workspace.base, PR_BODY, PR_BODY_MAX).await;
    let body = body.map_err(|error| outbox_trouble(&error))?;
    let files = staging::read(&workspace.outbox, &workspace.dir, body.as_deref());
    let files = files.map_err(|error| outbox_trouble(&error))?;
    let work: Vec<String> = journal.facts().items.iter().map(|item| item.key.clone()).collect();
    let result = maker_result(cx, &spec, &run, &StagedWork { files: &files, work: &work });
    Ok(run.ended(RoleResult::Maker(result)))
}

/// The files that a maker staged, and the keys of the items that it worked on.
struct StagedWork<'a> {
    files: &'a [StagedFile],
    work: &'a [String],
}

fn maker_result(cx: &RoundContext<'_>, spec: &LoopSpec, run: &RoleRun, staged_work: &StagedWork<'_>) -> MakerResult {
    let StagedWork { files, work } = *staged_work;
    let (text, survivors) = match &run.outcome {
        Some(outcome) => (outcome.text.chars().take(TEXT_MAX).collect(), u32::from(outcome.leaky)),
        None => (String::new(), 0),
    };
    let (notes, staged_files) = notes_in(files);
    let staged = outbox::parse_batch(&staged_files);
    let work: Vec<&str> = work.iter().map(String::as_str).collect();
    let staged = staged.and_then(|items| outbox::permit(items, spec, spec.level, &work));
    let staged = staged.map_err(|refused| refused.problems).and_then(bounds::recordable);
    let staged = match staged {
        Ok(items) => StagedBatch::Items { items },
        Err(problems) => StagedBatch::Refused {
            problems: bounds::list(problems.iter().map(|problem| format!("{}: {}", problem.name, problem.why))),
        },
    };
    let cannot = outbox::cannot_reason(&staged_files);
    let result = MakerResult { text, cannot, staged, secrets: Vec::new(), survivors, notes };
    MakerResult { secrets: find_secrets(cx, spec.level, files, &result), ..result }
}

/// Secrets in the maker's staged files, found before any of them is recorded. Its last message counts if it would
/// become the report.
fn find_secrets(cx: &RoundContext<'_>, level: LoopLevel, files: &[StagedFile], left: &MakerResult) -> Vec<String> {
    let staged = files.iter().map(|file| (file.name.as_str(), String::from_utf8_lossy(&file.bytes)));
    let mut texts: Vec<_> = staged.collect();
    let is_bare = matches!(&left.staged, StagedBatch::Items { items } if items.is_empty());
    if level == LoopLevel::L1Report && is_bare {
        texts.push(("last words", left.text.as_str().into()));
    }
    let names: Vec<&str> = files.iter().map(|file| file.name.as_str()).collect();
    let texts: Vec<(&str, &str)> = texts.iter().map(|(name, text)| (*name, text.as_ref())).collect();
    let candidate = CandidateTexts { names: &names, texts: &texts, ..Default::default() };
    let hits = cx.scanner.scan_candidate(&candidate);
    bounds::list(hits.iter().map(|hit| format!("{} at {}", hit.rule, hit.place)))
}

/// Puts the files of the best attempt back: every path that the last attempt or the best one changed. Repeating it
/// changes nothing.
async fn restore(
    cx: &RoundContext<'_>,
    facts: &RoundFacts,
    workspace: &Workspace,
    best: u32,
) -> Result<(), StageError> {
    let trouble = workspace_trouble(Stage::Make);
    let numbered = |number: u32| facts.attempts.get(usize::try_from(number).ok()?.checked_sub(1)?);
    let commit = |attempt: Option<&Attempt>| object_name(attempt.and_then(|attempt| attempt.commit.as_deref()));
    let best = commit(numbered(best))?;
    let mut paths = BTreeSet::new();
    let last = facts.attempt().filter(|attempt| attempt.commit.is_some());
    for sealed in last.map(|last| commit(Some(last))).into_iter().chain([Ok(best.clone())]) {
        let sealed = cx.workspaces.read_sealed(workspace, &sealed?).await.map_err(&trouble)?;
        paths.extend(sealed.changes.into_iter().map(|change| change.path));
    }
    let paths: Vec<String> = paths.into_iter().collect();
    let snapshot = CommitSnapshot { files: workspace.files.clone(), root: workspace.dir.clone() };
    let restored = cx.workspaces.restore_paths(workspace, &snapshot, &best, &paths).await.map_err(&trouble)?;
    for path in paths.iter().filter(|path| !restored.contains(path)) {
        let hidden = workspace.files.hide(Path::new(path));
        hidden.map_err(|error| StageError::broke(Stage::Make, "restore", &error))?;
    }
    Ok(())
}

/// The maker works in the round's own workspace.
fn maker_view(workspace: &Workspace) -> RoleView {
    RoleView {
        files: workspace.files.clone(),
        access: FileAccess::ByLevel,
        root: workspace.root.clone(),
        outbox: workspace.outbox.clone(),
        home: workspace.home.clone(),
        tmp: workspace.tmp.clone(),
        items: None,
        sink: None,
    }
}

/// A role's memory notes, and the rest of its staged files. Anything except a file of that name is left to the parser.
fn notes_in(files: &[StagedFile]) -> (MemoryNotes, Vec<StagedFile>) {
    let is_memory = |file: &&StagedFile| file.name == memory::FILE && file.entry == OutboxEntryKind::Regular;
    let notes = files.iter().find(is_memory).map(|file| memory::read(&file.bytes)).unwrap_or_default();
    (notes, files.iter().filter(|file| !is_memory(file)).cloned().collect())
}
