//! Makes the output of other programs safe to show: truncated, lossy UTF-8, control characters escaped. The result
//! cannot move a cursor, set a clipboard or use carriage returns to pass for a line of Loopwright.

use std::fmt::Write;

/// The size limit of an excerpt before escaping.
pub const EXCERPT_BYTES_MAX: usize = 4096;

/// The length limit of one fact, in characters.
const LINE_CHARS_MAX: usize = 300;

/// The last part of an output, because programs report errors at the end.
#[must_use]
pub fn output_tail(output: &[u8]) -> String {
    let cut = output.len().saturating_sub(EXCERPT_BYTES_MAX);
    let text = String::from_utf8_lossy(&output[cut..]);
    let escaped = escape(text.trim_end());
    if cut == 0 { escaped } else { format!("[{cut} bytes left out]\n{escaped}") }
}

/// One line of at most 300 characters.
#[must_use]
pub fn one_line(text: &str) -> String {
    let first = text.lines().next().unwrap_or_default();
    let mut short: String = first.chars().take(LINE_CHARS_MAX).collect();
    if short.len() < first.len() {
        short.push('…');
    }
    escape(&short)
}

/// Escapes every character that acts on a terminal or is invisible; line feeds and tabs stay.
#[must_use]
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.replace("\r\n", "\n").chars() {
        match c {
            '\n' | '\t' => out.push(c),
            c if c.is_control() || is_invisible(c) => {
                let _ = write!(out, "\\u{{{:x}}}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out
}

/// Zero-width, direction-changing and tag characters.
fn is_invisible(c: char) -> bool {
    matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_carriage_returns_and_hidden_text_show() {
        assert_eq!(escape("a\u{1b}[2Jb\r\nc\rd\u{202e}"), "a\\u{1b}[2Jb\nc\\u{d}d\\u{202e}");
        assert_eq!(escape("tab\tstays"), "tab\tstays");
    }

    #[test]
    fn tail_is_kept_and_the_cut_is_reported() {
        let long = [b"x".repeat(EXCERPT_BYTES_MAX), b"the end\xff".to_vec()].concat();
        let shown = output_tail(&long);
        assert!(shown.starts_with("[8 bytes left out]\n"), "{shown}");
        assert!(shown.ends_with("the end\u{fffd}"), "{shown}");
    }

    #[test]
    fn a_fact_is_one_short_line() {
        assert_eq!(one_line("one\ntwo"), "one");
        assert_eq!(one_line(&"é".repeat(400)).chars().count(), LINE_CHARS_MAX + 1);
    }
}
