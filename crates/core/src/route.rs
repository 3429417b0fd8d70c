//! The routers: where a task runs and which mode it has. Both are tables over declared facts, and the first row that
//! matches decides. Words of the task decide nothing.

use crate::spec::LoopMode;
use crate::units::TimeSpan;
use crate::words::worded;
use std::time::Duration;

/// From this number of items on, one context gets careless.
pub const MANY_ITEMS: u32 = 50;
/// Longer work does not need a terminal.
pub const LONG_WORK: Duration = Duration::from_secs(3600);

worded! {
    /// Where a task runs.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum RunPlace {
        /// In this terminal.
        Foreground = "foreground",
        /// Without a terminal.
        Detached = "detached",
        /// Several runs without a terminal, each in its own workspace.
        Parallel = "parallel",
    }
}

worded! {
    /// A fact that the tables use.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    pub enum RouteFact {
        /// The work recurs, or watches something that changes elsewhere.
        Recurring = "recurring",
        /// The number of items.
        Items = "items",
        /// The result must survive attacks.
        Adversarial = "adversarial",
        /// A command can measure success, and one pass will probably not reach it.
        Measurable = "measurable",
        /// The expected duration.
        Takes = "takes",
        /// A person has to decide things while it runs.
        Decisions = "decisions",
        /// The number of independent streams of work.
        Streams = "streams",
    }
}

impl RouteFact {
    /// The question for a person.
    #[must_use]
    pub fn question(self) -> &'static str {
        match self {
            Self::Recurring => "Does it recur, or watch something that changes elsewhere? [y/N]",
            Self::Items => "How many items does it cover? [1]",
            Self::Adversarial => "Must the result survive attacks? [y/N]",
            Self::Measurable => "Can a command measure success, and will one pass probably miss it? [y/N]",
            Self::Takes => "How long will it take, such as 30m or 3h? [30m]",
            Self::Decisions => "Will you have to decide things while it runs? [y/N]",
            Self::Streams => "How many independent streams of work are there? [1]",
        }
    }

    /// The value that holds if a fact is not known.
    #[must_use]
    pub fn assumption(self) -> &'static str {
        match self {
            Self::Recurring | Self::Adversarial | Self::Measurable | Self::Decisions => "no",
            Self::Items | Self::Streams => "1",
            Self::Takes => "30m",
        }
    }
}

/// The known facts about a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RouteFacts {
    /// [`RouteFact::Recurring`].
    pub recurring: Option<bool>,
    /// [`RouteFact::Items`].
    pub items: Option<u32>,
    /// [`RouteFact::Adversarial`].
    pub adversarial: Option<bool>,
    /// [`RouteFact::Measurable`].
    pub measurable: Option<bool>,
    /// [`RouteFact::Takes`].
    pub takes: Option<TimeSpan>,
    /// [`RouteFact::Decisions`].
    pub decisions: Option<bool>,
    /// [`RouteFact::Streams`].
    pub streams: Option<u32>,
}

/// An answer that does not fit its question.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` does not answer `{fact}`")]
pub struct RouteAnswerError {
    /// The fact.
    pub fact: RouteFact,
    /// The answer.
    pub text: String,
}

impl RouteFacts {
    /// The facts that are not known, in the order of the tables.
    #[must_use]
    pub fn unknown(&self) -> Vec<RouteFact> {
        let known = |fact: &RouteFact| match fact {
            RouteFact::Recurring => self.recurring.is_some(),
            RouteFact::Items => self.items.is_some(),
            RouteFact::Adversarial => self.adversarial.is_some(),
            RouteFact::Measurable => self.measurable.is_some(),
            RouteFact::Takes => self.takes.is_some(),
            RouteFact::Decisions => self.decisions.is_some(),
            RouteFact::Streams => self.streams.is_some(),
        };
        RouteFact::ALL.into_iter().filter(|fact| !known(fact)).collect()
    }

    /// Adds a person's answer; an empty one leaves the fact unknown.
    ///
    /// # Errors
    /// When the answer does not fit.
    pub fn answer(&mut self, fact: RouteFact, text: &str) -> Result<(), RouteAnswerError> {
        let text = text.trim();
        if text.is_empty() {
            return Ok(());
        }
        let wrong = || RouteAnswerError { fact, text: text.chars().take(80).collect() };
        let flag = || match text {
            "y" | "Y" | "yes" | "Yes" => Ok(Some(true)),
            "n" | "N" | "no" | "No" => Ok(Some(false)),
            _ => Err(wrong()),
        };
        let number = || text.parse().ok().filter(|number: &u32| *number > 0).map(Some).ok_or_else(wrong);
        match fact {
            RouteFact::Recurring => self.recurring = flag()?,
            RouteFact::Adversarial => self.adversarial = flag()?,
            RouteFact::Measurable => self.measurable = flag()?,
            RouteFact::Decisions => self.decisions = flag()?,
            RouteFact::Items => self.items = number()?,
            RouteFact::Streams => self.streams = number()?,
            RouteFact::Takes => self.takes = Some(TimeSpan::parse(text).ok_or_else(wrong)?),
        }
        Ok(())
    }
}

