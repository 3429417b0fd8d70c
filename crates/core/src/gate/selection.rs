//! Arguments that make a runner run only some tests. Only runners whose command ends with their own arguments are known;
//! a wrapper might not pass them on.

/// The arguments to append, or `None` if this runner cannot select tests by name.
#[must_use]
pub fn select_tests(run: &[String], names: &[&str]) -> Option<Vec<String>> {
    let words: Vec<&str> = run.iter().map(String::as_str).collect();
    let first = words.first()?.rsplit('/').next()?;
    let has = |word: &str| words.contains(&word);
    let is_plain = |name: &&str| name.chars().all(|c| c.is_alphanumeric() || c == '_');
    if let "jest" | "vitest" = first {
        return by_title(names);
    }
    if let ("npx", Some(&("jest" | "vitest"))) = (first, words.get(1)) {
        return by_title(names);
    }
    let names: Vec<&str> = names.iter().copied().filter(is_plain).collect();
    if names.is_empty() {
        return None;
    }
    let one_of = |mark: &str| names.join(mark);
    match first {
        "pytest" | "py.test" => Some(vec!["-k".to_owned(), one_of(" or ")]),
        name if name.starts_with("python") && has("pytest") => Some(vec!["-k".to_owned(), one_of(" or ")]),
        name if name.starts_with("python") && has("unittest") => {
            // With a star, unittest compares the whole name of a test; without one, `test_1` would also select `test_12`.
            Some(names.iter().flat_map(|name| ["-k".to_owned(), format!("*.{name}")]).collect())
        }
        "cargo" if has("nextest") && !has("--") => Some(names.iter().map(|name| (*name).to_owned()).collect()),
        "cargo" if has("test") => {
            let mark = (!has("--")).then(|| "--".to_owned());
            Some(mark.into_iter().chain(names.iter().map(|name| (*name).to_owned())).collect())
        }
        "go" if has("test") => Some(vec!["-run".to_owned(), format!("^({})$", one_of("|"))]),
        _ => None,
    }
}

/// A pattern of titles.
fn by_title(names: &[&str]) -> Option<Vec<String>> {
    let titles: Vec<String> = names.iter().map(|name| regex::escape(name)).collect();
    (!titles.is_empty()).then(|| vec!["-t".to_owned(), titles.join("|")])
}

/// The command that runs all tests although some fail, for runners that would stop early.
#[must_use]
pub fn without_early_end(run: &[String]) -> Vec<String> {
    let is_cargo = run.first().is_some_and(|first| first.rsplit('/').next() == Some("cargo"));
    let verb = run.iter().position(|word| matches!(word.as_str(), "test" | "t" | "nextest")).filter(|_| is_cargo);
    let mut words: Vec<String> = run
        .iter()
        .filter(|word| {
            !matches!(word.as_str(), "-x" | "--exitfirst" | "--failfast" | "--fail-fast" | "--bail" | "-failfast")
        })
        .cloned()
        .collect();
    let Some(verb) = verb.filter(|_| !run.iter().any(|word| word == "--no-fail-fast")) else { return words };
    let at = if words[verb] == "nextest" { verb + 2 } else { verb + 1 };
    words.insert(at.min(words.len()), "--no-fail-fast".to_owned());
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runners_do_not_stop_at_the_first_failure() {
        for (command, expected) in [
            ("cargo test --workspace -- a", "cargo test --no-fail-fast --workspace -- a"),
            ("cargo nextest run -p a", "cargo nextest run --no-fail-fast -p a"),
            ("pytest -x -q", "pytest -q"),
            ("sh -c x", "sh -c x"),
        ] {
            let words: Vec<String> = command.split(' ').map(str::to_owned).collect();
            assert_eq!(without_early_end(&words).join(" "), expected);
        }
    }

    #[test]
    fn runners_that_can_select_tests_get_their_names() {
        for (command, expected) in [
            ("pytest -q", Some("-k a or b")),
            ("python3 -m unittest", Some("-k *.a -k *.b")),
            ("cargo test --workspace", Some("-- a b")),
            ("go test ./...", Some("-run ^(a|b)$")),
            ("npx jest --ci", Some("-t a|b|with space")),
            ("make test", None),
            ("sh tests/run.sh", None),
        ] {
            let words: Vec<String> = command.split(' ').map(str::to_owned).collect();
            let found = select_tests(&words, &["a", "b", "with space"]);
            assert_eq!(found.map(|words| words.join(" ")).as_deref(), expected, "{command}");
        }
        assert_eq!(select_tests(&["pytest".to_owned()], &[]), None);
    }
}
