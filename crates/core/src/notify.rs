//! Notifications: which facts go to which route, when a message is due, and what happens when its delivery fails. The
//! queue is data that the caller stores; this module neither sends nor reads a clock.

use crate::config::NotifyRoute;
use crate::outcome::RoundOutcome;
use crate::words::worded;
use serde::{Deserialize, Serialize, Serializer};
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::fmt::Write as _;

/// The facts of one message; further ones are counted.
const FACTS_MAX: usize = 20;

/// How long the first facts of a message are gathered: loops often fail together.
const GATHER_MS: i64 = 5_000;

/// The least time between two messages of one route, so that a storm is one message.
const SPACING_MS: i64 = 60_000;

/// The first pause after a failure; each further one is twice as long.
const RETRY_FIRST_MS: i64 = 60_000;

/// The longest pause between two attempts.
const RETRY_LONGEST_MS: i64 = 3_600_000;

/// The attempts of one message; together they take about eight hours.
const ATTEMPTS_MAX: u32 = 14;

/// The messages that are kept after their end: those that were sent, and those that were not.
const SENT_MAX: usize = 20;
const FAILED_MAX: usize = 100;

/// The most bytes of the text of a fact.
const TEXT_MAX: usize = 400;

worded! {
    /// How much a fact matters. Later ones matter more.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum NotifySeverity {
        /// A round did its work.
        Info = "info",
        /// A round did not end well.
        Warning = "warning",
        /// A person must decide, or nothing runs any more.
        Urgent = "urgent",
    }
}

impl NotifySeverity {
    /// The severity of a round that ended; `None` for an outcome that needs no message: nothing was to do, a person
    /// stopped it, or a question about it is a fact of its own.
    #[must_use]
    pub fn of_outcome(outcome: RoundOutcome) -> Option<Self> {
        match outcome {
            RoundOutcome::Shipped | RoundOutcome::Reported => Some(Self::Info),
            RoundOutcome::NothingToDo | RoundOutcome::Cancelled | RoundOutcome::Escalated => None,
            RoundOutcome::Rejected
            | RoundOutcome::Plateaued
            | RoundOutcome::Cannot
            | RoundOutcome::OverBudget
            | RoundOutcome::RateLimited
            | RoundOutcome::Refused
            | RoundOutcome::Empty
            | RoundOutcome::Failed
            | RoundOutcome::Interrupted => Some(Self::Warning),
        }
    }
}

/// Minutes of a day.
const DAY_MINUTES: u16 = 24 * 60;

/// The hours of a day in which nothing is sent: `22:00-07:00`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SilentHours {
    from: u16,
    until: u16,
}

impl SilentHours {
    /// Parses `HH:MM-HH:MM`; `None` for anything else, and for a part without a length.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (from, until) = text.split_once('-')?;
        let hours = Self { from: minute(from.trim())?, until: minute(until.trim())? };
        (hours.from != hours.until).then_some(hours)
    }

    /// The minutes until the quiet part ends; `None` outside of it.
    fn minutes_left(self, minute: u16) -> Option<u16> {
        let length = (self.until + DAY_MINUTES - self.from) % DAY_MINUTES;
        let since = (minute + DAY_MINUTES - self.from) % DAY_MINUTES;
        (since < length).then(|| length - since)
    }
}

fn minute(text: &str) -> Option<u16> {
    let (hour, minute) = text.split_once(':')?;
    let is_number = |part: &str| part.len() == 2 && part.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number(hour) || !is_number(minute) {
        return None;
    }
    let (hour, minute): (u16, u16) = (hour.parse().ok()?, minute.parse().ok()?);
    (hour < 24 && minute < 60).then_some(hour * 60 + minute)
}

impl fmt::Display for SilentHours {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { from, until } = self;
        write!(f, "{:02}:{:02}-{:02}:{:02}", from / 60, from % 60, until / 60, until % 60)
    }
}

impl Serialize for SilentHours {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// One thing that happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NotificationFact {
    /// When, in milliseconds since 1970.
    pub at_ms: i64,
    /// How much it matters.
    pub severity: NotifySeverity,
    /// The loop; empty if it is about all.
    #[serde(rename = "loop")]
    pub loop_name: String,
    /// The round, if it is about one.
    pub round: Option<String>,
    /// One line for people, without control characters.
    pub text: String,
}

