//! Signs commits. The engine seals a commit without a signature; right before it is sent, the executor makes a signed
//! copy with the same tree, parent, author and message. The key is read only by the program that git starts for the
//! signature, and no repository's configuration names it.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::engine_repo::init_bare;
use super::user_repo::parse_oid;
use super::{CommitMetadata, EngineRepo, Git, GitCall, GitError, GitErrorKind, ObjectFormat, Oid};

/// Enough for the header and the message of a commit that the engine made.
const COMMIT_MAX: usize = 1 << 20;

/// The key that signs commits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CommitSigner {
    /// An SSH key.
    Ssh {
        /// The file with the private key, or with the public key of a private key that the agent holds.
        key: PathBuf,
        /// The socket of the user's SSH agent.
        agent: Option<OsString>,
    },
    /// An OpenPGP key.
    Gpg {
        /// Its fingerprint.
        key: String,
        /// The folder of GnuPG.
        home: PathBuf,
    },
}

impl CommitSigner {
    /// The key for people.
    #[must_use]
    pub fn name(&self) -> String {
        match self {
            Self::Ssh { key, .. } => format!("SSH key {}", key.display()),
            Self::Gpg { key, .. } => format!("OpenPGP key {key}"),
        }
    }

    /// Adds the key to a call. Only this git process and the program that it starts see the agent and the folder.
    fn sign(&self, call: GitCall) -> GitCall {
        // Without it, ssh-keygen would ask for a passphrase on the terminal of the process.
        let call = call.env("SSH_ASKPASS_REQUIRE", "force");
        match self {
            Self::Ssh { key, agent } => {
                let mut setting = OsString::from("user.signingKey=");
                setting.push(key);
                let call = call.setting("gpg.format=ssh").setting(setting);
                match agent {
                    Some(agent) => call.env("SSH_AUTH_SOCK", agent),
                    None => call,
                }
            }
            Self::Gpg { key, home } => {
                let call = call.setting("gpg.format=openpgp").setting(format!("user.signingKey={key}"));
                call.env("GNUPGHOME", home)
            }
        }
    }
}

impl EngineRepo {
    /// The signed copy of a commit of a round: made once and kept under a ref, because the signature of an OpenPGP key
    /// has a time in it, and an earlier attempt may have sent the copy.
    ///
    /// # Errors
    /// When the key cannot sign, or git fails.
    pub async fn signed_copy(&self, round: &str, commit: &Oid, signer: &CommitSigner) -> Result<Oid, GitError> {
        if let Some(copy) = self.known_copy(round, commit).await? {
            return Ok(copy);
        }
        let (parent, words) = self.read_commit(commit).await?;
        let tree = self.tree_of(commit).await?;
        let call = signer.sign(self.commit_call(&tree, &parent, &words).arg("-S"));
        let copy = parse_oid(&self.git().run(call).await?.line())?;
        self.set_round_ref(round, &copy_name(commit), &copy).await?;
        Ok(copy)
    }

    /// The signed copy of a commit of a round, if it was made.
    ///
    /// # Errors
    /// When git fails.
    pub async fn known_copy(&self, round: &str, commit: &Oid) -> Result<Option<Oid>, GitError> {
        self.resolve(&format!("refs/loopwright/{round}/{}", copy_name(commit))).await
    }

    /// The parent and the text of a commit that the engine made.
    async fn read_commit(&self, commit: &Oid) -> Result<(Oid, CommitMetadata), GitError> {
        let call = self.call("git.cat-file").args(["commit", commit.as_str()]).out_max(COMMIT_MAX);
        let text = String::from_utf8_lossy(&self.git().run(call).await?.stdout).into_owned();
        let malformed = || {
            GitError::new("cat-file", &[commit.to_string()], GitErrorKind::Failed(None), b"not a commit of the engine")
        };
        parse_commit(&text).ok_or_else(malformed)
    }
}

impl Git {
    /// Signs an empty commit in a repository below `folder`, to find out whether the key can sign.
    ///
    /// # Errors
    /// When it cannot.
    pub async fn try_signer(&self, folder: &Path, signer: &CommitSigner) -> Result<(), GitError> {
        let dir = folder.join("signing.git");
        init_bare(self, &dir, ObjectFormat::Sha1).await?;
        let tree = self.run(GitCall::new("git.mktree").git_dir(&dir)).await?.line();
        let call = GitCall::new("git.commit-tree").git_dir(&dir).args([tree.as_str(), "-F", "-", "-S"]);
        let call = ["AUTHOR", "COMMITTER"].into_iter().fold(call, |call, role| {
            let names = if role == "AUTHOR" {
                ("GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL")
            } else {
                ("GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL")
            };
            call.env(names.0, "doctor").env(names.1, "doctor@localhost")
        });
        self.run(signer.sign(call.stdin("Test the signing key\n"))).await.map(drop)
    }
}

fn copy_name(commit: &Oid) -> String {
    format!("signed-{commit}")
}

/// `parent OID`, `author NAME <EMAIL> SECONDS +0000`, an empty line, and the message.
fn parse_commit(text: &str) -> Option<(Oid, CommitMetadata)> {
    let (head, message) = text.split_once("\n\n")?;
    let field = |name: &str| head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    let parent = field("parent")?.parse().ok()?;
    let (name, rest) = field("author")?.rsplit_once(" <")?;
    let (email, moment) = rest.split_once("> ")?;
    let at_unix = moment.split(' ').next()?.parse().ok()?;
    let (message, name, email) = (message.to_owned(), name.to_owned(), email.to_owned());
    Some((parent, CommitMetadata { message, name, email, at_unix }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn header_and_message_of_a_commit_are_read() {
        let oid = "a".repeat(40);
        let text = format!(
            "tree {oid}\nparent {oid}\nauthor Ada L <ada@example.org> 17 +0000\ncommitter x <y> 1 +0000\n\nFix it\n\nA: b\n"
        );
        let (parent, words) = parse_commit(&text).expect("a commit");
        assert_eq!(parent.to_string(), oid);
        let read = (words.name.as_str(), words.email.as_str(), words.at_unix, words.message.as_str());
        assert_eq!(read, ("Ada L", "ada@example.org", 17, "Fix it\n\nA: b\n"));
        assert!(parse_commit("tree a\n\nx").is_none());
    }
}
