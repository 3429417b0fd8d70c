//! An agent of your own: anything that implements `Agent` can play a role. This one runs inside the process and plays
//! both.
#![expect(clippy::print_stdout, reason = "an example shows what happened")]

mod support;

use loopwright::agents::{Agent, AgentCapabilities, AgentError, AgentInvocation, AgentLog, AgentOutcome};
use loopwright::budget::{AgentUsage, Tokens};
use loopwright::proc::{CancelToken, ProcessRunner, StartedProcess};
use loopwright::{BoxFuture, EngineSettings, LoopEngine, LoopLevel};
use serde_json::json;

/// Fixes the sum as a maker, and judges by the gate as a checker.
struct Tiny;

impl Tiny {
    fn play(invocation: &AgentInvocation) -> std::io::Result<AgentOutcome> {
        match &invocation.verdict {
            None => std::fs::write(invocation.workspace.join("sum.sh"), "echo $(( $1 + $2 ))\n")?,
            Some(sink) => {
                let score = |name| json!({"dimension": name, "score": 4, "evidence": [{"gate": "tests"}]});
                let verdict = json!({
                    "nonce": sink.nonce, "tree": sink.tree, "candidate": sink.candidate,
                    "verdict": "pass", "summary": "the gate is green",
                    "scores": [score("correctness"), score("scope"), score("tests")],
                });
                std::fs::write(&sink.path, verdict.to_string())?;
            }
        }
        let usage = AgentUsage::Reported(Tokens { input: 1200, output: 300, ..Tokens::default() });
        Ok(AgentOutcome::in_process(0, "done", usage))
    }
}

impl Agent for Tiny {
    fn name(&self) -> &str {
        "tiny"
    }

    fn capabilities(&self) -> AgentCapabilities {
        AgentCapabilities { usage: true, session_isolation: true, ..AgentCapabilities::default() }
    }

    fn invoke<'a>(
        &'a self,
        invocation: &'a AgentInvocation,
        _proc: &'a ProcessRunner,
        _log: &'a mut dyn AgentLog,
        _cancel: &'a CancelToken,
        _started: &'a mut (dyn FnMut(&StartedProcess) + Send),
    ) -> BoxFuture<'a, Result<AgentOutcome, AgentError>> {
        let failed = |error: std::io::Error| AgentError::Failed { what: error.to_string(), hint: String::new() };
        Box::pin(async move { Self::play(invocation).map_err(failed) })
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let repo = support::repository();
    let state = tempfile::tempdir()?;
    let builder = LoopEngine::builder(support::mending(LoopLevel::L2Assisted)).maker(Tiny).checker(Tiny);
    let engine = builder.build(EngineSettings::new(state.path()), repo.path()).await?;
    let report = engine.run_once().await?;
    println!("outcome: {}", report.outcome.map_or("none", loopwright::RoundOutcome::word));
    println!("tokens: {}", report.total_tokens());
    Ok(())
}
