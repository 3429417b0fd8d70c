//! Held-out checks: reads their cases before the maker runs, starts the program under test on the sealed tree, and
//! passes its answers to `loopwright_core::gate::heldout`. Expected values never leave this process.
//!
//! The program gets all inputs at once and then the end of its input. Waiting for each answer would hang every honest
//! program that buffers its output, and seeing all inputs early does not reveal the expected answers.

use super::resolve::{self, GateProgram};
use super::{GateEnv, GateRunner, GatesError, not_started, private_folders};
use crate::depth::FolderDepth;
use crate::egress::EgressRoute;
use crate::git::Oid;
use crate::path_roots::{PathRoots, follow_links};
use crate::proc::{FinishedRun, RunEnd, RunLimits, SpawnRequest, StdinSource, TreeCookie};
use crate::sandbox_view::{self, MachineProfile, ProgramFolders, SandboxView, inside};
use crate::toolchains::ShownPath;
use crate::workspace::{CheckoutFiles, SnapshotKind};
use loopwright_core::gate::heldout::{ANSWERS_BYTES_MAX, CASES_BYTES_MAX, HeldoutCases, HeldoutRunEnd, judge};
use loopwright_core::gate::{GateResult, GateStatus};
use loopwright_core::hash;
use loopwright_core::inventory::is_suite;
use loopwright_core::spec::{HeldoutSpec, LoopSpec};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The variable with the path of `files` for the program under test. On hosts without a boundary the path is not
/// [`inside::HELDOUT`].
const PLACE_VAR: &str = "LOOPWRIGHT_HELDOUT";
/// Time limit of one check: building the program and answering all cases.
const HELDOUT_TIMEOUT: Duration = Duration::from_secs(120);
/// Limits for the bytes and entries of one check's files.
const FILES_BYTES_MAX: u64 = 1 << 30;
const FILES_MAX: usize = 100_000;
/// Largest manifest that is read.
const MANIFEST_BYTES_MAX: usize = 1 << 20;
/// The system folders that every confined program can read.
const PUBLIC: [&str; 6] = ["/usr", "/etc", "/bin", "/sbin", "/lib", "/lib64"];

/// All held-out checks of a loop, with their cases.
#[derive(Debug, Clone, Default)]
pub struct HeldoutChecks {
    checks: Vec<Check>,
}

#[derive(Debug, Clone)]
struct Check {
    name: String,
    run: Vec<String>,
    program: GateProgram,
    files: Vec<PathBuf>,
    cases: HeldoutCases,
    /// The hash of each file, by the path as written.
    inputs: Vec<(String, String)>,
}

/// A path of a held-out check that cannot be used: exit 2.
#[derive(Debug, thiserror::Error)]
#[error("held-out check `{check}`: `{path}` {why}")]
pub struct HeldoutError {
    /// The check.
    pub check: String,
    /// The path as written.
    pub path: String,
    /// The problem with it.
    pub why: String,
    /// The way to fix it.
    pub hint: &'static str,
}

const MOVE_OUT: &str = "keep it where no maker can read it: in a folder outside the repository, such as `~/heldout/`";
const WRITE_IT: &str = "relative paths start at the root of the repository, `~` is your home";
const FIX_LINES: &str = "each line is one JSON object with the keys `in` and `out`";

impl HeldoutChecks {
    /// Reads every check of a loop. A check's files must be in no folder that makers see: the system's folders, the
    /// loop's toolchains and caches, and `tools`, the folders that the programs of the machine's PATH need.
    ///
    /// # Errors
    /// Every path that is missing, unreadable or where a maker could read it.
    pub fn read(
        spec: &LoopSpec,
        ground: &PathRoots,
        env: &GateEnv,
        tools: &[ShownPath],
    ) -> Result<Self, Vec<HeldoutError>> {
        if spec.heldout.is_empty() {
            return Ok(Self::default());
        }
        let (mut checks, mut errors) = (Vec::new(), Vec::new());
        let named = spec.toolchains.iter().chain(&spec.caches).filter_map(|path| ground.resolve_real(path).ok());
        let on_path = env.extra_path.iter().map(|dir| follow_links(dir));
        let shown: Vec<_> = named.chain(on_path).chain(tools.iter().map(|tool| tool.host.clone())).collect();
        for check in &spec.heldout {
            match read(check, ground, &shown, env) {
                Ok(check) => checks.push(check),
                Err(error) => errors.push(error),
            }
        }
        if errors.is_empty() { Ok(Self { checks }) } else { Err(errors) }
    }

