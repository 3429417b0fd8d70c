//! `cargo xtask tidy`: the rules of the house that no lint knows.

mod arrows;
mod length;
mod papers;
mod source;
mod words;

use source::Source;

/// What to do with the list of long functions.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Ratchet {
    /// Fail when a function grows past the limit.
    Keep,
    /// Write today's long functions down.
    Bless,
}

pub(crate) fn run(ratchet: Ratchet) -> Result<(), String> {
    let root = crate::command::root();
    let sources = Source::all(&root)?;
    let mut findings = Vec::new();
    findings.extend(arrows::check(&root)?);
    findings.extend(words::check(&root, &sources)?);
    findings.extend(papers::check(&root));
    length::print_longest(&sources);
    findings.extend(length::check(&root, &sources, ratchet)?);
    for finding in &findings {
        println!("tidy: {finding}");
    }
    if findings.is_empty() { Ok(()) } else { Err(format!("{} findings", findings.len())) }
}
