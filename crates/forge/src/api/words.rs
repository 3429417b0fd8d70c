//! The words of a forge in messages.

use loopwright_core::answer::CommandForm;

/// A forge's names for itself and for its things.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ForgeWords {
    /// Its name.
    pub(crate) name: &'static str,
    /// Its word for a pull request.
    pub(crate) pull: &'static str,
    /// The permissions that a token needs for all outputs.
    pub(crate) scopes: &'static str,
    /// The rights of an account that may push.
    pub(crate) rights: &'static str,
    /// The user name that a push sends with the token.
    pub(crate) push_user: &'static str,
    /// When a new pull request gets its labels.
    pub(crate) labels: LabelMoment,
    /// How people begin a command in a comment.
    pub(crate) commands: CommandForm,
}

/// The moment at which a new pull request gets its labels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LabelMoment {
    /// With its creation.
    Created,
    /// By a second call, which a crash can prevent.
    Later,
}
