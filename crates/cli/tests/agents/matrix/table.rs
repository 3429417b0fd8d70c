//! The rows of the provider table of `docs/guide.md`, with one fault for each.

/// The charge for the answers of a situation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Charge {
    /// The tokens that the model counted.
    Measured,
    /// Those, and for each answer without a usage report at most its request and its text.
    Estimated,
}

/// The time at which the round may be tried again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NextTry {
    Never,
    /// Some time, after a delay of Loopwright's own.
    Later,
    /// This many seconds after the answer, and up to five more.
    After(i64),
}

/// One row of the provider table.
#[derive(Debug, Clone, Copy)]
pub(super) struct Situation {
    pub(super) name: &'static str,
    /// The faults before the role's work. `LONG` stands for a long text; such faults are in several turns, because some
    /// agents continue an answer that was cut.
    pub(super) faults: &'static str,
    pub(super) outcome: &'static str,
    pub(super) exit: i64,
    /// The code of a reason; empty for none.
    pub(super) code: &'static str,
    pub(super) charge: Charge,
    pub(super) next: NextTry,
}

impl Situation {
    /// Whether the next agent of `fallback` gets the work.
    pub(super) fn leads_to_fallback(&self) -> bool {
        !matches!(self.code, "" | "context")
    }

    /// Whether the provider is silent for longer than its limits.
    pub(super) fn is_silence(&self) -> bool {
        matches!(self.name, "no-first-byte" | "hang")
    }
}

const fn row(
    name: &'static str,
    faults: &'static str,
    (outcome, exit, code): (&'static str, i64, &'static str),
    charge: Charge,
    next: NextTry,
) -> Situation {
    Situation { name, faults, outcome, exit, code, charge, next }
}

/// The outcome of a provider that does not work for now.
const fn waits(code: &'static str) -> (&'static str, i64, &'static str) {
    ("rate-limited", 75, code)
}

/// A page in the place of an answer.
const PAGE: &str = "raw text/html <<END\n<!doctype html><html><body>Sign in to the network</body></html>\nEND\n";

/// A stream in no known format.
const MALFORMED: &str = "raw text/event-stream <<END\nevent: nonsense\ndata: {\"type\": oops\n\nEND\n";

/// The table of CONTRACT §14, and of `docs/guide.md`.
pub(super) const TABLE: [Situation; 17] = [
    row("good", "", ("escalated", 10, ""), Charge::Measured, NextTry::Never),
    row("401", "error 401\n", ("failed", 1, "auth"), Charge::Measured, NextTry::Never),
    row("403", "error 403\n", ("failed", 1, "auth"), Charge::Measured, NextTry::Never),
    row("404", "error 404\n", ("failed", 1, "bad-request"), Charge::Measured, NextTry::Never),
    row("429-far", "error 429 retry-after=7200\n", waits("rate-limited"), Charge::Measured, NextTry::After(7200)),
    row("429-near", "error 429 retry-after=1 times=1\n", ("escalated", 10, ""), Charge::Measured, NextTry::Never),
    row("529", "overloaded\n", waits("overloaded"), Charge::Measured, NextTry::Later),
    row("503-far", "error 503 retry-after=7200\n", waits("overloaded"), Charge::Measured, NextTry::After(7200)),
    row("500", "error 500\n", waits("server"), Charge::Measured, NextTry::Later),
    row("page", PAGE, waits("network"), Charge::Measured, NextTry::Later),
    row("malformed", MALFORMED, waits("network"), Charge::Estimated, NextTry::Later),
    row("cut", "cut\nsay LONG\nread calc.py\n", waits("network"), Charge::Estimated, NextTry::Later),
    row("no-first-byte", "silent\n", waits("network"), Charge::Measured, NextTry::Later),
    row("hang", "hang\n", waits("network"), Charge::Estimated, NextTry::Later),
    row("refusal", "refuse times=5\n", ("cannot", 13, "declined"), Charge::Measured, NextTry::Never),
    row(
        "context",
        "error 400 invalid_request_error prompt is too long: 210000 tokens > 200000 maximum\n",
        ("failed", 1, "context"),
        Charge::Measured,
        NextTry::Never,
    ),
    row("402", "error 402 Your credit balance is too low.\n", ("failed", 1, "quota"), Charge::Measured, NextTry::Never),
];
