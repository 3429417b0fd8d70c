//! The findings of a read-only check of a connection, for `doctor`.

/// The result of one check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FindingState {
    /// As it should be.
    Good,
    /// Some outputs will not work.
    Doubtful,
    /// No output will work.
    Bad,
}

/// One check of a connection: its subject, its result and a sentence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForgeFinding {
    /// Such as `reachable`, `token`, `scopes`, `repository`, `push` or `base-branch`.
    pub subject: &'static str,
    /// The result.
    pub state: FindingState,
    /// The sentence; for a result other than good, with the next step.
    pub text: String,
}

impl ForgeFinding {
    /// As it should be.
    #[must_use]
    pub fn good(subject: &'static str, text: impl Into<String>) -> Self {
        Self { subject, state: FindingState::Good, text: text.into() }
    }

    /// Some outputs will not work.
    #[must_use]
    pub fn doubtful(subject: &'static str, text: impl Into<String>) -> Self {
        Self { subject, state: FindingState::Doubtful, text: text.into() }
    }

    /// No output will work.
    #[must_use]
    pub fn bad(subject: &'static str, text: impl Into<String>) -> Self {
        Self { subject, state: FindingState::Bad, text: text.into() }
    }
}
