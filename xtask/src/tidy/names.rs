//! The names of types: the share of exported names that two types share, the share of one-word names, and the number of
//! files over which the methods of one type are spread. The shared names are a ratchet; the others are only printed.

use super::source::SourceFile;
use std::collections::{BTreeMap, BTreeSet};

/// The words that declare a type.
const KEYWORDS: [&str; 5] = ["struct", "enum", "trait", "union", "type"];

/// The statistics of a workspace's type names.
#[derive(Debug, PartialEq)]
pub(crate) struct NameMeter {
    /// Exported types: `pub` with or without a scope.
    pub(crate) exported: usize,
    /// The exported types whose name another exported type has, too.
    pub(crate) shared: usize,
    /// The exported types whose name is a single word.
    pub(crate) one_word: usize,
    /// Shared names with their number of uses, most used first.
    pub(crate) repeated: Vec<(usize, String)>,
    /// Types with inherent methods in more than two files of a crate, most first.
    pub(crate) spread: Vec<(usize, String)>,
}

impl NameMeter {
    pub(crate) fn read(sources: &[SourceFile]) -> Self {
        let mut names: BTreeMap<String, usize> = BTreeMap::new();
        let mut files: BTreeMap<(String, String), BTreeSet<&str>> = BTreeMap::new();
        for source in sources {
            for (_, line) in source.code.lines().enumerate().filter(|(index, _)| !source.is_test(*index)) {
                if let Some(name) = exported_type(line) {
                    *names.entry(name.to_owned()).or_default() += 1;
                }
                if let Some(name) = inherent_impl(line) {
                    files.entry((source.crate_name().to_owned(), name.to_owned())).or_default().insert(&source.path);
                }
            }
        }
        let most_first = |mut rows: Vec<(usize, String)>| {
            rows.sort_by(|one, other| other.0.cmp(&one.0).then_with(|| one.1.cmp(&other.1)));
            rows
        };
        let repeated = names.iter().filter(|(_, count)| **count > 1).map(|(name, count)| (*count, name.clone()));
        let spread = files.iter().filter(|(_, files)| files.len() > 2);
        Self {
            exported: names.values().sum(),
            shared: names.values().filter(|count| **count > 1).sum(),
            one_word: names.iter().filter(|(name, _)| is_one_word(name)).map(|(_, count)| count).sum(),
            repeated: most_first(repeated.collect()),
            spread: most_first(
                spread.map(|((krate, name), files)| (files.len(), format!("{krate}::{name}"))).collect(),
            ),
        }
    }

    /// Shared names in a thousand.
    pub(crate) fn shared_permille(&self) -> usize {
        permille(self.shared, self.exported)
    }

    pub(crate) fn print(&self) {
        println!("type names: {} exported", self.exported);
        println!("  {:>5.1} % share their name with another type", percent(self.shared, self.exported));
        println!("  {:>5.1} % are one word", percent(self.one_word, self.exported));
        print_rows("used most", &self.repeated);
        print_rows("methods in most files", &self.spread);
    }
}

fn print_rows(title: &str, rows: &[(usize, String)]) {
    let rows: Vec<String> = rows.iter().take(8).map(|(count, name)| format!("{name} ×{count}")).collect();
    println!("  {title}: {}", if rows.is_empty() { "none".to_owned() } else { rows.join(", ") });
}

fn permille(part: usize, whole: usize) -> usize {
    (part * 1000).div_ceil(whole.max(1))
}

fn percent(part: usize, whole: usize) -> f64 {
    100.0 * part as f64 / whole.max(1) as f64
}

/// The name of the type that this line declares for other files.
fn exported_type(line: &str) -> Option<&str> {
    let rest = line.trim_start().strip_prefix("pub")?;
    let rest = match rest.strip_prefix('(') {
        Some(scoped) => scoped.split_once(')')?.1,
        None => rest,
    };
    let (keyword, rest) = rest.trim_start().split_once(' ')?;
    // A macro declares a type under a name that its caller gives.
    KEYWORDS.contains(&keyword).then(|| first_word(rest)).filter(|name| !name.is_empty())
}

/// The type whose inherent `impl` block this line opens.
fn inherent_impl(line: &str) -> Option<&str> {
    let rest = line.strip_prefix("impl")?;
    let rest = match rest.strip_prefix('<') {
        Some(generic) => generic.split_once("> ")?.1,
        None => rest.strip_prefix(' ')?,
    };
    (!rest.contains(" for ")).then(|| first_word(rest)).filter(|name| !name.is_empty())
}

fn first_word(text: &str) -> &str {
    text.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or_default()
}

/// A single capital letter, at the start: `Place`, not `StorePlace`.
fn is_one_word(name: &str) -> bool {
    name.chars().filter(|c| c.is_uppercase()).count() <= 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exported_types_are_found_whatever_their_scope() {
        assert_eq!(exported_type("pub struct Place {"), Some("Place"));
        assert_eq!(exported_type("    pub(crate) enum Mode<'a> {"), Some("Mode"));
        assert_eq!(exported_type("pub(in crate::round) trait Watch: Send {"), Some("Watch"));
        assert_eq!(exported_type("struct Private;"), None);
        assert_eq!(exported_type("pub fn typed() {"), None);
        assert_eq!(exported_type("        pub struct $name { $(pub $field: $type,)* }"), None);
    }

    #[test]
    fn only_inherent_methods_spread_a_type() {
        assert_eq!(inherent_impl("impl Run<'_> {"), Some("Run"));
        assert_eq!(inherent_impl("impl<'a> Run<'a> {"), Some("Run"));
        assert_eq!(inherent_impl("impl fmt::Display for Run {"), None);
    }

    #[test]
    fn names_are_counted_by_declaration() {
        let text =
            "pub struct Place;\npub(crate) struct StoreRow;\n#[cfg(test)]\nmod tests {\n    pub struct Place;\n}\n";
        let sources =
            [SourceFile::new("crates/a/src/x.rs", text), SourceFile::new("crates/b/src/y.rs", "pub enum Place {}\n")];
        let meter = NameMeter::read(&sources);
        assert_eq!((meter.exported, meter.shared, meter.one_word, meter.shared_permille()), (3, 2, 2, 667));
        assert_eq!(meter.repeated, [(2, "Place".to_owned())]);
    }
}
