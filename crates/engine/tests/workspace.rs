//! Workspaces with real files: private to the last inode, sealed from files alone, rebuilt when incomplete, removed
//! only when ours.
#![expect(clippy::unwrap_used, reason = "tests")]

mod git_fixture;

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;

use git_fixture::{Fixture, bytes_of, create, git, inodes, refusals, seal, statuses, try_git, words, write};
use loopwright::workspace::{CheckoutMethod, LeftoverScope, SealLimits, SnapshotKind, WorkspaceError, sweep};

fn fifo(path: &Path) {
    rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::Fifo, 0o644.into(), 0).unwrap();
}

#[tokio::test]
async fn workspace_is_a_clean_private_clone_at_the_base() {
    let fixture = Fixture::new();
    let (_, workspace) = fixture.workspace().await;
    assert_eq!(git(&workspace.dir, &["status", "--porcelain", "--branch"]), "## loop/fixer/r1");
    assert_eq!(git(&workspace.dir, &["rev-parse", "HEAD"]), workspace.base.as_str());
    git(&workspace.dir, &["fsck", "--strict"]);
    assert_eq!(git(&workspace.dir, &["remote"]), "");
    for dir in [&workspace.root, &workspace.dir, &workspace.home, &workspace.tmp, &workspace.outbox] {
        assert_eq!(fs::metadata(dir).unwrap().permissions().mode() & 0o777, 0o700, "{}", dir.display());
    }
    let files = |root: &Path| {
        let mut all = bytes_of(root);
        all.retain(|path, _| !path.starts_with(".git") || path == Path::new(".gitignore"));
        all.into_iter().map(|(path, (mode, bytes))| (path, mode & 0o170100, bytes)).collect::<Vec<_>>()
    };
    assert_eq!(files(&workspace.dir), files(&fixture.repo()));
    write(&workspace.dir, "x", "x\n");
    git(&workspace.dir, &["add", "-A"]);
    git(&workspace.dir, &["commit", "-q", "-m", "makers can commit"]);
}

#[tokio::test]
async fn workspace_shares_no_inode_with_the_user_or_the_engine() {
    let fixture = Fixture::new();
    let (all, workspace) = fixture.workspace().await;
    write(&workspace.dir, "x", "x\n");
    let sealed = seal(&all, &workspace).await;
    let gates = all.snapshot(&workspace, "gates", &sealed.commit, SnapshotKind::WithGit, &[]).await.unwrap().root;
    let mut others = inodes(&fixture.repo());
    others.extend(inodes(all.engine().dir()));
    others.extend(inodes(&fixture.folder(&all, "bases")));
    for dir in [&workspace.dir, &gates] {
        for (inode, path) in inodes(dir) {
            assert_eq!(others.get(&inode), None, "{}", path.display());
            assert_eq!(fs::metadata(&path).unwrap().nlink(), 1, "{}", path.display());
        }
        assert!(!dir.join(".git/objects/info/alternates").exists());
    }
    // The maker ruins every object it can reach; no other repository changes.
    for path in inodes(&workspace.dir.join(".git")).into_values() {
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        fs::write(&path, "ruined").unwrap();
    }
    git(&fixture.repo(), &["fsck", "--strict"]);
    git(all.engine().dir(), &["fsck", "--strict"]);
    let again = create(&all, "r2", &workspace.base, CheckoutMethod::Copy).await;
    git(&again.dir, &["fsck", "--strict"]);
}

#[tokio::test]
async fn other_branches_stashes_and_other_rounds_are_not_visible() {
    let fixture = Fixture::new();
    git(&fixture.repo(), &["checkout", "-q", "-b", "secret"]);
    fixture.write("answer.txt", "the answer is 42\n");
    let secret = fixture.commit_all("secret answer");
    git(&fixture.repo(), &["checkout", "-q", "main"]);
    fixture.write("src/a.txt", "stashed answer\n");
    git(&fixture.repo(), &["stash", "-q"]);
    let stash = git(&fixture.repo(), &["rev-parse", "stash"]);
    let (all, first) = fixture.workspace().await;
    write(&first.dir, "x", "another round's work\n");
    let other = seal(&all, &first).await;
    all.engine().set_round_ref("r1", "attempt-1", &other.commit).await.unwrap();
    let second = create(&all, "r2", &first.base, CheckoutMethod::Copy).await;
    assert_eq!(git(&second.dir, &["log", "--all", "--format=%s"]), "base");
    assert_eq!(git(&second.dir, &["stash", "list"]), "");
    assert_eq!(git(&second.dir, &["fsck", "--lost-found"]), "");
    for hidden in [secret.as_str(), &stash, other.commit.as_str(), other.tree.as_str()] {
        assert!(!try_git(&second.dir, &["cat-file", "-e", hidden]).0, "{hidden}");
    }
    assert!(!try_git(all.engine().dir(), &["cat-file", "-e", secret.as_str()]).0);
}

