//! Messages of the Agent Client Protocol, version 1: JSON-RPC 2.0, one message per line. Messages are parsed by
//! borrowing, and only the used fields; unknown fields are skipped. This file also builds the outgoing messages.

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use std::borrow::Cow;

/// The supported version.
pub(super) const VERSION: u64 = 1;
/// Longer ids are rejected.
const ID_MAX: usize = 1000;
/// Most levels of groups in which choices may be nested.
const GROUPS_MAX: usize = 3;

/// Any message: with a method it is a call or a notification, without one it answers a call of the engine.
#[derive(Deserialize)]
pub(super) struct AcpMessage<'a> {
    #[serde(borrow, default)]
    pub(super) method: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) params: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) result: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) error: Option<AcpFailure<'a>>,
}

impl AcpMessage<'_> {
    /// Its id as JSON text. A notification has none.
    pub(super) fn id(&self) -> Option<&str> {
        self.id.map(RawValue::get).filter(|id| id.len() <= ID_MAX)
    }

    /// Its result as JSON; a missing result is valid too.
    pub(super) fn result(&self) -> &str {
        self.result.map_or("null", RawValue::get)
    }
}

/// Why a call failed.
#[derive(Deserialize)]
pub(super) struct AcpFailure<'a> {
    #[serde(default)]
    pub(super) code: i64,
    #[serde(borrow, default)]
    message: Cow<'a, str>,
    #[serde(borrow, default)]
    data: Option<&'a RawValue>,
}

impl AcpFailure<'_> {
    /// The HTTP status behind it: some agents send it as the code.
    pub(super) fn status(&self) -> Option<u16> {
        u16::try_from(self.code).ok().filter(|code| (400..600).contains(code))
    }

    /// All of its text.
    pub(super) fn text(&self) -> String {
        match self.data.map(RawValue::get) {
            Some(data) if data != "null" => format!("{}: {data}", self.message),
            _ => self.message.clone().into_owned(),
        }
    }
}

/// The agent's answer to `initialize`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct InitializeResult<'a> {
    pub(super) protocol_version: u64,
    #[serde(borrow, default)]
    pub(super) agent_info: Option<AcpImplementation<'a>>,
}

#[derive(Deserialize)]
pub(super) struct AcpImplementation<'a> {
    #[serde(borrow, default)]
    pub(super) version: Option<Cow<'a, str>>,
}

/// A session as the agent opened it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct AcpSession<'a> {
    #[serde(borrow)]
    pub(super) session_id: Cow<'a, str>,
    #[serde(borrow, default)]
    modes: Option<Modes<'a>>,
    #[serde(borrow, default)]
    models: Option<Models<'a>>,
    #[serde(borrow, default)]
    config_options: Option<Vec<Setting<'a>>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Modes<'a> {
    #[serde(borrow, default)]
    current_mode_id: Cow<'a, str>,
    #[serde(borrow, default)]
    available_modes: Vec<SessionMode<'a>>,
}

#[derive(Deserialize)]
pub(super) struct SessionMode<'a> {
    #[serde(borrow)]
    pub(super) id: Cow<'a, str>,
}

impl SessionMode<'_> {
    /// Its name without the URL that some agents write before it.
    pub(super) fn word(&self) -> String {
        self.id.rsplit(['#', '/']).next().unwrap_or_default().to_ascii_lowercase()
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Models<'a> {
    #[serde(borrow, default)]
    current_model_id: Cow<'a, str>,
    #[serde(borrow, default)]
    available_models: Vec<Model<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Model<'a> {
    #[serde(borrow)]
    model_id: Cow<'a, str>,
}

/// A setting of a session.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Setting<'a> {
    #[serde(borrow, default)]
    id: Cow<'a, str>,
    #[serde(borrow, default)]
    category: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    current_value: Option<&'a RawValue>,
    #[serde(borrow, default)]
    options: Vec<Choice<'a>>,
}

#[derive(Deserialize)]
struct Choice<'a> {
    #[serde(borrow, default)]
    value: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    options: Vec<Choice<'a>>,
}

impl Choice<'_> {
    fn holds(&self, value: &str, levels: usize) -> bool {
        let inside = levels > 0 && self.options.iter().any(|choice| choice.holds(value, levels - 1));
        inside || self.value.as_deref() == Some(value)
    }

    fn values(&self) -> impl Iterator<Item = &str> {
        self.value.as_deref().into_iter().chain(self.options.iter().filter_map(|choice| choice.value.as_deref()))
    }
}

impl Setting<'_> {
    fn is(&self, category: &str) -> bool {
        self.category.as_deref().unwrap_or(&self.id) == category
    }

    fn current(&self) -> Option<String> {
        serde_json::from_str(self.current_value?.get()).ok()
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
}

