//! Copies that start from an earlier round's checkout: whatever its maker did, the next round finds exactly what a new copy
//! would hold, and a checkout is never anybody's but one round's.
#![expect(clippy::unwrap_used, reason = "tests")]

mod git_fixture;

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use git_fixture::{Fixture, bytes_of, git, inodes, refusals, seal, write};
use loopwright::git::{Git, Oid};
use loopwright::seam::{Moment, Seam, SeamFault, SeamHook};
use loopwright::workspace::{Making, Method, Reuse, Workspace, Workspaces};
use proptest::prelude::*;
use rustix::fs::{CWD, FileType, XattrFlags, llistxattr, lsetxattr, mknodat};

fn pooled() -> Making {
    Making { reuse: Reuse::Slot, ..Making::default() }
}

async fn create(all: &Workspaces, round: &str, base: &Oid) -> Workspace {
    all.create("fixer", round, base, &pooled()).await.unwrap()
}

async fn end(all: &Workspaces, workspace: &Workspace) {
    all.give_back(workspace).await.unwrap();
    all.discard(&workspace.round).await.unwrap();
}

fn repo_dir(fixture: &Fixture, all: &Workspaces) -> PathBuf {
    fixture.state().join("workspaces").join(&all.repo().id)
}

fn slots(fixture: &Fixture, all: &Workspaces) -> usize {
    fs::read_dir(repo_dir(fixture, all).join("slots")).unwrap().count()
}

/// A repository with enough files that most of them outlive a few edits, and a file whose content git cannot tell from
/// another of the same object.
fn repository() -> Fixture {
    let fixture = Fixture::new();
    for folder in ["lib", "lib/inner", "docs", "docs/a/b", "tests"] {
        for number in 0..6 {
            fixture.write(&format!("{folder}/f{number}.txt"), &format!("{folder} {number}\n"));
        }
    }
    fixture.write(".gitattributes", "*.id ident\n");
    fixture.write("src/version.id", "$Id$\n");
    fixture.commit_all("more");
    fixture
}

/// Commits with all kinds of differences from the first.
fn bases(fixture: &Fixture) -> Vec<Oid> {
    let repo = fixture.repo();
    let first = git(&repo, &["rev-parse", "HEAD"]).parse().unwrap();
    fixture.write("lib/f1.txt", "other\n");
    fs::set_permissions(repo.join("lib/f2.txt"), fs::Permissions::from_mode(0o755)).unwrap();
    fs::remove_file(repo.join("tests/f3.txt")).unwrap();
    fixture.write("tests/new/deep.txt", "new\n");
    let second = fixture.commit_all("other files");
    fs::remove_dir_all(repo.join("docs/a")).unwrap();
    fixture.write("docs/a", "a file now\n");
    fs::remove_file(repo.join("lib/f0.txt")).unwrap();
    fixture.write("lib/f0.txt/inside", "a folder now\n");
    fs::remove_file(repo.join("run.sh")).unwrap();
    symlink("lib/f3.txt", repo.join("run.sh")).unwrap();
    let third = fixture.commit_all("other kinds");
    fixture.write(".gitattributes", "*.id ident\n*.txt text eol=crlf\n");
    let fourth = fixture.commit_all("other attributes");
    vec![first, second, third, fourth]
}

/// Everything in a checkout but its repository, with attributes and the number of links.
fn tree(root: &Path) -> BTreeMap<PathBuf, (u32, Vec<u8>, u64, usize)> {
    let mut all = bytes_of(root);
    all.retain(|path, _| !path.starts_with(".git"));
    let about = |path: &Path| {
        let place = root.join(path);
        let meta = fs::symlink_metadata(&place).unwrap();
        (meta.nlink(), llistxattr(&place, &mut [0_u8; 1024]).unwrap_or(0))
    };
    all.into_iter().map(|(path, (mode, bytes))| (path.clone(), (mode, bytes, about(&path).0, about(&path).1))).collect()
}

/// That a workspace is what a fresh copy of its base is, and is seen so by git and by the seal.
async fn assert_fresh(all: &Workspaces, workspace: &Workspace) {
    let copy = all.create("fixer", "fresh-copy", &workspace.base, &Method::Copy.into()).await.unwrap();
    assert_eq!(tree(&workspace.dir), tree(&copy.dir));
    let repository = |workspace: &Workspace| {
        let mut all = bytes_of(&workspace.dir.join(".git"));
        all.retain(|path, _| path != Path::new("index") && path != Path::new("HEAD") && !path.starts_with("refs"));
        all
    };
    assert_eq!(repository(workspace), repository(&copy));
    assert_eq!(git(&workspace.dir, &["status", "--porcelain", "--ignored"]), "");
    assert_eq!(git(&workspace.dir, &["rev-parse", "HEAD"]), workspace.base.as_str());
    let sealed = seal(all, workspace).await;
    assert!(sealed.is_unchanged() && sealed.tree == seal(all, &copy).await.tree && refusals(&sealed).is_empty());
}

