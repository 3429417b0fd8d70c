//! The fixed texts of briefs, as files that people can read. A repository may replace the text of a role. The texts
//! that the engine's rules depend on (how data is fenced, how a verdict is written) are always the built-in ones.

use super::clean::plain;
use crate::spec::Role;

/// The size limit of a repository's own text for a role.
pub const OWN_MAX: usize = 64 << 10;

/// One text of the briefs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BriefText {
    /// The role of a maker.
    Maker,
    /// The role of a checker.
    Checker,
    /// The role of a planner.
    Planner,
    /// The role of an attacker.
    Attacker,
    /// How a checker reviews, if the loop has no `# Checker` of its own.
    Look,
    /// The rules for text of others.
    Data,
    /// How an agent that writes a file returns its verdict.
    AnswerByFile,
    /// How an agent returns its verdict as its last message.
    AnswerByMessage,
}

impl BriefText {
    /// All texts, in the order of briefs.
    pub const ALL: [Self; 8] = [
        Self::Planner,
        Self::Maker,
        Self::Attacker,
        Self::Checker,
        Self::Data,
        Self::AnswerByFile,
        Self::AnswerByMessage,
        Self::Look,
    ];

    /// Its name, its purpose in one line, and the built-in text.
    fn row(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::Maker => ("maker", "the role of a maker", include_str!("maker.md")),
            Self::Checker => ("checker", "the role of a checker", include_str!("checker.md")),
            Self::Planner => ("planner", "the role of a planner", include_str!("planner.md")),
            Self::Attacker => ("attacker", "the role of an attacker", include_str!("attacker.md")),
            Self::Look => {
                let purpose = "how a checker reviews, if the loop has no `# Checker` of its own";
                ("look", purpose, include_str!("look.md"))
            }
            Self::Data => ("data", "the rules for fenced text of others", include_str!("data.md")),
            Self::AnswerByFile => {
                let purpose = "how an agent that writes a file returns its verdict";
                ("answer-by-file", purpose, include_str!("answer-by-file.md"))
            }
            Self::AnswerByMessage => {
                let purpose = "how an agent returns its verdict as its last message";
                ("answer-by-message", purpose, include_str!("answer-by-message.md"))
            }
        }
    }

    /// Its name, which is also the name of its file.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.row().0
    }

    /// Its purpose, in one line.
    #[must_use]
    pub fn summary(self) -> &'static str {
        self.row().1
    }

    /// The built-in text.
    #[must_use]
    pub fn built_in(self) -> &'static str {
        self.row().2
    }

    /// The role whose text a repository may replace; `None` for texts that the engine's rules depend on.
    #[must_use]
    pub fn role(self) -> Option<Role> {
        match self {
            Self::Maker => Some(Role::Maker),
            Self::Checker => Some(Role::Checker),
            Self::Planner => Some(Role::Planner),
            Self::Attacker => Some(Role::Attacker),
            Self::Look | Self::Data | Self::AnswerByFile | Self::AnswerByMessage => None,
        }
    }
}

/// The text of a role, the repository's own or the built-in one, and the rules for data.
pub(super) fn part(text: BriefText, own: Option<&str>) -> Vec<String> {
    let words = own.map_or_else(|| text.built_in().to_owned(), |own| format!("{}\n", plain(own, OWN_MAX)));
    vec![words, BriefText::Data.built_in().to_owned()]
}

/// The channel by which an agent returns its verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum VerdictChannel {
    /// It writes a file.
    #[default]
    File,
    /// Its last message is the verdict.
    Message,
}

impl VerdictChannel {
    pub(super) fn text(self) -> BriefText {
        match self {
            Self::File => BriefText::AnswerByFile,
            Self::Message => BriefText::AnswerByMessage,
        }
    }
}
