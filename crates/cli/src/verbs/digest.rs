//! `digest`: the morning report over the rounds of a time, in Markdown or as one HTML file. Decisions come first, then
//! what was sent, what was not done and why, the spend and the coming day. Every line comes from the record; no agent
//! writes any of it.

use super::{CommandContext, CommandError, VerbResult, safe};
use crate::error::with_count;
use crate::view::repo_names::RepoNames;
use crate::view::rounds::RoundRecord;
use crate::view::time::{date_and_time, duration_text, now_ms, parse_timestamp, timestamp};
use crate::web::pages::paper::{self, LoopSpend};
use loopwright::store::{InboxRow, RoundRow, RoundsQuery, Store};
use loopwright_core::outcome::RoundOutcome;
use loopwright_core::round::{Round, RoundPhase};
use loopwright_core::units::TimeSpan;
use loopwright_core::verdict::Judgement;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;

/// The most rounds of one report.
const ROUNDS_MAX: u32 = 200;

/// The due moments of the coming day that are listed.
const COMING_MAX: usize = 20;

#[derive(Debug, clap::Args)]
pub(crate) struct DigestArgs {
    /// How far back the report goes
    #[arg(long, value_name = "TIME", default_value = "24h")]
    since: TimeSpan,
    /// Write the report to this new file instead
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Write one HTML file instead of Markdown; it loads nothing and prints well
    #[arg(long)]
    html: bool,
}

pub(crate) async fn run(args: DigestArgs, cx: &CommandContext) -> VerbResult {
    let store = cx.open_store_read_only().await?;
    // Outside of a repository, the report is about all of them.
    let repo = cx.repo().await.ok().map(|repo| repo.id);
    let from_ms = now_ms().saturating_sub(i64::try_from(args.since.duration().as_millis()).unwrap_or(i64::MAX));
    let query = RoundsQuery { repo: repo.clone(), limit: ROUNDS_MAX, ..RoundsQuery::default() };
    let rows: Vec<RoundRow> =
        store.rounds(query).await?.into_iter().filter(|row| row.ended_ms.unwrap_or(i64::MAX) >= from_ms).collect();
    let inbox: Vec<InboxRow> = store
        .inbox(ROUNDS_MAX)
        .await?
        .into_iter()
        .filter(|item| repo.as_ref().is_none_or(|repo| *repo == item.repo))
        .collect();
    // The newest rounds only; the report says so if it leaves some out.
    let has_more = rows.len() == ROUNDS_MAX as usize;
    let rounds = read_rounds(store.as_ref(), rows).await?;
    // Outside of a repository and without managed ones, there is no schedule.
    let coming = super::schedule::coming_day(cx).await.ok();
    let digest = Digest::new(&rounds, has_more, &inbox, coming.as_ref());
    let text = digest.render(from_ms);
    let html = args.html.then(|| paper::digest(&text, &digest.spend_by_loop()));
    let printed = html.as_ref().unwrap_or(&text);
    if let Some(file) = &args.out {
        let path = cx.env.cwd.join(file);
        super::init::write_new(&path, printed)
            .map_err(|error| CommandError::invalid(format!("write `{}`: {error}", file.display())))?;
    }
    let document = json!({"schema": 1, "since": timestamp(from_ms), "rounds": rounds.len(), "has_more": has_more, "decisions": inbox.len(), "path": args.out, "markdown": text, "html": html});
    Ok(cx.out.answer(&document, || match &args.out {
        Some(file) => format!("wrote {}", safe(&file.to_string_lossy())),
        None if args.html => printed.clone(),
        None => crate::output::safe_lines(printed),
    }))
}

/// One round of the report: its row, its record and the receipts of its items.
struct DigestRound {
    row: RoundRow,
    record: RoundRecord,
}

async fn read_rounds(store: &Store, rows: Vec<RoundRow>) -> Result<Vec<DigestRound>, CommandError> {
    let mut rounds = Vec::with_capacity(rows.len());
    for row in rows {
        let record = RoundRecord::read(store, &row.id).await?;
        rounds.push(DigestRound { row, record });
    }
    Ok(rounds)
}

/// The facts of one report, and how it names the loops.
struct Digest<'d> {
    rounds: &'d [DigestRound],
    /// Whether these are only the newest rounds of the time.
    has_more: bool,
    inbox: &'d [InboxRow],
    coming: Option<&'d Value>,
    repos: RepoNames,
}

impl<'d> Digest<'d> {
    fn new(rounds: &'d [DigestRound], has_more: bool, inbox: &'d [InboxRow], coming: Option<&'d Value>) -> Self {
        let ids = rounds.iter().map(|round| round.row.repo.as_str()).chain(inbox.iter().map(|item| item.repo.as_str()));
        let due = occurrences(coming).iter().map(|one| word(one, "repo"));
        Self { rounds, has_more, inbox, coming, repos: RepoNames::new(ids.chain(due)) }
    }