/// The decision about a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskRoute {
    /// Its mode.
    pub mode: LoopMode,
    /// The row that decided the mode.
    pub mode_reason: String,
    /// Where it runs.
    pub place: RunPlace,
    /// The row that decided the place.
    pub place_reason: String,
    /// Facts that were not known, so that their assumption held.
    pub assumed: Vec<RouteFact>,
}

impl TaskRoute {
    /// Decides both.
    #[must_use]
    pub fn decide(facts: &RouteFacts) -> Self {
        let (mode, mode_reason) = mode(facts);
        let (place, place_reason) = place(facts);
        Self { mode, mode_reason, place, place_reason, assumed: facts.unknown() }
    }
}

fn mode(facts: &RouteFacts) -> (LoopMode, String) {
    let is = |fact: Option<bool>| fact == Some(true);
    let items = facts.items.unwrap_or(1);
    if is(facts.recurring) {
        (LoopMode::TimeLoop, "it recurs, or watches something that changes elsewhere".to_owned())
    } else if items >= MANY_ITEMS {
        (LoopMode::DynamicWorkflow, format!("it covers {items} items, and {MANY_ITEMS} are too many for one context"))
    } else if is(facts.adversarial) {
        (LoopMode::DynamicWorkflow, "its result must survive attacks".to_owned())
    } else if is(facts.measurable) {
        (LoopMode::GoalLoop, "a command can measure success, and one pass will probably miss it".to_owned())
    } else {
        (LoopMode::SingleRun, "one pass is enough, and a reader sees whether it is right".to_owned())
    }
}

fn place(facts: &RouteFacts) -> (RunPlace, String) {
    let streams = facts.streams.unwrap_or(1);
    let is_long = facts.takes.is_some_and(|takes| takes.duration() > LONG_WORK);
    if streams > 1 {
        (RunPlace::Parallel, format!("{streams} independent streams of work"))
    } else if is_long && facts.decisions == Some(true) {
        (RunPlace::Detached, "it takes more than an hour; its questions wait in the inbox".to_owned())
    } else if is_long {
        (RunPlace::Detached, "it takes more than an hour".to_owned())
    } else if facts.decisions == Some(true) {
        (RunPlace::Foreground, "it takes at most an hour, and you decide things while it runs".to_owned())
    } else {
        (RunPlace::Foreground, "it takes at most an hour".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Facts from `name=answer` words.
    fn facts(words: &str) -> RouteFacts {
        let mut facts = RouteFacts::default();
        for (name, answer) in words.split_whitespace().filter_map(|word| word.split_once('=')) {
            facts.answer(RouteFact::parse(name).expect("a fact"), answer).expect("an answer");
        }
        facts
    }

    #[test]
    fn first_row_that_matches_decides_mode_and_place() {
        let table = [
            ("", LoopMode::SingleRun, "foreground"),
            ("recurring=y items=500 adversarial=y measurable=y", LoopMode::TimeLoop, "foreground"),
            ("items=50 measurable=y", LoopMode::DynamicWorkflow, "foreground"),
            ("items=49 measurable=y", LoopMode::GoalLoop, "foreground"),
            ("adversarial=y", LoopMode::DynamicWorkflow, "foreground"),
            ("recurring=n adversarial=n measurable=n items=3", LoopMode::SingleRun, "foreground"),
            ("measurable=y takes=2h", LoopMode::GoalLoop, "detached"),
            ("takes=60m", LoopMode::SingleRun, "foreground"),
            ("takes=61m", LoopMode::SingleRun, "detached"),
            ("takes=3h decisions=y", LoopMode::SingleRun, "detached"),
            ("takes=20m decisions=y", LoopMode::SingleRun, "foreground"),
            ("streams=4 takes=5m decisions=y", LoopMode::SingleRun, "parallel"),
        ];
        for (words, mode, place) in table {
            let route = TaskRoute::decide(&facts(words));
            assert_eq!((route.mode, route.place.word()), (mode, place), "{words}");
            assert!(!route.mode_reason.is_empty() && !route.place_reason.is_empty(), "{words}");
        }
    }

    #[test]
    fn unknown_facts_are_listed_as_assumptions() {
        let route = TaskRoute::decide(&facts("recurring=n items=2 takes=5m"));
        let words: Vec<_> = route.assumed.into_iter().map(RouteFact::word).collect();
        assert_eq!(words, ["adversarial", "measurable", "decisions", "streams"]);
    }

    #[test]
    fn answers_that_do_not_fit_are_errors_and_empty_ones_leave_the_fact_unknown() {
        let mut known = RouteFacts::default();
        for (fact, text) in
            [("recurring", "maybe"), ("items", "0"), ("items", "-1"), ("takes", "soon"), ("streams", "1e3")]
        {
            assert!(known.answer(RouteFact::parse(fact).expect("a fact"), text).is_err(), "{fact} {text}");
        }
        assert_eq!(known.answer(RouteFact::Takes, " \n"), Ok(()));
        assert_eq!(known, RouteFacts::default());
    }
}
