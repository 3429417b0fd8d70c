//! Servers of the Model Context Protocol that the user's configuration defines and the loop names: each real program
//! starts them and performs a call of their tools without asking, as maker, and most also as checker.

use crate::world::{World, model_of};

/// Both roles call the server's tool before they do their work.
const CALLS: &str = "\
@ maker
call fruit/ripe {\"colour\":\"red\"}
read calc.py
replace calc.py \"a - b\" \"a + b\"
stage pull-request.md \"Correct the sum\\n\\nIt was a difference.\"
say The sum is correct.

@ checker
call fruit/ripe {\"colour\":\"green\"}
read calc.py
verdict pass correctness=5@calc.py:2 scope=5@gate:tests tests=4@gate:tests
";

/// A server with one tool, on its standard streams. The answer of the tool has its argument, its variable, and whether
/// the user's key is among its variables.
const SERVER: &str = "
import json, os, sys
for line in sys.stdin:
    asked = json.loads(line)
    if 'id' not in asked:
        continue
    result = {}
    if asked['method'] == 'initialize':
        version = asked['params']['protocolVersion']
        result = {'protocolVersion': version, 'capabilities': {'tools': {}}, 'serverInfo': {'name': 'fruit', 'version': '1'}}
    if asked['method'] == 'tools/list':
        schema = {'type': 'object', 'properties': {'colour': {'type': 'string'}}, 'required': ['colour']}
        result = {'tools': [{'name': 'ripe', 'description': 'Names a fruit.', 'inputSchema': schema}]}
    if asked['method'] == 'tools/call':
        # In two parts: some agents keep this text in a variable.
        key = any('sk-' + 'real' in value for value in os.environ.values())
        words = [asked['params']['arguments']['colour'], os.environ.get('FRUIT_KIND'), 'key' if key else 'no key']
        result = {'content': [{'type': 'text', 'text': 'plum ' + ' '.join(map(str, words))}]}
    print(json.dumps({'jsonrpc': '2.0', 'id': asked['id'], 'result': result}), flush=True)
";

/// The role that has the server beside the maker, if any.
#[derive(Clone, Copy, PartialEq)]
enum ServedChecker {
    Yes,
    No,
}

/// A round whose maker uses the server with this agent, and its checker too or Claude without it: the answer of the tool
/// reaches the model of exactly these roles.
fn serves(program: &str, checker: ServedChecker) {
    let argv = serde_json::json!(["python3", "-c", SERVER]);
    let config = format!("mcp_servers: {{ fruit: {{ run: {argv}, env: {{ FRUIT_KIND: stone }} }} }}\n");
    let agent = |name: &str, more: &str| format!("{{ use: {name}, model: {}{more} }}", model_of(name));
    let maker = agent(program, ", mcp_servers: [fruit]");
    let (checks, second) = match checker {
        ServedChecker::Yes => (program, maker.clone()),
        ServedChecker::No => ("claude", agent("claude", "")),
    };
    let Some(world) = World::with_config(program, checks, CALLS, &config) else { return };
    world.write_loop(&maker, &second, "");
    let ended = world.run();
    let details = || format!("{ended:#}\n{}", world.transcripts());
    assert_eq!(ended["outcome"], "escalated", "{}", details());
    assert_eq!(ended["verdict"]["verdict"], "pass", "{}", details());
    let log = world.model.log();
    let hears = |role: &str, text: &str| {
        log.iter().any(|one| one["answer"]["block"] == role && one["body"].to_string().contains(text))
    };
    assert!(hears("maker", "plum red stone no key"), "{}", details());
    assert_eq!(hears("checker", "plum green stone no key"), checker == ServedChecker::Yes, "{}", details());
}

#[test]
fn claude_uses_the_server_that_its_loop_names() {
    serves("claude", ServedChecker::Yes);
}

#[test]
fn codex_uses_the_server_that_its_loop_names() {
    serves("codex", ServedChecker::Yes);
}

#[test]
fn opencode_uses_the_server_that_its_loop_names() {
    serves("opencode", ServedChecker::Yes);
}

#[test]
fn gemini_uses_the_server_that_its_loop_names() {
    serves("gemini", ServedChecker::Yes);
}

#[test]
fn goose_uses_the_server_that_its_loop_names() {
    serves("goose", ServedChecker::Yes);
}

#[test]
fn qwen_uses_the_server_that_its_loop_names_and_a_checker_without_it_does_not() {
    serves("qwen", ServedChecker::No);
}

#[test]
fn copilot_uses_the_server_that_its_loop_names_and_a_checker_without_it_does_not() {
    serves("copilot", ServedChecker::No);
}
