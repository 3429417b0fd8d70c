//! Detects test runners: commands that report the number of tests, so that a run without a number does not pass.

/// Programs that are runners by name.
const RUNNERS: &str = "pytest py.test nose2 jest vitest mocha ava tap bats rspec phpunit cargo-nextest ctest \
    playwright karma ward stestr";

/// Programs that start another program, with the arguments that belong to the wrapper; `*` is any argument.
const WRAPPERS: &str = "env nice time timeout=* npx bunx uv=run poetry=run pipenv=run hatch=run rye=run pdm=run \
    pnpm=exec yarn=exec bundle=exec coverage=run,-m";

/// Whether a command runs tests and reports their number, judged by its arguments.
#[must_use]
pub fn is_runner(run: &[String]) -> bool {
    let words: Vec<&str> = run.iter().map(String::as_str).collect();
    of_words(&words, 0)
}

/// Whether a command's purpose is to run tests, also where it does not report their number: a runner, a shell text or a
/// script that names tests, `make test`, `npm test`.
#[must_use]
pub fn runs_tests(run: &[String]) -> bool {
    let names_tests = |word: &str| {
        let mut parts = word.split(|c: char| !c.is_ascii_alphanumeric());
        parts.any(|part| matches!(part, "test" | "tests" | "spec" | "specs" | "unittest" | "pytest" | "bats"))
    };
    is_runner(run) || run.iter().any(|word| names_tests(word))
}

/// The largest number of wrappers before a runner.
const DEPTH_MAX: u32 = 8;

fn of_words(words: &[&str], depth: u32) -> bool {
    let Some((first, rest)) = words.split_first().filter(|_| depth < DEPTH_MAX) else { return false };
    let name = first.rsplit('/').next().unwrap_or(first);
    if RUNNERS.split_whitespace().any(|runner| runner == name) {
        return true;
    }
    let has = |word: &str| rest.contains(&word);
    if name == "cargo" {
        return rest
            .iter()
            .find(|word| !word.starts_with(['-', '+']))
            .is_some_and(|verb| matches!(*verb, "test" | "t" | "nextest"));
    }
    if name.starts_with("python") || name.starts_with("pypy") {
        let module = rest.iter().position(|word| *word == "-m").and_then(|at| rest.get(at + 1));
        return module.is_some_and(|module| matches!(*module, "pytest" | "unittest" | "nose2"));
    }
    match name {
        "sh" | "bash" | "dash" | "zsh" | "ksh" => shell_text(rest).is_some_and(|text| {
            let commands = text.split(['&', ';', '|', '\n']);
            commands.map(str::trim).any(|command| of_words(&command.split_whitespace().collect::<Vec<_>>(), depth + 1))
        }),
        "node" => has("--test"),
        "deno" | "bun" => rest.first() == Some(&"test"),
        "unittest" | "unittest3" => true,
        // Without one of these flags the output lists packages, not tests.
        "go" => rest.first() == Some(&"test") && (has("-v") || has("-json")),
        _ => wrapped(name, rest).is_some_and(|inner| of_words(inner, depth + 1)),
    }
}

/// The text after `-c`, also among other flags, as in `sh -ec "…"`.
fn shell_text<'a>(rest: &[&'a str]) -> Option<&'a str> {
    let flag = rest.iter().position(|word| word.starts_with('-') && word.ends_with('c'))?;
    rest.get(flag + 1).copied()
}

/// The command a wrapper starts.
fn wrapped<'a>(name: &str, rest: &'a [&'a str]) -> Option<&'a [&'a str]> {
    let wrappers = WRAPPERS.split_whitespace().map(|one| one.split_once('=').unwrap_or((one, "")));
    let (_, own) = wrappers.into_iter().find(|(known, _)| *known == name)?;
    let mut rest = rest;
    for word in own.split(',').filter(|word| !word.is_empty()) {
        let (first, after) = rest.split_first()?;
        if word != "*" && *first != word {
            return None;
        }
        rest = after;
    }
    let skip = rest.iter().take_while(|word| word.starts_with('-') || word.contains('=')).count();
    Some(&rest[skip..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runners_are_detected_behind_their_wrappers() {
        for (command, expected) in [
            ("pytest -q", true),
            ("/usr/bin/pytest", true),
            ("python3 -m pytest tests", true),
            ("python -m unittest discover", true),
            ("python3 -W error -m unittest", true),
            ("cargo test --workspace", true),
            ("cargo +nightly --locked test", true),
            ("cargo nextest run", true),
            ("node --test", true),
            ("node --enable-source-maps --test test/", true),
            ("npx jest", true),
            ("env CI=1 npx vitest run", true),
            ("uv run pytest", true),
            ("timeout 60 pytest", true),
            ("go test -v ./...", true),
            ("bats tests", true),
            ("go test ./...", false),
            ("go vet ./...", false),
            ("cargo build", false),
            ("cargo clippy --tests", false),
            ("python3 run.py", false),
            ("node build.js", false),
            ("sh check.sh", false),
            ("npm test", false),
            ("make test", false),
            ("env", false),
            ("", false),
        ] {
            let words: Vec<String> = command.split(' ').filter(|word| !word.is_empty()).map(str::to_owned).collect();
            assert_eq!(is_runner(&words), expected, "{command}");
        }
    }

    #[test]
    fn a_runner_in_a_shell_text_is_detected_and_a_script_that_names_tests_runs_tests() {
        let words = |all: &[&str]| all.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        assert!(is_runner(&words(&["sh", "-c", "cd app && . .venv/bin/activate; pytest -q"])));
        assert!(is_runner(&words(&["bash", "-ec", "python3 -m unittest discover"])));
        assert!(!is_runner(&words(&["sh", "-c", "echo pytest"])));
        for command in [&["npm", "test"] as &[&str], &["make", "test"], &["sh", "tests/run.sh"], &["./run-tests.sh"]] {
            assert!(runs_tests(&words(command)) && !is_runner(&words(command)), "{command:?}");
        }
        for command in [&["cargo", "build"] as &[&str], &["./lint"], &["sh", "latest.sh"]] {
            assert!(!runs_tests(&words(command)), "{command:?}");
        }
    }
}
