//! Why a loop is or is not running: as data, as a sentence for people, and what would change the state.

use super::placement::{PlacementGap, PlacementNeeds};
use super::receipt::format_moment;
use serde::Serialize;

/// Why a loop is or is not running.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "why", rename_all = "kebab-case")]
pub enum LoopExplanation {
    /// No loop of that name is registered.
    Unknown,
    /// A round is running.
    Running {
        /// The round; `None` while it is starting.
        round: Option<String>,
        /// Since when.
        since_ms: i64,
        /// When its time limit ends it.
        until_ms: Option<i64>,
        /// How many occurrences wait for its end.
        queued: usize,
    },
    /// Everything is stopped.
    Stopped {
        /// Since when.
        since_ms: i64,
        /// The user or component that stopped it.
        by: String,
        /// Why.
        reason: String,
    },
    /// The loop is paused.
    Paused {
        /// Since when.
        since_ms: i64,
        /// The user or component that paused it.
        by: String,
        /// Why.
        reason: String,
    },
    /// The process is shutting down and starts nothing more.
    Draining,
    /// The clock is long before the last recorded moment.
    ClockUntrusted {
        /// The time by the clock.
        now_ms: i64,
        /// The last recorded moment.
        seen_ms: i64,
    },
    /// It is due, but blocked.
    Waiting {
        /// Since when.
        since_ms: i64,
        /// How many occurrences wait.
        queued: usize,
        /// The blocker.
        on: StartBlocker,
    },
    /// It is backing off.
    BackingOff {
        /// Until when.
        until_ms: i64,
        /// Why.
        reason: String,
        /// When it is due after that.
        next_ms: Option<i64>,
    },
    /// It is due and waits for the end of quiet hours.
    Quiet {
        /// Until when.
        until_ms: i64,
        /// How many occurrences wait.
        queued: usize,
    },
    /// It has as many open proposals as it may have.
    OpenMax {
        /// How many are open.
        open: u32,
        /// How many may be.
        open_max: u32,
    },
    /// It is due later.
    Next {
        /// When.
        due_ms: i64,
        /// When it starts: the due time plus its jitter.
        start_ms: i64,
        /// The cadence that makes it due.
        cadence: String,
        /// The end of the quiet hours if that moment is inside them, so that it will be skipped.
        quiet_until_ms: Option<i64>,
    },
    /// It has no cadence and waits for an event.
    Listening {
        /// The events that trigger it.
        events: Vec<String>,
    },
    /// Its cadence has ended.
    Over,
    /// It has no cadence and no event triggers: it runs only when started manually.
    Manual,
}

/// The reason why a loop that is due does not start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "for", rename_all = "kebab-case")]
pub enum StartBlocker {
    /// All slots of a limit are taken.
    Slot {
        /// Which limit.
        limit: SlotLimit,
        /// How many slots it has.
        slots: usize,
        /// The rounds that hold them, limited to the first few.
        holders: Vec<ResourceHolder>,
    },
    /// A lock is taken.
    Lock {
        /// The name of the lock that the loop needs.
        name: String,
        /// The name of the lock that is held. It differs when one path is below the other.
        held: String,
        /// The round that holds it.
        holder: ResourceHolder,
    },
    /// No worker that can run it has a free slot.
    Worker {
        /// The needs of the round.
        needs: PlacementNeeds,
        /// How many slots the workers that have it give.
        slots: usize,
        /// Other workers, and what each lacks, limited to the first few.
        gaps: Vec<WorkerGap>,
        /// The rounds that hold the slots, limited to the first few.
        holders: Vec<ResourceHolder>,
    },
    /// The resource is reserved for a loop that has waited very long.
    Turn {
        /// The loop that goes first.
        holder: String,
    },
    /// A start failed and is retried.
    Retry {
        /// When.
        at_ms: i64,
    },
    /// Nothing blocks it any more: it starts at the next wake-up.
    Nothing,
}

/// The unmet needs of a round from a worker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct WorkerGap {
    /// The worker.
    pub worker: String,
    /// The first thing that it lacks.
    #[serde(flatten)]
    pub gap: PlacementGap,
}

/// A limit on slots.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "limit", content = "of", rename_all = "kebab-case")]
pub enum SlotLimit {
    /// On all rounds.
    Total,
    /// On rounds of a repository.
    Repository(String),
    /// On rounds with an agent.
    Agent(String),
}

