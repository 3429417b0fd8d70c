//! Everything that waits for a person: the riskiest first, grouped by loop, machine facts above claims of agents.

use super::list_page::{ListPage, ListWindow};
use super::proposal::ProposalView;
use super::repo_names::RepoNames;
use super::rounds::RoundRecord;
use super::time::{self, Moment};
use super::{CommandError, SCHEMA, Serialize, Store, safe};
use crate::context::CommandContext;
use crate::error::with_count;
use crate::output::TextStyle;
use loopwright::store::{InboxKind, InboxRisk, InboxRow};
use loopwright_core::report::RoundReport;
use loopwright_core::round::BoundaryLevel;

/// The most questions that are read; more than this is a backlog, not an inbox.
const ITEMS_MAX: u32 = 1000;
/// Questions shown with the facts of their rounds; the others get one line.
const FACTS_MAX: usize = 50;
/// With more questions than this, the page has no diffs and no texts.
const PROPOSALS_MAX: usize = 3;
/// The lines of each diff.
const DIFF_LINES: usize = 40;

/// The document of `inbox --json`.
#[derive(Debug, Serialize)]
pub(crate) struct InboxView {
    schema: u32,
    pub(crate) page: ListPage,
    pub(crate) items: Vec<InboxLine>,
}

/// The order of the questions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum InboxOrder {
    /// Loops stay together; the loop with the riskiest question is first
    Loop,
    /// The riskiest question first, whatever its loop
    Risk,
}

/// One question.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct InboxLine {
    pub(crate) id: String,
    #[serde(rename = "loop")]
    pub(crate) name: String,
    /// `None` for a question about a loop that never had a round.
    pub(crate) round: Option<String>,
    #[serde(serialize_with = "as_word")]
    pub(crate) kind: InboxKind,
    #[serde(serialize_with = "as_word")]
    pub(crate) risk: InboxRisk,
    pub(crate) candidate: Option<String>,
    pub(crate) summary: String,
    pub(crate) expires: Option<Moment>,
    pub(crate) repo: String,
    #[serde(skip)]
    created_ms: i64,
}

/// Whether two questions are about the same candidate of one loop, so that one answer is enough.
pub(crate) fn is_twin(a: &InboxRow, b: &InboxRow) -> bool {
    let is_approval = |row: &InboxRow| row.kind == InboxKind::Approval && row.candidate.is_some();
    let of = |row: &InboxRow| (row.repo.clone(), row.loop_name.clone(), row.candidate.clone());
    a.id != b.id && is_approval(a) && is_approval(b) && of(a) == of(b)
}

impl From<InboxRow> for InboxLine {
    fn from(row: InboxRow) -> Self {
        Self {
            id: row.id,
            name: row.loop_name,
            round: Some(row.round).filter(|round| !round.is_empty()),
            kind: row.kind,
            risk: row.risk,
            candidate: row.candidate,
            summary: row.summary,
            expires: row.expires_ms.map(Moment),
            created_ms: row.created_ms,
            repo: row.repo,
        }
    }
}

fn rank(risk: InboxRisk) -> u8 {
    match risk {
        InboxRisk::High => 0,
        InboxRisk::Medium => 1,
        InboxRisk::Low => 2,
    }
}

/// Serialises the word that the store uses.
fn as_word<S: serde::Serializer>(value: &impl std::fmt::Display, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(value)
}

impl InboxView {
    /// The open questions; an empty list without a store.
    pub(crate) async fn read(store: Option<&Store>, repo: Option<&str>) -> Result<Self, CommandError> {
        let mut rows = match store {
            Some(store) => store.inbox(ITEMS_MAX).await?,
            None => Vec::new(),
        };
        rows.retain(|row| repo.is_none_or(|repo| row.repo == repo));
        let mut items: Vec<_> = rows.into_iter().map(InboxLine::from).collect();
        sort_by_risk(&mut items);
        Ok(Self { schema: SCHEMA, page: ListWindow::default().page(items.len()), items })
    }

    /// The wanted part in this order.
    pub(crate) fn arranged(mut self, order: InboxOrder, window: ListWindow) -> Self {
        if order == InboxOrder::Risk {
            self.items.sort_by_key(|line| rank(line.risk));
        }
        self.page = window.cut(&mut self.items);
        self
    }

