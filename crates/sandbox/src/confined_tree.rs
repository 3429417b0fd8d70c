//! A confined start on the engine's side: the plan, the helper's records, and the lifeline. The other side is in
//! `launcher/`.

use crate::cgroup::{self, CgroupController};
use crate::confinement::Confinement;
use crate::error::SpawnError;
use crate::helper;
use crate::launch::{ChildStreams, PreparedLaunch};
use crate::plan::{self, MemoryBound};
use crate::spawn::{COOKIE_VAR, SpawnRequest};
use crate::wire::{FD_LIFELINE, FD_PLAN, FD_STATUS, HelperRecord, LaunchStep, RECORD_LEN};
use rustix::pipe::{PipeFlags, pipe_with};
use std::ffi::OsStr;
use std::io;
use std::os::fd::{OwnedFd, RawFd};
use std::path::Path;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;
use tokio::net::unix::pipe::Receiver;
use tokio::time::timeout;

/// The time limit for building the sandbox; it takes milliseconds.
const BUILD_PATIENCE: Duration = Duration::from_secs(30);

/// The engine's handles on a confined tree while it lives.
pub(crate) struct ConfinedTree {
    status: Receiver,
    /// The helper ends the tree when this closes: the engine closed it, or the engine is dead.
    lifeline: Mutex<Option<OwnedFd>>,
    /// Whether other processes are left; set as soon as the program has ended.
    ended: OnceLock<bool>,
}

/// The helper, ready to be started.
pub(crate) struct HelperStart {
    pub(crate) prepared: PreparedLaunch,
    /// The descriptors for the helper.
    pub(crate) further: Vec<(OwnedFd, RawFd)>,
    /// The pipe with its records.
    pub(crate) status: OwnedFd,
    /// The helper's lifeline.
    pub(crate) lifeline: OwnedFd,
}

impl HelperStart {
    pub(crate) fn new(spawn: &SpawnRequest, confine: &Confinement) -> Result<Self, SpawnError> {
        let bounds =
            if cgroup::can_enforce(CgroupController::Memory) { MemoryBound::Group } else { MemoryBound::EachProcess };
        let plan = plan::for_program(spawn, confine, bounds)
            .map_err(|error| SpawnError::other(&spawn.program, "prepare", error))?;
        Self::from_plan(&plan.encode(), spawn.cookie.as_str())
            .map_err(|error| SpawnError::boundary(&spawn.program, "prepare its helper", error))
    }

    pub(crate) fn from_plan(plan: &[u8], cookie: &str) -> io::Result<Self> {
        let (status, status_in) = pipe_with(PipeFlags::CLOEXEC)?;
        let (lifeline_out, lifeline) = pipe_with(PipeFlags::CLOEXEC)?;
        let further = vec![
            (helper::sealed_memfd("plan", plan)?, FD_PLAN),
            (helper::dup_above_reserved(status_in)?, FD_STATUS),
            (helper::dup_above_reserved(lifeline_out)?, FD_LIFELINE),
        ];
        Ok(Self { prepared: helper_with(cookie)?, further, status, lifeline })
    }
}

/// The cookie lets a later engine find the helper, and with it the whole tree.
fn helper_with(cookie: &str) -> io::Result<PreparedLaunch> {
    let env = [(OsStr::new(COOKIE_VAR), OsStr::new(cookie))];
    PreparedLaunch::new(&helper::path()?, &[], env.into_iter(), Path::new("/"))
}

impl ConfinedTree {
    pub(crate) fn new(status: OwnedFd, lifeline: OwnedFd) -> io::Result<Self> {
        let status = Receiver::from_owned_fd(status)?;
        Ok(Self { status, lifeline: Mutex::new(Some(lifeline)), ended: OnceLock::new() })
    }

    /// Returns when the program runs inside the complete sandbox.
    pub(crate) async fn wait_until_started(
        &self,
        spawn: &SpawnRequest,
        confine: &Confinement,
    ) -> Result<(), SpawnError> {
        let broken = |reason: &'static str| {
            SpawnError::boundary(&spawn.program, "wait for its helper", io::Error::other(reason))
        };
        loop {
            match timeout(BUILD_PATIENCE, self.next()).await {
                Err(_) => return Err(broken("it took too long")),
                Ok(None) => return Err(broken("it ended early")),
                Ok(Some(HelperRecord::Started)) => return Ok(()),
                Ok(Some(HelperRecord::Failed { step, errno, index })) => {
                    let place = place(confine, step, index);
                    return Err(SpawnError::from_helper(spawn, step, place, errno));
                }
                // The probe reports gaps; they would be the same at every start.
                Ok(Some(HelperRecord::Gap { .. } | HelperRecord::Seen { .. })) => {}
                Ok(Some(HelperRecord::Ended { others, .. })) => drop(self.ended.set(others)),
            }
        }
    }

    /// Returns when the program has ended; other processes of its tree may be left.
    pub(crate) async fn program_ended(&self) {
        while self.ended.get().is_none() {
            match self.next().await {
                Some(HelperRecord::Ended { others, .. }) => drop(self.ended.set(others)),
                Some(_) => {}
                // The helper is gone; its own exit status describes that better.
                None => return std::future::pending().await,
            }
        }
    }

    /// Whether the program ended and the helper found no other process.
    pub(crate) fn left_nobody(&self) -> bool {
        self.ended.get() == Some(&false)
    }

    /// Whether the program is known to have ended.
    pub(crate) fn has_ended(&self) -> bool {
        self.ended.get().is_some()
    }

    /// Makes the helper kill the whole namespace.
    pub(crate) fn kill_namespace(&self) {
        drop(self.lifeline.lock().unwrap_or_else(PoisonError::into_inner).take());
    }

    /// The next record; `None` if the helper closed its end or sent an invalid record. Safe to cancel: a record is
    /// written and read in one piece.
    async fn next(&self) -> Option<HelperRecord> {
        let mut bytes = [0; RECORD_LEN];
        loop {
            self.status.readable().await.ok()?;
            match self.status.try_read(&mut bytes) {
                Ok(RECORD_LEN) => return HelperRecord::decode(&bytes),
                Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
                _ => return None,
            }
        }
    }
}

/// The path that a failed step was about, if there is one.
fn place(confine: &Confinement, step: LaunchStep, index: u32) -> Option<&Path> {
    let about_one = matches!(step, LaunchStep::Source | LaunchStep::Place);
    let mount = confine.mounts.get(usize::try_from(index).ok()?).filter(|_| about_one)?;
    Some(&mount.at)
}

/// The streams of a helper without input and output, for the probe.
pub(crate) fn silent_streams(further: Vec<(OwnedFd, RawFd)>) -> io::Result<ChildStreams> {
    let null = || std::fs::File::options().write(true).open("/dev/null").map(OwnedFd::from);
    Ok(ChildStreams { stdin: None, stdout: null()?, stderr: null()?, further })
}
