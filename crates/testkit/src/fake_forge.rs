//! A stateful fake forge for tests: one server on loopback with the APIs of GitHub, GitLab and Gitea over one state,
//! and git over smart HTTP by the real `git http-backend`. It serves the calls of Loopwright's clients, not the whole
//! APIs. It never connects to anything.
//!
//! ```no_run
//! use loopwright_testkit::fake_forge::{FakeForge, FakeToken, ForgeFault};
//!
//! let forge = FakeForge::start(); // stops when it is dropped; works in sync and async tests
//! let repo = forge.create_repo("acme/app"); // one commit on `main`; account `acme` owns it
//! repo.add_writer("bot");
//! let token = forge.token("bot"); // every right; `forge.add_token(FakeToken::personal("bot", &["repo"]))` has less
//!
//! // Give these to the client under test:
//! let api = forge.github_url(); // also `enterprise_url()` (…/api/v3), `gitlab_url()`, `gitea_url()`
//! let push = repo.clone_url(); // Basic authentication: any user, the token as the password
//!
//! // Faults: the n-th matching request fails. `*` is one part of the path below the API's base, `**` the rest.
//! forge.fail("POST", "/repos/*/*/pulls", 1, ForgeFault::CutAfter);
//! forge.fail("GET", "/repos/**", 3, ForgeFault::TooManyRequests(2));
//! forge.fail("POST", "/acme/app.git/git-receive-pack", 1, ForgeFault::CutAfter);
//! forge.fail_randomly(7, 100, &[ForgeFault::CutAfter, ForgeFault::ServerError(502)]); // 10 % of all requests
//!
//! // Transports: `forge.listen_tls(&["localhost"])` (a private authority), `forge.listen_unix()`,
//! // `FakeForge::start_below("/code")` (a base with a path), `FakeProxy::start()` (a proxy that tunnels and logs).
//!
//! // People interfere:
//! repo.close_item(1);
//! let sha = repo.push_commit("loop/fixer/r1", "a person's commit");
//!
//! // Look at the state and at the requests:
//! assert_eq!(repo.pulls().len(), 1);
//! assert!(repo.branch("main").is_some());
//! assert_eq!(forge.requests_to("POST", "/repos/*/*/pulls").len(), 1);
//! # let _ = (token, api, push, sha, FakeToken::personal("bot", &["repo"]));
//! ```

mod access;
mod backend;
mod changes;
mod description;
mod faults;
mod git;
mod gitea;
mod github;
mod gitlab;
mod handle;
mod http;
mod log;
mod people;
mod proxy;
mod rows;
mod schema;
mod serve;
mod state;
mod tls;

pub use access::{FakeApp, FakeToken, FakeTokenKind};
pub use description::{ApiDescription, DescriptionReport};
pub use faults::ForgeFault;
pub use log::{ForgeFace, ForgeLogEntry};
pub use people::{FakeRepo, IssueDraft};
pub use proxy::FakeProxy;
pub use rows::{
    FakeCheck, FakeCheckKind, FakeComment, FakeItem, FakeLabel, FakeMerge, FakePlace, FakePull, FakeReview,
};
pub use tls::TlsEndpoint;

use faults::{FaultRule, RandomFaults};
use handle::ForgeCore;
use std::path::PathBuf;
use std::sync::{Arc, MutexGuard};

/// A running fake forge.
#[derive(Debug)]
pub struct FakeForge {
    core: Arc<ForgeCore>,
    url: String,
    runtime: Option<tokio::runtime::Runtime>,
    /// Removed with the forge, although its tasks may keep the state for a moment.
    _folder: tempfile::TempDir,
}

impl FakeForge {
    /// Starts a forge on a free port of loopback.
    ///
    /// # Panics
    /// If no port is free.
    #[must_use]
    pub fn start() -> Self {
        Self::start_below("")
    }

    /// Starts a forge whose pages and APIs are all below a path such as `/code`.
    ///
    /// # Panics
    /// If no port is free.
    #[must_use]
    pub fn start_below(path: &str) -> Self {
        let runtime = serve::runtime();
        let folder = tempfile::Builder::new().prefix("loopwright-forge-").tempdir().expect("a temporary folder");
        let core = Arc::new(ForgeCore::new(folder.path(), path));
        let address = serve::listen(&runtime, &core);
        Self { core, url: format!("http://{address}{path}"), runtime: Some(runtime), _folder: folder }
    }

    /// Serves TLS, too, with a certificate for these names from a private authority.
    ///
    /// # Panics
    /// If there is no name.
    #[must_use]
    pub fn listen_tls(&self, names: &[&str]) -> TlsEndpoint {
        let backend = tls::TlsBackend::Forge(Arc::clone(&self.core));
        let mut endpoint = tls::listen_tls(self.runtime(), &self.core, &backend, names);
        endpoint.url.push_str(self.core.prefix());
        endpoint
    }

    /// Serves TLS in front of another server, which listens on a port of loopback, such as a fake Slack.
    ///
    /// # Panics
    /// If there is no name.
    #[must_use]
    pub fn listen_tls_before(&self, port: u16, names: &[&str]) -> TlsEndpoint {
        tls::listen_tls(self.runtime(), &self.core, &tls::TlsBackend::Port(port), names)
    }

    /// Serves a unix socket, too, and returns its path.
    #[must_use]
    pub fn listen_unix(&self) -> PathBuf {
        let path = self.core.folder().join("forge.sock");
        serve::listen_unix(self.runtime(), &self.core, &path);
        path
    }

    fn runtime(&self) -> &tokio::runtime::Runtime {
        self.runtime.as_ref().expect("the forge runs until it is dropped")
    }