    /// The page for people, with the facts of each round from its record.
    pub(crate) async fn render(&self, cx: &CommandContext, store: &Store, now: i64) -> Result<String, CommandError> {
        let mut page = String::new();
        let mut last = None;
        let repos = RepoNames::new(self.items.iter().map(|line| line.repo.as_str()));
        let (asked, twins) = self.fold_twins();
        for (at, line) in asked.iter().enumerate() {
            let of = (&line.repo, &line.name);
            if last != Some(of) {
                let count = asked.iter().filter(|other| (&other.repo, &other.name) == of).count();
                let title = cx.out.style(TextStyle::Bold, &safe(&repos.title(&line.repo, &line.name)));
                page.push_str(&format!("{title} ({})\n", with_count(count, "question")));
                last = Some(of);
            }
            page.push_str(&line.head(now));
            let same: Vec<_> =
                twins.iter().filter(|twin| twin.is_same(line)).filter_map(|twin| twin.round.as_deref()).collect();
            if !same.is_empty() {
                page.push_str(&format!(
                    "    same:    {} has the same candidate; one answer is enough\n",
                    safe(&same.join(", "))
                ));
            }
            // A question about a loop or an item belongs to a round, but is not about that round's candidate.
            if let Some(round) = line.round.as_ref().filter(|_| at < FACTS_MAX && line.is_about_a_candidate()) {
                // One damaged record or candidate must not hide the other questions.
                let about = self.about_candidate(cx, store, round).await;
                page.push_str(&about.unwrap_or_else(|error| format!("    damaged: {}\n", safe(&error.text))));
            }
        }
        page.push_str(&self.next());
        Ok(page)
    }

    /// The questions, each candidate of a loop once, and the repeated ones.
    fn fold_twins(&self) -> (Vec<&InboxLine>, Vec<&InboxLine>) {
        let is_repeated = |(at, line): &(usize, &InboxLine)| self.items[..*at].iter().any(|first| first.is_same(line));
        let (twins, asked): (Vec<_>, Vec<_>) = self.items.iter().enumerate().partition(is_repeated);
        let lines = |list: Vec<(usize, _)>| list.into_iter().map(|(_, line)| line).collect();
        (lines(asked), lines(twins))
    }

    async fn about_candidate(&self, cx: &CommandContext, store: &Store, round: &str) -> Result<String, CommandError> {
        let record = RoundRecord::read(store, round).await?;
        Ok(facts(&record.report()) + &self.proposal(cx, store, round, &record).await?)
    }

    /// The items, the output of the gates and the diff, while the inbox is short.
    async fn proposal(
        &self,
        cx: &CommandContext,
        store: &Store,
        round: &str,
        record: &RoundRecord,
    ) -> Result<String, CommandError> {
        if self.items.len() > PROPOSALS_MAX {
            return Ok(format!("    see:     loopwright show {}\n", safe(round)));
        }
        let Some(row) = store.round(round).await? else { return Ok(String::new()) };
        let shown = ProposalView::read(cx, &row, record).await?.render(&cx.out, DIFF_LINES);
        Ok(shown.lines().map(|line| format!("    {line}").trim_end().to_owned() + "\n").collect())
    }

    fn next(&self) -> String {
        let Some(first) = self.items.iter().find(|line| line.is_about_a_candidate()) else { return String::new() };
        let id = safe(&first.id);
        format!("\napprove with: loopwright approve {id}\ndeny with:    loopwright deny {id} --why \"…\"\n")
    }
}

/// Keeps loops together; the loop with the riskiest question comes first, and in a loop the riskiest, then the oldest.
fn sort_by_risk(items: &mut [InboxLine]) {
    let mut worst = std::collections::HashMap::new();
    for line in items.iter() {
        let entry = worst.entry((line.repo.clone(), line.name.clone())).or_insert(u8::MAX);
        *entry = rank(line.risk).min(*entry);
    }
    items.sort_by(|a, b| {
        let key = |line: &InboxLine| {
            let of = (line.repo.clone(), line.name.clone());
            (worst.get(&of).copied(), of, rank(line.risk), line.created_ms)
        };
        key(a).cmp(&key(b))
    });
}

/// The command that answers a question that is not about a candidate; `None` for a question to approve or deny.
pub(crate) fn answer_command(kind: InboxKind, loop_name: &str, round: &str) -> Option<String> {
    match kind {
        InboxKind::LoopPaused => {
            Some(format!("`loopwright resume {loop_name}` lets the loop start again and closes this"))
        }
        InboxKind::LoopDemoted => {
            Some(format!("`loopwright promote {loop_name}` shows the evidence; a promotion closes this"))
        }
        InboxKind::ItemFailed => Some(format!(
            "`loopwright retry {round}` tries again; `loopwright forget {loop_name} --item KEY` starts over"
        )),
        InboxKind::Approval | InboxKind::InDoubt => None,
    }
}

