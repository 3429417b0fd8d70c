//! The record and its uses: reports, the chain, branches for people, garbage collection, retries.

use super::fixture::{FIX, Place, keys};
use loopwright_testkit::repo::git;
use sqlx::Connection as _;
use std::fs;
use std::path::Path;

#[test]
fn report_is_regenerated_to_the_same_bytes() {
    let place = Place::new();
    place.add("notes", "L1", "check: none", "@ maker\nsay all is well\n");
    place.add("staged", "L1", "check: none", "@ maker\nstage report.md \"# It is <b>well</b>\"\n");
    place.add("idle", "L2", "output: [{ pull-request: {} }]", "@ maker\nsay done\n");
    let denied = place.round("fix", 10);
    place.ends(&format!("deny {denied} --why no"), 0);
    let shipped = place.round("fix", 10);
    place.ends(&format!("approve {shipped}"), 0);
    // Without its pull request, the same change may be proposed again.
    fs::remove_dir_all(place.env.state().join("forge")).expect("the local forge");
    let waiting = place.round("fix", 10);
    let rounds = [waiting, shipped, denied, place.round("notes", 0), place.round("staged", 0), place.round("idle", 11)];
    for round in rounds {
        let path = place.run(&format!("report {round} --path")).success().stdout().trim().to_owned();
        let written = fs::read_to_string(&path).expect("the report is there");
        assert_eq!(place.run(&format!("report {round}")).success().stdout(), written);
        fs::remove_file(&path).expect("it can be removed");
        assert_eq!(place.run(&format!("report {round}")).success().stdout(), written, "{round}");
        assert!(!Path::new(&path).exists(), "printing writes nothing");
        place.ends(&format!("report {round} --path"), 0);
        assert_eq!(fs::read_to_string(&path).expect("it is there again"), written);
        let document = place.run(&format!("report {round} --json")).success().json();
        assert_eq!(keys(&document), ["schema", "round", "path", "markdown"]);
    }
}

#[test]
fn verify_names_a_manually_edited_event() {
    let place = Place::new();
    let round = place.round("fix", 10);
    let whole = place.run("verify --json").success().json();
    assert_eq!(keys(&whole), ["schema", "ok", "events", "bytes", "broken"]);
    assert!(whole["ok"] == true && whole["broken"].is_null());
    edit(&place.env.state().join("store.db"));
    let broken = place.run("verify --json").code(1).json();
    assert_eq!(
        (&broken["ok"], &broken["broken"]["seq"], &broken["broken"]["round"]),
        (&false.into(), &1.into(), &round.as_str().into())
    );
    let page = place.run("verify").code(1).stdout();
    assert!(page.starts_with(&format!("the record is BROKEN at event 1 of round {round}: ")), "{page}");
}

/// Edits an event without the store, after removing the journal's triggers.
fn edit(store: &Path) {
    let sql =
        "DROP TRIGGER events_keep_update; UPDATE events SET body = replace(body, 'manual', 'mutual') WHERE seq = 1";
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let options = sqlx::sqlite::SqliteConnectOptions::new().filename(store);
        let mut conn = sqlx::SqliteConnection::connect_with(&options).await.expect("opens");
        sqlx::raw_sql(sql).execute(&mut conn).await.expect("edits");
        conn.close().await.expect("closes");
    });
}

#[test]
fn take_adds_one_branch_and_nothing_else() {
    let place = Place::new();
    let round = place.round("fix", 10);
    place.repo.write("calc.sh", "dirty\n").write("untracked", "x");
    let before = place.repo.tree_digest();
    let head = place.repo.head();
    let taken = place.run(&format!("take {round} --json")).success().json();
    assert_eq!(keys(&taken), ["schema", "round", "branch", "commit", "repo"]);
    let branch = format!("take/{round}");
    let changes = before.changes(&place.repo.tree_digest());
    let (objects, others): (Vec<_>, Vec<_>) = changes.into_iter().partition(|path| path.starts_with("+.git/objects/"));
    // A branch has its reflog, which is deleted with it.
    let others: Vec<_> = others.into_iter().filter(|path| !path.starts_with("+.git/logs/refs/heads/take")).collect();
    assert!(!objects.is_empty());
    assert_eq!(others, ["+.git/refs/heads/take".to_owned(), format!("+.git/refs/heads/{branch}")]);
    assert_eq!((place.repo.head(), place.repo.read("calc.sh")), (head.clone(), "dirty\n".to_owned()));
    let shown = git(place.repo.path(), ["show", &format!("{branch}:calc.sh")]);
    assert_eq!(shown, "#!/bin/sh\necho $(( $1 + $2 ))");
    assert_eq!(git(place.repo.path(), ["rev-parse", &format!("{branch}^")]), head);

    let again = place.repo.tree_digest();
    place.ends(&format!("take {round}"), 15);
    place.add("notes", "L1", "check: none", "@ maker\nsay all is well\n");
    let empty = place.round("notes", 0);
    let refused = place.run(&format!("take {empty}")).code(15);
    assert!(refused.stderr().contains("sealed no change"), "{refused:?}");
    let touched = again.changes(&place.repo.tree_digest());
    assert_eq!(touched, ["+.loopwright/loops/notes.md", "+.loopwright/notes.script"]);
}

