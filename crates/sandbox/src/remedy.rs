//! Fixes for features that the host does not support, chosen from the host's settings. Users can paste them.

use crate::wire::LaunchStep;
use std::fs;
use std::path::Path;

/// The facts that decide between fixes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RemedyFacts {
    pub(crate) is_root: bool,
    pub(crate) in_container: bool,
    /// `user.max_user_namespaces`.
    pub(crate) user_namespaces_max: Option<u64>,
    /// `user.max_net_namespaces`.
    pub(crate) net_namespaces_max: Option<u64>,
    /// Debian's `kernel.unprivileged_userns_clone`.
    pub(crate) unprivileged_clone: Option<u64>,
    /// Ubuntu's `kernel.apparmor_restrict_unprivileged_userns`.
    pub(crate) apparmor_restricts: Option<u64>,
    /// `vm.memfd_noexec`.
    pub(crate) memory_programs: Option<u64>,
}

impl RemedyFacts {
    pub(crate) fn read() -> Self {
        let setting = |name: &str| fs::read_to_string(format!("/proc/sys/{name}")).ok()?.trim().parse().ok();
        let marks = ["/.dockerenv", "/run/.containerenv", "/run/systemd/container"];
        Self {
            is_root: rustix::process::geteuid().is_root(),
            in_container: marks.iter().any(|mark| Path::new(mark).exists()),
            user_namespaces_max: setting("user/max_user_namespaces"),
            net_namespaces_max: setting("user/max_net_namespaces"),
            unprivileged_clone: setting("kernel/unprivileged_userns_clone"),
            apparmor_restricts: setting("kernel/apparmor_restrict_unprivileged_userns"),
            memory_programs: setting("vm/memfd_noexec"),
        }
    }

    pub(crate) fn memory_programs_fix(&self) -> Option<String> {
        (self.memory_programs == Some(2)).then(|| set("vm.memfd_noexec", 0))
    }

    pub(crate) fn overlay_fix(&self, errno: i32) -> Option<String> {
        match errno {
            libc::ENODEV => Some("sudo modprobe overlay".to_owned()),
            libc::EPERM | libc::EACCES => {
                Some("use Linux 5.11 or newer, or continue without it: workspaces are then copies".to_owned())
            }
            _ => Some("keep the state folder on ext4, xfs, btrfs or tmpfs; elsewhere workspaces are copies".to_owned()),
        }
    }
}

/// A setting that takes effect at once and after a reboot.
fn set(name: &str, value: u64) -> String {
    format!("echo '{name} = {value}' | sudo tee -a /etc/sysctl.d/60-loopwright.conf && sudo sysctl --system")
}

const KERNEL: &str = "use Linux 5.12 or newer with user, pid, network and mount namespaces";
const CONTAINER: &str =
    "start the container with: --security-opt seccomp=unconfined --security-opt apparmor=unconfined";
const CONTAINER_PROC: &str = "start the container with: --security-opt systempaths=unconfined";

/// The fix for a step that failed with this error; `None` if no cause is known.
pub(crate) fn remedy(step: LaunchStep, errno: i32, facts: &RemedyFacts) -> Option<String> {
    if facts.user_namespaces_max == Some(0) && step == LaunchStep::UserNamespace {
        return Some(set("user.max_user_namespaces", 15_000));
    }
    if facts.net_namespaces_max == Some(0) && step == LaunchStep::Namespaces {
        return Some(set("user.max_net_namespaces", 15_000));
    }
    let refused = matches!(errno, libc::EPERM | libc::EACCES);
    if refused && !facts.is_root && facts.unprivileged_clone == Some(0) {
        return Some(set("kernel.unprivileged_userns_clone", 1));
    }
    if refused && !facts.is_root && facts.apparmor_restricts.is_some_and(|value| value != 0) {
        return Some(set("kernel.apparmor_restrict_unprivileged_userns", 0));
    }
    match (step, errno) {
        (LaunchStep::UserNamespace | LaunchStep::Namespaces, libc::ENOSPC | libc::EUSERS) => {
            Some(set("user.max_user_namespaces", facts.user_namespaces_max.unwrap_or(0).max(15_000) * 2))
        }
        (_, libc::ENOSYS) if !facts.in_container => Some(KERNEL.to_owned()),
        (LaunchStep::UserNamespace, libc::EINVAL) => Some(KERNEL.to_owned()),
        (LaunchStep::Proc, _) if refused => Some(CONTAINER_PROC.to_owned()),
        (_, libc::ENOSYS) => Some(CONTAINER.to_owned()),
        _ if refused && facts.in_container => Some(CONTAINER.to_owned()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remedy_fits_the_host_settings() {
        let facts = RemedyFacts::default();
        let cases = [
            (
                LaunchStep::UserNamespace,
                libc::ENOSPC,
                RemedyFacts { user_namespaces_max: Some(0), ..facts.clone() },
                "user.max_user_namespaces = 15000",
            ),
            (
                LaunchStep::UserNamespace,
                libc::EPERM,
                RemedyFacts { unprivileged_clone: Some(0), ..facts.clone() },
                "unprivileged_userns_clone = 1",
            ),
            (
                LaunchStep::IdMaps,
                libc::EACCES,
                RemedyFacts { apparmor_restricts: Some(1), ..facts.clone() },
                "apparmor_restrict_unprivileged_userns = 0",
            ),
            (
                LaunchStep::MountNamespace,
                libc::EPERM,
                RemedyFacts { apparmor_restricts: Some(1), ..facts.clone() },
                "apparmor_restrict",
            ),
            (
                LaunchStep::UserNamespace,
                libc::EPERM,
                RemedyFacts { in_container: true, is_root: true, ..facts.clone() },
                "seccomp=unconfined",
            ),
            (
                LaunchStep::Proc,
                libc::EPERM,
                RemedyFacts { in_container: true, ..facts.clone() },
                "systempaths=unconfined",
            ),
            (LaunchStep::System, libc::ENOSYS, facts.clone(), "5.12"),
            (
                LaunchStep::Namespaces,
                libc::ENOSPC,
                RemedyFacts { net_namespaces_max: Some(0), ..facts.clone() },
                "max_net_namespaces",
            ),
        ];
        for (step, errno, facts, part) in cases {
            let text = remedy(step, errno, &facts).unwrap_or_default();
            assert!(text.contains(part), "{step:?} {errno}: {text}");
        }
        assert_eq!(remedy(LaunchStep::Dev, libc::EIO, &facts), None);
    }
}
