//! A process beside the daemon that runs one round in the foreground and may be killed: another engine on the same
//! state directory, in its own thread.

use super::fleet::World;
use super::life;
use loopwright::Engine;
use loopwright::proc::CancelToken;
use loopwright::seam::Seam;
use loopwright::spec::CheckedSpec;
use std::path::Path;
use std::sync::Arc;
use tokio::runtime::Runtime;

/// The process; dropping it kills it.
pub(crate) struct Foreground(Option<Runtime>);

impl Foreground {
    /// Starts one, as `loopwright run` does: it first lists what dead processes left, and then runs a manual round.
    pub(crate) fn start(state: &Path, world: &World, spec: CheckedSpec) -> Result<Self, String> {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.map_err(|why| why.to_string())?;
        let world = world.of_new_process();
        let settings = life::settings(state, &world, Seam::hooked(Arc::clone(&world.own.door) as _));
        drop(runtime.spawn(async move {
            // A failing store, a busy loop and a round that cannot be recorded are valid answers too.
            let Ok(engine) = Engine::open(settings).await else { return };
            let _ = world.own.store.set(Arc::clone(engine.store()));
            let request = world.request(spec);
            drop(engine.run(request, &world.bindings(), &CancelToken::new()).await);
            drop(engine.close().await);
        }));
        Ok(Self(Some(runtime)))
    }
}

impl Drop for Foreground {
    /// Like `kill -9`: nothing is closed.
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}
