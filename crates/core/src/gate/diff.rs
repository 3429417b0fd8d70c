//! The diff gate: the size of a change, the paths it may touch, and the paths it may not delete.

use super::{GateResult, GateStatus};
use crate::paths::{ChangeKind, GlobError, Globs, PathChange};
use crate::spec::{DiffGate, DiffRule};

/// Judges a change. A pattern that is not a glob fails the gate, because the rule cannot be applied.
#[must_use]
pub fn judge(gate: &DiffGate, changes: &[PathChange]) -> GateResult {
    let findings = match findings(&gate.diff, changes) {
        Ok(findings) => findings,
        Err(error) => {
            let failed = GateResult::new(&gate.name, GateStatus::Failed).with_reason("bad-pattern");
            return GateResult { evidence: vec![error.to_string()], ..failed };
        }
    };
    let mut result = GateResult::from_findings(&gate.name, "diff", &findings);
    result.evidence.push(format!("{} files, {} lines changed", changes.len(), lines(changes)));
    result
}

fn lines(changes: &[PathChange]) -> u64 {
    changes.iter().fold(0, |sum, change| sum.saturating_add(change.added).saturating_add(change.removed))
}

/// All violations of the rule in a change.
///
/// # Errors
/// A pattern of the rule is not a glob.
pub fn findings(rule: &DiffRule, changes: &[PathChange]) -> Result<Vec<String>, GlobError> {
    let only = Globs::new(&rule.only)?;
    let no_deletes = Globs::new(&rule.no_deletes)?;
    let mut found = Vec::new();
    let files = changes.len() as u64;
    if let Some(max) = rule.files_max.filter(|max| files > *max) {
        found.push(format!("{files} files changed, the limit is {max}"));
    }
    if let Some(max) = rule.lines_max {
        // A binary file has no lines to count, so a limit on lines cannot hold for it. Report the file instead of
        // passing it.
        found.extend(changes.iter().filter(|one| one.binary).map(|one| format!("`{}` is binary", one.path)));
        let lines = lines(changes);
        if lines > max {
            found.push(format!("{lines} lines changed, the limit is {max}"));
        }
    }
    for change in changes {
        if !rule.only.is_empty() {
            found.extend(
                change.paths().filter(|path| !only.matches(path)).map(|path| format!("`{path}` may not change")),
            );
        }
        let gone = match &change.kind {
            ChangeKind::Deleted => Some(change.path.as_str()),
            ChangeKind::Renamed { from } => Some(from.as_str()),
            ChangeKind::Added | ChangeKind::Modified => None,
        };
        found.extend(gone.filter(|path| no_deletes.matches(path)).map(|path| format!("`{path}` may not be deleted")));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(path: &str, kind: ChangeKind, added: u64, removed: u64) -> PathChange {
        PathChange { added, removed, ..PathChange::new(path, kind) }
    }

    fn found(rule: &DiffRule, changes: &[PathChange]) -> Vec<String> {
        findings(rule, changes).expect("the globs are right")
    }

    #[test]
    fn size_is_bounded() {
        let rule = DiffRule { files_max: Some(1), lines_max: Some(5), ..DiffRule::default() };
        assert_eq!(found(&rule, &[change("a", ChangeKind::Modified, 3, 2)]), Vec::<String>::new());
        let both = [change("a", ChangeKind::Modified, 3, 2), change("b", ChangeKind::Added, 1, 0)];
        assert_eq!(found(&rule, &both).len(), 2);
    }

    #[test]
    fn binary_file_cannot_evade_the_limit_on_lines() {
        let rule = DiffRule { lines_max: Some(5), ..DiffRule::default() };
        let mut binary = PathChange::new("a.bin", ChangeKind::Added);
        binary.binary = true;
        assert_eq!(found(&rule, &[binary]), ["`a.bin` is binary"]);
    }

    #[test]
    fn allowed_paths_apply_to_both_ends_of_a_rename() {
        let rule = DiffRule { only: vec!["src/**".into()], no_deletes: vec!["tests/**".into()], ..DiffRule::default() };
        let moved = change("src/a.rs", ChangeKind::Renamed { from: "tests/a.rs".into() }, 0, 0);
        assert_eq!(found(&rule, &[moved]), ["`tests/a.rs` may not change", "`tests/a.rs` may not be deleted"]);
        assert_eq!(found(&rule, &[change("src/b.rs", ChangeKind::Deleted, 0, 4)]), Vec::<String>::new());
    }

    #[test]
    fn bad_glob_fails_the_gate() {
        let diff = DiffRule { only: vec!["[".into()], ..DiffRule::default() };
        let result = judge(&DiffGate { name: "small".into(), diff }, &[]);
        assert_eq!(result.status, GateStatus::Failed);
    }
}