#[tokio::test]
async fn seal_records_every_kind_of_change() {
    let fixture = Fixture::new();
    let (all, workspace) = fixture.workspace().await;
    let dir = &workspace.dir;
    write(dir, "src/a.txt", "one\nTWO\nthree\n");
    write(dir, "new/file with space.txt", "n\n");
    fs::write(dir.join("binary"), b"\0\x01\x02").unwrap();
    fs::rename(dir.join("src/deep/b.txt"), dir.join("src/deep/c.txt")).unwrap();
    fs::set_permissions(dir.join("run.sh"), fs::Permissions::from_mode(0o644)).unwrap();
    fs::remove_file(dir.join("link")).unwrap();
    write(dir, "link", "now a file\n");
    symlink("../src/a.txt", dir.join("new/inside")).unwrap();
    let sealed = seal(&all, &workspace).await;
    assert_eq!(refusals(&sealed), [""; 0]);
    let expected = [
        "binary:Added",
        "link:TypeChanged",
        "new/file with space.txt:Added",
        "new/inside:Added",
        "run.sh:Modified",
        "src/a.txt:Modified",
        "src/deep/b.txt:Deleted",
        "src/deep/c.txt:Added",
    ];
    assert_eq!(statuses(&sealed), expected);
    let change = |path: &str| sealed.changes.iter().find(|change| change.path == path).unwrap();
    let text = change("src/a.txt");
    assert_eq!((text.lines_added, text.lines_removed, text.binary, text.size), (2, 1, false, 14));
    assert!(change("binary").binary);
    assert_eq!((change("run.sh").mode_before, change("run.sh").mode_after), (0o100755, 0o100644));
    assert_eq!((change("new/inside").mode_before, change("new/inside").mode_after), (0, 0o120000));
    assert_eq!(change("src/deep/b.txt").mode_after, 0);
}

#[tokio::test]
async fn seal_agrees_with_git_about_the_same_files() {
    let fixture = Fixture::new();
    let (all, workspace) = fixture.workspace().await;
    let dir = &workspace.dir;
    fs::remove_file(dir.join("src/a.txt")).unwrap();
    write(dir, "src/a.txt/now/a/folder", "f\n");
    fs::remove_dir_all(dir.join("src/deep")).unwrap();
    write(dir, "src/deep", "now a file\n");
    write(dir, "-rf", "dash\n");
    write(dir, "ünï/ö", "u\n");
    write(dir, "target/out", "ignored\n");
    write(dir, ".gitignore", "target/\n*.sock\nlater\n");
    write(dir, "later", "ignored by the maker's own rule\n");
    let sealed = seal(&all, &workspace).await;
    assert_eq!(refusals(&sealed), [""; 0]);
    git(dir, &["add", "-A"]);
    assert_eq!(git(dir, &["write-tree"]), sealed.tree.as_str());
}

#[tokio::test]
async fn same_size_change_right_after_the_checkout_is_seen() {
    let fixture = Fixture::new();
    let all = fixture.workspaces().await;
    let base = fixture.head().await;
    for n in 0..20 {
        let workspace = create(&all, &format!("r{n}"), &base, CheckoutMethod::Copy).await;
        let path = workspace.dir.join("src/a.txt");
        let times = fs::metadata(&path).unwrap();
        fs::write(&path, "one\ntwO\n").unwrap();
        let file = fs::File::options().write(true).open(&path).unwrap();
        file.set_modified(times.modified().unwrap()).unwrap();
        assert_eq!(statuses(&seal(&all, &workspace).await), ["src/a.txt:Modified"]);
    }
}

#[tokio::test]
async fn untouched_or_merely_touched_workspace_seals_to_the_base() {
    let fixture = Fixture::new();
    let (all, workspace) = fixture.workspace().await;
    let base_tree = git(&fixture.repo(), &["rev-parse", "HEAD^{tree}"]);
    for touch in [false, true] {
        if touch {
            write(&workspace.dir, "src/a.txt", "one\ntwo\n");
        }
        write(&workspace.dir, "target/debug/x", "ignored\n");
        let sealed = seal(&all, &workspace).await;
        assert!(sealed.is_unchanged() && sealed.refused.is_empty());
        assert_eq!((sealed.tree.as_str(), &sealed.commit), (base_tree.as_str(), &workspace.base));
    }
}

