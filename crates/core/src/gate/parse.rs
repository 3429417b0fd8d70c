//! The parse gate: changed JSON, YAML and TOML files are well-formed. It does not check their meaning.

use super::GateResult;
use crate::spec::ParseGate;

/// The gate does not read a file larger than this; that is a finding, not a pass.
const BYTES_MAX: usize = 16 << 20;

/// The position and the reason of a parse error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileParseError {
    /// Line from 1; 0 when unknown.
    pub line: usize,
    /// Column from 1; 0 when unknown.
    pub column: usize,
    /// The parser's message.
    pub text: String,
}

impl FileParseError {
    fn at(line: usize, column: usize, text: impl std::fmt::Display) -> Self {
        Self { line, column, text: text.to_string().lines().next().unwrap_or_default().to_owned() }
    }
}

/// A format, from the file's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DataFormat {
    /// `.json`, and files of the same grammar.
    Json,
    /// One JSON document per line.
    JsonLines,
    /// `.yaml` and `.yml`.
    Yaml,
    /// `.toml`, and lock files written in it.
    Toml,
}

impl DataFormat {
    /// The format of a path, or `None` for files that this gate cannot read.
    #[must_use]
    pub fn from_path(path: &str) -> Option<Self> {
        let name = path.rsplit('/').next().unwrap_or(path).to_ascii_lowercase();
        match name.rsplit_once('.').map(|(_, extension)| extension) {
            _ if matches!(name.as_str(), "cargo.lock" | "poetry.lock" | "uv.lock") => Some(Self::Toml),
            Some("json" | "geojson" | "webmanifest" | "ipynb") => Some(Self::Json),
            Some("jsonl" | "ndjson") => Some(Self::JsonLines),
            Some("yaml" | "yml") => Some(Self::Yaml),
            Some("toml") => Some(Self::Toml),
            _ => None,
        }
    }
}

/// Judges the changed files that the caller matched against the gate's globs: path and sealed bytes.
#[must_use]
pub fn judge<'a>(gate: &ParseGate, files: impl Iterator<Item = (&'a str, &'a [u8])>) -> GateResult {
    let mut read = 0_usize;
    let mut findings = Vec::new();
    for (path, bytes) in files {
        let Some(format) = DataFormat::from_path(path) else { continue };
        read += 1;
        if let Err(error) = check(format, bytes) {
            findings.push(format!("{path}:{}:{}: {}", error.line, error.column, error.text));
        }
    }
    let mut result = GateResult::from_findings(&gate.name, "parse", &findings);
    result.evidence.push(format!("{read} files read"));
    result
}

/// Parses one file.
///
/// # Errors
/// The position of the first error.
pub fn check(format: DataFormat, bytes: &[u8]) -> Result<(), FileParseError> {
    if bytes.len() > BYTES_MAX {
        return Err(FileParseError::at(0, 0, format!("larger than {BYTES_MAX} bytes")));
    }
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let (line, column) = place(bytes, error.valid_up_to());
        FileParseError::at(line, column, "not UTF-8")
    })?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    match format {
        DataFormat::Json => json(text),
        DataFormat::JsonLines => json_lines(text),
        DataFormat::Yaml => yaml(text),
        DataFormat::Toml => toml(text),
    }
}

fn json(text: &str) -> Result<(), FileParseError> {
    serde_json::from_str::<serde::de::IgnoredAny>(text)
        .map(drop)
        .map_err(|error| FileParseError::at(error.line(), error.column(), &error))
}

fn json_lines(text: &str) -> Result<(), FileParseError> {
    for (at, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        json(line).map_err(|error| FileParseError { line: at + 1, ..error })?;
    }
    Ok(())
}

fn yaml(text: &str) -> Result<(), FileParseError> {
    for event in saphyr_parser::Parser::new_from_str(text) {
        event.map_err(|error| {
            let mark = error.marker();
            FileParseError::at(mark.line(), mark.col() + 1, error.info())
        })?;
    }
    Ok(())
}

fn toml(text: &str) -> Result<(), FileParseError> {
    toml::from_str::<toml::Table>(text).map(drop).map_err(|error| {
        let (line, column) = error.span().map_or((0, 0), |span| place(text.as_bytes(), span.start));
        FileParseError::at(line, column, error.message())
    })
}

fn place(bytes: &[u8], at: usize) -> (usize, usize) {
    let head = &bytes[..at.min(bytes.len())];
    let line = head.iter().filter(|byte| **byte == b'\n').count() + 1;
    let column = head.iter().rev().take_while(|byte| **byte != b'\n').count() + 1;
    (line, column)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn good_files_pass() {
        for (path, text) in [
            ("a.json", "{\"a\": [1, 2]}\n"),
            ("a.jsonl", "{}\n\n[1]\n"),
            ("a.yaml", "a: 1\nb:\n  - x\n"),
            ("a.yml", "--- 1\n--- 2\n"),
            ("a.toml", "[a]\nb = 1\n"),
            ("Cargo.lock", "version = 4\n"),
        ] {
            let format = DataFormat::from_path(path).expect("a known format");
            assert_eq!(check(format, text.as_bytes()), Ok(()), "{path}");
        }
        assert_eq!(DataFormat::from_path("src/main.rs"), None);
    }

    #[test]
    fn first_error_has_a_position() {
        for (path, text, line) in [
            ("a.json", "{\n  \"a\": ,\n}", 2),
            ("a.jsonl", "{}\n{\n", 2),
            ("a.yaml", "a: 1\nb: [1, 2\nc: 3\n", 3),
            ("a.toml", "a = 1\nb = = 2\n", 2),
            ("b.json", "{\"a\": 1}\n<<<<<<< HEAD\n", 2),
        ] {
            let format = DataFormat::from_path(path).expect("a known format");
            let error = check(format, text.as_bytes()).expect_err(path);
            assert_eq!(error.line, line, "{path}: {error:?}");
        }
        assert_eq!(check(DataFormat::Json, b"\"\xff\"").expect_err("not text").text, "not UTF-8");
    }

    #[test]
    fn deep_nesting_is_an_error_and_does_not_crash() {
        let deep = "[".repeat(100_000);
        assert!(check(DataFormat::Json, deep.as_bytes()).is_err());
        assert!(check(DataFormat::Toml, format!("a = {deep}").as_bytes()).is_err());
        assert!(check(DataFormat::Yaml, deep.as_bytes()).is_err());
    }
}
