//! Recognises output of a command that failed because a dependency is not installed, so that people get the cause and
//! not the last line.

/// A dependency that a command did not find.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MissingDependency {
    /// Its name, as the command printed it.
    pub name: String,
    what: &'static str,
}

impl MissingDependency {
    /// The cause and the next step, as a sentence.
    #[must_use]
    pub fn text(&self) -> String {
        format!("`{}` is {}: add `setup:` with the command that installs your dependencies", self.name, self.what)
    }
}

/// The text before the name, the character that ends the name, and the state of the dependency.
const PATTERNS: [(&str, char, &str); 9] = [
    ("ModuleNotFoundError: No module named '", '\'', "not importable"),
    ("ImportError: No module named ", '\n', "not importable"),
    ("No module named ", '\n', "not importable"),
    ("Error: Cannot find module '", '\'', "not installed"),
    ("Cannot find package '", '\'', "not installed"),
    ("cannot find package \"", '"', "not installed"),
    ("no required module provides package ", ';', "not installed"),
    ("error: no matching package named `", '`', "not fetched"),
    ("cannot load such file -- ", ' ', "not installed"),
];

/// The dependency that an output says is missing; a path is a file of the project and not a dependency.
#[must_use]
pub fn missing_dependency(output: &str) -> Option<MissingDependency> {
    PATTERNS.iter().find_map(|(before, end, what)| {
        let (_, rest) = output.split_once(before)?;
        let name = rest.split([*end, '\n']).next()?.trim();
        let is_name = !name.is_empty() && name.len() <= 200 && !name.starts_with(['.', '/']);
        is_name.then(|| MissingDependency { name: name.to_owned(), what })
    })
}

#[cfg(test)]
mod tests {
    use super::missing_dependency;

    #[test]
    fn each_ecosystem_names_its_missing_dependency() {
        let table = [
            ("E   ModuleNotFoundError: No module named 'itsdangerous'\nshort", Some("itsdangerous")),
            ("/usr/bin/python3: No module named pytest\n", Some("pytest")),
            ("Error: Cannot find module 'left-pad'\nRequire stack:", Some("left-pad")),
            ("Error [ERR_MODULE_NOT_FOUND]: Cannot find package 'chai' imported from /w/t.mjs", Some("chai")),
            ("main.go:3:8: no required module provides package rsc.io/quote; to add it:", Some("rsc.io/quote")),
            ("cannot load such file -- rspec (LoadError)", Some("rspec")),
            ("error: no matching package named `smawk` found\nlocation searched: crates.io", Some("smawk")),
            ("Error: Cannot find module './lib/sum'", None),
            ("Error: Cannot find module '/w/dist/index.js'", None),
            ("1 failed, 3 passed", None),
            ("", None),
        ];
        for (output, name) in table {
            assert_eq!(missing_dependency(output).map(|found| found.name).as_deref(), name, "{output}");
        }
    }
}
