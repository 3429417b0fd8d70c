//! The kernel restrictions of a program: the files it sees, the network it reaches, the resources it may use. A plain
//! description; the launcher implements it, and a part that it cannot implement keeps the program from starting.
//!
//! A confined program sees the system's own read-only folders (`/usr` and similar ones, the public part of `/etc`), a
//! private `/dev` and `/proc`, and its [`SandboxMount`]s. No other part of the host is visible.

use std::path::{Path, PathBuf};

/// All restrictions of one program. Paths of [`crate::SpawnRequest`] (program, directory, environment) then refer to
/// the inside.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Confinement {
    /// The mounts besides the system, in this order.
    pub mounts: Vec<SandboxMount>,
    /// The network access.
    pub network: SandboxNetwork,
    /// The resource limits.
    pub resources: ResourceCeilings,
    /// The user and the machine that the program sees.
    pub identity: SandboxIdentity,
}

/// The user and the machine that a confined program sees. The kernel maps the user to the caller's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SandboxIdentity {
    /// The name of the user and of its group.
    pub user: String,
    /// The id of the user and of its group.
    pub id: u32,
    /// The home folder in `/etc/passwd`.
    pub home: PathBuf,
    /// The name of the host.
    pub host: String,
    /// Process ids start after this one, where the kernel allows it.
    pub last_pid: u32,
    /// Seconds that its clocks since the start of the machine are ahead, where the kernel allows it.
    pub uptime_ahead: u64,
    /// Whether the program's environment has the cookie of its tree. The helper outside always has it.
    pub shows_cookie: bool,
}

impl Default for SandboxIdentity {
    fn default() -> Self {
        Self {
            user: "loop".to_owned(),
            id: 1000,
            home: PathBuf::from("/home/loop"),
            host: "loopwright".to_owned(),
            last_pid: 0,
            uptime_ahead: 0,
            shows_cookie: true,
        }
    }
}

/// One mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SandboxMount {
    /// The absolute path inside; missing parent folders are created.
    pub at: PathBuf,
    /// The source.
    pub what: MountSource,
}

/// The source of a mount. Paths are the host's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MountSource {
    /// A file or folder that can be read and executed.
    ReadOnly(PathBuf),
    /// A file or folder that can be changed.
    Writable(PathBuf),
    /// An empty folder in memory of at most this many bytes.
    Memory(u64),
    /// Stacked folders, the first on top, read-only.
    Layers(Vec<PathBuf>),
    /// The same, writable: changes go to `upper`, whose file system also holds the empty folder `work`.
    Overlay {
        /// The folders below, the first on top.
        lower: Vec<PathBuf>,
        /// The folder for changes. A deletion is a character device 0/0; a replaced folder has the attribute
        /// `user.overlay.opaque`.
        upper: PathBuf,
        /// The kernel's scratch folder.
        work: PathBuf,
    },
    /// A small read-only file with these bytes.
    File(Vec<u8>),
    /// The folder that an earlier mount shows at this place, mounted onto itself: its content can be changed as before,
    /// but it cannot be renamed or removed, and so nothing below it can get another path.
    Pinned,
}

/// The network access of a confined program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum SandboxNetwork {
    /// Only itself: a private loopback, no resolver.
    #[default]
    None,
    /// A private loopback with one port, whose connections are forwarded to a socket of the host.
    Door {
        /// The host's Unix socket: the egress proxy.
        socket: PathBuf,
        /// The port on 127.0.0.1 inside.
        port: u16,
    },
    /// The host's network. For trusted preparation only.
    Host,
}

/// Limits that the kernel enforces. `None` sets no limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourceCeilings {
    /// The number of processes and threads at the same time.
    pub processes: Option<u64>,
    /// The memory of the whole tree, in bytes.
    pub memory: Option<u64>,
    /// Weight of processor time against other trees, 1 to 10 000; the default is 100.
    pub cpu_weight: Option<u64>,
    /// The size of one file, in bytes.
    pub file: Option<u64>,
    /// The number of open files of one process.
    pub files_open: Option<u64>,
    /// The growth of all writable mounts together, in bytes.
    pub disk: Option<u64>,
}

impl Default for ResourceCeilings {
    /// Large enough for a build, but stops a runaway program.
    fn default() -> Self {
        Self {
            processes: Some(2048),
            memory: Some(8 << 30),
            cpu_weight: Some(50),
            file: Some(4 << 30),
            files_open: Some(16 << 10),
            disk: Some(16 << 30),
        }
    }
}

impl Confinement {
    /// Adds a mount.
    pub fn mount(&mut self, at: impl Into<PathBuf>, what: MountSource) {
        self.mounts.push(SandboxMount { at: at.into(), what });
    }

    /// The folders of the host that the program may change.
    pub fn writable(&self) -> impl Iterator<Item = &Path> {
        self.mounts.iter().filter_map(|mount| match &mount.what {
            MountSource::Writable(path) | MountSource::Overlay { upper: path, .. } => Some(path.as_path()),
            MountSource::ReadOnly(_)
            | MountSource::Memory(_)
            | MountSource::Layers(_)
            | MountSource::File(_)
            | MountSource::Pinned => None,
        })
    }
}
