//! The terminal while the dashboard has it: raw input and the alternate screen. Every way out restores it: the end of the
//! program, an error, a signal, and a panic.

use crate::error::CommandError;
use ratatui_core::terminal::Terminal;
use ratatui_crossterm::CrosstermBackend;
use ratatui_crossterm::crossterm::cursor::{Hide, Show};
use ratatui_crossterm::crossterm::execute;
use ratatui_crossterm::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use std::io::{self, Stdout};
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether the terminal has to be restored.
static IS_ACTIVE: AtomicBool = AtomicBool::new(false);

/// The terminal as a screen; it is restored when this is dropped.
pub(super) struct TerminalSession {
    pub(super) terminal: Terminal<CrosstermBackend<Stdout>>,
}

impl TerminalSession {
    pub(super) fn open() -> Result<Self, CommandError> {
        let failed = |error: io::Error| CommandError::failed(format!("use the terminal: {error}"));
        // Set first, so that a failure of a later step restores it too.
        IS_ACTIVE.store(true, Ordering::SeqCst);
        let opened = enable_raw_mode()
            .and_then(|()| execute!(io::stdout(), EnterAlternateScreen, Hide))
            .and_then(|()| Terminal::new(CrosstermBackend::new(io::stdout())));
        match opened {
            Ok(terminal) => Ok(Self { terminal }),
            Err(error) => {
                restore();
                Err(failed(error))
            }
        }
    }
}

impl Drop for TerminalSession {
    fn drop(&mut self) {
        restore();
    }
}

/// Restores the terminal, once. A terminal that is gone needs nothing.
pub(super) fn restore() {
    if IS_ACTIVE.swap(false, Ordering::SeqCst) {
        let _ = disable_raw_mode();
        let _ = execute!(io::stdout(), LeaveAlternateScreen, Show);
    }
}
