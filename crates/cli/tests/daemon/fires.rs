//! The rounds that a daemon starts, the state it leaves, and the ways to stop it.

use crate::world::{Daemon, LONG, REPORT, World};
use loopwright_testkit::repo::git;
use loopwright_testkit::{user, wait};
use serde_json::Value;
use std::os::unix::fs::PermissionsExt as _;

/// A test world with the loop `beat`, due every second.
fn beating() -> World {
    let world = World::new();
    world.add("beat", "check: none\non: { every: 1s }\n", REPORT);
    world
}

fn rounds_of(world: &World, name: &str) -> Vec<Value> {
    let all = world.json(&format!("rounds {name}"));
    all["rounds"].as_array().cloned().unwrap_or_default()
}

fn wait_for_round(world: &World, name: &str) {
    wait::until("a round", LONG, || rounds_of(world, name).iter().any(|round| round["outcome"] == "reported"));
}

#[test]
fn a_due_loop_is_started_and_its_moment_has_a_receipt() {
    let world = beating();
    let daemon = world.up();
    daemon.wait_for(" end       beat round");
    let page = world.json("show beat");
    let started: Vec<&Value> =
        page["receipts"].as_array().expect("a list").iter().filter(|receipt| receipt["round"].is_string()).collect();
    assert!(!started.is_empty(), "{page}");
    assert_eq!(started[0]["trigger"], "every 1s");
    assert!(started[0]["round"].is_string() && started[0]["due"].as_str().is_some_and(|due| due.starts_with("20")));
    let status = world.json("status");
    assert_eq!(status["daemon"]["pid"].as_u64(), Some(u64::from(daemon.pid())));
    daemon.stop();
    let page = world.json("show beat");
    let dues: Vec<String> =
        page["receipts"].as_array().expect("a list").iter().map(|one| one["due"].to_string()).collect();
    let mut once = dues.clone();
    once.sort();
    once.dedup();
    assert_eq!(once.len(), dues.len(), "a due moment has two receipts: {page}");
}

#[test]
fn log_of_a_daemon_has_the_stages_of_its_rounds_and_what_agents_write_only_for_debugging() {
    for (level, shows_agents) in [("info", false), ("debug", true)] {
        let World { env, repo } = beating();
        let world = World { env: env.with_env("LOOPWRIGHT_LOG", level), repo };
        let daemon = world.up();
        daemon.wait_for("make      beat round");
        daemon.wait_for("end       beat round");
        let said = daemon.stop();
        assert_eq!(said.contains("| all is well"), shows_agents, "{said}");
    }
}

#[test]
fn daemon_opens_no_more_pull_requests_than_open_max_until_a_person_closes_one() {
    let world = World::new();
    let front = "level: L3\nallow: [pull-request]\nattempts: 1\nopen_max: 2\noutput: [pull-request]\non: { every: 1s }\n\
                 gates: [{ name: small, diff: { files_max: 9 } }]\nbudget: { day: { usd: 1000 } }\n";
    // Each round proposes another change: the same one is proposed once.
    let note = "@ maker\nrun sh -c \"echo $LOOPWRIGHT_ROUND > note\"\n";
    world.add("ship", front, &crate::world::FIX.replacen("@ maker\n", note, 1));
    world.repo.commit("a loop that ships by itself");
    let daemon = world.up();
    daemon.wait_for("2 pull requests are open, at most 2 may be");
    let forge = std::fs::read_dir(world.env.state().join("forge")).expect("a forge").flatten().next();
    let pulls = forge.expect("of one repository").path().join("pulls");
    let count = || std::fs::read_dir(&pulls).expect("it is there").flatten().count();
    assert_eq!(count(), 2);
    let refused = world.run("run ship").code(15);
    assert!(refused.stderr().contains("`open_max` is 2"), "{}", refused.stderr());
    let page = pulls.join("1.md");
    let text = std::fs::read_to_string(&page).expect("the page is there");
    std::fs::write(&page, text.replace("state: open", "state: closed")).expect("it can be written");
    wait::until("there is room again", LONG, || count() == 3);
    daemon.stop();
    assert_eq!(count(), 3);
}

#[test]
fn nothing_fires_because_a_daemon_started() {
    let world = World::new();
    world.add("later", "check: none\non: { every: 12h }\n", REPORT);
    let daemon = world.up();
    daemon.wait_for(" next ");
    daemon.stop();
    assert_eq!(rounds_of(&world, "later").len(), 0);
}

