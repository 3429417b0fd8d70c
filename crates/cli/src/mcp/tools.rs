//! The one table of tools: their role, their arguments, and the command behind each. A tool has no ability that the
//! command line does not have.

use crate::web::access::AccessRole;
use serde_json::{Map, Value, json};

/// The most lines of a log in one answer.
const LOG_LINES_MAX: u64 = 5_000;
/// The lines of a log if the client names no number.
const LOG_LINES: u64 = 200;
/// The longest argument, in bytes.
const ARGUMENT_MAX: usize = 8_000;

/// How the answer of a tool is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ToolAnswer {
    /// The document of the command.
    Document,
    /// The last lines of the text that the command prints.
    LastLines,
    /// The command starts a round that outlives this server.
    Detached,
}

/// An argument of a tool.
#[derive(Debug)]
pub(super) struct McpArgument {
    name: &'static str,
    kind: &'static str,
    is_required: bool,
    about: &'static str,
}

/// A tool.
#[derive(Debug)]
pub(super) struct McpTool {
    pub(super) name: &'static str,
    title: &'static str,
    about: &'static str,
    pub(super) role: AccessRole,
    pub(super) answer: ToolAnswer,
    arguments: &'static [McpArgument],
    /// The words of the command, in which `{name}` is an argument; a word whose argument is missing is left out.
    words: &'static [&'static str],
}

const fn required(name: &'static str, about: &'static str) -> McpArgument {
    McpArgument { name, kind: "string", is_required: true, about }
}

const fn optional(name: &'static str, kind: &'static str, about: &'static str) -> McpArgument {
    McpArgument { name, kind, is_required: false, about }
}

const fn view(
    name: &'static str,
    title: &'static str,
    about: &'static str,
    arguments: &'static [McpArgument],
    words: &'static [&'static str],
) -> McpTool {
    McpTool { name, title, about, role: AccessRole::View, answer: ToolAnswer::Document, arguments, words }
}

const ROUND: McpArgument = required("round", "the id of a round, or its first characters");

