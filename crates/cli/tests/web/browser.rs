//! The dashboard in a real Chromium, driven by `browser.mjs`: every page in both colour schemes, from a phone to 4k, with
//! axe; a round watched while it runs and approved by key; a stale page; a page without JavaScript; a daemon that starts
//! again.

use crate::server::Server;
use crate::world::{FIX, LONG, World};
use loopwright_testkit::clients::require_npm;
use loopwright_testkit::{TRUSTED_PATH, skip, wait};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

/// Debian's Chromium.
const CHROMIUM: &str = "/usr/bin/chromium";

/// A walk of `browser.mjs` that runs.
struct BrowserWalk {
    child: Child,
    lines: Arc<Mutex<Vec<String>>>,
    _home: tempfile::TempDir,
}

impl Drop for BrowserWalk {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl BrowserWalk {
    /// Starts a walk, signed in by a link of `web`; `None` on a host without the browser.
    fn start(name: &str, world: &World, server: &Server, more: &[(&str, &str)]) -> Option<Self> {
        let (clients, _) = (require_npm("playwright-core")?, require_npm("axe-core")?);
        if !Path::new(CHROMIUM).is_file() {
            skip("there is no Chromium; run `cargo xtask setup`");
            return None;
        }
        let home = tempfile::tempdir().expect("a temporary folder");
        let script = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/web/browser.mjs");
        let link = world.json("web")["url"].as_str().expect("a link").to_owned();
        let mut node = Command::new("node");
        node.arg(script).arg(name).current_dir(home.path()).env_clear();
        node.env("PATH", TRUSTED_PATH).env("HOME", home.path()).env("LC_ALL", "C.UTF-8");
        node.env("CLIENTS", clients).env("CHROMIUM", CHROMIUM).env("LINK", link);
        node.env("BASE", format!("http://127.0.0.1:{}", server.port)).envs(more.iter().copied());
        // A developer looks at the pictures: LOOPWRIGHT_SCREENSHOTS names a folder.
        if !more.iter().any(|(key, _)| *key == "SHOTS") {
            node.envs(std::env::var_os("LOOPWRIGHT_SCREENSHOTS").map(|folder| ("SHOTS", folder)));
        }
        node.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = node.spawn().expect("node starts");
        let lines = Arc::<Mutex<Vec<String>>>::default();
        let (stdout, kept) = (child.stdout.take().expect("piped"), Arc::clone(&lines));
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                kept.lock().expect("no reader panics").push(line);
            }
        });
        Some(Self { child, lines, _home: home })
    }

    fn said(&self) -> String {
        self.lines.lock().expect("no reader panics").join("\n")
    }

    /// Waits until the walk has reached a point.
    fn wait_for(&mut self, line: &str) {
        wait::until(line, LONG, || {
            let is_over = self.child.try_wait().expect("it is our child").is_some();
            self.said().lines().any(|said| said == line) || is_over
        });
        if !self.said().lines().any(|said| said == line) {
            self.end();
        }
    }

    /// Lets the walk continue.
    fn go_on(&mut self) {
        self.child.stdin.as_mut().expect("piped").write_all(b"continue\n").expect("it reads");
    }

    /// Waits for the end of the walk, which must be good.
    fn end(&mut self) {
        let mut errors = String::new();
        if let Some(mut stderr) = self.child.stderr.take() {
            stderr.read_to_string(&mut errors).expect("it is text");
        }
        let status = self.child.wait().expect("it is our child");
        assert!(status.success(), "{}\n{errors}", self.said());
        wait::until("its last line", LONG, || self.said().ends_with("done"));
    }
}

/// A state with every kind of round: one that waits, a report, a rejection, a failure, hostile text; and a loop that is due.
fn full_world() -> World {
    let world = World::new();
    let bad = FIX.replace("verdict pass correctness=5", "verdict fail correctness=1");
    world.add("bad", "level: L2\nattempts: 1\noutput: [pull-request]\n", &bad);
    world.add("broken", "check: none\n", "@ maker\nsay I stop here\nexit 3\n");
    let evil = "<script>alert(1)</script> \u{202e} <img src=x onerror=alert(2)> [x](javascript:alert(3))";
    world.add(
        "evil",
        "check: none\n",
        &format!("@ maker\nsay {evil}\nusage input=1200 output=300\nstage report.md \"# A\\n\\n{evil}\"\n"),
    );
    world.add("hourly", "check: none\non: { every: 1h }\n", "@ maker\nstage report.md \"All is well.\"\n");
    world.repo.commit("more loops");
    world
}

