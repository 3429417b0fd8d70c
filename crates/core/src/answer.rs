//! An answer to a question about a waiting candidate, as people write it in a comment on a forge. The approval policy
//! decides whether it counts. [`crate::question`] has the question.

use crate::words::worded;

/// The number of digits of a candidate's hash that a question shows.
pub const SHORT_HASH_DIGITS: usize = 12;
/// The longest reason, in characters.
const WHY_CHARS_MAX: usize = 1000;

worded! {
    /// The two answers.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    pub enum AnswerVerb {
        /// The candidate may be sent.
        Approve = "approve",
        /// The candidate is not sent.
        Deny = "deny",
    }
}

/// A command in a comment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AnswerCommand {
    /// The answer.
    pub verb: AnswerVerb,
    /// The beginning of the hash of the candidate, if the person names one.
    pub candidate: Option<String>,
    /// The reason; empty for an approval.
    pub why: String,
}

/// The digits of a candidate's hash that a question shows.
#[must_use]
pub fn short_hash(candidate: &str) -> &str {
    candidate.get(..SHORT_HASH_DIGITS).unwrap_or(candidate)
}

/// The beginning of a command on a forge that takes lines with `/` as its own commands.
const WORD_PREFIX: &str = "loopwright ";

/// How people begin a command in a comment. Both forms are read on every forge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommandForm {
    /// `/approve`.
    Slash,
    /// `loopwright approve`, on a forge that takes `/approve` as its own command, removes it from the comment and
    /// performs it: GitLab approves the merge request.
    Word,
}

impl CommandForm {
    /// The command of an answer, as people write it.
    #[must_use]
    pub fn command(self, verb: AnswerVerb) -> String {
        match self {
            Self::Slash => format!("/{verb}"),
            Self::Word => format!("{WORD_PREFIX}{verb}"),
        }
    }
}

/// Reads `/approve`, `/approve HASH`, `/deny WHY` or `/deny HASH WHY` from the first line of a comment, with `loopwright `
/// or `/` before the verb. `None` for every other comment: a command in a quotation, in a code block, after other text or
/// with more words is no command.
#[must_use]
pub fn read_command(comment: &str) -> Option<AnswerCommand> {
    let line = comment.lines().next()?.trim_end();
    let command = line.strip_prefix('/').or_else(|| line.strip_prefix(WORD_PREFIX))?;
    let (word, rest) = command.split_once(' ').unwrap_or((command, ""));
    let verb = AnswerVerb::parse(word)?;
    let (candidate, why) = split_hash(rest.trim());
    if verb == AnswerVerb::Approve && !why.is_empty() {
        return None;
    }
    Some(AnswerCommand { verb, candidate: candidate.map(str::to_owned), why: plain_line(why) })
}

fn split_hash(rest: &str) -> (Option<&str>, &str) {
    let (word, after) = rest.split_once(' ').unwrap_or((rest, ""));
    let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    let is_hash = (SHORT_HASH_DIGITS..=64).contains(&word.len()) && word.bytes().all(is_digit);
    if is_hash { (Some(word), after.trim()) } else { (None, rest) }
}

/// A person's words as one line. Control characters could forge lines of a report.
fn plain_line(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(WHY_CHARS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_first_line_of_a_comment_is_a_command_and_only_exactly() {
        let hash = "0123456789ab";
        let table = [
            ("/approve", Some((AnswerVerb::Approve, None, ""))),
            ("/approve\r\n\nThanks!", Some((AnswerVerb::Approve, None, ""))),
            ("/approve 0123456789ab", Some((AnswerVerb::Approve, Some(hash), ""))),
            ("/deny too large", Some((AnswerVerb::Deny, None, "too large"))),
            ("/deny 0123456789ab too large", Some((AnswerVerb::Deny, Some(hash), "too large"))),
            ("/deny", Some((AnswerVerb::Deny, None, ""))),
            ("loopwright approve", Some((AnswerVerb::Approve, None, ""))),
            ("loopwright approve 0123456789ab", Some((AnswerVerb::Approve, Some(hash), ""))),
            ("loopwright deny too large", Some((AnswerVerb::Deny, None, "too large"))),
            ("loopwright  approve", None),
            ("loopwright", None),
            ("Loopwright approve", None),
            ("/loopwright approve", None),
            ("> loopwright approve", None),
            ("loopwright approve please", None),
            ("/approve please", None),
            ("/approve 0123456789ab please", None),
            ("/approve 0123", None),
            ("/Approve", None),
            ("/approved", None),
            (" /approve", None),
            ("> /approve", None),
            ("```\n/approve\n```", None),
            ("`/approve`", None),
            ("Looks good.\n/approve", None),
            ("approve", None),
            ("\n/approve", None),
            ("", None),
        ];
        for (comment, expected) in table {
            let read = read_command(comment);
            let read = read.as_ref().map(|read| (read.verb, read.candidate.as_deref(), read.why.as_str()));
            assert_eq!(read, expected, "{comment:?}");
        }
    }

    #[test]
    fn a_reason_is_one_bounded_line() {
        let read = read_command(&format!("/deny a\u{1b}[31m{}", "x".repeat(2000))).expect("a command");
        assert!(read.why.starts_with("a[31mx") && read.why.chars().count() == WHY_CHARS_MAX);
    }
}
