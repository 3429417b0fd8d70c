//! The forges in `doctor`: whether each one is reachable, accepts the token, and has the repository; and whether people
//! can answer in Slack, and whether the key for commits can sign. Nothing is changed there.

use super::{DoctorCheck, DoctorStatus};
use crate::context::{CommandContext, inspect_asking, inspect_forges, inspect_signer};
use loopwright_forge::{FindingState, ForgeFinding};

/// A line about each check of each configured forge.
pub(super) async fn check_forges(cx: &CommandContext) -> Vec<DoctorCheck> {
    let repo = cx.repo().await.ok();
    let inspected = match inspect_forges(cx, repo.as_ref()).await {
        Ok(inspected) => inspected,
        // The check of the store reports an unreadable configuration.
        Err(_) => return Vec::new(),
    };
    let mut checks = Vec::new();
    for (name, found) in inspected {
        match found {
            Ok(findings) => checks.extend(findings.into_iter().map(|finding| check(&name, finding))),
            Err(why) => {
                let fix = format!("see `forges.{name}` in your configuration: loopwright config");
                checks.push(DoctorCheck::missing(&format!("forge {name}"), why, fix));
            }
        }
    }
    // The check of the store reports an unreadable configuration.
    let asking = inspect_asking(cx).await.unwrap_or_default();
    checks.extend(asking.into_iter().map(|(name, finding)| named_check(&name, finding)));
    let signer = inspect_signer(cx).await.unwrap_or_default();
    checks.extend(signer.map(|finding| named_check("signing", finding)));
    checks
}

fn check(name: &str, finding: ForgeFinding) -> DoctorCheck {
    named_check(&format!("forge {name}"), finding)
}

fn named_check(name: &str, finding: ForgeFinding) -> DoctorCheck {
    let status = match finding.state {
        FindingState::Good => DoctorStatus::Ok,
        FindingState::Doubtful => DoctorStatus::Gap,
        FindingState::Bad => DoctorStatus::Missing,
    };
    DoctorCheck { status, ..DoctorCheck::ok(&format!("{name} {}", finding.subject), finding.text) }
}
