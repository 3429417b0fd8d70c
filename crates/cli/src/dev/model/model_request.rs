//! A request for a model's answer, in the one form into which all protocols are parsed, and the progress of its
//! conversation.

use serde_json::Value;

/// The providers' protocols.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ModelProtocol {
    /// Anthropic Messages.
    Anthropic,
    /// OpenAI Responses.
    Responses,
    /// OpenAI Chat Completions.
    Chat,
    /// Gemini generateContent.
    Gemini,
}

/// A request, parsed.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ModelRequest {
    pub(super) protocol: ModelProtocol,
    pub(super) model: String,
    pub(super) streams: bool,
    pub(super) tools: Vec<OfferedTool>,
    /// Whether the answer has to be a JSON document.
    pub(super) wants_json: bool,
    /// The JSON Schema of an answer that an agent asks for beside its conversation; null if there is none.
    pub(super) helper_schema: Value,
    /// All texts of the prompt, without the results of tools.
    pub(super) prompt: String,
    /// The authors of the messages, in order.
    pub(super) history: Vec<ChatMessage>,
}

/// One message of a conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ChatMessage {
    /// From the model, with the ids of its tool calls.
    Model(Vec<String>),
    /// From any other author.
    Other,
}

/// A tool that the model may call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct OfferedTool {
    pub(super) name: String,
    pub(super) form: ToolInputForm,
    pub(super) fields: Vec<ToolArgument>,
    /// Some protocols put tools into namespaces.
    pub(super) namespace: Option<String>,
}

/// How a tool is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ToolInputForm {
    /// With a JSON object.
    Object,
    /// With free text.
    Text,
}

/// An argument of a tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ToolArgument {
    pub(super) name: String,
    pub(super) kind: String,
    pub(super) required: bool,
}

impl OfferedTool {
    /// A tool from its name and the JSON Schema of its arguments.
    pub(super) fn from_schema(name: &Value, schema: &Value) -> Option<Self> {
        let required: Vec<&str> = as_list(&schema["required"]).iter().filter_map(Value::as_str).collect();
        let properties = schema["properties"].as_object();
        let fields = properties.into_iter().flatten().map(|(name, field)| ToolArgument {
            name: name.clone(),
            // Gemini writes types in upper case.
            kind: field["type"].as_str().unwrap_or("string").to_ascii_lowercase(),
            required: required.contains(&name.as_str()),
        });
        let name = name.as_str()?.to_owned();
        Some(Self { name, form: ToolInputForm::Object, fields: fields.collect(), namespace: None })
    }

    /// The first of these names that is an argument of the tool.
    pub(super) fn field(&self, names: &[&str]) -> Option<&ToolArgument> {
        names.iter().find_map(|name| self.fields.iter().find(|field| field.name == *name))
    }
}

impl ModelRequest {
    /// Requests without tools are an agent's own helper calls: titles, classifiers, summaries.
    pub(super) fn is_side_call(&self) -> bool {
        self.tools.is_empty() && (!self.wants_json || self.helper_schema.is_object())
    }

    /// The document that a helper call asks for, with values that mean nothing. An agent that gets none asks again and
    /// again before it starts its work.
    pub(super) fn helper_document(&self) -> Option<String> {
        self.helper_schema.is_object().then(|| sample(&self.helper_schema, SCHEMA_DEPTH_MAX).to_string())
    }

    /// The index of the next turn, from the conversation alone, so that retries and parallel conversations need no
    /// memory: one after the turn of the last tool call, and one more for every message of the model since.
    pub(super) fn turn_index(&self) -> usize {
        let (mut step, mut speaking) = (0_usize, false);
        for said in &self.history {
            match said {
                ChatMessage::Other => speaking = false,
                ChatMessage::Model(ids) => {
                    match ids.iter().filter_map(|id| step_of(id)).next_back() {
                        Some(found) => step = found.saturating_add(1),
                        None if !speaking => step = step.saturating_add(1),
                        None => {}
                    }
                    speaking = true;
                }
            }
        }
        step
    }

    /// The folder in which the agent works, as its prompt states.
    pub(super) fn working_dir(&self) -> Option<&str> {
        const LABELS: [&str; 5] = [
            "Primary working directory: ",
            "Working directory: ",
            "working directory: ",
            "<cwd>",
            "working in the directory: ",
        ];
        let found = |label: &&str| {
            let (_, rest) = self.prompt.split_once(label)?;
            let end = rest.find(['\n', '<', '`']).unwrap_or(rest.len());
            let path = rest[..end].trim().trim_matches('"');
            path.starts_with('/').then_some(path)
        };
        LABELS.iter().find_map(found)
    }
}

/// The deepest part of a schema that gets a value.
const SCHEMA_DEPTH_MAX: u32 = 8;

/// A value that fits a schema.
fn sample(schema: &Value, depth: u32) -> Value {
    // Gemini writes types in upper case.
    match schema["type"].as_str().unwrap_or_default().to_ascii_lowercase().as_str() {
        "object" if depth > 0 => {
            let properties = schema["properties"].as_object().into_iter().flatten();
            properties.map(|(name, part)| (name.clone(), sample(part, depth - 1))).collect()
        }
        "object" => Value::Object(serde_json::Map::new()),
        "array" => Value::Array(Vec::new()),
        "integer" | "number" => 50.into(),
        "boolean" => false.into(),
        _ => as_list(&schema["enum"]).first().cloned().unwrap_or_else(|| "scripted".into()),
    }
}

/// The id of a tool call, which contains the index of its turn.
pub(super) fn tool_call_id(step: usize, number: u64) -> String {
    format!("call_t{step:03}_{number}")
}

/// Agents add prefixes to an id.
fn step_of(id: &str) -> Option<usize> {
    let (_, rest) = id.rsplit_once("_t")?;
    let (digits, _) = rest.split_once('_')?;
    digits.parse().ok()
}

/// A JSON list, or an empty one.
pub(super) fn as_list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// Text that is written as a string or as a list of parts.
pub(super) fn append_texts(value: &Value, into: &mut String) {
    let mut put = |text: &str| {
        into.push_str(text);
        into.push('\n');
    };
    match value {
        Value::String(text) => put(text),
        Value::Array(parts) => parts.iter().filter_map(|part| part["text"].as_str()).for_each(put),
        _ => {}
    }
}
