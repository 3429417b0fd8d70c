//! GitHub's check runs, commit statuses and workflow runs.

use super::json::node_id;
use super::{GitHubCall, error, invalid, not_found, parse_number};
use crate::fake_forge::access::{FakeTokenKind, ForgeAccess, ForgeArea};
use crate::fake_forge::http::{ApiAnswer, ApiResult};
use crate::fake_forge::state::{FakeCheck, FakeCheckKind, NewCheck, RepoState};
use serde_json::{Value, json};

impl GitHubCall<'_> {
    /// Checks of a commit: `check-runs`, `status`, `statuses` or `check-suites`.
    pub(super) fn list_checks(&mut self, repo: &str, reference: &str, what: &str) -> ApiResult {
        let area = if what.starts_with("status") { ForgeArea::Statuses } else { ForgeArea::Checks };
        let found = self.check(repo, area, ForgeAccess::Read)?;
        let head =
            found.resolve(reference).ok_or_else(|| error(422, &format!("No commit found for SHA: {reference}")))?;
        let kind = if area == ForgeArea::Checks { FakeCheckKind::Run } else { FakeCheckKind::Status };
        let mine = latest(found, kind, &head).into_iter();
        match what {
            "check-runs" => {
                let name = self.api.parameter("check_name");
                let status = self.api.parameter("status");
                let mine = mine.filter(|check| name.is_none_or(|name| check.name == name));
                let mine = mine.filter(|check| status.is_none_or(|status| check.status == status));
                Ok(self.api.page_in("check_runs", mine.map(|check| self.check_json(found, check)).collect()))
            }
            "statuses" => {
                // The history, newest first; the combined status has only the newest of each name.
                let all = found.checks.iter().rev().filter(|check| check.kind == kind && check.head == head);
                Ok(self.api.page(all.map(|check| self.status_json(found, check)).collect()))
            }
            "status" => Ok(self.combined_status(found, &head, mine.collect())),
            _ => Ok(self.api.page_in("check_suites", Vec::new())),
        }
    }

    fn combined_status(&self, repo: &RepoState, head: &str, rows: Vec<&FakeCheck>) -> ApiAnswer {
        let has = |state: &str| rows.iter().any(|check| status_name(check) == state);
        let state = match () {
            () if has("failure") || has("error") => "failure",
            () if has("pending") || rows.is_empty() => "pending",
            () => "success",
        };
        let url = self.repo_url(repo);
        let rows = rows.iter().map(|check| {
            let mut row = self.status_json(repo, check);
            // Only the history names the account.
            row.as_object_mut().map(|row| row.remove("creator"));
            row
        });
        let mut answer = self.api.page_in("statuses", rows.collect());
        super::json::extend(
            &mut answer.body,
            json!({
                "state": state, "sha": head, "repository": self.repo_json(repo),
                "commit_url": format!("{url}/commits/{head}"), "url": format!("{url}/commits/{head}/status"),
            }),
        );
        answer
    }

    /// Routes below `/repos/{owner}/{repo}` that write checks, and the runs of workflows.
    pub(super) fn route_checks(&mut self, repo: &str, words: &[&str]) -> ApiResult {
        match (self.api.method.as_str(), words) {
            ("POST", ["check-runs"]) => self.create_check(repo),
            ("GET", ["check-runs", id]) => self.get_check(repo, id),
            ("GET", ["check-runs", id, "annotations"]) => {
                self.get_check(repo, id)?;
                Ok(self.api.page(Vec::new()))
            }
            ("PATCH", ["check-runs", id]) => self.update_check(repo, id),
            ("POST", ["statuses", sha]) => self.create_status(repo, sha),
            ("GET", ["actions", "runs"]) => self.list_runs(repo),
            ("GET", ["actions", "runs", id, "jobs"]) => self.list_jobs(repo, id),
            _ => Err(not_found()),
        }
    }

    fn check_apps(&self, repo: &str) -> Result<(), ApiAnswer> {
        self.check(repo, ForgeArea::Checks, ForgeAccess::Write)?;
        if self.api.token.as_ref().is_some_and(|token| token.kind == FakeTokenKind::Installation) {
            return Ok(());
        }
        Err(error(403, "You must authenticate via a GitHub App."))
    }

    fn create_check(&mut self, repo: &str) -> ApiResult {
        self.check_apps(repo)?;
        let name = self.body_text("CheckRun", "name")?;
        let head = self.body_text("CheckRun", "head_sha")?;
        let output = &self.api.body["output"];
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let conclusion = text(&self.api.body["conclusion"]);
        let status = text(&self.api.body["status"]).unwrap_or_else(|| "queued".to_owned());
        let check = NewCheck {
            name,
            head,
            kind: FakeCheckKind::Run,
            status: if conclusion.is_some() { "completed".to_owned() } else { status },
            conclusion,
            title: text(&output["title"]),
            text: text(&output["summary"]),
            url: text(&self.api.body["details_url"]),
            author: self.api.login().to_owned(),
        };
        let id = self.state.add_check(repo, check);
        let answer = self.get_check(repo, &id.to_string())?;
        Ok(ApiAnswer { status: 201, ..answer })
    }

    fn get_check(&mut self, repo: &str, id: &str) -> ApiResult {
        let found = self.check(repo, ForgeArea::Checks, ForgeAccess::Read)?;
        let id = parse_number(id)?;
        let check = found.checks.iter().find(|check| check.id == id && check.kind == FakeCheckKind::Run);
        Ok(ApiAnswer::ok(self.check_json(found, check.ok_or_else(not_found)?)))
    }

    fn update_check(&mut self, repo: &str, id: &str) -> ApiResult {
        self.check_apps(repo)?;
        let (number, body, now) = (parse_number(id)?, self.api.body.clone(), self.state.next_time());
        let check = self.found_mut(repo).checks.iter_mut().find(|check| check.id == number).ok_or_else(not_found)?;
        if let Some(status) = body["status"].as_str() {
            check.status = status.to_owned();
        }
        if let Some(conclusion) = body["conclusion"].as_str() {
            check.conclusion = Some(conclusion.to_owned());
            check.status = "completed".to_owned();
        }
        if let Some(title) = body["output"]["title"].as_str() {
            check.title = Some(title.to_owned());
        }
        if let Some(text) = body["output"]["summary"].as_str() {
            check.text = Some(text.to_owned());
        }
        check.updated = now;
        self.get_check(repo, id)
    }

    fn create_status(&mut self, repo: &str, sha: &str) -> ApiResult {
        let found = self.check_push(repo, ForgeArea::Statuses)?;
        found.git.resolve(sha).ok_or_else(|| error(422, &format!("No commit found for SHA: {sha}")))?;
        let state = self.api.text("state").unwrap_or_default().to_owned();
        if !["error", "failure", "pending", "success"].contains(&state.as_str()) {
            return Err(invalid("Status", "state", "invalid", None));
        }
        let pending = state == "pending";
        let check = NewCheck {
            name: self.api.text("context").unwrap_or("default").to_owned(),
            head: sha.to_owned(),
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

    fn check_json(&self, repo: &RepoState, check: &FakeCheck) -> Value {
        let (id, url) = (check.id, self.repo_url(repo));
        let html = format!("{}/{}/runs/{id}", self.api.web, repo.full_name());
        let done = check.conclusion.as_ref().map(|_| &check.updated);
        let pulls = repo.items.values().filter_map(|item| Some((item, item.pull.as_ref()?)));
        let pulls = pulls.filter(|(item, pull)| item.open && pull.head == check.head).map(|(item, pull)| {
            let inner = json!({"id": repo.id, "url": url, "name": repo.name});
            json!({
                "id": item.id, "number": item.number, "url": format!("{url}/pulls/{}", item.number),
                "head": {"ref": pull.head_branch, "sha": pull.head, "repo": inner},
                "base": {"ref": pull.base_branch, "sha": pull.base, "repo": inner},
            })
        });
        json!({
            "id": id, "node_id": node_id("CR", id), "name": check.name, "head_sha": check.head, "external_id": "",
            "url": format!("{url}/check-runs/{id}"), "html_url": html, "details_url": check.url.as_ref().unwrap_or(&html),
            "status": check.status, "conclusion": check.conclusion, "started_at": check.created, "completed_at": done,
            "check_suite": {"id": id}, "app": null, "pull_requests": pulls.collect::<Vec<_>>(),
            "output": {
                "title": check.title, "summary": check.text, "text": null, "annotations_count": 0,
                "annotations_url": format!("{url}/check-runs/{id}/annotations"),
            },
        })
    }

    fn status_json(&self, repo: &RepoState, check: &FakeCheck) -> Value {
        json!({
            "url": format!("{}/statuses/{}", self.repo_url(repo), check.head), "avatar_url": null, "id": check.id,
            "node_id": node_id("SC", check.id), "state": status_name(check), "description": check.title,
            "target_url": check.url, "context": check.name, "created_at": check.created, "updated_at": check.updated,
            "creator": self.user_json(&check.author),
        })
    }

    /// Workflow runs: one for each check run.
    fn list_runs(&mut self, repo: &str) -> ApiResult {
        let found = self.check(repo, ForgeArea::Checks, ForgeAccess::Read)?;
        let branch = self.api.parameter("branch");
        let status = self.api.parameter("status");
        let head = self.api.parameter("head_sha");
        let runs = found.checks.iter().rev().filter(|check| check.kind == FakeCheckKind::Run);
        let runs = runs.filter(|check| {
            let on_branch = branch.is_none_or(|name| found.branches.get(name) == Some(&check.head));
            let has_status = |wanted: &str| check.status == wanted || check.conclusion.as_deref() == Some(wanted);
            on_branch && status.is_none_or(has_status) && head.is_none_or(|head| check.head == head)
        });
        Ok(self.api.page_in("workflow_runs", runs.map(|check| self.run_json(found, check)).collect()))
    }

    fn run_json(&self, repo: &RepoState, check: &FakeCheck) -> Value {
        let (id, web) = (check.id, format!("{}/{}", self.api.web, repo.full_name()));
        let url = format!("{}/actions/runs/{id}", self.repo_url(repo));
        let branch = repo.branches.iter().find(|(_, head)| **head == check.head).map(|(name, _)| name);
        let commit = repo.git.commit(&check.head).map(|facts| {
            let person = json!({"name": facts.name, "email": facts.email});
            json!({
                "id": facts.sha, "tree_id": facts.tree, "message": facts.message, "timestamp": facts.date,
                "author": person, "committer": person,
            })
        });
        json!({
            "id": id, "node_id": node_id("WFR", id), "name": check.name, "head_branch": branch, "run_number": 1,
            "head_sha": check.head, "display_title": check.title.clone().unwrap_or_default(), "event": "push",
            "status": check.status, "conclusion": check.conclusion, "path": ".github/workflows/ci.yml",
            "workflow_id": 1, "url": url, "html_url": format!("{web}/actions/runs/{id}"), "pull_requests": [],
            "created_at": check.created, "updated_at": check.updated, "run_attempt": 1, "head_commit": commit,
            "jobs_url": format!("{url}/jobs"), "logs_url": format!("{url}/logs"), "rerun_url": format!("{url}/rerun"),
            "cancel_url": format!("{url}/cancel"), "artifacts_url": format!("{url}/artifacts"),
            "check_suite_url": format!("{}/check-suites/{id}", self.repo_url(repo)),
            "workflow_url": format!("{}/actions/workflows/1", self.repo_url(repo)),
            "repository": self.repo_json(repo), "head_repository": self.repo_json(repo),
        })
    }

    fn list_jobs(&mut self, repo: &str, id: &str) -> ApiResult {
        let found = self.check(repo, ForgeArea::Checks, ForgeAccess::Read)?;
        let number = parse_number(id)?;
        let check = found.checks.iter().find(|check| check.id == number).ok_or_else(not_found)?;
        let (url, web) = (self.repo_url(found), format!("{}/{}", self.api.web, found.full_name()));
        let branch = found.branches.iter().find(|(_, head)| **head == check.head).map(|(name, _)| name);
        let job = json!({
            "id": check.id, "node_id": node_id("CR", check.id), "run_id": check.id, "head_sha": check.head,
            "run_url": format!("{url}/actions/runs/{id}"), "workflow_name": "ci", "head_branch": branch,
            "name": check.name, "url": format!("{url}/actions/jobs/{id}"), "status": check.status,
            "html_url": format!("{web}/actions/runs/{id}/job/{id}"), "conclusion": check.conclusion,
            "started_at": check.created, "completed_at": check.updated, "created_at": check.created, "labels": [],
            "check_run_url": format!("{url}/check-runs/{id}"), "runner_id": null, "runner_name": null,
            "runner_group_id": null, "runner_group_name": null, "steps": [],
        });
        Ok(self.api.page_in("jobs", vec![job]))
    }
}

/// The newest check of each name on a commit, newest first.
fn latest<'r>(repo: &'r RepoState, kind: FakeCheckKind, head: &str) -> Vec<&'r FakeCheck> {
    let mut rows: Vec<&FakeCheck> = Vec::new();
    for check in repo.checks.iter().rev().filter(|check| check.kind == kind && check.head == head) {
        if !rows.iter().any(|known| known.name == check.name) {
            rows.push(check);
        }
    }
    rows
}

fn status_name(check: &FakeCheck) -> &str {
    check.conclusion.as_deref().unwrap_or("pending")
}
