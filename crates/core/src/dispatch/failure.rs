//! Decides what a round's end means for the next round: the back-off by class of failure, and the circuit breaker that
//! pauses a loop that keeps failing in the same way.

use super::receipt::format_moment;
use super::{LoopDelay, LoopKey, LoopPause, LoopStanding, RoundEnd};
use crate::hash;
use crate::outcome::RoundOutcome;

/// The first wait after a failure; it doubles with each further one.
const FAILED_FIRST_MS: i64 = 60_000;
/// The longest wait after a failure.
const FAILED_MOST_MS: i64 = 3_600_000;
/// How long a loop waits for a provider that names no time.
const PROVIDER_MS: i64 = 15 * 60_000;
/// The loops that wait for one provider start again spread over this time.
const PROVIDER_SPREAD_MS: u64 = 30_000;
/// This many identical failures in a row pause the loop.
pub(super) const ALIKE_MAX: u32 = 3;
/// This many failures in a row, of any kind, pause the loop.
const STREAK_MAX: u32 = 10;
/// The separator in a signature between the failure and its item.
pub const ABOUT: &str = " about ";
/// The longest signature that is kept.
const SIGNATURE_MAX: usize = 200;

/// The effect of an end besides the new standing.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum EndConsequence {
    Nothing,
    /// The provider reported a limit that ends at this moment; sent as a notice once.
    Limited(i64),
    /// The breaker opened: ask a person.
    AskPerson(String),
}

/// Applies a round's end to the standing of its loop.
pub(super) fn apply_round_end(standing: &mut LoopStanding, end: &RoundEnd, now_ms: i64) -> EndConsequence {
    match end.outcome {
        outcome if outcome.is_success() => {
            clear_failures(standing);
            EndConsequence::Nothing
        }
        RoundOutcome::Interrupted | RoundOutcome::Cancelled => EndConsequence::Nothing,
        RoundOutcome::RateLimited => limited(standing, end.retry_at_ms, now_ms),
        // The money of a day or a month is used up: that is no failure of the loop, and a new day or a raise ends it.
        RoundOutcome::OverBudget if end.retry_at_ms.is_some() => {
            let until_ms = end.retry_at_ms.filter(|at| *at > now_ms);
            let why = "a budget is used up".to_owned();
            standing.wait = until_ms.map(|until_ms| LoopDelay { until_ms, why });
            EndConsequence::Nothing
        }
        outcome => {
            let wait_ms = (outcome == RoundOutcome::Failed).then(|| backoff_ms(standing.streak));
            failed(standing, &format!("ended {outcome}"), end, wait_ms, now_ms)
        }
    }
}

/// A start that never became a round counts as a failure.
pub(super) fn apply_start_failure(standing: &mut LoopStanding, why: &str, now_ms: i64) -> EndConsequence {
    let signature = Some(format!("unborn: {why}"));
    let end = RoundEnd { outcome: RoundOutcome::Failed, signature, retry_at_ms: None, open_proposals: 0 };
    let wait_ms = Some(backoff_ms(standing.streak));
    failed(standing, "could not be started", &end, wait_ms, now_ms)
}

/// Forgets all failures.
pub(super) fn clear_failures(standing: &mut LoopStanding) {
    standing.streak = 0;
    standing.signature = None;
    standing.wait = None;
}

fn limited(standing: &mut LoopStanding, retry_at_ms: Option<i64>, now_ms: i64) -> EndConsequence {
    let reset_ms = retry_at_ms.filter(|at| *at > now_ms).unwrap_or(now_ms.saturating_add(PROVIDER_MS));
    let until_ms = reset_ms.saturating_add(spread(&standing.key));
    let why = match retry_at_ms {
        Some(at) => format!("the provider's limit resets at {}", format_moment(at)),
        None => "the provider asked to retry later and named no time".to_owned(),
    };
    standing.wait = Some(LoopDelay { until_ms, why });
    EndConsequence::Limited(until_ms)
}

/// A stable delay for each loop, so that loops that wait for the same reset do not all start at once.
fn spread(key: &LoopKey) -> i64 {
    let digest = hash::hash_fields(&[key.repo.as_bytes(), key.name.as_bytes()]);
    let number = u64::from_str_radix(digest.get(..8).unwrap_or("0"), 16).unwrap_or(0);
    i64::try_from(number % PROVIDER_SPREAD_MS).unwrap_or(0)
}

fn failed(
    standing: &mut LoopStanding,
    what: &str,
    end: &RoundEnd,
    wait_ms: Option<i64>,
    now_ms: i64,
) -> EndConsequence {
    standing.streak = standing.streak.saturating_add(1);
    let alike = count_alike(standing, end.signature.as_deref());
    let asked = end.retry_at_ms.filter(|at| *at > now_ms);
    let until_ms = wait_ms.map(|ms| now_ms.saturating_add(ms)).max(asked);
    let times = standing.streak;
    standing.wait = until_ms.map(|until_ms| LoopDelay { until_ms, why: format!("{what}, {times} in a row") });
    let why = if alike >= ALIKE_MAX {
        format!("{what} in the same way {alike} times in a row")
    } else if times >= STREAK_MAX {
        format!("did not succeed {times} times in a row, the last one {what}")
    } else {
        return EndConsequence::Nothing;
    };
    standing.wait = None;
    standing.paused = Some(LoopPause { since_ms: now_ms, by: "breaker".to_owned(), why: why.clone() });
    EndConsequence::AskPerson(why)
}

