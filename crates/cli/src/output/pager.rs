//! Shows a long page in the user's pager. The pager is the only program that gets the terminal, so it starts here and
//! not in `engine::proc`, and its environment is built.

use crate::context::CommandEnvironment;
use std::ffi::OsStr;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// Shows a page in the pager and waits for its end; false if there is none, so that the caller prints the page.
pub(super) fn show(page: &str, env: &CommandEnvironment) -> bool {
    let Some(argv) = argv(env) else { return false };
    let Some((program, arguments)) = argv.split_first() else { return false };
    let Some(program) = find(program, &env.path) else { return false };
    let Ok(mut pager) = command(&program, arguments, env).spawn() else { return false };
    if let Some(mut input) = pager.stdin.take() {
        // A person who leaves the pager early closes the pipe.
        let _ = input.write_all(page.as_bytes());
    }
    pager.wait().is_ok()
}

/// `$PAGER`, split at spaces, or `less`; `None` if the user wants no pager.
fn argv(env: &CommandEnvironment) -> Option<Vec<String>> {
    let pager = env.pager.as_deref().unwrap_or("less");
    let argv: Vec<String> = pager.split_whitespace().map(str::to_owned).collect();
    (argv.first().map(String::as_str) != Some("cat")).then_some(argv)
}

fn find(program: &str, path: &OsStr) -> Option<PathBuf> {
    if program.contains('/') {
        return Some(PathBuf::from(program));
    }
    std::env::split_paths(path).map(|folder| folder.join(program)).find(|file| file.is_absolute() && file.is_file())
}

#[expect(clippy::disallowed_methods, reason = "the pager needs the terminal, which no process of `engine::proc` gets")]
fn command(program: &PathBuf, arguments: &[String], env: &CommandEnvironment) -> Command {
    let mut command = Command::new(program);
    command.args(arguments).env_clear().env("PATH", &env.path).stdin(Stdio::piped());
    command.envs(
        [("TERM", &env.term), ("LANG", &env.lang)]
            .into_iter()
            .filter_map(|(name, value)| Some((name, value.as_ref()?))),
    );
    // Leave at once if the page fits, keep colours, leave the page on the screen, start no other program.
    command.env("LESS", "FRX").env("LESSSECURE", "1").env("LESSCHARSET", "utf-8");
    command
}
