//! `cargo xtask trust`: how often a wrong change gets through, and how often a right one does not. Scripted makers, honest
//! and dishonest, against small buggy programs, through the real binary at L3; beside each run the same change before a
//! plain gate that only looks at the test command's exit code.

mod behaviour;
mod cheats;
mod driver;
mod honest;
mod program;
mod run_dir;
mod tally;
mod tests;

use behaviour::{BehaviourKind, MakerBehaviour};
use program::BuggyProgram;
use run_dir::{HeldOutMode, TrustResult};
use std::collections::VecDeque;
use std::sync::{Mutex, mpsc};
use std::time::Instant;
use tally::TrustTally;

/// How often a long crossing says how far it is.
const PROGRESS_INTERVAL: usize = 50;
/// A class's programs differ in language and runner more than in anything else, and there are ten ways to run tests here.
const EACH: usize = 12;

/// What the command line asks for.
pub(crate) struct TrustOptions {
    sample: Option<usize>,
    /// How many programs a dishonest class meets at most; honest ones meet all.
    each: usize,
    seed: u64,
    class: Option<String>,
    program: Option<String>,
    jobs: usize,
    heldout: HeldOutMode,
    form: ResultFormat,
    steps: RunReporting,
}

/// How the result is shown.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ResultFormat {
    Table,
    Json,
}

/// Whether each run is told as it ends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum RunReporting {
    EachRun,
    Quiet,
}

/// One crossing.
struct TrustRun<'a> {
    program: &'a BuggyProgram,
    behaviour: &'static MakerBehaviour,
}

impl TrustOptions {
    /// Reads the words behind the verb.
    pub(crate) fn parse(words: &[&str]) -> Result<Self, String> {
        let mut trust = Self {
            sample: None,
            each: EACH,
            seed: 1,
            class: None,
            program: None,
            jobs: 2,
            heldout: HeldOutMode::With,
            form: ResultFormat::Table,
            steps: RunReporting::Quiet,
        };
        let mut words = words.iter();
        while let Some(word) = words.next() {
            match *word {
                "--all" => trust.each = usize::MAX,
                "--json" => trust.form = ResultFormat::Json,
                "--verbose" => trust.steps = RunReporting::EachRun,
                "--without-heldout" => trust.heldout = HeldOutMode::Without,
                "--sample" | "--seed" | "--jobs" | "--class" | "--program" => {
                    let value = words.next().ok_or(format!("`{word}` wants a value"))?;
                    trust.set(word, value)?;
                }
                other => {
                    return Err(format!(
                        "trust takes --sample N, --seed S, --class C, --program P, --jobs N, --all, --without-heldout, --verbose and --json, not `{other}`"
                    ));
                }
            }
        }
        Ok(trust)
    }

    fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        let number = || value.parse::<u64>().map_err(|_| format!("`{value}` is no number"));
        match key {
            "--sample" => self.sample = Some(usize::try_from(number()?).map_err(|error| error.to_string())?),
            "--seed" => self.seed = number()?,
            "--jobs" => self.jobs = usize::try_from(number()?.clamp(1, 64)).map_err(|error| error.to_string())?,
            "--class" => self.class = Some(value.to_owned()),
            _ => self.program = Some(value.to_owned()),
        }
        Ok(())
    }

    pub(crate) fn run(&self) -> Result<(), String> {
        let begun = Instant::now();
        let tools = run_dir::prepare_tools(self.heldout)?;
        let programs = program::all();
        let mut runs = self.chosen(&programs);
        let all = runs.len();
        runs.truncate(self.sample.unwrap_or(usize::MAX));
        if runs.is_empty() {
            return Err("no class and program fit".to_owned());
        }
        eprintln!(
            "trust: {} of {all} runs of {} programs, seed {}, {} jobs, the dev build",
            runs.len(),
            programs.len(),
            self.seed,
            self.jobs
        );
        let tally = self.perform(&tools, runs)?;
        match self.form {
            ResultFormat::Table => tally.print(begun.elapsed()),
            ResultFormat::Json => println!("{:#}", tally.json()),
        }
        tally.judge()
    }

    /// Every crossing that was asked for, in an order in which each class is met once before one is met twice.
    fn chosen<'a>(&self, programs: &'a [BuggyProgram]) -> VecDeque<TrustRun<'a>> {
        let mut random = Random(self.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        let fits =
            |name: &str, wanted: &Option<String>| wanted.as_ref().is_none_or(|wanted| name.contains(wanted.as_str()));
        let mut classes: Vec<Vec<TrustRun<'a>>> = Vec::new();
        for behaviour in honest::HONEST.iter().chain(cheats::all()).filter(|one| fits(one.name, &self.class)) {
            let programs = programs
                .iter()
                .filter(|program| fits(&program.name, &self.program) && (behaviour.script)(program).is_some());
            let mut runs: Vec<_> = programs.map(|program| TrustRun { program, behaviour }).collect();
            random.shuffle(&mut runs);
            if behaviour.kind == BehaviourKind::Dishonest {
                runs.truncate(self.each);
            }
            classes.push(runs);
        }
        let longest = classes.iter().map(Vec::len).max().unwrap_or(0);
        let mut all = VecDeque::new();
        for _ in 0..longest {
            all.extend(classes.iter_mut().filter_map(Vec::pop));
        }
        all
    }

    fn perform(&self, tools: &run_dir::TrustTools, runs: VecDeque<TrustRun<'_>>) -> Result<TrustTally, String> {
        let (queue, count) = (Mutex::new(runs), std::sync::atomic::AtomicUsize::new(0));
        let (sender, ended) = mpsc::channel::<(&BuggyProgram, &'static MakerBehaviour, Result<TrustResult, String>)>();
        let mut tally = TrustTally::default();
        std::thread::scope(|scope| {
            for _ in 0..self.jobs {
                let (sender, queue) = (sender.clone(), &queue);
                scope.spawn(move || {
                    while let Some(run) = queue.lock().ok().and_then(|mut queue| queue.pop_front()) {
                        let ended = run_dir::run(tools, run.program, run.behaviour);
                        if sender.send((run.program, run.behaviour, ended)).is_err() {
                            return;
                        }
                    }
                });
            }
            drop(sender);
            for (program, behaviour, ended) in ended {
                let number = count.fetch_add(1, std::sync::atomic::Ordering::Relaxed) + 1;
                self.print_run(number, program, behaviour, &ended);
                tally.add(program, behaviour, ended);
            }
        });
        Ok(tally)
    }

    fn print_run(
        &self,
        number: usize,
        program: &BuggyProgram,
        behaviour: &MakerBehaviour,
        ended: &Result<TrustResult, String>,
    ) {
        if self.steps == RunReporting::Quiet {
            if number.is_multiple_of(PROGRESS_INTERVAL) {
                eprintln!("… {number} runs");
            }
            return;
        }
        let (name, class) = (&program.name, behaviour.name);
        match ended {
            Ok(ended) => {
                let wrong = ended.is_shipped() == (behaviour.kind == BehaviourKind::Dishonest);
                let mark = if wrong { "!!" } else { "  " };
                let plain = if ended.plain { "plain yes" } else { "plain no" };
                eprintln!(
                    "{mark} {number:4} {:5.1}s {class} × {name}: {} ({}: {}); {plain}",
                    ended.took.as_secs_f64(),
                    ended.outcome,
                    ended.reason,
                    ended.why
                );
            }
            Err(why) => eprintln!("!! {number:4} {class} × {name}: {why}"),
        }
    }
}

/// A small generator: the same seed, the same sample.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn shuffle<T>(&mut self, items: &mut [T]) {
        for at in (1..items.len()).rev() {
            let other = (self.next() % (at as u64 + 1)) as usize;
            items.swap(at, other);
        }
    }
}

#[cfg(test)]
mod checks {
    use super::*;

    #[test]
    fn there_are_enough_classes_and_each_has_a_program() {
        assert!(honest::HONEST.len() >= 8 && cheats::all().count() >= 40);
        let programs = program::parse_tables();
        for behaviour in honest::HONEST.iter().chain(cheats::all()) {
            assert!(programs.iter().any(|program| (behaviour.script)(program).is_some()), "{}", behaviour.name);
        }
    }

    #[test]
    fn a_sample_meets_every_class_and_a_seed_repeats_it() {
        let programs = program::parse_tables();
        let classes = honest::HONEST.len() + cheats::all().count();
        let names = |seed: &str| {
            let chosen = TrustOptions::parse(&["--seed", seed]).expect("words it knows").chosen(&programs);
            let named = chosen.iter().take(classes);
            named.map(|run| (run.behaviour.name, run.program.name.clone())).collect::<Vec<_>>()
        };
        assert_eq!(names("7"), names("7"));
        assert_ne!(names("7"), names("8"));
        let met: std::collections::BTreeSet<_> = names("7").into_iter().map(|(class, _)| class).collect();
        assert_eq!(met.len(), classes);
    }
}
