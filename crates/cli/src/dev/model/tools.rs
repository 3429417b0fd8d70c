//! Maps the acts of a scenario to the offered tools and their arguments. Agents name the same few tools in many ways;
//! this module tries the names in turn and takes the arguments from each tool's own schema.

use super::model_request::{ModelProtocol, ModelRequest, OfferedTool, ToolArgument, ToolInputForm};
use super::reply::{ScenarioCall, ToolPayload};
use super::scenario::TurnAction;
use serde_json::{Map, Value, json};

/// Names of tools, by their purpose.
const WRITE: [&str; 4] = ["Write", "write_file", "write", "create"];
const EDIT: [&str; 3] = ["Edit", "replace", "edit"];
const READ: [&str; 4] = ["Read", "read_file", "read", "view"];
const SHELL: [&str; 6] = ["Bash", "exec_command", "bash", "run_shell_command", "shell", "shell_command"];
const STRUCTURED: [&str; 2] = ["StructuredOutput", "structured_output"];
const PATCH: [&str; 1] = ["apply_patch"];
/// Takes a program in JavaScript that calls the other tools.
const PROGRAM: [&str; 1] = ["exec"];

/// Names of arguments, by their content.
const PATHS: [&str; 5] = ["file_path", "filePath", "path", "absolute_path", "filename"];
const CONTENTS: [&str; 3] = ["content", "file_text", "text"];
const OLD: [&str; 5] = ["old_string", "oldString", "old_str", "old_text", "before"];
const NEW: [&str; 5] = ["new_string", "newString", "new_str", "new_text", "after"];
const COMMANDS: [&str; 2] = ["command", "cmd"];

/// The call that performs an act, without its id; `None` for acts that are text.
pub(super) fn plan_call(asked: &ModelRequest, act: &TurnAction) -> Option<ScenarioCall> {
    match act {
        TurnAction::Write(path, text) => Some(write(asked, path, text)),
        TurnAction::Replace(path, old, new) => Some(replace(asked, path, old, new)),
        TurnAction::Run(command) => Some(shell(asked, command)),
        TurnAction::Read(path) => Some(read(asked, path)),
        TurnAction::Call(name, arguments) => Some(named(asked, name, arguments)),
        TurnAction::Stage(name, text) => Some(into_variable(asked, &format!("LOOPWRIGHT_OUTBOX/{name}"), text)),
        TurnAction::End | TurnAction::Verdict(_) | TurnAction::Answer(_) | TurnAction::Refuse | TurnAction::Length => {
            None
        }
    }
}

/// The call that submits a structured answer, if the agent has a tool for it.
pub(super) fn structured_answer_call(asked: &ModelRequest, answer: &Value) -> Option<ScenarioCall> {
    let tool = find(asked, &STRUCTURED)?;
    Some(object(tool, answer.clone()))
}

/// Writes a verdict into the file that the environment names, if the agent can.
pub(super) fn verdict_file_call(asked: &ModelRequest, text: &str) -> Option<ScenarioCall> {
    let can = find(asked, &SHELL).or_else(|| find(asked, &PROGRAM)).is_some();
    can.then(|| into_variable(asked, "LOOPWRIGHT_VERDICT", text))
}

fn write(asked: &ModelRequest, path: &str, text: &str) -> ScenarioCall {
    if let Some(tool) = find(asked, &WRITE) {
        return filled(tool, &[(&PATHS, &absolute(asked, path)), (&CONTENTS, text)]);
    }
    if find(asked, &SHELL).is_none() && find(asked, &PATCH).is_none() && find(asked, &PROGRAM).is_none() {
        return missing(asked, "Write", json!({ "file_path": absolute(asked, path), "content": text }));
    }
    let patch = patch(path, text);
    match find(asked, &PATCH) {
        Some(tool) if tool.form == ToolInputForm::Text => text_call(tool, patch),
        _ if find(asked, &["exec_command"]).is_some() => shell(asked, &format!("apply_patch <<'EOF'\n{patch}EOF")),
        None if find(asked, &PROGRAM).is_some() => {
            program(asked, &format!("await tools.apply_patch({})", Value::from(patch)))
        }
        _ => shell(asked, &write_command(path, text)),
    }
}

