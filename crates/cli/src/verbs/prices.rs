//! `prices [MODEL]…`: the price of every known model, or of the named ones, and where it comes from. It shows how to
//! override a price and changes nothing.

use super::{CommandContext, VerbResult};
use crate::output::{CommandOutput, TextTable};
use loopwright_core::config::ModelPrice;
use loopwright_core::prices::{ModelPrices, PriceSource, prices_date};
use serde::Serialize;

#[derive(Debug, clap::Args)]
pub(crate) struct PricesArgs {
    /// Print only the prices of these models, by the names that agents use
    #[arg(value_name = "MODEL")]
    models: Vec<String>,
}

/// The document of `prices --json`.
#[derive(Debug, Serialize)]
struct Document {
    schema: u32,
    /// The day on which the built-in prices were collected.
    as_of: &'static str,
    /// Dollars per million tokens.
    models: Vec<Line>,
    /// The price of a model that no table contains.
    unknown: Line,
    /// Providers whose models cost nothing.
    unmetered: Vec<String>,
}

#[derive(Debug, Serialize)]
struct Line {
    model: String,
    input: f64,
    output: f64,
    cache_read: f64,
    cache_write: f64,
    from: &'static str,
}

impl Line {
    fn new(model: &str, (price, source): (ModelPrice, PriceSource)) -> Self {
        let ModelPrice { input, output, cache_read, cache_write } = price;
        let [input, output, cache_read, cache_write] =
            [input, output, cache_read, cache_write].map(loopwright_core::units::Usd::dollars);
        Self { model: model.to_owned(), input, output, cache_read, cache_write, from: word(source) }
    }

    fn cells(&self) -> [String; 6] {
        let [input, output, read, write] =
            [self.input, self.output, self.cache_read, self.cache_write].map(|usd| format!("{usd}"));
        [self.model.clone(), input, output, read, write, self.from.to_owned()]
    }
}

/// The source of a price, as documents name it.
pub(crate) fn word(source: PriceSource) -> &'static str {
    match source {
        PriceSource::Own => "own",
        PriceSource::List => "list",
        PriceSource::Unmetered => "unmetered",
        PriceSource::Dearest => "unknown",
    }
}

pub(crate) async fn run(args: PricesArgs, cx: &CommandContext) -> VerbResult {
    // Outside a repository, the user's own configuration. A repository cannot set prices.
    let effective = cx.config(None)?;
    let prices = effective.model_prices();
    let named = args.models.iter().map(|model| Line::new(model, prices.price(model)));
    let all = || prices.listed().into_iter().map(|(model, price)| Line::new(model, price)).collect();
    let models: Vec<Line> = if args.models.is_empty() { all() } else { named.collect() };
    let free = effective.providers().into_iter().filter(|(_, provider)| !provider.metered);
    let document = Document {
        schema: 1,
        as_of: prices_date(),
        models,
        unknown: Line::new("", (prices.dearest(), PriceSource::Dearest)),
        unmetered: free.map(|(name, _)| name).collect(),
    };
    Ok(cx.out.answer(&document, || page(&document, &prices, &cx.out)))
}

fn page(document: &Document, prices: &ModelPrices, out: &CommandOutput) -> String {
    let table = TextTable::new(
        ["MODEL", "INPUT", "OUTPUT", "CACHE READ", "CACHE WRITE", "FROM"],
        document.models.iter().map(Line::cells),
    );
    let mut lines = vec![table.render_for(out), String::new()];
    lines.push(format!("US dollars for a million tokens; `list` prices are of {}", document.as_of));
    let dearest = Line::new("", (prices.dearest(), PriceSource::Dearest));
    lines.push(format!(
        "a model that no table contains costs the highest price: {} for input, {} for output",
        dearest.input, dearest.output
    ));
    lines.extend(document.unmetered.iter().map(|name| format!("models of the provider `{name}` cost nothing")));
    lines.push("to set a price, add it to your own configuration (~/.config/loopwright/config.yaml):".to_owned());
    let example =
        document.models.iter().find(|line| line.from == "unknown").map_or("MODEL", |line| line.model.as_str());
    lines
        .push(format!("  prices: {{ \"{example}\": {{ input: 3, output: 15, cache_read: 0.3, cache_write: 3.75 }} }}"));
    lines.join("\n")
}
