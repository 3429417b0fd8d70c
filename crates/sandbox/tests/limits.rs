//! Reasons to end a program, and their records: real processes, short limits.

mod common;

use common::{OnLine, command, ended, limited, python, sh};
use loopwright_sandbox::{
    CancelToken, FeedError, OutputStream, OutputWatch, RunEnd, SpawnErrorKind, SpawnRequest, StdinFeed, StdinSource,
    TreeCookie, WatchFlow, run,
};
use std::time::Duration;

const SHORT: Duration = Duration::from_millis(150);

#[tokio::test]
async fn program_that_ends_by_itself_keeps_its_code_and_its_streams_apart() {
    let end = ended(sh("echo out; echo err >&2; exit 3")).await;
    assert_eq!((end.how, end.code), (RunEnd::Exited(3), Some(3)));
    assert_eq!((end.stdout.to_lossy_string().as_str(), end.stderr.to_lossy_string().as_str()), ("out\n", "err\n"));
    assert!(!end.leaky && end.killed == 0 && !end.term_ignored && end.unkillable.is_empty());
}

#[tokio::test]
async fn program_that_dies_by_a_signal_reports_the_signal() {
    let end = ended(sh("kill -SEGV $$")).await;
    assert_eq!((end.how, end.code), (RunEnd::Signaled(11), None));
}

#[tokio::test]
async fn silent_program_is_ended_as_idle() {
    let end = ended(limited(sh("sleep 1000"), |limits| limits.idle = Some(SHORT))).await;
    assert_eq!(end.how, RunEnd::Idle);
    assert!(!end.term_ignored && end.wall >= SHORT);
}

#[tokio::test]
async fn chatty_program_is_not_idle_but_reaches_the_wall_limit() {
    let talk = sh("while :; do echo x; sleep 0.01; done");
    let end = ended(limited(talk, |limits| {
        limits.idle = Some(Duration::from_secs(30));
        limits.wall = Some(SHORT);
    }))
    .await;
    assert_eq!(end.how, RunEnd::Wall);
    assert!(end.stdout.total > 0 && end.wall >= SHORT);
}

#[tokio::test]
async fn program_that_ignores_term_is_killed_and_recorded_as_such() {
    let deaf = "import signal, time; signal.signal(15, signal.SIG_IGN); print('deaf', flush=True); time.sleep(1000)";
    let cancel = CancelToken::new();
    let mut when_deaf = OnLine::new(|_: &str| {
        cancel.cancel();
        WatchFlow::Continue
    });
    let spawn = limited(python(deaf), |limits| limits.grace = SHORT);
    let end = run(spawn, &mut when_deaf, &cancel, |_| ()).await.expect("python starts");
    assert_eq!((end.how, end.code), (RunEnd::Cancelled, None));
    assert!(end.term_ignored && end.wall >= SHORT);
}

#[tokio::test]
async fn program_that_handles_term_may_end_in_its_own_way() {
    let tidy = "import signal, sys, time\nsignal.signal(15, lambda *_: sys.exit(7))\nprint('up', flush=True)\ntime.sleep(1000)";
    let cancel = CancelToken::new();
    let mut when_up = OnLine::new(|_: &str| {
        cancel.cancel();
        WatchFlow::Continue
    });
    let end = run(limited(python(tidy), |_| ()), &mut when_up, &cancel, |_| ()).await.expect("python starts");
    assert_eq!((end.how, end.code, end.term_ignored), (RunEnd::Cancelled, Some(7), false));
}

#[tokio::test]
async fn stopped_program_still_receives_term() {
    let cancel = CancelToken::new();
    let mut stopped = OnLine::new(|_: &str| {
        cancel.cancel();
        WatchFlow::Continue
    });
    let spawn = limited(sh("echo up; kill -STOP $$; sleep 1000"), |limits| limits.grace = Duration::from_secs(20));
    let end = run(spawn, &mut stopped, &cancel, |_| ()).await.expect("sh starts");
    assert_eq!((end.how, end.term_ignored), (RunEnd::Cancelled, false));
}

#[tokio::test]
async fn watcher_that_requests_stop_ends_the_run() {
    let mut stop = OnLine::new(|_: &str| WatchFlow::Stop);
    let end = run(limited(sh("echo x; sleep 1000"), |_| ()), &mut stop, &CancelToken::new(), |_| ())
        .await
        .expect("sh starts");
    assert_eq!(end.how, RunEnd::Stopped);
}

