//! Unusual and endless output: bytes are kept as they are, memory stays constant, a flood is ended.

mod common;

use common::{ended, limited, python, sh};
use loopwright_sandbox::{CancelToken, OutputStream, OutputWatch, RunEnd, WatchFlow, run};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// Counts the bytes that a watcher receives.
#[derive(Default)]
struct Count(u64);

impl OutputWatch for Count {
    fn chunk(&mut self, _: OutputStream, bytes: &[u8]) -> WatchFlow {
        self.0 += bytes.len() as u64;
        WatchFlow::Continue
    }
}

fn memory_peak_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("own status");
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).expect("peak of resident memory");
    line.split_ascii_whitespace().nth(1).and_then(|kib| kib.parse().ok()).expect("a number")
}

#[tokio::test]
async fn invalid_text_and_nul_bytes_are_kept_as_they_were() {
    let end = ended(python(r"import os; os.write(1, b'\xff\x00\xed\xa0\x80\x1b[2J\r\n')")).await;
    assert_eq!(end.stdout.complete_bytes().as_deref(), Some(b"\xff\x00\xed\xa0\x80\x1b[2J\r\n".as_slice()));
    assert!(end.stdout.to_lossy_string().starts_with('\u{fffd}'));
}

#[tokio::test]
async fn gigabyte_of_output_is_read_in_constant_memory() {
    ended(sh("head -c 1000000 /dev/zero")).await;
    let before = memory_peak_kib();
    let spawn = limited(sh("head -c 1073741824 /dev/zero; echo end"), |limits| limits.output_max = 2 << 30);
    let mut count = Count::default();
    let end = run(spawn, &mut count, &CancelToken::new(), |_| ()).await.expect("sh starts");
    assert_eq!((end.how, end.stdout.total, count.0), (RunEnd::Exited(0), (1 << 30) + 4, (1 << 30) + 4));
    assert!(end.stdout.truncated() && end.stdout.tail.ends_with(b"end\n"));
    let grown = memory_peak_kib() - before;
    assert!(grown < 8 << 10, "memory grew by {grown} KiB");
}

#[tokio::test]
async fn flood_is_ended_and_the_watcher_sees_exactly_the_limit() {
    let spawn = limited(sh("yes"), |limits| limits.output_max = 1_000_001);
    let mut count = Count::default();
    let end = run(spawn, &mut count, &CancelToken::new(), |_| ()).await.expect("sh starts");
    assert_eq!((end.how, count.0), (RunEnd::Flood, 1_000_001));
    assert!(end.stdout.truncated());
}

/// Counts the chunks, and those before which nothing else of the task had a turn.
struct Turns<'c> {
    chunks: u32,
    late: u32,
    turns: &'c AtomicU32,
}

impl OutputWatch for Turns<'_> {
    fn chunk(&mut self, _: OutputStream, _: &[u8]) -> WatchFlow {
        self.chunks += 1;
        if self.turns.swap(0, Ordering::Relaxed) == 0 {
            self.late += 1;
        }
        WatchFlow::Continue
    }
}

#[tokio::test]
async fn flood_leaves_time_for_the_other_futures_of_its_task_after_each_chunk() {
    let turns = AtomicU32::new(0);
    let spawn = limited(sh("yes"), |limits| limits.output_max = 32 << 20);
    let mut watch = Turns { chunks: 0, late: 0, turns: &turns };
    let token = CancelToken::new();
    let others = async {
        loop {
            turns.fetch_add(1, Ordering::Relaxed);
            tokio::task::yield_now().await;
        }
    };
    let end = tokio::select! {
        biased;
        () = others => unreachable!("it never ends"),
        end = run(spawn, &mut watch, &token, |_| ()) => end.expect("sh starts"),
    };
    assert_eq!(end.how, RunEnd::Flood);
    assert!(watch.late <= 1, "{} of {} chunks came without a turn for the other future", watch.late, watch.chunks);
}

#[tokio::test]
async fn output_of_exactly_the_limit_is_not_a_flood() {
    let end = ended(limited(sh("head -c 5000 /dev/zero"), |limits| limits.output_max = 5000)).await;
    assert_eq!((end.how, end.stdout.total), (RunEnd::Exited(0), 5000));
}

#[tokio::test]
async fn flood_does_not_hide_the_wall_limit() {
    let spawn = limited(sh("yes"), |limits| {
        limits.output_max = u64::MAX;
        limits.wall = Some(Duration::from_millis(200));
    });
    assert_eq!(ended(spawn).await.how, RunEnd::Wall);
}

#[tokio::test]
async fn flood_that_also_ignores_term_is_killed() {
    let spawn = limited(sh("trap '' TERM; while :; do echo xxxxxxxxxxxxxxxxxxxxxxx; done"), |limits| {
        limits.output_max = 10_000;
        limits.grace = Duration::from_millis(100);
    });
    let end = ended(spawn).await;
    assert_eq!((end.how, end.term_ignored), (RunEnd::Flood, true));
}