    /// A round's loop, with its repository if the report has several.
    fn title(&self, row: &RoundRow) -> String {
        self.repos.title(&row.repo, &row.loop_name)
    }

    /// The money of each loop, the most expensive first.
    fn spend_by_loop(&self) -> Vec<LoopSpend> {
        let mut by_loop = BTreeMap::<String, f64>::new();
        for round in self.rounds {
            *by_loop.entry(self.title(&round.row)).or_default() += round.record.round.facts().spend.usd.dollars();
        }
        let mut spend: Vec<LoopSpend> = by_loop.into_iter().map(|(name, usd)| LoopSpend { name, usd }).collect();
        spend.sort_by(|a, b| b.usd.total_cmp(&a.usd));
        spend
    }

    /// The items that left this machine, with the receivers' answers.
    fn sent(&self) -> String {
        let mut text = "\n## Sent\n\n".to_owned();
        let before = text.len();
        for round in self.rounds {
            let items = round.record.report().outbox;
            for item in items.iter().filter(|item| item.state == "sent" && item.kind != "report") {
                let receipt = one_line(item.receipt.as_deref().unwrap_or("no answer"));
                let _ =
                    writeln!(text, "- {}: {}, {receipt} (round {})", self.title(&round.row), item.kind, round.row.id);
            }
        }
        if text.len() == before {
            text.push_str("Nothing.\n");
        }
        text
    }

    /// The rounds that ended without success, each with its last reason.
    fn not_done(&self) -> String {
        let is_bad = |round: &&DigestRound| {
            round.row.outcome.is_some_and(|outcome| !outcome.is_success() && outcome != RoundOutcome::Escalated)
        };
        let line = |round: &DigestRound| {
            let outcome = round.row.outcome.map_or("running", RoundOutcome::word);
            let why = round
                .record
                .round
                .facts()
                .reasons
                .last()
                .map_or(String::new(), |last| format!(": {}", one_line(&last.text)));
            format!("- {} {outcome}{why} (round {})\n", self.title(&round.row), round.row.id)
        };
        let lines: String = self.rounds.iter().filter(is_bad).map(line).collect();
        format!("\n## Not done\n\n{}", if lines.is_empty() { "Nothing.\n" } else { &lines })
    }

    fn spend(&self) -> String {
        let spend = self.spend_by_loop();
        let total: f64 = spend.iter().map(|one| one.usd).sum();
        let mut text = format!("\n## Spend\n\n{total:.2} USD.\n");
        if spend.len() > 1 {
            text.push_str("\n| loop | USD |\n|---|---|\n");
            spend.iter().for_each(|one| text.push_str(&format!("| {} | {:.2} |\n", cell(&one.name), one.usd)));
        }
        text
    }

    fn coming_day(&self) -> String {
        if self.coming.is_none() {
            return "\n## The coming day\n\nThe schedule is not known here: loopwright schedule\n".to_owned();
        }
        let occurrences = occurrences(self.coming);
        let line = |one: &Value| {
            let due = parse_timestamp(word(one, "due")).map(date_and_time).unwrap_or_default();
            let name = self.repos.title(word(one, "repo"), word(one, "loop"));
            format!("- {due}: {name} ({})\n", one_line(word(one, "trigger")))
        };
        let mut text: String = occurrences.iter().take(COMING_MAX).map(line).collect();
        match occurrences.len() {
            0 => text.push_str("No loop is due.\n"),
            all if all > COMING_MAX => text.push_str(&format!("- and {} more\n", all - COMING_MAX)),
            _ => {}
        }
        format!("\n## The coming day\n\n{text}")
    }

    /// The decisions that wait for a person.
    fn decisions(&self) -> String {
        let paused = self.rounds.iter().map(|round| &round.row).filter(|row| row.phase == RoundPhase::Suspended);
        let paused = paused.map(|row| {
            format!("- round {} of {} is suspended: `loopwright resume {}`\n", row.id, self.title(row), row.id)
        });
        let asked = self.inbox.iter().map(|item| {
            let name = self.repos.title(&item.repo, &item.loop_name);
            format!("- {name}: {} (`loopwright show {}`)\n", one_line(&item.summary), item.round)
        });
        let lines: String = asked.chain(paused).collect();
        format!("## Decisions needed\n\n{}", if lines.is_empty() { "None.\n" } else { &lines })
    }

