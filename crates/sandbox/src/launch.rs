//! The one call that creates a process: posix_spawn into a new session. Nothing else is in this file.
//!
//! posix_spawn and not fork: no code of this program runs between fork and exec, which in a threaded program is a
//! source of deadlocks. A new session and not only a group: the child has no terminal to prompt on or to be stopped by,
//! and no process of the tree can ever return into the engine's session or group, so that membership is decidable.

use std::ffi::{CString, OsStr, OsString};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr;

/// The three standard streams of the child.
pub(crate) struct ChildStreams {
    /// `None` is `/dev/null`.
    pub(crate) stdin: Option<OwnedFd>,
    pub(crate) stdout: OwnedFd,
    pub(crate) stderr: OwnedFd,
    /// Further descriptors and their numbers in the child. They are above all those numbers.
    pub(crate) further: Vec<(OwnedFd, RawFd)>,
}

/// All arguments in C form, prepared before the call.
pub(crate) struct PreparedLaunch {
    program: CString,
    args: Vec<CString>,
    env: Vec<CString>,
    cwd: CString,
}

impl PreparedLaunch {
    pub(crate) fn new<'a>(
        program: &Path,
        args: &[OsString],
        env: impl Iterator<Item = (&'a OsStr, &'a OsStr)>,
        cwd: &Path,
    ) -> io::Result<Self> {
        let program = c_string(program.as_os_str())?;
        let mut argv = vec![program.clone()];
        for arg in args {
            argv.push(c_string(arg)?);
        }
        let env = env.map(|(name, value)| env_pair(name, value)).collect::<io::Result<_>>()?;
        Ok(Self { program, args: argv, env, cwd: c_string(cwd.as_os_str())? })
    }

    /// Starts the process and returns its pid; the caller must reap it.
    pub(crate) fn launch(&self, streams: &ChildStreams) -> io::Result<u32> {
        let actions = self.actions(streams)?;
        let attributes = Attributes::new()?;
        let (argv, envp) = (pointers(&self.args), pointers(&self.env));
        let mut pid = 0;
        // SAFETY: every pointer is to a live, initialised object; argv and envp end with a null pointer and point to
        // NUL-terminated strings that `self` owns and that do not change during the call.
        let code = unsafe {
            libc::posix_spawn(&mut pid, self.program.as_ptr(), &actions.0, &attributes.0, argv.as_ptr(), envp.as_ptr())
        };
        check(code)?;
        u32::try_from(pid).map_err(io::Error::other)
    }

    fn actions(&self, streams: &ChildStreams) -> io::Result<FileActions> {
        let mut actions = FileActions::new()?;
        match &streams.stdin {
            Some(stdin) => actions.dup(stdin.as_raw_fd(), 0)?,
            None => actions.open_null(0)?,
        }
        actions.dup(streams.stdout.as_raw_fd(), 1)?;
        actions.dup(streams.stderr.as_raw_fd(), 2)?;
        for (fd, number) in &streams.further {
            actions.dup(fd.as_raw_fd(), *number)?;
        }
        actions.chdir(&self.cwd)?;
        Ok(actions)
    }
}

struct FileActions(libc::posix_spawn_file_actions_t);

impl FileActions {
    fn new() -> io::Result<Self> {
        let mut raw = MaybeUninit::uninit();
        // SAFETY: init writes the whole object when it returns 0, which `check` ensures.
        unsafe {
            check(libc::posix_spawn_file_actions_init(raw.as_mut_ptr()))?;
            Ok(Self(raw.assume_init()))
        }
    }

    fn dup(&mut self, from: RawFd, to: RawFd) -> io::Result<()> {
        // SAFETY: the object was initialised by `new`.
        check(unsafe { libc::posix_spawn_file_actions_adddup2(&mut self.0, from, to) })
    }

    fn open_null(&mut self, fd: RawFd) -> io::Result<()> {
        // SAFETY: the object was initialised by `new`; the path is a static NUL-terminated string.
        check(unsafe {
            libc::posix_spawn_file_actions_addopen(&mut self.0, fd, c"/dev/null".as_ptr(), libc::O_RDONLY, 0)
        })
    }

    fn chdir(&mut self, dir: &CString) -> io::Result<()> {
        // SAFETY: the object was initialised by `new`; the call copies the path.
        check(unsafe { libc::posix_spawn_file_actions_addchdir_np(&mut self.0, dir.as_ptr()) })
    }
}

impl Drop for FileActions {
    fn drop(&mut self) {
        // SAFETY: the object was initialised by `new` and is destroyed once.
        unsafe { libc::posix_spawn_file_actions_destroy(&mut self.0) };
    }
}

struct Attributes(libc::posix_spawnattr_t);

impl Attributes {
    /// A new session, no blocked signals, and default handling of all of them: ignored signals are otherwise inherited,
    /// and Rust ignores SIGPIPE, which makes `yes | head` run forever.
    fn new() -> io::Result<Self> {
        let flags = libc::POSIX_SPAWN_SETSID
            | libc::POSIX_SPAWN_SETSIGMASK as libc::c_short
            | libc::POSIX_SPAWN_SETSIGDEF as libc::c_short;
        let mut raw = MaybeUninit::uninit();
        // SAFETY: init writes the whole object when it returns 0; the sets are initialised by their own init.
        unsafe {
            check(libc::posix_spawnattr_init(raw.as_mut_ptr()))?;
            let mut new = Self(raw.assume_init());
            check(libc::posix_spawnattr_setflags(&mut new.0, flags))?;
            check(libc::posix_spawnattr_setsigmask(&mut new.0, &empty_set()))?;
            check(libc::posix_spawnattr_setsigdefault(&mut new.0, &ordinary_signals()))?;
            Ok(new)
        }
    }
}

impl Drop for Attributes {
    fn drop(&mut self) {
        // SAFETY: the object was initialised by `new` and is destroyed once.
        unsafe { libc::posix_spawnattr_destroy(&mut self.0) };
    }
}

fn empty_set() -> libc::sigset_t {
    let mut set = MaybeUninit::uninit();
    // SAFETY: sigemptyset initialises the set and cannot fail for a valid pointer.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        set.assume_init()
    }
}

fn ordinary_signals() -> libc::sigset_t {
    let mut set = empty_set();
    for signal in (1..32).filter(|signal| ![libc::SIGKILL, libc::SIGSTOP].contains(signal)) {
        // SAFETY: the set is initialised and the number is a valid signal.
        unsafe { libc::sigaddset(&mut set, signal) };
    }
    set
}

fn pointers(strings: &[CString]) -> Vec<*mut libc::c_char> {
    strings.iter().map(|string| string.as_ptr().cast_mut()).chain([ptr::null_mut()]).collect()
}

pub(crate) fn env_pair(name: &OsStr, value: &OsStr) -> io::Result<CString> {
    if name.is_empty() || name.as_bytes().contains(&b'=') {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("bad variable name {name:?}")));
    }
    c_string(&OsString::from_iter([name, OsStr::new("="), value]))
}

pub(crate) fn c_string(text: &OsStr) -> io::Result<CString> {
    CString::new(text.as_bytes()).map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))
}

fn check(code: libc::c_int) -> io::Result<()> {
    if code == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(code)) }
}
