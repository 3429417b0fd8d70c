//! The key that signs commits, as the user's own configuration names it, and its test for `doctor`. The key itself is
//! read only by the program that signs; a key in a file is also a value that no record or message may contain.

use super::forge_clients::check_mode;
use super::{CommandContext, CommandError};
use loopwright::EngineSettings;
use loopwright::git::CommitSigner;
use loopwright_core::config::{ConfigLayer, SigningConfig};
use loopwright_forge::ForgeFinding;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

/// The longest file that may be a private key.
const KEY_BYTES_MAX: u64 = 64 << 10;

/// Passes the key to the engine.
pub(super) fn add_signer(cx: &CommandContext, config: &ConfigLayer, settings: &mut EngineSettings) {
    settings.signer = config.signing.as_ref().map(|signing| signer(cx, signing));
    if let Some(CommitSigner::Ssh { key, .. }) = &settings.signer
        && let Some(text) = private_key(key)
    {
        // The lines between the first and the last are the key.
        let body: String = text.lines().filter(|line| !line.starts_with("-----")).collect::<Vec<_>>().join("\n");
        settings.known_secrets = settings.known_secrets.clone().with("SIGNING", &body);
    }
}

/// A path that cannot be resolved is passed on, so that the signature reports it.
fn signer(cx: &CommandContext, signing: &SigningConfig) -> CommitSigner {
    let path = |path: &str| cx.user_path(path).unwrap_or_else(|_| PathBuf::from(path));
    match signing {
        SigningConfig::Ssh { ssh_key } => CommitSigner::Ssh { key: path(ssh_key), agent: cx.env.ssh_agent.clone() },
        SigningConfig::Gpg { gpg_key, gpg_home } => {
            CommitSigner::Gpg { key: gpg_key.clone(), home: path(gpg_home.as_deref().unwrap_or("~/.gnupg")) }
        }
    }
}

fn private_key(path: &Path) -> Option<String> {
    let is_small = std::fs::metadata(path).is_ok_and(|about| about.is_file() && about.len() <= KEY_BYTES_MAX);
    let text = is_small.then(|| std::fs::read_to_string(path).ok()).flatten()?;
    text.contains("PRIVATE KEY-----").then_some(text)
}

/// Signs a test commit outside of every repository. `None` if no key is configured.
pub(crate) async fn inspect_signer(cx: &CommandContext) -> Result<Option<ForgeFinding>, CommandError> {
    let effective = cx.config(None)?;
    let Some(signing) = &effective.config().signing else { return Ok(None) };
    let signer = signer(cx, signing);
    let name = signer.name();
    Ok(Some(match test_signer(cx, &signer).await {
        Ok(()) => ForgeFinding::good("key", format!("the {name} signs the commits that are sent")),
        Err(why) => ForgeFinding::bad("key", format!("the {name} cannot sign: {why}")),
    }))
}

async fn test_signer(cx: &CommandContext, signer: &CommitSigner) -> Result<(), String> {
    if let CommitSigner::Ssh { key, .. } = signer {
        if !key.is_absolute() {
            return Err("its path is not absolute".to_owned());
        }
        if private_key(key).is_some() {
            check_mode(key, &key.display().to_string())?;
        }
    }
    // A folder that only this user can open; creating it fails if it exists.
    let folder = PathBuf::from(format!("/tmp/loopwright-signing-{}", std::process::id()));
    let made = std::fs::DirBuilder::new().mode(0o700).create(&folder);
    made.map_err(|error| format!("create `{}`: {error}", folder.display()))?;
    let tested = cx.git().try_signer(&folder, signer).await.map_err(|error| error.to_string());
    let _ = std::fs::remove_dir_all(&folder);
    tested
}
