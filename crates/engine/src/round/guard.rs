//! Keeps secrets out of the record: events are recorded without secrets, and a candidate that holds one leaves no
//! object.

use super::{RoundDriver, StageError};
use crate::gates::CandidateFacts;
use crate::workspace::SealedTree;
use loopwright_core::level::LoopLevel;
use loopwright_core::outbox::StagedFile;
use loopwright_core::round::{Event, MakerResult, Stage, StageFailed, StagedBatch};
use loopwright_core::secrets::SecretHit;
use serde_json::Value;

impl RoundDriver<'_> {
    /// The event as it may be recorded. Only text from agents, gates and external systems is scanned; the loop's own
    /// file and people's texts are not.
    pub(super) fn redact_event(&self, event: Event) -> Result<Event, StageError> {
        if !speaks_of_others(&event) {
            return Ok(event);
        }
        let stage = self.round.phase().stage();
        let unclean = |error: serde_json::Error| StageError::broke(stage, "unclean", &error);
        let body = serde_json::to_value(&event).map_err(unclean)?;
        let mut texts = Vec::new();
        gather(&body, &mut texts);
        // One scan of all texts together: nearly every event is clean.
        if self.scanner.scan_text("", &texts.join("\n")).is_empty() {
            return Ok(event);
        }
        serde_json::from_value(self.scanner.clean_json(body)).map_err(unclean)
    }

    /// Secrets in the maker's staged files, found before any of them is recorded. Its last message counts if it would
    /// become the report.
    pub(super) fn find_secrets(&self, files: &[StagedFile], left: &MakerResult) -> Vec<String> {
        let staged = files.iter().map(|file| (file.name.as_str(), String::from_utf8_lossy(&file.bytes)));
        let mut texts: Vec<_> = staged.collect();
        let is_bare = matches!(&left.staged, StagedBatch::Items { items } if items.is_empty());
        if self.spec().level == LoopLevel::L1Report && is_bare {
            texts.push(("last words", left.text.as_str().into()));
        }
        let names: Vec<&str> = files.iter().map(|file| file.name.as_str()).collect();
        let texts: Vec<(&str, &str)> = texts.iter().map(|(name, text)| (*name, text.as_ref())).collect();
        let candidate = loopwright_core::secrets::CandidateTexts { names: &names, texts: &texts, ..Default::default() };
        let hits = self.scanner.scan_candidate(&candidate);
        super::bounds::list(hits.iter().map(describe_finding))
    }

    /// Whether secrets were found in the round, so that its folder must be removed.
    pub(super) fn met_secrets(&self) -> bool {
        let attempts = &self.round.facts().attempts;
        attempts.iter().any(|attempt| !attempt.findings.secrets.is_empty() || !attempt.staged_secrets.is_empty())
    }

    /// Removes the objects that hold the secret from the engine's repository.
    pub(super) async fn forget(&self, sealed: &SealedTree, facts: &CandidateFacts) -> Result<(), StageError> {
        if sealed.is_unchanged() {
            return Ok(());
        }
        let holds = |at: &usize| {
            let one = std::slice::from_ref(&facts.added[*at]);
            !self.scanner.scan_added(one).is_empty() || !self.scanner.scan_name(&facts.files[*at].path).is_empty()
        };
        let present: Vec<usize> = (0..facts.files.len()).filter(|at| facts.files[*at].after.is_some()).collect();
        let mut holding: Vec<usize> = present.iter().copied().filter(holds).collect();
        if holding.is_empty() {
            // Only all of them together hold it, or only the outbox does: then all of them are removed.
            holding = present;
        }
        let paths: Vec<&str> = holding.into_iter().map(|at| facts.files[at].path.as_str()).collect();
        let gone = self.workspaces.engine().forget(&sealed.commit, &sealed.tree, &paths).await;
        gone.map_err(|error| {
            let text = super::error_chain(&error);
            StageError::Broke(StageFailed { stage: Stage::Seal, code: "secrets-kept".to_owned(), text })
        })
    }
}

/// A description of a finding.
fn describe_finding(hit: &SecretHit) -> String {
    format!("{} at {}", hit.rule, hit.place)
}

fn speaks_of_others(event: &Event) -> bool {
    !matches!(event, Event::Started(_) | Event::RoleStarted(_))
}

fn gather<'a>(document: &'a Value, texts: &mut Vec<&'a str>) {
    match document {
        Value::String(text) => texts.push(text),
        Value::Array(all) => all.iter().for_each(|one| gather(one, texts)),
        Value::Object(all) => all.values().for_each(|one| gather(one, texts)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}
