//! One request from its first byte to its answer: the API that it uses, the fault that it suffers, its place in the log.

use super::access::{FakeToken, ForgeAccess};
use super::backend::serve_git;
use super::faults::{ForgeFault, take_fault};
use super::http::{ApiRequest, RawAnswer, RawRequest, decode_path};
use super::log::{ForgeFace, ForgeLogEntry, readable};
use super::state::ForgeState;
use super::{gitea, github, gitlab};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The state and the folder of a forge.
#[derive(Debug)]
pub(super) struct ForgeCore {
    /// The folder of the bare repositories; its owner removes it.
    folder: PathBuf,
    /// The path below which everything is served; usually empty.
    prefix: String,
    state: Mutex<ForgeState>,
}

/// The result of a request on the connection.
#[derive(Debug)]
pub(super) enum HandledRequest {
    Answer(RawAnswer),
    Later(Duration, RawAnswer),
    /// The connection closes after this part of an answer.
    Half(RawAnswer),
    Cut,
    Never,
}

/// A request with the API that it uses.
struct RoutedRequest<'a> {
    face: ForgeFace,
    /// Below the base of the API.
    path: &'a str,
    /// The base of the API as the client used it.
    base: String,
    /// The base of the pages for people.
    web: String,
}

impl ForgeCore {
    pub(super) fn new(folder: &Path, prefix: &str) -> Self {
        Self { folder: folder.to_path_buf(), prefix: prefix.to_owned(), state: Mutex::default() }
    }

    pub(super) fn prefix(&self) -> &str {
        &self.prefix
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// The state; a test that failed elsewhere does not matter here.
    pub(super) fn state(&self) -> MutexGuard<'_, ForgeState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn handle(&self, request: &RawRequest) -> HandledRequest {
        let Some(routed) = route(request, &self.prefix) else {
            return HandledRequest::Answer(git_error(404, "not found"));
        };
        self.perform_late();
        let (fault, index) = self.enter(&routed, request);
        let refused = fault.as_ref().and_then(refusal);
        let performed = match (&fault, refused) {
            (Some(ForgeFault::LateAfterCut(requests)), _) => {
                self.state().late.push((*requests, request.clone()));
                None
            }
            (Some(ForgeFault::CutBefore), _) => None,
            (_, Some(refused)) => Some(refused),
            _ => Some(self.perform(&routed, request)),
        };
        let ended = match performed {
            None => HandledRequest::Cut,
            Some(answer) => spoil(fault, answer),
        };
        self.leave(index, &ended);
        ended
    }

    /// Performs the requests that were cut and whose time has come.
    fn perform_late(&self) {
        let mut due = Vec::new();
        self.state().late.retain_mut(|(requests, request)| {
            *requests = requests.saturating_sub(1);
            let is_due = *requests == 0;
            if is_due {
                due.push(request.clone());
            }
            !is_due
        });
        for request in due {
            if let Some(routed) = route(&request, &self.prefix) {
                self.perform(&routed, &request);
            }
        }
    }

    /// Logs a request and finds its fault.
    fn enter(&self, routed: &RoutedRequest<'_>, request: &RawRequest) -> (Option<ForgeFault>, usize) {
        let mut state = self.state();
        let scripted = take_fault(&mut state.faults, &request.method, routed.path);
        let fault = scripted.or_else(|| state.random.as_mut()?.draw());
        let row =
            ForgeLogEntry { fault: fault.clone(), ..ForgeLogEntry::new(&state, routed.face, routed.path, request) };
        state.log.push(row);
        (fault, state.log.len() - 1)
    }

    fn leave(&self, index: usize, ended: &HandledRequest) {
        let (HandledRequest::Answer(answer) | HandledRequest::Later(_, answer)) = ended else { return };
        // The test may have cleared the log meanwhile.
        if let Some(row) = self.state().log.get_mut(index) {
            row.status = Some(answer.status);
            row.answer = readable(&answer.body);
        }
    }