#[test]
fn a_killed_daemon_is_followed_by_one_that_needs_no_manual_repair() {
    let world = beating();
    world.add("hang", "check: none\non: { every: 1s }\n", "@ maker\nsay here we go\nhang\n");
    let mut daemon = world.up();
    daemon.wait_for("start     hang");
    wait_for_round(&world, "beat");
    daemon.signal("KILL");
    daemon.ended();
    let daemon = world.up_with("up --grace 1s");
    daemon.wait_for("end       hang round");
    daemon.wait_for("end       beat round");
    let said = daemon.said();
    daemon.stop();
    let open: Vec<Value> = rounds_of(&world, "hang").into_iter().filter(|round| round["outcome"].is_null()).collect();
    assert!(open.is_empty(), "{open:?}\n{said}");
    assert_eq!(world.json("verify")["ok"], true);
}

#[test]
fn a_stop_lets_rounds_end_and_a_second_signal_interrupts_them() {
    let world = World::new();
    let go = world.env.root().join("go");
    world.add(
        "slow",
        "check: none\nsandbox: off\non: { every: 1s }\n",
        &format!("@ maker\nsleep-until {}\nstage report.md \"Done.\"\n", go.display()),
    );
    let mut daemon = world.up();
    daemon.wait_for("start     slow");
    daemon.signal("TERM");
    daemon.wait_for("ending    1 round");
    let refused = world.run("run look").code(1);
    assert!(refused.stderr().contains("is ending"), "{}", refused.stderr());
    std::fs::write(&go, "").expect("it can be written");
    assert!(daemon.ended().success(), "{}", daemon.said());
    assert_eq!(rounds_of(&world, "slow")[0]["outcome"], "reported");
    std::fs::remove_file(&go).expect("it was there");
    let mut daemon = world.up();
    daemon.wait_for("start     slow");
    daemon.signal("TERM");
    daemon.wait_for("ending    1 round");
    daemon.signal("TERM");
    assert!(daemon.ended().success(), "{}", daemon.said());
    assert_eq!(rounds_of(&world, "slow")[0]["outcome"], "interrupted");
    let mut daemon = world.up();
    daemon.wait_for("start     slow");
    assert!(world.run("stop --now").success().stdout().contains("has ended"));
    assert!(daemon.ended().success(), "{}", daemon.said());
}

#[test]
fn a_stop_that_is_made_urgent_interrupts_rounds_and_leaves_none_open() {
    let world = World::new();
    world.add("hang", "check: none\non: { every: 1s }\n", "@ maker\nhang\n");
    let mut daemon = world.up();
    daemon.wait_for("start     hang");
    daemon.signal("TERM");
    daemon.wait_for("ending    1 round");
    assert!(world.run("stop --now").success().stdout().contains("has ended"));
    assert!(daemon.ended().success(), "{}", daemon.said());
    assert_eq!(rounds_of(&world, "hang")[0]["outcome"], "interrupted");
}

#[test]
fn a_pass_that_is_interrupted_ends_its_rounds() {
    let world = World::new();
    world.add("hang", "check: none\non: { every: 1s }\n", "@ maker\nhang\n");
    let mut pass = wait::value("a due moment", LONG, || {
        let mut pass = Daemon::start(&world, "tick");
        wait::until("its start or its end", LONG, || pass.said().contains("start     hang") || pass.is_over());
        pass.said().contains("start     hang").then_some(pass)
    });
    pass.signal("TERM");
    assert_eq!(pass.ended().code(), Some(130), "{}", pass.said());
    assert_eq!(rounds_of(&world, "hang")[0]["outcome"], "interrupted");
}

#[test]
fn a_daemon_whose_terminal_goes_away_ends() {
    let world = beating();
    let command = world.env.command(world.repo.path());
    // `script` provides a terminal, which closes when `script` is killed.
    let line = format!("exec {} up", command.get_program().to_string_lossy());
    let mut terminal = std::process::Command::new("script");
    terminal.args(["--quiet", "--command", &line, "/dev/null"]).current_dir(world.repo.path());
    terminal.env_clear().envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let mut terminal = Daemon::spawn(terminal);
    let runs = || world.json("status")["daemon"]["pid"].is_number();
    wait_for_round(&world, "beat");
    assert!(runs());
    terminal.signal("KILL");
    terminal.ended();
    wait::until("the daemon ends", LONG, || !runs());
}

