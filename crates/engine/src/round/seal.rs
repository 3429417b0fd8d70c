//! Seal: the maker is dead; its files become a tree in the engine's repository, its staged items are sanitized, and
//! both are hashed into the candidate. Everything later refers to that hash.

use super::gate::gates_trouble;
use super::{RoundDriver, StageError, bounds, isolate, workspace_trouble};
use crate::gates::{self, CandidateFacts};
use crate::git::CommitMetadata;
use crate::workspace::{ChangeStatus, SealLimits, SealedTree};
use loopwright_core::level::LoopLevel;
use loopwright_core::outbox::{self, SanitiseRules, StagedItem};
use loopwright_core::round::{AgentEnd, CandidateSealed, ChangeFact, Event, SealFindings, Stage};
use loopwright_core::spec::ActionKind;

impl RoundDriver<'_> {
    pub(super) async fn seal(&mut self) -> Result<Event, StageError> {
        let attempt = self.round.facts().attempt_number();
        let workspace = self.workspace(Stage::Seal)?.clone();
        let words = self.commit_words(attempt);
        let sealed = self.workspaces.seal(&workspace, &words, SealLimits::default()).await;
        let sealed = sealed.map_err(workspace_trouble(Stage::Seal))?;
        self.stage(
            Stage::Seal,
            format!("{} files changed, tree {}", sealed.changes.len(), short(sealed.tree.as_str())),
        );
        let (mut items, notes) = self.candidate_items(!sealed.changes.is_empty());
        let (mut findings, facts) = self.examine(&sealed, &items).await?;
        if findings.secrets.is_empty() {
            let kept =
                self.workspaces.engine().set_round_ref(self.id(), &format!("attempt-{attempt}"), &sealed.commit).await;
            kept.map_err(|error| StageError::broke(Stage::Seal, "keep", &error))?;
        } else {
            self.forget(&sealed, &facts).await?;
        }
        findings.notes.extend(notes);
        if !sealed.changes.is_empty() {
            findings.proposed_before = self.proposed_before(sealed.tree.as_str()).await?;
        }
        if let Err(problems) = bounds::recordable(items.clone()) {
            // Sanitized text can be longer than the staged text.
            findings
                .refused_paths
                .extend(problems.into_iter().map(|problem| format!("{}: {}", problem.name, problem.why)));
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
        }));
        self.sealed = Some((sealed, facts));
        Ok(event)
    }

    /// Text and time of the commit come from the record, so that sealing the same files again gives the same commit.
    fn commit_words(&self, attempt: u32) -> CommitMetadata {
        let started = &self.round.facts().started;
        let identity = &self.engine.settings.identity;
        CommitMetadata {
            message: format!(
                "{}\n\nLoopwright-Loop: {}\nLoopwright-Round: {}\nLoopwright-Attempt: {attempt}\n",
                started.spec.intent, started.spec.name, started.round
            ),
            name: identity.name.clone(),
            email: identity.email.clone(),
            at_unix: self.started_ms.div_euclid(1000),
        }
    }

    /// The items to send: sanitized staged items, and items that the engine adds.
    fn candidate_items(&self, changed: bool) -> (Vec<StagedItem>, Vec<String>) {
        let staged = self.round.facts().attempt().map(|attempt| attempt.items.clone()).unwrap_or_default();
        let ships_tree = |kind| matches!(kind, ActionKind::PullRequest | ActionKind::Commit);
        let mut items: Vec<_> = staged.into_iter().filter(|item| changed || !ships_tree(item.kind)).collect();
        items.extend(self.engine_written(&items, changed));
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
    fn engine_written(&self, items: &[StagedItem], changed: bool) -> Option<StagedItem> {
        let spec = self.spec();
        let next = items.iter().map(|item| item.position).max().unwrap_or(0) + 1;
        let attempt = self.round.facts().attempt();
        let text = attempt.map(|attempt| attempt.text.trim().to_owned()).unwrap_or_default();
        if spec.level == LoopLevel::L1Report {
            // The last message of a maker that failed is not a report.
            let ended_well =
                matches!(attempt.and_then(|attempt| attempt.end.as_ref()), Some(AgentEnd::Exited { code: 0 }));
            let report = items.is_empty() && !changed && ended_well && !text.is_empty();
            return report.then(|| StagedItem::new(next, "report.md", ActionKind::Report, text));
        }
        let kind = [ActionKind::PullRequest, ActionKind::Commit].into_iter().find(|kind| spec.outputs(*kind))?;
        let staged = items.iter().any(|item| item.kind == kind);
        (changed && !staged).then(|| crate::outbox::default_item(kind, next, &spec.intent))
    }

    async fn examine(
        &self,
        sealed: &SealedTree,
        items: &[StagedItem],
    ) -> Result<(SealFindings, CandidateFacts), StageError> {
        let base = isolate::parse(self.round.facts().base.as_deref().unwrap_or_default())?;
        let facts = CandidateFacts::gather(self.workspaces.engine(), &base, sealed)
            .await
            .map_err(gates_trouble(Stage::Seal))?;
        let words = self.commit_words(self.round.facts().attempt_number());
        let branch = format!("loop/{}/{}", self.spec().name, self.id());
        let items: Vec<_> = items.iter().map(|item| (item.name.as_str(), texts(item))).collect();
        let items = items.iter().map(|(name, text)| (*name, text.as_str()));
        let texts: Vec<_> = items.chain([("commit message", words.message.as_str()), ("branch", &branch)]).collect();
        let sensitive = &self.engine.settings.sensitive;
        let found = gates::examine(self.spec(), sensitive, &facts, &self.scanner, &texts)
            .map_err(gates_trouble(Stage::Seal))?;
        let refused_paths = sealed.refused.iter().map(ToString::to_string).collect();
        Ok((SealFindings { refused_paths, ..found.into() }, facts))
    }
}

/// Every text of an item, a line each.
fn texts(item: &StagedItem) -> String {
    let own = [Some(&item.name), item.target.as_ref(), item.title.as_ref(), Some(&item.body)].into_iter().flatten();
    let comments = item.comments.iter().flat_map(|comment| [&comment.path, &comment.body]);
    own.chain(&item.labels).chain(comments).map(String::as_str).collect::<Vec<_>>().join("\n")
}

fn short(hash: &str) -> &str {
    hash.get(..12).unwrap_or(hash)
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
