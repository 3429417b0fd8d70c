//! Confined trees that try to outlive their run, by accident and on purpose. Afterwards no process of them is left.

mod common;

use common::{FORKS, OnLine, ended, folder, limited, python, runs, sh, survivor, until, walled};
use loopwright_sandbox::{CancelToken, RunEnd, TreeCookie, WatchFlow, leftovers, run};
use std::fs;
use std::time::Duration;

/// A survivor that writes as long as it lives, and a program that waits for its first output.
fn beating() -> String {
    let beat =
        "os.write(1, b'up\\n'); silence()\nwhile True:\n  open('/workspace/beat', 'a').write('x'); time.sleep(0.01)";
    survivor(beat) + "\nwhile not os.path.exists('/workspace/beat'): time.sleep(0.01)"
}

/// How much the survivor has written. Its file is empty for a moment after it is created.
fn beats(dir: &std::path::Path) -> u64 {
    fs::metadata(dir.join("beat")).map_or(0, |data| data.len())
}

/// The test cannot find the host's processes by their working directory in this folder. So the survivor writes, and
/// silence afterwards proves its end.
async fn is_silent(dir: &std::path::Path) -> bool {
    let size = || beats(dir);
    let before = size();
    let end = limited(sh("sleep 0.1"), |_| ());
    ended(end).await;
    before > 0 && size() == before
}

#[tokio::test]
async fn survivor_is_dead_when_the_program_ends_by_itself() {
    let dir = folder();
    let end = ended(walled(python(&beating()), dir.path(), |_| ())).await;
    assert_eq!((end.how, end.killed, end.leaky), (RunEnd::Exited(0), 1, false));
    assert!(is_silent(dir.path()).await);
}

#[tokio::test]
async fn survivor_is_dead_after_cancel_and_after_the_deadline() {
    for by_wall in [false, true] {
        let dir = folder();
        let cancel = CancelToken::new();
        let mut up = OnLine::new(|_: &str| {
            if !by_wall {
                cancel.cancel();
            }
            WatchFlow::Continue
        });
        let mut spawn = walled(python(&(beating() + "\ntime.sleep(1000)")), dir.path(), |_| ());
        spawn = limited(spawn, |limits| {
            limits.grace = Duration::from_millis(200);
            if by_wall {
                limits.wall = Some(Duration::from_secs(2));
            }
        });
        spawn.cookie = TreeCookie::new("cut");
        let cookie = spawn.cookie.clone();
        let end = run(spawn, &mut up, &cancel, |_| ()).await.expect("python starts");
        let how = if by_wall { RunEnd::Wall } else { RunEnd::Cancelled };
        assert_eq!((end.how, end.term_ignored, end.unkillable.len()), (how, true, 0));
        assert!(is_silent(dir.path()).await);
        assert_eq!(leftovers(cookie.as_str()), []);
    }
}

#[tokio::test]
async fn program_that_handles_term_may_end_in_its_own_way_and_a_stopped_one_is_continued() {
    let dir = folder();
    let tidy = "import signal, sys, time\nsignal.signal(15, lambda *_: sys.exit(7))\nprint('up', flush=True)\ntime.sleep(1000)";
    for (spawn, code) in [(python(tidy), Some(7)), (sh("echo up; kill -STOP $$; sleep 1000"), None)] {
        let cancel = CancelToken::new();
        let mut up = OnLine::new(|_: &str| {
            cancel.cancel();
            WatchFlow::Continue
        });
        let spawn = limited(walled(spawn, dir.path(), |_| ()), |limits| limits.grace = Duration::from_secs(20));
        let end = run(spawn, &mut up, &cancel, |_| ()).await.expect("it starts");
        assert_eq!((end.how, end.code, end.term_ignored), (RunEnd::Cancelled, code, false));
    }
}

#[tokio::test]
async fn grandchild_that_holds_the_pipes_makes_the_run_leaky_and_not_endless() {
    let dir = folder();
    let spawn = walled(sh("sleep 1000 & exit 3"), dir.path(), |_| ());
    let end = ended(limited(spawn, |limits| limits.drain = Duration::from_millis(100))).await;
    assert_eq!((end.how, end.leaky, end.killed), (RunEnd::Exited(3), true, 1));
    assert!(end.wall < Duration::from_secs(20));
}

