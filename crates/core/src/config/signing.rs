//! The key that signs commits, in the user's own configuration: its location, never the key itself.

use super::providers;
use crate::spec::problem::{ProblemKind, quoted};
use crate::spec::reader::value::{SpecFields, SpecValue};
use serde::Serialize;

/// The `signing:` block.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum SigningConfig {
    /// An SSH key.
    Ssh {
        /// The file with the private key, or with the public key of a private key that the SSH agent holds.
        ssh_key: String,
    },
    /// An OpenPGP key.
    Gpg {
        /// The fingerprint of the key.
        gpg_key: String,
        /// The folder of GnuPG; `~/.gnupg` by default.
        #[serde(skip_serializing_if = "Option::is_none")]
        gpg_home: Option<String>,
    },
}

pub(super) fn read(at: &SpecValue<'_>) -> Option<SigningConfig> {
    let fields = at.fields("ssh_key gpg_key gpg_home")?;
    let (ssh, gpg) = (fields.option("ssh_key", key_file), fields.option("gpg_key", fingerprint));
    let gpg_home = fields.option("gpg_home", SpecValue::text);
    match (ssh, gpg) {
        (Some(ssh_key), None) if gpg_home.is_none() => Some(SigningConfig::Ssh { ssh_key }),
        (None, Some(gpg_key)) => Some(SigningConfig::Gpg { gpg_key, gpg_home }),
        _ => complain(&fields, at),
    }
}

/// A key with a problem of its own has been reported already.
fn complain(fields: &SpecFields<'_>, at: &SpecValue<'_>) -> Option<SigningConfig> {
    let is_one = fields.get("ssh_key").is_some() != fields.get("gpg_key").is_some();
    if !is_one || (fields.get("ssh_key").is_some() && fields.get("gpg_home").is_some()) {
        let hint = "`ssh_key: ~/.ssh/loops_ed25519`; or `gpg_key: FINGERPRINT`, and `gpg_home` if it is not ~/.gnupg";
        at.add_problem(ProblemKind::Value, "`signing` needs one key".to_owned(), Some(hint.to_owned()));
    }
    None
}

/// A path. A key in its place is a mistake that must not be repeated in a message.
fn key_file(at: &SpecValue<'_>) -> Option<String> {
    let text = at.text()?;
    if text.contains("-----BEGIN") || text.contains('\n') {
        let hint = "name its place: `ssh_key: ~/.ssh/loops_ed25519`";
        providers::secret(at.findings, "a private key is not allowed in a configuration file", hint);
        return None;
    }
    Some(text)
}

/// A short key id can be imitated, so the whole fingerprint is needed.
fn fingerprint(at: &SpecValue<'_>) -> Option<String> {
    let text = at.text()?;
    let digits: String = text.chars().filter(|c| *c != ' ').collect();
    if matches!(digits.len(), 40 | 64) && digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Some(digits.to_ascii_uppercase());
    }
    let hint = "`gpg --list-secret-keys` shows it: 40 hexadecimal digits".to_owned();
    at.add_problem(ProblemKind::Value, format!("{} is not a fingerprint", quoted(&text)), Some(hint));
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::read_config_file;

    #[test]
    fn one_key_signs_and_a_key_itself_is_not_allowed() {
        let fpr = "0123456789ABCDEF0123456789ABCDEF01234567";
        let read = |text: &str| read_config_file("c", text.as_bytes()).map(|config| config.signing);
        let ssh = SigningConfig::Ssh { ssh_key: "~/.ssh/k".to_owned() };
        assert_eq!(read("signing: { ssh_key: ~/.ssh/k }"), Ok(Some(ssh)));
        let gpg = SigningConfig::Gpg { gpg_key: fpr.to_owned(), gpg_home: None };
        assert_eq!(read(&format!("signing: {{ gpg_key: {} }}", fpr.to_lowercase())), Ok(Some(gpg)));
        let bad = [
            ("signing: {}".to_owned(), "needs one key"),
            (format!("signing: {{ ssh_key: a, gpg_key: {fpr} }}"), "needs one key"),
            ("signing: { ssh_key: a, gpg_home: b }".to_owned(), "needs one key"),
            ("signing: { gpg_key: DEADBEEF }".to_owned(), "is not a fingerprint"),
            ("signing: { ssh_key: \"-----BEGIN OPENSSH PRIVATE KEY-----\" }".to_owned(), "private key is not allowed"),
        ];
        for (text, expected) in bad {
            let problems: Vec<String> =
                read(&text).expect_err("a bad file").iter().map(|problem| problem.what.clone()).collect();
            assert!(problems.len() == 1 && problems[0].contains(expected), "{text}: {problems:?}");
        }
    }
}
