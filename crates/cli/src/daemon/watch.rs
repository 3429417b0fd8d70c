//! Watches what a daemon reads: the `.loopwright/` folders of its repositories, the user's configuration, and the file that
//! stops everything. A burst of changes is one piece of news, and nothing wakes up while nothing changes.

use crate::context::Context;
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
use rustix::io::Errno;
use std::collections::{BTreeSet, HashMap};
use std::ffi::OsString;
use std::io;
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::net::unix::pipe::Receiver;

/// How long nothing must happen before a burst is over: editors write a file in several steps.
const SETTLES: Duration = Duration::from_millis(50);

/// A burst that does not end is news all the same.
const BURST_MAX: u32 = 40;

/// What changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Changed {
    /// Loop files or configuration.
    pub(super) files: bool,
    /// Something in the state directory itself.
    pub(super) state: bool,
}

/// What a watched folder is for.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Use {
    Files,
    /// Only what is called so counts.
    Named(OsString),
    State,
}

/// The watch.
pub(super) struct Watch {
    /// None when the kernel tells nothing any more.
    news: Option<Receiver>,
    /// The kernel has one number for a folder, whatever it is watched for.
    folders: HashMap<i32, Vec<Use>>,
    /// Every working copy there was.
    trees: BTreeSet<PathBuf>,
}

