//! The command can host scripts: it handles the hidden first argument before it parses its command line.

use loopwright_testkit::TestEnv;

#[test]
fn command_that_is_asked_to_host_a_script_without_one_says_so() {
    let env = TestEnv::new(env!("CARGO_BIN_EXE_loopwright"));
    let ran = env.loopwright(["__scripted"]).code(2);
    assert!(ran.stderr().starts_with("scripted: no task on standard input"), "{}", ran.stderr());
    assert_eq!(ran.stdout(), "");
}
