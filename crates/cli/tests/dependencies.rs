//! Repositories with dependencies under a denied network: a set-up fetches them on base from a server on loopback, and
//! makers and gates then use its output. One project each in Rust, JavaScript and Python.

#[path = "dependencies/registry.rs"]
mod registry;
#[path = "dependencies/world.rs"]
mod world;

use registry::Registry;
use std::fs;
use world::World;

/// A checker that passes the fix of `file`.
fn pass(file: &str) -> String {
    format!("@ checker\nverdict pass correctness=5@{file}:1 scope=5@gate:tests tests=4@gate:tests\n")
}

#[test]
fn rust_project_builds_and_tests_with_what_setup_fetched() {
    let registry = Registry::start();
    registry.cargo_crate("greeting", "pub fn hello(name: &str) -> String { format!(\"hello {name}\") }\n");
    let world = World::with_cargo("rust");
    let index = registry.url("/index/");
    world
        .repo
        .write(".gitignore", "/target\n")
        .write(".cargo/config.toml", format!("[registries.near]\nindex = \"sparse+{index}\"\n"))
        .write(
            "Cargo.toml",
            "[package]\nname = \"app\"\nversion = \"1.0.0\"\nedition = \"2021\"\n[lib]\npath = \"lib.rs\"\n\
             [dependencies]\ngreeting = { version = \"1\", registry = \"near\" }\n",
        )
        .write(
            "lib.rs",
            "pub fn greet() -> String { greeting::hello(\"nobody\") }\n#[test]\nfn greets_the_world() { assert_eq!(greet(), \"hello world\"); }\n",
        );
    let gate = "{ name: tests, run: [cargo, test, --quiet, --offline], evidence: { tests_at_least: 1 } }";
    world.loop_file("setup: [[cargo, fetch], [cargo, build, --offline]]", gate);
    let script =
        "@ maker\nreplace lib.rs \"hello(\\\"nobody\\\")\" \"hello(\\\"world\\\")\"\nrun cargo check --offline\n";
    let round = world.run(&format!("{script}{}", pass("lib.rs")));
    world.shipped(&round, &["lib.rs"]);
    let fetched = registry.requests();
    assert!(fetched > 0, "the set-up went to the registry");
    // The same base again: the prepared layer is used, and the registry receives no request.
    let again = world.run_again();
    world.shipped(&again, &["lib.rs"]);
    assert_eq!(registry.requests(), fetched);
}

#[test]
fn node_project_tests_with_what_setup_installed() {
    let registry = Registry::start();
    registry.npm_package("greeting", "exports.hello = (name) => `hello ${name}`;\n");
    let world = World::new("node");
    let tarball = registry.url("/greeting/-/greeting-1.0.0.tgz");
    world
        .repo
        .write(".gitignore", "node_modules/\n")
        .write(".npmrc", format!("registry={}\naudit=false\nfund=false\nupdate-notifier=false\n", registry.url("/")))
        .write("package.json", r#"{ "name": "app", "version": "1.0.0", "dependencies": { "greeting": "1.0.0" } }"#)
        .write(
            "package-lock.json",
            format!(
                r#"{{ "name": "app", "version": "1.0.0", "lockfileVersion": 3, "requires": true, "packages": {{
                "": {{ "name": "app", "version": "1.0.0", "dependencies": {{ "greeting": "1.0.0" }} }},
                "node_modules/greeting": {{ "version": "1.0.0", "resolved": "{tarball}" }} }} }}"#
            ),
        )
        .write("greet.js", "exports.greet = () => require('greeting').hello('nobody');\n")
        .write(
            "test.js",
            "const { greet } = require('./greet.js');\nrequire('assert').strictEqual(greet(), 'hello world');\n",
        );
    world.loop_file("setup: [[npm, ci]]", "{ name: tests, run: [node, test.js] }");
    let script = "@ maker\nreplace greet.js nobody world\nrun node test.js\n";
    let round = world.run(&format!("{script}{}", pass("greet.js")));
    world.shipped(&round, &["greet.js"]);
    assert!(registry.requests() > 0, "the set-up went to the registry");
}

#[test]
fn python_project_tests_with_what_setup_installed() {
    let registry = Registry::start();
    registry.python_wheel("greeting", "def hello(name):\n    return 'hello ' + name\n");
    let world = World::new("python");
    world
        .repo
        .write(".gitignore", "deps/\n__pycache__/\n")
        .write("requirements.txt", "greeting==1.0\n")
        .write("greet.py", "import greeting\ndef greet():\n    return greeting.hello('nobody')\n")
        .write(
            "test_greet.py",
            "import sys, unittest\nsys.path.insert(0, 'deps')\nfrom greet import greet\nclass T(unittest.TestCase):\n    \
             def test_greets(self):\n        self.assertEqual(greet(), 'hello world')\n",
        );
    let index = registry.url("/simple/");
    let setup = format!(
        "setup: [[python3, -m, pip, install, --quiet, --disable-pip-version-check, --index-url, \"{index}\", --target, deps, -r, \
         requirements.txt]]"
    );
    world.loop_file(&setup, "{ name: tests, run: [python3, -m, unittest, -q] }");
    let ask = format!("python3 -c 'import urllib.request as u; u.urlopen(\\\"{index}greeting/\\\")' || echo refused");
    let script = format!("@ maker\nreplace greet.py nobody world\nrun sh -c \"{ask}\"\n");
    let round = world.run(&format!("{script}{}", pass("greet.py")));
    world.shipped(&round, &["greet.py"]);
    let fetched = registry.requests();
    assert!(fetched > 0, "the set-up went to the index");
    world.shipped(&world.run_again(), &["greet.py"]);
    // Nothing was fetched again, and the sandboxed maker reached no server.
    let reached = if round["boundary"]["level"] == "kernel" { 0 } else { 1 };
    assert_eq!(registry.requests() - fetched, reached);
}

