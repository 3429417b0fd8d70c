//! The activity in the recorded streams of all agents, and in lines that are no stream.

use super::*;
use expect_test::{Expect, expect};
use std::path::Path;

fn recorded(path: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/streams");
    std::fs::read_to_string(folder.join(path)).expect("the recorded stream")
}

fn activity_of(text: &str) -> String {
    let mut reader = ActivityReader::new();
    let mut all: Vec<AgentActivity> = text.lines().flat_map(|line| reader.line(line.as_bytes())).collect();
    all.extend(reader.finish());
    all.iter().map(shown).collect()
}

fn shown(activity: &AgentActivity) -> String {
    match activity {
        AgentActivity::Message(text) => format!("| {text}\n"),
        AgentActivity::ToolCall { name, arguments } => format!("> {name} {arguments}\n"),
        AgentActivity::ToolResult { end, text } => format!("< {end:?} {}\n", text.lines().next().unwrap_or_default()),
        AgentActivity::Notice(text) => format!("* {text}\n"),
        AgentActivity::Output(text) => format!("- {text}\n"),
    }
}

fn check(path: &str, expected: &Expect) {
    expected.assert_eq(&activity_of(&recorded(path)));
}

/// The recording of a conversation has both sides; a transcript has the agent's.
fn check_conversation(path: &str, expected: &Expect) {
    let events = recorded(path)
        .lines()
        .filter_map(|line| {
            let line: Value = serde_json::from_str(line).expect("JSON");
            line.get("agent").map(|event| format!("{event}\n"))
        })
        .collect::<String>();
    expected.assert_eq(&activity_of(&events));
}

