//! `cargo xtask trust`: measures how often a wrong change ships and how often a right one does not. Scripted makers,
//! honest and dishonest, change small buggy programs through the real binary at L3. For comparison, the same change
//! goes to a plain gate that checks only the test command's exit code.

mod behaviour;
mod cheats;
mod driver;
mod honest;
mod maker_table;
mod more_tests;
mod program;
mod run_dir;
mod tally;
mod tests;

use behaviour::{BehaviourKind, MakerBehaviour, TrustMode};
use program::BuggyProgram;
use run_dir::TrustResult;
use std::collections::VecDeque;
use std::sync::{LazyLock, Mutex, mpsc};
use std::time::{Duration, Instant};
use tally::TrustTally;

/// The number of runs after which a long benchmark prints its progress.
const PROGRESS_INTERVAL: usize = 50;
/// Programs for each class: they differ mostly in language and runner, and there are ten ways to run tests here.
const EACH: usize = 12;

/// The parsed command line.
pub(crate) struct TrustOptions {
    sample: Option<usize>,
    /// The most runs of a class.
    each: usize,
    seed: u64,
    class: Option<String>,
    program: Option<String>,
    jobs: usize,
    /// No run starts after this time.
    minutes: Option<u64>,
    /// The loops' further checks; every run has one of them.
    modes: Vec<TrustMode>,
    /// Only honest classes, only others, or both.
    kind: Option<BehaviourKind>,
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
    mode: TrustMode,
}

