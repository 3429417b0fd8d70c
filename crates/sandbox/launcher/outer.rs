//! The process outside: creates the namespaces, starts init, waits, and ends everything when the engine is gone.

use crate::confinement::{MountSource, SandboxNetwork};
use crate::init;
use crate::report::{FailedStep, StepResult};
use crate::sys::{self, PollFd, WaitStatus};
use crate::wire::{FD_LIFELINE, FD_PLAN, LaunchPlan, LaunchStep, PLAN_MAX};
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// The size of init's message to outer: the wait status of the program.
const TOLD_LEN: usize = 4;

/// The pipes between outer and init.
pub struct InitPipes {
    /// Held by init: its other end closes when outer dies.
    pub outer: OwnedFd,
    /// Written by init: the program's wait status.
    pub status_pipe: OwnedFd,
}

struct Init {
    pid: i32,
    pidfd: OwnedFd,
    status_pipe: File,
    /// Never written to: it closes when outer dies, and init notices that.
    _alive: OwnedFd,
    status: Option<i32>,
}

pub fn run() -> i32 {
    sys::close_from(FD_LIFELINE + 1);
    sys::block_signals();
    let _ = sys::close_on_exec_from(FD_PLAN);
    match start() {
        Ok((mut init, plan)) => {
            init.stay();
            clear_work(&plan);
            init.mirror()
        }
        Err(failure) => {
            failure.send_failure();
            1
        }
    }
}

fn start() -> StepResult<(Init, LaunchPlan)> {
    let plan = read_plan().at(LaunchStep::Plan)?;
    sys::raise_open_files();
    raise_oom_score();
    make_namespaces(&plan)?;
    clear_work(&plan);
    let (outer, alive) = sys::pipe().at(LaunchStep::Fork)?;
    let (status_reader, status_pipe) = sys::pipe().at(LaunchStep::Fork)?;
    let Some((pid, pidfd)) = sys::fork().at(LaunchStep::Fork)? else {
        drop((alive, status_reader));
        init::run(&plan, InitPipes { outer, status_pipe })
    };
    drop((outer, status_pipe));
    sys::close_streams();
    let init = Init { pid, pidfd, status_pipe: File::from(status_reader), _alive: alive, status: None };
    undumpable();
    Ok((init, plan))
}

fn read_plan() -> io::Result<LaunchPlan> {
    let mut bytes = Vec::new();
    // SAFETY: the engine put the plan there, and no other code in this program uses that descriptor.
    let file = unsafe { File::from_raw_fd(FD_PLAN) };
    file.take(PLAN_MAX as u64).read_to_end(&mut bytes)?;
    LaunchPlan::decode(&bytes).ok_or_else(|| io::Error::from_raw_os_error(sys::EINVAL))
}

/// When memory runs out, the kernel kills the confined tree before the user's processes.
fn raise_oom_score() {
    let _ = fs::write("/proc/self/oom_score_adj", "500");
}

/// No core file of this process, and no access for other processes of the same user.
pub fn undumpable() {
    const PR_SET_DUMPABLE: i32 = 4;
    let _ = sys::control(PR_SET_DUMPABLE, 0, 0);
}

fn make_namespaces(plan: &LaunchPlan) -> StepResult {
    let (uid, gid) = sys::ids();
    if uid == 0 {
        sys::drop_groups();
    }
    sys::enter_namespaces(sys::CLONE_NEWUSER).at(LaunchStep::UserNamespace)?;
    map_ids(plan.identity.id, uid, gid).at(LaunchStep::IdMaps)?;
    move_clocks(plan.identity.uptime_ahead);
    let net = if plan.network == SandboxNetwork::Host { 0 } else { sys::CLONE_NEWNET };
    sys::enter_namespaces(sys::CLONE_NEWPID | sys::CLONE_NEWIPC | sys::CLONE_NEWUTS | net).at(LaunchStep::Namespaces)
}

/// The clocks since the start of the machine, for the children of this process. A kernel without time namespaces leaves
/// them as they are.
fn move_clocks(ahead: u64) {
    if ahead > 0 && sys::enter_namespaces(sys::CLONE_NEWTIME).is_ok() {
        let _ = fs::write("/proc/self/timens_offsets", format!("monotonic {ahead} 0\nboottime {ahead} 0\n"));
    }
}

/// One user and one group, mapped to the caller's own outside; without privileges the kernel allows no more.
fn map_ids(inside: u32, uid: u32, gid: u32) -> io::Result<()> {
    fs::write("/proc/self/setgroups", "deny")?;
    fs::write("/proc/self/gid_map", format!("{inside} {gid} 1"))?;
    fs::write("/proc/self/uid_map", format!("{inside} {uid} 1"))
}

/// The kernel leaves a folder without permissions in an overlay's work folder, which its owner cannot delete without
/// privileges. The user namespace has privileges over it.
fn clear_work(plan: &LaunchPlan) {
    for place in &plan.places {
        if let MountSource::Overlay { work, .. } = &place.what {
            let _ = fs::remove_dir_all(work.join("work"));
        }
    }
}

impl Init {
    /// Waits until the pid namespace is empty.
    fn stay(&mut self) {
        let mut fds = [FD_LIFELINE, self.pidfd.as_raw_fd(), self.status_pipe.as_raw_fd()].map(|fd| PollFd {
            fd,
            events: sys::POLLIN,
            revents: 0,
        });
        while fds[1].revents == 0 {
            sys::await_one(&mut fds);
            if fds[0].revents != 0 {
                // The engine is gone, or requests the end: the kernel kills the whole namespace with its first process.
                sys::send(self.pid, sys::SIGKILL);
                fds[0].fd = -1;
            }
            if fds[2].revents != 0 {
                self.hear();
                fds[2].fd = -1;
            }
        }
        let _: WaitStatus = sys::wait_for(self.pid);
        self.hear();
    }

    fn hear(&mut self) {
        let mut bytes = [0; TOLD_LEN];
        if self.status.is_none() && self.status_pipe.read_exact(&mut bytes).is_ok() {
            self.status = Some(i32::from_ne_bytes(bytes));
        }
    }

    /// Ends as the program did: with its code, or by its signal. If the namespace was killed, the program counts as
    /// killed.
    fn mirror(&self) -> i32 {
        match self.status {
            Some(status) if status & 0x7f == 0 => (status >> 8) & 0xff,
            Some(status) => sys::die_by(status & 0x7f),
            None => sys::die_by(sys::SIGKILL),
        }
    }
}
