//! `hooks install|uninstall|status`: git hooks that notify the daemon when a branch moves. The daemon sees most moves
//! without them; they help where the kernel reports no changes, such as on network file systems.

use super::{CommandContext, CommandError, CommandExit, VerbResult, safe};
use loopwright::triggers::hooks::{HookState, RepoHooks};
use serde_json::json;
use std::path::PathBuf;

#[derive(Debug, clap::Args)]
pub(crate) struct HooksArgs {
    #[command(subcommand)]
    what: HooksCommand,
}

#[derive(Debug, clap::Subcommand)]
enum HooksCommand {
    /// Add a marked block to the hooks of the repository; the rest of each hook stays unchanged
    Install,
    /// Remove the marked block
    Uninstall,
    /// List the hooks that have the marked block
    Status,
}

pub(crate) async fn run(args: HooksArgs, cx: &CommandContext) -> VerbResult {
    let repo = cx.repo().await?;
    let (state, _) = cx.state_dir()?;
    let hooks = RepoHooks::for_repo(&cx.git(), &repo, &state, cx.env.home.as_deref(), &configs(cx)).await?;
    let done = match args.what {
        HooksCommand::Install => hooks.install(),
        HooksCommand::Uninstall => hooks.uninstall(),
        HooksCommand::Status => hooks.status(),
    };
    let stands = done.map_err(|error| {
        CommandError::failed(format!("hooks in `{}`: {error}", hooks.folder.display()))
            .hint("the daemon watches branches on its own; hooks only help where it cannot")
    })?;
    let lines: Vec<_> = stands.iter().map(|(name, state)| json!({"hook": name, "state": state.word()})).collect();
    let document = json!({"schema": 1, "folder": hooks.folder, "hooks": lines});
    cx.out.answer(&document, || {
        let lines = stands.iter().map(|(name, state)| format!("{name:<13} {}", describe(state)));
        let folder = safe(&hooks.folder.display().to_string()).to_string();
        std::iter::once(format!("hooks in {folder}")).chain(lines).collect::<Vec<_>>().join("\n")
    });
    let is_left_out = |(_, state): &(&str, HookState)| matches!(state, HookState::Unsuited(_) | HookState::Asleep);
    let failed = matches!(args.what, HooksCommand::Install) && stands.iter().any(is_left_out);
    Ok(if failed { CommandExit::FAILED } else { CommandExit::DONE })
}

fn describe(state: &HookState) -> String {
    match state {
        HookState::Installed => "installed".to_owned(),
        HookState::Elsewhere => {
            "notifies the daemon of another state directory; `hooks install` changes that".to_owned()
        }
        HookState::Absent => "absent".to_owned(),
        HookState::Asleep => "installed, but the file is not executable, so git does not run it".to_owned(),
        HookState::Unsuited(why) => format!("not changed: {why}"),
    }
}

/// The user's and the machine's configuration of git, the strongest first.
fn configs(cx: &CommandContext) -> Vec<PathBuf> {
    let home = cx.env.home.as_ref().map(|home| home.join(".gitconfig"));
    let folder = cx.env.xdg_config.clone().or_else(|| Some(cx.env.home.as_ref()?.join(".config")));
    home.into_iter()
        .chain(folder.map(|folder| folder.join("git/config")))
        .chain([PathBuf::from("/etc/gitconfig")])
        .collect()
}