#[test]
fn stop_all_holds_over_a_restart_until_thaw() {
    let world = beating();
    let daemon = world.up();
    daemon.wait_for("start     beat");
    let stopped = world.run("stop --all --why lunch").success();
    assert!(stopped.stdout().contains("loopwright thaw"), "{}", stopped.stdout());
    daemon.wait_for(&format!("stopped   everything, by {}: lunch", user::name()));
    daemon.wait_for("skip      beat stopped");
    daemon.stop();
    assert!(world.env.state().join("STOP").is_file());
    let daemon = world.up();
    daemon.wait_for("skip      beat stopped");
    let why = world.run("why beat").success();
    assert!(why.stdout().contains("everything is stopped") && why.stdout().contains("thaw"), "{}", why.stdout());
    assert_eq!(world.json("status")["loops"][0]["status"], "stopped");
    let before = rounds_of(&world, "beat").len();
    assert_eq!(world.json("thaw")["thawed"], true);
    daemon.wait_for("start     beat");
    daemon.stop();
    assert!(rounds_of(&world, "beat").len() > before);
    assert!(!world.env.state().join("STOP").exists());
}

#[test]
fn the_file_stop_stops_everything_with_and_without_a_daemon() {
    let world = beating();
    let file = world.env.state().join("STOP");
    std::fs::write(&file, "the printer burns\n").expect("it can be written");
    let daemon = world.up();
    daemon.wait_for("skip      beat stopped");
    std::fs::remove_file(&file).expect("it was there");
    daemon.wait_for("start     beat");
    // Renamed into place: a daemon that reads a file between its creation and its text sees no reason.
    let written = world.env.root().join("tmp/again");
    std::fs::write(&written, "again\n").expect("it can be written");
    std::fs::rename(&written, &file).expect("it can be renamed");
    daemon.wait_for("stopped   everything, by file: again");
    daemon.stop();
    assert_eq!(world.json("thaw")["thawed"], true, "without a daemon");
    assert!(!file.exists());
    assert_eq!(world.json("stop --all")["frozen"], true);
    let ticked = world.json("tick");
    assert_eq!(ticked["rounds"].as_array().map(Vec::len), Some(0), "{ticked}");
    let refused = world.run("run look").code(15);
    assert!(refused.stderr().contains(&format!("everything is stopped by {}", user::name())), "{}", refused.stderr());
    assert_eq!(world.json("thaw")["thawed"], true);
    assert_eq!(world.run("run look --json").success().json()["outcome"], "reported");
}

#[test]
fn a_paused_loop_starts_nothing_until_it_is_resumed_with_and_without_a_daemon() {
    let world = beating();
    let paused = world.json("pause beat --why flaky");
    assert_eq!((paused["paused"].as_bool(), paused["reason"].as_str()), (Some(true), Some("flaky")));
    let line = &world.json("status")["loops"][0];
    assert_eq!((line["status"].as_str(), line["loop"].as_str()), (Some("paused"), Some("beat")));
    assert!(line["paused_reason"].as_str().is_some_and(|why| why.contains("flaky")), "{line}");
    let daemon = world.up();
    daemon.wait_for("skip      beat paused");
    assert_eq!(world.run("run beat --json").success().json()["outcome"], "reported", "by hand it runs");
    assert_eq!(world.json("resume beat")["was_paused"], true);
    daemon.wait_for("start     beat");
    assert_eq!(world.json("pause beat --why slow")["paused"], true);
    wait::until("the reason", LONG, || {
        let why = world.run("why beat").success().stdout();
        why.contains("slow") && why.contains("loopwright resume beat")
    });
    daemon.stop();
    assert_eq!(world.json("resume beat")["was_paused"], true, "without a daemon");
    assert_eq!(world.json("resume beat")["was_paused"], false);
}

