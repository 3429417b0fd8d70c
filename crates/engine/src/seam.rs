//! The seams at which tests inject faults: before a store write, a file write, a process, a git call or a delivery, and
//! again after it succeeded. In production a seam does nothing and costs a branch.

use std::sync::Arc;

/// Before or after the real call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SeamMoment {
    /// The call has not happened yet.
    Before,
    /// The call took effect; its answer is about to be returned.
    After,
}

/// An injected fault, as the caller sees it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("injected fault {when} `{site}`")]
pub struct SeamFault {
    /// The call.
    pub site: &'static str,
    /// `before` or `after`.
    pub when: &'static str,
}

/// Decides what happens at a seam; it may end the process too.
pub trait SeamHook: Send + Sync {
    /// Called at every seam, in order.
    ///
    /// # Errors
    /// The fault to inject.
    fn hit(&self, moment: SeamMoment, site: &'static str) -> Result<(), SeamFault>;
}

/// A seam that callers hold.
#[derive(Clone, Default)]
pub struct Seam(Option<Arc<dyn SeamHook>>);

impl std::fmt::Debug for Seam {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.0.is_some() { "Seam(hooked)" } else { "Seam" })
    }
}

impl Seam {
    /// A seam at which nothing happens.
    #[must_use]
    pub fn none() -> Self {
        Self(None)
    }

    /// A seam with a hook.
    #[must_use]
    pub fn hooked(hook: Arc<dyn SeamHook>) -> Self {
        Self(Some(hook))
    }

    /// Marks the moment before a call.
    ///
    /// # Errors
    /// The injected fault, if any.
    pub fn before(&self, site: &'static str) -> Result<(), SeamFault> {
        self.0.as_ref().map_or(Ok(()), |hook| hook.hit(SeamMoment::Before, site))
    }

    /// Marks the moment after a call took effect.
    ///
    /// # Errors
    /// The injected fault, if any.
    pub fn after(&self, site: &'static str) -> Result<(), SeamFault> {
        self.0.as_ref().map_or(Ok(()), |hook| hook.hit(SeamMoment::After, site))
    }
}
