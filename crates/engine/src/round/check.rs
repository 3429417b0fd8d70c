//! Check: a new process on a read-only snapshot, without the maker's text. Its verdict comes through a sink that did
//! not exist while the maker ran or, if the engine reads the agent's answer, as its last message. There is no other
//! source.

use super::context::{RoundContext, object_name};
use super::gate::sealed_attempt;
use super::isolate::RoundSandbox;
use super::journal::RoundJournal;
use super::money::RoundBudget;
use super::role_runner::{FileAccess, RoleCall, RoleRunner, RoleTurn, RoleView};
use super::sink_watch::{SinkWatch, SinkWrites};
use super::{StageError, brief, workspace_trouble};
use crate::agents::{AgentOutcome, VerdictSink};
use crate::workspace::{SnapshotKind, Workspace};
use crate::{random, staging, state_dir};
use loopwright_core::gate::GateStatus;
use loopwright_core::prompt::VerdictChannel;
use loopwright_core::round::{Attempt, CheckerResult, Event, RoleResult, RoundFacts, Stage};
use loopwright_core::spec::Role;
use loopwright_core::verdict::{
    self, CitationResolver, Judgement, MalformedVerdict, TreeChange, VerdictCitation, VerdictExpectation, VerdictFile,
};
use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};

/// The most bytes of one cited file.
const BLOB_MAX: usize = 8 << 20;

pub(super) async fn check(
    cx: &RoundContext<'_>,
    journal: &mut RoundJournal,
    budget: &mut RoundBudget,
    sandbox: &RoundSandbox,
) -> Result<Event, StageError> {
    let facts = journal.facts();
    budget.ensure_time_left(&facts.started.spec)?;
    let attempt = facts.attempt_number();
    let turn = RoleTurn::next(cx, journal.round(), Role::Checker)?;
    cx.stage(Stage::Check, format!("fresh checker with {}", turn.agent.name()));
    let (sealed, workspace) = (sealed_attempt(facts)?, sandbox.workspace(Stage::Check)?);
    let CheckerContext { nonce, view, verdict: path } = prepare_checker(cx, sealed, workspace).await?;
    let way = turn.answer_way();
    let (prompt, shown) = brief::checker_brief(cx, facts, sealed, &nonce, way).await?;
    let name = format!("checker-{attempt}-{}", sealed.checker_starts + 1);
    let verdict = Some(VerdictSink {
        path: path.clone(),
        nonce: nonce.clone(),
        tree: sealed.tree.clone().unwrap_or_default(),
        candidate: sealed.candidate.clone().unwrap_or_default(),
    });
    let call = RoleCall { verdict, ..RoleCall::new(turn, attempt, name, prompt, view) };
    let watch = SinkWatch::start(&path).map_err(|error| StageError::broke(Stage::Check, "sink", &error))?;
    let run = Box::pin(RoleRunner { cx, journal: &mut *journal, budget, sandbox }.run(call)).await?;
    let writes = watch.finish().map_err(|error| StageError::broke(Stage::Check, "sink", &error))?;
    let text = verdict_text(&path, way, writes, run.outcome.as_ref());
    let judgement = judge(cx, journal.facts(), nonce, text).await?;
    Ok(run.ended(RoleResult::Checker(CheckerResult { judgement, shown })))
}

/// The checker's own folder: snapshot, sink, home. It is created after the maker is dead, under an unguessable
/// name.
async fn prepare_checker(
    cx: &RoundContext<'_>,
    attempt: &Attempt,
    workspace: &Workspace,
) -> Result<CheckerContext, StageError> {
    let nonce = random::nonce().map_err(StageError::Fatal)?;
    let folder = workspace.root.join(format!("check-{}", random::nonce().map_err(StageError::Fatal)?));
    let [home, tmp, sink, outbox, items] = ["home", "tmp", "sink", "outbox", "items"].map(|name| folder.join(name));
    let trouble = |error: &dyn std::error::Error| StageError::broke(Stage::Check, "workspace", error);
    for path in [&home, &tmp, &sink, &outbox, &items] {
        state_dir::make_dir(path).map_err(|error| trouble(&error))?;
    }
    for item in &attempt.items {
        let written = cx.engine.state_dir.write_ephemeral(&items.join(&item.name), item.text().as_bytes());
        written.map_err(|error| trouble(&error))?;
    }
    let commit = object_name(attempt.commit.as_deref())?;
    let commit = cx.workspaces.shown_commit(workspace, &commit).await.map_err(workspace_trouble(Stage::Check))?;
    let view = cx.workspaces.snapshot(workspace, "check", &commit, SnapshotKind::ReadOnly, &[]).await;
    let files = view.map_err(workspace_trouble(Stage::Check))?.files;
    let (access, root, verdict) = (FileAccess::ReadOnly, workspace.root.clone(), sink.join("verdict.json"));
    let view = RoleView { files, access, root, outbox, home, tmp, items: Some(items), sink: Some(sink) };
    Ok(CheckerContext { nonce, view, verdict })
}

