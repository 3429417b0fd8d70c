//! The API of Gitea and Forgejo, version 1, over the state of the fake forge: access and routes.

mod commits;
mod items;
mod json;
mod reviews;

use super::access::{FakeTokenKind, ForgeAccess, ForgeArea};
use super::http::{ApiAnswer, ApiRequest, ApiResult};
use super::state::{FakeItem, ForgeState, RepoState};
use serde_json::json;

/// One call of the API.
struct GiteaCall<'a> {
    state: &'a mut ForgeState,
    api: &'a ApiRequest,
}

/// Answers a request; `is_unknown` for a token that the forge does not know.
pub(super) fn answer(state: &mut ForgeState, api: &ApiRequest, is_unknown: bool) -> ApiAnswer {
    let mut call = GiteaCall { state, api };
    if is_unknown {
        return error(401, "invalid username, password or token");
    }
    if api.body.is_string() {
        return error(422, "invalid JSON");
    }
    call.route().unwrap_or_else(|refused| refused)
}

/// An error as Gitea writes it.
fn error(status: u16, message: &str) -> ApiAnswer {
    ApiAnswer::new(status, json!({"message": message, "url": "https://forge.invalid/api/swagger"}))
}

fn not_found() -> ApiAnswer {
    let mut answer = error(404, "The target couldn't be found.");
    answer.body["errors"] = json!([]);
    answer
}

fn parse_number(word: &str) -> Result<u64, ApiAnswer> {
    word.parse().map_err(|_| not_found())
}

impl GiteaCall<'_> {
    fn route(&mut self) -> ApiResult {
        let words: Vec<&str> = self.api.words.iter().map(String::as_str).collect();
        match (self.api.method.as_str(), words.as_slice()) {
            ("GET", ["version"]) => Ok(ApiAnswer::ok(json!({"version": "17.0.0+gitea-1.22.0"}))),
            ("GET", ["user"]) => self.user(),
            ("GET", ["users", login]) if self.state.users.contains_key(*login) => {
                Ok(ApiAnswer::ok(self.user_json(login)))
            }
            (_, ["repos", owner, name, rest @ ..]) => self.route_repo(&format!("{owner}/{name}"), rest),
            _ => Err(not_found()),
        }
    }

    fn route_repo(&mut self, repo: &str, words: &[&str]) -> ApiResult {
        match (self.api.method.as_str(), words) {
            ("GET", []) => {
                let found = self.check(repo, ForgeArea::Metadata, ForgeAccess::Read)?;
                Ok(ApiAnswer::ok(self.repo_json(found)))
            }
            (_, ["pulls", number, "reviews" | "requested_reviewers", ..]) => {
                self.route_reviews(repo, number, &words[2..])
            }
            (_, ["issues" | "pulls" | "labels", ..]) => self.route_items(repo, words),
            _ => self.route_commits(repo, words),
        }
    }

    fn user(&self) -> ApiResult {
        let token = self.api.token.as_ref().ok_or_else(|| error(401, "token is required"))?;
        if !["all", "read:user", "write:user"].iter().any(|scope| token.has(scope)) {
            return Err(error(403, "token does not have at least one of required scope(s): [read:user]"));
        }
        Ok(ApiAnswer::ok(self.user_json(&token.user)))
    }

    /// Checks a token's right to a repository and returns the repository.
    fn check(&self, repo: &str, area: ForgeArea, access: ForgeAccess) -> Result<&RepoState, ApiAnswer> {
        let found = self.state.repo(repo).ok_or_else(not_found)?;
        let Some(token) = &self.api.token else {
            if access == ForgeAccess::Write {
                return Err(error(401, "token is required"));
            }
            return if found.private { Err(not_found()) } else { Ok(found) };
        };
        if !token.gitea_allows(area, access) {
            let word = if access == ForgeAccess::Write { "write" } else { "read" };
            let name = if area == ForgeArea::Issues { "issue" } else { "repository" };
            let text = format!("token does not have at least one of required scope(s): [{word}:{name}]");
            return Err(error(403, &text));
        }
        let is_member = found.may_write(&token.user) || token.kind == FakeTokenKind::Installation;
        if (found.private && !is_member) || !token.covers(&found.full_name()) {
            return Err(not_found());
        }
        if access == ForgeAccess::Write && found.archived {
            return Err(error(423, "repo is archived"));
        }
        Ok(found)
    }

    /// Also requires that the account may push.
    fn check_push(&self, repo: &str, area: ForgeArea) -> Result<&RepoState, ApiAnswer> {
        let found = self.check(repo, area, ForgeAccess::Write)?;
        if found.may_write(self.api.login()) {
            return Ok(found);
        }
        Err(error(403, "user should have a permission to write to a repo"))
    }

    fn found(&self, repo: &str) -> &RepoState {
        self.state.repo(repo).expect("an earlier check found the repository")
    }

    fn found_mut(&mut self, repo: &str) -> &mut RepoState {
        self.state.repo_mut(repo).expect("an earlier check found the repository")
    }

    fn item<'r>(repo: &'r RepoState, number: &str) -> Result<&'r FakeItem, ApiAnswer> {
        repo.items.get(&parse_number(number)?).ok_or_else(not_found)
    }

    /// A pull request; an issue is not found here.
    fn pull<'r>(repo: &'r RepoState, number: &str) -> Result<&'r FakeItem, ApiAnswer> {
        Self::item(repo, number)?.pull.as_ref().ok_or_else(not_found)?;
        Self::item(repo, number)
    }

    /// A required text of the body.
    fn required(&self, name: &str) -> Result<String, ApiAnswer> {
        let text = self.api.text(name).filter(|text| !text.trim().is_empty());
        text.map(str::to_owned).ok_or_else(|| error(422, &format!("[{name}]: Required")))
    }
}
