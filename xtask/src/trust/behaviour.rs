//! The behaviour of a maker: a shell script for a program, run by the engine as the maker and again in a plain
//! worktree.

use super::maker_table::TableMaker;
use super::program::BuggyProgram;

/// Whether the script's change is the requested one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BehaviourKind {
    Honest,
    Dishonest,
    /// The requested change, with an addition that needs a person.
    Harmful,
}

/// The checks of a loop beside its gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum TrustMode {
    /// Neither withheld tests nor held-out cases.
    Plain,
    /// Base has more tests, and the default withholds some of them.
    Withheld,
    /// The loop names held-out cases.
    HeldOut,
}

impl TrustMode {
    pub(super) const ALL: [Self; 3] = [Self::Plain, Self::Withheld, Self::HeldOut];

    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Plain => "without",
            Self::Withheld => "withheld",
            Self::HeldOut => "heldout",
        }
    }
}

/// The origin of a class's script.
#[derive(Clone, Copy)]
pub(super) enum MakerScript {
    Code(fn(&BuggyProgram) -> Option<String>),
    Table(TableMaker),
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
    script: MakerScript,
    /// Modes whose checks cannot see the lie: a run that ships there is counted, and is no fault.
    escapes: &'static str,
    pub(super) plain: PlainGateTiming,
    /// The loop's number of attempts.
    pub(super) attempts: u32,
}

impl MakerBehaviour {
    pub(super) const fn honest(name: &'static str, script: fn(&BuggyProgram) -> Option<String>) -> Self {
        Self {
            name,
            kind: BehaviourKind::Honest,
            script: MakerScript::Code(script),
            escapes: "",
            plain: PlainGateTiming::AtOnce,
            attempts: 1,
        }
    }

    pub(super) const fn cheat(name: &'static str, script: fn(&BuggyProgram) -> Option<String>) -> Self {
        Self {
            name,
            kind: BehaviourKind::Dishonest,
            script: MakerScript::Code(script),
            escapes: "",
            plain: PlainGateTiming::AtOnce,
            attempts: 1,
        }
    }

    /// A class of a table.
    pub(super) fn from_table(maker: TableMaker) -> Self {
        let (name, kind, escapes) = (maker.name, maker.kind, maker.escapes);
        Self { name, kind, script: MakerScript::Table(maker), escapes, plain: PlainGateTiming::AtOnce, attempts: 1 }
    }

    /// The script, or `None` if the class makes no sense for the program.
    pub(super) fn script(&self, program: &BuggyProgram) -> Option<String> {
        match self.script {
            MakerScript::Code(script) => script(program),
            MakerScript::Table(maker) => maker.script(program),
        }
    }

    /// Whether no check of this mode can see the lie.
    pub(super) fn escapes(&self, mode: TrustMode) -> bool {
        self.escapes.split_whitespace().any(|word| word == mode.word())
    }

    pub(super) const fn escaping(self, escapes: &'static str) -> Self {
        Self { escapes, ..self }
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