impl InboxLine {
    /// Whether another question is about the same candidate of the same loop.
    fn is_same(&self, other: &Self) -> bool {
        let of = |line: &Self| (line.repo.clone(), line.name.clone(), line.candidate.clone());
        self.kind == InboxKind::Approval && other.kind == self.kind && self.candidate.is_some() && of(self) == of(other)
    }

    fn is_about_a_candidate(&self) -> bool {
        answer_command(self.kind, &self.name, self.round.as_deref().unwrap_or_default()).is_none()
    }

    fn head(&self, now: i64) -> String {
        let answer = answer_command(self.kind, &self.name, self.round.as_deref().unwrap_or_default());
        let answer = answer.map_or(String::new(), |answer| format!("    answer:  {}\n", safe(&answer)));
        let expires = self.expires.map_or(String::new(), |at| match time::time_until(at.0, now) {
            gone if gone == "expired" => ", expired: counts as denied".to_owned(),
            left => format!(", expires {left}"),
        });
        let asked = time::time_since(self.created_ms, now);
        format!(
            "  {}  {}, {} risk, asked {asked}{expires}\n    engine:  {}\n{answer}",
            safe(&self.id),
            self.kind,
            self.risk,
            safe(&self.summary)
        )
    }
}

/// Machine facts, then one line of the maker's claims, marked as such.
fn facts(report: &RoundReport) -> String {
    let (mut added, mut removed) = (0_u64, 0_u64);
    for change in &report.changes {
        added = added.saturating_add(change.added);
        removed = removed.saturating_add(change.removed);
    }
    let gates: Vec<_> = report.gates.iter().map(|gate| format!("{} {}", safe(&gate.name), gate.status)).collect();
    let gates = if gates.is_empty() { "none".to_owned() } else { gates.join(", ") };
    let mut page = format!("    change:  {}, +{added} -{removed} lines\n", with_count(report.changes.len(), "file"));
    page.push_str(&format!("    gates:   {gates}\n"));
    if report.boundary.level != BoundaryLevel::Kernel {
        page.push_str(&format!("    boundary: {}\n", crate::round_summary::boundary_text(report)));
    }
    if let Some(verdict) = &report.verdict {
        let mean = verdict.mean.map_or(String::new(), |mean| format!(", mean {mean:.2}"));
        page.push_str(&format!("    checker: {}{mean}\n", verdict.verdict.word()));
        let said = verdict.summary.trim();
        if !said.is_empty() {
            page.push_str(&format!("    checker says: \"{}\"\n", safe(&short(said))));
        }
    }
    page
}

fn short(text: &str) -> String {
    let cut: String = text.chars().take(160).collect();
    if cut.len() < text.len() { format!("{cut}…") } else { cut }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(id: &str, name: &str, risk: InboxRisk, created_ms: i64) -> InboxLine {
        let text = |text: &str| text.to_owned();
        InboxLine {
            id: text(id),
            name: text(name),
            round: Some(text("r")),
            kind: InboxKind::Approval,
            risk,
            candidate: None,
            summary: String::new(),
            expires: None,
            created_ms,
            repo: String::new(),
        }
    }

    #[test]
    fn the_same_candidate_of_one_loop_is_one_question() {
        let mut items = ["1", "2", "3", "4"].map(|id| line(id, "a", InboxRisk::Low, 0));
        for (item, candidate) in items.iter_mut().zip([Some("x"), Some("x"), Some("y"), None]) {
            item.candidate = candidate.map(str::to_owned);
        }
        let inbox = InboxView { schema: SCHEMA, page: ListPage::default(), items: items.to_vec() };
        let (asked, twins) = inbox.fold_twins();
        let ids = |list: Vec<&InboxLine>| list.into_iter().map(|line| line.id.clone()).collect::<Vec<_>>();
        assert_eq!((ids(asked), ids(twins)), (vec!["1".into(), "3".into(), "4".into()], vec!["2".into()]));
    }

    #[test]
    fn risk_comes_first_and_loops_stay_together() {
        let mut items = vec![
            line("1", "b", InboxRisk::Medium, 1),
            line("2", "a", InboxRisk::Low, 2),
            line("3", "b", InboxRisk::High, 3),
            line("4", "a", InboxRisk::Medium, 4),
            line("5", "a", InboxRisk::Medium, 0),
        ];
        sort_by_risk(&mut items);
        let ids: Vec<_> = items.iter().map(|line| line.id.as_str()).collect();
        assert_eq!(ids, ["3", "1", "5", "4", "2"]);
    }
}
