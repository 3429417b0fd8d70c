//! Reads the comments below open questions on forges and records the commands in them, each once. Comments of Loopwright
//! itself, which have its marker, are never commands.

use super::asking::insert;
use super::message::comments_of;
use super::{Engine, ROWS_MAX, warn_about_question};
use crate::error::EngineError;
use crate::outbox::connect_forge;
use crate::round::RecordedRound;
use crate::store::{AnswerRow, AnswerState, QuestionRow, QuestionState, RowChange};
use crate::takeover::RoundBinder;
use loopwright_core::answer::{AnswerCommand, AnswerVerb, read_command};
use loopwright_core::forge::{CommentKind, CommentsOf, ForgeComment, ForgeError, ReadForge};
use loopwright_core::round::RoundStarted;
use loopwright_core::spec::AskPlace;
use std::collections::BTreeMap;
use std::path::Path;

/// The most pages of comments that are read below one question.
const PAGES_MAX: usize = 20;

/// A place's clock and ours may differ by this much: a question that was closed so shortly before a comment may have been
/// open for its author.
const CLOCKS_MAX_MS: i64 = 5 * 60_000;

/// An issue or pull request: repository, forge and target. The same number on another forge is another issue.
type ThreadPlace = (String, String, String);

/// Records every new command below an open question.
pub(super) async fn hear(engine: &Engine, rebind: &dyn RoundBinder) -> Result<(), EngineError> {
    for ((repo, forge, target), started) in open_threads(engine).await? {
        let Some(of) = comments_of(&target) else { continue };
        let (local, _) = rebind.rebind(engine, &started);
        let connected = match connect_forge(&local, &started.spec, Path::new(&started.repo_path)).await {
            Ok(connected) => connected,
            Err(error) => {
                warn_about_question(engine, &format!("answers on {target} cannot be read: {}", error.text));
                continue;
            }
        };
        let rows = thread_rows(engine, &repo, &forge, &target).await?;
        let thread = Thread { forge: &forge, target: &target, rows: &rows };
        match thread.new_answers(engine, connected.read.as_ref(), of).await? {
            Ok(answers) => {
                for answer in answers {
                    insert(engine, RowChange::NewAnswer(answer)).await?;
                }
            }
            Err(error) => warn_about_question(engine, &format!("answers on {target} cannot be read: {error}")),
        }
    }
    Ok(())
}

/// The places with open questions, each with the start of one round that asks there.
async fn open_threads(engine: &Engine) -> Result<BTreeMap<ThreadPlace, RoundStarted>, EngineError> {
    let open = engine.store.open_questions(ROWS_MAX).await?;
    let mut threads = BTreeMap::new();
    for row in open.into_iter().filter(|row| row.place == AskPlace::Forge && row.state == QuestionState::Sent) {
        let Some(target) = row.target.clone() else { continue };
        // A record that cannot be read is reported where the round is resumed.
        let Ok(recorded) = engine.load_round(&row.round).await else { continue };
        let started = &recorded.round.facts().started;
        threads.entry((row.repo, started.spec.forge.clone(), target)).or_insert_with(|| started.clone());
    }
    Ok(threads)
}

/// The questions at a place, also the closed ones, oldest first. A question whose record is gone may be from there.
async fn thread_rows(engine: &Engine, repo: &str, forge: &str, target: &str) -> Result<Vec<QuestionRow>, EngineError> {
    let mut rows = Vec::new();
    for row in engine.store.questions_on(repo, target, ROWS_MAX).await? {
        let elsewhere = |recorded: RecordedRound| recorded.round.facts().started.spec.forge != forge;
        if row.state != QuestionState::Claimed && !engine.load_round(&row.round).await.is_ok_and(elsewhere) {
            rows.push(row);
        }
    }
    Ok(rows)
}

/// An issue or pull request with its questions, oldest first.
pub(super) struct Thread<'a> {
    pub(super) forge: &'a str,
    pub(super) target: &'a str,
    pub(super) rows: &'a [QuestionRow],
}