    fn perform(&self, routed: &RoutedRequest<'_>, request: &RawRequest) -> RawAnswer {
        if routed.face == ForgeFace::Git {
            return self.perform_git(routed.path, request);
        }
        let mut state = self.state();
        let token = request.token();
        let grant = token.as_ref().map(|token| state.tokens.get(token).cloned());
        let api = api_request(routed, request, grant.clone().flatten());
        let is_unknown = grant.is_some_and(|known| known.is_none());
        let answer = match routed.face {
            ForgeFace::GitHub | ForgeFace::Git => github::answer(&mut state, &api, request, is_unknown),
            ForgeFace::GitLab => gitlab::answer(&mut state, &api, is_unknown),
            ForgeFace::Gitea => gitea::answer(&mut state, &api, is_unknown),
        };
        state.note_labels(Some(api.login()));
        answer.into_raw(request)
    }

    /// Checks the token and runs the real backend; afterwards the pull requests follow their branches.
    fn perform_git(&self, path: &str, request: &RawRequest) -> RawAnswer {
        let Some((full_name, rest)) = path.trim_start_matches('/').split_once(".git/") else {
            return git_error(404, "not found");
        };
        let pushes = rest.contains("receive-pack") || request.query.contains("git-receive-pack");
        let access = if pushes { ForgeAccess::Write } else { ForgeAccess::Read };
        let user = {
            let state = self.state();
            let grant = request.token().map(|token| state.tokens.get(&token).cloned());
            match git_access(&state, full_name, grant, access) {
                Ok(user) => user,
                Err(refused) => return refused,
            }
        };
        let on_disk = format!("/{}.git/{rest}", full_name.to_lowercase());
        let answer = serve_git(self.folder(), &on_disk, request, user.as_deref());
        if let Some(repo) = self.state().repo_mut(full_name).filter(|_| pushes) {
            repo.refresh();
        }
        answer
    }
}

/// Whether the token may fetch or push; the account, or the forge's refusal.
fn git_access(
    state: &ForgeState,
    full_name: &str,
    grant: Option<Option<FakeToken>>,
    access: ForgeAccess,
) -> Result<Option<String>, RawAnswer> {
    let needs_login = || {
        let mut answer = git_error(401, "Invalid username or token. Password authentication is not supported.");
        answer.headers.push(("www-authenticate".to_owned(), "Basic realm=\"fake forge\"".to_owned()));
        answer
    };
    let found = state.repo(full_name);
    let grant = match grant {
        Some(None) => return Err(needs_login()),
        Some(Some(grant)) => Some(grant),
        None => None,
    };
    let Some(grant) = grant else {
        let anonymous = access == ForgeAccess::Read && found.is_some_and(|repo| !repo.private);
        return if anonymous { Ok(None) } else { Err(needs_login()) };
    };
    let Some(repo) = found.filter(|repo| grant.covers(&repo.full_name())) else {
        return Err(git_error(404, "Repository not found."));
    };
    let is_member = repo.may_write(&grant.user) || grant.kind == super::access::FakeTokenKind::Installation;
    if repo.private && !is_member {
        return Err(git_error(404, "Repository not found."));
    }
    if !grant.git_allows(access, repo.private) || (access == ForgeAccess::Write && !is_member) {
        return Err(git_error(403, &format!("Permission to {full_name}.git denied to {}.", grant.user)));
    }
    if repo.archived && access == ForgeAccess::Write {
        return Err(git_error(403, "This repository was archived so it is read-only."));
    }
    Ok(Some(grant.user))
}

fn git_error(status: u16, text: &str) -> RawAnswer {
    let headers = vec![("content-type".to_owned(), "text/plain; charset=utf-8".to_owned())];
    RawAnswer { status, headers, body: format!("{text}\n").into_bytes() }
}

/// The API by the path: GitHub's is at the root, as on `api.github.com`, and below `/api/v3`.
fn route<'a>(request: &'a RawRequest, prefix: &str) -> Option<RoutedRequest<'a>> {
    let below = request.path.strip_prefix(prefix).filter(|path| path.starts_with('/') || path.is_empty())?;
    let web = format!("{}{prefix}", request.origin());
    for (prefix, face) in
        [("/api/v3", ForgeFace::GitHub), ("/api/v4", ForgeFace::GitLab), ("/api/v1", ForgeFace::Gitea)]
    {
        if let Some(path) = below.strip_prefix(prefix).filter(|path| path.starts_with('/') || path.is_empty()) {
            return Some(RoutedRequest { face, path, base: format!("{web}{prefix}"), web });
        }
    }
    let face = if below.contains(".git/") { ForgeFace::Git } else { ForgeFace::GitHub };
    Some(RoutedRequest { face, path: below, base: web.clone(), web })
}

