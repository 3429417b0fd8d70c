//! `init` in repositories as users have them: it runs what it proposes, chooses what passes on base, and never blocks.

#[path = "init/ecosystems.rs"]
mod ecosystems;

use loopwright_testkit::{TRUSTED_PATH, TestEnv, skip};
use serde_json::json;

fn env() -> TestEnv {
    TestEnv::new(env!("CARGO_BIN_EXE_loopwright"))
}

#[test]
fn init_runs_the_gates_once_and_writes_the_command_that_passes_on_base() {
    let env = env();
    let repo = env.repo("r");
    let scripts = r#"{ "test": "node test.js", "posttest": "node -e 'process.exit(3)'" }"#;
    repo.write("package.json", format!(r#"{{ "name": "a", "version": "1.0.0", "scripts": {scripts} }}"#))
        .write("sum.js", "exports.sum = (a, b) => a + b;\n")
        .write("test.js", "require('assert').strictEqual(require('./sum.js').sum(1, 2), 3);\n")
        .write("AGENTS.md", "Use tabs.\n")
        .commit("first");
    let ran = env.loopwright_in(repo.path(), ["init", "--json", "--loop", "ci-sweeper"]).success().json();
    assert_eq!(ran["gates"][0]["status"], "passed", "{ran:#}");
    assert_eq!(ran["gates"][0]["run"], json!(["npm", "test", "--ignore-scripts"]), "{ran:#}");
    assert_eq!((&ran["instructions"], &ran["kinds"]), (&"on".into(), &json!(["JavaScript (npm)"])));
    let look = repo.read(".loopwright/loops/first-look.md");
    assert!(look.contains("  - { name: tests, run: [npm, test, \"--ignore-scripts\"] }\n"), "{look}");
    assert!(look.contains("instructions: on         # the maker sees AGENTS.md of base, as data\n"), "{look}");
    let sweeper = repo.read(".loopwright/loops/ci-sweeper.md");
    assert!(sweeper.contains("run: [npm, test, \"--ignore-scripts\"], red_before: true"), "{sweeper}");
    let checked = env.loopwright_in(repo.path(), ["check"]).success().transcript();
    assert!(checked.contains("2 loops checked"), "{checked}");
    let again = env.loopwright_in(repo.path(), ["init", "--json"]).success().json();
    assert_eq!((&again["written"], &again["gates"][0]["status"]), (&json!([]), &json!(null)), "{again:#}");
    assert_eq!(repo.read(".loopwright/loops/first-look.md"), look);
}

#[test]
fn gate_that_misses_a_module_is_named_as_such_and_a_failed_set_up_shows_its_cause() {
    let env = env();
    let repo = env.repo("r");
    repo.write("test_a.py", "import no_such_module_here\n").commit("first");
    let ran = env.loopwright_in(repo.path(), ["init"]).success().transcript();
    assert!(ran.contains("tests: rejected on base"), "{ran}");
    assert!(ran.contains("`no_such_module_here` is not importable: add `setup:`"), "{ran}");
    assert!(!ran.contains("every candidate has to fix it"), "{ran}");
    let repo = env.repo("s");
    repo.write("pom.xml", "<project/>").write_executable("mvnw", "#!/no/such/interpreter\n").commit("first");
    let ran = env.loopwright_in(repo.path(), ["init"]).success().transcript();
    assert!(ran.contains("note: the gates could not be tried: start `./mvnw -B -q"), "{ran}");
    assert!(ran.contains("note: install the program, or put its folder into your PATH"), "{ran}");
    assert!(ran.contains("next: loopwright gates test first-look") && !ran.contains("next: loopwright run"), "{ran}");
    assert!(repo.read(".loopwright/loops/first-look.md").contains("  - [./mvnw, "));
}

#[test]
fn tests_that_write_into_their_own_folder_are_recognised_and_not_called_red() {
    let env = env();
    let repo = env.repo("r");
    let text = "import pathlib, unittest\n\nclass T(unittest.TestCase):\n    def test_a(self):\n        \
                p = pathlib.Path(__file__).parent / 'scratch.txt'\n        p.write_text('x')\n        \
                self.assertEqual(p.read_text(), 'x')\n";
    repo.write("tests/__init__.py", "").write("tests/test_a.py", text).write("a.py", "x = 1\n").commit("first");
    let ran = env.loopwright_in(repo.path(), ["init"]).success().transcript();
    if !ran.contains("Read-only") && !ran.contains("inputs_writable") {
        return skip("folders of tests are read-only behind the kernel's walls only");
    }
    assert!(ran.contains("ok   tests: passed on base") && !ran.contains("red on base"), "{ran}");
    assert!(ran.contains("its tests write into their own folder, so it has `inputs_writable: true`"), "{ran}");
    let look = repo.read(".loopwright/loops/first-look.md");
    assert!(look.contains(", inputs_writable: true }"), "{look}");
    let plain = look.replace(", inputs_writable: true", "");
    repo.write(".loopwright/loops/first-look.md", plain).commit("a loop");
    let tried = env.loopwright_in(repo.path(), ["gates", "test", "first-look"]).transcript();
    assert!(
        tried.contains("note: its tests write into a folder that is read-only in a gate: add `inputs_writable"),
        "{tried}"
    );
}

#[test]
fn gates_test_and_a_round_share_one_set_up() {
    let env = env();
    let repo = env.repo("r");
    let agent = "{ use: scripted, script: s.script }";
    repo.write("run.sh", "#!/bin/sh\ntest -f made && test -f code\n")
        .write("code", "x\n")
        .write(".loopwright/s.script", "@ maker\nsay hello\nstage report.md \"Fine.\"\n\n@ checker\nverdict pass correctness=5@item:report.md:1 scope=5@item:report.md:1\n")
        .write(
            ".loopwright/loops/look.md",
            format!("---\nname: look\nintent: Look.\nagents: {{ maker: {agent} }}\nsetup: [[sh, -c, \"touch made\"]]\n\
                     gates: [{{ name: t, run: [sh, run.sh] }}]\n---\n# Maker\nLook.\n"),
        )
        .commit("first");
    let tested = env.loopwright_in(repo.path(), ["gates", "test", "look"]).success().transcript();
    assert!(tested.contains("setup    sh -c touch made") && tested.contains("ok   t: passed on base"), "{tested}");
    let ran = env.loopwright_in(repo.path(), ["run", "look"]).success().transcript();
    assert!(!ran.contains("setup"), "the round uses the set-up of the test: {ran}");
}

#[test]
fn instructions_of_the_repository_reach_the_maker_only_if_the_loop_says_so() {
    let env = env();
    let repo = env.repo("r");
    let text = |switch: &str| {
        let run = "[sh, -c, \"grep -c 'Use tabs, always.' > $LOOPWRIGHT_OUTBOX/report.md; true\"]";
        format!(
            "---\nname: look\nintent: Look.\ncheck: none\n{switch}agents: {{ maker: {{ use: command, run: {run} }} }}\n---\n# Maker\nLook.\n"
        )
    };
    for (switch, seen, word) in [("", "0", "did not see them"), ("instructions: on\n", "1", "saw them, as data")] {
        repo.write("CLAUDE.md", "Use tabs, always.\n").write(".loopwright/loops/look.md", text(switch)).commit("loop");
        let round = env.loopwright_in(repo.path(), ["run", "look", "--json"]).success().json();
        assert_eq!(round["agent_report"].as_str().map(str::trim), Some(seen), "{round:#}");
        let report = std::fs::read_to_string(round["report"].as_str().expect("a path")).expect("a report");
        assert!(report.contains(word), "{report}");
    }
}

#[test]
fn check_refuses_what_a_round_would_ignore_and_shows_the_program_of_each_gate() {
    let env = env();
    let repo = env.repo("r");
    let text = |keys: &str| {
        let agent = "agents: { maker: { use: command, run: [cat] } }";
        format!("---\nname: look\nintent: Look.\n{agent}\n{keys}---\n# Maker\nLook.\n")
    };
    std::os::unix::fs::symlink("/etc/passwd", repo.path().join("link.md")).expect("a link");
    repo.write("package.json", "{}").write("a.md", "x\n").commit("first");
    for (keys, problem) in [
        ("paths: [src/**]\n", "`paths`"),
        ("context: [missing.md]\n", "context file `missing.md` is not in base"),
        ("context: [a.md, link.md]\n", "context file `link.md` is not a plain file in base"),
        ("on: { every: 1h, probe: outdated }\n", "`probe: outdated` queries a package registry"),
    ] {
        repo.write(".loopwright/loops/look.md", text(keys));
        for verb in ["check", "run"] {
            let ran = env.loopwright_in(repo.path(), [verb, "look"]).code(2).transcript();
            assert!(ran.contains(problem), "{verb}: {ran}");
        }
    }
    repo.write(".loopwright/loops/look.md", text("context: [a.md]\ngates: [{ name: t, run: [git, status] }]\n"));
    let shown = env.loopwright_in(repo.path(), ["check", "look"]).success().transcript();
    assert!(shown.contains("/git (git version "), "{shown}");
    let all = env.loopwright_in(repo.path(), ["check"]).success().transcript();
    assert!(!all.contains("git version"), "a check of all loops starts no program: {all}");
}

#[test]
fn round_sees_submodules_and_large_files_and_an_edit_to_one_ends_it_with_the_path() {
    let env = env();
    let library = env.repo("library");
    library.write("lib.txt", "from the library\n").commit("library");
    let repo = env.repo("r");
    let text = |script: &str| {
        let agent = format!("{{ use: command, run: [sh, -c, \"{script}\"] }}");
        format!(
            "---\nname: fix\nintent: Fix.\nlevel: L2\nsubmodules: on\nlfs: on\nagents: {{ maker: {agent} }}\nattempts: 1\noutput: pull-request\n\
             gates: [{{ name: content, run: [sh, t.sh] }}]\n---\n# Maker\nFix.\n"
        )
    };
    // The hash of the text `large\n`.
    let sha = "9bfce334a37bd1bc1d36b0370195b31fe9a9389dd43d0873891a3544ef1140a1";
    let url = library.path().display().to_string();
    repo.git(["-c", "protocol.file.allow=always", "submodule", "--quiet", "add", &url, "vendor/lib"]);
    repo.write(".gitattributes", "*.bin filter=lfs diff=lfs merge=lfs -text\n")
        .write("a.bin", format!("version https://git-lfs.github.com/spec/v1\noid sha256:{sha}\nsize 6\n"))
        .write("t.sh", "grep -q library vendor/lib/lib.txt && grep -q large a.bin && git diff --quiet\n")
        .write(&format!(".git/lfs/objects/{}/{}/{sha}", &sha[..2], &sha[2..4]), "large\n")
        .write(".loopwright/loops/fix.md", text("cat vendor/lib/lib.txt a.bin > found.txt"))
        .commit("first");
    let look = |verb: &str| env.loopwright_in(repo.path(), [verb, "fix"]).transcript();
    assert!(look("check").contains("1 loop checked"), "{}", look("check"));
    let tested = env.loopwright_in(repo.path(), ["gates", "test", "fix"]).success().transcript();
    assert!(tested.contains("content: passed on base"), "{tested}");
    let ran = look("run");
    assert!(ran.contains("content") && !ran.contains("submodule was changed"), "{ran}");
    let round = env.loopwright_in(repo.path(), ["rounds", "--json"]).success().json();
    let id = round["rounds"][0]["round"].as_str().expect("an id").to_owned();
    let diff = env.loopwright_in(repo.path(), ["diff", &id]).success().transcript();
    assert!(diff.contains("+from the library") && diff.contains("+large") && !diff.contains("a.bin b/"), "{diff}");
    for (script, refused) in [
        ("echo x >> vendor/lib/lib.txt", "vendor/lib/lib.txt: a submodule was changed"),
        ("echo x >> a.bin", "a.bin: Git LFS stores this file"),
    ] {
        repo.write(".loopwright/loops/fix.md", text(script));
        let ran = look("run");
        assert!(ran.contains(refused), "{ran}");
    }
    std::fs::remove_dir_all(repo.path().join(".git/modules")).expect("the clone goes");
    std::fs::remove_dir_all(repo.path().join("vendor")).expect("its files go");
    repo.write("more", "x\n").git(["add", "more", ".loopwright"]);
    repo.git(["commit", "-q", "-m", "more"]);
    let ran = look("run");
    assert!(ran.contains("submodule `vendor/lib`") && ran.contains("git submodule update --init"), "{ran}");
}

#[test]
fn content_that_real_git_lfs_stored_reaches_the_round_and_a_clone_without_it_names_the_fetch() {
    if !TRUSTED_PATH.split(':').any(|folder| std::path::Path::new(folder).join("git-lfs").is_file()) {
        return skip("git-lfs is not installed; run `cargo xtask setup`");
    }
    let env = env();
    let repo = env.repo("r");
    repo.git(["lfs", "install", "--local", "--skip-repo"]);
    repo.git(["lfs", "track", "*.bin"]);
    let text = |script: &str| {
        let agents = format!(
            "{{ maker: {{ use: command, run: [sh, -c, \"{script}\"] }}, checker: {{ use: scripted, script: s.script }} }}"
        );
        format!(
            "---\nname: fix\nintent: Fix.\nlevel: L2\nlfs: on\nattempts: 1\noutput: pull-request\nagents: {agents}\n\
             gates: [{{ name: content, run: [sh, t.sh] }}]\n---\n# Maker\nFix.\n"
        )
    };
    repo.write("a.bin", "large\n".repeat(100_000))
        .write("t.sh", "test $(grep -c large a.bin) = 100000 && git diff --quiet\n")
        .write(
            ".loopwright/s.script",
            "@ checker\nverdict pass correctness=5@found:1 scope=5@gate:content tests=5@gate:content\n",
        )
        .write(".loopwright/loops/fix.md", text("wc -l < a.bin > found"))
        .commit("first");
    assert!(repo.git(["cat-file", "-p", "HEAD:a.bin"]).starts_with("version https://git-lfs"), "git-lfs stored it");
    let ran = env.loopwright_in(repo.path(), ["run", "fix"]).code(10).transcript();
    assert!(ran.contains("1 file changed"), "{ran}");
    let round = env.loopwright_in(repo.path(), ["rounds", "--json"]).success().json();
    let id = round["rounds"][0]["round"].as_str().expect("an id").to_owned();
    drop(env.loopwright_in(repo.path(), ["take", &id]).success());
    let (taken, base) = (format!("take/{id}:a.bin"), "HEAD:a.bin".to_owned());
    assert_eq!(repo.git(["rev-parse", &taken]), repo.git(["rev-parse", &base]), "the pointer is as it was");
    repo.write(".loopwright/loops/fix.md", text("echo x >> a.bin"));
    let ran = env.loopwright_in(repo.path(), ["run", "fix"]).code(15).transcript();
    assert!(ran.contains("a.bin: Git LFS stores this file"), "{ran}");
    // A new base: the content of the earlier one is prepared already. The content goes after the commit, because git-lfs
    // stores the content again of every file that it looks at.
    repo.write("more", "x\n").git(["add", "more", ".loopwright"]);
    repo.git(["commit", "-q", "-m", "more"]);
    std::fs::remove_dir_all(repo.path().join(".git/lfs/objects")).expect("the content goes");
    let ran = env.loopwright_in(repo.path(), ["run", "fix"]).code(1).transcript();
    assert!(
        ran.contains("the content of `a.bin` is not in the local Git LFS store") && ran.contains("git lfs fetch"),
        "{ran}"
    );
}

#[test]
fn canaries_of_a_file_that_cannot_be_loaded_or_is_not_run_do_not_hide_or_replace_the_others() {
    let env = env();
    let repo = env.repo("r");
    let decorated = "SIZE = 2\ndef named(names):\n    assert names == tuple('ab')\n    return lambda test: test\n\n\n\
                     @named((\"a\", \"b\"))\ndef test_size():\n    assert len('ab') == SIZE\n";
    let sum = "from calc import add\ndef test_add():\n    assert add(1, 2) == 3\n";
    let text = "---\nname: look\nintent: Look.\nagents: { maker: { use: command, run: [cat] } }\n\
                gates: [{ name: t, run: [python3, -m, pytest, -q, --ignore=tests/test_other.py] }]\n---\n# Maker\nLook.\n";
    repo.write("calc.py", "def add(a, b):\n    return a + b\n")
        .write("tests/test_a.py", decorated)
        .write("tests/test_sum.py", sum)
        .write("tests/test_other.py", sum)
        .write("conftest.py", "")
        .write(".loopwright/loops/look.md", text)
        .commit("first");
    let tried = env.loopwright_in(repo.path(), ["gates", "test", "look", "--canaries"]).transcript();
    if tried.contains("No module named pytest") {
        return skip("pytest is not installed");
    }
    assert!(tried.contains("canaries: 1 tried on base, 0 red there"), "{tried}");
}
