//! Markdown as HTML: the part of it that reports and items use. Everything else stays text. HTML in the source is text
//! too, comments are left out as forges do, and pictures are only named, so nothing is loaded from elsewhere.

use super::markup::{Markup, element, outside_link, void};

/// The most lines that are rendered.
const LINES_MAX: usize = 4000;

/// How headings become elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HeadingForm {
    /// `#` is `h1`.
    Document,
    /// Bold lines, for a text inside a page that has its own headings.
    Inside,
}

/// A text as HTML.
pub(crate) fn render(source: &str, headings: HeadingForm) -> Markup {
    let source = without_comments(source);
    let lines: Vec<&str> = source.lines().take(LINES_MAX).collect();
    let mut blocks = MarkdownBlocks { lines: &lines, headings };
    let mut pieces = Vec::new();
    while let Some(piece) = blocks.next_block() {
        pieces.push(piece);
    }
    let more = match source.lines().count() > LINES_MAX {
        true => element("p", &[("class", "faint")], "The text is longer."),
        false => Markup::default(),
    };
    pieces.into_iter().collect::<Markup>().and(more)
}

fn without_comments(source: &str) -> String {
    let (mut kept, mut rest) = (String::new(), source);
    while let Some((before, after)) = rest.split_once("<!--") {
        kept.push_str(before);
        rest = after.split_once("-->").map_or("", |(_, rest)| rest);
    }
    kept + rest
}

/// The lines that are left.
struct MarkdownBlocks<'t> {
    lines: &'t [&'t str],
    headings: HeadingForm,
}

impl<'t> MarkdownBlocks<'t> {
    fn take_while(&mut self, is_part: impl Fn(&str) -> bool) -> &'t [&'t str] {
        let count = self.lines.iter().take_while(|line| is_part(line)).count();
        let (taken, rest) = self.lines.split_at(count);
        self.lines = rest;
        taken
    }

    fn next_block(&mut self) -> Option<Markup> {
        self.take_while(|line| line.trim().is_empty());
        let first = self.lines.first()?.trim_start();
        if let Some(fence) = ["```", "~~~"].into_iter().find(|fence| first.starts_with(fence)) {
            return Some(self.code_block(fence));
        }
        if let Some((level, title)) = heading_of(first) {
            self.lines = &self.lines[1..];
            return Some(self.heading(level, title));
        }
        if matches!(first.trim_end(), "---" | "***" | "___") {
            self.lines = &self.lines[1..];
            return Some(void("hr", &[]));
        }
        if first.starts_with('>') {
            let quoted = self.take_while(|line| line.trim_start().starts_with('>'));
            let inner: Vec<&str> =
                quoted.iter().map(|line| line.trim_start().trim_start_matches('>').trim_start()).collect();
            return Some(element("blockquote", &[], paragraph(&inner)));
        }
        if first.starts_with('|') {
            return Some(table(self.take_while(|line| line.trim_start().starts_with('|'))));
        }
        if item_of(first).is_some() {
            return Some(self.list());
        }
        let lines = self.take_while(|line| !starts_block(line));
        if lines.is_empty() {
            // A line that only looks like the start of a block.
            let (line, rest) = self.lines.split_at(1);
            self.lines = rest;
            return Some(paragraph(line));
        }
        Some(paragraph(lines))
    }

    fn heading(&self, level: usize, title: &str) -> Markup {
        match (self.headings, level) {
            (HeadingForm::Inside, _) => element("p", &[("class", "md-title")], inline(title)),
            (HeadingForm::Document, 1) => element("h1", &[], inline(title)),
            (HeadingForm::Document, 2) => element("h2", &[], inline(title)),
            (HeadingForm::Document, _) => element("h3", &[], inline(title)),
        }
    }

    fn code_block(&mut self, fence: &str) -> Markup {
        self.lines = &self.lines[1..];
        let code = self.take_while(|line| !line.trim_start().starts_with(fence)).join("\n");
        self.lines = self.lines.get(1..).unwrap_or_default();
        element("pre", &[("tabindex", "0")], code)
    }

    fn list(&mut self) -> Markup {
        let is_numbered =
            self.lines.first().is_some_and(|line| line.trim_start().starts_with(|c: char| c.is_ascii_digit()));
        let lines = self.take_while(|line| {
            item_of(line.trim_start()).is_some() || (line.starts_with("  ") && !line.trim().is_empty())
        });
        let mut items: Vec<Vec<&str>> = Vec::new();
        for line in lines {
            match (item_of(line.trim_start()), items.last_mut()) {
                (Some(text), _) => items.push(vec![text]),
                (None, Some(last)) => last.push(line.trim()),
                (None, None) => {}
            }
        }
        let item = |words: &Vec<&str>| element("li", &[], lines_of(words));
        let items: Markup = items.iter().map(item).collect();
        if is_numbered { element("ol", &[], items) } else { element("ul", &[], items) }
    }
}

