//! `init` in one repository of each ecosystem whose tools every test machine has. The dependencies are in the
//! repository, so no registry is needed; without its set-up, each of them would be red.

use loopwright_testkit::{TRUSTED_PATH, TestEnv, TestRepo};
use std::path::Path;
use std::process::Command;

/// A repository of one ecosystem, with the set-up and the gate that `init` should find.
struct EcosystemCase {
    kinds: &'static [&'static str],
    write: fn(&TestRepo),
    setup: &'static [&'static str],
    gate: &'static str,
}

const CASES: [EcosystemCase; 4] = [
    EcosystemCase {
        kinds: &["Rust (cargo)"],
        write: cargo,
        setup: &["cargo fetch --locked", "sh -c cargo test --offline --no-run || true"],
        gate: "cargo test --offline",
    },
    EcosystemCase {
        kinds: &["JavaScript (npm)"],
        write: npm,
        setup: &["npm install --no-audit --no-fund"],
        gate: "npm test",
    },
    EcosystemCase {
        kinds: &["Python (pip)"],
        write: pip,
        setup: &[
            "python3 -m venv .venv",
            ".venv/bin/python -m pip install -q --disable-pip-version-check -r requirements.txt",
        ],
        gate: "env .venv/bin/python -m unittest",
    },
    // A Makefile belongs to no ecosystem.
    EcosystemCase { kinds: &[], write: make, setup: &[], gate: "make test" },
];

fn cargo(repo: &TestRepo) {
    let manifest = |name: &str| format!("[package]\nname = \"{name}\"\nversion = \"0.1.0\"\nedition = \"2021\"\n");
    let lock = "version = 3\n\n[[package]]\nname = \"near\"\nversion = \"0.1.0\"\n\n[[package]]\nname = \"own\"\n\
                version = \"0.1.0\"\ndependencies = [\"near\"]\n";
    repo.write("Cargo.toml", format!("{}\n[dependencies]\nnear = {{ path = \"near\" }}\n", manifest("own")))
        .write("Cargo.lock", lock)
        .write("src/lib.rs", "#[test]\nfn sum() {\n    assert_eq!(near::add(1, 2), 3);\n}\n")
        .write("near/Cargo.toml", manifest("near"))
        .write("near/src/lib.rs", "pub fn add(a: i32, b: i32) -> i32 {\n    a + b\n}\n");
}

fn npm(repo: &TestRepo) {
    let own = r#"{ "name": "own", "version": "1.0.0", "scripts": { "test": "node test.js" },
                   "dependencies": { "near": "file:near" } }"#;
    repo.write("package.json", own)
        .write("test.js", "require('assert').strictEqual(require('near').add(1, 2), 3);\n")
        .write("near/package.json", r#"{ "name": "near", "version": "1.0.0", "main": "index.js" }"#)
        .write("near/index.js", "exports.add = (a, b) => a + b;\n");
}

/// The dependency is a wheel, because the build of a source package fetches its build tools.
#[expect(clippy::disallowed_methods, reason = "the test makes an archive")]
fn pip(repo: &TestRepo) {
    const WHEEL: &str = "import os, zipfile\nos.makedirs('vendor')\n\
        z = zipfile.ZipFile('vendor/near-1.0-py3-none-any.whl', 'w')\n\
        z.writestr('near.py', 'def add(a, b):\\n    return a + b\\n')\n\
        z.writestr('near-1.0.dist-info/METADATA', 'Metadata-Version: 2.1\\nName: near\\nVersion: 1.0\\n')\n\
        z.writestr('near-1.0.dist-info/WHEEL', 'Wheel-Version: 1.0\\nGenerator: x\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n')\n\
        z.writestr('near-1.0.dist-info/RECORD', '')\nz.close()\n";
    let made = Command::new("python3").args(["-c", WHEEL]).current_dir(repo.path()).status();
    assert!(made.expect("python runs").success());
    repo.write("requirements.txt", "./vendor/near-1.0-py3-none-any.whl\n").write("tests/__init__.py", "").write(
        "tests/test_sum.py",
        "import unittest\nfrom near import add\n\nclass Sum(unittest.TestCase):\n    def test_sum(self):\n        \
         self.assertEqual(add(1, 2), 3)\n",
    );
}

fn make(repo: &TestRepo) {
    repo.write("Makefile", "test:\n\tsh t.sh\n").write("t.sh", "test \"$(sh sum.sh 1 2)\" = 3\n");
    repo.write("sum.sh", "echo $(( $1 + $2 ))\n");
}

fn is_here(program: &str, path: &str) -> bool {
    path.split(':').any(|folder| Path::new(folder).join(program).is_file())
}

#[test]
fn init_finds_the_dependencies_and_the_tests_of_each_ecosystem_and_they_pass_on_base() {
    let tools = Path::new(env!("CARGO")).parent().expect("cargo lies in a folder");
    let path = format!("{TRUSTED_PATH}:{}", tools.display());
    for program in ["cargo", "npm", "python3", "make"] {
        assert!(is_here(program, &path), "`{program}` is part of the test machine");
    }
    for case in CASES {
        let env = TestEnv::new(env!("CARGO_BIN_EXE_loopwright")).with_env("PATH", path.clone());
        let repo = env.repo("r");
        (case.write)(&repo);
        repo.commit("first");
        let found = env.loopwright_in(repo.path(), ["init", "--json"]).success().json();
        let words = |value: &serde_json::Value| {
            let words: Vec<_> = value.as_array().into_iter().flatten().filter_map(|word| word.as_str()).collect();
            words.join(" ")
        };
        let setup: Vec<String> = found["setup"].as_array().into_iter().flatten().map(words).collect();
        assert_eq!(found["kinds"], serde_json::json!(case.kinds), "{found:#}");
        assert_eq!(setup, case.setup, "{:?}", case.kinds);
        assert_eq!(words(&found["gates"][0]["run"]), case.gate, "{:?}", case.kinds);
        assert_eq!(found["gates"][0]["status"], "passed", "{:?}: {found:#}", case.kinds);
        assert_eq!(found["gates"][0]["finding"], serde_json::Value::Null, "it can fail: {found:#}");
    }
}