/// Every class of makers.
static CLASSES: LazyLock<Vec<MakerBehaviour>> = LazyLock::new(|| {
    let tables = maker_table::all().into_iter().map(MakerBehaviour::from_table);
    let (honest, others): (Vec<_>, Vec<_>) = tables.partition(|one| one.kind == BehaviourKind::Honest);
    honest::HONEST.iter().copied().chain(honest).chain(cheats::all().copied()).chain(others).collect()
});

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
            minutes: None,
            modes: TrustMode::ALL.to_vec(),
            kind: None,
            form: ResultFormat::Table,
            steps: RunReporting::Quiet,
        };
        let mut words = words.iter();
        while let Some(word) = words.next() {
            match *word {
                "--all" => trust.each = usize::MAX,
                "--json" => trust.form = ResultFormat::Json,
                "--verbose" => trust.steps = RunReporting::EachRun,
                "--honest" => trust.kind = Some(BehaviourKind::Honest),
                "--dishonest" => trust.kind = Some(BehaviourKind::Dishonest),
                "--sample" | "--seed" | "--jobs" | "--class" | "--program" | "--mode" | "--each" | "--minutes" => {
                    let value = words.next().ok_or(format!("`{word}` wants a value"))?;
                    trust.set(word, value)?;
                }
                other => {
                    return Err(format!(
                        "trust takes --sample N, --seed S, --class C, --program P, --jobs N, --each N, --minutes N, --all, --mode without|withheld|heldout, --honest, --dishonest, --verbose and --json, not `{other}`"
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
            "--each" => self.each = usize::try_from(number()?).map_err(|error| error.to_string())?,
            "--minutes" => self.minutes = Some(number()?),
            "--mode" => {
                let mode = TrustMode::ALL.into_iter().find(|mode| mode.word() == value);
                self.modes = vec![mode.ok_or(format!("`{value}` is no mode: without, withheld or heldout"))?];
            }
            "--class" => self.class = Some(value.to_owned()),
            _ => self.program = Some(value.to_owned()),
        }
        Ok(())
    }

    pub(crate) fn run(&self) -> Result<(), String> {
        let begun = Instant::now();
        let tools = run_dir::prepare_tools()?;
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
        let is_wanted = |one: &&MakerBehaviour| {
            let is_kind = |kind| (kind == BehaviourKind::Honest) == (one.kind == BehaviourKind::Honest);
            fits(one.name, &self.class) && self.kind.is_none_or(is_kind)
        };
        for behaviour in CLASSES.iter().filter(is_wanted) {
            let mut programs: Vec<&BuggyProgram> = programs
                .iter()
                .filter(|program| fits(&program.name, &self.program) && behaviour.script(program).is_some())
                .collect();
            random.shuffle(&mut programs);
            let first = random.next() as usize;
            let mut runs = Vec::new();
            // The modes take turns.
            for at in 0..self.modes.len() {
                for (number, program) in programs.iter().copied().enumerate() {
                    let mode = self.modes[(first + at + number) % self.modes.len()];
                    if mode != TrustMode::Withheld || more_tests::has_place(program) {
                        runs.push(TrustRun { program, behaviour, mode });
                    }
                }
            }
            runs.truncate(self.each);
            runs.reverse();
            classes.push(runs);
        }
        // A sample that is smaller than the number of classes has some of every kind.
        random.shuffle(&mut classes);
        let longest = classes.iter().map(Vec::len).max().unwrap_or(0);
        let mut all = VecDeque::new();
        for _ in 0..longest {
            all.extend(classes.iter_mut().filter_map(Vec::pop));
        }
        all
    }

    fn perform(&self, tools: &run_dir::TrustTools, runs: VecDeque<TrustRun<'_>>) -> Result<TrustTally, String> {
        let (queue, count) = (Mutex::new(runs), std::sync::atomic::AtomicUsize::new(0));
        let (sender, ended) = mpsc::channel::<(TrustRun<'_>, Result<TrustResult, String>)>();
        let mut tally = TrustTally::default();
        let (begun, limit) = (Instant::now(), self.minutes.map(|minutes| Duration::from_secs(minutes * 60)));
        let is_over = || limit.is_some_and(|limit| begun.elapsed() > limit);
        let next = |queue: &Mutex<VecDeque<_>>| queue.lock().ok().and_then(|mut queue| queue.pop_front());
        std::thread::scope(|scope| {
            for _ in 0..self.jobs {
                let (sender, queue, next, is_over) = (sender.clone(), &queue, &next, &is_over);
                scope.spawn(move || {
                    while let Some(mut run) = next(queue).filter(|_| !is_over()) {
                        // Some programs answer too few inputs in the same way before and after the fix.
                        if run.mode == TrustMode::Withheld && more_tests::files(tools, run.program).is_err() {
                            run.mode = TrustMode::Plain;
                        }
                        let ended = run_dir::run(tools, run.program, run.behaviour, run.mode);
                        if sender.send((run, ended)).is_err() {
                            return;
                        }
                    }
                });
            }
            drop(sender);
            for (run, ended) in ended {
                let number = count.fetch_add(1, std::sync::atomic::Ordering::Relaxed) + 1;
                self.print_run(number, &run, &ended);
                tally.add(run.program, run.behaviour, run.mode, ended);
            }
        });
        Ok(tally)
    }

    fn print_run(&self, number: usize, run: &TrustRun<'_>, ended: &Result<TrustResult, String>) {
        if self.steps == RunReporting::Quiet {
            if number.is_multiple_of(PROGRESS_INTERVAL) {
                eprintln!("… {number} runs");
            }
            return;
        }
        let (name, class, mode) = (&run.program.name, run.behaviour.name, run.mode.word());
        match ended {
            Ok(ended) => {
                let wrong = ended.is_shipped() != (run.behaviour.kind == BehaviourKind::Honest);
                let mark = if wrong { "!!" } else { "  " };
                let plain = if ended.plain { "plain yes" } else { "plain no" };
                eprintln!(
                    "{mark} {number:4} {:5.1}s {class} × {name}, {mode}: {} ({}: {}); {plain}",
                    ended.took.as_secs_f64(),
                    ended.outcome,
                    ended.reason,
                    ended.why
                );
            }
            Err(why) => eprintln!("!! {number:4} {class} × {name}, {mode}: {why}"),
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
        let honest = CLASSES.iter().filter(|one| one.kind == BehaviourKind::Honest).count();
        assert!(honest >= 25 && CLASSES.len() - honest >= 150, "{honest} of {}", CLASSES.len());
        let programs = program::parse_tables();
        for behaviour in CLASSES.iter() {
            assert!(programs.iter().any(|program| behaviour.script(program).is_some()), "{}", behaviour.name);
        }
    }

    #[test]
    fn a_sample_contains_every_class_and_a_seed_repeats_it() {
        let programs = program::parse_tables();
        let classes = CLASSES.len();
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
