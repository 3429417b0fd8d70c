//! Round histories: each file of `rounds/` holds events in a short notation and, below a line of dashes, the expected
//! numbered history. `UPDATE_EXPECT=1 cargo nextest run -p loopwright-core rounds` rewrites the lower halves.
#![expect(clippy::disallowed_methods, reason = "tests read the flag that blesses")]

mod rounds_notation;

use loopwright_core::round::{StepError, history};
use rounds_notation::events;
use std::fs;
use std::path::Path;

const LINE: &str = "-----\n";

#[test]
fn histories_read_as_written() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/rounds");
    let mut seen = 0;
    let mut wrong = Vec::new();
    for entry in fs::read_dir(&folder).expect("the folder is there") {
        let path = entry.expect("an entry reads").path();
        let text = fs::read_to_string(&path).expect("a fixture reads");
        let (input, expected) = text.split_once(LINE).unwrap_or((&text, ""));
        let rendered = match history::render(&events(input)) {
            Ok(rendered) => rendered,
            Err(StepError::Misfit(misfit)) => format!("misfit: {misfit}\n"),
            Err(StepError::Refused(refusal)) => format!("refused: {refusal}; may: {:?}\n", refusal.approvers()),
        };
        seen += 1;
        if rendered == expected {
            continue;
        }
        if std::env::var_os("UPDATE_EXPECT").is_some() {
            let input = input.trim_end();
            fs::write(&path, format!("{input}\n{LINE}{rendered}")).expect("a fixture is written");
        } else {
            wrong.push(format!("{}\n--- expected\n{expected}--- rendered\n{rendered}", path.display()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(seen >= 20, "only {seen} histories were found");
}