#[tokio::test]
async fn nothing_the_maker_does_to_its_repository_changes_the_sealed_tree() {
    let fixture = Fixture::new();
    let (all, workspace) = fixture.workspace().await;
    let dir = &workspace.dir;
    write(dir, "src/a.txt", "change\n");
    let expected = seal(&all, &workspace).await;
    git(dir, &["add", "-A"]);
    git(dir, &["commit", "-q", "-m", "hidden", "--author", "Linus <l@x>", "--date", "2001-01-01"]);
    git(dir, &["checkout", "-q", "--orphan", "elsewhere"]);
    git(dir, &["commit", "-q", "-m", "history is gone"]);
    git(dir, &["branch", "-D", "loop/fixer/r1"]);
    git(dir, &["update-index", "--assume-unchanged", "src/a.txt"]);
    write(dir, ".git/info/exclude", "*\n");
    write(dir, ".git/info/attributes", "* text eol=crlf\n");
    git(dir, &["config", "core.autocrlf", "true"]);
    assert_eq!(seal(&all, &workspace).await, expected);
    fs::remove_dir_all(dir.join(".git")).unwrap();
    assert_eq!(seal(&all, &workspace).await, expected);
    symlink("/etc", dir.join(".git")).unwrap();
    assert_eq!(seal(&all, &workspace).await, expected);
}

#[tokio::test]
async fn engine_commit_depends_on_its_input_alone() {
    let fixture = Fixture::new();
    let all = fixture.workspaces().await;
    let base = fixture.head().await;
    let mut commits = Vec::new();
    for round in ["r1", "r2"] {
        let workspace = create(&all, round, &base, CheckoutMethod::Copy).await;
        write(&workspace.dir, "x", "x\n");
        commits.push(seal(&all, &workspace).await.commit);
    }
    assert_eq!(commits[0], commits[1]);
    let shown = git(all.engine().dir(), &["show", "-s", "--format=%an <%ae> %at|%cn %ct|%P|%B", commits[0].as_str()]);
    let expected = format!(
        "Loopwright <loopwright@example.invalid> 1700000000|Loopwright 1700000000|{base}|fix: the sign\n\nLoop: fixer\nRound: r1"
    );
    assert_eq!(shown, expected);
    for at_unix in [0, -5, 4_102_444_800] {
        let dated = loopwright::git::CommitMetadata { at_unix, ..words() };
        let commit = all.engine().commit(&all.engine().tree_of(&base).await.unwrap(), &base, &dated).await.unwrap();
        let shown = git(all.engine().dir(), &["show", "-s", "--format=%at", commit.as_str()]);
        assert_eq!(shown, at_unix.max(0).to_string());
    }
}

#[tokio::test]
async fn paths_that_cannot_be_sealed_are_listed_and_left_out() {
    let fixture = Fixture::new();
    let (all, workspace) = fixture.workspace().await;
    let dir = &workspace.dir;
    symlink("/etc/passwd", dir.join("absolute")).unwrap();
    symlink("../../..", dir.join("src/escaping")).unwrap();
    symlink(".git/config", dir.join("into-git")).unwrap();
    fifo(&dir.join("pipe"));
    fs::create_dir(dir.join("newdir")).unwrap();
    write(dir, "newdir/file", "f\n");
    fifo(&dir.join("newdir/pipe"));
    fs::remove_file(dir.join("run.sh")).unwrap();
    fifo(&dir.join("run.sh"));
    let _socket = std::os::unix::net::UnixListener::bind(dir.join("open.socket")).unwrap();
    let _ignored = std::os::unix::net::UnixListener::bind(dir.join("ignored.sock")).unwrap();
    git(dir, &["init", "-q", "nested"]);
    write(dir, "nested/file", "hidden\n");
    write(dir, "fake/.git/HEAD", "not a repository\n");
    write(dir, "fake/file", "f\n");
    write(dir, "src/.git", "gitdir: /elsewhere\n");
    git(dir, &["init", "-q", "target/ignored-nested"]);
    let sealed = seal(&all, &workspace).await;
    let expected = [
        "absolute:SymlinkOutside",
        "fake/.git:NestedRepository",
        "into-git:SymlinkOutside",
        "nested:NestedRepository",
        "newdir/pipe:Special",
        "open.socket:Special",
        "pipe:Special",
        "run.sh:Special",
        "src/.git:NestedRepository",
        "src/escaping:SymlinkOutside",
    ];
    assert_eq!(refusals(&sealed), expected);
    assert_eq!(statuses(&sealed), ["fake/file:Added", "newdir/file:Added"]);
}

