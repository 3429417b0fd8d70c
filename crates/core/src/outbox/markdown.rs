//! Markdown without side effects. The text is rewritten into a form that every reader splits into code and prose in the
//! same way. Only then is it certain what is code, and only prose is changed.
//!
//! For that, fences move to the margin (where no list or quote can hold them), unclosed fences are closed, backticks
//! without a partner on their line are escaped, and raw HTML and entities are escaped.

use super::invisible;
use super::sanitise::{CLOSING, SanitiseAction, SanitiseRules, URL, pattern};
use regex::Regex;
use std::sync::LazyLock;

pub(super) fn neutralise(text: &str, rules: &SanitiseRules, notes: &mut Vec<String>) -> String {
    let mut writer = Writer::new(rules);
    let mut rest = text;
    let mut fence: Option<Fence> = None;
    while !rest.is_empty() {
        let line = rest.split('\n').next().unwrap_or(rest);
        rest = match fence {
            Some(open) => {
                fence = writer.inside(open, line);
                rest.get(line.len()..).unwrap_or_default()
            }
            None => match Fence::open(line) {
                Some(open) => {
                    writer.out.push_str(line.trim_start_matches([' ', '\t']));
                    writer.closing = false;
                    fence = Some(open);
                    rest.get(line.len()..).unwrap_or_default()
                }
                None => writer.prose(rest),
            },
        };
        if let Some(next) = rest.strip_prefix('\n') {
            writer.out.push('\n');
            rest = next;
        }
    }
    if let Some(open) = fence {
        if !writer.out.ends_with('\n') {
            writer.out.push('\n');
        }
        writer.out.extend(std::iter::repeat_n(open.mark, open.length));
        writer.out.push('\n');
        notes.push("closed an open code fence".to_owned());
    }
    writer.done.tell(notes);
    writer.out
}

/// An open code fence.
#[derive(Clone, Copy)]
struct Fence {
    mark: char,
    length: usize,
    indent: usize,
}

impl Fence {
    fn open(line: &str) -> Option<Self> {
        let text = line.trim_start_matches([' ', '\t']);
        let mark = text.chars().next().filter(|c| matches!(c, '`' | '~'))?;
        let info = text.trim_start_matches(mark);
        let length = text.len() - info.len();
        let fence = Self { mark, length, indent: indent_of(line) };
        (length >= 3 && !(mark == '`' && info.contains('`'))).then_some(fence)
    }

    fn closes(self, line: &str) -> bool {
        let text = line.trim_matches([' ', '\t']);
        text.len() >= self.length && text.chars().all(|c| c == self.mark) && indent_of(line) <= self.indent + 3
    }
}

/// Columns before the first visible character; a tab advances to the next multiple of four.
fn indent_of(line: &str) -> usize {
    let spaces = line.chars().take_while(|c| matches!(c, ' ' | '\t'));
    spaces.fold(0, |column, c| if c == '\t' { column / 4 * 4 + 4 } else { column + 1 })
}

#[derive(Default)]
struct Counts {
    mentions: usize,
    references: usize,
    images: usize,
    commands: usize,
    tags: usize,
    schemes: usize,
    hidden: Vec<String>,
}

impl Counts {
    fn tell(self, notes: &mut Vec<String>) {
        notes.extend(self.hidden.iter().map(|text| format!("removed a hidden comment: `{text}`")));
        let counts = [
            (self.mentions, "mention(s)"),
            (self.references, "closing reference(s)"),
            (self.images, "image(s)"),
            (self.commands, "bot command(s)"),
            (self.tags, "HTML tag(s) or entities"),
            (self.schemes, "address(es) that run code"),
        ];
        let nonzero = counts.iter().filter(|(count, _)| *count > 0);
        notes.extend(nonzero.map(|(count, what)| format!("neutralised {count} {what}")));
    }
}

struct Writer<'a> {
    rules: &'a SanitiseRules,
    out: String,
    done: Counts,
    /// This paragraph contains a closing keyword; some forges close whole lists of issues.
    closing: bool,
    /// The output position after a code span, or after a backslash that escapes nothing: a backtick at this position
    /// would join the span, or be escaped.
    touchy: Option<usize>,
}

impl<'a> Writer<'a> {
    fn new(rules: &'a SanitiseRules) -> Self {
        Self { rules, out: String::new(), done: Counts::default(), closing: false, touchy: None }
    }

