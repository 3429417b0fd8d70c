//! The only agent of a simulated world, a function of this process. Effects begin here, so it checks the conditions
//! that must hold before an effect.

use super::faults::Site;
use super::fleet::World;
use loopwright::agents::{Agent, AgentCapabilities, AgentError, AgentInvocation, AgentLog, AgentOutcome};
use loopwright::budget::{AgentUsage, Tokens};
use loopwright::proc::{CancelToken, ProcessRunner, StartedProcess};
use loopwright::spec::Role;
use loopwright::store::{SpendScope, Store, StoreError};
use loopwright::{BoxFuture, LoopLevel};
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// The file that a proposing maker writes.
const CHANGED: &str = "notes.txt";

/// The agents of a process that are at work: loop and round.
#[derive(Debug, Clone, Default)]
pub(crate) struct AtWork(Arc<Mutex<BTreeMap<String, String>>>);

/// An agent at work, until it is dropped.
struct Stay(AtWork, String);

impl AtWork {
    /// The rounds.
    pub(crate) fn rounds(&self) -> Vec<String> {
        self.0.lock().expect("no one panics with it").values().cloned().collect()
    }

    /// Whether an agent of this loop is among them.
    pub(crate) fn has(&self, loop_name: &str) -> bool {
        self.0.lock().expect("no one panics with it").contains_key(loop_name)
    }

    /// Registers an agent; returns the round that was already there.
    fn enter(&self, loop_name: &str, round: &str) -> (Stay, Option<String>) {
        let before = self.0.lock().expect("no one panics with it").insert(loop_name.to_owned(), round.to_owned());
        (Stay(self.clone(), loop_name.to_owned()), before)
    }
}

impl Drop for Stay {
    fn drop(&mut self) {
        self.0.0.lock().expect("no one panics with it").remove(&self.1);
    }
}

impl World {
    /// P2 and P6: the start of an agent and its reservation are on record before it starts.
    async fn is_on_record(&self, invocation: &AgentInvocation, store: &Store) -> Result<(), StoreError> {
        let AgentInvocation { loop_name, round, .. } = invocation;
        match store.round(round).await? {
            None => self.blame(format!("P2: an agent of {loop_name} is started for {round}, which is not on record")),
            Some(row) if row.ended_ms.is_some() => {
                self.blame(format!("P9: an agent is started for a round that is over: {row:?}"));
            }
            Some(_) => {}
        }
        let last = store.events(round).await?.pop().map(|event| event.kind).unwrap_or_default();
        if last != "role-started" {
            self.blame(format!("P2: an agent of {round} is started, and the record ends with {last}"));
        }
        let days = self.days.lock().expect("no one panics with it").clone();
        for day in days {
            let held = store.spend(SpendScope::Loop, &self.ground.repo_id, loop_name, &day).await?;
            if held.reserved_micros > 0 || held.reserved_tokens > 0 {
                return Ok(());
            }
        }
        self.blame(format!("P6: an agent of {round} is started, and nothing is held back for it"));
        Ok(())
    }

    async fn look_first(&self, invocation: &AgentInvocation) {
        let Some(store) = self.own.store.get() else { return };
        if let Err(why) = self.is_on_record(invocation, store.as_ref()).await {
            // A process that has just died cannot read either.
            if !self.own.door.is_dead() {
                self.blame(format!("P2: an agent is started while the record cannot be read: {why}"));
            }
        }
    }

    fn spoil(&self, invocation: &AgentInvocation) {
        self.spoilt.lock().expect("no one panics with it").insert(invocation.round.clone());
    }

    async fn play(&self, invocation: &AgentInvocation, cancel: &CancelToken) -> AgentOutcome {
        // A proposing maker takes time, so that the answer to the last proposal arrives while the next one is at work.
        let is_long = self.proposes(&invocation.loop_name) && !self.faults.are_over() && self.throw(2) == 0;
        if is_long || self.faults.strikes(Site::SlowAgent) {
            tokio::select! {
                () = self.linger(90) => {}
                () = cancel.cancelled() => {}
            }
        }
        if self.faults.strikes(Site::AgentPanics) {
            self.spoil(invocation);
            panic!("the agent panics");
        }
        let usage = AgentUsage::Reported(Tokens { input: 10, ..Tokens::default() });
        if self.faults.strikes(Site::AgentFails) {
            self.spoil(invocation);
            return AgentOutcome::in_process(1, "it does not work", usage);
        }
        match invocation.role {
            Role::Checker => self.judge(invocation),
            _ if self.proposes(&invocation.loop_name) => {
                let text = format!("seen by {}\n", invocation.round);
                std::fs::write(invocation.workspace.join(CHANGED), text).expect("the workspace can be written");
            }
            _ => {}
        }
        AgentOutcome::in_process(0, "nothing to tell", usage)
    }

    pub(crate) fn proposes(&self, loop_name: &str) -> bool {
        self.specs().iter().any(|spec| spec.name == loop_name && spec.level != LoopLevel::L1Report)
    }

    /// A verdict, pass or reject.
    fn judge(&self, invocation: &AgentInvocation) {
        let is_good = self.throw(4) > 0;
        if !is_good {
            self.spoil(invocation);
        }
        let sink = invocation.verdict.as_ref().expect("a checker has a sink");
        let quote = std::fs::read_to_string(invocation.workspace.join(CHANGED)).unwrap_or_default();
        let evidence = json!({"path": CHANGED, "line": 1, "quote": quote.trim_end()});
        let (word, score) = if is_good { ("pass", 5) } else { ("reject", 1) };
        let scored = |name: &str| json!({"dimension": name, "score": score, "why": "seen", "evidence": [evidence]});
        let scores = ["correctness", "scope", "tests"].map(scored);
        let verdict = json!({
            "nonce": sink.nonce, "tree": sink.tree, "candidate": sink.candidate, "verdict": word,
            "summary": "looked at it", "scores": scores,
        });
        std::fs::write(&sink.path, verdict.to_string()).expect("the sink can be written");
    }
}

impl Agent for World {
    fn name(&self) -> &str {
        "sim"
    }

    fn capabilities(&self) -> AgentCapabilities {
        AgentCapabilities { usage: true, session_isolation: true, ..AgentCapabilities::default() }
    }

    fn invoke<'a>(
        &'a self,
        invocation: &'a AgentInvocation,
        _: &'a ProcessRunner,
        _: &'a mut dyn AgentLog,
        cancel: &'a CancelToken,
        _: &'a mut (dyn FnMut(&StartedProcess) + Send),
    ) -> BoxFuture<'a, Result<AgentOutcome, AgentError>> {
        Box::pin(async move {
            let (_stay, before) = self.own.at_work.enter(&invocation.loop_name, &invocation.round);
            if let Some(before) = before {
                let AgentInvocation { loop_name, round, .. } = invocation;
                self.blame(format!("P1: agents of two rounds of {loop_name} are at work: {before} and {round}"));
            }
            self.look_first(invocation).await;
            // Effects of an earlier start on the round no longer count.
            self.spoilt.lock().expect("no one panics with it").remove(&invocation.round);
            Ok(self.play(invocation, cancel).await)
        })
    }
}
