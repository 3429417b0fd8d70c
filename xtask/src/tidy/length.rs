//! The length of functions and files, and the ratchet that keeps functions from growing beyond a screen.

use super::LengthRatchet;
use super::source::SourceFile;
use std::collections::BTreeMap;
use std::path::Path;

/// A screen.
const LINES_MAX: usize = 60;

/// The functions that are longer today, as `path::name lines`.
const LIST: &str = "xtask/longest.txt";

/// The words with which a long function gives its reason.
const REASON: &str = "Long because";

/// One function with a body.
#[derive(Debug, PartialEq, Eq)]
struct Function {
    name: String,
    /// Index from 0 of the line with `fn`.
    first: usize,
    lines: usize,
}

pub(crate) fn print_longest(sources: &[SourceFile]) {
    let functions = sources.iter().flat_map(|source| {
        let named = move |one: Function| (one.lines, format!("{}:{} {}", source.path, one.first + 1, one.name));
        functions(&source.code).into_iter().map(named)
    });
    print_ten("longest functions", functions.collect());
    print_ten(
        "longest files",
        sources.iter().map(|source| (source.text.lines().count(), source.path.clone())).collect(),
    );
}

fn print_ten(title: &str, mut rows: Vec<(usize, String)>) {
    rows.sort_by(|one, other| other.cmp(one));
    println!("{title}:");
    for (lines, place) in rows.iter().take(10) {
        println!("  {lines:>5} {place}");
    }
}

pub(crate) fn check(root: &Path, sources: &[SourceFile], ratchet: LengthRatchet) -> Result<Vec<String>, String> {
    let mut findings = Vec::new();
    let mut today = BTreeMap::new();
    for source in sources {
        for function in functions(&source.code).into_iter().filter(|one| one.lines > LINES_MAX) {
            let key = format!("{}::{}", source.path, function.name);
            if !gives_reason(&source.text, function.first) {
                findings.push(format!("{key}: {} lines, and no comment `{REASON} …` at its top", function.lines));
            }
            let longest: &mut usize = today.entry(key).or_default();
            *longest = function.lines.max(*longest);
        }
    }
    let file = root.join(LIST);
    if ratchet == LengthRatchet::Bless {
        let text: String = today.iter().map(|(key, lines)| format!("{key} {lines}\n")).collect();
        std::fs::write(file, text).map_err(|error| format!("write `{LIST}`: {error}"))?;
        return Ok(findings);
    }
    let list = std::fs::read_to_string(file).map_err(|error| format!("read `{LIST}`: {error}"))?;
    findings.extend(compare(&parse_list(&list), &today));
    Ok(findings)
}

fn parse_list(text: &str) -> BTreeMap<String, usize> {
    let rows = text.lines().filter_map(|line| line.rsplit_once(' '));
    rows.filter_map(|(key, lines)| Some((key.to_owned(), lines.parse().ok()?))).collect()
}

fn compare(known: &BTreeMap<String, usize>, today: &BTreeMap<String, usize>) -> Vec<String> {
    let mut findings = Vec::new();
    for (key, lines) in today {
        match known.get(key) {
            None => findings.push(format!("{key}: {lines} lines, a function fits on a screen of {LINES_MAX}")),
            Some(before) if before < lines => findings.push(format!("{key}: grew from {before} to {lines} lines")),
            Some(_) => {}
        }
    }
    let gone = known.keys().filter(|key| !today.contains_key(*key));
    findings
        .extend(gone.map(|key| format!("{key}: no longer long, so `cargo xtask tidy --bless` takes it off {LIST}")));
    findings
}

/// Searches the comments above the function and the first lines of its body.
fn gives_reason(text: &str, first: usize) -> bool {
    let lines: Vec<&str> = text.lines().collect();
    let is_above = |line: &&&str| line.trim_start().starts_with("//") || line.trim_start().starts_with('#');
    let above = lines[..first].iter().rev().take_while(is_above);
    above.chain(lines[first..].iter().take(12)).any(|line| line.contains("//") && line.contains(REASON))
}

/// Every function with a body, in code without comments and literals.
fn functions(code: &str) -> Vec<Function> {
    let starts =
        code.match_indices("fn ").filter(|(at, _)| !code[..*at].ends_with(|c: char| c.is_alphanumeric() || c == '_'));
    starts.filter_map(|(at, _)| function(code, at)).collect()
}

fn function(code: &str, at: usize) -> Option<Function> {
    let rest = &code[at + 3..];
    let name: String = rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
    let body = body_start(rest)?;
    let end = body + body_length(&rest[body..])?;
    let lines = rest[..end].lines().count();
    (!name.is_empty()).then(|| Function { name, first: code[..at].matches('\n').count(), lines })
}

/// The start of the body, or `None` for a declaration that ends in `;` (a semicolon inside brackets, as in `[u8; 4]`,
/// does not count).
fn body_start(rest: &str) -> Option<usize> {
    let mut depth = 0_i32;
    for (at, c) in rest.char_indices() {
        match c {
            '(' | '[' => depth += 1,
            ')' | ']' => depth -= 1,
            '{' if depth == 0 => return Some(at),
            ';' if depth == 0 => return None,
            _ => {}
        }
    }
    None
}

fn body_length(body: &str) -> Option<usize> {
    let mut depth = 0_i32;
    for (at, c) in body.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => continue,
        }
        if depth == 0 {
            return Some(at + 1);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(rows: &[(&str, usize)]) -> BTreeMap<String, usize> {
        rows.iter().map(|(key, lines)| ((*key).to_owned(), *lines)).collect()
    }

    #[test]
    fn functions_are_found_with_their_lines() {
        let code = "trait T {\n    fn declared(&self) -> [u8; 4];\n}\npub async fn one<T>(x: fn(u8)) -> T\nwhere\n    T: A,\n{\n    if x { y }\n}\nfn two() {}\n";
        let found: Vec<(String, usize, usize)> =
            functions(code).into_iter().map(|one| (one.name, one.first, one.lines)).collect();
        assert_eq!(found, [("one".to_owned(), 3, 6), ("two".to_owned(), 9, 1)]);
    }

    #[test]
    fn a_list_is_read_back() {
        assert_eq!(parse_list("a.rs::f 70\nb.rs::g 61\n"), map(&[("a.rs::f", 70), ("b.rs::g", 61)]));
    }

    #[test]
    fn a_long_function_may_shrink_and_not_grow() {
        let known = map(&[("kept", 70), ("grown", 70), ("shorter", 70), ("gone", 70)]);
        let today = map(&[("kept", 70), ("grown", 71), ("shorter", 65), ("new", 61)]);
        let findings = compare(&known, &today);
        let names: Vec<&str> = findings.iter().filter_map(|text| text.split(':').next()).collect();
        assert_eq!(names, ["grown", "new", "gone"]);
    }

    #[test]
    fn a_reason_is_found_above_and_inside() {
        assert!(gives_reason("/// Long because it is.\n#[x]\nfn f() {\n}\n", 2));
        assert!(gives_reason("fn f() {\n    // Long because it is.\n}\n", 0));
        assert!(!gives_reason("// Long because it is.\n\nfn f() {\n}\n", 2));
        assert!(!gives_reason("fn f() {\n    let x = \"Long because\";\n}\n", 0));
    }
}
