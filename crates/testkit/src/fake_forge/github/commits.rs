//! GitHub's branches, refs, commits, comparisons, contents and branch protection, read from the bare repository.

use super::json::node_id;
use super::{GitHubCall, error, not_found};
use crate::fake_forge::access::{ForgeAccess, ForgeArea};
use crate::fake_forge::git::CommitFacts;
use crate::fake_forge::http::{ApiAnswer, ApiResult};
use crate::fake_forge::state::RepoState;
use base64::Engine as _;
use serde_json::{Value, json};

impl GitHubCall<'_> {
    /// Routes below `/repos/{owner}/{repo}` for the repository's content.
    pub(super) fn route_commits(&mut self, repo: &str, words: &[&str]) -> ApiResult {
        match (self.api.method.as_str(), words) {
            ("GET", ["branches"]) => self.list_branches(repo),
            // A branch has slashes in its name.
            ("GET", ["branches", name @ .., "protection"]) if !name.is_empty() => {
                self.protection(repo, &name.join("/"))
            }
            ("GET", ["branches", name @ ..]) => self.get_branch(repo, &name.join("/")),
            ("GET", ["git", "ref", name @ ..]) => self.get_ref(repo, &name.join("/")),
            ("GET", ["git", "matching-refs", name @ ..]) => self.list_refs(repo, &name.join("/")),
            ("POST", ["git", "refs"]) => self.create_ref(repo),
            ("PATCH", ["git", "refs", name @ ..]) => self.update_ref(repo, &name.join("/")),
            ("DELETE", ["git", "refs", name @ ..]) => self.delete_ref(repo, &name.join("/")),
            ("GET", ["git", "commits", sha]) => self.get_git_commit(repo, sha),
            ("GET", ["commits"]) => self.list_commits(repo),
            ("GET", ["commits", sha, "pulls"]) => self.commit_pulls(repo, sha),
            ("GET", ["commits", name @ ..]) => self.get_commit(repo, &name.join("/")),
            ("GET", ["compare", range @ ..]) => self.compare(repo, &range.join("/")),
            ("GET", ["contents", path @ ..]) => self.contents(repo, &path.join("/")),
            ("GET", ["collaborators", login, "permission"]) => self.permission(repo, login),
            ("GET", ["collaborators", login]) => self.is_collaborator(repo, login),
            _ => Err(not_found()),
        }
    }

    fn readable_repo(&self, repo: &str) -> Result<&RepoState, ApiAnswer> {
        self.check(repo, ForgeArea::Contents, ForgeAccess::Read)
    }

    fn commit_of(repo: &RepoState, name: &str) -> Result<CommitFacts, ApiAnswer> {
        let sha = repo.resolve(name).ok_or_else(|| error(422, &format!("No commit found for SHA: {name}")))?;
        repo.git.commit(&sha).ok_or_else(not_found)
    }

    fn list_branches(&mut self, repo: &str) -> ApiResult {
        let found = self.readable_repo(repo)?;
        let url = self.repo_url(found);
        let rows = found.branches.iter().map(|(name, sha)| {
            let is_protected = found.protected.contains(name);
            json!({
                "name": name, "commit": {"sha": sha, "url": format!("{url}/commits/{sha}")}, "protected": is_protected,
                "protection": {"enabled": is_protected, "required_status_checks": {"contexts": [], "checks": []}},
                "protection_url": format!("{url}/branches/{name}/protection"),
            })
        });
        Ok(self.api.page(rows.collect()))
    }

    fn get_branch(&mut self, repo: &str, name: &str) -> ApiResult {
        let found = self.readable_repo(repo)?;
        let sha = found.branches.get(name).ok_or_else(|| error(404, "Branch not found"))?;
        let commit = found.git.commit(sha).ok_or_else(not_found)?;
        let url = format!("{}/branches/{name}", self.repo_url(found));
        let html = format!("{}/{}/tree/{name}", self.api.web, found.full_name());
        let is_protected = found.protected.iter().any(|known| known == name);
        Ok(ApiAnswer::ok(json!({
            "name": name, "commit": self.commit_json(found, &commit), "_links": {"self": url, "html": html},
            "protected": is_protected, "protection_url": format!("{url}/protection"),
            "protection": {"enabled": is_protected, "required_status_checks": {"contexts": [], "checks": []}},
        })))
    }

    fn protection(&mut self, repo: &str, name: &str) -> ApiResult {
        let found = self.check(repo, ForgeArea::Administration, ForgeAccess::Read)?;
        if found.owner != self.api.login() {
            return Err(not_found());
        }
        if !found.branches.contains_key(name) {
            return Err(error(404, "Branch not found"));
        }
        if !found.protected.iter().any(|known| known == name) {
            return Err(error(404, "Branch not protected"));
        }
        let url = format!("{}/branches/{name}/protection", self.repo_url(found));
        Ok(ApiAnswer::ok(json!({
            "url": url, "enforce_admins": {"url": format!("{url}/enforce_admins"), "enabled": true},
            "required_linear_history": {"enabled": false}, "allow_force_pushes": {"enabled": false},
            "allow_deletions": {"enabled": false}, "lock_branch": {"enabled": false},
            "required_pull_request_reviews": {
                "url": format!("{url}/required_pull_request_reviews"), "dismiss_stale_reviews": false,
                "require_code_owner_reviews": false, "required_approving_review_count": 1,
                "require_last_push_approval": false,
            },
        })))
    }

    fn ref_json(&self, repo: &RepoState, name: &str, sha: &str) -> Value {
        let url = self.repo_url(repo);
        json!({
            "ref": name, "node_id": node_id("REF", repo.id), "url": format!("{url}/git/{name}"),
            "object": {"type": "commit", "sha": sha, "url": format!("{url}/git/commits/{sha}")},
        })
    }

    fn get_ref(&mut self, repo: &str, name: &str) -> ApiResult {
        let found = self.readable_repo(repo)?;
        let full = format!("refs/{name}");
        let exact =
            name.strip_prefix("heads/").map_or_else(|| found.git.resolve(&full), |n| found.branches.get(n).cloned());
        Ok(ApiAnswer::ok(self.ref_json(found, &full, &exact.ok_or_else(not_found)?)))
    }

    fn list_refs(&mut self, repo: &str, prefix: &str) -> ApiResult {
        let found = self.readable_repo(repo)?;
        let all = found.branches.iter().map(|(name, sha)| (format!("heads/{name}"), sha));
        let mine = all.filter(|(name, _)| name.starts_with(prefix));
        Ok(self.api.page(mine.map(|(name, sha)| self.ref_json(found, &format!("refs/{name}"), sha)).collect()))
    }

    fn create_ref(&mut self, repo: &str) -> ApiResult {
        let found = self.check_push(repo, ForgeArea::Contents)?;
        let (name, sha) = (self.api.text("ref").unwrap_or_default(), self.api.text("sha").unwrap_or_default());
        let branch = name.strip_prefix("refs/heads/").filter(|name| !name.is_empty());
        let branch = branch.ok_or_else(|| error(422, "Reference name must contain at least three slashes."))?;
        if found.branches.contains_key(branch) {
            return Err(error(422, "Reference already exists"));
        }
        found.git.resolve(sha).ok_or_else(|| error(422, "Object does not exist"))?;
        let (name, branch, sha) = (name.to_owned(), branch.to_owned(), sha.to_owned());
        self.set_branch(repo, &branch, &sha)?;
        Ok(ApiAnswer::created(self.ref_json(self.found(repo), &name, &sha)))
    }

    fn set_branch(&mut self, repo: &str, branch: &str, sha: &str) -> Result<(), ApiAnswer> {
        let found = self.found_mut(repo);
        found.git.set_branch(branch, Some(sha)).map_err(|_| error(422, "Reference update failed"))?;
        found.refresh();
        Ok(())
    }

    fn update_ref(&mut self, repo: &str, name: &str) -> ApiResult {
        let found = self.check_push(repo, ForgeArea::Contents)?;
        let branch = name.strip_prefix("heads/").ok_or_else(not_found)?.to_owned();
        let sha = self.api.text("sha").unwrap_or_default().to_owned();
        let old = found.branches.get(&branch).ok_or_else(|| error(422, "Reference does not exist"))?;
        found.git.resolve(&sha).ok_or_else(|| error(422, "Object does not exist"))?;
        let forces = self.api.body["force"].as_bool().unwrap_or(false);
        if !forces && found.git.merge_base(old, &sha).as_ref() != Some(old) {
            return Err(error(422, "Update is not a fast forward"));
        }
        if found.protected.contains(&branch) {
            return Err(error(422, "Changes must be made through a pull request."));
        }
        self.set_branch(repo, &branch, &sha)?;
        Ok(ApiAnswer::ok(self.ref_json(self.found(repo), &format!("refs/{name}"), &sha)))
    }

    fn delete_ref(&mut self, repo: &str, name: &str) -> ApiResult {
        let found = self.check_push(repo, ForgeArea::Contents)?;
        let branch = name.strip_prefix("heads/").ok_or_else(not_found)?.to_owned();
        if !found.branches.contains_key(&branch) {
            return Err(error(422, "Reference does not exist"));
        }
        if found.protected.contains(&branch) {
            return Err(error(422, "Cannot delete this protected branch"));
        }
        let now = self.state.next_time();
        self.found_mut(repo).delete_branch(&branch, &now).map_err(|_| error(422, "Reference deletion failed"))?;
        Ok(ApiAnswer::empty())
    }

    fn get_git_commit(&mut self, repo: &str, sha: &str) -> ApiResult {
        let found = self.readable_repo(repo)?;
        let commit = found.git.resolve(sha).and_then(|sha| found.git.commit(&sha)).ok_or_else(not_found)?;
        let url = format!("{}/git/commits/{sha}", self.repo_url(found));
        let mut value = self.git_commit_json(found, &commit);
        super::json::extend(
            &mut value,
            json!({
                "sha": commit.sha, "node_id": node_id("C", found.id), "url": url,
                "html_url": format!("{}/{}/commit/{}", self.api.web, found.full_name(), commit.sha),
                "parents": self.parents_json(found, &commit),
            }),
        );
        Ok(ApiAnswer::ok(value))
    }

    fn parents_json(&self, repo: &RepoState, commit: &CommitFacts) -> Vec<Value> {
        let url = self.repo_url(repo);
        let row = |sha: &String| {
            let html = format!("{}/{}/commit/{sha}", self.api.web, repo.full_name());
            json!({"sha": sha, "url": format!("{url}/commits/{sha}"), "html_url": html})
        };
        commit.parents.iter().map(row).collect()
    }

    fn git_commit_json(&self, repo: &RepoState, commit: &CommitFacts) -> Value {
        let url = self.repo_url(repo);
        let person = json!({"name": commit.name, "email": commit.email, "date": commit.date});
        json!({
            "author": person, "committer": person, "message": commit.message,
            "tree": {"sha": commit.tree, "url": format!("{url}/git/trees/{}", commit.tree)},
            "verification": {
                "verified": false, "reason": "unsigned", "signature": null, "payload": null, "verified_at": null,
            },
        })
    }

    pub(super) fn commit_json(&self, repo: &RepoState, commit: &CommitFacts) -> Value {
        let url = format!("{}/commits/{}", self.repo_url(repo), commit.sha);
        let mut inner = self.git_commit_json(repo, commit);
        inner["url"] = json!(format!("{}/git/commits/{}", self.repo_url(repo), commit.sha));
        inner["comment_count"] = json!(0);
        json!({
            "sha": commit.sha, "node_id": node_id("C", repo.id), "commit": inner, "url": url,
            "html_url": format!("{}/{}/commit/{}", self.api.web, repo.full_name(), commit.sha),
            "comments_url": format!("{url}/comments"), "author": null, "committer": null,
            "parents": self.parents_json(repo, commit),
        })
    }

    fn get_commit(&mut self, repo: &str, name: &str) -> ApiResult {
        let found = self.readable_repo(repo)?;
        let commit = Self::commit_of(found, name)?;
        let mut value = self.commit_json(found, &commit);
        if let Some(parent) = commit.parents.first() {
            value["files"] = Value::Array(self.files_json(found, parent, &commit.sha));
        }
        Ok(ApiAnswer::ok(value))
    }

    fn list_commits(&mut self, repo: &str) -> ApiResult {
        let found = self.readable_repo(repo)?;
        let start = self.api.parameter("sha").unwrap_or(&found.default_branch);
        let sha = found.resolve(start).ok_or_else(not_found)?;
        let commits = found.git.commits(&sha, 1000);
        Ok(self.api.page(commits.iter().map(|commit| self.commit_json(found, commit)).collect()))
    }

    fn commit_pulls(&mut self, repo: &str, sha: &str) -> ApiResult {
        let found = self.check(repo, ForgeArea::Pulls, ForgeAccess::Read)?;
        let mine = found.items.values().filter_map(|item| Some((item, item.pull.as_ref()?)));
        let mine = mine.filter(|(_, pull)| found.git.merge_base(sha, &pull.head).as_deref() == Some(sha));
        Ok(self.api.page(mine.map(|(item, pull)| self.pull_json(found, item, pull)).collect()))
    }

    /// Changed files as rows of a pull request, a commit or a comparison.
    pub(super) fn files_json(&self, repo: &RepoState, base: &str, head: &str) -> Vec<Value> {
        let web = format!("{}/{}", self.api.web, repo.full_name());
        let rows = repo.git.changed_files(base, head).into_iter().map(|file| {
            let status = match file.status {
                'A' => "added",
                'D' => "removed",
                _ => "modified",
            };
            let (path, at) = (&file.path, if file.status == 'D' { base } else { head });
            json!({
                "filename": path, "status": status, "additions": file.added, "deletions": file.removed,
                "changes": file.added + file.removed, "sha": repo.git.object(at, path),
                "blob_url": format!("{web}/blob/{at}/{path}"), "raw_url": format!("{web}/raw/{at}/{path}"),
                "contents_url": format!("{}/contents/{path}?ref={at}", self.repo_url(repo)),
                "patch": repo.git.patch(base, head, path),
            })
        });
        rows.collect()
    }

    fn compare(&mut self, repo: &str, range: &str) -> ApiResult {
        let found = self.readable_repo(repo)?;
        let (base, head) = range.split_once("...").ok_or_else(not_found)?;
        let strip = |name: &str| name.rsplit(':').next().unwrap_or_default().to_owned();
        let (Some(base), Some(head)) = (found.resolve(&strip(base)), found.resolve(&strip(head))) else {
            return Err(not_found());
        };
        let (ahead, behind) =
            (found.git.count(&format!("{base}..{head}")), found.git.count(&format!("{head}..{base}")));
        let status = match (ahead, behind) {
            (0, 0) => "identical",
            (_, 0) => "ahead",
            (0, _) => "behind",
            _ => "diverged",
        };
        let fork = found.git.merge_base(&base, &head).ok_or_else(|| error(404, "No common ancestor"))?;
        let commit = |sha: &str| found.git.commit(sha).map(|facts| self.commit_json(found, &facts));
        let mut commits = found.git.commits(&format!("{base}..{head}"), 250);
        commits.reverse();
        let url = format!("{}/compare/{range}", self.repo_url(found));
        let html = format!("{}/{}/compare/{range}", self.api.web, found.full_name());
        Ok(ApiAnswer::ok(json!({
            "url": url, "html_url": html, "permalink_url": html, "diff_url": format!("{html}.diff"),
            "patch_url": format!("{html}.patch"), "base_commit": commit(&base), "merge_base_commit": commit(&fork),
            "status": status, "ahead_by": ahead, "behind_by": behind, "total_commits": ahead,
            "commits": commits.iter().map(|facts| self.commit_json(found, facts)).collect::<Vec<_>>(),
            "files": self.files_json(found, &base, &head),
        })))
    }

    /// A file's content; folders are not listed.
    fn contents(&mut self, repo: &str, path: &str) -> ApiResult {
        let found = self.readable_repo(repo)?;
        let name = self.api.parameter("ref").unwrap_or(&found.default_branch);
        let commit = found.resolve(name).ok_or_else(|| error(404, &format!("No commit found for the ref {name}")))?;
        let (Some(text), Some(sha)) = (found.git.file(&commit, path), found.git.object(&commit, path)) else {
            return Err(not_found());
        };
        let url = format!("{}/contents/{path}?ref={name}", self.repo_url(found));
        let git = format!("{}/git/blobs/{sha}", self.repo_url(found));
        let html = format!("{}/{}/blob/{name}/{path}", self.api.web, found.full_name());
        Ok(ApiAnswer::ok(json!({
            "type": "file", "encoding": "base64", "size": text.len(), "name": path.rsplit('/').next(), "path": path,
            "content": base64::engine::general_purpose::STANDARD.encode(&text), "sha": sha, "url": url,
            "git_url": git, "html_url": html, "download_url": html,
            "_links": {"self": url, "git": git, "html": html},
        })))
    }

    fn permission(&mut self, repo: &str, login: &str) -> ApiResult {
        let found = self.check(repo, ForgeArea::Metadata, ForgeAccess::Read)?;
        let level = match login {
            _ if login == found.owner => "admin",
            _ if found.may_write(login) => "write",
            _ if self.state.users.contains_key(login) && !found.private => "read",
            _ if self.state.users.contains_key(login) => "none",
            _ => return Err(error(404, &format!("{login} is not a user"))),
        };
        Ok(ApiAnswer::ok(
            json!({"permission": level, "role_name": level, "user": self.collaborator_json(login, level)}),
        ))
    }

    fn collaborator_json(&self, login: &str, level: &str) -> Value {
        let mut user = self.user_json(login);
        let (admin, push) = (level == "admin", level == "admin" || level == "write");
        user["role_name"] = json!(level);
        user["permissions"] =
            json!({"admin": admin, "maintain": admin, "push": push, "triage": push, "pull": level != "none"});
        user
    }

    fn is_collaborator(&mut self, repo: &str, login: &str) -> ApiResult {
        let found = self.check(repo, ForgeArea::Metadata, ForgeAccess::Read)?;
        if found.may_write(login) { Ok(ApiAnswer::empty()) } else { Err(not_found()) }
    }
}
