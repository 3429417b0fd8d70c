//! The configuration of a connection to a forge, and the one type that it becomes.

use crate::api::{ApiClient, ForgeApi, TokenSource};
use crate::base_url::BaseUrl;
use crate::gitea::{self, Gitea};
use crate::github::{self, AppTokens, GitHub, GitHubApp};
use crate::gitlab::{self, GitLab};
use crate::http::{HttpClient, NetworkSettings, NowMs};
use crate::inspect::ForgeFinding;
use crate::secret::SecretText;
use crate::shared::{DeliveryOptions, SharedForge};
use loopwright_core::BoxFuture;
use loopwright_core::answer::CommandForm;
use loopwright_core::deliver::{
    Deliver, DeliverError, Delivery, DeliveryLookup, DeliveryReceipt, PushTarget, WorkLookup,
};
use loopwright_core::forge::{
    Answer, CheckQuery, CheckRun, CommentsOf, ForgeComment, ForgePage, Issue, ItemQuery, LabelChange, PageToken,
    PullFile, PullRequest, ReadForge,
};
use std::sync::Arc;

/// The kind of a forge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RemoteKind {
    /// GitHub, also GitHub Enterprise.
    GitHub,
    /// GitLab.
    GitLab,
    /// Gitea and Forgejo.
    Gitea,
}

impl RemoteKind {
    /// Reads the word of a configuration: `github`, `gitlab`, `gitea` or `forgejo`.
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        match word {
            "github" => Some(Self::GitHub),
            "gitlab" => Some(Self::GitLab),
            "gitea" | "forgejo" => Some(Self::Gitea),
            _ => None,
        }
    }

    fn default_api(self) -> Option<&'static str> {
        match self {
            Self::GitHub => Some("https://api.github.com"),
            Self::GitLab => Some("https://gitlab.com/api/v4"),
            Self::Gitea => None,
        }
    }

    /// The end of the address of a self-hosted server's API. GitHub's own has none.
    fn api_path(self) -> &'static str {
        match self {
            Self::GitHub => "/api/v3",
            Self::GitLab => "/api/v4",
            Self::Gitea => "/api/v1",
        }
    }
}

/// The identity of a connection.
#[derive(Debug, Clone)]
pub enum ForgeToken {
    /// A token of an account: personal, fine-grained, project or group token.
    Account(SecretText),
    /// A GitHub App.
    App(GitHubApp),
}

/// The configuration of a connection to one repository.
#[derive(Debug, Clone)]
pub struct ForgeConnection {
    /// The kind of the forge.
    pub kind: RemoteKind,
    /// The address of the API. GitHub: `https://api.github.com` if it is `None`, on Enterprise
    /// `https://HOST/api/v3`. GitLab: `https://gitlab.com/api/v4` if it is `None`. Gitea and Forgejo have no default:
    /// `https://HOST/api/v1`.
    pub api_url: Option<String>,
    /// The address for pushes; if it is `None`, `https://HOST/REPOSITORY.git` on the API's host.
    pub git_url: Option<String>,
    /// `owner/name`; on GitLab also `group/subgroup/name`.
    pub repository: String,
    /// The identity.
    pub token: ForgeToken,
    /// The location of the token, for messages, such as `GITHUB_TOKEN`.
    pub token_name: String,
    /// Accounts that are asked to review new pull requests; on GitHub also teams, as `org/team`.
    pub reviewers: Vec<String>,
    /// The first part of the name of a commit status that each pull request gets; without it no status is set.
    pub status_context: Option<String>,
    /// The network.
    pub network: NetworkSettings,
}

impl ForgeConnection {
    /// A connection with the defaults of its kind.
    #[must_use]
    pub fn new(kind: RemoteKind, repository: impl Into<String>, token: SecretText) -> Self {
        Self {
            kind,
            api_url: None,
            git_url: None,
            repository: repository.into(),
            token: ForgeToken::Account(token),
            token_name: "the configuration".to_owned(),
            reviewers: Vec::new(),
            status_context: None,
            network: NetworkSettings::default(),
        }
    }