#[tokio::test]
async fn next_round_keeps_the_files_that_were_not_touched() {
    let fixture = repository();
    let (all, base) = (fixture.workspaces().await, fixture.head().await);
    let first = create(&all, "r1", &base).await;
    assert_eq!(first.kept_files(), None);
    let inode = |workspace: &Workspace, path: &str| fs::symlink_metadata(workspace.dir.join(path)).unwrap().ino();
    let before = ["docs/f0.txt", "tests", "lib/f1.txt", "lib/f2.txt"].map(|path| inode(&first, path));
    write(&first.dir, "lib/f2.txt", "changed\n");
    end(&all, &first).await;
    assert_eq!(slots(&fixture, &all), 1);
    let second = create(&all, "r2", &base).await;
    let after = ["docs/f0.txt", "tests", "lib/f1.txt", "lib/f2.txt"].map(|path| inode(&second, path));
    assert_eq!((before[..3].to_vec(), slots(&fixture, &all)), (after[..3].to_vec(), 0));
    assert_ne!(before[3], after[3]);
    assert_eq!(second.kept_files(), Some(tree(&second.dir).values().filter(|file| file.0 & 0o40000 == 0).count() - 1));
    assert_fresh(&all, &second).await;
}

#[tokio::test]
async fn each_kind_of_change_is_undone() {
    let fixture = repository();
    let commits = bases(&fixture);
    let all = fixture.workspaces().await;
    for what in 0..EDITS {
        for base in [&commits[0], &commits[2]] {
            let first = create(&all, "r1", &commits[0]).await;
            Edit { what, one: 0, two: 3 }.make(&first.dir);
            Edit { what, one: 2, two: 8 }.make(&first.dir);
            end(&all, &first).await;
            let second = create(&all, "r2", base).await;
            assert!(second.kept_files().is_some(), "edit {what}");
            assert_fresh(&all, &second).await;
            // Thrown away, so that the next one starts from a fresh copy.
            all.discard("r2").await.unwrap();
        }
    }
}

/// The filters of git make one object of many contents, so only the change time tells these apart.
#[tokio::test]
async fn content_that_git_takes_for_the_same_is_written_anew() {
    let fixture = repository();
    let (all, base) = (fixture.workspaces().await, fixture.head().await);
    let first = create(&all, "r1", &base).await;
    sneak(&first.dir.join("src/version.id"), |bytes| bytes[10] = b'!');
    end(&all, &first).await;
    let second = create(&all, "r2", &base).await;
    assert!(second.kept_files().is_some());
    assert_fresh(&all, &second).await;
}

/// There are ways to change a file that leave all its times as they were; here the record is made to agree.
#[tokio::test]
async fn content_that_no_time_gives_away_is_found_by_reading() {
    let fixture = repository();
    let (all, base) = (fixture.workspaces().await, fixture.head().await);
    let first = create(&all, "r1", &base).await;
    let file = first.dir.join("lib/f1.txt");
    sneak(&file, |bytes| bytes[0] = b'X');
    let meta = fs::symlink_metadata(&file).unwrap();
    let path = first.root.join("manifest");
    let records = fs::read(&path).unwrap();
    let forged = records.split_inclusive(|byte| *byte == 0).map(|record| {
        let text = String::from_utf8(record.to_vec()).unwrap();
        if !text.ends_with(" lib/f1.txt\0") {
            return text;
        }
        let mut words: Vec<String> = text.split(' ').map(str::to_owned).collect();
        (words[9], words[10]) = (meta.ctime().to_string(), meta.ctime_nsec().to_string());
        words.join(" ")
    });
    fs::write(&path, forged.collect::<String>()).unwrap();
    let closed = fs::File::options().write(true).open(first.root.join("base")).unwrap();
    let changed = u64::try_from(meta.ctime()).unwrap();
    let changed = std::time::Duration::new(changed, u32::try_from(meta.ctime_nsec()).unwrap() + 1);
    closed.set_modified(std::time::UNIX_EPOCH + changed).unwrap();
    end(&all, &first).await;
    let second = create(&all, "r2", &base).await;
    let files = tree(&second.dir).values().filter(|file| file.0 & 0o40000 == 0).count();
    assert_eq!(second.kept_files(), Some(files), "the forged record was believed");
    assert_fresh(&all, &second).await;
}

