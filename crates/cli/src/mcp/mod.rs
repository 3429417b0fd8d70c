//! The server of the Model Context Protocol: on standard input and output (`loopwright mcp`), and for the HTTP server of
//! the daemon. It acts for a person or a token, with a role. Every tool is a command of the command line. The server decides
//! nothing about rounds.

mod host;
mod protocol;
mod tools;

pub(crate) use host::{McpHost, ToolOutput};

use crate::context::CommandContext;
use crate::control::CommandRunner;
use crate::detached;
use crate::error::{CommandError, CommandExit, VerbResult};
use crate::output::CommandOutput;
use crate::web::access::{AccessRegistry, AccessRole};
use loopwright_core::BoxFuture;
use loopwright_core::secrets::redact;
use protocol::{McpError, McpRequest};
use serde_json::{Map, Value, json};
use std::io::{self, BufRead as _, Read as _};
use std::sync::Arc;
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;
use tools::{McpTool, TOOLS, ToolAnswer};

/// The longest message, in bytes.
const MESSAGE_MAX: u64 = 1 << 20;
/// Calls that run at a time; further ones wait.
const CALLS_MAX: usize = 8;
/// The longest answer of a tool, in bytes. A model reads it, so more is of no use.
const ANSWER_MAX: usize = 200 << 10;

/// The server.
struct McpServer {
    role: AccessRole,
    cx: CommandContext,
    runner: CommandRunner,
    calls: Semaphore,
    registry: AccessRegistry,
}

/// Serves until the client closes standard input; calls that run then are finished.
pub(crate) async fn serve(cx: &CommandContext, role: AccessRole) -> VerbResult {
    let (runner, calls) = (CommandRunner::new(cx)?, Semaphore::new(CALLS_MAX));
    let registry = AccessRegistry::new(&cx.state_dir()?.0);
    let server = Arc::new(McpServer { role, cx: runner.quiet_context(), runner, calls, registry });
    let (sender, answers) = mpsc::channel(CALLS_MAX);
    let lines = read_lines()?;
    let ((), ()) = tokio::join!(read_all(server, lines, sender), write_all(&cx.out, answers));
    Ok(CommandExit::DONE)
}

/// Reads standard input in a thread of its own: a read of a pipe cannot be cancelled.
fn read_lines() -> Result<mpsc::Receiver<Vec<u8>>, CommandError> {
    let (sender, lines) = mpsc::channel(CALLS_MAX);
    let read = move || {
        let mut input = io::stdin().lock();
        loop {
            let mut line = Vec::new();
            match input.by_ref().take(MESSAGE_MAX).read_until(b'\n', &mut line) {
                Ok(0) | Err(_) => return,
                Ok(_) if sender.blocking_send(line).is_err() => return,
                Ok(_) => {}
            }
        }
    };
    let spawned = std::thread::Builder::new().name("messages".to_owned()).spawn(read);
    spawned.map_err(|error| CommandError::failed(format!("read standard input: {error}")))?;
    Ok(lines)
}

async fn write_all(out: &CommandOutput, mut answers: mpsc::Receiver<Value>) {
    while let Some(answer) = answers.recv().await {
        out.script(&answer.to_string());
    }
}

async fn read_all(server: Arc<McpServer>, mut lines: mpsc::Receiver<Vec<u8>>, to: mpsc::Sender<Value>) {
    let mut work = JoinSet::new();
    while let Some(line) = lines.recv().await {
        if !line.ends_with(b"\n") && line.len() as u64 >= MESSAGE_MAX {
            // The rest of the line could look like a message, so the connection ends.
            let _ = to.send(protocol::error(&Value::Null, &McpError::new(-32600, "this message is too long"))).await;
            break;
        }
        if line.trim_ascii().is_empty() {
            continue;
        }
        let (server, to) = (Arc::clone(&server), to.clone());
        work.spawn(async move {
            if let Some(answer) = answer_message(server.as_ref(), line.trim_ascii()).await {
                // A client that left needs no answer.
                let _ = to.send(answer).await;
            }
        });
        while work.try_join_next().is_some() {}
    }
    while work.join_next().await.is_some() {}
}

/// The answer to one message, whatever brought it; `None` for a message that needs none.
pub(crate) async fn answer_message(host: &dyn McpHost, message: &[u8]) -> Option<Value> {
    match protocol::parse(message) {
        Ok(Some(request)) => Some(answer(host, &request).await),
        Ok(None) => None,
        Err(refused) => Some(protocol::error(&refused.0, &refused.1)),
    }
}

/// Whether a client may name this revision.
pub(crate) fn is_known_revision(revision: &str) -> bool {
    protocol::is_known(revision)
}

async fn answer(host: &dyn McpHost, request: &McpRequest) -> Value {
    let answered = match request.method.as_str() {
        "initialize" => Ok(protocol::initialize(&request.params)),
        "server/discover" => Ok(protocol::discover()),
        "ping" => Ok(json!({})),
        "tools/list" => Ok(json!({"tools": tools_of(host.role())})),
        "tools/call" => call(host, &request.params).await,
        method => Err(McpError::no_method(method)),
    };
    match answered {
        Ok(result) => protocol::result(request, result),
        Err(error) => protocol::error(&request.id, &error),
    }
}

