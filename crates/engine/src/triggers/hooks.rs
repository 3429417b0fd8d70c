//! Hooks in a user's repository that notify the daemon when a branch moved. They only touch a file; without a daemon
//! they have no effect.
//!
//! A hook file belongs to the user. Loopwright's part is a marked block in it, which a person's command adds and
//! removes; everything else in the file stays byte for byte.

use crate::git::{Git, GitCall, GitError, UserRepo};
use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

/// The hooks after which a branch may have moved.
pub const HOOKS: [&str; 3] = ["post-commit", "post-merge", "post-receive"];
/// A longer file is not treated as a hook.
const HOOK_MAX: u64 = 1 << 20;
/// The first line of a hook file that Loopwright creates.
const SHEBANG: &str = "#!/bin/sh\n";

/// The folder in which a hook touches a file named after its repository.
#[must_use]
pub fn poke_folder(state: &Path) -> PathBuf {
    state.join("poke")
}

/// The state of one hook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HookState {
    /// It notifies the daemon of this state directory.
    Installed,
    /// It notifies another daemon.
    Elsewhere,
    /// It notifies no daemon.
    Absent,
    /// It has the block, but git does not run it: the file is not executable.
    Asleep,
    /// The block cannot be added to it, for this reason.
    Unsuited(&'static str),
}

impl HookState {
    /// The word for it.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Self::Installed => "installed",
            Self::Elsewhere => "elsewhere",
            Self::Absent => "absent",
            Self::Asleep => "asleep",
            Self::Unsuited(_) => "unsuited",
        }
    }
}

/// The hooks of a repository, and the daemon that they notify.
#[derive(Debug, Clone)]
pub struct RepoHooks {
    /// The folder in which git searches for them.
    pub folder: PathBuf,
    repo: String,
    state: PathBuf,
}

impl RepoHooks {
    /// The hooks of a repository. `configs` are git's configuration files of the user and the machine, in order of
    /// precedence: one of them may set another folder. The repository's own configuration is read before them.
    ///
    /// # Errors
    /// When git cannot read one of them.
    pub async fn for_repo(
        git: &Git,
        repo: &UserRepo,
        state: &Path,
        home: Option<&Path>,
        configs: &[PathBuf],
    ) -> Result<Self, GitError> {
        let own = [repo.git_dir.join("config.worktree"), repo.common_dir.join("config")];
        let mut folder = repo.common_dir.join("hooks");
        for file in own.iter().chain(configs).filter(|file| file.is_file()) {
            let call = GitCall::new("git.config").arg("--file").arg(file).arg("--includes");
            let answer = git.run(call.args(["--get", "core.hooksPath"]).allow_exit_one()).await?;
            let said = answer.line();
            if answer.code == Some(0) && !said.is_empty() {
                folder = resolve_hooks_path(&said, &repo.work_tree, home);
                break;
            }
        }
        Ok(Self { folder, repo: repo.id.clone(), state: state.to_owned() })
    }

    /// The state of each hook.
    ///
    /// # Errors
    /// When one cannot be read.
    pub fn status(&self) -> io::Result<Vec<(&'static str, HookState)>> {
        HOOKS.into_iter().map(|name| Ok((name, self.stands(&self.read(name)?)))).collect()
    }

    /// Adds our block to each hook that lacks it; creates missing hooks. A hook that is not suitable is left unchanged.
    ///
    /// # Errors
    /// When one cannot be read or written.
    pub fn install(&self) -> io::Result<Vec<(&'static str, HookState)>> {
        if self.folder.exists() && !self.folder.is_dir() {
            return Err(io::Error::other("hooks are switched off: core.hooksPath is not a folder"));
        }
        fs::create_dir_all(&self.folder)?;
        for name in HOOKS {
            let hook = self.read(name)?;
            match self.stands(&hook) {
                HookState::Absent | HookState::Elsewhere => self.write(name, &hook, &self.with_block(&hook))?,
                HookState::Installed | HookState::Asleep | HookState::Unsuited(_) => {}
            }
        }
        self.status()
    }

    /// Removes our block from each hook; a file that holds nothing else is removed.
    ///
    /// # Errors
    /// When one cannot be read or written.
    pub fn uninstall(&self) -> io::Result<Vec<(&'static str, HookState)>> {
        for name in HOOKS {
            let hook = self.read(name)?;
            let Hook::Text { text, .. } = &hook else { continue };
            let rest = self.without_block(text);
            if rest == *text {
                continue;
            }
            if rest == SHEBANG { fs::remove_file(self.folder.join(name))? } else { self.write(name, &hook, &rest)? }
        }
        self.status()
    }

