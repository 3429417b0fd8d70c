//! Passes a child's output to its watcher and into bounded memory. It knows no deadlines.

use crate::capture::{CapturedOutput, OutputCapture};
use crate::run::if_any;
use crate::spawn::RunLimits;
use std::io;
use tokio::net::unix::pipe::Receiver;
use tokio::time::Instant;

/// One of the two output streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputStream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// The request of a watcher after a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WatchFlow {
    /// Continue the run.
    Continue,
    /// End the tree; the run ends as [`RunEnd::Stopped`](crate::RunEnd::Stopped).
    Stop,
    /// The program has finished its work: if it does not exit within [`RunLimits::finish`](crate::RunLimits::finish),
    /// its tree is ended and the run ends as [`RunEnd::Finished`](crate::RunEnd::Finished). `Continue` withdraws this.
    Finish,
}

/// A live observer of the output: logs, usage meters, stream parsers.
pub trait OutputWatch: Send {
    /// Receives the next bytes of one stream, in order; bytes past `output_max` are not passed.
    fn chunk(&mut self, stream: OutputStream, bytes: &[u8]) -> WatchFlow;
}

impl OutputWatch for () {
    fn chunk(&mut self, _: OutputStream, _: &[u8]) -> WatchFlow {
        WatchFlow::Continue
    }
}

/// The largest chunk of one read: the size of a pipe.
const CHUNK: usize = 64 << 10;

pub(crate) struct OutputPump<'w> {
    stdout: Side,
    stderr: Side,
    watch: &'w mut dyn OutputWatch,
    buffer: Box<[u8]>,
    seen: u64,
    output_max: u64,
    /// The time of the last byte.
    pub(crate) last: Instant,
    /// Whether the watcher requested the end.
    pub(crate) stopped: bool,
    /// The time at which the watcher first reported that the program has finished.
    pub(crate) finished: Option<Instant>,
}

struct Side {
    pipe: Option<Receiver>,
    kept: OutputCapture,
}

impl<'w> OutputPump<'w> {
    pub(crate) fn new(stdout: Receiver, stderr: Receiver, limits: &RunLimits, watch: &'w mut dyn OutputWatch) -> Self {
        let side = |pipe| Side { pipe: Some(pipe), kept: OutputCapture::new(limits.keep_head, limits.keep_tail) };
        Self {
            stdout: side(stdout),
            stderr: side(stderr),
            watch,
            buffer: vec![0; CHUNK].into_boxed_slice(),
            seen: 0,
            output_max: limits.output_max,
            last: Instant::now(),
            stopped: false,
            finished: None,
        }
    }

    pub(crate) fn is_flooded(&self) -> bool {
        self.seen > self.output_max
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.stdout.pipe.is_none() && self.stderr.pipe.is_none()
    }

    pub(crate) fn finish(self) -> (CapturedOutput, CapturedOutput) {
        (self.stdout.kept.finish(), self.stderr.kept.finish())
    }

    /// Reads one chunk from any stream that has data; waits indefinitely once both are closed. Safe to cancel.
    pub(crate) async fn step(&mut self) {
        let stream = tokio::select! {
            () = self.stdout.ready() => OutputStream::Stdout,
            () = self.stderr.ready() => OutputStream::Stderr,
        };
        let side = match stream {
            OutputStream::Stdout => &mut self.stdout,
            OutputStream::Stderr => &mut self.stderr,
        };
        let Some(bytes) = side.take(&mut self.buffer) else { return };
        self.last = Instant::now();
        let shown = self.output_max.saturating_sub(self.seen).min(bytes as u64) as usize;
        self.seen += bytes as u64;
        if shown == 0 || self.stopped {
            return;
        }
        match self.watch.chunk(stream, &self.buffer[..shown]) {
            WatchFlow::Continue => self.finished = None,
            WatchFlow::Stop => self.stopped = true,
            WatchFlow::Finish => drop(self.finished.get_or_insert(self.last)),
        }
        // A watcher may need a second for a chunk of short lines. Without this, a flood would run for many chunks before
        // the other futures of the task, such as the one that waits for signals, and the other tasks of the thread.
        tokio::task::yield_now().await;
    }

    /// Reads until both streams are closed.
    pub(crate) async fn until_closed(&mut self) {
        while !self.is_closed() {
            self.step().await;
        }
    }

    /// Keeps reading while the caller waits for something else, so that the child never blocks on a full pipe.
    pub(crate) async fn pump_while<T>(&mut self, wait: impl Future<Output = T>) -> T {
        tokio::pin!(wait);
        loop {
            tokio::select! {
                done = &mut wait => return done,
                () = self.step() => (),
            }
        }
    }
}

impl Side {
    async fn ready(&self) {
        // After an error, the following read returns the same one.
        drop(if_any(self.pipe.as_ref().map(Receiver::readable)).await);
    }

    /// Reads the available bytes; `None` if there were none, or the stream ended.
    fn take(&mut self, buffer: &mut [u8]) -> Option<usize> {
        match self.pipe.as_ref()?.try_read(buffer) {
            Ok(0) => self.pipe = None,
            Ok(bytes) => {
                self.kept.push(&buffer[..bytes]);
                return Some(bytes);
            }
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
            Err(_) => self.pipe = None,
        }
        None
    }
}
