//! An event from outside in one shape, whoever sent it. Everything in it is untrusted but the fact that it was sent.

use serde_json::Value;

/// Bytes of a text that goes along.
const TEXT_MAX: usize = 16 << 10;
/// Bytes of a line.
const LINE_MAX: usize = 300;

/// What happened.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct WebhookEvent {
    /// `github`, `gitlab`, `generic`.
    pub(super) source: &'static str,
    /// `push`, `workflow_run`; for a generic one its own name.
    pub(super) name: String,
    /// What may stand behind the name: `opened`, `completed`, `failure`.
    pub(super) details: Vec<String>,
    /// Whether the event counts for loops that name no detail; a build that has only begun does not.
    pub(super) is_final: bool,
    /// What tells this delivery from every other.
    pub(super) delivery: String,
    /// Where its repository is, in every spelling that was given. Empty when it is about none.
    pub(super) remotes: Vec<String>,
    /// The branch it is about.
    pub(super) branch: Option<String>,
    /// The branch that the repository calls its main one.
    pub(super) default_branch: Option<String>,
    /// Another branch that shows whose work it is about: a pull request's head.
    pub(super) head_branch: Option<String>,
    /// Who did it.
    pub(super) actor: Option<String>,
    /// Whether the forge says that this person, or the deed itself, belongs to the repository.
    pub(super) is_insider: bool,
    /// The commit that a branch was moved to.
    pub(super) moved_to: Option<String>,
    /// Whether it is a push that moved no branch to a commit: a tag's, or one that took a branch away.
    pub(super) moves_nothing: bool,
    /// The item it is about, bound to its revision.
    pub(super) item: Option<String>,
    /// A line for people.
    pub(super) title: Option<String>,
    /// More, for the maker.
    pub(super) data: Value,
}

/// A delivery that cannot be read as what it says it is.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct MalformedDelivery(pub(super) &'static str);

/// Reads fields of a body by path; what is not there or not text is `None`.
#[derive(Clone, Copy)]
pub(super) struct DeliveryBody<'a>(pub(super) &'a Value);

impl<'a> DeliveryBody<'a> {
    pub(super) fn text(self, path: &str) -> Option<&'a str> {
        self.0.pointer(path).and_then(Value::as_str)
    }

    pub(super) fn owned(self, path: &str) -> Option<String> {
        self.text(path).map(str::to_owned)
    }

    /// A number, or a text that stands for one.
    pub(super) fn number(self, path: &str) -> Option<u64> {
        self.0.pointer(path).and_then(Value::as_u64)
    }

    pub(super) fn has(self, path: &str) -> bool {
        self.0.pointer(path).is_some_and(|value| !value.is_null())
    }

    /// Whether a push put no branch on a commit.
    pub(super) fn moves_nothing(self) -> bool {
        self.branch("/ref").is_none() || self.text("/after").and_then(commit).is_none()
    }

    /// The branch that a full name of a reference is.
    pub(super) fn branch(self, path: &str) -> Option<String> {
        self.text(path).and_then(|name| name.strip_prefix("refs/heads/")).map(str::to_owned)
    }
}

/// A line of somebody else's text.
pub(super) fn line(text: &str) -> String {
    let first = text.lines().next().unwrap_or_default();
    let plain: String = first.chars().filter(|c| !c.is_control()).collect();
    plain[..plain.floor_char_boundary(LINE_MAX)].to_owned()
}

/// A longer text of somebody else's.
pub(super) fn capped(text: &str) -> &str {
    &text[..text.floor_char_boundary(TEXT_MAX)]
}

/// A name as forges give them: nothing that could be taken for anything else in a key or a line.
pub(super) fn is_word(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= 128
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.:".contains(&byte))
}

/// A commit's name that is one, and not the one that stands for none.
pub(super) fn commit(text: &str) -> Option<String> {
    let is_oid = matches!(text.len(), 40 | 64) && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    (is_oid && text.bytes().any(|byte| byte != b'0')).then(|| text.to_ascii_lowercase())
}