    /// The files and their hashes, for the record.
    #[must_use]
    pub fn inputs(&self) -> Vec<(String, String)> {
        self.checks.iter().flat_map(|check| check.inputs.iter().cloned()).collect()
    }

    /// Whether the loop has no held-out checks.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.checks.is_empty()
    }
}

fn read(check: &HeldoutSpec, ground: &PathRoots, shown: &[PathBuf], env: &GateEnv) -> Result<Check, HeldoutError> {
    let error =
        |path: &str, why: String, hint| HeldoutError { check: check.name.clone(), path: path.to_owned(), why, hint };
    let locate = |path: &str| hidden(path, ground, shown).map_err(|(why, hint)| error(path, why, hint));
    let bytes = plain(&locate(&check.cases)?).map_err(|source| error(&check.cases, source.to_string(), WRITE_IT))?;
    let cases = HeldoutCases::read(&bytes).map_err(|source| error(&check.cases, source.to_string(), FIX_LINES))?;
    let mut inputs = vec![(check.cases.clone(), hash::hash_bytes(&bytes))];
    let mut files = Vec::new();
    for path in &check.files {
        let real = locate(path)?;
        let hash = hash_tree(&real).map_err(|source| error(path, source.to_string(), WRITE_IT))?;
        inputs.push((path.clone(), hash));
        // The name is the written one: the link's name, not the name of its target.
        files.push(ground.resolve(path));
    }
    let program = resolve::heldout_program(&check.run, env);
    Ok(Check { name: check.name.clone(), run: check.run.clone(), program, files, cases, inputs })
}

/// The real path of a file or folder that no maker sees.
fn hidden(path: &str, ground: &PathRoots, shown: &[PathBuf]) -> Result<PathBuf, (String, &'static str)> {
    let real = ground.resolve_real(path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => ("is not there".to_owned(), WRITE_IT),
        _ => (format!("cannot be read: {error}"), WRITE_IT),
    })?;
    if ground.is_in_repo(&real) {
        return Err(("is inside the repository, where the maker reads it".to_owned(), MOVE_OUT));
    }
    let public = PUBLIC.iter().map(Path::new).chain(shown.iter().map(PathBuf::as_path));
    for place in public {
        if real.starts_with(place) {
            return Err((format!("is in `{}`, which every maker sees", place.display()), MOVE_OUT));
        }
    }
    Ok(real)
}

