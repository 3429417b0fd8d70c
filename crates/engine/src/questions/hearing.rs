//! Reads the comments below open questions on forges and records the commands in them, each once. Comments of Loopwright
//! itself, which have its marker, are never commands.

use super::asking::insert;
use super::message::comments_of;
use super::{Engine, ROWS_MAX};
use crate::error::EngineError;
use crate::outbox::connect_forge;
use crate::store::{AnswerRow, AnswerState, QuestionRow, QuestionState, RowChange};
use crate::takeover::RoundBinder;
use loopwright_core::answer::{AnswerCommand, AnswerVerb, read_command};
use loopwright_core::forge::{CommentKind, CommentsOf, ForgeComment, ForgeError, ReadForge};
use loopwright_core::spec::AskPlace;
use std::collections::BTreeMap;
use std::path::Path;

/// The most pages of comments that are read below one question.
const PAGES_MAX: usize = 20;

/// The questions on one issue or pull request.
type Threads = BTreeMap<(String, String), Vec<QuestionRow>>;

/// Records every new command below an open question.
pub(super) async fn hear(engine: &Engine, rebind: &dyn RoundBinder) -> Result<(), EngineError> {
    let open = engine.store.open_questions(ROWS_MAX).await?;
    let mut threads = Threads::new();
    for row in open.into_iter().filter(|row| row.place == AskPlace::Forge && row.state == QuestionState::Sent) {
        if let Some(target) = row.target.clone() {
            threads.entry((row.repo.clone(), target)).or_default().push(row);
        }
    }
    for ((_, target), rows) in threads {
        let (Some(of), Some(first)) = (comments_of(&target), rows.first()) else { continue };
        let Ok(recorded) = engine.load_round(&first.round).await else { continue };
        let started = &recorded.round.facts().started;
        let (local, _) = rebind.rebind(engine, started);
        let connected = match connect_forge(&local, &started.spec, Path::new(&started.repo_path)).await {
            Ok(connected) => connected,
            Err(error) => {
                engine.warn_about_question(&format!("answers on {target} cannot be read: {}", error.text));
                continue;
            }
        };
        let thread = Thread { forge: &started.spec.forge, target: &target, rows: &rows };
        match thread.new_answers(engine, connected.read.as_ref(), of).await? {
            Ok(answers) => {
                for answer in answers {
                    insert(engine, RowChange::NewAnswer(answer)).await?;
                }
            }
            Err(error) => engine.warn_about_question(&format!("answers on {target} cannot be read: {error}")),
        }
    }
    Ok(())
}

/// An issue or pull request with open questions, oldest first.
struct Thread<'a> {
    forge: &'a str,
    target: &'a str,
    rows: &'a [QuestionRow],
}

impl Thread<'_> {
    async fn new_answers(
        &self,
        engine: &Engine,
        forge: &dyn ReadForge,
        of: CommentsOf,
    ) -> Result<Result<Vec<AnswerRow>, ForgeError>, EngineError> {
        let comments = match read_comments(forge, of).await {
            Ok(comments) => comments,
            Err(error) => return Ok(Err(error)),
        };
        let mut answers = Vec::new();
        for comment in comments {
            let Some(answer) = self.answer(&comment, engine.now_ms()) else { continue };
            if engine.store.answer(&answer.id).await?.is_none() {
                answers.push(answer);
            }
        }
        if answers.is_empty() {
            return Ok(Ok(answers));
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
        let before: Vec<&QuestionRow> = self.rows.iter().filter(|row| row.asked_ms <= comment.created_ms).collect();
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

/// The question that a command answers: the one whose candidate it names, or the only open one above it.
fn bound<'q>(command: &AnswerCommand, before: &[&'q QuestionRow]) -> Result<&'q QuestionRow, String> {
    match (&command.candidate, before) {
        (None, [only]) => Ok(only),
        (None, _) => {
            Err("several questions are open here: write the candidate too, as `/approve CANDIDATE`".to_owned())
        }
        (Some(hash), all) => {
            let found = all.iter().find(|row| row.candidate.starts_with(hash.as_str()));
            found.copied().ok_or_else(|| format!("no open question here is about the candidate {hash}"))
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
    (command.verb == AnswerVerb::Deny && command.why.is_empty()).then(|| "write the reason behind `/deny`".to_owned())
}

async fn read_comments(forge: &dyn ReadForge, of: CommentsOf) -> Result<Vec<ForgeComment>, ForgeError> {
    let (mut rows, mut from) = (Vec::new(), None);
    for _ in 0..PAGES_MAX {
        let page = forge.comments(of, from.as_ref()).await?;
        rows.extend(page.rows);
        from = page.next;
        if from.is_none() {
            break;
        }
    }
    Ok(rows)
}
