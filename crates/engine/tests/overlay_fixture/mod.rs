//! Runs a shell in a workspace's files as a maker would be run: in a user and mount namespace with the overlay mounted.
#![allow(dead_code, reason = "each test program uses a part of it")]

use std::path::Path;

use loopwright::workspace::Files;

/// What a script prints in a checkout.
#[expect(clippy::disallowed_methods, reason = "the fixture plays the maker and its launcher")]
pub(crate) fn inside(files: &Files, script: &str) -> String {
    let place = tempfile::tempdir().unwrap();
    let path = |path: &Path| path.display().to_string().replace('\\', "\\\\").replace(':', "\\:");
    let list = |layers: &[std::path::PathBuf]| layers.iter().map(|layer| path(layer)).collect::<Vec<_>>().join(":");
    let options = match files {
        Files::Folder(_) => String::new(),
        Files::Overlay { lower, upper, work } => {
            format!("userxattr,lowerdir={},upperdir={},workdir={}", list(lower), path(upper), path(work))
        }
        Files::Layers(layers) => format!("userxattr,lowerdir={}", list(layers)),
    };
    let mut command = std::process::Command::new("unshare");
    command.args(["-Urm", "sh", "-c"]);
    match files {
        Files::Folder(folder) => command.arg(r#"cd "$0" && eval "$2""#).arg(folder),
        _ => command.arg(r#"mount -t overlay overlay -o "$1" "$0" && cd "$0" && eval "$2""#).arg(place.path()),
    };
    command.arg(options).arg(script);
    command
        .env_clear()
        .env("PATH", "/usr/local/bin:/usr/bin:/bin")
        .env("HOME", "/nonexistent")
        .env("GIT_CONFIG_NOSYSTEM", "1");
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{script}: {said}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Every file, folder and link outside `.git` with its kind, permissions, target and content.
pub(crate) fn look(files: &Files) -> String {
    inside(
        files,
        r"find . -path ./.git -prune -o -mindepth 1 -printf '%y %p %l\n' | LC_ALL=C sort
          find . -path ./.git -prune -o -type f -print0 | LC_ALL=C sort -z | xargs -0r sha1sum
          find . -path ./.git -prune -o -type f -perm -u+x -print | LC_ALL=C sort",
    )
}
