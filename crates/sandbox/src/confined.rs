//! A confined start as the engine sees it: the plan handed over, the helper's records, and the lifeline. What happens on
//! the other side is in `launcher/`.

use crate::cgroup::{self, Controller};
use crate::confine::Confine;
use crate::error::SpawnError;
use crate::helper;
use crate::launch::{Prepared, Streams};
use crate::plan::{self, Bounds};
use crate::spawn::{COOKIE_VAR, Spawn};
use crate::wire::{FD_LIFELINE, FD_PLAN, FD_STATUS, RECORD_LEN, Record, Step};
use rustix::pipe::{PipeFlags, pipe_with};
use std::ffi::OsStr;
use std::io;
use std::os::fd::{OwnedFd, RawFd};
use std::path::Path;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;
use tokio::net::unix::pipe::Receiver;
use tokio::time::timeout;

/// How long the walls may take to build; they take milliseconds.
const BUILD_PATIENCE: Duration = Duration::from_secs(30);

/// What is held of a confined tree while it lives.
pub(crate) struct Walls {
    status: Receiver,
    /// The helper ends the tree when this closes: by our hand, or because we are dead.
    lifeline: Mutex<Option<OwnedFd>>,
    /// Whether others are left; there as soon as the program has ended.
    ended: OnceLock<bool>,
}

/// The helper, ready to be started.
pub(crate) struct Start {
    pub(crate) prepared: Prepared,
    /// The descriptors that the helper gets.
    pub(crate) further: Vec<(OwnedFd, RawFd)>,
    /// Where its records come out.
    pub(crate) status: OwnedFd,
    /// What it lives by.
    pub(crate) lifeline: OwnedFd,
}

impl Start {
    pub(crate) fn new(spawn: &Spawn, confine: &Confine) -> Result<Self, SpawnError> {
        let bounds = if cgroup::can_keep(Controller::Memory) { Bounds::Group } else { Bounds::EachProcess };
        let plan = plan::for_program(spawn, confine, bounds)
            .map_err(|error| SpawnError::other(&spawn.program, "prepare", error))?;
        Self::of_plan(&plan.encode(), spawn.cookie.as_str())
            .map_err(|error| SpawnError::boundary(&spawn.program, "prepare its helper", error))
    }

    pub(crate) fn of_plan(plan: &[u8], cookie: &str) -> io::Result<Self> {
        let (status, status_in) = pipe_with(PipeFlags::CLOEXEC)?;
        let (lifeline_out, lifeline) = pipe_with(PipeFlags::CLOEXEC)?;
        let further = vec![
            (helper::sealed("plan", plan)?, FD_PLAN),
            (helper::above(status_in)?, FD_STATUS),
            (helper::above(lifeline_out)?, FD_LIFELINE),
        ];
        Ok(Self { prepared: helper_with(cookie)?, further, status, lifeline })
    }
}

/// The cookie lets a later engine find the helper, and with it the whole tree.
fn helper_with(cookie: &str) -> io::Result<Prepared> {
    let env = [(OsStr::new(COOKIE_VAR), OsStr::new(cookie))];
    Prepared::new(&helper::path()?, &[], env.into_iter(), Path::new("/"))
}

impl Walls {
    pub(crate) fn new(status: OwnedFd, lifeline: OwnedFd) -> io::Result<Self> {
        let status = Receiver::from_owned_fd(status)?;
        Ok(Self { status, lifeline: Mutex::new(Some(lifeline)), ended: OnceLock::new() })
    }

    /// Returns when the program runs, with every wall around it.
    pub(crate) async fn built(&self, spawn: &Spawn, confine: &Confine) -> Result<(), SpawnError> {
        let broken = |reason: &'static str| {
            SpawnError::boundary(&spawn.program, "hear from its helper", io::Error::other(reason))
        };
        loop {
            match timeout(BUILD_PATIENCE, self.next()).await {
                Err(_) => return Err(broken("it took too long")),
                Ok(None) => return Err(broken("it ended early")),
                Ok(Some(Record::Started)) => return Ok(()),
                Ok(Some(Record::Failed { step, errno, index })) => {
                    let place = place(confine, step, index);
                    return Err(SpawnError::from_helper(spawn, step, place, errno));
                }
                // A gap is the probe's to tell; it would be the same at every start.
                Ok(Some(Record::Gap { .. } | Record::Seen { .. })) => {}
                Ok(Some(Record::Ended { others, .. })) => drop(self.ended.set(others)),
            }
        }
    }

    /// Returns when the program has ended, though others of its tree may be left.
    pub(crate) async fn program_ended(&self) {
        while self.ended.get().is_none() {
            match self.next().await {
                Some(Record::Ended { others, .. }) => drop(self.ended.set(others)),
                Some(_) => {}
                // The helper is gone, which its own exit tells better.
                None => return std::future::pending().await,
            }
        }
    }

    /// Whether the program ended and the helper saw that it left nobody behind.
    pub(crate) fn left_nobody(&self) -> bool {
        self.ended.get() == Some(&false)
    }

    /// Whether the program is known to have ended.
    pub(crate) fn has_ended(&self) -> bool {
        self.ended.get().is_some()
    }

    /// Lets the helper kill the whole namespace.
    pub(crate) fn cut(&self) {
        drop(self.lifeline.lock().unwrap_or_else(PoisonError::into_inner).take());
    }

    /// The next record; `None` when the helper closed its end or talks nonsense. Safe to cancel: a record is written and
    /// read in one piece.
    async fn next(&self) -> Option<Record> {
        let mut bytes = [0; RECORD_LEN];
        loop {
            self.status.readable().await.ok()?;
            match self.status.try_read(&mut bytes) {
                Ok(RECORD_LEN) => return Record::decode(&bytes),
                Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
                _ => return None,
            }
        }
    }
}

/// What a failed step was about, where it was about one place.
fn place(confine: &Confine, step: Step, index: u32) -> Option<&Path> {
    let about_one = matches!(step, Step::Source | Step::Place);
    let mount = confine.mounts.get(usize::try_from(index).ok()?).filter(|_| about_one)?;
    Some(&mount.at)
}

/// The streams of a helper that reads and says nothing, for the probe.
pub(crate) fn quiet(further: Vec<(OwnedFd, RawFd)>) -> io::Result<Streams> {
    let null = || std::fs::File::options().write(true).open("/dev/null").map(OwnedFd::from);
    Ok(Streams { stdin: None, stdout: null()?, stderr: null()?, further })
}
