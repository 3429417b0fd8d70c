//! Workspaces as layers on the real kernel: changes by a program in the overlay seal to the same tree as the same
//! changes in a copy, views of commits look like checkouts of them, and shared layers stay unchanged.
#![expect(clippy::unwrap_used, reason = "tests")]

mod git_fixture;
mod overlay_fixture;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;

use git_fixture::{Fixture, bytes_of, create, git, refusals, seal, statuses};
use loopwright::git::{Git, Oid};
use loopwright::seam::{Seam, SeamFault, SeamHook, SeamMoment};
use loopwright::workspace::{
    CheckoutFiles, CheckoutMethod, LeftoverScope, NameProblem, SealLimits, SealRefusal, SnapshotKind, Workspace,
    WorkspaceError, WorkspaceOptions, Workspaces, sweep,
};
use overlay_fixture::{inside, look};
use proptest::prelude::*;

async fn overlay(all: &Workspaces, round: &str, base: &Oid) -> Workspace {
    create(all, round, base, CheckoutMethod::Overlay).await
}

#[tokio::test]
async fn overlay_is_a_clean_private_clone_at_the_base() {
    let fixture = Fixture::new();
    let (_, workspace) = fixture.workspace_by(CheckoutMethod::Overlay).await;
    let status =
        inside(&workspace.files, "git status --porcelain --branch; git rev-parse HEAD; git remote; git fsck --strict");
    assert_eq!(status, format!("## loop/fixer/r1\n{}\n", workspace.base));
    assert_eq!(look(&workspace.files), look(&CheckoutFiles::Folder(fixture.repo())));
    let commit = "echo x > x; git add -A; git commit -q -m 'makers can commit'; git log --format=%s; git branch -m other; git gc -q; git fsck";
    assert_eq!(inside(&workspace.files, commit), "makers can commit\nbase\n");
    for dir in [&workspace.root, &workspace.dir, &workspace.home, &workspace.tmp, &workspace.outbox] {
        assert_eq!(fs::metadata(dir).unwrap().permissions().mode() & 0o777, 0o700, "{}", dir.display());
    }
}

#[tokio::test]
async fn shared_layers_stay_unchanged_under_any_maker() {
    let fixture = Fixture::new();
    let (all, workspace) = fixture.workspace_by(CheckoutMethod::Overlay).await;
    let before = bytes_of(&fixture.folder(&all, "bases"));
    inside(
        &workspace.files,
        "chmod -R u+w . ; find . -type f | while read f; do echo ruined > \"$f\"; done; rm -rf src .git/objects; chmod 000 run.sh; ln -f .gitignore hard",
    );
    assert_eq!(bytes_of(&fixture.folder(&all, "bases")), before);
    let next = overlay(&all, "r2", &workspace.base).await;
    assert_eq!(inside(&next.files, "git status --porcelain; git fsck --strict"), "");
}

#[tokio::test]
async fn seal_records_every_kind_of_change() {
    let fixture = Fixture::new();
    let (all, workspace) = fixture.workspace_by(CheckoutMethod::Overlay).await;
    inside(
        &workspace.files,
        "printf 'one\\nTWO\\nthree\\n' > src/a.txt; mkdir new; echo n > 'new/file with space.txt'; mv src/deep/b.txt src/deep/c.txt; \
         chmod -x run.sh; rm link; echo f > link; ln -s ../src/a.txt new/inside; mkdir target; echo ignored > target/x; touch x.sock",
    );
    let sealed = seal(&all, &workspace).await;
    assert_eq!(refusals(&sealed), [""; 0]);
    let expected = [
        "link:TypeChanged",
        "new/file with space.txt:Added",
        "new/inside:Added",
        "run.sh:Modified",
        "src/a.txt:Modified",
        "src/deep/b.txt:Deleted",
        "src/deep/c.txt:Added",
    ];
    assert_eq!(statuses(&sealed), expected);
}

