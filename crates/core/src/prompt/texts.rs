//! The words of briefs that are the same for everybody, as files that people can read. A repository may bring its own words
//! for a role; what the engine's rules rest on (how data is fenced, how a verdict is given) always comes from here.

use super::clean::plain;
use crate::spec::Role;

/// The largest text that a repository may bring for a role.
pub const OWN_MAX: usize = 64 << 10;

/// One text of the briefs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BriefText {
    /// What a maker is told about its part.
    Maker,
    /// What a checker is told about its part.
    Checker,
    /// How a checker looks, where the loop has no `# Checker` of its own.
    Look,
    /// What text of others is, and is not.
    Data,
    /// How a verdict is given by an agent that writes a file.
    AnswerByFile,
    /// How a verdict is given by an agent that is listened to.
    AnswerByMessage,
}

impl BriefText {
    /// Every text, in the order of briefs.
    pub const ALL: [Self; 6] =
        [Self::Maker, Self::Checker, Self::Data, Self::AnswerByFile, Self::AnswerByMessage, Self::Look];

    /// Its name, which is its file's too.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Maker => "maker",
            Self::Checker => "checker",
            Self::Look => "look",
            Self::Data => "data",
            Self::AnswerByFile => "answer-by-file",
            Self::AnswerByMessage => "answer-by-message",
        }
    }

    /// What it is for, in a line.
    #[must_use]
    pub fn summary(self) -> &'static str {
        match self {
            Self::Maker => "what a maker is told about its part",
            Self::Checker => "what a checker is told about its part",
            Self::Look => "how a checker looks, where the loop has no `# Checker` of its own",
            Self::Data => "what fenced text of others is, and is not",
            Self::AnswerByFile => "how a verdict is given by an agent that writes a file",
            Self::AnswerByMessage => "how a verdict is given as a last message",
        }
    }

    /// The words.
    #[must_use]
    pub fn built_in(self) -> &'static str {
        match self {
            Self::Maker => include_str!("maker.md"),
            Self::Checker => include_str!("checker.md"),
            Self::Look => include_str!("look.md"),
            Self::Data => include_str!("data.md"),
            Self::AnswerByFile => include_str!("answer-by-file.md"),
            Self::AnswerByMessage => include_str!("answer-by-message.md"),
        }
    }

    /// The role for which a repository may bring other words; none for what rules rest on.
    #[must_use]
    pub fn role(self) -> Option<Role> {
        match self {
            Self::Maker => Some(Role::Maker),
            Self::Checker => Some(Role::Checker),
            Self::Look | Self::Data | Self::AnswerByFile | Self::AnswerByMessage => None,
        }
    }
}

/// A role's words about its part, its own or the built-in ones, and what is said of data to everybody.
pub(super) fn part(text: BriefText, own: Option<&str>) -> Vec<String> {
    let words = own.map_or_else(|| text.built_in().to_owned(), |own| format!("{}\n", plain(own, OWN_MAX)));
    vec![words, BriefText::Data.built_in().to_owned()]
}

/// How an agent gives its verdict.
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
