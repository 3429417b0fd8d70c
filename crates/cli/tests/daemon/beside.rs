//! Commands beside a daemon: the daemon performs them, and their users see no difference.

use crate::world::{LONG, World};
use loopwright_testkit::{user, wait};
use std::os::unix::fs::PermissionsExt as _;

#[test]
fn a_manual_round_its_approval_and_a_retry_work_beside_a_daemon_as_without() {
    let world = World::new();
    let daemon = world.up();
    let report = world.run("run fix --json").code(10).json();
    let round = report["round"].as_str().expect("a report names its round").to_owned();
    assert_eq!(report["outcome"], "escalated");
    assert_eq!(world.json("inbox")["items"].as_array().map(Vec::len), Some(1));
    let shipped = world.run(&format!("approve {round}")).success();
    assert!(shipped.stdout().starts_with(&format!("shipped: round {round}")), "{}", shipped.stdout());
    let again = world.run(&format!("approve {round}")).code(15);
    assert!(again.stderr().contains("does not wait for an answer"), "{}", again.stderr());
    // The first change is open on the local forge; the maker proposes another one now.
    world.repo.write(".loopwright/fix.script", crate::world::FIX.replacen("@ maker\n", "@ maker\nwrite note two\n", 1));
    let second = world.run(&format!("retry {round} --json")).code(10).json();
    let second = second["round"].as_str().expect("a report names its round").to_owned();
    let denied = world.run(&format!("deny {second} --why no")).success();
    assert!(denied.stdout().starts_with("denied:"), "{}", denied.stdout());
    let raised = world.json("budget raise fix --usd 3");
    assert_eq!(raised["loop"], "fix");
    assert!(world.json("gc --dry-run")["freed_bytes"].is_u64());
    assert_eq!(world.json("verify")["schema"], 1);
    daemon.stop();
    assert_eq!(world.json("rounds")["rounds"].as_array().map(Vec::len), Some(2));
}

#[test]
fn errors_of_a_forwarded_command_are_the_command_s_own() {
    let world = World::new();
    let _daemon = world.up();
    let unknown = world.run("run nothing").code(2);
    assert!(unknown.stderr().contains("no loop is called `nothing`"), "{}", unknown.stderr());
    assert_eq!(unknown.stdout(), "");
    let document = world.run("run nothing --json").code(2).json();
    assert_eq!(document["error"]["kind"], "unknown");
    let elsewhere = world.env.loopwright(["run", "fix"]).code(2);
    assert!(elsewhere.stderr().contains("not a git repository"), "{}", elsewhere.stderr());
    let by_path = world.env.loopwright(["run", "look", "--repo", "repo", "--json"]).success().json();
    assert_eq!(by_path["outcome"], "reported");
}

#[test]
fn a_second_daemon_names_the_process_that_schedules() {
    let world = World::new();
    let daemon = world.up();
    let refused = world.run("up").code(1);
    let text = refused.stderr();
    assert!(text.contains(&format!("process {}", daemon.pid())) && text.contains(" since 20"), "{text}");
    let detached = world.run("up --detach").code(1);
    assert!(detached.stderr().contains(&format!("process {}", daemon.pid())), "{}", detached.stderr());
}

#[test]
fn a_dead_daemon_s_socket_is_no_daemon_and_its_successor_takes_over() {
    let world = World::new();
    let mut daemon = world.up();
    daemon.signal("KILL");
    daemon.ended();
    assert!(world.env.state().join("control.sock").exists(), "a killed process leaves its socket");
    assert_eq!(world.run("run look --json").success().json()["outcome"], "reported");
    let daemon = world.up();
    assert_eq!(world.run("run look --json").success().json()["outcome"], "reported");
    daemon.stop();
    assert!(!world.env.state().join("control.sock").exists());
}

