//! The effects that a text would have on a forge, written without the code that sanitises it: code is removed, and the rest is
//! searched for everything that notifies, closes, loads, runs or hides something.

/// The live constructs of a Markdown text.
pub(crate) fn live_in_markdown(text: &str) -> Vec<String> {
    let mut found = hidden(text);
    found.extend(turns_checks_off(text));
    // The engine's own comments are at the margin, each on a line of its own.
    let own = |line: &&str| !(line.starts_with("<!-- loopwright") && line.ends_with(" -->"));
    let lines: Vec<&str> = text.lines().filter(own).collect();
    found.extend(live(&prose(&lines)));
    found
}

/// The live constructs of a title, a label or a commit message, which have no code.
pub(crate) fn live_in_plain(text: &str) -> Vec<String> {
    let mut found = hidden(text);
    found.extend(turns_checks_off(text));
    if text.contains("](") {
        found.push("a link with a label".to_owned());
    }
    // Forges show these texts as they are: only HTML and Markdown decode an entity.
    found.extend(live(text).into_iter().filter(|what| !what.starts_with("an entity")));
    found
}

/// Words by which CI systems skip a commit, also inside code: a merge commit has the text of its pull request.
fn turns_checks_off(text: &str) -> Option<String> {
    let line = text.to_lowercase().replace(['_', '-'], " ");
    let words =
        ["[skip ci]", "[ci skip]", "[no ci]", "[skip actions]", "[actions skip]", "***no ci***", "skip checks:"];
    words.into_iter().find(|word| line.contains(word)).map(|word| format!("a word that turns checks off: {word}"))
}

/// Characters that people do not see.
pub(crate) fn hidden(text: &str) -> Vec<String> {
    let is_hidden = |c: &char| {
        let code = u32::from(*c);
        (c.is_control() && !matches!(c, '\n' | '\t'))
            || matches!(code, 0xAD | 0x34F | 0x61C | 0x180E | 0x200B..=0x200F | 0x202A..=0x202E | 0x2060..=0x206F)
            || matches!(code, 0x3164 | 0xFEFF | 0xFFA0 | 0xE_0000..=0xE_01EF)
    };
    text.chars().filter(is_hidden).map(|c| format!("hidden {}", c.escape_unicode())).collect()
}

/// The text outside of fences and code spans, without the marks of quotations.
fn prose(lines: &[&str]) -> String {
    let mut out = String::new();
    let mut fence: Option<String> = None;
    for line in lines {
        let line = line.strip_prefix("> ").or_else(|| line.strip_prefix('>')).unwrap_or(line);
        let text = line.trim_start();
        let run: String = text.chars().take_while(|c| text.starts_with(*c) && matches!(c, '`' | '~')).collect();
        match &fence {
            Some(open) if run.len() >= open.len() && run.starts_with(open.as_str()) && text.trim() == run => {
                fence = None
            }
            Some(_) => {}
            None if run.len() >= 3 && !text[run.len()..].contains('`') => fence = Some(run),
            None => out.push_str(&without_spans(line)),
        }
        out.push('\n');
    }
    out
}

/// A line without code spans.
fn without_spans(line: &str) -> String {
    let chars: Vec<char> = line.chars().collect();
    let run_at = |at: usize| chars[at..].iter().take_while(|c| **c == '`').count();
    let (mut out, mut at) = (String::new(), 0);
    while at < chars.len() {
        if chars[at] == '\\' && chars.get(at + 1).is_some_and(char::is_ascii_punctuation) {
            out.extend([chars[at], chars[at + 1]]);
            at += 2;
            continue;
        }
        let length = run_at(at);
        if length == 0 {
            out.push(chars[at]);
            at += 1;
            continue;
        }
        let mut end = at + length;
        while end < chars.len() && (run_at(end) != length || chars[end - 1] == '`') {
            end += 1;
        }
        if end < chars.len() {
            out.push_str("CODE");
            at = end + length;
        } else {
            out.push_str("`open");
            at += length;
        }
    }
    out
}

