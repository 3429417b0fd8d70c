//! System calls that the standard library does not have, each as a safe function that returns the system's error.
//! Numbers and layouts are those of x86-64 and aarch64.

use std::ffi::{CStr, CString, c_char, c_int, c_long, c_ulong, c_void};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr;

/// System call numbers that differ between architectures.
#[cfg(target_arch = "x86_64")]
mod nr {
    pub const CLONE: i64 = 56;
    pub const CAPSET: i64 = 126;
    pub const PIVOT_ROOT: i64 = 155;
    pub const SECCOMP: i64 = 317;
}
#[cfg(target_arch = "aarch64")]
mod nr {
    pub const CLONE: i64 = 220;
    pub const CAPSET: i64 = 91;
    pub const PIVOT_ROOT: i64 = 41;
    pub const SECCOMP: i64 = 277;
}
/// From 424 on, all architectures share their numbers.
mod common {
    pub const OPEN_TREE: i64 = 428;
    pub const MOVE_MOUNT: i64 = 429;
    pub const CLOSE_RANGE: i64 = 436;
    pub const OPENAT2: i64 = 437;
    pub const MOUNT_SETATTR: i64 = 442;
    pub const LANDLOCK_CREATE_RULESET: i64 = 444;
    pub const LANDLOCK_ADD_RULE: i64 = 445;
    pub const LANDLOCK_RESTRICT_SELF: i64 = 446;
}

unsafe extern "C" {
    fn syscall(number: c_long, ...) -> c_long;
    fn open(path: *const c_char, flags: c_int, ...) -> c_int;
    fn mount(
        source: *const c_char,
        target: *const c_char,
        kind: *const c_char,
        flags: c_ulong,
        data: *const c_void,
    ) -> c_int;
    fn umount2(target: *const c_char, flags: c_int) -> c_int;
    fn unshare(flags: c_int) -> c_int;
    fn prctl(option: c_int, ...) -> c_int;
    fn waitpid(pid: c_int, status: *mut c_int, options: c_int) -> c_int;
    fn kill(pid: c_int, signal: c_int) -> c_int;
    fn getpid() -> c_int;
    fn geteuid() -> u32;
    fn getegid() -> u32;
    fn setsid() -> c_int;
    fn setgroups(count: usize, list: *const u32) -> c_int;
    fn sethostname(name: *const c_char, length: usize) -> c_int;
    fn setrlimit(resource: c_int, limit: *const [u64; 2]) -> c_int;
    fn getrlimit(resource: c_int, limit: *mut [u64; 2]) -> c_int;
    fn sigprocmask(how: c_int, set: *const SigSet, old: *mut SigSet) -> c_int;
    fn signal(number: c_int, handler: usize) -> usize;
    fn poll(fds: *mut PollFd, count: c_ulong, timeout: c_int) -> c_int;
    fn pipe2(fds: *mut [c_int; 2], flags: c_int) -> c_int;
    fn execve(path: *const c_char, argv: *const *const c_char, env: *const *const c_char) -> c_int;
    fn socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int;
    fn ioctl(fd: c_int, request: c_ulong, ...) -> c_int;
    fn umask(mask: u32) -> u32;
    fn _exit(code: c_int) -> !;
}

/// As large as glibc's and musl's.
#[repr(C)]
struct SigSet([u64; 16]);

#[repr(C)]
pub struct PollFd {
    pub fd: c_int,
    pub events: i16,
    pub revents: i16,
}

pub const POLLIN: i16 = 1;

pub const CLONE_NEWNS: c_int = 0x0002_0000;
pub const CLONE_NEWCGROUP: c_int = 0x0200_0000;
pub const CLONE_NEWTIME: c_int = 0x0000_0080;
pub const CLONE_NEWUTS: c_int = 0x0400_0000;
pub const CLONE_NEWIPC: c_int = 0x0800_0000;
pub const CLONE_NEWUSER: c_int = 0x1000_0000;
pub const CLONE_NEWPID: c_int = 0x2000_0000;
pub const CLONE_NEWNET: c_int = 0x4000_0000;
const CLONE_VFORK: u64 = 0x4000;
const CLONE_PIDFD: u64 = 0x1000;
const SIGCHLD: u64 = 17;

