//! A state directory that an earlier build wrote: it opens, it is complete, and its waiting round ships.
#![allow(clippy::disallowed_methods, reason = "a test may unpack an archive")]

use loopwright_testkit::TestEnv;
use std::path::Path;
use std::process::Command;

/// Written by the last build with one owner of the store (schema version 4): `fix` shipped, `spoil` was rejected, `fix`
/// waits.
const FIXTURE: &str = "tests/fixtures/state-v4.tar.gz";

fn env() -> TestEnv {
    let env = TestEnv::new(env!("CARGO_BIN_EXE_loopwright")).with_env("USER", "ada");
    let archive = Path::new(env!("CARGO_MANIFEST_DIR")).join(FIXTURE);
    let unpacked = Command::new("tar").arg("-xzf").arg(archive).arg("-C").arg(env.root()).status();
    assert!(unpacked.expect("tar runs").success());
    env
}

fn rounds(env: &TestEnv) -> Vec<(String, String, String)> {
    let rounds = env.loopwright(["rounds", "--json"]).success().json();
    let rounds = rounds["rounds"].as_array().expect("rounds").clone();
    let text = |round: &serde_json::Value, key: &str| round[key].as_str().unwrap_or_default().to_owned();
    rounds.iter().map(|round| (text(round, "round"), text(round, "loop"), text(round, "outcome"))).collect()
}

#[test]
fn state_of_an_earlier_build_is_complete_and_its_waiting_round_ships() {
    let env = env();
    assert!(env.loopwright(["verify"]).success().stdout().contains("40 events"), "read before it is migrated");
    let before = rounds(&env);
    let outcomes: Vec<_> = before.iter().map(|(_, name, outcome)| (name.as_str(), outcome.as_str())).collect();
    assert_eq!(outcomes, [("fix", "escalated"), ("spoil", "rejected"), ("fix", "shipped")]);
    let (waiting, ..) = &before[0];
    let _ = env.loopwright(["approve", waiting]).success();
    assert_eq!(rounds(&env)[0].2, "shipped");
    assert!(env.state().join("store.db.bak-v4").is_file(), "the earlier build opens the copy");
    // The round has events of the old single chain and of its own chain.
    let verified = env.loopwright(["verify"]).success().stdout();
    assert!(verified.contains("is intact") && !verified.contains("40 events"), "{verified}");
    for (round, ..) in &before {
        let _ = env.loopwright(["show", round]).success();
        let _ = env.loopwright(["report", round]).success();
    }
}
