//! The root of its own: an empty folder in memory, the system, `/proc`, `/dev`, `/etc` and the places of the plan; then
//! the host's root is left behind. What each part holds is said in `system` and `places`.
//!
//! Everything of the host is opened first, by its path there. After the pivot every path means the new root, so that no
//! symbolic link on the way to a mount point can lead to the host.

use crate::report::{At, Outcome};
use crate::sys;
use crate::wire::{Net, Plan, Step};
use crate::{places, system};
use std::os::fd::OwnedFd;

/// Builds it and returns the host's socket behind the network's door, if the plan has one.
pub fn build(plan: &Plan) -> Outcome<Option<OwnedFd>> {
    sys::plain_umask();
    sys::change_propagation(c"/", sys::MS_REC | sys::MS_SLAVE).at(Step::Root)?;
    let socket = match &plan.network {
        Net::Door { socket, .. } => Some(sys::open_path(socket, 0).at(Step::Door)?),
        Net::None | Net::Host => None,
    };
    let system = system::System::open(plan)?;
    let places = places::open(plan)?;
    enter_new_root()?;
    system.lay(plan)?;
    places::lay(plan, places)?;
    leave_old_root()?;
    Ok(socket)
}

fn enter_new_root() -> Outcome {
    let flags = sys::MS_NOSUID | sys::MS_NODEV;
    sys::mount_new(c"tmpfs", c"/tmp", flags, c"mode=0755,size=64m").at(Step::Root)?;
    std::env::set_current_dir("/tmp").at(Step::Root)?;
    sys::pivot_here().at(Step::Pivot)
}

fn leave_old_root() -> Outcome {
    sys::detach_here().at(Step::Detach)?;
    sys::restrict_mount(c"/", sys::ATTR_RDONLY).at(Step::Seal)?;
    std::env::set_current_dir("/").at(Step::Seal)
}
