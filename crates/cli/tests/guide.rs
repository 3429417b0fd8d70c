//! The README's loop file, the guide, the pages about forges, providers and the migration, executed word for word: a page
//! that does not work as written is a bug.

#![allow(clippy::disallowed_methods, reason = "the guide is pasted into a shell")]

use loopwright_testkit::{FakeForge, ModelServer, TRUSTED_PATH, TestEnv};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

/// The code blocks of a page in a language, in order.
fn blocks(page: &str, language: &str) -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(page);
    let text = std::fs::read_to_string(path).expect("the page is there");
    let parts = text.split("```").skip(1).step_by(2);
    parts.filter_map(|part| part.strip_prefix(&format!("{language}\n")).map(without_indent)).collect()
}

/// A block of a list item without the indentation of the item.
fn without_indent(block: &str) -> String {
    let indent = block.len() - block.trim_start_matches(' ').len();
    let lines = block.trim_end().lines().map(|line| line.get(indent..).unwrap_or_default());
    lines.map(|line| format!("{line}\n")).collect()
}

/// A shell that finds the binary by its name.
fn shell() -> TestEnv {
    let binary = Path::new(env!("CARGO_BIN_EXE_loopwright")).parent().expect("a folder");
    TestEnv::new("/bin/sh").with_env("PATH", format!("{}:{TRUSTED_PATH}", binary.display()))
}

/// Runs a block in a folder like a pasted block in a shell: every line, and the exit code is that of the last line.
#[track_caller]
fn paste(shell: &TestEnv, folder: &Path, block: &str, code: i32) -> String {
    let ran = shell.loopwright_in(folder, ["-c", block]).code(code);
    ran.stdout() + &ran.stderr()
}

#[test]
fn guide_leads_from_an_empty_folder_to_a_pull_request() {
    let env = shell();
    let steps = blocks("docs/guide.md", "sh");
    let [repository, agent, run, answer] = steps.as_slice() else { panic!("four blocks: {steps:?}") };
    let first = paste(&env, env.root(), repository, 14);
    assert!(first.contains("tests ./run-tests.sh"), "{first}");

    let folder = env.root().join("sum");
    std::fs::write(folder.join("my-agent"), agent).expect("the agent is saved");
    let file = blocks("README.md", "markdown").swap_remove(0);
    std::fs::write(folder.join(".loopwright/loops/fix-tests.md"), file).expect("the loop is saved");
    let output = paste(&env, &folder, run, 10);
    for words in ["2 loops checked", "1 gate tried", "would send pull-request (draft)", "fix-tests escalated"] {
        assert!(output.contains(words), "{words}: {output}");
    }
    assert!(!output.contains("is not committed"), "{output}");

    let inbox = paste(&env, &folder, "loopwright inbox", 0);
    let id = inbox.split_whitespace().find(|word| word.starts_with("a-r")).expect("an id");
    let shipped = paste(&env, &folder, &answer.replace("ID", id), 0);
    assert!(shipped.contains("pull-request sent at "), "{shipped}");
}

/// An installation of the bash harness, by its documented formats: one loop, whose state has the latest commit.
fn install_harness(env: &TestEnv) {
    let put = |name: &str, text: &str| {
        let path = env.home().join(name);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("folders");
        std::fs::write(path, text).expect("a file");
    };
    put("projects/my-app/docs/usage.md", "It adds.\n");
    let git = "cd ~/projects/my-app && git init -q -b main && git config user.name Ada && git config user.email ada@example.org \
               && git add -A && git commit -qm first && git rev-parse HEAD";
    let commit = paste(env, env.root(), git, 0);
    put(
        "loop-harness/config.yaml",
        "repos:\n  - path: ~/projects/my-app\n    loops: [doc-sync]\nconcurrency: 5\nlog_retention_days: 7\n\
         scheduler_tick_seconds: 30\nslack_webhook_env: LOOP_SLACK_WEBHOOK\ngithub_token_env: GITHUB_TOKEN\n\
         claude_bin: claude\ndefaults:\n  worktree: true\n  verify: true\n  max_retries: 2\n  timeout_minutes: 15\n",
    );
    put(
        "loop-harness/definitions/doc-sync.yaml",
        "name: doc-sync\ncadence: 0 7 * * *\ntrigger: schedule\nskill: doc-sync.md\nworktree: true\noutput: pr\n\
         state_file: state/doc-sync.json\nverify: true\ntimeout_minutes: 15\n\
         allowed_tools: \"Bash,Read,Edit,Write,Glob,Grep\"\nnotify_slack: false\n",
    );
    put("loop-harness/skills/doc-sync.md", "# Documents\n\nYou keep the documents true to the code.\n");
    let state = format!(
        r#"{{"last_run": 1760000000, "processed": {{"{}": "2026-06-10T09:00:00+0000"}}, "in_progress": {{}},
           "failures": [], "metrics": {{"runs": 4, "successes": 4}}}}"#,
        commit.trim()
    );
    put("loop-harness/state/doc-sync@my-app.json", &state);
}

