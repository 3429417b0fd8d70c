//! The loop files of a repository's working copy: all read at once, with every problem of every file.

use super::config::REPOSITORY_FILE;
use super::{CommandError, FileProblem, LoopFolder, error_from_problems, prompts, read_repo_file, script_path};
use loopwright::git::UserRepo;
use loopwright_core::spec::{AgentSpec, CheckedSpec, read_loop_file};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

/// The folder of loop files, from the root of the working copy.
pub(crate) const LOOPS_FOLDER: &str = ".loopwright/loops";

/// The folder of skills.
pub(super) const SKILLS_FOLDER: &str = ".loopwright/skills";

/// A loop file without problems.
#[derive(Debug, Clone)]
pub(crate) struct CheckedLoopFile {
    /// Its path from the root of the working copy, for people.
    pub(crate) file: String,
    /// The loop.
    pub(crate) spec: CheckedSpec,
}

impl CheckedLoopFile {
    /// The path and content hash of each file that its rounds depend on, for the record: the loop file, the repository's
    /// configuration, scripts, skills and prompts. Only files that exist; the preflight has already reported a missing or unreadable one.
    pub(crate) fn hash_inputs(&self, repo: &UserRepo) -> Vec<(String, String)> {
        let tree = &repo.work_tree;
        let agents = self.spec.agents.values().flat_map(AgentSpec::chain);
        let scripts = agents.filter_map(|agent| script_path(&agent));
        let skills = self.spec.skills.iter().map(|name| Path::new(SKILLS_FOLDER).join(name));
        let words = prompts::replaceable_texts().map(|(_, file)| PathBuf::from(file));
        let own = [PathBuf::from(&self.file), PathBuf::from(REPOSITORY_FILE)];
        let files = own.into_iter().chain(scripts).chain(skills).chain(words);
        let mut paths: Vec<PathBuf> = files.collect();
        paths.dedup();
        let hash = |path: PathBuf| {
            let bytes = read_repo_file(tree, &path).ok()?;
            Some((path.to_string_lossy().into_owned(), loopwright_core::hash::hash_bytes(&bytes)))
        };
        paths.into_iter().filter_map(hash).collect()
    }
}

/// The contents of the folder of loops.
#[derive(Debug, Clone, Default)]
pub(crate) struct RepoLoops {
    /// The loops that can be used, by name.
    pub(crate) loops: Vec<CheckedLoopFile>,
    /// All problems of the others.
    pub(crate) problems: Vec<FileProblem>,
}

impl RepoLoops {
    /// Reads every loop file of a working copy. A repository without the folder has no loops.
    pub(crate) fn read(work_tree: &Path) -> Result<Self, CommandError> {
        let mut loops = Self::default();
        let folder = LoopFolder::open(work_tree)?;
        for read in in_parallel(folder.names(), |name| Some(read(&folder, name))) {
            match read {
                Ok(file) => loops.loops.push(file),
                Err(findings) => loops.problems.extend(findings),
            }
        }
        loops.loops.sort_by(|a, b| a.spec.name.cmp(&b.spec.name));
        loops.reject_duplicate_names();
        Ok(loops)
    }

    /// One loop of a working copy, if its file has no problem. The file with the loop's name is read first.
    pub(crate) fn read_one(work_tree: &Path, loop_name: &str) -> Option<CheckedLoopFile> {
        let folder = LoopFolder::open(work_tree).ok()?;
        let is_named = |name: &&OsString| Path::new(name).file_stem() == Some(OsStr::new(loop_name));
        let (named, others): (Vec<_>, Vec<_>) = folder.names().iter().partition(is_named);
        let mut read = named.into_iter().chain(others).filter_map(|name| read(&folder, name).ok());
        read.find(|file| file.spec.name == loop_name)
    }