fn plain(path: &Path) -> io::Result<Vec<u8>> {
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::other("is not a plain file"));
    }
    let mut bytes = Vec::new();
    fs::File::open(path)?.take(CASES_BYTES_MAX as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The hash of a file, or of everything in a folder with its names.
fn hash_tree(path: &Path) -> io::Result<String> {
    let (mut fields, mut bytes_left) = (Vec::new(), FILES_BYTES_MAX);
    let mut left = vec![(path.to_owned(), PathBuf::new(), FolderDepth::default())];
    while let Some((path, name, depth)) = left.pop() {
        let found = fs::symlink_metadata(&path)?;
        bytes_left = bytes_left.checked_sub(found.len()).ok_or_else(|| io::Error::other("is larger than is read"))?;
        if fields.len() > 2 * FILES_MAX {
            return Err(io::Error::other("has more files than are read"));
        }
        fields.push(name.as_os_str().as_encoded_bytes().to_vec());
        fields.push(content(&path, &found)?);
        if found.is_dir() {
            let depth = depth.child()?;
            let mut entries = fs::read_dir(&path)?.collect::<io::Result<Vec<_>>>()?;
            entries.sort_by_key(|entry| std::cmp::Reverse(entry.file_name()));
            left.extend(entries.iter().map(|entry| (entry.path(), name.join(entry.file_name()), depth)));
        }
    }
    let fields: Vec<&[u8]> = fields.iter().map(Vec::as_slice).collect();
    Ok(hash::hash_fields(&fields))
}

/// The bytes that represent one file, link or folder in the hash.
fn content(path: &Path, found: &fs::Metadata) -> io::Result<Vec<u8>> {
    if found.is_dir() {
        return Ok(b"folder".to_vec());
    }
    if found.is_symlink() {
        return Ok(fs::read_link(path)?.into_os_string().into_encoded_bytes());
    }
    if !found.is_file() {
        return Err(io::Error::other("holds something that is neither file nor folder"));
    }
    let mut bytes = Vec::new();
    fs::File::open(path)?.take(found.len().saturating_add(1)).read_to_end(&mut bytes)?;
    Ok(hash::hash_bytes(&bytes).into_bytes())
}

impl GateRunner<'_> {
    /// Runs every held-out check on a commit (in a round, the sealed candidate's), in order. As with gates, all of them
    /// run.
    ///
    /// # Errors
    /// A checkout cannot be created, or the run was cancelled.
    pub async fn heldout(&self, checks: &HeldoutChecks, commit: &Oid) -> Result<Vec<GateResult>, GatesError> {
        let mut results = Vec::with_capacity(checks.checks.len());
        for check in &checks.checks {
            results.push(self.one_heldout(check, commit).await?);
        }
        Ok(results)
    }

    async fn one_heldout(&self, check: &Check, commit: &Oid) -> Result<GateResult, GatesError> {
        if let GateProgram::Missing(name) = &check.program {
            return Ok(not_started(&check.name, GateStatus::Failed, &format!("`{name}` is not installed")));
        }
        let (kind, extra) = (SnapshotKind::WithGit, self.views.extra_lower());
        let commit = self.apart_from_tests(check, commit).await?;
        let snapshot = self.workspaces.snapshot(self.workspace, "gate", &commit, kind, &extra).await?;
        let private = self.workspace.root.join("gate-private");
        let result = self.answer(check, &snapshot.files, &private).await;
        self.workspaces.drop_snapshots(self.workspace, [private, snapshot.root]);
        result
    }

    /// The commit without the suites that runners find by their names: code that is correct only beside its tests is
    /// wrong. A suite that a manifest names stays, because the project could not be built without it.
    async fn apart_from_tests(&self, check: &Check, commit: &Oid) -> Result<Oid, GatesError> {
        let engine = self.workspaces.engine();
        let manifest = engine.read_blob(commit, "Cargo.toml", MANIFEST_BYTES_MAX).await?.unwrap_or_default();
        let names_suites = String::from_utf8_lossy(&manifest).contains("[[test]]");
        let is_needed = |path: &str| {
            (names_suites && path.ends_with(".rs"))
                || check.run.iter().any(|word| word.trim_start_matches("./") == path)
        };
        let paths = engine.paths(commit).await?;
        let suites: Vec<String> = paths.iter().filter(|path| is_suite(path) && !is_needed(path)).cloned().collect();
        if suites.is_empty() {
            return Ok(commit.clone());
        }
        Ok(self.workspaces.commit_without(self.workspace, commit, &suites).await?)
    }

    async fn answer(&self, check: &Check, files: &CheckoutFiles, private: &Path) -> Result<GateResult, GatesError> {
        let failed = |source| GatesError::Io { gate: check.name.clone(), source };
        let [home, tmp, copies] = private_folders(private, ["home", "tmp", "heldout"]).map_err(failed)?;
        let seat = ProgramFolders { files, home: &home, tmp: &tmp };
        self.views.copy_setup_layer(seat).map_err(failed)?;
        // The view gets no network route: held-out inputs could leave through any route.
        let room = self.views.gate(seat, &EgressRoute::default(), &MachineProfile::first(self.views.layer()));
        let (room, place) = show(room, &check.files, copies).map_err(failed)?;
        let mut spawn = check.spawn(sandbox_view::host_folder(files), TreeCookie::new(self.cookie), &place);
        spawn.env.extend(room.env(&home, &tmp));
        // The program must behave as on a user's machine, where `CI` is not set.
        spawn.env.remove(OsStr::new("CI"));
        self.add_vars(&mut spawn);
        let ended = match self.proc.run(room.confine_spawn(spawn), &mut (), self.cancel, |_| ()).await {
            Ok(ended) => ended,
            Err(error) => return Ok(unstartable(check, &error.to_string())),
        };
        let end = end_of(&ended).ok_or_else(|| GatesError::Cancelled(check.name.clone()))?;
        let mut result = judge(&check.name, &check.cases, end, ended.stdout.complete_bytes().as_deref());
        result.duration_ms = u64::try_from(ended.wall.as_millis()).unwrap_or(u64::MAX);
        Ok(result)
    }
}