fn live(text: &str) -> Vec<String> {
    let chars: Vec<char> = text.chars().collect();
    let before = |at: usize| at.checked_sub(1).map_or(' ', |at| chars[at]);
    let rest = |at: usize| chars[at + 1..].iter().take(60).collect::<String>();
    let mut found = Vec::new();
    for (at, c) in chars.iter().enumerate() {
        let (last, rest) = (before(at), rest(at));
        let next = rest.chars().next().unwrap_or(' ');
        let starts_word = !last.is_alphanumeric() && last != '_';
        let what = match c {
            '@' if starts_word && (next.is_alphanumeric() || next == '_') => "a mention",
            '!' if next == '[' && last != '\\' => "an image",
            '<' if last != '\\' && (next.is_ascii_alphabetic() || matches!(next, '/' | '!' | '?')) => "HTML",
            '&' if last != '\\' && is_entity(&rest) => "an entity",
            ']' if runs_code(&rest) => "an address that runs code",
            '/' if next.is_ascii_alphabetic() && is_line_start(&chars, at) => "a command",
            _ => continue,
        };
        found.push(format!("{what}: {c}{rest}"));
    }
    found.extend(text.split("\n\n").filter(|part| closes(part)).map(|part| format!("a closing keyword: {part}")));
    found
}

fn is_entity(rest: &str) -> bool {
    let name: String = rest.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '#').collect();
    !name.is_empty() && rest[name.len()..].starts_with(';')
}

/// Whether the address after a label runs code.
fn runs_code(rest: &str) -> bool {
    let Some(address) = rest.strip_prefix('(').or_else(|| rest.strip_prefix(':')) else { return false };
    let address = address.trim_start_matches([' ', '<']).to_lowercase();
    ["javascript:", "vbscript:", "data:"].iter().any(|scheme| address.starts_with(scheme))
}

fn is_line_start(chars: &[char], at: usize) -> bool {
    chars[..at].iter().rev().take_while(|c| **c != '\n').all(|c| matches!(c, ' ' | '\t' | '>'))
}

/// Whether a paragraph has a closing keyword and, after it, the number of an issue.
fn closes(paragraph: &str) -> bool {
    const KEYWORDS: [&str; 12] = [
        "close",
        "closes",
        "closed",
        "closing",
        "fix",
        "fixes",
        "fixed",
        "resolve",
        "resolves",
        "resolved",
        "implements",
        "implemented",
    ];
    let text = paragraph.to_lowercase();
    let words: Vec<(usize, &str)> = text.match_indices(|c: char| c.is_alphabetic()).collect();
    let keyword = words.iter().map(|(at, _)| *at).find(|at| {
        let starts = !text[..*at].ends_with(|c: char| c.is_alphanumeric() || c == '_');
        let word: String = text[*at..].chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
        starts && KEYWORDS.contains(&word.as_str())
    });
    let Some(at) = keyword else { return false };
    let after = &text[at..];
    ["#", "gh-", "/issues/", "/merge_requests/"].iter().any(|sign| {
        after.match_indices(sign).any(|(at, _)| after[at + sign.len()..].starts_with(|c: char| c.is_ascii_digit()))
    })
}

#[test]
fn oracle_sees_every_kind_of_effect() {
    let live = [
        "hi @ada",
        "\\@ada",
        "Fixes #1",
        "closes: org/app#3",
        "fixed GH-7",
        "![x](https://e.example/p.png)",
        "<img src=x>",
        "[x](javascript:alert(1))",
        "done [skip ci]",
        "`[ci-skip]`",
        "x\n\nskip-checks: true",
        "[x]: data:text/html,x",
        "/merge",
        "> /merge",
        "&commat;ada",
        "a\u{202e}b",
        "`open @ada",
        "```\n```\n@ada",
    ];
    for text in live {
        assert!(!live_in_markdown(text).is_empty(), "{text}");
    }
    let harmless = [
        "hi `@ada`",
        "```\n@ada fixes #1\n```\n",
        "me@example.org",
        "see #12",
        "a < b",
        "\\<img>",
        "Fixes `#1`",
        "``a ` @ada``",
        "> ```\n> @ada\n> ```\n> x",
        "and/or",
    ];
    for text in harmless {
        assert_eq!(live_in_markdown(text), Vec::<String>::new(), "{text}");
    }
    assert!(!live_in_plain("[x](https://e.example)").is_empty() && live_in_plain("`@ ada`").is_empty());
}
