//! Pushes a commit to a forge with a lent credential. The credential is only in the environment of the one git process
//! that sends it: never in an argument, which every user of the machine can read, never on the disk, and never in the
//! environment of an agent, which is built and not inherited. A credential helper would need the same variable and
//! another process.

use super::{EngineRepo, Git, GitCall, GitError, GitErrorKind, Oid, UserRepo};
use crate::outbox::PushRoute;
use loopwright_core::deliver::{PushCredential, PushTarget};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The first push of a large repository takes minutes.
const PUSH_DEADLINE: Duration = Duration::from_secs(5 * 60);

/// A connection that transfers nothing for this many seconds is cut long before the deadline.
const STALL_SECONDS: &str = "60";

/// Serves a push into a repository on this machine, without that repository's hooks.
const RECEIVE_PACK: &str = "--receive-pack=git -c 'safe.directory=*' -c core.hooksPath=/dev/null receive-pack";

impl EngineRepo {
    /// Points the target's branch at `commit`, if the branch is still at the commit that the target names, and `commit`
    /// contains that commit or the engine pushed it itself: a push never removes other people's commits. `expect_tree` is the tree that passed; a commit
    /// with another tree is not sent.
    ///
    /// # Errors
    /// `Moved` when the branch is elsewhere, has commits that `commit` does not contain, or the tree differs; `Denied`
    /// when the forge refuses the push. Nothing is overwritten then.
    pub async fn push_to(
        &self,
        commit: &Oid,
        expect_tree: &Oid,
        target: &PushTarget,
        route: Option<&PushRoute>,
    ) -> Result<(), GitError> {
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
            if !self.is_ancestor(&old, commit).await? && !self.was_pushed(&target.branch, &old).await? {
                let text = format!("{} is at {old}, which {commit} does not contain", target.branch);
                return Err(error(GitErrorKind::Moved, &text));
            }
        }
        let ca_file = route.and_then(|route| route.ca_file.as_deref());
        let bundle = ca_file.map(|file| authorities(self.dir(), file)).transpose();
        let bundle = bundle.map_err(|why| error(GitErrorKind::Denied, &why))?;
        self.git()
            .run(push(target, route, bundle.as_deref(), protocol, &reference, commit).git_dir(self.dir()))
            .await
            .map(drop)
    }
}

impl Git {
    /// The URL of the remote `origin` of a user's repository; `None` if it has none.
    ///
    /// # Errors
    /// If git cannot read the repository's configuration.
    pub async fn origin_url(&self, repo: &UserRepo) -> Result<Option<String>, GitError> {
        let call = GitCall::new("git.config").git_dir(&repo.common_dir).allow_exit_one();
        let url = self.run(call.args(["--local", "--get", "remote.origin.url"])).await?.line();
        Ok(Some(url).filter(|url| !url.is_empty()))
    }
}

fn push(
    target: &PushTarget,
    route: Option<&PushRoute>,
    bundle: Option<&Path>,
    protocol: &'static str,
    reference: &str,
    commit: &Oid,
) -> GitCall {
    let expected = target.expected_old.as_deref().unwrap_or_default();
    let lease = format!("--force-with-lease={reference}:{expected}");
    let mut call = GitCall::new("git.push").protocol(protocol).deadline(PUSH_DEADLINE);
    call = call.args(["--no-verify", "--no-signed", "--no-follow-tags"]);
    if protocol == "file" {
        call = call.arg(RECEIVE_PACK);
    }
    for (name, value) in configuration(target, route, bundle) {
        call = call.env(name, value);
    }
    call.arg(lease).arg("--").arg(&target.url).arg(format!("{commit}:{reference}"))
}

