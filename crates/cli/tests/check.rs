//! `check` and `gates test`: they find every problem of loops before a round, all at once, with its location.

use expect_test::{Expect, expect};
use loopwright_testkit::{TestEnv, TestRepo};

const GOOD: &str = "\
---
name: good
intent: Keep the answer right.
level: L2
agents: { maker: { use: scripted, script: fix.script } }
gates:
  - { name: tests, run: [./test.sh] }
output: [pull-request]
---
# Maker
Fix it.
";

fn env() -> TestEnv {
    TestEnv::new(env!("CARGO_BIN_EXE_loopwright"))
}

fn good_repo(env: &TestEnv) -> TestRepo {
    let repo = env.repo("r");
    repo.write(".loopwright/loops/good.md", GOOD);
    repo.write(".loopwright/fix.script", "@ maker\nsay hello\n");
    repo.write_executable("test.sh", "#!/bin/sh\ngrep -q 42 answer\n").write("answer", "42\n");
    repo.commit("first");
    repo
}

fn check(env: &TestEnv, words: &[&str], code: i32, expected: &Expect) {
    let ran = env.loopwright_in(&env.root().join("r"), words).code(code);
    expected.assert_eq(&ran.transcript());
}

#[test]
fn good_loops_are_listed_with_their_level() {
    let env = env();
    let _repo = good_repo(&env);
    check(
        &env,
        &["check"],
        0,
        &expect![[r#"
        $ loopwright check
        ok   good  L2  .loopwright/loops/good.md
        1 loop checked
        [exit 0]
    "#]],
    );
    check(
        &env,
        &["check", "good", "--json"],
        0,
        &expect![[r#"
            $ loopwright check good --json
            {
              "schema": 1,
              "loops": [
                {
                  "loop": "good",
                  "file": ".loopwright/loops/good.md",
                  "ok": true,
                  "level": "L2",
                  "notes": [],
                  "programs": [
                    {
                      "gate": "tests",
                      "program": "./test.sh",
                      "version": null
                    }
                  ]
                }
              ],
              "problems": []
            }
            [exit 0]
        "#]],
    );
}

#[test]
fn problems_of_all_files_are_shown_at_once() {
    let env = env();
    let repo = good_repo(&env);
    repo.write(".loopwright/loops/bad.md", "---\nname: bad\nintent: x\nbudjet: 3\n---\n# Maker\nx\n");
    repo.write(".loopwright/loops/worse.yaml", "name: ../etc\nintent: x\nlevel: L9\nprompts: { maker: x }\n");
    repo.write(".loopwright/config.yaml", "froge: local\n");
    check(
        &env,
        &["check"],
        2,
        &expect![[r#"
            $ loopwright check
            ok   good  L2  .loopwright/loops/good.md
            [stderr]
            error: unknown key `budjet`
              --> .loopwright/loops/bad.md:4:1
               |
             4 | budjet: 3
               | ^^^^^^
               = hint: did you mean `budget`?

            error: `../etc` is not a valid name for a loop: `/` is not allowed in a name; use lower-case letters, digits, `-`, `_` and `.`
              --> .loopwright/loops/worse.yaml:1:7
               |
             1 | name: ../etc
               |       ^^^^^^

            error: `level` wants a level: `L1`, `L2` or `L3`, found the text `L9`
              --> .loopwright/loops/worse.yaml:3:8
               |
             3 | level: L9
               |        ^^

            error: unknown key `froge`
              --> .loopwright/config.yaml:1:1
               |
             1 | froge: local
               | ^^^^^
               = hint: did you mean `forge`?

            error: 4 problems in 3 files
            [exit 2]
        "#]],
    );
    let bad = env.loopwright_in(repo.path(), ["run", "bad", "--json"]).code(2).json();
    assert_eq!(bad["error"]["text"], "1 problem in 1 file: unknown key `budjet`");
    let json = env.loopwright_in(repo.path(), ["check", "--json"]).code(2).json();
    assert_eq!(json["loops"][0]["ok"], true);
    assert_eq!(json["problems"][0]["line"], 4);
    assert!(json["problems"].as_array().is_some_and(|problems| problems.len() >= 4), "{json}");
}

#[test]
fn two_loops_of_one_name_are_both_unusable() {
    let env = env();
    let repo = good_repo(&env);
    repo.write(".loopwright/loops/twin.md", GOOD);
    check(
        &env,
        &["check"],
        2,
        &expect![[r#"
            $ loopwright check
            no loop file is usable
            [stderr]
            error: the name `good` is also used by .loopwright/loops/twin.md
              --> .loopwright/loops/good.md
               = hint: give one of the two another `name:`

            error: the name `good` is also used by .loopwright/loops/good.md
              --> .loopwright/loops/twin.md
               = hint: give one of the two another `name:`

            error: 2 problems in 2 files
            [exit 2]
        "#]],
    );
    let error = env.loopwright_in(repo.path(), ["run", "good", "--json"]).code(2).json();
    assert_eq!(error["error"]["kind"], "invalid", "{error}");
    let status = env.loopwright_in(repo.path(), ["status", "--json"]).success().json();
    let named: Vec<_> =
        status["loops"].as_array().into_iter().flatten().map(|row| (&row["loop"], &row["status"])).collect();
    let invalid = &"invalid".into();
    assert_eq!(named, [(&"good".into(), invalid), (&"twin".into(), invalid)]);
}

#[test]
fn unknown_loop_is_answered_with_the_nearest_and_the_list() {
    let env = env();
    let _repo = good_repo(&env);
    check(
        &env,
        &["check", "god"],
        2,
        &expect![[r#"
        $ loopwright check god
        [stderr]
        error: no loop is called `god`
        hint: did you mean `good`?
        hint: loops here: good
        [exit 2]
    "#]],
    );
    check(
        &env,
        &["run", "zzz"],
        2,
        &expect![[r#"
        $ loopwright run zzz
        [stderr]
        error: no loop is called `zzz`
        hint: loops here: good
        [exit 2]
    "#]],
    );
}

#[test]
fn missing_scripts_skills_and_gate_scripts_are_problems() {
    let env = env();
    let repo = good_repo(&env);
    let text = GOOD.replace("fix.script", "gone.script").replace("./test.sh", "./new.sh");
    repo.write(".loopwright/loops/good.md", text.replace("output:", "skills: [gone.md]\noutput:"));
    repo.write_executable("new.sh", "#!/bin/sh\n");
    check(
        &env,
        &["check"],
        2,
        &expect![[r#"
            $ loopwright check
            bad  good  L2  .loopwright/loops/good.md
            [stderr]
            error: script of the maker `.loopwright/gone.script`: no such file
              --> .loopwright/loops/good.md
               = hint: `script:` is relative to `.loopwright/`

            error: skill `gone.md` is not in .loopwright/skills/
              --> .loopwright/loops/good.md
               = hint: write it, or take it out of `skills`

            error: gate script `new.sh` is not in base
              --> .loopwright/loops/good.md:7:28
               = hint: commit the script; gates run what base has

            error: 3 problems in 1 file
            [exit 2]
        "#]],
    );
    let _ = env.loopwright_in(repo.path(), ["run", "good"]).code(2);
}

#[test]
fn gate_that_cannot_fail_is_found_by_trying_it_without_the_code() {
    let env = env();
    let repo = good_repo(&env);
    repo.write(
        ".loopwright/loops/good.md",
        GOOD.replace(
            "run: [./test.sh] }",
            "run: [./test.sh] }\n  - { name: lazy, run: [./lazy.sh] }\n  - { name: absent, run: [no-such-program] }",
        ),
    );
    repo.write_executable("lazy.sh", "#!/bin/sh\necho fine\n").commit("second");
    check(
        &env,
        &["gates", "test", "good"],
        11,
        &expect![[r#"
            $ loopwright gates test good
            ok   tests: passed on base
            bad  lazy: passed on base
                 it passes on a checkout without the code: it cannot fail
            bad  absent: failed on base
                 it never ran: `no-such-program` is not installed
            3 gates tried
            [stderr]
            gate     tests: ./test.sh
                     ✓ passed tests, [duration]
            gate     lazy: ./lazy.sh
                     ✓ passed lazy, [duration]
            gate     absent: no-such-program
                     ! failed absent (not-started), [duration]
            [exit 11]
        "#]],
    );
    let json = env.loopwright_in(repo.path(), ["gates", "test", "good", "--json"]).code(11).json();
    assert_eq!(json["gates"][0]["can_fail"], true);
    assert_eq!(json["gates"][1]["can_fail"], false);
    assert_eq!(json["gates"][2]["can_fail"], serde_json::Value::Null);
}

#[test]
fn loop_files_that_are_not_regular_files_are_problems_and_do_not_block() {
    let env = env();
    let repo = good_repo(&env);
    std::fs::create_dir(repo.path().join(".loopwright/loops/folder.md")).expect("a folder can be made");
    let json = env.loopwright_in(repo.path(), ["check", "--json"]).code(2).json();
    assert_eq!(json["problems"][0]["text"], "read loop file: not a plain file", "{json}");
}

/// A repository could otherwise read any file of the host into a brief, and ship it.
#[test]
fn files_for_a_brief_that_are_links_or_open_to_others_are_refused_by_check_and_run() {
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    let env = env();
    let secret = env.root().join("secret");
    std::fs::write(&secret, "host file").expect("a file outside");
    let link = |path: std::path::PathBuf| {
        std::fs::create_dir_all(path.parent().expect("a parent")).expect("its folder");
        let _ = std::fs::remove_file(&path);
        symlink(&secret, path).expect("a link");
    };
    let kinds = ["prompts/maker.md", "skills/know.md", "fix.script", "loops/good.md", "config.yaml"];
    for (at, file) in kinds.into_iter().enumerate() {
        let repo = env.repo(&format!("link{at}"));
        let with_skill = GOOD.replace("gates:", "skills: [know.md]\ngates:");
        repo.write(".loopwright/loops/good.md", with_skill).write(".loopwright/fix.script", "@ maker\nsay hello\n");
        repo.write(".loopwright/skills/know.md", "Know how.\n");
        repo.write_executable("test.sh", "#!/bin/sh\ngrep -q 42 answer\n").write("answer", "42\n");
        repo.commit("first");
        let _ = env.loopwright_in(repo.path(), ["check"]).code(0);
        let path = repo.path().join(".loopwright").join(file);
        link(path.clone());
        for words in [&["check"][..], &["run", "good"]] {
            let ran = env.loopwright_in(repo.path(), words).code(2);
            let text = ran.stderr() + &ran.stdout();
            assert!(text.contains("is a symbolic link") && text.contains("hint: replace the link"), "{file}: {text}");
            assert!(!text.contains("host file"), "{text}");
        }
        std::fs::remove_file(&path).expect("the link");
        std::fs::write(&path, "").expect("a file");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o666)).expect("its mode");
        let ran = env.loopwright_in(repo.path(), ["check"]).code(2);
        assert!((ran.stderr() + &ran.stdout()).contains("every user of this machine can write"), "{file}");
    }
}

#[test]
fn contracts_lists_of_tasks_synced_files_and_manifests_that_are_links_or_open_to_others_are_not_read() {
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    let env = env();
    let secret = env.root().join("secret");
    std::fs::write(&secret, "# Tasks\n\n- [ ] host file\n").expect("a file outside");
    let repo = env.repo("read");
    repo.write("a", "").commit("first");
    let place = |file: &str| {
        let path = repo.path().join(file);
        std::fs::create_dir_all(path.parent().expect("a parent")).expect("its folder");
        let _ = std::fs::remove_file(&path);
        path
    };
    let cases: [(&str, &[&str]); 6] = [
        ("goal.md", &["goal", "lint", "goal.md"]),
        ("goal.md", &["goal", "run", "goal.md"]),
        ("plans/tasks.md", &["tasks", "import", "plans/../plans/tasks.md"]),
        ("engine.json", &["import", "loop-engine", "engine.json"]),
        (".loopwright/skills/know.md", &["sync"]),
        (".loopwright/agents/judge.md", &["sync", "--dry-run"]),
    ];
    for (file, words) in cases {
        symlink(&secret, place(file)).expect("a link");
        let ran = env.loopwright_in(repo.path(), words).code(2);
        assert!(ran.transcript().contains("is a symbolic link"), "{file}: {}", ran.transcript());
        assert!(!ran.transcript().contains("host file"), "{}", ran.transcript());
        std::fs::write(place(file), "# Tasks\n").expect("a file");
        std::fs::set_permissions(repo.path().join(file), std::fs::Permissions::from_mode(0o666)).expect("its mode");
        let ran = env.loopwright_in(repo.path(), words).code(2);
        assert!(ran.transcript().contains("every user of this machine can write"), "{file}: {}", ran.transcript());
        let _ = place(file);
    }
    assert!(!env.home().join(".claude").exists(), "nothing was copied");
    // A folder behind a link is not listed, and a list of tasks is not written through a link.
    let elsewhere = env.root().join("elsewhere");
    std::fs::create_dir_all(&elsewhere).expect("a folder outside");
    std::fs::write(elsewhere.join("know.md"), "host file").expect("a file outside");
    for (folder, words) in [(".loopwright/skills", "sync"), (".loopwright/prompts", "check")] {
        let _ = std::fs::remove_dir(repo.path().join(folder));
        symlink(&elsewhere, place(folder)).expect("a link");
        let ran = env.loopwright_in(repo.path(), [words]).code(2);
        assert!(ran.transcript().contains("is a symbolic link"), "{}", ran.transcript());
        assert!(!ran.transcript().contains("know"), "{}", ran.transcript());
        let _ = place(folder);
    }
    symlink(env.root().join("absent"), place("list.md")).expect("a link");
    let _ = env.loopwright_in(repo.path(), ["tasks", "export", "list.md"]).code(2);
    assert!(!env.root().join("absent").exists(), "nothing was written behind the link");
    let _ = place("list.md");
    // `init` takes no commands from a manifest behind a link, and says so.
    let manifest = env.root().join("package.json");
    std::fs::write(&manifest, r#"{"scripts": {"test": "host-file"}}"#).expect("a file outside");
    symlink(&manifest, place("package.json")).expect("a link");
    repo.commit("link");
    let ran = env.loopwright_in(repo.path(), ["init", "--no-run"]);
    assert!(ran.transcript().contains("`package.json` is not read"), "{}", ran.transcript());
    assert!(!ran.transcript().contains("host-file"), "{}", ran.transcript());
}

#[test]
fn lists_of_tools_that_an_agent_cannot_keep_are_problems_for_check_and_run() {
    let env = env();
    let repo = good_repo(&env);
    let agents = [
        ("{ use: claude, tools: [Read, Teleport] }", "there is no tool `Teleport`"),
        ("{ use: codex, tools: [Read, Edit] }", "codex cannot be restricted to a list without `Bash`"),
        ("{ use: codex, tools: [Read] }", "in a writable workspace"),
        ("{ use: opencode, tools: [Read, Edit] }", "opencode cannot have one of `Edit` and `Write`"),
        ("{ use: acp, run: [goose, acp], model: gpt-5.5, tools: [Read] }", "an acp agent cannot be restricted"),
        ("{ use: command, run: [./test.sh], tools: [Read] }", "`tools` has no effect on a `command` agent"),
        ("{ use: claude, tools: [Edit], fallback: [codex] }", "codex cannot be restricted"),
    ];
    for (agent, why) in agents {
        let text = GOOD.replace("{ use: scripted, script: fix.script }", agent);
        repo.write(".loopwright/loops/good.md", text);
        for words in [&["check"][..], &["check", "good"], &["run", "good"]] {
            let ran = env.loopwright_in(repo.path(), words).code(2);
            assert!(ran.transcript().contains(why), "{agent}: {}", ran.transcript());
        }
    }
}

/// A compiled zone without changes, nine hours ahead of UTC.
fn nine_hours_ahead() -> Vec<u8> {
    let part = || {
        let mut bytes = b"TZif2".to_vec();
        bytes.extend([0; 15]);
        // No indicators, no leap seconds, no changes; one type, four characters of names.
        for count in [0_u32, 0, 0, 0, 1, 4] {
            bytes.extend(count.to_be_bytes());
        }
        bytes.extend(32_400_i32.to_be_bytes());
        bytes.extend([0, 0]);
        bytes.extend(b"JST\0");
        bytes
    };
    [part(), part(), b"\nJST-9\n".to_vec()].concat()
}

#[test]
fn the_machines_zone_database_is_used_when_it_is_newer() {
    let env = env();
    let repo = good_repo(&env);
    repo.write(
        ".loopwright/loops/good.md",
        GOOD.replace("level: L2", "level: L2\non: { daily: '09:00', timezone: Europe/Berlin }"),
    );
    let folder = env.root().join("zoneinfo");
    std::fs::create_dir_all(folder.join("Europe")).expect("a folder");
    std::fs::write(folder.join("Europe/Berlin"), nine_hours_ahead()).expect("a zone");
    let env = env.with_env("TZDIR", folder.to_str().expect("text"));
    for (release, is_used) in [("2000a", false), ("2999a", true), ("damaged", false)] {
        std::fs::write(folder.join("tzdata.zi"), format!("# version {release}\n")).expect("a release");
        let schedule = env.loopwright_in(repo.path(), ["schedule", "good", "--json"]).code(0).json();
        let due = schedule["occurrences"][0]["due"].as_str().expect("a moment").to_owned();
        assert_eq!(due.ends_with("T00:00:00Z"), is_used, "{release}: {due}");
    }
}

/// `run` refuses these loops before a round starts, so `check` does so with the same words.
#[test]
fn loop_that_run_would_not_start_is_refused_by_check() {
    let env = env();
    let repo = good_repo(&env);
    let prover = "prover: { start: [./test.sh], ready: ok, exercise: [./prove.sh] }\ngates:";
    for (change, expected) in [
        (GOOD.replace("gates:", prover), "gate script `prove.sh` is not in base"),
        (GOOD.replace("level: L2", "level: L2\nbase: no-such-branch"), "base `no-such-branch` does not exist"),
        (
            GOOD.replace("level: L2", "level: L2\nbase: other")
                .replace("gates:\n  - { name: tests, run: [./test.sh] }\n", ""),
            "base `other` does not exist",
        ),
    ] {
        repo.write(".loopwright/loops/good.md", &change);
        for words in [&["check", "good"][..], &["run", "good"]] {
            let ran = env.loopwright_in(repo.path(), words).code(2);
            assert!(ran.stderr().contains(expected) && ran.stderr().contains("hint: "), "{words:?}: {ran:?}");
        }
    }
    let rounds = env.loopwright_in(repo.path(), ["rounds", "--json"]).success().json();
    assert_eq!(rounds["rounds"].as_array().map(Vec::len), Some(0), "{rounds}");
}

#[test]
fn repository_without_a_commit_is_refused_by_check_as_by_run() {
    let env = env();
    let repo = env.repo("r");
    repo.write(".loopwright/loops/good.md", GOOD.replace("gates:\n  - { name: tests, run: [./test.sh] }\n", ""));
    repo.write(".loopwright/fix.script", "@ maker\nsay hello\n");
    for words in [&["check"][..], &["run", "good"]] {
        let ran = env.loopwright_in(repo.path(), words).code(2);
        assert!(ran.stderr().contains("no commits") && ran.stderr().contains("git commit"), "{words:?}: {ran:?}");
    }
}
