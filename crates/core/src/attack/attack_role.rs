//! The roles of attackers: what each of them looks for. The built-in ones are data, as a loop's own ones are.

use schemars::JsonSchema;
use serde::Serialize;

/// An attacker's role as a loop file names it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum AttackRole {
    /// A built-in role.
    BuiltIn(String),
    /// A role of the loop.
    Own {
        /// Its name.
        name: String,
        /// The defects that it looks for.
        look_for: String,
    },
}

impl AttackRole {
    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::BuiltIn(name) | Self::Own { name, .. } => name,
        }
    }

    /// The defects that it looks for; `None` for an unknown built-in role.
    #[must_use]
    pub fn look_for(&self) -> Option<&str> {
        match self {
            Self::BuiltIn(name) => built_in_role(name),
            Self::Own { look_for, .. } => Some(look_for),
        }
    }
}

/// The built-in roles: the name, and the defects that each looks for.
pub const BUILT_IN_ROLES: [(&str, &str); 4] = [
    (
        "hostile-user",
        "You are a user who wants to break the product. Look for input that crashes it, corrupts its data, or makes it \
         do something for you that it should refuse: oversized, malformed, nested, repeated and contradictory input, and \
         actions in an order that the makers did not plan.",
    ),
    (
        "careless-user",
        "You are a user in a hurry who reads nothing. Look for plausible mistakes that lose work or give a wrong result \
         without an error: empty fields, wrong units, a double submit, a cancelled operation, a missing file, a wrong \
         folder.",
    ),
    (
        "performance",
        "You care only about time and memory. Look for work that grows faster than its input, for unbounded reads, \
         caches and retries, and for waits without a limit. Show the input size at which it hurts.",
    ),
    (
        "security",
        "You audit security. Look for ways from untrusted input to code, files, secrets or other people's data: \
         injection, path traversal, missing checks of rights, unsafe defaults, leaked secrets, races.",
    ),
];

/// The defects that a built-in role looks for.
#[must_use]
pub fn built_in_role(name: &str) -> Option<&'static str> {
    BUILT_IN_ROLES.into_iter().find(|(known, _)| *known == name).map(|(_, look_for)| look_for)
}