    /// The address of the forge for people and for git, without a slash at its end.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The base of GitHub's API, as `https://api.github.com`.
    #[must_use]
    pub fn github_url(&self) -> String {
        self.url.clone()
    }

    /// The base of GitHub's API on an Enterprise server, as `https://host/api/v3`.
    #[must_use]
    pub fn enterprise_url(&self) -> String {
        format!("{}/api/v3", self.url)
    }

    /// The base of GitLab's API.
    #[must_use]
    pub fn gitlab_url(&self) -> String {
        format!("{}/api/v4", self.url)
    }

    /// The base of Gitea's API.
    #[must_use]
    pub fn gitea_url(&self) -> String {
        format!("{}/api/v1", self.url)
    }

    /// Creates a public repository `owner/name` with one commit on `main`.
    ///
    /// # Panics
    /// If the name has no owner.
    pub fn create_repo(&self, full_name: &str) -> FakeRepo<'_> {
        let path = self.core.folder().join(format!("{}.git", full_name.to_lowercase()));
        let bare = git::BareRepo::create(&path);
        let mut state = self.state();
        let (id, created) = (state.next_id(), state.next_time());
        let repo = state::RepoState::new(id, full_name, bare, created);
        state.user_id(&repo.owner);
        state.repos.insert(full_name.to_lowercase(), repo);
        drop(state);
        self.repo(full_name)
    }

    /// A repository that exists.
    #[must_use]
    pub fn repo(&self, full_name: &str) -> FakeRepo<'_> {
        FakeRepo::new(self, full_name)
    }

    /// Deletes a repository: every request to it is answered with `404`.
    pub fn delete_repo(&self, full_name: &str) {
        self.state().repos.remove(&full_name.to_lowercase());
    }

    /// A new token with every right of an account.
    #[must_use]
    pub fn token(&self, user: &str) -> String {
        self.add_token(FakeToken::personal(user, &["repo", "workflow", "api", "all"]))
    }

    /// A new token with limited rights.
    #[must_use]
    pub fn add_token(&self, grant: FakeToken) -> String {
        let mut state = self.state();
        state.user_id(&grant.user);
        let id = state.next_id();
        let prefix = match grant.kind {
            FakeTokenKind::Personal => "ghp_",
            FakeTokenKind::FineGrained => "github_pat_",
            FakeTokenKind::Installation => "ghs_",
        };
        let token = format!("{prefix}fake{id:036}");
        state.tokens.insert(token.clone(), grant);
        token
    }

    /// Creates a GitHub App that `owner` has installed, with permissions such as `issues:write`; returns it with its
    /// private key as PEM.
    ///
    /// # Panics
    /// If `openssl` is not installed.
    #[must_use]
    pub fn create_app(&self, slug: &str, owner: &str, permissions: &[&str]) -> (FakeApp, String) {
        let (private_key, public_key) = FakeApp::create_key();
        let mut state = self.state();
        let (id, installation) = (state.next_id(), state.next_id());
        let permissions = permissions.iter().map(|row| (*row).to_owned()).collect();
        let app = FakeApp { id, slug: slug.to_owned(), installation, owner: owner.to_owned(), permissions, public_key };
        state.apps.insert(id, app.clone());
        (app, private_key)
    }

    /// The number of an account, which is created if it does not exist.
    #[must_use]
    pub fn account_id(&self, user: &str) -> u64 {
        self.state().user_id(user)
    }

    /// Revokes a token.
    pub fn revoke_token(&self, token: &str) {
        self.state().tokens.remove(token);
    }

    /// Lets the n-th request (counted from 1, from now) to a route fail. `method` may be `*`; in `path`, `*` stands for
    /// one part and `**` for the rest.
    pub fn fail(&self, method: &str, path: &str, nth: u64, fault: ForgeFault) {
        self.add_rule(method, path, nth, 1, fault);
    }

    /// Lets every request to a route fail until [`FakeForge::clear_faults`].
    pub fn fail_always(&self, method: &str, path: &str, fault: ForgeFault) {
        self.add_rule(method, path, 1, u64::MAX, fault);
    }

    /// Lets this share of all requests fail with one of these faults, the same for the same seed and order of requests.
    pub fn fail_randomly(&self, seed: u64, per_mille: u64, faults: &[ForgeFault]) {
        self.state().random = Some(RandomFaults { seed, per_mille, faults: faults.to_vec() });
    }

    /// Removes all faults.
    pub fn clear_faults(&self) {
        let mut state = self.state();
        state.faults.clear();
        state.random = None;
    }

    fn add_rule(&self, method: &str, path: &str, first: u64, times: u64, fault: ForgeFault) {
        let (method, path) = (method.to_owned(), path.to_owned());
        self.state().faults.push(FaultRule { method, path, first, times, fault, calls: 0 });
    }

    /// All requests so far.
    #[must_use]
    pub fn requests(&self) -> Vec<ForgeLogEntry> {
        self.state().log.clone()
    }

    /// The requests with a method to a path, in which `*` stands for one part and `**` for the rest.
    #[must_use]
    pub fn requests_to(&self, method: &str, path: &str) -> Vec<ForgeLogEntry> {
        self.requests().into_iter().filter(|request| request.is(method, path)).collect()
    }

    /// Forgets the requests so far.
    pub fn clear_requests(&self) {
        self.state().log.clear();
    }

    fn state(&self) -> MutexGuard<'_, state::ForgeState> {
        self.core.state()
    }
}

impl Drop for FakeForge {
    fn drop(&mut self) {
        // A test may drop it inside another runtime, where waiting is not allowed.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}
