//! Times of forges.

/// Milliseconds since 1970 of a time as forges write it; 0 for an unreadable one, which only shows a wrong age.
pub(crate) fn unix_ms(text: &str) -> i64 {
    text.parse::<jiff::Timestamp>().map_or(0, |time| time.as_millisecond())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_all_forges_are_read() {
        assert_eq!(unix_ms("2023-11-14T22:13:20Z"), 1_700_000_000_000);
        assert_eq!(unix_ms("2023-11-14T22:13:20.500+00:00"), 1_700_000_000_500);
        assert_eq!(unix_ms("2023-11-15T00:13:20+02:00"), 1_700_000_000_000);
        assert_eq!(unix_ms("never"), 0);
    }
}