/// The tools of a role.
fn tools_of(role: AccessRole) -> Vec<Value> {
    TOOLS.iter().filter(|tool| tool.role <= role).map(McpTool::description).collect()
}

async fn call(host: &dyn McpHost, params: &Map<String, Value>) -> Result<Value, McpError> {
    let name = params.get("name").and_then(Value::as_str).unwrap_or_default();
    let tool = tools::find(name).ok_or_else(|| McpError::params(format!("there is no tool `{name}`")))?;
    let none = Map::new();
    let given = match params.get("arguments") {
        None | Some(Value::Null) => &none,
        Some(Value::Object(given)) => given,
        Some(_) => return Err(McpError::params("`arguments` is no object")),
    };
    if tool.role > host.role() {
        let (needed, own) = (tool.role.word(), host.role().word());
        return Ok(failure(&format!("`{}` needs the role `{needed}`; this server has `{own}`", tool.name)));
    }
    if let Err(text) = host.admit(tool.role) {
        return Ok(failure(&format!("`{}`: {text}", tool.name)));
    }
    let words = match tool.words(given) {
        Ok(words) => words,
        Err(text) => return Ok(failure(&text)),
    };
    Ok(match perform(host, tool, words, McpTool::lines(given)).await {
        Ok(answer) => answer,
        Err(error) => failure(&with_hints(&error)),
    })
}

async fn perform(host: &dyn McpHost, tool: &McpTool, words: Vec<String>, lines: usize) -> Result<Value, CommandError> {
    match tool.answer {
        ToolAnswer::Detached => {
            let document = host.start(words).await?;
            let has_failed = document.get("error").is_some();
            Ok(if has_failed { failure(&error_text(&document)) } else { success(&document) })
        }
        ToolAnswer::Document => {
            let words = std::iter::once("--json".to_owned()).chain(words).collect();
            match host.run(words).await?.output.document() {
                Some(document) if document.get("error").is_some() => Ok(failure(&error_text(&document))),
                Some(document) => Ok(success(&document)),
                None => Ok(failure("the command printed no document")),
            }
        }
        ToolAnswer::LastLines => {
            let answer = host.run(words).await?;
            if !answer.is_done {
                return Ok(failure(answer.output.err.trim()));
            }
            let text = redact(&answer.output.out);
            let all: Vec<&str> = text.lines().collect();
            let last = all.get(all.len().saturating_sub(lines)..).unwrap_or_default().join("\n");
            Ok(json!({"content": [{"type": "text", "text": end_of(&last)}], "isError": false}))
        }
    }
}

impl McpHost for McpServer {
    fn role(&self) -> AccessRole {
        self.role
    }

    /// The token is checked at each call, because it may have been revoked since.
    fn admit(&self, needed: AccessRole) -> Result<(), String> {
        let Some(secret) = self.cx.token() else { return Ok(()) };
        match self.registry.find(secret) {
            Some(entry) if entry.role >= needed => Ok(()),
            Some(entry) => {
                let (needed, own) = (needed.word(), entry.role.word());
                Err(format!("it needs the role `{needed}`; the token of this server has `{own}`"))
            }
            None => Err("the token of this server has expired or was revoked".to_owned()),
        }
    }

    fn run(&self, words: Vec<String>) -> BoxFuture<'_, Result<ToolOutput, CommandError>> {
        Box::pin(async move {
            // The semaphore is never closed.
            let _place = self.calls.acquire().await;
            let answer = self.runner.run(words).await?;
            Ok(ToolOutput { is_done: answer.exit == CommandExit::DONE, output: answer.output })
        })
    }

    fn start(&self, words: Vec<String>) -> BoxFuture<'_, Result<Value, CommandError>> {
        Box::pin(async move {
            let _place = self.calls.acquire().await;
            detached::start_round(&self.cx, self.runner.whole_words(words)).await
        })
    }
}

/// The last bytes of a text that fit into an answer.
fn end_of(text: &str) -> &str {
    let from = text.ceil_char_boundary(text.len().saturating_sub(ANSWER_MAX));
    text.get(from..).unwrap_or_default()
}

/// A document as the result of a tool. One that is too long is cut, and the text says so.
fn success(document: &Value) -> Value {
    let text = document.to_string();
    if text.len() <= ANSWER_MAX {
        let content = json!([{"type": "text", "text": text}]);
        return json!({"content": content, "structuredContent": document, "isError": false});
    }
    let cut = text.get(..text.floor_char_boundary(ANSWER_MAX)).unwrap_or_default();
    let note = format!("this answer has {} bytes; the first {} follow", text.len(), cut.len());
    json!({"content": [{"type": "text", "text": note}, {"type": "text", "text": cut}], "isError": false})
}

fn failure(text: &str) -> Value {
    json!({"content": [{"type": "text", "text": text}], "isError": true})
}

fn with_hints(error: &CommandError) -> String {
    std::iter::once(error.text.as_str()).chain(error.hints.iter().map(String::as_str)).collect::<Vec<_>>().join("\n")
}

/// The text of an error document, with its hints.
fn error_text(document: &Value) -> String {
    let text = document.pointer("/error/text").and_then(Value::as_str).unwrap_or_default();
    let hints = document.pointer("/error/hints").and_then(Value::as_array).into_iter().flatten();
    std::iter::once(text).chain(hints.filter_map(Value::as_str)).collect::<Vec<_>>().join("\n")
}
