//! The parts of the system that every confined program sees: programs and libraries, the public part of `/etc`, and a
//! private `/dev` and `/proc`. Nothing that belongs to the user.

use crate::confinement::SandboxNetwork;
use crate::mounts::{MountTree, make_folder};
use crate::report::{FailedStep, StepResult};
use crate::sys;
use crate::wire::{LaunchPlan, LaunchStep};
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};

/// Programs and libraries, if the host has them.
const ROOTS: &[&str] = &[
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/nix/store",
    "/gnu/store",
    "/run/current-system",
];

/// Names in `/etc` that programs need and that hold nothing private. Settings of package managers are not included,
/// because they often hold tokens.
const ETC: &[&str] = &[
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "alternatives",
    "ca-certificates",
    "ca-certificates.conf",
    "chromium.d",
    "crypto-policies",
    "debian_version",
    "os-release",
    "redhat-release",
    "alpine-release",
    "fonts",
    "gai.conf",
    "glvnd",
    "host.conf",
    "inputrc",
    "locale.alias",
    "locale.conf",
    "magic",
    "magic.mime",
    "mime.types",
    "networks",
    "protocols",
    "rpc",
    "services",
    "sgml",
    "terminfo",
    "texmf",
    "vulkan",
    "xml",
];

/// The same by prefix: one folder per version.
const ETC_PREFIXES: &[&str] = &["java", "perl", "php", "python", "openjdk", "ImageMagick"];

/// Public parts of folders that also have private ones.
const ETC_PARTS: &[&str] = &[
    "ssl/certs",
    "ssl/cert.pem",
    "ssl/openssl.cnf",
    "pki/tls/certs",
    "pki/tls/cert.pem",
    "pki/tls/openssl.cnf",
    "pki/ca-trust",
    "pki/java",
    "maven/m2.conf",
    "maven/logging",
];

/// The host's own files, for a program with the host's network.
const ETC_NETWORK: &[&str] = &["resolv.conf", "hosts"];

const DEVICES: &[&str] = &["null", "zero", "full", "random", "urandom"];

/// The parts of `/proc` that show the whole host to every user. Files that only root may read are covered separately:
/// the kernel still treats the program as root if the engine's user is root.
const PROC_FOLDERS: &[&str] = &["acpi", "asound", "bus", "driver", "dynamic_debug", "fs", "irq", "scsi", "sysvipc"];
const PROC_FILES: &[&str] = &[
    "kallsyms",
    "kcore",
    "key-users",
    "keys",
    "kmsg",
    "latency_stats",
    "modules",
    "mtrr",
    "sched_debug",
    "sysrq-trigger",
    "timer_list",
    "timer_stats",
];

const NSSWITCH: &str = "passwd: files\ngroup: files\nshadow: files\nhosts: files dns\nnetworks: files\n\
                        protocols: files\nservices: files\nethers: files\nrpc: files\n";
const READ_ONLY: u64 = sys::ATTR_RDONLY | sys::ATTR_NOSUID | sys::ATTR_NODEV;

/// All required files of the host, opened.
pub struct HostSystem {
    roots: Vec<(PathBuf, Root)>,
    etc: Vec<(PathBuf, MountTree)>,
    devices: Vec<(PathBuf, MountTree)>,
}

enum Root {
    Link(PathBuf),
    Tree(MountTree),
}

impl HostSystem {
    pub fn open(plan: &LaunchPlan) -> StepResult<Self> {
        let device = |name: &&str| {
            let path = Path::new("/dev").join(name);
            // Read-only keeps a program from changing the permissions of the device file; writing to the device still
            // works.
            let tree = MountTree::open(&path, sys::ATTR_RDONLY | sys::ATTR_NOSUID)?;
            Ok((path, tree))
        };
        Ok(Self {
            roots: open_roots().at(LaunchStep::System)?,
            etc: open_etc(plan),
            devices: DEVICES.iter().map(device).collect::<io::Result<_>>().at(LaunchStep::Dev)?,
        })
    }

