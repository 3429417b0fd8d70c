//! The table of provider situations, for each real agent as maker and as checker: the outcome, the exit code, the time
//! of the next try, and the charge, to the millionth of a dollar against the scripted model's own count. Each trouble that
//! leads to a fallback is also a situation with one.
//!
//! `cargo xtask matrix` runs all of it. An ordinary test run has one situation for each agent and role.

mod table;

use crate::world::{World, end_of, in_micros, model_of, prices, served, tokens};
use loopwright_core::budget::Tokens;
use loopwright_testkit::{ModelServer, agents};
use serde_json::Value;
use table::{Charge, NextTry, Situation, TABLE};

/// The variable with which `cargo xtask matrix` asks for every situation.
const ALL: &str = "LOOPWRIGHT_TEST_MATRIX";

const MAKES: &str = "\
replace calc.py \"a - b\" \"a + b\"
stage pull-request.md \"Mend the sum\\n\\nIt was a difference.\"
say The sum is mended.
";

const CHECKS: &str = "\
read calc.py
verdict pass correctness=5@calc.py:2 scope=5@gate:tests tests=4@gate:tests
";

/// Bytes of a long text.
const LONG_BYTES: usize = 8_000;

/// Turns with a long text.
const LONG_TURNS: usize = 12;

/// Ceilings far above the charges, so that none of them hides a wrong charge.
const ROOM: &str = "budget: { round: { usd: 60, tokens: 40M }, day: { usd: 100 } }\n";

/// One situation, with or without another agent to continue with.
struct MatrixCell {
    row: &'static Situation,
    has_fallback: bool,
}

impl MatrixCell {
    fn name(&self) -> String {
        format!("{}{}", self.row.name, if self.has_fallback { "+fallback" } else { "" })
    }

    fn all() -> impl Iterator<Item = Self> {
        let with = |has_fallback| move |row: &'static Situation| Self { row, has_fallback };
        let falls = TABLE.iter().filter(|row| row.leads_to_fallback());
        TABLE.iter().map(with(false)).chain(falls.map(with(true)))
    }

    /// Outcome, exit code and next try of the round.
    fn end(&self) -> (&'static str, i64, NextTry) {
        if self.has_fallback {
            ("escalated", 10, NextTry::Never)
        } else {
            (self.row.outcome, self.row.exit, self.row.next)
        }
    }
}

fn is_whole() -> bool {
    #[expect(clippy::disallowed_methods, reason = "`cargo xtask matrix` asks for every situation by a variable")]
    std::env::var_os(ALL).is_some()
}

/// Runs the situations of one agent in one role, and reports all that differ at once.
fn matrix(agent: &str, role: &str, sample: &str) {
    if agents::require_program(agent).is_none() {
        return;
    }
    assert!(MatrixCell::all().any(|cell| cell.name() == sample), "the sample is a situation");
    let cells = MatrixCell::all().filter(|cell| is_whole() || cell.name() == sample);
    let wrong: Vec<String> = cells.filter_map(|cell| differences(agent, role, &cell).err()).collect();
    assert!(wrong.is_empty(), "{} situations differ\n{}", wrong.len(), wrong.join("\n"));
}

/// The agent in a loop file.
fn spec(agent: &str, fallback: &str) -> String {
    let model = model_of(agent);
    match agent {
        "goose" => format!("{{ use: acp, run: [goose, acp, --with-builtin, developer], model: {model}{fallback} }}"),
        _ => format!("{{ use: {agent}, model: {model}{fallback} }}"),
    }
}

/// The agent that continues after trouble, at a provider without trouble.
fn spare(agent: &str) -> (&str, &'static str) {
    match agent {
        "goose" => ("claude", model_of("claude")),
        "opencode" => (agent, "claude-opus-5-5"),
        _ => (agent, model_of(agent)),
    }
}

/// A text that repeats nothing, also no text of another turn: Gemini CLI stops a model that repeats itself.
fn long_text(turn: usize) -> String {
    const NUMBER_BYTES: usize = 6;
    let count = LONG_BYTES / NUMBER_BYTES;
    (turn * count..(turn + 1) * count).map(|number| format!("{number:05} ")).collect()
}

