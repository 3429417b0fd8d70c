//! The simple reader against the whole one: what the one reads, the other reads the same.

use super::*;
use crate::spec::source::Source;
use crate::spec::tree;

/// A small generator with a fixed start, so that a failure can be repeated.
struct Random(u64);

impl Random {
    fn below(&mut self, most: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % most.max(1) as u64) as usize
    }

    fn one<'w>(&mut self, words: &[&'w str]) -> &'w str {
        words[self.below(words.len())]
    }
}

const KEYS: [&str; 22] = [
    "a:", "b:", "c:", "d:", "e:", "f:", "g:", "h:", "i:", "j:", "k:", "name:", "on: ", "a-b: ", "_x: ", "m-1:   ",
    "true: ", "null: ", "a", "\"q\": ", "<<: ", "1: ",
];

const VALUES: [&str; 64] = [
    "",
    "a",
    "12",
    "-3",
    "+7",
    ".5",
    "0x1F",
    "~",
    "null",
    "true",
    "on",
    "08:00",
    "a b",
    "a, b",
    "http://x/y",
    "a:b",
    "a: b",
    "a:",
    "x #y",
    "x#y",
    "# no",
    "\"\"",
    "\"a b \"",
    "' c'",
    "'it''s'",
    "\"a\\n\"",
    "\"open",
    "[a, b]",
    "[ a ,b ]",
    "[]",
    "[a,]",
    "[a, [b, 'c']]",
    "{ a: 1, b: [x] }",
    "{}",
    "{a: b}",
    "{a:b}",
    "{ a }",
    "{ a: }",
    "{ a: 1, a: 2 }",
    "[a: b]",
    "[08:00, 09:30]",
    "[*.rs, src/**]",
    "[src/*.rs]",
    "{ use: command, run: [/bin/true] }",
    "[\"a\": b]",
    "[a] b",
    "\"a\" b",
    "|",
    ">",
    "&x a",
    "*x",
    "!t a",
    "- a",
    "-",
    "--- a",
    "...",
    "%a",
    "@a",
    "(a)",
    "$HOME/x",
    "~/x",
    "<a>",
    "=1",
    "what's {it}?",
];

const STARTS: [&str; 14] = ["", "", "", "", "", "  ", "  ", "    ", "- ", "  - ", "   ", " ", "-   ", "- - "];

const LINES: [&str; 8] = ["", "  ", "# said", "    # said", "---", "\ta: b", "ä: b", "a: b\r"];

fn document(random: &mut Random) -> String {
    let mut text = String::new();
    for _ in 0..1 + random.below(7) {
        let (start, key, value) = (random.one(&STARTS), random.one(&KEYS), random.one(&VALUES));
        let gap = if key.ends_with(':') && !value.is_empty() { " " } else { "" };
        let line = match random.below(12) {
            0 => random.one(&LINES).to_owned(),
            1..=2 => format!("{start}{value}"),
            _ => format!("{start}{key}{gap}{value}"),
        };
        text += &line;
        text += if random.below(40) == 0 { "  \n" } else { "\n" };
    }
    text
}

/// A tree without its places.
fn bare(node: Node) -> Node {
    let value = match node.value {
        Value::List(items) => Value::List(items.into_iter().map(bare).collect()),
        Value::Map(entries) => {
            let entry = |entry: Entry| Entry { key: entry.key, place: Place::default(), value: bare(entry.value) };
            Value::Map(entries.into_iter().map(entry).collect())
        }
        value => value,
    };
    Node { value, place: Place::default() }
}

/// Says whether a text is simple; where it is, the whole reader must read the same, and find nothing wrong.
fn agrees(text: &str) -> bool {
    let Some(simple) = parse(text) else { return false };
    let source = Source::new("a.yaml", text);
    match tree::parse(&source, text, 1) {
        Ok(whole) if whole.problems.is_empty() => assert_eq!(simple, bare(whole.root), "{text}"),
        Ok(whole) => panic!("{text}\n{:?}", whole.problems),
        Err(problems) => panic!("{text}\n{problems:?}"),
    }
    true
}

#[test]
fn what_is_read_simply_is_what_the_whole_reader_reads() {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let simple = (0..200_000).filter(|_| agrees(&document(&mut random))).count();
    assert!(simple > 3_000, "{simple}");
    // Each value by itself as well: chance may leave one out.
    for value in VALUES {
        agrees(&format!("a: {value}\n"));
        agrees(&format!("a:\n- {value}\n- b: {value}\n  c: d\n"));
        agrees(&format!("a: [{value}, b]\n"));
        agrees(&format!("a: {{ b: {value}, c: d }}\n"));
    }
}

#[test]
fn damaged_files_are_read_the_same_or_not_simply() {
    let good = "name: fix\nintent: Keep it in order.\nlevel: L1\non:\n  cron: \"5 4 * * 1-5\"\n  push: [main]\ncheck: none\n\
                agents:\n  maker: { use: command, run: [/bin/true, -x] }\ngates:\n  - name: tests\n    run: [cargo, test]\n\
                \x20 - { name: lint, run: [make, 'l i'] }\nbudget:\n  day: { usd: 2.50 }\n# the end\npriority: -3\n";
    assert!(agrees(good), "it is simple");
    let bytes: Vec<u8> = (b' '..=b'~').chain([b'\n', b'\t', b'\r']).collect();
    let mut random = Random(7);
    let mut simple = 0;
    for _ in 0..60_000 {
        let mut text = good.as_bytes().to_vec();
        for _ in 0..1 + random.below(3) {
            let (at, byte) = (random.below(text.len()), bytes[random.below(bytes.len())]);
            match random.below(3) {
                0 => text[at] = byte,
                1 => drop(text.remove(at)),
                _ => text.insert(at, byte),
            }
        }
        simple += usize::from(agrees(&String::from_utf8(text).expect("it is ASCII")));
    }
    assert!(simple > 20_000, "{simple}");
}

#[test]
fn a_file_as_people_write_it_is_simple() {
    let text = "name: loop-1\nintent: Keep part 1 of the house in order.\nlevel: L1\non:\n  daily: \"08:00\"\ncheck: none\n\
                agents:\n  maker: { use: command, run: [/bin/true] }\nbudget:\n  day: { usd: 2 }\n";
    assert!(agrees(text));
    for odd in ["a: b # c\n", "a: |\n  b\n", "a: &x b\n", "a: b\na: c\n", "a: b\n  c\n", "- a\n", "a: ä\n", ""] {
        assert!(parse(odd).is_none(), "{odd}");
    }
}
