//! Attackers: the findings that they report, the order of findings from several attackers, and the built-in roles.
//!
//! Nothing here runs a reproduction; the engine does. A finding is a claim until its reproduction ran.

mod attack_role;
mod findings_file;
mod merge;

pub use attack_role::{AttackRole, BUILT_IN_ROLES, built_in_role};
pub use findings_file::{AttackFinding, FINDINGS_BYTES_MAX, FindingSeverity, FindingsReading, read_findings};
pub use merge::{MergedFinding, merge_findings};