fn api_request(routed: &RoutedRequest<'_>, request: &RawRequest, token: Option<FakeToken>) -> ApiRequest {
    let words = routed.path.split('/').filter(|word| !word.is_empty()).map(decode_path);
    ApiRequest {
        face: routed.face,
        method: request.method.clone(),
        words: words.collect(),
        query: request.parameters(),
        body: readable(&request.body),
        base: routed.base.clone(),
        web: routed.web.clone(),
        path: routed.path.to_owned(),
        token,
    }
}

/// Seconds since 1970, as forges report the reset of a limit.
pub(super) fn unix_seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// The answer of a fault with which the forge performs nothing.
fn refusal(fault: &ForgeFault) -> Option<RawAnswer> {
    let page = |status: u16, text: &str| {
        let headers = vec![("content-type".to_owned(), "text/html; charset=utf-8".to_owned())];
        let body =
            format!("<!DOCTYPE html>\n<html><head><title>{text}</title></head><body><h1>{text}</h1></body></html>\n");
        RawAnswer { status, headers, body: body.into_bytes() }
    };
    let json = |status: u16, text: &str, headers: &[(&str, String)]| {
        let mut all = vec![("content-type".to_owned(), "application/json; charset=utf-8".to_owned())];
        all.extend(headers.iter().map(|(name, value)| ((*name).to_owned(), value.clone())));
        let body = serde_json::json!({"message": text, "documentation_url": "https://docs.github.com/rest"});
        RawAnswer { status, headers: all, body: body.to_string().into_bytes() }
    };
    let remaining = |after: &u64| {
        vec![
            ("x-ratelimit-limit", "5000".to_owned()),
            ("x-ratelimit-remaining", "0".to_owned()),
            ("x-ratelimit-used", "5000".to_owned()),
            ("x-ratelimit-reset", (unix_seconds() + after).to_string()),
            ("x-ratelimit-resource", "core".to_owned()),
        ]
    };
    Some(match fault {
        ForgeFault::TooManyRequests(after) => json(429, "Too Many Requests", &[("retry-after", after.to_string())]),
        ForgeFault::PrimaryLimit(after) => json(403, "API rate limit exceeded for user ID 1001.", &remaining(after)),
        ForgeFault::SecondaryLimit(after) => json(
            403,
            "You have exceeded a secondary rate limit. Please wait a few minutes before you try again.",
            &[("retry-after", after.to_string())],
        ),
        ForgeFault::ServerError(status) => json(*status, "Server Error", &[]),
        ForgeFault::Maintenance(after) => json(503, "Unavailable", &[("retry-after", after.to_string())]),
        ForgeFault::Status(status) => json(*status, "Scripted answer", &[]),
        ForgeFault::Said(status, words) => json(*status, words, &[]),
        ForgeFault::HtmlPage(status) => page(*status, "Bad gateway"),
        ForgeFault::EmptyList => RawAnswer { body: b"[]".to_vec(), ..json(200, "", &[]) },
        _ => return None,
    })
}

/// Applies a fault after the request was performed.
fn spoil(fault: Option<ForgeFault>, mut answer: RawAnswer) -> HandledRequest {
    match fault {
        Some(ForgeFault::CutAfter) => HandledRequest::Cut,
        Some(ForgeFault::Stall) => HandledRequest::Never,
        Some(ForgeFault::Slow(delay)) => HandledRequest::Later(delay, answer),
        Some(ForgeFault::ServerErrorAfter(status)) => {
            let body = b"{\"message\":\"Server Error\"}".to_vec();
            HandledRequest::Answer(RawAnswer { status, headers: Vec::new(), body })
        }
        Some(ForgeFault::CutInside) => {
            answer.body.truncate(answer.body.len() / 2);
            HandledRequest::Half(answer)
        }
        Some(ForgeFault::MalformedJson) => {
            answer.body.truncate(answer.body.len() / 2);
            HandledRequest::Answer(answer)
        }
        _ => HandledRequest::Answer(answer),
    }
}
