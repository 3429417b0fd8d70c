//! Each remote forge fulfils the contract of forges, against the fake forge.

mod support;

use loopwright_forge::RemoteKind;
use support::World;

mod github {
    use super::{RemoteKind, World};

    async fn world() -> World {
        World::new(RemoteKind::GitHub)
    }

    loopwright_testkit::forge_contract!(world);
}
