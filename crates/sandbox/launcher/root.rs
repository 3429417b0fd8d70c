//! The private root: an empty folder in memory, the system, `/proc`, `/dev`, `/etc` and the mounts of the plan. After
//! that the helper leaves the host's root. The files `system` and `mounts` describe each part.
//!
//! The helper first opens everything of the host, by its path there. After the pivot every path refers to the new root,
//! so that no symbolic link on the way to a mount point can lead to the host.

use crate::confinement::SandboxNetwork;
use crate::report::{FailedStep, StepResult};
use crate::sys;
use crate::wire::{LaunchPlan, LaunchStep};
use crate::{mounts, system};
use std::os::fd::OwnedFd;

/// Builds the root and returns the host's socket for the port forwarder, if the plan has one.
pub fn build(plan: &LaunchPlan) -> StepResult<Option<OwnedFd>> {
    sys::plain_umask();
    sys::change_propagation(c"/", sys::MS_REC | sys::MS_SLAVE).at(LaunchStep::Root)?;
    let socket = match &plan.network {
        SandboxNetwork::Door { socket, .. } => Some(sys::open_path(socket, 0).at(LaunchStep::Door)?),
        SandboxNetwork::None | SandboxNetwork::Host => None,
    };
    let system = system::HostSystem::open(plan)?;
    let places = mounts::open(plan)?;
    enter_new_root()?;
    system.lay(plan)?;
    mounts::lay(plan, places)?;
    leave_old_root()?;
    Ok(socket)
}

fn enter_new_root() -> StepResult {
    let flags = sys::MS_NOSUID | sys::MS_NODEV;
    sys::mount_new(c"tmpfs", c"/tmp", flags, c"mode=0755,size=64m").at(LaunchStep::Root)?;
    std::env::set_current_dir("/tmp").at(LaunchStep::Root)?;
    sys::pivot_here().at(LaunchStep::Pivot)
}

fn leave_old_root() -> StepResult {
    sys::detach_here().at(LaunchStep::Detach)?;
    sys::restrict_mount(c"/", sys::ATTR_RDONLY).at(LaunchStep::Seal)?;
    std::env::set_current_dir("/").at(LaunchStep::Seal)
}
