//! The last resort: a panic is a bug of ours, said as such, with exit code 1 instead of a bare trace.

use std::io::Write as _;

/// In a daemon a panic ends what panicked and nothing else: whoever waits for it hears of it.
pub(crate) fn report_and_continue() {
    std::panic::set_hook(Box::new(|info| {
        let text = format!("error: this is a bug in loopwright: {info}\n");
        let _ = std::io::stderr().write_all(text.as_bytes());
    }));
}

/// Installs the message. Exiting from the hook ends all threads at once; the journal is made for that.
pub(crate) fn report_as_bug() {
    std::panic::set_hook(Box::new(|info| {
        let text =
            format!("error: this is a bug in loopwright: {info}\nhint: please report it with the command you ran\n");
        let _ = std::io::stderr().write_all(text.as_bytes());
        std::process::exit(1);
    }));
}
