//! One loop as a page: its file, its state, its last rounds, and the outcome of each of its occurrences.

use super::loop_state::LoopHistory;
use super::repo_view::RepoView;
use super::rounds::{RoundLine, RoundListView};
use super::status::LoopLine;
use super::{CommandError, NOTHING, SCHEMA, Serialize, Store, safe};
use loopwright::store::RoundsQuery;
use loopwright_core::spec::{Gate, LoopSpec};

/// Rounds shown.
const ROUNDS_SHOWN: u32 = 10;

/// The document of `show LOOP --json`.
#[derive(Debug, Serialize)]
pub(crate) struct LoopPage {
    schema: u32,
    #[serde(flatten)]
    line: LoopLine,
    file: Option<String>,
    intent: Option<String>,
    gates: Vec<String>,
    output: Vec<&'static str>,
    rounds: Vec<RoundLine>,
    #[serde(flatten)]
    past: LoopHistory,
}

impl LoopPage {
    /// Reads the page.
    pub(crate) async fn read(
        store: Option<&Store>,
        here: Option<&RepoView>,
        name: &str,
        now: i64,
    ) -> Result<Self, CommandError> {
        let line = super::status::find_loop_line(store, here, name, now).await?;
        let query = RoundsQuery {
            repo: line.repo.clone(),
            loop_name: Some(name.to_owned()),
            limit: ROUNDS_SHOWN,
            ..RoundsQuery::default()
        };
        let rounds = RoundListView::read(store, query).await?;
        let past = match (store, &line.repo) {
            (Some(store), Some(repo)) => LoopHistory::read(store, repo, name, &rounds.rounds, now).await?,
            _ => LoopHistory::default(),
        };
        let file = here.and_then(|here| here.file(name));
        let spec = file.map(|file| file.spec.spec());
        Ok(Self {
            schema: SCHEMA,
            line,
            file: file.map(|file| file.file.clone()),
            intent: spec.map(|spec| spec.intent.clone()),
            gates: spec.map(gate_names).unwrap_or_default(),
            output: spec.map(|spec| spec.output.iter().map(|one| one.kind.word()).collect()).unwrap_or_default(),
            past,
            rounds: rounds.rounds,
        })
    }

    /// For people.
    pub(crate) fn render(&self, now: i64, width: usize) -> String {
        let line = &self.line;
        let or_nothing = |text: &Option<String>| text.as_deref().map_or(NOTHING.to_owned(), safe);
        let gates = if self.gates.is_empty() { "none".to_owned() } else { safe(&self.gates.join(", ")) };
        let success = line.success_rate.map_or(NOTHING.to_owned(), |rate| format!("{:.0}%", rate * 100.0));
        let rows = [
            ("intent", or_nothing(&self.intent)),
            ("file", or_nothing(&self.file)),
            ("level", line.level_text()),
            ("cadence", or_nothing(&line.cadence)),
            ("gates", gates),
            ("runs", format!("{}, success {success}, failures {}", line.runs, line.failures)),
            ("today", format!("${:.2}, {} tokens", line.spend.usd, line.spend.tokens)),
        ];
        let mut page = format!("loop {}: {}\n", safe(&line.name), line.status.word());
        for (name, value) in rows {
            page.push_str(&format!("  {name:<8} {value}\n"));
        }
        if let Some(reason) = &line.paused_reason {
            page.push_str(&format!("  why      {}\n", safe(reason)));
        }
        if !self.rounds.is_empty() {
            page.push_str(&format!("\n{}\n", super::rounds::render_table(&self.rounds, now, width)));
        }
        page.push_str(&self.past.render(now, width));
        page + &format!("\nrun it with: loopwright run {}", safe(&line.name))
    }
}

/// The names of all gates and held-out checks.
fn gate_names(spec: &LoopSpec) -> Vec<String> {
    let gates = spec.gates.iter().map(Gate::name);
    gates.chain(spec.heldout.iter().map(|check| check.name.as_str())).map(str::to_owned).collect()
}
