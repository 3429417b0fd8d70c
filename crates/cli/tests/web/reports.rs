//! Reports as HTML files: one file, nothing to load, no way out for hostile text.

use crate::world::{FIX, World};
use std::os::unix::fs::PermissionsExt as _;

/// Everything that would make a file ask for something or run something.
const ACTIVE: [&str; 9] =
    ["<script", "<link", "<img", "<iframe", "href=\"/", "href=\"javascript", "url(", "\u{1b}", "\u{202e}"];

#[track_caller]
fn assert_inert(html: &str) {
    assert!(html.starts_with("<!doctype html>") && html.contains("default-src 'none'"), "{html}");
    for bad in ACTIVE {
        assert!(!html.contains(bad), "it has {bad}: {html}");
    }
}

#[test]
fn a_round_is_one_html_file_with_its_change_gates_and_decision() {
    let world = World::new();
    let evil = "<script>alert(1)</script> <img src=x> [x](javascript:alert(3)) \u{1b}[31mred \u{202e}";
    let long = "endless ".repeat(1 << 17);
    let script = FIX.replace("@ maker\n", &format!("@ maker\nsay {evil} {long}\nappend calc.sh # {evil}\n"));
    world.add("evil", "level: L2\nattempts: 1\noutput: [pull-request]\n", &script);
    world.repo.commit("a hostile loop");
    let _ = world.run("run evil").code(10);
    let html = world.run("report --html").success().stdout();
    assert_inert(&html);
    assert!(html.len() < 512 << 10, "{} bytes", html.len());
    assert_inert(&world.run("digest --html").success().stdout());
    for needed in [
        "This round waits for your decision.",
        "loopwright approve",
        "calc.sh",
        "l add",
        "correctness",
        "&lt;script&gt;",
    ] {
        assert!(html.contains(needed), "{needed} is missing: {html}");
    }
    let document = world.json("report --html");
    assert!(document["html"].as_str().is_some_and(|html| html.contains("</html>")), "{document}");
}

#[test]
fn a_report_is_written_and_opened_in_the_browser_of_the_user() {
    let world = World::new();
    let _ = world.run("run look").success();
    let failed = world.run("report --open").code(1);
    assert!(failed.stderr().contains("xdg-open"), "{}", failed.stderr());
    let folder = world.env.root().join("programs");
    std::fs::create_dir_all(&folder).expect("a folder can be made");
    let opener = folder.join("xdg-open");
    let seen = world.env.root().join("seen");
    std::fs::write(&opener, format!("#!/bin/sh\nprintf '%s %s' \"$1\" \"$DISPLAY\" > {}\n", seen.display()))
        .expect("written");
    std::fs::set_permissions(&opener, std::fs::Permissions::from_mode(0o755)).expect("it can be executed");
    let path = format!("{}:{}", folder.display(), loopwright_testkit::TRUSTED_PATH);
    let World { env, repo } = world;
    let world = World { env: env.with_env("PATH", path).with_env("DISPLAY", ":7"), repo };
    let printed = world.run("report --open").success().stdout();
    let opened = std::fs::read_to_string(&seen).expect("it was opened");
    assert_eq!(opened, format!("{} :7", printed.trim()));
    assert_inert(&std::fs::read_to_string(printed.trim()).expect("the file is there"));
}

#[test]
fn a_digest_has_decisions_first_then_what_was_sent_and_what_was_not() {
    let world = World::new();
    world.add("broken", "check: none\non: { every: 1h }\n", "@ maker\nsay I stop here\nexit 3\n");
    let _ = world.run("run fix").code(10);
    let _ = world.run("approve --all fix").success();
    let _ = world.run("run broken");
    let _ = world.run("run look").success();
    let text = world.run("digest").success().stdout();
    let places: Vec<usize> = [
        "## Decisions needed",
        "## Sent",
        "- fix: pull-request",
        "## Not done",
        "- broken failed",
        "## Spend",
        "## The coming day",
        ": broken (",
        "## Rounds",
    ]
    .iter()
    .map(|part| text.find(part).unwrap_or_else(|| panic!("{part} is missing: {text}")))
    .collect();
    assert!(places.is_sorted(), "{places:?}: {text}");
    let html = world.run("digest --html").success().stdout();
    assert_inert(&html);
    assert!(html.contains("<h2>Not done</h2>") && html.contains("<svg"), "{html}");
    let _ = world.run("digest --html --out morning.html").success();
    assert_inert(&std::fs::read_to_string(world.repo.path().join("morning.html")).expect("it is there"));
}
