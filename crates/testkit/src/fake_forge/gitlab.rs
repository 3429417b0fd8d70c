//! GitLab's API, version 4, over the state of the fake forge: access and routes. Issues and merge requests share their
//! numbers here, so that a client that confuses the two gets a 404.

mod discussions;
mod json;
mod merge_requests;
mod notes;
mod repository;

use super::access::ForgeAccess;
use super::http::{ApiAnswer, ApiRequest, ApiResult};
use super::state::{FakeItem, FakePull, ForgeState, RepoState};
use serde_json::{Value, json};

/// One call of the API.
struct GitLabCall<'a> {
    state: &'a mut ForgeState,
    api: &'a ApiRequest,
}

/// Answers a request; `is_unknown` for a token that the forge does not know.
pub(super) fn answer(state: &mut ForgeState, api: &ApiRequest, is_unknown: bool) -> ApiAnswer {
    let mut call = GitLabCall { state, api };
    let mut answer =
        if is_unknown { message(401, "401 Unauthorized") } else { call.route().unwrap_or_else(|refused| refused) };
    for (name, value) in [("ratelimit-limit", "2000"), ("ratelimit-remaining", "1999"), ("ratelimit-reset", "0")] {
        answer.headers.push((name.to_owned(), value.to_owned()));
    }
    answer
}

/// An error with a message.
fn message(status: u16, text: &str) -> ApiAnswer {
    ApiAnswer::new(status, json!({"message": text}))
}

fn not_found(what: &str) -> ApiAnswer {
    message(404, &format!("404 {what}Not found"))
}

fn parse_number(word: &str) -> Result<u64, ApiAnswer> {
    word.parse().map_err(|_| ApiAnswer::new(400, json!({"error": "id is invalid"})))
}

