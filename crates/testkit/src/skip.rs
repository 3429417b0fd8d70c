//! Visible skips: a test that this host cannot run records that where the test command counts it.

use std::io::Write;

/// Names the file to which skips are appended; `cargo xtask test` sets it, prints the reasons and limits their number.
const SKIPS_VARIABLE: &str = "LOOPWRIGHT_TEST_SKIPS";

/// Records that the calling test cannot run on this host. The test returns right after.
pub fn skip(reason: &str) {
    let thread = std::thread::current();
    let line = format!("SKIPPED: {}: {reason}\n", thread.name().unwrap_or("unnamed test"));
    eprint!("{line}");
    if let Some(file) = std::env::var_os(SKIPS_VARIABLE) {
        append(std::path::Path::new(&file), &line);
    }
}

/// One write per line: tests run concurrently, and partial writes would interleave.
fn append(file: &std::path::Path, line: &str) {
    let opened = std::fs::OpenOptions::new().create(true).append(true).open(file);
    opened
        .and_then(|mut file| file.write_all(line.as_bytes()))
        .expect("the file for skips can be written, else the skip would go unseen");
}

#[cfg(test)]
mod tests {
    use super::append;

    #[test]
    fn skips_are_appended_line_by_line() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let file = folder.path().join("skips");
        append(&file, "SKIPPED: one: no kernel support\n");
        append(&file, "SKIPPED: two: no kernel support\n");
        let text = std::fs::read_to_string(&file).expect("the skips were written");
        assert_eq!(text.lines().count(), 2);
    }
}
