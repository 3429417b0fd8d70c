//! A small client of the Agent Client Protocol, for recording both sides of a conversation: it starts a session, sends
//! the prompt, answers every request of the agent, and ends with the prompt's answer. It makes no decisions.

use super::case::LaunchMode;
use super::launch::RecordingDir;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout};

/// One conversation. A line of its recording is `{"client":MESSAGE}` or `{"agent":MESSAGE}`, the agent's as it came.
pub(super) struct AcpRecorder<'p> {
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
    place: &'p RecordingDir,
    how: LaunchMode,
    recorded: Vec<u8>,
    calls: u64,
}

impl<'p> AcpRecorder<'p> {
    pub(super) fn start(child: &mut Child, place: &'p RecordingDir, how: LaunchMode) -> Result<Self, String> {
        let stdin = child.stdin.take().ok_or("the agent has no input")?;
        let stdout = BufReader::new(child.stdout.take().ok_or("the agent has no output")?);
        Ok(Self { stdin, stdout, place, how, recorded: Vec::new(), calls: 0 })
    }

    /// Runs the conversation to the end of the prompt, or until the agent stops, and returns both sides.
    pub(super) fn record(mut self, prompt: &str) -> Vec<u8> {
        // The agent reads files itself: one of the agents accepts no error for a file that does not exist yet.
        let files = json!({ "readTextFile": false, "writeTextFile": true });
        let capabilities = json!({ "fs": files, "terminal": false });
        let cwd = self.place.file("work");
        // An error that ends a conversation is the last entry of its recording.
        let _ = self.call("initialize", &json!({ "protocolVersion": 1, "clientCapabilities": capabilities }));
        let session = self.call("session/new", &json!({ "cwd": cwd, "mcpServers": [] }));
        if let Some(session) = session.as_ref().and_then(|answer| answer["result"]["sessionId"].as_str()) {
            let text = json!([{ "type": "text", "text": prompt }]);
            let _ = self.call("session/prompt", &json!({ "sessionId": session, "prompt": text }));
        }
        self.recorded
    }

    /// Sends a request and reads until its answer arrives; `None` if the agent ends first.
    fn call(&mut self, method: &str, params: &Value) -> Option<Value> {
        self.calls += 1;
        let id = json!(self.calls);
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
        let mut line = String::new();
        loop {
            line.clear();
            if !self.stdout.read_line(&mut line).is_ok_and(|count| count > 0) {
                return None;
            }
            let Ok(message) = serde_json::from_str::<Value>(&line) else { continue };
            self.note("agent", line.trim_end());
            match (message.get("method"), message.get("id")) {
                (Some(_), Some(_)) => self.answer(&message),
                (None, Some(answered)) if *answered == id => return Some(message),
                _ => {}
            }
        }
    }

    fn answer(&mut self, request: &Value) {
        let params = &request["params"];
        let answer = match request["method"].as_str() {
            Some("session/request_permission") => self.permission(params),
            Some("fs/read_text_file") => self.read(params),
            Some("fs/write_text_file") => self.write(params),
            _ => Err((-32601, "method not found".to_owned())),
        };
        let id = &request["id"];
        self.send(&match answer {
            Ok(result) => json!({ "jsonrpc": "2.0", "id": id, "result": result }),
            Err((code, text)) => json!({ "jsonrpc": "2.0", "id": id, "error": { "code": code, "message": text } }),
        });
    }

    fn permission(&self, params: &Value) -> Result<Value, (i64, String)> {
        let wanted = if self.how == LaunchMode::AcpDenied { "reject_once" } else { "allow_once" };
        let options = params["options"].as_array().map_or(&[][..], Vec::as_slice);
        let option = options.iter().find(|option| option["kind"] == wanted);
        let id = option.map(|option| option["optionId"].clone()).ok_or((-32602, format!("no option {wanted}")))?;
        Ok(json!({ "outcome": { "outcome": "selected", "optionId": id } }))
    }

    fn read(&self, params: &Value) -> Result<Value, (i64, String)> {
        let text = std::fs::read_to_string(params["path"].as_str().unwrap_or_default());
        text.map(|content| json!({ "content": content })).map_err(|error| (-32002, error.to_string()))
    }

    fn write(&self, params: &Value) -> Result<Value, (i64, String)> {
        let path = self.place.file("work").join(params["path"].as_str().unwrap_or_default());
        if !path.starts_with(&self.place.root) {
            return Err((-32602, "outside of the recording".to_owned()));
        }
        let written = std::fs::write(path, params["content"].as_str().unwrap_or_default());
        written.map(|()| json!({})).map_err(|error| (-32603, error.to_string()))
    }

    fn send(&mut self, message: &Value) {
        self.note("client", &message.to_string());
        // If the agent has ended, the next read notices it.
        let _ = writeln!(self.stdin, "{message}").and_then(|()| self.stdin.flush());
    }

    fn note(&mut self, who: &str, message: &str) {
        self.recorded.extend(format!("{{\"{who}\":{message}}}\n").bytes());
    }
}