/// What carries the time at which the records were closed may have been changed right after it was recorded.
#[tokio::test]
async fn records_that_are_too_young_or_from_the_future_are_not_believed() {
    let fixture = repository();
    let (all, base) = (fixture.workspaces().await, fixture.head().await);
    for seconds in [0, 1 << 33] {
        let first = create(&all, "r1", &base).await;
        let closed = fs::File::options().write(true).open(first.root.join("base")).unwrap();
        closed.set_modified(std::time::UNIX_EPOCH + std::time::Duration::from_secs(seconds)).unwrap();
        end(&all, &first).await;
        let second = create(&all, "r2", &base).await;
        assert_eq!(second.kept_files(), None);
        assert_fresh(&all, &second).await;
        all.discard("r2").await.unwrap();
    }
}

#[tokio::test]
async fn checkout_in_which_little_is_left_is_thrown_away() {
    let fixture = repository();
    let (all, base) = (fixture.workspaces().await, fixture.head().await);
    let first = create(&all, "r1", &base).await;
    for folder in ["lib", "docs", "tests"] {
        fs::remove_dir_all(first.dir.join(folder)).unwrap();
    }
    end(&all, &first).await;
    let second = create(&all, "r2", &base).await;
    assert_eq!((second.kept_files(), slots(&fixture, &all)), (None, 0));
    assert_fresh(&all, &second).await;
}

/// Attributes say how an object becomes a file.
#[tokio::test]
async fn checkout_with_other_attributes_is_thrown_away() {
    let fixture = repository();
    let commits = bases(&fixture);
    let all = fixture.workspaces().await;
    let first = create(&all, "r1", &commits[2]).await;
    end(&all, &first).await;
    let second = create(&all, "r2", &commits[3]).await;
    assert_eq!(second.kept_files(), None);
    assert_fresh(&all, &second).await;
}

#[tokio::test]
async fn one_checkout_goes_to_one_round() {
    let fixture = repository();
    let base = fixture.head().await;
    // Each has its own locks, as another process has.
    let all: Vec<Workspaces> = vec![fixture.workspaces().await, fixture.workspaces().await];
    for time in 0..4 {
        for workspace in [create(&all[0], "a", &base).await, create(&all[0], "b", &base).await] {
            end(&all[0], &workspace).await;
        }
        let tasks: Vec<_> = (0..8)
            .map(|n| {
                let (all, base) = (all[n % 2].clone(), base.clone());
                tokio::spawn(async move { create(&all, &format!("r{time}-{n}"), &base).await })
            })
            .collect();
        let mut made = Vec::new();
        for task in tasks {
            made.push(task.await.unwrap());
        }
        let kept = made.iter().filter(|workspace| workspace.kept_files().is_some()).count();
        assert_eq!((kept, slots(&fixture, &all[0])), (2, 0));
        let files: usize = made.iter().map(|workspace| inodes(&workspace.dir).len()).sum();
        let together: BTreeMap<_, _> = made.iter().flat_map(|workspace| inodes(&workspace.dir)).collect();
        assert_eq!(together.len(), files, "a file is in two rounds");
        for workspace in &made {
            assert_fresh(&all[0], workspace).await;
            all[0].discard(&workspace.round).await.unwrap();
        }
    }
}

/// Faults the n-th call of git.
struct Nth(AtomicI64, Moment);

impl SeamHook for Nth {
    fn hit(&self, moment: Moment, site: &'static str) -> Result<(), SeamFault> {
        let is_it = moment == self.1 && self.0.fetch_sub(1, Ordering::Relaxed) == 0;
        if is_it { Err(SeamFault { site, when: "then" }) } else { Ok(()) }
    }
}

#[tokio::test]
async fn reset_that_fails_anywhere_leaves_a_whole_copy_or_nothing() {
    for moment in [Moment::Before, Moment::After] {
        for n in 0.. {
            let fixture = repository();
            let (all, base) = (fixture.workspaces().await, fixture.head().await);
            let first = create(&all, "r1", &base).await;
            write(&first.dir, "lib/f2.txt", "changed\n");
            end(&all, &first).await;
            let hook = Arc::new(Nth(AtomicI64::new(n), moment));
            let repo = fixture.git.discover(&fixture.repo()).await.unwrap();
            let git = Git::new(Seam::hooked(Arc::clone(&hook) as Arc<dyn SeamHook>));
            let Ok(faulty) = Workspaces::open(git, &fixture.state(), repo).await else { continue };
            match faulty.create("fixer", "r2", &base, &pooled()).await {
                Ok(second) => assert_fresh(&all, &second).await,
                Err(_) => assert_eq!(all.reopen("r2").unwrap(), None),
            }
            assert_eq!(slots(&fixture, &all), 0, "a slot that was taken is not seen again");
            if hook.0.load(Ordering::Relaxed) >= 0 {
                assert!(n > 1, "a reset calls git");
                break;
            }
        }
    }
}

