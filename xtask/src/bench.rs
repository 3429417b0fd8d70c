//! `cargo xtask bench [NAME…] [--large] [--quick] [--json FILE]`: compares the program as users install it with the
//! limits of the machine and with plain git. All measurements are interleaved in one run. The command prints its
//! measurements and judges nothing.

mod cycle;
mod daemon;
mod facts;
mod growth;
mod redact;
mod rounds;
mod sample;
mod start;
mod streams;
mod table;
mod worker;
mod workspaces;

use crate::command::{self, cargo};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::time::Instant;
use table::{BenchSection, render_section};

/// Rounds of every comparison; a median of fewer is unreliable on a busy machine.
const ROUNDS: usize = 7;

/// The benchmark names, in the order in which they run.
const NAMES: [&str; 9] = ["start", "overhead", "cycle", "round", "status", "workspace", "redact", "stream", "daemon"];

/// The parsed command line.
pub(crate) struct BenchOptions {
    names: Vec<String>,
    /// Also measures sizes that take minutes.
    is_large: bool,
    /// Uses shorter time windows and scales the results.
    is_quick: bool,
    json: Option<PathBuf>,
}

/// The programs under measurement, and a folder for their repositories and state.
struct BenchSetup {
    program: PathBuf,
    worker: PathBuf,
    dir: tempfile::TempDir,
    /// The same kind of folder, in memory.
    memory: tempfile::TempDir,
    window: BenchWindow,
}

/// The length of a window in which processes are observed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum BenchWindow {
    Whole,
    Quick,
}

/// The folder of a benchmark. Ext4 creates files more slowly the more files were deleted nearby in the last minutes, so
/// repeated large checkouts on it measure the earlier runs. These benchmarks run in memory, where flushes cost nothing.
#[derive(Clone, Copy, PartialEq, Eq)]
enum StorageMedium {
    Disk,
    Memory,
}

impl StorageMedium {
    fn place(self) -> &'static str {
        match self {
            Self::Disk => "on the disk",
            Self::Memory => "in memory",
        }
    }
}

impl BenchOptions {
    /// Parses names, `--large`, `--quick` and `--json FILE`.
    pub(crate) fn parse(words: &[&str]) -> Result<Self, String> {
        let mut bench = Self { names: Vec::new(), is_large: false, is_quick: false, json: None };
        let mut words = words.iter();
        while let Some(word) = words.next() {
            match *word {
                "--json" => bench.json = Some(words.next().ok_or("--json needs a file")?.into()),
                "--large" => bench.is_large = true,
                "--quick" => bench.is_quick = true,
                name if NAMES.contains(&name) => bench.names.push(name.to_owned()),
                other => return Err(format!("no benchmark is called `{other}`; there are {}", NAMES.join(", "))),
            }
        }
        Ok(bench)
    }

    pub(crate) fn run(&self) -> Result<(), String> {
        let bed = BenchSetup::make(if self.is_quick { BenchWindow::Quick } else { BenchWindow::Whole })?;
        let begun = Instant::now();
        let facts = facts::collect_facts(bed.dir.path())?;
        print!("{}", facts.render());
        let mut sections = Vec::new();
        let large = self.is_large.then_some(workspaces::FILES_LARGE);
        let sizes: Vec<usize> = workspaces::FILES.into_iter().chain(large).collect();
        for name in NAMES.iter().filter(|name| self.wants(name)) {
            bed.measure(name, &sizes, &mut |section| {
                print!("\n{}", render_section(&section));
                sections.push(section);
            })?;
        }
        println!("\nload at the end {}; {:.0} s", facts::load(), begun.elapsed().as_secs_f64());
        match &self.json {
            Some(file) => write_json(file, &facts, &sections),
            None => Ok(()),
        }
    }

    fn wants(&self, name: &str) -> bool {
        self.names.is_empty() || self.names.iter().any(|wanted| wanted == name)
    }
}

impl BenchSetup {
    fn make(window: BenchWindow) -> Result<Self, String> {
        let mut build = cargo();
        build.args(["build", "--quiet", "--profile", "dist", "-p", "loopwright-cli"]);
        command::run(build)?;
        let worker = worker::build()?;
        let target = target_folder().unwrap_or_else(|| command::root().join("target"));
        // Not in the system's temporary folder: other programs create and delete many files there, which slows its part
        // of the disk.
        let dir = tempfile::tempdir_in(&target).map_err(|error| format!("make a folder: {error}"))?;
        let memory = tempfile::tempdir_in("/dev/shm").map_err(|error| format!("make a folder: {error}"))?;
        Ok(Self { program: target.join("dist/loopwright"), worker, dir, memory, window })
    }

    fn measure(&self, name: &str, sizes: &[usize], done: &mut dyn FnMut(BenchSection)) -> Result<(), String> {
        match name {
            "start" => done(start::measure(self)?),
            "overhead" => {
                done(rounds::overhead(self, StorageMedium::Disk)?);
                done(rounds::overhead(self, StorageMedium::Memory)?);
            }
            "cycle" => {
                done(cycle::attempts(self, StorageMedium::Disk)?);
                done(cycle::attempts(self, StorageMedium::Memory)?);
                done(cycle::idle(self)?);
            }
            "round" => {
                for (files, medium) in
                    [(1_000, StorageMedium::Disk), (1_000, StorageMedium::Memory), (10_000, StorageMedium::Memory)]
                {
                    done(rounds::whole_rounds(self, files, medium)?);
                }
            }
            "redact" => done(redact::measure(self)?),
            "stream" => done(streams::measure(self)?),
            "daemon" => daemon::measure(self)?.into_iter().for_each(done),
            "workspace" => workspaces::measure(self, sizes)?.into_iter().for_each(done),
            _ => growth::measure(self)?.into_iter().for_each(done),
        }
        Ok(())
    }

    /// Creates the folder of one benchmark.
    fn folder(&self, name: &str, medium: StorageMedium) -> Result<PathBuf, String> {
        let root = if medium == StorageMedium::Disk { &self.dir } else { &self.memory };
        let path = root.path().join(name);
        std::fs::create_dir_all(&path).map_err(|error| format!("make `{}`: {error}", path.display()))?;
        Ok(path)
    }
}

fn target_folder() -> Option<PathBuf> {
    std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from)
}

fn write_json(file: &Path, facts: &facts::BenchFacts, sections: &[BenchSection]) -> Result<(), String> {
    let document = json!({
        "schema": 1, "machine": facts.to_json(), "sections": sections.iter().map(BenchSection::to_json).collect::<Vec<_>>(),
    });
    let text = serde_json::to_string_pretty(&document).expect("a document of strings and numbers");
    std::fs::write(file, text + "\n").map_err(|error| format!("write `{}`: {error}", file.display()))
}