/// All tools.
pub(super) const TOOLS: &[McpTool] = &[
    view(
        "list_loops",
        "List loops",
        "All loops with their state, next start, success rate and today's spend.",
        &[],
        &["status", "--all"],
    ),
    view(
        "show_loop",
        "Show a loop",
        "One loop: intent, level with its evidence, latest rounds, items, memory and receipts.",
        &[required("loop", "the name of the loop")],
        &["show", "--", "{loop}"],
    ),
    view(
        "list_rounds",
        "List rounds",
        "The latest rounds, newest first, with outcome, spend and ceiling.",
        &[
            optional("loop", "string", "only rounds of this loop"),
            optional("limit", "integer", "the most rounds, 20 if absent"),
        ],
        &["rounds", "--limit={limit}", "--", "{loop}"],
    ),
    view(
        "show_round",
        "Show a round",
        "One round: outcome with its reasons, gates, verdict, items, changes and spend.",
        &[ROUND],
        &["show", "--", "{round}"],
    ),
    view(
        "diff",
        "Show a change",
        "The change of a round as a diff against its base.",
        &[ROUND],
        &["diff", "--", "{round}"],
    ),
    view(
        "inbox",
        "List questions",
        "Everything that waits for a person. An approval must name the candidate that this list shows.",
        &[],
        &["inbox"],
    ),
    view(
        "why",
        "Explain",
        "Why a loop does or does not run, or why a round ended as it did.",
        &[required("of", "the name of a loop, or the id of a round")],
        &["why", "--", "{of}"],
    ),
    McpTool {
        name: "logs",
        title: "Read a log",
        about: "The last lines of a round's log: its stages, the activity of its agents, the output of its gates.",
        role: AccessRole::View,
        answer: ToolAnswer::LastLines,
        arguments: &[ROUND, optional("lines", "integer", "how many lines, 200 if absent, at most 5000")],
        words: &["logs", "--", "{round}"],
    },
    view(
        "costs",
        "Sum up costs",
        "The spend in groups, with the cost of an accepted outcome.",
        &[
            optional("by", "string", "loop, role, model, day, item or agent; loop if absent"),
            optional("since", "string", "a date such as 2026-05-01, or a number of days such as 7d"),
        ],
        &["costs", "--by={by}", "--since={since}"],
    ),
    McpTool {
        name: "run",
        title: "Run a loop",
        about: "Starts one round of a loop now, and returns its id while it runs. `show_round` and `logs` follow it.",
        role: AccessRole::Operate,
        answer: ToolAnswer::Detached,
        arguments: &[
            required("loop", "the name of the loop"),
            optional("item", "string", "work on this item, without running the probe"),
        ],
        words: &["run", "--item={item}", "--", "{loop}"],
    },
    McpTool {
        name: "approve",
        title: "Approve a candidate",
        about: "Approves a waiting candidate. If no other approval is missing, it is delivered at once.",
        role: AccessRole::Approve,
        answer: ToolAnswer::Document,
        arguments: &[
            required("id", "the id of the question, from `inbox`"),
            required("candidate", "the hash of the candidate that was read, from `inbox`"),
        ],
        words: &["approve", "--yes", "--candidate={candidate}", "--", "{id}"],
    },
    McpTool {
        name: "deny",
        title: "Deny a candidate",
        about: "Denies a waiting candidate. The round ends.",
        role: AccessRole::Approve,
        answer: ToolAnswer::Document,
        arguments: &[
            required("id", "the id of the question, from `inbox`"),
            required("why", "the reason; makers of later rounds see it"),
            optional("candidate", "string", "deny only this candidate, by its hash from `inbox`"),
        ],
        words: &["deny", "--why={why}", "--candidate={candidate}", "--", "{id}"],
    },
    McpTool {
        name: "hold",
        title: "Hold a question",
        about: "Gives a waiting candidate more time before its question expires. Nothing is sent, and nothing ends.",
        role: AccessRole::Approve,
        answer: ToolAnswer::Document,
        arguments: &[
            required("id", "the id of the question, from `inbox`"),
            optional("for", "string", "how long the question stays open from now on, such as `7d` (the default)"),
            optional("why", "string", "the reason, for the report"),
        ],
        words: &["hold", "--for={for}", "--why={why}", "--", "{id}"],
    },
];

/// The tool of a name.
pub(super) fn find(name: &str) -> Option<&'static McpTool> {
    TOOLS.iter().find(|tool| tool.name == name)
}

impl McpTool {
    /// Its description for clients.
    pub(super) fn description(&self) -> Value {
        let property = |one: &McpArgument| {
            let kind = match one.kind {
                "integer" => json!({"type": "integer", "minimum": 1, "description": one.about}),
                kind => json!({"type": kind, "description": one.about}),
            };
            (one.name.to_owned(), kind)
        };
        let properties: Map<String, Value> = self.arguments.iter().map(property).collect();
        let required: Vec<&str> = self.arguments.iter().filter(|one| one.is_required).map(|one| one.name).collect();
        let is_reading = self.role == AccessRole::View;
        json!({
            "name": self.name,
            "title": self.title,
            "description": self.about,
            "inputSchema": {
                "type": "object", "properties": properties, "required": required, "additionalProperties": false,
            },
            "annotations": {
                "readOnlyHint": is_reading, "destructiveHint": !is_reading, "idempotentHint": is_reading,
                "openWorldHint": !is_reading,
            },
        })
    }

