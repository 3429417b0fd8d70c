//! Opens a file in the user's browser. Only a person's command does that, so the program gets the person's screen, starts
//! here and not in `engine::proc`, and its environment is built.

use crate::context::CommandEnvironment;
use crate::error::CommandError;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The programs that open a file in the way that the user has set up.
const OPENERS: [&str; 2] = ["xdg-open", "open"];

/// Opens a file and waits until the opener has passed it on.
pub(crate) fn open_file(path: &Path, env: &CommandEnvironment) -> Result<(), CommandError> {
    let found = OPENERS.iter().find_map(|name| find(name, env));
    let Some(program) = found else {
        return Err(CommandError::failed("no program here opens files: neither `xdg-open` nor `open`")
            .hint(format!("open it yourself: {}", path.display())));
    };
    let ended = command(&program, path, env).status();
    match ended {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(CommandError::failed(format!("{} failed: {status}", program.display()))
            .hint(format!("open it yourself: {}", path.display()))),
        Err(error) => Err(CommandError::failed(format!("start {}: {error}", program.display()))),
    }
}

fn find(program: &str, env: &CommandEnvironment) -> Option<PathBuf> {
    std::env::split_paths(&env.path)
        .map(|folder| folder.join(program))
        .find(|file| file.is_absolute() && file.is_file())
}

#[expect(clippy::disallowed_methods, reason = "the browser needs the screen, which no process of `engine::proc` gets")]
fn command(program: &Path, file: &Path, env: &CommandEnvironment) -> Command {
    let mut command = Command::new(program);
    command
        .arg(file)
        .env_clear()
        .env("PATH", &env.path)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command.envs(env.screen.iter().map(|(name, value)| (name, value)));
    command.envs(env.home.iter().map(|home| ("HOME", home)));
    command
}