    fn api(&self) -> Result<BaseUrl, ConnectionError> {
        let text = self.api_url.as_deref().or(self.kind.default_api());
        let text = text.ok_or_else(|| ConnectionError("`api_url` is missing: `https://HOST/api/v1`".to_owned()))?;
        let url = BaseUrl::parse(text).map_err(ConnectionError)?;
        let path = self.kind.api_path();
        if self.kind != RemoteKind::GitHub && !url.path.ends_with(path) {
            return Err(ConnectionError(format!("the address of the API must end with `{path}`: `{url}`")));
        }
        Ok(url)
    }

    /// The configured address, or the repository below the web address that the API's address implies.
    fn git(&self, api: &BaseUrl) -> Result<String, ConnectionError> {
        if let Some(url) = &self.git_url {
            // A path on this machine is for tests and mirrors.
            return match url.starts_with("file://") {
                true => Ok(url.clone()),
                false => BaseUrl::parse(url).map(|url| url.to_string()).map_err(ConnectionError),
            };
        }
        let web = match api.host.as_str() {
            "api.github.com" => "https://github.com".to_owned(),
            _ => api.with_path(api.path.strip_suffix(self.kind.api_path()).unwrap_or(&api.path)).to_string(),
        };
        Ok(format!("{web}/{}.git", self.repository))
    }

    fn check_repository(&self) -> Result<(), ConnectionError> {
        let is_name = |part: &str| {
            let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
            !part.is_empty() && part != "." && part != ".." && part.chars().all(is_plain)
        };
        let parts: Vec<&str> = self.repository.split('/').collect();
        let most = if self.kind == RemoteKind::GitLab { 20 } else { 2 };
        if (2..=most).contains(&parts.len()) && parts.iter().all(|part| is_name(part)) {
            return Ok(());
        }
        Err(ConnectionError(format!("`{}` is not `owner/name`", self.repository.escape_debug())))
    }

    fn token_source(&self) -> Result<TokenSource, ConnectionError> {
        match (&self.token, self.kind) {
            (ForgeToken::Account(token), _) if token.expose().is_empty() => {
                Err(ConnectionError(format!("the token from {} is empty", self.token_name)))
            }
            (ForgeToken::Account(token), RemoteKind::Gitea) => Ok(TokenSource::Fixed("token", token.clone())),
            (ForgeToken::Account(token), _) => Ok(TokenSource::Fixed("Bearer", token.clone())),
            (ForgeToken::App(app), RemoteKind::GitHub) => {
                AppTokens::new(app).map(|app| TokenSource::App(Box::new(app))).map_err(ConnectionError)
            }
            (ForgeToken::App(_), _) => Err(ConnectionError("only GitHub has GitHub Apps".to_owned())),
        }
    }
}

/// A configuration that cannot become a connection.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("forge connection: {0}")]
pub struct ConnectionError(pub(crate) String);

/// One repository on a remote forge: delivers items, lends pushes, reads, and checks itself.
pub struct RemoteForge {
    forge: Box<dyn AnyForge>,
    http: Arc<HttpClient>,
}

/// A forge of any kind.
trait AnyForge: Deliver + ReadForge {
    fn inspect<'a>(&'a self, base_branch: &'a str) -> BoxFuture<'a, Vec<ForgeFinding>>;
}

impl<A: ForgeApi> AnyForge for SharedForge<A> {
    fn inspect<'a>(&'a self, base_branch: &'a str) -> BoxFuture<'a, Vec<ForgeFinding>> {
        Box::pin(self.findings(base_branch))
    }
}

/// Connects to a forge. Nothing is sent before the first call.
///
/// `now` returns the time in milliseconds since 1970.
///
/// # Errors
/// If an address, the repository's name, the token, the proxy or the file of certificate authorities is unusable.
pub fn connect(connection: &ForgeConnection, now: NowMs) -> Result<RemoteForge, ConnectionError> {
    let http = HttpClient::new(connection.api()?, &connection.network, now).map_err(ConnectionError)?;
    connect_over(connection, Arc::new(http))
}