/// The world of a situation, and the server of the spare provider.
fn world(agent: &str, role: &str, cell: &MatrixCell) -> Option<(World, ModelServer)> {
    let turns = if cell.row.faults.contains("LONG") { LONG_TURNS } else { 1 };
    let faults: String = (0..turns).map(|turn| cell.row.faults.replace("LONG", &long_text(turn))).collect();
    let [makes, checks] = if role == "maker" { [faults.as_str(), ""] } else { ["", faults.as_str()] };
    let scenario = format!("@ maker\n{makes}{MAKES}\n@ checker\n{checks}{CHECKS}");
    let world = World::with_config(agent, agent, &scenario, "provider_wait: 1s\n")?;
    let (next, model) = spare(agent);
    let good = ModelServer::start(&format!("@ maker\n{MAKES}\n@ checker\n{CHECKS}"));
    world.add_provider(&format!("spare: {{ url: {}{}, key_env: OPENAI_API_KEY }}", good.url(), end_of(next)));
    if cell.row.is_silence() {
        let url = world.model.url().to_owned();
        let limits = ", first_byte: 5s, between_bytes: 5s }\n";
        world.edit_config(|text| {
            let line = |line: &str| match line.strip_suffix(" }").filter(|_| line.contains(&url)) {
                Some(line) => format!("{line}{limits}"),
                None => format!("{line}\n"),
            };
            text.lines().map(line).collect()
        });
    }
    let fallback = if cell.has_fallback { format!(", fallback: [{next}@spare/{model}]") } else { String::new() };
    let [maker, checker] = ["maker", "checker"].map(|one| spec(agent, if one == role { &fallback } else { "" }));
    world.write_loop(&maker, &checker, ROOM);
    Some((world, good))
}