#[test]
fn what_setup_wrote_is_never_the_makers_change_and_tracked_files_stay_bases() {
    let world = World::new("files");
    world.repo.write("calc.sh", "echo wrong\n").write("keep.txt", "base\n").write("gone.txt", "base\n");
    let setup = "setup: [[sh, -c, \"mkdir -p made/deep; echo 1 > made/deep/a; echo 2 > made/b; echo x > keep.txt; rm gone.txt; \
                 echo warm > $HOME/.warm\"]]";
    let gate = "{ name: tests, run: [sh, -c, \"test $(sh calc.sh) = right && test $(cat made/b) = 2 && test $(cat keep.txt) = \
                base && test -f gone.txt && test $(cat $HOME/.warm) = warm\"] }";
    world.loop_file(setup, gate);
    let maker =
        "@ maker\nreplace calc.sh wrong right\nrun sh -c \"test $(cat $HOME/.warm) = warm && echo 3 > made/deep/a\"\n";
    let round = world.run(&format!("{maker}{}", pass("calc.sh")));
    world.shipped(&round, &["calc.sh", "made/deep/a"]);
}

#[test]
fn setup_that_fails_ends_the_round_as_failed_with_its_last_words() {
    let world = World::new("broken");
    world.repo.write("calc.sh", "echo wrong\n");
    world.loop_file("setup: [[sh, -c, \"echo no such mirror >&2; exit 7\"]]", "{ name: tests, run: [sh, calc.sh, x] }");
    let round = world.run("@ maker\nsay hello\n");
    let last = &round["reasons"][0];
    assert_eq!((&round["outcome"], &last["code"]), (&"failed".into(), &"setup".into()), "{round:#}");
    let text = last["text"].as_str().expect("it has a text");
    assert!(text.contains("exit code 7") && text.contains("no such mirror"), "{text}");
    let id = round["round"].as_str().expect("it has an id");
    let log = fs::read_to_string(world.env.state().join("transcripts").join(id).join("setup.log")).expect("it is kept");
    assert!(log.contains("no such mirror"), "{log}");
}

#[test]
fn g120_shared_cache_is_read_by_all_and_poisoned_by_none() {
    let world = World::new("cache");
    let store = world.env.home().join("store");
    fs::create_dir_all(store.join("deep")).expect("a folder can be made");
    fs::write(store.join("deep/package"), "good\n").expect("a file can be written");
    world.repo.write("calc.sh", "echo wrong\n");
    let reads =
        "test $(cat $HOME/store/deep/package) = good && test ! -e $HOME/store/poison && cat $HOME/store/fetched";
    let gate = format!("{{ name: tests, run: [sh, -c, \"test $(sh calc.sh) = right && {reads}\"] }}");
    world.loop_file("caches: [~/store]\nsetup: [[sh, -c, \"echo new > $HOME/store/fetched\"]]", &gate);
    let poison = "echo bad > $HOME/store/deep/package; echo bad > $HOME/store/poison; cat $HOME/store/fetched";
    let maker = format!("@ maker\nreplace calc.sh wrong right\nrun sh -c \"{reads} && {{ {poison}; }}\"\n");
    let script = format!("{maker}{}", pass("calc.sh"));
    for round in [world.run(&script), world.run_again()] {
        if round["boundary"]["level"] != "kernel" {
            return loopwright_testkit::skip("caches are shared behind the kernel's walls only");
        }
        world.shipped(&round, &["calc.sh"]);
    }
    let left: Vec<_> = fs::read_dir(&store).expect("it is there").flatten().map(|entry| entry.file_name()).collect();
    assert_eq!(
        (left.len(), fs::read_to_string(store.join("deep/package")).expect("it is there")),
        (1, "good\n".to_owned())
    );
}

#[test]
fn toolchain_of_the_users_home_works_inside_and_nothing_else_of_the_home_is_there() {
    let world = World::with_home_programs("tools", ".pyenv/shims");
    let home = world.env.home();
    let home = home.to_str().expect("a plain path");
    world.home_file(".pyenv/shims/greet", &format!("#!/bin/sh\nexec {home}/.pyenv/versions/3/bin/greet \"$@\"\n"));
    world.home_file(".pyenv/versions/3/bin/greet", "#!/bin/sh\ntest -n \"$PYENV_ROOT\" && echo hello $1\n");
    world.home_file(".netrc", "machine example.org password hunter2\n");
    world.home_file("notes.txt", "private\n");
    world.repo.write("who.txt", "nobody\n");
    world.loop_file("", "{ name: tests, run: [sh, -c, \"test \\\"$(greet $(cat who.txt))\\\" = 'hello world'\"] }");
    let look = format!("cat {home}/.netrc {home}/notes.txt > seen.txt 2>/dev/null || rm -f seen.txt");
    let script = format!("@ maker\nreplace who.txt nobody world\nrun greet me\nrun sh -c \"{look}\"\n");
    let round = world.run(&format!("{script}{}", pass("who.txt")));
    if round["boundary"]["level"] != "kernel" {
        return loopwright_testkit::skip("a home is hidden by the kernel's walls only");
    }
    world.shipped(&round, &["who.txt"]);
}
