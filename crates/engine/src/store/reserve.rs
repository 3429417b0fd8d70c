//! The writes of money: additions to days and items, and reservations that hold only if no ceiling is passed. The
//! surrounding transaction excludes other writers, so nothing changes between the addition and the check.

use std::sync::LazyLock;

use super::conn::{SqlConnection, SqlResult, SqlRow, args};
use super::error::StoreErrorKind;
use super::money::{ItemSpend, ReservationChange, SpendCeiling, SpendChange, SpendRow, SpendScope};
use super::rows::{SqlTable, insert_sql};

const SUMS: [&str; 4] = ["reserved_micros", "settled_micros", "reserved_tokens", "settled_tokens"];

/// The spend of an item; the values are repository, loop and item.
pub(super) const ITEM_SPEND: &str = "SELECT reserved_micros, settled_micros, reserved_tokens, settled_tokens \
     FROM item_spend WHERE repo = $1 AND loop_name = $2 AND item = $3";

/// The sum of raises for a loop's day and for a round; the values are repository, loop, day and round.
pub(super) const RAISED: &str = "SELECT CAST(COALESCE(SUM(micros), 0) AS BIGINT), \
     CAST(COALESCE(SUM(tokens), 0) AS BIGINT) FROM raises \
     WHERE repo = $1 AND loop_name = $2 AND ((day = $3 AND round IS NULL) OR round = $4)";

pub(super) fn read_raised(row: &SqlRow) -> SqlResult<(i64, i64)> {
    Ok((row.get(0)?, row.get(1)?))
}

/// The first and the last day that a scope sums.
pub(super) fn span(scope: SpendScope, day: &str) -> (String, String) {
    match scope {
        SpendScope::Month => {
            let month: String = day.chars().take(7).collect();
            (format!("{month}-01"), format!("{month}-31"))
        }
        SpendScope::Loop | SpendScope::Repo | SpendScope::Fleet | SpendScope::Item => (day.to_owned(), day.to_owned()),
    }
}

/// The query for the spend from one day (`$1`) to another (`$2`) in a scope, and the number of values it binds: the two
/// days, then repository and loop.
pub(super) fn spend_sql(scope: SpendScope) -> (String, usize) {
    // PostgreSQL sums big integers as numerics, so the sums are cast.
    let columns = SUMS.map(|column| format!("CAST(COALESCE(SUM({column}), 0) AS BIGINT)")).join(", ");
    let (rest, values) = match scope {
        SpendScope::Fleet | SpendScope::Month => ("", 2),
        SpendScope::Repo => (" AND repo = $3", 3),
        SpendScope::Loop | SpendScope::Item => (" AND repo = $3 AND loop_name = $4", 4),
    };
    (format!("SELECT {columns} FROM spend WHERE day >= $1 AND day <= $2{rest}"), values)
}

pub(super) fn read_spend(row: &SqlRow) -> SqlResult<SpendRow> {
    Ok(SpendRow {
        reserved_micros: row.get(0)?,
        settled_micros: row.get(1)?,
        reserved_tokens: row.get(2)?,
        settled_tokens: row.get(3)?,
    })
}

/// `INSERT … ON CONFLICT` that adds the sums to the existing row.
fn add_sql<T: SqlTable>() -> String {
    let sums = SUMS.map(|column| format!("{column} = {}.{column} + excluded.{column}", T::NAME)).join(", ");
    format!("{} ON CONFLICT ({}) DO UPDATE SET {sums}", insert_sql::<T>(), T::KEY.join(", "))
}

pub(super) async fn add_spend(conn: &mut SqlConnection, row: &SpendChange) -> SqlResult<()> {
    static ADD: LazyLock<String> = LazyLock::new(add_sql::<SpendChange>);
    conn.exec(ADD.as_str(), &row.args()).await.map(drop)
}