/// The daemon's control socket, held by this process too, as by a child between its start and its program.
fn held_socket(daemon: &crate::world::Daemon) -> std::os::fd::OwnedFd {
    use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};
    let table = std::fs::read_to_string("/proc/net/unix").expect("a table of sockets");
    let own = |path: &str| std::fs::read_link(path).ok()?.to_str().map(str::to_owned);
    let is_listener = |link: &str| {
        let inode = link.trim_start_matches("socket:[").trim_end_matches(']');
        let of_inode = |line: &&str| line.split_whitespace().nth(6) == Some(inode);
        table.lines().find(of_inode).is_some_and(|line| line.contains("control.sock") && line.contains(" 00010000 "))
    };
    let mut numbers = 3..1_000;
    let number = numbers
        .find(|number| own(&format!("/proc/{}/fd/{number}", daemon.pid())).is_some_and(|link| is_listener(&link)));
    let pid = Pid::from_raw(i32::try_from(daemon.pid()).expect("a small number")).expect("a process");
    let process = pidfd_open(pid, PidfdFlags::empty()).expect("the daemon runs");
    pidfd_getfd(process, number.expect("it listens"), PidfdGetfdFlags::empty()).expect("a parent may take it")
}

#[test]
fn a_dead_daemon_s_socket_that_a_child_still_holds_is_no_daemon() {
    let world = World::new();
    let mut daemon = world.up();
    let held = held_socket(&daemon);
    daemon.signal("KILL");
    daemon.ended();
    assert_eq!(world.run("run look --json").success().json()["outcome"], "reported");
    let daemon = world.up();
    assert_eq!(world.run("run look --json").success().json()["outcome"], "reported");
    drop(held);
    daemon.stop();
}

#[test]
fn the_control_socket_is_for_its_owner_alone() {
    let world = World::new();
    let state = world.env.root().join("fresh");
    let _daemon = world.up_with(&format!("--state {} up", state.display()));
    let mode = |path: &std::path::Path| std::fs::metadata(path).expect("it is there").permissions().mode() & 0o777;
    assert_eq!((mode(&state), mode(&state.join("control.sock"))), (0o700, 0o600));
}

#[test]
fn an_interrupt_is_forwarded_and_ends_the_round_not_the_daemon() {
    let world = World::new();
    world.add("hang", "check: none\n", "@ maker\nsay here we go\nhang\n");
    let daemon = world.up();
    let client = crate::world::Daemon::start(&world, "run hang");
    client.wait_for("here we go");
    client.signal("INT");
    let mut client = client;
    assert_eq!(client.ended().code(), Some(130), "{}", client.said());
    client.wait_for("interrupted: the daemon is ending it");
    client.wait_for("hang interrupted");
    assert_eq!(world.run("run look --json").success().json()["outcome"], "reported");
    daemon.stop();
}

#[test]
fn a_manual_round_names_the_holder_of_its_item_and_the_time() {
    let world = World::new();
    world.add("left", "check: none\nlocks: [item]\ntimeout: 20m\n", "@ maker\nsay here we go\nhang\n");
    world.add("right", "check: none\nlocks: [item]\n", "@ maker\nstage report.md \"Done.\"\n");
    let daemon = world.up();
    let mut client = crate::world::Daemon::start(&world, "run left --item issue-7@a");
    client.wait_for("here we go");
    let round = world.json("rounds")["rounds"][0]["round"].as_str().expect("a round").to_owned();
    let refused = world.run("run right --item issue-7@b").code(1);
    let error_text = refused.stderr();
    let who = format!("loop `right` is busy: the lock `issue:7` is held by round {round} of `left` (since 20");
    assert!(error_text.contains(&who) && error_text.contains(" at the latest)"), "{error_text}");
    assert_eq!(world.run("run right --item issue-8@b --json").success().json()["outcome"], "reported");
    drop(world.run(&format!("stop {round}")).success());
    client.ended();
    assert_eq!(world.run("run right --item issue-7@b --json").success().json()["outcome"], "reported");
    daemon.stop();
}

