//! Accounts' tokens, their scopes, and the rights that each forge derives from them.

use std::io::Write as _;
use std::process::{Command, Stdio};
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::alg_id;

/// The kinds of tokens, because forges answer differently to each when a right is missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FakeTokenKind {
    /// A personal token with scopes: GitHub's classic tokens, GitLab's and Gitea's tokens.
    Personal,
    /// GitHub's fine-grained personal token with permissions such as `issues:write`.
    FineGrained,
    /// The token of a GitHub App's installation, with permissions.
    Installation,
}

/// A token of an account.
#[derive(Debug, Clone)]
pub struct FakeToken {
    /// The account.
    pub user: String,
    /// The kind.
    pub kind: FakeTokenKind,
    /// Scopes or permissions, in the words of the forge that the test uses.
    pub scopes: Vec<String>,
    /// The repositories that it is valid for; all if empty.
    pub repos: Vec<String>,
}

impl FakeToken {
    /// A personal token with scopes: `repo`, `public_repo`, `repo:status` (GitHub); `api`, `read_api`,
    /// `write_repository` (GitLab); `all`, `write:repository`, `read:issue` (Gitea).
    #[must_use]
    pub fn personal(user: &str, scopes: &[&str]) -> Self {
        Self::new(user, FakeTokenKind::Personal, scopes)
    }

    /// A fine-grained token of GitHub with permissions such as `contents:write`.
    #[must_use]
    pub fn fine_grained(user: &str, permissions: &[&str]) -> Self {
        Self::new(user, FakeTokenKind::FineGrained, permissions)
    }

    pub(super) fn new(user: &str, kind: FakeTokenKind, scopes: &[&str]) -> Self {
        let scopes = scopes.iter().map(|scope| (*scope).to_owned()).collect();
        Self { user: user.to_owned(), kind, scopes, repos: Vec::new() }
    }

    pub(super) fn has(&self, scope: &str) -> bool {
        self.scopes.iter().any(|known| known == scope)
    }

    /// Whether it covers a repository.
    pub(super) fn covers(&self, full_name: &str) -> bool {
        self.repos.is_empty() || self.repos.iter().any(|repo| repo.eq_ignore_ascii_case(full_name))
    }
}

/// The parts of a repository that rights are granted for, with GitHub's names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ForgeArea {
    Metadata,
    Contents,
    Pulls,
    Issues,
    Checks,
    Statuses,
    Administration,
}

/// Reading or changing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ForgeAccess {
    Read,
    Write,
}

impl ForgeArea {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Metadata => "metadata",
            Self::Contents => "contents",
            Self::Pulls => "pull_requests",
            Self::Issues => "issues",
            Self::Checks => "checks",
            Self::Statuses => "statuses",
            Self::Administration => "administration",
        }
    }
}

impl FakeToken {
    /// Whether GitHub grants the access.
    pub(super) fn github_allows(&self, area: ForgeArea, access: ForgeAccess, private: bool) -> bool {
        if self.kind != FakeTokenKind::Personal {
            let name = area.name();
            let write = self.has(&format!("{name}:write"));
            return match access {
                ForgeAccess::Write => write,
                ForgeAccess::Read => {
                    write || self.has(&format!("{name}:read")) || area == ForgeArea::Metadata || !private
                }
            };
        }
        let public = !private && (self.has("public_repo") || access == ForgeAccess::Read);
        self.has("repo") || public || (area == ForgeArea::Statuses && self.has("repo:status"))
    }

    /// Whether GitLab grants the access over its API.
    pub(super) fn gitlab_allows(&self, access: ForgeAccess) -> bool {
        self.has("api") || (access == ForgeAccess::Read && self.has("read_api"))
    }

    /// Whether Gitea grants the access; it distinguishes repositories from issues.
    pub(super) fn gitea_allows(&self, area: ForgeArea, access: ForgeAccess) -> bool {
        let name = if area == ForgeArea::Issues { "issue" } else { "repository" };
        let write = self.has("all") || self.has(&format!("write:{name}"));
        write || (access == ForgeAccess::Read && self.has(&format!("read:{name}")))
    }

    /// Whether it may fetch or push over HTTP on any of the forges.
    pub(super) fn git_allows(&self, access: ForgeAccess, private: bool) -> bool {
        let gitlab = self.has("write_repository") || (access == ForgeAccess::Read && self.has("read_repository"));
        self.github_allows(ForgeArea::Contents, access, private)
            || gitlab
            || self.has("api")
            || self.gitea_allows(ForgeArea::Contents, access)
    }
}

/// A GitHub App that is installed for an owner.
#[derive(Debug, Clone)]
pub struct FakeApp {
    /// The id of the app, which its JWT names as the issuer.
    pub id: u64,
    /// The name in URLs.
    pub slug: String,
    /// The id of its installation.
    pub installation: u64,
    /// The account that installed it.
    pub owner: String,
    /// Permissions of the installation, such as `issues:write`.
    pub permissions: Vec<String>,
    /// The RSA public key in DER (PKCS #1) that verifies its JWTs.
    pub public_key: Vec<u8>,
}

impl FakeApp {
    /// Whether the app's key made a signature (RSA with SHA-256).
    pub(super) fn has_signed(&self, message: &[u8], signature: &[u8]) -> bool {
        let known = ring::default_provider().signature_verification_algorithms.all;
        let algorithm = known.iter().find(|one| one.signature_alg_id() == alg_id::RSA_PKCS1_SHA256);
        algorithm.is_some_and(|one| one.verify_signature(&self.public_key, message, signature).is_ok())
    }

    /// A new RSA key: the private one as PEM (PKCS #8) and the public one.
    pub(super) fn create_key() -> (String, Vec<u8>) {
        let private = openssl(&["genpkey", "-quiet", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048"], b"");
        let public = openssl(&["rsa", "-RSAPublicKey_out", "-outform", "DER"], &private);
        (String::from_utf8_lossy(&private).into_owned(), public)
    }
}

fn openssl(words: &[&str], input: &[u8]) -> Vec<u8> {
    let mut command = Command::new("openssl");
    command.args(words).env_clear().env("PATH", crate::TRUSTED_PATH);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().expect("openssl is installed");
    child.stdin.take().expect("a pipe").write_all(input).expect("openssl reads its input");
    let output = child.wait_with_output().expect("openssl ends");
    assert!(output.status.success(), "openssl {words:?}");
    output.stdout
}