    fn render(&self, from_ms: i64) -> String {
        let mut text = format!("# Report since {}\n\n", date_and_time(from_ms));
        let rounds = self.rounds;
        let good = rounds.iter().filter(|round| round.row.outcome.is_some_and(RoundOutcome::is_success)).count();
        let _ = writeln!(text, "{}, {good} of them successful.\n", with_count(rounds.len(), "round"));
        if self.has_more {
            let left = "These are only the newest rounds; the sums have no others. The rest";
            let _ = writeln!(text, "{left}: `loopwright rounds --offset {ROUNDS_MAX}`.\n");
        }
        text.extend([self.decisions(), self.sent(), self.not_done(), self.spend(), self.coming_day()]);
        text.push_str("\n## Rounds\n");
        text.extend(rounds.iter().map(|round| round_section(&self.title(&round.row), &round.row, &round.record.round)));
        text
    }
}

/// The due moments of a schedule's document.
fn occurrences(coming: Option<&Value>) -> &[Value] {
    coming.and_then(|coming| coming.get("occurrences")).and_then(Value::as_array).map_or(&[][..], Vec::as_slice)
}

fn word<'v>(one: &'v Value, key: &str) -> &'v str {
    one.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// One round: its goal, the evidence of each gate, the scores of each cycle, the spend, and the reasons.
fn round_section(title: &str, row: &RoundRow, round: &Round) -> String {
    let facts = round.facts();
    let outcome = row.outcome.map_or("running", RoundOutcome::word);
    let mut text = format!("\n### {title} {outcome} ({})\n\n{}\n\n", row.id, one_line(&facts.started.spec.intent));
    text.push_str(&criteria(round));
    if let Some(last) = facts.attempts.last().filter(|attempt| !attempt.gates.is_empty()) {
        text.push_str("| gate | result | evidence |\n|---|---|---|\n");
        for gate in &last.gates {
            let evidence = gate.evidence.first().map(|line| cell(line)).unwrap_or_default();
            let _ = writeln!(text, "| {} | {} | {evidence} |", cell(&gate.name), gate.status);
        }
        text.push('\n');
    }
    let scores = facts.attempts.iter().enumerate().filter_map(|(at, attempt)| {
        let score = match attempt.judgement.as_ref()? {
            Judgement::Pass { scored } | Judgement::Fail { scored, .. } | Judgement::Escalate { scored, .. } => {
                scored.mean.map_or("no score".to_owned(), |mean| format!("{mean:.2}"))
            }
            Judgement::Malformed { .. } | Judgement::Missing | Judgement::Forged { .. } => "no score".to_owned(),
        };
        Some(format!("cycle {}: {score}", at + 1))
    });
    let scores: Vec<String> = scores.collect();
    if !scores.is_empty() {
        let _ = writeln!(text, "Scores: {}.\n", scores.join(", "));
    }
    let tokens = facts.spend.tokens.total();
    let wall = duration_text(i64::try_from(facts.spend.wall_ms).unwrap_or(i64::MAX));
    let _ = writeln!(text, "Spend: {:.2} USD, {tokens} tokens, {wall} of agents.\n", facts.spend.usd.dollars());
    text.extend(facts.reasons.iter().map(|reason| format!("- {}: {}\n", reason.stage.word(), one_line(&reason.text))));
    text
}

/// The criteria of a goal, each with the result of its gate in the last attempt. A gate without a result is no proof.
fn criteria(round: &Round) -> String {
    let facts = round.facts();
    let Some(goal) = facts.started.goal.as_ref().filter(|goal| !goal.criteria.is_empty()) else { return String::new() };
    let last = facts.attempts.last();
    let mut text = "| criterion | decided by | result |\n|---|---|---|\n".to_owned();
    for (criterion, gate) in &goal.criteria {
        let result =
            gate.as_ref().map(|gate| match last.and_then(|last| last.gates.iter().find(|one| one.name == *gate)) {
                Some(found) => found.status.to_string(),
                None if gate == "prover" => last
                    .and_then(|last| last.proof.as_ref())
                    .map_or("not run".to_owned(), |proof| proof.verdict.to_string()),
                None => "not run".to_owned(),
            });
        let (by, result) = match (gate, result) {
            (Some(gate), Some(result)) => (cell(gate), result),
            _ => ("a person".to_owned(), "judge it yourself".to_owned()),
        };
        let _ = writeln!(text, "| {} | {by} | {result} |", cell(criterion));
    }
    text.push('\n');
    text
}

fn one_line(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let cut: String = line.chars().take(300).collect();
    if cut.len() < line.len() { format!("{cut}…") } else { cut }
}

/// Text inside a table cell.
fn cell(text: &str) -> String {
    one_line(text).replace('|', "\\|")
}
