//! A maker edits and runs commands, gates pass, another agent checks, and the change reaches the local forge.

use crate::world::{MEND, World, agrees};
use std::process::Stdio;
use std::time::{Duration, Instant};

fn whole_round(maker: &str, checker: &str) {
    let Some(world) = World::new(maker, checker, MEND) else { return };
    let before = world.repo.tree_digest();
    let ended = world.run();
    let details = || format!("{ended:#}\n{}", world.transcripts());
    assert_eq!(ended["outcome"], "escalated", "{}", details());
    assert_eq!(ended["verdict"]["verdict"], "pass", "{}", details());
    assert_eq!(ended["gates"][0]["status"], "passed", "{}", details());
    assert_eq!(ended["attempts"], 1, "{}", details());
    before.assert_untouched(&world.repo.tree_digest());
    agrees(&ended, &world.model.counter());
    // The agent's own count and the proxy's are equal: the report notes neither a difference nor an answer without a
    // count.
    assert_eq!(ended["notes"], serde_json::json!([]), "{}", details());
    let round = ended["round"].as_str().expect("a round");
    let sent = world.env.loopwright_in(world.repo.path(), ["approve", round, "--json"]).success().json();
    assert_eq!(sent["outcome"], "shipped", "{sent:#}");
}

#[test]
fn claude_makes_and_codex_checks() {
    whole_round("claude", "codex");
}

#[test]
fn codex_makes_and_claude_checks() {
    whole_round("codex", "claude");
}

/// Whether a command that sleeps this long runs anywhere on this machine.
fn sleeps(seconds: u32) -> bool {
    let wanted = format!("sleep\0{seconds}\0");
    let all = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    all.into_iter()
        .any(|entry| std::fs::read(entry.path().join("cmdline")).is_ok_and(|found| found == wanted.as_bytes()))
}

#[expect(
    clippy::disallowed_methods,
    reason = "a person's Ctrl-C comes from outside, and a test does not wait for ever"
)]
fn cancel_leaves_nobody(agent: &str) {
    let number = 70_000_000 + std::process::id() % 1_000_000 * 10;
    let scenario = format!(
        "@ maker\nrun (setsid sleep {} &) ; nohup sleep {} >/dev/null 2>&1 & sleep {}\n",
        number + 1,
        number + 2,
        number + 3
    );
    let Some(world) = World::new(agent, agent, &scenario) else { return };
    let mut command = world.env.command(world.repo.path());
    let mut child =
        command.args(["run", "mend", "--json"]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts");
    let deadline = Instant::now() + Duration::from_secs(60);
    let all = |alive: bool| (1..=3).all(|at| sleeps(number + at) == alive);
    while !all(true) {
        assert!(Instant::now() < deadline && child.try_wait().expect("a child").is_none(), "{}", world.transcripts());
        std::thread::yield_now();
    }
    let killed = std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status().expect("kill");
    assert!(killed.success());
    child.wait().expect("it ends");
    assert!(all(false), "children of {agent} outlived their round");
}

#[test]
fn cancelled_claude_leaves_none_of_its_children() {
    cancel_leaves_nobody("claude");
}

#[test]
fn cancelled_codex_leaves_none_of_its_children() {
    cancel_leaves_nobody("codex");
}

#[test]
fn opencode_makes_and_gemini_checks() {
    whole_round("opencode", "gemini");
}

#[test]
fn gemini_makes_and_opencode_checks() {
    whole_round("gemini", "opencode");
}

#[test]
fn cancelled_opencode_leaves_none_of_its_children() {
    cancel_leaves_nobody("opencode");
}

#[test]
fn cancelled_gemini_leaves_none_of_its_children() {
    cancel_leaves_nobody("gemini");
}
