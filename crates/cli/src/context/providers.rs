//! Agents, model providers with their keys, agents' own sign-ins and secrets of webhooks, as this user has them: found
//! in the variables and files that the configuration names. A key goes only to the engine's egress proxy, a secret only
//! to the listener, and both to the list of values that no record or message may contain. Users see only their source.

use super::{CommandContext, CommandError, FileProblem, read_bytes};
use loopwright::EngineSettings;
use loopwright::agents::providers::ProviderChoice;
use loopwright::agents::{self, AgentCapabilities, AgentLogin, DRIVEN_AGENTS, InstalledAgent, login_hosts};
use loopwright::egress::{ModelProvider, ProviderKey, RequestSigner, SilenceLimits};
use loopwright::triggers::{WebhookOptions, WebhookSecret};
use loopwright_core::config::{
    AWS_VARIABLES, ConfigLayer, EffectiveConfig, KeySource, KeyStyle, ProviderConfig, SecretLocation,
};
use loopwright_core::network::PathMatch;
use loopwright_core::spec::{AgentSpec, AgentUse, LoopSpec, Role};
use loopwright_core::units::TimeSpan;
use std::net::SocketAddr;
use std::path::Path;

/// The largest key file that is read.
const KEY_FILE_MAX: usize = 16 << 10;

/// One configured provider, and whether its key exists.
#[derive(Debug)]
pub(crate) struct ProviderKeyStatus {
    /// Its name.
    pub(crate) name: String,
    /// The source of its key, or why there is none. Never the key. `None` if it needs none.
    pub(crate) key_source: Result<Option<String>, String>,
}

/// The access to models that this user's agents have.
#[derive(Debug, Default)]
pub(crate) struct ModelAccess {
    /// Every provider of the configuration.
    pub(crate) providers: Vec<ProviderKeyStatus>,
    /// The sign-ins that roles may use.
    pub(crate) logins: Vec<AgentLogin>,
    /// Agents that are signed in on this machine, whether roles may use that or not.
    pub(crate) signed_in: Vec<AgentUse>,
    /// The names of the servers that roles may use for tools.
    pub(crate) mcp_servers: Vec<String>,
}

/// Whether an agent has access to its model, and how.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum AgentAccess {
    /// It needs none, or manages its own access.
    NotNeeded,
    /// With a key: the provider, and the source of the key.
    Key(String, String),
    /// Without a key, because this provider needs none.
    Keyless(String),
    /// With its own sign-in.
    Login,
    /// It has none; the text says how to fix that.
    Missing(String),
}

impl ModelAccess {
    /// The access of one agent.
    pub(crate) fn for_agent(&self, agent: &AgentSpec) -> AgentAccess {
        let asks = ProviderChoice::for_spec(agent);
        let usable: Vec<&ProviderKeyStatus> = self.providers.iter().filter(|known| known.key_source.is_ok()).collect();
        let names: Vec<&str> = usable.iter().map(|known| known.name.as_str()).collect();
        if asks.is_unmet_by(&names) {
            return match self.logins.iter().find(|login| login.agent == agent.agent) {
                Some(login) if login.exists() => AgentAccess::Login,
                Some(login) => AgentAccess::Missing(format!("sign in with `{}` once", login.agent.word())),
                None if self.signed_in.contains(&agent.agent) => {
                    AgentAccess::Missing(sign_in_hint(agent.agent, &asks.remedy()))
                }
                None => AgentAccess::Missing(asks.remedy()),
            };
        }
        match asks {
            ProviderChoice::Nobody | ProviderChoice::All => AgentAccess::NotNeeded,
            ProviderChoice::One(_) | ProviderChoice::Preferred(_) | ProviderChoice::First => {
                let first =
                    asks.select_from(&names).first().and_then(|name| usable.iter().find(|known| known.name == *name));
                first.map_or(AgentAccess::NotNeeded, |known| match &known.key_source {
                    Ok(Some(source)) => AgentAccess::Key(known.name.clone(), source.clone()),
                    Ok(None) | Err(_) => AgentAccess::Keyless(known.name.clone()),
                })
            }
        }
    }

