//! `demo goal`: two goal loops on a temporary repository with the scripted agent. The first one plans, works in two
//! phases, is stopped by a broken proof, fixes a reproduced finding, is rejected once by its checker, and ships. The
//! second one reaches a plateau and says so.

use super::{DemoRepo, DemoRun};
use crate::context::CommandContext;
use crate::error::{CommandError, CommandExit, VerbResult};
use crate::output::{TextStyle, safe};
use crate::round_summary;
use crate::signals::{self, CurrentRound};
use loopwright::boundary;
use loopwright_core::level::LoopLevel;
use loopwright_core::outcome::RoundOutcome;
use loopwright_core::report::RoundReport;
use loopwright_core::spec::SandboxMode;
use serde_json::json;

const FILES: [(&str, &str); 9] = [
    ("tests/run.sh", include_str!("assets/goal/run.sh")),
    ("proof/exercise.sh", include_str!("assets/goal/exercise.sh")),
    ("bench.sh", include_str!("assets/goal/bench.sh")),
    (".loopwright/loops/add-server.md", include_str!("assets/goal/goal.md")),
    (".loopwright/loops/raise-score.md", include_str!("assets/goal/stuck.md")),
    (".loopwright/goal.script", include_str!("assets/goal/goal.script")),
    (".loopwright/stuck.script", include_str!("assets/goal/stuck.script")),
    ("README.md", "# Sums\n"),
    ("tuning", "3\n"),
];

pub(super) async fn run(cx: &CommandContext) -> VerbResult {
    let shop = DemoRepo::build(&FILES, "Two goals").await?;
    let cx = cx.with_repo_and_state(&shop.repo, &shop.state);
    let reports = run_goals(&cx, &shop).await?;
    let expected = [RoundOutcome::Shipped, RoundOutcome::Plateaued].map(Some);
    let is_as_expected = reports.is_empty() || reports.iter().map(|report| report.outcome).eq(expected);
    let document = json!({
        "schema": 1, "folder": shop.folder, "repo": shop.repo, "state": shop.state, "as_told": is_as_expected, "rounds": reports,
    });
    cx.out.answer(&document, || ending(&cx, &shop, &reports));
    if !is_as_expected {
        cx.out.note("error: the demo did not end as expected; see the reports");
        return Ok(CommandExit::FAILED);
    }
    Ok(CommandExit::DONE)
}

async fn run_goals(cx: &CommandContext, shop: &DemoRepo) -> Result<Vec<RoundReport>, CommandError> {
    let repo = cx.repo().await?;
    let cancel = signals::cancel_on_signal(&CurrentRound::default());
    let engine = cx.open_engine(Some(&repo), &cancel).await?;
    let play = DemoRun { cx, engine: &engine, repo: &repo, cancel: &cancel };
    play.say(&format!("Created a repository with two goals in {}.", shop.repo.display()));
    let reports = match boundary::decide(LoopLevel::L2Assisted, SandboxMode::On, engine.host().await).err() {
        None => vec![play.reached().await?, play.stuck().await?],
        Some(refused) => {
            play.say("Goal loops change files, so they need a sandbox, which this host cannot enforce:");
            play.say(&safe(&refused.text));
            Vec::new()
        }
    };
    engine.close().await?;
    Ok(reports)
}

impl DemoRun<'_> {
    async fn reached(&self) -> Result<RoundReport, CommandError> {
        self.act("1. add-server: plan, two phases, a broken proof, a reproduced finding, a rejected cycle, a pass");
        let report = self.round("add-server").await?;
        self.say(&round_summary::render_end(&self.cx.out, &report));
        self.cycles(&report);
        Ok(report)
    }

    async fn stuck(&self) -> Result<RoundReport, CommandError> {
        self.act("2. raise-score: two attempts in a row are not better, so the round stops and keeps the best one");
        let report = self.round("raise-score").await?;
        self.say(&round_summary::render_end(&self.cx.out, &report));
        self.cycles(&report);
        Ok(report)
    }

    fn cycles(&self, report: &RoundReport) {
        let Some(goal) = &report.goal else { return };
        for cycle in &goal.cycles {
            let (passed, all) = cycle.gates;
            let proof = cycle.proof.map_or(String::new(), |proof| format!(", proof {proof}"));
            let findings = match cycle.open_findings {
                0 => String::new(),
                1 => ", 1 open finding".to_owned(),
                count => format!(", {count} open findings"),
            };
            let score = cycle.score.map_or(String::new(), |score| format!(", score {score}"));
            let mean = cycle.mean.map_or(String::new(), |mean| format!(", checker's mean {mean:.2}"));
            let best = if goal.best == Some(cycle.attempt) { " (best)" } else { "" };
            self.say(&format!(
                "  attempt {}: {passed} of {all} gates{proof}{findings}{score}{mean}{best}",
                cycle.attempt
            ));
        }
    }
}

fn ending(cx: &CommandContext, shop: &DemoRepo, reports: &[RoundReport]) -> String {
    let mut lines = vec![format!("\n{}", cx.out.style(TextStyle::Bold, "Where to look"))];
    for report in reports {
        lines.push(format!("  {:<15} {}", report.loop_name, report.report.as_deref().unwrap_or("no report")));
    }
    lines.push(format!("  {:<15} {}", "everything", shop.folder.display()));
    lines.join("\n")
}
