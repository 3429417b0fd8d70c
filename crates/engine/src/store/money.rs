//! The rows of money: days, items, the ledger of every start, raises by people, and the queries about them. The round
//! driver decides which ceilings there are.

use super::conn::{SqlArg, SqlColumn, SqlResult, SqlRow};
use super::rows::{SqlTable, table};

table! {
    /// An addition to a day's spend; negative numbers subtract.
    #[derive(Default)]
    SpendChange in "spend" by ["day", "repo", "loop_name"], since 1;
    /// The day, `YYYY-MM-DD`.
    day: String,
    /// The repository's id.
    repo: String,
    /// The loop's name.
    loop_name: String,
    /// Money reserved for running work, in millionths of a US dollar.
    reserved_micros: i64,
    /// Money spent.
    settled_micros: i64,
    /// Tokens reserved.
    reserved_tokens: i64,
    /// Tokens spent.
    settled_tokens: i64,
}

table! {
    /// An addition to the spend of a loop on a day of its zone; negative numbers subtract.
    #[derive(Default)]
    LoopSpend in "loop_spend" by ["day", "repo", "loop_name"], since 13;
    /// The day, `YYYY-MM-DD`.
    day: String,
    /// The repository's id.
    repo: String,
    /// The loop's name.
    loop_name: String,
    /// Money reserved for running work, in millionths of a US dollar.
    reserved_micros: i64,
    /// Money spent.
    settled_micros: i64,
    /// Tokens reserved.
    reserved_tokens: i64,
    /// Tokens spent.
    settled_tokens: i64,
}

table! {
    /// An addition to an item's spend over all its rounds; negative numbers subtract.
    #[derive(Default)]
    ItemSpend in "item_spend" by ["repo", "loop_name", "item"], since 2;
    /// The repository's id.
    repo: String,
    /// The loop's name.
    loop_name: String,
    /// The item's key.
    item: String,
    /// Money reserved for running work, in millionths of a US dollar.
    reserved_micros: i64,
    /// Money spent.
    settled_micros: i64,
    /// Tokens reserved.
    reserved_tokens: i64,
    /// Tokens spent.
    settled_tokens: i64,
}

table! {
    /// The cost of one model in one start of an agent.
    LedgerRow in "ledger" by ["round", "start", "model"], since 2;
    /// The round.
    round: String,
    /// The number of the start within the round, from 0; -1 for the whole spend of a round of an earlier version.
    start: i64,
    /// The model; empty if it was not reported.
    model: String,
    /// The day to which it is charged, `YYYY-MM-DD`.
    day: String,
    /// The repository's id.
    repo: String,
    /// The loop's name.
    loop_name: String,
    /// The work item, if the loop has items.
    item: Option<String>,
    /// The attempt, from 1.
    attempt: i64,
    /// The role of the start.
    role: String,
    /// The agent's name.
    agent: String,
    /// When it ended.
    at_ms: i64,
    /// Fresh input tokens.
    input: i64,
    /// Output tokens.
    output: i64,
    /// Tokens read from a cache.
    cache_read: i64,
    /// Tokens written to a cache.
    cache_write: i64,
    /// Money, in millionths of a US dollar.
    micros: i64,
    /// 1 if the agent reported it, 0 if it was assumed.
    known: i64,
}

table! {
    /// Budget that a person added: for one day of a loop or, if it names one, for one round.
    RaiseRow in "raises" by ["id"], since 2;
    /// The raise's id.
    id: String,
    /// The time of the raise.
    at_ms: i64,
    /// The person who made it.
    actor: String,
    /// The repository's id.
    repo: String,
    /// The loop's name.
    loop_name: String,
    /// The day on which it was made, and to which it applies when no round is named.
    day: String,
    /// The round to which it applies.
    round: Option<String>,
    /// Money, in millionths of a US dollar.
    micros: i64,
    /// Tokens.
    tokens: i64,
}

/// Adds to a day's reservations, unless a ceiling would be passed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReservationChange {
    /// The repository's id.
    pub repo: String,
    /// The loop's name.
    pub loop_name: String,
    /// The day of the user's zone, `YYYY-MM-DD`.
    pub day: String,
    /// The day of the loop's zone.
    pub loop_day: String,
    /// The round of the reservation; raises for this round count.
    pub round: String,
    /// The item of the reservation.
    pub item: Option<String>,
    /// Money to reserve, in millionths of a US dollar.
    pub micros: i64,
    /// Tokens to reserve.
    pub tokens: i64,
    /// The limits of each scope, for settled and reserved amounts together.
    pub ceilings: Vec<SpendCeiling>,
}

/// A limit of one scope; a missing number is no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SpendCeiling {
    /// The scope whose spend counts.
    pub scope: SpendScope,
    /// Money, in millionths of a US dollar.
    pub micros: Option<i64>,
    /// Tokens.
    pub tokens: Option<i64>,
}

