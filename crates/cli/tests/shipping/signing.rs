//! Signed commits: the real ssh-keygen and gpg, with keys that no agent can read.

use super::stage::{PULL, ShippingStage, reasons};
use loopwright_testkit::repo::git;
use serde_json::Value;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

const EMAIL: &str = "loops@example.org";

/// Runs a program that signs or verifies, with nothing of the user's environment.
#[expect(clippy::disallowed_methods, reason = "the programs of the keys are the test's own witnesses")]
fn program(name: &str, home: &Path, args: &[&str]) -> String {
    let mut command = Command::new(name);
    let ran = command.env_clear().env("PATH", "/usr/bin:/bin").env("GNUPGHOME", home).args(args).output();
    let ran = ran.unwrap_or_else(|error| panic!("{name}: {error}"));
    assert!(ran.status.success(), "{name} {args:?}: {}", String::from_utf8_lossy(&ran.stderr));
    String::from_utf8_lossy(&ran.stdout).into_owned()
}

fn ssh_key(stage: &ShippingStage) -> PathBuf {
    let key = stage.env.root().join("signing key");
    let path = key.to_str().expect("a path");
    program("ssh-keygen", stage.env.root(), &["-q", "-t", "ed25519", "-N", "", "-C", EMAIL, "-f", path]);
    key
}

fn configure(stage: &ShippingStage, signing: &str) {
    stage.configure(&format!("identity: {{ name: Loops, email: {EMAIL} }}\nsigning: {{ {signing} }}\n"));
}

fn doctor_line(stage: &ShippingStage) -> Value {
    let json = stage.run(&["doctor", "--json"]).success().json();
    let checks = json["checks"].as_array().expect("checks").clone();
    checks.into_iter().find(|check| check["name"] == "signing key").unwrap_or_else(|| panic!("{json}"))
}

/// The head of the only pull request, and the tree that passed.
fn head(stage: &ShippingStage, shipped: &Value) -> String {
    let pulls = stage.remote().pulls();
    let [pull] = pulls.as_slice() else { panic!("{pulls:?}") };
    let head = pull.pull.as_ref().expect("a pull request").head.clone();
    let tree = git(&stage.remote().path(), ["rev-parse", &format!("{head}^{{tree}}")]);
    assert_eq!(Some(tree.trim()), shipped["tree"].as_str(), "the signed commit has the tree that passed");
    head
}

#[test]
fn pushed_commit_has_the_ssh_signature_of_the_users_key() {
    let stage = ShippingStage::new("L2", PULL);
    let key = ssh_key(&stage);
    configure(&stage, &format!("ssh_key: \"{}\"", key.display()));
    assert_eq!(doctor_line(&stage)["status"], "ok");
    let round = stage.escalate();
    // A maker cannot sign, and the sealed commit is not signed.
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o644)).expect("its mode");
    assert!(doctor_line(&stage)["text"].to_string().contains("chmod 600"));
    let blocked = stage.approve(&round, 10);
    assert!(reasons(&blocked).contains("cannot be signed with the SSH key"), "{blocked}");
    assert_eq!(stage.writes(), 0, "an unsigned commit is never sent");

    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600)).expect("its mode");
    let shipped = stage.approve(&round, 0);
    let head = head(&stage, &shipped);
    let public = std::fs::read_to_string(key.with_extension("pub")).expect("a public key");
    let signers = stage.env.root().join("signers");
    std::fs::write(&signers, format!("{EMAIL} {public}")).expect("a file");
    let allowed = format!("gpg.ssh.allowedSignersFile={}", signers.display());
    git(&stage.remote().path(), ["-c", &allowed, "verify-commit", &head]);
    let raw = git(&stage.remote().path(), ["cat-file", "commit", &head]);
    assert!(raw.contains(&format!("author Loops <{EMAIL}>")) && raw.contains("Loopwright-Round: "), "{raw}");

    // A merge of the signed commit is a merge of the change as it was.
    stage.remote().merge_pull(1);
    let _ = stage.run(&["tick"]).success();
    let shown = stage.run(&["show", "fix", "--json"]).success().json();
    let kinds = &shown["evidence"]["kinds"]["pull-request"];
    assert_eq!((&kinds["merged"], &kinds["edited"]), (&1.into(), &0.into()), "{kinds}");
}

#[test]
fn pushed_commit_has_the_signature_of_an_openpgp_key() {
    let stage = ShippingStage::new("L2", PULL);
    // The socket of gpg-agent needs a short path.
    let home = tempfile::Builder::new().prefix("lw-gpg").tempdir_in("/tmp").expect("a folder");
    std::fs::set_permissions(home.path(), std::fs::Permissions::from_mode(0o700)).expect("its mode");
    let batch = ["--batch", "--passphrase", "", "--quick-generate-key", EMAIL, "ed25519", "sign", "never"];
    program("gpg", home.path(), &batch);
    let listed = program("gpg", home.path(), &["--batch", "--with-colons", "--list-secret-keys"]);
    let fpr = listed.lines().find_map(|line| line.strip_prefix("fpr:::::::::")).expect("a key").trim_end_matches(':');
    configure(&stage, &format!("gpg_key: {fpr}, gpg_home: {}", home.path().display()));
    assert_eq!(doctor_line(&stage)["status"], "ok");
    let round = stage.escalate();
    let shipped = stage.approve(&round, 0);
    let head = head(&stage, &shipped);
    let repo = stage.remote().path();
    program("git", home.path(), &["-C", repo.to_str().expect("a path"), "verify-commit", &head]);
    program("gpgconf", home.path(), &["--kill", "all"]);
}

#[test]
fn repository_names_no_signing_key() {
    let stage = ShippingStage::new("L2", PULL);
    stage.repo.write(".loopwright/config.yaml", "signing: { ssh_key: /tmp/k }\n");
    let refused = stage.run(&["check", "fix"]).code(2);
    assert!(
        refused.stderr().contains("a repository does not decide which key signs your commits"),
        "{}",
        refused.stderr()
    );
}