#[test]
fn one_round_is_cancelled_by_its_id_and_the_daemon_continues() {
    let world = World::new();
    world.add("hang", "check: none\non: { every: 1s }\n", "@ maker\nsay here we go\nhang\n");
    let daemon = world.up();
    daemon.wait_for("start     hang");
    let round =
        wait::value("a round", LONG, || rounds_of(&world, "hang").first()?["round"].as_str().map(str::to_owned));
    let cancelled = world.run(&format!("stop {round}")).success();
    assert!(cancelled.stdout().contains(&format!("cancelled: round {round}")), "{}", cancelled.stdout());
    daemon.wait_for(&format!("end       hang round {round}: cancelled"));
    let report = world.json(&format!("show {round}"));
    assert_eq!((&report["outcome"], &report["exit"]), (&"cancelled".into(), &130.into()));
    assert_eq!(report["reasons"][0]["text"], format!("stopped manually by {}", user::name()));
    daemon.stop();
}

#[test]
fn an_urgent_stop_of_a_daemon_without_rounds_succeeds() {
    let world = World::new();
    let mut daemon = world.up();
    assert!(world.run("stop --now").success().stdout().contains("has ended"));
    assert!(daemon.ended().success(), "a manager would start it again: {}", daemon.said());
}

#[test]
fn an_unreadable_configuration_does_not_prevent_a_stop() {
    let world = World::new();
    world.add("hang", "check: none\non: { every: 1s }\n", "@ maker\nhang\n");
    // The state directory is named only in the file that becomes unreadable, or nowhere.
    let run = |line: &str| {
        let mut command = world.env.command(world.repo.path());
        command.args(line.split(' ')).env_remove("LOOPWRIGHT_STATE_DIR");
        command
    };
    let config = world.env.root().join("config/loopwright/config.yaml");
    std::fs::create_dir_all(config.parent().expect("a folder")).expect("it can be made");
    for (named, state) in [("", "home/.local/state/loopwright"), ("state_dir: $ # there\n", "elsewhere")] {
        let state = world.env.root().join(state);
        let named = named.replace('$', &format!("\"{}\"", state.display()));
        std::fs::write(&config, &named).expect("it can be written");
        let mut daemon = Daemon::spawn(run("up"));
        daemon.wait_for("start     hang");
        std::fs::write(&config, format!("{named}concurrency: [\n")).expect("it can be written");
        assert!(run("stop --all").output().expect("it runs").status.success());
        daemon.wait_for("cancel    hang");
        let mode = std::fs::metadata(state.join("STOP")).expect("the file that stops").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert!(run("stop").output().expect("it runs").status.success());
        assert!(daemon.ended().success(), "{}", daemon.said());
    }
}

#[test]
fn any_kind_of_file_at_the_stop_files_path_stops_and_is_reported() {
    let world = World::new();
    std::fs::create_dir(world.env.state().join("STOP")).expect("it can be made");
    let refused = world.run("run look").code(15);
    assert!(refused.stderr().contains("stopped"), "{}", refused.stderr());
    let status = world.run("status").success();
    assert!(status.stdout().contains("everything is stopped by the file STOP: no reason given"), "{}", status.stdout());
}

#[test]
fn edited_files_are_reloaded_and_broken_ones_keep_their_last_good_form() {
    let world = beating();
    let daemon = world.up();
    daemon.wait_for("start     beat");
    let good = world.repo.read(".loopwright/loops/beat.md");
    world.repo.write(".loopwright/loops/beat.md", good.replace("every: 1s", "every: never"));
    daemon.wait_for("its last good form stays in use");
    let why = world.run("why beat").success();
    let notice = "its file is unusable, so its last good form is in use: .loopwright/loops/beat.md:";
    assert!(why.stdout().contains(notice) && why.stdout().contains("loopwright check beat"), "{}", why.stdout());
    let count = rounds_of(&world, "beat").len();
    wait::until("a further round", LONG, || rounds_of(&world, "beat").len() > count + 1);
    world.repo.write(".loopwright/loops/beat.md", &good);
    daemon.wait_for("fixed     beat.md can be used again");
    world.add("extra", "check: none\non: { every: 1s }\n", REPORT);
    daemon.wait_for("start     extra");
    world.repo.remove(".loopwright/loops/extra.md");
    daemon.wait_for("loaded    3 loops");
    daemon.stop();
}

#[test]
fn a_repository_that_disappears_is_reported_and_reloaded_when_it_reappears() {
    let world = beating();
    let daemon = Daemon::spawn({
        let mut command = world.env.command(world.repo.path());
        command.arg("up");
        command
    });
    daemon.wait_for("start     beat");
    let (here, aside) = (world.repo.path().to_owned(), world.env.root().join("aside"));
    std::fs::rename(&here, &aside).expect("it can be moved");
    daemon.wait_for("is gone or no longer configured");
    daemon.wait_for("loaded    0 loops");
    std::fs::rename(&aside, &here).expect("it can be moved back");
    daemon.wait_for("loaded    3 loops");
    daemon.stop();
}