impl Thread<'_> {
    async fn new_answers(
        &self,
        engine: &Engine,
        forge: &dyn ReadForge,
        of: CommentsOf,
    ) -> Result<Result<Vec<AnswerRow>, ForgeError>, EngineError> {
        // Without the comments, labels are still answers.
        let (mut comments, unread) = match read_comments(forge, of).await {
            Ok(comments) => (comments, None),
            Err(error) => (Vec::new(), Some(error)),
        };
        comments.sort_by_key(written_order);
        let (mut answers, now_ms) = (Vec::new(), engine.now_ms());
        for comment in comments {
            let Some(answer) = self.answer(&comment, now_ms) else { continue };
            if engine.store.answer(&answer.id).await?.is_none() {
                // Answers are decided in the order of their times.
                let place = i64::try_from(answers.len()).unwrap_or(i64::MAX);
                answers.push(AnswerRow { at_ms: now_ms.saturating_add(place), ..answer });
            }
        }
        for answer in self.label_answers(engine, forge, of).await {
            if engine.store.answer(&answer.id).await?.is_none() {
                let place = i64::try_from(answers.len()).unwrap_or(i64::MAX);
                answers.push(AnswerRow { at_ms: now_ms.saturating_add(place), ..answer });
            }
        }
        if answers.is_empty() {
            return Ok(unread.map_or(Ok(answers), Err));
        }
        let own = match forge.own_account().await {
            Ok(own) => own,
            Err(error) => return Ok(Err(error)),
        };
        for answer in answers.iter_mut().filter(|answer| own.as_ref() == Some(&answer.account)) {
            answer.problem = Some("it comes from the account that Loopwright uses itself".to_owned());
        }
        Ok(Ok(answers))
    }

    /// The answer in a comment; `None` for a comment without a command, or from before the first question.
    fn answer(&self, comment: &ForgeComment, now_ms: i64) -> Option<AnswerRow> {
        if comment.kind != CommentKind::Plain || comment.loop_name.is_some() {
            return None;
        }
        let command = read_command(&comment.body)?;
        let before: Vec<&QuestionRow> = self.rows.iter().filter(|row| was_open(row, comment.created_ms)).collect();
        let latest = *before.last()?;
        let (row, unbound) = match bound(&command, &before) {
            Ok(row) => (row, None),
            Err(problem) => (latest, Some(problem)),
        };
        Some(AnswerRow {
            id: format!("{}:{}:{}:{}", self.forge, row.repo, self.target, comment.id),
            question: row.id.clone(),
            candidate: row.candidate.clone(),
            place: self.forge.to_owned(),
            account: comment.author_id.clone().unwrap_or_default(),
            name: comment.author.clone().unwrap_or_else(|| "an unknown account".to_owned()),
            verb: command.verb,
            problem: own_problem(comment, &command).or(unbound),
            why: command.why,
            state: AnswerState::Received,
            reply: None,
            tries: 0,
            at_ms: now_ms,
        })
    }
}

/// The time of a comment, and its number for comments of the same second.
fn written_order(comment: &ForgeComment) -> (i64, usize, String) {
    (comment.created_ms, comment.id.len(), comment.id.clone())
}

/// Whether the author of an answer may have seen the question as open.
pub(super) fn was_open(row: &QuestionRow, answered_ms: i64) -> bool {
    let is_later = row.state == QuestionState::Closed && row.updated_ms.saturating_add(CLOCKS_MAX_MS) < answered_ms;
    row.asked_ms <= answered_ms && !is_later
}

/// The question that a command answers: the one whose candidate it names, or the only one above it. A question that was
/// decided meanwhile counts too: a bare command for it must not decide about another candidate.
pub(super) fn bound<'q>(command: &AnswerCommand, before: &[&'q QuestionRow]) -> Result<&'q QuestionRow, String> {
    match (&command.candidate, before) {
        (None, [only]) => Ok(only),
        (None, _) => Err("several questions are or were open here: write the candidate behind the command".to_owned()),
        (Some(hash), all) => {
            let mut meant = all.iter().filter(|row| row.candidate.starts_with(hash.as_str()));
            let open: Vec<_> = meant.clone().filter(|row| row.state == QuestionState::Sent).collect();
            match open.as_slice() {
                [only] => Ok(only),
                [] => meant
                    .next_back()
                    .copied()
                    .ok_or_else(|| format!("no open question here is about the candidate {hash}")),
                _ => Err(format!(
                    "several open questions are about the candidate {hash}: use `loopwright approve ROUND`"
                )),
            }
        }
    }
}

/// Why a comment cannot count, for any author.
fn own_problem(comment: &ForgeComment, command: &AnswerCommand) -> Option<String> {
    if comment.author_id.is_none() {
        return Some("the forge does not say which account wrote it".to_owned());
    }
    if comment.is_edited {
        return Some("the comment was edited; write a new one".to_owned());
    }
    (command.verb == AnswerVerb::Deny && command.why.is_empty())
        .then(|| "write the reason behind the command".to_owned())
}

async fn read_comments(forge: &dyn ReadForge, of: CommentsOf) -> Result<Vec<ForgeComment>, ForgeError> {
    let (mut rows, mut from) = (Vec::new(), None);
    for _ in 0..PAGES_MAX {
        let page = forge.comments(of, from.as_ref()).await?;
        rows.extend(page.rows);
        from = page.next;
        if from.is_none() {
            return Ok(rows);
        }
    }
    // The newest comments are on the last pages: an answer there would be lost without a word.
    Err(ForgeError::Refused(format!(
        "there are more than {PAGES_MAX} pages of comments; answer with `loopwright approve` or `loopwright deny`"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_are_ordered_by_their_time_and_number() {
        let comment = |id: &str, created_ms| ForgeComment {
            author_id: None,
            created_ms,
            is_edited: false,
            id: id.to_owned(),
            kind: CommentKind::Plain,
            author: None,
            loop_name: None,
            body: String::new(),
        };
        let mut all = [comment("8", 2), comment("10", 1), comment("9", 1)];
        all.sort_by_key(written_order);
        assert_eq!(all.map(|one| one.id), ["9", "10", "8"]);
    }
}
