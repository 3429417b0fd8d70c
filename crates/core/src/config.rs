//! Configuration files: the repository's and the user's, their keys, and which of several sources a value came from.
//!
//! This module opens no file and reads no environment; the command line passes in texts and their origins.

mod agent_options;
mod fleet;
mod forges;
mod mcp_servers;
mod notify;
mod people;
mod providers;
mod signing;
mod telemetry;
mod web;
mod webhooks;

pub use agent_options::{AgentOptions, AgentOptionsTable, ModelEffort};
pub use fleet::{ConcurrencyConfig, RepoEntry};
pub use forges::{ForgeAccess, ForgeApp, ForgeConfig, ForgeKind, OutboundWebhook, SlackConfig, SlackCredential};
pub use mcp_servers::McpServerConfig;
pub use notify::{MailConfig, MailSecurity, NotifyReceiver, NotifyRoute};
pub use people::{OS_ACCOUNT, PeopleConfig, SLACK_ACCOUNT};
pub use providers::{AWS_VARIABLES, DEFAULT_SILENCE_SECS, KeySource, KeyStyle, ProviderConfig, built_in};
pub use signing::SigningConfig;
pub use telemetry::TelemetryConfig;
pub use web::{TlsFiles, WebConfig};
pub use webhooks::{SecretLocation, WebhooksConfig};

use crate::autonomy::AutonomyRules;
use crate::budget::SpendAllowance;
use crate::prices::ModelPrices;
use crate::spec::path::SpecPath;
use crate::spec::problem::{ProblemKind, quoted};
use crate::spec::reader::value::{ProblemCollector, SpecFields, SpecValue};
use crate::spec::source::SourceText;
use crate::spec::tree::{self, YamlNode, YamlValue};
use crate::spec::{AgentSpec, AgentUse, Role, SpecProblems, reader, rules};
use crate::units::{TimeSpan, Usd};
use serde::Serialize;
use std::collections::BTreeMap;

/// The origin of a value; later ones take precedence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ConfigOrigin {
    /// No source sets it.
    Default,
    /// The user's file.
    User,
    /// The repository's file.
    Repository,
    /// The environment.
    Environment,
    /// A flag of the command line.
    Flag,
}

/// The price of a million tokens of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct ModelPrice {
    /// Fresh input.
    pub input: Usd,
    /// Output.
    pub output: Usd,
    /// Input read from a cache.
    pub cache_read: Usd,
    /// Input written to a cache.
    pub cache_write: Usd,
}

/// The identity in commits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CommitterConfig {
    /// The name in commits.
    pub name: String,
    /// The address in commits.
    pub email: String,
}

