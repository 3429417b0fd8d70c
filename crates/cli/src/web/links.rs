//! One-time links: a code that a browser exchanges for a session. Codes are in memory only; a restart of the daemon
//! makes them invalid.

use crate::error::CommandError;
use crate::view::time::now_ms;
use loopwright::{Actor, ActorIdentity, random};
use loopwright_core::hash::hash_bytes;
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

/// How long a code is valid.
const VALID_MS: i64 = 120_000;

/// The most codes at a time; the oldest gives way.
const CODES_MAX: usize = 32;

/// The person that a code stands for.
#[derive(Debug, Clone)]
pub(crate) struct LinkOwner {
    pub(crate) name: String,
    pub(crate) uid: Option<u32>,
}

/// The codes that were not used yet, and the address of their links.
#[derive(Debug)]
pub(crate) struct SignInLinks {
    origin: String,
    codes: Mutex<HashMap<String, (i64, LinkOwner)>>,
}

impl SignInLinks {
    /// No codes yet; links begin with `origin`.
    pub(crate) fn new(origin: String) -> Self {
        Self { origin, codes: Mutex::default() }
    }

    /// The address of the server.
    pub(crate) fn origin(&self) -> &str {
        &self.origin
    }

    /// A link for a person.
    pub(crate) fn create(&self, actor: &Actor) -> Result<String, CommandError> {
        let (code, now) = (random::secret()?, now_ms());
        let uid = match actor.identity() {
            Some(ActorIdentity::User { uid }) => Some(*uid),
            _ => None,
        };
        let owner = LinkOwner { name: actor.name().to_owned(), uid };
        let mut codes = self.codes.lock().unwrap_or_else(PoisonError::into_inner);
        codes.retain(|_, (until, _)| *until > now);
        if codes.len() >= CODES_MAX {
            let oldest = codes.iter().min_by_key(|(_, (until, _))| *until).map(|(hash, _)| hash.clone());
            oldest.iter().for_each(|hash| drop(codes.remove(hash)));
        }
        codes.insert(hash_bytes(code.as_bytes()), (now.saturating_add(VALID_MS), owner));
        Ok(format!("{}/sign-in?code={code}", self.origin))
    }

    /// The person of a code, which is used up by this.
    pub(crate) fn redeem(&self, code: &str) -> Option<LinkOwner> {
        let mut codes = self.codes.lock().unwrap_or_else(PoisonError::into_inner);
        let (until, owner) = codes.remove(&hash_bytes(code.as_bytes()))?;
        (until > now_ms()).then_some(owner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_works_once() {
        let links = SignInLinks::new("http://127.0.0.1:1".to_owned());
        let link = links.create(&Actor::user("ada", 7)).expect("the system has random bytes");
        let code = link.strip_prefix("http://127.0.0.1:1/sign-in?code=").expect("it is a link");
        let owner = links.redeem(code).expect("it is valid");
        assert_eq!((owner.name.as_str(), owner.uid), ("ada", Some(7)));
        assert!(links.redeem(code).is_none() && links.redeem("").is_none());
    }
}
