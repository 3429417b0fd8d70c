//! The kernel's events about folders, as a future. It does not know the purpose of the folders.

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
use rustix::io::Errno;
use std::ffi::OsString;
use std::io;
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use tokio::net::unix::pipe;

/// An event in a watched folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FolderEvent {
    /// The watch.
    pub(super) wd: i32,
    /// The kind of event.
    pub(super) what: FolderEventKind,
    /// The name in the folder.
    pub(super) name: OsString,
    /// Whether the name is a folder.
    pub(super) is_dir: bool,
    /// Whether it was moved away: its watch, and those below it, stay active.
    pub(super) is_moved: bool,
}

/// The kinds of events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FolderEventKind {
    /// A new name; a file may not have its content yet.
    Made,
    /// A file was written, or something was moved in.
    There,
    /// Something was deleted or moved away.
    Gone,
    /// The folder itself was deleted or moved.
    Left,
    /// The watch has ended, with its folder.
    Ended,
    /// Events were lost.
    Overflow,
}

/// Why a folder is not watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WatchFailure {
    /// It does not exist, is not a folder, or is not readable.
    Absent,
    /// The kernel's limit of watches is reached.
    Full,
}

/// The bytes of one read: some hundred events.
const BUFFER: usize = 32 << 10;
/// The most events taken at a time; the others wait in the kernel.
const TAKE: usize = 4096;

/// One queue for all watches of the process: queues are scarce (128 a user), watches are not.
///
/// The runtime treats it as a pipe: a descriptor that becomes readable.
pub(super) struct Inotify(pipe::Receiver);

impl Inotify {
    pub(super) fn open() -> io::Result<Self> {
        let fd = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)?;
        Ok(Self(pipe::Receiver::from_owned_fd_unchecked(fd)?))
    }

    /// Watches a folder; a folder that is already watched keeps its number.
    pub(super) fn watch(&self, dir: &Path) -> Result<i32, WatchFailure> {
        // A file counts when its writer closes it, so that a long write is one event.
        let mask = WatchFlags::CLOSE_WRITE
            | WatchFlags::CREATE
            | WatchFlags::DELETE
            | WatchFlags::MOVE
            | WatchFlags::DELETE_SELF
            | WatchFlags::MOVE_SELF
            | WatchFlags::ONLYDIR
            | WatchFlags::DONT_FOLLOW
            | WatchFlags::EXCL_UNLINK;
        inotify::add_watch(&self.0, dir, mask).map_err(|error| match error {
            Errno::NOSPC | Errno::NOMEM => WatchFailure::Full,
            _ => WatchFailure::Absent,
        })
    }

    pub(super) fn forget(&self, wd: i32) {
        // It may have ended by itself.
        let _ = inotify::remove_watch(&self.0, wd);
    }

    /// The next events. No event is lost when the future is dropped.
    pub(super) async fn news(&self) -> io::Result<Vec<FolderEvent>> {
        loop {
            self.0.readable().await?;
            match self.0.try_io(|| self.take()) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                news => return news,
            }
        }
    }

    /// The available events, up to a bound; "would block" only if there are none.
    fn take(&self) -> io::Result<Vec<FolderEvent>> {
        let mut buffer = vec![MaybeUninit::uninit(); BUFFER];
        let mut reader = Reader::new(&self.0, &mut buffer);
        let mut all = Vec::new();
        // Events in the reader's buffer are lost when it is dropped, so it is dropped only when empty.
        while all.len() < TAKE || !reader.is_buffer_empty() {
            match reader.next() {
                Ok(event) => all.push(seen(&event)),
                Err(Errno::AGAIN) if all.is_empty() => return Err(Errno::AGAIN.into()),
                Err(Errno::AGAIN) => break,
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(all)
    }
}

fn seen(event: &inotify::Event<'_>) -> FolderEvent {
    let flags = event.events();
    let what = if flags.contains(ReadFlags::QUEUE_OVERFLOW) {
        FolderEventKind::Overflow
    } else if flags.contains(ReadFlags::IGNORED) {
        FolderEventKind::Ended
    } else if flags.intersects(ReadFlags::DELETE_SELF | ReadFlags::MOVE_SELF) {
        FolderEventKind::Left
    } else if flags.intersects(ReadFlags::DELETE | ReadFlags::MOVED_FROM) {
        FolderEventKind::Gone
    } else if flags.contains(ReadFlags::CREATE) {
        FolderEventKind::Made
    } else {
        FolderEventKind::There
    };
    let name = event.file_name().map(|name| std::ffi::OsStr::from_bytes(name.to_bytes()).to_owned());
    let (is_dir, is_moved) = (flags.contains(ReadFlags::ISDIR), flags.contains(ReadFlags::MOVED_FROM));
    FolderEvent { wd: event.wd(), what, name: name.unwrap_or_default(), is_dir, is_moved }
}
