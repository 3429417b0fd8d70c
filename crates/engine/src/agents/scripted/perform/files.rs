//! The file verbs of a script. Paths are used as they are: the sandbox decides what is reachable.

use super::{Done, print, variable};
use crate::agents::env;
use std::fs;
use std::io::{Read, Write};
use std::path::Path;
use std::time::Duration;

/// Most bytes that `read` prints.
const READ_MAX: u64 = 1 << 20;

/// The interval and number of checks of `sleep-until`: ten minutes.
const LOOK_EVERY: Duration = Duration::from_millis(5);
const LOOKS_MAX: u32 = 120_000;

fn failed(doing: &str, path: &str) -> impl FnOnce(std::io::Error) -> String {
    let what = format!("{doing} `{path}`");
    move |error| format!("{what}: {error}")
}

fn make_parent(path: &str) -> std::io::Result<()> {
    Path::new(path).parent().map_or(Ok(()), fs::create_dir_all)
}

pub(in super::super) fn write(path: &str, text: &str) -> Done {
    make_parent(path).and_then(|()| fs::write(path, text)).map_err(failed("write", path))
}

pub(super) fn append(path: &str, text: &str) -> Done {
    let open = |()| fs::OpenOptions::new().create(true).append(true).open(path);
    let written = make_parent(path).and_then(open).and_then(|mut file| file.write_all(text.as_bytes()));
    written.map_err(failed("append", path))
}

pub(super) fn replace(path: &str, old: &str, new: &str) -> Done {
    let text = fs::read_to_string(path).map_err(failed("replace in", path))?;
    if old.is_empty() || !text.contains(old) {
        return Err(format!("replace in `{path}`: {old:?} is not there"));
    }
    fs::write(path, text.replace(old, new)).map_err(failed("replace in", path))
}

pub(super) fn delete(path: &str) -> Done {
    let kind = fs::symlink_metadata(path).map_err(failed("delete", path))?;
    let gone = if kind.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
    gone.map_err(failed("delete", path))
}

pub(super) fn symlink(path: &str, target: &str) -> Done {
    let link = |()| std::os::unix::fs::symlink(target, path);
    make_parent(path).and_then(link).map_err(failed("symlink", path))
}

pub(super) fn hardlink(path: &str, target: &str) -> Done {
    make_parent(path).and_then(|()| fs::hard_link(target, path)).map_err(failed("hardlink", path))
}

pub(super) fn fifo(path: &str) -> Done {
    use rustix::fs::{CWD, FileType, Mode, mknodat};
    let make = |()| Ok(mknodat(CWD, path, FileType::Fifo, Mode::from_raw_mode(0o644), 0)?);
    make_parent(path).and_then(make).map_err(failed("fifo", path))
}

pub(super) fn stage(name: &str, text: &str) -> Done {
    let path = variable(env::OUTBOX)?.join(name);
    write(&path.to_string_lossy(), text)
}

pub(super) fn read(path: &str) -> Done {
    let mut bytes = Vec::new();
    let file = fs::File::open(path).and_then(|file| file.take(READ_MAX).read_to_end(&mut bytes));
    match file {
        Ok(_) => print(&bytes),
        Err(error) => print(format!("read {path}: refused: {error}\n").as_bytes()),
    }
}

#[expect(clippy::disallowed_methods, reason = "any process may create the file, so this polls for it")]
pub(super) fn wait_for(path: &str) -> Done {
    for _ in 0..LOOKS_MAX {
        if Path::new(path).exists() {
            return Ok(());
        }
        std::thread::sleep(LOOK_EVERY);
    }
    Err(format!("sleep-until `{path}`: not there after ten minutes"))
}

/// Writes real bytes, because a sparse file takes no disk space.
#[cfg(feature = "hostile")]
pub(in super::super) fn fill(bytes: u64) -> Done {
    const NAME: &str = "filler.bin";
    let mut file = fs::File::create(NAME).map_err(failed("fill", NAME))?;
    let piece = vec![0xA5_u8; 1 << 20];
    let mut left = bytes;
    while left > 0 {
        let now = left.min(piece.len() as u64);
        file.write_all(&piece[..usize::try_from(now).unwrap_or(0)]).map_err(failed("fill", NAME))?;
        left -= now;
    }
    Ok(())
}
