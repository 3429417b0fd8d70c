//! Git: only files are sealed. A maker's changes to its repository or to the user's have no effect (family D).

use crate::stage::{FIX, Stage};
use std::path::Path;

/// Asserts that the fix ships as if nothing else had been done.
#[track_caller]
fn ships_the_fix(steps: &str) {
    let stage = Stage::new();
    let round = stage.maker(steps).ships();
    assert_eq!(round.shipped_file("calc.sh"), "add() { echo $(($1 + $2)); }");
    let parent = round.git(&["rev-parse", &format!("loop/fix/{}^", round.id())]);
    assert_eq!(parent, stage.repo.head(), "one commit on base, made by the engine");
}

#[test]
fn h057_switching_the_branch_has_no_effect() {
    ships_the_fix(&format!("git checkout -q -b evil\n{FIX}commit on another branch\ngit branch -D main"));
}

#[test]
fn h057_committing_has_no_effect() {
    ships_the_fix(&format!("{FIX}commit done, trust me\ngit tag v9"));
}

#[test]
fn h057_moving_head_has_no_effect() {
    ships_the_fix(&format!("{FIX}commit x\ngit update-ref HEAD HEAD~1\ngit symbolic-ref HEAD refs/heads/nowhere"));
}

#[test]
fn h057_rewriting_history_has_no_effect() {
    ships_the_fix(&format!(
        "{FIX}git checkout -q --orphan fresh\ngit commit -q -a --author=\"Root <root@example.invalid>\" -m root\ngit reflog expire --all --expire=now"
    ));
}

#[test]
fn h057_deleting_the_repository_has_no_effect() {
    ships_the_fix(&format!("{FIX}delete .git"));
}

#[test]
fn h057_a_repository_replaced_by_a_link_has_no_effect() {
    ships_the_fix(&format!("{FIX}delete .git\nsymlink .git /etc"));
}

#[test]
fn h050_a_lock_left_behind_has_no_effect() {
    ships_the_fix(&format!("{FIX}write .git/index.lock x\nwrite .git/HEAD.lock x"));
}

#[test]
fn h057_a_change_hidden_from_gits_index_is_sealed_anyway() {
    let steps = format!(
        "{FIX}write .git/info/exclude \"*\\n\"\ngit update-index --assume-unchanged README.md\nwrite README.md hidden\nwrite new.txt new"
    );
    let stage = Stage::new();
    let round = stage.maker(&steps).ships();
    assert_eq!(round.shipped_file("README.md"), "hidden");
    assert_eq!(round.shipped_file("new.txt"), "new");
}

#[test]
fn h057_the_shipped_commit_is_the_engines() {
    let stage = Stage::new();
    let steps =
        format!("{FIX}git config user.name Root\ngit -c user.name=Root commit -q -a -m \"signed off by everyone\"");
    let round = stage.maker(&steps).ships();
    let said = round.git(&["log", "-1", "--format=%an %B", &format!("loop/fix/{}", round.id())]);
    assert!(!said.contains("Root") && !said.contains("signed off") && said.contains(&round.id()), "{said}");
}

fn poison(canary: &Path) -> String {
    let canary = canary.display();
    let hooks = "post-checkout post-commit pre-commit reference-transaction post-index-change pre-push update";
    let settings = ["core.fsmonitor", "core.sshCommand", "core.pager", "diff.external", "core.editor", "gpg.program"];
    let settings: String = settings.iter().map(|key| format!("git config {key} $PWD/.git/evil\n")).collect();
    let settings = settings.replace("$PWD/.git/evil", &format!("'touch {canary}'"));
    format!(
        "write .git/evil \"#!/bin/sh\\ntouch {canary}\\n\"\n\
         run sh -c \"chmod +x .git/evil; mkdir -p .git/hooks; for h in {hooks}; do cp .git/evil .git/hooks/$h; done; \
         git config core.hooksPath $PWD/.git/hooks; git config filter.evil.clean 'touch {canary}; cat'; \
         git config filter.evil.smudge 'touch {canary}; cat'; git config include.path $PWD/.git/evil; \
         git config alias.status '!touch {canary}'; printf '[core]\\\\n\\\\tfsmonitor = touch {canary}\\\\n' >> $HOME/.gitconfig; \
         echo '* filter=evil' > .git/info/attributes; rm -f {canary}\"\n{settings}run rm -f {canary}\n"
    )
}

#[test]
fn h054_hooks_and_settings_of_the_makers_repository_never_run() {
    let stage = Stage::new();
    let canary = stage.env.root().join("canary");
    let _ = stage.maker(&format!("{FIX}{}", poison(&canary))).ships();
    assert!(!canary.exists(), "something of the maker's ran as the engine");
}

