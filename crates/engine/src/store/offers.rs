//! Offers: recorded rounds that wait for a worker. The transaction that records a round also offers it, so no crash
//! loses one. A worker takes it by moving its lease, with the next fencing number; of many workers one gets it.

use std::collections::HashMap;

use loopwright_core::dispatch::PlacementNeeds;
use serde::{Deserialize, Serialize};

use super::Store;
use super::conn::{SqlArg, SqlColumn, SqlConnection, SqlDialect, SqlResult, SqlRow, args};
use super::error::{ErrorContext as _, StoreError, StoreErrorKind};
use super::hints;
use super::rows::{SqlTable, insert_sql, table};

/// The instance of a lease that no process has yet: its round is offered to the workers.
pub(super) const OFFERED: &str = "offered";
/// The most kinds of places that are read at once.
const PLACES_MAX: i64 = 1_000;

table! {
    /// An offered round.
    OfferRow in "offers" by ["round"], since 15;
    /// The round.
    round: String,
    /// The needs of the round: an [`OfferPlace`] as JSON.
    place: String,
    /// Higher goes first.
    priority: i64,
    /// When it was offered.
    offered_ms: i64,
    /// The worker that took it.
    worker: Option<String>,
    /// How often a worker took it.
    tries: i64,
}

/// The needs of a round from its worker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OfferPlace {
    /// The id of the repository.
    pub repo: String,
    /// Whether the boundary of the round needs the kernel's sandbox.
    pub is_isolated: bool,
    /// Labels and agents.
    #[serde(flatten)]
    pub needs: PlacementNeeds,
}

impl OfferPlace {
    /// The place as it is stored: equal places have equal text.
    #[must_use]
    pub fn to_text(&self) -> String {
        serde_json::to_string(self).expect("text and switches can be written as JSON")
    }
}

/// A round that this process took.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimedRound {
    /// The round.
    pub round: String,
    /// The fencing number of its lease.
    pub fence: i64,
}

/// Offers the round of the batch: its lease, which was taken in this transaction, belongs to no process.
pub(super) async fn put_offer(conn: &mut SqlConnection, row: &OfferRow) -> SqlResult<()> {
    conn.exec(insert_sql::<OfferRow>(), &row.args()).await?;
    let sql = "UPDATE leases SET instance = $1 WHERE name = $2";
    match conn.exec(sql, args![OFFERED, &row.round]).await? {
        0 => Err(StoreErrorKind::Invalid(format!("round {} is offered without a lease", row.round))),
        _ => hints::notify(conn).await,
    }
}

/// Takes the offered round that goes first among these places, unless the worker is drained, has no free slot or is
/// served by another opening, or everything is stopped.
async fn claim_in(
    conn: &mut SqlConnection,
    (worker, instance): (&str, &str),
    places: &[String],
) -> SqlResult<Option<ClaimedRound>> {
    let holes: Vec<_> = (0..places.len()).map(|at| format!("${}", at + 3)).collect();
    let lock = match conn.dialect() {
        SqlDialect::Sqlite => "",
        SqlDialect::Postgres => " FOR UPDATE OF o SKIP LOCKED",
    };
    let sql = format!(
        "SELECT o.round FROM offers o WHERE o.worker IS NULL AND o.place IN ({}) \
         AND EXISTS (SELECT 1 FROM workers w WHERE w.name = $1 AND w.instance = $2 AND w.state = 'active' \
         AND w.slots > (SELECT COUNT(*) FROM leases l WHERE l.instance = $2)) \
         AND NOT EXISTS (SELECT 1 FROM flags f WHERE f.name = 'stop') \
         ORDER BY o.priority DESC, o.offered_ms, o.round LIMIT 1{lock}",
        holes.join(", ")
    );
    let mut values = vec![SqlArg::from(worker), SqlArg::from(instance)];
    values.extend(places.iter().map(SqlArg::from));
    let Some(row) = conn.row(sql, &values).await? else { return Ok(None) };
    let round: String = row.get(0)?;
    let sql = "UPDATE leases SET fence = fence + 1, instance = $1 WHERE name = $2 AND instance = $3";
    if conn.exec(sql, args![instance, &round, OFFERED]).await? == 0 {
        // It was withdrawn: the process that took the lease away also removes the offer.
        return Ok(None);
    }
    let sql = "UPDATE offers SET worker = $1, tries = tries + 1 WHERE round = $2";
    conn.exec(sql, args![worker, &round]).await?;
    let row = conn.row("SELECT fence FROM leases WHERE name = $1", args![&round]).await?;
    let row = row.ok_or_else(|| StoreErrorKind::Corrupt(format!("the lease of round {round} is missing")))?;
    Ok(Some(ClaimedRound { fence: row.get(0)?, round }))
}

/// Offers.
impl Store {
    /// The offer of a round.
    pub async fn offer(&self, round: &str) -> Result<Option<OfferRow>, StoreError> {
        Ok(self.all::<OfferRow>("WHERE round = $1", args![round]).await?.pop())
    }

