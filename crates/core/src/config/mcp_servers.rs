//! Servers of the Model Context Protocol in the user's own configuration. A loop file names those that a role may use; no
//! repository can define one. They start inside the sandbox of the role's agent and get no credentials.

use super::agent_options::variables;
use crate::spec::problem::{ProblemKind, quoted};
use crate::spec::reader::value::SpecValue;
use crate::spec::{Argv, is_provider_name};
use serde::Serialize;
use std::collections::BTreeMap;

/// Most servers of a configuration.
const SERVERS_MAX: usize = 64;

/// One server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct McpServerConfig {
    /// Its command line. It speaks the protocol on its standard streams.
    pub run: Argv,
    /// Its variables. The agent can read them.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
}

pub(super) fn read(at: &SpecValue<'_>) -> Option<BTreeMap<String, McpServerConfig>> {
    let servers = at.map_of("a mapping of name to a server", server)?;
    for name in servers.keys().filter(|name| !is_provider_name(name)) {
        let hint = Some("letters, digits and dashes: the name is a part of the names of its tools".to_owned());
        at.add_problem(ProblemKind::Value, format!("{} cannot be the name of a server", quoted(name)), hint);
    }
    if servers.len() > SERVERS_MAX {
        at.add_problem(ProblemKind::Value, format!("more than {SERVERS_MAX} servers"), None);
    }
    Some(servers)
}

fn server(at: &SpecValue<'_>) -> Option<McpServerConfig> {
    let fields = at.fields("run env")?;
    let run = fields.required("run", "[docs-server, --stdio]", SpecValue::argv)?;
    if run.first().is_none_or(String::is_empty) || run.iter().any(|word| word.contains('\0')) {
        at.add_problem(ProblemKind::Value, "a server needs a program, without NUL characters".to_owned(), None);
    }
    let mut env = BTreeMap::new();
    fields.set("env", &mut env, variables);
    Some(McpServerConfig { run, env })
}

#[cfg(test)]
mod tests {
    use crate::config::read_config_file;

    #[test]
    fn servers_have_a_command_line_and_variables() {
        let text = "mcp_servers:\n  docs: { run: [docs-server, --stdio], env: { DOCS_ROOT: /srv/docs } }\n";
        let config = read_config_file("config.yaml", text.as_bytes()).expect("a good file");
        let shown = serde_json::to_string(&config.mcp_servers["docs"]).expect("JSON");
        assert_eq!(shown, r#"{"run":["docs-server","--stdio"],"env":{"DOCS_ROOT":"/srv/docs"}}"#);
    }

    #[test]
    fn server_that_cannot_be_started_is_refused() {
        for (text, why) in [
            ("mcp_servers: { docs: { env: { A: b } } }", "missing key `run`"),
            ("mcp_servers: { docs: { run: [\"\"] } }", "needs a program"),
            ("mcp_servers: { \"a b\": { run: [x] } }", "cannot be the name of a server"),
            ("mcp_servers: { docs: { run: [x], env: { PATH: /x } } }", "is set by Loopwright"),
            ("mcp_servers: { docs: { url: https://x.org } }", "url"),
        ] {
            let message = read_config_file("config.yaml", text.as_bytes()).expect_err(text).to_string();
            assert!(message.contains(why), "{text}: {message}");
        }
    }
}
