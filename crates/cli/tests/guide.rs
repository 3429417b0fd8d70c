//! The README's loop file and the guide, done word for word: a page that does not work as written is a bug.

use loopwright_testkit::{TRUSTED_PATH, TestEnv};
use std::path::Path;
use std::process::{Command, Output};

/// The blocks of a page in a language, in order.
fn blocks(page: &str, language: &str) -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(page);
    let text = std::fs::read_to_string(path).expect("the page is there");
    let parts = text.split("```").skip(1).step_by(2);
    parts.filter_map(|part| part.strip_prefix(&format!("{language}\n")).map(str::to_owned)).collect()
}

/// Runs a block in a folder, as a shell would when it is pasted: line by line, and answers with the last exit code.
fn paste(env: &TestEnv, folder: &Path, block: &str) -> Output {
    let binary = Path::new(env!("CARGO_BIN_EXE_loopwright")).parent().expect("a folder");
    let mut shell = Command::new("/bin/sh");
    shell.arg("-c").arg(block).current_dir(folder).env_clear();
    shell.env("PATH", format!("{}:{TRUSTED_PATH}", binary.display())).env("HOME", env.home());
    shell.output().expect("a shell starts")
}

#[track_caller]
fn ends(output: &Output, code: i32) -> String {
    let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(code), "{text}");
    text
}

#[test]
fn guide_leads_from_an_empty_folder_to_a_pull_request() {
    let env = TestEnv::new(env!("CARGO_BIN_EXE_loopwright"));
    let steps = blocks("docs/guide.md", "sh");
    let [repository, agent, run, answer] = steps.as_slice() else { panic!("four blocks: {steps:?}") };
    std::fs::create_dir_all(env.home()).expect("a home");
    let first = ends(&paste(&env, env.root(), repository), 14);
    assert!(first.contains("tests ./run-tests.sh"), "{first}");

    let folder = env.root().join("sum");
    std::fs::write(folder.join("my-agent"), agent).expect("the agent is saved");
    let file = blocks("README.md", "markdown").swap_remove(0);
    std::fs::write(folder.join(".loopwright/loops/fix-tests.md"), file).expect("the loop is saved");
    let told = ends(&paste(&env, &folder, run), 10);
    for words in ["2 loops checked", "1 gate tried", "would send pull-request (draft)", "fix-tests escalated"] {
        assert!(told.contains(words), "{words}: {told}");
    }
    assert!(!told.contains("is not committed"), "{told}");

    let inbox = ends(&paste(&env, &folder, "loopwright inbox"), 0);
    let id = inbox.split_whitespace().find(|word| word.starts_with("a-r")).expect("an id");
    let shipped = ends(&paste(&env, &folder, &answer.replace("ID", id)), 0);
    assert!(shipped.contains("pull-request sent at "), "{shipped}");
}
