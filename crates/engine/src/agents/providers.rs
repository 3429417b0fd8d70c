//! The model providers that an agent uses, by name, and the fix for a required one without a key. Knows only names: the
//! egress proxy knows addresses and keys.

use loopwright_core::config::built_in;
use loopwright_core::spec::{AgentSpec, AgentUse, LoopSpec, Role};
use std::collections::BTreeSet;

/// The providers that an agent uses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProviderChoice {
    /// None: it has no model.
    Nobody,
    /// Only this one.
    One(String),
    /// This one if it is available, otherwise the first available one.
    Preferred(&'static str),
    /// The first available one.
    First,
    /// All available ones, because its choice is not known.
    All,
}

impl ProviderChoice {
    /// The providers of an agent with this model.
    #[must_use]
    pub fn for_agent(agent: AgentUse, model: Option<&str>) -> Self {
        let one = |name: &str| Self::One(name.to_owned());
        match agent {
            AgentUse::Claude => one("anthropic"),
            AgentUse::Codex => one("openai"),
            AgentUse::Gemini => one("google"),
            AgentUse::Opencode => match model.and_then(|model| model.split_once('/')) {
                Some((provider, _)) => one(provider),
                None => model.and_then(provider_of_model).map_or(Self::First, Self::Preferred),
            },
            AgentUse::Acp | AgentUse::Command => Self::All,
            AgentUse::Scripted => Self::Nobody,
        }
    }

    /// The providers of a role's agent.
    #[must_use]
    pub fn for_spec(spec: &AgentSpec) -> Self {
        let named = spec.provider.clone().filter(|_| spec.agent != AgentUse::Scripted);
        named.map_or_else(|| Self::for_agent(spec.agent, spec.model.as_deref()), Self::One)
    }

    /// The known providers that it may use, in their order.
    #[must_use]
    pub fn select_from<'n>(&self, known: &[&'n str]) -> Vec<&'n str> {
        match self {
            Self::Nobody => Vec::new(),
            Self::One(name) => known.iter().copied().filter(|known| known == name).collect(),
            Self::Preferred(name) => {
                let at_home = known.iter().copied().find(|known| known == name);
                at_home.or(known.first().copied()).into_iter().collect()
            }
            Self::First => known.iter().copied().take(1).collect(),
            Self::All => known.to_vec(),
        }
    }

    /// Whether it cannot work with these providers.
    #[must_use]
    pub fn is_unmet_by(&self, known: &[&str]) -> bool {
        match self {
            Self::Nobody | Self::All => false,
            Self::One(_) | Self::Preferred(_) | Self::First => self.select_from(known).is_empty(),
        }
    }

    /// The fix for a missing provider.
    #[must_use]
    pub fn remedy(&self) -> String {
        let name = match self {
            Self::One(name) => name.as_str(),
            Self::Preferred(name) => name,
            Self::Nobody | Self::First | Self::All => "anthropic",
        };
        match built_in(name).and_then(|provider| provider.key) {
            Some(key) => format!(
                "set {key}, or name its key file in your own configuration: `providers: {{ {name}: {{ key_file: … }} }}`"
            ),
            None => format!(
                "add `providers: {{ {name}: {{ url: …, key_env: … }} }}` to your own configuration; for one that is free \
                 and needs no key, `{{ url: …, metered: false }}`"
            ),
        }
    }
}

/// The provider that makes a model, by the prefix of its name.
#[must_use]
pub fn provider_of_model(model: &str) -> Option<&'static str> {
    let makers = [("claude", "anthropic"), ("gpt", "openai"), ("gemini", "google")];
    makers.into_iter().find(|(start, _)| model.starts_with(start)).map(|(_, provider)| provider)
}

