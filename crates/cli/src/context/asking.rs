//! Questions that loops ask elsewhere, as this user has set them up: what `check` refuses, and what `doctor` reports.

use super::forges::connect_slack_of;
use super::providers::read_secret;
use super::{CheckedLoopFile, CommandContext, CommandError, FileProblem, LoopPreflight, PreflightCache};
use loopwright_core::config::{ConfigLayer, SLACK_ACCOUNT, SlackCredential};
use loopwright_core::spec::{AskPlace, LoopSpec};
use loopwright_forge::ForgeFinding;

impl LoopPreflight {
    /// The places where a loop asks: refused if a question could not be sent, or no answer could count.
    pub(super) fn check_asking(&mut self, file: &CheckedLoopFile, cache: &PreflightCache<'_>, config: &ConfigLayer) {
        let spec = file.spec.spec();
        for place in &spec.approvals.ask {
            let problem = |(what, hint): (String, String)| {
                FileProblem::for_file(&file.file, what).with_hint(hint).located_at(&cache.text(file), "ask")
            };
            self.problems.extend(place_problems(*place, spec, config).into_iter().map(problem));
            self.notes.extend(missing_accounts(*place, spec, config));
        }
    }
}

/// The key of accounts in a place.
fn account_key(place: AskPlace, spec: &LoopSpec) -> &str {
    match place {
        AskPlace::Slack => SLACK_ACCOUNT,
        AskPlace::Forge => &spec.forge,
    }
}

fn place_problems(place: AskPlace, spec: &LoopSpec, config: &ConfigLayer) -> Vec<(String, String)> {
    let mut problems = Vec::new();
    let key = account_key(place, spec);
    if !config.people.0.values().any(|accounts| accounts.contains_key(key)) {
        let account = if place == AskPlace::Slack { "U012AB3CD" } else { "1234567" };
        let what = format!("the loop asks on {place}, and `people` names no account there, so no answer could count");
        problems
            .push((what, format!("write into your own configuration: `people: {{ grace: {{ {key}: {account} }} }}`")));
    }
    if place == AskPlace::Forge {
        return problems;
    }
    let is_bot = config.slack.as_ref().is_some_and(|slack| matches!(slack.access, SlackCredential::Token(_)));
    if !is_bot {
        let hint = "write into your own configuration: `slack: { token_env: SLACK_BOT_TOKEN, channel: C0123456789 }`";
        problems.push(("questions in Slack need a bot token".to_owned(), hint.to_owned()));
    }
    if !config.webhooks.secrets.contains_key(SLACK_ACCOUNT) {
        let hint = "write into your own configuration: `webhooks: { listen: 127.0.0.1:8787, secrets: { slack: { env: \
            SLACK_SIGNING_SECRET } } }`";
        problems.push(("buttons in Slack need the app's signing secret".to_owned(), hint.to_owned()));
    }
    problems
}

/// Approvers who cannot answer in a place.
fn missing_accounts(place: AskPlace, spec: &LoopSpec, config: &ConfigLayer) -> Vec<String> {
    let key = account_key(place, spec);
    let has = |name: &str| config.people.0.get(name).is_some_and(|accounts| accounts.contains_key(key));
    let lacks = spec.approvers.iter().filter(|name| !has(name));
    lacks.map(|name| format!("approver `{name}` cannot answer on {place}: `people.{name}.{key}` is not set")).collect()
}

/// The checks of questions elsewhere, by their subject. Empty if nothing of it is configured.
pub(crate) async fn inspect_asking(cx: &CommandContext) -> Result<Vec<(String, ForgeFinding)>, CommandError> {
    let effective = cx.config(None)?;
    let config = effective.config();
    let mut findings = Vec::new();
    if let Some(slack) = &config.slack {
        match connect_slack_of(cx, slack) {
            Ok(slack) => {
                findings.extend(slack.inspect().await.into_iter().map(|finding| ("slack".to_owned(), finding)))
            }
            Err(why) => findings.push(("slack".to_owned(), ForgeFinding::bad("access", why))),
        }
    }
    if let Some(place) = config.webhooks.secrets.get(SLACK_ACCOUNT) {
        let finding = match read_secret(cx, &place.now) {
            Ok(_) => ForgeFinding::good("signing-secret", "presses of buttons can be verified"),
            Err(why) => ForgeFinding::bad("signing-secret", why),
        };
        findings.push(("slack".to_owned(), finding));
    }
    if !config.people.is_empty() {
        let people: Vec<String> = config.people.0.iter().map(|(name, accounts)| person(name, accounts)).collect();
        findings.push(("people".to_owned(), ForgeFinding::good("accounts", people.join("; "))));
    }
    Ok(findings)
}

fn person(name: &str, accounts: &std::collections::BTreeMap<String, String>) -> String {
    let places: Vec<&str> = accounts.keys().map(String::as_str).collect();
    if places.is_empty() { format!("{name} has no account") } else { format!("{name} ({})", places.join(", ")) }
}
