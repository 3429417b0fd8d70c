//! Gitea's JSON for accounts, repositories, issues, pull requests and their comments.

use super::GiteaCall;
use crate::fake_forge::git::CommitFacts;
use crate::fake_forge::state::{
    FakeCheck, FakeComment, FakeItem, FakeLabel, FakeLabelEvent, FakePull, FakeReview, RepoState,
};
use serde_json::{Value, json};

impl GiteaCall<'_> {
    pub(super) fn user_json(&self, login: &str) -> Value {
        let id = self.state.users.get(login).copied().unwrap_or(1);
        json!({
            "id": id, "login": login, "login_name": "", "source_id": 0, "full_name": "", "language": "",
            "email": format!("{login}@noreply.invalid"), "avatar_url": format!("{}/avatars/{id}", self.api.web),
            "html_url": format!("{}/{login}", self.api.web), "is_admin": false, "created": "2026-01-01T00:00:00Z",
            "last_login": "2026-01-01T00:00:00Z", "restricted": false, "active": true, "prohibit_login": false,
            "location": "", "website": "", "description": "", "visibility": "public", "followers_count": 0,
            "following_count": 0, "starred_repos_count": 0,
        })
    }

    fn users_json(&self, logins: &[String]) -> Value {
        if logins.is_empty() { Value::Null } else { logins.iter().map(|login| self.user_json(login)).collect() }
    }

    pub(super) fn repo_url(&self, repo: &RepoState) -> String {
        format!("{}/repos/{}", self.api.base, repo.full_name())
    }

    pub(super) fn repo_json(&self, repo: &RepoState) -> Value {
        let (name, web) = (repo.full_name(), &self.api.web);
        let open =
            |is_pull: bool| repo.items.values().filter(|item| item.open && item.pull.is_some() == is_pull).count();
        let is_owner = repo.owner == self.api.login();
        json!({
            "id": repo.id, "owner": self.user_json(&repo.owner), "name": repo.name, "full_name": name,
            "description": "", "empty": false, "private": repo.private, "fork": false, "template": false,
            "parent": null, "mirror": false, "size": 24, "language": "", "html_url": format!("{web}/{name}"),
            "url": self.repo_url(repo), "link": "", "ssh_url": format!("git@fake.invalid:{name}.git"),
            "clone_url": format!("{web}/{name}.git"), "website": "", "stars_count": 0, "forks_count": 0,
            "watchers_count": 0, "open_issues_count": open(false), "open_pr_counter": open(true),
            "default_branch": repo.default_branch, "archived": repo.archived, "created_at": repo.created,
            "updated_at": repo.created, "has_issues": true, "has_wiki": false, "has_pull_requests": true,
            "permissions": {"admin": is_owner, "push": repo.may_write(self.api.login()), "pull": true},
            "allow_merge_commits": true, "allow_rebase": true, "allow_squash_merge": true, "internal": false,
            "default_merge_style": "merge", "avatar_url": "", "object_format_name": "sha1",
        })
    }

    pub(super) fn label_json(&self, repo: &RepoState, label: &FakeLabel) -> Value {
        json!({
            "id": label.id, "name": label.name, "exclusive": false, "is_archived": false, "color": label.color,
            "description": label.text.clone().unwrap_or_default(),
            "url": format!("{}/labels/{}", self.repo_url(repo), label.id),
        })
    }

    pub(super) fn labels_json(&self, repo: &RepoState, item: &FakeItem) -> Vec<Value> {
        let labels = item.labels.iter().filter_map(|name| repo.label(name));
        labels.map(|label| self.label_json(repo, label)).collect()
    }

    fn web_item(&self, repo: &RepoState, item: &FakeItem) -> String {
        let kind = if item.pull.is_some() { "pulls" } else { "issues" };
        format!("{}/{}/{kind}/{}", self.api.web, repo.full_name(), item.number)
    }

    fn item_json(&self, repo: &RepoState, item: &FakeItem) -> Value {
        let plain = repo.comments.iter().filter(|one| one.item == item.number && one.place.is_none());
        json!({
            "id": item.id, "number": item.number, "user": self.user_json(&item.author), "title": item.title,
            "body": item.body.clone().unwrap_or_default(), "labels": self.labels_json(repo, item),
            "milestone": null, "assignee": item.assignees.first().map(|login| self.user_json(login)),
            "assignees": self.users_json(&item.assignees), "state": if item.open { "open" } else { "closed" },
            "is_locked": false, "comments": plain.count(), "created_at": item.created, "updated_at": item.updated,
            "closed_at": item.closed, "due_date": null, "html_url": self.web_item(repo, item), "pin_order": 0,
        })
    }

    pub(super) fn issue_json(&self, repo: &RepoState, item: &FakeItem) -> Value {
        let mut value = self.item_json(repo, item);
        value["url"] = json!(format!("{}/issues/{}", self.repo_url(repo), item.number));
        value["repository"] =
            json!({"id": repo.id, "name": repo.name, "owner": repo.owner, "full_name": repo.full_name()});
        value["pull_request"] = item.pull.as_ref().map_or(Value::Null, |pull| {
            json!({
                "merged": pull.merged.is_some(), "merged_at": pull.merged.as_ref().map(|merge| &merge.at),
                "draft": pull.draft, "html_url": self.web_item(repo, item),
            })
        });
        value
    }

    pub(super) fn pull_json(&self, repo: &RepoState, item: &FakeItem) -> Value {
        let pull = item.pull.as_ref().expect("the caller has checked that it is a pull request");
        let web = self.web_item(repo, item);
        let end = |branch: &str, sha: &str| json!({"label": branch, "ref": branch, "sha": sha, "repo_id": repo.id, "repo": self.repo_json(repo)});
        // An open pull request shows the base branch of now.
        let base = repo.branches.get(&pull.base_branch).filter(|_| item.open).unwrap_or(&pull.base);
        let mut value = self.item_json(repo, item);
        let more = json!({
            "url": web, "diff_url": format!("{web}.diff"), "patch_url": format!("{web}.patch"),
            "mergeable": item.open, "merged": pull.merged.is_some(), "draft": pull.draft,
            "merged_at": pull.merged.as_ref().map(|merge| &merge.at),
            "merge_commit_sha": pull.merged.as_ref().map(|merge| &merge.commit),
            "merged_by": pull.merged.as_ref().map(|merge| self.user_json(&merge.by)),
            "allow_maintainer_edit": false, "requested_reviewers": self.users_json(&pull.reviewers),
            "base": end(&pull.base_branch, base), "head": end(&pull.head_branch, &pull.head),
            "merge_base": repo.git.merge_base(base, &pull.head).unwrap_or_default(), "flow": 0,
            "review_comments": repo.comments.iter().filter(|one| one.item == item.number && one.place.is_some()).count(),
        });
        if let (Some(value), Value::Object(more)) = (value.as_object_mut(), more) {
            value.extend(more);
        }
        value
    }

    pub(super) fn comment_json(&self, repo: &RepoState, comment: &FakeComment) -> Value {
        let item = repo.items.get(&comment.item);
        let web = item.map(|item| self.web_item(repo, item)).unwrap_or_default();
        let is_pull = item.is_some_and(|item| item.pull.is_some());
        json!({
            "id": comment.id, "html_url": format!("{web}#issuecomment-{}", comment.id), "assets": [],
            "pull_request_url": if is_pull { web.as_str() } else { "" },
            "issue_url": if is_pull { "" } else { web.as_str() }, "user": self.user_json(&comment.author),
            "original_author": "", "original_author_id": 0, "body": comment.body, "created_at": comment.created,
            "updated_at": comment.updated,
        })
    }

    pub(super) fn timeline_json(&self, repo: &RepoState, event: &FakeLabelEvent) -> Value {
        let label = repo.label(&event.label).map(|label| self.label_json(repo, label));
        json!({
            "id": event.id, "type": "label", "body": if event.is_added { "1" } else { "" }, "label": label,
            "user": event.actor.as_ref().map(|login| self.user_json(login)), "created_at": event.at,
            "updated_at": event.at,
        })
    }

    pub(super) fn review_json(&self, repo: &RepoState, review: &FakeReview) -> Value {
        let pull = format!("{}/{}/pulls/{}", self.api.web, repo.full_name(), review.item);
        let comments = repo.comments.iter().filter(|one| one.review == Some(review.id)).count();
        let state = match review.state.as_str() {
            "CHANGES_REQUESTED" => "REQUEST_CHANGES",
            "COMMENTED" => "COMMENT",
            other => other,
        };
        json!({
            "id": review.id, "user": self.user_json(&review.author), "team": null, "state": state,
            "body": review.body, "commit_id": review.commit, "stale": false, "official": false,
            "dismissed": review.state == "DISMISSED", "comments_count": comments, "submitted_at": review.submitted,
            "updated_at": review.submitted, "html_url": format!("{pull}#issuecomment-{}", review.id),
            "pull_request_url": pull,
        })
    }

    pub(super) fn inline_json(&self, repo: &RepoState, comment: &FakeComment, pull: &FakePull) -> Value {
        let place = comment.place.clone().expect("an inline comment has a place");
        let web = format!("{}/{}/pulls/{}", self.api.web, repo.full_name(), comment.item);
        let (new, old) = if place.side == "LEFT" { (0, place.line) } else { (place.line, 0) };
        json!({
            "id": comment.id, "body": comment.body, "user": self.user_json(&comment.author), "resolver": null,
            "pull_request_review_id": comment.review, "created_at": comment.created, "updated_at": comment.updated,
            "path": place.path, "commit_id": place.commit, "original_commit_id": place.commit,
            "diff_hunk": repo.git.patch(&pull.base, &place.commit, &place.path), "position": new,
            "original_position": old, "html_url": format!("{web}#issuecomment-{}", comment.id),
            "pull_request_url": web,
        })
    }

    pub(super) fn status_json(&self, repo: &RepoState, check: &FakeCheck) -> Value {
        json!({
            "id": check.id, "status": check.conclusion.as_deref().unwrap_or("pending"), "context": check.name,
            "target_url": check.url.clone().unwrap_or_default(), "creator": self.user_json(&check.author),
            "description": check.title.clone().unwrap_or_default(), "created_at": check.created,
            "url": format!("{}/statuses/{}", self.repo_url(repo), check.head), "updated_at": check.updated,
        })
    }

    pub(super) fn branch_json(&self, repo: &RepoState, name: &str, commit: &CommitFacts) -> Value {
        let is_protected = repo.protected.iter().any(|known| known == name);
        let person = json!({"name": commit.name, "email": commit.email, "username": ""});
        json!({
            "name": name, "protected": is_protected, "required_approvals": 0, "enable_status_check": false,
            "status_check_contexts": [], "user_can_push": !is_protected && repo.may_write(self.api.login()),
            "user_can_merge": repo.may_write(self.api.login()),
            "effective_branch_protection_name": if is_protected { name } else { "" },
            "commit": {
                "id": commit.sha, "message": commit.message, "author": person, "committer": person,
                "url": format!("{}/{}/commit/{}", self.api.web, repo.full_name(), commit.sha), "added": null,
                "verification": null, "timestamp": commit.date, "removed": null, "modified": null,
            },
        })
    }

    pub(super) fn commit_json(&self, repo: &RepoState, commit: &CommitFacts) -> Value {
        let url = format!("{}/git/commits/{}", self.repo_url(repo), commit.sha);
        let person = json!({"name": commit.name, "email": commit.email, "date": commit.date});
        let parents = commit.parents.iter().map(|sha| json!({"sha": sha, "url": format!("{url}/{sha}")}));
        json!({
            "url": url, "sha": commit.sha, "created": commit.date, "author": null, "committer": null,
            "html_url": format!("{}/{}/commit/{}", self.api.web, repo.full_name(), commit.sha), "files": null,
            "commit": {
                "url": url, "author": person, "committer": person, "message": commit.message,
                "tree": {"url": "", "sha": commit.tree, "created": commit.date},
            },
            "parents": parents.collect::<Vec<_>>(),
        })
    }
}
