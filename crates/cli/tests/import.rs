//! `import` through the real program: installations of other tools, written by their documented formats, and hostile
//! ones.
#![allow(clippy::disallowed_methods, reason = "tests start the program and make links")]

use loopwright_testkit::{TestEnv, TestRepo};
use serde_json::Value;
use std::path::{Path, PathBuf};

/// An installation of loop-harness and a repository that it lists.
struct World {
    env: TestEnv,
    repo: TestRepo,
    dir: PathBuf,
}

impl World {
    fn new() -> Self {
        let env = TestEnv::new(env!("CARGO_BIN_EXE_loopwright"));
        let repo = env.repo("my-app");
        repo.write("calc.sh", "echo 1\n").commit("first");
        let dir = env.root().join("loop-harness");
        let world = Self { env, repo, dir };
        world.put(
            "config.yaml",
            &format!("repos:\n  - path: {}\n    loops: [guard, pr-reviewer]\n", world.repo.path().display()),
        );
        world.put(
            "definitions/guard.yaml",
            "name: guard\ncadence: every 30m\nskill: guard.md\noutput: log-only\nverify: false\n",
        );
        world.put(
            "definitions/pr-reviewer.yaml",
            "name: pr-reviewer\ncadence: every 3m\nskill: review.md\noutput: issue-comment\n",
        );
        world.put("skills/guard.md", "# Guard\n\nReport what looks wrong.\n");
        world.put("skills/review.md", "You review each pull request.\n");
        world.put(
            "state/pr-reviewer@my-app.json",
            r#"{"processed": {"7": "2026-06-10T09:00:00+0000", "8": "2026-06-11T09:00:00+0000"}}"#,
        );
        world
    }

    fn put(&self, name: &str, text: &str) {
        let path = self.dir.join(name);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("folders");
        std::fs::write(path, text).expect("a file");
    }

    fn import(&self, more: &[&str], code: i32) -> Value {
        let dir = self.dir.display().to_string();
        let words = ["import", "loop-harness", dir.as_str(), "--json"].into_iter().chain(more.iter().copied());
        self.env.loopwright_in(self.repo.path(), words).code(code).json()
    }

