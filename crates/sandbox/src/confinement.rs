//! What the kernel holds a program to: the files it sees, the network it reaches, the resources it may take. A plain
//! description; the launcher carries it out, and a part that cannot be carried out keeps the program from starting.
//!
//! A confined program sees the system's own read-only folders (`/usr` and its kin, the public part of `/etc`), a private
//! `/dev` and `/proc`, and the [`SandboxMount`]s it is given. Nothing else of the host is there.

use std::path::{Path, PathBuf};

/// Everything one program is held to. Paths of [`crate::SpawnRequest`] (program, directory, environment) are then those inside.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Confinement {
    /// What it sees besides the system, laid in this order.
    pub mounts: Vec<SandboxMount>,
    /// What it reaches.
    pub network: SandboxNetwork,
    /// What it may take.
    pub resources: ResourceCeilings,
}

/// One thing at one place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SandboxMount {
    /// The absolute path at which the program sees it; missing folders above it are made.
    pub at: PathBuf,
    /// What is there.
    pub what: MountSource,
}

/// What a place holds. Paths are the host's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MountSource {
    /// A file or folder that can be read and executed.
    ReadOnly(PathBuf),
    /// A file or folder that can be changed.
    Writable(PathBuf),
    /// An empty folder in memory of at most this many bytes.
    Memory(u64),
    /// Folders on top of each other, the first on top, that can only be read.
    Layers(Vec<PathBuf>),
    /// The same, changeable: what is changed goes to `upper`, whose file system also holds the empty folder `work`.
    Overlay {
        /// The folders below, the first on top.
        lower: Vec<PathBuf>,
        /// Where changes go. A deletion is a character device 0/0; a replaced folder carries `user.overlay.opaque`.
        upper: PathBuf,
        /// The kernel's scratch folder.
        work: PathBuf,
    },
    /// A small file with these bytes that can only be read.
    File(Vec<u8>),
}

/// What a confined program reaches.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum SandboxNetwork {
    /// Nothing but itself: a loopback of its own, no resolver.
    #[default]
    None,
    /// A loopback of its own with one port, behind which every connection is carried to a socket of the host.
    Door {
        /// The host's Unix socket: the egress proxy.
        socket: PathBuf,
        /// The port on 127.0.0.1 inside.
        port: u16,
    },
    /// The host's network. For trusted preparation only.
    Host,
}

/// Ceilings that the kernel keeps. Absent ones are not set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourceCeilings {
    /// Processes and threads at a time.
    pub processes: Option<u64>,
    /// Bytes of memory of the whole tree.
    pub memory: Option<u64>,
    /// Share of the processors against other trees, 1 to 10 000; 100 is ordinary.
    pub cpu_weight: Option<u64>,
    /// Bytes of one file.
    pub file: Option<u64>,
    /// Open files of one process.
    pub files_open: Option<u64>,
    /// Bytes that all writable places of the program together may grow by.
    pub disk: Option<u64>,
}

impl Default for ResourceCeilings {
    /// Generous for a build, fatal for a runaway.
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
    /// Adds a place.
    pub fn mount(&mut self, at: impl Into<PathBuf>, what: MountSource) {
        self.mounts.push(SandboxMount { at: at.into(), what });
    }

    /// The folders of the host that the program may change.
    pub fn writable(&self) -> impl Iterator<Item = &Path> {
        self.mounts.iter().filter_map(|mount| match &mount.what {
            MountSource::Writable(path) | MountSource::Overlay { upper: path, .. } => Some(path.as_path()),
            MountSource::ReadOnly(_) | MountSource::Memory(_) | MountSource::Layers(_) | MountSource::File(_) => None,
        })
    }
}
