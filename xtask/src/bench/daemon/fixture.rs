//! The fixture of a daemon under measurement: ten thousand loop files, a store with a million events, and the shell
//! script that a crontab would run over the same loops.

use super::super::rounds::{BenchRepo, write};
use super::super::worker::fill_store;
use super::super::{BenchSetup, StorageMedium};
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// The numbers of loops and of past events.
pub(super) const LOOPS: usize = 10_000;
pub(super) const EVENTS: usize = 1_000_000;

/// One pass as users write it: over all loops, two queries for each file, one read of the clock. The seed starts `jq`,
/// `awk` and `date` for each loop; this script starts `grep` twice.
const TICK: &str = r#"now=$(date +%s) clock=$(date +%H:%M)
for file in "$1"/*.md; do
  name=${file##*/} name=${name%.md}
  cadence=$(grep -m1 -E '^  (every|daily|weekly|cron):' "$file")
  last=$(grep -o '[0-9][0-9]*' "$2/$name.json")
  case $cadence in
    *every:*) span=${cadence##*: } span=${span%d}
      [ "$now" -ge $((last + span * 86400)) ] && echo "$name" ;;
    *"$clock"*) echo "$name" ;;
  esac
done
exit 0
"#;

/// The repository of the loops.
pub(super) struct DaemonFixture {
    pub(super) world: BenchRepo,
    /// The store before any daemon opened it.
    full: PathBuf,
    folder: PathBuf,
}

impl DaemonFixture {
    /// Loops that are due at another time of day than now, and a filled store, or a copy of one.
    pub(super) fn new(bed: &BenchSetup, medium: StorageMedium, other: Option<&Self>) -> Result<Self, String> {
        let world = BenchRepo::new(bed, "daemon", 1, medium)?;
        let folder = world.repo.join(".loopwright/loops");
        fs::remove_dir_all(&folder).map_err(|error| format!("remove the usual loops: {error}"))?;
        let from = minute_of_day() + 120;
        for number in 0..LOOPS {
            write(&folder.join(format!("loop-{number:05}.md")), &loop_file(number, from))?;
        }
        let full = world.state.with_file_name("full.db");
        let field = Self { world, full, folder };
        match other {
            Some(other) => copy(&other.full, &field.full)?,
            None => {
                fill_store(&bed.worker, &field.world.state, EVENTS)?;
                copy(&field.world.state.join("store.db"), &field.full)?;
            }
        }
        Ok(field)
    }

    /// Restores the store as it was before any daemon opened it.
    pub(super) fn reset_store(&self) -> Result<(), String> {
        let state = &self.world.state;
        let _ = fs::remove_dir_all(state);
        fs::create_dir_all(state).map_err(|error| format!("make `{}`: {error}", state.display()))?;
        copy(&self.full, &state.join("store.db"))
    }

    /// Adds one loop.
    pub(super) fn add(&self, name: &str, rest: &str) -> Result<(), String> {
        let text = format!(
            "---\nname: {name}\nintent: Be due.\nlevel: L1\ncheck: none\nattempts: 1\n{rest}---\n# Maker\nBe due.\n"
        );
        write(&self.folder.join(format!("{name}.md")), &text)
    }

    /// Removes one loop.
    pub(super) fn remove(&self, name: &str) -> Result<(), String> {
        fs::remove_file(self.folder.join(format!("{name}.md"))).map_err(|error| format!("remove a loop: {error}"))
    }

    /// The script's pass over the first `loops` loops.
    pub(super) fn tick(&self, loops: usize) -> Result<Command, String> {
        let place = self.world.state.with_file_name("tick");
        let script = place.join("tick.sh");
        write(&script, TICK)?;
        for number in 0..loops {
            let name = format!("loop-{number:05}");
            write(&place.join(format!("state/{name}.json")), "{\"last_run\": 1790000000}\n")?;
            copy(&self.folder.join(format!("{name}.md")), &place.join(format!("loops/{name}.md")))?;
        }
        let mut command = Command::new("/bin/sh");
        command.arg(script).args([place.join("loops"), place.join("state")]);
        command.env_clear().env("PATH", "/usr/local/bin:/usr/bin:/bin").env("TZ", "UTC").stdin(Stdio::null());
        Ok(command)
    }
}

/// Four kinds of cadence. No loop is due within two hours from now.
fn loop_file(number: usize, from: usize) -> String {
    let at = (from + number % 1_200) % 1_440;
    let (hour, minute) = (at / 60, at % 60);
    let on = match number % 4 {
        0 => format!("  daily: \"{hour:02}:{minute:02}\""),
        1 => format!("  weekly: \"mon,thu {hour:02}:{minute:02}\""),
        2 => format!("  cron: \"{minute} {hour} * * 1-5\""),
        _ => "  every: 365d".to_owned(),
    };
    format!(
        "---\nname: loop-{number:05}\nintent: Keep part {number} of the house in order.\nlevel: L1\non:\n{on}\ncheck: none\n\
         agents:\n  maker: {{ use: command, run: [/bin/true] }}\nbudget:\n  day: {{ usd: 2 }}\n---\n# Maker\nLook at part \
         {number} and say what is out of order. Change nothing.\n"
    )
}

fn minute_of_day() -> usize {
    let seconds = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |span| span.as_secs());
    (seconds % 86_400 / 60) as usize
}

fn copy(from: &PathBuf, to: &PathBuf) -> Result<(), String> {
    let made = to.parent().map_or(Ok(()), fs::create_dir_all);
    made.and_then(|()| fs::copy(from, to)).map(drop).map_err(|error| format!("copy to `{}`: {error}", to.display()))
}
