//! The secrets of the engine's environment: values that no agent receives and that no candidate, transcript or record
//! may hold. The program that opens the engine passes them in; the engine reads no environment itself.

use loopwright_core::secrets::{SecretScanner, credential};
use std::sync::Arc;

/// Named values. There is no way to print them.
#[derive(Clone, Default)]
pub struct KnownSecrets(Arc<Vec<(String, String)>>);

impl std::fmt::Debug for KnownSecrets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "KnownSecrets({} values)", self.0.len())
    }
}

impl KnownSecrets {
    /// All variables of an environment. Those that are credentials by name and value are secrets of every loop; any
    /// other is a secret of the loops that name it in `secrets`.
    #[must_use]
    pub fn from_environment(variables: impl IntoIterator<Item = (String, String)>) -> Self {
        Self(Arc::new(variables.into_iter().collect()))
    }

    /// Adds one secret under any name: a provider's key, a forge's credential.
    #[must_use]
    pub fn with(self, name: &str, value: &str) -> Self {
        let mut all = Arc::unwrap_or_clone(self.0);
        // The suffix marks it as a credential for code that only checks names.
        all.push((format!("{name}_SECRET"), value.to_owned()));
        Self(Arc::new(all))
    }

    /// The value of a variable, for the gates of a loop that names it.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// A scanner that finds them, for a loop that declares these names.
    #[must_use]
    pub fn scanner(&self, declared: &[String]) -> SecretScanner {
        let named = declared.iter().filter_map(|name| self.get(name));
        let credentials = self.0.iter().filter_map(|(name, value)| credential(name, value));
        SecretScanner::new(credentials.chain(named))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_known_to_every_loop_and_others_to_those_that_name_them() {
        let given =
            [("GH_TOKEN", "hunter2-hunter2"), ("DEPLOY_TARGET", "blue-4711-zone"), ("LANG", "C.UTF-8-and-more")];
        let known = KnownSecrets::from_environment(given.map(|(name, value)| (name.to_owned(), value.to_owned())));
        let known = known.with("provider", "sesame-open-1");
        let found = |declared: &[String], text| !known.scanner(declared).scan_text("t", text).is_empty();
        assert!(found(&[], "hunter2-hunter2") && found(&[], "sesame-open-1"));
        assert!(!found(&[], "blue-4711-zone") && found(&["DEPLOY_TARGET".to_owned()], "blue-4711-zone"));
        assert!(!found(&["DEPLOY_TARGET".to_owned()], "C.UTF-8-and-more"));
        assert_eq!(format!("{known:?}"), "KnownSecrets(4 values)");
    }
}
