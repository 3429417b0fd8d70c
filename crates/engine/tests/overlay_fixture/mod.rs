//! Runs a shell in a workspace's files as a maker runs: in the launcher's sandbox, with the files at `/workspace`.
#![allow(dead_code, reason = "each test program uses a part of it")]

use std::time::Duration;

use loopwright::proc::{
    CancelToken, Confinement, MountSource, ProcessRunner, RunEnd, RunLimits, SpawnRequest, TreeCookie,
};
use loopwright::seam::Seam;
use loopwright::workspace::CheckoutFiles;

/// The output of a script in a checkout. It uses a thread of its own, because tests call it in the middle of
/// assertions.
pub(crate) fn inside(files: &CheckoutFiles, script: &str) -> String {
    let spawn = maker(files, script);
    let run = move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(ProcessRunner::new(Seam::none()).run(spawn, &mut (), &CancelToken::new(), |_| ())).unwrap()
    };
    let ended = std::thread::spawn(run).join().unwrap();
    assert_eq!(ended.how, RunEnd::Exited(0), "{script}: {}", String::from_utf8_lossy(&ended.stderr.head));
    String::from_utf8(ended.stdout.head).unwrap()
}

fn maker(files: &CheckoutFiles, script: &str) -> SpawnRequest {
    let mut confine = Confinement::default();
    confine.mount("/workspace", files.writable());
    confine.mount("/tmp", MountSource::Memory(16 << 20));
    let mut spawn = SpawnRequest::new("/bin/sh", "/workspace", TreeCookie::new("overlay-test"));
    spawn.args = ["-c".into(), script.into()].into();
    let env = [("PATH", "/usr/local/bin:/usr/bin:/bin"), ("HOME", "/nonexistent"), ("GIT_CONFIG_NOSYSTEM", "1")];
    spawn.env = env.into_iter().map(|(name, value)| (name.into(), value.into())).collect();
    spawn.limits = RunLimits { wall: Some(Duration::from_secs(60)), ..RunLimits::default() };
    spawn.confine = Some(confine);
    spawn
}

/// Every file, folder and link outside `.git` with its kind, target, content and executable bit.
pub(crate) fn look(files: &CheckoutFiles) -> String {
    inside(
        files,
        r"find . -mindepth 1 -path ./.git -prune -o -mindepth 1 -printf '%y %p %l\n' | LC_ALL=C sort
          find . -path ./.git -prune -o -type f -print0 | LC_ALL=C sort -z | xargs -0r sha1sum
          find . -path ./.git -prune -o -type f -perm -u+x -print | LC_ALL=C sort",
    )
}
