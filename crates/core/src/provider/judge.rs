//! The table that turns exchanges with a provider into its trouble, for every agent alike:
//!
//! | the provider | trouble |
//! |---|---|
//! | 401, 403 | auth |
//! | 404 and other 4xx | bad-request |
//! | 402, or words about credit | quota |
//! | words about the length of the context | context |
//! | 429 | rate-limited, until the time in the headers or in the message |
//! | 503, 529 | overloaded, until the time in the headers or in the message |
//! | other 5xx | server |
//! | no connection, a cut or malformed answer, a page, silence | network |
//! | an answer that ends with a refusal | declined |
//!
//! The last exchange of the agent's work decides, because agents retry by themselves. [`crate::round`] decides what the
//! trouble means for the round.

use super::exchange::{ExchangeEnd, ProviderExchange};
use super::{ProviderTrouble, TroubleKind};

/// The silence after which an exchange that an agent left counts as the provider's.
const SILENT_MIN_MS: u64 = 10_000;
/// The same for an agent whose time was up: it may have waited for a normal answer.
const SILENT_AT_WALL_MS: u64 = 60_000;
/// The longest wait that an agent may sit out by itself.
const STAY_MAX_MS: u64 = 60_000;
/// The number of silent exchanges in a row after which an agent is ended.
const SILENT_IN_A_ROW: usize = 2;

/// Finish reasons with which a model declines, in the words of Anthropic, OpenAI, Gemini and Bedrock.
const REFUSALS: [&str; 13] = [
    "refusal",
    "content_filter",
    "content-filter",
    "safety",
    "prohibited_content",
    "blocklist",
    "spii",
    "recitation",
    "image_safety",
    "image_prohibited_content",
    "model_armor",
    "guardrail_intervened",
    "content_filtered",
];

/// The finish reason of an answer that filled the context of its model.
const FULL_CONTEXT: &str = "model_context_window_exceeded";

/// How an agent's program stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AgentStop {
    /// It ended by itself, or after a time without output.
    Quiet,
    /// Its time was up.
    Wall,
}

/// The trouble that the exchanges of one start show; `None` if the last one was good.
#[must_use]
pub fn judge_exchanges(exchanges: &[ProviderExchange], stop: AgentStop, now_ms: i64) -> Option<ProviderTrouble> {
    let last = work_of(exchanges).last()?;
    let silence_ms = match stop {
        AgentStop::Quiet => SILENT_MIN_MS,
        AgentStop::Wall => SILENT_AT_WALL_MS,
    };
    if last.end == ExchangeEnd::Left && last.is_accepted_or_open() {
        let text = format!("the provider `{}` sent nothing for {} s", last.provider, last.silent_ms / 1000);
        return (last.silent_ms >= silence_ms).then(|| ProviderTrouble::new(TroubleKind::Network, last.status, &text));
    }
    judge_exchange(last, now_ms)
}

/// Whether the agent cannot succeed by its own retries, so that it is ended at once: the provider named a time that is
/// too far away, or is silent again and again.
#[must_use]
pub fn is_hopeless(exchanges: &[ProviderExchange]) -> bool {
    let work: Vec<&ProviderExchange> = work_of(exchanges).collect();
    let Some(last) = work.last() else { return false };
    let is_limited = judge_exchange(last, 0).is_some_and(|trouble| trouble.kind.is_temporary());
    let delay_ms = last.headers.delay_ms(None).filter(|_| is_limited);
    let is_silent = work.len() >= SILENT_IN_A_ROW && work.iter().rev().take(SILENT_IN_A_ROW).all(|one| one.is_silent());
    is_silent || delay_ms.is_some_and(|delay_ms| delay_ms > STAY_MAX_MS)
}

/// The exchanges of the agent's work: those with tools, if it uses tools.
fn work_of(exchanges: &[ProviderExchange]) -> impl Iterator<Item = &ProviderExchange> {
    let has_tools = exchanges.iter().any(|exchange| exchange.has_tools);
    exchanges.iter().filter(move |exchange| exchange.has_tools == has_tools)
}

