//! Record: writes the report from the record. A lost report can be generated again, byte for byte.

use super::context::RoundContext;
use super::isolate::RoundSandbox;
use super::rows::question_id;
use crate::autonomy;
use crate::report;
use loopwright_core::round::{AnswerWindow, Event, Phase, Round, RoundRecorded, Stage};

pub(super) async fn record(cx: &RoundContext<'_>, round: &Round, sandbox: &mut RoundSandbox) -> Event {
    cx.stage(Stage::Record, round.outcome().map_or("", |outcome| outcome.word()));
    let path = cx.engine.state_dir.report(&cx.id);
    let outbox = cx.engine.store.outbox(&cx.id).await.unwrap_or_default();
    // No process of the round runs any more, so this is all of its network traffic.
    let network = sandbox.routes.close().await;
    // A report without the debts is better than none.
    let debts = autonomy::read_debts(&cx.engine.store, &cx.key.repo, &cx.key.name, &round.facts().intent).await.ok();
    let mut report = report::build_report(round, &outbox);
    report.debts = debts.clone().or(report.debts);
    report.network.add(network.clone());
    // If the report cannot be written, the round still ends, and its record is complete.
    let written = cx.engine.state_dir.write(&path, report.render().as_bytes()).is_ok();
    let report = written.then(|| path.to_string_lossy().into_owned());
    Event::Recorded(RoundRecorded { report, network, window: answer_window(cx, round).await, debts })
}

/// Until when a waiting round may be answered, from its question in the inbox. Without it the round continues to wait,
/// and the question itself still expires.
async fn answer_window(cx: &RoundContext<'_>, round: &Round) -> Option<AnswerWindow> {
    if !matches!(round.phase(), Phase::Waiting(_)) || round.facts().window.is_some() {
        return None;
    }
    let question = cx.engine.store.inbox_item(&question_id(&cx.id)).await.ok()??;
    Some(AnswerWindow { from_ms: question.created_ms, until_ms: question.expires_ms? })
}