/// The known providers that a loop's agents and their fallbacks need. A maker that the loop does not name belongs to an
/// embedder, who also chose the providers.
#[must_use]
pub fn needed_providers<'n>(spec: &LoopSpec, known: &[&'n str]) -> Vec<&'n str> {
    if !spec.agents.contains_key(&Role::Maker) {
        return known.to_vec();
    }
    let plays = |role: &Role| spec.plays(*role);
    let chains = Role::ALL.into_iter().filter(plays).flat_map(|role| spec.chain(role));
    let wanted: BTreeSet<&str> = chains.flat_map(|agent| ProviderChoice::for_spec(&agent).select_from(known)).collect();
    known.iter().copied().filter(|name| wanted.contains(name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use loopwright_core::level::LoopLevel;
    use loopwright_core::spec::CheckMode;

    const KNOWN: [&str; 4] = ["anthropic", "openai", "google", "house"];

    fn agent(agent: AgentUse, model: Option<&str>) -> AgentSpec {
        AgentSpec { model: model.map(str::to_owned), ..AgentSpec::new(agent) }
    }

    #[test]
    fn each_agent_gets_only_the_provider_that_it_uses() {
        let cases: [(AgentUse, Option<&str>, &[&str]); 11] = [
            (AgentUse::Claude, Some("opus"), &["anthropic"]),
            (AgentUse::Codex, None, &["openai"]),
            (AgentUse::Gemini, None, &["google"]),
            (AgentUse::Opencode, Some("google/gemini-pro"), &["google"]),
            (AgentUse::Opencode, Some("house/model"), &["house"]),
            (AgentUse::Opencode, None, &["anthropic"]),
            (AgentUse::Opencode, Some("gpt-6"), &["openai"]),
            (AgentUse::Opencode, Some("llama"), &["anthropic"]),
            (AgentUse::Opencode, Some("nobody/model"), &[]),
            (AgentUse::Acp, None, &KNOWN),
            (AgentUse::Scripted, None, &[]),
        ];
        for (who, model, expected) in cases {
            assert_eq!(ProviderChoice::for_agent(who, model).select_from(&KNOWN), expected, "{who:?} {model:?}");
        }
    }

    #[test]
    fn provider_of_the_loop_file_replaces_the_usual_one() {
        for who in [AgentUse::Claude, AgentUse::Codex, AgentUse::Opencode, AgentUse::Acp, AgentUse::Command] {
            let spec = AgentSpec { provider: Some("house".to_owned()), ..agent(who, Some("gpt-6")) };
            assert_eq!(ProviderChoice::for_spec(&spec).select_from(&KNOWN), ["house"], "{who:?}");
        }
        let fallback = vec!["claude@house/m".to_owned(), "codex".to_owned()];
        let mut spec = LoopSpec::new("x", "y", LoopLevel::L1Report);
        spec.check = CheckMode::None;
        spec.agents.insert(Role::Maker, AgentSpec { fallback, ..agent(AgentUse::Claude, None) });
        assert_eq!(needed_providers(&spec, &KNOWN), ["anthropic", "openai", "house"]);
    }

    #[test]
    fn loop_gets_what_its_roles_and_their_fallbacks_need() {
        let mut spec = LoopSpec::new("x", "y", LoopLevel::L1Report);
        assert_eq!(needed_providers(&spec, &KNOWN), KNOWN, "agents of an embedder");
        spec.agents.insert(Role::Maker, agent(AgentUse::Scripted, None));
        assert!(needed_providers(&spec, &KNOWN).is_empty());
        let maker = AgentSpec { fallback: vec!["gemini/pro".to_owned()], ..agent(AgentUse::Claude, None) };
        spec.agents.insert(Role::Maker, maker);
        spec.agents.insert(Role::Checker, agent(AgentUse::Codex, None));
        assert_eq!(needed_providers(&spec, &KNOWN), ["anthropic", "openai", "google"]);
        spec.check = CheckMode::None;
        assert_eq!(needed_providers(&spec, &KNOWN), ["anthropic", "google"]);
    }

    #[test]
    fn provider_without_a_key_is_lacking_and_the_remedy_names_its_variable() {
        let claude = ProviderChoice::for_agent(AgentUse::Claude, None);
        assert!(
            claude.is_unmet_by(&["openai"]) && !claude.is_unmet_by(&KNOWN) && !ProviderChoice::All.is_unmet_by(&[])
        );
        assert!(claude.remedy().starts_with("set ANTHROPIC_API_KEY"), "{}", claude.remedy());
        assert!(
            ProviderChoice::for_agent(AgentUse::Gemini, None)
                .remedy()
                .starts_with("set GEMINI_API_KEY or GOOGLE_API_KEY")
        );
        assert!(ProviderChoice::One("house".to_owned()).remedy().contains("providers: { house: { url"));
    }
}