pub const SIGKILL: c_int = 9;
pub const MS_NOSUID: c_ulong = 2;
pub const MS_NODEV: c_ulong = 4;
pub const MS_NOEXEC: c_ulong = 8;
pub const MS_REC: c_ulong = 0x4000;
pub const MS_PRIVATE: u64 = 1 << 18;
pub const MS_SLAVE: c_ulong = 1 << 19;
pub const MNT_DETACH: c_int = 2;
pub const ATTR_RDONLY: u64 = 1;
pub const ATTR_NOSUID: u64 = 2;
pub const ATTR_NODEV: u64 = 4;

pub const O_PATH: c_int = 0x0020_0000;
pub const O_CLOEXEC: c_int = 0x0008_0000;
#[cfg(target_arch = "x86_64")]
pub const O_DIRECTORY: c_int = 0x0001_0000;
#[cfg(target_arch = "aarch64")]
pub const O_DIRECTORY: c_int = 0x4000;
const AT_FDCWD: c_int = -100;
const AT_EMPTY_PATH: c_int = 0x1000;
const AT_RECURSIVE: c_int = 0x8000;
const AT_NO_AUTOMOUNT: c_int = 0x800;
const OPEN_TREE_CLONE: c_int = 1;
const MOVE_MOUNT_F_EMPTY_PATH: c_int = 0x4;
const MOVE_MOUNT_T_EMPTY_PATH: c_int = 0x40;
const RESOLVE_NO_SYMLINKS: u64 = 0x04;

pub const ENOENT: i32 = 2;
pub const EACCES: i32 = 13;
pub const ENOTDIR: i32 = 20;
pub const EINVAL: i32 = 22;
pub const ETXTBSY: i32 = 26;
pub const EPERM: i32 = 1;

fn check(result: c_long) -> io::Result<c_long> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

fn done(result: impl Into<c_long>) -> io::Result<()> {
    check(result.into()).map(drop)
}

