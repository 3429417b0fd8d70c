//! Repositories by their files, and the commands that they get.

use super::*;

type Files = &'static [(&'static str, &'static str)];

fn plan_of(files: &[(&str, &str)], programs: &[&str]) -> ProjectPlan {
    let texts: BTreeMap<&str, &str> = files.iter().copied().collect();
    let paths: BTreeSet<String> = files.iter().map(|(path, _)| (*path).to_owned()).collect();
    let read = |path: &str| texts.get(path).map(|text| (*text).to_owned());
    let has_program = |name: &str| programs.contains(&name);
    detect(&ProjectFiles { paths: &paths, read: &read, has_program: &has_program })
}

/// Set-up and gates as text: commands joined by `;`, alternatives by ` | `.
fn shown(files: &[(&str, &str)]) -> String {
    let plan = plan_of(files, &["uv", "poetry", "pdm", "npx", "pnpm", "yarn", "bun", "pre-commit"]);
    let join = |runs: &[Argv], by: &str| runs.iter().map(|run| run.join(" ")).collect::<Vec<_>>().join(by);
    let gates = plan.gates.iter().map(|gate| format!("{}: {}", gate.name, join(&gate.runs, " | ")));
    std::iter::once(join(&plan.setup, "; ")).chain(gates).collect::<Vec<_>>().join("\n")
}

