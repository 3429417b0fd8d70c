//! The loop files of a repository's working copy: all read at once, with every problem of every file.

use super::finding::{Finding, error_of};
use crate::error::CommandError;
use loopwright_core::spec::{CheckedSpec, read_loop_file};
use rustix::fs::{Mode, OFlags};
use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

/// Where loop files are, from the root of the working copy.
pub(crate) const FOLDER: &str = ".loopwright/loops";

/// How loop files end.
const ENDINGS: [&str; 4] = ["md", "yaml", "yml", "json"];

/// No loop file is read further than this; the reader's own limit is below it and makes the message.
const BYTES_MAX: u64 = 4 << 20;

/// More files than this are a mistake, and would make every command slow.
const FILES_MAX: usize = 20_000;

/// A loop file that was read well.
#[derive(Debug, Clone)]
pub(crate) struct LoopFile {
    /// Its path from the root of the working copy, for people.
    pub(crate) file: String,
    /// The loop.
    pub(crate) spec: CheckedSpec,
}

/// What is in the folder of loops.
#[derive(Debug, Default)]
pub(crate) struct Loops {
    /// The loops that can be used, by name.
    pub(crate) loops: Vec<LoopFile>,
    /// Everything that is wrong with the others.
    pub(crate) findings: Vec<Finding>,
}

impl Loops {
    /// Reads every loop file of a working copy. A repository without the folder has no loops.
    pub(crate) fn read(work_tree: &Path) -> Result<Self, CommandError> {
        let mut loops = Self::default();
        for read in in_two(&files(work_tree)?, |path| Some(read(path))) {
            match read {
                Ok(file) => loops.loops.push(file),
                Err(findings) => loops.findings.extend(findings),
            }
        }
        loops.loops.sort_by(|a, b| a.spec.name.cmp(&b.spec.name));
        loops.refuse_twins();
        Ok(loops)
    }

    /// Two loops with one name would share branches, counters and history, so neither can be used.
    fn refuse_twins(&mut self) {
        let all = std::mem::take(&mut self.loops);
        for same in all.chunk_by(|a, b| a.spec.name().fold() == b.spec.name().fold()) {
            match same {
                [only] => self.loops.push(only.clone()),
                twins => self.findings.extend(twins.windows(2).map(|pair| twin(&pair[0], &pair[1]))),
            }
        }
    }

    /// One loop by its name.
    pub(crate) fn find(&self, name: &str) -> Result<&LoopFile, CommandError> {
        match self.loops.iter().find(|file| file.spec.name == name) {
            Some(file) => Ok(file),
            None => Err(self.unknown(name)),
        }
    }

    fn unknown(&self, name: &str) -> CommandError {
        // A broken file that is called like the loop is probably the one that was meant.
        let stem = |finding: &&Finding| Path::new(&finding.file).file_stem().is_some_and(|stem| stem == name);
        let own: Vec<_> = self.findings.iter().filter(stem).cloned().collect();
        if !own.is_empty() {
            return error_of(&own);
        }
        let mut error = CommandError::unknown(format!("no loop is called `{name}`"));
        if let Some(near) = nearest(name, self.names()) {
            error = error.hint(format!("did you mean `{near}`?"));
        }
        let names: Vec<_> = self.names().collect();
        error = match names.is_empty() {
            true => error.hint(format!("there are no usable loop files in {FOLDER}/; `loopwright init` writes one")),
            false => error.hint(format!("loops here: {}", names.join(", "))),
        };
        if self.findings.is_empty() { error } else { error.hint("some loop files have problems: loopwright check") }
    }

    /// The names of the loops that can be used.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.loops.iter().map(|file| file.spec.name.as_str())
    }
}

fn read(path: &Path) -> Result<LoopFile, Vec<Finding>> {
    let file = format!("{FOLDER}/{}", path.file_name().unwrap_or_default().to_string_lossy());
    let bytes = read_bytes(path).map_err(|error| vec![Finding::of_file(&file, format!("read loop file: {error}"))])?;
    match read_loop_file(&file, &bytes) {
        Ok(spec) => Ok(LoopFile { file, spec }),
        Err(problems) => Err(problems.into_iter().map(Finding::from).collect()),
    }
}

/// Two threads halve what ten thousand files take; for a handful one is faster.
pub(crate) fn in_two<T: Sync, R: Send>(all: &[T], each: impl Fn(&T) -> Option<R> + Sync) -> Vec<R> {
    const WORTH_IT: usize = 64;
    if all.len() < WORTH_IT {
        return all.iter().filter_map(each).collect();
    }
    let (left, right) = all.split_at(all.len() / 2);
    std::thread::scope(|scope| {
        let other = scope.spawn(|| right.iter().filter_map(&each).collect::<Vec<R>>());
        let mut done: Vec<R> = left.iter().filter_map(&each).collect();
        done.extend(other.join().expect("reading a loop file does not panic"));
        done
    })
}

fn twin(first: &LoopFile, second: &LoopFile) -> Finding {
    let text = format!("the name `{}` is already taken by {}", second.spec.name, first.file);
    Finding::of_file(&second.file, text).with_hint("give one of the two another `name:`")
}

/// The name that was probably meant.
fn nearest<'n>(name: &str, names: impl Iterator<Item = &'n str>) -> Option<&'n str> {
    let distance = |other: &str| strsim::damerau_levenshtein(name, other);
    let best = names.map(|other| (distance(other), other)).min()?;
    (best.0 <= 1 + name.chars().count() / 4).then_some(best.1)
}

/// The loop files of a working copy, in order.
pub(crate) fn files(work_tree: &Path) -> Result<Vec<PathBuf>, CommandError> {
    let folder = work_tree.join(FOLDER);
    let failed = |error: io::Error| CommandError::failed(format!("list `{}`: {error}", folder.display()));
    let entries = match fs::read_dir(&folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(failed(error)),
    };
    let mut files = Vec::new();
    for entry in entries {
        let path = entry.map_err(failed)?.path();
        if is_loop_file(&path) {
            files.push(path);
        }
        if files.len() > FILES_MAX {
            return Err(CommandError::invalid(format!("more than {FILES_MAX} loop files in {FOLDER}/")));
        }
    }
    files.sort();
    Ok(files)
}

fn is_loop_file(path: &Path) -> bool {
    let hidden = path.file_name().is_none_or(|name| name.as_encoded_bytes().starts_with(b"."));
    !hidden && path.extension().is_some_and(|ending| ENDINGS.iter().any(|known| ending == *known))
}

/// Reads a file that people wrote, and only a plain one: a pipe or a device would keep us waiting for ever.
pub(crate) fn read_bytes(path: &Path) -> io::Result<Vec<u8>> {
    // Without waiting for a writer; that it is a pipe is found right after.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = fs::File::from(rustix::fs::open(path, flags, Mode::empty())?);
    let about = file.metadata()?;
    if !about.is_file() {
        return Err(io::Error::other("not a plain file"));
    }
    // One more than there is, so that the end is seen with the first look.
    let mut bytes = Vec::with_capacity(about.len().min(BYTES_MAX) as usize + 1);
    file.take(BYTES_MAX + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}
