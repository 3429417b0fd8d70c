//! Tokens and browser sessions: the file in the state directory that has their hashes, roles and times. The secrets
//! themselves are shown once and never stored. This module does not read requests.

use crate::error::CommandError;
use crate::locked_file::LockedFile;
use crate::view::time::{Moment, now_ms};
use loopwright::Actor;
use loopwright::random;
use loopwright_core::hash::hash_bytes;
use serde::{Deserialize, Serialize};
use std::io;
use std::path::Path;

/// The name of the file in the state directory.
const FILE: &str = "access.json";

/// The most bytes that are read.
const FILE_MAX: u64 = 1 << 20;

/// The most entries; the oldest session gives way to a further one, a token never does.
const ENTRIES_MAX: usize = 500;

/// The last use of a token is written at most this often.
const USE_WRITTEN_EVERY_MS: i64 = 60_000;

/// The rights of a token. Each role includes the ones before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum AccessRole {
    /// Reads everything.
    View,
    /// Also starts, pauses, stops and retries.
    Operate,
    /// Also answers questions and raises budgets.
    Approve,
}

impl AccessRole {
    /// Its word.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::View => "view",
            Self::Operate => "operate",
            Self::Approve => "approve",
        }
    }
}

/// The kind of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum AccessKind {
    /// A token of `token add`.
    Token,
    /// A browser that opened a link of `web`.
    Session,
}

/// A token or a session, without its secret.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct AccessEntry {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) role: AccessRole,
    pub(crate) kind: AccessKind,
    hash: String,
    pub(crate) created_ms: i64,
    pub(crate) expires_ms: i64,
    pub(crate) used_ms: Option<i64>,
    /// The operating system's user behind a session.
    #[serde(default)]
    uid: Option<u32>,
}

impl AccessEntry {
    /// The actor of its decisions.
    pub(crate) fn actor(&self) -> Actor {
        match self.uid {
            Some(uid) => Actor::user(&self.name, uid),
            None => Actor::token(&self.name, &self.id),
        }
    }

    /// Its expiry for documents.
    pub(crate) fn expires(&self) -> Moment {
        Moment(self.expires_ms)
    }
}

/// The identity of a new entry.
pub(crate) struct NewAccess {
    pub(crate) name: String,
    pub(crate) role: AccessRole,
    pub(crate) kind: AccessKind,
    pub(crate) lasts_ms: i64,
    pub(crate) uid: Option<u32>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct AccessFile {
    /// The last port of loopback that was chosen by the system.
    #[serde(default)]
    port: Option<u16>,
    #[serde(default)]
    entries: Vec<AccessEntry>,
}

/// The access file of a state directory.
#[derive(Debug, Clone)]
pub(crate) struct AccessRegistry {
    file: LockedFile<AccessFile>,
}

impl AccessRegistry {
    /// The file of a state directory; it need not exist.
    pub(crate) fn new(state: &Path) -> Self {
        Self { file: LockedFile::new(state, FILE, FILE_MAX) }
    }

    /// All entries that have not expired.
    pub(crate) fn entries(&self) -> Result<Vec<AccessEntry>, CommandError> {
        let now = now_ms();
        let read = self.file.read().map_err(|error| self.failed(&error))?;
        Ok(read.entries.into_iter().filter(|entry| entry.expires_ms > now).collect())
    }

    /// Adds an entry and returns it with its secret, which is stored nowhere.
    pub(crate) fn add(&self, new: NewAccess) -> Result<(AccessEntry, String), CommandError> {
        let secret = format!("lw_{}", random::secret()?);
        let (hash, now) = (hash_bytes(secret.as_bytes()), now_ms());
        let entry = AccessEntry {
            id: format!("t-{}", hash.get(..10).unwrap_or_default()),
            name: new.name,
            role: new.role,
            kind: new.kind,
            hash,
            created_ms: now,
            expires_ms: now.saturating_add(new.lasts_ms),
            used_ms: None,
            uid: new.uid,
        };
        let added = entry.clone();
        let is_added = self.change(move |file| {
            file.entries.retain(|entry| entry.expires_ms > now);
            if file.entries.len() >= ENTRIES_MAX {
                // A browser can sign in again; a program that lost its token would fail without a reason.
                let session = file.entries.iter().position(|entry| entry.kind == AccessKind::Session);
                let Some(session) = session else { return false };
                file.entries.remove(session);
            }
            file.entries.push(added);
            true
        })?;
        if !is_added {
            let text = format!("there are {ENTRIES_MAX} tokens, which is the most");
            return Err(CommandError::refused(text).hint("remove one: loopwright token revoke NAME"));
        }
        Ok((entry, secret))
    }

