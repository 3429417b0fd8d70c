//! Trees that try to outlive their run, by accident and on purpose. Afterwards no process of them is left.

mod common;

use common::{FORKS, OnLine, command, ended, folder, limited, numbers, python, runs, sh, survivor, until};
use loopwright_sandbox::{CancelToken, ProgramTrust, RunEnd, TreeCookie, WatchFlow, leftovers, run};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Prints its pid, and keeps running.
const NUMBER: &str = r#"os.write(1, b"%d\n" % os.getpid()); silence(); time.sleep(1000)"#;

#[tokio::test]
async fn background_child_is_dead_when_the_run_returns() {
    let end = ended(sh("sleep 1000 >/dev/null 2>&1 & echo $!")).await;
    let pid = numbers(&end.stdout.to_lossy_string())[0];
    assert_eq!((end.how, end.killed, runs(pid)), (RunEnd::Exited(0), 1, false));
    assert!(!end.leaky);
}

#[tokio::test]
async fn trusted_program_that_leaves_an_orphan_after_all_is_ended_with_it() {
    let mut spawn = sh("echo $( (env -i setsid sh -c 'echo $$; exec sleep 1000 >/dev/null 2>&1' &) )");
    spawn.trust = ProgramTrust::Ours;
    let end = ended(spawn).await;
    let pid = numbers(&end.stdout.to_lossy_string())[0];
    assert_eq!((end.how, end.killed, runs(pid)), (RunEnd::Exited(0), 1, false));
}

#[tokio::test]
async fn orphan_in_its_own_session_with_a_cleared_environment_is_dead() {
    let end = ended(sh("echo $( (env -i setsid sh -c 'echo $$; exec sleep 1000 >/dev/null 2>&1' &) )")).await;
    let pid = numbers(&end.stdout.to_lossy_string())[0];
    assert_eq!((end.how, end.killed, runs(pid)), (RunEnd::Exited(0), 1, false));
}

#[tokio::test]
async fn hostile_survivor_is_dead_after_a_cancelled_run_too() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let cancel = CancelToken::new();
    let mut up = OnLine::new(|text: &str| {
        *seen.lock().expect("no panic before") = numbers(text);
        cancel.cancel();
        WatchFlow::Continue
    });
    let script = survivor(NUMBER) + "\ntime.sleep(1000)";
    let spawn = limited(python(&script), |limits| limits.grace = Duration::from_millis(100));
    let end = run(spawn, &mut up, &cancel, |_| ()).await.expect("python starts");
    let pid = seen.lock().expect("no panic before")[0];
    assert_eq!((end.how, end.term_ignored, runs(pid)), (RunEnd::Cancelled, true, false));
}

#[tokio::test]
async fn grandchild_that_holds_the_pipes_makes_the_run_leaky_and_not_endless() {
    let spawn = limited(sh("sleep 1000 & echo $!"), |limits| limits.drain = Duration::from_millis(100));
    let end = ended(spawn).await;
    let pid = numbers(&end.stdout.to_lossy_string())[0];
    assert_eq!((end.how, end.leaky, end.killed, runs(pid)), (RunEnd::Exited(0), true, 1, false));
    assert!(end.wall < Duration::from_secs(20));
}

#[tokio::test]
async fn output_of_a_child_after_the_end_is_read_until_the_drain_ends() {
    let late = sh("(sleep 0.1; echo late) & exit 0");
    let end = ended(limited(late, |limits| limits.drain = Duration::from_secs(30))).await;
    assert_eq!((end.stdout.to_lossy_string().as_str(), end.leaky), ("late\n", false));
}

#[tokio::test]
async fn program_that_forks_without_end_is_killed_to_the_last() {
    let mut go = OnLine::new(|_: &str| WatchFlow::Stop);
    let mut spawn = limited(python(FORKS), |limits| {
        limits.grace = Duration::from_millis(50);
    });
    spawn.cookie = TreeCookie::new("forks");
    let end = run(spawn.clone(), &mut go, &CancelToken::new(), |_| ()).await.expect("python starts");
    assert_eq!((end.how, end.unkillable.len()), (RunEnd::Stopped, 0));
    assert_eq!(leftovers(spawn.cookie.as_str()), []);
}

#[tokio::test]
async fn process_that_forks_repeatedly_to_escape_is_caught() {
    // Twenty thousand forks take longer than the kill's time limit, and end by themselves if the test fails.
    for session in ["", "os.setsid()"] {
        let hop = format!(
            "import os\nprint('go', flush=True)\nos.close(1); os.close(2)\nfor i in range(20000):\n  if os.fork(): os._exit(0)\n  {session}"
        );
        let mut spawn = limited(python(&hop), |limits| limits.drain = Duration::from_millis(50));
        spawn.cookie = TreeCookie::new("hops");
        let end = ended(spawn.clone()).await;
        assert_eq!((end.how, end.unkillable.len()), (RunEnd::Exited(0), 0), "{session}");
        assert_eq!(leftovers(spawn.cookie.as_str()), [], "{session}");
    }
}