#[test]
fn a_repository_or_folder_that_cannot_be_read_keeps_its_loops_until_it_is_really_gone() {
    let world = World::new();
    let other = world.env.repo("other");
    let text = "---\nname: nightly\nintent: look\non: daily 02:30\n---\n# Maker\nLook.\n";
    other.write(".loopwright/loops/nightly.md", text);
    other.commit("first");
    let config = world.env.root().join("config/loopwright/config.yaml");
    std::fs::create_dir_all(config.parent().expect("a folder")).expect("it can be made");
    std::fs::write(&config, format!("repos: [{}]\n", other.path().display())).expect("it can be written");
    let daemon = world.up();
    // The user of the tests may read every file, so a damaged git configuration stands in for an unreadable repository.
    let (git, good) = (other.path().join(".git/config"), other.read(".git/config"));
    std::fs::write(&git, "[").expect("it can be written");
    daemon.signal("HUP");
    let line = daemon.wait_for("its loops stay as they were read last");
    assert!(line.contains("of your configuration"), "{line}");
    daemon.wait_for("loaded    3 loops");
    std::fs::write(&git, good).expect("it can be written");
    let loops = other.path().join(".loopwright/loops");
    std::fs::rename(&loops, other.path().join("aside")).expect("it can be moved");
    std::os::unix::fs::symlink("loops", &loops).expect("a link to itself");
    daemon.signal("HUP");
    let line = daemon.wait_for("list `");
    assert!(line.contains("its loops stay as they were read last"), "{line}");
    wait::until("it is read", LONG, || daemon.said().matches("loaded    3 loops").count() > 1);
    assert!(!daemon.said().contains("loaded    2 loops"), "{}", daemon.said());
    std::fs::rename(other.path().join(".git"), other.path().join("no.git")).expect("it can be moved");
    daemon.signal("HUP");
    daemon.wait_for("is gone or no longer configured");
    daemon.wait_for("loaded    2 loops");
    daemon.stop();
}

#[test]
fn a_configuration_of_any_name_is_read_again_when_it_changes() {
    let world = beating();
    let other = world.env.repo("other");
    other.commit("first");
    other.write(".loopwright/loops/beat.md", world.repo.read(".loopwright/loops/beat.md"));
    let config = world.env.root().join("mine.yml");
    std::fs::write(&config, "repos: []\n").expect("it can be written");
    let mut command = world.env.command(world.repo.path());
    command.arg("up").env("LOOPWRIGHT_CONFIG", &config);
    let daemon = Daemon::spawn(command);
    daemon.wait_for("up: process");
    std::fs::write(&config, format!("repos: [{}]\n", other.path().display())).expect("it can be written");
    daemon.wait_for("loaded    4 loops");
    daemon.stop();
}

#[test]
fn a_configuration_that_breaks_keeps_its_last_good_form_and_costs_no_round() {
    let world = beating();
    let daemon = world.up();
    let config = world.env.root().join("config/loopwright/config.yaml");
    std::fs::create_dir_all(config.parent().expect("a folder")).expect("it can be made");
    std::fs::write(&config, "concurrency: [\n").expect("it can be written");
    daemon.signal("HUP");
    daemon.wait_for("config.yaml:2: syntax error");
    world.repo.write(".loopwright/config.yaml", "nonsense: 1\n");
    daemon.wait_for(".loopwright/config.yaml:1: unknown key `nonsense`; its last good form stays in use");
    let count = rounds_of_broken(&world);
    wait::until("further rounds", LONG, || rounds_of_broken(&world) > count + 2);
    let said = daemon.stop();
    assert!(!said.contains("was not started"), "{said}");
}

/// The number of rounds, read in a folder where commands do not read the configuration.
fn rounds_of_broken(world: &World) -> usize {
    let folder = std::fs::read_dir(world.env.state().join("reports"));
    folder.map(Iterator::count).unwrap_or(0)
}