pub(super) async fn add_item_spend(conn: &mut SqlConnection, row: &ItemSpend) -> SqlResult<()> {
    static ADD: LazyLock<String> = LazyLock::new(add_sql::<ItemSpend>);
    conn.exec(ADD.as_str(), &row.args()).await.map(drop)
}

/// Adds the reservation, then checks each ceiling; an error rolls the whole batch back.
pub(super) async fn reserve(conn: &mut SqlConnection, wanted: &ReservationChange) -> SqlResult<()> {
    let ReservationChange { repo, loop_name, day, item, micros, tokens, .. } = wanted.clone();
    let held = (micros, tokens);
    if let Some(item) = item {
        let (repo, loop_name) = (repo.clone(), loop_name.clone());
        let row = ItemSpend {
            repo,
            loop_name,
            item,
            reserved_micros: held.0,
            settled_micros: 0,
            reserved_tokens: held.1,
            settled_tokens: 0,
        };
        add_item_spend(conn, &row).await?;
    }
    let row = SpendChange {
        day,
        repo,
        loop_name,
        reserved_micros: held.0,
        settled_micros: 0,
        reserved_tokens: held.1,
        settled_tokens: 0,
    };
    add_spend(conn, &row).await?;
    for ceiling in &wanted.ceilings {
        under(conn, wanted, ceiling).await?;
    }
    Ok(())
}

async fn spent(conn: &mut SqlConnection, wanted: &ReservationChange, scope: SpendScope) -> SqlResult<SpendRow> {
    let ReservationChange { repo, loop_name, day, item, .. } = wanted;
    let row = match (scope, item) {
        (SpendScope::Item, Some(item)) => conn.row(ITEM_SPEND, args![repo, loop_name, item]).await?,
        (SpendScope::Item, None) => None,
        (scope, _) => {
            let (sql, values) = spend_sql(scope);
            let span = span(scope, day);
            conn.row(sql, &args![&span.0, &span.1, repo, loop_name][..values]).await?
        }
    };
    Ok(row.as_ref().map(read_spend).transpose()?.unwrap_or_default())
}

/// Adds people's raises to the ceiling of a loop's day; other scopes have no raises.
async fn with_raises(
    conn: &mut SqlConnection,
    wanted: &ReservationChange,
    ceiling: &SpendCeiling,
) -> SqlResult<SpendCeiling> {
    if ceiling.scope != SpendScope::Loop {
        return Ok(*ceiling);
    }
    let ReservationChange { repo, loop_name, day, round, .. } = wanted;
    let row = conn.row(RAISED, args![repo, loop_name, day, round]).await?;
    let (micros, tokens) = row.as_ref().map(read_raised).transpose()?.unwrap_or_default();
    let more = |most: Option<i64>, by: i64| most.map(|most| most.saturating_add(by));
    Ok(SpendCeiling { micros: more(ceiling.micros, micros), tokens: more(ceiling.tokens, tokens), ..*ceiling })
}

async fn under(conn: &mut SqlConnection, wanted: &ReservationChange, ceiling: &SpendCeiling) -> SqlResult<()> {
    let spend = spent(conn, wanted, ceiling.scope).await?;
    let full = with_raises(conn, wanted, ceiling).await?;
    let scope = format!("{:?}", ceiling.scope).to_lowercase();
    let money = (spend.reserved_micros + spend.settled_micros, full.micros, "micro-dollars");
    let tokens = (spend.reserved_tokens + spend.settled_tokens, full.tokens, "tokens");
    for (sum, limit, unit) in [money, tokens] {
        if let Some(ceiling) = limit.filter(|limit| sum > *limit) {
            let without = SpendRow {
                reserved_micros: spend.reserved_micros - wanted.micros,
                reserved_tokens: spend.reserved_tokens - wanted.tokens,
                ..spend
            };
            return Err(StoreErrorKind::OverCeiling {
                what: format!("the spend of a {scope} in {unit}"),
                wanted: sum,
                ceiling,
                full: Box::new(full),
                spend: Box::new(without),
            });
        }
    }
    Ok(())
}
