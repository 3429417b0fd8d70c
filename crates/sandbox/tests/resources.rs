//! A host without free descriptors. Alone in its file, because the limit applies to a whole process.

mod common;

use common::sh;
use loopwright_sandbox::{CancelToken, SpawnErrorKind, run};

#[tokio::test]
async fn host_without_free_descriptors_is_short_of_resources() {
    let mut held = Vec::new();
    let _ = rustix::process::setrlimit(
        rustix::process::Resource::Nofile,
        rustix::process::Rlimit { current: Some(64), maximum: Some(64) },
    );
    while let Ok(file) = std::fs::File::open("/dev/null") {
        held.push(file);
    }
    let error = run(sh("exit 0"), &mut (), &CancelToken::new(), |_| ()).await.expect_err("no descriptors");
    assert_eq!(error.kind, SpawnErrorKind::Resources, "{error}");
}
