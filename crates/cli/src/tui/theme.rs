//! The few looks of the terminal dashboard, in the terminal's own sixteen colours, so that they fit any theme. Every
//! state also has a sign and a word, so that the screen is readable without colours.

use ratatui_core::style::{Color, Modifier, Style};

/// The meaning of a piece of text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TextTone {
    Plain,
    /// Less important.
    Dim,
    /// A heading, or a name.
    Strong,
    /// Done and good.
    Good,
    /// Waits for a person or a moment.
    Waiting,
    /// Broken.
    Bad,
    /// Runs now.
    Live,
    /// The place where the reader is.
    Accent,
}

/// Turns a meaning into a look.
#[derive(Debug, Clone, Copy)]
pub(super) struct TuiTheme {
    pub(super) has_colour: bool,
}

impl TuiTheme {
    pub(super) fn style(self, tone: TextTone) -> Style {
        let plain = Style::new();
        let coloured = |colour: Color| if self.has_colour { plain.fg(colour) } else { plain };
        match tone {
            TextTone::Plain => plain,
            TextTone::Dim if self.has_colour => plain.fg(Color::DarkGray),
            TextTone::Dim => plain.add_modifier(Modifier::DIM),
            TextTone::Strong => plain.add_modifier(Modifier::BOLD),
            TextTone::Good => coloured(Color::Green),
            TextTone::Waiting => coloured(Color::Yellow),
            TextTone::Bad => coloured(Color::Red).add_modifier(Modifier::BOLD),
            TextTone::Live => coloured(Color::Cyan),
            TextTone::Accent => coloured(Color::Magenta).add_modifier(Modifier::BOLD),
        }
    }

    /// The selected row.
    pub(super) fn selected(self) -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }
}

/// The sign and the look of a state's word, for loops, rounds and questions alike.
pub(super) fn state_look(word: &str) -> (&'static str, TextTone) {
    match word {
        "running" => ("●", TextTone::Live),
        "waiting" | "medium" => ("◆", TextTone::Waiting),
        "suspended" | "cooling-down" | "rate-limited" | "due" | "escalated" => ("◇", TextTone::Waiting),
        "shipped" | "reported" => ("✓", TextTone::Good),
        "paused" | "stopped" => ("‖", TextTone::Waiting),
        "idle" | "nothing-to-do" | "cancelled" | "interrupted" | "low" => ("·", TextTone::Dim),
        "high" => ("▲", TextTone::Bad),
        _ => ("✗", TextTone::Bad),
    }
}