#[tokio::test]
async fn two_runs_do_not_end_each_others_orphans() {
    let daemon = "(setsid sh -c 'echo $$; exec sleep 1000 >/dev/null 2>&1' &) ; sleep 1000";
    let cancel = CancelToken::new();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let long = tokio::spawn({
        let (cancel, seen) = (cancel.clone(), seen.clone());
        async move {
            let mut up = OnLine::new(|text: &str| {
                *seen.lock().expect("no panic before") = numbers(text);
                WatchFlow::Continue
            });
            run(limited(sh(daemon), |_| ()), &mut up, &cancel, |_| ()).await.expect("sh starts")
        }
    });
    until("the daemon of the long run is up", || !seen.lock().expect("no panic before").is_empty()).await;
    let pid = seen.lock().expect("no panic before")[0];
    let short = ended(sh("sleep 1000 >/dev/null 2>&1 & exit 0")).await;
    assert_eq!((short.killed, runs(pid)), (1, true), "the short run ended its own child and no other");
    cancel.cancel();
    let long = long.await.expect("no panic in the long run");
    assert_eq!((long.how, runs(pid)), (RunEnd::Cancelled, false));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_runs_do_not_affect_each_other() {
    let one = |index: i32| ended(sh(&format!("sleep 1000 >/dev/null 2>&1 & exit {index}")));
    let all: Vec<_> = (0..24).map(|index| tokio::spawn(one(index))).collect();
    for (index, run) in (0..).zip(all) {
        let end = run.await.expect("no panic");
        assert_eq!((end.how, end.killed), (RunEnd::Exited(index), 1));
    }
}

#[tokio::test]
async fn children_started_without_this_crate_are_not_touched() {
    #[expect(clippy::disallowed_methods, reason = "the test needs a child that this crate did not start")]
    let mut own = std::process::Command::new("sleep").arg("1000").spawn().expect("sleep starts");
    ended(sh("sleep 1000 >/dev/null 2>&1 & exit 0")).await;
    assert!(own.try_wait().expect("still ours to wait for").is_none());
    own.kill().expect("ours to kill");
    own.wait().expect("ours to wait for");
}

#[tokio::test]
async fn dropped_run_kills_its_tree_at_once() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let cookie = TreeCookie::new("dropped");
    let cancel = CancelToken::new();
    {
        let mut up = OnLine::new(|text: &str| {
            *seen.lock().expect("no panic before") = numbers(text);
            WatchFlow::Continue
        });
        let mut spawn = limited(sh("setsid sh -c 'trap \"\" TERM; echo $$; sleep 1000; :' & sleep 1000"), |_| ());
        spawn.cookie = cookie.clone();
        let running = run(spawn, &mut up, &cancel, |_| ());
        tokio::pin!(running);
        tokio::select! {
            _ = &mut running => panic!("ended by itself"),
            () = until("the survivor is up", || !seen.lock().expect("no panic before").is_empty()) => (),
        }
    }
    assert!(!runs(seen.lock().expect("no panic before")[0]));
    assert_eq!(leftovers(cookie.as_str()), []);
}

#[tokio::test]
async fn orphans_that_end_during_a_long_run_are_reaped_during_it() {
    let zombies = || {
        let us = std::process::id().to_string();
        let stats = std::fs::read_dir("/proc").expect("proc").flatten();
        let texts = stats.filter_map(|item| std::fs::read_to_string(item.path().join("stat")).ok());
        texts
            .filter(|stat| stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with(&format!("Z {us} "))))
            .count()
    };
    let script = "for i in $(seq 200); do (setsid true &); done; while :; do (setsid true &); sleep 0.1; done";
    let cancel = CancelToken::new();
    let long = tokio::spawn({
        let cancel = cancel.clone();
        async move { run(limited(sh(script), |_| ()), &mut (), &cancel, |_| ()).await.expect("sh starts") }
    });
    until("two hundred orphans have ended", || zombies() > 100).await;
    until("they are collected", || zombies() < 50).await;
    cancel.cancel();
    assert_eq!(long.await.expect("no panic").how, RunEnd::Cancelled);
    assert_eq!(zombies(), 0);
}

#[tokio::test]
async fn busy_program_file_is_retried() {
    let dir = folder();
    let program = dir.path().join("busy");
    std::fs::copy("/bin/true", &program).expect("copy");
    let writer = std::fs::OpenOptions::new().append(true).open(&program).expect("open for writing");
    let path = program.to_str().expect("plain name").to_owned();
    let running = tokio::spawn(async move { ended(command(&path, &[])).await });
    tokio::task::yield_now().await;
    drop(writer);
    assert_eq!(running.await.expect("no panic").how, RunEnd::Exited(0));
}
