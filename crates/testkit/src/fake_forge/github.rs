//! GitHub's REST API over the state of the fake forge: access, routes, and the headers of every answer.

mod account;
mod checks;
mod commits;
mod issues;
mod json;
mod pulls;
mod reviews;

use super::access::{FakeToken, FakeTokenKind, ForgeAccess, ForgeArea};
use super::handle::unix_seconds;
use super::http::{ApiAnswer, ApiRequest, ApiResult, RawRequest};
use super::state::{ForgeState, RepoState};
use serde_json::json;

/// Requests an hour for an account.
const LIMIT: u64 = 5000;

/// The longest text of an issue or a comment.
pub(super) const BODY_CHARACTERS_MAX: usize = 65_536;

/// One call of the API.
pub(super) struct GitHubCall<'a> {
    pub(super) state: &'a mut ForgeState,
    pub(super) api: &'a ApiRequest,
}

/// Answers a request; `is_unknown` for a token that the forge does not know.
pub(super) fn answer(state: &mut ForgeState, api: &ApiRequest, raw: &RawRequest, is_unknown: bool) -> ApiAnswer {
    let mut call = GitHubCall { state, api };
    let words: Vec<&str> = api.words.iter().map(String::as_str).collect();
    let is_app = matches!(words.as_slice(), ["app", ..] | ["repos", _, _, "installation"]);
    let mut answer = if raw.header("user-agent").is_none_or(str::is_empty) {
        error(403, "Request forbidden by administrative rules. Please make sure your request has a User-Agent header")
    } else if is_app {
        flatten(call.app(raw.token().as_deref()))
    } else if is_unknown {
        error(401, "Bad credentials")
    } else if api.body.is_string() {
        error(400, "Problems parsing JSON")
    } else {
        flatten(call.route())
    };
    let used = call.state.used.entry(raw.token().unwrap_or_default()).or_default();
    *used += 1;
    let used = *used;
    let limit = if api.token.is_some() { LIMIT } else { 60 };
    let mut header = |name: &str, value: String| answer.headers.push((name.to_owned(), value));
    header("x-ratelimit-limit", limit.to_string());
    header("x-ratelimit-remaining", limit.saturating_sub(used).to_string());
    header("x-ratelimit-used", used.to_string());
    header("x-ratelimit-reset", (unix_seconds() / 3600 * 3600 + 3600).to_string());
    header("x-ratelimit-resource", "core".to_owned());
    header("x-github-media-type", "github.v3; format=json".to_owned());
    header("x-github-api-version-selected", "2022-11-28".to_owned());
    if let Some(token) = api.token.as_ref().filter(|token| token.kind == FakeTokenKind::Personal) {
        header("x-oauth-scopes", token.scopes.join(", "));
    }
    answer
}

fn flatten(result: ApiResult) -> ApiAnswer {
    result.unwrap_or_else(|refused| refused)
}

/// An error as GitHub writes it.
pub(super) fn error(status: u16, message: &str) -> ApiAnswer {
    let documentation = "https://docs.github.com/rest";
    ApiAnswer::new(
        status,
        json!({"message": message, "documentation_url": documentation, "status": status.to_string()}),
    )
}

pub(super) fn not_found() -> ApiAnswer {
    error(404, "Not Found")
}

/// A validation error with one row.
pub(super) fn invalid(resource: &str, field: &str, code: &str, message: Option<&str>) -> ApiAnswer {
    let mut answer = error(422, "Validation Failed");
    let mut row = json!({"resource": resource, "field": field, "code": code});
    if let Some(message) = message {
        row["message"] = json!(message);
    }
    answer.body["errors"] = json!([row]);
    answer
}

