//! A printer's line to somebody else: what a command says while it runs in another process than the one it was typed in.
//! Only what goes in at one end and comes out at the other; the connection itself is `control`'s.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use tokio::sync::mpsc;

/// What is on its way at most before lines beside the answer are left out: a reader that stands still must not make us grow.
const QUEUED_MAX: usize = 4 << 20;

/// Something that was said, and on which stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum OutputChunk {
    /// Of the answer.
    Out(String),
    /// Beside the answer.
    Err(String),
}

impl OutputChunk {
    fn len(&self) -> usize {
        match self {
            Self::Out(text) | Self::Err(text) => text.len(),
        }
    }
}

/// What the streams at the other end are.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct StreamInfo {
    /// Standard output is a terminal.
    pub(crate) out_is_terminal: bool,
    /// Standard error is a terminal.
    pub(crate) err_is_terminal: bool,
    /// How many characters a line of the terminal has; none where there is no terminal.
    pub(crate) width: Option<u16>,
}

/// The end at which is spoken.
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

/// The end at which is heard.
#[derive(Debug)]
pub(crate) struct OutputReceiver {
    receiver: mpsc::UnboundedReceiver<OutputChunk>,
    queue: Arc<Queue>,
}

impl OutputSender {
    /// A line, and the end at which it is heard.
    pub(crate) fn new(streams: StreamInfo) -> (Self, OutputReceiver) {
        let (sender, receiver) = mpsc::unbounded_channel();
        let queue = Arc::<Queue>::default();
        (Self { streams, sender, queue: Arc::clone(&queue) }, OutputReceiver { receiver, queue })
    }

    /// Says it. An answer is never left out; what is beside it is, while too much is on its way.
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
    /// The next that was said; nothing when everybody who could say something is gone.
    pub(crate) async fn next(&mut self) -> Option<OutputChunk> {
        let left_out = match self.queue.bytes.load(Ordering::Relaxed) {
            0 => self.queue.left_out.swap(0, Ordering::Relaxed),
            _ => 0,
        };
        if left_out > 0 {
            return Some(OutputChunk::Err(format!("… {left_out} lines were left out: nobody read them in time\n")));
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
    async fn a_reader_that_stands_still_loses_lines_beside_the_answer_and_is_told_how_many() {
        let (line, mut heard) = OutputSender::new(StreamInfo::default());
        let big = "x".repeat(QUEUED_MAX + 1);
        line.send(OutputChunk::Err(big)).expect("it is heard");
        line.send(OutputChunk::Err("lost\n".to_owned())).expect("it is heard");
        line.send(OutputChunk::Out("answer\n".to_owned())).expect("it is heard");
        assert!(matches!(heard.next().await, Some(OutputChunk::Err(text)) if text.len() > QUEUED_MAX));
        assert_eq!(heard.next().await, Some(OutputChunk::Out("answer\n".to_owned())));
        assert!(matches!(heard.next().await, Some(OutputChunk::Err(text)) if text.starts_with("… 1 lines")));
        drop(line);
        assert_eq!(heard.next().await, None);
    }
}
