//! Make: the maker's input, and its output, which is read once its whole process tree is dead. Its text is recorded as
//! a claim.

use super::context::RoundContext;
use super::gate::CandidateGates;
use super::isolate::RoundSandbox;
use super::journal::RoundJournal;
use super::money::RoundBudget;
use super::role_runner::{FileAccess, RoleCall, RoleRun, RoleRunner, RoleTurn, RoleView};
use super::{StageError, bounds, brief};
use crate::staging;
use crate::workspace::Workspace;
use loopwright_core::level::LoopLevel;
use loopwright_core::memory::{self, MemoryNotes};
use loopwright_core::outbox::{self, OutboxEntryKind, StagedFile};
use loopwright_core::round::{AgentRun, AttemptFeedback, Event, MakerResult, Phase, RoleResult, Stage, StagedBatch};
use loopwright_core::secrets::CandidateTexts;
use loopwright_core::spec::{LoopSpec, Role};

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
    let again = *journal.round().phase() == Phase::Making(AgentRun::Again);
    let attempt = facts.attempt_number() + u32::from(!again);
    let turn = RoleTurn::next(cx, journal.round(), Role::Maker)?;
    let on = if again { ", on what is there" } else { "" };
    cx.stage(Stage::Make, format!("attempt {attempt} with {}{on}", turn.agent.name()));
    if !spec.gates.is_empty() {
        // Gate programs are found before a maker can replace them.
        gates.resolve(cx, facts, &sandbox.views).await?;
    }
    let workspace = sandbox.workspace(Stage::Make)?.clone();
    sandbox.prepare_base(cx, &spec, &workspace.base, Stage::Make, budget).await?;
    let outbox_trouble = |error: &dyn std::error::Error| StageError::broke(Stage::Make, "outbox", error);
    staging::clear(&workspace.outbox).map_err(|error| outbox_trouble(&error))?;
    let before = facts.attempt().filter(|_| again).map_or(0, |attempt| attempt.starts);
    let name = if before > 0 { format!("maker-{attempt}-{}", before + 1) } else { format!("maker-{attempt}") };
    let prompt = brief::maker_brief(cx, journal.round(), attempt, feedback).await?;
    let call = RoleCall { turn, attempt, name, prompt, view: maker_view(&workspace), verdict: None };
    let run = RoleRunner { cx, journal, budget, sandbox }.run(call).await?;
    let body = cx.objects().read_blob(&workspace.base, PR_BODY, PR_BODY_MAX).await;
    let body = body.map_err(|error| outbox_trouble(&error))?;
    let files = staging::read(&workspace.outbox, &workspace.dir, body.as_deref());
    let files = files.map_err(|error| outbox_trouble(&error))?;
    let result = maker_result(cx, &spec, &run, &files);
    Ok(run.ended(RoleResult::Maker(result)))
}

fn maker_result(cx: &RoundContext<'_>, spec: &LoopSpec, run: &RoleRun, files: &[StagedFile]) -> MakerResult {
    let (text, survivors) = match &run.outcome {
        Some(outcome) => (outcome.text.chars().take(TEXT_MAX).collect(), u32::from(outcome.leaky)),
        None => (String::new(), 0),
    };
    let (notes, staged_files) = notes_in(files);
    let staged = outbox::parse_batch(&staged_files);
    let staged = staged.and_then(|items| outbox::permit(items, spec, spec.level));
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
