//! Decides which environment variables are credentials: by their name, and by a value that could be one.

/// Parts of a name, between underscores, that mark a credential.
const PARTS: &str = "TOKEN TOKENS KEY KEYS APIKEY SECRET SECRETS PASSWORD PASSWD PASS PASSPHRASE PWD PW CREDENTIAL \
    CREDENTIALS CREDS AUTH PAT DSN JWT COOKIE BEARER SIGNATURE";

/// Words that mark a credential anywhere in a name.
const WORDS: [&str; 5] = ["TOKEN", "SECRET", "PASSWORD", "APIKEY", "CREDENTIAL"];

const VALUE_BYTES_MIN: usize = 8;

/// A word of ordinary letters shorter than this is a description, not a credential.
const WORD_BYTES_MAX: usize = 16;

/// The secret in a variable: its value, or the password in the address it contains; `None` for other variables.
#[must_use]
pub fn credential<'a>(name: &str, value: &'a str) -> Option<&'a str> {
    let value = value.trim();
    if let Some(password) = password_of(value) {
        return Some(password).filter(|password| password.len() >= VALUE_BYTES_MIN);
    }
    (names_credential(name) && could_open(value)).then_some(value)
}

fn names_credential(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    WORDS.iter().any(|word| name.contains(word))
        || name.split(['_', '-', '.']).any(|part| PARTS.split_whitespace().any(|known| known == part))
}

/// `user:password@` of an address.
fn password_of(value: &str) -> Option<&str> {
    let (_, rest) = value.split_once("://")?;
    let authority = rest.split(['/', '?', '#']).next().unwrap_or(rest);
    let (user, _) = authority.rsplit_once('@')?;
    user.split_once(':').map(|(_, password)| password)
}

fn could_open(value: &str) -> bool {
    let is_path = value.starts_with(['/', '~', '.', '$']) || value.contains("://") || value.contains(":/");
    let is_number = value.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'.' | b'-' | b':' | b'+'));
    let is_word = value.len() < WORD_BYTES_MAX && value.bytes().all(|byte| byte.is_ascii_alphabetic());
    value.len() >= VALUE_BYTES_MIN && !is_path && !is_number && !is_word
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_distinguished_from_settings() {
        for (name, value, expected) in [
            ("GITHUB_TOKEN", "ghp-not-real-1", Some("ghp-not-real-1")),
            ("gitlab_token", "hunter22", Some("hunter22")),
            ("MYTOKENVALUE", "hunter22", Some("hunter22")),
            ("AWS_SECRET_ACCESS_KEY", " ab12cd34ef ", Some("ab12cd34ef")),
            ("DATABASE_URL", "postgres://app:pa55word1@db/x?y", Some("pa55word1")),
            ("DATABASE_URL", "postgres://db/x", None),
            ("SSH_KEY_FILE", "/home/a/.ssh/id", None),
            ("SSH_AUTH_SOCK", "/tmp/ssh-x/agent.1", None),
            ("KEYBOARD", "pc105-intl", None),
            ("PATH", "/usr/bin:/bin", None),
            ("PWD", "/home/a/project", None),
            ("XAUTHORITY", "something1", None),
            ("GIT_AUTHOR_NAME", "Somebody Else", None),
            ("MAX_TOKENS", "100000000", None),
            ("API_KEY", "short1", None),
            ("SECRET_MODE", "development", None),
            ("API_KEY", "true", None),
            ("AUTH_URL", "https://login.internal", None),
        ] {
            assert_eq!(credential(name, value), expected, "{name}={value}");
        }
    }
}