fn connect_over(connection: &ForgeConnection, http: Arc<HttpClient>) -> Result<RemoteForge, ConnectionError> {
    connection.check_repository()?;
    let api = http.base().clone();
    let options = DeliveryOptions {
        git_url: connection.git(&api)?,
        reviewers: connection.reviewers.clone(),
        status_context: connection.status_context.clone(),
    };
    let words = match connection.kind {
        RemoteKind::GitHub => github::WORDS,
        RemoteKind::GitLab => gitlab::WORDS,
        RemoteKind::Gitea => gitea::WORDS,
    };
    let token = connection.token_source()?;
    let client = ApiClient::new(Arc::clone(&http), words, &connection.repository, token, &connection.token_name);
    let forge: Box<dyn AnyForge> = match connection.kind {
        RemoteKind::GitHub => Box::new(SharedForge::new(GitHub::new(client), options)),
        RemoteKind::GitLab => Box::new(SharedForge::new(GitLab::new(client), options)),
        RemoteKind::Gitea => Box::new(SharedForge::new(Gitea::new(client), options)),
    };
    Ok(RemoteForge { forge, http })
}

impl RemoteForge {
    /// Connects to another repository of the same forge with the same account: both share the account's rate limit and
    /// the answers with entity tags.
    ///
    /// # Errors
    /// As [`connect`].
    pub fn connect_beside(&self, connection: &ForgeConnection) -> Result<Self, ConnectionError> {
        if connection.api()? != *self.http.base() {
            return Err(ConnectionError("another server has its own client".to_owned()));
        }
        connect_over(connection, Arc::clone(&self.http))
    }

    /// Checks reachability, token, scopes, repository and base branch. It changes nothing.
    pub async fn inspect(&self, base_branch: &str) -> Vec<ForgeFinding> {
        self.forge.inspect(base_branch).await
    }
}

impl std::fmt::Debug for RemoteForge {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("RemoteForge")
    }
}

impl Deliver for RemoteForge {
    fn deliver<'a>(&'a self, item: &'a Delivery) -> BoxFuture<'a, Result<DeliveryReceipt, DeliverError>> {
        self.forge.deliver(item)
    }

    fn push_target<'a>(&'a self, item: &'a Delivery) -> BoxFuture<'a, Result<Option<PushTarget>, DeliverError>> {
        self.forge.push_target(item)
    }

    fn find<'a>(&'a self, item: &'a Delivery) -> BoxFuture<'a, Result<DeliveryLookup, DeliverError>> {
        self.forge.find(item)
    }

    fn expect_earlier(&self, item: &Delivery) {
        self.forge.expect_earlier(item);
    }

    fn find_work<'a>(&'a self, item: &'a Delivery) -> BoxFuture<'a, Result<WorkLookup, DeliverError>> {
        self.forge.find_work(item)
    }
}

impl ReadForge for RemoteForge {
    fn pulls<'a>(&'a self, query: &'a ItemQuery, from: Option<&'a PageToken>) -> Answer<'a, ForgePage<PullRequest>> {
        self.forge.pulls(query, from)
    }

    fn branch_pulls<'a>(&'a self, branch: &'a str, base_branch: &'a str) -> Answer<'a, Vec<PullRequest>> {
        self.forge.branch_pulls(branch, base_branch)
    }

    fn issues<'a>(&'a self, query: &'a ItemQuery, from: Option<&'a PageToken>) -> Answer<'a, ForgePage<Issue>> {
        self.forge.issues(query, from)
    }

    fn checks<'a>(&'a self, query: &'a CheckQuery, from: Option<&'a PageToken>) -> Answer<'a, ForgePage<CheckRun>> {
        self.forge.checks(query, from)
    }

    fn changed_files(&self, pull: u64) -> Answer<'_, Vec<PullFile>> {
        self.forge.changed_files(pull)
    }

    fn comments<'a>(&'a self, of: CommentsOf, from: Option<&'a PageToken>) -> Answer<'a, ForgePage<ForgeComment>> {
        self.forge.comments(of, from)
    }

    fn label_changes(&self, of: CommentsOf) -> Answer<'_, Vec<LabelChange>> {
        self.forge.label_changes(of)
    }

    fn own_account(&self) -> Answer<'_, Option<String>> {
        self.forge.own_account()
    }

    fn command_form(&self) -> CommandForm {
        self.forge.command_form()
    }
}
