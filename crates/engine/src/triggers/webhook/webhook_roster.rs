//! The loops that an event makes due: those that name it, of its repository and branch, if its sender has the rights.
//! All of this is decided before there is a signal.

use super::super::repo_queries;
use super::super::watched_repos::{WatchedRepo, is_own_branch};
use super::WebhookOptions;
use super::event::WebhookEvent;
use crate::git::Git;
use loopwright_core::spec::{LoopSpec, ProbeSpec};
use loopwright_core::worded;
use std::collections::BTreeSet;

worded! {
    /// Why an event makes no loop due.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum IgnoreReason {
        /// No repository here has its address.
        Repository = "unknown repository",
        /// No loop names it.
        Loop = "no loop waits for it",
        /// It is about another branch.
        Branch = "another branch",
        /// Loopwright caused it.
        Own = "caused by loopwright itself",
        /// Its sender has no rights to the repository.
        Stranger = "a person without rights to the repository",
    }
}

/// A loop that an event makes due.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct DueLoop {
    pub(super) repo: String,
    pub(super) loop_name: String,
    /// The event only wakes the loop; its probe finds the items.
    pub(super) is_hint: bool,
}

/// The loops that wait for events, with the addresses of their repositories.
#[derive(Debug, Default)]
pub(super) struct WebhookRoster {
    repos: Vec<Repo>,
}

#[derive(Debug)]
struct Repo {
    id: String,
    remotes: BTreeSet<String>,
    loops: Vec<LoopSpec>,
}

impl WebhookRoster {
    pub(super) async fn from_watched(git: &Git, watched: &[WatchedRepo]) -> Self {
        let mut repos = Vec::new();
        for one in watched {
            let loops: Vec<LoopSpec> = one.loops.iter().filter(|one| !one.on.webhook.is_empty()).cloned().collect();
            if loops.is_empty() {
                continue;
            }
            // A repository whose remotes cannot be read has none, and receives only generic events.
            let remotes = repo_queries::remote_addresses(git, &one.repo).await.unwrap_or_default();
            let remotes = remotes.iter().filter_map(|address| normalise_address(address)).collect();
            repos.push(Repo { id: one.repo.id.clone(), remotes, loops });
        }
        Self { repos }
    }

    /// Every loop that an event makes due, or why there is none.
    pub(super) fn match_loops(
        &self,
        event: &WebhookEvent,
        options: &WebhookOptions,
    ) -> Result<Vec<DueLoop>, IgnoreReason> {
        let addresses: BTreeSet<String> =
            event.remotes.iter().filter_map(|address| normalise_address(address)).collect();
        let is_here = |repo: &&Repo| event.source == "generic" || !repo.remotes.is_disjoint(&addresses);
        let repos: Vec<&Repo> = self.repos.iter().filter(is_here).collect();
        if repos.is_empty() {
            return Err(if event.source == "generic" { IgnoreReason::Loop } else { IgnoreReason::Repository });
        }
        if is_by(event, &options.own) {
            return Err(IgnoreReason::Own);
        }
        let mut why = IgnoreReason::Loop;
        let mut due = Vec::new();
        for repo in repos {
            for one in repo.loops.iter().filter(|one| one.on.webhook.iter().any(|pattern| is_named(event, pattern))) {
                match judge(event, one, &options.trusted) {
                    Ok(()) => due.push(DueLoop {
                        repo: repo.id.clone(),
                        loop_name: one.name.clone(),
                        is_hint: follows_own(one),
                    }),
                    Err(ignored) => why = ignored,
                }
            }
        }
        if due.is_empty() { Err(why) } else { Ok(due) }
    }
}

/// Whether one of these accounts caused the event.
fn is_by(event: &WebhookEvent, own: &[String]) -> bool {
    let is_ours = |actor: &String| own.iter().any(|own| own.eq_ignore_ascii_case(actor));
    event.actor.as_ref().is_some_and(is_ours)
}

/// Whether the loop follows the pull requests of loops. Its probe then finds the items, so that an event cannot name
/// one.
fn follows_own(one: &LoopSpec) -> bool {
    matches!(&one.on.probe, Some(ProbeSpec::Ask(ask)) if ask.follow_own)
}

