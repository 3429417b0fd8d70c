//! File systems: names, trees and numbers of files that break mounts, layers and readers (families C, D and G).

use crate::stage::{FIX, PASS, PASS_STEPS, Stage};

/// Names with a meaning for mount options, shells and file systems.
const ODD: &str = "a,b:c d\\e=f%g\u{1f525}'\"$(x)";

#[test]
fn h058_odd_folders_of_state_and_repository_are_only_names() {
    let stage = Stage::named(&format!("repo {ODD}"));
    let state = stage.env.root().join(format!("state {ODD}"));
    let stage = stage.with_env("LOOPWRIGHT_STATE_DIR", &state.display().to_string());
    stage.commit(&format!("@ maker\n{FIX}{PASS}"));
    let ran = stage.env.loopwright_in(stage.repo.path(), ["run", "fix", "--json"]).success();
    assert_eq!(ran.json()["outcome"], "shipped", "{}", ran.stdout());
}

#[test]
fn h058_folders_named_like_the_sandboxs_mounts_are_only_folders() {
    let names = [
        "workspace",
        "outbox",
        "sink",
        "items",
        "heldout",
        "home/loop",
        "run/loopwright",
        "proc/self",
        "tmp",
        "dev",
        "etc",
        "usr/bin",
    ];
    let stage = names.iter().fold(Stage::new(), |stage, name| stage.base(&format!("{name}/calc.sh"), "exit 1\n"));
    let steps: String = names.iter().map(|name| format!("write {name}/new.txt \"{name}\\n\"\n")).collect();
    let round = stage.maker(&format!("{FIX}{steps}")).ships();
    for name in names {
        assert_eq!(round.shipped_file(&format!("{name}/new.txt")), name);
    }
}

#[test]
fn h059_tracked_links_out_of_the_tree_lead_nowhere() {
    let stage = Stage::new();
    let (home, root) = (stage.env.home(), stage.env.root().to_owned());
    for (name, target) in
        [("out", home.as_path()), ("up", std::path::Path::new("../../../..")), ("rooted", root.as_path())]
    {
        std::os::unix::fs::symlink(target, stage.repo.path().join(name)).expect("a link can be made");
    }
    let steps = format!(
        "{FIX}try write out/planted x\ntry write up/planted x\ntry write rooted/planted x\n\
         run sh -c \"ls -A out/ rooted/ > seen.txt 2>/dev/null; true\"\n"
    );
    let round = stage.maker(&steps).ships();
    assert_eq!(round.shipped_file("seen.txt"), "", "the maker saw what is outside");
    assert!(!home.join("planted").exists() && !root.join("planted").exists());
}

#[test]
fn h058_a_tracked_link_in_the_place_of_the_git_folder_breaks_nothing() {
    let stage = Stage::new();
    stage.commit(&format!("@ maker\n{FIX}{PASS}"));
    let planted = stage.env.home().join("planted");
    std::fs::create_dir_all(stage.env.home().join("objects")).expect("a folder can be made");
    let base = stage.repo.git(["rev-parse", "HEAD^{tree}"]);
    let file = stage.env.root().join("link");
    std::fs::write(&file, stage.env.home().display().to_string()).expect("a file can be written");
    let blob = stage.repo.git(["hash-object", "-w", &file.display().to_string()]);
    let list = format!("{}\n120000 blob {blob}\t.git\n", stage.repo.git(["ls-tree", &base]));
    std::fs::write(&file, list).expect("a file can be written");
    let made = format!("git mktree < '{}'", file.display());
    let tree = std::process::Command::new("sh").args(["-c", &made]).current_dir(stage.repo.path()).output();
    let tree = String::from_utf8_lossy(&tree.expect("git runs").stdout).trim().to_owned();
    let commit = stage.repo.git(["commit-tree", &tree, "-p", "HEAD", "-m", "hostile"]);
    stage.repo.git(["update-ref", "refs/heads/main", &commit]);
    let before = loopwright_testkit::TreeDigest::of_folder(&stage.env.home());
    let round = stage.run();
    assert_ne!(round.json["outcome"], "shipped", "{}", round.story());
    before.assert_untouched(&loopwright_testkit::TreeDigest::of_folder(&stage.env.home()));
    assert!(!planted.exists());
}

/// Lists the files that the maker sees, to compare them with the shipped tree.
const SEEN: &str = "run sh -c \"find . -path ./.git -prune -o \\\\( -type f -o -type l \\\\) -print | sed 's,^./,,' | grep -v seen.txt | \
    LC_ALL=C sort > /tmp/seen.txt; cp /tmp/seen.txt seen.txt\"\n";

#[track_caller]
fn ships_what_the_maker_saw(stage: &Stage, steps: &str) {
    let round = stage.maker(&format!("{FIX}{steps}{SEEN}"));
    assert_eq!(round.json["outcome"], "shipped", "{}", round.story());
    let mut shipped = round.shipped_paths();
    shipped.retain(|path| path != "seen.txt");
    shipped.sort();
    let seen = round.shipped_file("seen.txt");
    assert_eq!(shipped, seen.lines().collect::<Vec<_>>(), "what shipped is what the maker saw");
}