#[test]
fn a_client_that_is_killed_or_loses_its_terminal_leaves_its_round_to_the_daemon() {
    let world = World::new();
    let go = world.env.root().join("repo/go");
    world.add(
        "slow",
        "check: none\nsandbox: off\n",
        &format!("@ maker\nsay here we go\nsleep-until {}\nstage report.md \"Done.\"\n", go.display()),
    );
    let daemon = world.up();
    for signal in ["KILL", "HUP"] {
        let mut client = crate::world::Daemon::start(&world, "run slow");
        client.wait_for("here we go");
        let id = world.json("rounds")["rounds"][0]["round"].as_str().expect("an id").to_owned();
        client.signal(signal);
        client.ended();
        std::fs::write(&go, "").expect("it can be written");
        let ended = || world.json("rounds")["rounds"][0]["outcome"].as_str().map(str::to_owned);
        assert_eq!(wait::value("the round's end", LONG, ended), "reported", "{signal}");
        // The loop is free when the daemon has noticed the end, which is later than the record of it.
        daemon.wait_for(&format!("end       slow round {id}"));
        std::fs::remove_file(&go).expect("it was there");
    }
    daemon.stop();
}

#[test]
fn a_daemon_leaves_a_foreground_round_alone_and_notices_its_end() {
    let world = World::new();
    let go = world.env.root().join("go");
    world.add(
        "slow",
        "check: none\nsandbox: off\n",
        &format!("@ maker\nsay here we go\nsleep-until {}\nstage report.md \"Done.\"\n", go.display()),
    );
    let mut foreground = crate::world::Daemon::start(&world, "run slow");
    foreground.wait_for("here we go");
    let daemon = world.up();
    let text = world.run("run slow --json").code(1).json()["error"]["text"].as_str().unwrap_or_default().to_owned();
    assert!(text.contains("busy") && text.contains("round r"), "{text}");
    std::fs::write(&go, "").expect("it can be written");
    foreground.wait_for("slow reported");
    foreground.ended();
    let again = || world.run("run slow --json").json()["outcome"].as_str().map(str::to_owned);
    assert_eq!(wait::value("the loop's place", LONG, again), "reported");
    let rounds = world.json("rounds");
    let outcomes: Vec<_> = rounds["rounds"].as_array().expect("rounds").iter().map(|round| &round["outcome"]).collect();
    assert_eq!(outcomes, ["reported", "reported"], "it was not taken over");
    daemon.stop();
}

#[test]
fn a_round_whose_foreground_process_is_killed_is_recovered_by_the_daemon() {
    let world = World::new();
    world.add("hang", "check: none\n", "@ maker\nsay here we go\nhang\n");
    let mut foreground = crate::world::Daemon::start(&world, "run hang");
    foreground.wait_for("here we go");
    let daemon = world.up();
    foreground.signal("KILL");
    foreground.ended();
    let ended = || world.json("rounds")["rounds"][0]["outcome"].as_str().map(str::to_owned);
    assert_eq!(wait::value("the round's end", LONG, ended), "interrupted");
    daemon.stop();
}

#[test]
fn a_detached_daemon_prints_its_process_writes_a_log_and_ends_when_stopped() {
    let world = World::new();
    let started = world.json("up --detach");
    let pid = started["daemon"]["pid"].as_u64().expect("a pid");
    let log = started["daemon"]["log"].as_str().expect("a log").to_owned();
    assert_eq!(world.run("run look --json").success().json()["outcome"], "reported");
    let stopped = world.run("stop").success();
    assert!(stopped.stdout().contains(&format!("process {pid}, has ended")), "{}", stopped.stdout());
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    assert!(stat.is_empty() || stat.contains(") Z "), "it still runs: {stat}");
    let mode = std::fs::metadata(&log).expect("the log is there").permissions().mode() & 0o777;
    assert_eq!(mode, 0o600);
    let none = world.run("stop").success();
    assert!(none.stdout().contains("no daemon runs here"), "{}", none.stdout());
}

