//! Chains of loops that answer each other: loop, effect, loop. Each effect has its loop and its round in its marker, so
//! the chain behind an item is counted back to the last word of a person, for at most an hour. `core` decides when a
//! chain is too long.

use crate::engine::Engine;
use crate::error::EngineError;
use crate::git::{GitCall, GitError, GitErrorKind, Oid, UserRepo};
use crate::store::StoreError;
use loopwright_core::forge::{CommentKind, ForgeComment, ForgeItem};
use loopwright_core::outbox::marker_round;
use loopwright_core::round::{ProbeItem, RoundFacts};
use std::collections::{BTreeSet, HashMap};
use std::path::Path;

/// Effects that are older do not count.
const CHAIN_MS: i64 = 3_600_000;
/// The trailer that names the round in a sealed commit.
const TRAILER: &str = "Loopwright-Round: ";
/// The most bytes of a commit that are read.
const COMMIT_BYTES_MAX: usize = 1 << 20;

/// An effect of a loop: its loop, and its round if the text has a marker.
type LoopEffect<'a> = (&'a str, Option<&'a str>);

/// The number of effects of loops that led to this state of an issue.
pub(super) async fn of_issue(engine: &Engine, issue: &ForgeItem, comments: &[ForgeComment]) -> Result<u32, StoreError> {
    let (mut effects, is_whole) = latest_effects(comments);
    let mut earlier = 0;
    for (_, round) in &effects {
        earlier = earlier.max(of_start(engine, *round).await?);
    }
    if let (true, Some(author)) = (is_whole, &issue.loop_name) {
        let round = marker_round(&issue.body);
        effects.push((author, round));
        earlier = earlier.max(of_round(engine, round).await?);
    }
    Ok(links(&effects).saturating_add(earlier))
}

/// The number of effects that led to a signal without an item: the commit of a push, or the end of another loop's round.
pub(crate) async fn after_signal(engine: &Engine, repo: &UserRepo, key: &str) -> Result<u32, EngineError> {
    let Some((kind, last)) = key.split_once(':').zip(key.rsplit_once(':')).map(|(first, last)| (first.0, last.1))
    else {
        return Ok(0);
    };
    match (kind, last.parse::<Oid>()) {
        ("push", Ok(commit)) => after_commit(engine, repo, &commit).await,
        // The end of a round is no effect, but what led to the round also led to the one that follows.
        ("after", _) => Ok(of_round(engine, Some(last)).await?),
        _ => Ok(0),
    }
}