#[tokio::test]
async fn output_of_a_child_after_the_end_is_read_until_the_drain_ends() {
    let dir = folder();
    let spawn = walled(sh("(sleep 0.1; echo late) & exit 0"), dir.path(), |_| ());
    let end = ended(limited(spawn, |limits| limits.drain = Duration::from_secs(30))).await;
    assert_eq!((end.stdout.to_lossy_string().as_str(), end.leaky), ("late\n", false));
}

#[tokio::test]
async fn program_that_forks_without_end_is_killed_to_the_last() {
    let dir = folder();
    let mut go = OnLine::new(|_: &str| WatchFlow::Stop);
    let mut spawn =
        limited(walled(python(FORKS), dir.path(), |_| ()), |limits| limits.grace = Duration::from_millis(50));
    spawn.cookie = TreeCookie::new("forks");
    let end = run(spawn.clone(), &mut go, &CancelToken::new(), |_| ()).await.expect("python starts");
    assert_eq!((end.how, end.unkillable.len()), (RunEnd::Stopped, 0));
    assert_eq!(leftovers(spawn.cookie.as_str()), []);
}

#[tokio::test]
async fn dropped_run_kills_its_tree_at_once() {
    let dir = folder();
    let cookie = TreeCookie::new("dropped");
    let cancel = CancelToken::new();
    {
        let mut spawn = limited(walled(python(&(beating() + "\ntime.sleep(1000)")), dir.path(), |_| ()), |_| ());
        spawn.cookie = cookie.clone();
        let mut nobody = ();
        let running = run(spawn, &mut nobody, &cancel, |_| ());
        tokio::pin!(running);
        tokio::select! {
            end = &mut running => panic!("ended by itself: {end:?}"),
            () = until("the survivor is up", || beats(dir.path()) > 0) => (),
        }
    }
    until("the killed tree is gone", || leftovers(cookie.as_str()).is_empty()).await;
    assert!(is_silent(dir.path()).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_runs_do_not_affect_each_other() {
    let dir = folder();
    let one = |index: i32| ended(walled(sh(&format!("sleep 1000 >/dev/null 2>&1 & exit {index}")), dir.path(), |_| ()));
    let all: Vec<_> = (0..16).map(|index| tokio::spawn(one(index))).collect();
    for (index, run) in (0..).zip(all) {
        let end = run.await.expect("no panic");
        assert_eq!((end.how, end.killed), (RunEnd::Exited(index), 1));
    }
}

/// Set in the process that acts as the killed engine.
const PLAY: &str = "LOOPWRIGHT_TEST_ENGINE";

#[tokio::test]
async fn nothing_outlives_an_engine_that_is_killed() {
    #[expect(clippy::disallowed_methods, reason = "the killed engine recognises its role by its environment")]
    if let Some(dir) = std::env::var_os(PLAY) {
        let mut spawn = limited(walled(python(&(beating() + "\ntime.sleep(1000)")), dir.as_ref(), |_| ()), |_| ());
        spawn.cookie = TreeCookie::from_recorded("killed-engine-1".to_owned());
        let _ = run(spawn, &mut (), &CancelToken::new(), |_| ()).await;
        return;
    }
    let dir = folder();
    let name = "nothing_outlives_an_engine_that_is_killed";
    let us = std::env::current_exe().expect("this test program");
    #[expect(clippy::disallowed_methods, reason = "the engine to be killed is a separate process")]
    let mut engine = std::process::Command::new(us)
        .args([name, "--exact", "--nocapture"])
        .env(PLAY, dir.path())
        .stdout(std::process::Stdio::null())
        .spawn()
        .expect("this program starts again");
    until("the survivor is up", || beats(dir.path()) > 0).await;
    assert!(!leftovers("killed-engine-1").is_empty());
    engine.kill().expect("ours to kill");
    engine.wait().expect("ours to wait for");
    until("everybody is gone", || leftovers("killed-engine-1").is_empty()).await;
    assert!(is_silent(dir.path()).await);
    assert!(!runs(engine.id()));
}