    /// Removes all entries with this id or name; returns them.
    pub(crate) fn revoke(&self, which: &str) -> Result<Vec<AccessEntry>, CommandError> {
        self.change(|file| {
            let (gone, kept) = file.entries.drain(..).partition(|entry| entry.id == which || entry.name == which);
            file.entries = kept;
            gone
        })
    }

    /// The entry of a secret, if its role is at least this one.
    pub(crate) fn admit(&self, secret: &str, needed: AccessRole) -> Result<AccessEntry, CommandError> {
        let Some(entry) = self.find(secret) else {
            return Err(CommandError::refused("the token is unknown, expired or revoked"));
        };
        if entry.role < needed {
            let text = format!("this needs the role `{}`; the token has `{}`", needed.word(), entry.role.word());
            return Err(CommandError::refused(text));
        }
        Ok(entry)
    }

    /// The entry of a secret, if it exists and has not expired. Its use is recorded.
    pub(crate) fn find(&self, secret: &str) -> Option<AccessEntry> {
        // The hash of a random secret gives nothing away, so an ordinary comparison is enough.
        let (hash, now) = (hash_bytes(secret.as_bytes()), now_ms());
        let mut found = self.entries().ok()?.into_iter().find(|entry| entry.hash == hash)?;
        if found.used_ms.is_none_or(|used| now.saturating_sub(used) > USE_WRITTEN_EVERY_MS) {
            found.used_ms = Some(now);
            // A use that could not be written denies no access.
            let _ = self.change(|file| {
                let known = file.entries.iter_mut().find(|entry| entry.hash == hash);
                known.into_iter().for_each(|entry| entry.used_ms = Some(now));
            });
        }
        Some(found)
    }

    /// The port that the daemon of this state directory used last.
    pub(crate) fn last_port(&self) -> Option<u16> {
        self.file.read().ok()?.port
    }

    /// Keeps the port, so that open pages find the next daemon.
    pub(crate) fn keep_port(&self, port: u16) -> Result<(), CommandError> {
        if self.last_port() == Some(port) {
            return Ok(());
        }
        self.change(|file| file.port = Some(port))
    }

    fn change<T>(&self, change: impl FnOnce(&mut AccessFile) -> T) -> Result<T, CommandError> {
        self.file.change(change).map_err(|error| self.failed(&error))
    }

    fn failed(&self, error: &io::Error) -> CommandError {
        CommandError::failed(format!("the file with the tokens, {}: {error}", self.file.path().display()))
            .hint("restore it from a backup, or remove it and add the tokens again")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    fn new(name: &str, lasts_ms: i64) -> NewAccess {
        NewAccess { name: name.to_owned(), role: AccessRole::Operate, kind: AccessKind::Token, lasts_ms, uid: None }
    }

    #[test]
    fn only_the_hash_of_a_token_is_stored_and_only_its_owner_reads_the_file() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let registry = AccessRegistry::new(dir.path());
        let (entry, secret) = registry.add(new("ci", 60_000)).expect("it can be added");
        let text = std::fs::read_to_string(dir.path().join(FILE)).expect("the file is there");
        assert!(!text.contains(&secret) && text.contains(&entry.hash));
        let mode = std::fs::metadata(dir.path().join(FILE)).expect("it is there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let found = registry.find(&secret).expect("the secret is known");
        assert!(found.name == "ci" && found.used_ms.is_some() && found.role == AccessRole::Operate);
        assert!(registry.find("lw_0000").is_none());
    }

    #[test]
    fn expired_and_revoked_tokens_open_nothing() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let registry = AccessRegistry::new(dir.path());
        let (_, old) = registry.add(new("old", 0)).expect("it can be added");
        let (_, gone) = registry.add(new("gone", 60_000)).expect("it can be added");
        assert!(registry.find(&old).is_none() && registry.find(&gone).is_some());
        assert_eq!(registry.revoke("gone").expect("it can be changed").len(), 1);
        assert!(registry.find(&gone).is_none() && registry.entries().expect("it can be read").is_empty());
    }