#[test]
fn two_ticks_of_one_moment_start_a_loop_once() {
    let world = World::new();
    world.add("yearly", "check: none\non: { every: 365d }\n", REPORT);
    assert_eq!(world.json("tick")["rounds"].as_array().map(Vec::len), Some(0), "a new loop is not made up for");
    let world = beating();
    assert_eq!(world.json("tick")["rounds"].as_array().map(Vec::len), Some(0), "a new loop is not made up for");
    let due = wait::value("a due moment", LONG, || {
        let ticked = world.json("tick");
        ticked["rounds"].as_array().filter(|rounds| !rounds.is_empty()).cloned()
    });
    assert_eq!((due.len(), due[0]["outcome"].as_str()), (1, Some("reported")));
    assert_eq!(rounds_of(&world, "beat").len(), 1);
    let daemon = world.up();
    let held = world.run("tick").code(1);
    assert!(held.stderr().contains(&format!("process {}", daemon.pid())), "{}", held.stderr());
    assert!(held.stderr().contains("a daemon runs"), "{}", held.stderr());
}

#[test]
fn a_push_and_a_changed_file_make_loops_due() {
    let world = World::new();
    world.add("pushed", "check: none\non: { push: [main] }\n", REPORT);
    world.add("touched", "check: none\non: { files: [\"notes/**\"] }\n", REPORT);
    world.repo.write("notes/a.md", "one\n").commit("notes");
    let daemon = world.up();
    let why = world.run("why pushed").success().stdout();
    assert!(why.contains("waits for push to main"), "{why}");
    world.repo.write("notes/a.md", "two\n");
    daemon.wait_for("start     touched");
    world.repo.commit("more");
    daemon.wait_for("start     pushed");
    daemon.wait_for("end       pushed");
    daemon.stop();
}

/// A forge that merges every pull request by itself, with merge commits, which have no trailer.
fn merge_pulls(world: &World) {
    let forges = std::fs::read_dir(world.env.state().join("forge")).into_iter().flatten().flatten();
    let Some(git_dir) = forges.map(|forge| forge.path().join("repo.git")).find(|dir| dir.exists()) else { return };
    let branches = git(&git_dir, ["for-each-ref", "--format=%(refname)", "refs/heads/loop"]);
    for branch in branches.lines() {
        world.repo.git(["fetch", "-q", &git_dir.to_string_lossy(), branch]);
        world.repo.git(["merge", "-q", "--no-ff", "-m", "Merge a pull request", "FETCH_HEAD"]);
    }
}

#[test]
fn loop_whose_merged_changes_start_it_again_stops_with_a_question() {
    let world = World::new();
    let script = "@ maker\nrun sh -c \"echo $LOOPWRIGHT_ROUND > note\"\nstage pull-request.md \"A change\\n\\nLook.\"\n\n\
                  @ checker\nverdict pass correctness=5@note:1 scope=5@gate:tests tests=4@gate:tests\n";
    let more = "level: L3\non: { push: [main] }\noutput: [pull-request]\nallow: [pull-request]\nopen_max: 100\ngates:\n  - { \
                name: tests, run: [./ok.sh] }\n";
    world.add("again", more, script);
    world.repo.write_executable("ok.sh", "#!/bin/sh\ntest -f calc.sh\n").commit("loops");
    let daemon = world.up();
    world.repo.write("more", "a person's change\n").commit("more");
    let asks = || {
        merge_pulls(&world);
        world.run("inbox").success().stdout().contains("loops answer each other")
    };
    wait::within(LONG, || asks().then_some(())).unwrap_or_else(|| panic!("no question in:\n{}", daemon.said()));
    let shipped = rounds_of(&world, "again").iter().filter(|round| round["outcome"] == "shipped").count();
    assert!((3..=5).contains(&shipped), "{shipped} pull requests");
    daemon.stop();
}

#[test]
fn a_probe_that_finds_no_work_leaves_a_receipt_and_no_round() {
    let world = World::new();
    world.add("idle", "check: none\non: { every: 1s, probe: { run: [\"false\"] } }\n", REPORT);
    let daemon = world.up();
    daemon.wait_for("skip      idle no-work");
    daemon.stop();
    assert_eq!(rounds_of(&world, "idle").len(), 0);
}