    fn marks(&self) -> (String, String) {
        (format!("# >>> loopwright {} >>>\n", self.repo), format!("# <<< loopwright {} <<<\n", self.repo))
    }

    /// If the block fails, the hook continues: a shell exits when `:` cannot write, so that runs in a subshell.
    fn block(&self) -> String {
        let (begin, end) = self.marks();
        let words = "# Notifies a running loopwright daemon that a branch of this repository may have moved.\n";
        format!("{begin}{words}{}{end}", self.command())
    }

    /// The line of the block that runs. A block is known by it: the comment above it differs between versions.
    fn command(&self) -> String {
        let folder = poke_folder(&self.state);
        let (folder, file) = (quoted(&folder), quoted(&folder.join(&self.repo)));
        format!("if [ -d {folder} ]; then (: > {file}) 2>/dev/null || :; fi\n")
    }

    /// Our block comes first, because many hooks end with `exit`.
    fn with_block(&self, hook: &Hook) -> String {
        let Hook::Text { text, .. } = hook else { return format!("{SHEBANG}{}", self.block()) };
        let text = self.without_block(text);
        let first = if text.starts_with("#!") { text.find('\n').map_or(text.len(), |at| at + 1) } else { 0 };
        let (head, rest) = text.split_at(first);
        let head = if head.is_empty() || head.ends_with('\n') { head.to_owned() } else { format!("{head}\n") };
        format!("{head}{}{rest}", self.block())
    }

    fn without_block(&self, text: &str) -> String {
        let (begin, end) = self.marks();
        match (text.find(&begin), text.find(&end)) {
            (Some(from), Some(to)) if from < to => format!("{}{}", &text[..from], &text[to + end.len()..]),
            _ => text.to_owned(),
        }
    }

    fn stands(&self, hook: &Hook) -> HookState {
        match hook {
            Hook::None => HookState::Absent,
            Hook::Odd(why) => HookState::Unsuited(why),
            Hook::Text { text, .. } if !is_shell(text) => HookState::Unsuited("it is not a shell script"),
            Hook::Text { text, runs, .. } => {
                match (text.contains(&self.command()), text.contains(&self.marks().0), runs) {
                    (true, _, true) => HookState::Installed,
                    (true, _, false) => HookState::Asleep,
                    (false, true, _) => HookState::Elsewhere,
                    (false, false, _) => HookState::Absent,
                }
            }
        }
    }

    fn read(&self, name: &str) -> io::Result<Hook> {
        let path = self.folder.join(name);
        let meta = match path.symlink_metadata() {
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                return Ok(Hook::None);
            }
            meta => meta?,
        };
        if !meta.is_file() {
            return Ok(Hook::Odd("it is a link or a folder"));
        }
        if meta.len() > HOOK_MAX {
            return Ok(Hook::Odd("it is too long"));
        }
        let mode = meta.permissions().mode();
        match String::from_utf8(fs::read(&path)?) {
            Ok(text) => Ok(Hook::Text { text, mode, runs: mode & 0o111 != 0 }),
            Err(_) => Ok(Hook::Odd("it is not text")),
        }
    }

    /// Written atomically, with the mode of the old file.
    fn write(&self, name: &str, old: &Hook, text: &str) -> io::Result<()> {
        let mode = if let Hook::Text { mode, .. } = old { mode & 0o777 } else { 0o755 };
        let draft = self.folder.join(format!(".{name}.{}.loopwright", std::process::id()));
        let mut file = fs::OpenOptions::new().write(true).create(true).truncate(true).mode(mode).open(&draft)?;
        file.write_all(text.as_bytes())?;
        file.set_permissions(fs::Permissions::from_mode(mode))?;
        file.sync_all()?;
        fs::rename(&draft, self.folder.join(name))
    }
}

enum Hook {
    None,
    Text { text: String, mode: u32, runs: bool },
    Odd(&'static str),
}

fn is_shell(text: &str) -> bool {
    let Some(line) = text.strip_prefix("#!") else { return true };
    let words = line.lines().next().unwrap_or_default().split_whitespace();
    let mut names = words.map(|word| word.rsplit('/').next().unwrap_or(word)).filter(|word| *word != "env");
    names.next().is_some_and(|name| ["sh", "bash", "dash", "zsh", "ksh", "ash"].contains(&name))
}

/// Git resolves a relative path from the root of the working copy.
fn resolve_hooks_path(said: &str, work_tree: &Path, home: Option<&Path>) -> PathBuf {
    match (said.strip_prefix("~/"), home) {
        (Some(rest), Some(home)) => home.join(rest),
        _ => work_tree.join(said),
    }
}

fn quoted(path: &Path) -> String {
    format!("'{}'", path.to_string_lossy().replace('\'', r"'\''"))
}