fn owned(result: c_long) -> io::Result<OwnedFd> {
    let fd = RawFd::try_from(check(result)?).map_err(io::Error::other)?;
    // SAFETY: the kernel just returned this descriptor, and no other code owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

pub fn c_string(bytes: &[u8]) -> io::Result<CString> {
    CString::new(bytes).map_err(|_| io::Error::from_raw_os_error(EINVAL))
}

fn c_path(path: impl AsRef<Path>) -> io::Result<CString> {
    c_string(path.as_ref().as_os_str().as_bytes())
}

pub fn ids() -> (u32, u32) {
    // SAFETY: these calls have no arguments and cannot fail.
    unsafe { (geteuid(), getegid()) }
}

/// Files of the helper and the program are readable by every process that sees them; the engine's own mask does not
/// apply.
pub fn plain_umask() {
    // SAFETY: umask has no pointers and cannot fail.
    unsafe { umask(0o022) };
}

pub fn exit(code: i32) -> ! {
    // SAFETY: ends the process; this program has no exit handlers.
    unsafe { _exit(code) }
}

pub fn enter_namespaces(flags: c_int) -> io::Result<()> {
    // SAFETY: unshare has no pointers; this program has one thread when it is called.
    done(unsafe { unshare(flags) })
}

pub fn drop_groups() {
    // SAFETY: an empty list is not read. Without the privilege the groups stay, as they do for every ordinary user.
    unsafe { setgroups(0, ptr::null()) };
}

/// Forks. The child gets 0; the parent gets the pid and a pidfd of the child.
pub fn fork() -> io::Result<Option<(i32, OwnedFd)>> {
    let mut pidfd: c_int = -1;
    // SAFETY: without CLONE_VM the child has its own copy of everything; one thread, so no lock is held by another.
    let pid = check(unsafe {
        syscall(nr::CLONE, CLONE_PIDFD | SIGCHLD, 0usize, &raw mut pidfd, ptr::null::<c_int>(), 0usize)
    })?;
    if pid == 0 {
        return Ok(None);
    }
    let pid = i32::try_from(pid).map_err(io::Error::other)?;
    Ok(Some((pid, owned(pidfd.into())?)))
}

/// Forks and returns in the parent only after the child executed a program or ended. The child gets 0.
pub fn fork_until_executed() -> io::Result<i32> {
    // SAFETY: as in `fork`; CLONE_VFORK without CLONE_VM only makes the parent wait.
    let pid = check(unsafe {
        syscall(nr::CLONE, CLONE_VFORK | SIGCHLD, 0usize, ptr::null::<c_int>(), ptr::null::<c_int>(), 0usize)
    })?;
    i32::try_from(pid).map_err(io::Error::other)
}

/// The result of a wait.
pub enum WaitStatus {
    Child(i32, i32),
    /// There are children, and no child has ended.
    Nothing,
    NoChildren,
}

pub fn wait_any(patient: bool) -> WaitStatus {
    const WNOHANG: c_int = 1;
    const WALL: c_int = 0x4000_0000;
    wait(-1, if patient { WALL } else { WALL | WNOHANG })
}

pub fn wait_for(pid: i32) -> WaitStatus {
    wait(pid, 0)
}

fn wait(pid: i32, options: c_int) -> WaitStatus {
    const EINTR: i32 = 4;
    loop {
        let mut status = 0;
        // SAFETY: status is a live integer.
        match unsafe { waitpid(pid, &raw mut status, options) } {
            0 => return WaitStatus::Nothing,
            ended if ended > 0 => return WaitStatus::Child(ended, status),
            _ if io::Error::last_os_error().raw_os_error() == Some(EINTR) => {}
            _ => return WaitStatus::NoChildren,
        }
    }
}

pub fn send(pid: i32, number: c_int) {
    // SAFETY: kill has no pointers.
    unsafe { kill(pid, number) };
}

/// Ends this process by a signal, as the program ended.
pub fn die_by(number: c_int) -> ! {
    default_signal(number);
    unblock_signals();
    // SAFETY: both calls have no pointers.
    unsafe { kill(getpid(), number) };
    // A signal that does not end a process by default cannot be a wait status.
    exit(128 + number)
}

fn default_signal(number: c_int) {
    // SAFETY: SIG_DFL is 0; setting it for the two that cannot be changed fails and changes nothing.
    unsafe { signal(number, 0) };
}

pub fn block_signals() {
    set_mask(&SigSet([u64::MAX; 16]));
}

pub fn unblock_signals() {
    set_mask(&SigSet([0; 16]));
}

fn set_mask(set: &SigSet) {
    const SIG_SETMASK: c_int = 2;
    // SAFETY: the set is initialised and at least as large as the libc's.
    unsafe { sigprocmask(SIG_SETMASK, set, ptr::null_mut()) };
}

pub fn await_one(fds: &mut [PollFd]) {
    // SAFETY: pointer and count describe the slice.
    unsafe { poll(fds.as_mut_ptr(), fds.len() as c_ulong, -1) };
}

/// Whether the other end of a pipe is closed.
pub fn is_closed(fd: &OwnedFd) -> bool {
    const POLLHUP: i16 = 0x10;
    let mut one = PollFd { fd: fd.as_raw_fd(), events: 0, revents: 0 };
    // SAFETY: pointer and count describe the one structure; the call does not wait.
    unsafe { poll(&raw mut one, 1, 0) };
    one.revents & POLLHUP != 0
}

pub fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut fds = [-1; 2];
    // SAFETY: the array has room for two descriptors.
    check(unsafe { pipe2(&raw mut fds, O_CLOEXEC) }.into())?;
    Ok((owned(fds[0].into())?, owned(fds[1].into())?))
}