    /// Every role whose agents all lack access to their model, as one error. A round would fail there, after its set-up
    /// and perhaps after a paid start of another role.
    pub(crate) fn ensure_access(&self, spec: &LoopSpec) -> Result<(), CommandError> {
        // A role that the loop does not name has the maker's agents, so its error would be the maker's.
        if let Some((role, name)) = self.missing_servers(spec).into_iter().next() {
            let text = format!("agent of the {}: your configuration has no server `{name}`", role.word());
            return Err(CommandError::failed(text).hint(server_hint(&name)));
        }
        let named = |role: &Role| *role == Role::Maker || spec.agents.contains_key(role);
        let roles = Role::ALL.into_iter().filter(|role| spec.plays(*role)).filter(named);
        let found: Vec<_> = roles.filter_map(|role| self.missing_access(role, &spec.chain(role))).collect();
        let Some((first, _)) = found.first() else { return Ok(()) };
        let mut hints: Vec<&String> = found.iter().map(|(_, hint)| hint).collect();
        hints.dedup();
        let others = found.iter().skip(1).fold(first.clone(), |text, (other, _)| format!("{text}; {other}"));
        Err(hints.into_iter().fold(CommandError::failed(others), |error, hint| error.hint(hint.clone())))
    }

    /// The problem of a role whose agents all lack access, and how to fix it for the first of them.
    fn missing_access(&self, role: Role, chain: &[AgentSpec]) -> Option<(String, String)> {
        let missing = |agent: &AgentSpec| match self.for_agent(agent) {
            AgentAccess::Missing(hint) => Some((agent.agent.word(), hint)),
            AgentAccess::NotNeeded | AgentAccess::Key(..) | AgentAccess::Keyless(_) | AgentAccess::Login => None,
        };
        let missed: Vec<_> = chain.iter().map_while(missing).collect();
        let (name, hint) = missed.first().filter(|_| missed.len() == chain.len())?;
        Some((format!("agent of the {}: `{name}` has no key for its model provider", role.word()), hint.clone()))
    }

    /// The model access that the agents of a loop lack on this machine, for people.
    pub(crate) fn notes(&self, spec: &LoopSpec) -> Vec<String> {
        let roles = Role::ALL.into_iter().filter(|role| spec.agents.contains_key(role));
        let agents = roles.flat_map(|role| spec.chain(role).into_iter().map(move |agent| (role, agent)));
        let servers = self.missing_servers(spec).into_iter().map(|(role, name)| {
            let hint = server_hint(&name);
            format!("agent of the {}: your configuration has no server `{name}`; {hint}", role.word())
        });
        agents.filter_map(|(role, agent)| self.note(role, &agent, spec)).chain(servers).collect()
    }

    /// The servers that roles name and the configuration does not define, each with its first role.
    fn missing_servers(&self, spec: &LoopSpec) -> Vec<(Role, String)> {
        let mut missing: Vec<(Role, String)> = Vec::new();
        for (role, agent) in &spec.agents {
            let unknown = agent.mcp_servers.iter().filter(|name| !self.mcp_servers.contains(name));
            for name in unknown {
                if missing.iter().all(|(_, known)| known != name) {
                    missing.push((*role, name.clone()));
                }
            }
        }
        missing
    }

    fn note(&self, role: Role, agent: &AgentSpec, spec: &LoopSpec) -> Option<String> {
        let (role, name) = (role.word(), agent.agent.word());
        match self.for_agent(agent) {
            AgentAccess::NotNeeded | AgentAccess::Key(..) | AgentAccess::Keyless(_) => None,
            AgentAccess::Missing(hint) => {
                Some(format!("agent of the {role}: `{name}` has no key for its model provider; {hint}"))
            }
            AgentAccess::Login => {
                let unnamed = |host: &&&str| !spec.network.iter().any(|entry| entry.contains(**host));
                let missing: Vec<&str> = login_hosts(agent.agent).iter().filter(unnamed).copied().collect();
                let hosts = match missing.as_slice() {
                    [] => String::new(),
                    hosts => format!("; it talks to its hosts itself, so add `network: [{}]`", hosts.join(", ")),
                };
                Some(format!("agent of the {role}: `{name}` uses its own sign-in, which is then in its HOME{hosts}"))
            }
        }
    }
}

