//! The Model Context Protocol over HTTP: one message in the body of a POST, its answer in the body of the reply (the
//! "streamable HTTP" transport without sessions and without a stream). The sender of the request is the client.

use super::reply::{self, WebReply};
use super::respond::RouteCall;
use crate::error::{CommandError, CommandErrorKind};
use crate::mcp::{McpHost, ToolOutput, answer_message, is_known_revision};
use crate::web::access::AccessRole;
use hyper::StatusCode;
use loopwright_core::BoxFuture;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

/// How long a client waits for a round that it starts; a longer one continues.
const START_WAIT: Duration = Duration::from_secs(5);

/// The header by which a client names the revision that it agreed on.
const REVISION: &str = "mcp-protocol-version";

/// Answers one message.
pub(super) async fn reply(call: &RouteCall<'_>, message: &[u8]) -> WebReply {
    let revision = call.headers.get(REVISION).map(|revision| revision.to_str().unwrap_or_default());
    if revision.is_some_and(|revision| !is_known_revision(revision)) {
        let text = "this revision of the protocol is not supported; see docs/mcp.md";
        return reply::error_document(StatusCode::BAD_REQUEST, CommandErrorKind::Usage, text, &[]);
    }
    match answer_message(&HttpHost { call }, message.trim_ascii()).await {
        Some(answer) => reply::document(StatusCode::OK, &answer),
        None => reply::empty(StatusCode::ACCEPTED),
    }
}

/// A client of the HTTP server.
struct HttpHost<'c> {
    call: &'c RouteCall<'c>,
}

impl McpHost for HttpHost<'_> {
    fn role(&self) -> AccessRole {
        self.call.sender.as_ref().map_or(AccessRole::View, |sender| sender.entry.role)
    }

    /// The sender was identified with this very request.
    fn admit(&self, needed: AccessRole) -> Result<(), String> {
        if self.role() >= needed { Ok(()) } else { Err("the role of this token is not enough".to_owned()) }
    }

    /// A command that began is finished even if the client leaves, because it may change something.
    fn run(&self, words: Vec<String>) -> BoxFuture<'_, Result<ToolOutput, CommandError>> {
        Box::pin(async move {
            let request = self.call.request(words).await?;
            let state = Arc::clone(self.call.state);
            let work = tokio::spawn(async move { state.control.perform_for_face(&state.own, request).await });
            let failed = |_| CommandError::failed("the command failed because of a bug");
            let output = work.await.map_err(failed)??;
            Ok(ToolOutput { is_done: !output.out.is_empty() || output.err.is_empty(), output })
        })
    }

    fn start(&self, words: Vec<String>) -> BoxFuture<'_, Result<Value, CommandError>> {
        Box::pin(async move {
            let words = std::iter::once("--json".to_owned()).chain(words).collect();
            let request = self.call.request(words).await?;
            let state = Arc::clone(self.call.state);
            let work = tokio::spawn(async move { state.control.perform_for_face(&state.own, request).await });
            match tokio::time::timeout(START_WAIT, work).await {
                Ok(Ok(answer)) => {
                    let document = answer?.document();
                    document.ok_or_else(|| CommandError::failed("the command printed no document"))
                }
                Ok(Err(_)) => Err(CommandError::failed("the command failed because of a bug")),
                Err(_) => Ok(json!({"schema": 1, "accepted": true, "next": "list_rounds shows the round"})),
            }
        })
    }
}
