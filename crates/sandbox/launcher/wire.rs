//! The protocol between the engine and the helper: the plan goes in, and records come out. Both programs share this
//! source, so it uses only the standard library.
//!
//! Numbers are little-endian `u64`; byte strings and lists are preceded by their length.

use crate::confinement::{MountSource, SandboxIdentity, SandboxMount, SandboxNetwork};
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// The open descriptors that the helper receives.
pub const FD_PLAN: i32 = 3;
pub const FD_STATUS: i32 = 4;
pub const FD_LIFELINE: i32 = 5;

/// The size limit of a plan, in bytes: the kernel limits arguments and environment far below it.
pub const PLAN_MAX: usize = 64 << 20;

/// All instructions for the helper.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct LaunchPlan {
    /// The task after the sandbox is built.
    pub act: LaunchTask,
    /// The program name as given, then its arguments.
    pub argv: Vec<Vec<u8>>,
    /// `NAME=value`.
    pub env: Vec<Vec<u8>>,
    /// The PATH for looking up a bare name.
    pub path: Vec<u8>,
    pub cwd: PathBuf,
    pub network: SandboxNetwork,
    pub places: Vec<SandboxMount>,
    /// Resource number and limit.
    pub rlimits: Vec<(u64, u64)>,
    /// Seccomp programs, each an array of `sock_filter`.
    pub filters: Vec<Vec<u8>>,
    /// The size of `/dev/shm`, in bytes.
    pub shared_memory: u64,
    pub identity: SandboxIdentity,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LaunchTask {
    /// Execute the program.
    #[default]
    Execute,
    /// Execute nothing: the probe checks the sandbox itself.
    Look,
}

impl LaunchPlan {
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        number(&mut out, u64::from(self.act == LaunchTask::Look));
        list(&mut out, &self.argv);
        list(&mut out, &self.env);
        bytes(&mut out, &self.path);
        path(&mut out, &self.cwd);
        self.network.encode(&mut out);
        number(&mut out, self.places.len() as u64);
        for place in &self.places {
            path(&mut out, &place.at);
            place.what.encode(&mut out);
        }
        number(&mut out, self.rlimits.len() as u64);
        for (resource, ceiling) in &self.rlimits {
            number(&mut out, *resource);
            number(&mut out, *ceiling);
        }
        list(&mut out, &self.filters);
        number(&mut out, self.shared_memory);
        self.identity.encode(&mut out);
        out
    }

    /// `None` if the bytes are not exactly one plan.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let mut from = Reader(bytes);
        let plan = Self {
            act: if from.number()? == 1 { LaunchTask::Look } else { LaunchTask::Execute },
            argv: from.list()?,
            env: from.list()?,
            path: from.bytes()?,
            cwd: from.path()?,
            network: SandboxNetwork::decode(&mut from)?,
            places: from.each(|from| Some(SandboxMount { at: from.path()?, what: MountSource::decode(from)? }))?,
            rlimits: from.each(|from| Some((from.number()?, from.number()?)))?,
            filters: from.list()?,
            shared_memory: from.number()?,
            identity: SandboxIdentity::decode(&mut from)?,
        };
        from.0.is_empty().then_some(plan)
    }
}

impl SandboxIdentity {
    fn encode(&self, out: &mut Vec<u8>) {
        bytes(out, self.user.as_bytes());
        number(out, u64::from(self.id));
        path(out, &self.home);
        bytes(out, self.host.as_bytes());
        number(out, u64::from(self.last_pid));
        number(out, self.uptime_ahead);
        number(out, u64::from(self.shows_cookie));
    }

    fn decode(from: &mut Reader) -> Option<Self> {
        Some(Self {
            user: String::from_utf8(from.bytes()?).ok()?,
            id: u32::try_from(from.number()?).ok()?,
            home: from.path()?,
            host: String::from_utf8(from.bytes()?).ok()?,
            last_pid: u32::try_from(from.number()?).ok()?,
            uptime_ahead: from.number()?,
            shows_cookie: from.number()? == 1,
        })
    }
}

impl SandboxNetwork {
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::None => number(out, 0),
            Self::Door { socket, port } => {
                number(out, 1);
                path(out, socket);
                number(out, u64::from(*port));
            }
            Self::Host => number(out, 2),
        }
    }

    fn decode(from: &mut Reader) -> Option<Self> {
        match from.number()? {
            0 => Some(Self::None),
            1 => Some(Self::Door { socket: from.path()?, port: u16::try_from(from.number()?).ok()? }),
            2 => Some(Self::Host),
            _ => None,
        }
    }
}

impl MountSource {
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::ReadOnly(path) => tagged(out, 0, path.as_os_str().as_bytes()),
            Self::Writable(path) => tagged(out, 1, path.as_os_str().as_bytes()),
            Self::Memory(size) => {
                number(out, 2);
                number(out, *size);
            }
            Self::Layers(lower) => {
                number(out, 3);
                paths(out, lower);
            }
            Self::Overlay { lower, upper, work } => {
                number(out, 4);
                paths(out, lower);
                path(out, upper);
                path(out, work);
            }
            Self::File(content) => tagged(out, 5, content),
            Self::Pinned => number(out, 6),
        }
    }

    fn decode(from: &mut Reader) -> Option<Self> {
        Some(match from.number()? {
            0 => Self::ReadOnly(from.path()?),
            1 => Self::Writable(from.path()?),
            2 => Self::Memory(from.number()?),
            3 => Self::Layers(from.each(Reader::path)?),
            4 => Self::Overlay { lower: from.each(Reader::path)?, upper: from.path()?, work: from.path()? },
            5 => Self::File(from.bytes()?),
            6 => Self::Pinned,
            _ => return None,
        })
    }

    /// Whether the program may change the content.
    pub(crate) fn is_writable(&self) -> bool {
        matches!(self, Self::Writable(_) | Self::Memory(_) | Self::Overlay { .. })
    }
}

