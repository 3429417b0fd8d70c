//! Messages of the Agent Client Protocol, version 1: JSON-RPC 2.0, one message per line. Only the used
//! fields are parsed; unknown fields are skipped. This file also builds the outgoing messages.

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use serde_json::{Value, json};

/// The supported version.
pub(super) const VERSION: u64 = 1;
/// Longer ids are rejected.
const ID_MAX: usize = 1000;
/// Most levels of groups in which choices may be nested.
const GROUPS_MAX: usize = 3;

/// Any message: with a method it is a call or a notification, without one it answers a call of the engine.
#[derive(Deserialize)]
pub(super) struct AcpMessage {
    pub(super) method: Option<String>,
    id: Option<Box<RawValue>>,
    params: Option<Box<RawValue>>,
    result: Option<Box<RawValue>>,
    pub(super) error: Option<AcpFailure>,
}

impl AcpMessage {
    /// Its id as JSON text. A notification has none.
    pub(super) fn id(&self) -> Option<&str> {
        self.id.as_deref().map(RawValue::get).filter(|id| id.len() <= ID_MAX)
    }

    /// Its parameters, if they have this form.
    pub(super) fn params<T: DeserializeOwned>(&self) -> Option<T> {
        serde_json::from_str(self.params.as_ref()?.get()).ok()
    }

    /// Its result as JSON; a missing result is valid too.
    pub(super) fn result(&self) -> &str {
        self.result.as_deref().map_or("null", RawValue::get)
    }
}

/// Why a call failed.
#[derive(Deserialize)]
pub(super) struct AcpFailure {
    #[serde(default)]
    pub(super) code: i64,
    #[serde(default)]
    message: String,
    data: Option<Value>,
}

impl AcpFailure {
    /// The HTTP status behind it: some agents send it as the code.
    pub(super) fn status(&self) -> Option<u16> {
        u16::try_from(self.code).ok().filter(|code| (400..600).contains(code))
    }

    /// All of its text.
    pub(super) fn text(&self) -> String {
        self.data.as_ref().map_or_else(|| self.message.clone(), |data| format!("{}: {data}", self.message))
    }
}

/// The agent's answer to `initialize`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct InitializeResult {
    pub(super) protocol_version: u64,
    pub(super) agent_info: Option<AcpImplementation>,
}

#[derive(Deserialize)]
pub(super) struct AcpImplementation {
    pub(super) version: Option<String>,
}

/// A session as the agent opened it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct AcpSession {
    pub(super) session_id: String,
    modes: Option<Modes>,
    models: Option<Models>,
    config_options: Option<Vec<Setting>>,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct Modes {
    current_mode_id: String,
    available_modes: Vec<Mode>,
}

#[derive(Deserialize)]
struct Mode {
    id: String,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct Models {
    current_model_id: String,
    available_models: Vec<Model>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Model {
    model_id: String,
    #[serde(default)]
    name: String,
}

/// A setting of a session.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Setting {
    #[serde(default)]
    id: String,
    category: Option<String>,
    current_value: Option<Value>,
    #[serde(default)]
    options: Vec<Choice>,
}

#[derive(Deserialize)]
struct Choice {
    value: Option<String>,
    #[serde(default)]
    options: Vec<Choice>,
}

impl Choice {
    fn holds(&self, value: &str, levels: usize) -> bool {
        let inside = levels > 0 && self.options.iter().any(|choice| choice.holds(value, levels - 1));
        inside || self.value.as_deref() == Some(value)
    }

    fn values(&self) -> impl Iterator<Item = &str> {
        self.value.as_deref().into_iter().chain(self.options.iter().filter_map(|choice| choice.value.as_deref()))
    }
}

impl Setting {
    fn is(&self, category: &str) -> bool {
        self.category.as_deref().unwrap_or(&self.id) == category
    }

    fn current(&self) -> Option<&str> {
        self.current_value.as_ref()?.as_str()
    }
}

/// A call that changes a session: method and parameters.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct SessionChange {
    pub(super) what: SessionSetting,
    pub(super) method: &'static str,
    pub(super) params: Value,
}

/// The setting that a change is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SessionSetting {
    Mode,
    Model,
    Effort,
}

impl AcpSession {
    /// The ids of the modes that it offers.
    pub(super) fn modes(&self) -> Vec<&str> {
        if let Some(modes) = &self.modes {
            return modes.available_modes.iter().map(|mode| mode.id.as_str()).collect();
        }
        self.setting("mode").into_iter().flat_map(|setting| &setting.options).flat_map(Choice::values).collect()
    }

    /// The change into a mode; `None` if the session is already in it.
    pub(super) fn change_mode(&self, id: &str) -> Option<SessionChange> {
        if let Some(modes) = &self.modes {
            let params = json!({ "sessionId": self.session_id, "modeId": id });
            let change = SessionChange { what: SessionSetting::Mode, method: "session/set_mode", params };
            return (modes.current_mode_id != id).then_some(change);
        }
        let setting = self.setting("mode")?;
        (setting.current() != Some(id)).then(|| self.set(setting, SessionSetting::Mode, id))
    }

