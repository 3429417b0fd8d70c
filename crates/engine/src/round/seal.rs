//! Seal: the maker is dead; its files become a tree in the engine's repository, its staged items are sanitized, and
//! both are hashed into the candidate. Everything later refers to that hash.

use super::context::{RoundContext, pinned_base};
use super::gate::{CandidateGates, gates_trouble};
use super::isolate::RoundSandbox;
use super::proposed::proposed_before;
use super::rebase::rebased;
use super::send_receiver::destination;
use super::weakening::weakening_trend;
use super::{StageError, bounds, error_chain, workspace_trouble};
use crate::gates::{self, CandidateFacts};
use crate::git::CommitMetadata;
use crate::workspace::{ChangeStatus, SealLimits, SealedTree};
use loopwright_core::level::LoopLevel;
use loopwright_core::outbox::{self, SanitiseRules, StagedItem};
use loopwright_core::round::{AgentEnd, CandidateSealed, ChangeFact, Event, RoundFacts, SealFindings, Stage};
use loopwright_core::spec::ActionKind;

pub(super) async fn seal(
    cx: &RoundContext<'_>,
    facts: &RoundFacts,
    sandbox: &RoundSandbox,
    gates: &mut CandidateGates,
) -> Result<Event, StageError> {
    let attempt = facts.attempt_number();
    let words = commit_words(cx, facts);
    let workspace = sandbox.workspace(Stage::Seal)?;
    let sealed = match &facts.started.rebase {
        // Boxed, as the search below: its state would make the future of every round larger.
        Some(origin) => Box::pin(rebased(cx, facts, origin, workspace, &words)).await?,
        None => {
            let sealed = cx.workspaces.seal(workspace, &words, SealLimits::default()).await;
            sealed.map_err(workspace_trouble(Stage::Seal))?
        }
    };
    let (count, tree) = (sealed.changes.len(), sealed.tree.as_str());
    let noun = if count == 1 { "file" } else { "files" };
    cx.stage(Stage::Seal, format!("{count} {noun} changed, tree {}", tree.get(..12).unwrap_or(tree)));
    let (mut items, notes) = candidate_items(facts, !sealed.changes.is_empty());
    let (mut findings, candidate) = examine(cx, facts, &sealed, &items, &words).await?;
    if findings.secrets.is_empty() {
        let kept = cx.objects().set_round_ref(&cx.id, &ref_name(facts), &sealed.commit).await;
        kept.map_err(|error| StageError::broke(Stage::Seal, "keep", &error))?;
    } else {
        forget_objects(cx, &sealed, &candidate).await?;
    }
    findings.notes.extend(notes);
    if !sealed.changes.is_empty() && facts.started.rebase.is_none() {
        findings.proposed_before = Box::pin(proposed_before(cx, facts, sealed.tree.as_str())).await?;
    }
    if !findings.weakened_tests.is_empty() {
        findings.sensitive.extend(Box::pin(weakening_trend(cx, facts)).await?);
    }
    if let Err(problems) = bounds::recordable(items.clone()) {
        // Sanitized text can be longer than the staged text.
        findings.refused_paths.extend(problems.into_iter().map(|problem| format!("{}: {}", problem.name, problem.why)));
        items.clear();
    }
    let changes = bounds::changes(sealed.changes.iter().map(fact));
    if sealed.changes.len() > changes.len() {
        findings.notes.insert(0, format!("{} files changed; {} are listed", sealed.changes.len(), changes.len()));
    }
    let event = Event::Sealed(Box::new(CandidateSealed {
        attempt,
        candidate: outbox::candidate_hash(Some(sealed.tree.as_str()), &items),
        tree: sealed.tree.to_string(),
        commit: sealed.commit.to_string(),
        changes,
        items,
        findings: bounds::findings(findings),
        destination: destination(cx, &facts.started.spec).await,
    }));
    gates.sealed = Some((sealed, candidate));
    Ok(event)
}

/// The name of the ref that keeps the sealed commit.
fn ref_name(facts: &RoundFacts) -> String {
    let attempt = facts.attempt_number();
    match facts.maker_phase(attempt).filter(|_| facts.is_between_phases()) {
        Some((at, _)) => format!("attempt-{attempt}-phase-{}", at + 1),
        None => format!("attempt-{attempt}"),
    }
}

/// Text and time of the commit come from the record, so that sealing the same files again gives the same commit.
fn commit_words(cx: &RoundContext<'_>, facts: &RoundFacts) -> CommitMetadata {
    let (started, attempt) = (&facts.started, facts.attempt_number());
    let identity = &cx.engine.settings.identity;
    CommitMetadata {
        message: format!(
            "{}\n\nLoopwright-Loop: {}\nLoopwright-Round: {}\nLoopwright-Attempt: {attempt}\n",
            commit_text(facts),
            started.spec.name,
            started.round
        ),
        name: identity.name.clone(),
        email: identity.email.clone(),
        at_unix: cx.started_ms.div_euclid(1000),
    }
}

/// The message that the maker staged for a commit, as people approve it; otherwise the intent of the loop. Only the
/// engine writes its trailers.
fn commit_text(facts: &RoundFacts) -> String {
    let items = facts.attempt().map(|attempt| attempt.items.as_slice()).unwrap_or_default();
    let staged = items.iter().find(|item| item.kind == ActionKind::Commit);
    let text = staged.map_or_else(String::new, |item| {
        let (item, _) = outbox::sanitise_item(item, &SanitiseRules::default());
        format!("{}\n\n{}", item.title.unwrap_or_default(), item.body)
    });
    let is_own = |line: &&str| !line.trim_start().to_ascii_lowercase().starts_with("loopwright-");
    let text = text.lines().filter(is_own).collect::<Vec<_>>().join("\n");
    if text.trim().is_empty() { facts.started.spec.intent.clone() } else { text.trim().to_owned() }
}

