//! Makes text of others safe to show to a model: visible, bounded, fenced. It does not change anything else.

use std::fmt::Write;

/// The text with every invisible character escaped as `\u{…}`: controls, bidi, zero-width, tags, selectors.
///
/// Newlines and tabs stay; a carriage return before a newline is removed.
#[must_use]
pub fn visible(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        if c == '\r' && chars.peek() == Some(&'\n') {
            continue;
        }
        if is_invisible(c) {
            // Writing to a string cannot fail.
            let _ = write!(shown, "\\u{{{:x}}}", u32::from(c));
        } else {
            shown.push(c);
        }
    }
    shown
}

fn is_invisible(c: char) -> bool {
    match c {
        '\n' | '\t' => false,
        _ if c.is_control() => true,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{3164}'
        | '\u{feff}' | '\u{ffa0}' => true,
        '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' => true,
        '\u{fe00}'..='\u{fe0f}' | '\u{fff0}'..='\u{fffb}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}' => {
            true
        }
        _ => false,
    }
}

/// The longest line that reports the number of missing bytes.
const LEFT_OUT_MAX: usize = 64;

/// At most about `bytes_max` bytes: the beginning and the end, with a line between them that reports the number of
/// missing bytes.
#[must_use]
pub fn clip(text: &str, bytes_max: usize) -> String {
    if text.len() <= bytes_max {
        return text.to_owned();
    }
    let head = text.floor_char_boundary(bytes_max / 4 * 3);
    let tail = text.ceil_char_boundary(text.len() - bytes_max / 4);
    format!("{}\n[… {} bytes left out here …]\n{}", &text[..head], tail - head, &text[tail..])
}

/// Visible and bounded. Escapes are longer than the characters they replace, so the limit applies to the shown text.
/// The text is also cut before, so that a long text does not grow many times in between.
fn shown(text: &str, bytes_max: usize) -> String {
    let shown = visible(&clip(text, bytes_max));
    if shown.len() > bytes_max.saturating_add(LEFT_OUT_MAX) { clip(&shown, bytes_max) } else { shown }
}

/// Text of Loopwright and of the loop: visible and bounded, but not fenced.
pub(super) fn plain(text: &str, bytes_max: usize) -> String {
    shown(text.trim(), bytes_max)
}

/// Text of others between two lines with the round's mark, which the text itself cannot contain.
pub(super) fn fenced(mark: &str, name: &str, text: &str, bytes_max: usize) -> String {
    let unmarked = |text: &str| if mark.is_empty() { text.to_owned() } else { text.replace(mark, "[mark]") };
    let name = unmarked(&shown(name, 300).replace('\n', "\\u{a}"));
    let text = unmarked(&shown(text, bytes_max));
    format!("[data {name} {mark}\n{}\n{mark}]\n", text.trim_end_matches('\n'))
}
