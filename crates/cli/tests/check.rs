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
              "notes": []
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
            error: script of the maker `.loopwright/gone.script`: No such file or directory (os error 2)
              --> .loopwright/loops/good.md
               = hint: `script:` is relative to `.loopwright/`

            error: skill `gone.md` is not in .loopwright/skills/
              --> .loopwright/loops/good.md
               = hint: write it, or take it out of `skills`

            error: gate script `new.sh` is not in base
              --> .loopwright/loops/good.md
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
             it never ran: not-started
        3 gates tried
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