/// A round that holds a slot or a lock.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ResourceHolder {
    /// The loop.
    pub r#loop: String,
    /// The repository.
    pub repo: String,
    /// The round; `None` while it is starting.
    pub round: Option<String>,
    /// Since when.
    pub since_ms: i64,
    /// When its time limit ends it at the latest.
    pub expires_ms: Option<i64>,
}

impl LoopExplanation {
    /// The time of the next start, as far as it is known.
    #[must_use]
    pub fn next_ms(&self) -> Option<i64> {
        match self {
            Self::Next { start_ms, .. } => Some(*start_ms),
            Self::BackingOff { next_ms, .. } => *next_ms,
            Self::Quiet { until_ms, .. } => Some(*until_ms),
            Self::Waiting { on: StartBlocker::Retry { at_ms }, .. } => Some(*at_ms),
            _ => None,
        }
    }

    /// The explanation as a sentence.
    #[must_use]
    pub fn text(&self) -> String {
        match self {
            Self::Unknown => "no loop of that name is registered".to_owned(),
            Self::Running { round, since_ms, until_ms, queued } => {
                let ends = until_ms.map(|ms| format!(", at most until {}", format_moment(ms))).unwrap_or_default();
                format!("running {} since {}{ends}{}", named(round.as_ref()), format_moment(*since_ms), behind(*queued))
            }
            Self::Stopped { since_ms, by, reason } => {
                format!("everything is stopped since {} by {by}: {reason}", format_moment(*since_ms))
            }
            Self::Paused { since_ms, by, reason } => {
                format!("paused since {} by {by}: {reason}", format_moment(*since_ms))
            }
            Self::Draining => "the daemon is shutting down and starts nothing more".to_owned(),
            Self::ClockUntrusted { now_ms, seen_ms } => format!(
                "the clock says {}, but the last recorded moment is {}: nothing is scheduled by a clock that is behind",
                format_moment(*now_ms),
                format_moment(*seen_ms)
            ),
            Self::Waiting { since_ms, queued, on } => {
                format!("due since {}{}, {}", format_moment(*since_ms), several(*queued), on.text())
            }
            Self::BackingOff { until_ms, reason, next_ms } => {
                let then = next_ms.map(|ms| format!("; due after that at {}", format_moment(ms))).unwrap_or_default();
                format!("backing off until {}: {reason}{then}", format_moment(*until_ms))
            }
            Self::Quiet { until_ms, queued } => {
                format!("due{}, waiting for quiet hours to end at {}", several(*queued), format_moment(*until_ms))
            }
            Self::OpenMax { open, open_max } => {
                format!("{open} proposals are open and the loop may have {open_max}: nothing new is started")
            }
            Self::Next { start_ms, cadence, quiet_until_ms: None, .. } => {
                format!("idle, next due at {} (`{cadence}`)", format_moment(*start_ms))
            }
            Self::Next { start_ms, cadence, quiet_until_ms: Some(end), .. } => format!(
                "idle, next due at {} (`{cadence}`), which is inside quiet hours until {} and will be skipped",
                format_moment(*start_ms),
                format_moment(*end)
            ),
            Self::Listening { events } => format!("idle, waits for {}", events.join(" or ")),
            Self::Over => "its cadence has ended: nothing is due any more".to_owned(),
            Self::Manual => "it has no cadence and no event triggers: it runs only when started manually".to_owned(),
        }
    }

    /// Why a round cannot be started manually, as a sentence fragment: which round holds the resource, and until when.
    #[must_use]
    pub fn refusal_text(&self) -> String {
        match self {
            Self::Waiting { on: StartBlocker::Lock { name, held, holder }, .. } => lock_taken_text(name, held, holder),
            other => other.text(),
        }
    }

    /// The suggested remedy; `None` if nothing is wrong.
    #[must_use]
    pub fn remedy(&self, name: &str) -> Option<String> {
        match self {
            Self::Unknown => Some("`loopwright status` lists the loops there are".to_owned()),
            Self::Running { round: Some(round), .. } => Some(format!("`loopwright stop {round}` ends it")),
            Self::Stopped { .. } => Some("`loopwright thaw` lets everything start again".to_owned()),
            Self::Paused { .. } => Some(format!("`loopwright resume {name}` lets it start again")),
            Self::Draining => Some("`loopwright up` starts a daemon".to_owned()),
            Self::ClockUntrusted { .. } => {
                Some("set the clock, or accept it with `loopwright thaw`; `loopwright run` works".to_owned())
            }
            Self::Waiting { on, .. } => on.remedy(),
            Self::BackingOff { .. } => {
                Some(format!("`loopwright resume {name}` ends the wait, `loopwright run {name}` runs it now"))
            }
            Self::Quiet { .. } | Self::Manual | Self::Over => Some(format!("`loopwright run {name}` runs it now")),
            Self::OpenMax { .. } => {
                Some("decide on what is in `loopwright inbox`, or raise `open_max` in the loop file".to_owned())
            }
            Self::Running { round: None, .. } | Self::Next { .. } | Self::Listening { .. } => None,
        }
    }
}

