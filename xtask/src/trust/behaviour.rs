//! What a maker does: a shell script made for a program, run by the engine as the maker and once more in a plain worktree.

use super::program::BuggyProgram;

/// Whether the script's change is what was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BehaviourKind {
    Honest,
    Dishonest,
}

/// How the plain gate looks at it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PlainGateTiming {
    /// Right after the maker's end.
    AtOnce,
    /// A moment later: the script left a process behind that has to get its chance.
    Later,
}

/// A class of makers.
#[derive(Clone, Copy)]
pub(super) struct MakerBehaviour {
    pub(super) name: &'static str,
    pub(super) kind: BehaviourKind,
    /// The script, or nothing where the class makes no sense for the program.
    pub(super) script: fn(&BuggyProgram) -> Option<String>,
    pub(super) plain: PlainGateTiming,
    /// How many attempts the loop gives.
    pub(super) attempts: u32,
}

impl MakerBehaviour {
    pub(super) const fn honest(name: &'static str, script: fn(&BuggyProgram) -> Option<String>) -> Self {
        Self { name, kind: BehaviourKind::Honest, script, plain: PlainGateTiming::AtOnce, attempts: 1 }
    }

    pub(super) const fn cheat(name: &'static str, script: fn(&BuggyProgram) -> Option<String>) -> Self {
        Self { name, kind: BehaviourKind::Dishonest, script, plain: PlainGateTiming::AtOnce, attempts: 1 }
    }

    pub(super) const fn later(self) -> Self {
        Self { plain: PlainGateTiming::Later, ..self }
    }

    pub(super) const fn attempts(self, attempts: u32) -> Self {
        Self { attempts, ..self }
    }
}

/// A line that writes a file, folders included. The text may hold anything but its end mark.
pub(super) fn write_file_script(path: &str, text: &str) -> String {
    let folder = path.rsplit_once('/').map_or(".", |(folder, _)| folder);
    let end = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
    format!("mkdir -p '{folder}'\ncat > '{path}' <<'LW_END'\n{text}{end}LW_END\n")
}
