//! `cargo xtask bench [NAME…] [--large] [--quick] [--json FILE]`: measures the program as people install it against what the machine itself can do and
//! against bare git, everything interleaved in one run. It prints what it measured and judges nothing.

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

/// Rounds of every comparison; a median of fewer says little on a busy machine.
const ROUNDS: usize = 7;

/// The names that can be asked for, in the order in which they run.
const NAMES: [&str; 8] = ["start", "overhead", "round", "status", "workspace", "redact", "stream", "daemon"];

/// What the command line asks for.
pub(crate) struct BenchOptions {
    names: Vec<String>,
    /// Sizes that take minutes are measured too.
    is_large: bool,
    /// Windows of time are shorter, and scaled.
    is_quick: bool,
    json: Option<PathBuf>,
}

/// Where the programs under measurement are, and a folder for their worlds.
struct BenchSetup {
    program: PathBuf,
    worker: PathBuf,
    dir: tempfile::TempDir,
    /// The same in memory.
    memory: tempfile::TempDir,
    window: BenchWindow,
}

/// How long is looked at what happens in time.
#[derive(Clone, Copy, PartialEq, Eq)]
enum BenchWindow {
    Whole,
    Quick,
}

/// Where a world lies. Ext4 takes longer to make a file the more were deleted nearby in the last minutes, so repeated
/// large checkouts on it measure what ran before them; those are measured in memory, where flushes cost nothing.
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
    /// Reads names, `--large`, `--quick` and `--json FILE`.
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
        // Not in the system's folder for temporary files: its corner of the disk is worn by everybody else's churn.
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

    /// A new folder for one benchmark's world.
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
