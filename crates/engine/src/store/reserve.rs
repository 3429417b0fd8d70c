//! The writes of money: additions to days and items, and reservations that hold only if no ceiling is passed. The
//! surrounding transaction excludes other writers, so nothing changes between the addition and the check.

use super::conn::{SqlConnection, SqlResult, SqlRow, args};
use super::error::StoreErrorKind;
use super::money::{ItemSpend, LoopSpend, ReservationChange, SpendCeiling, SpendChange, SpendRow, SpendScope};
use super::rows::{SqlTable, insert_sql, quoted};

/// The first and the last day that a scope sums.
fn span(scope: SpendScope, day: &str) -> (String, String) {
    match scope {
        SpendScope::Month => {
            let month: String = day.chars().take(7).collect();
            (format!("{month}-01"), format!("{month}-31"))
        }
        SpendScope::Loop | SpendScope::Repo | SpendScope::Fleet | SpendScope::Item => (day.to_owned(), day.to_owned()),
    }
}

/// The spend of one day in a scope; for the month's scope, of the day's month. The day of a loop's scope is one of the
/// loop's zone.
pub(super) async fn spend_in(
    conn: &mut SqlConnection,
    scope: SpendScope,
    repo: &str,
    loop_name: &str,
    day: &str,
) -> SqlResult<SpendRow> {
    // PostgreSQL sums big integers as numerics, so the sums are cast.
    let columns = SpendRow::COLUMNS.iter().map(|column| format!("CAST(COALESCE(SUM({column}), 0) AS BIGINT)"));
    let columns = columns.collect::<Vec<_>>().join(", ");
    let (table, rest, values) = match scope {
        SpendScope::Fleet | SpendScope::Month => ("spend", "", 2),
        SpendScope::Repo => ("spend", " AND repo = $3", 3),
        SpendScope::Loop | SpendScope::Item => ("loop_spend", " AND repo = $3 AND loop_name = $4", 4),
    };
    let sql = format!("SELECT {columns} FROM {table} WHERE day >= $1 AND day <= $2{rest}");
    let (first, last) = span(scope, day);
    read_sums(conn.row(sql, &args![&first, &last, repo, loop_name][..values]).await?)
}

/// The spend of an item over all its rounds.
pub(super) async fn item_spend(
    conn: &mut SqlConnection,
    repo: &str,
    loop_name: &str,
    item: &str,
) -> SqlResult<SpendRow> {
    let columns = quoted(SpendRow::COLUMNS);
    let sql = format!("SELECT {columns} FROM item_spend WHERE repo = $1 AND loop_name = $2 AND item = $3");
    read_sums(conn.row(sql, args![repo, loop_name, item]).await?)
}

fn read_sums(row: Option<SqlRow>) -> SqlResult<SpendRow> {
    Ok(row.as_ref().map(SpendRow::read).transpose()?.unwrap_or_default())
}

/// The sum of raises for a loop's day and for a round: millionths of a dollar and tokens.
pub(super) async fn raised(
    conn: &mut SqlConnection,
    repo: &str,
    loop_name: &str,
    day: &str,
    round: &str,
) -> SqlResult<(i64, i64)> {
    let sql = "SELECT CAST(COALESCE(SUM(micros), 0) AS BIGINT), CAST(COALESCE(SUM(tokens), 0) AS BIGINT) FROM raises \
               WHERE repo = $1 AND loop_name = $2 AND ((day = $3 AND round IS NULL) OR round = $4)";
    let row = conn.row(sql, args![repo, loop_name, day, round]).await?;
    row.map_or(Ok((0, 0)), |row| Ok((row.get(0)?, row.get(1)?)))
}

/// Adds the sums to the existing row, if there is one.
pub(super) async fn add_sums<T: SqlTable>(conn: &mut SqlConnection, row: &T) -> SqlResult<()> {
    let sums = SpendRow::COLUMNS.iter().map(|column| format!("{column} = {}.{column} + excluded.{column}", T::NAME));
    let (key, sums) = (T::KEY.join(", "), sums.collect::<Vec<_>>().join(", "));
    let sql = format!("{} ON CONFLICT ({key}) DO UPDATE SET {sums}", insert_sql::<T>());
    conn.exec(sql, &row.args()).await.map(drop)
}

/// Adds the reservation, then checks each ceiling; an error rolls the whole batch back.
pub(super) async fn reserve(conn: &mut SqlConnection, wanted: &ReservationChange) -> SqlResult<()> {
    let ReservationChange { repo, loop_name, day, loop_day, item, micros, tokens, .. } = wanted.clone();
    let (reserved_micros, reserved_tokens) = (micros, tokens);
    if let Some(item) = item {
        let (repo, loop_name) = (repo.clone(), loop_name.clone());
        add_sums(conn, &ItemSpend { repo, loop_name, item, reserved_micros, reserved_tokens, ..ItemSpend::default() })
            .await?;
    }
    let own = LoopSpend { day: loop_day, repo: repo.clone(), loop_name: loop_name.clone(), ..LoopSpend::default() };
    add_sums(conn, &LoopSpend { reserved_micros, reserved_tokens, ..own }).await?;
    add_sums(conn, &SpendChange { day, repo, loop_name, reserved_micros, reserved_tokens, ..SpendChange::default() })
        .await?;
    for ceiling in &wanted.ceilings {
        under(conn, wanted, ceiling).await?;
    }
    Ok(())
}

async fn spent(conn: &mut SqlConnection, wanted: &ReservationChange, scope: SpendScope) -> SqlResult<SpendRow> {
    let ReservationChange { repo, loop_name, day, loop_day, item, .. } = wanted;
    match (scope, item) {
        (SpendScope::Item, Some(item)) => item_spend(conn, repo, loop_name, item).await,
        (SpendScope::Item, None) => Ok(SpendRow::default()),
        (SpendScope::Loop, _) => spend_in(conn, scope, repo, loop_name, loop_day).await,
        (scope, _) => spend_in(conn, scope, repo, loop_name, day).await,
    }
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
    let ReservationChange { repo, loop_name, loop_day, round, .. } = wanted;
    let (micros, tokens) = raised(conn, repo, loop_name, loop_day, round).await?;
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