#[tokio::test]
async fn what_a_crash_leaves_of_a_reset_is_never_used() {
    let fixture = repository();
    let (all, base) = (fixture.workspaces().await, fixture.head().await);
    let first = create(&all, "r1", &base).await;
    end(&all, &first).await;
    let repo = repo_dir(&fixture, &all);
    let half = repo.join("rounds/.half-r2-1-0");
    write(&half, "owned-by-loopwright", "");
    fs::rename(repo.join("slots/0"), half.join("taken")).unwrap();
    fs::create_dir(half.join("work")).unwrap();
    fs::rename(half.join("taken/work/lib"), half.join("work/lib")).unwrap();
    // Half of a way back.
    write(&repo, "trash/slot-1-0/owned-by-loopwright", "");
    write(&repo, "trash/slot-1-0/work/x", "x");
    assert_eq!(all.reopen("r2").unwrap(), None);
    // What the first round left may go in the background meanwhile, so not all of it is counted.
    assert!(all.sweep().await.unwrap() >= 2);
    assert!(!half.exists() && !repo.join("trash/slot-1-0").exists());
    let second = create(&all, "r2", &base).await;
    assert_eq!(second.kept_files(), None);
    assert_fresh(&all, &second).await;
}

#[tokio::test]
async fn checkouts_that_cannot_be_believed_are_not_kept() {
    let fixture = repository();
    let (all, base) = (fixture.workspaces().await, fixture.head().await);
    for (round, making) in [("r1", Making::from(Method::Copy)), ("r2", Making::from(Method::Overlay))] {
        let workspace = all.create("fixer", round, &base, &making).await.unwrap();
        all.give_back(&workspace).await.unwrap();
        assert!(workspace.dir.exists());
    }
    assert_eq!(slots(&fixture, &all), 0);
    let first = create(&all, "r3", &base).await;
    write(&first.root, "manifest", "cut sho");
    end(&all, &first).await;
    let second = create(&all, "r4", &base).await;
    assert_eq!(second.kept_files(), None);
    assert_fresh(&all, &second).await;
}

#[tokio::test]
async fn few_checkouts_wait_and_gc_removes_them() {
    let fixture = repository();
    let (all, base) = (fixture.workspaces().await, fixture.head().await);
    let mut made = Vec::new();
    for n in 0..4 {
        made.push(create(&all, &format!("r{n}"), &base).await);
    }
    for workspace in &made {
        end(&all, workspace).await;
    }
    assert_eq!(slots(&fixture, &all), 2);
    let engine = loopwright::Engine::open(loopwright::Settings::new(fixture.state())).await.unwrap();
    let retention = loopwright::gc::Retention { rounds_before_ms: 0, logs_before_ms: 0 };
    for (mode, left) in [(loopwright::gc::GcMode::List, 2), (loopwright::gc::GcMode::Remove, 0)] {
        let found = engine.gc(retention, mode).await.unwrap();
        let found =
            found.removed.iter().filter(|one| one.kind == loopwright::gc::GcKind::Slot && one.bytes > 0).count();
        assert_eq!((found, slots(&fixture, &all)), (2, left));
    }
    engine.close().await.unwrap();
}

/// Changes bytes of a file and gives it back the modification time it had; its size stays too.
fn sneak(path: &Path, change: impl FnOnce(&mut [u8])) {
    let before = fs::metadata(path).unwrap().modified().unwrap();
    let mut bytes = fs::read(path).unwrap();
    change(&mut bytes);
    fs::write(path, bytes).unwrap();
    fs::File::options().write(true).open(path).unwrap().set_modified(before).unwrap();
}

/// Something that a hostile maker does.
#[derive(Debug, Clone, Copy)]
struct Edit {
    what: u8,
    one: usize,
    two: usize,
}

const EDITS: u8 = 22;
const PLACES: [&str; 13] = [
    "lib/f1.txt",
    "lib/inner/f0.txt",
    "docs/a/b/f2.txt",
    "tests/f3.txt",
    "lib/f0.txt",
    "run.sh",
    "link",
    ".gitattributes",
    "src/version.id",
    "docs/a",
    "lib/inner",
    "tests",
    "docs",
];

