//! Watches a checker's sink while its processes run: a verdict counts only if it was written once. Code of the
//! candidate runs in the checker's sandbox when the checker starts it, and can write there at any moment. This module
//! does not read the verdict.

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
use rustix::io::Errno;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::Path;

/// Everything that can change the content behind a name. A mapping of a file in memory shows when it ends, as the end
/// of a descriptor for writing.
const CHANGES: WatchFlags = WatchFlags::MODIFY
    .union(WatchFlags::CLOSE_WRITE)
    .union(WatchFlags::CREATE)
    .union(WatchFlags::DELETE)
    .union(WatchFlags::MOVE)
    .union(WatchFlags::DELETE_SELF)
    .union(WatchFlags::MOVE_SELF)
    .union(WatchFlags::ONLYDIR)
    .union(WatchFlags::DONT_FOLLOW);

/// The bytes of one read: some hundred events.
const BUFFER: usize = 16 << 10;

/// How often a verdict was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SinkWrites {
    /// At most once: its content is what the first writer left.
    Once,
    /// Something changed the folder after the first whole verdict, or so much happened that the order is unknown.
    Repeated,
}

/// A watch on the folder of one sink.
pub(super) struct SinkWatch {
    queue: OwnedFd,
    name: Box<[u8]>,
}

impl SinkWatch {
    /// Starts to watch the folder of a verdict file, before the checker starts.
    pub(super) fn start(verdict: &Path) -> io::Result<Self> {
        let (Some(folder), Some(name)) = (verdict.parent(), verdict.file_name()) else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        let queue = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)?;
        inotify::add_watch(&queue, folder, CHANGES)?;
        Ok(Self { queue, name: name.as_encoded_bytes().into() })
    }

    /// The answer, once no process of the checker exists any more.
    pub(super) fn finish(self) -> io::Result<SinkWrites> {
        let mut buffer = vec![MaybeUninit::uninit(); BUFFER];
        let mut reader = Reader::new(&self.queue, &mut buffer);
        let mut seen = WriteOrder::default();
        loop {
            match reader.next() {
                Ok(event) => {
                    let is_verdict = event.file_name().is_some_and(|name| name.to_bytes() == &*self.name);
                    seen.add(event.events(), is_verdict);
                }
                Err(Errno::AGAIN) => return Ok(seen.answer),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// The events of a sink in their order.
#[derive(Debug)]
struct WriteOrder {
    has_text: bool,
    is_whole: bool,
    answer: SinkWrites,
}

impl Default for WriteOrder {
    fn default() -> Self {
        Self { has_text: false, is_whole: false, answer: SinkWrites::Once }
    }
}

impl WriteOrder {
    /// A verdict is whole when a writer that wrote something closes it, or when a whole file takes its name. A program
    /// may create it empty first.
    fn add(&mut self, event: ReadFlags, is_verdict: bool) {
        let lost = ReadFlags::QUEUE_OVERFLOW | ReadFlags::DELETE_SELF | ReadFlags::MOVE_SELF;
        if self.is_whole || event.intersects(lost) {
            self.answer = SinkWrites::Repeated;
        }
        self.has_text |= event.contains(ReadFlags::MODIFY);
        let is_closed = event.contains(ReadFlags::CLOSE_WRITE) && self.has_text;
        self.is_whole |= is_verdict && (is_closed || event.contains(ReadFlags::MOVED_TO));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::io::Write as _;

    fn watched(writes: impl FnOnce(&Path)) -> SinkWrites {
        let folder = tempfile::tempdir().expect("a folder");
        let watch = SinkWatch::start(&folder.path().join("verdict.json")).expect("a watch");
        writes(folder.path());
        watch.finish().expect("the kernel's events")
    }

    #[test]
    fn verdict_that_is_written_once_counts() {
        let once: [fn(&Path); 5] = [
            |_| {},
            |sink| fs::write(sink.join("verdict.json"), "no").expect("a verdict"),
            |sink| {
                fs::write(sink.join("verdict.tmp"), "no").expect("a draft");
                fs::rename(sink.join("verdict.tmp"), sink.join("verdict.json")).expect("a verdict");
            },
            |sink| {
                let mut file = fs::File::create(sink.join("verdict.json")).expect("an empty file");
                ["n", "o"].into_iter().for_each(|part| file.write_all(part.as_bytes()).expect("a part"));
            },
            |sink| {
                fs::File::create(sink.join("verdict.json")).expect("an empty file");
                fs::write(sink.join("verdict.json"), "no").expect("a verdict");
                fs::read(sink.join("verdict.json")).expect("a reader changes nothing");
            },
        ];
        for (at, writes) in once.into_iter().enumerate() {
            assert_eq!(watched(writes), SinkWrites::Once, "case {at}");
        }
    }

    #[test]
    fn verdict_that_is_written_again_in_any_way_does_not_count() {
        let again: [fn(&Path); 6] = [
            |sink| fs::write(sink.join("verdict.json"), "yes").expect("a second verdict"),
            |sink| fs::remove_file(sink.join("verdict.json")).expect("no verdict"),
            |sink| {
                fs::write(sink.join("other"), "yes").expect("a file");
                fs::rename(sink.join("other"), sink.join("verdict.json")).expect("a second verdict");
            },
            |sink| {
                fs::hard_link(sink.join("verdict.json"), sink.join("other")).expect("another name");
                fs::write(sink.join("other"), "yes").expect("a second verdict");
            },
            |sink| {
                let mut file = fs::OpenOptions::new().append(true).open(sink.join("verdict.json")).expect("it opens");
                file.write_all(b"yes").expect("a second verdict");
            },
            |sink| {
                let file = fs::OpenOptions::new().write(true).open(sink.join("verdict.json")).expect("it opens");
                file.set_len(1).expect("a shorter verdict");
            },
        ];
        for (at, second) in again.into_iter().enumerate() {
            let writes = watched(|sink| {
                fs::write(sink.join("verdict.json"), "no").expect("the first verdict");
                second(sink);
            });
            assert_eq!(writes, SinkWrites::Repeated, "case {at}");
        }
    }
}
