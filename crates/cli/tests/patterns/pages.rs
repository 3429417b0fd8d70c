//! `docs/patterns/`: one page for each pattern. The table of facts on a page comes from the pattern's file, so that it
//! cannot be out of date; `UPDATE_EXPECT=1` writes it again.

use expect_test::expect_file;
use loopwright_core::patterns::LoopPattern;
use loopwright_core::spec::{Ceilings, LoopSpec, OutputSpec};
use std::path::PathBuf;

const START: &str = "<!-- facts: generated from the loop file -->\n";
const END: &str = "<!-- end of facts -->\n";
/// The gates of a loop that proposes no change.
const NO_GATES: &str = "none: gates judge a change, and this loop proposes none. Its checker reads each item";
const SECTIONS: [&str; 5] = ["## Reads\n", "## May do\n", "## Never does\n", "## Costs\n", "## Promote\n"];

fn page_path(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/patterns").join(format!("{name}.md"))
}

fn code(words: impl IntoIterator<Item = impl std::fmt::Display>) -> String {
    let words: Vec<String> = words.into_iter().map(|word| format!("`{word}`")).collect();
    if words.is_empty() { "none".to_owned() } else { words.join(", ") }
}

fn sends(output: &OutputSpec) -> String {
    let labels = if output.labels.is_empty() { String::new() } else { format!(", labels {}", code(&output.labels)) };
    format!("`{}` (at most {} a round{labels})", output.kind, output.max)
}

fn ceiling(scope: &str, ceilings: &Ceilings) -> Option<String> {
    let parts = [
        ceilings.usd.map(|usd| usd.to_string()),
        ceilings.tokens.map(|tokens| format!("{}k tokens", tokens / 1000)),
        ceilings.wall.map(|wall| wall.to_string()),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    (!parts.is_empty()).then(|| format!("{scope}: {}", parts.join(", ")))
}

/// The front matter's own line or lines of `on:`, without the probe.
fn due(pattern: &LoopPattern) -> String {
    let on = pattern.text.lines().skip_while(|line| *line != "on:").skip(1);
    let lines = on.take_while(|line| line.starts_with("  ")).map(str::trim);
    code(lines.filter(|line| !line.starts_with("probe:")))
}

fn probe(pattern: &LoopPattern) -> String {
    let line = pattern.text.lines().find_map(|line| line.trim().strip_prefix("probe: ")).expect("a probe");
    format!("`{line}`")
}

fn facts(pattern: &LoopPattern, spec: &LoopSpec) -> String {
    let level = match pattern.needs_tests() {
        true => format!("{}, and L1 in a repository without a recognised test command", spec.level.short()),
        false => spec.level.short().to_owned(),
    };
    let gates = spec.gates.iter().map(|gate| gate.name().to_owned());
    let tests = pattern.needs_tests().then(|| "tests".to_owned());
    let gates = code(tests.into_iter().chain(gates));
    let proposes = spec.outputs(loopwright_core::spec::ActionKind::PullRequest);
    let costs = [("round", &spec.budget.round), ("item", &spec.budget.item), ("day", &spec.budget.day)];
    let costs: Vec<String> = costs.into_iter().filter_map(|(scope, ceilings)| ceiling(scope, ceilings)).collect();
    let rows = [
        ("intent", spec.intent.clone()),
        ("level", level),
        ("due", due(pattern)),
        ("probe", probe(pattern)),
        ("may send", spec.output.iter().map(sends).collect::<Vec<_>>().join(", ")),
        ("gates", if proposes { gates } else { NO_GATES.to_owned() }),
        (
            "may change",
            if spec.allow_paths.is_empty() {
                "any file that is not protected".to_owned()
            } else {
                code(&spec.allow_paths)
            },
        ),
        ("protected", code(&spec.protect)),
        ("scored", code(spec.rubric.dimensions.keys())),
        ("skills", code(&spec.skills)),
        ("ceilings", costs.join("; ")),
        ("attempts", spec.attempts.to_string()),
        ("open at once", spec.open_max.to_string()),
    ];
    // A loop that proposes no change has no paths to change.
    let rows = rows.into_iter().filter(|(key, _)| proposes || !["may change", "protected"].contains(key));
    let rows: String = rows.map(|(key, value)| format!("| {key} | {value} |\n")).collect();
    format!("{START}| | |\n|---|---|\n{rows}{END}")
}

#[test]
fn every_page_has_the_facts_of_its_file() {
    let folder = page_path("x");
    let index = std::fs::read_to_string(folder.with_file_name("README.md")).expect("the index is there");
    for pattern in LoopPattern::all() {
        let path = page_path(pattern.name);
        let page = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let spec = pattern.spec();
        let (before, rest) = page.split_once(START).expect("the start of the facts");
        let (_, after) = rest.split_once(END).expect("the end of the facts");
        expect_file![path].assert_eq(&format!("{before}{}{after}", facts(&pattern, &spec)));
        assert!(page.starts_with(&format!("# {}\n", pattern.name)), "{}", pattern.name);
        let places: Vec<_> = SECTIONS.iter().map(|section| page.find(section)).collect();
        assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{}: {places:?}", pattern.name);
        let row = format!("| [{0}]({0}.md) | {1} | {2} |", pattern.name, spec.level.short(), spec.intent);
        assert!(index.contains(&row), "docs/patterns/README.md lacks: {row}");
    }
    let pages = std::fs::read_dir(folder.parent().expect("a folder")).expect("the pages are there").count();
    assert_eq!(pages, 13, "twelve pages and the index");
}