impl Check {
    fn spawn(&self, checkout: &Path, cookie: TreeCookie, place: &Path) -> SpawnRequest {
        let mut spawn = SpawnRequest::new(self.program.path_in(checkout), checkout, cookie);
        spawn.args = self.run.iter().skip(1).map(|word| located(word, place)).collect();
        spawn.env.insert(PLACE_VAR.into(), place.into());
        spawn.stdin = StdinSource::Bytes(self.cases.input());
        spawn.limits = RunLimits {
            wall: Some(HELDOUT_TIMEOUT),
            keep_head: ANSWERS_BYTES_MAX,
            keep_tail: 0,
            output_max: 2 * ANSWERS_BYTES_MAX as u64,
            ..RunLimits::default()
        };
        spawn
    }
}

/// Shows `files` in the sandbox view and returns their paths there. Without kernel isolation nothing can be mounted, so
/// they are copied.
fn show(room: SandboxView, files: &[PathBuf], copies: PathBuf) -> io::Result<(SandboxView, PathBuf)> {
    if room.confine().is_none() {
        for (file, name) in files.iter().filter_map(|file| Some((file, file.file_name()?))) {
            copy(&file.canonicalize()?, &copies.join(name))?;
        }
        return Ok((room, copies));
    }
    let mut room = room;
    for file in files {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        room = room.with_path_shown(&file.canonicalize()?, &format!("{}/{name}", inside::HELDOUT));
    }
    Ok((room, PathBuf::from(inside::HELDOUT)))
}

/// Copies a file or a folder over what an earlier one left, as a later mount covers an earlier one.
fn copy(from: &Path, to: &Path) -> io::Result<()> {
    let mut left = vec![(from.to_owned(), to.to_owned(), FolderDepth::default())];
    while let Some((from, to, depth)) = left.pop() {
        let found = fs::symlink_metadata(&from)?;
        if found.is_dir() {
            let depth = depth.child()?;
            fs::create_dir_all(&to)?;
            for entry in fs::read_dir(&from)? {
                let entry = entry?;
                left.push((entry.path(), to.join(entry.file_name()), depth));
            }
        } else if found.is_symlink() {
            std::os::unix::fs::symlink(fs::read_link(&from)?, &to)?;
        } else if found.is_file() {
            fs::copy(&from, &to)?;
        } else {
            return Err(io::Error::other(format!("`{}` is no file, link or folder", from.display())));
        }
    }
    Ok(())
}

/// A word of the command, with the path of `files` replaced by the path in this view.
fn located(word: &str, place: &Path) -> OsString {
    match word.strip_prefix(inside::HELDOUT) {
        Some("") => place.into(),
        Some(rest) if rest.starts_with('/') => place.join(rest.trim_start_matches('/')).into(),
        _ => word.into(),
    }
}

/// The run's end, or `None` if it was cancelled.
fn end_of(ended: &FinishedRun) -> Option<HeldoutRunEnd> {
    Some(match ended.how {
        RunEnd::Exited(code) => HeldoutRunEnd::Exited(code),
        RunEnd::Signaled(_) | RunEnd::Stopped | RunEnd::Finished => HeldoutRunEnd::Signalled,
        RunEnd::Wall | RunEnd::Idle => HeldoutRunEnd::Late,
        RunEnd::Flood | RunEnd::Disk => HeldoutRunEnd::Flooded,
        RunEnd::Cancelled => return None,
    })
}

/// A program that the candidate should contain and that cannot be started is the candidate's fault. A missing program
/// of this machine is no evidence about the candidate.
fn unstartable(check: &Check, why: &str) -> GateResult {
    let (status, why) = match check.program {
        GateProgram::Script(_) => (GateStatus::Rejected, "the candidate's program cannot be started"),
        GateProgram::Installed(_) | GateProgram::Missing(_) => (GateStatus::Failed, why),
    };
    not_started(&check.name, status, why)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_abyss_is_neither_hashed_nor_copied() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let (from, to) = (dir.path().join("from"), dir.path().join("to"));
        fs::create_dir_all(from.join("a")).expect("a folder can be made");
        fs::write(from.join("a/b"), "case").expect("a file can be written");
        let hash = hash_tree(&from).expect("it is read");
        copy(&from, &to).expect("it is copied");
        assert_eq!(hash_tree(&to).expect("it is read"), hash);
        crate::depth::tests::deep(&from, 2_000);
        for error in [hash_tree(&from).map(drop), copy(&from, &dir.path().join("other"))] {
            let error = error.expect_err("a tree this deep is refused");
            assert!(error.to_string().contains("deep"), "{error}");
        }
        crate::workspace::remove_tree(dir.path()).expect("it can be removed");
    }
}