fn judge(event: &WebhookEvent, one: &LoopSpec, trusted: &[String]) -> Result<(), IgnoreReason> {
    let is_own_work = event.branch.iter().chain(&event.head_branch).any(|branch| is_own_branch(branch));
    if is_own_work && !follows_own(one) {
        return Err(IgnoreReason::Own);
    }
    // A check of a loop's branch names that branch, not the target of its pull request.
    let is_own_check = event.branch.as_deref().is_some_and(is_own_branch);
    if !is_own_check && !is_about_branch(event, one) {
        return Err(IgnoreReason::Branch);
    }
    let may = |actor: &String| trusted.iter().chain(&one.approvers).any(|name| name.eq_ignore_ascii_case(actor));
    if event.is_insider || event.actor.as_ref().is_some_and(may) { Ok(()) } else { Err(IgnoreReason::Stranger) }
}

/// An event about a branch counts for the branches in `push`, else for the loop's base, else for the repository's
/// default branch.
fn is_about_branch(event: &WebhookEvent, one: &LoopSpec) -> bool {
    if event.moves_nothing {
        return false;
    }
    let Some(branch) = &event.branch else { return true };
    if !one.on.push.is_empty() {
        return one.on.push.contains(branch);
    }
    one.base.as_ref().or(event.default_branch.as_ref()).is_none_or(|base| base == branch)
}

/// `github.workflow_run`, `github.workflow_run.failure`, `github.*`. Without a detail, only finished events count.
fn is_named(event: &WebhookEvent, pattern: &str) -> bool {
    let Some((source, rest)) = pattern.split_once('.') else { return false };
    let is = |part: &str, text: &str| part == "*" || part.eq_ignore_ascii_case(text);
    if !is(source, event.source) {
        return false;
    }
    // The name of a generic event may contain dots.
    if is(rest, &event.name) {
        return event.is_final;
    }
    match rest.rsplit_once('.') {
        Some((name, detail)) => {
            is(name, &event.name) && (detail == "*" || event.details.iter().any(|has| is(detail, has)))
        }
        None => false,
    }
}

/// The address of a repository as `host/owner/name` in lower case, so that a delivery's repository can be compared with a
/// clone's remotes; `None` for a path on this machine.
fn normalise_address(address: &str) -> Option<String> {
    let address = address.trim();
    let (host, path) = match address.split_once("://") {
        Some((scheme, rest)) => {
            let is_remote = ["http", "https", "ssh", "git", "git+ssh"].contains(&scheme.to_ascii_lowercase().as_str());
            is_remote.then_some(())?;
            rest.split_once('/')?
        }
        // `git@host:owner/name`: the part before the first colon is not a path.
        None => address.split_once(':').filter(|(host, _)| !host.contains('/'))?,
    };
    let host = host.rsplit('@').next().unwrap_or(host).split(':').next().unwrap_or(host);
    let path = path.trim_matches('/');
    let path = path.strip_suffix(".git").unwrap_or(path);
    let is_whole = !host.is_empty() && !path.is_empty();
    is_whole.then(|| format!("{host}/{path}").to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_repository_has_one_address_however_it_is_spelt() {
        let spellings = [
            "https://github.com/Acme/Shop",
            "https://github.com/acme/shop.git",
            "https://token@github.com/acme/shop/",
            "git@github.com:acme/shop.git",
            "ssh://git@github.com:22/acme/shop.git",
        ];
        for spelling in spellings {
            assert_eq!(normalise_address(spelling).as_deref(), Some("github.com/acme/shop"), "{spelling}");
        }
        for none in ["/srv/git/shop.git", "../shop", "file:///srv/shop", "C:/shop/x:y", "", "https://github.com"] {
            assert_ne!(normalise_address(none).as_deref(), Some("github.com/acme/shop"), "{none}");
        }
        assert_ne!(normalise_address("https://github.com.evil.org/acme/shop").as_deref(), Some("github.com/acme/shop"));
    }
}