impl ModelAccess {
    /// Reads keys to see whether they are usable, and drops them.
    pub(crate) fn read(cx: &CommandContext) -> Result<Self, CommandError> {
        let effective = cx.config(None)?;
        let known = effective.providers().into_iter().map(|(name, config)| {
            let found = match &config.key {
                None => usable(&name, &config, None).map(|_| None),
                Some(source) => read_secret(cx, source)
                    .and_then(|(key, place)| usable(&name, &config, Some(&key)).map(|_| Some(place))),
            };
            ProviderKeyStatus { name, key_source: found }
        });
        let mcp_servers = effective.config().mcp_servers.keys().cloned().collect();
        let logins = logins(cx, &effective);
        Ok(Self { providers: known.collect(), logins, signed_in: signed_in(cx), mcp_servers })
    }
}

/// Passes the providers and sign-ins whose keys exist to the engine. A provider that is missing is reported when a loop
/// needs it, not before.
pub(super) fn add_providers(cx: &CommandContext, effective: &EffectiveConfig, settings: &mut EngineSettings) {
    let mut known = settings.known_secrets.clone();
    for (name, config) in effective.providers() {
        let key = match &config.key {
            None => None,
            Some(source) => match read_secret(cx, source) {
                Ok((key, _)) => Some(key),
                Err(_) => continue,
            },
        };
        if let Ok(provider) = usable(&name, &config, key.as_deref()) {
            let secrets = provider.signer_secrets();
            settings.providers.push(provider);
            // The file of a cloud has more than its secrets.
            let secrets = secrets.or_else(|| Some(vec![key?.trim().to_owned()])).unwrap_or_default();
            known = secrets.iter().fold(known, |known, secret| known.with(&name, secret));
        }
    }
    let places = effective.config().webhooks.secrets.values();
    for source in places.flat_map(|place| [Some(&place.now), place.previous.as_ref()]).flatten() {
        if let Ok((secret, _)) = read_secret(cx, source) {
            known = known.with("WEBHOOK", secret.trim());
        }
    }
    settings.logins = logins(cx, effective);
    for secret in settings.logins.iter().flat_map(|login| login.secrets().unwrap_or_default()) {
        known = known.with("LOGIN", &secret);
    }
    settings.known_secrets = known;
}

fn logins(cx: &CommandContext, effective: &EffectiveConfig) -> Vec<AgentLogin> {
    let Some(home) = &cx.env.home else { return Vec::new() };
    effective.config().logins.iter().filter_map(|agent| AgentLogin::locate(*agent, home)).collect()
}

/// The agents that are signed in on this machine.
fn signed_in(cx: &CommandContext) -> Vec<AgentUse> {
    let Some(home) = &cx.env.home else { return Vec::new() };
    let found = |agent: &AgentUse| AgentLogin::locate(*agent, home).is_some_and(|login| login.exists());
    DRIVEN_AGENTS.into_iter().filter(found).collect()
}

fn server_hint(name: &str) -> String {
    format!("write `mcp_servers: {{ {name}: {{ run: [PROGRAM, …] }} }}` into `~/.config/loopwright/config.yaml`")
}

fn sign_in_hint(agent: AgentUse, remedy: &str) -> String {
    let word = agent.word();
    format!(
        "`{word}` is signed in on this machine: to use that, put `logins: [{word}]` into `~/.config/loopwright/config.yaml`; or {remedy}"
    )
}

/// The secret at a place that the configuration names, and the place; or why there is none.
pub(super) fn read_secret(cx: &CommandContext, source: &KeySource) -> Result<(String, String), String> {
    match source {
        KeySource::Env(names) if *names == AWS_VARIABLES => read_aws_variables(cx),
        KeySource::Env(names) => {
            let set = |name: &String| Some((cx.env.secrets.get(name)?.to_owned(), name.clone()));
            let found = names.iter().filter_map(set).find(|(key, _)| !key.trim().is_empty());
            found.ok_or_else(|| format!("{} is not set", names.join(" or ")))
        }
        KeySource::File(path) => Ok((read_secret_file(&cx.user_path(path)?, path)?, path.clone())),
    }
}