/// Several comments of one round are one link. A loop that comments again and again answers no other loop.
fn links(effects: &[LoopEffect<'_>]) -> u32 {
    let loops: BTreeSet<&str> = effects.iter().map(|(name, _)| *name).collect();
    if loops.len() < 2 {
        return u32::from(!loops.is_empty());
    }
    let rounds: BTreeSet<&str> = effects.iter().filter_map(|(_, round)| *round).collect();
    let unknown = effects.iter().filter(|(_, round)| round.is_none()).count();
    u32::try_from(rounds.len() + unknown).unwrap_or(u32::MAX)
}

/// The latest comments of loops, newest first, up to a person's comment, and whether there is none by a person. The hour
/// ends with the newest comment, so that only the forge's own clock matters.
fn latest_effects(comments: &[ForgeComment]) -> (Vec<LoopEffect<'_>>, bool) {
    let newest_ms = comments.iter().map(|comment| comment.created_ms).max().unwrap_or_default();
    let mut effects = Vec::new();
    let mut comments: Vec<&ForgeComment> = comments.iter().filter(|one| one.kind != CommentKind::Labels).collect();
    comments.sort_by_key(|comment| comment.created_ms);
    for comment in comments.into_iter().rev() {
        // A forge on this machine does not say when a comment was written.
        let is_old = comment.created_ms != 0 && comment.created_ms < newest_ms - CHAIN_MS;
        match &comment.loop_name {
            Some(name) if !is_old => effects.push((name.as_str(), marker_round(&comment.body))),
            Some(_) | None => return (effects, false),
        }
    }
    (effects, true)
}

/// The number of effects that led to something that a round wrote, with that effect itself; 0 if no round of the last
/// hour wrote it.
pub(crate) async fn after_round(engine: &Engine, text: &str) -> Result<u32, StoreError> {
    match marker_round(text) {
        Some(round) => Ok(of_round(engine, Some(round)).await?.saturating_add(1)),
        None => Ok(0),
    }
}

/// The number of effects that led to a commit, with the commit itself; 0 if no round of the last hour made it.
pub(super) async fn after_commit(engine: &Engine, repo: &UserRepo, commit: &Oid) -> Result<u32, EngineError> {
    let own = engine.workspaces(repo.clone()).await?.engine().dir().to_owned();
    for git_dir in [&own, &repo.git_dir] {
        let Some(text) = commit_text(engine, git_dir, commit).await? else { continue };
        let round = match (trailer_round(&text), merged_parent(&text)) {
            (None, Some(merged)) => commit_text(engine, git_dir, &merged).await?.as_deref().and_then(trailer_round),
            (round, _) => round,
        };
        let Some(round) = round else { return Ok(0) };
        return Ok(if is_recent(engine, &round).await? {
            of_round(engine, Some(&round)).await?.saturating_add(1)
        } else {
            0
        });
    }
    Ok(0)
}

/// The round that a commit's message names.
fn trailer_round(commit: &str) -> Option<String> {
    let round = commit.lines().rev().find_map(|line| line.strip_prefix(TRAILER));
    round.filter(|round| !round.is_empty()).map(str::to_owned)
}

/// The tip of the branch that a merge commit merged. A forge writes such a commit without the trailer.
fn merged_parent(commit: &str) -> Option<Oid> {
    let header = commit.lines().take_while(|line| !line.is_empty());
    header.filter_map(|line| line.strip_prefix("parent ")).nth(1)?.parse().ok()
}

/// Counts the chains of items about commits, whose keys end with `@` and the commit.
pub(crate) async fn count_commits(
    engine: &Engine,
    repo: &UserRepo,
    items: &mut [ProbeItem],
) -> Result<(), EngineError> {
    let mut known: HashMap<Oid, u32> = HashMap::new();
    for item in items {
        let Some(commit) = item.key.rsplit_once('@').and_then(|(_, commit)| commit.parse::<Oid>().ok()) else {
            continue;
        };
        let chain = match known.get(&commit) {
            Some(chain) => *chain,
            None => after_commit(engine, repo, &commit).await?,
        };
        known.insert(commit, chain);
        item.chain = item.chain.max(chain);
    }
    Ok(())
}

/// `None` if the repository does not have the commit.
async fn commit_text(engine: &Engine, git_dir: &Path, commit: &Oid) -> Result<Option<String>, GitError> {
    let call = GitCall::new("git.cat-file").git_dir(git_dir).args(["commit", commit.as_str()]);
    match engine.git.run(call.truncate_at(COMMIT_BYTES_MAX)).await {
        Ok(answer) => Ok(Some(String::from_utf8_lossy(&answer.stdout).into_owned())),
        Err(error) if matches!(error.kind, GitErrorKind::UnknownRef | GitErrorKind::Failed(Some(128))) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Whether a round of this machine started within the last hour.
async fn is_recent(engine: &Engine, round: &str) -> Result<bool, StoreError> {
    let row = engine.store.round(round).await?;
    Ok(row.is_some_and(|row| row.started_ms >= engine.now_ms() - CHAIN_MS))
}

/// The chain of a round, of its items or its start. A round of another machine is not known here.
async fn of_round(engine: &Engine, round: Option<&str>) -> Result<u32, StoreError> {
    let Some(facts) = recent_facts(engine, round).await? else { return Ok(0) };
    let of_items = facts.items.iter().map(|item| item.chain).max().unwrap_or_default();
    Ok(of_items.max(facts.started.chain))
}

/// The chain of a round's start: effects that no comment of an issue shows.
async fn of_start(engine: &Engine, round: Option<&str>) -> Result<u32, StoreError> {
    Ok(recent_facts(engine, round).await?.map_or(0, |facts| facts.started.chain))
}

async fn recent_facts(engine: &Engine, round: Option<&str>) -> Result<Option<RoundFacts>, StoreError> {
    let Some(round) = round else { return Ok(None) };
    if !is_recent(engine, round).await? {
        return Ok(None);
    }
    // A record that cannot be read is reported where the round is resumed.
    Ok(engine.load_round(round).await.ok().map(|recorded| recorded.round.facts().clone()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn comment(loop_name: &str, created_ms: i64) -> ForgeComment {
        ForgeComment {
            author_id: None,
            created_ms,
            is_edited: false,
            id: "1".to_owned(),
            kind: CommentKind::Plain,
            author: None,
            loop_name: Some(loop_name.to_owned()).filter(|name| !name.is_empty()),
            body: String::new(),
        }
    }

    #[test]
    fn chain_goes_back_to_a_person_or_an_hour() {
        let now_ms = 10 * CHAIN_MS;
        type ChainCase<'c> = (&'c [(&'c str, i64)], &'c [&'c str], bool);
        let table: [ChainCase<'_>; 5] = [
            (&[], &[], true),
            (&[("a", now_ms), ("b", now_ms), ("a", now_ms)], &["a", "b", "a"], true),
            (&[("a", now_ms), ("", now_ms), ("b", now_ms)], &["b"], false),
            (&[("a", now_ms), ("", now_ms)], &[], false),
            (&[("a", now_ms - CHAIN_MS - 1), ("b", now_ms)], &["b"], false),
        ];
        for (all, expected, is_whole) in table {
            let comments: Vec<_> = all.iter().map(|(name, at_ms)| comment(name, *at_ms)).collect();
            let (found, whole) = latest_effects(&comments);
            let names: Vec<&str> = found.iter().map(|(name, _)| *name).collect();
            assert_eq!((names.as_slice(), whole), (expected, is_whole));
        }
    }

    #[test]
    fn rounds_of_several_loops_are_links_and_comments_of_one_loop_are_not() {
        let table: [(&[LoopEffect<'_>], u32); 5] = [
            (&[], 0),
            (&[("a", Some("1")), ("a", Some("2")), ("a", Some("3"))], 1),
            (&[("b", Some("2")), ("b", Some("2")), ("a", Some("1"))], 2),
            (&[("b", Some("4")), ("a", Some("3")), ("a", Some("2")), ("b", Some("1"))], 4),
            (&[("b", None), ("a", None), ("b", None)], 3),
        ];
        for (effects, expected) in table {
            assert_eq!(links(effects), expected, "{effects:?}");
        }
    }
}