/// The values of one source; `None` and empty mean that the source does not set them.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ConfigLayer {
    /// The forge for loops that do not name one.
    pub forge: Option<String>,
    /// The state directory.
    pub state_dir: Option<String>,
    /// A path, or `postgres://…`.
    pub store: Option<String>,
    /// The agents of roles for loops that do not name them.
    pub agents: BTreeMap<Role, AgentSpec>,
    /// The price of each model.
    pub prices: BTreeMap<String, ModelPrice>,
    /// The identity in commits.
    pub identity: Option<CommitterConfig>,
    /// The key that signs the commits that are sent; only the user's own file may name it.
    pub signing: Option<SigningConfig>,
    /// How long a question stays open before it counts as denied.
    pub approvals_expire: Option<TimeSpan>,
    /// How long a round may wait for model providers in total.
    pub provider_wait: Option<TimeSpan>,
    /// How many days ended rounds are kept.
    pub retention_days: Option<u32>,
    /// How many days logs are kept.
    pub log_retention_days: Option<u32>,
    /// Further globs of paths that always need a human.
    pub sensitive: Vec<String>,
    /// Repositories that the daemon manages.
    pub repos: Vec<RepoEntry>,
    /// How many rounds run at once.
    pub concurrency: ConcurrencyConfig,
    /// The polling interval of the seed's orchestrator; accepted without effect, because nothing polls here.
    pub scheduler_tick_seconds: Option<u32>,
    /// Ceilings over all loops.
    pub budget: SharedBudget,
    /// Options of agents; only the user's own file may set them.
    pub agent_options: AgentOptionsTable,
    /// Servers of the Model Context Protocol, by name; only the user's own file may define them.
    pub mcp_servers: BTreeMap<String, McpServerConfig>,
    /// Model providers; only the user's own file may name them.
    pub providers: BTreeMap<String, ProviderConfig>,
    /// Agents whose own sign-in loops may use; only the user's own file may name them.
    pub logins: Vec<AgentUse>,
    /// Inbound webhooks; only the user's own file may name them.
    pub webhooks: WebhooksConfig,
    /// The HTTP server of the daemon; only the user's own file may set it.
    pub web: WebConfig,
    /// Forges besides `local`; only the user's own file may name them.
    pub forges: BTreeMap<String, ForgeConfig>,
    /// The Slack workspace that receives messages; only the user's own file may name it.
    pub slack: Option<SlackConfig>,
    /// The receivers of `webhook` items; only the user's own file may name them.
    pub webhooks_out: BTreeMap<String, OutboundWebhook>,
    /// The routes of notifications; only the user's own file may name them.
    pub notify: BTreeMap<String, NotifyRoute>,
    /// The collector of telemetry; only the user's own file may name it.
    pub telemetry: Option<TelemetryConfig>,
    /// People with their accounts; only the user's own file may name them.
    pub people: PeopleConfig,
    /// Whether levels above L1 need a person's confirmation; only the user's own file may say so.
    pub require_promotion: Option<bool>,
    /// The limits at which a loop is demoted; only the user's own file may set them.
    pub demote: DemoteConfig,
}

/// The limits at which a loop is demoted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct DemoteConfig {
    /// Rejections in a row.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rejections: Option<u32>,
    /// The lowest catch rate of the checker, in percent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub catch_rate: Option<u32>,
}

/// Ceilings that many loops share. A further source can only tighten them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SharedBudget {
    /// All loops of one repository on one day.
    pub repo_day: SpendAllowance,
    /// Everything on one day.
    pub fleet_day: SpendAllowance,
    /// Everything in one month.
    pub fleet_month: SpendAllowance,
}

impl SharedBudget {
    /// The lower ceiling of each scope.
    #[must_use]
    pub fn tightest(self, other: Self) -> Self {
        Self {
            repo_day: self.repo_day.tightest(other.repo_day),
            fleet_day: self.fleet_day.tightest(other.fleet_day),
            fleet_month: self.fleet_month.tightest(other.fleet_month),
        }
    }
}

const KEYS: &str = "forge state_dir store agents prices identity approvals provider_wait retention \
    log_retention_days sensitive repos concurrency scheduler_tick_seconds budget providers logins webhooks forges \
    slack webhooks_out people require_promotion demote signing web agent_options mcp_servers notify telemetry";

/// Reads a configuration file. `file` is the name messages show.
///
/// # Errors
/// Every problem of the file at once.
pub fn read_config_file(file: &str, text: &[u8]) -> Result<ConfigLayer, SpecProblems> {
    let text = crate::spec::file::decode(file, text)?;
    let source = SourceText::new(file, text);
    let parsed = tree::parse(&source, text, 1).map_err(SpecProblems::new)?;
    let findings = ProblemCollector::new(&source);
    let config = match parsed.root.value {
        YamlValue::Null => ConfigLayer::default(),
        _ => read(&SpecValue::root(&findings, &parsed.root)),
    };
    object(&config, &parsed.root, &findings);
    let mut problems = parsed.problems;
    problems.extend(findings.into_problems());
    if problems.is_empty() { Ok(config) } else { Err(SpecProblems::new(problems)) }
}