impl NotificationFact {
    /// One line: its severity, its loop, its text and its round.
    #[must_use]
    pub fn line(&self) -> String {
        let about = if self.loop_name.is_empty() { String::new() } else { format!("{}: ", self.loop_name) };
        let round = self.round.as_ref().map_or(String::new(), |round| format!(" (round {round})"));
        format!("[{}] {about}{}{round}", self.severity, self.text)
    }

    /// Whether a route wants it.
    fn is_for(&self, route: &NotifyRoute) -> bool {
        let is_named =
            |glob: &String| globset::Glob::new(glob).is_ok_and(|glob| glob.compile_matcher().is_match(&self.loop_name));
        self.severity >= route.severity
            && (route.loops.is_empty() || self.loop_name.is_empty() || route.loops.iter().any(is_named))
    }
}

worded! {
    /// The state of a message.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum NotificationState {
        /// It is not sent yet, or is tried again.
        Waiting = "waiting",
        /// Its receiver accepted it.
        Sent = "sent",
        /// All attempts failed; a person can send it again.
        Failed = "failed",
    }
}

/// A message of a route.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueuedNotification {
    /// Its id, which is the same in every attempt, so that a receiver can ignore a repetition.
    pub id: String,
    /// The name of the route.
    pub route: String,
    /// Its state.
    pub state: NotificationState,
    /// When its first fact arrived.
    pub created_ms: i64,
    /// When it is sent or tried again; for a sent one, when that was.
    pub due_ms: i64,
    /// Attempts so far.
    pub attempts: u32,
    /// The error of the last attempt.
    pub error: Option<String>,
    /// The facts, oldest first.
    pub facts: Vec<NotificationFact>,
    /// Further facts, which are only counted.
    pub more: u64,
}

impl QueuedNotification {
    /// The highest severity among its facts.
    #[must_use]
    pub fn severity(&self) -> NotifySeverity {
        self.facts.iter().map(|fact| fact.severity).max().unwrap_or(NotifySeverity::Info)
    }

    /// One line: the fact, or how many there are.
    #[must_use]
    pub fn subject(&self) -> String {
        if let ([fact], 0) = (self.facts.as_slice(), self.more) {
            return format!("Loopwright: {}", fact.line());
        }
        let counts: Vec<String> = NotifySeverity::ALL
            .into_iter()
            .rev()
            .filter_map(|severity| {
                let count = self.facts.iter().filter(|fact| fact.severity == severity).count();
                (count > 0).then(|| format!("{count} {severity}"))
            })
            .collect();
        let more = if self.more > 0 { format!(", {} more", self.more) } else { String::new() };
        format!("Loopwright: {}{more}", counts.join(", "))
    }

    /// All facts as text, those that matter most first, and where to look.
    #[must_use]
    pub fn text(&self) -> String {
        let mut facts: Vec<&NotificationFact> = self.facts.iter().collect();
        facts.sort_by_key(|fact| std::cmp::Reverse(fact.severity));
        let mut text = String::new();
        for fact in facts {
            let _ = writeln!(text, "{}", fact.line());
        }
        if self.more > 0 {
            let _ = writeln!(text, "and {} more; see: loopwright digest", self.more);
        }
        let verb = if self.severity() == NotifySeverity::Urgent { "inbox" } else { "status" };
        let _ = write!(text, "see: loopwright {verb}");
        text
    }
}

/// The queue of all routes. Stored as a whole before anything is sent, it survives a crash.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct NotificationQueue {
    /// The number of the last journal event whose facts are in the queue; `None` before the first pass.
    #[serde(default)]
    pub cursor: Option<i64>,
    /// The open questions that are known, with the time of each.
    #[serde(default)]
    pub asked: BTreeMap<String, i64>,
    /// The messages, oldest first.
    #[serde(default)]
    pub items: VecDeque<QueuedNotification>,
    #[serde(default)]
    last_id: u64,
    #[serde(default)]
    last_sent_ms: BTreeMap<String, i64>,
}

/// The minute of the day at a moment, in the zone of the user.
pub type MinuteOfDay<'m> = &'m dyn Fn(i64) -> u16;

impl NotificationQueue {
    /// Adds a fact to each route that wants it: to the message that is being collected, or as the first of a new one.
    pub fn add(&mut self, routes: &BTreeMap<String, NotifyRoute>, fact: &NotificationFact, now_ms: i64) {
        let mut fact = fact.clone();
        let end = fact.text.floor_char_boundary(TEXT_MAX);
        fact.text.truncate(end);
        for (name, route) in routes.iter().filter(|(_, route)| fact.is_for(route)) {
            let is_open = |item: &&mut QueuedNotification| {
                item.route == *name && item.state == NotificationState::Waiting && item.attempts == 0
            };
            match self.items.iter_mut().find(is_open) {
                Some(open) if open.facts.len() < FACTS_MAX => open.facts.push(fact.clone()),
                Some(open) => open.keep_worst(fact.clone()),
                None => self.begin(name, route, fact.clone(), now_ms),
            }
        }
    }