    /// Two loops with one name would share branches, counters and history, so neither can be used.
    fn reject_duplicate_names(&mut self) {
        let all = std::mem::take(&mut self.loops);
        let is_same = |a: &CheckedLoopFile, b: &CheckedLoopFile| a.spec.name().is_same(b.spec.name());
        let mut twins: Vec<bool> = vec![false; all.len()];
        for (at, pair) in all.windows(2).enumerate().filter(|(_, pair)| is_same(&pair[0], &pair[1])) {
            twins[at..=at + 1].fill(true);
            self.problems
                .extend([duplicate_name_problem(&pair[1], &pair[0]), duplicate_name_problem(&pair[0], &pair[1])]);
        }
        self.loops = all.into_iter().zip(twins).filter_map(|(file, is_twin)| (!is_twin).then_some(file)).collect();
    }

    /// One loop by its name.
    pub(crate) fn find(&self, name: &str) -> Result<&CheckedLoopFile, CommandError> {
        match self.loops.iter().find(|file| file.spec.name == name) {
            Some(file) => Ok(file),
            None => Err(self.unknown(name)),
        }
    }

    fn unknown(&self, name: &str) -> CommandError {
        // A broken file with the loop's name is probably the one that was meant.
        let stem = |finding: &&FileProblem| Path::new(&finding.file).file_stem().is_some_and(|stem| stem == name);
        let own: Vec<_> = self.problems.iter().filter(stem).cloned().collect();
        if !own.is_empty() {
            return error_from_problems(&own);
        }
        let mut error = CommandError::unknown(format!("no loop is called `{name}`"));
        if let Some(near) = nearest(name, self.names()) {
            error = error.hint(format!("did you mean `{near}`?"));
        }
        let names: Vec<_> = self.names().collect();
        error = match names.is_empty() {
            true => {
                error.hint(format!("there are no usable loop files in {LOOPS_FOLDER}/; `loopwright init` writes one"))
            }
            false => error.hint(format!("loops here: {}", names.join(", "))),
        };
        if self.problems.is_empty() { error } else { error.hint("some loop files have problems: loopwright check") }
    }

    /// The names of the loops that can be used.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.loops.iter().map(|file| file.spec.name.as_str())
    }
}

fn read(folder: &LoopFolder, name: &OsStr) -> Result<CheckedLoopFile, Vec<FileProblem>> {
    let file = format!("{LOOPS_FOLDER}/{}", name.to_string_lossy());
    let bytes = folder.read(name).map_err(|error| vec![FileProblem::unreadable(&file, "read loop file", &error)])?;
    match read_loop_file(&file, &bytes) {
        Ok(spec) => Ok(CheckedLoopFile { file, spec }),
        Err(problems) => Err(problems.into_iter().map(FileProblem::from).collect()),
    }
}

/// Applies a function to many files, on all cores when there are enough of them to be worth threads. Keeps their order.
pub(crate) fn in_parallel<T: Sync, R: Send>(all: &[T], each: impl Fn(&T) -> Option<R> + Sync) -> Vec<R> {
    const WORTH_IT: usize = 64;
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    if all.len() < WORTH_IT {
        return all.iter().filter_map(each).collect();
    }
    let each = |part: &[T]| part.iter().filter_map(&each).collect::<Vec<R>>();
    std::thread::scope(|scope| {
        let parts = all.chunks(all.len().div_ceil(cores));
        let running: Vec<_> = parts.map(|part| scope.spawn(move || each(part))).collect();
        running.into_iter().flat_map(|part| part.join().expect("reading a loop file does not panic")).collect()
    })
}

fn duplicate_name_problem(other: &CheckedLoopFile, one: &CheckedLoopFile) -> FileProblem {
    let text = format!("the name `{}` is also used by {}", one.spec.name, other.file);
    FileProblem::for_file(&one.file, text).with_hint("give one of the two another `name:`")
}

/// The name that was probably meant.
pub(crate) fn nearest<'n>(name: &str, names: impl Iterator<Item = &'n str>) -> Option<&'n str> {
    let distance = |other: &str| strsim::damerau_levenshtein(name, other);
    let best = names.map(|other| (distance(other), other)).min()?;
    (best.0 <= 1 + name.chars().count() / 4).then_some(best.1)
}