/// The access key of Amazon's variables, in the format of its credentials file.
fn read_aws_variables(cx: &CommandContext) -> Result<(String, String), String> {
    let value =
        |name: &str| cx.env.secrets.get(name).map(|text| text.trim().to_owned()).filter(|text| !text.is_empty());
    let [id, secret, token] = AWS_VARIABLES.map(value);
    let missing = |name: &str| format!("{name} is not set");
    let id = id.ok_or_else(|| missing(AWS_VARIABLES[0]))?;
    let secret = secret.ok_or_else(|| missing(AWS_VARIABLES[1]))?;
    let token = token.map(|token| format!("aws_session_token={token}\n")).unwrap_or_default();
    let text = format!("[default]\naws_access_key_id={id}\naws_secret_access_key={secret}\n{token}");
    Ok((text, AWS_VARIABLES[0].to_owned()))
}

/// The text of a file with a credential; messages name it as `shown`.
pub(super) fn read_secret_file(path: &Path, shown: &str) -> Result<String, String> {
    let bytes = read_bytes(path).map_err(|error| format!("read `{shown}`: {error}"))?;
    let text = String::from_utf8(bytes).ok().filter(|text| text.len() <= KEY_FILE_MAX);
    text.ok_or_else(|| format!("`{shown}` contains no key"))
}

fn usable(name: &str, config: &ProviderConfig, key: Option<&str>) -> Result<ModelProvider, String> {
    let signer = signer(config, key)?;
    let key = key.filter(|_| signer.is_none());
    let key = key.map_or_else(|| Ok(ProviderKey::keyless()), ProviderKey::new).map_err(|error| error.to_string())?;
    let provider = ModelProvider::new(name, &config.url, config.style, key).map_err(|error| error.to_string())?;
    let paths = |path: &String| match path.strip_suffix('*') {
        Some(head) => PathMatch::Under(head.to_owned()),
        None => PathMatch::Only(path.clone()),
    };
    let usual = SilenceLimits::default();
    let silence = SilenceLimits {
        first_byte: config.first_byte.map_or(usual.first_byte, TimeSpan::duration),
        between_bytes: config.between_bytes.map_or(usual.between_bytes, TimeSpan::duration),
    };
    let provider = provider.with_paths(config.paths.iter().map(paths).collect()).with_silence(silence);
    let provider = provider.with_additions(&config.query, &config.headers).map_err(|error| error.to_string())?;
    let provider = signer.into_iter().fold(provider, ModelProvider::signed_by);
    Ok(if config.metered { provider } else { provider.without_cost() })
}

/// The signer of a cloud; `None` for a provider with a plain key.
fn signer(config: &ProviderConfig, text: Option<&str>) -> Result<Option<RequestSigner>, String> {
    let text = text.unwrap_or_default();
    let signer = match config.style {
        KeyStyle::Aws => {
            let profile = config.profile.as_deref().unwrap_or("default");
            let region = config.region.clone().or_else(|| region_of(&config.url)).unwrap_or_default();
            RequestSigner::aws(text, profile, &region)
        }
        KeyStyle::GoogleCloud => RequestSigner::google(text),
        KeyStyle::Bearer | KeyStyle::XApiKey | KeyStyle::XGoogApiKey | KeyStyle::ApiKey => return Ok(None),
    };
    signer.map(Some).map_err(|error| error.to_string())
}

/// The region in an address such as `https://bedrock-runtime.us-east-1.amazonaws.com`.
fn region_of(url: &str) -> Option<String> {
    let host = url.split_once("://")?.1.split(['/', ':']).next()?;
    let (_, rest) = host.strip_suffix(".amazonaws.com")?.rsplit_once("bedrock-runtime")?;
    rest.trim_start_matches("-fips").strip_prefix('.').map(str::to_owned)
}