impl AcpSession<'_> {
    /// The modes that it offers.
    pub(super) fn modes(&self) -> Vec<SessionMode<'_>> {
        if let Some(modes) = &self.modes {
            return modes
                .available_modes
                .iter()
                .map(|mode| SessionMode { id: Cow::Borrowed(mode.id.as_ref()) })
                .collect();
        }
        let values = self.setting("mode").into_iter().flat_map(|setting| &setting.options).flat_map(Choice::values);
        values.map(|id| SessionMode { id: Cow::Borrowed(id) }).collect()
    }

    /// The change into a mode; `None` if the session is already in it.
    pub(super) fn change_mode(&self, id: &str) -> Option<SessionChange> {
        if let Some(modes) = &self.modes {
            let params = json!({ "sessionId": self.session_id, "modeId": id });
            return (modes.current_mode_id != id).then_some(SessionChange {
                what: SessionSetting::Mode,
                method: "session/set_mode",
                params,
            });
        }
        let setting = self.setting("mode")?;
        (setting.current().as_deref() != Some(id)).then(|| self.set(setting, SessionSetting::Mode, id))
    }

    /// The change to a model; `None` if the session already uses it, an error if it does not offer it.
    pub(super) fn change_model(&self, model: &str) -> Result<Option<SessionChange>, UnknownModel> {
        if let Some(setting) = self.setting("model") {
            if setting.current().as_deref() == Some(model) {
                return Ok(None);
            }
            if setting.options.iter().any(|choice| choice.holds(model, GROUPS_MAX)) {
                return Ok(Some(self.set(setting, SessionSetting::Model, model)));
            }
        }
        let Some(models) = &self.models else { return Err(UnknownModel) };
        if models.current_model_id == model {
            return Ok(None);
        }
        let offered = models.available_models.iter().any(|offered| offered.model_id == model);
        let params = json!({ "sessionId": self.session_id, "modelId": model });
        let change = SessionChange { what: SessionSetting::Model, method: "session/set_model", params };
        if offered { Ok(Some(change)) } else { Err(UnknownModel) }
    }

    /// The model that it reports.
    pub(super) fn model(&self) -> Option<String> {
        let told = self.models.as_ref().map(|models| models.current_model_id.clone().into_owned());
        told.or_else(|| self.setting("model")?.current())
    }

    fn setting(&self, category: &str) -> Option<&Setting<'_>> {
        self.config_options.as_ref()?.iter().find(|setting| setting.is(category))
    }

    fn set(&self, setting: &Setting<'_>, what: SessionSetting, value: &str) -> SessionChange {
        let params = json!({ "sessionId": self.session_id, "configId": setting.id, "value": value });
        SessionChange { what, method: "session/set_config_option", params }
    }
}

/// A model that a session does not offer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct UnknownModel;

/// An event in a session.
#[derive(Deserialize)]
pub(super) struct SessionNotification<'a> {
    #[serde(borrow)]
    pub(super) update: SessionUpdate<'a>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct SessionUpdate<'a> {
    #[serde(borrow, default)]
    pub(super) session_update: Cow<'a, str>,
    /// One block for a chunk, a list for a tool.
    #[serde(borrow, default)]
    content: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) message_id: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    pub(super) title: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    pub(super) kind: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    pub(super) status: Option<Cow<'a, str>>,
    #[serde(default)]
    pub(super) used: Option<u64>,
    #[serde(borrow, default)]
    cost: Option<&'a RawValue>,
}

impl SessionUpdate<'_> {
    /// The text of a chunk.
    pub(super) fn text(&self) -> Option<String> {
        #[derive(Deserialize)]
        struct Block {
            text: String,
        }
        Some(serde_json::from_str::<Block>(self.content?.get()).ok()?.text)
    }

    /// The cost of the session so far, by the agent's own prices.
    pub(super) fn cost_usd(&self) -> Option<f64> {
        #[derive(Deserialize)]
        struct Cost {
            amount: f64,
            currency: String,
        }
        let cost: Cost = serde_json::from_str(self.cost?.get()).ok()?;
        (cost.currency == "USD").then_some(cost.amount)
    }
}

/// A permission request.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PermissionRequest<'a> {
    #[serde(borrow)]
    tool_call: ToolCall<'a>,
    #[serde(borrow, default)]
    options: Vec<PermissionOption<'a>>,
}

#[derive(Deserialize)]
struct ToolCall<'a> {
    #[serde(borrow, default)]
    kind: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    title: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    name: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PermissionOption<'a> {
    #[serde(borrow)]
    option_id: Cow<'a, str>,
    #[serde(borrow, default)]
    kind: Cow<'a, str>,
}

impl PermissionRequest<'_> {
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
pub(super) struct PromptResponse<'a> {
    #[serde(borrow)]
    pub(super) stop_reason: Cow<'a, str>,
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