    /// The change to a model, which is empty if the session already uses it; `None` if it does not offer it.
    pub(super) fn change_model(&self, model: &str) -> Option<Option<SessionChange>> {
        if let Some(setting) = self.setting("model") {
            if setting.current() == Some(model) {
                return Some(None);
            }
            if setting.options.iter().any(|choice| choice.holds(model, GROUPS_MAX)) {
                return Some(Some(self.set(setting, SessionSetting::Model, model)));
            }
        }
        let models = self.models.as_ref()?;
        // Some programs put their provider around the model's name, and name it separately.
        let offered = models.available_models.iter().find(|offered| offered.model_id == model);
        let offered = offered.or_else(|| models.available_models.iter().find(|offered| offered.name == model));
        let id = offered.map_or(model, |offered| offered.model_id.as_str());
        if models.current_model_id == id {
            return Some(None);
        }
        let params = json!({ "sessionId": self.session_id, "modelId": id });
        let change = SessionChange { what: SessionSetting::Model, method: "session/set_model", params };
        offered.map(|_| Some(change))
    }

    /// The change to an effort, which is empty if the session already has it; `None` if it does not offer it.
    pub(super) fn change_effort(&self, effort: &str) -> Option<Option<SessionChange>> {
        let setting = self.setting("thought_level")?;
        let is_offered = setting.options.iter().any(|choice| choice.holds(effort, GROUPS_MAX));
        let change = || self.set(setting, SessionSetting::Effort, effort);
        is_offered.then(|| (setting.current() != Some(effort)).then(change))
    }

    /// Whether it lets its client choose a model, and now uses another one. Some programs put their provider before the
    /// model's name.
    pub(super) fn has_other_model(&self, model: &str) -> bool {
        let is_same = |current: &str| current == model || current.ends_with(&format!("/{model}"));
        let has_choice = self.models.is_some() || self.setting("model").is_some();
        has_choice && !self.model().is_some_and(|current| is_same(&current))
    }

    /// The model that it reports.
    pub(super) fn model(&self) -> Option<String> {
        let current = self.models.as_ref().map(|models| models.current_model_id.as_str());
        current.or_else(|| self.setting("model")?.current()).map(str::to_owned)
    }

    fn setting(&self, category: &str) -> Option<&Setting> {
        self.config_options.as_ref()?.iter().find(|setting| setting.is(category))
    }

    fn set(&self, setting: &Setting, what: SessionSetting, value: &str) -> SessionChange {
        let params = json!({ "sessionId": self.session_id, "configId": setting.id, "value": value });
        SessionChange { what, method: "session/set_config_option", params }
    }
}

/// An event in a session.
#[derive(Deserialize)]
pub(super) struct SessionNotification {
    pub(super) update: SessionUpdate,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct SessionUpdate {
    #[serde(default)]
    pub(super) session_update: String,
    /// One block for a chunk, a list for a tool.
    content: Option<Value>,
    pub(super) message_id: Option<String>,
    pub(super) title: Option<String>,
    pub(super) kind: Option<String>,
    pub(super) status: Option<String>,
    pub(super) used: Option<u64>,
}

impl SessionUpdate {
    /// The text of a chunk.
    pub(super) fn text(&self) -> Option<&str> {
        self.content.as_ref()?.get("text")?.as_str()
    }
}

/// A permission request.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PermissionRequest {
    tool_call: ToolCall,
    #[serde(default)]
    options: Vec<PermissionOption>,
}

#[derive(Deserialize)]
struct ToolCall {
    kind: Option<String>,
    title: Option<String>,
    name: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PermissionOption {
    option_id: String,
    #[serde(default)]
    kind: String,
}

impl PermissionRequest {
    /// The kind of tool, or an empty string.
    pub(super) fn kind(&self) -> &str {
        self.tool_call.kind.as_deref().unwrap_or_default()
    }

    /// The tool's name, or its title.
    pub(super) fn name(&self) -> &str {
        self.tool_call.name.as_deref().or(self.tool_call.title.as_deref()).unwrap_or_default()
    }

    /// The first option of these kinds, in their order.
    pub(super) fn option(&self, kinds: &[&str]) -> Option<&str> {
        let of = |kind: &&str| self.options.iter().find(|option| option.kind == *kind);
        kinds.iter().find_map(of).map(|option| option.option_id.as_ref())
    }
}

/// The end of a prompt.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PromptResponse {
    pub(super) stop_reason: String,
}

/// A call of the engine as a line.
pub(super) fn call(id: u64, method: &str, params: &Value) -> Vec<u8> {
    line(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }))
}

/// A notification of the engine as a line.
pub(super) fn notification(method: &str, params: &Value) -> Vec<u8> {
    line(&json!({ "jsonrpc": "2.0", "method": method, "params": params }))
}

/// The answer to a call, with its id unchanged.
pub(super) fn answer(id: &str, result: &Value) -> Vec<u8> {
    format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{result}}}\n").into_bytes()
}

/// The answer to a call of a method that is not supported.
pub(super) fn not_served(id: &str) -> Vec<u8> {
    let error = json!({ "code": -32601, "message": "Method not found" });
    format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"error\":{error}}}\n").into_bytes()
}

fn line(message: &Value) -> Vec<u8> {
    format!("{message}\n").into_bytes()
}