#[tokio::test]
async fn names_that_other_systems_misread_are_listed_and_left_out() {
    let fixture = Fixture::new();
    let (all, workspace) = fixture.workspace().await;
    let dir = &workspace.dir;
    for name in ["a\nb", "esc\x1b[2J", ".GIT", "git~1", ".g\u{200c}it", "SRC/a", "Link", "twin", "Twin", "fine"] {
        write(dir, name, "x\n");
    }
    fs::write(dir.join(OsStr::from_bytes(b"bad\xff")), "x").unwrap();
    let sealed = seal(&all, &workspace).await;
    let expected = [
        ".GIT:Name(DotGit)",
        ".g\u{200c}it:Name(DotGit)",
        "Link:Name(CaseCollision)",
        "SRC/a:Name(CaseCollision)",
        "Twin:Name(CaseCollision)",
        "a\u{fffd}b:Name(Control)",
        "bad\u{fffd}:Name(NotUtf8)",
        "esc\u{fffd}[2J:Name(Control)",
        "git~1:Name(DotGit)",
        "twin:Name(CaseCollision)",
    ];
    assert_eq!(refusals(&sealed), expected);
    assert_eq!(statuses(&sealed), ["fine:Added"]);
}

#[tokio::test]
async fn rename_by_case_alone_is_no_collision() {
    let fixture = Fixture::new();
    let (all, workspace) = fixture.workspace().await;
    fs::rename(workspace.dir.join("run.sh"), workspace.dir.join("Run.sh")).unwrap();
    let sealed = seal(&all, &workspace).await;
    assert_eq!(
        (refusals(&sealed), statuses(&sealed)),
        (vec![], vec!["Run.sh:Added".to_owned(), "run.sh:Deleted".to_owned()])
    );
}

#[tokio::test]
async fn folder_replaced_by_a_symlink_counts_as_deleted_files() {
    let fixture = Fixture::new();
    let (all, workspace) = fixture.workspace().await;
    let dir = &workspace.dir;
    fs::rename(dir.join("src"), dir.join("moved")).unwrap();
    symlink("moved", dir.join("src")).unwrap();
    let sealed = seal(&all, &workspace).await;
    assert_eq!(refusals(&sealed), [""; 0]);
    let expected =
        ["moved/a.txt:Added", "moved/deep/b.txt:Added", "src/a.txt:Deleted", "src/deep/b.txt:Deleted", "src:Added"];
    let mut found = statuses(&sealed);
    found.sort();
    assert_eq!(found, expected);
}

#[tokio::test]
async fn candidates_over_a_limit_are_refused_with_the_limit() {
    let fixture = Fixture::new();
    let (all, workspace) = fixture.workspace().await;
    for n in 0..5 {
        write(&workspace.dir, &format!("n{n}"), "12345678");
    }
    let limits = SealLimits { files_max: 5, bytes_max: 40, file_bytes_max: 8 };
    let with = async |limits| all.seal(&workspace, &words(), limits).await.unwrap();
    assert_eq!(with(limits).await.changes.len(), 5);
    for (limits, expected) in [
        (SealLimits { files_max: 4, ..limits }, ".:TooManyFiles(4)"),
        (SealLimits { bytes_max: 39, ..limits }, ".:TooManyBytes(39)"),
    ] {
        let sealed = with(limits).await;
        assert_eq!(refusals(&sealed), [expected]);
        assert!(sealed.is_unchanged());
    }
    let sealed = with(SealLimits { file_bytes_max: 7, ..limits }).await;
    assert_eq!((sealed.refused.len(), refusals(&sealed)[0].as_str()), (5, "n0:FileTooLarge(7)"));
}

#[tokio::test]
async fn huge_sparse_file_is_refused_without_being_read() {
    let fixture = Fixture::new();
    let (all, workspace) = fixture.workspace().await;
    fs::File::create(workspace.dir.join("huge")).unwrap().set_len(1 << 40).unwrap();
    assert_eq!(refusals(&seal(&all, &workspace).await), ["huge:FileTooLarge(104857600)"]);
}