/// A whole request of another build, written by the test.
const OTHER_BUILD: &str = r#"{"protocol":9,"version":"0.0.9","argv":["run","look"],"surroundings":{"cwd":"/","config":null,
"state_dir":null,"store":null,"log":null,"xdg_config":null,"xdg_state":null,"home":null,"path":"","user":null,"no_colour":false},
"out_is_terminal":false,"err_is_terminal":false,"width":null}"#;

/// The daemon's answer to a process with this user id.
fn asked_by(uid: u32, socket: &std::path::Path) -> Option<String> {
    let ask = "use IO::Socket::UNIX; $SIG{PIPE} = 'IGNORE'; my $s = IO::Socket::UNIX->new(Peer => $ARGV[0]) or die \"connect: $!\"; \
               syswrite($s, pack('N', length($ARGV[1])) . $ARGV[1]); my $got = ''; \
               while (sysread($s, my $part, 4096)) { $got .= $part } print \"<$got>\"";
    let ids = [format!("--reuid={uid}"), format!("--regid={uid}")];
    let mut command = std::process::Command::new("setpriv");
    let asked =
        command.args(ids).args(["--clear-groups", "perl", "-e", ask]).arg(socket).arg(OTHER_BUILD).output().ok()?;
    Some(String::from_utf8_lossy(&asked.stdout).into_owned() + &String::from_utf8_lossy(&asked.stderr))
}

#[test]
fn another_build_receives_a_hint_and_another_user_no_answer() {
    if std::fs::metadata("/proc/self").is_ok_and(|meta| std::os::unix::fs::MetadataExt::uid(&meta) != 0) {
        return loopwright_testkit::skip("only root can become somebody else");
    }
    let world = World::new();
    let daemon = world.up();
    let socket = world.env.state().join("control.sock");
    for path in [world.env.root(), &world.env.state(), &socket] {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o777)).expect("root may");
    }
    let Some(own) = asked_by(0, &socket) else { return loopwright_testkit::skip("setpriv is not here") };
    assert!(own.contains("this command is 0.0.9") && own.contains(&format!("kill {}", daemon.pid())), "{own}");
    assert_eq!(asked_by(65534, &socket).as_deref(), Some("<>"), "a stranger was answered");
}

/// The daemon asks the kernel for the command's user. The command's own environment does not count.
#[test]
fn a_name_in_the_environment_does_not_identify_a_user_beside_a_daemon() {
    let world = World::new();
    world.add("strict", "level: L2\nattempts: 1\noutput: [pull-request]\napprovers: [grace]\n", crate::world::FIX);
    world.repo.commit("strict");
    let daemon = world.up();
    let report = world.run("run strict --json").code(10).json();
    let round = report["round"].as_str().expect("a report names its round").to_owned();
    assert_eq!(report["actor"], user::name());
    for line in [format!("approve {round}"), format!("deny {round} --why no")] {
        let mut command = world.env.command(world.repo.path());
        let ran = command.args(line.split(' ')).env("USER", "grace").env("LOGNAME", "grace").output();
        let ran = ran.expect("the program runs");
        let said = String::from_utf8_lossy(&ran.stderr).into_owned();
        assert_eq!(ran.status.code(), Some(15), "{said}");
        assert!(said.contains(&format!("`{}` may not", user::name())), "{said}");
    }
    daemon.stop();
}