fn replace(asked: &ModelRequest, path: &str, old: &str, new: &str) -> ScenarioCall {
    if let Some(tool) = find(asked, &EDIT) {
        return filled(tool, &[(&PATHS, &absolute(asked, path)), (&OLD, old), (&NEW, new)]);
    }
    if find(asked, &SHELL).is_none() && find(asked, &PROGRAM).is_none() {
        let arguments = json!({ "file_path": absolute(asked, path), "old_string": old, "new_string": new });
        return missing(asked, "Edit", arguments);
    }
    // Text goes through the environment, so that no part of it is read as a pattern.
    let swap = r"perl -0777 -pi -e 's/\Q$ENV{OLD}\E/$ENV{NEW}/'";
    shell(asked, &format!("OLD={} NEW={} {swap} {}", quoted(old), quoted(new), quoted(path)))
}

fn read(asked: &ModelRequest, path: &str) -> ScenarioCall {
    match find(asked, &READ) {
        Some(tool) => filled(tool, &[(&PATHS, &absolute(asked, path))]),
        None if find(asked, &SHELL).or_else(|| find(asked, &PROGRAM)).is_some() => {
            shell(asked, &format!("cat {}", quoted(path)))
        }
        None => missing(asked, "Read", json!({ "file_path": absolute(asked, path) })),
    }
}

/// Calls `TOOL` or `SERVER/TOOL`. Most agents put the name of the server before the tool's, or into its namespace. A tool
/// that is not offered is called anyway: some agents let their model search for the tools of servers.
fn named(asked: &ModelRequest, name: &str, arguments: &Value) -> ScenarioCall {
    let (server, last) = name.split_once('/').map_or((None, name), |(server, last)| (Some(server), last));
    let is_named = |tool: &&OfferedTool| {
        let Some(before) = tool.name.strip_suffix(last) else { return false };
        let is_of_server = server.is_none_or(|server| {
            before.contains(server) || tool.namespace.as_ref().is_some_and(|space| space.contains(server))
        });
        is_of_server && (before.is_empty() || before.ends_with(['_', '-']))
    };
    let payload = ToolPayload::Object(arguments.clone());
    if let Some(tool) = asked.tools.iter().find(is_named) {
        return call(tool, payload);
    }
    let space = server.map(|server| format!("mcp__{server}"));
    let (name, namespace) = match (asked.protocol, space) {
        (ModelProtocol::Responses, namespace) => (last.to_owned(), namespace),
        (_, Some(space)) => (format!("{space}__{last}"), None),
        (_, None) => (last.to_owned(), None),
    };
    ScenarioCall { id: String::new(), name, namespace, payload }
}

fn shell(asked: &ModelRequest, command: &str) -> ScenarioCall {
    if let Some(tool) = find(asked, &SHELL) {
        let list = tool.field(&COMMANDS).is_some_and(|field| field.kind == "array");
        let mut plan = filled(tool, &[(&COMMANDS, command)]);
        if let (true, ToolPayload::Object(arguments)) = (list, &mut plan.payload) {
            arguments["command"] = json!(["bash", "-lc", command]);
        }
        return plan;
    }
    if find(asked, &PROGRAM).is_some() {
        return program(asked, &format!("await tools.exec_command({{cmd: {}}})", Value::from(command)));
    }
    missing(asked, "Bash", json!({ "command": command, "description": "scripted" }))
}

fn program(asked: &ModelRequest, expression: &str) -> ScenarioCall {
    let source = format!("const result = {expression};\ntext(JSON.stringify(result));\n");
    match find(asked, &PROGRAM) {
        Some(tool) => text_call(tool, source),
        None => missing(asked, "Bash", json!({ "command": source })),
    }
}

