//! An agent's own sign-in, for users who have a subscription and no key: the file in which its program stores it. The
//! driver copies it into the folder of one start and removes it afterwards. This happens only on the user's explicit
//! request, never for gates, and the report states it: it is the one case in which an agent's process holds a
//! credential.

use super::driven_agents::dialect;
use loopwright_core::spec::AgentUse;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

/// The largest file that is accepted as a sign-in.
const BYTES_MAX: u64 = 1 << 20;
/// Shorter texts in it are not secrets.
const SECRET_MIN: usize = 20;

/// An agent's own sign-in on this host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentLogin {
    /// The agent it belongs to.
    pub agent: AgentUse,
    /// The host's file.
    pub file: PathBuf,
}

impl AgentLogin {
    /// The sign-in of an agent below this home; `None` for an agent without one of its own.
    #[must_use]
    pub fn locate(agent: AgentUse, home: &Path) -> Option<Self> {
        Some(Self { agent, file: home.join(dialect(agent)?.login) })
    }

    /// Whether a sign-in exists.
    #[must_use]
    pub fn exists(&self) -> bool {
        self.file.is_file()
    }

    /// The secrets in it, which no record or message may contain: every text that is long enough to be a credential.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn secrets(&self) -> io::Result<Vec<String>> {
        let bytes = self.read()?;
        let mut found = Vec::new();
        match serde_json::from_slice(&bytes) {
            Ok(value) => collect(&value, &mut found),
            Err(_) => found.push(String::from_utf8_lossy(&bytes).trim().to_owned()),
        }
        Ok(found)
    }

    pub(crate) fn read(&self) -> io::Result<Vec<u8>> {
        let file = std::fs::File::open(&self.file)?;
        let usable = file.metadata()?.is_file() && file.metadata()?.len() <= BYTES_MAX;
        if !usable {
            return Err(io::Error::other("not a plain file of ordinary size"));
        }
        let mut bytes = Vec::new();
        file.take(BYTES_MAX).read_to_end(&mut bytes)?;
        Ok(bytes)
    }
}

/// The hosts that an agent with its own sign-in talks to; a loop has to name them in `network`.
#[must_use]
pub fn login_hosts(agent: AgentUse) -> &'static [&'static str] {
    dialect(agent).map_or(&[], |dialect| dialect.login_hosts)
}

/// Addresses and sentences are not secrets, and a common word must not become one.
fn collect(value: &serde_json::Value, found: &mut Vec<String>) {
    match value {
        serde_json::Value::String(text) => {
            let opens = text.len() >= SECRET_MIN && !text.contains("://") && !text.contains(char::is_whitespace);
            found.extend(opens.then(|| text.clone()));
        }
        serde_json::Value::Array(items) => items.iter().for_each(|item| collect(item, found)),
        serde_json::Value::Object(fields) => fields.values().for_each(|value| collect(value, found)),
        serde_json::Value::Null | serde_json::Value::Bool(_) | serde_json::Value::Number(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::super::driver::own_folder;
    use super::super::{ProviderEndpoints, tests};
    use super::*;
    use loopwright_core::spec::Role;

    #[test]
    fn each_program_finds_its_own_sign_in_and_gets_neither_an_address_nor_a_token() {
        let names = [
            (AgentUse::Claude, ".credentials.json"),
            (AgentUse::Codex, "auth.json"),
            (AgentUse::Gemini, ".gemini/oauth_creds.json"),
            (AgentUse::Opencode, "data/opencode/auth.json"),
        ];
        for (agent, name) in names {
            let launch = dialect(agent).expect("it is driven").launch;
            let mut invocation = tests::invocation(Role::Maker);
            invocation.model = None;
            invocation.endpoints =
                ProviderEndpoints { login: Some(b"dummy".as_slice().into()), ..ProviderEndpoints::default() };
            let launch = launch(&invocation).unwrap_or_else(|error| panic!("{agent:?}: {error}"));
            let laid = (own_folder(&invocation).join(name), b"dummy".to_vec());
            assert!(launch.files.contains(&laid), "{agent:?}: {:?}", launch.files);
            let launched = format!("{:?} {:?}", launch.args, launch.env);
            assert!(
                !launched.contains("API_KEY") && !launched.contains("TOKEN") && !launched.contains("127.0.0.1:"),
                "{launched}"
            );
        }
    }

    #[test]
    fn tokens_of_a_sign_in_are_secrets_and_its_plain_words_are_not() {
        let home = tempfile::tempdir().expect("a folder");
        let login = AgentLogin::locate(AgentUse::Codex, home.path()).expect("codex signs in");
        assert!(!login.exists() && login.secrets().is_err());
        let text = r#"{"tokens": {"access": "dummy-access-0123456789", "kind": "bearer"}, "url": "https://auth.example.org/long"}"#;
        std::fs::create_dir(home.path().join(".codex")).expect("a folder");
        std::fs::write(&login.file, text).expect("a dummy");
        assert!(login.exists());
        assert_eq!(login.secrets().expect("readable"), ["dummy-access-0123456789"]);
        assert_eq!(AgentLogin::locate(AgentUse::Scripted, home.path()), None);
    }
}
