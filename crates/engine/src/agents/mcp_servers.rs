//! Servers of the Model Context Protocol that an agent starts for its tools, in the form that each program expects. They
//! run inside the sandbox of the agent, with its network and without credentials.

use super::{AgentError, AgentInvocation, tools};
use loopwright_core::config::McpServerConfig;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// A server with its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct McpServer {
    /// Its name in the user's configuration, which is a part of the names of its tools.
    pub name: String,
    /// Its program.
    pub program: String,
    /// The arguments of the program.
    pub args: Vec<String>,
    /// Its variables.
    pub env: BTreeMap<String, String>,
}

impl McpServer {
    /// A server of the user's configuration.
    #[must_use]
    pub fn new(name: &str, config: &McpServerConfig) -> Self {
        let mut words = config.run.iter().cloned();
        let program = words.next().unwrap_or_default();
        Self { name: name.to_owned(), program, args: words.collect(), env: config.env.clone() }
    }
}

/// The error for a name that the user's configuration does not define. Nothing was started.
pub(crate) fn unknown_error(name: &str) -> AgentError {
    let hint = format!("write `mcp_servers: {{ {name}: {{ run: [PROGRAM, …] }} }}` into your own configuration");
    tools::unsupported_error(format!("your configuration has no server `{name}` for the agent's tools"), hint)
}

/// The servers by name, as most programs write them, each with these further settings.
pub(super) fn by_name(invocation: &AgentInvocation, more: &[(&str, Value)]) -> Value {
    let one = |server: &McpServer| {
        let mut settings = Map::new();
        settings.insert("command".to_owned(), server.program.as_str().into());
        settings.insert("args".to_owned(), json!(server.args));
        settings.insert("env".to_owned(), json!(server.env));
        settings.extend(more.iter().map(|(key, value)| ((*key).to_owned(), value.clone())));
        (server.name.clone(), Value::Object(settings))
    };
    Value::Object(invocation.mcp_servers.iter().map(one).collect())
}

/// The servers for a session of the Agent Client Protocol.
pub(super) fn for_session(servers: &[McpServer]) -> Value {
    let one = |server: &McpServer| {
        let env: Vec<Value> = server.env.iter().map(|(name, value)| json!({ "name": name, "value": value })).collect();
        json!({ "name": server.name, "command": server.program, "args": server.args, "env": env })
    };
    servers.iter().map(one).collect()
}