#[tokio::test]
async fn pull_request_text_is_never_sealed() {
    let fixture = Fixture::new();
    let (all, workspace) = fixture.workspace().await;
    write(&workspace.dir, "PR_BODY.md", "Title\n\nBody\n");
    write(&workspace.dir, "docs/PR_BODY.md", "an ordinary file\n");
    let sealed = seal(&all, &workspace).await;
    assert_eq!(statuses(&sealed), ["docs/PR_BODY.md:Added"]);
    fs::remove_file(workspace.dir.join("PR_BODY.md")).unwrap();
    symlink("/etc/hostname", workspace.dir.join("PR_BODY.md")).unwrap();
    assert_eq!(statuses(&seal(&all, &workspace).await), ["docs/PR_BODY.md:Added"]);
}

#[tokio::test]
async fn attributes_convert_the_same_way_out_and_back() {
    let fixture = Fixture::empty();
    fixture.write(
        ".gitattributes",
        "*.crlf text eol=crlf\n*.id ident\n*.u16 text working-tree-encoding=UTF-16LE\n* text=auto\n",
    );
    fixture.write("a.crlf", "one\r\ntwo\r\n");
    fixture.write("b.id", "$Id$\n");
    fs::write(fixture.repo().join("c.u16"), "wide\n".encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<u8>>())
        .unwrap();
    fixture.commit_all("attributes");
    // A file that was committed with line ends its attributes do not allow: git sees a change that the maker did not
    // make.
    fs::write(fixture.path("odd"), "x\r\n").unwrap();
    let blob = git(&fixture.repo(), &["hash-object", "-w", "--no-filters", "../odd"]);
    git(&fixture.repo(), &["update-index", "--add", "--cacheinfo", &format!("100644,{blob},odd.crlf")]);
    git(&fixture.repo(), &["commit", "-q", "-m", "odd"]);
    let (all, workspace) = fixture.workspace().await;
    assert_eq!(fs::read(workspace.dir.join("a.crlf")).unwrap(), b"one\r\ntwo\r\n");
    assert!(fs::read_to_string(workspace.dir.join("b.id")).unwrap().starts_with("$Id: "));
    assert!(seal(&all, &workspace).await.is_unchanged());
    write(&workspace.dir, "a.crlf", "one\r\nTWO\r\n");
    let id = fs::read_to_string(workspace.dir.join("b.id")).unwrap();
    write(&workspace.dir, "b.id", &(id + "more\n"));
    let sealed = seal(&all, &workspace).await;
    let lines: Vec<_> = sealed.changes.iter().map(|c| (c.path.as_str(), c.lines_added, c.lines_removed)).collect();
    assert_eq!(lines, [("a.crlf", 1, 1), ("b.id", 1, 0)]);
    let snapshot = all.snapshot(&workspace, "gates", &sealed.commit, SnapshotKind::WithGit, &[]).await.unwrap().root;
    for file in ["a.crlf", "c.u16", "odd.crlf"] {
        assert_eq!(fs::read(snapshot.join(file)).unwrap(), fs::read(workspace.dir.join(file)).unwrap(), "{file}");
    }
}

#[tokio::test]
async fn submodules_are_empty_folders_and_changes_to_them_are_refused() {
    let fixture = Fixture::new();
    let head = fixture.head().await;
    git(&fixture.repo(), &["update-index", "--add", "--cacheinfo", &format!("160000,{head},sub")]);
    git(&fixture.repo(), &["commit", "-q", "-m", "submodule"]);
    let (all, workspace) = fixture.workspace().await;
    let sealed = seal(&all, &workspace).await;
    assert!(sealed.is_unchanged() && sealed.refused.is_empty());
    write(&workspace.dir, "sub/file", "x\n");
    assert_eq!(refusals(&seal(&all, &workspace).await), ["sub:Submodule"]);
    fs::remove_dir_all(workspace.dir.join("sub")).unwrap();
    assert_eq!(refusals(&seal(&all, &workspace).await), ["sub:Submodule"]);
}