/// A credential in the format of a provider, to check its other settings.
fn any_key(provider: &ProviderConfig) -> String {
    match provider.style {
        KeyStyle::Aws => {
            let profile = provider.profile.as_deref().unwrap_or("default");
            format!("[{profile}]\naws_access_key_id=a\naws_secret_access_key=b\n")
        }
        KeyStyle::GoogleCloud => {
            r#"{"type":"authorized_user","client_id":"a","client_secret":"b","refresh_token":"c"}"#.to_owned()
        }
        KeyStyle::Bearer | KeyStyle::XApiKey | KeyStyle::XGoogApiKey | KeyStyle::ApiKey => "any-key".to_owned(),
    }
}

/// The problems of the providers in a user's file, apart from their keys.
pub(super) fn check_providers(file: &str, config: &ConfigLayer) -> Result<(), Vec<FileProblem>> {
    let mut findings = Vec::new();
    for (name, provider) in &config.providers {
        if let Err(why) = usable(name, provider, Some(&any_key(provider))) {
            findings.push(
                FileProblem::for_file(file, why).with_hint("`url: https://host/base`; plain http is for this machine"),
            );
        }
        for path in provider.paths.iter().filter(|path| !path.starts_with('/')) {
            let what = format!("provider `{name}`: the path `{path}` does not begin with `/`");
            findings.push(FileProblem::for_file(file, what));
        }
    }
    if findings.is_empty() { Ok(()) } else { Err(findings) }
}

/// One agent that loops can name by a word.
#[derive(Debug)]
pub(crate) struct AgentAvailability {
    /// Its word in loop files.
    pub(crate) agent: AgentUse,
    /// Its program, if installed.
    pub(crate) installed: Option<InstalledAgent>,
    /// Its capabilities; `None` for an agent that this build does not drive.
    pub(crate) capabilities: Option<AgentCapabilities>,
    /// How it gets access to its model.
    pub(crate) access: AgentAccess,
}

impl AgentAvailability {
    /// Whether a loop that names it can run here.
    pub(crate) fn is_usable(&self) -> bool {
        self.capabilities.is_some() && !matches!(self.access, AgentAccess::Missing(_))
    }

    /// Every agent that has its own program, in the order in which a loop that names none chooses.
    pub(crate) fn read_all(cx: &CommandContext, work_tree: Option<&Path>) -> Result<Vec<Self>, CommandError> {
        let (access, path) = (ModelAccess::read(cx)?, cx.extra_path(work_tree));
        let candidate = |agent: AgentUse| {
            let installed = agents::find(agent, &path, work_tree);
            let driven = installed.clone().and_then(|installed| agents::driven_agent_at(installed).ok());
            let capabilities = driven.map(|agent| agent.capabilities());
            Self { agent, installed, capabilities, access: access.for_agent(&AgentSpec::new(agent)) }
        };
        Ok(DRIVEN_AGENTS.map(candidate).into())
    }
}

/// The options of a listener for deliveries; `None` when neither the flag nor the configuration names an address.
/// Without a secret, every delivery is refused.
pub(crate) fn webhook_options(
    cx: &CommandContext,
    listen: Option<SocketAddr>,
) -> Result<Option<WebhookOptions>, CommandError> {
    let config = cx.config(None)?.config().webhooks.clone();
    let Some(listen) = listen.or(config.listen) else { return Ok(None) };
    let mut options = WebhookOptions::new(listen);
    for (source, place) in &config.secrets {
        let secret = webhook_secret(cx, place).map_err(|why| {
            CommandError::invalid(format!("the webhook secret of `{source}`: {why}"))
                .hint("`webhooks.secrets` in your own configuration names the file or variable that has it")
        })?;
        options.secrets.insert(source.clone(), secret);
    }
    options.trusted = config.trusted;
    options.own = config.own;
    Ok(Some(options))
}

fn webhook_secret(cx: &CommandContext, place: &SecretLocation) -> Result<WebhookSecret, String> {
    let read = |source| read_secret(cx, source).map(|(text, _)| text);
    let secret = WebhookSecret::new(&read(&place.now)?).map_err(|error| error.to_string())?;
    match &place.previous {
        Some(before) => secret.or_previous(&read(before)?).map_err(|error| error.to_string()),
        None => Ok(secret),
    }
}
