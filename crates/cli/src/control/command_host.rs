//! The process that performs a command: its own, or the daemon.

use crate::context::CommandEnvironment;
use loopwright::Engine;
use loopwright::daemon::Daemon;
use loopwright::proc::CancelToken;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

/// The daemon's resources that a command may use.
pub(crate) struct DaemonResources {
    /// The engine that owns the store.
    pub(crate) engine: Engine,
    /// The task that starts due loops.
    pub(crate) daemon: Daemon,
    /// The daemon's own environment, with its keys.
    pub(crate) env: CommandEnvironment,
    /// Its state directory.
    pub(crate) state: PathBuf,
    /// Its database, when it is not in the state directory.
    pub(crate) store: Option<String>,
}

impl fmt::Debug for DaemonResources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("state", &self.state).finish_non_exhaustive()
    }
}

/// The process that does the work.
#[derive(Debug, Clone, Default)]
pub(crate) enum CommandHost {
    /// This process; signals end it.
    #[default]
    ThisProcess,
    /// The daemon, for a command from another process; a cancel message from there ends it.
    Daemon(Arc<DaemonResources>, CancelToken),
}