#[tokio::test]
async fn gate_snapshot_is_the_sealed_commit_with_a_working_git() {
    let fixture = Fixture::new();
    let (all, workspace) = fixture.workspace().await;
    write(&workspace.dir, "src/a.txt", "sealed\n");
    write(&workspace.dir, "new", "n\n");
    fs::remove_file(workspace.dir.join("run.sh")).unwrap();
    let sealed = seal(&all, &workspace).await;
    write(&workspace.dir, "src/a.txt", "swapped after the seal\n");
    let dir = all.snapshot(&workspace, "gates", &sealed.commit, SnapshotKind::WithGit, &[]).await.unwrap().root;
    assert_eq!(fs::read_to_string(dir.join("src/a.txt")).unwrap(), "sealed\n");
    assert_eq!(git(&dir, &["status", "--porcelain"]), "");
    assert_eq!(git(&dir, &["rev-parse", "HEAD", "HEAD^{tree}"]), format!("{}\n{}", sealed.commit, sealed.tree));
    assert_eq!(git(&dir, &["log", "--all", "--format=%s"]), "fix: the sign\nbase");
    git(&dir, &["fsck", "--strict"]);
    write(&dir, "leftover", "of a gate\n");
    let again = all.snapshot(&workspace, "gates", &sealed.commit, SnapshotKind::WithGit, &[]).await.unwrap().root;
    assert!(again == dir && !dir.join("leftover").exists());
    let base = all.snapshot(&workspace, "red-before", &workspace.base, SnapshotKind::WithGit, &[]).await.unwrap().root;
    assert_eq!(git(&base, &["rev-parse", "HEAD"]), workspace.base.as_str());
}

#[tokio::test]
async fn checker_snapshot_has_no_git_and_no_write_permission() {
    let fixture = Fixture::new();
    let (all, workspace) = fixture.workspace().await;
    write(&workspace.dir, "new", "n\n");
    let sealed = seal(&all, &workspace).await;
    let dir = all.snapshot(&workspace, "checker", &sealed.commit, SnapshotKind::ReadOnly, &[]).await.unwrap().root;
    assert!(!dir.join(".git").exists());
    let writable = |meta: &fs::Metadata| !meta.is_symlink() && meta.permissions().mode() & 0o222 != 0;
    for path in bytes_of(&dir).into_keys() {
        assert!(!writable(&fs::symlink_metadata(dir.join(&path)).unwrap()), "{}", path.display());
    }
    assert_eq!(fs::metadata(dir.join("run.sh")).unwrap().permissions().mode() & 0o111, 0o111);
    all.discard("r1").await.unwrap();
}

#[tokio::test]
async fn gate_inputs_are_restored_from_the_base_over_any_replacement() {
    let fixture = Fixture::new();
    fixture.write("tests/t.sh", "base test\n");
    fixture.write("tests/gone.sh", "gone\n");
    fixture.write("tools/lint", "lint\n");
    fixture.commit_all("tests");
    let (all, workspace) = fixture.workspace().await;
    let dir = &workspace.dir;
    write(dir, "tests/t.sh", "cheat\n");
    fs::remove_file(dir.join("tests/gone.sh")).unwrap();
    fs::remove_dir_all(dir.join("tools")).unwrap();
    symlink("src", dir.join("tools")).unwrap();
    write(dir, ".gitattributes", "* text eol=crlf\n");
    let sealed = seal(&all, &workspace).await;
    let gates = all.snapshot(&workspace, "gates", &sealed.commit, SnapshotKind::WithGit, &[]).await.unwrap();
    let paths =
        ["tests/t.sh", "tests/gone.sh", "tools/lint", "run.sh", "not/in/base", ".gitattributes"].map(str::to_owned);
    let restored = all.restore_paths(&workspace, &gates, &workspace.base, &paths).await.unwrap();
    assert_eq!(restored, paths[..4]);
    let gates = gates.root;
    assert_eq!(fs::read_to_string(gates.join("tests/t.sh")).unwrap(), "base test\n");
    assert_eq!(fs::read_to_string(gates.join("tests/gone.sh")).unwrap(), "gone\n");
    assert_eq!(fs::read_to_string(gates.join("tools/lint")).unwrap(), "lint\n");
    assert!(!gates.join("src/lint").exists());
    assert_eq!(fs::metadata(gates.join("run.sh")).unwrap().permissions().mode() & 0o100, 0o100);
}