/// The variables that configure git for the push. Arguments would be visible to every user of the machine.
fn configuration(
    target: &PushTarget,
    route: Option<&PushRoute>,
    bundle: Option<&Path>,
) -> Vec<(&'static str, OsString)> {
    const NAMES: [(&str, &str); 5] = [
        ("GIT_CONFIG_KEY_0", "GIT_CONFIG_VALUE_0"),
        ("GIT_CONFIG_KEY_1", "GIT_CONFIG_VALUE_1"),
        ("GIT_CONFIG_KEY_2", "GIT_CONFIG_VALUE_2"),
        ("GIT_CONFIG_KEY_3", "GIT_CONFIG_VALUE_3"),
        ("GIT_CONFIG_KEY_4", "GIT_CONFIG_VALUE_4"),
    ];
    // A redirect would send the credential to a host that the configuration does not name.
    let mut settings = vec![
        ("http.followRedirects", "false".to_owned()),
        ("http.lowSpeedLimit", "1".to_owned()),
        ("http.lowSpeedTime", STALL_SECONDS.to_owned()),
    ];
    settings.extend(route.and_then(|route| Some(("http.proxy", route.proxy.clone()?))));
    let header = |credential: &PushCredential| ("http.extraHeader", format!("Authorization: {}", credential.expose()));
    settings.extend(target.credential.as_ref().map(header));
    let mut variables = vec![("GIT_CONFIG_COUNT", settings.len().to_string().into())];
    for ((name, value), (key, setting)) in NAMES.into_iter().zip(settings) {
        variables.extend([(name, key.into()), (value, setting.into())]);
    }
    variables.extend(bundle.map(|file| ("GIT_SSL_CAINFO", file.as_os_str().to_owned())));
    variables
}

/// A file below `folder` with the system's certificate authorities and those of `file`: git trusts only one file. Its name
/// has the hash of its content, so that concurrent pushes write the same bytes.
fn authorities(folder: &Path, file: &Path) -> Result<PathBuf, String> {
    let wrong = |error: std::io::Error| format!("certificate authorities `{}`: {error}", file.display());
    let own = std::fs::read(file).map_err(wrong)?;
    let text = [own, b"\n".to_vec(), crate::egress::system_bundle().into_bytes()].concat();
    let bundle = folder.join(format!("authorities-{}.pem", loopwright_core::hash::hash_fields(&[&text])));
    if !bundle.exists() {
        let draft = bundle.with_extension(std::process::id().to_string());
        std::fs::write(&draft, text).and_then(|()| std::fs::rename(&draft, &bundle)).map_err(wrong)?;
    }
    Ok(bundle)
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
        let route =
            PushRoute { url: String::new(), ca_file: Some("/etc/ca.pem".into()), proxy: Some("http://p:1".to_owned()) };
        let commit: Oid = "a".repeat(40).parse().expect("an oid");
        let bundle = Some(Path::new("/etc/ca.pem"));
        let (args, env) = push(&target, Some(&route), bundle, "https", "refs/heads/loop/a/r1", &commit).started_with();
        assert!(!args.iter().any(holds), "{args:?}");
        let holders: Vec<_> = env.iter().filter(|(_, value)| holds(value)).map(|(name, _)| name.clone()).collect();
        assert_eq!(holders, ["GIT_CONFIG_VALUE_4"]);
        assert!(env.iter().any(|(name, value)| name == "GIT_CONFIG_COUNT" && value == "5"));
        assert!(env.iter().any(|(name, value)| name == "GIT_SSL_CAINFO" && value == "/etc/ca.pem"));
        assert!(env.iter().any(|(name, value)| name == "GIT_ALLOW_PROTOCOL" && value == "https"));
        assert!(!format!("{target:?}").contains("c2VjcmV0LXRva2Vu"));
    }

    #[test]
    fn private_authorities_are_trusted_besides_the_systems() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("ca.pem");
        std::fs::write(&file, "-----BEGIN CERTIFICATE-----\nb3du\n-----END CERTIFICATE-----").expect("a file");
        let bundle = authorities(folder.path(), &file).expect("a bundle");
        let text = std::fs::read_to_string(bundle).expect("a text");
        let system = crate::egress::system_bundle();
        assert!(text.starts_with("-----BEGIN CERTIFICATE-----\nb3du\n-----END CERTIFICATE-----\n"), "{text:.200}");
        assert!(text.ends_with(&system));
        let count = |text: &str| text.matches("-----BEGIN CERTIFICATE-----").count();
        assert_eq!(count(&text), count(&system) + 1);
        assert!(
            authorities(folder.path(), &folder.path().join("missing.pem"))
                .is_err_and(|why| why.contains("missing.pem"))
        );
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
