//! An external event in one shape for all senders. Everything in it is untrusted, except that it was sent.

use serde_json::Value;

/// The most bytes of an included text.
const TEXT_MAX: usize = 16 << 10;
/// The most bytes of a line.
const LINE_MAX: usize = 300;

/// An external event.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct WebhookEvent {
    /// `github`, `gitlab`, `generic`.
    pub(super) source: &'static str,
    /// `push`, `workflow_run`; for a generic event its own name.
    pub(super) name: String,
    /// The details that may follow the name: `opened`, `completed`, `failure`.
    pub(super) details: Vec<String>,
    /// Whether the event counts for loops that name no detail; a build that has only started does not.
    pub(super) is_final: bool,
    /// The unique id of this delivery.
    pub(super) delivery: String,
    /// The addresses of its repository, in every given spelling. Empty if it is about no repository.
    pub(super) remotes: Vec<String>,
    /// Its branch.
    pub(super) branch: Option<String>,
    /// The default branch of the repository.
    pub(super) default_branch: Option<String>,
    /// Another branch that shows whose work it is: the head of a pull request.
    pub(super) head_branch: Option<String>,
    /// The user who caused it.
    pub(super) actor: Option<String>,
    /// Whether the forge confirms that this user, or the action itself, belongs to the repository.
    pub(super) is_insider: bool,
    /// The commit that a branch was moved to.
    pub(super) moved_to: Option<String>,
    /// Whether it is a push that moved no branch to a commit: a push of a tag, or one that deleted a branch.
    pub(super) moves_nothing: bool,
    /// Its item, bound to the item's revision.
    pub(super) item: Option<String>,
    /// A line for people.
    pub(super) title: Option<String>,
    /// More data, for the maker.
    pub(super) data: Value,
}

/// A delivery that cannot be read as its declared kind.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct MalformedDelivery(pub(super) &'static str);

/// Reads fields of a body by path; a missing field, or one that is not text, is `None`.
#[derive(Clone, Copy)]
pub(super) struct DeliveryBody<'a>(pub(super) &'a Value);

impl<'a> DeliveryBody<'a> {
    pub(super) fn text(self, path: &str) -> Option<&'a str> {
        self.0.pointer(path).and_then(Value::as_str)
    }

    pub(super) fn owned(self, path: &str) -> Option<String> {
        self.text(path).map(str::to_owned)
    }

    /// A number, or a text that holds one.
    pub(super) fn number(self, path: &str) -> Option<u64> {
        self.0.pointer(path).and_then(Value::as_u64)
    }

    pub(super) fn has(self, path: &str) -> bool {
        self.0.pointer(path).is_some_and(|value| !value.is_null())
    }

    /// Whether a push moved no branch to a commit.
    pub(super) fn moves_nothing(self) -> bool {
        self.branch("/ref").is_none() || self.text("/after").and_then(commit).is_none()
    }

    /// The branch of a full reference name.
    pub(super) fn branch(self, path: &str) -> Option<String> {
        self.text(path).and_then(|name| name.strip_prefix("refs/heads/")).map(str::to_owned)
    }
}

/// Untrusted text as one line.
pub(super) fn line(text: &str) -> String {
    let first = text.lines().next().unwrap_or_default();
    let plain: String = first.chars().filter(|c| !c.is_control()).collect();
    plain[..plain.floor_char_boundary(LINE_MAX)].to_owned()
}

/// A longer untrusted text, capped.
pub(super) fn capped(text: &str) -> &str {
    &text[..text.floor_char_boundary(TEXT_MAX)]
}

/// Whether a text is a plain name, as forges use them: it cannot be mistaken for anything else in a key or a line.
pub(super) fn is_word(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= 128
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.:".contains(&byte))
}

/// A valid commit id, and not the all-zero one.
pub(super) fn commit(text: &str) -> Option<String> {
    let is_oid = matches!(text.len(), 40 | 64) && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    (is_oid && text.bytes().any(|byte| byte != b'0')).then(|| text.to_ascii_lowercase())
}
