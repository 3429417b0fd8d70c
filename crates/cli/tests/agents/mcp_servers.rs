//! Servers of the Model Context Protocol that the user's configuration defines and the loop names: each real program
//! starts them, offers their tools to its model, and performs a call without asking, as maker and as checker.

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

/// A round whose roles use the server with this agent: the answer of its tool reaches the model of both.
fn serves(program: &str, used: &str) {
    let argv = serde_json::json!(["python3", "-c", SERVER]);
    let config = format!("mcp_servers: {{ fruit: {{ run: {argv}, env: {{ FRUIT_KIND: stone }} }} }}\n");
    let Some(world) = World::with_config(program, program, CALLS, &config) else { return };
    let agent = format!("{{ use: {used}, model: {}, mcp_servers: [fruit] }}", model_of(program));
    world.write_loop(&agent, &agent, "");
    let ended = world.run();
    let details = || format!("{ended:#}\n{}", world.transcripts());
    assert_eq!(ended["outcome"], "escalated", "{}", details());
    assert_eq!(ended["verdict"]["verdict"], "pass", "{}", details());
    let log = world.model.log();
    let asks = |role: &str, text: &str| {
        log.iter().any(|one| one["answer"]["block"] == role && one["body"].to_string().contains(text))
    };
    assert!(asks("maker", "plum red stone no key"), "{}", details());
    assert!(asks("checker", "plum green stone no key"), "{}", details());
}

#[test]
fn claude_uses_the_server_that_its_loop_names() {
    serves("claude", "claude");
}

#[test]
fn codex_uses_the_server_that_its_loop_names() {
    serves("codex", "codex");
}

#[test]
fn opencode_uses_the_server_that_its_loop_names() {
    serves("opencode", "opencode");
}

#[test]
fn gemini_uses_the_server_that_its_loop_names() {
    serves("gemini", "gemini");
}

#[test]
fn goose_uses_the_server_that_its_loop_names() {
    serves("goose", "goose");
}

#[test]
fn qwen_uses_the_server_that_its_loop_names() {
    serves("qwen", "qwen");
}

#[test]
fn copilot_uses_the_server_that_its_loop_names() {
    serves("copilot", "copilot");
}
