//! The demo's repository: a small shop in shell with a bug, a test that shows it, and three loops. It needs only git
//! and sh.

use crate::context::CommandContext;
use crate::error::{CommandError, error_chain};
use loopwright::proc::{CancelToken, ProcessRunner, RunEnd, SpawnRequest, TreeCookie, base_env};
use loopwright::seam::Seam;
use std::fs;
use std::path::{Path, PathBuf};

const FILES: [(&str, &str); 12] = [
    ("cart.sh", include_str!("assets/cart.sh")),
    ("tests/run.sh", include_str!("assets/run.sh")),
    ("tests/test_plain.sh", include_str!("assets/test_plain.sh")),
    ("tests/test_discount.sh", include_str!("assets/test_discount.sh")),
    ("tests/test_empty.sh", include_str!("assets/test_empty.sh")),
    (".loopwright/loops/fix-cart.md", include_str!("assets/fix-cart.md")),
    (".loopwright/loops/quick-fix.md", include_str!("assets/quick-fix.md")),
    (".loopwright/loops/morning-report.md", include_str!("assets/morning-report.md")),
    (".loopwright/fix.script", include_str!("assets/fix.script")),
    (".loopwright/cheat.script", include_str!("assets/cheat.script")),
    (".loopwright/report.script", include_str!("assets/report.script")),
    ("README.md", "# A shop\n\n`cart.sh PRICE QUANTITY PERCENT` prints what a customer pays.\n"),
];

/// The folders of the demo.
#[derive(Debug)]
pub(super) struct DemoRepo {
    pub(super) folder: PathBuf,
    pub(super) repo: PathBuf,
    pub(super) state: PathBuf,
}

impl DemoRepo {
    /// Creates the folder, the repository and its one commit.
    pub(super) async fn build(cx: &CommandContext) -> Result<Self, CommandError> {
        let folder = new_folder()?;
        let shop = Self { repo: folder.join("shop"), state: folder.join("state"), folder };
        for (name, text) in FILES {
            write(&shop.repo.join(name), text)?;
        }
        let who = ["-c", "user.name=demo", "-c", "user.email=demo@localhost"];
        shop.git(cx, &["init", "--quiet", "--initial-branch=main"]).await?;
        shop.git(cx, &["add", "--all"]).await?;
        shop.git(cx, &[&who[..], &["commit", "--quiet", "--message", "A shop with a bug"]].concat()).await?;
        Ok(shop)
    }

    async fn git(&self, cx: &CommandContext, words: &[&str]) -> Result<(), CommandError> {
        let home = self.folder.join("home");
        fs::create_dir_all(&home).map_err(|error| failed("make", &home, &error))?;
        let mut spawn = SpawnRequest::new("git", &self.repo, TreeCookie::new("lw-demo"));
        spawn.args = words.iter().map(Into::into).collect();
        spawn.env = base_env(&home, &home, &cx.extra_path(None));
        let ended = ProcessRunner::new(Seam::none()).run(spawn, &mut (), &CancelToken::new(), |_| ()).await;
        let ended = ended.map_err(|error| CommandError::failed(error_chain(&error)).hint("the demo needs git"))?;
        match ended.how {
            RunEnd::Exited(0) => Ok(()),
            _ => {
                Err(CommandError::failed(format!("git {}: {}", words.join(" "), ended.stderr.to_lossy_string().trim())))
            }
        }
    }
}

/// A new folder with its own name; an old demo is never reused.
fn new_folder() -> Result<PathBuf, CommandError> {
    let base = std::env::temp_dir();
    let name = |try_number: u32| base.join(format!("loopwright-demo-{}-{try_number}", std::process::id()));
    for path in (1..100).map(name) {
        match fs::create_dir(&path) {
            Ok(()) => return Ok(path),
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(failed("make", &path, &error)),
        }
    }
    Err(CommandError::failed(format!("no free name for a demo in {}", base.display()))
        .hint("remove old loopwright-demo folders"))
}

fn write(path: &Path, text: &str) -> Result<(), CommandError> {
    let folder = path.parent().unwrap_or(path);
    fs::create_dir_all(folder).map_err(|error| failed("make", folder, &error))?;
    fs::write(path, text).map_err(|error| failed("write", path, &error))
}

fn failed(what: &str, path: &Path, error: &std::io::Error) -> CommandError {
    CommandError::failed(format!("{what} {}: {error}", path.display()))
}
