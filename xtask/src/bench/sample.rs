//! Repeated times of one operation: median, minimum, slope.

use std::time::Instant;

/// The times of one operation, one for each round.
#[derive(Debug, Clone)]
pub(super) struct TimeSamples(Vec<f64>);

impl TimeSamples {
    /// An empty sample.
    pub(super) const fn new() -> Self {
        Self(Vec::new())
    }

    /// Adds a time in seconds.
    pub(super) fn push(&mut self, seconds: f64) {
        self.0.push(seconds);
    }

    /// Runs the function and adds its duration.
    pub(super) fn time<T>(&mut self, work: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
        let begun = Instant::now();
        let answer = work()?;
        self.push(begun.elapsed().as_secs_f64());
        Ok(answer)
    }

    /// The median.
    pub(super) fn median(&self) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
    }

    /// The given percentile.
    pub(super) fn percentile(&self, of_hundred: usize) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        let at = (sorted.len() * of_hundred).div_ceil(100).saturating_sub(1);
        sorted.get(at).copied().unwrap_or(f64::NAN)
    }

    /// The number of times.
    pub(super) fn count(&self) -> usize {
        self.0.len()
    }

    /// The smallest.
    pub(super) fn min(&self) -> f64 {
        self.0.iter().copied().fold(f64::INFINITY, f64::min)
    }
}

/// The exponent b of cost = a·N^b, by least squares over the logarithms.
pub(super) fn slope(points: &[(f64, f64)]) -> f64 {
    let logs: Vec<(f64, f64)> = points.iter().map(|(n, cost)| (n.ln(), cost.ln())).collect();
    let count = logs.len() as f64;
    let (mean_x, mean_y) =
        (logs.iter().map(|(x, _)| x).sum::<f64>() / count, logs.iter().map(|(_, y)| y).sum::<f64>() / count);
    let above: f64 = logs.iter().map(|(x, y)| (x - mean_x) * (y - mean_y)).sum();
    let below: f64 = logs.iter().map(|(x, _)| (x - mean_x).powi(2)).sum();
    above / below
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn median_and_minimum_are_of_the_sorted_times() {
        let samples = TimeSamples(vec![3.0, 1.0, 2.0, 9.0, 2.5]);
        assert_eq!((samples.median(), samples.min()), (2.5, 1.0));
        assert_eq!((samples.percentile(50), samples.percentile(99), samples.count()), (2.5, 9.0, 5));
    }

    #[test]
    fn slope_of_a_line_is_one_and_of_a_constant_zero() {
        assert!((slope(&[(10.0, 2.0), (100.0, 20.0), (1000.0, 200.0)]) - 1.0).abs() < 1e-9);
        assert!(slope(&[(10.0, 2.0), (1000.0, 2.0)]).abs() < 1e-9);
    }
}