#[test]
fn repositories_of_the_configuration_are_scheduled_with_the_named_loops() {
    let world = beating();
    world.add("other", "check: none\non: { every: 1s }\n", REPORT);
    let config = world.env.root().join("config/loopwright/config.yaml");
    std::fs::create_dir_all(config.parent().expect("a folder")).expect("it can be made");
    let text =
        format!("repos:\n  - path: {}\n    loops: [beat]\n  - /nowhere\nconcurrency: 2\n", world.repo.path().display());
    std::fs::write(&config, text).expect("it can be written");
    let mut command = world.env.command(world.env.root());
    command.args(["up"]);
    let daemon = crate::world::Daemon::spawn(command);
    daemon.wait_for("up: process");
    daemon.wait_for("the repository `/nowhere` of your configuration");
    daemon.wait_for("end       beat");
    daemon.stop();
    assert_eq!(rounds_of(&world, "other").len(), 0);
}

#[test]
fn an_unanswered_question_expires() {
    let world = World::new();
    world.repo.write(".loopwright/config.yaml", "approvals: { expire: 2s }\n");
    let daemon = world.up();
    let waiting = world.run("run fix --json").code(10).json();
    let round = waiting["round"].as_str().expect("a round").to_owned();
    wait::until("silence to be a no", LONG, || world.json(&format!("show {round}"))["outcome"] == "rejected");
    let shown = world.json(&format!("show {round}"));
    let codes: Vec<_> = shown["reasons"].as_array().expect("reasons").iter().map(|reason| &reason["code"]).collect();
    assert!(codes.contains(&&"expired".into()), "{codes:?}");
    assert_eq!(world.json("inbox")["items"].as_array().map(Vec::len), Some(0));
    let late = world.run(&format!("approve {round}")).code(15);
    assert!(late.stderr().contains("does not wait for an answer"), "{}", late.stderr());
    daemon.stop();
}

#[test]
fn a_loop_that_pauses_itself_asks_and_resuming_it_is_the_answer() {
    let world = World::new();
    world.add(
        "idle",
        "level: L2\nattempts: 1\noutput: [pull-request]\non: { every: 1s }\n",
        "@ maker\nsay nothing to do\n",
    );
    let daemon = world.up();
    daemon.wait_for("ask");
    let question = wait::value("the question", LONG, || {
        let items = world.json("inbox")["items"].clone();
        items.as_array()?.iter().find(|item| item["kind"] == "loop-paused").cloned()
    });
    let id = question["id"].as_str().expect("an id").to_owned();
    let page = world.run("inbox").success().stdout();
    assert!(page.contains("loopwright resume idle") && !page.contains("approve with"), "{page}");
    let refused = world.run(&format!("approve {id}")).code(15);
    assert!(refused.stderr().contains("loopwright resume idle"), "{}", refused.stderr());
    assert_eq!(world.json(&format!("show {id}"))["loop"], "idle", "the question is about the loop");
    let schedule = world.run("schedule --days 1").success().stdout();
    assert!(schedule.contains("idle is paused (") && schedule.contains("loopwright resume idle"), "{schedule}");
    daemon.stop();
    assert_eq!(world.json(&format!("resume {id}"))["was_paused"], true);
    assert_eq!(world.json("inbox")["items"].as_array().map(Vec::len), Some(0));
}

#[test]
fn schedule_shows_every_repository_of_a_daemon_and_the_global_stop() {
    let world = beating();
    let other = world.env.repo("other");
    other.write(
        ".loopwright/loops/nightly.md",
        "---\nname: nightly\nintent: look\non: daily 02:30\n---\n# Maker\nLook.\n",
    );
    other.write(
        ".loopwright/loops/unnamed.md",
        "---\nname: unnamed\nintent: look\non: daily 03:30\n---\n# Maker\nLook.\n",
    );
    other.commit("first");
    let config = world.env.root().join("config/loopwright/config.yaml");
    std::fs::create_dir_all(config.parent().expect("a folder")).expect("it can be made");
    let text = format!("repos:\n  - path: {}\n    loops: [nightly]\n  - /nowhere\n", other.path().display());
    std::fs::write(&config, text).expect("it can be written");
    let shown = world.run("schedule --days 1").success();
    let page = shown.stdout();
    assert!(page.contains("repo/beat") && page.contains("other/nightly") && !page.contains("unnamed"), "{page}");
    assert!(shown.stderr().contains("`/nowhere`"), "{}", shown.stderr());
    let _ = world.run("stop --all --why flood").success();
    let page = world.run("schedule nightly --days 2").success().stdout();
    assert!(page.starts_with("everything is stopped since") && page.contains("flood"), "{page}");
    assert!(world.json("schedule")["stopped"].as_str().is_some_and(|why| why.contains("flood")));
    let _ = world.run("thaw").success();
    assert!(world.json("schedule")["stopped"].is_null());
}

