//! A waiting candidate in full, so that no person approves blind: the items as they would be posted, the output of the
//! gates, and the diff.

use super::diff::RoundDiff;
use super::rounds::RoundRecord;
use super::{CommandError, safe};
use crate::context::CommandContext;
use crate::dry_run::{self, DryRunItem};
use crate::output::{CommandOutput, TextStyle};
use loopwright::store::RoundRow;
use loopwright_core::gate::GateResult;

/// The last lines of a gate's output that are shown.
const OUTPUT_LINES: usize = 12;

/// Everything that a person should see before an answer.
pub(crate) struct ProposalView {
    items: Vec<DryRunItem>,
    gates: Vec<GateResult>,
    diff: Option<RoundDiff>,
    round: String,
}

impl ProposalView {
    pub(crate) async fn read(cx: &CommandContext, row: &RoundRow, record: &RoundRecord) -> Result<Self, CommandError> {
        let attempt = record.round.facts().attempt();
        Ok(Self {
            items: DryRunItem::from_round(&record.round),
            gates: attempt.map(|attempt| attempt.gates.clone()).unwrap_or_default(),
            diff: RoundDiff::read(cx, row, record).await?,
            round: row.id.clone(),
        })
    }

    /// Whether this many lines of the diff are all of the change.
    pub(crate) fn is_whole(&self, diff_lines: usize) -> bool {
        self.diff.as_ref().is_none_or(|diff| diff.is_whole(diff_lines))
    }

    /// The page for people, with at most `diff_lines` lines of the diff.
    pub(crate) fn render(&self, out: &CommandOutput, diff_lines: usize) -> String {
        let mut page = String::new();
        if !self.items.is_empty() {
            page.push_str(&format!("\n{}\n", out.style(TextStyle::Bold, "items")));
            page.push_str(&indented(&dry_run::page(&self.items)));
        }
        let outputs: String = self.gates.iter().filter_map(|gate| gate_output(gate, &self.round)).collect();
        if !outputs.is_empty() {
            page.push_str(&format!("\n{}\n{}", out.style(TextStyle::Bold, "output of the gates"), indented(&outputs)));
        }
        if let Some(diff) = &self.diff {
            page.push_str(&format!("\n{}\n{}\n\n", out.style(TextStyle::Bold, "diff"), indented(&diff.stat())));
            page.push_str(&diff.render(out, diff_lines));
        }
        page
    }
}

/// The last lines of a gate's output, and where the rest is; `None` if it printed nothing.
pub(crate) fn gate_output(gate: &GateResult, round: &str) -> Option<String> {
    let shown = gate.excerpt.trim_end();
    if shown.is_empty() {
        return None;
    }
    let lines = last_lines(shown);
    let mut text = format!("{} {}\n", safe(&gate.name), gate.status);
    text.extend(lines.iter().map(|line| format!("  | {}\n", safe(line).trim_end())));
    if lines.len() < shown.lines().count() {
        text.push_str(&format!("  the rest: loopwright logs {}\n", safe(round)));
    }
    Some(text)
}

/// The last lines of an output that people see.
pub(crate) fn last_lines(output: &str) -> Vec<&str> {
    let lines: Vec<&str> = output.trim_end().lines().collect();
    lines[lines.len().saturating_sub(OUTPUT_LINES)..].to_vec()
}

fn indented(text: &str) -> String {
    text.lines().map(|line| if line.is_empty() { "\n".to_owned() } else { format!("  {line}\n") }).collect()
}
