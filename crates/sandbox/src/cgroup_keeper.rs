//! Keeps a confined tree in its control groups. This is not part of the start: entering a group takes the kernel a
//! grace period of 10 ms or more, in which a program can do little harm and a short one is already finished.
//!
//! A tree that runs longer is checked every second, because a process that forks while it is being moved leaves a child
//! outside. Other limits bound its number of processes from the start.

use crate::cgroup::RunCgroups;
use crate::confinement::ResourceCeilings;
use crate::tree_members::StartedProcess;
use std::time::Duration;
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::{Instant, sleep_until};

/// A program that runs this long gets groups.
const FIRST: Duration = Duration::from_millis(20);
const EVERY: Duration = Duration::from_secs(1);

/// The groups of one run. Dropped after its tree is gone, so that they can be removed.
pub(crate) struct CgroupKeeper {
    resources: ResourceCeilings,
    next: Instant,
    look: Option<JoinHandle<RunCgroups>>,
    /// `None` while a scan runs.
    groups: Option<RunCgroups>,
}

impl CgroupKeeper {
    pub(crate) fn new(resources: ResourceCeilings) -> Self {
        Self { resources, next: Instant::now() + FIRST, look: None, groups: None }
    }

    /// Keeps the tree in its groups as long as it is awaited. Safe to cancel.
    pub(crate) async fn keep_in_groups(&mut self, root: &StartedProcess) {
        loop {
            if let Some(look) = &mut self.look {
                let Ok(groups) = look.await else { return std::future::pending().await };
                (self.look, self.groups, self.next) = (None, Some(groups), Instant::now() + EVERY);
            }
            sleep_until(self.next).await;
            let (made, resources, root) = (self.groups.take(), self.resources.clone(), root.clone());
            self.look = Some(spawn_blocking(move || {
                let groups = made.unwrap_or_else(|| RunCgroups::make(&resources));
                groups.move_tree_in(&root);
                groups
            }));
        }
    }
}