/// 1, 2, 4 … minutes, at most one hour.
fn backoff_ms(streak_before: u32) -> i64 {
    FAILED_FIRST_MS.saturating_mul(1 << streak_before.min(6)).min(FAILED_MOST_MS)
}

/// Counts how often in a row the same signature occurred, stores the count and returns it. Failures without a signature
/// are never alike. Repeated failures over one item count once: that item is given up on its own, and the loop
/// continues with the others.
fn count_alike(standing: &mut LoopStanding, signature: Option<&str>) -> u32 {
    let Some(signature) = signature.filter(|text| !text.is_empty()) else {
        standing.signature = None;
        return 0;
    };
    let signature: String = signature.chars().take(SIGNATURE_MAX).collect();
    let last = standing.signature.as_deref().and_then(|text| text.split_once("x "));
    let (failure, item) = apart(&signature);
    let times = match last.map(|(times, last)| (times.parse::<u32>().unwrap_or(0), apart(last))) {
        Some((times, (same, last))) if same == failure && item.is_some() && item == last => times,
        Some((times, (same, _))) if same == failure => times.saturating_add(1),
        _ => 1,
    };
    standing.signature = Some(format!("{times}x {signature}"));
    times
}

/// Splits a signature into the failure and the item it was about.
fn apart(signature: &str) -> (&str, Option<&str>) {
    match signature.split_once(ABOUT) {
        Some((failure, item)) => (failure, Some(item)),
        None => (signature, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};

    fn tell(ends: &[(&str, Option<&str>, Option<i64>)]) -> String {
        let mut standing = LoopStanding::new(LoopKey::new("r", "a"), "f", 0);
        let mut out = String::new();
        for (word, signature, retry_at_ms) in ends {
            let outcome = RoundOutcome::parse(word).expect("an outcome");
            let signature = signature.map(str::to_owned);
            let end = RoundEnd { outcome, signature, retry_at_ms: *retry_at_ms, open_proposals: 0 };
            let after = apply_round_end(&mut standing, &end, 0);
            let wait =
                standing.wait.as_ref().map(|wait| format!(" wait {}s", wait.until_ms / 1000)).unwrap_or_default();
            let paused = standing.paused.as_ref().map(|paused| format!(" paused: {}", paused.why)).unwrap_or_default();
            let after = if after == EndConsequence::Nothing { "" } else { " !" };
            out += &format!("{word} → streak {}{wait}{paused}{after}\n", standing.streak);
        }
        out
    }

    #[track_caller]
    fn check(ends: &[(&str, Option<&str>, Option<i64>)], expected: Expect) {
        expected.assert_eq(&tell(ends));
    }

    #[test]
    fn failures_of_different_kinds_wait_longer_each_time_and_end_in_a_pause() {
        let ends: Vec<_> = (0..10).map(|_| ("failed", None, None)).collect();
        check(
            &ends,
            expect![[r#"
                failed → streak 1 wait 60s
                failed → streak 2 wait 120s
                failed → streak 3 wait 240s
                failed → streak 4 wait 480s
                failed → streak 5 wait 960s
                failed → streak 6 wait 1920s
                failed → streak 7 wait 3600s
                failed → streak 8 wait 3600s
                failed → streak 9 wait 3600s
                failed → streak 10 paused: did not succeed 10 times in a row, the last one ended failed !
            "#]],
        );
    }

    #[test]
    fn the_same_signature_three_times_pauses_and_another_one_between_does_not() {
        check(
            &[
                ("rejected", Some("tests"), None),
                ("rejected", Some("tests"), None),
                ("rejected", Some("lint"), None),
                ("rejected", Some("tests"), None),
                ("rejected", Some("tests"), None),
                ("rejected", Some("tests"), None),
            ],
            expect![[r#"
                rejected → streak 1
                rejected → streak 2
                rejected → streak 3
                rejected → streak 4
                rejected → streak 5
                rejected → streak 6 paused: ended rejected in the same way 3 times in a row !
            "#]],
        );
    }

    #[test]
    fn one_item_that_fails_again_and_again_pauses_nothing_and_three_that_fail_alike_do() {
        check(
            &[
                ("failed", Some("exit about a"), None),
                ("failed", Some("exit about a"), None),
                ("failed", Some("exit about a"), None),
                ("failed", Some("exit about b"), None),
                ("failed", Some("exit about b"), None),
                ("failed", Some("exit about c"), None),
            ],
            expect![[r#"
                failed → streak 1 wait 60s
                failed → streak 2 wait 120s
                failed → streak 3 wait 240s
                failed → streak 4 wait 480s
                failed → streak 5 wait 960s
                failed → streak 6 paused: ended failed in the same way 3 times in a row !
            "#]],
        );
    }

    #[test]
    fn success_forgets_and_a_providers_limit_burns_nothing() {
        check(
            &[
                ("failed", Some("a"), None),
                ("failed", Some("a"), None),
                ("rate-limited", None, Some(3_600_000)),
                ("interrupted", None, None),
                ("shipped", None, None),
                ("failed", Some("a"), None),
                ("over-budget", None, Some(7_200_000)),
            ],
            expect![[r#"
                failed → streak 1 wait 60s
                failed → streak 2 wait 120s
                rate-limited → streak 2 wait 3613s !
                interrupted → streak 2 wait 3613s
                shipped → streak 0
                failed → streak 1 wait 60s
                over-budget → streak 1 wait 7200s
            "#]],
        );
    }
}
