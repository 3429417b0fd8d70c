//! Seeded random numbers: the same seed and the same calls give the same numbers. Not for secrets.

/// The random numbers of one run (SplitMix64).
pub(super) struct SeededRandom(u64);

/// The odd golden-ratio constant that SplitMix64 adds in each step.
const STEP: u64 = 0x9E37_79B9_7F4A_7C15;

impl SeededRandom {
    pub(super) fn new(seed: u64, play: usize) -> Self {
        let mut dice = Self(seed ^ (play as u64).wrapping_mul(STEP));
        dice.next();
        dice
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(STEP);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// One of these at random; `None` if the slice is empty. Slices are short against 2^64, so the bias of the
    /// remainder is negligible.
    pub(super) fn choose<'a, T>(&mut self, all: &'a [T]) -> Option<&'a T> {
        let count = u64::try_from(all.len()).ok().filter(|count| *count > 0)?;
        all.get(usize::try_from(self.next() % count).ok()?)
    }
}
