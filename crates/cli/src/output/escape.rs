//! Makes foreign text harmless on a terminal: characters that would act on the screen are escaped.

/// One line of foreign text: every control character and every invisible one is escaped.
pub(crate) fn safe(text: &str) -> String {
    escape(text, |_| false)
}

/// Several lines of foreign text: line ends stay.
pub(crate) fn safe_lines(text: &str) -> String {
    escape(text, |c| c == '\n')
}

fn escape(text: &str, keep: impl Fn(char) -> bool) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            c if keep(c) => out.push(c),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push(' '),
            c if c.is_control() || is_invisible(c) => out.extend(c.escape_unicode()),
            c => out.push(c),
        }
    }
    out
}

/// Characters that print nothing or change the direction of the following text.
fn is_invisible(c: char) -> bool {
    matches!(c, '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_acts_on_a_terminal_survives() {
        let hostile = "\x1b[2J\x1b]0;t\x07a\rb\u{9b}31m\u{202e}c\u{200b}";
        assert_eq!(safe(hostile), r"\u{1b}[2J\u{1b}]0;t\u{7}a\rb\u{9b}31m\u{202e}c\u{200b}");
        assert_eq!(safe("one\ntwo\tthree"), "one\\ntwo three");
        assert_eq!(safe_lines("one\ntwo\r"), "one\ntwo\\r");
    }

    #[test]
    fn ordinary_text_of_any_language_is_left_alone() {
        for text in ["grün ✓", "日本語", "emoji 🎉"] {
            assert_eq!(safe(text), text);
        }
    }
}