fn judge_exchange(exchange: &ProviderExchange, now_ms: i64) -> Option<ProviderTrouble> {
    let answered_ms = now_ms.saturating_sub(i64::try_from(exchange.age_ms).unwrap_or(i64::MAX));
    if exchange.is_accepted() || exchange.status.is_none() {
        return judge_answer(exchange, answered_ms);
    }
    let words = if exchange.error.is_empty() { "no message" } else { &exchange.error };
    let mut trouble = ProviderTrouble::classify(exchange.status, words, answered_ms);
    trouble.retry_at_ms = trouble.retry_at_ms.filter(|_| trouble.kind.is_temporary());
    if let Some(delay_ms) = exchange.headers.delay_ms(Some(answered_ms)).filter(|_| trouble.kind.is_temporary()) {
        trouble.retry_at_ms = answered_ms.checked_add_unsigned(delay_ms);
    }
    trouble.text = ProviderTrouble::new(trouble.kind, None, &describe_status(exchange, words)).text;
    Some(trouble)
}

fn describe_status(exchange: &ProviderExchange, words: &str) -> String {
    let status = exchange.status.unwrap_or_default();
    let model =
        if exchange.asked_model.is_empty() { String::new() } else { format!(" for `{}`", exchange.asked_model) };
    format!("`{}` answered {status}{model}: {words}", exchange.provider)
}

/// An answer that the provider started, or never gave.
fn judge_answer(exchange: &ProviderExchange, answered_ms: i64) -> Option<ProviderTrouble> {
    if exchange.finish.as_deref().is_some_and(is_refusal) {
        let finish = exchange.finish.as_deref().unwrap_or_default();
        let text = format!("the model `{}` declined to answer ({finish})", exchange.asked_model);
        return Some(ProviderTrouble::new(TroubleKind::Declined, exchange.status, &text));
    }
    if exchange.finish.as_deref() == Some(FULL_CONTEXT) {
        let usage = exchange.usage.unwrap_or_default();
        let input = usage.total().saturating_sub(usage.output);
        let text = format!(
            "the context of `{}` is full: {input} tokens, and {} in its answer",
            exchange.asked_model, usage.output
        );
        return Some(ProviderTrouble::new(TroubleKind::Context, exchange.status, &text));
    }
    if !exchange.error.is_empty() {
        return Some(judge_error(exchange, answered_ms));
    }
    let problem = match exchange.end {
        ExchangeEnd::Complete | ExchangeEnd::Left => return None,
        ExchangeEnd::Cut => "cut off its answer",
        ExchangeEnd::NoFirstByte => "did not answer in time",
        ExchangeEnd::Stalled => "stopped in the middle of its answer",
        ExchangeEnd::Page => "sent an HTML page instead of an answer",
        ExchangeEnd::Malformed => "sent an answer that cannot be read",
        ExchangeEnd::Empty => "sent an empty answer",
        ExchangeEnd::Unreachable => "could not be reached; `loopwright config` shows its address",
    };
    let text = format!("the provider `{}` {problem}", exchange.provider);
    Some(ProviderTrouble::new(TroubleKind::Network, exchange.status, &text))
}

/// An error in the middle of an answer. It has no status of its own.
fn judge_error(exchange: &ProviderExchange, answered_ms: i64) -> ProviderTrouble {
    let heard = ProviderTrouble::classify(None, &exchange.error, answered_ms);
    let kind = if heard.kind == TroubleKind::Unclear { TroubleKind::Server } else { heard.kind };
    let text = format!("`{}` ended its answer with an error: {}", exchange.provider, exchange.error);
    ProviderTrouble { retry_at_ms: heard.retry_at_ms, ..ProviderTrouble::new(kind, heard.status, &text) }
}

fn is_refusal(finish: &str) -> bool {
    REFUSALS.contains(&finish.to_ascii_lowercase().as_str())
}

