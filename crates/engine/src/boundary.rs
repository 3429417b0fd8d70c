//! What holds agents and gates on this host, said honestly: which boundary a loop gets, and which loops this host may not
//! run. What the kernel can do is found out in `sandbox` by trying it; the walls themselves are put up there too.

use crate::agents::Agent;
use crate::sandbox_view::KernelIsolation;
use loopwright_core::level::LoopLevel;
use loopwright_core::round::{Boundary, BoundaryLevel};
use loopwright_core::spec::{Role, SandboxMode};
use std::path::Path;

pub use loopwright_sandbox::{FeatureFinding, FeatureSupport, HostSupport, SandboxFeature};

/// Tries every wall. `scratch` is a folder on the file system that workspaces are on. It costs a few process starts;
/// [`crate::Engine::host`] keeps the answer.
pub async fn probe(scratch: &Path) -> HostSupport {
    let scratch = scratch.to_owned();
    let tried = tokio::task::spawn_blocking(move || loopwright_sandbox::probe(&scratch)).await;
    // A host that cannot be asked holds nothing.
    tried.unwrap_or(HostSupport { findings: Vec::new() })
}

/// Whether there is no boundary without a wall.
#[must_use]
pub fn is_needed(wall: SandboxFeature) -> bool {
    matches!(
        wall,
        SandboxFeature::UserNamespace
            | SandboxFeature::Mounts
            | SandboxFeature::Proc
            | SandboxFeature::Network
            | SandboxFeature::Seccomp
    )
}

fn missing(host: &HostSupport) -> impl Iterator<Item = &FeatureFinding> {
    host.gaps().filter(|finding| is_needed(finding.feature))
}

/// What does not hold although the boundary stands. That workspaces are copies and not overlays weakens nothing.
fn gaps(host: &HostSupport) -> Vec<String> {
    let gaps = host.gaps().filter(|finding| !is_needed(finding.feature) && finding.feature != SandboxFeature::Overlay);
    gaps.map(|finding| format!("{}: {}", finding.feature.name(), finding.detail)).collect()
}

/// A loop that this host may not run at its level.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct BoundaryRefusal {
    /// What would have held it, for the record.
    pub boundary: Box<Boundary>,
    /// Why, and what to do.
    pub text: String,
    /// What mends the host, to be pasted, as far as that is known.
    pub fix: Option<String>,
}

/// The boundary of a loop at its level on a host. A level that needs walls is refused where there are none, never lowered.
///
/// # Errors
/// The loop may not run here.
pub fn decide(level: LoopLevel, mode: SandboxMode, host: &HostSupport) -> Result<Boundary, BoundaryRefusal> {
    match (mode, host.enforces()) {
        (SandboxMode::Off, _) => Ok(open(BoundaryLevel::Off)),
        (SandboxMode::On, true) => Ok(kernel(host)),
        (SandboxMode::On, false) if level == LoopLevel::L1Report => Ok(open(BoundaryLevel::Process)),
        (SandboxMode::On, false) => {
            let fix = missing(host).find_map(|finding| finding.fix.clone());
            Err(BoundaryRefusal { boundary: Box::new(open(BoundaryLevel::Process)), text: refusal(level, host), fix })
        }
    }
}

fn kernel(host: &HostSupport) -> Boundary {
    Boundary {
        level: BoundaryLevel::Kernel,
        filesystem: "a root of its own; only its workspace, home, temporary files and outbox can be written".to_owned(),
        network: "none of the host's; what the loop allows goes through the engine's proxy".to_owned(),
        processes: "a process namespace of its own, without privileges, ended whole".to_owned(),
        gaps: gaps(host),
    }
}

/// What holds where the kernel does not.
fn open(level: BoundaryLevel) -> Boundary {
    Boundary {
        level,
        filesystem: "private copy, not enforced by the kernel".to_owned(),
        network: "open".to_owned(),
        processes: "process group, session and subreaper; the whole tree is killed".to_owned(),
        gaps: vec![
            "an agent with the same user id can read and write outside its workspace".to_owned(),
            "an agent can reach the network".to_owned(),
        ],
    }
}

