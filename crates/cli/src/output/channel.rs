//! The channel between the printer of a command that runs in the daemon and the process that sent the command. This
//! module has only the two ends; `control` has the connection.

use serde::{Deserialize, Serialize};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use tokio::sync::mpsc;

/// The most bytes in the queue before lines for standard error are dropped: a reader that hangs must not make the queue
/// grow.
const QUEUED_MAX: usize = 4 << 20;

/// A piece of output, and its stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum OutputChunk {
    /// For standard output.
    Out(String),
    /// For standard error.
    Err(String),
}

impl OutputChunk {
    fn len(&self) -> usize {
        match self {
            Self::Out(text) | Self::Err(text) => text.len(),
        }
    }
}

/// The properties of the streams at the other end.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub(crate) struct StreamInfo {
    /// Standard output is a terminal.
    pub(crate) out_is_terminal: bool,
    /// Standard error is a terminal.
    pub(crate) err_is_terminal: bool,
    /// The width of the terminal in characters; `None` without a terminal.
    pub(crate) width: Option<u16>,
}

/// The sending end.
#[derive(Debug, Clone)]
pub(crate) struct OutputSender {
    pub(super) streams: StreamInfo,
    sender: mpsc::UnboundedSender<OutputChunk>,
    queue: Arc<Queue>,
}

#[derive(Debug, Default)]
struct Queue {
    bytes: AtomicUsize,
    left_out: AtomicU64,
}

/// The receiving end.
#[derive(Debug)]
pub(crate) struct OutputReceiver {
    receiver: mpsc::UnboundedReceiver<OutputChunk>,
    queue: Arc<Queue>,
}

impl OutputSender {
    /// A channel: its sending and its receiving end.
    pub(crate) fn new(streams: StreamInfo) -> (Self, OutputReceiver) {
        let (sender, receiver) = mpsc::unbounded_channel();
        let queue = Arc::<Queue>::default();
        (Self { streams, sender, queue: Arc::clone(&queue) }, OutputReceiver { receiver, queue })
    }

    /// Sends a chunk. Standard output is never dropped; standard error is, while the queue is full.
    pub(super) fn send(&self, said: OutputChunk) -> io::Result<()> {
        let is_beside = matches!(said, OutputChunk::Err(_));
        if is_beside && self.queue.bytes.load(Ordering::Relaxed) > QUEUED_MAX {
            self.queue.left_out.fetch_add(1, Ordering::Relaxed);
            return Ok(());
        }
        self.queue.bytes.fetch_add(said.len(), Ordering::Relaxed);
        self.sender.send(said).map_err(|_| io::Error::from(io::ErrorKind::BrokenPipe))
    }
}

impl OutputReceiver {
    /// The next chunk; `None` when all senders are gone.
    pub(crate) async fn next(&mut self) -> Option<OutputChunk> {
        let left_out = match self.queue.bytes.load(Ordering::Relaxed) {
            0 => self.queue.left_out.swap(0, Ordering::Relaxed),
            _ => 0,
        };
        if left_out > 0 {
            return Some(OutputChunk::Err(format!(
                "… {left_out} lines were dropped because they were not read in time\n"
            )));
        }
        let said = self.receiver.recv().await?;
        self.queue.bytes.fetch_sub(said.len(), Ordering::Relaxed);
        Some(said)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_slow_reader_loses_lines_of_standard_error_and_gets_their_count() {
        let (line, mut heard) = OutputSender::new(StreamInfo::default());
        let big = "x".repeat(QUEUED_MAX + 1);
        line.send(OutputChunk::Err(big)).expect("the receiver is open");
        line.send(OutputChunk::Err("lost\n".to_owned())).expect("the receiver is open");
        line.send(OutputChunk::Out("answer\n".to_owned())).expect("the receiver is open");
        assert!(matches!(heard.next().await, Some(OutputChunk::Err(text)) if text.len() > QUEUED_MAX));
        assert_eq!(heard.next().await, Some(OutputChunk::Out("answer\n".to_owned())));
        assert!(matches!(heard.next().await, Some(OutputChunk::Err(text)) if text.starts_with("… 1 lines")));
        drop(line);
        assert_eq!(heard.next().await, None);
    }
}
