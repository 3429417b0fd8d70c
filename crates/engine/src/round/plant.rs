//! Plant: makes a known-bad change of base for the checker of a calibration round. The change exists only as a commit of
//! the engine's repository; no outbox item refers to it.

use super::StageError;
use super::context::{RoundContext, pinned_base};
use crate::git::{CommitMetadata, TreeEntry};
use loopwright_core::calibration::{PlantSite, plant_sites};
use loopwright_core::hash::hash_fields;
use loopwright_core::outbox;
use loopwright_core::paths::Globs;
use loopwright_core::round::{ChangeFact, Event, PlantedChange, RoundFacts, Stage};

/// The most bytes of a file that may carry a planted change.
const FILE_MAX: usize = 256 << 10;
/// The most files that are searched for a place.
const FILES_MAX: usize = 200;
/// Folders and files whose lines are not the loop's work.
const LEFT_OUT: [&str; 8] = [".loopwright/", ".git", "vendor/", "node_modules/", ".md", ".txt", ".lock", ".json"];
/// An ordinary or executable file.
const FILE_MODES: [u32; 2] = [0o100_644, 0o100_755];

pub(super) async fn plant(cx: &RoundContext<'_>, facts: &RoundFacts) -> Result<Event, StageError> {
    let broke = |error: &dyn std::error::Error| StageError::broke(Stage::Seal, "plant", error);
    let (base, objects) = (pinned_base(facts)?, cx.objects());
    let (file, text, site) = choose(cx, facts).await?;
    let content = site.plant(&text);
    let folder = cx.engine.state_dir.root().join("calibrations");
    crate::state_dir::make_dir(&folder).map_err(|error| broke(&error))?;
    let index = folder.join(format!("{}.index", cx.id));
    let tree = objects.tree_with(&base, &file, &content, &index).await;
    // The index is only needed for the one tree.
    let _ = std::fs::remove_file(&index);
    let tree = tree.map_err(|error| broke(&error))?;
    let words = commit_words(cx, facts);
    let commit = objects.commit(&tree, &base, &words).await.map_err(|error| broke(&error))?;
    let kept = objects.set_round_ref(&cx.id, "planted", &commit).await;
    kept.map_err(|error| broke(&error))?;
    let added = u64::from(content.lines().count() == text.lines().count());
    let (path, status) = (file.path.clone(), "modified".to_owned());
    Ok(Event::Planted(Box::new(PlantedChange {
        kind: site.kind,
        path: file.path,
        line: site.line,
        candidate: outbox::candidate_hash(Some(tree.as_str()), &[]),
        tree: tree.to_string(),
        commit: commit.to_string(),
        changes: vec![ChangeFact { path, status, added, removed: 1 }],
    })))
}

/// The place of the change. The round's id decides, so that a resumed round plants the same one.
async fn choose(cx: &RoundContext<'_>, facts: &RoundFacts) -> Result<(TreeEntry, String, PlantSite), StageError> {
    let broke = |error: &dyn std::error::Error| StageError::broke(Stage::Seal, "plant", error);
    let (base, objects) = (pinned_base(facts)?, cx.objects());
    let files = objects.list_tree(&base).await.map_err(|error| broke(&error))?;
    let mut files: Vec<_> = files.into_iter().filter(|file| may_carry(facts, file)).collect();
    files.sort_by_key(|file| draw(&cx.id, &file.path));
    for file in files.into_iter().take(FILES_MAX) {
        let Ok(Some(bytes)) = objects.read_blob(&base, &file.path, FILE_MAX).await else { continue };
        let Ok(text) = String::from_utf8(bytes) else { continue };
        let sites = plant_sites(&text);
        let best =
            sites.into_iter().min_by_key(|site| draw(&cx.id, &format!("{}:{}:{}", file.path, site.line, site.kind)));
        if let Some(site) = best {
            return Ok((file, text, site));
        }
    }
    let text = "no line of base can carry a planted change: the loop's paths have no conditions, bounds or checks";
    Err(StageError::failed(Stage::Seal, "nothing-to-plant", text))
}

/// The engine rejects changes of other paths itself, so they would say nothing about the checker.
fn may_carry(facts: &RoundFacts, file: &TreeEntry) -> bool {
    let spec = &facts.started.spec;
    let matches = |globs: &[String]| Globs::new(globs).is_ok_and(|globs| globs.matches(&file.path));
    let is_left_out = LEFT_OUT.iter().any(|part| file.path.starts_with(part) || file.path.ends_with(part));
    FILE_MODES.contains(&file.mode)
        && !is_left_out
        && !matches(&spec.protect)
        && (spec.allow_paths.is_empty() || matches(&spec.allow_paths))
}

fn draw(round: &str, what: &str) -> String {
    hash_fields(&[b"loopwright plant 1", round.as_bytes(), what.as_bytes()])
}

fn commit_words(cx: &RoundContext<'_>, facts: &RoundFacts) -> CommitMetadata {
    let identity = &cx.engine.settings.identity;
    CommitMetadata {
        message: facts.started.spec.intent.clone(),
        name: identity.name.clone(),
        email: identity.email.clone(),
        at_unix: cx.started_ms.div_euclid(1000),
    }
}