fn read(root: &SpecValue<'_>) -> ConfigLayer {
    let mut config = ConfigLayer::default();
    let Some(fields) = root.fields(KEYS) else { return config };
    config.forge = fields.option("forge", SpecValue::text);
    config.state_dir = fields.option("state_dir", SpecValue::text);
    config.store = fields.option("store", SpecValue::text);
    fields.set("agents", &mut config.agents, reader::agents);
    fields.set("prices", &mut config.prices, |at| at.map_of("a mapping of model to its prices", price));
    config.identity = fields.option("identity", identity);
    config.signing = fields.option("signing", signing::read);
    config.approvals_expire = within(&fields, "approvals", "expire", SpecValue::span);
    config.provider_wait = fields.option("provider_wait", SpecValue::span);
    config.retention_days = within(&fields, "retention", "days", days);
    config.log_retention_days = fields.option("log_retention_days", days);
    fields.set("sensitive", &mut config.sensitive, SpecValue::texts);
    fields.set("repos", &mut config.repos, fleet::repos);
    fields.set("concurrency", &mut config.concurrency, fleet::concurrency);
    config.scheduler_tick_seconds = fields.option("scheduler_tick_seconds", |at| at.whole(1..=86_400));
    fields.set("budget", &mut config.budget, budget);
    fields.set("agent_options", &mut config.agent_options, agent_options::read);
    fields.set("mcp_servers", &mut config.mcp_servers, mcp_servers::read);
    fields.set("providers", &mut config.providers, providers::read);
    fields.set("logins", &mut config.logins, providers::read_logins);
    fields.set("webhooks", &mut config.webhooks, webhooks::read);
    fields.set("web", &mut config.web, web::read);
    fields.set("forges", &mut config.forges, forges::read);
    config.slack = fields.option("slack", forges::read_slack);
    fields.set("webhooks_out", &mut config.webhooks_out, forges::read_webhooks);
    fields.set("notify", &mut config.notify, notify::read);
    config.telemetry = fields.option("telemetry", telemetry::read);
    fields.set("people", &mut config.people, people::read);
    config.require_promotion = fields.option("require_promotion", SpecValue::flag);
    fields.set("demote", &mut config.demote, demote);
    config
}

/// A block with a single key.
fn within<'n, T>(
    fields: &SpecFields<'n>,
    block: &'static str,
    key: &'static str,
    read: impl Fn(&SpecValue<'n>) -> Option<T>,
) -> Option<T> {
    fields.option(block, |at| at.fields(key)?.option(key, read))
}

fn days(at: &SpecValue<'_>) -> Option<u32> {
    at.whole(1..=36_500)
}

fn demote(at: &SpecValue<'_>) -> Option<DemoteConfig> {
    let fields = at.fields("rejections catch_rate")?;
    Some(DemoteConfig {
        rejections: fields.option("rejections", |at| at.whole(1..=1_000)),
        catch_rate: fields.option("catch_rate", |at| at.whole(0..=100)),
    })
}

fn identity(at: &SpecValue<'_>) -> Option<CommitterConfig> {
    let fields = at.fields("name email")?;
    let (name, email) =
        (fields.required("name", "Ada", SpecValue::text), fields.required("email", "ada@example.org", SpecValue::text));
    Some(CommitterConfig { name: name?, email: email? })
}

fn budget(at: &SpecValue<'_>) -> Option<SharedBudget> {
    let fields = at.fields("repo fleet")?;
    let repo_day = within(&fields, "repo", "day", allowance).unwrap_or_default();
    let mut budget = SharedBudget { repo_day, ..SharedBudget::default() };
    if let Some(fleet) = fields.option("fleet", |at| at.fields("day month")) {
        fleet.set("day", &mut budget.fleet_day, allowance);
        fleet.set("month", &mut budget.fleet_month, allowance);
    }
    Some(budget)
}

