//! Reads answers that people give with labels. The forge's record of label changes names the account; the list of an
//! item's labels does not, so it is no answer.

use super::hearing::{Thread, bound, was_open};
use super::{Engine, warn_about_question};
use crate::store::{AnswerRow, AnswerState, QuestionRow};
use loopwright_core::answer::{AnswerCommand, AnswerVerb};
use loopwright_core::forge::{CommentsOf, LabelChange, ReadForge};

impl Thread<'_> {
    /// The answers that labels give. A forge whose label changes cannot be read still has its comments.
    pub(super) async fn label_answers(&self, engine: &Engine, forge: &dyn ReadForge, of: CommentsOf) -> Vec<AnswerRow> {
        match forge.label_changes(of).await {
            Ok(changes) => standing(&changes)
                .filter_map(|(verb, change)| self.label_answer(verb, change, engine.now_ms()))
                .collect(),
            Err(error) => {
                warn_about_question(engine, &format!("the labels of {} cannot be read: {error}", self.target));
                Vec::new()
            }
        }
    }

    /// The answer of a label; `None` for one from before the first question.
    fn label_answer(&self, verb: AnswerVerb, change: &LabelChange, now_ms: i64) -> Option<AnswerRow> {
        let before: Vec<&QuestionRow> = self.rows.iter().filter(|row| was_open(row, change.at_ms)).collect();
        let latest = *before.last()?;
        let command = AnswerCommand { verb, candidate: None, why: String::new() };
        let (row, unbound) = match bound(&command, &before) {
            Ok(row) => (row, None),
            Err(problem) => (latest, Some(problem)),
        };
        let unknown = || "the forge does not say which account added the label".to_owned();
        Some(AnswerRow {
            id: format!("{}:{}:{}:label-{}", self.forge, row.repo, self.target, change.id),
            question: row.id.clone(),
            candidate: row.candidate.clone(),
            place: self.forge.to_owned(),
            account: change.account_id.clone().unwrap_or_default(),
            name: change.account.clone().unwrap_or_else(|| "an unknown account".to_owned()),
            verb,
            problem: if change.account_id.is_none() { Some(unknown()) } else { unbound },
            why: command.why,
            state: AnswerState::Received,
            reply: None,
            tries: 0,
            at_ms: now_ms,
        })
    }
}

/// The labels `approve` and `deny` that are on the item, each with the change that added it.
fn standing(changes: &[LabelChange]) -> impl Iterator<Item = (AnswerVerb, &LabelChange)> {
    AnswerVerb::ALL.into_iter().filter_map(|verb| {
        let last = changes.iter().rfind(|change| change.label.eq_ignore_ascii_case(verb.word()))?;
        last.is_added.then_some((verb, last))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_label_that_is_still_there_answers() {
        let change = |id: &str, label: &str, is_added| LabelChange {
            id: id.to_owned(),
            label: label.to_owned(),
            is_added,
            account: None,
            account_id: None,
            at_ms: 0,
        };
        let found = |changes: &[LabelChange]| -> Vec<(AnswerVerb, String)> {
            standing(changes).map(|(verb, change)| (verb, change.id.clone())).collect()
        };
        let added = [change("1", "bug", true), change("2", "Approve", true)];
        assert_eq!(found(&added), [(AnswerVerb::Approve, "2".to_owned())]);
        let removed = [change("1", "approve", true), change("2", "approve", false), change("3", "approved", true)];
        assert_eq!(found(&removed), []);
        let again = [change("1", "deny", true), change("2", "deny", false), change("3", "deny", true)];
        assert_eq!(found(&again), [(AnswerVerb::Deny, "3".to_owned())]);
    }
}
