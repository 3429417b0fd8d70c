//! GitHub's JSON for accounts, repositories, issues and pull requests, with every field that its description requires.

use super::GitHubCall;
use crate::fake_forge::state::{FakeComment, FakeItem, FakeLabel, FakeLabelEvent, FakePull, RepoState};
use serde_json::{Map, Value, json};

/// The addresses of an account, below its own.
const USER_LINKS: [(&str, &str); 9] = [
    ("followers_url", "/followers"),
    ("following_url", "/following{/other_user}"),
    ("gists_url", "/gists{/gist_id}"),
    ("starred_url", "/starred{/owner}{/repo}"),
    ("subscriptions_url", "/subscriptions"),
    ("organizations_url", "/orgs"),
    ("repos_url", "/repos"),
    ("events_url", "/events{/privacy}"),
    ("received_events_url", "/received_events"),
];

/// The addresses of a repository, below its own.
const REPO_LINKS: [(&str, &str); 37] = [
    ("archive_url", "/{archive_format}{/ref}"),
    ("assignees_url", "/assignees{/user}"),
    ("blobs_url", "/git/blobs{/sha}"),
    ("branches_url", "/branches{/branch}"),
    ("collaborators_url", "/collaborators{/collaborator}"),
    ("comments_url", "/comments{/number}"),
    ("commits_url", "/commits{/sha}"),
    ("compare_url", "/compare/{base}...{head}"),
    ("contents_url", "/contents/{+path}"),
    ("contributors_url", "/contributors"),
    ("deployments_url", "/deployments"),
    ("downloads_url", "/downloads"),
    ("events_url", "/events"),
    ("forks_url", "/forks"),
    ("git_commits_url", "/git/commits{/sha}"),
    ("git_refs_url", "/git/refs{/sha}"),
    ("git_tags_url", "/git/tags{/sha}"),
    ("hooks_url", "/hooks"),
    ("issue_comment_url", "/issues/comments{/number}"),
    ("issue_events_url", "/issues/events{/number}"),
    ("issues_url", "/issues{/number}"),
    ("keys_url", "/keys{/key_id}"),
    ("labels_url", "/labels{/name}"),
    ("languages_url", "/languages"),
    ("merges_url", "/merges"),
    ("milestones_url", "/milestones{/number}"),
    ("notifications_url", "/notifications{?since,all,participating}"),
    ("pulls_url", "/pulls{/number}"),
    ("releases_url", "/releases{/id}"),
    ("stargazers_url", "/stargazers"),
    ("statuses_url", "/statuses/{sha}"),
    ("subscribers_url", "/subscribers"),
    ("subscription_url", "/subscription"),
    ("tags_url", "/tags"),
    ("teams_url", "/teams"),
    ("trees_url", "/git/trees{/sha}"),
    ("url", ""),
];

/// Adds the fields of one object to another.
pub(super) fn extend(target: &mut Value, more: Value) {
    if let (Some(target), Value::Object(more)) = (target.as_object_mut(), more) {
        target.extend(more);
    }
}

fn links(base: &str, rows: &[(&str, &str)]) -> Value {
    let pairs = rows.iter().map(|(name, rest)| ((*name).to_owned(), json!(format!("{base}{rest}"))));
    Value::Object(pairs.collect::<Map<_, _>>())
}

/// The identifier of an object in GitHub's other API.
pub(super) fn node_id(kind: &str, id: u64) -> String {
    format!("{kind}_{id}")
}

