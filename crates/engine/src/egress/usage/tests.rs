//! Answers as providers write them, split in every way, and the usage counted for each.

use super::request_copy::RequestFacts;
use super::{AnswerUsage, Form, UsageBounds, UsageCount, UsageTally};
use crate::budget_meter::StartMeter;
use crate::egress::exchange_log::ExchangeLog;
use loopwright_core::budget::{BudgetLimit, ModelTokens, Tokens};
use loopwright_core::prices::ModelPrices;
use proptest::prelude::*;
use std::sync::Arc;

const MESSAGES: &str = concat!(
    "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"msg_1\",\"type\":\"message\",\"model\":\"claude-a\",",
    "\"content\":[],\"usage\":{\"input_tokens\":1200,\"cache_creation_input_tokens\":30,\"cache_read_input_tokens\":800,\"output_tokens\":1}}}\n\n",
    "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",",
    "\"text\":\"{\\\"usage\\\":{\\\"output_tokens\\\":999999}}\"}}\n\n",
    "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{\"output_tokens\":60}}\n\n",
    "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n",
);
const RESPONSES: &str = concat!(
    "event: response.created\ndata: {\"type\":\"response.created\",\"response\":{\"id\":\"r\",\"model\":\"gpt-a\",\"error\":null,\"usage\":null}}\n\n",
    "event: response.completed\r\ndata: {\"type\":\"response.completed\",\"response\":{\"model\":\"gpt-a\",\"output\":[{\"usage\":{\"input_tokens\":7}}],",
    "\"usage\":{\"input_tokens\":2000,\"input_tokens_details\":{\"cached_tokens\":800},\"output_tokens\":60,",
    "\"output_tokens_details\":{\"reasoning_tokens\":9},\"total_tokens\":2060}}}\r\n\r\n",
);
const CHAT: &str = concat!(
    "data: {\"id\":\"c\",\"model\":\"gpt-b\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"hi\"}}],\"usage\":null}\n\n",
    "data: {\"id\":\"c\",\"model\":\"gpt-b\",\"choices\":[],\"usage\":{\"prompt_tokens\":2000,\"completion_tokens\":60,\"prompt_tokens_details\":{\"cached_tokens\":800}}}\n\n",
    "data: [DONE]\n\n",
);
const GEMINI: &str = concat!(
    "data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"a\"}]}}],\"usageMetadata\":{\"promptTokenCount\":2000,\"candidatesTokenCount\":5},\"modelVersion\":\"gemini-a\"}\r\n\r\n",
    "data: {\"candidates\":[{\"finishReason\":\"STOP\"}],\"usageMetadata\":{\"promptTokenCount\":2000,\"cachedContentTokenCount\":800,\"candidatesTokenCount\":50,",
    "\"thoughtsTokenCount\":10,\"totalTokenCount\":2060},\"modelVersion\":\"gemini-a\"}\r\n\r\n",
);

/// A request of 300 bytes.
fn asked(tally: &UsageTally) -> AnswerUsage {
    let place =
        tally.try_acquire_slot(Some(300)).expect("no ceiling was passed").expect("no other request is in flight");
    AnswerUsage::new(place, None, ExchangeLog::default().begin("models"))
}

/// The count of one complete answer that arrives in these parts.
fn counted<'a>(form: Form, parts: impl IntoIterator<Item = &'a [u8]>) -> UsageCount {
    let tally = UsageTally::default();
    let mut answer = asked(&tally);
    answer.begin(form);
    parts.into_iter().for_each(|part| answer.push(part));
    answer.finish();
    drop(answer);
    tally.current_count()
}

fn count_of(model: &str, tokens: [u64; 4]) -> UsageCount {
    let [input, output, cache_read, cache_write] = tokens;
    let tokens = Tokens { input, output, cache_read, cache_write };
    UsageCount { models: vec![ModelTokens::charged(model, tokens)], reported: 1, ..UsageCount::default() }
}