    /// Writes a line of a fence, at the margin like the fence itself; `None` if the line closes the fence.
    fn inside(&mut self, fence: Fence, line: &str) -> Option<Fence> {
        if fence.closes(line) {
            self.out.push_str(line.trim_matches([' ', '\t']));
            return None;
        }
        let spaces = line.bytes().take(fence.indent).take_while(|byte| *byte == b' ').count();
        self.out.push_str(&line[spaces..]);
        Some(fence)
    }

    /// Writes prose up to the end of the line and returns the rest; a hidden comment may consume further lines.
    fn prose<'t>(&mut self, text: &'t str) -> &'t str {
        let mut rest = self.line_start(text);
        while let Some(c) = rest.chars().next().filter(|c| *c != '\n') {
            rest = match c {
                '\\' => self.backslash(rest),
                '`' => self.backticks(rest),
                '<' => self.angle(rest),
                '&' => self.entity(rest),
                '!' if rest.starts_with("![") && self.rules.images == SanitiseAction::Neutralise => {
                    self.done.images += 1;
                    self.out.push_str("{image} [");
                    &rest[2..]
                }
                '@' => self.at(rest),
                _ if self.at_word_start() => self.word(rest),
                _ => self.copy(rest, c.len_utf8()),
            };
        }
        rest
    }

    fn line_start<'t>(&mut self, text: &'t str) -> &'t str {
        static COMMAND: LazyLock<Regex> = LazyLock::new(|| pattern(r"^[ \t>]*/[A-Za-z]"));
        let line = text.split('\n').next().unwrap_or(text);
        if line.trim_matches([' ', '\t']).is_empty() {
            self.closing = false;
        }
        match COMMAND.find(line) {
            Some(command) if self.rules.commands == SanitiseAction::Neutralise => {
                self.done.commands += 1;
                let slash = command.end() - 2;
                self.out.push_str(&text[..slash]);
                self.out.push_str("\\/");
                &text[slash + 1..]
            }
            _ => text,
        }
    }

    fn copy<'t>(&mut self, text: &'t str, bytes: usize) -> &'t str {
        let (now, rest) = text.split_at(bytes);
        self.out.push_str(now);
        rest
    }

    /// An escaped character stays escaped. Forges search the shown text, which has no backslashes, for mentions and
    /// references. So the backslash is dropped there and the construct is neutralised.
    fn backslash<'t>(&mut self, text: &'t str) -> &'t str {
        static REFERENCE: LazyLock<Regex> = LazyLock::new(|| pattern(r"^\\#[0-9]+"));
        if let Some(reference) = REFERENCE.find(text).filter(|_| self.closes_issues()) {
            self.done.references += 1;
            return self.as_code(&text[1..], reference.end() - 1);
        }
        match text[1..].chars().next() {
            Some('@') => &text[1..],
            Some(escaped) if escaped.is_ascii_punctuation() => self.copy(text, 2),
            _ => {
                let rest = self.copy(text, 1);
                self.touchy = Some(self.out.len());
                rest
            }
        }
    }

    /// Whether a reference at this point would close an issue.
    fn closes_issues(&self) -> bool {
        self.closing && self.rules.closing == SanitiseAction::Neutralise
    }

    /// Copies a code span that ends on its line. Escapes other backticks, so that they do not pair with backticks of a
    /// later line.
    fn backticks<'t>(&mut self, text: &'t str) -> &'t str {
        let line = text.split('\n').next().unwrap_or(text);
        let length = line.len() - line.trim_start_matches('`').len();
        if let Some(end) = closing_run(&line[length..], length) {
            self.part();
            let rest = self.copy(text, length + end);
            self.touchy = Some(self.out.len());
            return rest;
        }
        self.out.push_str(&"\\`".repeat(length));
        &text[length..]
    }

    fn angle<'t>(&mut self, text: &'t str) -> &'t str {
        if let Some(comment) = text.strip_prefix("<!--")
            && let Some(end) = comment.find("-->")
        {
            self.done.hidden.push(invisible::printable(comment[..end].trim(), 200));
            self.out.push_str("{hidden comment removed}");
            return &comment[end + 3..];
        }
        let starts_tag = |c: char| c.is_ascii_alphabetic() || matches!(c, '/' | '!' | '?');
        if text[1..].starts_with(starts_tag) {
            self.done.tags += 1;
            self.out.push('\\');
        }
        self.copy(text, 1)
    }

    fn entity<'t>(&mut self, text: &'t str) -> &'t str {
        static ENTITY: LazyLock<Regex> =
            LazyLock::new(|| pattern(r"^&(?:#[0-9]+|#[xX][0-9a-fA-F]+|[A-Za-z][A-Za-z0-9]*);"));
        if ENTITY.is_match(text) {
            self.done.tags += 1;
            self.out.push('\\');
        }
        self.copy(text, 1)
    }

    fn at<'t>(&mut self, text: &'t str) -> &'t str {
        static NAME: LazyLock<Regex> = LazyLock::new(|| pattern(r"^@(?:\\_|\w(?:[\w./-]*\w)?)"));
        match NAME.find(text) {
            Some(name) if self.rules.mentions == SanitiseAction::Neutralise && self.at_word_start() => {
                self.done.mentions += 1;
                // An escaped underscore still starts a name where it is shown.
                let end = if name.as_str().starts_with("@\\") { 1 } else { name.end() };
                self.as_code(text, end)
            }
            _ => self.copy(text, 1),
        }
    }

    /// Whether a word may start here: an address such as `me@example.org` is not a mention.
    fn at_word_start(&self) -> bool {
        !self.out.chars().next_back().is_some_and(|c| c.is_ascii_alphanumeric() || c == '_')
    }

    /// Writes a whole word, link or reference.
    fn word<'t>(&mut self, text: &'t str) -> &'t str {
        static LINK: LazyLock<Regex> = LazyLock::new(|| pattern(&format!("^{URL}")));
        static ISSUE: LazyLock<Regex> =
            LazyLock::new(|| pattern(r"/(?:issues|pulls?|merge_requests|work_items)/[0-9]"));
        static REFERENCE: LazyLock<Regex> =
            LazyLock::new(|| pattern(r"^(?i:gh-[0-9]+|(?:[A-Za-z0-9_.-]+(?:/[A-Za-z0-9_.-]+)*)?#[0-9]+)"));
        static KEYWORD: LazyLock<Regex> = LazyLock::new(|| pattern(&format!(r"^(?i:{CLOSING})\b")));
        // A link with such an address runs its text, or shows a page that looks like the forge's.
        static SCHEME: LazyLock<Regex> = LazyLock::new(|| pattern(r"^(?i:(?:java|vb)script:\S|data:[a-z]+/)"));
        let acts = self.closes_issues();
        if SCHEME.is_match(text) {
            self.done.schemes += 1;
            return self.as_code(text, text.find(':').map_or(0, |colon| colon + 1));
        }
        if let Some(link) = LINK.find(text).filter(|_| self.at_link_start()) {
            if acts && ISSUE.is_match(link.as_str()) {
                self.done.references += 1;
                return self.as_code(text, link.end());
            }
            return self.copy(text, link.end());
        }
        if let Some(reference) = REFERENCE.find(text).filter(|_| acts) {
            self.done.references += 1;
            return self.as_code(text, reference.end());
        }
        if let Some(keyword) = KEYWORD.find(text) {
            self.closing = true;
            return self.copy(text, keyword.end());
        }
        let first = text.chars().next().map_or(0, char::len_utf8);
        self.copy(text, first)
    }

    fn at_link_start(&self) -> bool {
        self.out.chars().next_back().is_none_or(|c| c.is_whitespace() || c == '(')
    }

    /// Shows text as code, which has no effect on any forge. Its backticks must not join others or be escaped.
    fn as_code<'t>(&mut self, text: &'t str, bytes: usize) -> &'t str {
        let (shown, rest) = text.split_at(bytes);
        self.part();
        self.out.push('`');
        self.out.push_str(shown);
        self.out.push('`');
        self.touchy = Some(self.out.len());
        rest
    }

    /// Called before writing a backtick: a space keeps it from being escaped, or from joining the span before it.
    fn part(&mut self) {
        if self.touchy == Some(self.out.len()) {
            self.out.push(' ');
        }
    }
}

/// The end of a run of exactly `length` backticks.
fn closing_run(line: &str, length: usize) -> Option<usize> {
    let mut at = 0;
    while let Some(start) = line[at..].find('`').map(|found| at + found) {
        let run = line[start..].len() - line[start..].trim_start_matches('`').len();
        if run == length {
            return Some(start + run);
        }
        at = start + run;
    }
    None
}
