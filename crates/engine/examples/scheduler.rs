//! Two loops on their cadences, in the background of a program, until it has seen three rounds. The state directory
//! stores the due times: a program that is started again continues where this one stopped, and starting it fires no
//! loop.
#![expect(clippy::print_stdout, reason = "an example shows what happened")]

mod support;

use loopwright::spec::CheckMode;
use loopwright::{
    Engine, EngineSettings, LoopEngine, LoopLevel, LoopScheduler, LoopSink, LoopSpec, RoundReport, SinkError,
};
use std::time::Duration;
use tokio::sync::mpsc;

/// Prints one line for each round, and counts them.
struct Lines(mpsc::UnboundedSender<()>);

impl LoopSink for Lines {
    fn deliver(&self, report: &RoundReport) -> Result<(), SinkError> {
        println!("{}: {}", report.loop_name, report.outcome.map_or("at rest", |outcome| outcome.word()));
        self.0.send(()).map_err(|error| SinkError::new(error.to_string()))
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let repo = support::repository();
    let state = tempfile::tempdir()?;
    let engine = Engine::open(EngineSettings::new(state.path())).await?;
    let (sender, mut rounds) = mpsc::unbounded_channel();
    let mut scheduler = LoopScheduler::new(engine.clone()).with_zone("Europe/Berlin");
    for (name, cadence) in [("pulse", "every 1s"), ("nightly", "daily 02:30")] {
        let mut spec = LoopSpec::new(name, "say what is wrong with the sum", LoopLevel::L1Report)
            .with_cadence(cadence)
            .with_maker_prompt("Look at sum.sh and report.");
        spec.check = CheckMode::None;
        let maker = support::shell(r#"echo "- it subtracts" > "$LOOPWRIGHT_OUTBOX/report.md""#)?;
        let sink = Lines(sender.clone());
        scheduler
            .register(LoopEngine::builder(spec).maker(maker).with_sink(sink).build_on(engine.clone(), repo.path())?)
            .await?;
    }
    let handle = scheduler.start().await?;
    for _ in 0..3 {
        rounds.recv().await;
    }
    handle.stop(Duration::from_secs(10)).await;
    engine.close().await?;
    Ok(())
}
