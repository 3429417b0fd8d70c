//! The helper program, embedded at build time and kept in a sealed memory file: nothing to install, and no file on disk
//! that another program could replace. For its work see `launcher/`.

use rustix::fs::{MemfdFlags, SealFlags};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::PathBuf;
use std::sync::OnceLock;

static PROGRAM: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/launcher"));

/// The engine's own descriptors are above those that the helper receives.
const FD_FIRST: i32 = 16;

/// The path that executes the helper, in this process and in its children until they execute a program.
pub(crate) fn path() -> io::Result<PathBuf> {
    static FILE: OnceLock<OwnedFd> = OnceLock::new();
    let file = match FILE.get() {
        Some(file) => file,
        None => {
            let made = executable()?;
            FILE.get_or_init(|| made)
        }
    };
    Ok(PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd())))
}

/// A sealed memory file with these bytes, which no process can change.
pub(crate) fn sealed_memfd(name: &str, bytes: &[u8]) -> io::Result<OwnedFd> {
    seal(rustix::fs::memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?, bytes)
}

fn executable() -> io::Result<OwnedFd> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    // Kernels before 6.3 do not know the flag and need none.
    let file = rustix::fs::memfd_create("loopwright-launcher", flags | MemfdFlags::EXEC)
        .or_else(|_| rustix::fs::memfd_create("loopwright-launcher", flags))?;
    seal(file, PROGRAM)
}

fn seal(file: OwnedFd, bytes: &[u8]) -> io::Result<OwnedFd> {
    let mut file = File::from(file);
    file.write_all(bytes)?;
    rustix::fs::fcntl_add_seals(&file, SealFlags::WRITE | SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL)?;
    io::Seek::rewind(&mut file)?;
    dup_above_reserved(&file)
}

/// A copy of a descriptor above those that the helper receives, so that passing one does not overwrite another.
pub(crate) fn dup_above_reserved(fd: impl AsFd) -> io::Result<OwnedFd> {
    Ok(rustix::io::fcntl_dupfd_cloexec(fd, FD_FIRST)?)
}
