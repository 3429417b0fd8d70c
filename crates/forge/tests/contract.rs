//! Each remote forge fulfils the contract of forges, against the fake forge.

mod support;

macro_rules! contract_of {
    ($module:ident $kind:ident) => {
        mod $module {
            async fn world() -> crate::support::World {
                crate::support::World::new(loopwright_forge::RemoteKind::$kind)
            }

            loopwright_testkit::forge_contract!(world);
        }
    };
}

contract_of!(github GitHub);
contract_of!(gitlab GitLab);
contract_of!(gitea Gitea);
