//! The boundary around agents and gates on this host: which one a loop gets, and which loops this host may not run. The
//! `sandbox` crate probes the kernel's features and builds the sandbox itself.

use crate::agents::Agent;
use crate::sandbox_view::KernelIsolation;
use loopwright_core::level::LoopLevel;
use loopwright_core::round::{Boundary, BoundaryLevel};
use loopwright_core::spec::{Role, SandboxMode};
use std::path::Path;

pub use loopwright_sandbox::{FeatureFinding, FeatureSupport, HostSupport, SandboxFeature};

/// Tries every sandbox feature. `scratch` is a folder on the file system that holds the workspaces. The probe costs a
/// few process starts; [`crate::Engine::host`] caches its result.
pub async fn probe(scratch: &Path) -> HostSupport {
    let scratch = scratch.to_owned();
    let tried = tokio::task::spawn_blocking(move || loopwright_sandbox::probe(&scratch)).await;
    // A host that cannot be probed supports nothing.
    tried.unwrap_or(HostSupport { findings: Vec::new() })
}

/// Whether the kernel boundary depends on a feature.
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

/// Features that are missing although the kernel boundary holds. Copied workspaces in place of overlays weaken nothing.
fn gaps(host: &HostSupport) -> Vec<String> {
    let gaps = host.gaps().filter(|finding| !is_needed(finding.feature) && finding.feature != SandboxFeature::Overlay);
    gaps.map(|finding| format!("{}: {}", finding.feature.name(), finding.detail)).collect()
}

/// A loop that this host may not run at its level.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct BoundaryRefusal {
    /// The boundary the loop would have had, for the record.
    pub boundary: Box<Boundary>,
    /// The reason, and what to do about it.
    pub text: String,
    /// A command that fixes the host, ready to paste, where one is known.
    pub fix: Option<String>,
}

/// The boundary of a loop at its level on a host. A level that needs the kernel boundary is refused where the host
/// lacks it, never lowered.
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
        filesystem: "a private root; only the workspace, home, temporary files and outbox are writable".to_owned(),
        network: "no host network; the engine's proxy forwards what the loop allows".to_owned(),
        processes: "a private process namespace without privileges; the whole tree is killed".to_owned(),
        gaps: gaps(host),
    }
}

/// The boundary without the kernel's sandbox.
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

/// Names the first missing feature only: features are set up in order, so it is the cause of the others.
fn refusal(level: LoopLevel, host: &HostSupport) -> String {
    let missing = missing(host).next().map_or_else(
        || "the probe of this host failed".to_owned(),
        |finding| {
            let fix = finding.fix.as_ref().map_or(String::new(), |fix| format!("; fix: {fix}"));
            format!("{} ({}){fix}", finding.feature.name(), finding.detail)
        },
    );
    format!(
        "{} needs sandbox features that this host lacks: {missing}. `loopwright doctor` lists them all; nothing was started. \
         `level: L1` runs anywhere, `sandbox: off` runs without a sandbox",
        level.short()
    )
}

/// Records an agent that the boundary does not confine, because it does not start its programs in its sandbox view.
pub(crate) fn note_unconfined(boundary: &mut Boundary, role: Role, agent: &dyn Agent) {
    if boundary.level == BoundaryLevel::Kernel && !agent.capabilities().confined {
        boundary.gaps.push(format!(
            "the {}, `{}`, works in this process and is not confined",
            role.word(),
            agent.name()
        ));
    }
}

/// The kernel isolation of a boundary.
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
    fn level_is_refused_where_sandbox_features_are_missing_and_never_lowered() {
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
    fn host_that_was_never_probed_supports_nothing() {
        assert!(decide(L2Assisted, SandboxMode::On, &HostSupport { findings: Vec::new() }).is_err());
    }

    #[test]
    fn refusal_names_the_feature_its_fix_and_doctor() {
        let refused = decide(L2Assisted, SandboxMode::On, &host(SandboxFeature::UserNamespace, FeatureSupport::No))
            .expect_err("it is refused");
        for part in ["L2", "user namespace", "sysctl x=1", "loopwright doctor"] {
            assert!(refused.text.contains(part), "{}", refused.text);
        }
        assert_eq!(refused.boundary.level, BoundaryLevel::Process);
    }

    #[test]
    fn gap_is_recorded_with_the_probes_detail() {
        let boundary = decide(L3Unattended, SandboxMode::On, &host(SandboxFeature::Resources, FeatureSupport::Partly))
            .expect("it runs");
        assert_eq!(boundary.gaps, ["resources: tried it"]);
    }
}