#[test]
fn h054_an_attributes_file_in_the_tree_runs_no_filter() {
    let stage = Stage::new();
    let canary = stage.env.root().join("canary");
    let steps = format!("{FIX}write .gitattributes \"* filter=evil\\n\"\n{}", poison(&canary));
    stage.maker(&steps).ends("escalated", "sensitive-path");
    assert!(!canary.exists(), "something of the maker's ran as the engine");
}

#[test]
fn h054_the_users_own_hooks_never_run() {
    let stage = Stage::new();
    let canary = stage.env.root().join("canary");
    stage.commit(&format!("@ maker\n{FIX}{}", crate::stage::PASS));
    let hook = format!("#!/bin/sh\ntouch {}\n", canary.display());
    for name in ["post-checkout", "reference-transaction", "post-index-change", "pre-push", "post-commit"] {
        stage.repo.write_executable(&format!(".git/hooks/{name}"), &hook);
    }
    stage.repo.git(["config", "core.fsmonitor", &format!("touch {}", canary.display())]);
    let _ = stage.run().ships();
    assert!(!canary.exists(), "a hook of the user's ran");
}

#[test]
fn h055_the_users_objects_are_not_the_makers_to_write() {
    let stage = Stage::new();
    let steps = format!(
        "{FIX}run sh -c \"find .git/objects -type f -exec chmod u+w {{}} + -exec sh -c 'echo junk > $0' {{}} \\\\; ; true\""
    );
    let _ = stage.maker(&steps).ships();
    stage.repo.git(["fsck", "--strict"]);
}

#[test]
fn h061_other_branches_and_stashes_are_not_in_the_workspace() {
    let stage = Stage::new();
    stage.repo.write("x.txt", "x").commit("before");
    stage.repo.branch("other").write("answer.txt", "42").commit("the answer key");
    stage.repo.checkout("main");
    let steps = format!(
        "{FIX}run sh -c \"(git log --all --format=%s; git stash list; git fsck --lost-found; git branch -a) > seen.txt 2>&1\""
    );
    let round = stage.maker(&steps).ships();
    let seen = round.shipped_file("seen.txt");
    assert!(!seen.contains("answer key") && !seen.contains("other"), "{seen}");
}

#[test]
fn h076_a_process_that_writes_later_writes_nothing_that_counts() {
    let stage = Stage::new();
    let steps = format!("{FIX}write-later 300 README.md \"swapped\\n\"\nwrite-later 0 late.txt \"maybe\\n\"");
    let round = stage.maker(&steps).ships();
    assert_eq!(round.shipped_file("README.md"), "A calculator.");
}

#[test]
fn h112_a_file_swapped_after_the_maker_ended_is_not_what_ships() {
    let stage = Stage::new();
    let swap = "while :; do echo swapped > README.md; echo swapped > calc.sh; done";
    let steps = format!("{FIX}setsid-child sh -c \"while kill -0 $PPID; do :; done; {swap}\"");
    let round = stage.maker(&steps);
    // Between the maker's exit and the end of its other processes they can still write. That is before the seal, so the
    // gates judge those files, and reject them.
    if round.json["outcome"] == "rejected" {
        assert_eq!(round.json["outbox"][0]["state"], "staged", "{}", round.story());
    } else {
        assert_eq!(round.ships().shipped_file("calc.sh"), "add() { echo $(($1 + $2)); }");
    }
}

#[test]
fn workspace_deleted_by_its_maker_ships_nothing() {
    let round = Stage::new().maker("run sh -c \"rm -rf $PWD\"");
    let outcome = round.json["outcome"].as_str().map(str::to_owned);
    assert!(matches!(outcome.as_deref(), Some("rejected" | "refused" | "failed")), "{}", round.story());
}

/// Root can read the file, so the change ships as written; with any other user nothing ships.
#[test]
fn file_without_permissions_is_shipped_as_written_or_not_at_all() {
    let stage = Stage::new();
    let round = stage.maker(&format!("{FIX}write deep/x.txt x\nrun chmod 000 deep/x.txt calc.sh"));
    let root = std::fs::metadata("/proc/self").is_ok_and(|me| std::os::unix::fs::MetadataExt::uid(&me) == 0);
    assert_eq!(round.json["outcome"] == "shipped", root, "{:#}", round.json);
    if root {
        assert_eq!(round.shipped_file("calc.sh"), "add() { echo $(($1 + $2)); }");
    }
}