impl Watch {
    /// Watches nothing yet.
    pub(super) fn new() -> io::Result<Self> {
        let queue = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)?;
        // To the runtime it is what a pipe is: a descriptor that becomes readable.
        Ok(Self { news: Some(Receiver::from_owned_fd_unchecked(queue)?), ..Self::deaf() })
    }

    /// Hears nothing.
    pub(super) fn deaf() -> Self {
        Self { news: None, folders: HashMap::new(), trees: BTreeSet::new() }
    }

    /// Watches these working copies, the user's configuration and the state directory. What is watched already stays so; a
    /// folder that is not there is seen when it comes, by way of the one around it.
    pub(super) fn set(&mut self, cx: &Context, work_trees: &[PathBuf]) {
        self.set_trees(work_trees);
        let config = cx.env.config.as_ref().map(|named| cx.env.cwd.join(named)).or_else(|| cx.env.user_config());
        if let Some((folder, name)) = config.as_deref().and_then(|file| Some((file.parent()?, file.file_name()?))) {
            self.add(folder, Use::Named(name.to_owned()));
        }
        if let Ok((state, _)) = cx.state_dir() {
            self.add(&state, Use::State);
        }
    }

    fn set_trees(&mut self, work_trees: &[PathBuf]) {
        self.trees.extend(work_trees.iter().cloned());
        for tree in self.trees.clone() {
            self.add(&tree, Use::Named(".loopwright".into()));
            for folder in ["", "loops", "prompts", "skills"] {
                self.add(&tree.join(".loopwright").join(folder), Use::Files);
            }
            let is_there = work_trees.contains(&tree) && tree.join(".git").exists();
            for (folder, meant) in signs_of_return(&tree) {
                // They are of no interest while it is there: what happens around a working copy is others' business.
                if is_there { self.ignore(&folder, &meant) } else { self.add(&folder, meant) }
            }
        }
    }

    fn add(&mut self, folder: &Path, meant: Use) {
        let Some(number) = self.number(folder) else { return };
        let uses = self.folders.entry(number).or_default();
        if !uses.contains(&meant) {
            uses.push(meant);
        }
    }

    /// The kernel's number of a folder that is watched from now on, if it can be.
    fn number(&self, folder: &Path) -> Option<i32> {
        let mask = WatchFlags::CLOSE_WRITE | WatchFlags::CREATE | WatchFlags::DELETE | WatchFlags::MOVE;
        let mask = mask | WatchFlags::DELETE_SELF | WatchFlags::MOVE_SELF;
        let mask = mask | WatchFlags::ONLYDIR | WatchFlags::EXCL_UNLINK;
        inotify::add_watch(self.news.as_ref()?, folder, mask).ok()
    }

    /// Does not watch a folder for this any more.
    fn ignore(&mut self, folder: &Path, meant: &Use) {
        // Nothing is asked of the kernel for what was never watched.
        if !self.folders.values().any(|uses| uses.contains(meant)) {
            return;
        }
        let Some(number) = self.number(folder) else { return };
        let uses = self.folders.entry(number).or_default();
        uses.retain(|known| known != meant);
        if let (true, Some(news)) = (uses.is_empty(), &self.news) {
            self.folders.remove(&number);
            // It may have ended by itself.
            let _ = inotify::remove_watch(news, number);
        }
    }

    /// Comes back when something changed and the burst of it is over.
    pub(super) async fn changed(&self) -> io::Result<Changed> {
        let mut changed = Changed::default();
        while changed == Changed::default() {
            changed = changed.and(self.burst().await?);
        }
        for _ in 0..BURST_MAX {
            match tokio::time::timeout(SETTLES, self.burst()).await {
                Ok(more) => changed = changed.and(more?),
                Err(_) => break,
            }
        }
        Ok(changed)
    }

    async fn burst(&self) -> io::Result<Changed> {
        let Some(news) = &self.news else { return std::future::pending().await };
        loop {
            news.readable().await?;
            match news.try_io(|| self.take(news)) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                news => return news,
            }
        }
    }

    fn take(&self, news: &Receiver) -> io::Result<Changed> {
        let mut buffer = [MaybeUninit::uninit(); 8 << 10];
        let mut reader = Reader::new(news, &mut buffer);
        let mut changed = None;
        loop {
            match reader.next() {
                Ok(event) => {
                    let of = self.of(event.wd(), event.events(), event.file_name().map(|name| name.to_bytes()));
                    changed = Some(changed.unwrap_or(Changed::default()).and(of));
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return changed.ok_or_else(|| Errno::AGAIN.into()),
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn of(&self, number: i32, what: ReadFlags, name: Option<&[u8]>) -> Changed {
        if what.contains(ReadFlags::QUEUE_OVERFLOW) {
            return Changed { files: true, state: true };
        }
        // A folder that is no longer where it was.
        let left = what.intersects(ReadFlags::DELETE_SELF | ReadFlags::MOVE_SELF);
        let of_use = |meant: &Use| match meant {
            Use::Files => Changed { files: true, ..Changed::default() },
            Use::Named(meant) => Changed { files: left || name == Some(meant.as_bytes()), ..Changed::default() },
            Use::State => Changed { state: name == Some(b"STOP"), ..Changed::default() },
        };
        let uses = self.folders.get(&number).into_iter().flatten();
        uses.map(of_use).fold(Changed::default(), Changed::and)
    }
}

/// Where a working copy that was taken away is seen to come back: by its name, and when git's own folder in it is whole.
fn signs_of_return(tree: &Path) -> Vec<(PathBuf, Use)> {
    let around = tree.parent().zip(tree.file_name());
    let around = around.map(|(folder, name)| (folder.to_owned(), Use::Named(name.to_owned())));
    around.into_iter().chain([(tree.join(".git"), Use::Files)]).collect()
}

impl Changed {
    fn and(self, other: Self) -> Self {
        Self { files: self.files || other.files, state: self.state || other.state }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the watch hears of one deed, to the end of its burst.
    async fn after(watch: &Watch, deed: impl FnOnce()) -> Changed {
        deed();
        let heard = tokio::time::timeout(Duration::from_secs(30), watch.changed()).await;
        heard.expect("something is heard").expect("the kernel tells")
    }

    #[tokio::test]
    async fn a_working_copy_that_is_taken_away_is_seen_to_go_and_to_come_back() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (tree, aside) = (folder.path().join("repo"), folder.path().join("aside"));
        std::fs::create_dir_all(tree.join(".git")).expect("folders can be made");
        let mut watch = Watch::new().expect("the kernel watches");
        watch.set_trees(std::slice::from_ref(&tree));
        let files = Changed { files: true, state: false };
        let gone = after(&watch, || std::fs::rename(&tree, &aside).expect("it can be moved")).await;
        assert_eq!(gone, files);
        watch.set_trees(&[]);
        let back = after(&watch, || std::fs::create_dir(&tree).expect("it can be made")).await;
        assert_eq!(back, files);
        watch.set_trees(&[]);
        std::fs::create_dir(tree.join(".git")).expect("it can be made");
        watch.set_trees(&[]);
        let whole = after(&watch, || std::fs::write(tree.join(".git/HEAD"), "").expect("it can be written")).await;
        assert_eq!(whole, files);
        watch.set_trees(std::slice::from_ref(&tree));
        let watched: Vec<&Use> = watch.folders.values().flatten().collect();
        let own = Use::Named(".loopwright".into());
        assert!(watched.iter().all(|meant| **meant == own), "what is around it is watched no more: {watched:?}");
    }

    #[tokio::test]
    async fn one_folder_may_be_watched_for_several_reasons() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mut watch = Watch::new().expect("the kernel watches");
        watch.add(folder.path(), Use::Named("my.yaml".into()));
        watch.add(folder.path(), Use::State);
        let write = |name: &str| std::fs::write(folder.path().join(name), "").expect("it can be written");
        assert_eq!(after(&watch, || write("my.yaml")).await, Changed { files: true, state: false });
        assert_eq!(after(&watch, || write("STOP")).await, Changed { files: false, state: true });
    }
}
