//! The number of lines of each crate: shipping code and test code.

use super::source::SourceFile;
use std::collections::BTreeMap;

pub(crate) fn print(sources: &[SourceFile]) {
    let mut rows: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    for source in sources {
        let row = rows.entry(source.crate_name()).or_default();
        let (code, test) = lines(source);
        *row = (row.0 + code, row.1 + test);
    }
    println!("lines:      ships    tests");
    for (name, (code, test)) in &rows {
        println!("  {name:<8} {code:>6} {test:>8}");
    }
    let all = rows.values().fold((0, 0), |sum, row| (sum.0 + row.0, sum.1 + row.1));
    println!("  {:<8} {:>6} {:>8}", "all", all.0, all.1);
}

/// Lines outside and inside of tests.
fn lines(source: &SourceFile) -> (usize, usize) {
    let count = source.text.lines().count();
    let first_test = (0..count).find(|index| source.is_test(*index)).unwrap_or(count);
    (first_test, count - first_test)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_beside_the_code_do_not_count_as_shipping() {
        let source = SourceFile::new("crates/a/src/x.rs", "fn a() {}\n#[cfg(test)]\nmod tests {\n}\n");
        assert_eq!(lines(&source), (2, 2));
        assert_eq!(lines(&SourceFile::new("crates/a/tests/x.rs", "fn a() {}\n")), (0, 1));
    }
}
