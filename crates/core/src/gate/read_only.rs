//! Recognises output of a gate whose tests write where a gate may not: the folders of tests are read-only while a gate
//! runs, unless it says `inputs_writable: true`.

/// Whether an output says that something could not be written because its file system is read-only.
#[must_use]
pub fn writes_read_only(output: &str) -> bool {
    output.to_lowercase().contains("read-only file system")
}

#[cfg(test)]
mod tests {
    use super::writes_read_only;

    #[test]
    fn each_ecosystem_names_a_read_only_file_system() {
        let table = [
            ("E       OSError: [Errno 30] Read-only file system: 'tests/x'", true),
            ("Error: EROFS: read-only file system, open 'test/x'", true),
            ("Os { code: 30, kind: ReadOnlyFilesystem, message: \"Read-only file system\" }", true),
            ("open testdata/x: read-only file system", true),
            ("PermissionError: [Errno 13] Permission denied: 'tests/x'", false),
            ("", false),
        ];
        for (output, expected) in table {
            assert_eq!(writes_read_only(output), expected, "{output}");
        }
    }
}