/// Judges the checker's answer. A missing or invalid answer is never a pass.
async fn judge(
    cx: &RoundContext<'_>,
    facts: &RoundFacts,
    nonce: String,
    said: Result<Option<Vec<u8>>, MalformedVerdict>,
) -> Result<Judgement, StageError> {
    let (sealed, rubric) = (sealed_attempt(facts)?, &facts.started.spec.rubric);
    let bytes = match said {
        Ok(bytes) => bytes,
        Err(malformed) => return Ok(Judgement::Malformed { why: malformed.0 }),
    };
    let change = if sealed.has_change() { TreeChange::Some } else { TreeChange::None };
    let passed = sealed.gates.iter().filter(|gate| gate.status == GateStatus::Passed);
    let expected = VerdictExpectation {
        nonce,
        tree: sealed.tree.clone().unwrap_or_default(),
        candidate: sealed.candidate.clone().unwrap_or_default(),
        dimensions: verdict::dimensions(rubric, change).into_iter().map(|(name, _)| name).collect(),
        threshold: rubric.threshold,
        floor: rubric.floor,
        gates: passed.map(|gate| gate.name.clone()).collect(),
    };
    let cited = cited(cx, bytes.as_deref(), sealed).await?;
    Ok(verdict::judge(bytes.as_deref(), &expected, &cited))
}

/// Reads every file that the verdict cites from the sealed tree, by object id.
async fn cited(cx: &RoundContext<'_>, bytes: Option<&[u8]>, sealed: &Attempt) -> Result<CitedTexts, StageError> {
    let tree = object_name(sealed.tree.as_deref())?;
    let mut files = HashMap::new();
    for path in cited_paths(bytes) {
        let blob = cx.objects().read_blob(&tree, &path, BLOB_MAX).await;
        let blob = blob.map_err(|error| StageError::broke(Stage::Check, "citation", &error))?;
        if let Some(text) = blob.and_then(|bytes| String::from_utf8(bytes).ok()) {
            files.insert(path, text);
        }
    }
    let items = sealed.items.iter().map(|item| (item.name.clone(), item.text())).collect();
    Ok(CitedTexts { files, items })
}

/// The verdict as the checker gave it: in its sink, or as its last message.
fn verdict_text(
    path: &Path,
    way: VerdictChannel,
    writes: SinkWrites,
    outcome: Option<&AgentOutcome>,
) -> Result<Option<Vec<u8>>, MalformedVerdict> {
    match way {
        VerdictChannel::File => match staging::read_sink(path, verdict::BYTES_MAX as u64) {
            Some(_) if writes == SinkWrites::Repeated => {
                Err(MalformedVerdict("the file was changed after its first writer had closed it".to_owned()))
            }
            bytes => Ok(bytes),
        },
        VerdictChannel::Message => {
            let answer = outcome.and_then(|outcome| outcome.self_report.answer.as_deref()).unwrap_or_default();
            Ok(verdict::find_verdict(answer)?.map(|document| document.as_bytes().to_vec()))
        }
    }
}

/// The files that a readable verdict cites; none for an unreadable one.
fn cited_paths(bytes: Option<&[u8]>) -> BTreeSet<String> {
    let Some(Ok(file)) = bytes.map(VerdictFile::parse) else { return BTreeSet::new() };
    let evidence = file.scores.into_iter().flat_map(|score| score.evidence);
    let paths = evidence.filter_map(|evidence| match evidence {
        VerdictCitation::Line { path, .. } => Some(path),
        VerdictCitation::Gate { .. } | VerdictCitation::Item { .. } => None,
    });
    paths.collect()
}

/// The view of one checker, and the nonce of its verdict.
struct CheckerContext {
    nonce: String,
    view: RoleView,
    /// The file for its verdict.
    verdict: PathBuf,
}

/// The texts that the verdict cites, as they were sealed.
struct CitedTexts {
    files: HashMap<String, String>,
    items: HashMap<String, String>,
}

fn line_of(text: Option<&String>, line: u32) -> Option<String> {
    let index = usize::try_from(line.checked_sub(1)?).ok()?;
    text?.lines().nth(index).map(str::to_owned)
}

impl CitationResolver for CitedTexts {
    fn line(&self, path: &str, line: u32) -> Option<String> {
        line_of(self.files.get(path), line)
    }

    fn item_line(&self, item: &str, line: u32) -> Option<String> {
        line_of(self.items.get(item), line)
    }
}
