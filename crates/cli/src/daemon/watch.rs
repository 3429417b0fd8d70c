//! Watches what a daemon reads: the `.loopwright/` folders of its repositories, the user's configuration, and the file that
//! stops everything. A burst of changes is one piece of news, and nothing wakes up while nothing changes.

use crate::context::Context;
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
use rustix::io::Errno;
use std::collections::HashMap;
use std::io;
use std::mem::MaybeUninit;
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
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Use {
    Files,
    /// Only what is called so counts.
    Named(&'static str),
    State,
}

/// The watch.
pub(super) struct Watch {
    /// None when the kernel tells nothing any more.
    news: Option<Receiver>,
    folders: HashMap<i32, Use>,
}

impl Watch {
    /// Watches nothing yet.
    pub(super) fn new() -> io::Result<Self> {
        let queue = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)?;
        // To the runtime it is what a pipe is: a descriptor that becomes readable.
        Ok(Self { news: Some(Receiver::from_owned_fd_unchecked(queue)?), folders: HashMap::new() })
    }

    /// Hears nothing.
    pub(super) fn deaf() -> Self {
        Self { news: None, folders: HashMap::new() }
    }

    /// Watches these working copies, the user's configuration and the state directory. What is watched already stays so; a
    /// folder that is not there is seen when it comes, by way of the one around it.
    pub(super) fn set(&mut self, cx: &Context, work_trees: &[PathBuf]) {
        for tree in work_trees {
            self.add(tree, Use::Named(".loopwright"));
            for folder in ["", "loops", "prompts", "skills"] {
                self.add(&tree.join(".loopwright").join(folder), Use::Files);
            }
        }
        let config = cx.env.config.as_ref().map(|named| cx.env.cwd.join(named)).or_else(|| cx.env.user_config());
        if let Some(folder) = config.as_deref().and_then(Path::parent) {
            self.add(folder, Use::Named("config.yaml"));
        }
        if let Ok((state, _)) = cx.state_dir() {
            self.add(&state, Use::State);
        }
    }

    fn add(&mut self, folder: &Path, meant: Use) {
        let mask = WatchFlags::CLOSE_WRITE | WatchFlags::CREATE | WatchFlags::DELETE | WatchFlags::MOVE;
        let mask = mask | WatchFlags::ONLYDIR | WatchFlags::EXCL_UNLINK;
        let Some(news) = &self.news else { return };
        if let Ok(number) = inotify::add_watch(news, folder, mask) {
            self.folders.insert(number, meant);
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
        match self.folders.get(&number) {
            Some(Use::Files) => Changed { files: true, ..Changed::default() },
            Some(Use::Named(meant)) => Changed { files: name == Some(meant.as_bytes()), ..Changed::default() },
            Some(Use::State) => Changed { state: name == Some(b"STOP"), ..Changed::default() },
            None => Changed::default(),
        }
    }
}

impl Changed {
    fn and(self, other: Self) -> Self {
        Self { files: self.files || other.files, state: self.state || other.state }
    }
}