#[test]
fn every_protocols_own_figures_are_counted_wherever_the_answer_is_cut_into_parts() {
    for (text, expected) in [
        (MESSAGES, count_of("claude-a", [1200, 60, 800, 30])),
        (RESPONSES, count_of("gpt-a", [1200, 60, 800, 0])),
        (CHAT, count_of("gpt-b", [1200, 60, 800, 0])),
        (GEMINI, count_of("gemini-a", [1200, 60, 800, 0])),
    ] {
        for size in [1, 2, 3, 7, 64, text.len()] {
            assert_eq!(counted(Form::Events, text.as_bytes().chunks(size)), expected, "{size}: {text}");
        }
    }
}

#[test]
fn answers_that_are_one_document_are_counted_too() {
    for (text, expected) in [
        (
            r#"{"id":"m","type":"message","model":"claude-a","content":[{"type":"text","text":"\"usage\":{}"}],"usage":{"input_tokens":3,"output_tokens":4}}"#,
            count_of("claude-a", [3, 4, 0, 0]),
        ),
        (
            r#"{"object":"response","error":null,"usage":{"input_tokens":9,"input_tokens_details":{"cached_tokens":2},"output_tokens":4},"model":"gpt-a"}"#,
            count_of("gpt-a", [7, 4, 2, 0]),
        ),
        (
            r#"{"choices":[{"message":{"usage":{"prompt_tokens":1}}}],"model":"gpt-b","usage":{"prompt_tokens":9,"completion_tokens":4}}"#,
            count_of("gpt-b", [9, 4, 0, 0]),
        ),
        (
            r#"[{"usageMetadata":{"promptTokenCount":9}},{"usageMetadata":{"promptTokenCount":9,"candidatesTokenCount":4},"modelVersion":"g"}]"#,
            count_of("g", [9, 4, 0, 0]),
        ),
        (
            r#"{"response":{"usageMetadata":{"promptTokenCount":9,"candidatesTokenCount":4,"toolUsePromptTokenCount":1},"modelVersion":"g"}}"#,
            count_of("g", [10, 4, 0, 0]),
        ),
    ] {
        for size in [1, 5, text.len()] {
            assert_eq!(counted(Form::Document, text.as_bytes().chunks(size)), expected, "{size}: {text}");
        }
    }
}

