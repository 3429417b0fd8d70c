//! Questions about waiting candidates in places outside of this machine, and people's answers from there. The rows belong
//! to no round: a round's own record has only the answers that count.

use super::append::put_new;
use super::conn::{SqlArg, SqlColumn, SqlConnection, SqlResult, SqlRow, args, word_column};
use super::error::StoreErrorKind;
use super::rows::{SqlTable, table};
use loopwright_core::answer::AnswerVerb;
use loopwright_core::spec::AskPlace;
use loopwright_core::worded;

worded! {
    /// The state of a question in a place.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    pub enum QuestionState {
        /// It is being sent, and may have arrived.
        Claimed = "claimed",
        /// It arrived and is open.
        Sent = "sent",
        /// It shows its decision.
        Closed = "closed",
    }
}

worded! {
    /// The state of an answer.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    pub enum AnswerState {
        /// It is not decided yet.
        Received = "received",
        /// It counts.
        Counted = "counted",
        /// It does not count, and the person does not know yet.
        Refused = "refused",
        /// The reply is being sent, and may have arrived.
        Replying = "replying",
        /// The person knows that it does not count.
        Replied = "replied",
    }
}

word_column!(QuestionState, "state of a question");
word_column!(AnswerState, "state of an answer");
word_column!(AskPlace, "place of a question");
word_column!(AnswerVerb, "answer");

table! {
    /// A question about a candidate in one place.
    QuestionRow in "questions" by ["id"], since 9;
    /// Its id.
    id: String,
    /// The round that asks.
    round: String,
    /// The loop's name.
    loop_name: String,
    /// The repository's id.
    repo: String,
    /// The place.
    place: AskPlace,
    /// The candidate that it shows.
    candidate: String,
    /// On a forge, the issue or pull request: `issue-3`, `pr-7`; `None` before its own issue exists.
    target: Option<String>,
    /// Its state.
    state: QuestionState,
    /// Its address; before it arrived, the last problem.
    receipt: Option<String>,
    /// When it arrived, by the place's clock; before that, when it was first sent.
    asked_ms: i64,
    /// The number of attempts to send or to close it.
    tries: i64,
    /// When it last changed.
    updated_ms: i64,
}

table! {
    /// A person's answer from outside.
    AnswerRow in "answers" by ["id"], since 9;
    /// Its id: the same answer twice is one row.
    id: String,
    /// The question.
    question: String,
    /// The candidate that the person saw.
    candidate: String,
    /// `slack`, or the name of the forge.
    place: String,
    /// The id of the person's account there.
    account: String,
    /// The account's name there.
    name: String,
    /// The answer.
    verb: AnswerVerb,
    /// The reason.
    why: String,
    /// Why the answer cannot count, for any person.
    problem: Option<String>,
    /// Its state.
    state: AnswerState,
    /// The text of the reply.
    reply: Option<String>,
    /// The number of attempts to reply.
    tries: i64,
    /// When it arrived here.
    at_ms: i64,
}

/// Questions that do not show a decision yet, oldest first.
pub(super) const OPEN: &str = "WHERE state <> 'closed' ORDER BY asked_ms, id LIMIT $1";
/// Answers that need a decision or a reply, oldest first.
pub(super) const PENDING: &str = "WHERE state IN ('received', 'refused', 'replying') ORDER BY at_ms, id LIMIT $1";

/// Inserts an answer; one that is known is a conflict.
pub(super) async fn put_answer(conn: &mut SqlConnection, row: &AnswerRow) -> SqlResult<()> {
    match put_new(conn, row).await? {
        true => Ok(()),
        false => Err(StoreErrorKind::Conflict(format!("answer `{}` is known", row.id))),
    }
}

/// Inserts a question; one that exists is a conflict: a candidate is asked about once in each place.
pub(super) async fn put_question(conn: &mut SqlConnection, row: &QuestionRow) -> SqlResult<()> {
    match put_new(conn, row).await? {
        true => Ok(()),
        false => Err(StoreErrorKind::Conflict(format!("question `{}` is asked already", row.id))),
    }
}

/// Removes closed questions and finished answers from before a time.
pub(super) async fn prune(conn: &mut SqlConnection, before_ms: i64) -> SqlResult<()> {
    conn.exec("DELETE FROM questions WHERE state = 'closed' AND updated_ms < $1", args![before_ms]).await?;
    conn.exec("DELETE FROM answers WHERE state IN ('counted', 'replied') AND at_ms < $1", args![before_ms]).await?;
    Ok(())
}
