//! `budget`: the spent, reserved and remaining amount of every budget; `budget raise`: raise one for today, or for a
//! suspended round.

use super::{CommandContext, CommandError, CommandErrorKind, VerbResult, safe};
use crate::signals::CurrentRound;
use crate::view::budget::{BudgetQuery, BudgetView, BudgetsListed};
use crate::view::find;
use crate::view::list_page::ListWindow;
use crate::view::time::{now_ms, timestamp};
use loopwright::raise::BudgetRaise;
use loopwright::store::{RaiseRow, RoundRow, RoundsFilter, RoundsQuery, Store};
use loopwright_core::budget::Reservation;
use loopwright_core::cadence::DayZone;
use loopwright_core::outcome::RoundOutcome;
use loopwright_core::round::RoundPhase;
use loopwright_core::units::{Usd, parse_tokens};
use serde_json::json;

#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct BudgetArgs {
    /// Show only the budgets that all loops of the repository or of this machine share
    #[arg(long)]
    shared: bool,
    #[command(flatten)]
    window: ListWindow,
    #[command(subcommand)]
    action: Option<BudgetCommand>,
}

impl BudgetArgs {
    /// Whether it changes the store.
    pub(crate) fn needs_store_owner(&self) -> bool {
        self.action.is_some()
    }
}

#[derive(Debug, clap::Subcommand)]
enum BudgetCommand {
    /// Raise the budget of a loop, for today or for one suspended round
    Raise(BudgetRaiseArgs),
}

#[derive(Debug, clap::Args)]
struct BudgetRaiseArgs {
    /// The name of the loop
    #[arg(value_name = "LOOP")]
    name: String,
    /// Money to add, in US dollars
    #[arg(long, value_name = "N", value_parser = dollars, required_unless_present = "tokens")]
    usd: Option<Usd>,
    /// Tokens to add, such as `200k`
    #[arg(long, value_name = "N", value_parser = tokens)]
    tokens: Option<u64>,
    /// Raise it for the rest of today in the loop's zone; the default
    #[arg(long, conflicts_with = "round")]
    today: bool,
    /// Raise it for this suspended round only
    #[arg(long, value_name = "ROUND")]
    round: Option<String>,
}

fn dollars(text: &str) -> Result<Usd, String> {
    let amount = text.parse().ok().and_then(Usd::from_dollars).filter(|usd| usd.0 > 0 && usd.dollars() <= 1.0e6);
    amount.ok_or_else(|| "an amount in US dollars such as `5` or `2.50`".to_owned())
}

fn tokens(text: &str) -> Result<u64, String> {
    let count = parse_tokens(text).filter(|count| (1..=1_000_000_000_000).contains(count));
    count.ok_or_else(|| "a count of tokens such as `200000` or `200k`".to_owned())
}

pub(crate) async fn run(args: BudgetArgs, cx: &CommandContext) -> VerbResult {
    match args {
        BudgetArgs { action: Some(BudgetCommand::Raise(args)), .. } => raise(args, cx).await,
        args => show(&args, cx).await,
    }
}

async fn show(args: &BudgetArgs, cx: &CommandContext) -> VerbResult {
    let (here, store) = super::status::here_and_store(cx).await?;
    let shared = cx.config(here.as_ref().map(|here| here.repo.work_tree.as_path()))?.config().budget;
    let scopes = if args.shared { BudgetsListed::Shared } else { BudgetsListed::All };
    let (here, window, now) = (here.as_ref(), args.window, now_ms());
    let looked = BudgetQuery { store: store.as_deref(), here, shared, scopes, window, now };
    let budget = BudgetView::read(&looked).await?;
    Ok(cx.out.answer(&budget, || budget.render(&cx.out)))
}

async fn raise(args: BudgetRaiseArgs, cx: &CommandContext) -> VerbResult {
    let repo = cx.repo().await?;
    cx.loops(&repo)?.find(&args.name)?;
    let round = match &args.round {
        Some(id) => Some(suspended(cx, id, &args.name).await?),
        None => None,
    };
    let cancel = cx.cancel(&CurrentRound::default());
    let engine = cx.open_engine(Some(&repo), &cancel).await?;
    let by = Reservation { usd: args.usd.unwrap_or_default(), tokens: args.tokens.unwrap_or(0) };
    let own = cx.loops(&repo)?.find(&args.name).ok().and_then(|file| file.spec.on.timezone.clone());
    let zone = own.and_then(|name| DayZone::find(&name));
    let raise = BudgetRaise { repo: repo.id.clone(), loop_name: args.name, round, zone, by, actor: cx.actor_name() };
    let row = loopwright::raise::record_raise(&engine, raise).await?;
    let waiting = resumable_rounds(engine.store().as_ref(), &row).await?;
    engine.close().await?;
    let next: Vec<_> = waiting.iter().map(|row| format!("loopwright retry {}", row.id)).collect();
    let document = json!({
        "schema": 1, "loop": row.loop_name, "day": row.day, "round": row.round, "usd": by.usd, "tokens": by.tokens,
        "actor": row.actor, "at": timestamp(row.at_ms), "next": next,
    });
    Ok(cx.out.answer(&document, || page(&row, by, &next)))
}

fn page(row: &RaiseRow, by: Reservation, next: &[String]) -> String {
    let of = row.round.as_ref().map_or(format!("today, {}", row.day), |round| format!("round {round}"));
    let mut page = format!("raised {} by {} and {} tokens for {}", safe(&row.loop_name), by.usd, by.tokens, safe(&of));
    for command in next {
        page.push_str(&format!("\nresume: {}", safe(command)));
    }
    page
}

/// A round that can be resumed: of this loop, suspended, over its budget.
async fn suspended(cx: &CommandContext, id: &str, name: &str) -> Result<String, CommandError> {
    let row = find::find_round(cx.open_store_read_only().await?.as_ref(), id).await?;
    if row.loop_name != name {
        let text = format!("round {} is of {}, not of {name}", row.id, row.loop_name);
        return Err(
            CommandError::new(CommandErrorKind::Usage, text).hint(format!("loopwright budget raise {}", row.loop_name))
        );
    }
    if row.phase != RoundPhase::Suspended {
        let text = format!("round {} is {}; only the budget of a suspended round can be raised", row.id, row.phase);
        return Err(CommandError::refused(text).hint(format!("loopwright budget raise {name} --today --usd N")));
    }
    Ok(row.id)
}

/// Suspended rounds that may be able to resume after this raise.
async fn resumable_rounds(store: &Store, raise: &RaiseRow) -> Result<Vec<RoundRow>, CommandError> {
    let query = RoundsQuery {
        repo: Some(raise.repo.clone()),
        loop_name: Some(raise.loop_name.clone()),
        which: RoundsFilter::Open,
        limit: 100,
        ..RoundsQuery::default()
    };
    let meant = |row: &RoundRow| raise.round.as_ref().is_none_or(|round| *round == row.id);
    let over = |row: &RoundRow| row.phase == RoundPhase::Suspended && row.outcome == Some(RoundOutcome::OverBudget);
    Ok(store.rounds(query).await?.into_iter().filter(|row| over(row) && meant(row)).collect())
}
