//! The spend, in groups: sums, the cost of an accepted outcome, and the part that was assumed because no agent reported
//! it.

use super::{CommandError, NOTHING, SCHEMA, Serialize, Store, TextTable};
use loopwright::store::{CostRow, CostsBy, CostsQuery};
use loopwright_core::budget::Tokens;
use loopwright_core::outcome::RoundOutcome;

/// The most groups that are listed; the total has all of them.
const GROUPS_MAX: u32 = 1_000;

/// The document of `costs --json`.
#[derive(Debug, Serialize)]
pub(crate) struct CostsView {
    schema: u32,
    by: &'static str,
    since: Option<String>,
    #[serde(rename = "loop")]
    loop_name: Option<String>,
    prices_as_of: &'static str,
    groups: Vec<Group>,
    total: Group,
}

/// One group, or the total.
#[derive(Debug, Default, Serialize)]
struct Group {
    key: Option<String>,
    rounds: i64,
    accepted: i64,
    tokens: Tokens,
    usd: f64,
    usd_per_accepted: Option<f64>,
    unknown_share: f64,
}

impl CostsView {
    /// Reads the costs: one query for the groups, one for the total.
    pub(crate) async fn read(
        store: Option<&Store>,
        word: &'static str,
        query: CostsQuery,
    ) -> Result<Self, CommandError> {
        let accepted = [RoundOutcome::Shipped, RoundOutcome::Reported].map(|outcome| outcome.word().to_owned());
        let query = CostsQuery { accepted: accepted.to_vec(), limit: GROUPS_MAX, ..query };
        let (mut groups, mut total) = (Vec::new(), Vec::new());
        if let Some(store) = store {
            groups = store.costs(query.clone()).await?;
            total = store.costs(CostsQuery { by: CostsBy::All, ..query.clone() }).await?;
        }
        let total = total.pop().map(|row| Group { key: None, ..group(row) }).unwrap_or_default();
        Ok(Self {
            schema: SCHEMA,
            by: word,
            since: query.since,
            loop_name: query.loop_name,
            prices_as_of: loopwright_core::prices::prices_date(),
            groups: groups.into_iter().map(group).collect(),
            total,
        })
    }

    /// The page for people.
    pub(crate) fn render(&self, width: usize) -> String {
        if self.total.rounds == 0 {
            return "nothing was spent in that time".to_owned();
        }
        let heading = self.by.to_uppercase();
        let headings = [heading.as_str(), "USD", "TOKENS", "ROUNDS", "ACCEPTED", "USD/ACCEPTED", "UNKNOWN"];
        let groups = self.groups.iter().map(|group| group.cells(group.key.as_deref().unwrap_or("unknown")));
        let table = TextTable::new(headings, groups.chain([self.total.cells("total")]));
        let since = self.since.as_ref().map_or(String::new(), |day| format!(" since {day}"));
        format!(
            "{}\n\nat list prices of {}{since}; your own `prices:` override these",
            table.render_within(width),
            self.prices_as_of
        )
    }
}

impl Group {
    fn cells(&self, name: &str) -> [String; 7] {
        [
            name.to_owned(),
            format!("{:.2}", self.usd),
            self.tokens.total().to_string(),
            self.rounds.to_string(),
            self.accepted.to_string(),
            self.usd_per_accepted.map_or("n/a".to_owned(), |usd| format!("{usd:.2}")),
            if self.usd > 0.0 { format!("{:.0}%", self.unknown_share * 100.0) } else { NOTHING.to_owned() },
        ]
    }
}

fn group(row: CostRow) -> Group {
    let unsigned = |number: i64| u64::try_from(number).unwrap_or(0);
    let usd = row.micros as f64 / 1.0e6;
    Group {
        key: (!row.key.is_empty()).then_some(row.key),
        rounds: row.rounds,
        accepted: row.accepted,
        tokens: Tokens {
            input: unsigned(row.input),
            output: unsigned(row.output),
            cache_read: unsigned(row.cache_read),
            cache_write: unsigned(row.cache_write),
        },
        usd,
        usd_per_accepted: (row.accepted > 0).then(|| usd / row.accepted as f64),
        unknown_share: if row.micros > 0 { row.unknown_micros as f64 / row.micros as f64 } else { 0.0 },
    }
}