/// The scope of a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SpendScope {
    /// One loop of one repository on one day of its zone.
    Loop,
    /// All loops of one repository on one day.
    Repo,
    /// Everything in the store on one day.
    Fleet,
    /// Everything in the store in the month of the day.
    Month,
    /// One item of one loop, on any day.
    Item,
}

table! {
    /// The spend of one scope: the sums of a row of `spend`, or of several.
    #[derive(Copy, Default)]
    SpendRow in "spend" by [], since 1;
    /// Money reserved, in millionths of a US dollar.
    reserved_micros: i64,
    /// Money spent.
    settled_micros: i64,
    /// Tokens reserved.
    reserved_tokens: i64,
    /// Tokens spent.
    settled_tokens: i64,
}

/// The grouping of costs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CostsBy {
    /// No grouping: one row.
    All,
    /// By loop.
    Loop,
    /// By role.
    Role,
    /// By model.
    Model,
    /// By day.
    Day,
    /// By item.
    Item,
    /// By agent.
    Agent,
}

impl CostsBy {
    fn column(self) -> &'static str {
        match self {
            Self::All => "CAST('' AS TEXT)",
            Self::Loop => "loop_name",
            Self::Role => "role",
            Self::Model => "model",
            Self::Day => "day",
            Self::Item => "COALESCE(item, '')",
            Self::Agent => "agent",
        }
    }

    /// Loops of one name in several repositories are different loops.
    fn repo_column(self) -> &'static str {
        match self {
            Self::Loop => "repo",
            Self::All | Self::Role | Self::Model | Self::Day | Self::Item | Self::Agent => "CAST('' AS TEXT)",
        }
    }
}

/// A query for costs: a filter and a grouping.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CostsQuery {
    /// The grouping.
    pub by: CostsBy,
    /// Only from this day on, `YYYY-MM-DD`.
    pub since: Option<String>,
    /// Only of this repository.
    pub repo: Option<String>,
    /// Only of this loop.
    pub loop_name: Option<String>,
    /// The outcomes of rounds that count as accepted.
    pub accepted: Vec<String>,
    /// The most groups.
    pub limit: u32,
}

table! {
    /// One group of costs, as the query for costs returns it.
    CostRow in "ledger" by [], since 2;
    /// The value that the group has in common; empty if it has none.
    key: String,
    /// The repository of a loop; empty for other groups, which can have several.
    repo: String,
    /// The number of its rounds.
    rounds: i64,
    /// The number of its accepted rounds.
    accepted: i64,
    /// Fresh input tokens.
    input: i64,
    /// Output tokens.
    output: i64,
    /// Tokens read from a cache.
    cache_read: i64,
    /// Tokens written to a cache.
    cache_write: i64,
    /// Money, in millionths of a US dollar.
    micros: i64,
    /// The part of the money that was assumed and not reported.
    unknown_micros: i64,
}

/// The query for costs with its values. Lines are summed by group and round first, so that each round counts once.
pub(super) fn costs_sql(query: &CostsQuery) -> (String, Vec<SqlArg<'_>>) {
    let mut args = Vec::new();
    let mut wheres = Vec::new();
    let asked = [("day >=", &query.since), ("repo =", &query.repo), ("loop_name =", &query.loop_name)];
    for (test, value) in asked {
        if let Some(value) = value {
            args.push(value.arg());
            wheres.push(format!("{test} ${}", args.len()));
        }
    }
    let wheres = if wheres.is_empty() { String::new() } else { format!("WHERE {}", wheres.join(" AND ")) };
    let accepted: Vec<_> = query.accepted.iter().map(|outcome| hole(&mut args, outcome.arg())).collect();
    let accepted = if accepted.is_empty() { "NULL".to_owned() } else { accepted.join(", ") };
    let limit = hole(&mut args, SqlArg::from(i64::from(query.limit)));
    let (key, repo) = (query.by.column(), query.by.repo_column());
    let inner =
        ["input", "output", "cache_read", "cache_write", "micros"].map(|c| format!("SUM({c}) AS {c}")).join(", ");
    // PostgreSQL sums big integers as numerics, so the sums are cast.
    let outer = ["input", "output", "cache_read", "cache_write", "micros", "unknown"];
    let outer = outer.map(|c| format!("CAST(SUM(spent.{c}) AS BIGINT)")).join(", ");
    let sql = format!(
        "SELECT spent.k, spent.r, COUNT(*), COUNT(CASE WHEN rounds.outcome IN ({accepted}) THEN 1 END), {outer} \
         FROM (SELECT {key} AS k, {repo} AS r, round, {inner}, SUM(CASE WHEN known = 0 THEN micros ELSE 0 END) AS unknown \
               FROM ledger {wheres} GROUP BY {key}, {repo}, round) spent \
         LEFT JOIN rounds ON rounds.id = spent.round \
         GROUP BY spent.k, spent.r ORDER BY SUM(spent.micros) DESC, spent.k, spent.r LIMIT {limit}"
    );
    (sql, args)
}

fn hole<'a>(args: &mut Vec<SqlArg<'a>>, value: SqlArg<'a>) -> String {
    args.push(value);
    format!("${}", args.len())
}