    pub fn lay(self, plan: &LaunchPlan) -> StepResult {
        lay_proc().at(LaunchStep::Proc)?;
        cap_processes(plan);
        start_processes(plan);
        self.roots.into_iter().try_for_each(|(path, root)| root.lay(&path)).at(LaunchStep::System)?;
        lay_devices(self.devices, plan.shared_memory).at(LaunchStep::Dev)?;
        lay_etc(self.etc, plan).at(LaunchStep::Etc)?;
        lay_rest().at(LaunchStep::Root)?;
        close_proc(plan.identity.id).at(LaunchStep::ProcMask)
    }
}

fn open_roots() -> io::Result<Vec<(PathBuf, Root)>> {
    let mut all = Vec::new();
    for path in ROOTS.iter().map(PathBuf::from) {
        match fs::symlink_metadata(&path) {
            Ok(found) if found.is_symlink() => all.push((path.clone(), Root::Link(fs::read_link(&path)?))),
            Ok(_) => all.push((path.clone(), Root::Tree(MountTree::open(&path, READ_ONLY)?))),
            Err(_) => {}
        }
    }
    Ok(all)
}

impl Root {
    fn lay(self, path: &Path) -> io::Result<()> {
        match self {
            Self::Tree(tree) => tree.lay_own(path),
            Self::Link(target) => {
                path.parent().map_or(Ok(()), make_folder)?;
                symlink(target, path)
            }
        }
    }
}

/// Skips files that the host does not have or that cannot be read.
fn open_etc(plan: &LaunchPlan) -> Vec<(PathBuf, MountTree)> {
    let etc = Path::new("/etc");
    let named = fs::read_dir(etc).into_iter().flatten().flatten().map(|entry| entry.file_name());
    let public = named.filter(|name| is_public(&name.to_string_lossy())).map(|name| etc.join(name));
    let network = if plan.network == SandboxNetwork::Host { ETC_NETWORK } else { &[] };
    let parts = ETC_PARTS.iter().chain(network).map(|name| etc.join(name));
    let open = |path: PathBuf| Some((path.clone(), MountTree::open(&path, READ_ONLY).ok()?));
    public.chain(parts).filter_map(open).collect()
}