#[test]
fn a_renamed_loop_keeps_its_history_its_pause_its_mark_and_its_items() {
    for is_daemon_up in [false, true] {
        let world = World::new();
        world.add("before", "check: none\non: { every: 365d }\n", crate::world::REPORT);
        world.add("next", "check: none\non: { after: before }\n", crate::world::REPORT);
        let daemon = is_daemon_up.then(|| world.up());
        assert_eq!(world.run("run before --item issue-7@a --json").success().json()["outcome"], "reported");
        let _ = world.run("pause before --why holidays").success();
        if let Some(daemon) = daemon {
            let refused = world.run("rename before later").code(1).stderr();
            assert!(refused.contains("a daemon uses the loops"), "{refused}");
            assert!(world.repo.path().join(".loopwright/loops/before.md").exists(), "nothing was changed");
            daemon.stop();
        }
        let page = world.run("rename before later").success().stdout();
        for part in ["moved .loopwright/loops/before.md to .loopwright/loops/later.md", "next starts after before"] {
            assert!(page.contains(part), "{page}");
        }
        let is_there = |name: &str| world.repo.path().join(format!(".loopwright/loops/{name}.md")).exists();
        assert!(is_there("later") && !is_there("before"));
        assert_eq!(world.json("rounds later")["rounds"].as_array().map(Vec::len), Some(1));
        let status = world.json("status");
        let find = |name: &str| status["loops"].as_array().expect("loops").iter().find(|one| one["loop"] == name);
        assert!(find("before").is_none(), "{status}");
        assert_eq!(find("later").expect("it is there")["status"], "paused", "{status}");
        assert!(world.run("show later").success().stdout().contains("issue-7"), "it knows the item");
        assert!(world.json("verify")["ok"].as_bool().expect("a word"));
        // It starts on its own again, by its new name.
        assert_eq!(world.json("resume later")["was_paused"], true);
        assert_eq!(world.run("run later --json").success().json()["outcome"], "reported");
        let _ = world.run("rename before again").code(2);
    }
}

#[test]
fn a_loop_with_an_open_round_or_a_used_name_is_not_renamed() {
    let world = World::new();
    let waiting = world.run("run fix --json").code(10).json();
    let round = waiting["round"].as_str().expect("a round");
    let text = world.run("rename fix mend").code(1).stderr();
    assert!(text.contains(round) && text.contains("all its rounds are over"), "{text}");
    let text = world.run("rename fix look").code(2).stderr();
    assert!(text.contains("the name `look` is used by"), "{text}");
    let _ = world.run("rename fix Mend").code(2);
    assert!(world.repo.path().join(".loopwright/loops/fix.md").exists());
}

#[test]
fn a_renaming_writes_through_no_link_and_changes_nothing_when_its_file_cannot_be_written() {
    let world = World::new();
    world.add("before", "check: none\n", crate::world::REPORT);
    assert_eq!(world.run("run before --json").success().json()["outcome"], "reported");
    let folder = world.repo.path().join(".loopwright/loops");
    let (other, link) = (world.repo.path().join("profile"), folder.join("later.renamed"));
    std::fs::write(&other, "mine").expect("it can be written");
    std::os::unix::fs::symlink(&other, &link).expect("it can be linked");
    let text = world.run("rename before later").code(1).stderr();
    assert!(text.contains("later.renamed"), "{text}");
    assert_eq!(std::fs::read_to_string(&other).expect("it is there"), "mine");
    assert!(folder.join("before.md").exists() && !folder.join("later.md").exists());
    assert_eq!(world.json("rounds before")["rounds"].as_array().map(Vec::len), Some(1));
    std::fs::remove_file(&link).expect("it can be removed");
    let _ = world.run("rename before later").success();
    assert!(std::fs::symlink_metadata(&link).is_err(), "the draft is gone");
}

#[test]
fn a_loop_that_a_person_renamed_in_its_file_is_pointed_out_and_keeps_its_history() {
    let world = World::new();
    world.add("before", "check: none\n", crate::world::REPORT);
    let daemon = world.up();
    assert_eq!(world.run("run before --json").success().json()["outcome"], "reported");
    let folder = world.repo.path().join(".loopwright/loops");
    let text = std::fs::read_to_string(folder.join("before.md")).expect("it is there");
    std::fs::remove_file(folder.join("before.md")).expect("it can be removed");
    std::fs::write(folder.join("later.md"), text.replace("name: before", "name: later")).expect("it can be written");
    daemon.wait_for("`loopwright rename before later` keeps its history");
    daemon.stop();
    let _ = world.run("rename before later").success();
    assert_eq!(world.json("rounds later")["rounds"].as_array().map(Vec::len), Some(1));
}