    /// All offers that no worker took, and all that one did; oldest first.
    pub async fn offers(&self) -> Result<Vec<OfferRow>, StoreError> {
        self.all("ORDER BY offered_ms, round LIMIT $1", args![10_000_i64]).await
    }

    /// The places of open offers, each once.
    pub async fn open_places(&self) -> Result<Vec<OfferPlace>, StoreError> {
        let sql = "SELECT DISTINCT place FROM offers WHERE worker IS NULL ORDER BY place LIMIT $1".to_owned();
        let read = |row: &SqlRow| {
            let text: String = row.get(0)?;
            serde_json::from_str(&text).map_err(|why| StoreErrorKind::Corrupt(format!("the place of an offer: {why}")))
        };
        self.fetch((OfferRow::NAME, OfferRow::SINCE), sql, args![PLACES_MAX], read).await
    }

    /// Takes an offered round for a worker of this process. It is not in the journal's transaction: many workers take
    /// rounds at the same time.
    pub async fn claim(&self, worker: &str, places: &[OfferPlace]) -> Result<Option<ClaimedRound>, StoreError> {
        if places.is_empty() {
            return Ok(None);
        }
        let doing = || format!("take a round for worker `{worker}`");
        let instance = self.instance().during(doing)?.to_owned();
        let places: Vec<_> = places.iter().map(OfferPlace::to_text).collect();
        let claimed = self.leasing(
            async |conn| claim_in(conn, (worker, &instance), &places).await,
            |claimed| claimed.iter().map(|claim: &ClaimedRound| (claim.round.clone(), claim.fence)).collect(),
        );
        claimed.await.during(doing)
    }

    /// Rounds that this process took, although it did not learn so: the answer to the claim was lost. They are its own
    /// from now on.
    pub async fn adopt_claims(&self, worker: &str) -> Result<Vec<ClaimedRound>, StoreError> {
        let doing = || format!("find the rounds that worker `{worker}` took");
        let instance = self.instance().during(doing)?.to_owned();
        let sql = "SELECT l.name, l.fence FROM leases l JOIN offers o ON o.round = l.name \
                   WHERE l.instance = $1 AND o.worker = $2";
        let mut found = HashMap::new();
        let read = |row: &SqlRow| Ok((row.get::<String>(0)?, row.get::<i64>(1)?));
        let rows =
            self.fetch((OfferRow::NAME, OfferRow::SINCE), sql.to_owned(), args![&instance, worker], read).await?;
        found.extend(rows);
        let mut writer = self.lock_writer().await.during(doing)?;
        found.retain(|round, _| !writer.held.contains_key(round));
        writer.held.extend(found.clone());
        Ok(found.into_iter().map(|(round, fence)| ClaimedRound { round, fence }).collect())
    }

    /// Takes an open offer back: the round is this process's own, and its offer is gone. Returns false if a worker was
    /// faster.
    pub async fn withdraw_offer(&self, round: &str) -> Result<bool, StoreError> {
        let doing = || format!("take the offer of round {round} back");
        let instance = self.instance().during(doing)?.to_owned();
        let withdraw = async |conn: &mut SqlConnection| {
            let sql = "UPDATE leases SET fence = fence + 1, instance = $1 WHERE name = $2 AND instance = $3";
            if conn.exec(sql, args![&instance, round, OFFERED]).await? == 0 {
                return Ok(None);
            }
            conn.exec("DELETE FROM offers WHERE round = $1", args![round]).await?;
            let row = conn.row("SELECT fence FROM leases WHERE name = $1", args![round]).await?;
            row.map(|row| row.get::<i64>(0)).transpose()
        };
        let held = |fence: &Option<i64>| fence.iter().map(|fence| (round.to_owned(), *fence)).collect();
        Ok(self.leasing(withdraw, held).await.during(doing)?.is_some())
    }

    /// Removes the offer of a round that needs no worker any more.
    pub async fn drop_offer(&self, round: &str) -> Result<(), StoreError> {
        let gone = async |conn: &mut SqlConnection| {
            conn.exec("DELETE FROM offers WHERE round = $1", args![round]).await.map(drop)
        };
        self.with_writer(|| format!("remove the offer of round {round}"), gone).await
    }

    /// Offers a round again whose worker is gone, with the same place. Returns false if another process was faster, or
    /// the round has no offer.
    pub async fn offer_again(&self, round: &str, instance: &str) -> Result<bool, StoreError> {
        let again = async |conn: &mut SqlConnection| {
            let sql = "UPDATE leases SET fence = fence + 1, instance = $1 WHERE name = $2 AND instance = $3 \
                       AND EXISTS (SELECT 1 FROM offers WHERE round = $2)";
            if conn.exec(sql, args![OFFERED, round, instance]).await? == 0 {
                return Ok(None);
            }
            conn.exec("UPDATE offers SET worker = NULL WHERE round = $1", args![round]).await?;
            hints::notify(conn).await.map(Some)
        };
        let doing = || format!("offer round {round} again");
        Ok(self.leasing(again, |_| Vec::new()).await.during(doing)?.is_some())
    }
}