    /// The values of a call, checked against the arguments.
    fn values(&self, given: &Map<String, Value>) -> Result<Vec<(&'static str, String)>, String> {
        if let Some(unknown) = given.keys().find(|key| !self.arguments.iter().any(|one| one.name == key.as_str())) {
            return Err(format!("`{}` has no argument `{unknown}`", self.name));
        }
        let mut values = Vec::new();
        for one in self.arguments {
            let text = match given.get(one.name) {
                None | Some(Value::Null) if one.is_required => return Err(format!("`{}` is missing", one.name)),
                None | Some(Value::Null) => continue,
                Some(Value::String(text)) if one.kind == "string" => text.clone(),
                Some(Value::Number(number)) if one.kind == "integer" && number.as_u64().is_some_and(|n| n > 0) => {
                    number.to_string()
                }
                Some(_) => return Err(format!("`{}` is not a valid {}", one.name, one.kind)),
            };
            if text.len() > ARGUMENT_MAX || (one.is_required && text.trim().is_empty()) {
                return Err(format!("`{}` needs a text of at most {ARGUMENT_MAX} bytes", one.name));
            }
            values.push((one.name, text));
        }
        Ok(values)
    }

    /// The words of the command of a call.
    pub(super) fn words(&self, given: &Map<String, Value>) -> Result<Vec<String>, String> {
        let values = self.values(given)?;
        let mut words: Vec<String> = self.words.iter().filter_map(|word| filled(word, &values)).collect();
        // Without a loop, a list is about all of them.
        if self.name == "list_rounds" && !values.iter().any(|(name, _)| *name == "loop") {
            words.retain(|word| word != "--");
            words.push("--all".to_owned());
        }
        Ok(words)
    }

    /// The number of lines that a call wants.
    pub(super) fn lines(given: &Map<String, Value>) -> usize {
        let lines = given.get("lines").and_then(Value::as_u64).unwrap_or(LOG_LINES).min(LOG_LINES_MAX);
        usize::try_from(lines).unwrap_or(usize::MAX)
    }
}

/// A word with its argument; `None` if the argument is missing.
fn filled(word: &str, values: &[(&'static str, String)]) -> Option<String> {
    let Some((before, rest)) = word.split_once('{') else { return Some(word.to_owned()) };
    let name = rest.strip_suffix('}')?;
    values.iter().find(|(known, _)| *known == name).map(|(_, value)| format!("{before}{value}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Cli;
    use clap::Parser as _;

    fn words(tool: &str, given: Value) -> Result<Vec<String>, String> {
        let Value::Object(given) = given else { panic!("arguments are an object") };
        find(tool).expect("the tool exists").words(&given)
    }

    #[test]
    fn every_tool_is_a_command_line_with_and_without_its_optional_arguments() {
        for tool in TOOLS {
            for with_all in [true, false] {
                let chosen = tool.arguments.iter().filter(|one| with_all || one.is_required);
                let value = |one: &McpArgument| match (one.kind, one.name) {
                    ("integer", _) => json!(3),
                    (_, "by") => json!("day"),
                    (_, "since" | "for") => json!("7d"),
                    _ => json!("x"),
                };
                let given: Map<String, Value> = chosen.map(|one| (one.name.to_owned(), value(one))).collect();
                let words = tool.words(&given).expect("the arguments are valid");
                let parsed = Cli::try_parse_from(std::iter::once("loopwright".to_owned()).chain(words.clone()));
                assert!(parsed.is_ok(), "{words:?}");
            }
        }
    }

    #[test]
    fn arguments_never_become_flags() {
        assert_eq!(
            words("show_loop", json!({"loop": "--help"})),
            Ok(vec!["show".into(), "--".into(), "--help".into()])
        );
        let denied = words("deny", json!({"id": "-x", "why": "--yes"})).expect("valid");
        assert_eq!(denied, ["deny", "--why=--yes", "--", "-x"]);
    }

    #[test]
    fn wrong_arguments_are_named() {
        assert_eq!(words("show_round", json!({})), Err("`round` is missing".to_owned()));
        assert_eq!(words("inbox", json!({"x": 1})), Err("`inbox` has no argument `x`".to_owned()));
        assert_eq!(words("logs", json!({"round": "r", "lines": -1})), Err("`lines` is not a valid integer".to_owned()));
        assert!(words("approve", json!({"id": "a", "candidate": " "})).is_err());
        assert!(words("why", json!({"of": "x".repeat(ARGUMENT_MAX + 1)})).is_err());
    }
}
