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
    assert_eq!(keys(&whole), ["schema", "ok", "events", "broken"]);
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