#[test]
fn every_page_is_accessible_in_both_schemes_and_narrow_and_has_no_console_error() {
    let world = full_world();
    let server = Server::start(&world);
    let rounds = ["look", "evil", "broken", "bad", "fix"].map(|name| {
        drop(world.run(&format!("run {name}")));
        world.json(&format!("rounds {name}"))["rounds"][0]["round"].as_str().expect("a round").to_owned()
    });
    let Some(mut walk) = BrowserWalk::start("pages", &world, &server, &[("ROUNDS", &rounds.join(","))]) else { return };
    walk.end();
}

/// The bytes of a picture in the manual.
const PICTURE_MAX: u64 = 120 << 10;

/// Pictures of a state that a reader of the manual understands. `LOOPWRIGHT_PICTURES=docs/pictures` replaces the committed
/// ones.
#[test]
fn pictures_of_the_manual_can_be_taken_and_the_committed_ones_are_small_and_shown() {
    let world = World::new();
    let (nightly, often) = ("check: none\non: { daily: 02:30 }\n", "check: none\non: { every: 30m }\n");
    for (name, more) in [("changelog", nightly), ("dependency-sweeper", nightly), ("issue-triage", often)] {
        world.add(name, more, "@ maker\nusage input=21000 output=900\nstage report.md \"All is well.\"\n");
    }
    let script = FIX.replace("@ maker\n", "@ maker\nsay the sign is wrong in calc.sh\nusage input=64000 output=2100\n");
    world.add("fix", "level: L2\nattempts: 1\noutput: [pull-request]\n", &script);
    world.repo.commit("more loops");
    for name in ["changelog", "dependency-sweeper", "issue-triage"] {
        let _ = world.run(&format!("run {name}")).success();
    }
    let _ = world.run("run fix").code(10);
    let round = world.json("rounds fix")["rounds"][0]["round"].as_str().expect("a round").to_owned();
    let server = Server::start(&world);
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..");
    let taken = tempfile::tempdir().expect("a folder");
    let folder = match std::env::var_os("LOOPWRIGHT_PICTURES") {
        Some(folder) => root.join(folder),
        None => taken.path().to_owned(),
    };
    let shots = folder.to_string_lossy().into_owned();
    let Some(mut walk) = BrowserWalk::start("pictures", &world, &server, &[("SHOTS", &shots), ("ROUNDS", &round)])
    else {
        return;
    };
    walk.end();
    let manual =
        ["README.md", "docs/faces.md"].map(|file| std::fs::read_to_string(root.join(file)).expect("it is there"));
    let text = |name: &str| manual.iter().any(|text| text.contains(&format!("pictures/{name}")));
    for name in ["overview.png", "inbox.png", "round.png", "spend.png", "phone.png"] {
        assert!(folder.join(name).metadata().is_ok_and(|about| about.len() > 2_000), "{name} was taken");
        let committed = root.join("docs/pictures").join(name);
        let bytes = committed.metadata().expect("it is committed").len();
        assert!(bytes <= PICTURE_MAX && text(name), "{name} has {bytes} bytes, or no document shows it");
    }
}

#[test]
fn a_round_is_watched_while_it_runs_and_approved_by_key() {
    let world = World::new();
    let go = world.env.root().join("go");
    let script = FIX.replace("@ maker\n", &format!("@ maker\nsay half way there\nsleep-until {}\n", go.display()));
    world.add("slow", "sandbox: off\nlevel: L2\nattempts: 1\noutput: [pull-request]\n", &script);
    world.repo.commit("a slow loop");
    let server = Server::start(&world);
    let file = go.to_string_lossy().into_owned();
    let Some(mut walk) = BrowserWalk::start("live", &world, &server, &[("GO", &file)]) else { return };
    walk.end();
    let rounds = world.json("rounds slow");
    assert_eq!(rounds["rounds"][0]["outcome"], "shipped", "{rounds}");
}

#[test]
fn a_stale_page_cannot_approve_and_a_page_without_javascript_can_deny() {
    let world = World::new();
    let server = Server::start(&world);
    let _ = world.run("run fix").code(10);
    let Some(mut walk) = BrowserWalk::start("stale", &world, &server, &[]) else { return };
    walk.end();
    let rounds = world.json("rounds fix");
    assert_eq!(rounds["rounds"][0]["outcome"], "rejected", "{rounds}");
}

#[test]
fn an_open_page_finds_the_next_daemon_and_misses_nothing() {
    let world = World::new();
    let server = Server::start(&world);
    let Some(mut walk) = BrowserWalk::start("restart", &world, &server, &[]) else { return };
    walk.wait_for("opened");
    let _server = server.restart(&world);
    let _ = world.run("run look").success();
    walk.go_on();
    walk.end();
}
