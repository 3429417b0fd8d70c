//! The probe on this host, and on one without user namespaces.

mod common;

use common::{folder, sh, walled};
use loopwright_sandbox::{CancelToken, FeatureSupport, SandboxFeature, SpawnErrorKind, make_undumpable, probe, run};
use std::process::Command;

/// Set in the process that acts as a host without user namespaces.
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
fn host_with_all_features_enforces_and_its_scratch_folder_is_left_empty() {
    let dir = folder();
    let host = probe(dir.path());
    let walls: Vec<SandboxFeature> = host.findings.iter().map(|finding| finding.feature).collect();
    assert_eq!(walls, SandboxFeature::ALL);
    assert!(host.enforces(), "{host:#?}");
    assert!(host.gaps().all(|gap| gap.fix.is_some()), "{host:#?}");
    assert_eq!(std::fs::read_dir(dir.path()).expect("readable").count(), 0);
}

#[test]
fn scratch_folder_without_overlay_support_only_loses_the_overlay() {
    let host = probe("/proc".as_ref());
    assert!(host.enforces() && !host.supports_overlay(), "{host:#?}");
}

#[test]
fn host_without_user_namespaces_does_not_enforce_and_gets_a_fix() {
    if again_without_user_namespaces("host_without_user_namespaces_does_not_enforce_and_gets_a_fix") {
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

/// Runs in a separate process, because it changes the whole process.
#[tokio::test]
async fn unreadable_engine_still_confines() {
    make_undumpable().expect("allowed to everybody");
    let dir = folder();
    let host = probe(dir.path());
    assert!(host.enforces(), "{host:#?}");
    let text = common::prints(walled(sh("id -u"), dir.path(), |_| ())).await;
    assert_eq!(text, "1000\n");
}
