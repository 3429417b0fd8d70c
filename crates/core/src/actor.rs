//! The person or program behind a decision, as the record keeps it. Authentication of callers is decided elsewhere.

use serde::{Deserialize, Serialize};
use std::fmt;

/// The longest recorded name, in characters.
const NAME_MAX: usize = 64;

/// How an actor was identified.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum ActorIdentity {
    /// A user of the operating system, confirmed by the kernel.
    User {
        /// The user id.
        uid: u32,
    },
    /// A person that the embedding program vouches for.
    Embedder,
    /// A person's account elsewhere, which the user's configuration assigns to the person.
    Account {
        /// `slack`, or the name of a forge.
        place: String,
        /// The account's id there.
        id: String,
    },
    /// The holder of a token of the HTTP API.
    Token {
        /// The token's id, which is no secret.
        id: String,
    },
}

/// The person or program behind a decision.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "ActorForm", into = "ActorForm")]
pub struct Actor {
    name: String,
    /// `None` in records of builds that kept the name only.
    identity: Option<ActorIdentity>,
}

impl Actor {
    /// A user of the operating system.
    #[must_use]
    pub fn user(name: &str, uid: u32) -> Self {
        Self { name: bounded(name), identity: Some(ActorIdentity::User { uid }) }
    }

    /// A person that the embedding program identified.
    #[must_use]
    pub fn embedder(name: &str) -> Self {
        Self { name: bounded(name), identity: Some(ActorIdentity::Embedder) }
    }

    /// A person whose account elsewhere the user's configuration names.
    #[must_use]
    pub fn account(name: &str, place: &str, id: &str) -> Self {
        let identity = ActorIdentity::Account { place: bounded(place), id: bounded(id) };
        Self { name: bounded(name), identity: Some(identity) }
    }

    /// The holder of a token of the HTTP API, by the token's name.
    #[must_use]
    pub fn token(name: &str, id: &str) -> Self {
        Self { name: bounded(name), identity: Some(ActorIdentity::Token { id: bounded(id) }) }
    }

    /// Whether the person answered with an account elsewhere, so that the answer belongs to one question there.
    #[must_use]
    pub fn is_account(&self) -> bool {
        matches!(self.identity, Some(ActorIdentity::Account { .. }))
    }

    /// The name, as `approvers` lists it.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// How the actor was identified; `None` in records of earlier builds.
    #[must_use]
    pub fn identity(&self) -> Option<&ActorIdentity> {
        self.identity.as_ref()
    }

    /// Whether both are the same person. Equal names count as one person even when the identities differ in kind.
    #[must_use]
    pub fn is_same_person(&self, other: &Self) -> bool {
        let is_same_identity = match (&self.identity, &other.identity) {
            (None | Some(ActorIdentity::Embedder), _) => false,
            (one, other) => one == other,
        };
        self.name == other.name || is_same_identity
    }
}

/// Cuts the name and removes control characters, which could forge lines of a report.
fn bounded(name: &str) -> String {
    name.chars().filter(|c| !c.is_control()).take(NAME_MAX).collect()
}

impl fmt::Display for Actor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

impl From<&str> for Actor {
    fn from(name: &str) -> Self {
        Self::embedder(name)
    }
}

impl From<&Actor> for Actor {
    fn from(actor: &Actor) -> Self {
        actor.clone()
    }
}

/// The recorded form: earlier builds wrote only the name.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum ActorForm {
    Name(String),
    Known {
        name: String,
        #[serde(flatten)]
        identity: ActorIdentity,
    },
}

impl From<ActorForm> for Actor {
    fn from(form: ActorForm) -> Self {
        match form {
            ActorForm::Name(name) => Self { name, identity: None },
            ActorForm::Known { name, identity } => Self { name, identity: Some(identity) },
        }
    }
}

impl From<Actor> for ActorForm {
    fn from(actor: Actor) -> Self {
        match actor.identity {
            None => Self::Name(actor.name),
            Some(identity) => Self::Known { name: actor.name, identity },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn actor_and_bare_name_survive_a_json_round_trip() {
        for json in [
            r#""ada""#,
            r#"{"name":"ada","kind":"user","uid":1000}"#,
            r#"{"name":"ada","kind":"embedder"}"#,
            r#"{"name":"ada","kind":"account","place":"github","id":"7"}"#,
        ] {
            let actor: Actor = serde_json::from_str(json).expect("it reads");
            assert_eq!((actor.name(), serde_json::to_string(&actor).expect("it writes").as_str()), ("ada", json));
        }
    }

    #[test]
    fn one_uid_with_two_names_is_one_person_and_so_is_one_name() {
        let ada = Actor::user("ada", 7);
        assert!(ada.is_same_person(&Actor::user("countess", 7)));
        assert!(ada.is_same_person(&Actor::embedder("ada")));
        assert!(!ada.is_same_person(&Actor::user("grace", 8)));
        assert!(!Actor::embedder("ada").is_same_person(&Actor::embedder("grace")));
        assert!(ada.is_same_person(&Actor::account("ada", "slack", "U1")));
        assert!(!Actor::account("ada", "slack", "7").is_same_person(&Actor::account("grace", "github", "7")));
        assert!(Actor::account("ada", "slack", "7").is_same_person(&Actor::account("countess", "slack", "7")));
    }

    #[test]
    fn names_are_short_and_hold_no_control_characters() {
        assert_eq!(Actor::user("a\u{1b}\nda", 1).name(), "ada");
        assert_eq!(Actor::embedder(&"x".repeat(100)).name().len(), NAME_MAX);
    }
}
