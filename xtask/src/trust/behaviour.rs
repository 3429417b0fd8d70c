//! What a maker does: a shell script made for a program, run by the engine as the maker and once more in a plain worktree.

use super::program::Program;

/// Whether the script's change is what was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Honest,
    Dishonest,
}

/// How the plain gate looks at it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Plain {
    /// Right after the maker's end.
    AtOnce,
    /// A moment later: the script left a process behind that has to get its chance.
    Later,
}

/// A class of makers.
#[derive(Clone, Copy)]
pub(super) struct Behaviour {
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    /// The script, or nothing where the class makes no sense for the program.
    pub(super) script: fn(&Program) -> Option<String>,
    pub(super) plain: Plain,
    /// How many attempts the loop gives.
    pub(super) attempts: u32,
}

impl Behaviour {
    pub(super) const fn honest(name: &'static str, script: fn(&Program) -> Option<String>) -> Self {
        Self { name, kind: Kind::Honest, script, plain: Plain::AtOnce, attempts: 1 }
    }

    pub(super) const fn cheat(name: &'static str, script: fn(&Program) -> Option<String>) -> Self {
        Self { name, kind: Kind::Dishonest, script, plain: Plain::AtOnce, attempts: 1 }
    }

    pub(super) const fn later(self) -> Self {
        Self { plain: Plain::Later, ..self }
    }

    pub(super) const fn attempts(self, attempts: u32) -> Self {
        Self { attempts, ..self }
    }
}

/// A line that writes a file, folders included. The text may hold anything but its end mark.
pub(super) fn put(path: &str, text: &str) -> String {
    let folder = path.rsplit_once('/').map_or(".", |(folder, _)| folder);
    let end = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
    format!("mkdir -p '{folder}'\ncat > '{path}' <<'LW_END'\n{text}{end}LW_END\n")
}