/// A file whose name is in the environment, which only a shell can read.
fn into_variable(asked: &ModelRequest, place: &str, text: &str) -> ScenarioCall {
    let (variable, name) = place.split_once('/').map_or((place, None), |(variable, name)| (variable, Some(name)));
    let name = name.map(|name| format!("/{}", quoted(name))).unwrap_or_default();
    shell(asked, &format!("printf '%s' {} > \"${variable}\"{name}", quoted(text)))
}

/// Calls a tool that is not offered anyway, by the agent's own name for it: then the agent returns an error.
fn missing(asked: &ModelRequest, act: &str, mut arguments: Value) -> ScenarioCall {
    let names = match asked.protocol {
        ModelProtocol::Anthropic => ["Write", "Edit", "Read", "Bash"],
        ModelProtocol::Gemini => ["write_file", "replace", "read_file", "run_shell_command"],
        ModelProtocol::Responses => ["apply_patch", "apply_patch", "exec_command", "exec_command"],
        ModelProtocol::Chat => ["write", "edit", "read", "bash"],
    };
    let index = ["Write", "Edit", "Read", "Bash"].iter().position(|name| *name == act).unwrap_or(3);
    if asked.protocol == ModelProtocol::Responses && act == "Bash" {
        arguments = json!({ "cmd": arguments["command"] });
    }
    let name = names[index].to_owned();
    ScenarioCall { id: String::new(), name, namespace: None, payload: ToolPayload::Object(arguments) }
}

/// A tool by its name, or by its name after the name of a server.
fn find<'a>(asked: &'a ModelRequest, names: &[&str]) -> Option<&'a OfferedTool> {
    let plain = names.iter().find_map(|name| asked.tools.iter().find(|tool| tool.name == *name));
    plain.or_else(|| {
        let tail = |tool: &OfferedTool, name: &str| tool.name.rsplit_once("__").is_some_and(|(_, last)| last == name);
        names.iter().find_map(|name| asked.tools.iter().find(|tool| tail(tool, name)))
    })
}

/// Puts each value under the tool's own argument name, and a harmless value into the other required arguments.
fn filled(tool: &OfferedTool, values: &[(&[&str], &str)]) -> ScenarioCall {
    let mut arguments = Map::new();
    for (names, value) in values {
        let name = tool.field(names).map_or(names[0], |field| field.name.as_str());
        arguments.insert(name.to_owned(), Value::from(*value));
    }
    for field in tool.fields.iter().filter(|field| field.required) {
        arguments.entry(field.name.clone()).or_insert_with(|| harmless(field));
    }
    object(tool, Value::Object(arguments))
}

fn harmless(field: &ToolArgument) -> Value {
    match field.kind.as_str() {
        "boolean" => json!(false),
        "integer" | "number" => json!(0),
        "array" => json!([]),
        "object" => json!({}),
        _ => json!("scripted"),
    }
}

fn object(tool: &OfferedTool, arguments: Value) -> ScenarioCall {
    call(tool, ToolPayload::Object(arguments))
}

fn text_call(tool: &OfferedTool, text: String) -> ScenarioCall {
    call(tool, ToolPayload::Text(text))
}

/// A call without its id.
fn call(tool: &OfferedTool, payload: ToolPayload) -> ScenarioCall {
    ScenarioCall { id: String::new(), name: tool.name.clone(), namespace: tool.namespace.clone(), payload }
}

/// Some agents accept no relative paths; their prompt names the folder.
fn absolute(asked: &ModelRequest, path: &str) -> String {
    match asked.working_dir() {
        Some(folder) if !path.starts_with('/') => format!("{}/{path}", folder.trim_end_matches('/')),
        _ => path.to_owned(),
    }
}

fn patch(path: &str, text: &str) -> String {
    let lines: String = text.lines().map(|line| format!("+{line}\n")).collect();
    format!("*** Begin Patch\n*** Add File: {path}\n{lines}*** End Patch\n")
}

fn write_command(path: &str, text: &str) -> String {
    let folder = path.rsplit_once('/').map(|(folder, _)| format!("mkdir -p {} && ", quoted(folder)));
    format!("{}printf '%s' {} > {}", folder.unwrap_or_default(), quoted(text), quoted(path))
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}
