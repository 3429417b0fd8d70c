//! Processes that a script starts and waits for.
#![expect(
    clippy::disallowed_methods,
    reason = "a performer is an agent and no engine: its children belong to the tree that the engine ends"
)]

use super::{Done, print};
use std::process::{Command, Stdio};

/// Runs a program with the streams of the script and waits. A bad exit is printed, and does not fail the script.
pub(super) fn run(argv: &[String]) -> Done {
    let Some((program, args)) = argv.split_first() else { return Ok(()) };
    let status = Command::new(program).args(args).stdin(Stdio::null()).status();
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => print(format!("run {program}: {status}\n").as_bytes()),
        Err(error) => print(format!("run {program}: could not start: {error}\n").as_bytes()),
    }
}

pub(super) fn git(args: &[String]) -> Done {
    let identity = ["git", "-c", "user.name=scripted", "-c", "user.email=scripted@example.invalid"];
    let argv: Vec<String> = identity.into_iter().map(str::to_owned).chain(args.iter().cloned()).collect();
    run(&argv)
}

pub(super) fn commit(message: &str) -> Done {
    git(&["add".to_owned(), "--all".to_owned()])?;
    git(&["commit".to_owned(), "--quiet".to_owned(), format!("--message={message}")])
}
