//! Workspaces alone: commands create, change, seal, view and remove them, each timed and with the number of processes
//! it started.

use loopwright::git::{CommitMetadata, Git, Oid};
use loopwright::proc::{CancelToken, Confinement, ProcessRunner, RunEnd, SpawnRequest, TreeCookie};
use loopwright::seam::{Seam, SeamFault, SeamHook, SeamMoment};
use loopwright::workspace::{
    CheckoutFiles, CheckoutMethod, SealLimits, SnapshotKind, Workspace, WorkspaceOptions, Workspaces,
};
use serde_json::{Value, json};
use std::error::Error;
use std::io::{BufRead as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// Counts processes of git.
#[derive(Default)]
struct Count(AtomicU64);

impl SeamHook for Count {
    fn hit(&self, moment: SeamMoment, _: &'static str) -> Result<(), SeamFault> {
        if moment == SeamMoment::Before {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }
}

struct Session {
    all: Workspaces,
    base: Oid,
    count: Arc<Count>,
    now: Option<(Workspace, Oid)>,
    made: u64,
}

/// Runs commands: `overlay`, `copy` (create a workspace), `run` (a program in it), `change`, `seal`, `view`, `discard`.
pub(crate) async fn serve(state: &Path, repo: &Path) -> Result<(), Box<dyn Error>> {
    let count = Arc::new(Count::default());
    let git = Git::new(Seam::hooked(Arc::clone(&count) as Arc<dyn SeamHook>));
    let repo = git.discover(repo).await?;
    let base = git.head(&repo, None).await?.commit;
    let all = Workspaces::open(git, state, repo).await?;
    let mut session = Session { all, base, count, now: None, made: 0 };
    for line in std::io::stdin().lock().lines() {
        println!("{}", session.obey(&line?).await?);
        std::io::stdout().flush()?;
    }
    Ok(())
}

impl Session {
    async fn obey(&mut self, order: &str) -> Result<Value, Box<dyn Error>> {
        let (processes, cpu, begun) = (self.count.0.load(Ordering::Relaxed), cpu_ticks(), Instant::now());
        match order {
            "overlay" => self.make(&CheckoutMethod::Overlay.into()).await?,
            "copy" => self.make(&CheckoutMethod::Copy.into()).await?,
            "run" => run(&self.workspace()?.0.files).await?,
            "change" => change(&self.workspace()?.0.dir)?,
            "seal" => self.seal().await?,
            "view" => {
                let (workspace, commit) = self.workspace()?;
                self.all.snapshot(workspace, "gate", commit, SnapshotKind::WithGit, &[]).await?;
            }
            "discard" => self.all.discard(&format!("r{}", self.made)).await?,
            other => return Err(format!("unknown order `{other}`").into()),
        }
        let nanos = u64::try_from(begun.elapsed().as_nanos())?;
        let processes = self.count.0.load(Ordering::Relaxed) - processes;
        Ok(json!({ "nanos": nanos, "processes": processes, "ticks": cpu_ticks() - cpu }))
    }

    fn workspace(&self) -> Result<&(Workspace, Oid), Box<dyn Error>> {
        self.now.as_ref().ok_or_else(|| "there is no workspace yet".into())
    }

    async fn make(&mut self, making: &WorkspaceOptions) -> Result<(), Box<dyn Error>> {
        self.made += 1;
        let made = self.all.create("bench", &format!("r{}", self.made), &self.base, making).await?;
        self.now = Some((made, self.base.clone()));
        Ok(())
    }

    async fn seal(&mut self) -> Result<(), Box<dyn Error>> {
        let words = CommitMetadata {
            message: "bench".to_owned(),
            name: "Bench".to_owned(),
            email: "bench@example.invalid".to_owned(),
            at_unix: 1_700_000_000,
        };
        let (workspace, commit) = self.now.as_mut().ok_or("there is no workspace yet")?;
        let sealed = self.all.seal(workspace, &words, SealLimits::default()).await?;
        if sealed.changes.len() != 10 {
            return Err(format!("{} changes were sealed", sealed.changes.len()).into());
        }
        *commit = sealed.commit;
        Ok(())
    }
}

/// Adds a line to ten files, whether they are already copied up or come from the lower layer.
fn change(dir: &Path) -> std::io::Result<()> {
    for number in 0..10 {
        let path = dir.join(format!("d000/f{number:05}.txt"));
        std::fs::create_dir_all(path.parent().unwrap_or(dir))?;
        std::fs::OpenOptions::new().create(true).append(true).open(path)?.write_all(b"more\n")?;
    }
    Ok(())
}

/// Runs a program that does nothing, in the sandbox with the files in place.
async fn run(files: &CheckoutFiles) -> Result<(), Box<dyn Error>> {
    let mut confine = Confinement::default();
    confine.mount("/workspace", files.writable());
    let mut spawn = SpawnRequest::new(PathBuf::from("/bin/true"), "/workspace", TreeCookie::new("bench"));
    spawn.confine = Some(confine);
    let ended = ProcessRunner::new(Seam::none()).run(spawn, &mut (), &CancelToken::new(), |_| ()).await?;
    if ended.how == RunEnd::Exited(0) { Ok(()) } else { Err(format!("{:?}", ended.how).into()) }
}

/// Processor time of this process and its ended children, in kernel ticks of 10 ms.
fn cpu_ticks() -> u64 {
    let text = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let after = text.rsplit_once(") ").map_or("", |(_, rest)| rest);
    after.split(' ').skip(11).take(4).filter_map(|word| word.parse::<u64>().ok()).sum()
}
