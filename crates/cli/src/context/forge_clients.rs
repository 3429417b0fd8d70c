//! The clients of forges and messengers that a process shares, and the places of their credentials. Nothing here prints
//! a credential.

use super::CommandContext;
use super::providers::{read_secret, read_secret_file};
use loopwright::deliver::Deliver;
use loopwright_core::config::KeySource;
use loopwright_forge::{RemoteForge, SecretText};
use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// A credential, or the reason why it cannot be read.
pub(super) type ReadCredential = Result<String, String>;

/// The place of a credential. A file is read for each use, so that a new token takes effect in a running daemon.
pub(super) enum CredentialPlace {
    File { path: PathBuf, shown: String },
    Fixed(ReadCredential),
}

impl CredentialPlace {
    pub(super) fn new(cx: &CommandContext, source: &KeySource) -> Self {
        match source {
            KeySource::File(shown) => match cx.user_path(shown) {
                Ok(path) => Self::File { path, shown: shown.clone() },
                Err(why) => Self::Fixed(Err(why)),
            },
            KeySource::Env(_) => {
                let read = read_secret(cx, source).map(|(text, _)| text.trim().to_owned());
                Self::Fixed(read.and_then(|text| not_empty(text, source)))
            }
        }
    }

    /// The credential. A file must belong to its owner alone.
    pub(super) fn read(&self) -> ReadCredential {
        match self {
            Self::Fixed(credential) => credential.clone(),
            Self::File { path, shown } => {
                check_mode(path, shown)?;
                let text = read_secret_file(path, shown)?.trim().to_owned();
                not_empty(text, &KeySource::File(shown.clone()))
            }
        }
    }
}

fn not_empty(text: String, source: &KeySource) -> ReadCredential {
    if text.is_empty() { Err(format!("{source} is empty")) } else { Ok(text) }
}

/// The most clients of one kind; each change of the configuration makes new ones.
const CLIENTS_MAX: usize = 1_000;

/// The clients of this process. All contexts of a process share them, so that every round knows a forge's rate limit and
/// the creates whose answer was lost.
#[derive(Clone, Default)]
pub(crate) struct SharedClients {
    pub(super) forges: Arc<ClientCache<RemoteForge>>,
    pub(super) messengers: Arc<ClientCache<dyn Deliver>>,
}

impl std::fmt::Debug for SharedClients {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SharedClients")
    }
}

/// The clients of one process, by name. All items share a client, and with it the account's rate limit and the cache. A
/// changed credential makes a new client, and so does a changed configuration, which is a part of the name.
pub(super) struct ClientCache<T: ?Sized>(Mutex<BTreeMap<String, (SecretText, Arc<T>)>>);

impl<T: ?Sized> Default for ClientCache<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T: ?Sized> ClientCache<T> {
    /// The client of this name; `make` gets another client of the same account whose name has this prefix.
    pub(super) fn get(
        &self,
        (account, rest): (&str, &str),
        credential: &str,
        make: impl FnOnce(Option<&T>) -> Result<Arc<T>, String>,
    ) -> Result<Arc<T>, String> {
        let mut clients = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (name, credential) = (format!("{account}\n{rest}"), SecretText::new(credential));
        let same = |known: &SecretText| *known == credential;
        if let Some((_, client)) = clients.get(&name).filter(|(known, _)| same(known)) {
            return Ok(Arc::clone(client));
        }
        let prefix = format!("{account}\n");
        let beside = clients.iter().find(|(name, (known, _))| name.starts_with(&prefix) && same(known));
        let client = make(beside.map(|(_, (_, client))| client.as_ref()))?;
        if clients.len() >= CLIENTS_MAX {
            clients.clear();
        }
        clients.insert(name, (credential, Arc::clone(&client)));
        Ok(client)
    }
}

/// Refuses a file with a credential that other users of the machine can read.
pub(super) fn check_mode(path: &Path, shown: &str) -> Result<(), String> {
    let about = std::fs::metadata(path).map_err(|error| format!("read `{shown}`: {error}"))?;
    match about.permissions().mode() & 0o077 {
        0 => Ok(()),
        _ => Err(format!("other users can read `{shown}`; run: chmod 600 {shown}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_share_a_client_until_its_credential_changes() {
        let clients = ClientCache::<String>::default();
        let get = |repository: &str, credential: &str| {
            let make = |beside: Option<&String>| Ok(Arc::new(format!("{repository} beside {beside:?}")));
            clients.get(("work", repository), credential, make).expect("a client")
        };
        let first = get("a/b", "t1");
        assert_eq!(*first, "a/b beside None");
        assert!(Arc::ptr_eq(&first, &get("a/b", "t1")));
        assert_eq!(*get("a/c", "t1"), "a/c beside Some(\"a/b beside None\")");
        assert!(!Arc::ptr_eq(&first, &get("a/b", "t2")), "a new token makes a new client");
        assert_eq!(*get("a/d", "t3"), "a/d beside None", "another account has its own limit");
    }

    #[test]
    fn file_is_read_for_each_use() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("token");
        let write = |text: &str, mode: u32| {
            std::fs::write(&path, text).expect("a file");
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).expect("its mode");
        };
        let place = CredentialPlace::File { path: path.clone(), shown: "token".to_owned() };
        write("one\n", 0o600);
        assert_eq!(place.read().as_deref(), Ok("one"));
        write("two\n", 0o600);
        assert_eq!(place.read().as_deref(), Ok("two"));
        write("  \n", 0o600);
        assert!(place.read().is_err_and(|why| why.contains("empty")));
        write("three", 0o644);
        assert!(place.read().is_err_and(|why| why.contains("chmod 600")));
    }
}