fn allowance(at: &SpecValue<'_>) -> Option<SpendAllowance> {
    let fields = at.fields("usd tokens")?;
    Some(SpendAllowance {
        usd: fields.option("usd", SpecValue::usd),
        tokens: fields.option("tokens", SpecValue::tokens),
    })
}

fn price(at: &SpecValue<'_>) -> Option<ModelPrice> {
    let fields = at.fields("input output cache_read cache_write")?;
    let input = fields.required("input", "3.00", SpecValue::usd);
    let output = fields.required("output", "15.00", SpecValue::usd);
    // Cached input without a price costs as much as fresh input; free input would hide spend.
    let cache_read = fields.option("cache_read", SpecValue::usd);
    let cache_write = fields.option("cache_write", SpecValue::usd);
    let input = input?;
    Some(ModelPrice {
        input,
        output: output?,
        cache_read: cache_read.unwrap_or(input),
        cache_write: cache_write.unwrap_or(input),
    })
}

/// Checks the values and reports problems with their position in the file.
fn object(config: &ConfigLayer, root: &YamlNode, findings: &ProblemCollector<'_>) {
    let agents = config
        .agents
        .iter()
        .flat_map(|(role, agent)| rules::agent_violations(&SpecPath::root_key("agents").key(role.word()), agent));
    let globs = rules::glob_violations(&SpecPath::root_key("sensitive"), &config.sensitive);
    agents.chain(globs).for_each(|violation| findings.add_violation(violation, root));
    if let Some(identity) = &config.identity {
        let unusable = |text: &str| text.trim().is_empty() || text.chars().any(|c| c.is_control() || "<>".contains(c));
        for (key, text) in [("name", &identity.name), ("email", &identity.email)] {
            if unusable(text) {
                let path = SpecPath::root_key("identity").key(key);
                let what = format!("{} is not allowed in a commit", quoted(text));
                findings.add(ProblemKind::Value, path.span_in(root), what, None);
            }
        }
    }
}

/// One effective value and where it came from.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct EffectiveSetting {
    /// The key, dotted.
    pub key: String,
    /// Its value, as the configuration file would have it.
    pub value: serde_json::Value,
    /// The source that set it.
    pub origin: ConfigOrigin,
}

/// The effective configuration: several merged sources, each value with its origin.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct EffectiveConfig {
    config: ConfigLayer,
    origins: BTreeMap<String, ConfigOrigin>,
}

impl EffectiveConfig {
    /// The values.
    #[must_use]
    pub fn config(&self) -> &ConfigLayer {
        &self.config
    }

    /// Merges a further source: the values it sets take precedence, others stay.
    #[must_use]
    pub fn merge(mut self, over: ConfigLayer, origin: ConfigOrigin) -> Self {
        let said = over.settings();
        let before: BTreeMap<_, _> = self.config.settings().into_iter().collect();
        self.config = self.config.merge(over);
        let after: BTreeMap<_, _> = self.config.settings().into_iter().collect();
        for (key, _) in said {
            // A ceiling that is not tighter than the one before has changed nothing.
            if !key.starts_with("budget.") || before.get(&key) != after.get(&key) {
                self.origins.insert(key, origin);
            }
        }
        self
    }

    /// How long a question stays open before it counts as denied: seven days by default.
    #[must_use]
    pub fn approvals_expire(&self) -> TimeSpan {
        self.config.approvals_expire.unwrap_or(DEFAULT_EXPIRE)
    }

    /// How long a round may wait for model providers in total: a quarter of an hour by default.
    #[must_use]
    pub fn provider_wait(&self) -> TimeSpan {
        self.config.provider_wait.unwrap_or(DEFAULT_WAIT)
    }

