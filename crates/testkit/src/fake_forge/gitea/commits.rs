//! Gitea's branches, commits, protection and commit statuses.

use super::{GiteaCall, error, not_found};
use crate::fake_forge::access::{ForgeAccess, ForgeArea};
use crate::fake_forge::http::{ApiAnswer, ApiResult};
use crate::fake_forge::state::{FakeCheck, FakeCheckKind, NewCheck, RepoState};
use serde_json::{Value, json};

impl GiteaCall<'_> {
    pub(super) fn route_commits(&mut self, repo: &str, words: &[&str]) -> ApiResult {
        match (self.api.method.as_str(), words) {
            ("GET", ["branches"]) => self.list_branches(repo),
            ("GET", ["branches", name @ ..]) => self.get_branch(repo, &name.join("/")),
            ("DELETE", ["branches", name @ ..]) => self.delete_branch(repo, &name.join("/")),
            ("GET", ["branch_protections"]) => self.list_protections(repo),
            ("GET", ["git", "refs", name @ ..]) => self.get_refs(repo, &name.join("/")),
            ("GET", ["git", "commits", sha] | ["commits", sha]) => self.get_commit(repo, sha),
            ("GET", ["commits"]) => self.list_commits(repo),
            ("GET", ["commits", name @ .., "status"]) => self.combined_status(repo, &name.join("/")),
            ("GET", ["commits", name @ .., "statuses"]) | ("GET", ["statuses", name @ ..]) => {
                self.list_statuses(repo, &name.join("/"))
            }
            ("POST", ["statuses", sha]) => self.create_status(repo, sha),
            ("GET", ["compare", range @ ..]) => self.compare(repo, &range.join("/")),
            ("GET", ["collaborators", login]) => {
                let found = self.check(repo, ForgeArea::Metadata, ForgeAccess::Read)?;
                if found.may_write(login) { Ok(ApiAnswer::empty()) } else { Err(not_found()) }
            }
            ("GET", ["collaborators", login, "permission"]) => self.permission(repo, login),
            _ => Err(not_found()),
        }
    }

    fn readable(&self, repo: &str) -> Result<&RepoState, ApiAnswer> {
        self.check(repo, ForgeArea::Contents, ForgeAccess::Read)
    }

    fn list_branches(&mut self, repo: &str) -> ApiResult {
        let found = self.readable(repo)?;
        let rows = found.branches.iter().filter_map(|(name, sha)| {
            let commit = found.git.commit(sha)?;
            Some(self.branch_json(found, name, &commit))
        });
        Ok(self.api.page(rows.collect()))
    }

    fn get_branch(&mut self, repo: &str, name: &str) -> ApiResult {
        let found = self.readable(repo)?;
        let commit = found.branches.get(name).and_then(|sha| found.git.commit(sha)).ok_or_else(not_found)?;
        Ok(ApiAnswer::ok(self.branch_json(found, name, &commit)))
    }

    fn delete_branch(&mut self, repo: &str, name: &str) -> ApiResult {
        let found = self.check_push(repo, ForgeArea::Contents)?;
        if !found.branches.contains_key(name) {
            return Err(not_found());
        }
        if found.protected.iter().any(|known| known == name) || found.default_branch == name {
            return Err(error(403, "branch protected"));
        }
        let now = self.state.next_time();
        self.found_mut(repo).delete_branch(name, &now).map_err(|_| not_found())?;
        Ok(ApiAnswer::empty())
    }

    fn list_protections(&mut self, repo: &str) -> ApiResult {
        let found = self.check_push(repo, ForgeArea::Administration)?;
        let rows = found.protected.iter().map(|name| {
            json!({
                "branch_name": name, "rule_name": name, "enable_push": false, "enable_push_whitelist": false,
                "required_approvals": 1, "created_at": found.created, "updated_at": found.created,
            })
        });
        Ok(ApiAnswer::ok(rows.collect()))
    }

    fn get_refs(&mut self, repo: &str, prefix: &str) -> ApiResult {
        let found = self.readable(repo)?;
        let all = found.branches.iter().map(|(name, sha)| (format!("heads/{name}"), sha));
        let rows: Vec<Value> = all
            .filter(|(name, _)| name.starts_with(prefix))
            .map(|(name, sha)| {
                let url = format!("{}/git/refs/{name}", self.repo_url(found));
                json!({"ref": format!("refs/{name}"), "url": url, "object": {"type": "commit", "sha": sha, "url": url}})
            })
            .collect();
        if rows.is_empty() { Err(not_found()) } else { Ok(ApiAnswer::ok(Value::Array(rows))) }
    }

    fn get_commit(&mut self, repo: &str, sha: &str) -> ApiResult {
        let found = self.readable(repo)?;
        let commit = found.resolve(sha).and_then(|sha| found.git.commit(&sha)).ok_or_else(not_found)?;
        Ok(ApiAnswer::ok(self.commit_json(found, &commit)))
    }

    fn list_commits(&mut self, repo: &str) -> ApiResult {
        let found = self.readable(repo)?;
        let start = self.api.parameter("sha").unwrap_or(&found.default_branch);
        let sha = found.resolve(start).ok_or_else(not_found)?;
        let commits = found.git.commits(&sha, 1000);
        Ok(self.api.page(commits.iter().map(|commit| self.commit_json(found, commit)).collect()))
    }

    fn compare(&mut self, repo: &str, range: &str) -> ApiResult {
        let found = self.readable(repo)?;
        let (base, head) = range.split_once("...").ok_or_else(not_found)?;
        let (Some(base), Some(head)) = (found.resolve(base), found.resolve(head)) else { return Err(not_found()) };
        let commits = found.git.commits(&format!("{base}..{head}"), 250);
        let rows: Vec<Value> = commits.iter().map(|commit| self.commit_json(found, commit)).collect();
        Ok(ApiAnswer::ok(json!({"total_commits": rows.len(), "commits": rows})))
    }

    fn statuses<'r>(found: &'r RepoState, name: &str) -> Result<(String, Vec<&'r FakeCheck>), ApiAnswer> {
        let head = found.resolve(name).ok_or_else(not_found)?;
        let mine = found.checks.iter().rev().filter(|check| check.head == head);
        Ok((head.clone(), mine.collect()))
    }

    fn list_statuses(&mut self, repo: &str, name: &str) -> ApiResult {
        let found = self.readable(repo)?;
        let (_, rows) = Self::statuses(found, name)?;
        let state = self.api.parameter("state");
        let rows = rows.into_iter().map(|check| self.status_json(found, check));
        Ok(self.api.page(rows.filter(|row| state.is_none_or(|state| row["status"] == state)).collect()))
    }

    fn combined_status(&mut self, repo: &str, name: &str) -> ApiResult {
        let found = self.readable(repo)?;
        let (head, rows) = Self::statuses(found, name)?;
        let mut newest: Vec<&FakeCheck> = Vec::new();
        for check in rows {
            if !newest.iter().any(|known| known.name == check.name) {
                newest.push(check);
            }
        }
        let is = |state: &str| newest.iter().any(|check| check.conclusion.as_deref().unwrap_or("pending") == state);
        let order = ["error", "failure", "pending", "success"];
        let state = order.into_iter().find(|state| is(state)).unwrap_or("pending");
        let url = format!("{}/commits/{head}", self.repo_url(found));
        let total = newest.len();
        let answer = self.api.page(newest.into_iter().map(|check| self.status_json(found, check)).collect());
        Ok(ApiAnswer {
            body: json!({
                "state": state, "sha": head, "total_count": total, "statuses": answer.body, "commit_url": url,
                "repository": self.repo_json(found), "url": format!("{url}/status"),
            }),
            ..answer
        })
    }

    fn create_status(&mut self, repo: &str, sha: &str) -> ApiResult {
        let found = self.check_push(repo, ForgeArea::Statuses)?;
        let head = found.git.resolve(sha).ok_or_else(not_found)?;
        let state = self.required("state")?;
        if !["pending", "success", "error", "failure", "warning", "skipped"].contains(&state.as_str()) {
            return Err(error(422, "unknown state"));
        }
        let pending = state == "pending";
        let check = NewCheck {
            name: self.api.text("context").unwrap_or("default").to_owned(),
            head,
            kind: FakeCheckKind::Status,
            status: if pending { "in_progress" } else { "completed" }.to_owned(),
            conclusion: (!pending).then_some(state),
            title: self.api.text("description").map(str::to_owned),
            text: None,
            url: self.api.text("target_url").map(str::to_owned),
            author: self.api.login().to_owned(),
        };
        let id = self.state.add_check(repo, check);
        let found = self.found(repo);
        let check = found.checks.iter().find(|check| check.id == id).ok_or_else(not_found)?;
        Ok(ApiAnswer::created(self.status_json(found, check)))
    }

    fn permission(&mut self, repo: &str, login: &str) -> ApiResult {
        let found = self.check(repo, ForgeArea::Metadata, ForgeAccess::Read)?;
        let level = match login {
            _ if login == found.owner => "owner",
            _ if found.may_write(login) => "write",
            _ => "read",
        };
        Ok(ApiAnswer::ok(json!({"permission": level, "role_name": level, "user": self.user_json(login)})))
    }
}