#[test]
fn each_ecosystem_gets_a_set_up_with_the_network_and_a_gate_without_it() {
    let table: [(Files, &str); 11] = [
        (
            &[("Cargo.toml", "[package]"), ("Cargo.lock", "")],
            "cargo fetch --locked; sh -c cargo test --offline --no-run || true\ntests: cargo test --offline",
        ),
        (
            &[("Cargo.toml", "[workspace]\nmembers = [\"a\"]"), ("a/Cargo.toml", "[package]")],
            "cargo fetch; sh -c cargo test --workspace --offline --no-run || true\ntests: cargo test --workspace --offline",
        ),
        (
            &[
                ("package.json", r#"{"scripts":{"test":"tape"},"devDependencies":{"tape":"5"}}"#),
                ("package-lock.json", "{}"),
            ],
            "npm ci --no-audit --no-fund\ntests: npm test",
        ),
        (
            &[(
                "package.json",
                r#"{"scripts":{"test":"x","posttest":"npm audit","tests-only":"tape"},"dependencies":{"a":"1"}}"#,
            )],
            "npm install --no-audit --no-fund\ntests: npm test | npm test --ignore-scripts | npm run tests-only",
        ),
        (&[("package.json", r#"{"scripts":{"test":"node --test"}}"#)], "\ntests: npm test"),
        (&[("package.json", r#"{"scripts":{"test":"echo \"Error: no test specified\" && exit 1"}}"#)], ""),
        (
            &[("package.json", r#"{"scripts":{"test":"x"},"dependencies":{"a":"1"}}"#), ("pnpm-lock.yaml", "")],
            "pnpm install --frozen-lockfile\ntests: pnpm test",
        ),
        (
            &[
                ("package.json", r#"{"scripts":{"test":"x"},"dependencies":{"a":"1"}}"#),
                ("yarn.lock", "# yarn lockfile v1\n"),
            ],
            "yarn install --frozen-lockfile --non-interactive\ntests: yarn test",
        ),
        (
            &[
                ("package.json", r#"{"packageManager":"yarn@4.1.0","scripts":{"test":"x"},"dependencies":{"a":"1"}}"#),
                ("yarn.lock", ""),
            ],
            "yarn install --immutable\ntests: yarn test",
        ),
        (
            &[("package.json", r#"{"dependencies":{"a":"1"}}"#), ("bun.lock", ""), ("a.test.ts", "")],
            "bun install --frozen-lockfile\ntests: bun test",
        ),
        (
            &[("package.json", r#"{"workspaces":["p/*"]}"#), ("p/a/package.json", r#"{"scripts":{"test":"x"}}"#)],
            "npm install --no-audit --no-fund\ntests: npm test --workspaces --if-present",
        ),
    ];
    check(&table);
}

#[test]
fn go_java_and_runners_of_commands_are_recognised() {
    let table: [(Files, &str); 7] = [
        (&[("go.mod", "module x")], "\ntests: go test -v ./... | go test ./..."),
        (
            &[("go.work", "go 1.22\nuse (\n\t./a\n\t./b\n)\n"), ("a/go.mod", "module a")],
            "go mod download\ntests: go test -v ./a/... ./b/... | go test ./a/... ./b/...",
        ),
        (&[("pom.xml", "")], "mvn -B -q -Dmaven.test.failure.ignore=true test\ntests: mvn -B -o test"),
        (
            &[("build.gradle.kts", ""), ("gradlew", "#!/bin/sh")],
            "sh -c ./gradlew --no-daemon -q test --continue || true\ntests: ./gradlew --no-daemon --offline test",
        ),
        (&[("Makefile", "all:\n\ttrue\ntest: all\n\t./t\n")], "\ntests: make test"),
        (&[("justfile", "set shell := [\"sh\"]\ntest *args:\n  ./t\n")], "\ntests: just test"),
        (&[("README.md", "")], ""),
    ];
    check(&table);
}

fn check(table: &[(Files, &str)]) {
    for (files, expected) in table {
        assert_eq!(shown(files), *expected, "{files:?}");
    }
}

#[test]
fn python_installs_with_the_projects_manager_and_its_test_dependencies() {
    const PIP: &str = "python3 -m venv .venv; .venv/bin/python -m pip install -q --disable-pip-version-check";
    const PYTEST: &str = "tests: env .venv/bin/python -m pytest -q";
    let project = "[project]\nname = \"a\"\n";
    let test = ("tests/test_a.py", "import pytest");
    let check = |files: &[(&str, &str)], expected: String| assert_eq!(shown(files), expected, "{files:?}");
    let extras = format!("{project}[project.optional-dependencies]\ntests = [\"freezegun\", \"pytest\"]\ndev = []\n");
    check(&[("pyproject.toml", &extras), test], format!("{PIP} -e .[tests] pytest\n{PYTEST}"));
    let groups =
        format!("{project}[dependency-groups]\ntest = [\"pytest>=8\", {{ include-group = \"x\" }}]\nx = [\"attrs\"]\n");
    check(&[("pyproject.toml", &groups), test], format!("{PIP} -e . pytest>=8 attrs\n{PYTEST}"));
    check(
        &[("setup.py", ""), ("requirements.txt", ""), ("requirements/tests.txt", ""), test],
        format!("{PIP} -e . -r requirements.txt -r requirements/tests.txt pytest\n{PYTEST}"),
    );
    let tox =
        "[tox]\n[testenv]\ndeps =\n    pytest\n    freezegun>=1\n    {env:X}\n    -r other.txt\ncommands = pytest\n";
    check(&[("setup.py", ""), ("tox.ini", tox), test], format!("{PIP} -e . pytest freezegun>=1\n{PYTEST}"));
    let uv = ("uv.lock", "");
    check(
        &[("pyproject.toml", &extras), uv, test],
        "uv sync --frozen --all-extras\ntests: uv run --offline --no-sync python -m pytest -q".to_owned(),
    );
    check(
        &[("pyproject.toml", "[tool.poetry]\nname = \"a\"\n"), test],
        "poetry install --no-interaction --all-extras\ntests: poetry run python -m pytest -q".to_owned(),
    );
    check(
        &[("pyproject.toml", project), ("pdm.lock", ""), test],
        "pdm install --frozen-lockfile\ntests: pdm run python -m pytest -q".to_owned(),
    );
    check(&[("test_calc.py", "import unittest")], "\ntests: python3 -m unittest".to_owned());
    check(&[("tests/test_a.py", "import unittest")], "\ntests: python3 -m unittest discover -s tests".to_owned());
    check(&[("pyproject.toml", project)], String::new());
    let poetry = ("poetry.lock", "");
    let plan = plan_of(&[("pyproject.toml", project), poetry, test], &[]);
    assert_eq!(plan.kinds, ["Python (pip)"]);
    assert!(plan.notes[0].starts_with("poetry is not installed here"), "{:?}", plan.notes);
    let grouped = format!(
        "{project}[tool.poetry.group.dev.dependencies]\npytest = \">=8\"\npytest-mock = \"^3\"\nown = {{ path = \"x\" }}\n"
    );
    let plan = plan_of(&[("pyproject.toml", &grouped), poetry, test], &[]);
    assert_eq!(
        plan.setup[1].join(" "),
        PIP.split("; ").nth(1).unwrap_or_default().to_owned() + " -e . pytest pytest-mock"
    );
}

#[test]
fn lock_file_of_uv_counts_also_where_uv_is_not_installed() {
    let grouped = "[project]\nname = \"a\"\n[dependency-groups]\ndocs = [\"sphinx\"]\ntests = [\"pytest\"]\n";
    let plan = plan_of(&[("pyproject.toml", grouped), ("uv.lock", ""), ("tests/test_a.py", "import pytest")], &[]);
    let setup: Vec<String> = plan.setup.iter().map(|run| run.join(" ")).collect();
    let pip = ".venv/bin/python -m pip install -q --disable-pip-version-check uv";
    let sync =
        "env UV_SYSTEM_CERTS=1 .venv/bin/uv sync --inexact --quiet --python .venv/bin/python --frozen --group tests";
    assert_eq!(setup, ["python3 -m venv .venv", pip, sync]);
    assert_eq!(plan.gates[0].runs[0].join(" "), "env .venv/bin/python -m pytest -q");
    assert!(plan.kinds == ["Python (uv)"] && plan.notes.is_empty(), "{plan:?}");
}

#[test]
fn projects_of_a_monorepo_run_in_their_own_folders_and_material_is_skipped() {
    let files: Files = &[
        ("services/api/pyproject.toml", "[project]\nname = \"api\"\n"),
        ("services/api/tests/test_a.py", "import pytest"),
        ("web/package.json", r#"{"scripts":{"test":"vitest run"},"devDependencies":{"vitest":"1"}}"#),
        ("web/plugins/x/package.json", r#"{"scripts":{"test":"x"}}"#),
        ("docs/package.json", r#"{"scripts":{"test":"x"}}"#),
        ("web/tests/fixtures/a/Cargo.toml", "[package]"),
        ("crates/core/Cargo.toml", "[package]"),
    ];
    assert_eq!(
        shown(files),
        "env --chdir=crates/core cargo fetch; env --chdir=crates/core sh -c cargo test --offline --no-run || true; \
         env --chdir=web npm install --no-audit --no-fund; env --chdir=services/api python3 -m venv .venv; \
         env --chdir=services/api .venv/bin/python -m pip install -q --disable-pip-version-check -e . pytest\n\
         tests-crates-core: env --chdir=crates/core cargo test --offline\n\
         tests-web: env --chdir=web npm test\n\
         tests-services-api: env --chdir=services/api .venv/bin/python -m pytest -q"
    );
}

#[test]
fn ci_file_hints_at_the_tests_and_pre_commit_is_a_gate_of_its_own() {
    let workflow = "jobs:\n  a:\n    steps:\n      - run: make check\n      - run: echo ${{ x }} && pytest\n";
    let files: &[(&str, &str)] = &[(".github/workflows/ci.yml", workflow), (".pre-commit-config.yaml", "repos: []")];
    assert_eq!(shown(files), "\ntests: make check\npre-commit: pre-commit run --all-files");
    let rust: &[(&str, &str)] =
        &[("Cargo.toml", "[package]"), (".gitlab-ci.yml", "t:\n  script:\n    - cargo test --all-features\n")];
    assert!(shown(rust).ends_with("tests: cargo test --offline | cargo test --all-features"), "{}", shown(rust));
    let hooks = plan_of(files, &["pre-commit"]).gates.pop().expect("two gates");
    assert_eq!(hooks.need, GateNeed::OnlyIfGreen);
    let without = plan_of(files, &[]);
    assert_eq!((without.gates.len(), without.notes[0].starts_with("pre-commit is not installed")), (1, true));
}

/// Files, and the ends of the set-up's and of the gate's command.
type FetchedCase<'c> = (&'c [(&'c str, &'c str)], &'c str, &'c str);

#[test]
fn manager_that_is_not_installed_is_fetched_in_the_version_of_the_repository() {
    let package = |named: &str| format!("{{{named}\"scripts\":{{\"test\":\"x\"}},\"dependencies\":{{\"a\":\"1\"}}}}");
    let pinned = package("\"packageManager\":\"pnpm@11.13.1+sha512.ab\",");
    let hostile = package("\"packageManager\":\"pnpm@1 --global x\",");
    let classic = ("yarn.lock", "# yarn lockfile v1\n");
    let plain = package("");
    let table: [FetchedCase<'_>; 6] = [
        (
            &[("package.json", &pinned), ("pnpm-lock.yaml", "")],
            "pnpm@11.13.1 install --frozen-lockfile",
            "pnpm@11.13.1 test",
        ),
        (&[("package.json", &hostile), ("pnpm-lock.yaml", "")], "pnpm@9 install --frozen-lockfile", "pnpm@9 test"),
        (
            &[("package.json", &plain), ("pnpm-lock.yaml", "lockfileVersion: '6.0'\n")],
            "pnpm@8 install --frozen-lockfile",
            "pnpm@8 test",
        ),
        (&[("package.json", &plain), classic], "yarn@1 install --frozen-lockfile --non-interactive", "yarn@1 test"),
        (
            &[("package.json", &plain), ("yarn.lock", "__metadata:\n")],
            "@yarnpkg/cli-dist@4 install --immutable",
            "@yarnpkg/cli-dist@4 test",
        ),
        (&[("package.json", &plain), ("bun.lock", "")], "bun@1 install --frozen-lockfile", "bun@1 run test"),
    ];
    for (files, setup, gate) in table {
        let plan = plan_of(files, &["npm", "npx"]);
        assert_eq!(plan.setup[0].join(" "), format!("npx --yes {setup}"));
        assert_eq!(plan.gates[0].runs[0].join(" "), format!("npx --yes --offline {gate}"));
        assert!(plan.notes[0].contains("is not installed here: the set-up fetches"), "{:?}", plan.notes);
    }
    let release: &[(&str, &str)] =
        &[("package.json", &plain), ("yarn.lock", "__metadata:\n"), (".yarn/releases/yarn-4.1.0.cjs", "")];
    let plan = plan_of(release, &["npx"]);
    assert_eq!(plan.setup[0].join(" "), "node .yarn/releases/yarn-4.1.0.cjs install --immutable");
    let nothing = plan_of(&[("package.json", &pinned), ("pnpm-lock.yaml", "")], &[]);
    assert_eq!(nothing.gates[0].runs[0].join(" "), "pnpm test");
}
