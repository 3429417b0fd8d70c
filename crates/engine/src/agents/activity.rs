//! Turns the lines of a transcript into the agent's activity: its messages, the tools that it used with their arguments,
//! and the results. It recognises the streams of all supported agents by their shape, so it also reads a program that
//! prints one of them. It is for display only: nothing here is evidence. The report shows the number of refused calls.

use serde_json::Value;
use std::collections::BTreeSet;

/// Longer lines are not parsed.
const PARSED_MAX: usize = 1 << 20;
/// The most calls whose ids are remembered.
const CALLS_MAX: usize = 1_000;
/// The longest text of an argument that is shown, in characters.
const ARGUMENT_MAX: usize = 160;

/// One thing that an agent did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AgentActivity {
    /// The agent wrote a message.
    Message(String),
    /// The agent started a tool.
    ToolCall {
        /// The tool's own name.
        name: String,
        /// Its arguments in one line.
        arguments: String,
    },
    /// A tool ended.
    ToolResult {
        /// How it ended.
        end: ToolEnd,
        /// The returned text.
        text: String,
    },
    /// The program reported something about itself: its model, a retry, an error.
    Notice(String),
    /// A line that is not part of a known stream, as it is.
    Output(String),
}

/// How a tool call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToolEnd {
    /// It returned a result.
    Done,
    /// It ran and failed.
    Failed,
    /// It was not allowed to run, or the role does not have the tool.
    Refused,
}

/// Reads the transcript of one start, line by line.
#[derive(Debug, Default)]
pub struct ActivityReader {
    /// Calls that were refused and whose result is still to come.
    refused: BTreeSet<String>,
    /// Calls of the Agent Client Protocol that were shown.
    announced: BTreeSet<String>,
    /// A message that arrives in pieces.
    message: String,
}

impl ActivityReader {
    /// A reader at the beginning of a transcript.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The activity in one more line.
    pub fn line(&mut self, line: &[u8]) -> Vec<AgentActivity> {
        let text = String::from_utf8_lossy(line);
        if line.len() > PARSED_MAX {
            return self.after_message(vec![AgentActivity::Notice(format!("a line of {} bytes", line.len()))]);
        }
        let event = text.trim_start().starts_with('{').then(|| serde_json::from_str::<Value>(&text).ok()).flatten();
        let done = event.and_then(|event| self.event(&event));
        match done {
            Some(done) => done,
            None if text.trim().is_empty() => Vec::new(),
            None => self.after_message(vec![AgentActivity::Output(text.trim_end().to_owned())]),
        }
    }

    /// The number of refused calls in one more line.
    pub(super) fn refusals_in(&mut self, line: &[u8]) -> usize {
        let is_refusal = |done: &AgentActivity| matches!(done, AgentActivity::ToolResult { end: ToolEnd::Refused, .. });
        self.line(line).iter().filter(|done| is_refusal(done)).count()
    }

    /// The rest of a message that arrived in pieces.
    pub fn finish(&mut self) -> Vec<AgentActivity> {
        self.after_message(Vec::new())
    }

    /// The activity in an event; `None` if it belongs to no known stream.
    fn event(&mut self, event: &Value) -> Option<Vec<AgentActivity>> {
        if event.get("jsonrpc").is_some() {
            return Some(self.acp(event));
        }
        let kind = event["type"].as_str()?;
        if kind.starts_with("item.") || kind.starts_with("turn.") || kind.starts_with("thread.") {
            return Some(self.after_message(codex(kind, event)));
        }
        if event.get("part").is_some() || (kind == "error" && event.get("sessionID").is_some()) {
            return Some(self.after_message(opencode(kind, event)));
        }
        if event.get("session_id").is_some() && event.get("timestamp").is_none() || event.get("uuid").is_some() {
            return Some(self.claude(kind, event));
        }
        match kind {
            "assistant" | "user" if event["message"]["content"].is_array() => Some(self.claude(kind, event)),
            "init" | "message" | "tool_use" | "tool_result" | "error" | "result" => self.gemini(kind, event),
            _ => None,
        }
    }

