//! The markers gate: conflict markers, to-dos and stubs in added lines. It ignores lines that base already had.

use super::GateResult;
use super::added_lines::AddedLines;
use crate::spec::{LeftoverMarker, MarkersGate};
use regex::Regex;
use std::sync::LazyLock;

/// A line longer than this is generated or binary; the gate reads only its head.
const LINE_BYTES_MAX: usize = 4096;

static TODO: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"\b(?:TODO|FIXME|XXX)\b").expect("the pattern is a constant"));

/// Stubs in common languages, one alternative each.
static STUB: LazyLock<Regex> = LazyLock::new(|| {
    let alternatives = [
        r"\b(?:todo|unimplemented)!\s*[(\[{]",
        r"\braise\s+NotImplementedError\b",
        r#"(?i)\bthrow\s+(?:new\s+)?\w*(?:Error|Exception)\s*\(\s*['"`](?:not (?:yet )?implemented|todo|unimplemented)"#,
        r#"(?i)\bpanic!?\s*\(\s*['"`](?:not (?:yet )?implemented|todo|unimplemented)"#,
        r"(?i)\b(?:pass|return|\.\.\.)\s*(?:None|null|nil|0|;)*\s*(?:#|//)\s*(?:stub|placeholder|implement)",
        r"(?i)(?:#|//|/\*|<!--)\s*(?:stub(?:bed)?\b|placeholder\b|(?:rest|remainder) of (?:the )?(?:code|implementation|file)|implement(?:ation)? (?:me|here|later))",
        r"\bNotImplementedException\s*\(",
        r"\bUnsupportedOperationException\s*\(\s*\x22(?i:not (?:yet )?implemented|todo)",
        r"\bfatalError\s*\(\s*\x22(?i:not (?:yet )?implemented|todo)",
        r"(?i)^\s*(?://|#)?\s*\.\.\.\s*(?:existing|rest of|remaining|previous) (?:code|implementation)",
    ];
    Regex::new(&alternatives.join("|")).expect("the patterns are constants")
});

/// Judges the added lines of every changed file.
#[must_use]
pub fn judge(gate: &MarkersGate, added: &[AddedLines]) -> GateResult {
    GateResult::from_findings(&gate.name, "markers", &findings(&gate.markers, added))
}

/// All markers as `path:line: kind`, in order.
#[must_use]
pub fn findings(markers: &[LeftoverMarker], added: &[AddedLines]) -> Vec<String> {
    let mut found = Vec::new();
    for file in added {
        for line in &file.lines {
            let text = head(&line.text);
            let kinds = markers.iter().filter(|marker| matches(**marker, text));
            found.extend(kinds.map(|marker| format!("{}:{}: {}", file.path, line.number, word(*marker))));
        }
    }
    found
}

fn head(text: &str) -> &str {
    let mut end = text.len().min(LINE_BYTES_MAX);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

fn matches(marker: LeftoverMarker, line: &str) -> bool {
    match marker {
        LeftoverMarker::Conflict => is_conflict(line),
        LeftoverMarker::Todo => TODO.is_match(line),
        LeftoverMarker::Stub => STUB.is_match(line),
    }
}

/// Seven of the same character at the start of the line, as git writes them. A lone `=======` also underlines headings,
/// so it does not count: the two other markers always accompany it.
fn is_conflict(line: &str) -> bool {
    ["<<<<<<<", ">>>>>>>", "|||||||"]
        .iter()
        .any(|marker| line.strip_prefix(marker).is_some_and(|rest| rest.is_empty() || rest.starts_with(' ')))
}

fn word(marker: LeftoverMarker) -> &'static str {
    match marker {
        LeftoverMarker::Conflict => "conflict marker",
        LeftoverMarker::Todo => "to-do note",
        LeftoverMarker::Stub => "stub",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(line: &str) -> Vec<String> {
        let added = AddedLines::between("f", b"", line.as_bytes());
        findings(&[LeftoverMarker::Conflict, LeftoverMarker::Todo, LeftoverMarker::Stub], &[added])
    }

    #[test]
    fn markers_are_found() {
        for line in [
            "<<<<<<< HEAD",
            ">>>>>>> theirs",
            "  // TODO: later",
            "# FIXME",
            "    todo!()",
            "unimplemented!(\"x\")",
            "    raise NotImplementedError",
            "throw new Error('Not implemented yet')",
            "    pass  # stub",
            "// placeholder",
            "// ... existing code ...",
            "panic(\"not implemented\")",
            "throw new NotImplementedException();",
        ] {
            assert_eq!(found(line).len(), 1, "{line}");
        }
    }

    #[test]
    fn ordinary_lines_are_not_reported() {
        for line in [
            "=======",
            "let todos = list.todo();",
            "<<<<<<<<< not git's",
            "a stub of a ticket",
            "pass",
            "method_todo!",
            "mastodon",
            "raise ValueError('implemented')",
            "placeholder=\"your name\"",
        ] {
            assert_eq!(found(line), Vec::<String>::new(), "{line}");
        }
    }

    #[test]
    fn only_added_lines_count() {
        let added = AddedLines::between("a.rs", b"// TODO old\n", b"// TODO old\nfn f() {}\n// TODO new\n");
        assert_eq!(findings(&[LeftoverMarker::Todo], &[added]), ["a.rs:3: to-do note"]);
    }
}
