//! Input for a program while it runs: a bounded queue with a handle for the sender and a pipe for the program.
//!
//! Sending never waits. Unread bytes stay in the queue; when it is full, the sender gets an error. So a program that
//! never reads cannot block the sender.

use crate::spawn::StdinSource;
use rustix::pipe::{PipeFlags, pipe_with};
use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::net::unix::pipe::Sender;
use tokio::sync::Notify;

/// The sender's end of a program's standard input. Clones are the same input. It is for one run, and stays open until
/// it is closed or the run ends.
#[derive(Clone, Debug)]
pub struct StdinFeed {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    queue: Mutex<Queue>,
    news: Notify,
    most: usize,
}

#[derive(Debug, Default)]
struct Queue {
    waiting: VecDeque<u8>,
    last_words: Vec<u8>,
    closed: bool,
}

/// The reason why bytes were not accepted. The queue never accepts a part of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FeedError {
    /// The program has not read the earlier bytes.
    #[error("the program does not read its input")]
    Full,
    /// The program no longer reads, or the input was closed.
    #[error("the program's input is closed")]
    Closed,
}

/// Two feeds are equal if they are the same input.
impl PartialEq for StdinFeed {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }
}

impl Eq for StdinFeed {}

impl StdinFeed {
    /// An input with a queue of at most this many bytes.
    #[must_use]
    pub fn new(most: usize) -> Self {
        Self { shared: Arc::new(Shared { queue: Mutex::default(), news: Notify::new(), most }) }
    }

    /// Appends bytes to the input: all of them, or none and an error.
    pub fn send(&self, bytes: &[u8]) -> Result<(), FeedError> {
        let mut queue = self.queue();
        if queue.closed {
            return Err(FeedError::Closed);
        }
        if queue.waiting.len().saturating_add(bytes.len()) > self.shared.most {
            return Err(FeedError::Full);
        }
        queue.waiting.extend(bytes);
        drop(queue);
        self.shared.news.notify_one();
        Ok(())
    }

    /// Ends the input: the program reads what was sent, then end of file.
    pub fn close(&self) {
        self.queue().closed = true;
        self.shared.news.notify_one();
    }

    /// The final input, sent when the tree is about to be ended for any reason: the program has a short time to act on
    /// it before it receives a signal. The last call counts; empty bytes send nothing.
    pub fn set_final_input(&self, bytes: Vec<u8>) {
        self.queue().last_words = bytes;
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.shared.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Writes a feed into its pipe. Without a feed it waits forever.
pub(crate) struct StdinFeeder {
    open: Option<(StdinFeed, Sender)>,
}

/// The next step of a feeder.
enum Next {
    Write,
    Close,
    Wait,
}

impl StdinFeeder {
    /// The feeder of a program's input, and the program's end; `None` for other kinds of input.
    pub(crate) fn new(stdin: &StdinSource) -> io::Result<(Self, Option<OwnedFd>)> {
        let StdinSource::Feed(feed) = stdin else { return Ok((Self { open: None }, None)) };
        let (theirs, ours) = pipe_with(PipeFlags::CLOEXEC)?;
        Ok((Self { open: Some((feed.clone(), Sender::from_owned_fd(ours)?)) }, Some(theirs)))
    }

    /// Writes the next bytes; waits indefinitely if there are none. Safe to cancel.
    pub(crate) async fn step(&mut self) {
        let Some((feed, pipe)) = &self.open else { return std::future::pending().await };
        match feed.next() {
            Next::Write => {
                // The following write returns the same error.
                drop(pipe.writable().await);
                self.write();
            }
            Next::Close => self.open = None,
            Next::Wait => feed.shared.news.notified().await,
        }
    }

    fn write(&mut self) {
        let Some((feed, pipe)) = &self.open else { return };
        let mut queue = feed.queue();
        match pipe.try_write(queue.waiting.as_slices().0) {
            Ok(written) => drop(queue.waiting.drain(..written)),
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
            Err(_) => {
                *queue = Queue { closed: true, ..Queue::default() };
                drop(queue);
                self.open = None;
            }
        }
    }

    /// Appends the final input to the queue; returns whether there is any and the program may still read it.
    pub(crate) fn queue_final_input(&mut self) -> bool {
        let Some((feed, _)) = &self.open else { return false };
        let mut queue = feed.queue();
        let words = std::mem::take(&mut queue.last_words);
        let any = !words.is_empty() && !queue.closed;
        if any {
            queue.waiting.extend(words);
        }
        queue.closed = true;
        any
    }
}

impl StdinFeed {
    fn next(&self) -> Next {
        let queue = self.queue();
        match (queue.waiting.is_empty(), queue.closed) {
            (false, _) => Next::Write,
            (true, true) => Next::Close,
            (true, false) => Next::Wait,
        }
    }
}

/// When the run ends, later calls of `send` return an error.
impl Drop for StdinFeeder {
    fn drop(&mut self) {
        if let Some((feed, _)) = self.open.take() {
            feed.queue().closed = true;
        }
    }
}
