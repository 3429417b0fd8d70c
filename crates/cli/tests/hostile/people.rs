//! The user's terminal, checkout and store (families D, J and P).

use crate::stage::{FIX, PASS, Stage, contains, with_cookie};
use loopwright_testkit::wait;
use std::time::Duration;

#[test]
fn h132_escapes_of_agents_and_gates_never_reach_the_terminal_raw() {
    let stage = Stage::new();
    let nasty = "1b5d35323b633b61476b3d07 1b5b324a 1b5d383b3b687474703a2f2f6576696c1b5c".replace(' ', "");
    stage.commit(&format!(
        "@ maker\nbytes {nasty}0a\nbytes 0d73686970706564207072657474790a\nbytes c2857808\n{FIX}\
         append calc.sh \"printf '\\\\033[31mred\\\\033]0;title\\\\007\\\\r\\\\n'\\n\"\n\
         stage pull-request.md \"Fix \u{1b}[31m\u{202e}evil\\n\\nText\u{7}\\n\"\n{PASS}"
    ));
    let output = stage.run_for_people();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    for bytes in [&output.stdout, &output.stderr] {
        let text = String::from_utf8_lossy(bytes);
        let raw: Vec<_> = text.chars().filter(|c| c.is_control() && *c != '\n').collect();
        assert!(raw.is_empty() && !text.contains('\u{202e}'), "{raw:?} in {text}");
    }
}

#[test]
fn h148_fake_status_lines_of_agents_are_marked_as_theirs() {
    let stage = Stage::new();
    let fakes =
        ["shipped   round r00000000000000000000000000", "send     pull-request: sent", "error: give me your token"];
    let says: String = fakes.iter().map(|line| format!("say {line}\n")).collect();
    stage.commit(&format!("@ maker\n{says}bytes 0a0d20202020200d73656e64202020207368697070656421 \n{PASS}"));
    let output = stage.run_for_people();
    assert_eq!(output.status.code(), Some(11));
    let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    for fake in fakes {
        let line = text.lines().find(|line| line.contains(fake)).unwrap_or_default();
        assert!(line.contains("maker | "), "unmarked: {text}");
    }
    assert!(text.lines().filter(|line| line.contains("shipped!")).all(|line| line.contains("maker | ")), "{text}");
}

#[test]
fn h049_a_dirty_checkout_stays_as_it_is() {
    let stage = Stage::new();
    stage.commit(&format!("@ maker\n{FIX}{PASS}"));
    stage.repo.write("README.md", "half a thought").write("untracked.txt", "mine").write("staged.txt", "staged");
    stage.repo.git(["add", "staged.txt"]);
    let round = stage.run().ships();
    assert_eq!(round.shipped_file("README.md"), "A calculator.");
    assert!(!round.shipped_paths().contains(&"untracked.txt".to_owned()));
}

#[test]
fn h049_a_checkout_in_the_middle_of_a_rebase_stays_as_it_is() {
    let stage = Stage::new();
    stage.commit(&format!("@ maker\n{FIX}{PASS}"));
    stage.repo.branch("topic").write("README.md", "one way\n").commit("one");
    stage.repo.checkout("main").write("README.md", "another way\n").commit("two");
    stage.repo.checkout("topic");
    let rebase = std::process::Command::new("git")
        .args(["-c", "user.name=T", "-c", "user.email=t@example.org", "rebase", "-q", "main"])
        .current_dir(stage.repo.path())
        .output()
        .expect("git starts");
    assert!(!rebase.status.success() && stage.repo.path().join(".git/rebase-merge").exists(), "a conflict was wanted");
    let _ = stage.run().ships();
}

#[test]
fn h047_a_detached_head_is_a_base_like_any_other() {
    let stage = Stage::new();
    stage.commit(&format!("@ maker\n{FIX}{PASS}"));
    stage.repo.git(["checkout", "-q", "--detach"]);
    let _ = stage.run().ships();
}

#[test]
fn h049_the_loops_own_branch_name_checked_out_is_left_alone() {
    let stage = Stage::new();
    stage.commit(&format!("@ maker\n{FIX}{PASS}"));
    stage.repo.branch("loop/fix/mine");
    let _ = stage.run().ships();
}

#[test]
fn h050_a_stale_lock_of_the_users_is_left_alone() {
    let stage = Stage::new();
    stage.commit(&format!("@ maker\n{FIX}{PASS}"));
    stage.repo.write(".git/index.lock", "").write(".git/HEAD.lock", "");
    let _ = stage.run().ships();
}

#[test]
fn h047_a_repository_without_commits_is_an_error_that_says_so() {
    let stage = Stage::new();
    stage.loop_file("{ use: scripted, script: s.script }");
    stage.repo.write(".loopwright/s.script", PASS);
    let ran = stage.env.loopwright_in(stage.repo.path(), ["run", "fix", "--json"]).code(2);
    assert!(ran.json()["error"]["text"].is_string(), "{}", ran.stdout());
}

#[test]
fn h209_a_second_run_on_the_same_store_names_the_holder() {
    // A file of the host lets the maker continue.
    let stage = Stage::new().with("sandbox: off");
    let (ready, go) = (stage.env.root().join("ready"), stage.env.root().join("go"));
    stage.commit(&format!("@ maker\nwrite {} x\nsleep-until {}\n{FIX}{PASS}", ready.display(), go.display()));
    let first = stage.start();
    wait::until("the first maker to run", Duration::from_secs(30), || ready.exists());
    let here = stage.env.root().display().to_string();
    let ours = |pid: &u32| std::fs::read(format!("/proc/{pid}/environ")).is_ok_and(|bytes| contains(&bytes, &here));
    assert!(with_cookie("r").iter().any(ours), "the oracle sees a living process of a round");
    let second = stage.env.loopwright_in(stage.repo.path(), ["run", "fix", "--json"]).code(1);
    assert!(second.stdout().contains(&first.child.id().to_string()), "{}", second.stdout());
    std::fs::write(&go, "").expect("a file can be written");
    let _ = stage.finish(first).ships();
}

#[test]
fn h206_a_loop_file_edited_during_a_round_counts_for_the_next_one() {
    // A file of the host lets the maker continue.
    let stage = Stage::new().with("sandbox: off");
    let (ready, go) = (stage.env.root().join("ready"), stage.env.root().join("go"));
    stage.commit(&format!("@ maker\nwrite {} x\nsleep-until {}\nwrite b.txt b\n{PASS}", ready.display(), go.display()));
    let first = stage.start();
    wait::until("the maker to run", Duration::from_secs(30), || ready.exists());
    let file = ".loopwright/loops/fix.md";
    let honest = stage.repo.read(file);
    stage.repo.write(file, honest.replace("[sh, check.sh]", "[test, -f, b.txt]"));
    stage.repo.write("check.sh", "exit 0\n");
    let edited = stage.repo.tree_digest();
    std::fs::write(&go, "").expect("a file can be written");
    let round = stage.finish_from(first, &edited);
    assert_eq!(round.json["outcome"], "plateaued", "the same tree fails base's gate twice: {}", round.story());
}

#[test]
fn h070_a_flood_does_not_bury_the_terminal() {
    let stage = Stage::new();
    stage.commit(&format!("@ maker\nflood 40M\n{FIX}{PASS}"));
    let output = stage.run_for_people();
    assert_eq!(output.status.code(), Some(0));
    let shown = output.stderr.len() >> 20;
    assert!(shown < 24, "{shown} MiB of agent text on the terminal");
}
