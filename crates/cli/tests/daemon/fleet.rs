//! Several repositories, seen from a folder outside all of them.

use crate::world::{LONG, REPORT, World};
use loopwright_testkit::{CommandRun, wait};

/// Two repositories of the configuration, each with the loop `beat`; the daemon runs no other loop of the second.
fn two() -> World {
    let world = World::new();
    world.add("beat", "check: none\non: { daily: \"03:00\" }\n", REPORT);
    world.add("only-here", "check: none\non: { daily: \"04:00\" }\n", REPORT);
    world.repo.commit("loops");
    let second = world.env.repo("second");
    for file in [".loopwright/loops/beat.md", ".loopwright/loops/only-here.md", ".loopwright/beat.script"] {
        second.write(file, world.repo.read(file));
    }
    second.commit("first");
    let config = world.env.root().join("config/loopwright/config.yaml");
    std::fs::create_dir_all(config.parent().expect("a folder")).expect("it can be made");
    let (one, two) = (world.repo.path().display(), second.path().display());
    std::fs::write(&config, format!("repos:\n  - {one}\n  - path: {two}\n    loops: [beat]\n")).expect("written");
    world
}

fn from_outside(world: &World, line: &str) -> CommandRun {
    world.env.loopwright(line.split(' '))
}

#[test]
fn status_shows_every_loop_of_a_daemon_before_anything_has_run() {
    let world = two();
    let status = from_outside(&world, "status --json").success().json();
    let rows = status["loops"].as_array().expect("a list");
    let named: Vec<_> = rows.iter().map(|row| row["loop"].as_str().unwrap_or_default()).collect();
    assert_eq!(named, ["beat", "beat", "fix", "look", "only-here"]);
    assert!(rows[0]["next"].is_string() && rows[0]["cadence"] == "daily 03:00" && rows[0]["repo"] != rows[1]["repo"]);
    let played = from_outside(&world, "simulate --days 2 --json").success().json();
    assert_eq!(played["loops"].as_array().map(Vec::len), Some(5), "{played}");
    let page = from_outside(&world, "status").success();
    assert!(page.stdout().contains("repo/beat ") && page.stdout().contains("second/beat "), "{}", page.stdout());
    std::fs::write(world.env.state().join("STOP"), "").expect("it can be written");
    let page = from_outside(&world, "status").success();
    assert!(page.stdout().contains("everything is stopped by the file STOP"), "{}", page.stdout());
}

#[test]
fn a_loop_of_one_repository_is_found_by_its_name_and_one_of_several_is_asked_about() {
    let world = two();
    let _ = from_outside(&world, "pause only-here").success();
    let why = from_outside(&world, "why only-here").success();
    assert!(why.stdout().contains("only-here is paused"), "{}", why.stdout());
    let shown = from_outside(&world, "show only-here --json").success().json();
    assert_eq!((&shown["status"], &shown["cadence"]), (&"paused".into(), &"daily 04:00".into()));
    let which = from_outside(&world, "pause beat").code(2);
    let text = which.stderr();
    assert!(text.contains("several repositories have a loop `beat`") && text.contains("--repo DIR"), "{text}");
    let _ = from_outside(&world, "pause beat --repo second").success();
}

/// The resident memory of a process in KiB.
fn resident_kib(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("the daemon runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("the kernel says it");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}

#[test]
fn daemon_gives_back_the_memory_of_commands_that_read_every_loop_file() {
    let world = World::new();
    for number in 0..2_000 {
        world.repo.write(
            &format!(".loopwright/loops/many-{number:04}.md"),
            format!("---\nname: many-{number:04}\nintent: keep part {number} right\nlevel: L1\n---\n# Maker\nLook.\n"),
        );
    }
    let daemon = world.up();
    let _ = world.run("why many-0007").success();
    let least = std::cell::Cell::new(u64::MAX);
    // The memory of the first command settles in the background.
    wait::until("the daemon has settled", LONG, || {
        let (before, now) = (least.get(), resident_kib(daemon.pid()));
        least.set(before.min(now));
        before != u64::MAX && now >= before
    });
    for number in 0..6 {
        let why = world.run(&format!("why many-{number:04}")).success();
        assert!(why.stdout().contains("many-000"), "{}", why.stdout());
    }
    let limit = least.get() + (8 << 10);
    wait::until(&format!("the daemon is below {limit} KiB again"), LONG, || resident_kib(daemon.pid()) < limit);
}