impl ProviderExchange {
    /// Whether the provider had not refused the request when the agent left.
    fn is_accepted_or_open(&self) -> bool {
        self.status.is_none() || self.is_accepted()
    }
}

#[cfg(test)]
mod tests {
    use super::super::retry::RetryHeaders;
    use super::*;

    const NOW_MS: i64 = 1_794_762_000_000;

    fn answer(status: u16, end: ExchangeEnd) -> ProviderExchange {
        let asked_model = "m".to_owned();
        ProviderExchange { status: Some(status), end, asked_model, has_tools: true, ..ProviderExchange::new("house") }
    }

    fn refused(status: u16, error: &str, headers: &[(&str, &str)]) -> ProviderExchange {
        let headers = RetryHeaders::from_headers(headers.iter().copied());
        ProviderExchange { error: error.to_owned(), headers, ..answer(status, ExchangeEnd::Complete) }
    }

    fn finished(finish: &str) -> ProviderExchange {
        ProviderExchange { finish: Some(finish.to_owned()), ..answer(200, ExchangeEnd::Complete) }
    }

    fn left(silent_ms: u64) -> ProviderExchange {
        ProviderExchange { silent_ms, ..answer(200, ExchangeEnd::Left) }
    }

    #[test]
    fn trouble_follows_from_the_status_the_end_and_the_finish_reason_of_the_last_exchange() {
        use TroubleKind as Kind;
        let no_answer = |end| ProviderExchange { status: None, ..answer(0, end) };
        let in_answer =
            |error: &str| ProviderExchange { error: error.to_owned(), ..answer(200, ExchangeEnd::Complete) };
        let in_stream =
            ProviderExchange { error: "overloaded_error: Overloaded".to_owned(), ..answer(200, ExchangeEnd::Complete) };
        let after = |seconds: i64| Some(NOW_MS + seconds * 1000);
        let table = [
            (finished("end_turn"), None),
            (finished("stop"), None),
            (finished("max_tokens"), None),
            (finished("refusal"), Some((Kind::Declined, None))),
            (finished("content_filter"), Some((Kind::Declined, None))),
            (finished("SAFETY"), Some((Kind::Declined, None))),
            (finished("guardrail_intervened"), Some((Kind::Declined, None))),
            (finished("model_context_window_exceeded"), Some((Kind::Context, None))),
            (in_answer("RESOURCE_EXHAUSTED: slow (status code 429)"), Some((Kind::RateLimited, None))),
            (in_answer("UNAVAILABLE: later (status code 503)"), Some((Kind::Overloaded, None))),
            (in_answer("throttlingException: Too many tokens"), Some((Kind::RateLimited, None))),
            (in_answer("modelStreamErrorException: broken"), Some((Kind::Server, None))),
            (refused(401, "invalid x-api-key", &[]), Some((Kind::Auth, None))),
            (refused(403, "", &[]), Some((Kind::Auth, None))),
            (refused(404, "model: m", &[]), Some((Kind::BadRequest, None))),
            (refused(402, "", &[]), Some((Kind::Quota, None))),
            (refused(400, "prompt is too long: 210000 tokens > 200000 maximum", &[]), Some((Kind::Context, None))),
            (refused(400, "bad", &[("retry-after", "30")]), Some((Kind::BadRequest, None))),
            (refused(429, "slow", &[("retry-after", "3600")]), Some((Kind::RateLimited, after(3600)))),
            (refused(429, "slow; try again in 20s", &[]), Some((Kind::RateLimited, after(20)))),
            (refused(429, "slow", &[]), Some((Kind::RateLimited, None))),
            (refused(529, "", &[("retry-after-ms", "2000")]), Some((Kind::Overloaded, after(2)))),
            (refused(503, "", &[("retry-after", "7")]), Some((Kind::Overloaded, after(7)))),
            (refused(500, "boom", &[]), Some((Kind::Server, None))),
            (refused(502, "", &[]), Some((Kind::Server, None))),
            (in_stream, Some((Kind::Overloaded, None))),
            (answer(200, ExchangeEnd::Cut), Some((Kind::Network, None))),
            (answer(200, ExchangeEnd::Stalled), Some((Kind::Network, None))),
            (answer(200, ExchangeEnd::Page), Some((Kind::Network, None))),
            (answer(200, ExchangeEnd::Malformed), Some((Kind::Network, None))),
            (answer(200, ExchangeEnd::Empty), Some((Kind::Network, None))),
            (no_answer(ExchangeEnd::NoFirstByte), Some((Kind::Network, None))),
            (no_answer(ExchangeEnd::Unreachable), Some((Kind::Network, None))),
            (left(2_000), None),
            (left(12_000), Some((Kind::Network, None))),
        ];
        for (exchange, expected) in table {
            let judged = judge_exchanges(std::slice::from_ref(&exchange), AgentStop::Quiet, NOW_MS);
            assert_eq!(judged.map(|trouble| (trouble.kind, trouble.retry_at_ms)), expected, "{exchange:?}");
        }
    }