/// Closes all descriptors from `first` on.
pub fn close_from(first: c_int) {
    // SAFETY: called before any descriptor at or above `first` has an owner in this program.
    unsafe { syscall(common::CLOSE_RANGE, first, u32::MAX, 0) };
}

/// Closes the three standard streams, which belong to the program: an open descriptor would keep the pipes from ending.
pub fn close_streams() {
    // SAFETY: nothing in this program owns or uses them.
    unsafe { syscall(common::CLOSE_RANGE, 0, 2, 0) };
}

/// Marks all descriptors from `first` on as close-on-exec.
pub fn close_on_exec_from(first: c_int) -> io::Result<()> {
    const CLOSE_RANGE_CLOEXEC: c_int = 4;
    // SAFETY: only flags change.
    done(unsafe { syscall(common::CLOSE_RANGE, first, u32::MAX, CLOSE_RANGE_CLOEXEC) })
}

pub fn open_path(path: impl AsRef<Path>, flags: c_int) -> io::Result<OwnedFd> {
    let path = c_path(path)?;
    // SAFETY: the path is NUL-terminated and lives through the call.
    owned(unsafe { open(path.as_ptr(), O_PATH | O_CLOEXEC | flags) }.into())
}

/// Opens a path of the new root without following symbolic links.
pub fn open_place(path: &Path) -> io::Result<OwnedFd> {
    let path = c_path(path)?;
    let how: [u64; 3] = [u64::from((O_PATH | O_CLOEXEC).cast_unsigned()), 0, RESOLVE_NO_SYMLINKS];
    // SAFETY: `how` has the layout of open_how (flags, mode, resolve) and its size is given.
    owned(unsafe { syscall(common::OPENAT2, AT_FDCWD, path.as_ptr(), how.as_ptr(), size_of_val(&how)) })
}

/// A private copy of the mounts at a path, not attached yet.
pub fn clone_tree(path: impl AsRef<Path>) -> io::Result<OwnedFd> {
    let path = c_path(path)?;
    let flags = OPEN_TREE_CLONE | O_CLOEXEC | AT_RECURSIVE | AT_NO_AUTOMOUNT;
    // SAFETY: the path is NUL-terminated and lives through the call.
    owned(unsafe { syscall(common::OPEN_TREE, AT_FDCWD, path.as_ptr(), flags) })
}

/// Adds attributes to a mount and everything below it, and isolates it from later mounts of the host.
pub fn restrict_tree(tree: &OwnedFd, attributes: u64) -> io::Result<()> {
    set_attributes(tree.as_raw_fd(), c"", AT_EMPTY_PATH | AT_RECURSIVE, attributes)
}

/// Adds attributes to the one mount at a path.
pub fn restrict_mount(path: &CStr, attributes: u64) -> io::Result<()> {
    set_attributes(AT_FDCWD, path, 0, attributes)
}

fn set_attributes(fd: RawFd, path: &CStr, flags: c_int, attributes: u64) -> io::Result<()> {
    let attr: [u64; 4] = [attributes, 0, MS_PRIVATE, 0];
    // SAFETY: `attr` has the layout of mount_attr (set, clear, propagation, userns_fd) and its size is given.
    done(unsafe { syscall(common::MOUNT_SETATTR, fd, path.as_ptr(), flags, attr.as_ptr(), size_of_val(&attr)) })
}

/// Attaches a cloned tree at an opened path.
pub fn attach(tree: &OwnedFd, place: &OwnedFd) -> io::Result<()> {
    let flags = MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH;
    // SAFETY: both paths are static empty strings.
    done(unsafe { syscall(common::MOVE_MOUNT, tree.as_raw_fd(), c"".as_ptr(), place.as_raw_fd(), c"".as_ptr(), flags) })
}

