//! L1: a loop that reads and reports. Only the report leaves the engine; a sink writes it to standard output.

mod support;

use loopwright::spec::CheckMode;
use loopwright::{EngineSettings, LoopEngine, LoopLevel, LoopSpec, StdoutSink};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let repo = support::repository();
    let state = tempfile::tempdir()?;
    let mut spec = LoopSpec::new("read-sum", "say what is wrong with the sum", LoopLevel::L1Report)
        .with_maker_prompt("Look at sum.sh and report.");
    // Only a loop at L1 may run without a checker; its report says so.
    spec.check = CheckMode::None;
    let maker = support::shell(r#"echo "- sum.sh line 1 subtracts: $(cat sum.sh)" > "$LOOPWRIGHT_OUTBOX/report.md""#)?;
    let engine = LoopEngine::builder(spec)
        .maker(maker)
        .with_sink(StdoutSink)
        .build(EngineSettings::new(state.path()), repo.path())
        .await?;
    engine.run_once().await?;
    Ok(())
}
