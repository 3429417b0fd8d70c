//! GitHub's pull requests: create, list, change, merge, files, commits and requested reviewers.

use super::{GitHubCall, check_length, error, invalid, not_found, parse_number};
use crate::fake_forge::access::{ForgeAccess, ForgeArea};
use crate::fake_forge::http::{ApiAnswer, ApiResult};
use crate::fake_forge::state::{FakeItem, FakePull, NewItem, RepoState};
use serde_json::{Value, json};

/// The name of a pull request in validation errors.
const RESOURCE: &str = "PullRequest";

impl GitHubCall<'_> {
    /// Routes below `/repos/{owner}/{repo}/pulls`.
    pub(super) fn route_pulls(&mut self, repo: &str, words: &[&str]) -> ApiResult {
        match (self.api.method.as_str(), words) {
            ("GET", []) => self.list_pulls(repo),
            ("POST", []) => self.create_pull(repo),
            ("GET", [number]) => self.get_pull(repo, number),
            ("PATCH", [number]) => self.update_pull(repo, number),
            ("GET", [number, "files"]) => self.pull_files(repo, number),
            ("GET", [number, "commits"]) => self.pull_commits(repo, number),
            ("GET", [number, "merge"]) => self.is_merged(repo, number),
            ("PUT", [number, "merge"]) => self.merge_pull(repo, number),
            ("PUT", [number, "update-branch"]) => self.update_branch(repo, number),
            (_, [number, "requested_reviewers"]) => self.requested_reviewers(repo, number),
            _ => Err(not_found()),
        }
    }

    /// A pull request by the number in a path.
    pub(super) fn pull<'r>(repo: &'r RepoState, number: &str) -> Result<(&'r FakeItem, &'r FakePull), ApiAnswer> {
        let item = repo.items.get(&parse_number(number)?).ok_or_else(not_found)?;
        Ok((item, item.pull.as_ref().ok_or_else(not_found)?))
    }

    fn list_pulls(&mut self, repo: &str) -> ApiResult {
        let found = self.check(repo, ForgeArea::Pulls, ForgeAccess::Read)?;
        let state = self.api.parameter("state").unwrap_or("open");
        let base = self.api.parameter("base");
        let head = self.api.parameter("head").map(|head| head.split_once(':').map_or(head, |(_, branch)| branch));
        let is_wanted = |item: &&FakeItem| {
            let Some(pull) = &item.pull else { return false };
            let is_state = match state {
                "all" => true,
                "closed" => !item.open,
                _ => item.open,
            };
            is_state
                && base.is_none_or(|base| pull.base_branch == base)
                && head.is_none_or(|head| pull.head_branch == head)
        };
        let mut items: Vec<&FakeItem> = found.items.values().filter(is_wanted).collect();
        if self.api.parameter("sort") == Some("updated") {
            items.sort_by(|one, other| one.updated.cmp(&other.updated));
        }
        // Without a direction, the newest is first; only another order than by creation starts with the oldest.
        let default = if matches!(self.api.parameter("sort"), None | Some("created")) { "desc" } else { "asc" };
        if self.api.parameter("direction").unwrap_or(default) == "desc" {
            items.reverse();
        }
        let rows = items.into_iter().filter_map(|item| Some(self.pull_json(found, item, item.pull.as_ref()?)));
        Ok(self.api.page(rows.collect()))
    }

    fn create_pull(&mut self, repo: &str) -> ApiResult {
        let found = self.check_push(repo, ForgeArea::Pulls)?;
        let (Some(head), Some(base)) = (self.api.text("head"), self.api.text("base")) else {
            let missing = if self.api.text("head").is_none() { "head" } else { "base" };
            return Err(invalid(RESOURCE, missing, "missing_field", None));
        };
        let head = head.split_once(':').map_or(head, |(_, branch)| branch);
        let pull = new_pull(found, head, base, self.api.body["draft"].as_bool().unwrap_or(false))?;
        let title = self.body_text(RESOURCE, "title")?;
        let body = self.api.text("body").map(str::to_owned);
        check_length(RESOURCE, "body", body.as_deref().unwrap_or_default())?;
        let author = self.api.login().to_owned();
        let item = NewItem { title, body, author, pull: Some(pull), ..NewItem::default() };
        let number = self.state.add_item(repo, item);
        let found = self.found(repo);
        let (item, pull) = Self::pull(found, &number.to_string())?;
        Ok(ApiAnswer::created(self.full_pull_json(found, item, pull)))
    }

    fn get_pull(&mut self, repo: &str, number: &str) -> ApiResult {
        let found = self.check(repo, ForgeArea::Pulls, ForgeAccess::Read)?;
        let (item, pull) = Self::pull(found, number)?;
        Ok(ApiAnswer::ok(self.full_pull_json(found, item, pull)))
    }

    fn update_pull(&mut self, repo: &str, number: &str) -> ApiResult {
        let found = self.check_push(repo, ForgeArea::Pulls)?;
        let (item, pull) = Self::pull(found, number)?;
        let (number, is_merged) = (item.number, pull.merged.is_some());
        let reopens = self.api.text("state") == Some("open") && !item.open;
        if reopens && (is_merged || !found.branches.contains_key(&pull.head_branch)) {
            return Err(invalid(RESOURCE, "state", "custom", Some("state cannot be changed. The branch was deleted.")));
        }
        if let Some(base) = self.api.text("base").filter(|base| !found.branches.contains_key(*base)) {
            let message = format!("Proposed base branch '{base}' was not found");
            return Err(invalid(RESOURCE, "base", "invalid", Some(&message)));
        }
        let body = &self.api.body;
        check_length(RESOURCE, "body", body["body"].as_str().unwrap_or_default())?;
        check_length(RESOURCE, "title", body["title"].as_str().unwrap_or_default())?;
        let (now, login, body) = (self.state.next_time(), self.api.login().to_owned(), body.clone());
        let found = self.found_mut(repo);
        let base = body["base"].as_str().and_then(|base| Some((base.to_owned(), found.branches.get(base)?.clone())));
        let item = found.items.get_mut(&number).ok_or_else(not_found)?;
        change_item(item, &body, &login, &now);
        if let (Some(pull), Some((branch, commit))) = (item.pull.as_mut(), base) {
            (pull.base_branch, pull.base) = (branch, commit);
        }
        self.get_pull(repo, &number.to_string())
    }

    fn pull_files(&mut self, repo: &str, number: &str) -> ApiResult {
        let found = self.check(repo, ForgeArea::Pulls, ForgeAccess::Read)?;
        let (_, pull) = Self::pull(found, number)?;
        Ok(self.api.page(self.files_json(found, &pull.base, &pull.head)))
    }

    fn pull_commits(&mut self, repo: &str, number: &str) -> ApiResult {
        let found = self.check(repo, ForgeArea::Pulls, ForgeAccess::Read)?;
        let (_, pull) = Self::pull(found, number)?;
        let mut commits = found.git.commits(&format!("{}..{}", pull.base, pull.head), 250);
        commits.reverse();
        Ok(self.api.page(commits.iter().map(|commit| self.commit_json(found, commit)).collect()))
    }

    fn is_merged(&mut self, repo: &str, number: &str) -> ApiResult {
        let found = self.check(repo, ForgeArea::Pulls, ForgeAccess::Read)?;
        let (_, pull) = Self::pull(found, number)?;
        if pull.merged.is_some() { Ok(ApiAnswer::empty()) } else { Err(not_found()) }
    }

    fn merge_pull(&mut self, repo: &str, number: &str) -> ApiResult {
        let found = self.check_push(repo, ForgeArea::Contents)?;
        let (item, pull) = Self::pull(found, number)?;
        let number = item.number;
        if self.api.text("sha").is_some_and(|sha| sha != pull.head) {
            return Err(error(409, "Head branch was modified. Review and try the merge again."));
        }
        if pull.draft {
            return Err(error(405, "Pull Request is still a draft"));
        }
        let squash = self.api.text("merge_method").is_some_and(|method| method != "merge");
        let (now, login) = (self.state.next_time(), self.api.login().to_owned());
        let merged = self.found_mut(repo).merge_pull(number, squash, &login, &now);
        let sha = merged.map_err(|_| error(405, "Pull Request is not mergeable"))?;
        Ok(ApiAnswer::ok(json!({"sha": sha, "merged": true, "message": "Pull Request successfully merged"})))
    }

    /// Merges the base branch into the pull request's branch.
    fn update_branch(&mut self, repo: &str, number: &str) -> ApiResult {
        let found = self.check_push(repo, ForgeArea::Pulls)?;
        let (item, pull) = Self::pull(found, number)?;
        if self.api.text("expected_head_sha").is_some_and(|sha| sha != pull.head) {
            return Err(error(422, "expected head sha didn’t match current head ref."));
        }
        let base = found.branches.get(&pull.base_branch).cloned().ok_or_else(not_found)?;
        let (branch, url) = (pull.head_branch.clone(), format!("{}/pulls/{}", self.repo_url(found), item.number));
        let commit = found.git.merge(&pull.head, &base, false, "Merge the base branch");
        let commit = commit.map_err(|_| error(422, "merge conflict between base and head"))?;
        let found = self.found_mut(repo);
        found.git.set_branch(&branch, Some(&commit)).map_err(|_| error(422, "the branch cannot be updated"))?;
        found.refresh();
        Ok(ApiAnswer::new(202, json!({"message": "Updating pull request branch.", "url": url})))
    }

    fn requested_reviewers(&mut self, repo: &str, number: &str) -> ApiResult {
        if self.api.method == "GET" {
            let found = self.check(repo, ForgeArea::Pulls, ForgeAccess::Read)?;
            let (_, pull) = Self::pull(found, number)?;
            let users: Vec<Value> = pull.reviewers.iter().map(|login| self.user_json(login)).collect();
            return Ok(ApiAnswer::ok(json!({"users": users, "teams": []})));
        }
        let found = self.check_push(repo, ForgeArea::Pulls)?;
        let (item, _) = Self::pull(found, number)?;
        let (number, names) = (item.number, self.api.texts("reviewers").unwrap_or_default());
        let adds = self.api.method == "POST";
        if adds && names.contains(&item.author) {
            return Err(error(422, "Review cannot be requested from pull request author."));
        }
        if adds && names.iter().any(|name| !found.may_write(name)) {
            let text = "Reviews may only be requested from collaborators. One or more of the users or teams you \
                        specified is not a collaborator of the";
            return Err(error(422, &format!("{text} {repo} repository.")));
        }
        let item = self.found_mut(repo).items.get_mut(&number).ok_or_else(not_found)?;
        let reviewers = &mut item.pull.as_mut().ok_or_else(not_found)?.reviewers;
        reviewers.retain(|known| !names.contains(known));
        if adds {
            reviewers.extend(names);
        }
        let found = self.found(repo);
        let (item, pull) = Self::pull(found, &number.to_string())?;
        let answer = self.pull_json(found, item, pull);
        Ok(if adds { ApiAnswer::created(answer) } else { ApiAnswer::ok(answer) })
    }
}

