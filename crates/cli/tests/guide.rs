//! The README's loop file and the guide, executed word for word: a page that does not work as written is a bug.

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
