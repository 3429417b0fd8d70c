//! The first process of the pid namespace: builds the walls, starts the program, collects orphans, keeps the door.

use crate::door::Door;
use crate::outer::{Talk, undumpable};
use crate::report::{At, Outcome, tell};
use crate::sys::{self, Waited};
use crate::wire::{Act, Net, Plan, Record, Step};
use crate::{looks, program, root, walls};
use std::fs::File;
use std::io::Write;
use std::os::fd::OwnedFd;

pub fn run(plan: &Plan, talk: Talk) -> ! {
    die_with_parent();
    match start(plan, &talk.outer) {
        Ok((pid, door)) => stay(pid, door, File::from(talk.told)),
        Err(failure) => {
            failure.tell();
            sys::exit(1)
        }
    }
}

/// Killed with outer, so that nobody who kills outer leaves a tree behind. Whether outer died before this took
/// effect is looked at later, before anything is started.
fn die_with_parent() {
    const PR_SET_PDEATHSIG: i32 = 1;
    let _ = sys::control(PR_SET_PDEATHSIG, 9, 0);
}

fn start(plan: &Plan, outer: &OwnedFd) -> Outcome<(i32, Option<Door>)> {
    sys::enter_namespaces(sys::CLONE_NEWNS).at(Step::MountNamespace)?;
    let socket = root::build(plan)?;
    sys::set_host_name(b"loopwright").at(Step::HostName)?;
    if plan.network != Net::Host {
        sys::loopback_up().at(Step::Loopback)?;
    }
    let door = match (&plan.network, socket) {
        (Net::Door { port, .. }, Some(socket)) => Some(Door::open(socket, *port).at(Step::Door)?),
        _ => None,
    };
    if sys::is_closed(outer) {
        sys::exit(1);
    }
    // Hides where in the host's groups it is. Not a wall, so a kernel without it is no failure.
    let _ = sys::enter_namespaces(sys::CLONE_NEWCGROUP);
    walls::give_up_privileges().at(Step::Privileges)?;
    undumpable();
    let pid = start_program(plan)?;
    Ok((pid, door))
}

fn start_program(plan: &Plan) -> Outcome<i32> {
    if plan.act == Act::Look {
        looks::outside(plan);
    }
    let pid = sys::fork_until_executed().at(Step::Fork)?;
    if pid == 0 {
        program::run(plan)
    }
    sys::close_streams();
    // A program that could not be executed has told so itself, and the engine listens to the first word.
    tell(Record::Started);
    Ok(pid)
}

fn stay(program: i32, door: Option<Door>, mut told: File) -> ! {
    if let Some(door) = door {
        door.keep();
    }
    let status = loop {
        match sys::wait_any(true) {
            Waited::Child(pid, status) if pid == program => break status,
            Waited::Child(..) | Waited::Nothing => {}
            Waited::NoChildren => sys::exit(1),
        }
    };
    let _ = told.write_all(&status.to_ne_bytes());
    let others = has_children();
    tell(Record::Ended { status, others });
    // Whoever is left may still write to the pipes; the engine decides how long that is waited for, and then ends us.
    while others && !matches!(sys::wait_any(true), Waited::NoChildren) {}
    sys::exit(0)
}

/// Every orphan is a child of ours, and whoever has a living parent has an ancestor who is; so no child, nobody.
fn has_children() -> bool {
    loop {
        match sys::wait_any(false) {
            Waited::Child(..) => {}
            Waited::Nothing => return true,
            Waited::NoChildren => return false,
        }
    }
}