#[test]
fn gc_frees_ended_rounds_and_keeps_waiting_ones() {
    let place = Place::new();
    place.add("notes", "L1", "check: none", "@ maker\nsay all is well\n");
    let waiting = place.round("fix", 10);
    let ended = place.round("notes", 0);
    let transcripts = |round: &str| place.env.state().join("transcripts").join(round);
    let listed = place.run("gc --days 0 --dry-run --json").success().json();
    assert_eq!(keys(&listed), ["schema", "dry_run", "removed", "freed_bytes", "rows", "stuck"]);
    assert!(transcripts(&ended).exists());
    let removed = place.run("gc --days 0 --json").success().json();
    assert_eq!(removed["removed"], listed["removed"]);
    let gone = removed["removed"].to_string();
    assert!(gone.contains(&ended) && !gone.contains(&waiting), "{gone}");
    assert!(!transcripts(&ended).exists() && transcripts(&waiting).exists());
    // The remaining files are enough to approve the candidate, and the record is complete.
    place.ends(&format!("approve {waiting}"), 0);
    place.ends(&format!("report {ended}"), 0);
    place.ends("verify", 0);
    let kept = place.run("gc").success().stdout();
    assert!(kept.ends_with("freed 0 bytes in 0 places\n"), "{kept}");
}

/// The names of the refs of the engine's repository, and its number of loose objects.
fn candidates(place: &Place) -> (String, usize) {
    let spaces = fs::read_dir(place.env.state().join("workspaces")).expect("the workspaces");
    let dir =
        spaces.flatten().map(|repo| repo.path().join("engine.git")).find(|dir| dir.exists()).expect("a repository");
    let count = git(&dir, ["count-objects"]).split(' ').next().and_then(|word| word.parse().ok());
    (git(&dir, ["for-each-ref", "--format=%(refname)", "refs/loopwright"]), count.expect("a number"))
}

/// Sets the time of the last change of a file to years ago.
fn make_old(path: &std::path::Path) {
    let long_ago = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_500_000_000);
    fs::File::options().write(true).open(path).expect("a file").set_modified(long_ago).expect("its time");
}

#[test]
fn gc_keeps_files_of_others_beside_evidence() {
    let place = Place::new();
    place.round("fix", 10);
    let (elsewhere, folder) = (place.env.root().join("elsewhere"), place.env.state().join("evidence"));
    fs::create_dir_all(&elsewhere).expect("a folder");
    let (own, foreign) = (elsewhere.join("ab".repeat(32)), elsewhere.join("letters.txt"));
    for path in [&own, &foreign] {
        fs::write(path, "x").expect("a file");
        make_old(path);
    }
    let _ = fs::remove_dir_all(&folder);
    std::os::unix::fs::symlink(&elsewhere, &folder).expect("a link");
    let waiting = place.run("gc --days 0 --json").success().json();
    assert!(foreign.exists() && !waiting["removed"].to_string().contains("letters"), "{waiting}");
    assert!(!own.exists(), "old evidence goes: {waiting}");
}

/// A start cleans these folders, and a link may lead to the files of any program.
#[test]
fn state_folder_that_is_a_link_is_not_cleaned() {
    let place = Place::new();
    place.round("fix", 10);
    for name in ["processes", "doors"] {
        let (elsewhere, folder) = (place.env.root().join(format!("{name}-elsewhere")), place.env.state().join(name));
        fs::create_dir_all(elsewhere.join("precious")).expect("a folder");
        fs::write(elsewhere.join("precious/letter"), "x").expect("a file");
        fs::write(elsewhere.join("00ff"), "").expect("a file");
        fs::write(elsewhere.join("passwd"), "x").expect("a file");
        let _ = fs::remove_dir_all(&folder);
        std::os::unix::fs::symlink(&elsewhere, &folder).expect("a link");
    }
    let _ = place.run("gc --days 0").transcript();
    let _ = place.run("pause fix").transcript();
    for name in ["processes", "doors"] {
        let elsewhere = place.env.root().join(format!("{name}-elsewhere"));
        for file in ["precious/letter", "00ff", "passwd"] {
            assert!(elsewhere.join(file).exists(), "{name}: {file}");
        }
    }
}