    /// The rules of promotion and demotion.
    #[must_use]
    pub fn autonomy(&self) -> AutonomyRules {
        let defaults = AutonomyRules::default();
        AutonomyRules {
            require_promotion: self.config.require_promotion.unwrap_or(defaults.require_promotion),
            rejections_max: self.config.demote.rejections.unwrap_or(defaults.rejections_max),
            catch_rate_min: self.config.demote.catch_rate.unwrap_or(defaults.catch_rate_min),
        }
    }

    /// How many days ended rounds are kept: thirty by default.
    #[must_use]
    pub fn retention_days(&self) -> u32 {
        self.config.retention_days.unwrap_or(DEFAULT_DAYS)
    }

    /// How many days logs are kept: thirty by default.
    #[must_use]
    pub fn log_retention_days(&self) -> u32 {
        self.config.log_retention_days.unwrap_or(DEFAULT_DAYS)
    }

    /// The forge for loops that do not name one.
    #[must_use]
    pub fn forge(&self) -> &str {
        self.config.forge.as_deref().unwrap_or("local")
    }

    /// The model providers, in the order in which an agent that can use any of them chooses one. The built-in ones are
    /// listed whether or not their keys are set.
    #[must_use]
    pub fn providers(&self) -> Vec<(String, ProviderConfig)> {
        providers::effective(&self.config.providers)
    }

    /// The prices of models: the built-in table, the user's own prices, and the providers that cost nothing.
    #[must_use]
    pub fn model_prices(&self) -> ModelPrices {
        let free = self.config.providers.iter().filter(|(_, provider)| !provider.metered);
        ModelPrices::new(self.config.prices.clone()).with_unmetered(free.map(|(name, _)| name.clone()))
    }

    /// Every effective value with its origin, sorted by key; defaults are listed too.
    #[must_use]
    pub fn settings(&self) -> Vec<EffectiveSetting> {
        let defaults = ConfigLayer {
            forge: Some("local".to_owned()),
            approvals_expire: Some(DEFAULT_EXPIRE),
            provider_wait: Some(DEFAULT_WAIT),
            retention_days: Some(DEFAULT_DAYS),
            log_retention_days: Some(DEFAULT_DAYS),
            providers: self.providers().into_iter().collect(),
            ..ConfigLayer::default()
        };
        let mut values: BTreeMap<String, serde_json::Value> = defaults.settings().into_iter().collect();
        values.extend(self.config.settings());
        let origin = |key: &str| self.origins.get(key).copied().unwrap_or(ConfigOrigin::Default);
        values.into_iter().map(|(key, value)| EffectiveSetting { origin: origin(&key), key, value }).collect()
    }
}

const DEFAULT_EXPIRE: TimeSpan = TimeSpan::secs(7 * 86_400);
const DEFAULT_WAIT: TimeSpan = TimeSpan::secs(15 * 60);
const DEFAULT_DAYS: u32 = 30;

impl ConfigLayer {
    /// Merges another configuration into this one. Maps are joined by key; lists are appended, because a source may
    /// only add.
    #[must_use]
    pub fn merge(mut self, over: Self) -> Self {
        self.agents.extend(over.agents);
        self.prices.extend(over.prices);
        self.budget = self.budget.tightest(over.budget);
        self.agent_options.extend(over.agent_options);
        self.mcp_servers.extend(over.mcp_servers);
        self.providers.extend(over.providers);
        self.webhooks = self.webhooks.merge(over.webhooks);
        self.web = self.web.merge(over.web);
        self.forges.extend(over.forges);
        self.webhooks_out.extend(over.webhooks_out);
        self.notify.extend(over.notify);
        for agent in over.logins {
            if !self.logins.contains(&agent) {
                self.logins.push(agent);
            }
        }
        for glob in over.sensitive {
            if !self.sensitive.contains(&glob) {
                self.sensitive.push(glob);
            }
        }
        for repo in over.repos {
            self.repos.retain(|known| known.path != repo.path);
            self.repos.push(repo);
        }
        self.concurrency = self.concurrency.merge(over.concurrency);
        self.people.0.extend(over.people.0);
        Self {
            forge: over.forge.or(self.forge),
            slack: over.slack.or(self.slack),
            telemetry: over.telemetry.or(self.telemetry),
            require_promotion: over.require_promotion.or(self.require_promotion),
            demote: DemoteConfig {
                rejections: over.demote.rejections.or(self.demote.rejections),
                catch_rate: over.demote.catch_rate.or(self.demote.catch_rate),
            },
            state_dir: over.state_dir.or(self.state_dir),
            store: over.store.or(self.store),
            identity: over.identity.or(self.identity),
            signing: over.signing.or(self.signing),
            approvals_expire: over.approvals_expire.or(self.approvals_expire),
            provider_wait: over.provider_wait.or(self.provider_wait),
            retention_days: over.retention_days.or(self.retention_days),
            log_retention_days: over.log_retention_days.or(self.log_retention_days),
            scheduler_tick_seconds: over.scheduler_tick_seconds.or(self.scheduler_tick_seconds),
            ..self
        }
    }