    fn begin(&mut self, name: &str, route: &NotifyRoute, fact: NotificationFact, now_ms: i64) {
        let window = route.digest.map_or(0, |span| i64::try_from(span.duration().as_millis()).unwrap_or(i64::MAX));
        let spaced = self.last_sent_ms.get(name).map_or(now_ms, |sent| sent.saturating_add(SPACING_MS));
        // While an earlier message fails, the new one collects until that one is tried again: the queue of a receiver that
        // is down grows with the attempts, and not with the facts.
        let is_failing = |item: &&QueuedNotification| item.route == name && item.state == NotificationState::Waiting;
        let failing = self.items.iter().filter(is_failing).map(|item| item.due_ms).max().unwrap_or(i64::MIN);
        self.last_id += 1;
        self.items.push_back(QueuedNotification {
            id: format!("n-{}", self.last_id),
            route: name.to_owned(),
            state: NotificationState::Waiting,
            created_ms: now_ms,
            due_ms: now_ms.saturating_add(window.max(GATHER_MS)).max(spaced).max(failing),
            attempts: 0,
            error: None,
            facts: vec![fact],
            more: 0,
        });
    }

    /// The messages that wait, each with the moment from which it may be sent. A quiet part of the day postpones it.
    pub fn waiting<'q>(
        &'q self,
        routes: &'q BTreeMap<String, NotifyRoute>,
        now_ms: i64,
        minute: MinuteOfDay<'q>,
    ) -> impl Iterator<Item = (i64, &'q QueuedNotification)> {
        let waiting = self.items.iter().filter(|item| item.state == NotificationState::Waiting);
        waiting.map(move |item| {
            let at = item.due_ms.max(now_ms);
            let quiet = routes.get(&item.route).and_then(|route| route.quiet);
            let left = quiet.and_then(|quiet| quiet.minutes_left(minute(at)));
            (at.saturating_add(i64::from(left.unwrap_or(0)) * 60_000), item)
        })
    }

    /// A message by its id.
    #[must_use]
    pub fn item(&self, id: &str) -> Option<&QueuedNotification> {
        self.items.iter().find(|item| item.id == id)
    }

    /// An attempt begins. From here on no fact is added to the message.
    pub fn begun(&mut self, id: &str) {
        if let Some(item) = self.items.iter_mut().find(|item| item.id == id) {
            item.attempts += 1;
        }
    }

    /// The receiver accepted a message.
    pub fn delivered(&mut self, id: &str, now_ms: i64) {
        let Some(item) = self.items.iter_mut().find(|item| item.id == id) else { return };
        (item.state, item.due_ms, item.error) = (NotificationState::Sent, now_ms, None);
        let route = item.route.clone();
        self.last_sent_ms.insert(route, now_ms);
        self.prune();
    }

    /// An attempt failed. The message is tried again, later each time, until its attempts are used up.
    pub fn failed(&mut self, id: &str, error: &str, retry_at_ms: Option<i64>, now_ms: i64) {
        let Some(item) = self.items.iter_mut().find(|item| item.id == id) else { return };
        let earlier = item.attempts.saturating_sub(1).min(10);
        let pause = RETRY_FIRST_MS.saturating_mul(1 << earlier).min(RETRY_LONGEST_MS);
        item.error = Some(error.to_owned());
        item.due_ms = now_ms.saturating_add(pause).max(retry_at_ms.unwrap_or(i64::MIN));
        if item.attempts >= ATTEMPTS_MAX {
            item.state = NotificationState::Failed;
        }
        self.prune();
    }

    /// A person has a message sent again, now. Returns false if no message of this id can be.
    pub fn retry(&mut self, id: &str, now_ms: i64) -> bool {
        let is_it = |item: &&mut QueuedNotification| item.id == id && item.state != NotificationState::Sent;
        let Some(item) = self.items.iter_mut().find(is_it) else { return false };
        // With an attempt on record, no further fact is added to it.
        (item.state, item.attempts, item.due_ms) = (NotificationState::Waiting, item.attempts.min(1), now_ms);
        true
    }

    fn prune(&mut self) {
        for (state, most) in [(NotificationState::Sent, SENT_MAX), (NotificationState::Failed, FAILED_MAX)] {
            let count = self.items.iter().filter(|item| item.state == state).count();
            let mut extra = count.saturating_sub(most);
            self.items.retain(|item| {
                let is_extra = item.state == state && extra > 0;
                extra -= usize::from(is_extra);
                !is_extra
            });
        }
    }
}

