//! Rules of the `on:` block.

use super::{Rules, paths};
use crate::cadence;
use crate::name::LoopName;
use crate::spec::path::SpecPath;
use crate::spec::problem::quoted;
use crate::spec::reader::value::{listed, nearest};
use crate::spec::{Ask, CatchUp, OWN_BRANCHES, ProbeSpec, Triggers};

/// The built-in probes.
const PROBES: [&str; 6] = ["commits", "failing-ci", "open-prs", "open-issues", "outdated", "files"];

/// The senders of events; the first one matches all of them.
const SOURCES: [&str; 4] = ["*", "github", "gitlab", "generic"];

/// The most items of one round; a prompt cannot describe more.
const BATCH_MAX: u32 = 100;

pub(super) fn check(rules: &mut Rules, on: &Triggers) {
    let path = SpecPath::root_key("on");
    times(rules, &path, on);
    if let CatchUp::All(most) = on.catch_up {
        rules.range(path.key("catch_up").key("all"), most, 1, 1000);
    }
    paths::globs(rules, &path.key("files"), &on.files);
    for (at, branch) in on.push.iter().enumerate() {
        paths::branch(rules, path.key("push").index(at), branch);
        if branch.contains(['*', '?', '[']) {
            let what = format!("{} is not a branch: patterns are not supported here", quoted(branch));
            rules.report(path.key("push").index(at), what, "name each branch: `push: [main, next]`");
        }
        if OWN_BRANCHES.iter().any(|own| branch.starts_with(own)) {
            let what = format!("{} is a branch that loops create", quoted(branch));
            rules.report(path.key("push").index(at), what, "name a branch that people push to");
        }
    }
    for (at, name) in on.after.iter().enumerate() {
        if let Err(error) = LoopName::parse(name) {
            rules.report(path.key("after").index(at), format!("{} is not a loop: {error}", quoted(name)), None);
        }
    }
    for (at, event) in on.webhook.iter().enumerate() {
        if let Some(hint) = event_hint(event) {
            rules.object_with(path.key("webhook").index(at), format!("{} is not an event", quoted(event)), Some(hint));
        }
    }
    if let Some(probe) = &on.probe {
        check_probe(rules, &path.key("probe"), probe);
    }
}

/// The times are checked once, where they are compiled.
fn times(rules: &mut Rules, path: &SpecPath, on: &Triggers) {
    for problem in cadence::problems(on) {
        let path = path.key(problem.key);
        let path = problem.index.map_or_else(|| path.clone(), |at| path.index(at));
        rules.object_with(path, problem.text, Some(problem.hint));
    }
}

fn check_probe(rules: &mut Rules, path: &SpecPath, probe: &ProbeSpec) {
    match probe {
        ProbeSpec::Named(name) => built_in(rules, path.clone(), name),
        ProbeSpec::Ask(ask) => check_ask(rules, path, ask),
        ProbeSpec::Run { run, batch, .. } => {
            rules.command(path.key("run"), run);
            rules.range(path.key("batch"), *batch, 1, BATCH_MAX);
        }
    }
}

fn built_in(rules: &mut Rules, path: SpecPath, name: &str) {
    if PROBES.contains(&name) {
        return;
    }
    let hint = match nearest(name, PROBES.into_iter()) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("built-in probes: {}; a command is `{{ run: [./probe] }}`", listed(&PROBES)),
    };
    rules.object_with(path, format!("{} is not a built-in probe", quoted(name)), Some(hint));
}

fn check_ask(rules: &mut Rules, path: &SpecPath, ask: &Ask) {
    built_in(rules, path.key("use"), &ask.probe);
    let known = Ask::known_keys(&ask.probe).unwrap_or(&Ask::KEYS);
    for key in ask.used_keys().into_iter().filter(|key| !known.contains(&key.as_str())) {
        let hint = format!("`{}` accepts {}", ask.probe, listed(known));
        let what = format!("`{}` does not accept `{key}`", ask.probe);
        rules.object_with(path.key(key), what, Some(hint));
    }
    for (key, globs) in [("paths", &ask.paths), ("checks", &ask.checks), ("packages", &ask.packages)] {
        paths::globs(rules, &path.key(key), globs);
    }
    let words = [("labels", &ask.labels), ("not_labels", &ask.not_labels), ("author", &ask.author)];
    for (key, words) in words {
        for (at, _) in words.iter().enumerate().filter(|(_, word)| word.trim().is_empty()) {
            rules.report(path.key(key).index(at), format!("`{path}.{key}` has an empty word"), None);
        }
    }
    check_filters(rules, path, ask);
    if let Some(branch) = &ask.branch {
        paths::branch(rules, path.key("branch"), branch);
    }
    rules.range(path.key("batch"), ask.batch, 1, BATCH_MAX);
}