#[test]
fn incomplete_usage_reports_are_unclear_and_never_zero() {
    let cut = |text: &str, to: &str| text[..text.find(to).expect("it is there")].to_owned();
    for (form, text) in [
        (Form::Events, cut(MESSAGES, "event: message_delta")),
        (Form::Events, cut(RESPONSES, "event: response.completed")),
        (Form::Events, cut(CHAT, "data: {\"id\":\"c\",\"model\":\"gpt-b\",\"choices\":[],")),
        (Form::Document, r#"{"model":"gpt-b","choices":[]}"#.to_owned()),
        (Form::Document, r#"{"usage":{"input_tokens":-3,"output_tokens":2}}"#.to_owned()),
        (Form::Document, r#"{"usage":{"input_tokens":1.5}}"#.to_owned()),
        (Form::Document, r#"{"usage":{"cost":1}}"#.to_owned()),
        (Form::Document, "no JSON at all".to_owned()),
        (Form::Document, format!("{{\"usage\":{{\"input_tokens\":1,\"x\":\"{}\"}}}}", "x".repeat(20_000))),
    ] {
        let count = counted(form, [text.as_bytes()]);
        assert_eq!((count.reported, count.unclear), (0, 1), "{text}");
    }
    let part = counted(Form::Events, [cut(MESSAGES, "event: message_delta").as_bytes()]);
    assert_eq!(
        part.tokens(),
        Tokens { input: 1200, output: 1, cache_read: 800, cache_write: 30 },
        "the reported part stays"
    );
}

#[test]
fn unclear_answers_count_against_the_ceilings_by_their_size_so_that_silence_is_not_free() {
    let tally = UsageTally::default();
    let prices = Arc::new(ModelPrices::new(std::collections::BTreeMap::new()));
    tally.set_bounds(UsageBounds { tokens: Some(5_000), usd: None, meter: StartMeter::default(), prices });
    for answers in 1.. {
        // A provider that works in the background accepts the request and sends no content.
        let mut answer = asked(&tally);
        answer.begin(Form::Document);
        answer.push(b"{\"status\":\"queued\",\"usage\":null}");
        answer.finish();
        drop(answer);
        if tally.passed_ceiling().is_some() {
            assert_eq!(answers, 61, "the bytes of the request and of the unknown answer, four for a token");
            return;
        }
        assert!(answers < 61, "{:?}", tally.current_count());
    }
}

#[test]
fn request_in_flight_when_the_count_is_taken_is_unclear() {
    let tally = UsageTally::default();
    let mut answer = asked(&tally);
    assert_eq!((tally.current_count().unclear, tally.current_count().reported), (1, 0));
    answer.mark_refused();
    drop(answer);
    assert_eq!((tally.current_count().unclear, tally.current_count().refused), (0, 1));
}

#[test]
fn error_instead_of_an_answer_costs_the_usage_reported_before_it() {
    let error = "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\"}}\n\n";
    let begun = &MESSAGES[..MESSAGES.find("event: content").expect("it is there")];
    let count = counted(Form::Events, [begun.as_bytes(), error.as_bytes()]);
    assert_eq!((count.reported, count.unclear, count.tokens().input), (1, 0, 1200));
    let failed = "data: {\"type\":\"response.failed\",\"response\":{\"error\":{\"code\":\"rate_limit_exceeded\"}}}\n\n";
    assert_eq!(counted(Form::Events, [failed.as_bytes()]), UsageCount { reported: 1, ..UsageCount::default() });
}

#[test]
fn long_answer_and_deep_nesting_are_skipped_in_bounded_memory() {
    let long =
        format!("data: {{\"type\":\"response.completed\",\"response\":{{\"output\":\"{}\",", "x".repeat(30 << 20));
    let deep = format!("\"deep\":{}{},", "[{\"usage\":".repeat(5_000), "1".to_owned() + &"}]".repeat(5_000));
    let end = "\"model\":\"m\",\"usage\":{\"input_tokens\":1,\"output_tokens\":2}}}\n\n";
    let tally = UsageTally::default();
    let mut answer = asked(&tally);
    answer.begin(Form::Events);
    [long.as_str(), &deep, end].iter().for_each(|part| answer.push(part.as_bytes()));
    assert_eq!(tally.current_count(), count_of("m", [1, 2, 0, 0]));
}

#[test]
fn ceiling_is_checked_for_complete_answers_and_stays_exceeded() {
    let tally = UsageTally::default();
    let bounds = UsageBounds {
        tokens: Some(2_100),
        usd: None,
        meter: StartMeter::default(),
        prices: Arc::new(ModelPrices::new(std::collections::BTreeMap::new())),
    };
    tally.set_bounds(bounds);
    let one = |end: usize| {
        let mut answer = asked(&tally);
        answer.begin(Form::Events);
        answer.push(&MESSAGES.as_bytes()[..end]);
        tally.passed_ceiling()
    };
    let two = |text: &str| counted_into(&tally, text);
    two(CHAT);
    assert_eq!(tally.passed_ceiling(), None, "2060 of 2100");
    assert_eq!(one(MESSAGES.find("event: content").expect("it is there")), None, "an answer that has only started");
    assert_eq!(tally.passed_ceiling(), Some(BudgetLimit::Total), "it was interrupted, and its reported part counts");
}

fn counted_into(tally: &UsageTally, text: &str) {
    let mut answer = asked(tally);
    answer.begin(Form::Events);
    answer.push(text.as_bytes());
    answer.finish();
}

#[test]
fn answer_interrupted_by_an_error_without_a_usage_report_is_unclear() {
    let begun = &CHAT[..CHAT.find("data: {\"id\":\"c\",\"model\":\"gpt-b\",\"choices\":[],").expect("it is there")];
    let error = "data: {\"error\":{\"code\":502},\"model\":\"gpt-b\"}\n\n";
    let count = counted(Form::Events, [begun.as_bytes(), error.as_bytes()]);
    assert_eq!((count.reported, count.unclear), (0, 1));
    let created = &RESPONSES[..RESPONSES.find("event: response.completed").expect("it is there")];
    let delta = "data: {\"type\":\"response.output_text.delta\",\"delta\":\"hi\"}\n\n";
    let failed = "data: {\"type\":\"response.failed\",\"response\":{\"error\":{\"code\":\"server_error\"}}}\n\n";
    assert_eq!(counted(Form::Events, [created, failed].map(str::as_bytes)).reported, 1, "nothing of it had come");
    assert_eq!(counted(Form::Events, [created, delta, failed].map(str::as_bytes)).unclear, 1);
}

#[test]
fn answers_at_a_more_expensive_tier_are_not_counted_as_the_usual_model() {
    for (text, model) in [
        (r#"{"model":"m","service_tier":"default","usage":{"input_tokens":1,"output_tokens":2}}"#, "m"),
        (r#"{"model":"m","service_tier":null,"usage":{"input_tokens":1,"output_tokens":2}}"#, "m"),
        (r#"{"model":"m","service_tier":"priority","usage":{"input_tokens":1,"output_tokens":2}}"#, "m-fast"),
        (r#"{"response":{"usage":{"input_tokens":1,"output_tokens":2},"model":"m","service_tier":"fast"}}"#, "m-fast"),
        (r#"{"model":"m","usage":{"input_tokens":1,"output_tokens":2,"speed":"fast"}}"#, "m-fast"),
        (r#"{"model":"m","usage":{"input_tokens":1,"output_tokens":2,"speed":"standard"}}"#, "m"),
    ] {
        assert_eq!(counted(Form::Document, [text.as_bytes()]), count_of(model, [1, 2, 0, 0]), "{text}");
    }
}

#[test]
fn models_beyond_the_list_cost_what_an_unknown_one_does() {
    let tally = UsageTally::default();
    for at in 0..80 {
        counted_into(&tally, &CHAT.replace("gpt-b", &format!("cheap-{at}")));
    }
    let count = tally.current_count();
    assert_eq!((count.models.len(), count.reported), (65, 80));
    let unknown = count.models.iter().find(|used| used.model.is_empty()).expect("a line without a name");
    assert_eq!(unknown.tokens, Tokens { input: 16 * 1200, output: 16 * 60, cache_read: 16 * 800, cache_write: 0 });
}

#[test]
fn concurrent_requests_are_limited_by_the_ceiling_and_by_number() {
    let prices = Arc::new(ModelPrices::new(std::collections::BTreeMap::new()));
    let tally = UsageTally::default();
    let place = |size| tally.try_acquire_slot(size).expect("no ceiling was passed");
    let first = place(Some(3_000_000)).expect("one alone may be of any size");
    tally.set_bounds(UsageBounds { tokens: Some(1_100_000), usd: None, meter: StartMeter::default(), prices });
    let second = place(Some(240_000)).expect("there is room for 80 000 more");
    assert!(place(Some(90_000)).is_none(), "and none for 30 000 on top");
    assert!(place(None).is_none(), "nor for a request without a declared length");
    drop((first, second));
    let alone = place(None).expect("one alone may have no declared length");
    let others: Vec<_> = (0..20).map_while(|_| place(Some(3))).collect();
    assert_eq!(others.len(), 15, "sixteen with the one in flight");
    drop((alone, others));
    tally.close();
    assert!(tally.try_acquire_slot(Some(3)).is_err(), "the start is over");
}

#[test]
fn requests_in_flight_at_the_end_of_a_start_are_not_free() {
    let tally = UsageTally::default();
    let prices = ModelPrices::new(std::collections::BTreeMap::new());
    let _answer = AnswerUsage::new(
        tally.try_acquire_slot(Some(3_000_000)).expect("no ceiling").expect("a place"),
        None,
        ExchangeLog::default().begin("models"),
    );
    assert_eq!(tally.current_count().guess(&prices).tokens, 1_000_000);
}

#[test]
fn request_without_a_declared_length_counts_as_the_bytes_sent() {
    let tally = UsageTally::default();
    let prices = ModelPrices::new(std::collections::BTreeMap::new());
    let answer = AnswerUsage::new(
        tally.try_acquire_slot(None).expect("no ceiling").expect("a place"),
        None,
        ExchangeLog::default().begin("models"),
    );
    answer.sent_bytes().store(3_000_000, std::sync::atomic::Ordering::Relaxed);
    drop(answer);
    assert_eq!(tally.current_count().guess(&prices).tokens, 750_000);
}

#[test]
fn cut_answer_is_estimated_from_its_text_and_an_empty_one_costs_nothing() {
    let text = "x".repeat(40_000);
    let delta = |part: &str| {
        format!(
            "data: {{\"type\":\"content_block_delta\",\"index\":0,\"delta\":{{\"type\":\"text_delta\",\"text\":\"{part}\"}}}}\n\n"
        )
    };
    // Forty letters an event: the framing is more than the text.
    let events: String = (0..1000).map(|at| delta(&text[at * 40..(at + 1) * 40])).collect();
    let tally = UsageTally::default();
    let mut answer = asked(&tally);
    answer.begin(Form::Events);
    answer.push(events.as_bytes());
    drop(answer);
    let prices = ModelPrices::default();
    assert_eq!(tally.current_count().guess(&prices).tokens, 10_000 + 75, "the text, and the request of 300 bytes");
    assert_eq!(counted(Form::Events, [&b""[..]]), UsageCount { refused: 1, ..UsageCount::default() });
}

#[test]
fn price_is_that_of_the_requested_model() {
    let tally = UsageTally::default();
    let mut answer = asked(&tally);
    answer.set_request(RequestFacts { model: Some("house-model".to_owned()), has_tools: true });
    answer.begin(Form::Events);
    answer.push(CHAT.as_bytes());
    answer.finish();
    drop(answer);
    assert_eq!(tally.current_count(), count_of("house-model", [1200, 60, 800, 0]));
}

#[test]
fn line_ends_marks_and_missing_types_do_not_hide_the_usage() {
    let whole = counted(Form::Events, [MESSAGES.as_bytes()]);
    assert_eq!(whole.reported, 1);
    for text in [
        MESSAGES.replace('\n', "\r\n"),
        MESSAGES.replace('\n', "\r"),
        format!("\u{feff}{MESSAGES}"),
        format!(": hello\n\n{MESSAGES}"),
    ] {
        assert_eq!(counted(Form::Events, text.as_bytes().chunks(1)), whole, "{text:?}");
        assert_eq!(counted(Form::Events, [text.as_bytes()]), whole, "{text:?}");
    }
    assert_eq!(counted(Form::Document, [MESSAGES.as_bytes()]), whole, "events whose server did not name the type");
}

#[test]
fn figures_that_are_no_counts_of_tokens_are_not_charged() {
    for usage in [
        r#"{"prompt_tokens":-1,"completion_tokens":2}"#,
        r#"{"prompt_tokens":18446744073709551615,"completion_tokens":2}"#,
        r#"{"prompt_tokens":100000001,"completion_tokens":2}"#,
        r#"{"prompt_tokens":1e30,"completion_tokens":2}"#,
        r#"{"prompt_tokens":"12","completion_tokens":2}"#,
    ] {
        let count = counted(Form::Document, [format!(r#"{{"model":"m","choices":[],"usage":{usage}}}"#).as_bytes()]);
        assert_eq!((count.reported, count.unclear, count.tokens().total()), (0, 1, 0), "{usage}");
    }
}

#[test]
fn usage_object_without_a_known_figure_does_not_spoil_the_one_that_has_them() {
    let without = "data: {\"model\":\"gpt-b\",\"choices\":[],\"usage\":{\"cost\":0.1}}\n\n";
    let count = counted(Form::Events, [without.as_bytes(), CHAT.as_bytes()]);
    assert_eq!((count.reported, count.unclear), (1, 0));
    let alone = format!("data: {{\"choices\":[{{\"delta\":{{\"content\":\"{}\"}}}}]}}\n\n{without}", "x".repeat(400));
    let count = counted(Form::Events, [alone.as_bytes()]);
    assert_eq!((count.reported, count.unclear), (0, 1), "its cost is estimated");
}

#[test]
fn events_in_amazons_frames_are_counted_as_others_are() {
    use base64::Engine as _;
    let size = |length: usize| u32::try_from(length).expect("short").to_be_bytes();
    let frame = |document: &str| {
        let bytes = base64::engine::general_purpose::STANDARD.encode(document);
        let payload = format!("{{\"bytes\":\"{bytes}\"}}");
        [&size(16 + payload.len())[..], &[0; 8], payload.as_bytes(), &[0; 4]].concat()
    };
    let frames: Vec<u8> = MESSAGES.lines().filter_map(|line| line.strip_prefix("data: ")).flat_map(frame).collect();
    assert_eq!(counted(Form::Frames, frames.chunks(5)), counted(Form::Events, [MESSAGES.as_bytes()]));
    let half = counted(Form::Frames, [&frames[..frames.len() - 3]]);
    assert_eq!(half.reported + half.unclear, 1);
    let converse =
        frame_of_json(r#"{"metrics":{},"usage":{"inputTokens":7,"outputTokens":5,"cacheReadInputTokens":3}}"#);
    let count = counted(Form::Frames, [converse.as_slice()]);
    assert_eq!((count.reported, count.tokens()), (1, Tokens { input: 7, output: 5, cache_read: 3, cache_write: 0 }));
}

/// A frame without headers.
fn frame_of_json(payload: &str) -> Vec<u8> {
    let size = u32::try_from(16 + payload.len()).expect("short").to_be_bytes();
    [&size[..], &[0; 8], payload.as_bytes(), &[0; 4]].concat()
}

#[test]
fn error_event_of_responses_keeps_its_code_and_message() {
    let log = ExchangeLog::default();
    let slot = UsageTally::default().try_acquire_slot(Some(3)).expect("no ceiling").expect("a place");
    let mut answer = AnswerUsage::new(slot, None, log.begin("models"));
    answer.begin(Form::Events);
    answer.push(b"data: {\"type\":\"error\",\"code\":\"rate_limit_exceeded\",\"message\":\"slow\",\"param\":null}\n\n");
    answer.finish();
    drop(answer);
    assert_eq!(log.exchanges()[0].error, "rate_limit_exceeded: slow");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn no_bytes_in_no_parts_break_the_count(
        bytes in proptest::collection::vec(prop_oneof![Just(b'{'), Just(b'}'), Just(b'"'), Just(b'\\'), Just(b':'), Just(b'\n'), any::<u8>()], 0..400),
        size in 1usize..50,
    ) {
        for form in [Form::Events, Form::Document, Form::Frames] {
            let count = counted(form, bytes.chunks(size));
            prop_assert_eq!(count.reported + count.unclear + count.refused, 1);
        }
    }
}

#[test]
fn provider_that_served_the_answer_decides_whether_it_is_free_and_no_name_in_a_request_does() {
    let prices = ModelPrices::default().with_unmetered(["house".to_owned()]);
    let facts = || RequestFacts { model: Some("house/x".to_owned()), ..RequestFacts::default() };
    let answered = |is_free: bool, text: &str| {
        let tally = UsageTally::default();
        let mut answer = asked(&tally);
        if is_free {
            answer = answer.of_unmetered("house");
        }
        answer.set_request(facts());
        answer.begin(Form::Events);
        answer.push(text.as_bytes());
        answer.finish();
        drop(answer);
        tally.current_count()
    };
    let whole = answered(false, MESSAGES);
    assert_eq!(whole.cost(&prices), prices.cost_of("nobody", whole.tokens()), "the dearest price");
    let cut = answered(false, &MESSAGES[..MESSAGES.find("event: message_delta").expect("a delta")]);
    let charged = cut.cost(&prices).0 + cut.guess(&prices).usd.0;
    assert!(cut.unclear == 1 && charged > 0 && cut.guess(&prices).usd.0 > 0, "{cut:?}");
    let free = answered(true, MESSAGES);
    assert_eq!((free.tokens(), free.cost(&prices)), (whole.tokens(), loopwright_core::units::Usd(0)));
    assert_eq!(free.models[0].model, "house/house/x");
}

#[test]
fn one_name_at_a_free_and_at_a_metered_provider_is_counted_apart() {
    let (tally, prices) = (UsageTally::default(), ModelPrices::default());
    for is_free in [true, false] {
        let mut answer = asked(&tally);
        if is_free {
            answer = answer.of_unmetered("house");
        }
        let model = if is_free { "x" } else { "house/x" };
        answer.set_request(RequestFacts { model: Some(model.to_owned()), ..RequestFacts::default() });
        answer.begin(Form::Events);
        answer.push(MESSAGES.as_bytes());
        answer.finish();
    }
    let count = tally.current_count();
    let free: Vec<_> = count.models.iter().map(|used| (used.model.as_str(), used.is_free)).collect();
    assert_eq!(free, [("house/x", true), ("house/x", false)]);
    assert_eq!(count.cost(&prices), prices.cost_of("x", count.models[1].tokens));
}
