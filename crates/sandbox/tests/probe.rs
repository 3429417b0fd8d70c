//! The probe on this host, and on one that has no user namespaces.

mod common;

use common::{folder, sh, walled};
use loopwright_sandbox::{CancelToken, FeatureSupport, SandboxFeature, SpawnErrorKind, make_undumpable, probe, run};
use std::process::Command;

/// Set in the process that plays a host without user namespaces.
const PLAY: &str = "LOOPWRIGHT_TEST_POOR_HOST";

/// Runs one test of this program again in a user namespace that allows no further one.
#[expect(clippy::disallowed_methods, reason = "the poor host is a namespace around this program")]
fn again_without_user_namespaces(test: &str) -> bool {
    if std::env::var_os(PLAY).is_some() {
        return false;
    }
    let us = std::env::current_exe().expect("this test program");
    let script = "echo 0 > /proc/sys/user/max_user_namespaces && exec \"$0\" \"$@\"";
    let status = Command::new("unshare")
        .args(["--user", "--map-root-user", "sh", "-c", script])
        .arg(us)
        .args([test, "--exact", "--nocapture"])
        .env(PLAY, "1")
        .status()
        .expect("unshare starts");
    assert!(status.success());
    true
}

#[test]
fn host_that_has_walls_is_found_to_enforce_and_nothing_is_left_in_its_scratch_folder() {
    let dir = folder();
    let host = probe(dir.path());
    let walls: Vec<SandboxFeature> = host.findings.iter().map(|finding| finding.feature).collect();
    assert_eq!(walls, SandboxFeature::ALL);
    assert!(host.enforces(), "{host:#?}");
    assert!(host.gaps().all(|gap| gap.fix.is_some()), "{host:#?}");
    assert_eq!(std::fs::read_dir(dir.path()).expect("readable").count(), 0);
}

#[test]
fn scratch_folder_that_cannot_hold_an_overlay_costs_the_overlay_alone() {
    let host = probe("/proc".as_ref());
    assert!(host.enforces() && !host.supports_overlay(), "{host:#?}");
}

#[test]
fn host_without_user_namespaces_is_found_not_to_enforce_and_told_what_to_do() {
    if again_without_user_namespaces("host_without_user_namespaces_is_found_not_to_enforce_and_told_what_to_do") {
        return;
    }
    let host = probe(folder().path());
    assert!(!host.enforces() && !host.supports_overlay(), "{host:#?}");
    let first = &host.findings[0];
    assert_eq!((first.feature, first.support), (SandboxFeature::UserNamespace, FeatureSupport::No));
    assert!(first.detail.contains("make a user namespace"), "{first:?}");
    assert!(first.fix.as_deref().is_some_and(|fix| fix.contains("user.max_user_namespaces = 15000")), "{first:?}");
}

#[tokio::test]
async fn host_without_user_namespaces_starts_no_confined_program() {
    if again_without_user_namespaces("host_without_user_namespaces_starts_no_confined_program") {
        return;
    }
    let dir = folder();
    let spawn = walled(sh("touch /workspace/started"), dir.path(), |_| ());
    let error = run(spawn, &mut (), &CancelToken::new(), |_| panic!("started")).await.expect_err("cannot start");
    assert_eq!(error.kind, SpawnErrorKind::Boundary, "{error}");
    assert!(error.to_string().contains("make a user namespace"), "{error}");
    assert!(!dir.path().join("started").exists());
}

/// Its own process, because it changes the whole process.
#[tokio::test]
async fn engine_that_cannot_be_read_still_confines() {
    make_undumpable().expect("allowed to everybody");
    let dir = folder();
    let host = probe(dir.path());
    assert!(host.enforces(), "{host:#?}");
    let text = common::prints(walled(sh("id -u"), dir.path(), |_| ())).await;
    assert_eq!(text, "1000\n");
}