#[tokio::test]
async fn names_that_differ_by_case_from_untouched_files_are_refused() {
    let fixture = Fixture::new();
    let all = fixture.workspaces().await;
    let base = fixture.head().await;
    let cases = [
        ("echo x > Run.sh; echo x > fine", vec!["Run.sh:Name(CaseCollision)"], vec!["fine:Added"]),
        ("mkdir SRC; echo x > SRC/new", vec!["SRC/new:Name(CaseCollision)"], vec![]),
        ("mkdir src/Deep; echo x > src/Deep/c", vec!["src/Deep/c:Name(CaseCollision)"], vec![]),
        // A file where another spelling is a folder, and vice versa.
        ("echo x > Src", vec!["Src:Name(CaseCollision)"], vec![]),
        ("mkdir LINK; echo x > LINK/x", vec!["LINK/x:Name(CaseCollision)"], vec![]),
        // A removed name frees its spelling; a folder does so only when all of it is removed.
        ("mv run.sh Run.sh", vec![], vec!["Run.sh:Added", "run.sh:Deleted"]),
        ("mv src/deep src/Deep", vec![], vec!["src/Deep/b.txt:Added", "src/deep/b.txt:Deleted"]),
        ("mkdir SRC; mv src/a.txt SRC/a.txt", vec!["SRC/a.txt:Name(CaseCollision)"], vec!["src/a.txt:Deleted"]),
    ];
    for (n, (script, refused, changed)) in cases.into_iter().enumerate() {
        for method in [CheckoutMethod::Overlay, CheckoutMethod::Copy] {
            let round = format!("{method:?}-{n}");
            let workspace = create(&all, &round, &base, method).await;
            inside(&workspace.files, script);
            let sealed = seal(&all, &workspace).await;
            assert_eq!((refusals(&sealed), statuses(&sealed)), (owned(&refused), owned(&changed)), "{round} {script}");
        }
    }
}

