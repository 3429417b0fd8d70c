//! The spend, in groups: sums, the cost of an accepted outcome, and the part that was assumed because no agent reported
//! it.

use super::list_page::{ListPage, ListWindow};
use super::repo_names::RepoNames;
use super::{CommandError, NOTHING, SCHEMA, Serialize, Store, TextTable};
use crate::output::CommandOutput;
use loopwright::store::{CostRow, CostsBy, CostsQuery};
use loopwright_core::budget::Tokens;
use loopwright_core::outcome::RoundOutcome;

/// The most groups that are listed; the total has all of them.
const GROUPS_MAX: u32 = 10_000;

/// The document of `costs --json`.
#[derive(Debug, Serialize)]
pub(crate) struct CostsView {
    schema: u32,
    by: &'static str,
    since: Option<String>,
    #[serde(rename = "loop")]
    loop_name: Option<String>,
    prices_as_of: &'static str,
    page: ListPage,
    groups: Vec<Group>,
    total: Group,
    /// The coming spend; `None` unless the groups are days.
    forecast: Option<SpendForecast>,
}

/// The spend of a month, if its days are like the days that had rounds.
#[derive(Debug, Clone, PartialEq, Serialize)]
struct SpendForecast {
    usd_per_day: f64,
    usd_per_30_days: f64,
}

impl SpendForecast {
    fn of_days(days: &[Group]) -> Option<Self> {
        let total: f64 = days.iter().map(|day| day.usd).sum();
        let usd_per_day = total / days.len() as f64;
        (!days.is_empty()).then_some(Self { usd_per_day, usd_per_30_days: usd_per_day * 30.0 })
    }
}

/// One group, or the total.
#[derive(Debug, Default, Serialize)]
struct Group {
    key: Option<String>,
    /// The repository of a loop; `None` for other groups.
    repo: Option<String>,
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
        let groups: Vec<Group> = groups.into_iter().map(group).collect();
        Ok(Self {
            schema: SCHEMA,
            by: word,
            since: query.since,
            loop_name: query.loop_name,
            prices_as_of: loopwright_core::prices::prices_date(),
            page: ListWindow::default().page(groups.len()),
            forecast: if query.by == CostsBy::Day { SpendForecast::of_days(&groups) } else { None },
            groups,
            total,
        })
    }

    /// Keeps only the wanted groups; the total stays that of all.
    pub(crate) fn cut(mut self, window: ListWindow) -> Self {
        self.page = window.cut(&mut self.groups);
        self
    }

    /// The page for people.
    pub(crate) fn render(&self, out: &CommandOutput) -> String {
        if self.total.rounds == 0 {
            return "nothing was spent in that time".to_owned();
        }
        let heading = self.by.to_uppercase();
        let headings = [heading.as_str(), "USD", "TOKENS", "ROUNDS", "ACCEPTED", "USD/ACCEPTED", "UNKNOWN"];
        let repos = RepoNames::new(self.groups.iter().filter_map(|group| group.repo.as_deref()));
        let groups = self.groups.iter().map(|group| group.cells(&group.title(&repos)));
        let table = TextTable::new(headings, groups.chain([self.total.cells("total")]));
        let since = self.since.as_ref().map_or(String::new(), |day| format!(" since {day}"));
        let basis = format!("at list prices of {}{since}; your own `prices:` override these", self.prices_as_of);
        format!("{}\n\n{}", table.render_for(out), out.wrapped(&basis))
    }
}

impl Group {
    /// Its name; that of a loop with its repository if the list has several.
    fn title(&self, repos: &RepoNames) -> String {
        let name = self.key.as_deref().unwrap_or("unknown");
        self.repo.as_ref().map_or_else(|| name.to_owned(), |repo| repos.title(repo, name))
    }

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
        repo: (!row.repo.is_empty()).then_some(row.repo),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_forecast_is_thirty_days_like_the_days_with_rounds() {
        let day = |usd: f64| Group { usd, ..Group::default() };
        let forecast = SpendForecast::of_days(&[day(1.0), day(3.0)]);
        assert_eq!(forecast, Some(SpendForecast { usd_per_day: 2.0, usd_per_30_days: 60.0 }));
        assert_eq!(SpendForecast::of_days(&[]), None);
    }
}