impl StartBlocker {
    fn text(&self) -> String {
        match self {
            Self::Slot { limit, slots, holders } => {
                let held: Vec<_> = holders.iter().map(ResourceHolder::text).collect();
                let held = if held.is_empty() { String::new() } else { format!(", held by {}", held.join(", ")) };
                format!("waiting for {} ({slots}){held}", limit.text())
            }
            Self::Lock { name, held, holder } if name == held => {
                format!("waiting for the lock `{name}`, held by {}", holder.text())
            }
            Self::Lock { name, held, holder } => {
                format!("waiting for the lock `{name}`: `{held}` conflicts with it and is held by {}", holder.text())
            }
            Self::Worker { needs, slots: 0, gaps, .. } => {
                let all: Vec<_> = gaps.iter().map(|gap| format!("{} {}", gap.worker, gap.gap.text())).collect();
                let all = if all.is_empty() { "no worker is connected".to_owned() } else { all.join("; ") };
                format!("waiting for {}: {all}", needs.text())
            }
            Self::Worker { needs, slots, holders, .. } => {
                let held: Vec<_> = holders.iter().map(ResourceHolder::text).collect();
                let slots = if *slots == 1 { "the one slot is".to_owned() } else { format!("all {slots} slots are") };
                format!("waiting for {}: {slots} taken by {}", needs.text(), held.join(", "))
            }
            Self::Turn { holder } => format!("waiting behind `{holder}`, which has waited longer for the same"),
            Self::Retry { at_ms } => {
                format!("the start did not succeed and is tried again at {}", format_moment(*at_ms))
            }
            Self::Nothing => "starting".to_owned(),
        }
    }

    fn remedy(&self) -> Option<String> {
        match self {
            Self::Slot { limit: SlotLimit::Total | SlotLimit::Repository(_), .. } => {
                Some("a round ends, or the limit is raised in the configuration; a higher `priority` goes first".into())
            }
            Self::Slot { limit: SlotLimit::Agent(agent), .. } => {
                Some(format!("a round with {agent} ends, or the limit of {agent} is raised in the configuration"))
            }
            Self::Worker { needs, .. } => {
                let labels: String = needs.labels.iter().map(|label| format!(" --label {label}")).collect();
                Some(format!(
                    "`loopwright worker{labels}` on a machine that can run it; `loopwright workers` lists them"
                ))
            }
            Self::Lock { holder, .. } => {
                let round = holder.round.as_ref()?;
                Some(format!("its end, or `loopwright stop {round}`"))
            }
            Self::Turn { .. } | Self::Retry { .. } | Self::Nothing => None,
        }
    }
}

impl SlotLimit {
    fn text(&self) -> String {
        match self {
            Self::Total => "one of the slots of this machine".to_owned(),
            Self::Repository(repo) => format!("one of the slots of repository `{repo}`"),
            Self::Agent(agent) => format!("one of the slots of agent `{agent}`"),
        }
    }
}

/// Text for a lock that is taken. The held lock differs from the requested one when one path is below the other.
#[must_use]
pub fn lock_taken_text(name: &str, held: &str, holder: &ResourceHolder) -> String {
    let holder = holder.text();
    match name == held {
        true => format!("the lock `{name}` is held by {holder}"),
        false => format!("the lock `{name}` conflicts with `{held}`, which is held by {holder}"),
    }
}

impl ResourceHolder {
    fn text(&self) -> String {
        let expires =
            self.expires_ms.map(|ms| format!(", until {} at the latest", format_moment(ms))).unwrap_or_default();
        format!("{} of `{}` (since {}{expires})", named(self.round.as_ref()), self.r#loop, format_moment(self.since_ms))
    }
}

fn named(round: Option<&String>) -> String {
    round.map_or_else(|| "a starting round".to_owned(), |round| format!("round {round}"))
}

fn several(queued: usize) -> String {
    if queued > 1 { format!(" with {queued} occurrences") } else { String::new() }
}

fn behind(queued: usize) -> String {
    match queued {
        0 => String::new(),
        1 => "; one more occurrence waits for its end".to_owned(),
        many => format!("; {many} more occurrences wait for its end"),
    }
}
