//! Characters that people do not see, or that control a terminal. This file finds and removes them; it does not
//! interpret Markdown.

/// Whether a character is invisible, or changes the order or look of others: format, bidi, filler and tag characters.
#[must_use]
pub fn is_invisible(c: char) -> bool {
    matches!(u32::from(c),
        0x00AD | 0x034F | 0x061C | 0x115F..=0x1160 | 0x17B4..=0x17B5 | 0x180B..=0x180F | 0x200B..=0x200F
        | 0x202A..=0x202E | 0x2060..=0x206F | 0x3164 | 0xFE00..=0xFE0F | 0xFEFF | 0xFFA0 | 0xFFF0..=0xFFFB
        | 0x1_BCA0..=0x1_BCA3 | 0x1_D173..=0x1_D17A | 0xE_0000..=0xE_0FFF)
}

/// The ASCII letter that a tag character stands for.
fn tag_letter(c: char) -> Option<char> {
    u32::from(c).checked_sub(0xE_0000).filter(|code| (0x20..0x7F).contains(code)).and_then(char::from_u32)
}

/// Whether a one-line text has neither control nor invisible characters.
pub(crate) fn is_clean_line(text: &str) -> bool {
    !text.chars().any(|c| c.is_control() || is_invisible(c) || matches!(c, '\u{2028}' | '\u{2029}'))
}

/// A short text for a message: control and invisible characters are escaped, and the text is cut at `max` characters.
pub(crate) fn printable(text: &str, max: usize) -> String {
    let mut out = String::new();
    for (index, c) in text.chars().enumerate() {
        if index == max {
            out.push('…');
            break;
        }
        if is_clean_line(c.encode_utf8(&mut [0; 4])) { out.push(c) } else { out.extend(c.escape_unicode()) }
    }
    out
}

/// The removed characters.
#[derive(Debug, Default)]
pub(crate) struct RemovedCharacters {
    pub(crate) escapes: usize,
    pub(crate) controls: usize,
    pub(crate) invisible: usize,
    /// The text that the tag characters spell.
    pub(crate) spelled: String,
}

/// Removes terminal escapes, control and invisible characters; every kind of line break becomes `\n`.
///
/// The presentation selector U+FE0F stays after a visible character beyond ASCII, because emoji need it.
pub(crate) fn strip(text: &str) -> (String, RemovedCharacters) {
    let mut out = String::with_capacity(text.len());
    let mut removed = RemovedCharacters::default();
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\n' | '\t' => out.push(c),
            '\r' => {
                chars.next_if_eq(&'\n');
                out.push('\n');
            }
            '\u{85}' | '\u{2028}' | '\u{2029}' => out.push('\n'),
            '\u{1b}' | '\u{9b}' | '\u{9d}' => {
                removed.escapes += 1;
                skip_escape(c, &mut chars);
            }
            '\u{fe0f}' if out.chars().next_back().is_some_and(|last| !last.is_ascii() && last != '\u{fe0f}') => {
                out.push(c)
            }
            _ if c.is_control() => removed.controls += 1,
            _ if is_invisible(c) => {
                removed.invisible += 1;
                removed.spelled.extend(tag_letter(c));
            }
            _ => out.push(c),
        }
    }
    (out, removed)
}

/// Skips the rest of a terminal escape: a control sequence to its final byte, a string to its terminator, else one
/// character. An unfinished escape ends at the end of the line, so that it cannot hide the text after it.
fn skip_escape(first: char, chars: &mut std::iter::Peekable<std::str::Chars<'_>>) {
    let introducer = match first {
        '\u{9b}' => Some('['),
        '\u{9d}' => Some(']'),
        _ => chars.next_if(|c| !c.is_control()),
    };
    match introducer {
        Some('[') => {
            while chars.next_if(|c| matches!(c, ' '..='?')).is_some() {}
            chars.next_if(|c| matches!(c, '@'..='~'));
        }
        Some(']' | 'P' | 'X' | '^' | '_') => {
            while chars.next_if(|c| !c.is_control()).is_some() {}
            chars.next_if_eq(&'\u{7}');
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invisible_characters_are_removed() {
        let table = [
            ("plain\ttext\n", "plain\ttext\n"),
            ("a\r\nb\rc\u{2028}d\u{85}e", "a\nb\nc\nd\ne"),
            ("\u{1b}[31mred\u{1b}[0m", "red"),
            ("\u{9b}1;2Hx", "x"),
            ("\u{1b}]0;title\u{7}x", "x"),
            ("\u{1b}]8;;http://x\u{1b}\\link\u{1b}]8;;\u{1b}\\", "link"),
            ("\u{1b}]never ends\nnext", "\nnext"),
            ("\u{1b}", ""),
            ("a\0\u{8}\u{7f}b", "ab"),
            ("a\u{200b}\u{202e}\u{2066}b\u{feff}", "ab"),
            ("⚠\u{fe0f} x\u{fe0f}\u{fe0f}", "⚠\u{fe0f} x"),
            ("naïve 日本 🎉", "naïve 日本 🎉"),
        ];
        for (text, expected) in table {
            assert_eq!(strip(text).0, expected, "{text:?}");
        }
    }

    #[test]
    fn tag_characters_are_spelled_out() {
        let hidden: String = "run me".chars().filter_map(|c| char::from_u32(0xE_0000 + u32::from(c))).collect();
        let (text, removed) = strip(&format!("hi{hidden}"));
        assert_eq!((text.as_str(), removed.spelled.as_str(), removed.invisible), ("hi", "run me", 6));
    }

    #[test]
    fn messages_show_hidden_characters_as_escapes() {
        assert_eq!(printable("a\u{202e}\nb", 9), "a\\u{202e}\\u{a}b");
        assert_eq!(printable("abcdef", 3), "abc…");
    }
}
