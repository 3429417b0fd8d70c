//! The examples of GitHub's deliveries that `@octokit/webhooks-examples` publishes: each is routed, or ignored for a
//! reason that the table shows.

use super::{due, roster, waiting};
use crate::triggers::webhook::github;
use expect_test::expect;
use hyper::header::{HeaderMap, HeaderValue};
use loopwright_testkit::{TestRepo, clients};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// The outcome of one example: `routed`, `greeting`, or the reason why it is ignored.
fn outcome(name: &str, body: &Value, roster: &super::WebhookRoster) -> String {
    let mut headers = HeaderMap::new();
    headers.insert("x-github-event", HeaderValue::from_str(name).expect("a word"));
    headers.insert("x-github-delivery", HeaderValue::from_static("d-1"));
    match github::read(&headers, body) {
        Err(error) => panic!("{name}: {error:?}"),
        Ok(None) => "greeting".to_owned(),
        Ok(Some(event)) => match due(roster, &event) {
            Ok(_) => "routed".to_owned(),
            Err(why) => why.word().to_owned(),
        },
    }
}

fn repositories(kinds: &[Value]) -> Vec<&str> {
    let bodies = kinds.iter().flat_map(|kind| kind["examples"].as_array().into_iter().flatten());
    let mut all: Vec<&str> = bodies.filter_map(|body| body.pointer("/repository/html_url")?.as_str()).collect();
    all.sort_unstable();
    all.dedup();
    all
}

fn add_remotes(repo: &TestRepo, addresses: &[&str]) {
    for (number, address) in addresses.iter().enumerate() {
        repo.git(["remote", "add", &format!("r{number}"), address]);
    }
}

#[tokio::test]
async fn every_published_example_is_routed_or_ignored_for_a_reason() {
    // Long because the table has a row for each kind of event.
    let package = "node_modules/@octokit/webhooks-examples/api.github.com/index.json";
    let Some(file) = clients::require_file(package) else { return };
    let text = std::fs::read(file).expect("it can be read");
    let kinds: Vec<Value> = serde_json::from_slice(&text).expect("a list of kinds");
    let (repo, _) = roster(Vec::new()).await;
    add_remotes(&repo, &repositories(&kinds));
    let roster = super::roster_of(&repo, vec![waiting("all", &["github.*"])]).await;
    let mut total = 0;
    let mut table = String::new();
    for kind in &kinds {
        let name = kind["name"].as_str().expect("a name");
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        for body in kind["examples"].as_array().expect("examples") {
            *counts.entry(outcome(name, body, &roster)).or_default() += 1;
            total += 1;
        }
        let counts: Vec<String> = counts.iter().map(|(what, count)| format!("{count} {what}")).collect();
        writeln!(table, "{name}: {}", counts.join(", ")).expect("a string");
    }
    assert_eq!(total, 329);
    expect![[r#"
        branch_protection_rule: 5 routed
        check_run: 3 another branch, 6 no loop waits for it
        check_suite: 3 another branch, 5 no loop waits for it, 1 routed
        code_scanning_alert: 2 a person without rights to the repository, 1 another branch, 3 routed
        commit_comment: 5 routed
        create: 5 routed
        delete: 4 routed
        dependabot_alert: 3 routed
        deploy_key: 2 routed
        deployment: 4 routed
        deployment_review: 1 another branch
        deployment_status: 4 routed
        discussion: 15 routed
        discussion_comment: 4 routed
        fork: 3 a person without rights to the repository
        github_app_authorization: 2 unknown repository
        gollum: 3 a person without rights to the repository
        installation: 7 unknown repository
        installation_repositories: 3 unknown repository
        issue_comment: 9 routed
        issues: 29 routed
        label: 6 routed
        marketplace_purchase: 4 unknown repository
        member: 4 routed
        membership: 5 unknown repository
        merge_group: 2 routed
        meta: 2 routed
        milestone: 5 routed
        organization: 5 unknown repository
        org_block: 4 unknown repository
        package: 3 routed
        page_build: 3 routed
        ping: 4 greeting
        project: 3 routed
        project_card: 9 routed
        project_column: 4 routed
        projects_v2_item: 7 unknown repository
        public: 3 routed
        pull_request: 29 routed
        pull_request_review: 4 routed
        pull_request_review_comment: 5 routed
        pull_request_review_thread: 1 a person without rights to the repository, 2 routed
        push: 5 another branch, 2 routed
        release: 13 routed
        repository_dispatch: 2 routed
        repository: 13 routed
        repository_import: 2 routed
        repository_vulnerability_alert: 4 routed
        security_advisory: 4 unknown repository
        sponsorship: 4 unknown repository
        star: 3 routed
        status: 4 routed
        team: 3 a person without rights to the repository, 3 unknown repository
        team_add: 3 routed
        watch: 3 routed
        workflow_dispatch: 2 routed
        workflow_job: 2 another branch, 6 no loop waits for it
        workflow_run: 1 a person without rights to the repository, 2 no loop waits for it, 2 routed
    "#]]
    .assert_eq(&table);
}