impl GitHubCall<'_> {
    pub(super) fn user_json(&self, login: &str) -> Value {
        let id = self.state.users.get(login).copied().unwrap_or(1);
        let kind = if login.ends_with("[bot]") { "Bot" } else { "User" };
        let url = format!("{}/users/{login}", self.api.base);
        let mut user = json!({
            "login": login, "id": id, "node_id": node_id("U", id), "gravatar_id": "", "url": url, "type": kind,
            "avatar_url": format!("{}/avatars/{id}", self.api.web), "html_url": format!("{}/{login}", self.api.web),
            "site_admin": false,
        });
        extend(&mut user, links(&url, &USER_LINKS));
        user
    }

    fn users_json(&self, logins: &[String]) -> Vec<Value> {
        logins.iter().map(|login| self.user_json(login)).collect()
    }

    pub(super) fn repo_url(&self, repo: &RepoState) -> String {
        format!("{}/repos/{}", self.api.base, repo.full_name())
    }

    /// A repository as part of another object.
    pub(super) fn repo_json(&self, repo: &RepoState) -> Value {
        let name = repo.full_name();
        let open = repo.items.values().filter(|item| item.open).count();
        let web = &self.api.web;
        let mut value = json!({
            "id": repo.id, "node_id": node_id("R", repo.id), "name": repo.name, "full_name": name,
            "private": repo.private, "owner": self.user_json(&repo.owner), "html_url": format!("{web}/{name}"),
            "description": null, "fork": false, "homepage": null, "language": null, "license": null,
            "default_branch": repo.default_branch, "open_issues": open, "open_issues_count": open, "topics": [],
            "has_issues": true, "has_projects": false, "has_wiki": false, "has_pages": false, "has_downloads": true,
            "archived": repo.archived, "disabled": false, "mirror_url": null,
            "visibility": if repo.private { "private" } else { "public" }, "is_template": false,
            "pushed_at": repo.created, "created_at": repo.created, "updated_at": repo.created,
            "clone_url": format!("{web}/{name}.git"), "svn_url": format!("{web}/{name}"),
            "git_url": format!("git://fake.invalid/{name}.git"), "ssh_url": format!("git@fake.invalid:{name}.git"),
        });
        let counts = json!({
            "forks": 0, "forks_count": 0, "stargazers_count": 0, "watchers": 0, "watchers_count": 0, "size": 1,
            "web_commit_signoff_required": false, "allow_forking": true, "has_discussions": false,
        });
        extend(&mut value, counts);
        let push = repo.may_write(self.api.login());
        let is_owner = repo.owner == self.api.login();
        let rights = json!({"admin": is_owner, "maintain": is_owner, "push": push, "triage": push, "pull": true});
        if self.api.token.is_some() {
            value["permissions"] = rights;
        }
        extend(&mut value, links(&self.repo_url(repo), &REPO_LINKS));
        value
    }

    /// A repository with the fields that only its own address has.
    pub(super) fn full_repo_json(&self, repo: &str) -> Value {
        let repo = self.found(repo);
        let mut value = self.repo_json(repo);
        extend(
            &mut value,
            json!({
                "network_count": 0, "subscribers_count": 0, "temp_clone_token": null, "allow_squash_merge": true,
                "allow_merge_commit": true, "allow_rebase_merge": true, "allow_auto_merge": false,
                "delete_branch_on_merge": false, "allow_update_branch": false,
            }),
        );
        value
    }

    pub(super) fn label_json(&self, repo: &RepoState, label: &FakeLabel) -> Value {
        let path = super::super::http::encode(&label.name);
        json!({
            "id": label.id, "node_id": node_id("LA", label.id), "name": label.name, "color": label.color,
            "url": format!("{}/labels/{path}", self.repo_url(repo)), "default": false, "description": label.text,
        })
    }

    pub(super) fn labels_json(&self, repo: &RepoState, item: &FakeItem) -> Vec<Value> {
        let labels = item.labels.iter().filter_map(|name| repo.label(name));
        labels.map(|label| self.label_json(repo, label)).collect()
    }

    fn association(repo: &RepoState, login: &str) -> &'static str {
        match login {
            _ if login == repo.owner => "OWNER",
            _ if repo.may_write(login) => "COLLABORATOR",
            _ => "NONE",
        }
    }

    /// The fields that issues and pull requests share.
    fn item_json(&self, repo: &RepoState, item: &FakeItem) -> Value {
        let assignees = self.users_json(&item.assignees);
        json!({
            "id": item.id, "number": item.number, "title": item.title, "body": item.body, "locked": false,
            "state": if item.open { "open" } else { "closed" }, "user": self.user_json(&item.author),
            "labels": self.labels_json(repo, item), "assignee": assignees.first(), "assignees": assignees,
            "milestone": null, "created_at": item.created, "updated_at": item.updated, "closed_at": item.closed,
            "active_lock_reason": null, "author_association": Self::association(repo, &item.author),
        })
    }

    /// An issue, or a pull request as the address of issues shows it.
    pub(super) fn issue_json(&self, repo: &RepoState, item: &FakeItem) -> Value {
        let url = format!("{}/issues/{}", self.repo_url(repo), item.number);
        let kind = if item.pull.is_some() { "pull" } else { "issues" };
        let html = format!("{}/{}/{kind}/{}", self.api.web, repo.full_name(), item.number);
        let plain = repo.comments.iter().filter(|comment| comment.item == item.number && comment.place.is_none());
        let mut value = self.item_json(repo, item);
        extend(
            &mut value,
            json!({
                "node_id": node_id("I", item.id), "url": url, "html_url": html, "comments": plain.count(),
                "repository_url": self.repo_url(repo), "labels_url": format!("{url}/labels{{/name}}"),
                "comments_url": format!("{url}/comments"), "events_url": format!("{url}/events"),
                "timeline_url": format!("{url}/timeline"), "performed_via_github_app": null,
                "closed_by": item.closed_by.as_ref().map(|login| self.user_json(login)),
                "state_reason": if item.open { Value::Null } else { json!("completed") },
            }),
        );
        if let Some(pull) = &item.pull {
            let api = format!("{}/pulls/{}", self.repo_url(repo), item.number);
            value["pull_request"] = json!({
                "url": api, "html_url": html, "diff_url": format!("{html}.diff"),
                "patch_url": format!("{html}.patch"), "merged_at": pull.merged.as_ref().map(|merge| &merge.at),
            });
            value["draft"] = json!(pull.draft);
        }
        value
    }

    /// A pull request in a list.
    pub(super) fn pull_json(&self, repo: &RepoState, item: &FakeItem, pull: &FakePull) -> Value {
        let base = self.repo_url(repo);
        let (url, issue) = (format!("{base}/pulls/{}", item.number), format!("{base}/issues/{}", item.number));
        let html = format!("{}/{}/pull/{}", self.api.web, repo.full_name(), item.number);
        let statuses = format!("{base}/statuses/{}", pull.head);
        let end = |branch: &str, sha: &str| {
            json!({
                "label": format!("{}:{branch}", repo.owner), "ref": branch, "sha": sha,
                "user": self.user_json(&repo.owner), "repo": self.repo_json(repo),
            })
        };
        let href = |url: &str| json!({"href": url});
        let comment = format!("{base}/pulls/comments{{/number}}");
        let mut value = self.item_json(repo, item);
        // The description has no label without a text here, other than everywhere else.
        for label in value["labels"].as_array_mut().into_iter().flatten().filter(|label| label["description"].is_null())
        {
            label["description"] = json!("");
        }
        extend(
            &mut value,
            json!({
                "node_id": node_id("PR", item.id), "url": url, "html_url": html, "issue_url": issue,
                "diff_url": format!("{html}.diff"), "patch_url": format!("{html}.patch"), "draft": pull.draft,
                "commits_url": format!("{url}/commits"), "comments_url": format!("{issue}/comments"),
                "review_comments_url": format!("{url}/comments"), "review_comment_url": comment,
                "statuses_url": statuses, "auto_merge": null,
                "requested_reviewers": self.users_json(&pull.reviewers), "requested_teams": [],
                "merged_at": pull.merged.as_ref().map(|merge| &merge.at),
                "merge_commit_sha": pull.merged.as_ref().map(|merge| &merge.commit),
                "head": end(&pull.head_branch, &pull.head), "base": end(&pull.base_branch, &pull.base),
                "_links": {
                    "self": href(&url), "html": href(&html), "issue": href(&issue), "statuses": href(&statuses),
                    "comments": href(&format!("{issue}/comments")), "commits": href(&format!("{url}/commits")),
                    "review_comments": href(&format!("{url}/comments")), "review_comment": href(&comment),
                },
            }),
        );
        value
    }

    /// A pull request with the fields that only its own address has.
    pub(super) fn full_pull_json(&self, repo: &RepoState, item: &FakeItem, pull: &FakePull) -> Value {
        let files = repo.git.changed_files(&pull.base, &pull.head);
        let sum = |count: fn(&crate::fake_forge::git::DiffFile) -> u64| files.iter().map(count).sum::<u64>();
        let mine = || repo.comments.iter().filter(|comment| comment.item == item.number);
        let is_merged = pull.merged.is_some();
        let mut value = self.pull_json(repo, item, pull);
        extend(
            &mut value,
            json!({
                "merged": is_merged, "merged_by": pull.merged.as_ref().map(|merge| self.user_json(&merge.by)),
                "mergeable": if item.open { json!(true) } else { Value::Null }, "rebaseable": item.open,
                "mergeable_state": if item.open { "clean" } else { "unknown" }, "maintainer_can_modify": false,
                "comments": mine().filter(|comment| comment.place.is_none()).count(),
                "review_comments": mine().filter(|comment| comment.place.is_some()).count(),
                "commits": repo.git.count(&format!("{}..{}", pull.base, pull.head)),
                "additions": sum(|file| file.added), "deletions": sum(|file| file.removed),
                "changed_files": files.len(),
            }),
        );
        value
    }

    /// A comment on the whole item.
    pub(super) fn comment_json(&self, repo: &RepoState, comment: &FakeComment) -> Value {
        let base = self.repo_url(repo);
        let is_pull = repo.items.get(&comment.item).is_some_and(|item| item.pull.is_some());
        let kind = if is_pull { "pull" } else { "issues" };
        let html = format!("{}/{}/{kind}/{}", self.api.web, repo.full_name(), comment.item);
        json!({
            "id": comment.id, "node_id": node_id("IC", comment.id), "body": comment.body,
            "url": format!("{base}/issues/comments/{}", comment.id),
            "html_url": format!("{html}#issuecomment-{}", comment.id),
            "issue_url": format!("{base}/issues/{}", comment.item), "user": self.user_json(&comment.author),
            "created_at": comment.created, "updated_at": comment.updated,
            "author_association": Self::association(repo, &comment.author), "performed_via_github_app": null,
        })
    }

    pub(super) fn event_json(&self, repo: &RepoState, event: &FakeLabelEvent) -> Value {
        let color = repo.label(&event.label).map_or("ededed", |label| label.color.as_str());
        json!({
            "id": event.id, "node_id": node_id("LE", event.id), "commit_id": null, "commit_url": null,
            "url": format!("{}/issues/events/{}", self.repo_url(repo), event.id),
            "actor": event.actor.as_ref().map(|login| self.user_json(login)), "created_at": event.at,
            "event": if event.is_added { "labeled" } else { "unlabeled" }, "performed_via_github_app": null,
            "label": {"name": event.label, "color": color},
        })
    }

    pub(super) fn association_json(repo: &RepoState, login: &str) -> Value {
        json!(Self::association(repo, login))
    }
}
