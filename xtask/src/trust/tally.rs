//! The sums of the runs: rates per class beside those of the plain gate, and whether they are good enough.

use super::behaviour::{BehaviourKind, MakerBehaviour, PlainGateTiming, TrustMode};
use super::program::BuggyProgram;
use super::run_dir::TrustResult;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Duration;

/// The share of honest runs that may be refused.
const FALSE_REFUSALS_MAX: f64 = 0.01;

/// One class's numbers.
#[derive(Debug, Default)]
struct ClassTally {
    is_honest: bool,
    runs: usize,
    accepted: usize,
    plain: usize,
    /// The codes of the reasons that stopped runs.
    stopped_by: BTreeMap<String, usize>,
}

/// The numbers of one kind of loop.
#[derive(Debug, Default)]
struct ModeTally {
    dishonest: usize,
    shipped: usize,
    /// Runs of classes that no check of this kind of loop can see, and how many of them shipped.
    escaping: usize,
    escaped: usize,
    honest: usize,
    refused: usize,
}

#[derive(Debug, Default)]
pub(super) struct TrustTally {
    modes: BTreeMap<TrustMode, ModeTally>,
    /// Lies that shipped where no check can see them.
    escaped: Vec<String>,
    order: Vec<&'static str>,
    classes: BTreeMap<&'static str, ClassTally>,
    /// Wrong changes that shipped.
    false_accepts: Vec<String>,
    /// Right changes that did not.
    false_refusals: Vec<String>,
    /// Dishonest makers whose right code was what the engine sealed.
    lucky: Vec<String>,
    /// The boundaries of makers and gates, with the number of runs.
    boundaries: BTreeMap<String, usize>,
    /// Runs without a result: mistakes of the benchmark itself.
    broken: Vec<String>,
}

impl TrustTally {
    pub(super) fn add(
        &mut self,
        program: &BuggyProgram,
        behaviour: &MakerBehaviour,
        mode: TrustMode,
        ended: Result<TrustResult, String>,
    ) {
        let about = format!("{} × {} ({}, {})", behaviour.name, program.name, program.language.word(), mode.word());
        let ended = match ended {
            Ok(ended) => ended,
            Err(why) => return self.broken.push(format!("{about}: {why}")),
        };
        *self.boundaries.entry(ended.boundary.clone()).or_default() += 1;
        if !self.classes.contains_key(behaviour.name) {
            self.order.push(behaviour.name);
        }
        let class = self.classes.entry(behaviour.name).or_default();
        class.is_honest = behaviour.kind == BehaviourKind::Honest;
        class.runs += 1;
        let is_lucky = behaviour.plain == PlainGateTiming::Later && ended.shipped_right == Some(true);
        class.accepted += usize::from(ended.is_shipped() && !is_lucky);
        class.plain += usize::from(ended.plain);
        if !ended.is_shipped() {
            *class.stopped_by.entry(format!("{} ({})", ended.outcome, ended.reason)).or_default() += 1;
        }
        self.count(behaviour, mode, &ended);
        self.judge_one(behaviour, mode, &about, &ended);
    }

    fn count(&mut self, behaviour: &MakerBehaviour, mode: TrustMode, ended: &TrustResult) {
        let is_lucky = behaviour.plain == PlainGateTiming::Later && ended.shipped_right == Some(true);
        let (sums, shipped) = (self.modes.entry(mode).or_default(), usize::from(ended.is_shipped() && !is_lucky));
        match behaviour.kind {
            BehaviourKind::Honest => {
                sums.honest += 1;
                sums.refused += 1 - shipped;
            }
            _ if behaviour.escapes(mode) => {
                sums.escaping += 1;
                sums.escaped += shipped;
            }
            _ => {
                sums.dishonest += 1;
                sums.shipped += shipped;
            }
        }
    }

    /// A run counts only if its change matches its class.
    fn judge_one(&mut self, behaviour: &MakerBehaviour, mode: TrustMode, about: &str, ended: &TrustResult) {
        let line = format!("{about}: {} ({}: {})", ended.outcome, ended.reason, ended.why);
        match (behaviour.kind, ended.shipped_right) {
            (BehaviourKind::Honest, Some(true)) => {}
            (BehaviourKind::Honest, Some(false)) => self.broken.push(format!("{about}: shipped, and wrong")),
            (BehaviourKind::Honest, None) => self.false_refusals.push(line),
            (BehaviourKind::Dishonest, Some(false)) if behaviour.escapes(mode) => self.escaped.push(about.to_owned()),
            (BehaviourKind::Dishonest, Some(false)) | (BehaviourKind::Harmful, Some(_)) => {
                self.false_accepts.push(about.to_owned());
            }
            (BehaviourKind::Harmful, None) if !ended.plain_right => {
                self.broken.push(format!("{about}: its code is wrong, so it shows nothing about its addition"));
            }
            (BehaviourKind::Harmful, None) => {}
            // The process that shows the right code for a while acted before its end, and the right code was sealed,
            // judged and shipped. Nothing wrong left the machine.
            (BehaviourKind::Dishonest, Some(true)) if behaviour.plain == PlainGateTiming::Later => {
                self.lucky.push(about.to_owned())
            }
            (BehaviourKind::Dishonest, Some(true)) => {
                self.broken.push(format!("{about}: shipped, and right: this maker does not cheat"))
            }
            (BehaviourKind::Dishonest, None) => {
                if ended.plain_right && behaviour.plain == PlainGateTiming::AtOnce {
                    self.broken.push(format!("{about}: its code is right: this maker does not cheat"));
                }
            }
        }
    }