    fn after_message(&mut self, mut next: Vec<AgentActivity>) -> Vec<AgentActivity> {
        let message = std::mem::take(&mut self.message);
        if !message.trim().is_empty() {
            next.insert(0, AgentActivity::Message(message));
        }
        next
    }

    fn append(&mut self, text: &str) -> Vec<AgentActivity> {
        let room = PARSED_MAX.saturating_sub(self.message.len());
        self.message.push_str(&text[..text.floor_char_boundary(room)]);
        Vec::new()
    }

    fn refuse(&mut self, call: &Value) {
        if let Some(id) = call.as_str().filter(|_| self.refused.len() < CALLS_MAX) {
            self.refused.insert(id.to_owned());
        }
    }

    fn claude(&mut self, kind: &str, event: &Value) -> Vec<AgentActivity> {
        match (kind, event["subtype"].as_str()) {
            ("system", Some("init")) => vec![model(&event["model"])],
            ("system", Some("api_retry")) => vec![AgentActivity::Notice(retry(&event["error_status"]))],
            ("system", Some("permission_denied")) => {
                self.refuse(&event["tool_use_id"]);
                Vec::new()
            }
            ("assistant", _) => blocks(&event["message"]).filter_map(claude_block).collect(),
            ("user", _) => {
                let rejected = event["tool_result_meta"].as_array().into_iter().flatten();
                rejected
                    .filter(|meta| meta["permission_decision"]["decision"] == "reject")
                    .for_each(|meta| self.refuse(&meta["id"]));
                let results = blocks(&event["message"]).filter(|block| block["type"] == "tool_result");
                results.map(|block| self.claude_result(block)).collect()
            }
            ("result", _) if event["is_error"] == true => {
                vec![AgentActivity::Notice(format!("ended with an error: {}", plain(&event["result"])))]
            }
            _ => Vec::new(),
        }
    }

    fn claude_result(&mut self, block: &Value) -> AgentActivity {
        let refused = block["tool_use_id"].as_str().is_some_and(|id| self.refused.remove(id));
        let text = content_text(&block["content"]);
        let missing = block["is_error"] == true && text.contains("No such tool available");
        let end = match block["is_error"] == true {
            _ if refused || missing => ToolEnd::Refused,
            true => ToolEnd::Failed,
            false => ToolEnd::Done,
        };
        AgentActivity::ToolResult { end, text }
    }

    fn gemini(&mut self, kind: &str, event: &Value) -> Option<Vec<AgentActivity>> {
        let next = match kind {
            "init" => vec![model(&event["model"])],
            // The brief, repeated.
            "message" if event["role"] == "user" => Vec::new(),
            "message" if event["content"].is_string() => return Some(self.append(&plain(&event["content"]))),
            "tool_use" => {
                vec![AgentActivity::ToolCall {
                    name: event["tool_name"].as_str()?.to_owned(),
                    arguments: arguments(&event["parameters"]),
                }]
            }
            "tool_result" => vec![gemini_result(event)],
            "error" => vec![AgentActivity::Notice(plain(&event["message"]))],
            "result" if event["status"] == "error" => {
                vec![AgentActivity::Notice(format!("ended with an error: {}", plain(&event["error"]["message"])))]
            }
            "result" if event.get("status").is_some() => Vec::new(),
            _ => return None,
        };
        Some(self.after_message(next))
    }

    /// A call of a tool, once.
    fn announce(&mut self, call: &Value) -> Option<AgentActivity> {
        let is_new = call["toolCallId"]
            .as_str()
            .is_none_or(|id| self.announced.len() >= CALLS_MAX || self.announced.insert(id.to_owned()));
        let name = call["kind"].as_str().unwrap_or("tool").to_owned();
        is_new.then(|| AgentActivity::ToolCall { name, arguments: shortened(&plain(&call["title"])) })
    }