#[test]
fn h112_layer_marks_made_by_a_maker_hide_nothing() {
    let stage = Stage::new().base("deep/a.txt", "a\n").base("deep/er/b.txt", "b\n");
    let marks = "import os, stat\n\
        def quiet(f, *a):\n    try:\n        f(*a)\n    except OSError:\n        pass\n\
        for path in ['deep', 'deep/er', 'tests', '.']:\n\
        \x20   for name in ['opaque', 'whiteout', 'redirect', 'metacopy', 'origin', 'impure', 'nlink', 'upper', 'xwhiteouts']:\n\
        \x20       for value in [b'y', b'x', b'/deep', b'']:\n\
        \x20           for prefix in ['user.overlay.', 'trusted.overlay.', 'user.overlay.overlay.']:\n\
        \x20               quiet(os.setxattr, path, prefix + name, value)\n\
        for path in ['README.md', 'deep/a.txt', 'calc.sh']:\n\
        \x20   for name in ['metacopy', 'redirect', 'whiteout']:\n\
        \x20       quiet(os.setxattr, path, 'user.overlay.' + name, b'y')\n\
        for path in ['deep/new', 'tests/new.sh', 'gone']:\n\
        \x20   quiet(os.mknod, path, stat.S_IFCHR | 0o644, os.makedev(0, 0))\n\
        quiet(os.mknod, 'deep/.wh.a.txt', stat.S_IFREG | 0o644)\nquiet(os.mknod, '.wh..wh..opq', stat.S_IFREG | 0o644)\n";
    let stage = stage.base("marks.py", marks);
    ships_what_the_maker_saw(&stage, "run python3 marks.py\n");
}

#[test]
fn h112_folders_and_files_that_change_places_ship_as_seen() {
    let stage = Stage::new().base("one/a.txt", "a\n").base("two/b.txt", "b\n").base("file", "f\n");
    let steps = "run sh -c \"mv one three; mv two one; rm file; mkdir file; echo x > file/inner; rm -rf README.md; \
        mkdir README.md; echo y > README.md/z; rm -rf three; echo three > three; mkdir one/deep; mv one/b.txt one/deep/; \
        ln -s deep/b.txt one/link; rm -rf tests/none; mv tests t2; cp -r t2 tests; rm -rf t2\"\n";
    ships_what_the_maker_saw(&stage, steps);
}

#[test]
fn h062_many_files_are_sealed_or_refused_but_never_lost() {
    let stage = Stage::new().base(
        "many.py",
        "import os\nfor d in range(20):\n    os.makedirs('many/%d' % d)\n    for f in range(1000):\n        open('many/%d/%d.txt' % (d, f), 'w').write(str(f))\n",
    );
    let round = stage.maker(&format!("{FIX}run python3 many.py\n"));
    let outcome = round.json["outcome"].as_str().unwrap_or_default().to_owned();
    assert!(matches!(outcome.as_str(), "shipped" | "rejected" | "refused" | "escalated"), "{}", round.story());
    if outcome == "shipped" {
        assert_eq!(round.shipped_paths().iter().filter(|path| path.starts_with("many/")).count(), 20_000);
    }
}

#[test]
fn h062_a_path_deeper_than_any_name_never_ships_and_leaves_no_rubbish() {
    let stage = Stage::new().base(
        "deep.py",
        "import os\nfor _ in range(2500):\n    os.mkdir('dddddddd')\n    os.chdir('dddddddd')\nopen('bottom.txt', 'w').write('x')\n",
    );
    let round = stage.maker(&format!("{FIX}run python3 deep.py\n"));
    let outcome = round.json["outcome"].as_str().unwrap_or_default().to_owned();
    assert!(matches!(outcome.as_str(), "shipped" | "refused" | "rejected"), "{}", round.story());
    if outcome == "shipped" {
        assert!(!round.shipped_paths().iter().any(|path| path.starts_with("dddddddd")), "half of it shipped");
    }
    // The next round works, and no file of the deep tree is left among the workspaces.
    stage.repo.write(".loopwright/s.script", format!("@ maker\n{FIX}@ checker\n{PASS_STEPS}\n"));
    stage.repo.commit("another round");
    let second = stage.run();
    assert_eq!(second.json["outcome"], "shipped", "{}", second.story());
}

#[test]
fn h035_a_sparse_giant_is_not_sealed() {
    let stage = Stage::new();
    let round = stage.maker(&format!("{FIX}run truncate -s 3G giant.bin\n"));
    let outcome = round.json["outcome"].as_str().unwrap_or_default().to_owned();
    assert!(matches!(outcome.as_str(), "refused" | "rejected"), "{}", round.story());
}

/// A maker may create folders without any permission; no later process may fail because of them.
#[test]
fn h062_folders_without_permissions_block_neither_the_end_nor_the_next_round() {
    let stage = Stage::new();
    let lock = "run sh -c \"mkdir -p shut/in $HOME/shut/in /tmp/shut/in; echo x > shut/in/x; chmod 000 shut/in shut $HOME/shut /tmp/shut; \
        chmod 000 tests; chmod 000 $HOME /tmp $LOOPWRIGHT_OUTBOX .; true\"\n";
    let round = stage.maker(&format!("{FIX}{lock}"));
    let outcome = round.json["outcome"].as_str().unwrap_or_default().to_owned();
    assert!(matches!(outcome.as_str(), "shipped" | "refused" | "rejected" | "failed"), "{}", round.story());
    if outcome == "shipped" {
        assert_eq!(round.shipped_file("calc.sh"), "add() { echo $(($1 + $2)); }");
        assert_eq!(round.shipped_file("shut/in/x"), "x", "what was there is not lost in silence");
    }
    stage.repo.write(".loopwright/s.script", format!("@ maker\n{FIX}@ checker\n{PASS_STEPS}\n"));
    stage.repo.commit("another round");
    let second = stage.run();
    assert_eq!(second.json["outcome"], "shipped", "{}", second.story());
}
