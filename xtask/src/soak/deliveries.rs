//! `cargo xtask soak deliveries [--items N] [--worlds N] [--seed S]`: sends items to a fake forge on which every kind of
//! call fails at random, while the program is killed with -9. The soak itself is a test of the command line, which the
//! test command runs with a small number of items; this verb runs it with a large one and shows its figures.

use crate::command::{self, HOSTILE, cargo};

const TEST: &str = "soak::soak_of_deliveries_with_faults_and_kills_shows_each_effect_once";

/// The parsed command line.
pub(crate) struct DeliverySoak {
    items: u64,
    worlds: u64,
    seed: u64,
}

impl DeliverySoak {
    /// Parses `--items N`, `--worlds N` and `--seed S`.
    pub(crate) fn parse(words: &[&str]) -> Result<Self, String> {
        let mut soak = Self { items: 1_000, worlds: 6, seed: std::process::id().into() };
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let number = words.next().and_then(|text| text.parse::<u64>().ok());
            match (*word, number) {
                ("--items", Some(number)) => soak.items = number,
                ("--worlds", Some(number)) => soak.worlds = number,
                ("--seed", Some(number)) => soak.seed = number,
                _ => return Err(format!("soak deliveries takes --items N, --worlds N and --seed S, not `{word}`")),
            }
        }
        Ok(soak)
    }

    pub(crate) fn run(&self) -> Result<(), String> {
        let mut test = cargo();
        test.args(["test", "--quiet", "--workspace", "--features", HOSTILE, "--test", "shipping", "--"]);
        test.args(["--exact", TEST, "--nocapture"]);
        test.env("LOOPWRIGHT_SOAK_DELIVERIES", self.items.to_string());
        test.env("LOOPWRIGHT_SOAK_WORLDS", self.worlds.to_string());
        test.env("LOOPWRIGHT_SOAK_SEED", self.seed.to_string());
        command::run(test)
    }
}
