//! Imports as text in, loop file and notes out: every key of the other tools has one documented fate.

use expect_test::{Expect, expect};
use loopwright_core::import::harness::{HarnessConfig, HarnessDefaults, HarnessDefinition, HarnessLoop};
use loopwright_core::import::pattern_library::{LibraryGate, PatternLibrary};
use loopwright_core::import::seed_specs::read_seed_specs;
use loopwright_core::import::{ImportEffect, ImportFit, ImportNotes, ImportedLoop};
use loopwright_core::level::LoopLevel;

const SKILL: &str = "# Reviewer\n\nYou review each pull request once. Then you stop.\n\nRun `gh pr list`.\n";

fn notes_text(notes: &ImportNotes) -> String {
    notes.0.iter().map(|note| format!("{} {} {}: {}\n", note.effect, note.source, note.key, note.text)).collect()
}

fn import(definition: &str, fit: ImportFit<'_>) -> (ImportedLoop, ImportNotes) {
    let read = HarnessDefinition::read("definitions/pr-reviewer.yaml", "pr-reviewer", definition.as_bytes());
    let definition = read.unwrap_or_else(|problems| panic!("{problems}"));
    let one = HarnessLoop { definition: &definition, defaults: HarnessDefaults::default(), skill: SKILL, fit };
    let mut notes = ImportNotes::default();
    let spec = one.spec(&mut notes);
    let made =
        ImportedLoop::new(&definition.file, spec, &one.comments()).unwrap_or_else(|problems| panic!("{problems}"));
    (made, notes)
}

fn check_file(definition: &str, fit: ImportFit<'_>, expected: &Expect) {
    expected.assert_eq(&import(definition, fit).0.written.text);
}

const REVIEWER: &str = "name: pr-reviewer
cadence: every 3m
trigger: git-push
skill: pr-reviewer.md
worktree: false
output: issue-comment
state_file: state/pr-reviewer.json
verify: true
timeout_minutes: 10
allowed_tools: \"Bash(gh *, x),Read,Glob,mcp__jira\"
notify_slack: true
colour: blue
";

