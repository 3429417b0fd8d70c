//! Model providers with their keys, and agents' own sign-ins, as this user has them: found in the variables and files
//! that the configuration names. A key goes only to the engine's egress proxy and to the list of values that no record
//! or message may contain. Users see only its source.

use super::{CommandContext, FileProblem, read_bytes};
use crate::error::CommandError;
use loopwright::EngineSettings;
use loopwright::agents::providers::ProviderChoice;
use loopwright::agents::{AgentLogin, login_hosts};
use loopwright::egress::{ModelProvider, ProviderKey};
use loopwright_core::config::{ConfigLayer, EffectiveConfig, KeySource, ProviderConfig};
use loopwright_core::network::PathMatch;
use loopwright_core::spec::{AgentSpec, LoopSpec, Role};

/// The largest key file that is read.
const KEY_FILE_MAX: usize = 16 << 10;

/// One configured provider, and whether its key exists.
#[derive(Debug)]
pub(crate) struct ProviderKeyStatus {
    /// Its name.
    pub(crate) name: String,
    /// The source of its key, or why there is none. Never the key.
    pub(crate) key_source: Result<String, String>,
}

/// The access to models that this user's agents have.
#[derive(Debug, Default)]
pub(crate) struct ModelAccess {
    /// Every provider of the configuration.
    pub(crate) providers: Vec<ProviderKeyStatus>,
    /// The sign-ins that roles may use.
    pub(crate) logins: Vec<AgentLogin>,
}

/// Whether an agent has access to its model, and how.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum AgentAccess {
    /// It needs none, or manages its own access.
    NotNeeded,
    /// With a key: the provider, and the source of the key.
    Key(String, String),
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
                None => AgentAccess::Missing(asks.remedy()),
            };
        }
        match asks {
            ProviderChoice::Nobody | ProviderChoice::All => AgentAccess::NotNeeded,
            ProviderChoice::One(_) | ProviderChoice::Preferred(_) | ProviderChoice::First => {
                let first =
                    asks.select_from(&names).first().and_then(|name| usable.iter().find(|known| known.name == *name));
                first.map_or(AgentAccess::NotNeeded, |known| {
                    AgentAccess::Key(known.name.clone(), known.key_source.clone().unwrap_or_default())
                })
            }
        }
    }

    /// The model access that the agents of a loop lack on this machine, for people.
    pub(crate) fn notes(&self, spec: &LoopSpec) -> Vec<String> {
        let roles = [Role::Maker, Role::Checker].into_iter().filter(|role| spec.agents.contains_key(role));
        let agents = roles.flat_map(|role| spec.chain(role).into_iter().map(move |agent| (role, agent)));
        agents.filter_map(|(role, agent)| self.note(role, &agent, spec)).collect()
    }

    fn note(&self, role: Role, agent: &AgentSpec, spec: &LoopSpec) -> Option<String> {
        let (role, name) = (role.word(), agent.agent.word());
        match self.for_agent(agent) {
            AgentAccess::NotNeeded | AgentAccess::Key(..) => None,
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

impl CommandContext {
    /// The access to models that this user's agents have. Reads keys to see whether they are usable, and drops them.
    pub(crate) fn model_access(&self) -> Result<ModelAccess, CommandError> {
        let effective = self.config(None)?;
        let known = effective.providers().into_iter().map(|(name, config)| {
            let found = self.key(&config).and_then(|(key, place)| usable(&name, &config, &key).map(|_| place));
            ProviderKeyStatus { name, key_source: found }
        });
        Ok(ModelAccess { providers: known.collect(), logins: self.logins(&effective) })
    }

    /// Passes the providers and sign-ins whose keys exist to the engine. A provider that is missing is reported when a
    /// loop needs it, not before.
    pub(super) fn add_providers(&self, effective: &EffectiveConfig, settings: &mut EngineSettings) {
        for (name, config) in effective.providers() {
            let Ok((key, _)) = self.key(&config) else { continue };
            if let Ok(provider) = usable(&name, &config, &key) {
                settings.providers.push(provider);
                settings.known_secrets = settings.known_secrets.clone().with(&name, key.trim());
            }
        }
        for secret in self.webhook_secrets(&effective.config().webhooks) {
            settings.known_secrets = settings.known_secrets.clone().with("WEBHOOK", &secret);
        }
        settings.logins = self.logins(effective);
        for login in &settings.logins {
            for secret in login.secrets().unwrap_or_default() {
                settings.known_secrets = settings.known_secrets.clone().with("LOGIN", &secret);
            }
        }
    }

    fn logins(&self, effective: &EffectiveConfig) -> Vec<AgentLogin> {
        let Some(home) = &self.env.home else { return Vec::new() };
        effective.config().logins.iter().filter_map(|agent| AgentLogin::locate(*agent, home)).collect()
    }

    /// A key and its source, or why there is none.
    fn key(&self, config: &ProviderConfig) -> Result<(String, String), String> {
        self.read_secret(&config.key)
    }

    /// The secret at a place that the configuration names, and the place; or why there is none.
    pub(super) fn read_secret(&self, source: &KeySource) -> Result<(String, String), String> {
        match source {
            KeySource::Env(names) => {
                let set = |name: &String| Some((self.env.secrets.get(name)?.to_owned(), name.clone()));
                let found = names.iter().filter_map(set).find(|(key, _)| !key.trim().is_empty());
                found.ok_or_else(|| format!("{} is not set", names.join(" or ")))
            }
            KeySource::File(path) => {
                let bytes = read_bytes(&self.user_path(path)?).map_err(|error| format!("read `{path}`: {error}"))?;
                let text = String::from_utf8(bytes).ok().filter(|text| text.len() <= KEY_FILE_MAX);
                Ok((text.ok_or_else(|| format!("`{path}` contains no key"))?, path.clone()))
            }
        }
    }
}

fn usable(name: &str, config: &ProviderConfig, key: &str) -> Result<ModelProvider, String> {
    let key = ProviderKey::new(key).map_err(|error| error.to_string())?;
    let provider = ModelProvider::new(name, &config.url, config.style, key).map_err(|error| error.to_string())?;
    let paths = |path: &String| match path.strip_suffix('*') {
        Some(head) => PathMatch::Under(head.to_owned()),
        None => PathMatch::Only(path.clone()),
    };
    Ok(provider.with_paths(config.paths.iter().map(paths).collect()))
}

/// The problems of the providers in a user's file, apart from their keys.
pub(super) fn check_providers(file: &str, config: &ConfigLayer) -> Result<(), Vec<FileProblem>> {
    let mut findings = Vec::new();
    for (name, provider) in &config.providers {
        if let Err(why) = usable(name, provider, "any-key") {
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
