//! The README's loop file, the guide and the migration page, executed word for word: a page that does not work as written is a bug.

#![allow(clippy::disallowed_methods, reason = "the guide is pasted into a shell")]

use loopwright_testkit::{TRUSTED_PATH, TestEnv};
use std::path::Path;

/// The code blocks of a page in a language, in order.
fn blocks(page: &str, language: &str) -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(page);
    let text = std::fs::read_to_string(path).expect("the page is there");
    let parts = text.split("```").skip(1).step_by(2);
    parts.filter_map(|part| part.strip_prefix(&format!("{language}\n")).map(str::to_owned)).collect()
}

/// A shell that finds the binary by its name.
fn shell() -> TestEnv {
    let binary = Path::new(env!("CARGO_BIN_EXE_loopwright")).parent().expect("a folder");
    TestEnv::new("/bin/sh").with_env("PATH", format!("{}:{TRUSTED_PATH}", binary.display()))
}

/// Runs a block in a folder like a pasted block in a shell: every line, and the exit code is that of the last line.
#[track_caller]
fn paste(shell: &TestEnv, folder: &Path, block: &str, code: i32) -> String {
    let ran = shell.loopwright_in(folder, ["-c", block]).code(code);
    ran.stdout() + &ran.stderr()
}

#[test]
fn guide_leads_from_an_empty_folder_to_a_pull_request() {
    let env = shell();
    let steps = blocks("docs/guide.md", "sh");
    let [repository, agent, run, answer] = steps.as_slice() else { panic!("four blocks: {steps:?}") };
    let first = paste(&env, env.root(), repository, 14);
    assert!(first.contains("tests ./run-tests.sh"), "{first}");

    let folder = env.root().join("sum");
    std::fs::write(folder.join("my-agent"), agent).expect("the agent is saved");
    let file = blocks("README.md", "markdown").swap_remove(0);
    std::fs::write(folder.join(".loopwright/loops/fix-tests.md"), file).expect("the loop is saved");
    let output = paste(&env, &folder, run, 10);
    for words in ["2 loops checked", "1 gate tried", "would send pull-request (draft)", "fix-tests escalated"] {
        assert!(output.contains(words), "{words}: {output}");
    }
    assert!(!output.contains("is not committed"), "{output}");

    let inbox = paste(&env, &folder, "loopwright inbox", 0);
    let id = inbox.split_whitespace().find(|word| word.starts_with("a-r")).expect("an id");
    let shipped = paste(&env, &folder, &answer.replace("ID", id), 0);
    assert!(shipped.contains("pull-request sent at "), "{shipped}");
}

/// An installation of the bash harness, by its documented formats: one loop, whose state has the latest commit.
fn install_harness(env: &TestEnv) {
    let put = |name: &str, text: &str| {
        let path = env.home().join(name);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("folders");
        std::fs::write(path, text).expect("a file");
    };
    put("projects/my-app/docs/usage.md", "It adds.\n");
    let git = "cd ~/projects/my-app && git init -q -b main && git config user.name Ada && git config user.email ada@example.org \
               && git add -A && git commit -qm first && git rev-parse HEAD";
    let commit = paste(env, env.root(), git, 0);
    put(
        "loop-harness/config.yaml",
        "repos:\n  - path: ~/projects/my-app\n    loops: [doc-sync]\nconcurrency: 5\nlog_retention_days: 7\n\
         scheduler_tick_seconds: 30\nslack_webhook_env: LOOP_SLACK_WEBHOOK\ngithub_token_env: GITHUB_TOKEN\n\
         claude_bin: claude\ndefaults:\n  worktree: true\n  verify: true\n  max_retries: 2\n  timeout_minutes: 15\n",
    );
    put(
        "loop-harness/definitions/doc-sync.yaml",
        "name: doc-sync\ncadence: 0 7 * * *\ntrigger: schedule\nskill: doc-sync.md\nworktree: true\noutput: pr\n\
         state_file: state/doc-sync.json\nverify: true\ntimeout_minutes: 15\n\
         allowed_tools: \"Bash,Read,Edit,Write,Glob,Grep\"\nnotify_slack: false\n",
    );
    put("loop-harness/skills/doc-sync.md", "# Documents\n\nYou keep the documents true to the code.\n");
    let state = format!(
        r#"{{"last_run": 1760000000, "processed": {{"{}": "2026-06-10T09:00:00+0000"}}, "in_progress": {{}},
           "failures": [], "metrics": {{"runs": 4, "successes": 4}}}}"#,
        commit.trim()
    );
    put("loop-harness/state/doc-sync@my-app.json", &state);
}

#[test]
fn migration_page_imports_an_installation_and_its_processed_items_stay_processed() {
    let env = shell();
    install_harness(&env);
    let steps = blocks("docs/migrating.md", "sh");
    let [import, script, again, new, agent] = steps.as_slice() else { panic!("five blocks: {steps:?}") };
    let report = paste(&env, env.root(), import, 0);
    for words in
        ["would be written .loopwright/loops/doc-sync.md", "1 item processed, 1 of them new here", "1 loop checked"]
    {
        assert!(report.contains(words), "{words}: {report}");
    }
    let folder = env.home().join("projects/my-app");
    drop(paste(&env, &folder, script, 0));
    let idle = paste(&env, &folder, again, 0);
    assert!(idle.contains("nothing-to-do"), "{idle}");
    let worked = paste(&env, &folder, new, 0);
    assert!(worked.contains("doc-sync reported"), "{worked}");
    let checked = paste(&env, &folder, agent, 0);
    assert!(checked.contains("1 loop checked"), "{checked}");
}