/// A backup, a tool or a person can leave anything in the state directory.
#[test]
fn pipe_in_the_place_of_a_state_file_blocks_no_command() {
    use rustix::fs::{CWD, FileType, Mode};
    for file in ["access.json", "access.lock", "daemon.log", "STOP"] {
        let place = Place::new();
        place.round("fix", 10);
        let pipe = place.env.state().join(file);
        rustix::fs::mknodat(CWD, &pipe, FileType::Fifo, Mode::RWXU, 0).expect("a pipe");
        let commands = ["token list", "token add a --role view", "status", "inbox", "stop --all --why x", "thaw"];
        for words in commands {
            let _ = place.run(words);
        }
        if file == "daemon.log" {
            let refused = place.run("up --detach").code(1).transcript();
            assert!(refused.contains("start the daemon"), "{refused}");
        }
    }
}

#[test]
fn question_whose_change_is_damaged_hides_no_other_question() {
    let place = Place::new();
    let damaged = place.round("fix", 10);
    let dirs = fs::read_dir(place.env.state().join("workspaces")).expect("a folder").flatten();
    for dir in dirs.map(|repo| repo.path().join("engine.git/objects")).filter(|dir| dir.exists()) {
        fs::remove_dir_all(&dir).expect("the objects");
        fs::create_dir(&dir).expect("an empty folder");
    }
    let page = place.run("inbox").success().stdout();
    assert!(page.contains(&damaged) && page.contains("damaged: the change of round"), "{page}");
    assert!(page.contains("deny with:"), "{page}");
    let page = place.run(&format!("show {damaged}")).success().stdout();
    assert!(page.contains("verdict") && page.contains("damaged: the change of round"), "{page}");
}

#[test]
fn lock_that_a_killed_git_left_blocks_neither_a_round_nor_gc_for_ever() {
    let place = Place::new();
    let shipped = place.round("fix", 10);
    place.ends(&format!("approve {shipped}"), 0);
    let repos = ["workspaces", "forge"].into_iter().flat_map(|folder| {
        let repos = fs::read_dir(place.env.state().join(folder)).expect("a folder").flatten();
        repos.flat_map(|repo| ["engine.git", "repo.git"].map(|name| repo.path().join(name))).filter(|dir| dir.exists())
    });
    let locks: Vec<_> = repos.map(|dir| dir.join("packed-refs.lock")).collect();
    assert_eq!(locks.len(), 2, "{locks:?}");
    locks.iter().for_each(|lock| fs::write(lock, "").expect("a file"));
    let blocked = place.run("gc --days 0").code(1).stdout();
    assert!(blocked.contains("could not remove candidate"), "a young lock stays: {blocked}");
    locks.iter().for_each(|lock| make_old(lock));
    place.ends("gc --days 0", 0);
    assert!(locks.iter().all(|lock| !lock.exists()));
}

#[test]
fn gc_removes_the_candidates_of_old_rounds_and_packs_those_that_stay() {
    let place = Place::new();
    let shipped = place.round("fix", 10);
    place.ends(&format!("approve {shipped}"), 0);
    fs::remove_dir_all(place.env.state().join("forge")).expect("the local forge");
    let waiting = place.round("fix", 10);
    let (refs, loose) = candidates(&place);
    assert!(refs.contains(&shipped) && refs.contains(&waiting) && loose > 0, "{refs}");
    // A recent candidate stays.
    let _ = place.run("gc").success();
    assert_eq!(candidates(&place).0, refs);
    let listed = place.run("gc --days 0 --dry-run --json").success().json();
    assert_eq!(candidates(&place), (refs, loose), "a dry run changes nothing");
    let removed = place.run("gc --days 0 --json").success().json();
    assert_eq!(removed["removed"], listed["removed"]);
    let gone = |round: &str| removed["removed"].to_string().contains(&format!("refs/loopwright/{round}"));
    assert!(gone(&shipped) && !gone(&waiting), "{removed}");
    let (refs, loose) = candidates(&place);
    assert!(!refs.contains(&shipped) && refs.contains(&waiting) && loose == 0, "{refs}, {loose} loose objects");
    let lost = place.run(&format!("take {shipped}")).code(15);
    assert!(lost.stderr().contains("gc"), "{}", lost.stderr());
    place.ends(&format!("approve {waiting}"), 0);
    place.ends("verify", 0);
}

#[test]
fn retry_runs_the_present_file_with_the_same_item() {
    let place = Place::new();
    place.add("fix", "L2", "output: [{ pull-request: {} }]", "@ maker\nsay done\n");
    let first = place.run("run fix --item issue-7 --json").code(11).json();
    let round = first["round"].as_str().expect("a round");
    place.add("fix", "L2", "output: [{ pull-request: {} }]", FIX);
    let second = place.run(&format!("retry {round} --json")).code(10).json();
    assert_eq!((&second["item"], &second["outcome"]), (&"issue-7".into(), &"escalated".into()));
    assert_ne!(second["round"], first["round"]);
    let waiting = second["round"].as_str().expect("a round");
    let refused = place.run(&format!("retry {waiting}")).code(15);
    assert!(refused.stderr().contains("waits for an answer"), "{refused:?}");
    place.repo.remove(".loopwright/loops/fix.md");
    place.ends(&format!("retry {round}"), 2);
}