impl QueuedNotification {
    /// A full message keeps the facts that matter most and counts the others.
    fn keep_worst(&mut self, fact: NotificationFact) {
        self.more += 1;
        let least = self.facts.iter_mut().min_by_key(|known| known.severity);
        if let Some(least) = least.filter(|least| least.severity < fact.severity) {
            *least = fact;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::read_config_file;

    fn routes(text: &str) -> BTreeMap<String, NotifyRoute> {
        read_config_file("config.yaml", format!("notify: {{ {text} }}").as_bytes()).expect("a good file").notify
    }

    fn fact(severity: NotifySeverity, loop_name: &str) -> NotificationFact {
        let (loop_name, text) = (loop_name.to_owned(), "it happened".to_owned());
        NotificationFact { at_ms: 0, severity, loop_name, round: None, text }
    }

    const NOON: MinuteOfDay<'static> = &|_| 12 * 60;

    /// The next message, and when it may be sent.
    fn next(
        queue: &NotificationQueue,
        routes: &BTreeMap<String, NotifyRoute>,
        now_ms: i64,
        minute: MinuteOfDay<'_>,
    ) -> Option<(i64, String)> {
        queue.waiting(routes, now_ms, minute).map(|(at, item)| (at, item.id.clone())).min()
    }

    fn at(ms: i64, id: &str) -> Option<(i64, String)> {
        Some((ms, id.to_owned()))
    }

    #[test]
    fn a_route_gets_its_severities_and_its_loops_and_nothing_else() {
        let routes = routes("a: { desktop: true, loops: [\"docs-*\"] }, b: { desktop: true, severity: urgent }");
        let mut queue = NotificationQueue::default();
        for (severity, name) in [
            (NotifySeverity::Info, "docs-a"),
            (NotifySeverity::Warning, "docs-a"),
            (NotifySeverity::Warning, "fix"),
            (NotifySeverity::Urgent, "fix"),
            (NotifySeverity::Urgent, ""),
        ] {
            queue.add(&routes, &fact(severity, name), 0);
        }
        let lines = |route: &str| {
            let item = queue.items.iter().find(|item| item.route == route).expect("a message");
            item.facts.iter().map(NotificationFact::line).collect::<Vec<_>>()
        };
        assert_eq!(lines("a"), ["[warning] docs-a: it happened", "[urgent] it happened"]);
        assert_eq!(lines("b"), ["[urgent] fix: it happened", "[urgent] it happened"]);
    }

    #[test]
    fn a_storm_is_one_message_now_and_one_a_minute_later() {
        let routes = routes("a: { desktop: true }");
        let mut queue = NotificationQueue::default();
        queue.add(&routes, &fact(NotifySeverity::Warning, "first"), 1_000);
        queue.add(&routes, &fact(NotifySeverity::Warning, "second"), 2_000);
        assert_eq!(next(&queue, &routes, 2_000, NOON), at(6_000, "n-1"));
        queue.delivered("n-1", 6_500);
        (0..500).for_each(|_| queue.add(&routes, &fact(NotifySeverity::Warning, "later"), 7_000));
        queue.add(&routes, &fact(NotifySeverity::Urgent, "last"), 7_000);
        assert_eq!(next(&queue, &routes, 7_000, NOON), at(66_500, "n-2"));
        let second = queue.item("n-2").expect("a message");
        assert_eq!((second.facts.len(), second.more, second.severity()), (FACTS_MAX, 481, NotifySeverity::Urgent));
        assert_eq!(second.subject(), "Loopwright: 1 urgent, 19 warning, 481 more");
        assert!(second.text().starts_with("[urgent] last") && second.text().contains("and 481 more"));
    }

    #[test]
    fn a_digest_waits_for_its_window_and_quiet_hours_postpone_everything() {
        let routes = routes("d: { desktop: true, digest: 1h }, q: { desktop: true, quiet: \"22:00-07:00\" }");
        let mut queue = NotificationQueue::default();
        queue.add(&routes, &fact(NotifySeverity::Urgent, "fix"), 0);
        // 23:30: seven and a half hours are left.
        let half_past_eleven: MinuteOfDay<'_> = &|at| (23 * 60 + 30 + (at / 60_000) as u16) % (24 * 60);
        assert_eq!(next(&queue, &routes, 0, half_past_eleven), at(3_600_000, "n-1"));
        queue.delivered("n-1", 3_600_000);
        assert_eq!(next(&queue, &routes, 0, half_past_eleven), at(27_005_000, "n-2"));
        assert_eq!(next(&queue, &routes, 27_060_000, half_past_eleven), at(27_060_000, "n-2"));
    }

    #[test]
    fn a_failed_message_is_tried_again_later_each_time_and_then_kept() {
        let routes = routes("a: { desktop: true }");
        let mut queue = NotificationQueue::default();
        queue.add(&routes, &fact(NotifySeverity::Warning, "fix"), 0);
        let mut now = 0;
        let mut pauses = Vec::new();
        while let Some((at, _)) = next(&queue, &routes, now, NOON) {
            pauses.push((at - now) / 60_000);
            now = at;
            queue.begun("n-1");
            queue.failed("n-1", "nobody listens", None, now);
        }
        assert_eq!(pauses, [0, 1, 2, 4, 8, 16, 32, 60, 60, 60, 60, 60, 60, 60]);
        let item = queue.item("n-1").expect("it is kept");
        assert_eq!((item.state, item.error.as_deref()), (NotificationState::Failed, Some("nobody listens")));
        // A later fact is another message.
        queue.add(&routes, &fact(NotifySeverity::Warning, "fix"), now);
        assert!(queue.item("n-2").is_some());
        assert!(queue.retry("n-1", now) && !queue.retry("n-9", now));
        assert_eq!(queue.item("n-1").map(|item| item.state), Some(NotificationState::Waiting));
        queue.begun("n-1");
        queue.failed("n-1", "it limits messages", Some(now + 7_200_000), now);
        assert_eq!(queue.item("n-1").map(|item| item.due_ms), Some(now + 7_200_000));
    }

    #[test]
    fn message_whose_attempt_began_gets_no_further_fact_and_facts_gather_while_its_receiver_is_down() {
        let routes = routes("a: { desktop: true }");
        let mut queue = NotificationQueue::default();
        queue.add(&routes, &fact(NotifySeverity::Warning, "first"), 0);
        queue.begun("n-1");
        queue.add(&routes, &fact(NotifySeverity::Warning, "second"), 6_000);
        assert_eq!((queue.items.len(), queue.items[0].facts.len()), (2, 1));
        queue.failed("n-1", "down", None, 7_000);
        queue.begun("n-2");
        queue.failed("n-2", "down", None, 12_000);
        let tried_again = queue.items[1].due_ms;
        for n in 0..100 {
            queue.add(&routes, &fact(NotifySeverity::Warning, "later"), 13_000 + n);
        }
        let third = queue.item("n-3").expect("a message");
        assert_eq!((queue.items.len(), third.facts.len(), third.due_ms), (3, FACTS_MAX, tried_again));
    }

    #[test]
    fn only_the_last_sent_messages_are_kept_and_a_stored_queue_is_the_same() {
        let routes = routes("a: { desktop: true }");
        let mut queue = NotificationQueue::default();
        for n in 0..40 {
            queue.add(&routes, &fact(NotifySeverity::Warning, "fix"), n);
            let id = format!("n-{}", n + 1);
            queue.delivered(&id, n);
        }
        assert_eq!((queue.items.len(), queue.items[0].id.as_str()), (SENT_MAX, "n-21"));
        let stored = serde_json::to_string(&queue).expect("it is data");
        assert_eq!(serde_json::from_str::<NotificationQueue>(&stored).expect("it reads"), queue);
    }

    #[test]
    fn quiet_hours_may_cross_midnight() {
        let night = SilentHours::parse("22:00-07:00").expect("hours");
        assert_eq!((night.minutes_left(22 * 60), night.minutes_left(6 * 60 + 59)), (Some(540), Some(1)));
        assert_eq!((night.minutes_left(7 * 60), night.minutes_left(21 * 60 + 59)), (None, None));
        let noon = SilentHours::parse("12:00-13:30").expect("hours");
        assert_eq!((noon.minutes_left(13 * 60), noon.minutes_left(14 * 60)), (Some(30), None));
        for bad in ["", "22-07", "24:00-07:00", "22:60-07:00", "07:00-07:00", "+1:00-02:00", "1:00-2:00"] {
            assert_eq!(SilentHours::parse(bad), None, "{bad}");
        }
    }
}
