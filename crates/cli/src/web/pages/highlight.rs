//! Colours for lines of code: comments, strings, numbers and common keywords, line by line. It knows no grammar: a wrong
//! guess changes a colour and never the text.

use crate::web::markup::{Markup, element};

/// A longer line has no colours.
const LINE_MAX: usize = 600;

/// Words that most readers know as keywords, of all languages together.
const KEYWORDS: &str = " as async await begin bool break case catch class const continue def default defer del do done elif \
    else end enum esac except exec export extends extern false fi final finally fn for from func function go if impl \
    implements import in interface is lambda let local loop match mod module move mut new nil none None not null or and \
    package pass private protected pub public raise readonly ref require return select self Self static struct super \
    switch then this throw trait true True False try type typeof union unless unsafe until use using var virtual void \
    where while with yield ";

/// The beginning of a comment in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CommentStart {
    Hash,
    Slashes,
    Dashes,
}

impl CommentStart {
    /// The one of a file by its name; `None` for text without colours.
    fn of_file(path: &str) -> Option<Self> {
        let name = path.rsplit('/').next().unwrap_or(path);
        let end = name.rsplit_once('.').map_or(name, |(_, end)| end);
        match end {
            "sh" | "bash" | "py" | "rb" | "pl" | "yml" | "yaml" | "toml" | "ini" | "cfg" | "conf" | "r" | "ex"
            | "exs" | "nix" | "tf" | "Makefile" | "Dockerfile" | "justfile" => Some(Self::Hash),
            "rs" | "js" | "mjs" | "cjs" | "ts" | "tsx" | "jsx" | "go" | "java" | "kt" | "c" | "h" | "cc" | "cpp"
            | "hpp" | "cs" | "swift" | "scala" | "php" | "dart" | "zig" | "proto" | "json" => Some(Self::Slashes),
            "sql" | "lua" | "hs" | "elm" | "adb" => Some(Self::Dashes),
            _ => None,
        }
    }

    fn word(self) -> &'static str {
        match self {
            Self::Hash => "#",
            Self::Slashes => "//",
            Self::Dashes => "--",
        }
    }
}

/// A line of a file with colours.
pub(super) fn code_line(path: &str, line: &str) -> Markup {
    match CommentStart::of_file(path) {
        Some(comment) if line.len() <= LINE_MAX => coloured(comment, line),
        _ => Markup::text(line),
    }
}

fn coloured(comment: CommentStart, line: &str) -> Markup {
    let (mut pieces, mut plain, mut rest) = (Vec::new(), String::new(), line);
    let mut before = ' ';
    while let Some(first) = rest.chars().next() {
        let (class, length) = token(comment, rest, (before, first));
        let (found, after) = rest.split_at(length);
        before = found.chars().next_back().unwrap_or(' ');
        match class {
            None => plain.push_str(found),
            Some(class) => {
                pieces.push(Markup::text(&std::mem::take(&mut plain)));
                pieces.push(element("span", &[("class", class)], found));
            }
        }
        rest = after;
    }
    pieces.push(Markup::text(&plain));
    pieces.into_iter().collect()
}

/// The class of the next token after the character `before`, and its length in bytes, which is at least that of one character.
fn token(comment: CommentStart, rest: &str, (before, first): (char, char)) -> (Option<&'static str>, usize) {
    let starts_comment = rest.starts_with(comment.word()) && (comment != CommentStart::Hash || before.is_whitespace());
    if starts_comment {
        return (Some("tok-comment"), rest.len());
    }
    if matches!(first, '"' | '\'' | '`') {
        return match string_length(rest, first) {
            Some(length) => (Some("tok-string"), length),
            None => (None, first.len_utf8()),
        };
    }
    if is_word(first) {
        let length = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
        let word = rest.get(..length).unwrap_or_default();
        let class = match first.is_ascii_digit() {
            true => Some("tok-number"),
            false if KEYWORDS.split(' ').any(|known| known == word) => Some("tok-keyword"),
            false => None,
        };
        return (class, length);
    }
    (None, first.len_utf8())
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// The length of a string that ends on this line; `None` for a lone quote, such as that of a lifetime.
fn string_length(rest: &str, quote: char) -> Option<usize> {
    let mut is_escaped = false;
    for (at, c) in rest.char_indices().skip(1) {
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            c if c == quote => return Some(at + c.len_utf8()),
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(path: &str, line: &str) -> String {
        let marks = ["tok-keyword", "tok-string", "tok-comment", "tok-number"];
        let html = code_line(path, line).into_text();
        let html = marks
            .iter()
            .fold(html, |html, mark| html.replace(&format!("<span class=\"{mark}\">"), &format!("{}[", &mark[4..5])));
        html.replace("</span>", "]")
    }

    #[test]
    fn tokens_have_their_class_and_the_text_stays() {
        assert_eq!(shown("a.rs", "let x = 12; // if"), "k[let] x = n[12]; c[// if]");
        assert_eq!(shown("a.py", "print('if # no', y) # yes"), "print(s[&#39;if # no&#39;], y) c[# yes]");
        assert_eq!(shown("a.sh", "echo $# a#b # c"), "echo $# a#b c[# c]");
        assert_eq!(shown("a.rs", "fn f<'a>(it: &'a str)"), "k[fn] f&lt;s[&#39;a&gt;(it: &amp;&#39;]a str)");
        assert_eq!(shown("notes.txt", "if # no"), "if # no");
    }

    #[test]
    fn hostile_lines_are_escaped_and_long_ones_are_plain() {
        let html = code_line("a.js", "\"<script>\" <img> '").into_text();
        assert!(!html.contains("<script") && !html.contains("<img"), "{html}");
        assert!(!code_line("a.js", &"if ".repeat(300)).into_text().contains("<span"));
    }
}