fn owned(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

#[tokio::test]
async fn untouched_or_merely_touched_overlay_seals_to_the_base() {
    let fixture = Fixture::new();
    let (all, workspace) = fixture.workspace_by(CheckoutMethod::Overlay).await;
    for script in [
        "true",
        "touch src/a.txt; chmod 600 run.sh; chmod 755 run.sh; mkdir target empty; echo i > target/i",
        "git gc -q",
    ] {
        inside(&workspace.files, script);
        let sealed = seal(&all, &workspace).await;
        assert!(sealed.is_unchanged() && sealed.refused.is_empty(), "{script}");
        assert_eq!(sealed.commit, workspace.base);
    }
}

#[tokio::test]
async fn ignore_rules_of_base_and_maker_decide_together() {
    let fixture = Fixture::new();
    fixture.write("src/.gitignore", "*.o\n");
    fixture.write("docs/.gitignore", "*.html\n");
    fixture.commit_all("rules");
    let all = fixture.workspaces().await;
    let base = fixture.head().await;
    let cases = [
        ("echo a > src/deep/a.o; echo a > src/deep/a.c", vec!["src/deep/a.c:Added"]),
        ("rm src/.gitignore; echo a > src/deep/a.o", vec!["src/.gitignore:Deleted", "src/deep/a.o:Added"]),
        (
            "rm -r src; mkdir src; echo a > src/a.o",
            vec!["src/.gitignore:Deleted", "src/a.o:Added", "src/a.txt:Deleted", "src/deep/b.txt:Deleted"],
        ),
        (
            "echo '!a.o' >> src/.gitignore; echo a > src/a.o; echo b > src/b.o",
            vec!["src/.gitignore:Modified", "src/a.o:Added"],
        ),
        (
            "rm src/.gitignore; ln -s ../docs/.gitignore src/.gitignore; echo a > src/a.o",
            vec!["src/.gitignore:TypeChanged", "src/a.o:Added"],
        ),
        (
            "mkdir -p node_modules/x; echo node_modules > docs/../.gitignore; echo a > node_modules/x/y; mkdir target; echo t > target/t",
            vec![".gitignore:Modified", "target/t:Added"],
        ),
    ];
    for (n, (script, expected)) in cases.into_iter().enumerate() {
        let workspace = overlay(&all, &format!("r{n}"), &base).await;
        inside(&workspace.files, script);
        let sealed = seal(&all, &workspace).await;
        assert_eq!(
            (statuses(&sealed), refusals(&sealed)),
            (expected.into_iter().map(str::to_owned).collect(), vec![]),
            "{script}"
        );
    }
}

#[tokio::test]
async fn unsealable_files_are_refused() {
    let fixture = Fixture::new();
    let (all, workspace) = fixture.workspace_by(CheckoutMethod::Overlay).await;
    inside(
        &workspace.files,
        "mkfifo pipe; mkfifo ignored.sock; rm run.sh; mkfifo run.sh; mkdir -p new; mkfifo new/p; echo x > new/x; git init -q nested; echo n > nested/n; \
         git init -q src/deep; ln -s /etc/passwd out",
    );
    let sealed = seal(&all, &workspace).await;
    let expected = [
        "nested:NestedRepository",
        "new/p:Special",
        "out:SymlinkOutside",
        "pipe:Special",
        "run.sh:Special",
        "src/deep/.git:NestedRepository",
    ];
    assert_eq!(refusals(&sealed), expected);
    assert_eq!(statuses(&sealed), ["new/x:Added"]);
}

#[tokio::test]
async fn request_text_in_the_upper_layer_is_never_sealed() {
    let fixture = Fixture::new();
    let (all, workspace) = fixture.workspace_by(CheckoutMethod::Overlay).await;
    inside(&workspace.files, "printf 'Title\\n' > PR_BODY.md; mkdir docs; echo o > docs/PR_BODY.md");
    let sealed = seal(&all, &workspace).await;
    assert_eq!(statuses(&sealed), ["docs/PR_BODY.md:Added"]);
}

#[tokio::test]
async fn views_of_a_sealed_commit_look_like_a_checkout_of_it() {
    let fixture = Fixture::new();
    fixture.write("only/here/x", "x\n");
    fixture.commit_all("more");
    for script in [
        "rm -r only; echo a > src/a.txt; rm -r src/deep; echo f > src/deep; rm run.sh; mkdir run.sh; echo r > run.sh/r",
        "echo '*.txt text eol=crlf' > .gitattributes",
    ] {
        let (all, workspace) = fixture.workspace_by(CheckoutMethod::Overlay).await;
        inside(&workspace.files, script);
        let sealed = seal(&all, &workspace).await;
        inside(&workspace.files, "echo swapped after the seal > src/a.txt");
        let gates = all.snapshot(&workspace, "gates", &sealed.commit, SnapshotKind::WithGit, &[]).await.unwrap();
        let copy = create(&all, "copy", &workspace.base, CheckoutMethod::Copy).await;
        let checkout = all.snapshot(&copy, "gates", &sealed.commit, SnapshotKind::WithGit, &[]).await.unwrap();
        assert_eq!(look(&gates.files), look(&checkout.files));
        let git = "git status --porcelain; git rev-parse HEAD; git fsck --strict; git diff --name-only HEAD~1";
        assert_eq!(inside(&gates.files, git), inside(&checkout.files, git));
        let reader = all.snapshot(&workspace, "check", &sealed.commit, SnapshotKind::ReadOnly, &[]).await.unwrap();
        assert_eq!(look(&reader.files), look(&checkout.files));
        assert_eq!(inside(&reader.files, "ls -d .git; echo x > src/a.txt; true"), "");
        let base = all.snapshot(&workspace, "base", &workspace.base, SnapshotKind::WithGit, &[]).await.unwrap();
        assert_eq!(look(&base.files), look(&CheckoutFiles::Folder(fixture.repo())));
    }
}

#[tokio::test]
async fn restored_paths_are_as_in_base_and_hidden_ones_are_missing() {
    let fixture = Fixture::new();
    fixture.write("tests/t.sh", "base test\n");
    fixture.write("tools/lint", "lint\n");
    fixture.write("report/junit.xml", "<old/>\n");
    fixture.commit_all("tests");
    let (all, workspace) = fixture.workspace_by(CheckoutMethod::Overlay).await;
    inside(
        &workspace.files,
        "echo cheat > tests/t.sh; rm -r tools; ln -s src tools; rm -r src/deep; echo f > src/deep; echo new > report/new.xml",
    );
    let sealed = seal(&all, &workspace).await;
    let gates = all.snapshot(&workspace, "gate", &sealed.commit, SnapshotKind::WithGit, &[]).await.unwrap();
    let paths = ["tests/t.sh", "tools/lint", "src/deep/b.txt", "not/in/base"].map(str::to_owned);
    assert_eq!(all.restore_paths(&workspace, &gates, &workspace.base, &paths).await.unwrap(), paths[..3]);
    for path in ["report/junit.xml", "report/new.xml", "none/at/all", "tools", "../../../lower", "/etc/hostname"] {
        gates.files.hide(Path::new(path)).unwrap();
    }
    assert_eq!(
        inside(&gates.files, "cat tests/t.sh src/deep/b.txt; ls -A report; ls -d tools none 2>/dev/null; true"),
        "base test\nb\n"
    );
    inside(&gates.files, "echo '<new/>' > report/junit.xml");
    assert_eq!(fs::read_to_string(gates.files.written_folder().unwrap().join("report/junit.xml")).unwrap(), "<new/>\n");
    assert_eq!(inside(&workspace.files, "cat report/junit.xml"), "<old/>\n");
}

#[tokio::test]
async fn base_near_an_anchor_is_a_delta_that_looks_like_its_checkout() {
    let fixture = Fixture::new();
    fixture.write("old/deep/x", "x\n");
    fixture.write("file", "becomes a folder\n");
    fixture.commit_all("anchor");
    let (all, first) = fixture.workspace_by(CheckoutMethod::Overlay).await;
    git(&fixture.repo(), &["rm", "-rq", "old", "file", "src/a.txt"]);
    fixture.write("file/inside", "f\n");
    fixture.write("new/y", "y\n");
    let next = fixture.commit_all("moved on");
    let second = overlay(&all, "r2", &next).await;
    let CheckoutFiles::Overlay { lower, .. } = &second.files else { panic!("an overlay") };
    assert_eq!(lower.len(), 4, "a delta over an anchor: {lower:?}");
    assert_eq!(look(&second.files), look(&CheckoutFiles::Folder(fixture.repo())));
    assert_eq!(
        inside(&second.files, "git status --porcelain; git fsck --strict; git log --format=%s"),
        "moved on\nanchor\nbase\n"
    );
    // A third lies over the anchor too, never over the delta.
    fixture.write("new/z", "z\n");
    let third = overlay(&all, "r3", &fixture.commit_all("further")).await;
    let CheckoutFiles::Overlay { lower, .. } = &third.files else { panic!("an overlay") };
    assert_eq!(lower.len(), 4);
    inside(&third.files, "echo again > src/a.txt; rm -r new");
    assert_eq!(statuses(&seal(&all, &third).await), ["new/y:Deleted", "new/z:Deleted", "src/a.txt:Added"]);
    assert_eq!(inside(&first.files, "git status --porcelain"), "");
}

#[tokio::test]
async fn base_on_another_branch_never_shows_its_anchor() {
    let fixture = Fixture::new();
    let base = fixture.head().await;
    fixture.write("answer.txt", "the answer is 42\n");
    let later = fixture.commit_all("secret answer");
    let all = fixture.workspaces().await;
    overlay(&all, "r1", &later).await;
    let older = overlay(&all, "r2", &base).await;
    assert_eq!(
        inside(
            &older.files,
            "git log --all --format=%s; git fsck --lost-found; git cat-file --batch-all-objects --batch-check | wc -l | xargs test 20 -gt; ls answer.txt 2>/dev/null; true"
        ),
        "base\n"
    );
    assert_eq!(inside(&older.files, &format!("git cat-file -e {later} 2>/dev/null && echo seen; true")), "");
}

#[tokio::test]
async fn changed_attributes_make_an_anchor() {
    let fixture = Fixture::new();
    let (all, _) = fixture.workspace_by(CheckoutMethod::Overlay).await;
    fixture.write(".gitattributes", "*.txt text eol=crlf\n");
    let next = fixture.commit_all("attributes");
    let second = overlay(&all, "r2", &next).await;
    assert_eq!(inside(&second.files, "cat src/a.txt; git status --porcelain"), "one\r\ntwo\r\n");
}

#[tokio::test]
async fn overlay_is_reopened_and_removed_with_any_leftovers() {
    let fixture = Fixture::new();
    let (all, workspace) = fixture.workspace_by(CheckoutMethod::Overlay).await;
    assert_eq!(all.reopen("r1").unwrap().as_ref(), Some(&workspace));
    inside(&workspace.files, "rm -r src; mkdir locked; echo x > locked/x; chmod 000 locked");
    all.discard("r1").await.unwrap();
    assert!(!workspace.root.exists());
    let _ = sweep(&fixture.state(), LeftoverScope::All);
    assert_eq!(fs::read_dir(fixture.folder(&all, "trash")).unwrap().count(), 0);
    assert_eq!(all.reopen("r1").unwrap(), None);
}

#[tokio::test]
async fn extra_layers_lie_over_the_base_and_are_not_sealed() {
    let fixture = Fixture::new();
    let all = fixture.workspaces().await;
    let extra = fixture.path("setup");
    git_fixture::write(&extra, "node_modules/dep/index.js", "dep\n");
    git_fixture::write(&extra, "generated", "g\n");
    let making = WorkspaceOptions {
        method: CheckoutMethod::Overlay,
        extra_lower: vec![extra.clone()],
        ..WorkspaceOptions::default()
    };
    let workspace = all.create("fixer", "r1", &fixture.head().await, &making).await.unwrap();
    assert_eq!(
        inside(&workspace.files, "cat generated; rm -r node_modules/dep; rm generated; echo n > src/new"),
        "g\n"
    );
    let sealed = seal(&all, &workspace).await;
    assert_eq!((statuses(&sealed), refusals(&sealed)), (vec!["src/new:Added".to_owned()], vec![]));
    let gate =
        all.snapshot(&workspace, "gate", &sealed.commit, SnapshotKind::WithGit, &making.extra_lower).await.unwrap();
    assert_eq!(inside(&gate.files, "cat src/new node_modules/dep/index.js"), "n\ndep\n");
    fs::create_dir(extra.join(".git")).unwrap();
    let refused = all.create("fixer", "r2", &workspace.base, &making).await;
    assert!(matches!(refused, Err(WorkspaceError::BadLayer(_))));
}

#[tokio::test]
async fn half_made_bases_are_rebuilt() {
    let fixture = Fixture::new();
    let (all, workspace) = fixture.workspace_by(CheckoutMethod::Overlay).await;
    let base = fixture.folder(&all, "bases").join(workspace.base.as_str());
    for lost in ["layers", "files", "git"] {
        let path = base.join(lost);
        if path.is_dir() {
            fs::remove_dir_all(&path).unwrap()
        } else {
            fs::remove_file(&path).unwrap()
        }
        let again = overlay(&all, "r2", &workspace.base).await;
        assert_eq!(inside(&again.files, "git status --porcelain; git fsck --strict"), "", "{lost}");
    }
}

#[tokio::test]
async fn unused_bases_are_removed_except_the_last_few() {
    let fixture = Fixture::new();
    let (all, first) = fixture.workspace_by(CheckoutMethod::Overlay).await;
    let mut commits = vec![first.base.clone()];
    for n in 1..6 {
        fixture.write("n", &format!("{n}\n"));
        commits.push(fixture.commit_all("next"));
        overlay(&all, &format!("n{n}"), &commits[n]).await;
        all.discard(&format!("n{n}")).await.unwrap();
    }
    let left = |state: &Path| {
        let names = loopwright::workspace::unused_bases(state)
            .into_iter()
            .map(|path| path.file_name().unwrap().to_str().unwrap().to_owned());
        names.collect::<std::collections::BTreeSet<_>>()
    };
    let expected = |commits: &[Oid]| commits.iter().map(ToString::to_string).collect::<std::collections::BTreeSet<_>>();
    // The first is an anchor under the others and has a round; the last three are young.
    assert_eq!(left(&fixture.state()), expected(&commits[1..3]));
    let kept = overlay(&all, "kept", &commits[1]).await;
    assert_eq!(left(&fixture.state()), expected(&commits[2..4]));
    assert_eq!(inside(&kept.files, "git status --porcelain"), "");
}

/// Fails the n-th git call, before it runs or after it took effect.
struct Nth {
    left: std::sync::atomic::AtomicI64,
    moment: SeamMoment,
}

impl SeamHook for Nth {
    fn hit(&self, moment: SeamMoment, site: &'static str) -> Result<(), SeamFault> {
        let is_ours = moment == self.moment && self.left.fetch_sub(1, std::sync::atomic::Ordering::Relaxed) == 0;
        if is_ours { Err(SeamFault { site, when: "then" }) } else { Ok(()) }
    }
}

/// Everything that makes layers: an anchor, a delta over it, a sealed commit, its views.
async fn make_layers(
    fixture: &Fixture,
    git: Git,
    commits: &[Oid],
) -> Result<(Workspace, CheckoutFiles), WorkspaceError> {
    let repo = fixture.git.discover(&fixture.repo()).await.unwrap();
    let all = Workspaces::open(git, &fixture.state(), repo).await?;
    all.create("fixer", "r1", &commits[0], &CheckoutMethod::Overlay.into()).await?;
    let workspace = all.create("fixer", "r2", &commits[1], &CheckoutMethod::Overlay.into()).await?;
    git_fixture::write(&workspace.dir, "src/a.txt", "sealed\n");
    git_fixture::write(&workspace.dir, "new", "n\n");
    let sealed = all.seal(&workspace, &git_fixture::words(), SealLimits::default()).await?;
    let view = all.snapshot(&workspace, "gate", &sealed.commit, SnapshotKind::WithGit, &[]).await?;
    Ok((workspace, view.files))
}

#[tokio::test]
async fn failure_while_layers_are_made_never_leaves_a_usable_half() {
    let mut points = 0;
    for moment in [SeamMoment::Before, SeamMoment::After] {
        for n in 0.. {
            let fixture = Fixture::new();
            let first = fixture.head().await;
            git(&fixture.repo(), &["rm", "-rq", "src/deep"]);
            let commits = [first, fixture.commit_all("moved")];
            let hook = Arc::new(Nth { left: n.into(), moment });
            let failing = Git::new(Seam::hooked(Arc::clone(&hook) as Arc<dyn SeamHook>));
            let met = make_layers(&fixture, failing, &commits).await.is_err();
            // A new process after the crash sweeps, and does everything again.
            let _ = sweep(&fixture.state(), LeftoverScope::All);
            let (workspace, view) = make_layers(&fixture, fixture.git.clone(), &commits).await.unwrap();
            let output = inside(&view, "git status --porcelain; git fsck --strict; cat src/a.txt new; ls src");
            assert_eq!(output, "sealed\nn\na.txt\n", "{moment:?} {n}");
            if !met {
                assert_eq!(inside(&workspace.files, "git log --format=%s; ls src"), "moved\nbase\na.txt\n");
                break;
            }
            points += 1;
        }
    }
    assert!(points > 40, "{points}");
}

/// One thing a maker does, as a shell command that may fail.
fn edit() -> impl Strategy<Value = String> {
    let name = prop::sample::select(vec![
        "src",
        "src/a.txt",
        "src/deep",
        "src/deep/b.txt",
        "run.sh",
        "link",
        ".gitignore",
        "lib",
        "lib/one",
        "lib/two/x",
        "new",
        "new/file",
        "new/deep/file",
        "target",
        "target/out",
        "x.sock",
        "-rf",
        "a b",
        "ünï",
        "tab\tname",
        "src/.gitignore",
        "kept/.keep",
        "kept",
        "Run.sh",
        "SRC",
        "src/A.txt",
        "lib/TWO/x",
        "New/file",
        "ÜNÏ",
    ]);
    (name.clone(), name, 0..9_u8, 0..4_u8).prop_map(|(one, two, what, content)| {
        let (one, two) = (format!("'./{one}'"), format!("'./{two}'"));
        match what {
            0 | 1 => format!("mkdir -p \"$(dirname {one})\"; printf 'content {content}\\n' > {one}"),
            2 => format!("rm -rf {one}"),
            // Only onto a free name: otherwise a rename, and the copy that replaces it between layers, differ by
            // themselves.
            3 => format!("mkdir -p \"$(dirname {two})\"; test -e {two} || test -L {two} || mv -T {one} {two}"),
            4 => format!("rm -rf {one}; mkdir -p {one}; echo in > {one}/inside"),
            5 => format!("rm -rf {one}; mkdir -p \"$(dirname {one})\"; echo file > {one}"),
            6 => format!("test -f {one} && chmod {} {one}", if content % 2 == 0 { "+x" } else { "-x" }),
            7 => format!(
                "rm -rf {one}; mkdir -p \"$(dirname {one})\"; ln -s {} {one}",
                ["run.sh", "../run.sh", "src", "/etc"][usize::from(content)]
            ),
            _ => format!(
                "mkdir -p \"$(dirname {one})\"; printf '%s\\n' '{}' > \"$(dirname {one})/.gitignore\"",
                ["*.txt", "!out", "inside", "file"][usize::from(content)]
            ),
        }
    })
}

/// Paths and folders that occur in more than one spelling, in lower case.
fn twins<'p>(paths: impl Iterator<Item = &'p str>) -> Vec<String> {
    let folders = |path: &'p str| path.match_indices('/').map(|(at, _)| &path[..at]).chain([path]).collect::<Vec<_>>();
    let mut spellings: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
    for part in paths.flat_map(folders) {
        spellings.entry(part.to_lowercase()).or_default().insert(part);
    }
    spellings.into_iter().filter(|(_, same)| same.len() > 1).map(|(folded, _)| folded).collect()
}