/// Attaches a cloned tree at a path of the new root that the helper itself created.
pub fn attach_at(tree: &OwnedFd, path: &Path) -> io::Result<()> {
    let path = c_path(path)?;
    // SAFETY: both paths are NUL-terminated and live through the call.
    done(unsafe {
        syscall(common::MOVE_MOUNT, tree.as_raw_fd(), c"".as_ptr(), AT_FDCWD, path.as_ptr(), MOVE_MOUNT_F_EMPTY_PATH)
    })
}

pub fn mount_new(kind: &CStr, target: &CStr, flags: c_ulong, options: &CStr) -> io::Result<()> {
    // SAFETY: all four are NUL-terminated and live through the call.
    done(unsafe { mount(kind.as_ptr(), target.as_ptr(), kind.as_ptr(), flags, options.as_ptr().cast()) })
}

pub fn change_propagation(target: &CStr, flags: c_ulong) -> io::Result<()> {
    // SAFETY: the strings are NUL-terminated; kind and data are not read for a change of propagation.
    done(unsafe { mount(c"none".as_ptr(), target.as_ptr(), ptr::null(), flags, ptr::null()) })
}

/// Makes the working directory the root, with the old root on top of it until `detach_old_root`.
pub fn pivot_here() -> io::Result<()> {
    // SAFETY: both paths are static strings.
    done(unsafe { syscall(nr::PIVOT_ROOT, c".".as_ptr(), c".".as_ptr()) })
}

pub fn detach_here() -> io::Result<()> {
    // SAFETY: the path is a static string.
    done(unsafe { umount2(c".".as_ptr(), MNT_DETACH) })
}

pub fn set_host_name(name: &[u8]) -> io::Result<()> {
    // SAFETY: pointer and length describe the slice.
    done(unsafe { sethostname(name.as_ptr().cast(), name.len()) })
}

pub fn set_limit(resource: u64, ceiling: u64) -> io::Result<()> {
    let resource = c_int::try_from(resource).map_err(|_| io::Error::from_raw_os_error(EINVAL))?;
    let mut now = [0; 2];
    // SAFETY: rlimit is two 64-bit numbers on both architectures.
    check(unsafe { getrlimit(resource, &raw mut now) }.into())?;
    // A limit that is already lower stays.
    let hard = ceiling.min(now[1]);
    // SAFETY: as above.
    done(unsafe { setrlimit(resource, &[hard, hard]) })
}

/// Raises the limit of open files to the host's maximum: every mount needs one for a moment.
pub fn raise_open_files() {
    const RLIMIT_NOFILE: c_int = 7;
    let mut now = [0; 2];
    // SAFETY: rlimit is two 64-bit numbers on both architectures.
    unsafe {
        if getrlimit(RLIMIT_NOFILE, &raw mut now) == 0 {
            setrlimit(RLIMIT_NOFILE, &[now[1]; 2]);
        }
    }
}

pub fn new_session() {
    // SAFETY: setsid has no arguments; it fails only for a group leader, which a new child is not.
    unsafe { setsid() };
}

/// One prctl with up to two number arguments.
pub fn control(option: c_int, first: c_ulong, second: c_ulong) -> io::Result<c_int> {
    const ZERO: c_ulong = 0;
    // SAFETY: only options without pointers are passed here.
    let result = check(unsafe { prctl(option, first, second, ZERO, ZERO) }.into())?;
    c_int::try_from(result).map_err(io::Error::other)
}

/// Drops all capabilities in the three sets of this thread.
pub fn clear_capabilities() -> io::Result<()> {
    const VERSION_3: u32 = 0x2008_0522;
    let header: [u32; 2] = [VERSION_3, 0];
    let none: [u32; 6] = [0; 6];
    // SAFETY: header and data have the layout of version 3 (two structures of three words).
    done(unsafe { syscall(nr::CAPSET, header.as_ptr(), none.as_ptr()) })
}

