//! The first process of the pid namespace: builds the sandbox, starts the program, reaps orphans, runs the port
//! forwarder.

use crate::confinement::SandboxNetwork;
use crate::outer::{InitPipes, undumpable};
use crate::port_forwarder::PortForwarder;
use crate::report::{FailedStep, StepResult, send_record};
use crate::sys::{self, WaitStatus};
use crate::wire::{HelperRecord, LaunchPlan, LaunchStep, LaunchTask};
use crate::{probe_checks, program, restrictions, root};
use std::fs::File;
use std::io::Write;
use std::os::fd::OwnedFd;

pub fn run(plan: &LaunchPlan, talk: InitPipes) -> ! {
    die_with_parent();
    match start(plan, &talk.outer) {
        Ok((pid, door)) => stay(pid, door, File::from(talk.status_pipe)),
        Err(failure) => {
            failure.send_failure();
            sys::exit(1)
        }
    }
}

/// The kernel kills init when outer dies, so that killing outer never leaves a tree behind. Before it starts
/// anything, init checks whether outer died before this took effect.
fn die_with_parent() {
    const PR_SET_PDEATHSIG: i32 = 1;
    let _ = sys::control(PR_SET_PDEATHSIG, 9, 0);
}

fn start(plan: &LaunchPlan, outer: &OwnedFd) -> StepResult<(i32, Option<PortForwarder>)> {
    sys::enter_namespaces(sys::CLONE_NEWNS).at(LaunchStep::MountNamespace)?;
    let socket = root::build(plan)?;
    sys::set_host_name(plan.identity.host.as_bytes()).at(LaunchStep::HostName)?;
    if plan.network != SandboxNetwork::Host {
        sys::loopback_up().at(LaunchStep::Loopback)?;
    }
    let door = match (&plan.network, socket) {
        (SandboxNetwork::Door { port, .. }, Some(socket)) => {
            Some(PortForwarder::open(socket, *port).at(LaunchStep::Door)?)
        }
        _ => None,
    };
    if sys::is_closed(outer) {
        sys::exit(1);
    }
    // Hides its position in the host's control groups. It is not a security boundary, so a kernel without it is no
    // failure.
    let _ = sys::enter_namespaces(sys::CLONE_NEWCGROUP);
    restrictions::give_up_privileges().at(LaunchStep::Privileges)?;
    undumpable();
    let pid = start_program(plan)?;
    Ok((pid, door))
}

fn start_program(plan: &LaunchPlan) -> StepResult<i32> {
    if plan.act == LaunchTask::Look {
        probe_checks::outside(plan);
    }
    let pid = sys::fork_until_executed().at(LaunchStep::Fork)?;
    if pid == 0 {
        program::run(plan)
    }
    sys::close_streams();
    // A program that could not be executed has already sent a failure, and the engine acts on the first record.
    send_record(HelperRecord::Started);
    Ok(pid)
}

fn stay(program: i32, door: Option<PortForwarder>, mut status_pipe: File) -> ! {
    if let Some(door) = door {
        door.keep();
    }
    let status = loop {
        match sys::wait_any(true) {
            WaitStatus::Child(pid, status) if pid == program => break status,
            WaitStatus::Child(..) | WaitStatus::Nothing => {}
            WaitStatus::NoChildren => sys::exit(1),
        }
    };
    let _ = status_pipe.write_all(&status.to_ne_bytes());
    let others = has_children();
    send_record(HelperRecord::Ended { status, others });
    // The remaining processes may still write to the pipes; the engine decides how long to wait, and then ends this
    // namespace.
    while others && !matches!(sys::wait_any(true), WaitStatus::NoChildren) {}
    sys::exit(0)
}

/// Every orphan is a child of init, and every process with a living parent descends from a child of init. So without
/// children the namespace is empty.
fn has_children() -> bool {
    loop {
        match sys::wait_any(false) {
            WaitStatus::Child(..) => {}
            WaitStatus::Nothing => return true,
            WaitStatus::NoChildren => return false,
        }
    }
}