    fn acp(&mut self, event: &Value) -> Vec<AgentActivity> {
        let update = &event["params"]["update"];
        let next = match update["sessionUpdate"].as_str() {
            Some("agent_message_chunk") => return self.append(&content_text(&update["content"])),
            Some("tool_call") => self.announce(update).into_iter().collect(),
            Some("tool_call_update") => acp_result(update).into_iter().collect(),
            // Some agents announce a tool only by asking for its permission.
            _ if event["method"] == "session/request_permission" => {
                self.announce(&event["params"]["toolCall"]).into_iter().collect()
            }
            _ if event["error"].is_object() => vec![AgentActivity::Notice(plain(&event["error"]["message"]))],
            _ => return Vec::new(),
        };
        self.after_message(next)
    }
}

fn codex(kind: &str, event: &Value) -> Vec<AgentActivity> {
    let item = &event["item"];
    let call = |name: &str, arguments: String| AgentActivity::ToolCall { name: name.to_owned(), arguments };
    let one = match (kind, item["type"].as_str()) {
        ("item.completed", Some("agent_message")) => AgentActivity::Message(plain(&item["text"])),
        ("item.started", Some("command_execution")) => call("shell", shortened(&plain(&item["command"]))),
        ("item.started", Some("file_change")) => call("edit", changed_files(item)),
        ("item.started", Some("mcp_tool_call")) => call(&plain(&item["tool"]), arguments(&item["arguments"])),
        ("item.started", Some("web_search")) => call("web_search", shortened(&plain(&item["query"]))),
        ("item.completed", Some("command_execution" | "file_change" | "mcp_tool_call")) => codex_result(item),
        ("item.completed", Some("error")) => AgentActivity::Notice(plain(&item["message"])),
        ("turn.failed", _) => AgentActivity::Notice(plain(&event["error"]["message"])),
        _ => return Vec::new(),
    };
    vec![one]
}

fn codex_result(item: &Value) -> AgentActivity {
    let code = item["exit_code"].as_i64().filter(|code| *code != 0);
    let text = match (item["aggregated_output"].as_str().map(str::trim_end).filter(|text| !text.is_empty()), code) {
        (Some(output), Some(code)) => format!("exit code {code}\n{output}"),
        (Some(output), None) => output.to_owned(),
        (None, Some(code)) => format!("exit code {code}"),
        (None, None) => String::new(),
    };
    let end = match item["status"].as_str() {
        Some("declined") => ToolEnd::Refused,
        Some("failed") => ToolEnd::Failed,
        _ => ToolEnd::Done,
    };
    AgentActivity::ToolResult { end, text }
}

fn changed_files(item: &Value) -> String {
    let changes = item["changes"].as_array().into_iter().flatten();
    let names: Vec<String> =
        changes.map(|change| format!("{} {}", plain(&change["kind"]), plain(&change["path"]))).collect();
    shortened(&names.join(", "))
}

fn opencode(kind: &str, event: &Value) -> Vec<AgentActivity> {
    let part = &event["part"];
    match kind {
        "text" => vec![AgentActivity::Message(plain(&part["text"]))],
        "tool_use" => {
            let (state, name) = (&part["state"], plain(&part["tool"]));
            vec![AgentActivity::ToolCall { name, arguments: arguments(&state["input"]) }, opencode_result(state)]
        }
        "error" => vec![AgentActivity::Notice(plain(&event["error"]["data"]["message"]))],
        _ => Vec::new(),
    }
}

fn opencode_result(state: &Value) -> AgentActivity {
    if state["status"] == "error" {
        let text = plain(&state["error"]);
        let refused = ["unavailable tool", "rejected permission", "rule which prevents"];
        let refused = refused.iter().any(|words| text.contains(words));
        return AgentActivity::ToolResult { end: if refused { ToolEnd::Refused } else { ToolEnd::Failed }, text };
    }
    let text = plain(&state["output"]);
    match state["metadata"]["exit"].as_i64().filter(|code| *code != 0) {
        Some(code) => AgentActivity::ToolResult { end: ToolEnd::Failed, text: format!("exit code {code}\n{text}") },
        None => AgentActivity::ToolResult { end: ToolEnd::Done, text },
    }
}