fn starts_block(line: &str) -> bool {
    let line = line.trim_start();
    line.is_empty()
        || line.starts_with(['>', '|'])
        || line.starts_with("```")
        || line.starts_with("~~~")
        || heading_of(line).is_some()
        || item_of(line).is_some()
}

fn heading_of(line: &str) -> Option<(usize, &str)> {
    let level = line.bytes().take_while(|byte| *byte == b'#').count();
    let title = line.get(level..)?.strip_prefix(' ')?;
    (1..=6).contains(&level).then_some((level, title.trim()))
}

/// The text of an item of a list.
fn item_of(line: &str) -> Option<&str> {
    if let Some(text) = ["- ", "* ", "+ "].iter().find_map(|mark| line.strip_prefix(mark)) {
        return Some(text.strip_prefix("[ ] ").or_else(|| text.strip_prefix("[x] ")).unwrap_or(text));
    }
    let digits = line.bytes().take_while(u8::is_ascii_digit).count();
    if (1..=4).contains(&digits) { line.get(digits..)?.strip_prefix(". ") } else { None }
}

fn table(lines: &[&str]) -> Markup {
    let cells = |line: &str| -> Vec<String> {
        let line = line.trim().trim_start_matches('|');
        let line = line.strip_suffix('|').unwrap_or(line).replace("\\|", "\u{1}");
        line.split('|').map(|cell| cell.trim().replace('\u{1}', "|")).collect()
    };
    let is_rule = |line: &str| line.chars().all(|c| matches!(c, '|' | '-' | ':' | ' ')) && line.contains('-');
    let row = |tag: &'static str, line: &str| {
        let scope: &[(&'static str, &str)] = if tag == "th" { &[("scope", "col")] } else { &[] };
        let cells: Markup = cells(line).iter().map(|cell| element(tag, scope, inline(cell))).collect();
        element("tr", &[], cells)
    };
    let (head, body) = match lines.split_first() {
        Some((first, [rule, rest @ ..])) if is_rule(rule) => (element("thead", &[], row("th", first)), rest),
        _ => (Markup::default(), lines),
    };
    let body: Markup = body.iter().map(|line| row("td", line)).collect();
    element(
        "div",
        &[("class", "scroll"), ("role", "group"), ("tabindex", "0")],
        element("table", &[], head.and(element("tbody", &[], body))),
    )
}

fn paragraph(lines: &[&str]) -> Markup {
    element("p", &[], lines_of(lines))
}

fn lines_of(lines: &[&str]) -> Markup {
    let line = |(at, line): (usize, &&str)| {
        let before = if at > 0 { Markup::text("\n") } else { Markup::default() };
        before.and(inline(line.trim()))
    };
    lines.iter().enumerate().map(line).collect()
}

/// Code, bold text and links of one line, and the emphasis of a whole line, such as that of a footer.
fn inline(text: &str) -> Markup {
    match text.strip_prefix('_').and_then(|rest| rest.strip_suffix('_')).filter(|inner| !inner.is_empty()) {
        Some(inner) => element("em", &[], inline_pieces(inner)),
        None => inline_pieces(text),
    }
}

fn inline_pieces(text: &str) -> Markup {
    let (mut pieces, mut plain, mut rest) = (Vec::new(), String::new(), text);
    while !rest.is_empty() {
        match inline_piece(rest) {
            Some((piece, length)) => {
                pieces.push(Markup::text(&std::mem::take(&mut plain)));
                pieces.push(piece);
                rest = rest.get(length..).unwrap_or_default();
            }
            None => {
                let mut chars = rest.chars();
                plain.extend(chars.next());
                rest = chars.as_str();
            }
        }
    }
    pieces.push(Markup::text(&plain));
    pieces.into_iter().collect()
}

/// A piece at the start of a text, and its length in bytes.
fn inline_piece(text: &str) -> Option<(Markup, usize)> {
    let between = |mark: &'static str| {
        let (inner, _) = text.strip_prefix(mark)?.split_once(mark)?;
        (!inner.is_empty()).then_some((inner, inner.len() + 2 * mark.len()))
    };
    if let Some((code, length)) = between("`") {
        return Some((element("code", &[], code), length));
    }
    if let Some((bold, length)) = between("**") {
        return Some((element("b", &[], bold), length));
    }
    if let Some(named) = text.strip_prefix("![").or_else(|| text.strip_prefix('[')) {
        let is_picture = text.starts_with('!');
        let (name, after) = named.split_once("](")?;
        let (address, _) = after.split_once(')')?;
        let length = usize::from(is_picture) + 1 + name.len() + 2 + address.len() + 1;
        let shown = match (is_picture, name == address) {
            (true, _) => Markup::text(&format!("[picture: {name}]")),
            (false, true) => outside_link(address),
            (false, false) => Markup::text(name).and(" (".into()).and(outside_link(address)).and(")".into()),
        };
        return Some((shown, length));
    }
    if text.starts_with("https://") || text.starts_with("http://") {
        let end = text.find(|c: char| c.is_whitespace() || matches!(c, ')' | '>' | '"' | '`')).unwrap_or(text.len());
        let address = text.get(..end)?.trim_end_matches(['.', ',', ';', ':']);
        return Some((outside_link(address), address.len()));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn html(source: &str) -> String {
        render(source, HeadingForm::Document).into_text()
    }

    #[test]
    fn blocks_and_inline_parts_have_their_elements() {
        assert_eq!(html("# A `b`\n\ntext **bold**\nnext\n"), "<h1>A <code>b</code></h1><p>text <b>bold</b>\nnext</p>");
        assert_eq!(html("_by `x`_\n\n_\n"), "<p><em>by <code>x</code></em></p><p>_</p>");
        assert_eq!(html("- a\n  more\n- b\n"), "<ul><li>a\nmore</li><li>b</li></ul>");
        assert_eq!(html("1. a\n2. b"), "<ol><li>a</li><li>b</li></ol>");
        assert_eq!(html("```sh\n# no <b>\n```\nx"), "<pre tabindex=\"0\"># no &lt;b&gt;</pre><p>x</p>");
        assert_eq!(html("> a\n> b"), "<blockquote><p>a\nb</p></blockquote>");
        assert!(html("| a | b |\n|---|---|\n| 1 | x \\| y |\n").contains("<td>x | y</td>"));
        assert_eq!(
            html("**\n|\n#\n```"),
            "<p>**</p><div class=\"scroll\" role=\"group\" tabindex=\"0\"><table><tbody><tr><td></td></tr></tbody></table></div><p>#</p><pre tabindex=\"0\"></pre>"
        );
        assert_eq!(render("# a", HeadingForm::Inside).into_text(), "<p class=\"md-title\">a</p>");
    }

    #[test]
    fn hostile_text_stays_text() {
        let page = html(
            "<script>x</script> ![p](http://evil/x.png) [a](javascript:alert(1)) <!-- hidden --> [b](https://ok.example/x)",
        );
        assert!(!page.contains("<script") && !page.contains("<img") && !page.contains("hidden"), "{page}");
        assert!(!page.contains("href=\"javascript") && page.contains("href=\"https://ok.example/x\""), "{page}");
        assert!(page.contains("https://ok.example/x</a>"), "a reader sees where a link leads: {page}");
        assert_eq!(html("a <!-- never closed"), "<p>a</p>");
    }
}
