//! The trend of weaker tests: one change may remove an assertion for a good reason; a loop whose changes do it again and
//! again needs a person.

use super::StageError;
use super::context::RoundContext;
use loopwright_core::round::RoundFacts;

/// The number of earlier proposals that are read.
const EARLIER_MAX: u32 = 10;
/// The number of them with weaker tests that makes a further one a trend.
const TREND_MIN: usize = 2;

/// A finding if earlier proposals of the loop weakened tests, for a candidate that does so too.
pub(super) async fn weakening_trend(cx: &RoundContext<'_>, facts: &RoundFacts) -> Result<Option<String>, StageError> {
    let started = &facts.started;
    let mut rounds = cx.engine.store.proposing_rounds(&started.repo, &started.spec.name, EARLIER_MAX).await?;
    rounds.retain(|round| *round != started.round);
    rounds.dedup();
    let (mut weaker, mut read) = (0, 0);
    for round in &rounds {
        // A record that is gone cannot be compared.
        let Ok(recorded) = cx.engine.load_round(round).await else { continue };
        read += 1;
        let findings = recorded.round.facts().attempt().map(|attempt| &attempt.findings);
        weaker += usize::from(findings.is_some_and(|findings| !findings.weakened_tests.is_empty()));
    }
    let text = format!("tests: also {weaker} of the last {read} proposals of this loop made tests check less");
    Ok((weaker >= TREND_MIN).then_some(text))
}
