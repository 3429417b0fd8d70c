//! HTML from typed parts. Text and attribute values are escaped here and nowhere else, so no page can forget it. Foreign
//! text keeps no control character and no character that changes the direction of text.

use crate::output::safe;

/// The most characters of one line of foreign text; the rest is left out, and the page says so.
const LINE_MAX: usize = 2000;

/// A piece of HTML.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Markup(String);

impl Markup {
    /// Text.
    pub(crate) fn text(text: &str) -> Self {
        Self(escape(&clean(text)))
    }

    /// A piece that is part of the program.
    pub(crate) fn fixed(html: &'static str) -> Self {
        Self(html.to_owned())
    }

    /// Adds a piece.
    #[must_use]
    pub(crate) fn and(mut self, more: Self) -> Self {
        self.0.push_str(&more.0);
        self
    }

    /// The HTML.
    pub(crate) fn into_text(self) -> String {
        self.0
    }

    /// Whether it is empty.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl FromIterator<Markup> for Markup {
    fn from_iter<I: IntoIterator<Item = Markup>>(pieces: I) -> Self {
        Self(pieces.into_iter().map(|piece| piece.0).collect())
    }
}

impl From<&str> for Markup {
    fn from(text: &str) -> Self {
        Self::text(text)
    }
}

impl From<String> for Markup {
    fn from(text: String) -> Self {
        Self::text(&text)
    }
}

/// Foreign text without characters that act: lines and tabs stay, and very long lines are cut.
fn clean(text: &str) -> String {
    let line = |line: &str| {
        let mut kept: String = line.split('\t').map(safe).collect::<Vec<_>>().join("\t");
        if let Some((end, _)) = kept.char_indices().nth(LINE_MAX) {
            kept.truncate(end);
            kept.push_str(" … (the line is longer)");
        }
        kept
    };
    text.split('\n').map(line).collect::<Vec<_>>().join("\n")
}

fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
    out
}

/// An element. The tag and the names of attributes are part of the program; the values may be foreign.
pub(crate) fn element(tag: &'static str, attributes: &[(&'static str, &str)], content: impl Into<Markup>) -> Markup {
    Markup(format!("{}{}</{tag}>", open(tag, attributes), content.into().0))
}

/// An element without content.
pub(crate) fn void(tag: &'static str, attributes: &[(&'static str, &str)]) -> Markup {
    Markup(open(tag, attributes))
}

fn open(tag: &'static str, attributes: &[(&'static str, &str)]) -> String {
    let mut out = format!("<{tag}");
    for (name, value) in attributes {
        out.push_str(&format!(" {name}=\"{}\"", escape(&clean(value))));
    }
    out.push('>');
    out
}

/// A link to a page of this server. `path` comes from [`path_with`].
pub(crate) fn link(path: &str, content: impl Into<Markup>) -> Markup {
    element("a", &[("href", path)], content)
}

/// A link to another place, or only its text if it is not an ordinary web address.
pub(crate) fn outside_link(address: &str) -> Markup {
    let is_web = address.starts_with("https://") || address.starts_with("http://");
    if !is_web || address.chars().any(|c| c.is_control() || c.is_whitespace()) {
        return Markup::text(address);
    }
    element("a", &[("href", address), ("rel", "noreferrer noopener"), ("target", "_blank")], address)
}

/// A path of this server: fixed words, and foreign segments that are encoded.
pub(crate) fn path_with(parts: &[&str]) -> String {
    parts.iter().map(|part| format!("/{}", encode(part))).collect()
}

/// Percent-encodes everything except plain characters.
pub(crate) fn encode(text: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte);
    let byte = |byte: u8| if is_plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    text.bytes().map(byte).collect()
}

/// The inverse of [`encode`]; `None` for text that is not valid.
pub(crate) fn decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        rest = after;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let digits = std::str::from_utf8(after.get(..2)?).ok()?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        rest = after.get(2..)?;
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_text_cannot_become_markup() {
        let hostile = "<script>alert(1)</script>\x1b[31m\u{202e}\" onload='x'";
        let shown = element("p", &[("title", hostile)], hostile).into_text();
        assert!(!shown.contains("<script") && !shown.contains('\x1b') && !shown.contains('\u{202e}'), "{shown}");
        assert_eq!(shown.matches('"').count(), 2, "{shown}");
    }

    #[test]
    fn only_web_addresses_become_links() {
        for address in ["javascript:alert(1)", "data:text/html,x", " https://x", "https://x y", "/pulls/1"] {
            assert!(!outside_link(address).into_text().contains("<a "), "{address}");
        }
        assert!(outside_link("https://forge.example/pull/1").into_text().starts_with("<a "));
    }

    #[test]
    fn segments_survive_encoding() {
        for text in ["plain", "a/b?c=d&e", "grün ✓", "%2F", ""] {
            assert_eq!(decode(&encode(text)).as_deref(), Some(text));
        }
        assert!(decode("%zz").is_none() && decode("%1").is_none() && decode("%ff").is_none());
    }

    #[test]
    fn a_line_of_a_megabyte_is_cut() {
        let shown = Markup::text(&"x".repeat(1 << 20)).into_text();
        assert!(shown.len() < 3000 && shown.ends_with("(the line is longer)"));
    }
}