fn number(out: &mut Vec<u8>, value: u64) {
    out.extend_from_slice(&value.to_le_bytes());
}

fn bytes(out: &mut Vec<u8>, value: &[u8]) {
    number(out, value.len() as u64);
    out.extend_from_slice(value);
}

fn tagged(out: &mut Vec<u8>, tag: u64, value: &[u8]) {
    number(out, tag);
    bytes(out, value);
}

fn path(out: &mut Vec<u8>, value: &Path) {
    bytes(out, value.as_os_str().as_bytes());
}

fn paths(out: &mut Vec<u8>, values: &[PathBuf]) {
    number(out, values.len() as u64);
    values.iter().for_each(|value| path(out, value));
}

fn list(out: &mut Vec<u8>, values: &[Vec<u8>]) {
    number(out, values.len() as u64);
    values.iter().for_each(|value| bytes(out, value));
}

struct Reader<'b>(&'b [u8]);

impl Reader<'_> {
    fn number(&mut self) -> Option<u64> {
        let (first, rest) = self.0.split_first_chunk::<8>()?;
        self.0 = rest;
        Some(u64::from_le_bytes(*first))
    }

    fn bytes(&mut self) -> Option<Vec<u8>> {
        let length = usize::try_from(self.number()?).ok()?;
        let (first, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(first.to_vec())
    }

    fn path(&mut self) -> Option<PathBuf> {
        Some(OsString::from_vec(self.bytes()?).into())
    }

    fn list(&mut self) -> Option<Vec<Vec<u8>>> {
        self.each(Self::bytes)
    }

    fn each<T>(&mut self, mut one: impl FnMut(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        let count = self.number()?;
        let mut all = Vec::new();
        for _ in 0..count {
            all.push(one(self)?);
        }
        Some(all)
    }
}

/// One message of the helper: 16 bytes, so that a pipe never splits it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HelperRecord {
    /// The program runs.
    Started,
    /// This step failed with this system error; `index` is an entry of the plan, for steps that have one.
    Failed { step: LaunchStep, errno: i32, index: u32 },
    /// This restriction is missing; the start continues.
    Gap { step: LaunchStep, errno: i32 },
    /// The program ended with this wait status; `others` is whether processes of its tree are left.
    Ended { status: i32, others: bool },
    /// The result of a probe check; `step` defines the meaning of the number.
    Seen { step: LaunchStep, value: u32 },
}

pub const RECORD_LEN: usize = 16;

impl HelperRecord {
    pub fn encode(self) -> [u8; RECORD_LEN] {
        let words = match self {
            Self::Started => [1, 0, 0, 0],
            Self::Failed { step, errno, index } => [2, step as u32, errno.cast_unsigned(), index],
            Self::Gap { step, errno } => [3, step as u32, errno.cast_unsigned(), 0],
            Self::Ended { status, others } => [4, 0, status.cast_unsigned(), u32::from(others)],
            Self::Seen { step, value } => [5, step as u32, value, 0],
        };
        let mut out = [0; RECORD_LEN];
        for (place, word) in out.chunks_exact_mut(4).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        out
    }

    pub fn decode(record: &[u8; RECORD_LEN]) -> Option<Self> {
        let word = |at: usize| u32::from_le_bytes([record[at], record[at + 1], record[at + 2], record[at + 3]]);
        let (step, value) = (LaunchStep::from_code(word(4)), word(8));
        Some(match word(0) {
            1 => Self::Started,
            2 => Self::Failed { step: step?, errno: value.cast_signed(), index: word(12) },
            3 => Self::Gap { step: step?, errno: value.cast_signed() },
            4 => Self::Ended { status: value.cast_signed(), others: word(12) != 0 },
            5 => Self::Seen { step: step?, value },
            _ => return None,
        })
    }
}

macro_rules! steps {
    ($($(#[$doc:meta])* $name:ident = $text:literal,)*) => {
        /// The steps of a start, roughly in order.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u32)]
        pub enum LaunchStep { $($(#[$doc])* $name,)* }

        impl LaunchStep {
            const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// The action of the step, as a fragment.
            pub fn text(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }
        }
    };
}

steps! {
    Plan = "read the plan",
    UserNamespace = "make a user namespace",
    IdMaps = "map the user into its namespace",
    Namespaces = "make pid, ipc, host name and network namespaces",
    Fork = "start the first process of the pid namespace",
    MountNamespace = "make a mount namespace",
    Source = "open the source of the mount",
    Root = "make a private root",
    Pivot = "enter the new root",
    Proc = "mount /proc",
    ProcMask = "cover the host's parts of /proc",
    System = "mount the system's folders",
    Dev = "make /dev",
    Etc = "make /etc",
    Place = "mount",
    Detach = "detach the host's root",
    Seal = "make the root read-only",
    Loopback = "bring the loopback up",
    Door = "open the forwarded port",
    HostName = "set the host name",
    Privileges = "give up privileges",
    Limits = "set resource limits",
    Landlock = "set landlock rules",
    Seccomp = "install the system call filter",
    Cwd = "enter the working directory",
    Execute = "execute the program",
}

impl LaunchStep {
    fn from_code(code: u32) -> Option<Self> {
        Self::ALL.get(usize::try_from(code).ok()?).copied()
    }
}