    /// The values that are set, by key.
    fn settings(&self) -> Vec<(String, serde_json::Value)> {
        let mut settings = Settings(Vec::new());
        settings.some("forge", self.forge.as_ref());
        settings.some("state_dir", self.state_dir.as_ref());
        settings.some("store", self.store.as_deref().map(hide_password).as_ref());
        for (role, agent) in &self.agents {
            settings.some(&format!("agents.{}", role.word()), Some(agent));
        }
        for (model, price) in &self.prices {
            settings.some(&format!("prices.{model}"), Some(price));
        }
        settings.some("identity", self.identity.as_ref());
        settings.some("signing", self.signing.as_ref());
        settings.some("approvals.expire", self.approvals_expire.as_ref());
        settings.some("provider_wait", self.provider_wait.as_ref());
        settings.some("retention.days", self.retention_days.as_ref());
        settings.some("log_retention_days", self.log_retention_days.as_ref());
        settings.some("sensitive", (!self.sensitive.is_empty()).then_some(&self.sensitive));
        settings.some("repos", (!self.repos.is_empty()).then_some(&self.repos));
        settings.some("concurrency", (!self.concurrency.is_none()).then_some(&self.concurrency));
        settings.some("scheduler_tick_seconds", self.scheduler_tick_seconds.as_ref());
        let SharedBudget { repo_day, fleet_day, fleet_month } = &self.budget;
        for (key, allowance) in [("repo.day", repo_day), ("fleet.day", fleet_day), ("fleet.month", fleet_month)] {
            settings.some(&format!("budget.{key}"), (!allowance.is_none()).then_some(allowance));
        }
        for (agent, options) in &self.agent_options {
            settings.some(&format!("agent_options.{agent}"), Some(options));
        }
        for (name, server) in &self.mcp_servers {
            settings.some(&format!("mcp_servers.{name}"), Some(server));
        }
        for (name, provider) in &self.providers {
            settings.some(&format!("providers.{name}"), Some(provider));
        }
        settings.some("logins", (!self.logins.is_empty()).then_some(&self.logins));
        settings.some("webhooks", (!self.webhooks.is_default()).then_some(&self.webhooks));
        settings.some("web", (self.web != WebConfig::default()).then_some(&self.web));
        for (name, forge) in &self.forges {
            settings.some(&format!("forges.{name}"), Some(forge));
        }
        settings.some("slack", self.slack.as_ref());
        for (name, webhook) in &self.webhooks_out {
            settings.some(&format!("webhooks_out.{name}"), Some(webhook));
        }
        for (name, route) in &self.notify {
            settings.some(&format!("notify.{name}"), Some(route));
        }
        settings.some("telemetry", self.telemetry.as_ref());
        settings.some("people", (!self.people.is_empty()).then_some(&self.people));
        settings.some("require_promotion", self.require_promotion.as_ref());
        settings.some("demote", (self.demote != DemoteConfig::default()).then_some(&self.demote));
        settings.0
    }
}