#[test]
fn migration_page_imports_an_installation_and_its_processed_items_stay_processed() {
    let env = shell();
    install_harness(&env);
    let steps = blocks("docs/migrating.md", "sh");
    let [import, script, again, new, agent] = steps.as_slice() else { panic!("five blocks: {steps:?}") };
    let report = paste(&env, env.root(), import, 0);
    for words in
        ["would be written .loopwright/loops/doc-sync.md", "1 item processed, 1 of them new here", "1 loop checked"]
    {
        assert!(report.contains(words), "{words}: {report}");
    }
    let folder = env.home().join("projects/my-app");
    drop(paste(&env, &folder, script, 0));
    let idle = paste(&env, &folder, again, 0);
    assert!(idle.contains("nothing-to-do"), "{idle}");
    let worked = paste(&env, &folder, new, 0);
    assert!(worked.contains("doc-sync reported"), "{worked}");
    let checked = paste(&env, &folder, agent, 0);
    assert!(checked.contains("1 loop checked"), "{checked}");
}

/// The loop `fix` of the page, without its two lines about the forge.
const FIX: &str = "---\nname: fix\nintent: Make the answer right.\nlevel: L2\nagents: { maker: { use: scripted, script: \
                   fix.script } }\ngates:\n  - { name: tests, run: [./test.sh], red_before: true }\n---\n# Maker\nFix the \
                   answer.\n";
const FIX_SCRIPT: &str = "@ maker\nreplace answer \"41\" \"42\"\nstage pull-request.md \"Fix the answer\\n\\nIt was \
                          wrong.\"\nusage input=100 output=20\n\n@ checker\nverdict pass correctness=5@answer:1 \
                          scope=5@gate:tests tests=4@gate:tests\n";

#[test]
fn page_about_forges_leads_from_a_token_to_a_draft_pull_request() {
    let forge = FakeForge::start();
    // The page names the folder that is used without `XDG_CONFIG_HOME`.
    let env = shell();
    let own = env.home().join(".config");
    let env = env.with_env("XDG_CONFIG_HOME", own);
    forge.create_repo("acme/app").add_writer("bot");
    let repo = env.repo("app");
    repo.write(".loopwright/loops/fix.md", FIX).write("answer", "41\n").write(".loopwright/fix.script", FIX_SCRIPT);
    repo.write_executable("test.sh", "#!/bin/sh\ngrep -q 42 answer\n").commit("first");
    repo.git(["remote", "add", "origin", &forge.repo("acme/app").clone_url()]);

    let steps = blocks("docs/forges.md", "sh");
    let [save, doctor, run, ..] = steps.as_slice() else { panic!("three blocks: {steps:?}") };
    let settings = blocks("docs/forges.md", "yaml");
    let [config, lines, ..] = settings.as_slice() else { panic!("two blocks: {settings:?}") };
    paste(&env, repo.path(), save, 0);
    let token = env.home().join(".config/loopwright/github-token");
    assert_eq!(std::fs::metadata(&token).expect("the file is there").permissions().mode() & 0o777, 0o600);
    // The person pastes the token, and this forge is not github.com.
    std::fs::write(&token, forge.token("bot")).expect("pasted");
    let config = config.replace("{ token_file", &format!("{{ url: \"{}\", token_file", forge.url()));
    std::fs::write(env.home().join(".config/loopwright/config.yaml"), config).expect("the configuration is saved");
    let checks = paste(&env, repo.path(), doctor, 0);
    assert!(checks.contains("forge github token"), "{checks}");
    let writes = || forge.requests().iter().filter(|request| request.method != "GET").count();
    assert_eq!(writes(), 0, "doctor only reads");

    repo.write(".loopwright/loops/fix.md", FIX.replace("level: L2\n", &format!("level: L2\n{lines}")))
        .commit("ship it");
    forge.repo("acme/app").copy_branches_from(repo.path());
    let [dry, work, answer] = run.lines().collect::<Vec<_>>()[..] else { panic!("three commands: {run}") };
    let shown = paste(&env, repo.path(), dry, 0);
    assert!(shown.contains("Fix the answer") && shown.contains("It was wrong."), "{shown}");
    paste(&env, repo.path(), work, 10);
    assert_eq!(writes(), 0, "nothing is posted before the approval");
    let inbox = paste(&env, repo.path(), "loopwright inbox", 0);
    let round = inbox.split_whitespace().find_map(|word| word.strip_prefix("a-r")).expect("a question");
    let shipped = paste(&env, repo.path(), &answer.replace("ROUND", &format!("r{round}")), 0);
    let pulls = forge.repo("acme/app").pulls();
    assert!(pulls.len() == 1 && pulls[0].pull.as_ref().is_some_and(|about| about.draft), "{pulls:?}");
    assert!(shipped.contains("/acme/app/pull/"), "the address of the pull request: {shipped}");
    let body = pulls[0].body.as_deref().unwrap_or_default();
    let facts = body.find("| fact | value |").expect("the engine's facts");
    assert!(facts < body.find("> It was wrong.").expect("the agent's words"), "{body}");
}

