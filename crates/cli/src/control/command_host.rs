//! With whose hands a command works: its own process, or the daemon's.

use crate::context::CommandEnvironment;
use loopwright::Engine;
use loopwright::daemon::Daemon;
use loopwright::proc::CancelToken;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

/// What a daemon lends to the commands that it performs.
pub(crate) struct DaemonResources {
    /// The engine that owns the store.
    pub(crate) engine: Engine,
    /// The task that starts what is due.
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

/// Who does the work.
#[derive(Debug, Clone, Default)]
pub(crate) enum CommandHost {
    /// This process, for itself; signals end it.
    #[default]
    ThisProcess,
    /// A daemon, for somebody who typed the command elsewhere; their word ends it.
    Daemon(Arc<DaemonResources>, CancelToken),
}
