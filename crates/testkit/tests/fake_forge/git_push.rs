//! Git over smart HTTP: the real client pushes to the fake forge with its tokens.

use loopwright_testkit::TestRepo;
use loopwright_testkit::fake_forge::{FakeForge, FakeToken, ForgeFault};
use std::process::{Command, Stdio};

/// Pushes with a token; the message of git if that fails.
fn push(repo: &TestRepo, url: &str, token: Option<&str>, spec: &str) -> Result<(), String> {
    let mut command = Command::new("git");
    command.current_dir(repo.path()).stdin(Stdio::null()).env_clear();
    command.envs([("PATH", loopwright_testkit::TRUSTED_PATH), ("HOME", "/nonexistent"), ("LC_ALL", "C.UTF-8")]);
    command.envs([("GIT_CONFIG_NOSYSTEM", "1"), ("GIT_TERMINAL_PROMPT", "0")]);
    let address = match token {
        Some(token) => url.replacen("http://", &format!("http://x-access-token:{token}@"), 1),
        None => url.to_owned(),
    };
    let output = command.args(["push", "--quiet", &address, spec]).output().expect("git starts");
    if output.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&output.stderr).into_owned()) }
}

fn forge() -> FakeForge {
    let forge = FakeForge::start();
    forge.create_repo("acme/app").add_writer("bot");
    forge
}

fn work(forge: &FakeForge) -> TestRepo {
    let repo = TestRepo::new();
    repo.git(["pull", "--quiet", &forge.repo("acme/app").clone_url(), "main"]);
    repo.write("a.txt", "one\n").commit("a change");
    repo
}

#[test]
fn push_with_a_token_creates_a_branch() {
    let forge = forge();
    let (repo, target) = (work(&forge), forge.repo("acme/app"));
    push(&repo, &target.clone_url(), Some(&forge.token("bot")), "HEAD:refs/heads/loop/a").expect("the push succeeds");
    assert_eq!(target.branch("loop/a"), Some(repo.head()));
}

#[test]
fn push_without_the_right_is_refused() {
    let forge = forge();
    let (repo, url) = (work(&forge), forge.repo("acme/app").clone_url());
    let try_push = |token: Option<&str>| push(&repo, &url, token, "HEAD:refs/heads/a").expect_err("it is refused");
    assert!(try_push(None).contains("terminal prompts disabled"));
    assert!(try_push(Some("nonsense")).contains("Authentication failed"));
    let reads = forge.add_token(FakeToken::fine_grained("bot", &["contents:read"]));
    assert!(try_push(Some(&reads)).contains("403"));
    assert!(try_push(Some(&forge.token("stranger"))).contains("403"));
    forge.delete_repo("acme/app");
    assert!(try_push(Some(&forge.token("bot"))).contains("not found"));
    assert!(forge.requests().iter().all(|row| row.header("authorization") != Some("")), "the log has the requests");
}

#[test]
fn protected_branch_refuses_every_push() {
    let forge = forge();
    let (repo, target) = (work(&forge), forge.repo("acme/app"));
    let before = target.branch("main");
    target.protect("main");
    let token = forge.token("bot");
    let refused = push(&repo, &target.clone_url(), Some(&token), "HEAD:refs/heads/main").expect_err("it is refused");
    assert!(refused.contains("GH006") && refused.contains("hook declined"), "{refused}");
    assert_eq!(target.branch("main"), before);
    target.unprotect("main");
    push(&repo, &target.clone_url(), Some(&token), "HEAD:refs/heads/main").expect("the push succeeds");
}

#[test]
fn push_whose_answer_is_cut_has_happened() {
    let forge = forge();
    let (repo, target) = (work(&forge), forge.repo("acme/app"));
    forge.fail("POST", "/acme/app.git/git-receive-pack", 1, ForgeFault::CutAfter);
    push(&repo, &target.clone_url(), Some(&forge.token("bot")), "HEAD:refs/heads/a").expect_err("no answer");
    assert_eq!(target.branch("a"), Some(repo.head()));
}