fn is_public(name: &str) -> bool {
    ETC.contains(&name) || ETC_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

fn lay_etc(trees: Vec<(PathBuf, MountTree)>, plan: &LaunchPlan) -> io::Result<()> {
    make_folder(Path::new("/etc"))?;
    trees.into_iter().try_for_each(|(path, tree)| tree.lay_own(&path))?;
    let made = [("passwd", passwd(plan)), ("group", group(plan)), ("nsswitch.conf", NSSWITCH.to_owned()), ("hostname", format!("{}\n", plan.identity.host))];
    let offline = [("hosts", hosts(plan)), ("resolv.conf", String::new())];
    let offline = offline.iter().filter(|_| plan.network != SandboxNetwork::Host);
    made.iter().chain(offline).try_for_each(|(name, text)| fs::write(Path::new("/etc").join(name), text))?;
    symlink("/proc/self/mounts", "/etc/mtab")
}

fn passwd(plan: &LaunchPlan) -> String {
    let who = &plan.identity;
    format!(
        "root:x:0:0:root:/root:/usr/sbin/nologin\n{name}:x:{id}:{id}:{name}:{home}:/bin/sh\n\
         nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n",
        name = who.user,
        id = who.id,
        home = who.home.display()
    )
}

fn group(plan: &LaunchPlan) -> String {
    format!("root:x:0:\n{}:x:{}:\nnogroup:x:65534:\n", plan.identity.user, plan.identity.id)
}

fn hosts(plan: &LaunchPlan) -> String {
    format!("127.0.0.1 localhost {}\n::1 localhost ip6-localhost ip6-loopback\n", plan.identity.host)
}

fn lay_devices(devices: Vec<(PathBuf, MountTree)>, shared_memory: u64) -> io::Result<()> {
    make_folder(Path::new("/dev/shm"))?;
    make_folder(Path::new("/dev/pts"))?;
    devices.into_iter().try_for_each(|(path, tree)| tree.lay_own(&path))?;
    let options = sys::c_string(format!("mode=1777,size={shared_memory}").as_bytes())?;
    sys::mount_new(c"tmpfs", c"/dev/shm", sys::MS_NOSUID | sys::MS_NODEV, &options)?;
    let options = c"newinstance,ptmxmode=0666,mode=0600";
    sys::mount_new(c"devpts", c"/dev/pts", sys::MS_NOSUID | sys::MS_NOEXEC, options)?;
    let links = [
        ("/proc/self/fd", "/dev/fd"),
        ("/proc/self/fd/0", "/dev/stdin"),
        ("/proc/self/fd/1", "/dev/stdout"),
        ("/proc/self/fd/2", "/dev/stderr"),
        ("pts/ptmx", "/dev/ptmx"),
    ];
    links.iter().try_for_each(|(target, path)| symlink(target, path))
}

/// Empty folders that programs expect.
fn lay_rest() -> io::Result<()> {
    ["/run", "/var", "/home"].iter().try_for_each(|path| make_folder(Path::new(path)))?;
    symlink("/tmp", "/var/tmp")
}

fn lay_proc() -> io::Result<()> {
    make_folder(Path::new("/proc"))?;
    sys::mount_new(c"proc", c"/proc", sys::MS_NOSUID | sys::MS_NODEV | sys::MS_NOEXEC, c"")
}

/// Limits process ids to the ceiling: control groups are not always available, and the per-user process limit does not
/// apply to root. Before Linux 6.14 the setting applies to the whole host, so it is not changed.
fn cap_processes(plan: &LaunchPlan) {
    const RLIMIT_NPROC: u64 = 6;
    // Ids that the kernel uses only once, in a new namespace.
    const RESERVED: u64 = 300;
    let ceiling = plan.rlimits.iter().find(|(resource, _)| *resource == RLIMIT_NPROC);
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let mut parts = release.split(|c: char| !c.is_ascii_digit()).map(|part| part.parse::<u32>().unwrap_or(0));
    let version = (parts.next().unwrap_or(0), parts.next().unwrap_or(0));
    if let Some((_, ceiling)) = ceiling.filter(|_| version >= (6, 14)) {
        let _ = fs::write("/proc/sys/kernel/pid_max", (ceiling + RESERVED).to_string());
    }
}

/// Lets process ids start higher, as on a machine that has run for a while. It is not a security boundary, so a kernel
/// without it is no failure.
fn start_processes(plan: &LaunchPlan) {
    if plan.identity.last_pid > 0 {
        let _ = fs::write("/proc/sys/kernel/ns_last_pid", plan.identity.last_pid.to_string());
    }
}

/// Kernel settings check only the user id, which is root's if the engine's user is root. So `/proc` is read-only as a
/// whole, and the files that show the whole host are covered.
fn close_proc(user: u32) -> io::Result<()> {
    let empty = Path::new("/.empty");
    fs::create_dir(empty)?;
    for name in PROC_FOLDERS {
        let cover = sys::clone_tree(empty)?;
        sys::restrict_tree(&cover, sys::ATTR_RDONLY)?;
        unless_missing(sys::attach_at(&cover, &Path::new("/proc").join(name)))?;
    }
    fs::remove_dir(empty)?;
    PROC_FILES.iter().try_for_each(|name| cover_file(name.as_ref()))?;
    // The engine's user is root exactly if the kernel's own files belong to it.
    if fs::metadata("/proc/version")?.uid() == user {
        close_for_root()?;
    }
    sys::restrict_mount(c"/proc", sys::ATTR_RDONLY)
}

fn close_for_root() -> io::Result<()> {
    const READ_BY_ALL: u32 = 0o004;
    for entry in fs::read_dir("/proc")? {
        let entry = entry?;
        let closed = entry.metadata().is_ok_and(|found| found.is_file() && found.mode() & READ_BY_ALL == 0);
        if closed {
            cover_file(&entry.file_name())?;
        }
    }
    Ok(())
}

/// `/dev/null` is already mounted read-only, and so is its copy.
fn cover_file(name: &OsStr) -> io::Result<()> {
    unless_missing(sys::attach_at(&sys::clone_tree("/dev/null")?, &Path::new("/proc").join(name)))
}

/// Some kernels do not have some of the files.
fn unless_missing(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}