    #[test]
    fn retry_counts_from_the_answer_and_not_from_the_end_of_the_agent() {
        let old = ProviderExchange { age_ms: 10_000, ..refused(429, "slow", &[("retry-after", "60")]) };
        let judged = judge_exchanges(&[old], AgentStop::Quiet, NOW_MS).expect("trouble");
        assert_eq!(judged.retry_at_ms, Some(NOW_MS + 50_000));
    }

    #[test]
    fn last_exchange_with_tools_decides_and_requests_beside_the_work_do_not() {
        let aside = |exchange| ProviderExchange { has_tools: false, ..exchange };
        let (good, bad) = (finished("end_turn"), refused(404, "no such model", &[]));
        let kind =
            |all: &[ProviderExchange]| judge_exchanges(all, AgentStop::Quiet, NOW_MS).map(|trouble| trouble.kind);
        assert_eq!(kind(&[bad.clone(), good.clone()]), None);
        assert_eq!(kind(&[good.clone(), bad.clone()]), Some(TroubleKind::BadRequest));
        assert_eq!(kind(&[good.clone(), aside(bad.clone())]), None);
        assert_eq!(kind(&[bad.clone(), aside(good)]), Some(TroubleKind::BadRequest));
        assert_eq!(kind(&[aside(bad)]), Some(TroubleKind::BadRequest));
        assert_eq!(kind(&[]), None);
    }

    #[test]
    fn answer_that_an_agent_waited_for_at_its_wall_is_not_the_providers_fault_at_once() {
        let kind = |silent_ms| judge_exchanges(&[left(silent_ms)], AgentStop::Wall, NOW_MS).map(|trouble| trouble.kind);
        assert_eq!((kind(30_000), kind(60_000)), (None, Some(TroubleKind::Network)));
    }

    #[test]
    fn agent_is_ended_when_the_provider_names_a_distant_time_or_is_silent_twice() {
        let silent = || answer(200, ExchangeEnd::Stalled);
        let limited = |seconds: &str| refused(429, "slow", &[("retry-after", seconds)]);
        assert!(is_hopeless(&[limited("3600")]));
        assert!(!is_hopeless(&[limited("20")]));
        assert!(!is_hopeless(&[limited("3600"), finished("end_turn")]));
        assert!(is_hopeless(&[silent(), silent()]));
        assert!(!is_hopeless(&[silent()]) && !is_hopeless(&[silent(), finished("stop"), silent()]));
        assert!(!is_hopeless(&[refused(400, "bad", &[("retry-after", "3600")])]) && !is_hopeless(&[]));
    }

    #[test]
    fn message_names_the_provider_the_model_and_the_providers_words() {
        let judged = judge_exchanges(&[refused(404, "model: m\nnot here", &[])], AgentStop::Quiet, NOW_MS);
        assert_eq!(judged.expect("trouble").text, "`house` answered 404 for `m`: model: m not here");
    }
}
