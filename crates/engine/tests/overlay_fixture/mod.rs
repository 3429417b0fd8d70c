//! Runs a shell in a workspace's files as a maker is run: behind the launcher's walls, with the files at `/workspace`.
#![allow(dead_code, reason = "each test program uses a part of it")]

use std::time::Duration;

use loopwright::proc::{Cancel, Confine, Cookie, How, Limits, Proc, Spawn, What};
use loopwright::seam::Seam;
use loopwright::workspace::Files;

/// What a script prints in a checkout. A thread of its own, because tests ask in the middle of assertions.
pub(crate) fn inside(files: &Files, script: &str) -> String {
    let spawn = maker(files, script);
    let run = move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(Proc::new(Seam::none()).run(spawn, &mut (), &Cancel::new(), |_| ())).unwrap()
    };
    let ended = std::thread::spawn(run).join().unwrap();
    assert_eq!(ended.how, How::Exited(0), "{script}: {}", String::from_utf8_lossy(&ended.stderr.head));
    String::from_utf8(ended.stdout.head).unwrap()
}

fn maker(files: &Files, script: &str) -> Spawn {
    let mut confine = Confine::default();
    confine.mount("/workspace", files.writable());
    confine.mount("/tmp", What::Memory(16 << 20));
    let mut spawn = Spawn::new("/bin/sh", "/workspace", Cookie::new("overlay-test"));
    spawn.args = ["-c".into(), script.into()].into();
    let env = [("PATH", "/usr/local/bin:/usr/bin:/bin"), ("HOME", "/nonexistent"), ("GIT_CONFIG_NOSYSTEM", "1")];
    spawn.env = env.into_iter().map(|(name, value)| (name.into(), value.into())).collect();
    spawn.limits = Limits { wall: Some(Duration::from_secs(60)), ..Limits::default() };
    spawn.confine = Some(confine);
    spawn
}

/// Every file, folder and link outside `.git` with its kind, target, content and executable bit.
pub(crate) fn look(files: &Files) -> String {
    inside(
        files,
        r"find . -mindepth 1 -path ./.git -prune -o -mindepth 1 -printf '%y %p %l\n' | LC_ALL=C sort
          find . -path ./.git -prune -o -type f -print0 | LC_ALL=C sort -z | xargs -0r sha1sum
          find . -path ./.git -prune -o -type f -perm -u+x -print | LC_ALL=C sort",
    )
}