/// A line of `docs/providers.md` with the request that it leads to: the end of the agent's address, the path at the
/// server, and the header with the key. An answer without a key is not charged.
type ProviderLine = (&'static str, &'static str, &'static str, Option<(&'static str, &'static str)>);

const PROVIDER_LINES: [ProviderLine; 9] = [
    ("ollama", "/chat/completions", "/v1/chat/completions", None),
    ("ollama-claude", "/v1/messages", "/v1/messages", None),
    ("vllm", "/chat/completions", "/v1/chat/completions", None),
    ("llamacpp", "/chat/completions", "/v1/chat/completions", None),
    ("lmstudio", "/chat/completions", "/v1/chat/completions", None),
    (
        "openrouter",
        "/chat/completions",
        "/api/v1/chat/completions",
        Some(("authorization", "Bearer OPENROUTER_API_KEY")),
    ),
    ("litellm", "/chat/completions", "/v1/chat/completions", Some(("authorization", "Bearer LITELLM_KEY"))),
    ("azure", "/chat/completions", "/openai/v1/chat/completions", Some(("api-key", "AZURE_OPENAI_API_KEY"))),
    (
        "azure-classic",
        "/chat/completions",
        "/openai/deployments/DEPLOYMENT/chat/completions?api-version=2024-10-21",
        Some(("api-key", "AZURE_OPENAI_API_KEY")),
    ),
];

/// The blocks with addresses as one configuration, with this server in the place of every other one. Providers of
/// clouds need signed requests, which the tests of agents make.
fn providers_at(server: &str) -> String {
    let all = blocks("docs/providers.md", "yaml");
    let is_cloud = |block: &str| ["style: aws", "style: google-cloud"].iter().any(|style| block.contains(style));
    let lines = all.iter().filter_map(|block| block.strip_prefix("providers:\n"));
    let lines = lines.filter(|block| block.contains("url:") && !is_cloud(block));
    let text: String = lines.flat_map(|block| block.lines().map(|line| format!("{line}\n"))).collect();
    let parts: Vec<String> = text
        .split("url: \"")
        .enumerate()
        .map(|(at, part)| {
            let host = part.split_once("://").filter(|_| at > 0).map(|(_, rest)| rest);
            host.map_or(part.to_owned(), |rest| format!("{server}{}", &rest[rest.find(['/', '"']).expect("an end")..]))
        })
        .collect();
    format!("providers:\n{}", parts.join("url: \""))
}

#[test]
fn every_provider_line_leads_to_its_path_with_its_key_and_is_charged_or_not() {
    let model = ModelServer::start("@ any\nsay All is well.\n");
    let keys = ["OPENROUTER_API_KEY", "LITELLM_KEY", "AZURE_OPENAI_API_KEY"];
    let env = TestEnv::for_program(env!("CARGO_BIN_EXE_loopwright")).with_env("PATH", TRUSTED_PATH);
    let env = keys.into_iter().fold(env, |env, key| env.with_env(key, key));
    let config = providers_at(model.url());
    assert_eq!(config.matches(model.url()).count(), PROVIDER_LINES.len(), "{config}");
    std::fs::create_dir_all(env.root().join("config/loopwright")).expect("a folder");
    std::fs::write(env.root().join("config/loopwright/config.yaml"), &config).expect("the configuration");
    let repo = env.repo("r");
    for (provider, end, path, key) in PROVIDER_LINES {
        let ask = format!(
            "curl -sS -H \"x-api-key: $LOOPWRIGHT_PROVIDER_TOKEN\" -H 'content-type: application/json' -d \"$1\" \
             $LOOPWRIGHT_PROVIDERS/{provider}{end}"
        );
        let body = r#"{"model":"gpt-5.5","max_tokens":9,"messages":[{"role":"user","content":"Look."}]}"#;
        let run = serde_json::json!(["sh", "-c", ask, "sh", body]);
        repo.write(
            &format!(".loopwright/loops/{provider}.md"),
            format!(
                "---\nname: {provider}\nintent: Look.\nlevel: L1\ncheck: none\n\
                 agents: {{ maker: {{ use: command, provider: {provider}, run: {run} }} }}\n---\n# Maker\nLook.\n"
            ),
        );
        repo.commit(provider);
        let ended = env.loopwright_in(repo.path(), ["run", provider, "--json"]).code(0).json();
        let log = model.log();
        let request = log.last().expect("a request");
        assert_eq!(
            (&request["path"], &request["answer"]["status"]),
            (&path.into(), &200.into()),
            "{provider}: {request}"
        );
        let headers = request["headers"].as_object().expect("headers");
        let found: Vec<(&str, &str)> = ["authorization", "x-api-key", "api-key", "x-goog-api-key"]
            .into_iter()
            .filter_map(|name| Some((name, headers.get(name)?.as_str()?)))
            .collect();
        assert_eq!(found, Vec::from_iter(key), "{provider}");
        assert_eq!(ended["spend"]["tokens"], request["answer"]["usage"], "{provider}: {ended:#}");
        let is_charged = ended["spend"]["usd"].as_f64().is_some_and(|usd| usd > 0.0);
        assert_eq!(is_charged, key.is_some(), "{provider}: {ended:#}");
    }
    assert_eq!(model.log().len(), PROVIDER_LINES.len());
}