fn differences(agent: &str, role: &str, cell: &MatrixCell) -> Result<(), String> {
    let (world, spare) = world(agent, role, cell).ok_or("not installed")?;
    let (row, (outcome, exit, next)) = (cell.row, cell.end());
    let ended = world.run();
    let mut wrong = Vec::new();
    let mut differs = |what: &str, found: String, wanted: String| {
        if found != wanted {
            wrong.push(format!("{what} is {found}, wanted {wanted}"));
        }
    };
    differs("outcome", text(&ended["outcome"]), outcome.to_owned());
    differs("exit", ended["exit"].to_string(), exit.to_string());
    let reasons: Vec<&Value> = ended["reasons"].as_array().into_iter().flatten().collect();
    if !row.code.is_empty() {
        differs("reason", reasons.iter().any(|one| one["code"] == row.code).to_string(), "true".to_owned());
    }
    let continued = reasons.iter().any(|one| text(&one["text"]).contains("continued with"));
    differs("fallback", continued.to_string(), cell.has_fallback.to_string());
    differs("next try", next_try(&ended, next), format!("{next:?}"));
    let logs = [world.model.log(), spare.log()].concat();
    let counters = [world.model.counter(), spare.counter()];
    differs("charge", charge(&ended, &counters, &logs, row.charge), "as counted".to_owned());
    if row.name == "429-near" {
        differs("wait", waited(&logs), "as the provider asked".to_owned());
    }
    if wrong.is_empty() {
        return Ok(());
    }
    let (name, wrong) = (cell.name(), wrong.join("; "));
    Err(format!("== {agent} as {role}, {name}: {wrong}\n{ended:#}\n{counters:#?}\n{}", world.transcripts()))
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// The wanted time if the round's own fits to it, otherwise the round's own.
fn next_try(ended: &Value, wanted: NextTry) -> String {
    let found = ended["retry_at"].as_str().and_then(|at| at.parse::<jiff::Timestamp>().ok());
    let delay = found.map(|at| at.as_second() - jiff::Timestamp::now().as_second());
    let fits = match (wanted, delay) {
        (NextTry::Never, None) => true,
        (NextTry::Later, Some(_)) => true,
        // The answer came before this moment.
        (NextTry::After(seconds), Some(delay)) => (seconds - 120..=seconds + 6).contains(&delay),
        _ => false,
    };
    if fits { format!("{wanted:?}") } else { format!("{found:?}") }
}

/// The charge if it is wrong. Answers that were interrupted have no usage report; they cost at most the tokens of their
/// request and of their text.
fn charge(ended: &Value, counters: &[Value], logs: &[Value], wanted: Charge) -> String {
    let counted = counters.iter().map(served);
    let (all, micros) = counted.fold((Tokens::default(), 0), |(sum, usd), (one, more)| (sum.plus(one), usd + more));
    let (charged, usd) = (tokens(&ended["spend"]["tokens"]), in_micros(&ended["spend"]["usd"]));
    let most = micros + logs.iter().filter(|one| is_interrupted(one)).map(most_of).sum::<u64>();
    let basis = &ended["spend"]["basis"];
    let fits = match wanted {
        Charge::Measured => (charged, usd) == (all, micros) && basis == "measured",
        Charge::Estimated => charged.total() >= all.total() && (micros..=most).contains(&usd) && basis == "estimated",
    };
    if fits {
        "as counted".to_owned()
    } else {
        format!("{charged:?} {usd} {basis}, counted {all:?} {micros} to {most}")
    }
}

fn is_interrupted(exchange: &Value) -> bool {
    let answer = &exchange["answer"];
    answer["status"] == 200 && (answer["usage"].is_null() || answer["turn"] == "cut" || answer["turn"] == "hang")
}

/// The price of a request by its bytes, and of the longest text.
fn most_of(exchange: &Value) -> u64 {
    const TOKEN_BYTES: usize = 4;
    let count = |bytes: usize| u64::try_from(bytes.div_ceil(TOKEN_BYTES)).expect("it is small");
    // The log has the request without its spaces and escapes.
    let input = count(exchange["body"].to_string().len() * 5 / 4);
    let used = Tokens { input, output: count(LONG_BYTES), ..Tokens::default() };
    prices().cost_of(&text(&exchange["answer"]["model"]), used).0
}

/// Whether the request after the refusal came a second later.
fn waited(log: &[Value]) -> String {
    let at = |one: &Value| one["at_ms"].as_i64().unwrap_or_default();
    let Some(refused) = log.iter().position(|one| one["answer"]["status"] == 429) else { return "never".to_owned() };
    let is_work = |one: &&Value| one["answer"]["block"] == log[refused]["answer"]["block"];
    let Some(next) = log[refused + 1..].iter().find(is_work) else { return "for ever".to_owned() };
    let delay = at(next) - at(&log[refused]);
    if delay >= 1_000 { "as the provider asked".to_owned() } else { format!("{delay} ms") }
}

#[test]
fn claude_as_maker_meets_the_provider_table() {
    matrix("claude", "maker", "429-far");
}

#[test]
fn claude_as_checker_meets_the_provider_table() {
    matrix("claude", "checker", "401+fallback");
}

#[test]
fn codex_as_maker_meets_the_provider_table() {
    matrix("codex", "maker", "500");
}

#[test]
fn codex_as_checker_meets_the_provider_table() {
    matrix("codex", "checker", "refusal");
}

#[test]
fn opencode_as_maker_meets_the_provider_table() {
    matrix("opencode", "maker", "refusal");
}

#[test]
fn opencode_as_checker_meets_the_provider_table() {
    matrix("opencode", "checker", "context");
}

#[test]
fn gemini_as_maker_meets_the_provider_table() {
    matrix("gemini", "maker", "cut");
}

#[test]
fn gemini_as_checker_meets_the_provider_table() {
    matrix("gemini", "checker", "429-near");
}

#[test]
fn goose_as_maker_meets_the_provider_table() {
    matrix("goose", "maker", "503-far");
}

#[test]
fn goose_as_checker_meets_the_provider_table() {
    matrix("goose", "checker", "page");
}
