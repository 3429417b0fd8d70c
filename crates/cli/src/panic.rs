//! The last resort: a panic is a bug of ours and is reported as one, with exit code 1 instead of a bare trace.

use std::io::Write as _;

/// In a daemon, a panic ends only the task that panicked; its caller gets an error.
pub(crate) fn report_and_continue() {
    std::panic::set_hook(Box::new(|info| {
        let text = format!("error: this is a bug in loopwright: {info}\n");
        let _ = std::io::stderr().write_all(text.as_bytes());
    }));
}

/// Installs the panic message. Exiting from the hook ends all threads at once; the journal is designed for that.
pub(crate) fn report_as_bug() {
    std::panic::set_hook(Box::new(|info| {
        crate::tui::restore_terminal();
        let text =
            format!("error: this is a bug in loopwright: {info}\nhint: please report it with the command you ran\n");
        let _ = std::io::stderr().write_all(text.as_bytes());
        std::process::exit(1);
    }));
}
