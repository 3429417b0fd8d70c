//! Connections to forges and messengers outside of this machine. The command line or the embedder makes them from the
//! user's configuration; the engine never sees a credential, except for the one that a forge lends for a push.

use crate::engine::Engine;
use loopwright_core::deliver::{Deliver, DeliverError};
use loopwright_core::forge::ReadForge;
use loopwright_core::outbox::StagedItem;
use loopwright_core::spec::LoopSpec;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A forge that is connected for one repository.
#[derive(Clone)]
pub struct ConnectedForge {
    /// Receives items.
    pub deliver: Arc<dyn Deliver>,
    /// Answers probes and counts open pull requests.
    pub read: Arc<dyn ReadForge>,
    /// The only place where commits may be pushed.
    pub route: PushRoute,
}

/// The place of pushes, from the user's configuration. A target that the forge lends must agree with it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PushRoute {
    /// The URL of the repository.
    pub url: String,
    /// A file with the certificates of a private authority.
    pub ca_file: Option<PathBuf>,
    /// The HTTP proxy on the way.
    pub proxy: Option<String>,
}

/// Connects to the forges and messengers of the user's configuration.
pub trait ForgeConnector: Send + Sync {
    /// The forge of this name. `origin` is the URL of the remote `origin` of the user's repository.
    ///
    /// # Errors
    /// If the forge is not configured, or its credential cannot be read. Nothing was sent, so the item can be kept.
    fn forge(&self, name: &str, origin: Option<&str>) -> Result<ConnectedForge, DeliverError>;

    /// A line that names the forge, its address and its repository, without a credential: an approval holds only for
    /// this place. `None` if the forge is not configured.
    fn destination(&self, name: &str, origin: Option<&str>) -> Option<String>;

    /// The receiver of a message; `None` if the forge of the loop receives it.
    ///
    /// # Errors
    /// If it is configured, and its credential cannot be read.
    fn messenger(&self, item: &StagedItem) -> Result<Option<Arc<dyn Deliver>>, DeliverError>;
}

/// Connects to the forge that a loop names, for the repository at a path.
pub(crate) async fn connect_forge(
    engine: &Engine,
    spec: &LoopSpec,
    work_tree: &Path,
) -> Result<ConnectedForge, DeliverError> {
    let name = &spec.forge;
    let forges = engine.settings.forges.as_ref();
    let forges = forges.ok_or_else(|| DeliverError::blocked(format!("no forge `{name}` is connected here")))?;
    forges.forge(name, origin_url(engine, work_tree).await.as_deref())
}

/// The URL of the remote `origin`. A repository that was moved has none any more; the configuration may name it.
pub(crate) async fn origin_url(engine: &Engine, work_tree: &Path) -> Option<String> {
    let repo = engine.git.discover(work_tree).await.ok()?;
    engine.git.origin_url(&repo).await.ok().flatten()
}
