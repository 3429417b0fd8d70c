//! Text that no message, record or debug output may contain.

/// A token, a key or an address that is a secret. Its debug output is empty.
#[derive(Clone, PartialEq, Eq)]
pub struct SecretText(String);

impl SecretText {
    /// Wraps a secret; surrounding white space, such as the last line break of a file, is not part of it.
    #[must_use]
    pub fn new(text: impl AsRef<str>) -> Self {
        Self(text.as_ref().trim().to_owned())
    }

    /// The secret, for the one request or key that needs it.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Debug for SecretText {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SecretText(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_output_has_no_part_of_the_secret() {
        let secret = SecretText::new("  ghp_1234\n");
        assert_eq!(secret.expose(), "ghp_1234");
        assert_eq!(format!("{secret:?}"), "SecretText(…)");
    }
}
