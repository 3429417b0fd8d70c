//! GitLab's JSON for accounts, projects, issues, merge requests, notes, commits and jobs.

use super::GitLabCall;
use crate::fake_forge::git::CommitFacts;
use crate::fake_forge::state::{FakeCheck, FakeComment, FakeItem, FakeLabelEvent, FakePlace, FakePull, RepoState};
use serde_json::{Value, json};

impl GitLabCall<'_> {
    pub(super) fn user_json(&self, login: &str) -> Value {
        json!({
            "id": self.state.users.get(login).copied().unwrap_or(1), "username": login, "name": login,
            "state": "active", "locked": false, "avatar_url": null, "web_url": format!("{}/{login}", self.api.web),
        })
    }

    fn users_json(&self, logins: &[String]) -> Vec<Value> {
        logins.iter().map(|login| self.user_json(login)).collect()
    }

    pub(super) fn project_json(&self, repo: &RepoState) -> Value {
        let (name, web) = (repo.full_name(), &self.api.web);
        let level = if repo.owner == self.api.login() {
            50
        } else if repo.may_write(self.api.login()) {
            30
        } else {
            0
        };
        let access = if level == 0 { Value::Null } else { json!({"access_level": level, "notification_level": 3}) };
        json!({
            "id": repo.id, "description": null, "name": repo.name, "path": repo.name, "path_with_namespace": name,
            "name_with_namespace": format!("{} / {}", repo.owner, repo.name), "created_at": repo.created,
            "default_branch": repo.default_branch, "ssh_url_to_repo": format!("git@fake.invalid:{name}.git"),
            "http_url_to_repo": format!("{web}/{name}.git"), "web_url": format!("{web}/{name}"),
            "visibility": if repo.private { "private" } else { "public" }, "archived": repo.archived,
            "issues_enabled": true, "merge_requests_enabled": true, "empty_repo": false,
            "namespace": {"id": 1, "name": repo.owner, "path": repo.owner, "kind": "user", "full_path": repo.owner},
            "permissions": {"project_access": access, "group_access": null}, "star_count": 0, "forks_count": 0,
            "open_issues_count": repo.items.values().filter(|item| item.open && item.pull.is_none()).count(),
        })
    }

    pub(super) fn label_event_json(&self, repo: &RepoState, event: &FakeLabelEvent) -> Value {
        let id = repo.label(&event.label).map(|label| label.id);
        json!({
            "id": event.id, "user": event.actor.as_ref().map(|login| self.user_json(login)), "created_at": event.at,
            "resource_type": "Issue", "resource_id": event.item, "label": {"id": id, "name": event.label},
            "action": if event.is_added { "add" } else { "remove" },
        })
    }

    fn item_json(&self, repo: &RepoState, item: &FakeItem, kind: &str, sign: char) -> Value {
        let (number, name) = (item.number, repo.full_name());
        let notes = repo.comments.iter().filter(|comment| comment.item == number).count();
        let mut labels = item.labels.clone();
        labels.sort();
        json!({
            "id": item.id, "iid": number, "project_id": repo.id, "title": item.title,
            "description": item.body, "created_at": item.created, "updated_at": item.updated,
            "closed_at": item.closed, "closed_by": item.closed_by.as_ref().map(|login| self.user_json(login)),
            "labels": labels, "milestone": null, "author": self.user_json(&item.author),
            "assignees": self.users_json(&item.assignees),
            "assignee": item.assignees.first().map(|login| self.user_json(login)), "user_notes_count": notes,
            "web_url": format!("{}/{name}/-/{kind}/{number}", self.api.web), "upvotes": 0, "downvotes": 0,
            "references": {
                "short": format!("{sign}{number}"), "relative": format!("{sign}{number}"),
                "full": format!("{name}{sign}{number}"),
            },
        })
    }

    pub(super) fn issue_json(&self, repo: &RepoState, item: &FakeItem) -> Value {
        let mut value = self.item_json(repo, item, "issues", '#');
        let more = json!({
            "state": if item.open { "opened" } else { "closed" }, "type": "ISSUE", "issue_type": "issue",
            "confidential": false, "discussion_locked": null, "due_date": null,
        });
        extend(&mut value, more);
        value
    }

    pub(super) fn merge_request_json(&self, repo: &RepoState, item: &FakeItem, pull: &FakePull) -> Value {
        let state = match (&pull.merged, item.open) {
            (Some(_), _) => "merged",
            (None, true) => "opened",
            (None, false) => "closed",
        };
        let base = repo.branches.get(&pull.base_branch).filter(|_| item.open).unwrap_or(&pull.base);
        let fork = repo.git.merge_base(base, &pull.head).unwrap_or_default();
        let merge = pull.merged.as_ref();
        let mut value = self.item_json(repo, item, "merge_requests", '!');
        let more = json!({
            "state": state, "draft": pull.draft, "work_in_progress": pull.draft, "sha": pull.head,
            "source_branch": pull.head_branch, "target_branch": pull.base_branch, "source_project_id": repo.id,
            "target_project_id": repo.id, "reviewers": self.users_json(&pull.reviewers), "squash": false,
            "merged_at": merge.map(|merge| &merge.at), "merge_commit_sha": merge.map(|merge| &merge.commit),
            "merged_by": merge.map(|merge| self.user_json(&merge.by)), "squash_commit_sha": null,
            "merge_user": merge.map(|merge| self.user_json(&merge.by)), "merge_when_pipeline_succeeds": false,
            "merge_status": "can_be_merged", "has_conflicts": false, "blocking_discussions_resolved": true,
            "detailed_merge_status": if pull.draft { "draft_status" } else { "mergeable" },
            "should_remove_source_branch": null, "force_remove_source_branch": false, "discussion_locked": null,
        });
        extend(&mut value, more);
        value["diff_refs"] = json!({"base_sha": fork, "head_sha": pull.head, "start_sha": base});
        value
    }

    /// A note on an issue or a merge request.
    pub(super) fn note_json(&self, repo: &RepoState, comment: &FakeComment) -> Value {
        let item = repo.items.get(&comment.item);
        let pull = item.and_then(|item| item.pull.as_ref());
        let mut value = json!({
            "id": comment.id, "type": null, "body": comment.body, "author": self.user_json(&comment.author),
            "created_at": comment.created, "updated_at": comment.updated, "system": false,
            "noteable_id": item.map(|item| item.id), "noteable_iid": comment.item, "project_id": repo.id,
            "noteable_type": if pull.is_some() { "MergeRequest" } else { "Issue" }, "attachment": null,
            "resolvable": comment.place.is_some(), "confidential": false, "internal": false,
        });
        if let (Some(place), Some(pull)) = (&comment.place, pull) {
            value["type"] = json!("DiffNote");
            value["resolved"] = json!(comment.resolved);
            value["commit_id"] = json!(null);
            value["position"] = position_json(place, pull);
        }
        value
    }

    pub(super) fn commit_json(&self, repo: &RepoState, commit: &CommitFacts) -> Value {
        json!({
            "id": commit.sha, "short_id": commit.sha.get(..8), "title": commit.message.lines().next(),
            "message": commit.message, "author_name": commit.name, "author_email": commit.email,
            "authored_date": commit.date, "committer_name": commit.name, "committer_email": commit.email,
            "committed_date": commit.date, "created_at": commit.date, "parent_ids": commit.parents,
            "web_url": format!("{}/{}/-/commit/{}", self.api.web, repo.full_name(), commit.sha),
        })
    }

    pub(super) fn branch_json(&self, repo: &RepoState, name: &str, sha: &str) -> Value {
        let is_protected = repo.protected.iter().any(|known| known == name);
        json!({
            "name": name, "merged": false, "protected": is_protected, "default": repo.default_branch == name,
            "developers_can_push": !is_protected, "developers_can_merge": !is_protected,
            "can_push": !is_protected && repo.may_write(self.api.login()),
            "web_url": format!("{}/{}/-/tree/{name}", self.api.web, repo.full_name()),
            "commit": repo.git.commit(sha).map(|commit| self.commit_json(repo, &commit)),
        })
    }

    pub(super) fn status_json(&self, repo: &RepoState, check: &FakeCheck) -> Value {
        let branch = repo.branches.iter().find(|(_, head)| **head == check.head).map(|(name, _)| name);
        json!({
            "id": check.id, "sha": check.head, "ref": branch, "status": gitlab_status(check), "name": check.name,
            "target_url": check.url, "description": check.title, "created_at": check.created,
            "started_at": check.created, "finished_at": check.updated, "allow_failure": false, "coverage": null,
            "author": self.user_json(&check.author), "pipeline_id": pipeline_id(repo, &check.head),
        })
    }

    /// All checks of a commit form its pipeline.
    pub(super) fn pipeline_json(&self, repo: &RepoState, head: &str) -> Value {
        let mine: Vec<&FakeCheck> = repo.checks.iter().filter(|check| check.head == head).collect();
        let has = |state: &str| mine.iter().any(|check| gitlab_status(check) == state);
        let state = ["failed", "running", "pending", "canceled"].into_iter().find(|state| has(state));
        let branch = repo.branches.iter().find(|(_, known)| *known == head).map(|(name, _)| name);
        let id = pipeline_id(repo, head).unwrap_or(0);
        json!({
            "id": id, "iid": id, "project_id": repo.id, "sha": head, "ref": branch, "source": "push",
            "status": state.unwrap_or("success"), "created_at": mine.first().map(|check| &check.created),
            "updated_at": mine.last().map(|check| &check.updated),
            "web_url": format!("{}/{}/-/pipelines/{id}", self.api.web, repo.full_name()),
        })
    }

    pub(super) fn job_json(&self, repo: &RepoState, check: &FakeCheck) -> Value {
        let mut job = self.status_json(repo, check);
        let more = json!({
            "stage": "test", "tag": false, "user": self.user_json(&check.author), "failure_reason": check.title,
            "pipeline": self.pipeline_json(repo, &check.head), "artifacts": [], "runner": null,
            "commit": repo.git.commit(&check.head).map(|commit| self.commit_json(repo, &commit)),
            "web_url": format!("{}/{}/-/jobs/{}", self.api.web, repo.full_name(), check.id),
        });
        extend(&mut job, more);
        job
    }
}

fn extend(target: &mut Value, more: Value) {
    if let (Some(target), Value::Object(more)) = (target.as_object_mut(), more) {
        target.extend(more);
    }
}

fn position_json(place: &FakePlace, pull: &FakePull) -> Value {
    let (new, old) = if place.side == "LEFT" { (None, Some(place.line)) } else { (Some(place.line), None) };
    json!({
        "base_sha": pull.base, "start_sha": pull.base, "head_sha": place.commit, "position_type": "text",
        "old_path": place.path, "new_path": place.path, "new_line": new, "old_line": old, "line_range": null,
    })
}

/// GitLab's word for the state of a check.
pub(super) fn gitlab_status(check: &FakeCheck) -> &str {
    match check.conclusion.as_deref() {
        Some("success" | "neutral") => "success",
        Some("cancelled") => "canceled",
        Some("skipped") => "skipped",
        Some(_) => "failed",
        None if check.status == "in_progress" => "running",
        None => "pending",
    }
}

/// The number of a commit's pipeline: that of its first check.
pub(super) fn pipeline_id(repo: &RepoState, head: &str) -> Option<u64> {
    repo.checks.iter().find(|check| check.head == head).map(|check| check.id + 1_000_000)
}