/// The items to send: sanitized staged items, and items that the engine adds.
fn candidate_items(facts: &RoundFacts, changed: bool) -> (Vec<StagedItem>, Vec<String>) {
    let staged = facts.attempt().map(|attempt| attempt.items.clone()).unwrap_or_default();
    let ships_tree = |kind| matches!(kind, ActionKind::PullRequest | ActionKind::Commit);
    let mut items: Vec<_> = staged.into_iter().filter(|item| changed || !ships_tree(item.kind)).collect();
    items.extend(engine_written(facts, &items, changed));
    let mut notes = Vec::new();
    let clean = items.iter().map(|item| {
        let (item, said) = outbox::sanitise_item(item, &SanitiseRules::default());
        notes.extend(said);
        item
    });
    (clean.collect(), notes)
}

/// At L1 the maker's last message is the report if it staged none; for a changed tree the engine writes the
/// request.
fn engine_written(facts: &RoundFacts, items: &[StagedItem], changed: bool) -> Option<StagedItem> {
    let spec = &facts.started.spec;
    let next = items.iter().map(|item| item.position).max().unwrap_or(0) + 1;
    let attempt = facts.attempt();
    let text = attempt.map(|attempt| attempt.text.trim().to_owned()).unwrap_or_default();
    if spec.level == LoopLevel::L1Report {
        // The last message of a maker that failed is not a report.
        let ended_well = matches!(attempt.and_then(|attempt| attempt.end.as_ref()), Some(AgentEnd::Exited { code: 0 }));
        let report = items.is_empty() && !changed && ended_well && !text.is_empty();
        return report.then(|| StagedItem::new(next, "report.md", ActionKind::Report, text));
    }
    let kind = [ActionKind::PullRequest, ActionKind::Commit].into_iter().find(|kind| spec.outputs(*kind))?;
    let staged = items.iter().any(|item| item.kind == kind);
    (changed && !staged).then(|| crate::outbox::default_item(kind, next, &spec.intent))
}

async fn examine(
    cx: &RoundContext<'_>,
    facts: &RoundFacts,
    sealed: &SealedTree,
    items: &[StagedItem],
    words: &CommitMetadata,
) -> Result<(SealFindings, CandidateFacts), StageError> {
    let candidate = CandidateFacts::gather(cx.objects(), &pinned_base(facts)?, sealed).await;
    let candidate = candidate.map_err(gates_trouble(Stage::Seal))?;
    let branch = format!("loop/{}/{}", cx.key.name, cx.id);
    let items: Vec<_> = items.iter().map(|item| (item.name.as_str(), texts(item))).collect();
    let items = items.iter().map(|(name, text)| (*name, text.as_str()));
    let texts: Vec<_> = items.chain([("commit message", words.message.as_str()), ("branch", &branch)]).collect();
    let sensitive = &cx.engine.settings.sensitive;
    let found = gates::examine(&facts.started.spec, sensitive, &candidate, &cx.scanner, &texts);
    let found = found.map_err(gates_trouble(Stage::Seal))?;
    let refused_paths = sealed.refused.iter().map(ToString::to_string).collect();
    Ok((SealFindings { refused_paths, ..found.into() }, candidate))
}

/// Removes the objects that hold the secret from the engine's repository.
async fn forget_objects(cx: &RoundContext<'_>, sealed: &SealedTree, facts: &CandidateFacts) -> Result<(), StageError> {
    if sealed.is_unchanged() {
        return Ok(());
    }
    let holds = |at: &usize| {
        let one = std::slice::from_ref(&facts.added[*at]);
        !cx.scanner.scan_added(one).is_empty() || !cx.scanner.scan_name(&facts.files[*at].path).is_empty()
    };
    let present: Vec<usize> = (0..facts.files.len()).filter(|at| facts.files[*at].after.is_some()).collect();
    let mut holding: Vec<usize> = present.iter().copied().filter(holds).collect();
    if holding.is_empty() {
        // Only all of them together hold it, or only the outbox does: then all of them are removed.
        holding = present;
    }
    let paths: Vec<&str> = holding.into_iter().map(|at| facts.files[at].path.as_str()).collect();
    let gone = cx.objects().forget(&sealed.commit, &sealed.tree, &paths).await;
    gone.map_err(|error| StageError::failed(Stage::Seal, "secrets-kept", error_chain(&error)))
}

/// Every text of an item, a line each.
fn texts(item: &StagedItem) -> String {
    let own = [Some(&item.name), item.target.as_ref(), item.title.as_ref(), Some(&item.body)].into_iter().flatten();
    let comments = item.comments.iter().flat_map(|comment| [&comment.path, &comment.body]);
    own.chain(&item.labels).chain(comments).map(String::as_str).collect::<Vec<_>>().join("\n")
}

fn fact(change: &crate::workspace::SealedChange) -> ChangeFact {
    let status = match change.status {
        ChangeStatus::Added => "added",
        ChangeStatus::Modified => "modified",
        ChangeStatus::Deleted => "deleted",
        ChangeStatus::TypeChanged => "type-changed",
    };
    ChangeFact {
        path: change.path.clone(),
        status: status.to_owned(),
        added: change.lines_added,
        removed: change.lines_removed,
    }
}