    fn has_no_files(&self) {
        let left: Vec<PathBuf> = files(&self.repo.path().join(".loopwright"));
        assert_eq!(left, [] as [PathBuf; 0], "nothing is half-written");
    }
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let paths = entries.map(|entry| entry.expect("an entry").path());
    paths.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

fn states(document: &Value) -> Vec<String> {
    let files = document["files"].as_array().expect("files").iter();
    files.map(|line| line["state"].as_str().expect("a word").to_owned()).collect()
}

#[test]
fn dry_run_writes_nothing_and_a_second_import_changes_nothing() {
    let world = World::new();
    let planned = world.import(&["--dry-run"], 0);
    assert_eq!(states(&planned), ["written"; 4]);
    world.has_no_files();
    let first = world.import(&[], 0);
    assert_eq!((states(&first), &first["items"][0]["new"]), (vec!["written".to_owned(); 4], &2.into()));
    assert_eq!(files(&world.repo.path().join(".loopwright")).len(), 4, "no temporary file stays");
    let again = world.import(&[], 0);
    assert_eq!((states(&again), &again["items"][0]["new"]), (vec!["unchanged".to_owned(); 4], &0.into()));
    let _ = world.env.loopwright_in(world.repo.path(), ["check"]).success();
    let _ = world.env.loopwright_in(world.repo.path(), ["verify"]).success();
}

#[test]
fn edited_file_is_replaced_only_with_force() {
    let world = World::new();
    drop(world.import(&[], 0));
    let file = ".loopwright/loops/guard.md";
    let text = world.repo.read(file);
    world.repo.write(file, "mine");
    world.repo.write(".loopwright/skills/review.md", "mine too");
    let refused = world.import(&[], 2);
    assert_eq!(refused["error"]["places"].as_array().map(Vec::len), Some(2), "all at once: {refused}");
    assert_eq!(world.repo.read(file), "mine");
    // A file that cannot be read as a loop does not block its own replacement.
    let forced = world.import(&["--force"], 0);
    assert_eq!(states(&forced).iter().filter(|state| *state == "replaced").count(), 2);
    assert_eq!(world.repo.read(file), text);
}

#[test]
fn processed_pull_request_stays_processed_in_every_revision() {
    let world = World::new();
    drop(world.import(&[], 0));
    let shown = world.env.loopwright_in(world.repo.path(), ["show", "pr-reviewer", "--json"]).success().json();
    let processed = shown["state"]["processed"].as_object().expect("items");
    assert_eq!(processed.get("pr-7@*"), Some(&"2026-06-10T09:00:00Z".into()), "{shown}");
    // A command probe with the keys of the forge's probe: two processed ones, and one that is new.
    world.repo.write("pulls.sh", "echo pr-7@abc\necho pr-8@def\n").commit("a probe");
    let file = ".loopwright/loops/pr-reviewer.md";
    let text = world.repo.read(file).replace("probe: open-prs", "probe: { run: [sh, pulls.sh], items: lines }");
    let text = text.replace("use: claude", "use: scripted, script: s.script");
    world.repo.write(file, text).write(".loopwright/s.script", "@ maker\nstage report.md \"ok\"\n\n@ checker\nverdict pass correctness=5@item:report.md:1 scope=5@item:report.md:1\n");
    let run = |code| world.env.loopwright_in(world.repo.path(), ["run", "pr-reviewer", "--json"]).code(code).json();
    assert_eq!(run(0)["outcome"], "nothing-to-do");
    world.repo.write("pulls.sh", "echo pr-7@new\necho pr-9@abc\n").commit("a new pull request");
    assert_eq!(run(0)["item"], "pr-9@abc", "only the new one is work");
    let _ = world.env.loopwright_in(world.repo.path(), ["forget", "pr-reviewer", "--item", "pr-7@*"]).success();
    assert_eq!(run(0)["item"], "pr-7@new", "a forgotten item is work again");
}

#[test]
fn hostile_installations_are_refused_with_their_places_and_nothing_is_written() {
    let secret = |world: &World| world.env.home().join("secret");
    type Attack<'a> = (&'a dyn Fn(&World), &'a str);
    let link = |world: &World, name: &str| {
        std::fs::write(secret(world), "hunter2").expect("a file");
        let path = world.dir.join(name);
        std::fs::remove_file(&path).expect("it is there");
        std::os::unix::fs::symlink(secret(world), path).expect("a link");
    };
    let attacks: [Attack<'_>; 11] = [
        (&|world| link(world, "skills/guard.md"), "it is a link"),
        (&|world| link(world, "definitions/guard.yaml"), "it is a link"),
        (&|world| link(world, "state/pr-reviewer@my-app.json"), "it is a link"),
        (&|world| world.put("definitions/guard.yaml", "skill: ../../home/secret\n"), "not the name of a skill"),
        (&|world| world.put("definitions/guard.yaml", "name: ../../x\n"), "not a valid name"),
        (&|world| world.put("definitions/guard.yaml", "a: &a [x, x]\nb: &b [*a, *a]\n"), "anchors and aliases"),
        (&|world| world.put("skills/guard.md", &"x".repeat(300 << 10)), "more than 262144 bytes"),
        (&|world| world.put("skills/guard.md", "a\0b"), "not UTF-8 text"),
        (&|world| world.put("state/pr-reviewer@my-app.json", "{\"processed\": ["), "not the state of a loop"),
        (&|world| world.put("definitions/other.yaml", "name: guard\noutput: pr\n"), ""),
        (
            &|world| world.put("config.yaml", "repos:\n  - path: /nowhere\n    loops: [guard]\n"),
            "no loops for this repository",
        ),
    ];
    for (attack, expected) in attacks {
        let world = World::new();
        attack(&world);
        if expected.is_empty() {
            // The list of the repository decides: a second definition of one name is not taken silently.
            std::fs::remove_file(world.dir.join("config.yaml")).expect("it is there");
            world.put("skills/other.md", "Do other things here.\n");
        }
        let refused = world.import(&[], 2);
        let text = refused["error"]["text"].as_str().unwrap_or_default();
        let expected = if expected.is_empty() { "loop `guard` is also in" } else { expected };
        assert!(text.contains(expected), "{expected}: {refused}");
        assert!(!refused.to_string().contains("hunter2"), "{refused}");
        assert!(!refused["error"]["places"].as_array().expect("places").is_empty(), "{refused}");
        world.has_no_files();
    }
}

#[test]
fn folder_of_the_repository_that_leads_elsewhere_is_refused() {
    let world = World::new();
    std::os::unix::fs::symlink(world.env.home(), world.repo.path().join(".loopwright")).expect("a link");
    let refused = world.import(&["--force"], 2);
    assert!(refused["error"]["text"].as_str().is_some_and(|text| text.contains("is a symbolic link")), "{refused}");
    assert_eq!(files(&world.env.home()), [] as [PathBuf; 0]);
}

#[test]
fn name_of_an_existing_loop_in_another_file_is_refused_also_with_force() {
    let world = World::new();
    world.repo.write(".loopwright/loops/mine.yaml", "name: guard\nintent: x\nprompts: { maker: y }\n");
    let refused = world.import(&["--force"], 2);
    assert!(
        refused["error"]["text"]
            .as_str()
            .is_some_and(|text| text.contains("exists already: .loopwright/loops/mine.yaml")),
        "{refused}"
    );
}

#[test]
fn specs_of_the_loop_engine_and_a_pattern_library_are_imported_and_pass_check() {
    let world = World::new();
    let spec = r#"[{"name": "sweep", "intent": "keep main green", "level": "l3-unattended", "cadence": "every 10m",
        "budget": {"max_total_tokens": 400000, "max_iters_per_round": 20}, "maker_prompt": "fix it", "checker_prompt": "", "action_kind": "open-pr"}]"#;
    world.repo.write("specs.json", spec);
    world.repo.write(
        "LOOP.md",
        "| Pattern | Cadence | Status |\n|---|---|---|\n| Issue Triage | 2h-1d | L1 |\n| CI Sweeper | 15m | L2 |\n",
    );
    world
        .repo
        .write("gate.yaml", "denylist: [\"auth/**\"]\nmaxFiles: 4\n")
        .write("STATE.md", "# State\n")
        .commit("a library");
    let specs =
        world.env.loopwright_in(world.repo.path(), ["import", "loop-engine", "specs.json", "--json"]).success().json();
    assert_eq!((&specs["loops"][0]["level"], &specs["changed"][0]["key"]), (&"L2".into(), &"level".into()), "{specs}");
    let library =
        world.env.loopwright_in(world.repo.path(), ["import", "loop-engineering", ".", "--json"]).success().json();
    let names: Vec<_> = library["loops"].as_array().expect("loops").iter().map(|one| one["loop"].clone()).collect();
    assert_eq!(names, ["issue-triage", "ci-sweeper"]);
    assert!(world.repo.read(".loopwright/loops/ci-sweeper.md").contains("context: [STATE.md]"));
    let page = world.env.loopwright_in(world.repo.path(), ["check"]).success().stdout();
    assert!(page.contains("3 loops checked"), "{page}");
}