#[test]
fn claude_shows_messages_tools_results_and_refusals() {
    check(
        "claude-2.1.325/edit-and-run.jsonl",
        &expect![[r#"
        * started with the model claude-opus-5-5
        | I will mend it.
        > Write /recording/work/notes.md (2 lines)
        < Done File created successfully at: /recording/work/notes.md (file state is current in your context — no need to Read it back)
        > Edit /recording/work/calc.py "a - b" → "a + b"
        < Done The file /recording/work/calc.py has been updated successfully.
        > Bash python3 calc.py && echo "to stderr" >&2
        < Done 5
        > Bash exit 3
        < Failed Exit code 3
        > Read /recording/work/calc.py
        < Done 1	def add(a, b):
        | The sum is mended.
    "#]],
    );
    check(
        "claude-2.1.325/denied.jsonl",
        &expect![[r#"
        * started with the model claude-opus-5-5
        | I will write it anyway.
        > Write /recording/work/forbidden.md (1 line)
        < Refused Claude requested permissions to write to /recording/work/forbidden.md, but you haven't granted it yet.
        > Bash touch forbidden.txt
        < Refused touch in '/recording/work/forbidden.txt' needs approval. The path is inside the working directories for this session ('/recording/work'), and Claude Code asks before a shell command creates, changes or removes files there.
        | I was not allowed to.
    "#]],
    );
}

#[test]
fn codex_shows_messages_tools_and_results() {
    check(
        "codex-0.166.0/edit-and-run.jsonl",
        &expect![[r#"
        | I will mend it.
        > edit add /recording/work/notes.md
        < Done 
        > shell /bin/bash -lc "OLD='a - b' NEW='a + b' perl -0777 -pi -e 's/\\Q"'$ENV{OLD}'"\\E/"'$ENV{NEW}/'"' 'calc.py'"
        < Done 
        > shell /bin/bash -lc 'python3 calc.py && echo "to stderr" >&2'
        < Done 5
        > shell /bin/bash -lc 'exit 3'
        < Failed exit code 3
        > shell /bin/bash -lc "cat 'calc.py'"
        < Done def add(a, b):
        | The sum is mended.
    "#]],
    );
}

#[test]
fn gemini_shows_messages_tools_results_and_refusals() {
    check(
        "gemini-0.61.0/edit-and-run.jsonl",
        &expect![[r#"
        * started with the model gemini-2.5-pro
        | I will mend it.
        > write_file notes.md (2 lines)
        < Done 
        > replace calc.py "a - b" → "a + b"
        < Done 
        > run_shell_command python3 calc.py && echo "to stderr" >&2
        < Done 5
        > run_shell_command exit 3
        < Failed Command exited with code: 3
        > read_file calc.py
        < Done 
        | The sum is mended.
    "#]],
    );
    check(
        "gemini-0.61.0/denied.jsonl",
        &expect![[r#"
        * started with the model gemini-2.5-pro
        | I will write it anyway.
        > write_file forbidden.md (1 line)
        < Refused Tool "write_file" not found. Did you mean one of: "read_file", "update_topic", "grep_search"?
        > run_shell_command touch forbidden.txt
        < Refused Tool "run_shell_command" not found. Did you mean one of: "update_topic", "grep_search", "invoke_agent"?
        | I was not allowed to.
    "#]],
    );
}

#[test]
fn opencode_shows_messages_tools_results_and_refusals() {
    check(
        "opencode-1.18.33/edit-and-run.jsonl",
        &expect![[r#"
        | I will mend it.
        > write /recording/work/notes.md (2 lines)
        < Done Wrote file successfully.
        > edit /recording/work/calc.py "a - b" → "a + b"
        < Done Edit applied successfully.
        > bash python3 calc.py && echo "to stderr" >&2
        < Done 5
        > bash exit 3
        < Failed exit code 3
        > read /recording/work/calc.py
        < Done <path>/recording/work/calc.py</path>
        | The sum is mended.
    "#]],
    );
    check(
        "opencode-1.18.33/denied.jsonl",
        &expect![[r#"
        > write /recording/work/forbidden.md (1 line)
        < Refused Model tried to call unavailable tool 'invalid'. Available tools: read.
        | I will write it anyway.
        > bash touch forbidden.txt
        < Refused Model tried to call unavailable tool 'invalid'. Available tools: read.
        | I was not allowed to.
    "#]],
    );
}

#[test]
fn acp_shows_messages_tools_results_and_refusals() {
    check_conversation(
        "gemini-0.61.0/acp/edit-and-run.jsonl",
        &expect![[r#"
        | I will mend it.
        > edit Writing to notes.md
        < Done 
        > edit calc.py: a - b => a + b
        < Done 
        > execute python3 calc.py && echo "to stderr" >&2
        < Done 
        > execute exit 3
        < Done 
        > read calc.py
        < Done 
        | The sum is mended.
    "#]],
    );
    check_conversation(
        "gemini-0.61.0/acp/denied.jsonl",
        &expect![[r#"
        | I will write it anyway.
        > edit Writing to forbidden.md
        > execute touch forbidden.txt
        | I was not allowed to.
    "#]],
    );
    check_conversation(
        "goose-0.20.1/acp/denied.jsonl",
        &expect![[r#"
        | I will write it anyway.
        > tool write · /recording/work/forbidden.md
        < Refused The user has declined to run this tool. DO NOT attempt to call this tool again. If there are no alternative methods to proceed, clearly explain the situation and STOP.
        > tool shell · touch forbidden.txt
        < Refused The user has declined to run this tool. DO NOT attempt to call this tool again. If there are no alternative methods to proceed, clearly explain the situation and STOP.
        | I was not allowed to.
    "#]],
    );
    check_conversation(
        "opencode-1.18.33/acp/denied.jsonl",
        &expect![[r#"
        | I will write it anyway.
        > edit write
        < Refused The user rejected permission to use this specific tool call.
    "#]],
    );
}

#[test]
fn other_lines_are_output_and_no_line_is_lost_or_panics() {
    expect![[r#"
        - plain text
        - {"type":"progress","n":1}
        - {broken
        - {"type":"message","role":"assistant","content":"cut
    "#]].assert_eq(&activity_of(
        "plain text\n\n{\"type\":\"progress\",\"n\":1}\n{broken\n{\"type\":\"message\",\"role\":\"assistant\",\"content\":\"cut ",
    ));
    let long = format!("{{\"type\":\"{}\"}}", "x".repeat(PARSED_MAX));
    assert_eq!(
        ActivityReader::new().line(long.as_bytes()),
        [AgentActivity::Notice("a line of 1048587 bytes".to_owned())]
    );
    for odd in [
        "{}",
        "[]",
        "{\"type\":3}",
        "{\"jsonrpc\":\"2.0\"}",
        "{\"type\":\"item.completed\"}",
        "{\"type\":\"user\",\"uuid\":1}",
    ] {
        ActivityReader::new().line(odd.as_bytes());
    }
}
