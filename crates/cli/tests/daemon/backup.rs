//! `backup` beside a running daemon, and `restore`: all of it or nothing.

use crate::world::World;
use loopwright_testkit::postgres;
use std::fs;
use std::path::{Path, PathBuf};

fn backed_up(world: &World) -> PathBuf {
    let folder = world.env.root().join("kept/state");
    let made = world.run(&format!("backup {} --json", folder.display())).success().json();
    assert_eq!(made["backup"]["folder"], folder.display().to_string());
    assert!(made["backup"]["events"].as_i64() > Some(0), "{made:#}");
    folder
}

/// The names of everything beside a folder that begins like it.
fn beside(folder: &Path) -> Vec<String> {
    let names = fs::read_dir(folder.parent().expect("a parent")).expect("a listing");
    let mut names: Vec<String> =
        names.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

#[test]
fn a_waiting_round_is_backed_up_beside_a_daemon_and_ships_after_its_state_was_lost_and_restored() {
    let world = World::new();
    let daemon = world.up();
    let round = world.run("run fix --json").code(10).json()["round"].as_str().expect("a round").to_owned();
    let report = world.run(&format!("report {round}")).success().stdout();
    let folder = backed_up(&world);
    assert_eq!(beside(&folder), ["state"], "no draft is left");
    // Later changes are not in the backup.
    drop(world.run("run look").success());
    daemon.stop();
    fs::remove_dir_all(world.env.state()).expect("the state is lost");

    let restored = world.run(&format!("restore {}", folder.display())).success().stdout();
    assert!(restored.contains("loopwright up"), "{restored}");
    assert_eq!(world.json("rounds")["rounds"].as_array().map(Vec::len), Some(1));
    assert_eq!(world.run(&format!("report {round}")).success().stdout(), report);
    assert_eq!(world.json("verify")["ok"], true);
    let shipped = world.run(&format!("approve {round} --json")).success().json();
    assert_eq!(shipped["outcome"], "shipped", "{shipped:#}");
    drop(world.run("run look").success());
}

#[test]
fn branches_of_any_name_are_kept_and_drafts_of_a_forge_are_not() {
    let world = World::new();
    drop(world.run("run look").success());
    let forge = world.env.state().join("forge/house");
    for path in ["repo.git/refs/heads/tmp", "repo.git/refs/heads/lock", "tmp/draft", "lock"] {
        let path = forge.join(path);
        fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
        fs::write(path, "x").expect("a file");
    }
    fs::create_dir_all(forge.join("repo.git/refs/tags")).expect("a folder");
    let folder = backed_up(&world);
    let other = world.env.root().join("other");
    drop(world.run(&format!("restore {} --state {}", folder.display(), other.display())).success());
    assert!(other.join("forge/house/repo.git/refs/tags").is_dir(), "git wants folders that are empty too");
    let kept = other.join("forge/house");
    assert!(kept.join("repo.git/refs/heads/tmp").is_file() && kept.join("repo.git/refs/heads/lock").is_file());
    assert!(!kept.join("tmp").exists() && !kept.join("lock").exists());
}

#[test]
fn an_incomplete_backup_restores_nothing() {
    let world = World::new();
    drop(world.run("run look").success());
    let folder = backed_up(&world);
    let lost = world.env.root().join("lost");
    fs::rename(world.env.state(), &lost).expect("the state is lost");
    let restore = format!("restore {}", folder.display());
    let report = fs::read_dir(folder.join("reports")).expect("reports").next().expect("one").expect("an entry").path();
    let good = fs::read(&report).expect("a report");
    let damages: [&dyn Fn(); 3] = [
        &|| fs::write(&report, b"all was shipped").expect("a file"),
        &|| fs::remove_file(&report).expect("a file"),
        &|| {
            fs::remove_file(&report).expect("a file");
            std::os::unix::fs::symlink("/etc/hostname", &report).expect("a link");
        },
    ];
    for damage in damages {
        damage();
        let refused = world.run(&restore).code(1).stderr();
        assert!(refused.contains("the backup is damaged: `reports/"), "{refused}");
        assert!(!world.env.state().exists() && beside(&world.env.state()).iter().all(|name| !name.ends_with(".new")));
        let _ = fs::remove_file(&report);
        fs::write(&report, &good).expect("a file");
    }
    let manifest = folder.join("backup.json");
    let text = fs::read_to_string(&manifest).expect("a manifest");
    for (from, to, what) in [
        ("\"reports/", "\"../reports/", "leads out of the folder"),
        ("\"schema\": 1", "\"schema\": 7", "is not a backup"),
        ("\"schema\": 1", "schema 1", "is not a backup"),
    ] {
        fs::write(&manifest, text.replacen(from, to, 1)).expect("a file");
        let ran = world.run(&restore);
        assert!(ran.stderr().contains(what), "{}", ran.stderr());
        assert!(!world.env.state().exists());
    }
    fs::write(&manifest, text).expect("a file");
    drop(world.run(&restore).success());
    assert_eq!(world.json("rounds")["rounds"].as_array().map(Vec::len), Some(1));
}

#[test]
fn neither_overwrites_existing_files() {
    let world = World::new();
    drop(world.run("backup").code(2));
    drop(world.run("run look").success());
    let folder = backed_up(&world);
    let twice = world.run(&format!("backup {}", folder.display())).code(2).stderr();
    assert!(twice.contains("already exists") && twice.contains("loopwright backup FOLDER"), "{twice}");
    let over = world.run(&format!("restore {}", folder.display())).code(2).stderr();
    assert!(over.contains("already exists") && over.contains("--state"), "{over}");
    let other = world.run(&format!("restore {}", world.repo.path().display())).code(2).stderr();
    assert!(other.contains("is not a backup"), "{other}");
    assert_eq!(world.json("rounds")["rounds"].as_array().map(Vec::len), Some(1), "what was there is there");
    // Without a given name, the backup is named by the time and is written to the current folder.
    let made = world.json("backup");
    assert!(world.repo.path().join(made["backup"]["folder"].as_str().expect("a folder")).join("backup.json").is_file());
}

#[test]
fn a_database_of_postgresql_is_left_to_its_own_tools() {
    let world = World::on(&postgres::server().database());
    drop(world.run("run look").success());
    let refused = world.run("backup").code(1).stderr();
    assert!(refused.contains("pg_dump"), "{refused}");
    let refused = world.run("restore anything").code(2).stderr();
    assert!(refused.contains("`store` in the configuration"), "{refused}");
}