    #[test]
    fn when_there_are_too_many_entries_a_browser_gives_way_and_no_token_does() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let registry = AccessRegistry::new(dir.path());
        let (first, _) = registry.add(new("first", 60_000)).expect("it can be added");
        let like = |n: usize| AccessEntry { id: format!("t-{n}"), hash: format!("{n}"), ..first.clone() };
        registry.change(|file| file.entries.extend((2..ENTRIES_MAX).map(like))).expect("it can be changed");
        let browser = NewAccess { kind: AccessKind::Session, ..new("browser", 60_000) };
        let (session, _) = registry.add(browser).expect("there is room for one");
        assert!(registry.add(new("more", 60_000)).is_ok());
        let entries = registry.entries().expect("it can be read");
        assert!(!entries.iter().any(|entry| entry.id == session.id) && entries.len() == ENTRIES_MAX);
        assert!(registry.add(new("too many", 60_000)).is_err());
        assert!(registry.entries().expect("it can be read").iter().any(|entry| entry.id == first.id));
    }

    #[test]
    fn a_damaged_file_is_an_error_and_stays() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        std::fs::write(dir.path().join(FILE), "{").expect("it can be written");
        let registry = AccessRegistry::new(dir.path());
        assert!(registry.add(new("ci", 60_000)).is_err() && registry.find("lw_0000").is_none());
        assert_eq!(std::fs::read_to_string(dir.path().join(FILE)).expect("it is there"), "{");
    }

    #[test]
    fn a_token_is_admitted_only_up_to_its_role_and_every_command_that_answers_needs_the_highest() {
        use crate::args::Cli;
        use clap::Parser as _;
        let folder = tempfile::tempdir().expect("a folder");
        let registry = AccessRegistry::new(folder.path());
        let roles = [AccessRole::View, AccessRole::Operate, AccessRole::Approve];
        let secrets = roles.map(|role| {
            let added = NewAccess { role, ..new(role.word(), 60_000) };
            registry.add(added).expect("a token").1
        });
        let table = [
            (AccessRole::View, "status"),
            (AccessRole::View, "why fix"),
            (AccessRole::View, "budget"),
            (AccessRole::Operate, "run fix"),
            (AccessRole::Operate, "pause fix"),
            (AccessRole::Operate, "stop --all"),
            (AccessRole::Operate, "retry r1"),
            (AccessRole::Approve, "approve r1 --yes"),
            (AccessRole::Approve, "deny r1 --why no"),
            (AccessRole::Approve, "budget raise fix --usd 1"),
            (AccessRole::Approve, "promote fix --yes"),
            (AccessRole::Approve, "review --yes"),
            (AccessRole::Approve, "forget fix"),
            (AccessRole::Approve, "token add x --role view"),
        ];
        for (needed, line) in table {
            let cli = Cli::try_parse_from(std::iter::once("loopwright").chain(line.split(' ')));
            let verb = cli.unwrap_or_else(|error| panic!("{line}: {error}")).verb;
            for (role, secret) in roles.iter().zip(&secrets) {
                let is_admitted = registry.admit(secret, verb.token_role()).is_ok();
                assert_eq!(is_admitted, *role >= needed, "`{line}` with the role {}", role.word());
            }
        }
        assert!(registry.admit("nothing", AccessRole::View).is_err());
    }

    #[test]
    fn roles_include_the_ones_before_them() {
        assert!(AccessRole::View < AccessRole::Operate && AccessRole::Operate < AccessRole::Approve);
    }
}
