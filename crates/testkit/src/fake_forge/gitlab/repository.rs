//! GitLab's branches, commits, commit statuses, pipelines, jobs, labels and members.

use super::json::{gitlab_status, pipeline_id};
use super::{GitLabCall, message, not_found, parse_number};
use crate::fake_forge::access::ForgeAccess;
use crate::fake_forge::http::{ApiAnswer, ApiResult};
use crate::fake_forge::state::{FakeCheck, FakeCheckKind, NewCheck};
use serde_json::{Value, json};

impl GitLabCall<'_> {
    pub(super) fn route_repository(&mut self, repo: &str, words: &[&str]) -> ApiResult {
        match (self.api.method.as_str(), words) {
            ("GET", ["repository", "branches"]) => self.list_branches(repo),
            ("GET", ["repository", "branches", name]) => self.get_branch(repo, name),
            ("DELETE", ["repository", "branches", name]) => self.delete_branch(repo, name),
            ("GET", ["protected_branches", rest @ ..]) => self.protected_branches(repo, rest),
            ("GET", ["repository", "commits"]) => self.list_commits(repo),
            ("GET", ["repository", "commits", name]) => self.get_commit(repo, name),
            ("GET", ["repository", "commits", name, "statuses"]) => self.list_statuses(repo, name),
            ("POST", ["statuses", sha]) => self.create_status(repo, sha),
            ("GET", ["pipelines"]) => self.list_pipelines(repo),
            ("GET", ["pipelines", id]) => self.get_pipeline(repo, id),
            ("GET", ["pipelines", id, "jobs"]) => self.list_jobs(repo, Some(id)),
            ("GET", ["jobs"]) => self.list_jobs(repo, None),
            ("GET", ["jobs", id, "trace"]) => self.get_trace(repo, id),
            ("GET", ["repository", "compare"]) => self.compare(repo),
            ("GET", ["jobs", id]) => self.get_job(repo, id),
            ("GET", ["labels"]) => self.list_labels(repo),
            ("POST", ["labels"]) => self.create_label(repo),
            ("GET", ["members" | "users", ..]) => self.list_members(repo),
            _ => Err(not_found("")),
        }
    }

    fn list_branches(&mut self, repo: &str) -> ApiResult {
        let found = self.check(repo, ForgeAccess::Read)?;
        let search = self.api.parameter("search").unwrap_or_default();
        let mine = found.branches.iter().filter(|(name, _)| name.contains(search));
        Ok(self.api.page(mine.map(|(name, sha)| self.branch_json(found, name, sha)).collect()))
    }

    fn get_branch(&mut self, repo: &str, name: &str) -> ApiResult {
        let found = self.check(repo, ForgeAccess::Read)?;
        let sha = found.branches.get(name).ok_or_else(|| not_found("Branch "))?;
        Ok(ApiAnswer::ok(self.branch_json(found, name, sha)))
    }

    fn delete_branch(&mut self, repo: &str, name: &str) -> ApiResult {
        let found = self.check_push(repo)?;
        if !found.branches.contains_key(name) {
            return Err(not_found("Branch "));
        }
        if found.protected.iter().any(|known| known == name) {
            return Err(message(403, "403 Forbidden"));
        }
        let now = self.state.next_time();
        self.found_mut(repo).delete_branch(name, &now).map_err(|_| not_found("Branch "))?;
        Ok(ApiAnswer::empty())
    }

    fn protected_branches(&mut self, repo: &str, rest: &[&str]) -> ApiResult {
        let found = self.check_push(repo)?;
        let row = |name: &str| {
            let level = json!([{"access_level": 40, "access_level_description": "Maintainers"}]);
            json!({
                "id": found.id, "name": name, "push_access_levels": level, "merge_access_levels": level,
                "allow_force_push": false, "code_owner_approval_required": false,
            })
        };
        match rest {
            [] => Ok(self.api.page(found.protected.iter().map(|name| row(name)).collect())),
            [name] if found.protected.iter().any(|known| known == name) => Ok(ApiAnswer::ok(row(name))),
            _ => Err(not_found("")),
        }
    }

    fn list_commits(&mut self, repo: &str) -> ApiResult {
        let found = self.check(repo, ForgeAccess::Read)?;
        let start = self.api.parameter("ref_name").unwrap_or(&found.default_branch);
        let sha = found.resolve(start).ok_or_else(|| not_found(""))?;
        let commits = found.git.commits(&sha, 1000);
        Ok(self.api.page(commits.iter().map(|commit| self.commit_json(found, commit)).collect()))
    }

    fn get_commit(&mut self, repo: &str, name: &str) -> ApiResult {
        let found = self.check(repo, ForgeAccess::Read)?;
        let commit = found.resolve(name).and_then(|sha| found.git.commit(&sha)).ok_or_else(|| not_found("Commit "))?;
        let mut value = self.commit_json(found, &commit);
        let pipeline = pipeline_id(found, &commit.sha).map(|_| self.pipeline_json(found, &commit.sha));
        value["status"] = pipeline.as_ref().map_or(Value::Null, |pipeline| pipeline["status"].clone());
        value["last_pipeline"] = pipeline.unwrap_or(Value::Null);
        Ok(ApiAnswer::ok(value))
    }

    fn list_statuses(&mut self, repo: &str, name: &str) -> ApiResult {
        let found = self.check(repo, ForgeAccess::Read)?;
        let head = found.resolve(name).ok_or_else(|| not_found("Commit "))?;
        let mut rows: Vec<&FakeCheck> = Vec::new();
        for check in found.checks.iter().rev().filter(|check| check.head == head) {
            if !rows.iter().any(|known| known.name == check.name) {
                rows.push(check);
            }
        }
        Ok(self.api.page(rows.into_iter().map(|check| self.status_json(found, check)).collect()))
    }

    fn create_status(&mut self, repo: &str, sha: &str) -> ApiResult {
        let found = self.check_push(repo)?;
        let head = found.git.resolve(sha).ok_or_else(|| not_found("Commit "))?;
        let state = self.required("state")?;
        let (status, conclusion) = match state.as_str() {
            "pending" => ("queued", None),
            "running" => ("in_progress", None),
            "success" => ("completed", Some("success")),
            "failed" => ("completed", Some("failure")),
            "canceled" => ("completed", Some("cancelled")),
            "skipped" => ("completed", Some("skipped")),
            _ => return Err(ApiAnswer::new(400, json!({"error": "state does not have a valid value"}))),
        };
        let check = NewCheck {
            name: self.value("name").or_else(|| self.value("context")).unwrap_or_else(|| "default".to_owned()),
            head,
            kind: FakeCheckKind::Status,
            status: status.to_owned(),
            conclusion: conclusion.map(str::to_owned),
            title: self.value("description"),
            text: None,
            url: self.value("target_url"),
            author: self.api.login().to_owned(),
        };
        let id = self.state.add_check(repo, check);
        let found = self.found(repo);
        let check = found.checks.iter().find(|check| check.id == id).ok_or_else(|| not_found(""))?;
        Ok(ApiAnswer::created(self.status_json(found, check)))
    }

    fn list_pipelines(&mut self, repo: &str) -> ApiResult {
        let found = self.check(repo, ForgeAccess::Read)?;
        let mut heads: Vec<&String> = Vec::new();
        for check in found.checks.iter().rev() {
            if !heads.contains(&&check.head) {
                heads.push(&check.head);
            }
        }
        let wanted = |row: &Value| {
            ["sha", "ref", "status"].iter().all(|name| self.api.parameter(name).is_none_or(|text| row[*name] == text))
        };
        let rows = heads.into_iter().map(|head| self.pipeline_json(found, head)).filter(wanted);
        Ok(self.api.page(rows.collect()))
    }

    fn get_pipeline(&mut self, repo: &str, id: &str) -> ApiResult {
        let found = self.check(repo, ForgeAccess::Read)?;
        let id = parse_number(id)?;
        let check = found.checks.iter().find(|check| pipeline_id(found, &check.head) == Some(id));
        Ok(ApiAnswer::ok(self.pipeline_json(found, &check.ok_or_else(|| not_found(""))?.head)))
    }

    fn list_jobs(&mut self, repo: &str, pipeline: Option<&str>) -> ApiResult {
        let found = self.check(repo, ForgeAccess::Read)?;
        let pipeline = pipeline.map(parse_number).transpose()?;
        let scopes: Vec<&String> =
            self.api.query.iter().filter(|(name, _)| name.starts_with("scope")).map(|(_, value)| value).collect();
        let mine = found.checks.iter().rev().filter(|check| {
            let in_pipeline = pipeline.is_none() || pipeline_id(found, &check.head) == pipeline;
            in_pipeline && (scopes.is_empty() || scopes.iter().any(|scope| *scope == gitlab_status(check)))
        });
        Ok(self.api.page(mine.map(|check| self.job_json(found, check)).collect()))
    }

    fn get_job(&mut self, repo: &str, id: &str) -> ApiResult {
        let found = self.check(repo, ForgeAccess::Read)?;
        let id = parse_number(id)?;
        let check = found.checks.iter().find(|check| check.id == id).ok_or_else(|| not_found(""))?;
        Ok(ApiAnswer::ok(self.job_json(found, check)))
    }

    /// The output of a job.
    fn get_trace(&mut self, repo: &str, id: &str) -> ApiResult {
        let found = self.check(repo, ForgeAccess::Read)?;
        let id = parse_number(id)?;
        let check = found.checks.iter().find(|check| check.id == id).ok_or_else(|| not_found(""))?;
        Ok(ApiAnswer::ok(json!(check.text.clone().unwrap_or_default())))
    }

    fn compare(&mut self, repo: &str) -> ApiResult {
        let found = self.check(repo, ForgeAccess::Read)?;
        let (from, to) = (self.required("from")?, self.required("to")?);
        let (Some(from), Some(to)) = (found.resolve(&from), found.resolve(&to)) else { return Err(not_found("")) };
        let mut commits = found.git.commits(&format!("{from}..{to}"), 1000);
        commits.reverse();
        let commits: Vec<Value> = commits.iter().map(|commit| self.commit_json(found, commit)).collect();
        let diffs = found.git.changed_files(&from, &to).into_iter().map(|file| {
            let diff = found.git.patch(&from, &to, &file.path);
            json!({"old_path": file.path, "new_path": file.path, "diff": diff, "renamed_file": false})
        });
        Ok(ApiAnswer::ok(json!({
            "commit": commits.last(), "commits": commits, "diffs": diffs.collect::<Vec<_>>(),
            "compare_timeout": false, "compare_same_ref": from == to,
        })))
    }

    fn list_labels(&mut self, repo: &str) -> ApiResult {
        let found = self.check(repo, ForgeAccess::Read)?;
        let rows = found.labels.iter().map(|label| {
            json!({
                "id": label.id, "name": label.name, "color": format!("#{}", label.color), "description": label.text,
                "text_color": "#333333", "subscribed": false, "priority": null, "is_project_label": true,
            })
        });
        Ok(self.api.page(rows.collect()))
    }

    fn create_label(&mut self, repo: &str) -> ApiResult {
        let found = self.check_push(repo)?;
        let (name, color) = (self.required("name")?, self.required("color")?);
        if found.label(&name).is_some() {
            return Err(message(409, "Label already exists"));
        }
        let label = self.found_mut(repo).add_label(&name);
        label.color = color.trim_start_matches('#').to_owned();
        let (id, color) = (label.id, format!("#{}", label.color));
        Ok(ApiAnswer::created(json!({"id": id, "name": name, "color": color, "description": null})))
    }

    fn list_members(&mut self, repo: &str) -> ApiResult {
        let found = self.check(repo, ForgeAccess::Read)?;
        let rows = found.writers.iter().map(|login| {
            let mut user = self.user_json(login);
            user["access_level"] = json!(if *login == found.owner { 50 } else { 30 });
            user
        });
        Ok(self.api.page(rows.collect()))
    }
}