#[test]
fn definition_of_the_harness_becomes_a_loop_file() {
    check_file(
        REVIEWER,
        ImportFit::default(),
        &expect![[r#"
            ---
            # Imported from loop-harness, definitions/pr-reviewer.yaml. Read it before you run it.
            # forge: github   # add this line after you have configured the forge
            name: pr-reviewer
            intent: "You review each pull request once."
            level: L2
            on:
              every: 3m
              probe: open-prs
            agents:
              maker: { use: claude, tools: [Bash, Read, Glob] }
            skills: [pr-reviewer.md]
            budget:
              role: { wall: 10m }
              round: { wall: 1h }
            output:
              - issue-comment: { max: 10 }
              - issue-label: { max: 10 }
              - pr-comment: { max: 10 }
              - pr-inline: { max: 10 }
              - pr-review: { max: 10 }
              - report
            ---
            # Maker

            Do the work that the skill `pr-reviewer.md` describes. The skill was written for loop-harness; here these rules come first:

            1. The brief names the item of this round. Process this item and no other.
            2. Change no files. Stage each output in `$LOOP_OUTBOX`, under the names that the skill uses, such as `01-issue-comment-7.md`.
            3. You have no token and no network, and `$LOOP_CONNECTORS` does not exist: push nothing and post nothing. If you cannot do the work without them, write the reason to `CANNOT.md` in `$LOOP_OUTBOX`.
            4. A last line `RESULT: …` is allowed. It is a claim; the gates and the checker decide.
        "#]],
    );
}

#[test]
fn every_key_of_a_definition_has_a_note() {
    let (_, notes) = import(REVIEWER, ImportFit::default());
    expect![[r#"
        changed skills/pr-reviewer.md intent: loop-harness has no `intent`: taken from the first sentence of the skill; every brief and report shows it
        changed definitions/pr-reviewer.yaml:6 output: `issue-comment` is sent after a person approves it (L2); loop-harness sends what its verifier accepts
        carried definitions/pr-reviewer.yaml:1 name: `name: pr-reviewer`
        carried definitions/pr-reviewer.yaml:2 cadence: `on`: every 3m; a moment that was missed is caught up once
        changed definitions/pr-reviewer.yaml:3 trigger: `git-push` was polling at the cadence, and still is; `on.push`, `on.files` and `on.webhook` are real triggers
        changed definitions/pr-reviewer.yaml RESULT: DONE items=: a probe finds the items, and the engine records which are processed; the line is only a claim
        changed definitions/pr-reviewer.yaml:10 allowed_tools: "Bash(gh *, x)" is the whole tool `Bash` here; the sandbox limits it
        not-carried definitions/pr-reviewer.yaml:10 allowed_tools: agents here have no tool "mcp__jira"; the tools are Read, Glob, Grep, Edit, Write, Bash, WebFetch
        carried definitions/pr-reviewer.yaml:10 allowed_tools: `agents.maker.tools`: Bash, Read, Glob
        changed definitions/pr-reviewer.yaml:8 verify: a checker returns a scored verdict with evidence, after the gates; no printed line counts
        changed definitions/pr-reviewer.yaml max_retries: `attempts: 3` within one round, with the reasons of each rejection; three failed rounds send an item to the inbox
        carried definitions/pr-reviewer.yaml:9 timeout_minutes: `budget.role.wall: 10m` for each session, `budget.round.wall: 60m` for the round
        changed definitions/pr-reviewer.yaml budget: loop-harness has none: a round has at most 400k tokens, 5 USD and 100 turns, a day 20 USD; see `budget`
        changed definitions/pr-reviewer.yaml:6 output: no forge of your configuration has this repository, so outputs stay in the local forge; see the settings below
        changed definitions/pr-reviewer.yaml:6 output: at most 10 of each kind in a round
        carried definitions/pr-reviewer.yaml:4 skill: `.loopwright/skills/pr-reviewer.md`
        not-carried skills/pr-reviewer.md:5 gh: an agent has neither a token nor the network: the probe reads the forge, and the executor sends
        changed definitions/pr-reviewer.yaml:5 worktree: every round has a private copy, never a linked worktree; `LOOP_WORKTREE_ROOT` has no effect, the copies are below the state directory
        changed definitions/pr-reviewer.yaml:7 state_file: the state is in Loopwright's store: `loopwright show LOOP`, `loopwright forget LOOP`
        not-carried definitions/pr-reviewer.yaml:11 notify_slack: nothing is reported to Slack about runs; `loopwright inbox` and `loopwright status` show what needs a person
        not-carried definitions/pr-reviewer.yaml:12 colour: loop-harness documents no such key
    "#]].assert_eq(&notes_text(&notes));
}

#[test]
fn loop_that_changes_code_gets_the_repositorys_tests_as_a_gate() {
    let tests = ["cargo".to_owned(), "test".to_owned()];
    let fit = ImportFit { tests: Some(&tests), forge: Some("github"), ..ImportFit::default() };
    check_file(
        "name: nightly\ncadence: 0 9 * * 1-5\nskill: nightly.md\noutput: pr\nmax_retries: 0\nverify: false\n",
        fit,
        &expect![[r#"
            ---
            # Imported from loop-harness, definitions/pr-reviewer.yaml. Read it before you run it.
            name: nightly
            intent: "You review each pull request once."
            level: L2
            on:
              cron: "0 9 * * 1-5"
            agents:
              maker: { use: claude }
            skills: [nightly.md]
            budget:
              role: { wall: 15m }
            attempts: 1
            gates:
              - { name: tests, run: [cargo, test] }
            output:
              - pull-request: { draft: true, max: 1 }
              - report
            forge: github
            ---
            # Maker

            Do the work that the skill `nightly.md` describes. The skill was written for loop-harness; here these rules come first:

            1. `$LOOP_STATE_SUMMARY` names a JSON file with the items that are done. Do not process them again.
            2. Change the files in the current folder; commits are not needed. Write the text of the pull request to `PR_BODY.md` in this folder, title first.
            3. You have no token and no network, and `$LOOP_CONNECTORS` does not exist: push nothing and post nothing. If you cannot do the work without them, write the reason to `CANNOT.md` in `$LOOP_OUTBOX`.
            4. A last line `RESULT: …` is allowed. It is a claim; the gates and the checker decide.
        "#]],
    );
}

#[test]
fn outputs_and_levels_follow_the_definition_and_the_configuration() {
    let kinds = |output: &str, has_slack: bool| {
        let fit = ImportFit { has_slack, ..ImportFit::default() };
        let (made, _) = import(&format!("cadence: every 1h\n{output}"), fit);
        let kinds: Vec<_> = made.spec.output.iter().map(|output| output.kind.word()).collect();
        (made.spec.level.short(), kinds.join(" "))
    };
    assert_eq!(kinds("output: log-only\n", false), ("L1", "report".to_owned()));
    assert_eq!(kinds("", false), ("L1", "report".to_owned()));
    assert_eq!(kinds("output: pr\n", false), ("L2", "pull-request report".to_owned()));
    assert_eq!(kinds("output: commit\n", false), ("L2", "commit report".to_owned()));
    assert_eq!(kinds("output: slack-message\n", true), ("L2", "slack report".to_owned()));
    assert_eq!(kinds("output: slack-message\n", false), ("L2", "report".to_owned()));
}

/// The problems of a definition, each as line, column and text.
fn problems(definition: &str) -> Vec<String> {
    let Err(found) = HarnessDefinition::read("d.yaml", "d", definition.as_bytes()) else { return Vec::new() };
    found
        .into_iter()
        .map(|problem| {
            format!("{}:{} {} ({})", problem.line, problem.column, problem.what, problem.hint.unwrap_or_default())
        })
        .collect()
}

#[test]
fn bad_definitions_are_refused_with_their_positions() {
    let all = [
        "name: ../escape",
        "name: My Loop",
        "skill: ../../etc/passwd",
        "skill: .hidden.md",
        "cadence: 15m",
        "cadence: every 5分",
        "output: email",
        "timeout_minutes: 0",
        "timeout_minutes: ninety",
        "verify: maybe",
        "name: [a]",
        "a: &x 1\nb: *x",
        "- a list",
        "name: \"a\\x07\"",
    ];
    let shown: Vec<String> = all.iter().flat_map(|text| problems(text)).collect();
    expect![[r#"
        1:7 `../escape` is not a valid name for a loop: `/` is not allowed in a name; use lower-case letters, digits, `-`, `_` and `.` (rename it to `escape`)
        1:7 `My Loop` is not a valid name for a loop: `M` is not allowed in a name; use lower-case letters, digits, `-`, `_` and `.` (rename it to `my-loop`)
        1:8 `../../etc/passwd` is not the name of a skill file (the name of a file in skills/, of letters, digits, `-`, `_` and `.`, such as `my-loop.md`)
        1:8 `.hidden.md` is not the name of a skill file (the name of a file in skills/, of letters, digits, `-`, `_` and `.`, such as `my-loop.md`)
        1:10 `15m` is not a cadence (write `every 15m`)
        1:10 `every 5分` is not a cadence (write `every 15m`; the units are s, m, h and d)
        1:9 `output` wants one of `pr`, `issue-comment`, `slack-message`, `commit`, `log-only`, found the text `email` ()
        1:18 `timeout_minutes` wants a whole number from 1 to 1440, found the number 0 ()
        1:18 `timeout_minutes` wants a whole number from 1 to 1440, found the text `ninety` ()
        1:9 `verify` wants `true` or `false`, found the text `maybe` ()
        1:7 `name` wants text, found a list ()
        1:4 anchors and aliases (`&name`, `*name`) are not supported (write the value out where it is needed; text that starts with `*` or `&` needs quotes)
        1:1 a loop file wants a mapping with keys such as `name`, `cadence`, `skill`, found a list ()
        1:7 `a\u{7}` is not a valid name for a loop: character U+0007 is not allowed in a name; use lower-case letters, digits, `-`, `_` and `.` (rename it to `a`)
    "#]].assert_eq(&(shown.join("\n") + "\n"));
    for text in all {
        assert!(!problems(text).is_empty(), "{text}");
    }
    assert!(!problems(&"x".repeat(2 << 20)).is_empty(), "a huge file");
    assert!(HarnessDefinition::read("d.yaml", "d", b"\xff\x00name: a").is_err(), "a binary file");
    assert!(HarnessDefinition::read("d.yaml", "d", b"").is_err(), "an empty file");
}

#[test]
fn configuration_of_the_harness_becomes_settings_for_a_person_to_add() {
    let text = "repos:\n  - path: ~/projects/my-app\n    loops: [triage-ci, pr-reviewer]\n  - path: /b\n    loops: one\n\
                concurrency: 5\nlog_retention_days: 7\nscheduler_tick_seconds: 30\nslack_webhook_env: TEAM_SLACK\n\
                github_token_env: GH_TOKEN\nclaude_bin: /opt/claude\ndefaults:\n  worktree: true\n  verify: true\n  \
                max_retries: 2\n  timeout_minutes: 15\nextra: 1\n";
    let mut notes = ImportNotes::default();
    let config = HarnessConfig::read("config.yaml", text.as_bytes(), &mut notes).expect("a good file");
    assert_eq!(config.repos[1].loops, [("one".to_owned(), 5)]);
    expect![[r#"
        forges:
          github: { token_env: GH_TOKEN }
        slack: { webhook_env: TEAM_SLACK }
        concurrency: 5
        log_retention_days: 7
        repos:
          - { path: "~/projects/my-app", loops: [triage-ci, pr-reviewer] }

        carried config.yaml:6 concurrency: `concurrency` of your own configuration
        carried config.yaml:7 log_retention_days: `log_retention_days` of your own configuration
        changed config.yaml:8 scheduler_tick_seconds: the daemon does not poll: it wakes up when a loop is due
        carried config.yaml:9 slack_webhook_env: `slack: { webhook_env }` of your own configuration
        changed config.yaml:10 github_token_env: `forges: { github: { token_env } }` of your own configuration; only the executor has the token, and no agent does
        changed config.yaml:11 claude_bin: loops use the `claude` that is first in PATH; put the folder of "/opt/claude" first, or set `agents` in a loop file
        carried config.yaml:13 defaults.worktree: used for every definition that does not set it
        carried config.yaml:13 defaults.verify: used for every definition that does not set it
        carried config.yaml:13 defaults.max_retries: used for every definition that does not set it
        carried config.yaml:13 defaults.timeout_minutes: used for every definition that does not set it
        not-carried config.yaml:17 extra: loop-harness documents no such key
    "#]].assert_eq(&(config.user_settings(&config.repos[0]) + "\n" + &notes_text(&notes)));
}

#[test]
fn secret_in_place_of_a_name_is_refused_and_not_shown() {
    let mut notes = ImportNotes::default();
    let text = b"github_token_env: ghp-0123456789abcdef\n";
    let problems = HarnessConfig::read("config.yaml", text, &mut notes).expect_err("not a name").to_string();
    assert!(problems.contains("`github_token_env` on line 1 is not the name of a variable"), "{problems}");
    assert!(!problems.contains("0123456789") && !notes_text(&notes).contains("0123456789"), "{problems}");
}

const SPECS: &str = r##"[
  {"name": "ci-sweeper", "intent": "keep main green", "level": "l3-unattended", "cadence": "every 10m",
   "budget": {"max_input_tokens": null, "max_output_tokens": null, "max_total_tokens": 400000, "max_iters_per_round": 20},
   "maker_prompt": "# Fix\nit", "checker_prompt": "run the tests", "action_kind": "apply-patch"},
  {"name": "triage", "intent": "list what needs a person", "level": "l1-report", "cadence": "daily 09:00",
   "budget": {"max_input_tokens": null, "max_output_tokens": null, "max_total_tokens": null, "max_iters_per_round": 12},
   "maker_prompt": "", "checker_prompt": "", "action_kind": "comment"}
]"##;

#[test]
fn specs_of_the_loop_engine_become_loop_files() {
    let mut notes = ImportNotes::default();
    let made = read_seed_specs("specs.json", SPECS.as_bytes(), &mut notes).unwrap_or_else(|found| panic!("{found}"));
    let names: Vec<_> = made.iter().map(ImportedLoop::file_name).collect();
    assert_eq!(names, ["ci-sweeper.json", "triage.md"], "a heading in a prompt needs JSON");
    assert_eq!(made[0].spec.level, LoopLevel::L2Assisted);
    expect![[r#"
        ---
        # Imported from the loop engine, specs.json. Read it before you run it.
        name: triage
        intent: "list what needs a person"
        level: L1
        on:
          daily: "09:00"
        budget:
          round: { turns: 12 }
        output: issue-comment
        ---
        # Maker

        list what needs a person
        carried specs.json:2 name: `ci-sweeper`
        changed specs.json:2 level: L3 becomes L2: unattended work needs a gate that can fail, and the loop engine has no gates; add `gates` and `allow`, then set `level: L3`
        carried specs.json:2 cadence: `on`: every 10m; a restart does not make it due
        carried specs.json:2 action_kind: `output: commit`
        carried specs.json:2 budget: `budget.round`: 400000 tokens, 20 turns; reserved before a start, not counted after it
        changed specs.json:2 checker_prompt: the checker sees the diff and the gates' output, and none of the maker's text; its verdict decides
        not-carried specs.json:2 models, tools, gate, executor, memory: they are code: name agents in the loop file, or bind them with `LoopEngine::builder`
        carried specs.json:5 name: `triage`
        changed specs.json:5 maker_prompt: it is empty: the intent is the maker's task
        carried specs.json:5 level: `level: L1`, enforced by the sandbox
        carried specs.json:5 cadence: `on`: daily 09:00; a restart does not make it due
        changed specs.json:5 action_kind: `issue-comment`; at L1 it becomes a part of the report
        changed specs.json:5 budget: it names no ceiling for tokens, so the default holds: 400000 tokens, 12 turns for each start
        changed specs.json:5 checker_prompt: it is empty: the checker gets the built-in prompt
        not-carried specs.json:5 models, tools, gate, executor, memory: they are code: name agents in the loop file, or bind them with `LoopEngine::builder`
    "#]].assert_eq(&(made[1].written.text.clone() + &notes_text(&notes)));
    let one =
        SPECS.trim_start_matches("[\n").split("},\n  {\"name\": \"triage\"").next().expect("a spec").to_owned() + "}";
    assert_eq!(read_seed_specs("one.json", one.as_bytes(), &mut notes).map(|made| made.len()).unwrap_or(0), 1);
}

#[test]
fn bad_specs_are_refused_with_their_positions() {
    let mut shown = String::new();
    for text in [
        "[{\"name\": \"a\"}]",
        "{\"name\": \"A b\", \"intent\": \"x\", \"level\": \"l9\", \"cadence\": \"every 0s\", \"action_kind\": \"mail\"}",
        "[1, 2",
        "name: yaml",
        "[]x",
        "",
    ] {
        let problems = read_seed_specs("s.json", text.as_bytes(), &mut ImportNotes::default()).expect_err(text);
        shown.extend(
            problems.into_iter().map(|problem| format!("{}:{} {}\n", problem.line, problem.column, problem.what)),
        );
    }
    expect![[r#"
        1:2 missing key `intent`
        1:2 the maker has no prompt
        1:10 `A b` is not a valid name for a loop: `A` is not allowed in a name; use lower-case letters, digits, `-`, `_` and `.`
        1:41 `level` wants a level: `L1`, `L2` or `L3`, found the text `l9`
        1:58 `every 0s` is not a cadence
        1:85 `action_kind` wants one of `report`, `pull-request`, `commit`, `issue-comment`, `issue-label`, `issue-create`, `pr-comment`, `pr-inline`, `pr-review`, `slack`, `webhook`, found the text `mail`
        1:85 `output` is empty
        1:5 this is not JSON: EOF while parsing a list
        1:2 this is not JSON: expected ident
        1:3 this is not JSON: trailing characters
        1:1 this is not JSON: EOF while parsing a value
    "#]].assert_eq(&shown);
    let deep = "[".repeat(100_000);
    assert!(read_seed_specs("s.json", deep.as_bytes(), &mut ImportNotes::default()).is_err());
}

const LOOP_MD: &str = "# Loops\n\n| Pattern | Cadence | Status | Command |\n|---|---|---|---|\n\
| [Daily Triage](patterns/daily-triage.md) | 1d | L1 active | `/loop 1d triage` |\n\
| CI Sweeper | 5m–15m | L3 | |\n| Changelog Drafter | daily 18:00 | paused | |\n| thin-loop | 1d | L1 | |\n";
const BUDGET_MD: &str = "# Budget\n\n| Loop | Max runs/day | Max tokens/day | Max sub-agent spawns/run |\n|---|---|---|---|\n\
| Daily Triage | 2 | 100,000 | 0 |\n| CI Sweeper | 96 | 1M | 2 |\n| Issue Triage | 4 | lots | |\n";

#[test]
fn pattern_library_becomes_shipped_loops_with_its_limits() {
    let mut notes = ImportNotes::default();
    let gate = "version: 1\ndenylist: [\".env\", \"auth/**\"]\nmaxFiles: 3\nautoMergeAllowlist: [\"docs/**\"]\n";
    let gate = LibraryGate::read(gate.as_bytes(), &mut notes).expect("a good file");
    let (tests, context) = (["make".to_owned(), "test".to_owned()], ["STATE.md".to_owned()]);
    let fit = ImportFit { tests: Some(&tests), branch: Some("trunk"), ..ImportFit::default() };
    let library = PatternLibrary { loops: LOOP_MD, budget: BUDGET_MD, context: &context, fit };
    let made = library.loops(&gate, &mut notes).unwrap_or_else(|found| panic!("{found}"));
    let shown: Vec<_> = made
        .iter()
        .map(|one| {
            format!("{} {} {} {:?}", one.name(), one.spec.level.short(), one.spec.cadence(), one.spec.budget.day.tokens)
        })
        .collect();
    assert_eq!(shown, ["daily-triage L1 every 1d Some(100000)", "ci-sweeper L2 every 15m Some(1000000)"]);
    assert!(
        made.iter().all(|one| one.spec.context == ["STATE.md"] && one.spec.protect.contains(&"auth/**".to_owned()))
    );
    assert!(made[1].written.text.contains("files_max: 3"), "{}", made[1].written.text);
    expect![[r#"
        changed gate.yaml:2 denylist: `protect` of every loop: a change to an existing file there is rejected, from the real diff; loop-gate asks for a person, and trusts the paths that its caller names
        changed gate.yaml:3 maxFiles: the gate `small`: a larger change is rejected, where loop-gate asks for a person
        not-carried gate.yaml:4 autoMergeAllowlist: nothing is merged without a person; see `level: L3` and `allow`
        not-carried loop-budget.md:5 max runs/day: "2": the cadence and `budget.day` limit the runs of `daily-triage`
        not-carried loop-budget.md:5 max sub-agent spawns: "0": the round's tokens, money and processes are limited instead
        not-carried loop-budget.md:6 max runs/day: "96": the cadence and `budget.day` limit the runs of `ci-sweeper`
        not-carried loop-budget.md:6 max sub-agent spawns: "2": the round's tokens, money and processes are limited instead
        not-carried loop-budget.md:7 max runs/day: "4": the cadence and `budget.day` limit the runs of `issue-triage`
        not-carried loop-budget.md:7 max tokens/day: "lots" is not a number of tokens
        carried LOOP.md:5 level: `level: L1`, enforced by the program
        carried LOOP.md:5 cadence: `on`: every 1d
        carried loop-budget.md:5 max tokens/day: `budget.day.tokens: 100000` of `daily-triage`, reserved before each start
        carried LOOP.md:5 pattern: `daily-triage`: the shipped loop with its probe, gates, rubric and skills
        not-carried LOOP.md:5 command: "/loop 1d triage": the daemon starts the loop (`loopwright up`)
        changed LOOP.md:6 level: L3 becomes L2: the shipped loop starts there, and L2 needs the repository's tests as a gate
        changed LOOP.md:6 cadence: "5m–15m" becomes every 15m, the slower end; the probe costs nothing while there is no work
        carried loop-budget.md:6 max tokens/day: `budget.day.tokens: 1000000` of `ci-sweeper`, reserved before each start
        carried LOOP.md:6 pattern: `ci-sweeper`: the shipped loop with its probe, gates, rubric and skills
        not-carried LOOP.md:7 status: `changelog-drafter` is paused: `loopwright new changelog-drafter` writes it when you want it
        not-carried LOOP.md:8 pattern: no shipped loop is called "thin-loop": `loopwright patterns` lists them; a loop file of your own has `name`, `intent` and `# Maker`
    "#]].assert_eq(&notes_text(&notes));
    assert_eq!(notes.0.iter().filter(|note| note.effect == ImportEffect::NotCarried).count(), 10);
}

#[test]
fn pattern_library_without_loops_or_with_bad_limits_is_refused() {
    let library = |loops| PatternLibrary { loops, ..PatternLibrary::default() };
    let gate = LibraryGate::default();
    for (text, expected) in [
        ("# no table\n", "no table of loops"),
        ("| Pattern | Cadence |\n|---|---|\n| ci-sweeper | sometimes |\n", "line 3: \"sometimes\" is not a cadence"),
    ] {
        let problems = library(text).loops(&gate, &mut ImportNotes::default()).expect_err(text).to_string();
        assert!(problems.contains(expected), "{problems}");
    }
    for text in ["denylist: [\"/etc/**\"]", "maxFiles: -1", "denylist: 3", "- x"] {
        assert!(LibraryGate::read(text.as_bytes(), &mut ImportNotes::default()).is_err(), "{text}");
    }
}
