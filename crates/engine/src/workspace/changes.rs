//! The differences between a base and a sealed tree, as git reports them.

use std::collections::HashMap;

use super::WorkspaceError;
use super::plan::SealPlan;
use super::sealed::{ChangeStatus, SealedChange};
use super::survey::SurveyedFile;
use crate::git::{EngineRepo, Oid, TREE_MAX};

pub(super) async fn changes(
    engine: &EngineRepo,
    base: &Oid,
    tree: &Oid,
    plan: &SealPlan,
) -> Result<Vec<SealedChange>, WorkspaceError> {
    let call = engine.call("git.diff-tree").args(["-r", "-z", "--raw", "--numstat", "--no-renames", "--no-abbrev"]);
    let call = call.args(["--no-ext-diff", "--no-textconv", base.as_str(), tree.as_str()]).out_max(TREE_MAX);
    let answer = engine.git().run(call).await?;
    let mut changes = parse_diff(&answer.stdout);
    let found: HashMap<&[u8], &SurveyedFile> = plan.files.iter().map(|file| (file.path.as_slice(), file)).collect();
    for change in &mut changes {
        let file = found.get(change.path.as_bytes());
        change.size = file.map_or(0, |file| file.size);
        // Git must have sealed what the survey saw; otherwise a process is still writing here.
        if file.is_some_and(|file| file.mode != change.mode_after) {
            return Err(WorkspaceError::Moving(change.path.clone()));
        }
    }
    Ok(changes)
}

/// Parses `diff-tree -z --raw --numstat`: first all raw records, then all line counts.
fn parse_diff(bytes: &[u8]) -> Vec<SealedChange> {
    let mut fields = bytes.split(|byte| *byte == 0);
    let mut changes: Vec<SealedChange> = Vec::new();
    let mut places: HashMap<Vec<u8>, usize> = HashMap::new();
    while let Some(field) = fields.next() {
        if field.first() == Some(&b':') {
            if let Some((path, change)) = fields.next().and_then(|path| Some((path, raw_change(field, path)?))) {
                places.insert(path.to_vec(), changes.len());
                changes.push(change);
            }
        } else {
            count_lines(field, &places, &mut changes);
        }
    }
    changes
}

fn raw_change(record: &[u8], path: &[u8]) -> Option<SealedChange> {
    let text = std::str::from_utf8(record.get(1..)?).ok()?;
    let mut words = text.split(' ');
    let mode_before = u32::from_str_radix(words.next()?, 8).ok()?;
    let mode_after = u32::from_str_radix(words.next()?, 8).ok()?;
    let status = match words.nth(2)? {
        "A" => ChangeStatus::Added,
        "D" => ChangeStatus::Deleted,
        "T" => ChangeStatus::TypeChanged,
        _ => ChangeStatus::Modified,
    };
    let path = String::from_utf8_lossy(path).into_owned();
    Some(SealedChange {
        path,
        status,
        mode_before,
        mode_after,
        lines_added: 0,
        lines_removed: 0,
        binary: false,
        size: 0,
    })
}

/// `<added> TAB <removed> TAB <path>`; two dashes mean binary.
fn count_lines(record: &[u8], places: &HashMap<Vec<u8>, usize>, changes: &mut [SealedChange]) {
    let mut parts = record.splitn(3, |byte| *byte == b'\t');
    let (Some(added), Some(removed), Some(path)) = (parts.next(), parts.next(), parts.next()) else { return };
    let Some(change) = places.get(path).and_then(|at| changes.get_mut(*at)) else { return };
    let number = |text: &[u8]| std::str::from_utf8(text).ok().and_then(|text| text.parse().ok());
    change.binary = added == b"-";
    change.lines_added = number(added).unwrap_or(0);
    change.lines_removed = number(removed).unwrap_or(0);
}
