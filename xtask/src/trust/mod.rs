//! `cargo xtask trust`: measures how often a wrong change ships and how often a right one does not. Scripted makers,
//! honest and dishonest, change small buggy programs through the real binary at L3. For comparison, the same change
//! goes to a plain gate that checks only the test command's exit code.

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

/// The number of runs after which a long benchmark prints its progress.
const PROGRESS_INTERVAL: usize = 50;
/// Programs for each class: they differ mostly in language and runner, and there are ten ways to run tests here.
const EACH: usize = 12;

/// The parsed command line.
pub(crate) struct TrustOptions {
    sample: Option<usize>,
    /// The most programs for a dishonest class; honest classes run on all programs.
    each: usize,
    seed: u64,
    class: Option<String>,
    program: Option<String>,
    jobs: usize,
    heldout: HeldOutMode,
    form: ResultFormat,
    steps: RunReporting,
}

/// The form of the result.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ResultFormat {
    Table,
    Json,
}

/// Whether each run is printed when it ends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum RunReporting {
    EachRun,
    Quiet,
}

/// One crossing: a class of makers on a program.
struct TrustRun<'a> {
    program: &'a BuggyProgram,
    behaviour: &'static MakerBehaviour,
}

impl TrustOptions {
    /// Parses the arguments after the verb.
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

    /// Every requested crossing, in an order in which each class runs once before any class runs twice.
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

/// A small random generator: the same seed gives the same sample.
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
    fn a_sample_contains_every_class_and_a_seed_repeats_it() {
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
