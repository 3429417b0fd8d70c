//! Typical mistakes with read-only folders, taken ports, stopped loops and missing programs.

use super::{GOOD, Place, check, check_started, in_own_mounts};
use loopwright_testkit::skip;
use std::net::TcpListener;

#[test]
fn mistakes_with_what_runs_already_or_not_at_all_name_the_next_command() {
    let place = Place::new();
    let here = place.repo.path();
    let taken = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = taken.local_addr().expect("an address").port();
    place.repo.write("a.scenario", "@ any\nsay hello\n");
    let line = format!("dev model a.scenario --port {port}");
    check("a taken port", place.run_in(here, &line), 1, &[&format!("listen on 127.0.0.1:{port}"), "--port"]);
    check("a missing scenario", place.run_in(here, "dev model no.scenario"), 2, &["no.scenario", "docs/dev-model.md"]);
    check("no terminal", place.run_in(here, "top"), 2, &["needs a terminal", "loopwright status --json"]);
    check("no daemon", place.run_in(here, "web"), 15, &["no daemon runs here", "loopwright up"]);
    check("a stop", place.run_in(here, "stop --all"), 0, &["loopwright thaw"]);
    check("a run while stopped", place.run_in(here, "run a"), 15, &["everything is stopped", "loopwright thaw"]);
    check("the end of the stop", place.run_in(here, "thaw"), 0, &[]);
    let report = place.run_in(here, "run a --json").code(0).json();
    let approve = format!("approve {}", report["round"].as_str().expect("an id"));
    check("an answer that nobody asks for", place.run_in(here, &approve), 15, &["does not wait", "loopwright why"]);
}

#[test]
fn mistakes_with_branches_settings_and_programs_name_the_file_and_the_line() {
    let place = Place::new();
    let says = &["base `nosuch` does not exist", "a.md:6:1", "git branch --list"];
    place.check_file("a missing branch", &GOOD.replace("check: none", "check: none\nbase: nosuch"), "run a", says);
    place.repo.write(".loopwright/config.yaml", "agents: [\n");
    check("broken settings", place.run_in(place.repo.path(), "run a"), 2, &["error:", ".loopwright/config.yaml:2:1"]);
    place.repo.write(".loopwright/config.yaml", "agnts: {}\n");
    let says = &["unknown key `agnts`", ".loopwright/config.yaml:1:1", "did you mean `agents`?"];
    check("an unknown setting", place.run_in(place.repo.path(), "run a"), 2, says);
    place.repo.write(".loopwright/config.yaml", "");
    let gate = GOOD.replace("check: none", "check: none\ngates: [{ name: t, run: [nosuchprogram, x] }]");
    let says = &["gate `t` runs nosuchprogram, which is not installed"];
    place.repo.write(".loopwright/loops/a.md", &gate);
    check("a gate without its program", place.run_in(place.repo.path(), "check a"), 0, says);
    let tried = place.run_in(place.repo.path(), "gates test a");
    check("its trial", tried, 11, &["it never ran: `nosuchprogram` is not installed"]);
    let setup = GOOD.replace(
        "check: none",
        "check: none\nsetup: [[nosuchprogram, install]]\ngates: [{ name: t, run: [sh, t.sh] }]",
    );
    place.repo.write(".loopwright/loops/a.md", &setup);
    let says = &["start `nosuchprogram install`", "put its folder into your PATH"];
    check("a set-up without its program", place.run_in(place.repo.path(), "gates test a"), 1, says);
}

#[test]
fn mistakes_with_read_only_folders_name_the_folder() {
    let place = Place::new();
    check("the first round", place.run_in(place.repo.path(), "run a"), 0, &["reported"]);
    let (repo, state) = (place.repo.path().display().to_string(), place.env.state().display().to_string());
    let read_only =
        |folder: &str| format!("mount --bind {folder} {folder} && mount -o remount,bind,ro {folder} && cd {repo}");
    if !in_own_mounts(&place, &read_only(&state), "--version").output().is_ok_and(|ran| ran.status.success()) {
        return skip("`unshare --user --mount` does not work here, so nothing can be made read-only");
    }
    let says = &["store.db", "cannot be opened for writing", "--state DIR", "LOOPWRIGHT_STATE_DIR"];
    check_started("a read-only state", &mut in_own_mounts(&place, &read_only(&state), "run a"), 1, says);
    let file = format!("{repo}/.loopwright/config.yaml");
    let says = &[&file[..], "Read-only file system", "make its folder writable"];
    check_started("a read-only repository", &mut in_own_mounts(&place, &read_only(&repo), "init --no-run"), 1, says);
    check("the record", place.run_in(place.repo.path(), "verify"), 0, &["the record is intact"]);
}
