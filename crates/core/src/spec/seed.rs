//! The seed's builder methods and words. They never fail: text that cannot be parsed is kept, and [`LoopSpec::check`]
//! reports it.

use super::seed_cadence::add_cadence;
use super::{ActionKind, LoopSpec, OutputSpec};
use crate::budget::TokenBudget;

/// Text that a builder method could not parse.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UnreadText {
    /// Given as a cadence.
    Cadence(String),
    /// Given as an action kind.
    ActionKind(String),
}

impl LoopSpec {
    /// Sets when the loop is due: `every 15m`, `daily 08:00`, `weekly mon 09:30` or a five-field cron line.
    #[must_use]
    pub fn with_cadence(mut self, cadence: impl Into<String>) -> Self {
        self.on.every.clear();
        self.on.daily.clear();
        self.on.weekly.clear();
        self.on.cron.clear();
        self.unread.retain(|unread| !matches!(unread, UnreadText::Cadence(_)));
        self.add_cadence(&cadence.into());
        self
    }

    pub(crate) fn add_cadence(&mut self, text: &str) {
        if add_cadence(&mut self.on, text).is_none() {
            self.unread.push(UnreadText::Cadence(text.to_owned()));
        }
    }

    /// Sets the round's ceilings from the seed's budget; ceilings that it does not name keep their defaults.
    #[must_use]
    pub fn with_budget(mut self, budget: TokenBudget) -> Self {
        let TokenBudget { max_input_tokens, max_output_tokens, max_total_tokens, max_iters_per_round } = budget;
        if let Some(tokens) = total_tokens(max_input_tokens, max_output_tokens, max_total_tokens) {
            self.budget.round.tokens = Some(tokens);
        }
        self.budget.round.turns = Some(max_iters_per_round);
        self
    }

    /// Sets the maker's prompt.
    #[must_use]
    pub fn with_maker_prompt(mut self, prompt: impl Into<String>) -> Self {
        self.prompts.maker = Some(prompt.into());
        self
    }

    /// Sets the checker's prompt.
    #[must_use]
    pub fn with_checker_prompt(mut self, prompt: impl Into<String>) -> Self {
        self.prompts.checker = Some(prompt.into());
        self
    }

    /// Sets the one kind of action that the loop proposes, in Loopwright's or the seed's words.
    #[must_use]
    pub fn with_action_kind(mut self, kind: impl Into<String>) -> Self {
        let kind = kind.into();
        self.unread.retain(|unread| !matches!(unread, UnreadText::ActionKind(_)));
        self.output.clear();
        match ActionKind::read(&kind) {
            Some(kind) => self.output.push(OutputSpec::new(kind)),
            None => self.unread.push(UnreadText::ActionKind(kind)),
        }
        self
    }

    /// When the loop is due, as one line; `manual` if it starts only manually.
    #[must_use]
    pub fn cadence(&self) -> String {
        let on = &self.on;
        let mut parts: Vec<String> = on.every.iter().map(|span| format!("every {span}")).collect();
        parts.extend(on.daily.iter().map(|time| format!("daily {time}")));
        parts.extend(on.weekly.iter().map(|time| format!("weekly {time}")));
        parts.extend(on.cron.iter().cloned());
        parts.extend(self.unread.iter().filter_map(|unread| match unread {
            UnreadText::Cadence(text) => Some(text.clone()),
            UnreadText::ActionKind(_) => None,
        }));
        if parts.is_empty() { "manual".to_owned() } else { parts.join(", ") }
    }

    /// The first kind of action that the loop proposes, as the seed's word if there is one.
    #[must_use]
    pub fn action_kind(&self) -> String {
        let unread = self.unread.iter().find_map(|unread| match unread {
            UnreadText::ActionKind(text) => Some(text.clone()),
            UnreadText::Cadence(_) => None,
        });
        let first = self.output.first().map_or(ActionKind::Report, |output| output.kind);
        unread.unwrap_or_else(|| match first {
            ActionKind::PullRequest => "open-pr".to_owned(),
            ActionKind::IssueComment => "comment".to_owned(),
            kind => kind.word().to_owned(),
        })
    }
}

/// One ceiling from the seed's three. A single input or output ceiling limits all tokens: stricter, never looser.
pub(super) fn total_tokens(input: Option<u64>, output: Option<u64>, total: Option<u64>) -> Option<u64> {
    let parts = match (input, output) {
        (Some(input), Some(output)) => Some(input.saturating_add(output)),
        (one, other) => one.or(other),
    };
    match (parts, total) {
        (Some(parts), Some(total)) => Some(parts.min(total)),
        (one, other) => one.or(other),
    }
}