impl GitHubCall<'_> {
    fn route(&mut self) -> ApiResult {
        let words: Vec<&str> = self.api.words.iter().map(String::as_str).collect();
        match (self.api.method.as_str(), words.as_slice()) {
            (_, ["repos", owner, name, rest @ ..]) => self.route_repo(&format!("{owner}/{name}"), rest),
            ("GET", ["search", "issues"]) => self.search_issues(),
            _ => self.route_account(&words),
        }
    }

    fn route_repo(&mut self, repo: &str, words: &[&str]) -> ApiResult {
        match words {
            [] => self.repository(repo),
            ["issues" | "labels" | "assignees", ..] => self.route_issues(repo, words),
            ["pulls", number, "reviews" | "comments", ..] => self.route_reviews(repo, number, &words[2..]),
            ["pulls", "comments", id] => self.review_comment(repo, id),
            ["pulls", ..] => self.route_pulls(repo, &words[1..]),
            ["commits", reference, "check-runs" | "status" | "statuses" | "check-suites"] => {
                self.list_checks(repo, reference, words[2])
            }
            ["check-runs" | "statuses" | "actions" | "check-suites", ..] => self.route_checks(repo, words),
            _ => self.route_commits(repo, words),
        }
    }

    fn repository(&mut self, repo: &str) -> ApiResult {
        if self.api.method != "GET" {
            return Err(not_found());
        }
        self.check(repo, ForgeArea::Metadata, ForgeAccess::Read)?;
        Ok(ApiAnswer::ok(self.full_repo_json(repo)))
    }

    /// Checks a token's right to a repository and returns the repository.
    pub(super) fn check(&self, repo: &str, area: ForgeArea, access: ForgeAccess) -> Result<&RepoState, ApiAnswer> {
        let found = self.state.repo(repo).ok_or_else(not_found)?;
        let Some(token) = &self.api.token else {
            if access == ForgeAccess::Write {
                return Err(error(401, "Requires authentication"));
            }
            return if found.private { Err(not_found()) } else { Ok(found) };
        };
        let is_member = is_member(token, found);
        if !token.covers(&found.full_name()) || (found.private && !is_member) {
            return Err(not_found());
        }
        if !token.github_allows(area, access, found.private) {
            return Err(match token.kind {
                FakeTokenKind::Personal => not_found(),
                FakeTokenKind::FineGrained => error(403, "Resource not accessible by personal access token"),
                FakeTokenKind::Installation => error(403, "Resource not accessible by integration"),
            });
        }
        if access == ForgeAccess::Write && found.archived {
            return Err(error(403, "Repository was archived so is read-only."));
        }
        Ok(found)
    }

    /// Also requires that the account may push.
    pub(super) fn check_push(&self, repo: &str, area: ForgeArea) -> Result<&RepoState, ApiAnswer> {
        let found = self.check(repo, area, ForgeAccess::Write)?;
        let token = self.api.token.as_ref();
        if token.is_some_and(|token| is_member(token, found)) {
            return Ok(found);
        }
        Err(error(403, "Must have push access to repository"))
    }

    /// A repository that an earlier check has found.
    pub(super) fn found(&self, repo: &str) -> &RepoState {
        self.state.repo(repo).expect("an earlier check found the repository")
    }

    pub(super) fn found_mut(&mut self, repo: &str) -> &mut RepoState {
        self.state.repo_mut(repo).expect("an earlier check found the repository")
    }

    /// A text field that must not be empty or too long.
    pub(super) fn body_text(&self, resource: &str, field: &str) -> Result<String, ApiAnswer> {
        let text = self.api.text(field).unwrap_or_default();
        if text.trim().is_empty() {
            return Err(invalid(resource, field, "missing_field", None));
        }
        check_length(resource, field, text)?;
        Ok(text.to_owned())
    }
}

/// Refuses a text that is longer than GitHub's limit.
pub(super) fn check_length(resource: &str, field: &str, text: &str) -> Result<(), ApiAnswer> {
    let most = if field == "title" { 256 } else { BODY_CHARACTERS_MAX };
    if text.chars().count() <= most {
        return Ok(());
    }
    let message = format!("{field} is too long (maximum is {most} characters)");
    Err(invalid(resource, field, "custom", Some(&message)))
}

fn is_member(token: &FakeToken, repo: &RepoState) -> bool {
    repo.may_write(&token.user) || token.kind == FakeTokenKind::Installation
}

/// A number in a path.
pub(super) fn parse_number(word: &str) -> Result<u64, ApiAnswer> {
    word.parse().map_err(|_| not_found())
}