#[tokio::test]
async fn half_made_workspaces_are_never_used_and_swept_away() {
    let fixture = Fixture::new();
    let all = fixture.workspaces().await;
    let rounds = fixture.folder(&all, "rounds");
    write(&rounds, ".half-r1-1-0/owned-by-loopwright", "");
    write(&rounds, ".half-r1-1-0/work/a", "half");
    write(&rounds, ".half-foreign/file", "not ours");
    write(&rounds, "r9/owned-by-loopwright", "");
    assert_eq!(all.reopen("r1").unwrap(), None);
    assert_eq!(all.reopen("r9").unwrap(), None);
    assert_eq!(sweep(&fixture.state(), LeftoverScope::All), 1);
    assert!(!rounds.join(".half-r1-1-0").exists());
    assert!(rounds.join(".half-foreign/file").exists());
    let made = create(&all, "r9", &fixture.head().await, CheckoutMethod::Copy).await;
    assert_eq!(all.reopen("r9").unwrap(), Some(made));
}

#[tokio::test]
async fn recreated_workspace_is_pristine() {
    let fixture = Fixture::new();
    let (all, workspace) = fixture.workspace().await;
    write(&workspace.dir, "src/a.txt", "left by a dead round\n");
    fs::set_permissions(workspace.dir.join("src"), fs::Permissions::from_mode(0o000)).unwrap();
    let again = create(&all, "r1", &workspace.base, CheckoutMethod::Copy).await;
    assert_eq!(git(&again.dir, &["status", "--porcelain"]), "");
}

#[tokio::test]
async fn folders_that_are_not_ours_are_left_alone() {
    let fixture = Fixture::new();
    let all = fixture.workspaces().await;
    let rounds = fixture.folder(&all, "rounds");
    write(&rounds, "r1/precious", "p");
    fs::create_dir(fixture.path("elsewhere")).unwrap();
    write(&fixture.path("elsewhere"), "owned-by-loopwright", "");
    symlink(fixture.path("elsewhere"), rounds.join("r2")).unwrap();
    for round in ["r1", "r2"] {
        assert!(matches!(all.discard(round).await, Err(WorkspaceError::Foreign(_))), "{round}");
        assert!(
            all.create("fixer", round, &fixture.head().await, &CheckoutMethod::Copy.into()).await.is_err(),
            "{round}"
        );
    }
    assert!(rounds.join("r1/precious").exists() && fixture.path("elsewhere/owned-by-loopwright").exists());
    for bad in ["../r1", "", ".", "a/b", ".half-x"] {
        assert!(matches!(all.discard(bad).await, Err(WorkspaceError::BadName(_))), "{bad}");
    }
}

#[tokio::test]
async fn discarded_workspace_is_gone_at_once_and_swept_for_good() {
    let fixture = Fixture::new();
    let (all, workspace) = fixture.workspace().await;
    all.discard("r1").await.unwrap();
    assert!(!workspace.root.exists());
    all.discard("r1").await.unwrap();
    let trash = fixture.folder(&all, "trash");
    write(&trash, "r0-half-deleted/x", "left by a crash");
    let _ = sweep(&fixture.state(), LeftoverScope::All);
    assert!(!trash.join("r0-half-deleted").exists());
}

#[tokio::test]
async fn missing_base_is_an_unknown_ref() {
    let fixture = Fixture::new();
    let all = fixture.workspaces().await;
    let absent = "1234567890123456789012345678901234567890".parse().unwrap();
    match all.create("fixer", "r1", &absent, &CheckoutMethod::Copy.into()).await {
        Err(WorkspaceError::Git(error)) => assert_eq!(error.kind, loopwright::git::GitErrorKind::UnknownRef, "{error}"),
        other => panic!("{other:?}"),
    }
    assert_eq!(all.reopen("r1").unwrap(), None);
}

#[tokio::test]
async fn many_rounds_of_one_base_are_made_at_the_same_time() {
    let fixture = Fixture::new();
    let all = fixture.workspaces().await;
    let base = fixture.head().await;
    let tasks: Vec<_> = (0..6)
        .map(|n| {
            let (all, base) = (all.clone(), base.clone());
            tokio::spawn(async move {
                all.create("fixer", &format!("r{n}"), &base, &CheckoutMethod::Copy.into())
                    .await
                    .map(|workspace| workspace.dir)
            })
        })
        .collect();
    for task in tasks {
        assert_eq!(git(&task.await.unwrap().unwrap(), &["status", "--porcelain"]), "");
    }
}

