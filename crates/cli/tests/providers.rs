//! Keys, providers and sign-ins through the real binary: the places where they may be named, what commands show of
//! them, and that they are copied nowhere.

use expect_test::expect;
use loopwright_testkit::TestEnv;

const KEY: &str = "sk-ant-dummy-0123456789-abcdef";

fn env() -> TestEnv {
    TestEnv::for_program(env!("CARGO_BIN_EXE_loopwright"))
}

fn configure(env: &TestEnv, text: &str) {
    let folder = env.root().join("config/loopwright");
    std::fs::create_dir_all(&folder).expect("a folder");
    std::fs::write(folder.join("config.yaml"), text).expect("a file");
}

const LOOP: &str = "\
---
name: look
intent: Say what is here.
level: L1
sandbox: off
check: none
agents: { maker: { use: claude } }
---
# Maker
Look.
";

#[test]
fn configuration_shows_where_a_key_comes_from_and_never_the_key() {
    let env = env().with_env("ANTHROPIC_API_KEY", KEY);
    let key_file = env.root().join("home/google.key");
    std::fs::write(&key_file, format!("{KEY}-2\n")).expect("a key file");
    configure(
        &env,
        "providers:\n  google: { key_file: ~/google.key }\n  house: { url: http://127.0.0.1:9/v1, key_env: HOUSE_KEY }\n",
    );
    let ran = env.loopwright(["config"]).code(0);
    assert!(!ran.transcript().contains("dummy"), "{}", ran.transcript());
    let transcript = ran.transcript();
    let lines: Vec<&str> = transcript.lines().filter(|line| line.starts_with("providers.")).collect();
    let short: Vec<String> = lines.iter().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    expect![[r#"
        providers.anthropic {"url":"https://api.anthropic.com","style":"x-api-key","key_env":"ANTHROPIC_API_KEY","key":"found in ANTHROPIC_API_KEY"} default
        providers.google {"url":"https://generativelanguage.googleapis.com","style":"x-goog-api-key","key_file":"~/google.key","key":"found in ~/google.key"} user
        providers.house {"url":"http://127.0.0.1:9/v1","style":"bearer","key_env":"HOUSE_KEY","key":"missing: HOUSE_KEY is not set"} user
        providers.openai {"url":"https://api.openai.com/v1","style":"bearer","key_env":"OPENAI_API_KEY","key":"missing: OPENAI_API_KEY is not set"} default"#]]
    .assert_eq(&short.join("\n"));
    assert!(!env.loopwright(["config", "--json"]).code(0).transcript().contains("dummy"));
}

#[test]
fn repository_that_names_providers_or_logins_is_refused() {
    let env = env().with_env("ANTHROPIC_API_KEY", KEY);
    let repo = env.repo("r");
    repo.write(".loopwright/loops/look.md", LOOP).commit("a loop");
    for (text, expected) in [
        ("providers: { anthropic: { url: http://127.0.0.1:1 } }\n", "`providers`: a repository does not decide"),
        ("logins: [claude]\n", "`logins`: a repository does not decide"),
    ] {
        repo.write(".loopwright/config.yaml", text);
        for words in [&["check"][..], &["run", "look"], &["config"]] {
            let ran = env.loopwright_in(repo.path(), words).code(2);
            assert!(ran.transcript().contains(expected), "{}", ran.transcript());
        }
    }
}

#[test]
fn key_in_the_clear_to_another_machine_is_refused() {
    let env = env();
    configure(&env, "providers: { house: { url: http://models.example.org, key_env: HOUSE_KEY } }\n");
    let ran = env.loopwright(["config"]).code(2);
    assert!(ran.transcript().contains("plain HTTP to another machine"), "{}", ran.transcript());
}

#[test]
fn loop_whose_agent_has_no_key_is_noted_by_check_and_fails_with_the_variable_to_set() {
    let env = install(env(), &[("claude", "2.1.325")]);
    let repo = env.repo("r");
    repo.write(".loopwright/loops/look.md", LOOP).commit("a loop");
    let problem = "has no key for its model provider";
    let checked = env.loopwright_in(repo.path(), ["check"]).code(0).transcript();
    assert!(checked.contains(problem) && checked.contains("set ANTHROPIC_API_KEY"), "{checked}");
    let ran = env.loopwright_in(repo.path(), ["run", "look"]).code(1).transcript();
    assert!(ran.contains(problem) && ran.contains("set ANTHROPIC_API_KEY"), "{ran}");
}

#[test]
fn own_sign_in_is_opt_in_and_check_names_the_hosts_it_needs() {
    let env = env();
    let repo = env.repo("r");
    repo.write(".loopwright/loops/look.md", LOOP).commit("a loop");
    let folder = env.root().join("home/.claude");
    std::fs::create_dir_all(&folder).expect("a folder");
    std::fs::write(folder.join(".credentials.json"), "{\"token\": \"dummy-0123456789-0123456789\"}").expect("a dummy");
    let checked = env.loopwright_in(repo.path(), ["check"]).code(0).transcript();
    assert!(checked.contains("set ANTHROPIC_API_KEY"), "a sign-in is not taken unasked: {checked}");
    configure(&env, "logins: [claude]\n");
    let checked = env.loopwright_in(repo.path(), ["check"]).code(0).transcript();
    assert!(checked.contains("uses its own sign-in") && checked.contains("network: [api.anthropic.com"), "{checked}");
    assert!(!checked.contains("dummy"));
}

/// A program that is an agent by its name and its package, and prints so on request.
fn install(env: TestEnv, agents: &[(&str, &str)]) -> TestEnv {
    use std::os::unix::fs::PermissionsExt as _;
    let mut path = loopwright_testkit::TRUSTED_PATH.to_owned();
    for (agent, version) in agents {
        let folder = env.root().join("tools").join(agent);
        std::fs::create_dir_all(&folder).expect("a folder");
        std::fs::write(folder.join("package.json"), format!("{{\"name\":\"{agent}\",\"version\":\"{version}\"}}"))
            .expect("a file");
        let program = folder.join(agent);
        std::fs::write(&program, "#!/bin/sh\nexit 1\n").expect("a file");
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).expect("a mode");
        path = format!("{path}:{}", folder.display());
    }
    env.with_env("PATH", path)
}

#[test]
fn doctor_shows_for_each_agent_whether_it_is_installed_its_abilities_and_its_model_access() {
    let env = install(env(), &[("claude", "2.1.325"), ("codex", "0.166.0")]).with_env("ANTHROPIC_API_KEY", KEY);
    let shown = env.loopwright(["doctor"]).code(0).transcript();
    let lines: Vec<&str> = shown.lines().skip_while(|line| !line.contains("agent claude")).collect();
    let lines = lines.join("\n");
    for part in [
        "ok    agent claude: 2.1.325; uses anthropic with the key in ANTHROPIC_API_KEY; reports its usage",
        "gap   agent codex: 0.166.0; has no key for its model provider",
        "      fix: set OPENAI_API_KEY",
        "info  agent gemini: not installed\n      fix: `npm install -g @google/gemini-cli`",
    ] {
        assert!(lines.contains(part), "{part} in {lines}");
    }
    assert!(!shown.contains("dummy"));
    let document = env.loopwright(["doctor", "--json"]).code(0).json();
    assert_eq!((&document["agents"][0]["usable"], &document["agents"][1]["usable"]), (&true.into(), &false.into()));
    assert_eq!(document["agents"][0]["key"], "ANTHROPIC_API_KEY");
}

#[test]
fn init_picks_the_first_agent_with_model_access_and_another_one_as_its_checker() {
    let env = install(env(), &[("claude", "2.1.325"), ("codex", "0.166.0")]);
    let repo = env.repo("r");
    repo.write("README.md", "hello\n").commit("first");
    let ran = env.loopwright_in(repo.path(), ["init"]).code(0).transcript();
    assert!(ran.contains("note: claude is installed but has no key: set ANTHROPIC_API_KEY"), "{ran}");
    assert!(repo.read(".loopwright/loops/first-look.md").contains("maker: { use: scripted,"), "it runs at once");
    let env = env.with_env("ANTHROPIC_API_KEY", KEY).with_env("OPENAI_API_KEY", KEY);
    let repo = env.repo("s");
    repo.write("README.md", "hello\n").commit("first");
    let picked = env.loopwright_in(repo.path(), ["init", "--json"]).code(0).json();
    assert_eq!((&picked["maker"], &picked["checker"]), (&"claude".into(), &"codex".into()));
    let text = repo.read(".loopwright/loops/first-look.md");
    assert!(text.contains("  maker: { use: claude }\n  checker: { use: codex }\n"), "{text}");
    let checked = env.loopwright_in(repo.path(), ["check"]).code(0).transcript();
    assert!(checked.contains("ok   first-look") && !checked.contains("note:"), "{checked}");
}