struct Settings(Vec<(String, serde_json::Value)>);

impl Settings {
    fn some<T: Serialize>(&mut self, key: &str, value: Option<&T>) {
        if let Some(value) = value {
            let value = serde_json::to_value(value).expect("configuration is data that JSON can hold");
            self.0.push((key.to_owned(), value));
        }
    }
}

/// A store's address without its password.
fn hide_password(store: &str) -> String {
    let Some((scheme, rest)) = store.split_once("://") else { return store.to_owned() };
    let (authority, path) = rest.split_once('/').map_or((rest, None), |(authority, path)| (authority, Some(path)));
    let Some((user, host)) = authority.rsplit_once('@') else { return store.to_owned() };
    let user = user.split(':').next().unwrap_or_default();
    let path = path.map(|path| format!("/{path}")).unwrap_or_default();
    format!("{scheme}://{user}:***@{host}{path}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;

    const USER: &str = "forge: local\nstore: postgres://me:secret@db.example.org/loops\nsensitive: [infra/**]\n\
        prices:\n  sonnet: { input: 3, output: 15, cache_read: 0.3 }\nidentity: { name: Ada, email: ada@example.org }\n";
    const REPOSITORY: &str =
        "agents: { maker: { use: scripted, script: fix.script } }\napprovals: { expire: 2d }\nsensitive: [deploy/**]\n";

    #[test]
    fn later_sources_win_and_every_value_names_its_origin() {
        let read = |text: &str| read_config_file("config.yaml", text.as_bytes()).expect("a good file");
        let effective = EffectiveConfig::default()
            .merge(read(USER), ConfigOrigin::User)
            .merge(read(REPOSITORY), ConfigOrigin::Repository);
        let lines: Vec<String> = effective
            .settings()
            .iter()
            .map(|setting| format!("{} = {} ({:?})", setting.key, setting.value, setting.origin))
            .collect();
        expect![[r#"
            agents.maker = {"use":"scripted","script":"fix.script"} (Repository)
            approvals.expire = "2d" (Repository)
            forge = "local" (User)
            identity = {"name":"Ada","email":"ada@example.org"} (User)
            log_retention_days = 30 (Default)
            prices.sonnet = {"input":3.0,"output":15.0,"cache_read":0.3,"cache_write":3.0} (User)
            provider_wait = "15m" (Default)
            providers.anthropic = {"url":"https://api.anthropic.com","style":"x-api-key","key_env":"ANTHROPIC_API_KEY"} (Default)
            providers.google = {"url":"https://generativelanguage.googleapis.com","style":"x-goog-api-key","key_env":"GEMINI_API_KEY or GOOGLE_API_KEY"} (Default)
            providers.openai = {"url":"https://api.openai.com/v1","style":"bearer","key_env":"OPENAI_API_KEY"} (Default)
            retention.days = 30 (Default)
            sensitive = ["infra/**","deploy/**"] (Repository)
            store = "postgres://me:***@db.example.org/loops" (User)"#]]
        .assert_eq(&lines.join("\n"));
        assert_eq!(effective.approvals_expire(), TimeSpan::secs(2 * 86_400));
        assert_eq!(effective.config().store.as_deref(), Some("postgres://me:secret@db.example.org/loops"));
    }

    #[test]
    fn problems_of_a_configuration_are_reported_all_at_once() {
        let text = "froge: local\nagents: { maker: { use: command } }\nretention: { days: 0 }\nsensitive: /etc\n\
            prices: { big: { input: -1 } }\nidentity: { name: \"a<b\", email: x }\n";
        let problems = read_config_file("config.yaml", text.as_bytes()).expect_err("a bad file");
        let lines: Vec<String> =
            problems.iter().map(|problem| format!("{}:{} {}", problem.line, problem.column, problem.what)).collect();
        expect![[r#"
            1:1 unknown key `froge`
            2:11 `agents.maker` uses `command` without `run`
            3:20 `retention.days` wants a whole number from 1 to 36500, found the number 0
            4:12 `sensitive[0]` is absolute: `/etc`
            5:16 missing key `output` in `prices.big`
            5:25 `prices.big.input` wants an amount in US dollars such as `2.50`, found the number -1
            6:19 `a<b` is not allowed in a commit"#]]
        .assert_eq(&lines.join("\n"));
    }

    #[test]
    fn a_later_source_can_only_tighten_a_shared_ceiling() {
        let read = |text: &str| read_config_file("config.yaml", text.as_bytes()).expect("a good file");
        let user =
            "budget: { repo: { day: { usd: 10 } }, fleet: { day: { usd: 40, tokens: 2m }, month: { usd: 500 } } }\n";
        let wider = "budget: { repo: { day: { usd: 99 } } }\n";
        let tighter = "budget: { repo: { day: { usd: 4, tokens: 100k } } }\n";
        let budgets = |repository: &str| {
            let effective = EffectiveConfig::default()
                .merge(read(user), ConfigOrigin::User)
                .merge(read(repository), ConfigOrigin::Repository);
            let all = effective.settings().into_iter().filter(|setting| setting.key.starts_with("budget."));
            all.map(|setting| format!("{} {} {:?}", setting.key, setting.value, setting.origin)).collect::<Vec<_>>()
        };
        assert_eq!(
            budgets(wider),
            [
                "budget.fleet.day {\"usd\":40.0,\"tokens\":2000000} User",
                "budget.fleet.month {\"usd\":500.0} User",
                "budget.repo.day {\"usd\":10.0} User",
            ]
        );
        assert_eq!(budgets(tighter)[2], "budget.repo.day {\"usd\":4.0,\"tokens\":100000} Repository");
        let bad = read_config_file("config.yaml", b"budget: { fleet: { week: { usd: 1 } }, repo: { day: 5 } }\n");
        assert_eq!(bad.expect_err("a bad file").iter().count(), 2);
    }

    #[test]
    fn repositories_and_limits_are_read_as_the_seed_writes_them() {
        let text = "repos:\n  - path: ~/projects/my-app\n    loops: [triage-ci, pr-reviewer]\n  - /srv/other\n\
            concurrency: 5\nlog_retention_days: 7\nscheduler_tick_seconds: 30\n";
        let config = read_config_file("config.yaml", text.as_bytes()).expect("a good file");
        let shown = serde_json::to_string(&config.repos).expect("data");
        assert_eq!(shown, r#"[{"path":"~/projects/my-app","loops":["triage-ci","pr-reviewer"]},"/srv/other"]"#);
        assert_eq!((config.concurrency.total, config.scheduler_tick_seconds), (Some(5), Some(30)));
        let more = read_config_file("c", b"concurrency: { total: 8, repo: 2, agents: { claude: 1 } }\n").expect("good");
        let merged = config.merge(more).concurrency;
        assert_eq!((merged.total, merged.repo, merged.agents.get("claude")), (Some(8), Some(2), Some(&1)));
        assert!(
            read_config_file("c", b"concurrency: 0\n").is_err() && read_config_file("c", b"repos: [{}]\n").is_err()
        );
    }

    #[test]
    fn an_empty_configuration_is_fine() {
        assert_eq!(read_config_file("config.yaml", b"# nothing yet\n"), Ok(ConfigLayer::default()));
    }

    #[test]
    fn passwords_are_not_listed() {
        assert_eq!(hide_password("postgres://u:p@h/db"), "postgres://u:***@h/db");
        assert_eq!(hide_password("postgres://u:p@q@h"), "postgres://u:***@h");
        assert_eq!(hide_password("/var/store.db"), "/var/store.db");
    }
}
