//! `costs`: the money spent, by loop, role, model, day, item or agent, and the cost of an accepted outcome.

use super::{CommandContext, VerbResult};
use crate::view::costs::CostsView;
use crate::view::list_page::ListWindow;
use crate::view::time::{day_zone, now_ms};
use loopwright::store::{CostsBy, CostsQuery};

#[derive(Debug, clap::Args)]
pub(crate) struct CostsArgs {
    /// How to group the costs
    #[arg(long, value_enum, default_value = "loop")]
    by: CostsGrouping,
    /// Count from this day on: a date such as `2026-05-01`, or a number of days such as `7d`
    #[arg(long, value_name = "DATE|Nd", value_parser = since)]
    since: Option<Since>,
    /// Count only this loop
    #[arg(long = "loop", value_name = "NAME")]
    loop_name: Option<String>,
    #[command(flatten)]
    window: ListWindow,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum CostsGrouping {
    Loop,
    Role,
    Model,
    Day,
    Item,
    Agent,
}

impl CostsGrouping {
    fn word(self) -> (&'static str, CostsBy) {
        match self {
            Self::Loop => ("loop", CostsBy::Loop),
            Self::Role => ("role", CostsBy::Role),
            Self::Model => ("model", CostsBy::Model),
            Self::Day => ("day", CostsBy::Day),
            Self::Item => ("item", CostsBy::Item),
            Self::Agent => ("agent", CostsBy::Agent),
        }
    }
}

/// The first day to count.
#[derive(Debug, Clone)]
enum Since {
    /// A day.
    Day(String),
    /// This many days, including today.
    Days(i64),
}

fn since(text: &str) -> Result<Since, String> {
    let days = text.strip_suffix('d').and_then(|number| number.parse().ok()).filter(|days| (1..=36_500).contains(days));
    if let Some(days) = days {
        return Ok(Since::Days(days));
    }
    let shape = |(at, byte): (usize, u8)| if at == 4 || at == 7 { byte == b'-' } else { byte.is_ascii_digit() };
    let is_date = text.len() == 10 && text.bytes().enumerate().all(shape);
    is_date.then(|| Since::Day(text.to_owned())).ok_or_else(|| "a date such as `2026-05-01`, or `7d`".to_owned())
}

pub(crate) async fn run(args: CostsArgs, cx: &CommandContext) -> VerbResult {
    let (here, store) = super::status::here_and_store(cx).await?;
    let (word, by) = args.by.word();
    let since = args.since.map(|since| match since {
        Since::Day(day) => day,
        Since::Days(days) => day_zone().day(now_ms() - (days - 1) * 86_400_000),
    });
    let repo = here.as_ref().and_then(|here| here.scope_for(cx, args.loop_name.as_deref()));
    let query = CostsQuery { by, since, repo, loop_name: args.loop_name, accepted: Vec::new(), limit: 0 };
    let costs = CostsView::read(store.as_deref(), word, query).await?.cut(args.window);
    Ok(cx.out.answer(&costs, || costs.render(&cx.out)))
}