impl Edit {
    /// What does not work out because of an earlier edit is left.
    fn make(self, root: &Path) {
        let _ = self.try_make(root);
    }

    fn try_make(self, root: &Path) -> std::io::Result<()> {
        let (one, two) = (root.join(PLACES[self.one % PLACES.len()]), root.join(PLACES[self.two % PLACES.len()]));
        let folder = if one.is_dir() { one.clone() } else { one.parent().unwrap().to_owned() };
        let away = root.join("away");
        let clear = |path: &Path| if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
        let mode = |mode| fs::set_permissions(&one, fs::Permissions::from_mode(mode));
        match self.what {
            0 if one.is_file() => sneak(&one, |bytes| bytes[0] ^= 1),
            1 => fs::write(&one, "other content\n")?,
            2 => mode(0o777)?,
            3 => mode(0o4755)?,
            4 => clear(&one).and_then(|()| symlink("/etc/passwd", &one))?,
            5 => fs::rename(&one, &away).and_then(|()| symlink(&away, &one))?,
            6 => clear(&one).and_then(|()| fs::create_dir_all(one.join("in/side")))?,
            7 if folder != root => clear(&folder).and_then(|()| fs::write(&folder, "a file"))?,
            8 => clear(&two).and_then(|()| fs::hard_link(&one, &two))?,
            9 => fs::hard_link(&one, root.join("target-link"))?,
            10 => fs::write(folder.join("added.txt"), "added\n")?,
            11 => {
                fs::create_dir_all(folder.join("target/deep/empty"))?;
                fs::write(folder.join("target/out"), "ignored\n")?;
            }
            12 => clear(&one)?,
            13 => {
                fs::create_dir_all(folder.join(".git/hooks"))?;
                fs::write(folder.join(".git/HEAD"), "ref: refs/heads/x\n")?;
                fs::write(root.join(".git/config"), "[core]\n\tfsmonitor = touch /tmp/owned\n")?;
                let _ = fs::create_dir(root.join(".git/hooks"));
                fs::write(root.join(".git/hooks/post-checkout"), "#!/bin/sh\n")?;
            }
            14 => lsetxattr(&one, c"user.mark", b"1", XattrFlags::empty())?,
            15 => clear(&one).and_then(|()| Ok(mknodat(CWD, &one, FileType::Fifo, 0o644.into(), 0)?))?,
            16 => fs::write(folder.join(OsStr::from_bytes(b"we\nird\xff name")), "weird\n")?,
            17 => {
                fs::rename(&one, &away).and_then(|()| fs::rename(&two, &one)).and_then(|()| fs::rename(&away, &two))?
            }
            18 if folder != root => {
                fs::rename(&folder, &away)?;
                fs::create_dir(&folder)?;
                for entry in fs::read_dir(&away)? {
                    let entry = entry?;
                    fs::rename(entry.path(), folder.join(entry.file_name()))?;
                }
            }
            19 => fs::set_permissions(&folder, fs::Permissions::from_mode(0o711))?,
            20 => lsetxattr(&folder, c"user.mark", b"1", XattrFlags::empty())?,
            21 => fs::write(&one, fs::read(&one)?)?,
            _ => {}
        }
        Ok(())
    }
}

fn edit() -> impl Strategy<Value = Edit> {
    (0..EDITS, 0..PLACES.len(), 0..PLACES.len()).prop_map(|(what, one, two)| Edit { what, one, two })
}

/// A few in every run; more by `PROPTEST_CASES`.
fn trials() -> ProptestConfig {
    let asked = ProptestConfig::default();
    let cases = if asked.cases == 256 { 12 } else { asked.cases };
    ProptestConfig { cases, max_shrink_iters: 100, failure_persistence: None, ..asked }
}

proptest! {
    #![proptest_config(trials())]

    #[test]
    fn reset_of_whatever_a_maker_left_is_what_a_new_copy_is(
        rounds in prop::collection::vec((prop::collection::vec(edit(), 0..5), 0..4_usize), 2..4)
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let fixture = repository();
            let commits = bases(&fixture);
            let all = fixture.workspaces().await;
            let mut workspace = create(&all, "r0", &commits[0]).await;
            for (n, (edits, base)) in rounds.iter().enumerate() {
                edits.iter().for_each(|edit| edit.make(&workspace.dir));
                end(&all, &workspace).await;
                workspace = create(&all, &format!("r{}", n + 1), &commits[*base]).await;
                assert_fresh(&all, &workspace).await;
            }
        });
    }
}
