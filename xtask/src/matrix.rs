//! `cargo xtask matrix [AGENT]`: every situation of the provider table, for each real agent as maker and as checker. The
//! tests themselves are in `crates/cli/tests/agents/matrix.rs`; an ordinary test run has a sample of them.

use crate::command::{HOSTILE, cargo, run as run_command};
use crate::{agents, setup};

/// The variable that asks the tests for every situation.
const ALL: &str = "LOOPWRIGHT_TEST_MATRIX";

pub(crate) fn run(filter: &[&str]) -> Result<(), String> {
    setup::run()?;
    if !agents::bin_dir().is_dir() {
        return Err("no agent is installed; `cargo xtask setup` says why".to_owned());
    }
    let tests = match filter {
        [] => "test(/_meets_the_provider_table$/)".to_owned(),
        [agent] => format!("test(/{agent}_as_.*_meets_the_provider_table$/)"),
        _ => return Err("name at most one agent".to_owned()),
    };
    let mut command = cargo();
    command.args(["nextest", "run", "--workspace", "--features", HOSTILE, "--test", "agents", "-E", &tests]);
    command.args(["--no-tests", "fail"]).env(ALL, "1");
    run_command(command)
}
