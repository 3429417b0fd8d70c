//! People in the user's own configuration, with their accounts. `approvers` of a loop names these people, and an answer
//! from an account that no person here has never counts.
//!
//! Forges give a number to each account. A login can be renamed, and then another person can take it, so only the number
//! identifies a person.

use crate::spec::problem::{ProblemKind, quoted};
use crate::spec::reader::value::SpecValue;
use crate::spec::tree::YamlValue;
use serde::Serialize;
use std::collections::BTreeMap;

/// The key of an account of this machine's operating system.
pub const OS_ACCOUNT: &str = "os";
/// The key of an account in the Slack workspace.
pub const SLACK_ACCOUNT: &str = "slack";

/// The `people:` block: the accounts of each person, by `os`, `slack` or the name of a forge.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[serde(transparent)]
pub struct PeopleConfig(pub BTreeMap<String, BTreeMap<String, String>>);

impl PeopleConfig {
    /// The person with an account; `None` if no person has it.
    #[must_use]
    pub fn person(&self, place: &str, account: &str) -> Option<&str> {
        let has = |accounts: &BTreeMap<String, String>| accounts.get(place).is_some_and(|known| known == account);
        self.0.iter().find(|(_, accounts)| has(accounts)).map(|(name, _)| name.as_str())
    }

    /// The name of a user of the operating system: that of the person with this account. A user whose name is that of a
    /// person with another account is not that person.
    #[must_use]
    pub fn user_name(&self, user: &str) -> String {
        match (self.person(OS_ACCOUNT, user), self.0.get(user)) {
            (Some(person), _) => person.to_owned(),
            (None, Some(accounts)) if accounts.contains_key(OS_ACCOUNT) => format!("{OS_ACCOUNT}:{user}"),
            (None, _) => user.to_owned(),
        }
    }

    /// Whether no person is named.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

pub(super) fn read(at: &SpecValue<'_>) -> Option<PeopleConfig> {
    let mut people = PeopleConfig::default();
    for (entry, at) in at.entries("a mapping of person to their accounts")? {
        let Some(accounts) = at.entries("a mapping of `os`, `slack` or a forge to an account") else { continue };
        let mut own = BTreeMap::new();
        for (place, at) in accounts {
            let Some(account) = account(&place.key, &at) else { continue };
            if let Some(other) = people.person(&place.key, &account) {
                let what = format!("`{other}` has the same account {}", quoted(&account));
                at.add_problem(ProblemKind::Value, what, Some("one account belongs to one person".to_owned()));
            }
            own.insert(place.key.clone(), account);
        }
        people.0.insert(entry.key.clone(), own);
    }
    Some(people)
}

fn account(place: &str, at: &SpecValue<'_>) -> Option<String> {
    let problem = |what: String, hint: &str| at.add_problem(ProblemKind::Value, what, Some(hint.to_owned()));
    match (place, &at.node.value) {
        (OS_ACCOUNT, _) => at.text().filter(|name| !name.is_empty()),
        (SLACK_ACCOUNT, _) => {
            let id = at.text()?;
            let is_id = id.starts_with(['U', 'W'])
                && (3..=32).contains(&id.len())
                && id.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit());
            if !is_id {
                let hint = "open the person's profile in Slack and choose *Copy member ID*: it begins with U or W";
                problem(format!("{} is not the id of a member", quoted(&id)), hint);
            }
            is_id.then_some(id)
        }
        (_, YamlValue::Text(login)) => {
            let hint = "write the number of the account: a login can be renamed and taken by another person. The reply \
                to an answer that does not count names the number";
            problem(format!("{} is not the number of an account", quoted(login)), hint);
            None
        }
        _ => at.whole::<u64>(1..=i128::from(u64::MAX)).map(|id| id.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use crate::config::read_config_file;

    #[test]
    fn people_are_found_by_their_accounts_and_not_by_their_logins() {
        let text =
            "people:\n  grace: { github: 1234, slack: U012AB3CD, os: ghopper }\n  ada: { github: 7, work: 1234 }\n";
        let people = read_config_file("config.yaml", text.as_bytes()).expect("a good file").people;
        let table = [
            ("github", "1234", Some("grace")),
            ("work", "1234", Some("ada")),
            ("github", "7", Some("ada")),
            ("slack", "U012AB3CD", Some("grace")),
            ("slack", "u012ab3cd", None),
            ("github", "grace", None),
            ("gitlab", "1234", None),
        ];
        for (place, account, person) in table {
            assert_eq!(people.person(place, account), person, "{place} {account}");
        }
        for (user, name) in [("ghopper", "grace"), ("grace", "os:grace"), ("ada", "ada"), ("eve", "eve")] {
            assert_eq!(people.user_name(user), name);
        }
    }

    #[test]
    fn logins_and_shared_accounts_are_refused() {
        let table = [
            ("people: { grace: { github: grace-h } }", "is not the number of an account"),
            ("people: { grace: { slack: grace } }", "is not the id of a member"),
            ("people: { grace: { github: 7 }, ada: { github: 7 } }", "has the same account"),
            ("people: { grace: 7 }", "wants a mapping"),
        ];
        for (text, expected) in table {
            let found = read_config_file("config.yaml", text.as_bytes()).expect_err("a bad file").to_string();
            assert!(found.contains(expected), "{found}");
        }
    }
}
