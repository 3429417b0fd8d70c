//! The performer of the commands of tools: a process of its own, or the daemon for a client of its HTTP server.

use crate::control::FaceAnswer;
use crate::error::CommandError;
use crate::web::access::AccessRole;
use loopwright_core::BoxFuture;
use serde_json::Value;

/// The output of a command.
pub(crate) struct ToolOutput {
    /// Whether the command succeeded.
    pub(crate) is_done: bool,
    pub(crate) output: FaceAnswer,
}

/// Performs commands with the rights of one person or token.
pub(crate) trait McpHost: Send + Sync {
    /// The role of the client.
    fn role(&self) -> AccessRole;

    /// Checks again that the client has a role, or says why it has not.
    fn admit(&self, needed: AccessRole) -> Result<(), String>;

    /// Runs a command to its end.
    fn run(&self, words: Vec<String>) -> BoxFuture<'_, Result<ToolOutput, CommandError>>;

    /// Starts a round that continues without the client.
    fn start(&self, words: Vec<String>) -> BoxFuture<'_, Result<Value, CommandError>>;
}