/// Checks the branches of a new pull request as GitHub does.
fn new_pull(repo: &RepoState, head: &str, base: &str, draft: bool) -> Result<FakePull, ApiAnswer> {
    let head_commit = repo.branches.get(head).ok_or_else(|| invalid(RESOURCE, "head", "invalid", None))?;
    let base_commit = repo.branches.get(base).ok_or_else(|| invalid(RESOURCE, "base", "invalid", None))?;
    let custom = |message: String| {
        let mut answer = error(422, "Validation Failed");
        answer.body["errors"] = json!([{"resource": RESOURCE, "code": "custom", "message": message}]);
        answer
    };
    if repo.open_pull(head, base).is_some() {
        return Err(custom(format!("A pull request already exists for {}:{head}.", repo.owner)));
    }
    if repo.git.count(&format!("{base_commit}..{head_commit}")) == 0 {
        return Err(custom(format!("No commits between {base} and {head}")));
    }
    repo.new_pull(head, base, draft).ok_or_else(not_found)
}

/// Applies the fields that issues and pull requests share.
pub(super) fn change_item(item: &mut FakeItem, body: &Value, login: &str, now: &str) {
    if let Some(title) = body["title"].as_str() {
        item.title = title.to_owned();
    }
    if let Some(text) = body.get("body") {
        item.body = text.as_str().map(str::to_owned);
    }
    match body["state"].as_str() {
        Some("closed") => item.close(login, now),
        Some("open") => item.reopen(),
        _ => {}
    }
    item.updated = now.to_owned();
}