#[tokio::test]
async fn run_that_is_cancelled_beforehand_starts_nothing() {
    let cancel = CancelToken::new();
    cancel.cancel();
    let end = run(sh("exit 0"), &mut (), &cancel, |_| panic!("started")).await.expect("no attempt, no error");
    assert_eq!((end.how, end.code), (RunEnd::Cancelled, None));
}

#[tokio::test]
async fn input_reaches_the_program_and_then_ends() {
    let mut spawn = command("cat", &[]);
    spawn.stdin = StdinSource::Bytes(b"a\0b\n".to_vec());
    assert_eq!(ended(spawn).await.stdout.complete_bytes().as_deref(), Some(b"a\0b\n".as_slice()));
}

#[tokio::test]
async fn large_input_to_a_program_that_never_reads_it_does_not_block() {
    let mut spawn = sh("exit 0");
    spawn.stdin = StdinSource::Bytes(vec![b'x'; 10 << 20]);
    assert_eq!(ended(spawn).await.how, RunEnd::Exited(0));
}

/// Answers each line of a program with the next text, and closes its input after the last one.
struct Converse(StdinFeed, Vec<&'static str>);

impl OutputWatch for Converse {
    fn chunk(&mut self, _: OutputStream, _: &[u8]) -> WatchFlow {
        match self.1.pop() {
            Some(text) => self.0.send(text.as_bytes()).expect("the program reads"),
            None => self.0.close(),
        }
        WatchFlow::Continue
    }
}

#[tokio::test]
async fn program_answers_input_while_it_runs_until_its_input_is_closed() {
    let feed = StdinFeed::new(100);
    let mut spawn = sh("echo ready; while read -r line; do echo got $line; done; echo end");
    spawn.stdin = StdinSource::Feed(feed.clone());
    let mut converse = Converse(feed.clone(), vec!["two\n", "one\n"]);
    let end = run(limited(spawn, |_| ()), &mut converse, &CancelToken::new(), |_| ()).await.expect("sh starts");
    assert_eq!((end.how, end.stdout.to_lossy_string().as_str()), (RunEnd::Exited(0), "ready\ngot one\ngot two\nend\n"));
    assert_eq!(feed.send(b"more"), Err(FeedError::Closed));
}

#[tokio::test]
async fn input_beyond_the_queue_limit_is_refused_and_does_not_block() {
    let feed = StdinFeed::new(1 << 20);
    feed.send(&[b'x'; 1 << 20]).expect("there is room");
    assert_eq!(feed.send(b"x"), Err(FeedError::Full));
    let mut spawn = sh("exec sleep 1000");
    spawn.stdin = StdinSource::Feed(feed.clone());
    let end = ended(limited(spawn, |limits| limits.wall = Some(SHORT))).await;
    assert_eq!(end.how, RunEnd::Wall);
    assert_eq!(feed.send(b"x"), Err(FeedError::Closed), "nobody reads it any more");
}

#[tokio::test]
async fn program_that_closes_its_input_continues_without_it() {
    let feed = StdinFeed::new(1 << 20);
    feed.send(&[b'x'; 1 << 20]).expect("there is room");
    let mut spawn = sh("exec 0</dev/null; echo closed");
    spawn.stdin = StdinSource::Feed(feed);
    assert_eq!(ended(spawn).await.how, RunEnd::Exited(0));
}

#[tokio::test]
async fn final_input_arrives_before_the_signal_for_every_kind_of_end() {
    let feed = StdinFeed::new(100);
    feed.set_final_input(b"stop\n".to_vec());
    let mut spawn = sh("trap 'echo signal; exit 1' TERM; echo ready; read -r line; echo got $line; exit 7");
    spawn.stdin = StdinSource::Feed(feed);
    let cancel = CancelToken::new();
    let thrown = cancel.clone();
    let mut watch = OnLine::new(move |_| {
        thrown.cancel();
        WatchFlow::Continue
    });
    let end = run(limited(spawn, |_| ()), &mut watch, &cancel, |_| ()).await.expect("sh starts");
    assert_eq!(
        (end.how, end.code, end.stdout.to_lossy_string().as_str()),
        (RunEnd::Cancelled, Some(7), "ready\ngot stop\n")
    );
}

#[tokio::test]
async fn program_without_input_reads_the_end_at_once() {
    assert_eq!(ended(command("cat", &[])).await.how, RunEnd::Exited(0));
}

#[tokio::test]
async fn environment_is_only_the_given_one_and_the_cookie() {
    let mut spawn = command("env", &[]);
    spawn.cookie = TreeCookie::from_recorded("recorded".to_owned());
    let text = ended(spawn).await.stdout.to_lossy_string();
    assert_eq!(text, "LOOPWRIGHT_COOKIE=recorded\nPATH=/usr/local/bin:/usr/bin:/bin\n");
}

#[tokio::test]
async fn program_has_a_session_of_its_own_and_no_terminal() {
    let end = ended(sh("cut -d' ' -f1,5,6 /proc/$$/stat; : </dev/tty")).await;
    let ids = common::numbers(&end.stdout.to_lossy_string());
    assert!(ids.len() == 3 && ids.iter().all(|id| *id == ids[0]), "pid, group and session differ: {ids:?}");
    assert!(end.stderr.to_lossy_string().contains("/dev/tty"), "{:?}", end.stderr);
}

#[tokio::test]
async fn broken_pipe_ends_a_writer_as_it_does_in_a_shell() {
    assert_eq!(ended(sh("yes | head -n 1")).await.stdout.to_lossy_string(), "y\n");
}

#[tokio::test]
async fn programs_that_cannot_start_report_the_reason() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let plain = dir.path().join("plain");
    std::fs::write(&plain, "no program").expect("write");
    let cookie = || TreeCookie::new("test");
    let cases = [
        (SpawnRequest::new("/no/such/program", "/", cookie()), SpawnErrorKind::NotFound, "/no/such/program"),
        (command("no-such-program", &[]), SpawnErrorKind::NotFound, "no-such-program"),
        (SpawnRequest::new(&plain, "/", cookie()), SpawnErrorKind::NotExecutable, "plain"),
        (SpawnRequest::new(dir.path(), "/", cookie()), SpawnErrorKind::NotExecutable, "start"),
        (SpawnRequest::new("/bin/sh", "/no/such/folder", cookie()), SpawnErrorKind::Cwd, "/no/such/folder"),
        (command("sh", &["nul\0byte"]), SpawnErrorKind::Other, "sh"),
    ];
    for (spawn, kind, part) in cases {
        let error = run(spawn, &mut (), &CancelToken::new(), |_| panic!("started")).await.expect_err("cannot start");
        assert_eq!(error.kind, kind, "{error}");
        assert!(error.to_string().contains(part), "{error}");
    }
}

