//! Clients that others wrote run against the fake forge, and the official descriptions check every request that they
//! send and every answer that they get.

use loopwright_testkit::clients::{require_file, require_npm, require_python};
use loopwright_testkit::fake_forge::{ApiDescription, DescriptionReport, FakeForge};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A forge with a branch that has a change, and a failed check on it.
fn forge() -> FakeForge {
    let forge = FakeForge::start();
    let repo = forge.create_repo("acme/app");
    repo.add_writer("bot").add_writer("ada");
    let head = repo.push_file("loop/a", "a.txt", "one\ntwo\n", "a change");
    repo.fail_check("build", &head);
    forge
}

fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fake_forge/clients").join(name)
}

/// A program with only the environment of the test.
fn program(name: impl AsRef<std::ffi::OsStr>, home: &Path) -> Command {
    let mut command = Command::new(name);
    command.stdin(Stdio::null()).current_dir(home).env_clear();
    command.env("PATH", loopwright_testkit::TRUSTED_PATH).env("HOME", home).env("LC_ALL", "C.UTF-8");
    command
}

fn run(mut command: Command, forge: &FakeForge) -> String {
    command.env("TOKEN", forge.token("bot")).env("WEB", forge.url());
    let output = command.output().expect("the client starts");
    let (text, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let last: Vec<String> = forge.requests().iter().rev().take(3).map(|row| format!("{row:?}")).collect();
    assert!(output.status.success(), "{text}\n{errors}\n{last:#?}");
    text.into_owned()
}

/// Checks the log of a walk, which must have this number of operations at least.
fn check(description: Option<ApiDescription>, forge: &FakeForge, operations_min: usize) -> DescriptionReport {
    let report = description.map(|known| known.check(&forge.requests())).unwrap_or_default();
    assert!(report.operations.len() >= operations_min, "{:#?}", report.operations);
    report
}

#[test]
fn octokit_works_with_the_fake_and_both_follow_github_s_description() {
    let (Some(clients), Some(_)) = (require_npm("@octokit/rest"), require_npm("@octokit/openapi")) else { return };
    let (forge, home) = (forge(), tempfile::tempdir().expect("a temporary folder"));
    let mut node = program("node", home.path());
    node.arg(script("octokit.mjs")).env("CLIENTS", clients).env("API", forge.github_url());
    assert_eq!(run(node, &forge), "done\n");
    assert_eq!(check(ApiDescription::github(), &forge, 30).findings(), "");
}

#[test]
fn pygithub_works_with_the_fake_enterprise_server() {
    let (Some(packages), Some(_)) = (require_python("github"), require_npm("@octokit/openapi")) else { return };
    let (forge, home) = (forge(), tempfile::tempdir().expect("a temporary folder"));
    let mut python = program("python3", home.path());
    python.arg(script("pygithub.py")).env("PYTHONPATH", packages).env("API", forge.enterprise_url());
    assert_eq!(run(python, &forge), "done\n");
    // PyGithub adds labels in a form that GitHub accepts and does not describe.
    assert_eq!(check(ApiDescription::github(), &forge, 20).answers.join("\n"), "");
}

#[test]
fn python_gitlab_works_with_the_fake() {
    let Some(packages) = require_python("gitlab") else { return };
    let (forge, home) = (forge(), tempfile::tempdir().expect("a temporary folder"));
    let mut python = program("python3", home.path());
    python.arg(script("python_gitlab.py")).env("PYTHONPATH", packages);
    assert_eq!(run(python, &forge), "done\n");
}

#[test]
fn gitea_js_works_with_the_fake_and_both_follow_forgejo_s_description() {
    let (Some(clients), Some(_)) = (require_npm("gitea-js"), require_file("crates/forgejo-api")) else { return };
    let (forge, home) = (forge(), tempfile::tempdir().expect("a temporary folder"));
    let mut node = program("node", home.path());
    node.arg(script("gitea.mjs")).env("CLIENTS", clients);
    assert_eq!(run(node, &forge), "done\n");
    assert_eq!(check(ApiDescription::gitea(), &forge, 15).findings(), "");
}

#[test]
fn gh_api_works_with_the_fake_over_a_unix_socket() {
    let Some(gh) = require_file("python/bin/gh") else { return };
    let (forge, home) = (forge(), tempfile::tempdir().expect("a temporary folder"));
    let socket = forge.listen_unix();
    let config = home.path().join("config");
    std::fs::create_dir_all(&config).expect("a folder can be made");
    let text = format!("version: 1\nhttp_unix_socket: {}\n", socket.display());
    std::fs::write(config.join("config.yml"), text).expect("the configuration can be written");
    let token = forge.token("bot");
    let api = |words: &[&str]| {
        let mut command = program(&gh, home.path());
        command.arg("api").args(words).env("GH_CONFIG_DIR", &config).env("GH_TOKEN", &token);
        run(command, &forge)
    };
    let pull = ["-f", "title=Fix it", "-f", "head=loop/a", "-f", "base=main", "-F", "draft=true", "--jq", ".number"];
    assert_eq!(api(&[&["repos/acme/app/pulls"], &pull[..]].concat()), "1\n");
    api(&["repos/acme/app/issues/1/comments", "-f", "body=a comment"]);
    for _ in 0..4 {
        api(&["repos/acme/app/issues", "-f", "title=an issue"]);
    }
    let all = api(&["--paginate", "repos/acme/app/issues?per_page=2", "--jq", ".[].number"]);
    assert_eq!(all.split_whitespace().collect::<Vec<_>>(), ["5", "4", "3", "2", "1"]);
    assert_eq!(api(&["-X", "PATCH", "repos/acme/app/pulls/1", "-f", "state=closed", "--jq", ".state"]), "closed\n");
    assert_eq!(forge.repo("acme/app").comments(1).len(), 1);
}