/// The filters that are one word or text.
fn check_filters(rules: &mut Rules, path: &SpecPath, ask: &Ask) {
    for (key, value) in [("assignee", &ask.assignee), ("mention", &ask.mention), ("text", &ask.text)] {
        if value.as_ref().is_some_and(|value| value.trim().is_empty()) {
            rules.report(path.key(key), format!("`{path}.{key}` is empty"), "leave the key out");
        }
    }
    for (key, value) in [("assignee", &ask.assignee), ("mention", &ask.mention)] {
        if let Some(name) = value.as_ref().and_then(|value| value.strip_prefix('@')) {
            let what = format!("`{path}.{key}` begins with `@`");
            rules.object_with(path.key(key), what, Some(format!("write `{name}`")));
        }
    }
}

/// The events that GitHub delivers.
const GITHUB_EVENTS: &str = "branch_protection_configuration branch_protection_rule check_run check_suite \
    code_scanning_alert commit_comment create custom_property custom_property_values delete dependabot_alert deploy_key \
    deployment deployment_protection_rule deployment_review deployment_status discussion discussion_comment fork \
    github_app_authorization gollum installation installation_repositories installation_target issue_comment \
    issue_dependencies issues label marketplace_purchase member membership merge_group meta milestone org_block \
    organization package page_build personal_access_token_request project project_card project_column projects_v2 \
    projects_v2_item projects_v2_status_update public pull_request pull_request_review pull_request_review_comment \
    pull_request_review_thread pull_request_target push registry_package release repository repository_advisory \
    repository_dispatch repository_import repository_ruleset repository_vulnerability_alert secret_scanning_alert \
    secret_scanning_alert_location secret_scanning_scan security_advisory security_and_analysis sponsorship star status \
    sub_issues team team_add watch workflow_dispatch workflow_job workflow_run";

/// The suggestion for an event that GitHub never delivers. GitLab names its events in the delivery, so any name may
/// come from there.
fn unknown_event(source: &str, event: &str) -> Option<String> {
    let name = event.split('.').next().unwrap_or(event);
    let is_known = || GITHUB_EVENTS.split_whitespace().any(|known| known == name);
    if source != "github" || name.contains('*') || is_known() {
        return None;
    }
    Some(match nearest(name, GITHUB_EVENTS.split_whitespace()) {
        Some(near) => format!("did you mean `github.{near}`?"),
        None => "GitHub has no such event; such as `github.workflow_run`".to_owned(),
    })
}

/// The suggestion for a text that names no event. A trigger that no delivery matches would wait indefinitely.
fn event_hint(text: &str) -> Option<String> {
    let usual = || Some("such as `github.workflow_run`".to_owned());
    if text.len() > 128 || !text.chars().all(|c| c.is_ascii_alphanumeric() || "._-*".contains(c)) {
        return usual();
    }
    let (source, event) = text.split_once('.').unwrap_or((text, ""));
    match (SOURCES.contains(&source), event) {
        (true, "") if source == "generic" => Some("name its source: `generic.deploy`".to_owned()),
        (true, "") => Some(format!("for all of its events write `{source}.*`")),
        (true, _) if text.split('.').any(str::is_empty) => usual(),
        (true, _) => unknown_event(source, event),
        (false, "") => usual(),
        (false, _) => {
            let near =
                nearest(source, SOURCES.into_iter().skip(1)).map(|near| format!("did you mean `{near}.{event}`?"));
            near.or_else(|| {
                Some(format!("a sender of your own is `generic.{event}`; the others are github and gitlab"))
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn event_that_no_sender_delivers_is_refused_with_a_suggestion() {
        for known in ["github.milestone.created", "github.merge_group", "github.*", "gitlab.anything", "generic.deploy"]
        {
            assert_eq!(event_hint(known), None, "{known}");
        }
        let hint = |text| event_hint(text).unwrap_or_else(|| panic!("{text} is accepted"));
        assert_eq!(hint("github.workflow_runs.failure"), "did you mean `github.workflow_run`?");
        assert_eq!(hint("github.nosuch"), "GitHub has no such event; such as `github.workflow_run`");
        assert_eq!(hint("githbu.push"), "did you mean `github.push`?");
        assert_eq!(hint("github"), "for all of its events write `github.*`");
    }
}