#[tokio::test]
async fn finished_program_that_does_not_exit_is_ended_as_finished() {
    let mut done = OnLine::new(|_: &str| WatchFlow::Finish);
    let spawn = limited(sh("echo done; sleep 1000 & wait"), |limits| limits.finish = SHORT);
    let end = run(spawn, &mut done, &CancelToken::new(), |_| ()).await.expect("sh starts");
    assert_eq!(end.how, RunEnd::Finished);
    assert!(end.wall >= SHORT && !end.leaky && end.unkillable.is_empty());
}

#[tokio::test]
async fn program_that_continues_after_it_was_reported_finished_is_not_ended() {
    let mut said = OnLine::new(|_: &str| WatchFlow::Finish);
    let spawn = limited(sh("echo done; sleep 0.05; echo no; sleep 0.3; exit 4"), |limits| limits.finish = SHORT);
    let end = run(spawn, &mut said, &CancelToken::new(), |_| ()).await.expect("sh starts");
    assert_eq!(end.how, RunEnd::Exited(4));
}

#[tokio::test]
async fn finished_program_that_exits_keeps_its_own_end_and_its_last_output() {
    let mut done = OnLine::new(|_: &str| WatchFlow::Finish);
    let spawn =
        limited(sh("echo done; sleep 0.05; echo more; exit 4"), |limits| limits.finish = Duration::from_secs(30));
    let end = run(spawn, &mut done, &CancelToken::new(), |_| ()).await.expect("sh starts");
    assert_eq!((end.how, end.code), (RunEnd::Exited(4), Some(4)));
    assert_eq!(end.stdout.to_lossy_string(), "done\nmore\n");
}