/// A few in every run; more with `PROPTEST_CASES`.
fn trials() -> ProptestConfig {
    let asked = ProptestConfig::default();
    let cases = if asked.cases == 256 { 8 } else { asked.cases };
    ProptestConfig { cases, max_shrink_iters: 200, failure_persistence: None, ..asked }
}

proptest! {
    #![proptest_config(trials())]

    #[test]
    fn overlay_and_copy_seal_the_same_edits_to_the_same_tree(edits in prop::collection::vec(edit(), 1..14)) {
        let script = edits.iter().map(|edit| format!("( {edit} ) 2>/dev/null\n")).collect::<String>() + "true";
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let fixture = Fixture::new();
            for (path, text) in [("lib/one", "1\n"), ("lib/two/x", "x\n"), ("kept/.keep", ""), ("src/.gitignore", "*.o\n")] {
                fixture.write(path, text);
            }
            git(&fixture.repo(), &["add", "-A"]);
            fixture.write("target/tracked", "tracked though ignored\n");
            git(&fixture.repo(), &["add", "-f", "target/tracked"]);
            let base = fixture.commit_all("more");
            let all = fixture.workspaces().await;
            let copy = create(&all, "copy", &base, CheckoutMethod::Copy).await;
            let over = overlay(&all, "over", &base).await;
            inside(&copy.files, &script);
            inside(&over.files, &script);
            assert_eq!(look(&over.files), look(&copy.files), "the kernel disagrees with itself");
            let (by_copy, by_overlay) = (seal(&all, &copy).await, seal(&all, &over).await);
            let by_path = |sealed: &loopwright::workspace::SealedTree| sealed.changes.iter().map(|c| (c.path.clone(), format!("{c:?}"))).collect::<BTreeMap<_, _>>();
            assert_eq!(by_path(&by_overlay), by_path(&by_copy));
            assert_eq!(refusals(&by_overlay), refusals(&by_copy));
            assert_eq!(by_overlay.tree, by_copy.tree);
            // The base has no two names that differ by case alone, so the tree has none; nothing else was refused for
            // that reason.
            let tree = git(all.engine().dir(), &["ls-tree", "-r", "-z", "--name-only", by_overlay.tree.as_str()]);
            let tree: Vec<&str> = tree.split('\0').filter(|path| !path.is_empty()).collect();
            assert_eq!(twins(tree.iter().copied()), Vec::<String>::new());
            let shown = inside(&over.files, "find . -path ./.git -prune -o -mindepth 1 -printf '%P\\n'");
            let twins = twins(shown.lines().chain(tree));
            let refused = by_overlay.refused.iter().filter(|refused| refused.why == SealRefusal::Name(NameProblem::CaseCollision));
            for path in refused.map(|refused| refused.path.to_lowercase()) {
                assert!(twins.iter().any(|twin| path == *twin || path.starts_with(&format!("{twin}/"))), "{path}");
            }
            let view = async |space: &Workspace| all.snapshot(space, "gate", &by_copy.commit, SnapshotKind::WithGit, &[]).await.unwrap().files;
            let (copied, layered) = (view(&copy).await, view(&over).await);
            assert_eq!(look(&layered), look(&copied));
            assert_eq!(inside(&layered, "git status --porcelain"), inside(&copied, "git status --porcelain"));
        });
    }
}
