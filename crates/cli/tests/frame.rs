//! The common parts of all verbs: help, usage errors, repositories, configuration, printing.

use expect_test::{Expect, expect};
use loopwright_testkit::TestEnv;
use std::process::Stdio;

fn env() -> TestEnv {
    TestEnv::new(env!("CARGO_BIN_EXE_loopwright"))
}

/// Runs a command in a folder below the root and compares the whole transcript.
fn check(env: &TestEnv, folder: &str, words: &[&str], code: i32, expected: &Expect) {
    let ran = env.loopwright_in(&env.root().join(folder), words).code(code);
    expected.assert_eq(&ran.transcript());
}

#[test]
fn help_lists_every_verb_with_one_line() {
    let ran = env().loopwright(["--help"]).success();
    let text = ran.stdout();
    for verb in ["demo", "init", "check", "run", "status", "inbox", "approve", "deny", "gates", "doctor", "completions"]
    {
        assert!(text.lines().any(|line| line.starts_with(&format!("  {verb} "))), "{verb}: {text}");
    }
    assert!(text.contains("Exit codes: 0 done, 1 failed, 2 usage"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 110), "{text}");
}

#[test]
fn unknown_verb_is_wrong_usage_with_a_tip() {
    check(
        &env(),
        "",
        &["chek"],
        2,
        &expect![[r#"
            $ loopwright chek
            [stderr]
            error: unrecognized subcommand 'chek'

              tip: some similar subcommands exist: 'schedule', 'schema', 'check'

            Usage: loopwright [OPTIONS] <COMMAND>

            For more information, try '--help'.
            [exit 2]
        "#]],
    );
}

#[test]
fn no_verb_at_all_shows_the_help_and_is_wrong_usage() {
    let ran = env().loopwright([] as [&str; 0]).code(2);
    assert!(ran.stdout().is_empty() && ran.stderr().contains("Usage: loopwright"), "{}", ran.transcript());
}

#[test]
fn errors_are_one_json_document_when_asked_for() {
    let env = env();
    for (words, kind) in [(["chek", "--json"], "usage"), (["check", "--json"], "invalid")] {
        let ran = env.loopwright(words).code(2);
        let json = ran.json();
        assert_eq!((&json["schema"], &json["error"]["kind"]), (&1.into(), &kind.into()), "{json}");
        assert!(json["error"]["hints"].is_array() && json["error"]["places"].is_array(), "{json}");
        assert_eq!(ran.stderr(), "");
    }
}

#[test]
fn folder_without_a_repository_shows_how_to_create_one() {
    check(
        &env(),
        "",
        &["check"],
        2,
        &expect![[r#"
        $ loopwright check
        [stderr]
        error: not a git repository
        hint: run it inside a git repository, or name one with --repo; `git init` makes one
        [exit 2]
    "#]],
    );
    check(
        &env(),
        "",
        &["run", "x"],
        2,
        &expect![[r#"
        $ loopwright run x
        [stderr]
        error: not a git repository
        hint: run it inside a git repository, or name one with --repo; `git init` makes one
        [exit 2]
    "#]],
    );
}

#[test]
fn repository_without_commits_shows_how_to_make_one() {
    let env = env();
    let repo = env.repo("r");
    repo.write(
        ".loopwright/loops/a.yaml",
        "name: a\nintent: Look.\nagents: { maker: { use: command, run: [cat] } }\nprompts: { maker: Look. }\n",
    );
    check(
        &env,
        "r",
        &["run", "a"],
        2,
        &expect![[r#"
        $ loopwright run a
        [stderr]
        error: the repository has no commits
        hint: make a first commit: git add -A && git commit -m start
        [exit 2]
    "#]],
    );
}

#[test]
fn schema_is_json_with_and_without_the_flag() {
    let env = env();
    let plain = env.loopwright(["schema"]).success().json();
    assert_eq!(plain["type"], "object");
    assert!(plain["properties"]["gates"].is_object());
    assert_eq!(env.loopwright(["schema", "--json"]).success().json(), plain);
}

#[test]
fn completions_exist_for_every_usual_shell() {
    for shell in ["bash", "zsh", "fish"] {
        let ran = env().loopwright(["completions", shell]).success();
        assert!(ran.stdout().contains("approve"), "{shell}");
    }
}

#[test]
fn configuration_names_the_origin_of_every_value() {
    // The column widths depend on the length of the temporary root's path.
    let env = env().with_redaction(" {2,}", "  ");
    let repo = env.repo("r");
    repo.write(".loopwright/config.yaml", "approvals: { expire: 2d }\nsensitive: [deploy/**]\n");
    let user = env.root().join("config/loopwright");
    std::fs::create_dir_all(&user).expect("a folder can be made");
    std::fs::write(user.join("config.yaml"), "approvals: { expire: 3d }\nretention: { days: 5 }\n").expect("written");
    check(
        &env,
        "r",
        &["config"],
        0,
        &expect![[r#"
            $ loopwright config
            KEY  VALUE  FROM
            approvals.expire  2d  repository
            forge  local  default
            log_retention_days  30  default
            provider_wait  15m  default
            providers.anthropic  {"url":"https://api.anthropic.com","style":"x-api-key","key_env":"ANTHROPIC_API_KEY","key":"missing: ANTHROPIC_API_KEY is not set"}  default
            providers.google  {"url":"https://generativelanguage.googleapis.com","style":"x-goog-api-key","key_env":"GEMINI_API_KEY or GOOGLE_API_KEY","key":"missing: GEMINI_API_KEY or GOOGLE_API_KEY is not set"}  default
            providers.openai  {"url":"https://api.openai.com/v1","style":"bearer","key_env":"OPENAI_API_KEY","key":"missing: OPENAI_API_KEY is not set"}  default
            retention.days  5  user
            sensitive  ["deploy/**"]  repository
            state_dir  $ROOT/state  environment
            [exit 0]
        "#]],
    );
    let flag = env.loopwright_in(repo.path(), ["config", "--json", "--state", "other"]).success().json();
    let state = flag["settings"].as_array().and_then(|all| all.iter().find(|setting| setting["key"] == "state_dir"));
    let state = state.expect("there is a state directory");
    assert_eq!(state["origin"], "flag");
    assert_eq!(state["value"], repo.path().join("other").to_string_lossy().as_ref());
}

#[test]
fn repository_cannot_move_the_state() {
    let env = env();
    let repo = env.repo("r");
    repo.write(".loopwright/config.yaml", "state_dir: /tmp/elsewhere\n");
    check(
        &env,
        "r",
        &["config"],
        2,
        &expect![[r#"
            $ loopwright config
            [stderr]
            error: `state_dir`: a repository does not decide where state is kept
              --> .loopwright/config.yaml
               = hint: put it into your own configuration, or set LOOPWRIGHT_STATE_DIR or LOOPWRIGHT_STORE

            error: 1 problem in 1 file
            [exit 2]
        "#]],
    );
}

#[test]
fn named_configuration_that_is_not_there_is_an_error() {
    let env = env().with_env("LOOPWRIGHT_CONFIG", "nowhere.yaml");
    check(
        &env,
        "",
        &["config"],
        2,
        &expect![[r#"
            $ loopwright config
            [stderr]
            error: LOOPWRIGHT_CONFIG names a file that does not exist
              --> nowhere.yaml

            error: 1 problem in 1 file
            [exit 2]
        "#]],
    );
}

#[test]
fn reader_that_goes_away_is_no_error() {
    let env = env();
    let mut command = env.command(env.root());
    let mut child = command.arg("schema").stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("starts");
    drop(child.stdout.take());
    let ended = child.wait_with_output().expect("ends");
    assert_eq!((ended.status.code(), String::from_utf8_lossy(&ended.stderr).as_ref()), (Some(0), ""));
}

#[test]
fn answer_that_cannot_be_written_is_a_failure() {
    let env = env();
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").expect("the kernel has it");
    let ended = env.command(env.root()).arg("schema").stdout(full).output().expect("ends");
    assert_eq!(ended.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&ended.stderr).contains("write to standard output"));
}

#[test]
fn no_colour_without_a_terminal() {
    let ran = env().loopwright(["doctor"]).success();
    assert!(!ran.stdout().contains('\x1b') && !ran.stderr().contains('\x1b'));
}

#[test]
fn doctor_tests_every_sandbox_feature_and_only_missing_ones_fail() {
    let env = env();
    let text = env.loopwright(["doctor"]).success().stdout();
    assert!(text.contains("kernel: loops run here at every level"), "{text}");
    let json = env.loopwright(["doctor", "--strict", "--json"]).success().json();
    assert_eq!(json["boundary"], "kernel");
    let checks = json["checks"].as_array().expect("a list");
    let walls: Vec<_> = checks.iter().filter_map(|check| check["name"].as_str()?.strip_prefix("wall ")).collect();
    let all = ["user namespace", "files", "processes", "network", "system calls", "landlock", "overlay", "resources"];
    assert_eq!(walls, all);
    // A part that does not work names its remedy, and a part that works has none.
    for check in checks.iter().filter(|check| check["name"].as_str().is_some_and(|name| name.starts_with("wall"))) {
        assert!(check["status"] == "gap" || check["fix"].is_null(), "{check}");
    }
}

#[test]
fn init_writes_a_loop_that_checks_and_never_overwrites() {
    let env = env();
    let repo = env.repo("r");
    repo.write("README.md", "hello\n").commit("first");
    check(
        &env,
        "r",
        &["init"],
        0,
        &expect![[r#"
            $ loopwright init
            wrote .loopwright/config.yaml
            wrote .loopwright/first-look.script
            wrote .loopwright/loops/first-look.md
            tests not recognised: add a gate to the loop file
            agents none found; the example uses a script, and any command can be an agent
            next: loopwright run first-look
            next: loopwright patterns
            [exit 0]
        "#]],
    );
    check(
        &env,
        "r",
        &["check"],
        0,
        &expect![[r#"
        $ loopwright check
        ok   first-look  L1  .loopwright/loops/first-look.md
        1 loop checked
        [exit 0]
    "#]],
    );
    repo.write(".loopwright/loops/first-look.md", "mine");
    let again = env.loopwright_in(repo.path(), ["init", "--json"]).success().json();
    assert_eq!(again["written"], serde_json::json!([]));
    assert_eq!(repo.read(".loopwright/loops/first-look.md"), "mine");
}
