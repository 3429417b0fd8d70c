//! `cargo xtask tidy`: the rules of this repository that no lint covers.

mod dependencies;
mod documents;
mod length;
pub(crate) mod links;
mod names;
mod ratchet;
mod source;
mod weight;
mod wording;
mod words;

use names::NameMeter;
use source::SourceFile;
use wording::WordingMeter;

/// The handling of the recorded numbers.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum LengthRatchet {
    /// Fail if one of them grows.
    Keep,
    /// Record today's numbers.
    Bless,
}

/// Lists every line that holds a phrase of the wording list.
pub(crate) fn list_wording() -> Result<(), String> {
    let root = crate::command::root();
    WordingMeter::read(&root, &SourceFile::all(&root)?)?.print_all();
    Ok(())
}

pub(crate) fn run(ratchet: LengthRatchet) -> Result<(), String> {
    let root = crate::command::root();
    let sources = SourceFile::all(&root)?;
    let mut findings = Vec::new();
    findings.extend(dependencies::check(&root)?);
    findings.extend(words::check(&root, &sources)?);
    findings.extend(documents::check(&root));
    findings.extend(links::check(&root)?);
    length::print_longest(&sources);
    findings.extend(length::check(&root, &sources, ratchet)?);
    weight::print(&sources);
    let (names, wording) = (NameMeter::read(&sources), WordingMeter::read(&root, &sources)?);
    names.print();
    wording.print();
    let numbers = [
        ("shared-names-permille", names.shared_permille()),
        ("wording-comments", wording.comments.len()),
        ("wording-visible", wording.visible.len()),
    ];
    findings.extend(ratchet::check(&root, &numbers, ratchet)?);
    for finding in &findings {
        println!("tidy: {finding}");
    }
    if findings.is_empty() { Ok(()) } else { Err(format!("{} findings", findings.len())) }
}
