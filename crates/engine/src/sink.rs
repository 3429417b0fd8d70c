//! Sinks: receivers of the report when a round comes to rest. A sink informs people; it decides nothing, and its
//! failure loses nothing, because the round and its report are on record before it is called.

use loopwright_core::report::RoundReport;
use std::io::{self, Write};

/// Receives the reports of a loop's rounds.
///
/// It is called each time a round comes to rest and [`RoundReport::should_deliver`] is true: at every end, and when a
/// round starts to wait for a person. Automatic deliveries are reported like everything else; only a round that found
/// no work is silent. If an engine dies between the record and this call, the call is not repeated, so a sink that must
/// not miss a round reads the store instead.
pub trait LoopSink: Send + Sync {
    /// Delivers one report. It runs between two rounds and should not block for long.
    ///
    /// # Errors
    /// When the report did not arrive. The round's outcome does not change: the error is published as
    /// [`EventKind::SinkFailed`](crate::events::EventKind::SinkFailed), and the caller still gets the report.
    fn deliver(&self, report: &RoundReport) -> Result<(), SinkError>;
}

/// A report that did not arrive.
#[derive(Debug, thiserror::Error)]
#[error("deliver the round's report: {0}")]
pub struct SinkError(String);

impl SinkError {
    /// An error with the sink's message.
    #[must_use]
    pub fn new(why: impl Into<String>) -> Self {
        Self(why.into())
    }
}

impl From<io::Error> for SinkError {
    fn from(error: io::Error) -> Self {
        Self(error.to_string())
    }
}

/// Writes each report as Markdown to standard output.
#[derive(Debug, Clone, Copy, Default)]
pub struct StdoutSink;

impl LoopSink for StdoutSink {
    fn deliver(&self, report: &RoundReport) -> Result<(), SinkError> {
        write_report(&mut io::stdout().lock(), report)
    }
}

/// One report, and an empty line that separates it from the next.
fn write_report(out: &mut dyn Write, report: &RoundReport) -> Result<(), SinkError> {
    out.write_all(report.render().as_bytes())?;
    out.write_all(b"\n")?;
    Ok(out.flush()?)
}
