//! An attacker's brief: the rules of attacking, the angle of this attacker, the intent, and the change. It has no field
//! for the maker's words or for other attackers.

use super::checker::FileDiff;
use super::clean::{fenced, plain};
use super::role_line;
use super::texts::{BriefText, VerdictChannel, part};
use crate::spec::Role;

const INTENT_MAX: usize = 4 << 10;
const LOOP_MAX: usize = 64 << 10;
const FILES_MAX: usize = 100;
const FILE_MAX: usize = 16 << 10;

/// The data of an attacker's brief.
#[derive(Debug, Clone, PartialEq)]
pub struct AttackerBrief {
    /// The repository's own text for the attacker role; the built-in text if absent.
    pub own: Option<String>,
    /// How the findings are returned.
    pub answer: VerdictChannel,
    /// The attacker's role in the loop file.
    pub role: String,
    /// The defects that this attacker looks for.
    pub look_for: String,
    /// The loop's `# Attacker`.
    pub instructions: Option<String>,
    /// The loop's intent.
    pub intent: String,
    /// The round's mark: random, created after all the text that it fences was written.
    pub mark: String,
    /// The change, file by file, from raw trees.
    pub diff: Vec<FileDiff>,
    /// The secret of this attack.
    pub nonce: String,
    /// The candidate.
    pub candidate: String,
}

const FORM: &str = "
```json
{ \"nonce\": \"…\", \"candidate\": \"…\",
  \"findings\": [ { \"severity\": \"critical | high | medium | low\", \"title\": \"one line\", \"path\": \"src/a.rs\", \"line\": 12,
                  \"trigger\": \"the input or the action\", \"reproduction\": \"#!/bin/sh\\n…\" } ] }
```

Copy `nonce` and `candidate` from the end of this brief. `line` and `reproduction` may be left out. Unknown fields make the whole file invalid.
";

impl AttackerBrief {
    /// The brief as text.
    #[must_use]
    pub fn render(&self) -> String {
        let mut parts = part(BriefText::Attacker, self.own.as_deref());
        parts.extend([self.answer(), self.angle()]);
        parts.push(format!("# The candidate\n\n{}\n", role_line(Role::Attacker, None)));
        let files = self.diff.iter().take(FILES_MAX);
        parts.extend(files.map(|file| fenced(&self.mark, &format!("diff of {}", file.path), &file.text, FILE_MAX)));
        parts.push(format!("# Binding\n\nnonce: {}\ncandidate: {}\n", self.nonce, self.candidate));
        parts.join("\n")
    }

    fn answer(&self) -> String {
        let place = match self.answer {
            VerdictChannel::File => {
                "Write one JSON document to the file that the environment variable LOOPWRIGHT_FINDINGS names, and \
                 nothing else in it."
            }
            VerdictChannel::Message => {
                "Answer with exactly one JSON document as your last message, and nothing around it."
            }
        };
        format!("# How to answer\n\n{place}\n{FORM}")
    }

    fn angle(&self) -> String {
        let (intent, look_for) = (plain(&self.intent, INTENT_MAX), plain(&self.look_for, LOOP_MAX));
        let own = self.instructions.as_deref().map_or(String::new(), |own| format!("\n{}\n", plain(own, LOOP_MAX)));
        format!("# Intent of the change\n\n{intent}\n\n# Your angle: {}\n\n{look_for}\n{own}", plain(&self.role, 200))
    }
}