#[test]
fn a_stop_that_is_ended_without_a_daemon_leaves_its_receipts() {
    let world = beating();
    let daemon = world.up();
    wait_for_round(&world, "beat");
    let _ = world.run("stop --all --why flood").success();
    daemon.stop();
    let due = |world: &World| {
        let shown = world.json("show beat");
        let receipts = shown["receipts"].as_array().cloned().unwrap_or_default();
        receipts.into_iter().filter(|receipt| receipt["receipt"] == "stopped").collect::<Vec<_>>()
    };
    let before = due(&world).len();
    let since = std::time::Instant::now();
    wait::until("a due moment to pass", LONG, || since.elapsed() > std::time::Duration::from_millis(1500));
    assert_eq!(world.json("thaw")["thawed"], true);
    let after = due(&world);
    assert!(after.len() > before, "{after:?}");
    assert!(after[0]["reason"].as_str().is_some_and(|why| why.contains("flood")), "{after:?}");
}

#[test]
fn limits_of_a_changed_configuration_apply_at_once_and_a_broken_one_changes_nothing() {
    const WAITS: &str = "waiting for one of the slots";
    let world = World::new();
    world.add("hang", "priority: 5\ncheck: none\non: { every: 1s }\n", "@ maker\nsay here we go\nhang\n");
    world.add("waits", "check: none\non: { every: 1s }\n", REPORT);
    let config = world.env.root().join("config/loopwright/config.yaml");
    std::fs::create_dir_all(config.parent().expect("a folder")).expect("it can be made");
    let configure = |text: &str| std::fs::write(&config, text).expect("it can be written");
    configure("concurrency: 1\n");
    let daemon = world.up();
    daemon.wait_for("start     hang");
    let why = || world.json("why waits").to_string();
    wait::until("the other to wait for a slot", LONG, || why().contains(WAITS));
    configure("concurrency: [\n");
    daemon.wait_for("its last good form stays in use");
    assert!(!daemon.said().contains("start     waits"), "{}", daemon.said());
    configure("concurrency: 2\n");
    daemon.wait_for("end       waits");
    let _ = world.run("stop --now").success();
}

#[test]
fn a_raised_budget_of_all_loops_in_the_configuration_resumes_the_round_that_waits_for_it() {
    let World { env, repo } = World::new();
    let config = repo.path().with_file_name("my-config.yaml");
    std::fs::write(&config, "budget: { fleet: { day: { usd: 1 } } }").expect("the file can be written");
    let world = World { env: env.with_env("LOOPWRIGHT_CONFIG", config.to_str().expect("text")), repo };
    let script = format!("{REPORT}usage input=20000\n");
    world.add("dear", "check: none\nattempts: 1\non: { every: 1s }\nbudget: { round: { usd: 0.6 } }\n", &script);
    let daemon = world.up();
    let suspended = wait::value("a round without budget", LONG, || {
        rounds_of(&world, "dear").into_iter().find(|round| round["outcome"] == "over-budget")
    });
    std::fs::write(&config, "budget: { fleet: { day: { usd: 100 } } }").expect("the file can be written");
    wait::until("its end", LONG, || {
        rounds_of(&world, "dear")
            .iter()
            .any(|round| round["round"] == suspended["round"] && round["outcome"] == "reported")
    });
    daemon.stop();
}

#[test]
fn a_frozen_daemon_is_named_by_stop_and_why_with_a_hint_instead_of_waiting_for_ever() {
    let world = beating();
    let daemon = world.up();
    daemon.wait_for("end       beat");
    daemon.signal("STOP");
    let hint = format!("kill -CONT {}", daemon.pid());
    let stopped = world.run("stop").code(1);
    assert!(stopped.stderr().contains("is frozen") && stopped.stderr().contains(&hint), "{}", stopped.stderr());
    let why = world.run("why beat");
    let text = format!("{}{}", why.stdout(), why.stderr());
    assert!(text.contains(&daemon.pid().to_string()) && text.contains("kill -CONT"), "{text}");
    daemon.signal("CONT");
    daemon.stop();
}