fn gemini_result(event: &Value) -> AgentActivity {
    let text = plain(&event["output"]);
    let end = match (event["status"].as_str(), event["error"]["type"].as_str()) {
        (Some("error"), Some("tool_not_registered" | "policy_violation")) => ToolEnd::Refused,
        (Some("error"), _) => ToolEnd::Failed,
        _ if text.starts_with("Command exited with code") => ToolEnd::Failed,
        _ => ToolEnd::Done,
    };
    AgentActivity::ToolResult { end, text }
}

fn claude_block(block: &Value) -> Option<AgentActivity> {
    match block["type"].as_str()? {
        "text" => Some(AgentActivity::Message(plain(&block["text"]))),
        "tool_use" => {
            Some(AgentActivity::ToolCall { name: plain(&block["name"]), arguments: arguments(&block["input"]) })
        }
        _ => None,
    }
}

fn acp_result(update: &Value) -> Option<AgentActivity> {
    let content = update["content"].as_array().into_iter().flatten().map(|part| content_text(&part["content"]));
    let text: Vec<String> = content.filter(|text| !text.is_empty()).collect();
    let text = text.join("\n");
    let words = ["declined to run", "rejected permission", "denied", "Permission"];
    let end = match update["status"].as_str()? {
        "completed" => ToolEnd::Done,
        "failed" if words.iter().any(|word| text.contains(word)) => ToolEnd::Refused,
        "failed" => ToolEnd::Failed,
        _ => return None,
    };
    Some(AgentActivity::ToolResult { end, text })
}

fn blocks(message: &Value) -> impl Iterator<Item = &Value> {
    message["content"].as_array().into_iter().flatten()
}

/// The text of a content: a string, one block, or a list of blocks.
fn content_text(content: &Value) -> String {
    match content {
        Value::Array(parts) => {
            parts.iter().map(content_text).filter(|text| !text.is_empty()).collect::<Vec<_>>().join("\n")
        }
        Value::Object(part) => part.get("text").map(plain).unwrap_or_default(),
        other => plain(other),
    }
}

fn model(name: &Value) -> AgentActivity {
    AgentActivity::Notice(format!("started with the model {}", name.as_str().unwrap_or("unknown")))
}

fn retry(status: &Value) -> String {
    match status.as_u64() {
        Some(status) => format!("the provider answered {status}; the agent retries"),
        None => "the provider did not answer; the agent retries".to_owned(),
    }
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

/// The arguments of a tool in one line: a command or a path as it is, and the size of a text.
fn arguments(input: &Value) -> String {
    let Some(input) = input.as_object() else { return shortened(&plain(input)) };
    let texts = ["command", "file_path", "filePath", "path", "pattern", "query", "url", "dir_path"];
    let mut parts: Vec<String> =
        texts.iter().filter_map(|key| input.get(*key)).map(|value| shortened(&plain(value))).collect();
    let edits = [("old_string", "new_string"), ("oldString", "newString"), ("before", "after")];
    for (old, new) in edits {
        if let (Some(old), Some(new)) = (input.get(old), input.get(new)) {
            parts.push(format!("{:?} → {:?}", quoted(old), quoted(new)));
        }
    }
    if let Some(content) = input.get("content").and_then(Value::as_str) {
        let lines = content.lines().count();
        parts.push(format!("({lines} {})", if lines == 1 { "line" } else { "lines" }));
    }
    if parts.is_empty() && !input.is_empty() {
        parts.push(shortened(&Value::Object(input.clone()).to_string()));
    }
    parts.join(" ")
}

fn quoted(value: &Value) -> String {
    let text = plain(value);
    let short: String = text.chars().take(40).collect();
    if short.len() < text.len() { format!("{short}…") } else { short }
}

fn shortened(text: &str) -> String {
    let mut lines = text.trim().lines();
    let line = lines.next().unwrap_or_default();
    let short: String = line.chars().take(ARGUMENT_MAX).collect();
    if short.len() < line.len() || lines.next().is_some() { format!("{short} …") } else { short }
}

#[cfg(test)]
mod tests;