impl GitLabCall<'_> {
    fn route(&mut self) -> ApiResult {
        let words: Vec<&str> = self.api.words.iter().map(String::as_str).collect();
        match (self.api.method.as_str(), words.as_slice()) {
            ("GET", ["version" | "metadata"]) => {
                self.signed_in()?;
                Ok(ApiAnswer::ok(json!({"version": "17.5.0", "revision": "fake", "enterprise": false})))
            }
            ("GET", ["user"]) => {
                let user = self.signed_in()?.to_owned();
                Ok(ApiAnswer::ok(self.user_json(&user)))
            }
            ("GET", ["users"]) => self.find_users(),
            ("GET", ["personal_access_tokens", "self"]) => self.token_facts(),
            (_, ["projects", id, rest @ ..]) => {
                let name = self.project_name(id)?;
                self.route_project(&name, rest)
            }
            _ => Err(not_found("")),
        }
    }

    fn route_project(&mut self, repo: &str, words: &[&str]) -> ApiResult {
        match words {
            [] if self.api.method == "GET" => {
                let found = self.check(repo, ForgeAccess::Read)?;
                Ok(ApiAnswer::ok(self.project_json(found)))
            }
            ["merge_requests" | "issues", number, "resource_label_events"] => {
                self.list_label_events(repo, words[0], number)
            }
            ["merge_requests" | "issues", number, "notes", rest @ ..] => self.route_notes(repo, words[0], number, rest),
            ["merge_requests", number, "discussions", rest @ ..] => self.route_discussions(repo, number, rest),
            ["merge_requests" | "issues", ..] => self.route_items(repo, words),
            _ => self.route_repository(repo, words),
        }
    }

    fn signed_in(&self) -> Result<&str, ApiAnswer> {
        let token = self.api.token.as_ref().ok_or_else(|| message(401, "401 Unauthorized"))?;
        if !["api", "read_api", "read_user"].iter().any(|scope| token.has(scope)) {
            return Err(insufficient_scope());
        }
        Ok(&token.user)
    }

    fn find_users(&self) -> ApiResult {
        self.signed_in()?;
        let name = self.api.parameter("username");
        let known = self.state.users.keys().filter(|login| name.is_none_or(|name| login.eq_ignore_ascii_case(name)));
        Ok(self.api.page(known.map(|login| self.user_json(login)).collect()))
    }

    fn token_facts(&self) -> ApiResult {
        let token = self.api.token.as_ref().ok_or_else(|| message(401, "401 Unauthorized"))?;
        Ok(ApiAnswer::ok(json!({
            "id": 1, "name": "test", "revoked": false, "active": true, "scopes": token.scopes,
            "user_id": self.state.users.get(&token.user), "created_at": "2026-01-01T00:00:00Z", "expires_at": null,
        })))
    }

    /// The repository of a number or of a path such as `acme%2Fapp`.
    fn project_name(&self, id: &str) -> Result<String, ApiAnswer> {
        let number = id.parse().ok();
        let mut known = self.state.repos.values();
        let found = known.find(|repo| number == Some(repo.id) || repo.full_name().eq_ignore_ascii_case(id));
        found.map(RepoState::full_name).ok_or_else(|| not_found("Project "))
    }

    /// Checks a token's right to a project and returns the project.
    fn check(&self, repo: &str, access: ForgeAccess) -> Result<&RepoState, ApiAnswer> {
        let found = self.state.repo(repo).ok_or_else(|| not_found("Project "))?;
        let Some(token) = &self.api.token else {
            if access == ForgeAccess::Write {
                return Err(message(401, "401 Unauthorized"));
            }
            return if found.private { Err(not_found("Project ")) } else { Ok(found) };
        };
        if !token.gitlab_allows(access) {
            return Err(insufficient_scope());
        }
        if (found.private && !found.may_write(&token.user)) || !token.covers(repo) {
            return Err(not_found("Project "));
        }
        if access == ForgeAccess::Write && found.archived {
            return Err(message(403, "403 Forbidden"));
        }
        Ok(found)
    }

    /// Also requires that the account is a developer of the project.
    fn check_push(&self, repo: &str) -> Result<&RepoState, ApiAnswer> {
        let found = self.check(repo, ForgeAccess::Write)?;
        if found.may_write(self.api.login()) { Ok(found) } else { Err(message(403, "403 Forbidden")) }
    }

    fn found(&self, repo: &str) -> &RepoState {
        self.state.repo(repo).expect("an earlier check found the repository")
    }

    fn found_mut(&mut self, repo: &str) -> &mut RepoState {
        self.state.repo_mut(repo).expect("an earlier check found the repository")
    }

    fn item<'r>(repo: &'r RepoState, kind: &str, number: &str) -> Result<&'r FakeItem, ApiAnswer> {
        let item = repo.items.get(&parse_number(number)?);
        let is_kind = |item: &&FakeItem| item.pull.is_some() == (kind == "merge_requests");
        item.filter(is_kind).ok_or_else(|| not_found(""))
    }

    fn merge_request<'r>(repo: &'r RepoState, number: &str) -> Result<(&'r FakeItem, &'r FakePull), ApiAnswer> {
        let item = Self::item(repo, "merge_requests", number)?;
        Ok((item, item.pull.as_ref().ok_or_else(|| not_found(""))?))
    }

    /// A value from the body or, as GitLab allows, from the query.
    fn value(&self, name: &str) -> Option<String> {
        let text = match &self.api.body[name] {
            Value::String(text) => Some(text.clone()),
            Value::Number(number) => Some(number.to_string()),
            Value::Bool(is_set) => Some(is_set.to_string()),
            _ => None,
        };
        text.or_else(|| self.api.parameter(name).map(str::to_owned))
    }

    fn required(&self, name: &str) -> Result<String, ApiAnswer> {
        let text = self.value(name).filter(|text| !text.trim().is_empty());
        text.ok_or_else(|| ApiAnswer::new(400, json!({"error": format!("{name} is missing")})))
    }

    /// A list, which GitLab also accepts with commas in one text.
    fn list(&self, name: &str) -> Option<Vec<String>> {
        self.api.texts(name).or_else(|| {
            let text = self.value(name)?;
            Some(text.split(',').map(str::trim).filter(|part| !part.is_empty()).map(str::to_owned).collect())
        })
    }

    /// Accounts by their numbers; those that do not exist are dropped.
    fn logins(&self, name: &str) -> Option<Vec<String>> {
        let rows = self.api.body[name].as_array()?;
        let find = |id: u64| self.state.users.iter().find(|(_, known)| **known == id).map(|(login, _)| login.clone());
        Some(rows.iter().filter_map(Value::as_u64).filter_map(find).collect())
    }
}

fn insufficient_scope() -> ApiAnswer {
    let text = "The request requires higher privileges than provided by the access token.";
    ApiAnswer::new(403, json!({"error": "insufficient_scope", "error_description": text, "scope": "api"}))
}