/// Git reads these names in every folder it walks, even in ignored ones.
#[tokio::test]
async fn rules_that_are_not_files_are_refused_before_git_opens_them() {
    for method in [CheckoutMethod::Copy, CheckoutMethod::Overlay] {
        let fixture = Fixture::new();
        let (all, base) = (fixture.workspaces().await, fixture.head().await);
        let places = [".gitattributes", "__pycache__/.gitignore", "new/.gitignore", "target/x/.gitattributes"];
        for (n, place) in places.into_iter().chain([".gitignore", "nested/.git/HEAD"]).enumerate() {
            let workspace = create(&all, &format!("r{n}"), &base, method).await;
            write(&workspace.dir, "new/file", "n\n");
            let path = workspace.dir.join(place);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            let _ = fs::remove_file(&path);
            fifo(&path);
            let sealed = tokio::time::timeout(std::time::Duration::from_secs(10), seal(&all, &workspace)).await;
            let sealed = sealed.unwrap_or_else(|_| panic!("git waits for {place}"));
            assert_eq!(refusals(&sealed), [format!("{place}:Special")], "{method:?}");
            assert!(sealed.is_unchanged());
        }
    }
}

#[tokio::test]
async fn rules_that_are_folders_or_lead_out_are_refused_and_links_inside_are_not() {
    let fixture = Fixture::new();
    let (all, workspace) = fixture.workspace().await;
    fs::create_dir_all(workspace.dir.join("a/.gitignore")).unwrap();
    fs::create_dir(workspace.dir.join("target")).unwrap();
    symlink("/dev/stdin", workspace.dir.join("target/.gitattributes")).unwrap();
    symlink("../src/a.txt", workspace.dir.join("a/.gitattributes")).unwrap();
    assert_eq!(refusals(&seal(&all, &workspace).await), ["a/.gitignore:Special", "target/.gitattributes:Special"]);
}

/// Root bypasses permissions, so the test drops root's capabilities, also for the programs it starts.
#[test]
fn new_folder_that_cannot_be_read_is_refused_unless_it_is_ignored() {
    use rustix::thread::{CapabilitiesSecureBits, CapabilitySet, CapabilitySets};
    let without = || {
        let _ = rustix::thread::set_capabilities_secure_bits(CapabilitiesSecureBits::NO_ROOT);
        let none = CapabilitySet::empty();
        let sets = CapabilitySets { effective: none, permitted: none, inheritable: none };
        rustix::thread::set_capabilities(None, sets).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let fixture = Fixture::new();
            let (all, workspace) = fixture.workspace().await;
            for folder in ["hidden", "new/hidden", "target/x", "__pycache__/x", "src/deep"] {
                write(&workspace.dir, &format!("{folder}/file"), "f\n");
                let shut = fs::Permissions::from_mode(if folder == "hidden" { 0o444 } else { 0 });
                fs::set_permissions(workspace.dir.join(folder), shut).unwrap();
            }
            let sealed = seal(&all, &workspace).await;
            assert_eq!(refusals(&sealed), ["hidden:Unreadable", "new/hidden:Unreadable", "src/deep:Unreadable"]);
            all.discard("r1").await.unwrap();
        });
    };
    std::thread::scope(|scope| scope.spawn(without).join().unwrap());
}

#[tokio::test]
async fn opened_engine_and_gc_remove_leftovers_of_dead_engines() {
    let fixture = Fixture::new();
    let all = fixture.workspaces().await;
    let repo = fixture.folder(&all, "");
    write(&repo, "trash/r0-1-0/x", "left by a crash");
    write(&repo, "rounds/.half-r1-1-0/owned-by-loopwright", "");
    write(&repo, "rounds/r2/owned-by-loopwright", "");
    // Not a folder, so not ours.
    write(&repo, "trash/a-file", "stays");
    let engine = loopwright::Engine::open(loopwright::EngineSettings::new(fixture.state())).await.unwrap();
    assert!(!repo.join("trash/r0-1-0").exists() && !repo.join("rounds/.half-r1-1-0").exists());
    let left = || fs::read_dir(repo.join("trash")).unwrap().count();
    for _ in 0..100_000 {
        if left() == 1 {
            break;
        }
        tokio::task::yield_now().await;
    }
    assert_eq!((left(), repo.join("rounds/r2").exists()), (1, true));
    write(&repo, "trash/r3-1-0/x", "left by another");
    let retention = loopwright::gc::GcRetention { rounds_before_ms: 0, logs_before_ms: 0 };
    loopwright::gc::collect(&engine, retention, loopwright::gc::GcMode::Remove).await.unwrap();
    assert_eq!(left(), 1);
    engine.close().await.unwrap();
}