/// Installs a seccomp program: an array of `sock_filter`, eight bytes each.
pub fn install_filter(program: &[u8]) -> io::Result<()> {
    #[repr(C)]
    struct Program {
        length: u16,
        filter: *const u64,
    }
    const SECCOMP_SET_MODE_FILTER: c_int = 1;
    // The bytes of the plan may not have the alignment that the kernel needs.
    let words: Vec<u64> = program.as_chunks::<8>().0.iter().map(|chunk| u64::from_ne_bytes(*chunk)).collect();
    let length = u16::try_from(words.len()).map_err(|_| io::Error::from_raw_os_error(EINVAL))?;
    let program = Program { length, filter: words.as_ptr() };
    // SAFETY: the program describes `words`, which live through the call.
    done(unsafe { syscall(nr::SECCOMP, SECCOMP_SET_MODE_FILTER, 0, &raw const program) })
}

/// The landlock version of this kernel.
pub fn landlock_version() -> io::Result<u32> {
    const VERSION: c_int = 1;
    // SAFETY: asking for the version passes no structure.
    let version = check(unsafe { syscall(common::LANDLOCK_CREATE_RULESET, ptr::null::<u64>(), 0usize, VERSION) })?;
    u32::try_from(version).map_err(io::Error::other)
}

/// A ruleset with the first `words` of (files, network, scopes).
pub fn landlock_ruleset(handled: [u64; 3], words: usize) -> io::Result<OwnedFd> {
    // SAFETY: the pointer is to at least `words` numbers, whose size is given.
    owned(unsafe { syscall(common::LANDLOCK_CREATE_RULESET, handled.as_ptr(), words.min(3) * 8, 0) })
}

pub fn landlock_allow(ruleset: &OwnedFd, allowed: u64, place: &OwnedFd) -> io::Result<()> {
    #[repr(C, packed)]
    struct Beneath {
        allowed: u64,
        parent: i32,
    }
    const PATH_BENEATH: c_int = 1;
    let rule = Beneath { allowed, parent: place.as_raw_fd() };
    // SAFETY: the rule has the kernel's packed layout and lives through the call.
    done(unsafe { syscall(common::LANDLOCK_ADD_RULE, ruleset.as_raw_fd(), PATH_BENEATH, &raw const rule, 0) })
}

pub fn landlock_enforce(ruleset: &OwnedFd) -> io::Result<()> {
    // SAFETY: no pointers.
    done(unsafe { syscall(common::LANDLOCK_RESTRICT_SELF, ruleset.as_raw_fd(), 0) })
}

/// Executes a program; returns only an error.
pub fn execute(path: &CStr, argv: &[CString], env: &[CString]) -> io::Error {
    let pointers = |strings: &[CString]| -> Vec<*const c_char> {
        strings.iter().map(|string| string.as_ptr()).chain([ptr::null()]).collect()
    };
    let first = [path.as_ptr()];
    let argv: Vec<*const c_char> = first.into_iter().chain(pointers(argv.get(1..).unwrap_or_default())).collect();
    // SAFETY: both arrays end with a null pointer and point to NUL-terminated strings that live through the call.
    unsafe { execve(path.as_ptr(), argv.as_ptr(), pointers(env).as_ptr()) };
    io::Error::last_os_error()
}

/// Brings the loopback up; the kernel assigns its addresses.
pub fn loopback_up() -> io::Result<()> {
    #[repr(C)]
    struct Request {
        name: [u8; 16],
        flags: i16,
        rest: [u8; 22],
    }
    const SIOCSIFFLAGS: c_ulong = 0x8914;
    const IFF_UP: i16 = 1;
    const IFF_RUNNING: i16 = 0x40;
    // SAFETY: no pointers; 2 and 2 are AF_INET and SOCK_DGRAM.
    let any = owned(unsafe { socket(2, 2 | O_CLOEXEC, 0) }.into())?;
    let mut request = Request { name: [0; 16], flags: IFF_UP | IFF_RUNNING, rest: [0; 22] };
    request.name[..2].copy_from_slice(b"lo");
    // SAFETY: the request has the layout and size of ifreq.
    done(unsafe { ioctl(any.as_raw_fd(), SIOCSIFFLAGS, &raw const request) })
}
