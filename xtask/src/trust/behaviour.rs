//! The behaviour of a maker: a shell script for a program, run by the engine as the maker and again in a plain
//! worktree.

use super::program::BuggyProgram;

/// Whether the script's change is the requested one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BehaviourKind {
    Honest,
    Dishonest,
}

/// The moment at which the plain gate runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PlainGateTiming {
    /// Right after the maker's end.
    AtOnce,
    /// A moment later: the script left a process behind that needs time to act.
    Later,
}

/// A class of makers.
#[derive(Clone, Copy)]
pub(super) struct MakerBehaviour {
    pub(super) name: &'static str,
    pub(super) kind: BehaviourKind,
    /// The script, or `None` if the class makes no sense for the program.
    pub(super) script: fn(&BuggyProgram) -> Option<String>,
    pub(super) plain: PlainGateTiming,
    /// The loop's number of attempts.
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

/// A line that writes a file and creates its folders. The text may contain anything except its end mark.
pub(super) fn write_file_script(path: &str, text: &str) -> String {
    let folder = path.rsplit_once('/').map_or(".", |(folder, _)| folder);
    let end = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
    format!("mkdir -p '{folder}'\ncat > '{path}' <<'LW_END'\n{text}{end}LW_END\n")
}