/// Walls are built one after the other, so the first that is missing is the cause of the others.
fn refusal(level: LoopLevel, host: &HostSupport) -> String {
    let missing = missing(host).next().map_or_else(
        || "nothing could be tried".to_owned(),
        |finding| {
            let fix = finding.fix.as_ref().map_or(String::new(), |fix| format!("; fix: {fix}"));
            format!("{} ({}){fix}", finding.feature.name(), finding.detail)
        },
    );
    format!(
        "{} needs walls that this host does not hold: {missing}. `loopwright doctor` shows them all; nothing was started. \
         `level: L1` runs anywhere, `sandbox: off` runs without walls",
        level.short()
    )
}

/// Notes an agent around which there is no wall, because it does not start its programs in its room.
pub(crate) fn note_unconfined(boundary: &mut Boundary, role: Role, agent: &dyn Agent) {
    if boundary.level == BoundaryLevel::Kernel && !agent.capabilities().confined {
        boundary.gaps.push(format!("the {}, `{}`, works in this process: nothing holds it", role.word(), agent.name()));
    }
}

/// The walls that a boundary means.
#[must_use]
pub fn isolation_for(boundary: &Boundary) -> KernelIsolation {
    match boundary.level {
        BoundaryLevel::Kernel => KernelIsolation::Kernel,
        BoundaryLevel::Process | BoundaryLevel::Off => KernelIsolation::None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use loopwright_core::level::LoopLevel::{L1Report, L2Assisted, L3Unattended};

    fn host(wall: SandboxFeature, held: FeatureSupport) -> HostSupport {
        let finding = |one: SandboxFeature| FeatureFinding {
            feature: one,
            support: if one == wall { held } else { FeatureSupport::Yes },
            detail: "tried it".to_owned(),
            fix: (one == wall).then(|| "sysctl x=1".to_owned()),
        };
        HostSupport { findings: SandboxFeature::ALL.map(finding).into() }
    }

    #[test]
    fn level_is_refused_where_walls_are_missing_and_never_lowered() {
        let levels = |wall, held, mode| {
            [L1Report, L2Assisted, L3Unattended].map(|level| {
                decide(level, mode, &host(wall, held)).map(|boundary| boundary.level.word()).map_err(|_| "refused")
            })
        };
        for wall in SandboxFeature::ALL {
            let needed = is_needed(wall);
            let refused = if needed { Err("refused") } else { Ok("kernel") };
            let reports = if needed { Ok("process") } else { Ok("kernel") };
            assert_eq!(levels(wall, FeatureSupport::Yes, SandboxMode::On), [Ok("kernel"); 3]);
            assert_eq!(levels(wall, FeatureSupport::No, SandboxMode::On), [reports, refused, refused], "{wall:?}");
            assert_eq!(levels(wall, FeatureSupport::No, SandboxMode::Off), [Ok("off"); 3]);
        }
    }

    #[test]
    fn host_that_was_never_tried_holds_nothing() {
        assert!(decide(L2Assisted, SandboxMode::On, &HostSupport { findings: Vec::new() }).is_err());
    }

    #[test]
    fn refusal_names_the_wall_its_fix_and_doctor() {
        let refused = decide(L2Assisted, SandboxMode::On, &host(SandboxFeature::UserNamespace, FeatureSupport::No))
            .expect_err("it is refused");
        for part in ["L2", "user namespace", "sysctl x=1", "loopwright doctor"] {
            assert!(refused.text.contains(part), "{}", refused.text);
        }
        assert_eq!(refused.boundary.level, BoundaryLevel::Process);
    }

    #[test]
    fn gap_is_recorded_with_what_was_found() {
        let boundary = decide(L3Unattended, SandboxMode::On, &host(SandboxFeature::Resources, FeatureSupport::Partly))
            .expect("it runs");
        assert_eq!(boundary.gaps, ["resources: tried it"]);
    }
}