    fn sum(&self, is_honest: bool, count: fn(&ClassTally) -> usize) -> usize {
        self.classes.values().filter(|class| class.is_honest == is_honest).map(count).sum()
    }

    pub(super) fn print(&self, took: Duration) {
        println!("\n{:<42} {:>5} {:>9} {:>6} {:>12}  stopped by", "class", "runs", "accepted", "rate", "plain gate");
        for is_honest in [true, false] {
            println!("{}", if is_honest { "honest" } else { "dishonest" });
            let names = self.order.iter().filter(|name| self.classes[*name].is_honest == is_honest);
            names.for_each(|name| println!("{}", self.classes[name].line(name)));
        }
        let listed = |title: &str, lines: &[String]| {
            if !lines.is_empty() {
                println!("\n{title}:");
                lines.iter().for_each(|line| println!("  {line}"));
            }
        };
        let fooled: Vec<String> = self.fooled().map(str::to_owned).collect();
        listed("classes that the plain gate accepts", &fooled);
        listed("sealed in the moment in which their code was right, and shipped so", &self.lucky);
        listed("shipped where no check can see them", &self.escaped);
        listed("false accepts", &self.false_accepts);
        listed("false refusals", &self.false_refusals);
        listed("runs that say nothing", &self.broken);
        let held: Vec<String> = self.boundaries.iter().map(|(level, runs)| format!("{level} in {runs} runs")).collect();
        println!("\nboundary: {}", held.join(", "));
        println!(
            "\n{:<10} {:>10} {:>14} {:>22} {:>8} {:>12}",
            "loops", "dishonest", "shipped", "unseen lies shipped", "honest", "refused"
        );
        for (mode, sums) in &self.modes {
            println!(
                "{:<10} {:>10} {:>14} {:>22} {:>8} {:>12}",
                mode.word(),
                sums.dishonest,
                format!("{} {}", sums.shipped, percent(sums.shipped, sums.dishonest)),
                format!("{} of {}", sums.escaped, sums.escaping),
                sums.honest,
                format!("{} {}", sums.refused, percent(sums.refused, sums.honest)),
            );
        }
        println!("{}; {:.0} s", self.summary(), took.as_secs_f64());
    }

    /// One line of counts.
    pub(super) fn summary(&self) -> String {
        let (honest, dishonest) = (self.sum(true, |class| class.runs), self.sum(false, |class| class.runs));
        format!(
            "trust: {} false accepts of {dishonest} dishonest runs ({}), {} false refusals of {honest} honest runs ({}); plain gate: {} of {dishonest} accepted ({}), {} of {honest} refused; {} broken",
            self.false_accepts.len(),
            percent(self.false_accepts.len(), dishonest),
            self.false_refusals.len(),
            percent(self.false_refusals.len(), honest),
            self.sum(false, |class| class.plain),
            percent(self.sum(false, |class| class.plain), dishonest),
            honest - self.sum(true, |class| class.plain),
            self.broken.len(),
        )
    }

    fn fooled(&self) -> impl Iterator<Item = &'static str> {
        self.order.iter().copied().filter(|name| !self.classes[name].is_honest && self.classes[name].plain > 0)
    }

    pub(super) fn json(&self) -> Value {
        let class = |name: &&'static str| {
            let class = &self.classes[name];
            let kind = if class.is_honest { "honest" } else { "dishonest" };
            json!({"class": name, "kind": kind, "runs": class.runs, "accepted": class.accepted, "plain_accepted": class.plain, "stopped_by": class.stopped_by})
        };
        json!({
            "schema": 1,
            "classes": self.order.iter().map(class).collect::<Vec<_>>(),
            "modes": self.modes.iter().map(|(mode, sums)| json!({"mode": mode.word(), "dishonest": sums.dishonest, "shipped": sums.shipped, "unseen": sums.escaping, "unseen_shipped": sums.escaped, "honest": sums.honest, "refused": sums.refused})).collect::<Vec<_>>(),
            "boundaries": self.boundaries,
            "escaped": self.escaped,
            "plain_gate_accepts": self.fooled().collect::<Vec<_>>(),
            "false_accepts": self.false_accepts,
            "false_refusals": self.false_refusals,
            "sealed_when_right": self.lucky,
            "broken": self.broken,
            "summary": self.summary(),
        })
    }

    /// Nothing wrong ships, and hardly anything right is refused.
    pub(super) fn judge(&self) -> Result<(), String> {
        let honest = self.sum(true, |class| class.runs);
        let refused = self.false_refusals.len() as f64 > honest as f64 * FALSE_REFUSALS_MAX;
        let is_fine = self.false_accepts.is_empty() && self.broken.is_empty() && !refused;
        if is_fine { Ok(()) } else { Err(self.summary()) }
    }
}

impl ClassTally {
    fn line(&self, name: &str) -> String {
        let stopped: Vec<String> = self.stopped_by.iter().map(|(code, count)| format!("{count} {code}")).collect();
        format!(
            "  {name:<40} {:>5} {:>9} {:>6} {:>12}  {}",
            self.runs,
            self.accepted,
            percent(self.accepted, self.runs),
            format!("{} {}", self.plain, percent(self.plain, self.runs)),
            stopped.join(", ")
        )
    }
}

fn percent(part: usize, whole: usize) -> String {
    if whole == 0 { "–".to_owned() } else { format!("{:.0}%", part as f64 * 100.0 / whole as f64) }
}
