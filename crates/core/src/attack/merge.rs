//! Merges the findings of several attackers: duplicates by their place and trigger, worst first. No model decides here.

use super::findings_file::{AttackFinding, FindingSeverity};
use crate::hash;

/// The length of a key.
const KEY_LEN: usize = 12;
/// The most further reproductions of one finding.
const FURTHER_MAX: usize = 7;

/// A finding of one or more attackers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MergedFinding {
    /// The hash of its normalised place and trigger: the same finding has the same key in every attempt.
    pub key: String,
    /// The worst severity that an attacker gave it.
    pub severity: FindingSeverity,
    /// The first attacker's words.
    pub title: String,
    /// The file at fault.
    pub path: String,
    /// The line at fault.
    pub line: Option<u32>,
    /// The trigger.
    pub trigger: String,
    /// The first reproduction that an attacker gave; after the engine has tried them, the one that showed the defect.
    pub reproduction: Option<String>,
    /// Different reproductions of the same finding: one attacker's script that shows nothing hides no other's.
    pub further: Vec<String>,
    /// The attackers that reported it, in the order of the loop file.
    pub roles: Vec<String>,
}

impl MergedFinding {
    /// All reproductions, in the order in which the engine tries them.
    pub fn scripts(&self) -> impl Iterator<Item = &str> {
        self.reproduction.iter().chain(&self.further).map(String::as_str)
    }

    /// The place, as `path:line`.
    #[must_use]
    pub fn place(&self) -> String {
        self.line.map_or_else(|| self.path.clone(), |line| format!("{}:{line}", self.path))
    }
}

/// Merges the findings by role, in the order given.
#[must_use]
pub fn merge_findings<'f>(by_role: impl IntoIterator<Item = (&'f str, &'f [AttackFinding])>) -> Vec<MergedFinding> {
    let mut merged: Vec<MergedFinding> = Vec::new();
    for (role, findings) in by_role {
        for finding in findings {
            let key = key(finding);
            match merged.iter_mut().find(|known| known.key == key) {
                Some(known) => join(known, role, finding),
                None => merged.push(first(key, role, finding)),
            }
        }
    }
    merged.sort_by(|a, b| (a.severity, &a.path, a.line, &a.key).cmp(&(b.severity, &b.path, b.line, &b.key)));
    merged
}

fn first(key: String, role: &str, finding: &AttackFinding) -> MergedFinding {
    MergedFinding {
        key,
        severity: finding.severity,
        title: finding.title.clone(),
        path: finding.path.clone(),
        line: finding.line,
        trigger: finding.trigger.clone(),
        reproduction: finding.reproduction.clone(),
        further: Vec::new(),
        roles: vec![role.to_owned()],
    }
}

fn join(known: &mut MergedFinding, role: &str, finding: &AttackFinding) {
    known.severity = known.severity.min(finding.severity);
    match &finding.reproduction {
        Some(script) if known.reproduction.is_none() => known.reproduction = Some(script.clone()),
        Some(script) if known.further.len() < FURTHER_MAX && known.scripts().all(|one| one != script) => {
            known.further.push(script.clone());
        }
        Some(_) | None => {}
    }
    if !known.roles.iter().any(|name| name == role) {
        known.roles.push(role.to_owned());
    }
}

/// Lines move between attempts, so the key has the file and the trigger only.
fn key(finding: &AttackFinding) -> String {
    let path = finding.path.trim().trim_start_matches("./").replace('\\', "/").to_lowercase();
    let trigger = finding.trigger.to_lowercase();
    let words: Vec<_> = trigger.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).collect();
    let hash = hash::hash_fields(&[b"loopwright finding 1", path.as_bytes(), words.join(" ").as_bytes()]);
    hash.chars().take(KEY_LEN).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(severity: FindingSeverity, path: &str, trigger: &str, script: Option<&str>) -> AttackFinding {
        let (title, reproduction) = (format!("{trigger}!"), script.map(str::to_owned));
        AttackFinding {
            severity,
            title,
            path: path.to_owned(),
            line: Some(1),
            trigger: trigger.to_owned(),
            reproduction,
        }
    }

    #[test]
    fn duplicates_merge_by_place_and_trigger_and_the_worst_comes_first() {
        let hostile = [
            finding(FindingSeverity::Low, "b.py", "a slow start", None),
            finding(FindingSeverity::Medium, "./A.py", "Empty  input.", None),
        ];
        let security = [
            finding(FindingSeverity::Critical, "a.py", "empty input", Some("exit 1")),
            finding(FindingSeverity::High, "b.py", "empty input", None),
        ];
        let merged = merge_findings([("hostile-user", hostile.as_slice()), ("security", security.as_slice())]);
        let shown: Vec<_> = merged
            .iter()
            .map(|one| format!("{} {} {} {:?}", one.severity, one.place(), one.roles.join("+"), one.reproduction))
            .collect();
        assert_eq!(
            shown,
            [
                r#"critical ./A.py:1 hostile-user+security Some("exit 1")"#,
                "high b.py:1 security None",
                "low b.py:1 hostile-user None",
            ]
        );
    }

    #[test]
    fn every_different_reproduction_of_one_finding_is_kept() {
        let one = [finding(FindingSeverity::High, "a.py", "empty", Some("exit 0"))];
        let two = [finding(FindingSeverity::High, "a.py", "empty", Some("exit 1"))];
        let all = [("a", one.as_slice()), ("b", two.as_slice()), ("c", one.as_slice())];
        let merged = merge_findings(all);
        assert_eq!(merged.len(), 1);
        assert_eq!(merged[0].scripts().collect::<Vec<_>>(), ["exit 0", "exit 1"]);
    }

    #[test]
    fn order_does_not_depend_on_the_order_of_one_attackers_list() {
        let mut findings = [
            finding(FindingSeverity::High, "b.py", "one", None),
            finding(FindingSeverity::High, "a.py", "two", None),
            finding(FindingSeverity::Critical, "z.py", "three", None),
        ];
        let before = merge_findings([("security", findings.as_slice())]);
        findings.reverse();
        assert_eq!(merge_findings([("security", findings.as_slice())]), before);
    }
}
