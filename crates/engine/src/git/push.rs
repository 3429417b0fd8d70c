//! Pushes a commit to a forge with a lent credential. The credential is only in the environment of the one git process
//! that sends it: never in an argument, which every user of the machine can read, never on the disk, and never in the
//! environment of an agent, which is built and not inherited. A credential helper would need the same variable and
//! another process.

use super::{EngineRepo, GitCall, GitError, GitErrorKind, Oid};
use loopwright_core::deliver::PushTarget;

/// Serves a push into a repository on this machine, without that repository's hooks.
const RECEIVE_PACK: &str = "--receive-pack=git -c 'safe.directory=*' -c core.hooksPath=/dev/null receive-pack";

impl EngineRepo {
    /// Points the target's branch at `commit`, if the branch is still at the commit that the target names, and `commit`
    /// contains that commit: a push never removes other people's commits. `expect_tree` is the tree that passed; a commit
    /// with another tree is not sent.
    ///
    /// # Errors
    /// `Moved` when the branch is elsewhere, has commits that `commit` does not contain, or the tree differs; `Denied`
    /// when the forge refuses the push. Nothing is overwritten then.
    pub async fn push_to(&self, commit: &Oid, expect_tree: &Oid, target: &PushTarget) -> Result<(), GitError> {
        let reference = format!("refs/heads/{}", target.branch);
        let error = |kind, text: &str| GitError::new("push", std::slice::from_ref(&reference), kind, text.as_bytes());
        let protocol = protocol(target).map_err(|text| error(GitErrorKind::Denied, text))?;
        self.git().run(GitCall::new("git.check-ref-format").arg(&reference)).await?;
        let tree = self.tree_of(commit).await?;
        if tree != *expect_tree {
            let text = format!("the commit's tree is {tree}, the tree that passed is {expect_tree}");
            return Err(error(GitErrorKind::Moved, &text));
        }
        if let Some(old) = &target.expected_old {
            let old: Oid = old.parse().map_err(|bad: super::BadOid| error(GitErrorKind::Denied, &bad.to_string()))?;
            if !self.is_ancestor(&old, commit).await? {
                let text = format!("{} is at {old}, which {commit} does not contain", target.branch);
                return Err(error(GitErrorKind::Moved, &text));
            }
        }
        self.git().run(push(target, protocol, &reference, commit).git_dir(self.dir())).await.map(drop)
    }
}

fn push(target: &PushTarget, protocol: &'static str, reference: &str, commit: &Oid) -> GitCall {
    let expected = target.expected_old.as_deref().unwrap_or_default();
    let lease = format!("--force-with-lease={reference}:{expected}");
    let mut call = GitCall::new("git.push").protocol(protocol).args(["--no-verify", "--no-signed", "--no-follow-tags"]);
    if protocol == "file" {
        call = call.arg(RECEIVE_PACK);
    }
    if let Some(credential) = &target.credential {
        let header = format!("Authorization: {}", credential.expose());
        // A redirect would send the header to a host that the configuration does not name.
        call = call
            .env("GIT_CONFIG_COUNT", "2")
            .env("GIT_CONFIG_KEY_0", "http.followRedirects")
            .env("GIT_CONFIG_VALUE_0", "false")
            .env("GIT_CONFIG_KEY_1", "http.extraHeader")
            .env("GIT_CONFIG_VALUE_1", header);
    }
    call.arg(lease).arg("--").arg(&target.url).arg(format!("{commit}:{reference}"))
}

/// The one protocol that the push may use.
fn protocol(target: &PushTarget) -> Result<&'static str, &'static str> {
    let (scheme, rest) = target.url.split_once("://").ok_or("the address of a push is a URL")?;
    let authority = rest.split('/').next().unwrap_or_default();
    let host = authority.rsplit_once(':').map_or(authority, |(host, _)| host);
    match scheme {
        "file" => Ok("file"),
        _ if authority.contains('@') => Err("the address of a push holds no user and no password"),
        "https" => Ok("https"),
        "http" if matches!(host, "127.0.0.1" | "[::1]" | "localhost") => Ok("http"),
        "http" => Err("a push to another machine needs https"),
        _ => Err("a push goes to an https address"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use loopwright_core::deliver::PushCredential;
    use std::ffi::OsString;

    fn target(url: &str) -> PushTarget {
        let credential = PushCredential::new("Basic c2VjcmV0LXRva2Vu");
        PushTarget { url: url.to_owned(), branch: "loop/a/r1".to_owned(), expected_old: None, credential }
    }

    fn holds(text: &OsString) -> bool {
        text.to_string_lossy().contains("c2VjcmV0LXRva2Vu")
    }

    #[test]
    fn credential_is_in_one_variable_of_one_process_and_in_no_argument() {
        let target = target("https://forge.example/a.git");
        let commit: Oid = "a".repeat(40).parse().expect("an oid");
        let (args, env) = push(&target, "https", "refs/heads/loop/a/r1", &commit).started_with();
        assert!(!args.iter().any(holds), "{args:?}");
        let holders: Vec<_> = env.iter().filter(|(_, value)| holds(value)).map(|(name, _)| name.clone()).collect();
        assert_eq!(holders, ["GIT_CONFIG_VALUE_1"]);
        assert!(env.iter().any(|(name, value)| name == "GIT_ALLOW_PROTOCOL" && value == "https"));
        assert!(!format!("{target:?}").contains("c2VjcmV0LXRva2Vu"));
    }

    #[test]
    fn push_goes_only_where_a_credential_is_safe() {
        let of = |url: &str| protocol(&target(url));
        assert_eq!(of("https://forge.example/a.git"), Ok("https"));
        assert_eq!(of("file:///srv/a.git"), Ok("file"));
        assert_eq!(of("http://127.0.0.1:8080/a.git"), Ok("http"));
        for url in [
            "http://forge.example/a.git",
            "http://127.0.0.1@forge.example/a.git",
            "https://me:word@forge.example/a.git",
            "ssh://forge.example/a.git",
            "ext::sh -c id",
            "/srv/a.git",
        ] {
            assert!(of(url).is_err(), "{url}");
        }
    }
}
