//! The zone of this machine by its name: `TZ`, else the target of `/etc/localtime`, else UTC. A loop that names a zone
//! does not use it. The machine's zone database is used where it is newer than the built-in one.

use super::CommandContext;
use loopwright_core::cadence::{bundled_zones_release, prefer_zones};
use std::io::Read as _;
use std::path::{Path, PathBuf};

/// Names of the zone database that look like rules.
const NAMED_RULES: [&str; 5] = ["EST5EDT", "CST6CDT", "MST7MDT", "PST8PDT", "GMT0"];

/// The folder in a path after which the name of a zone begins.
const DATABASE: &str = "zoneinfo/";

/// The usual folder of the database.
const FOLDER: &str = "/usr/share/zoneinfo";

/// The most bytes that are read of a zone's file; the largest has four thousand.
const ZONE_MAX: u64 = 1 << 20;

impl CommandContext {
    /// Takes the zones of this machine's database if its release is newer than the built-in one.
    pub(crate) fn prefer_newer_zones(&self) {
        let folder = PathBuf::from(self.env.tz_folder.as_deref().unwrap_or(FOLDER));
        if release(&folder).is_some_and(|release| release.as_str() > bundled_zones_release()) {
            prefer_zones(Box::new(move |name| read_file(&folder.join(name), ZONE_MAX).filter(|file| has_rule(file))));
        }
    }

    /// The zone of a loop without `timezone`.
    pub(crate) fn system_zone(&self) -> String {
        let named = self.env.tz.as_deref().and_then(named);
        named.or_else(|| linked(Path::new("/etc/localtime"))).unwrap_or_else(|| "UTC".to_owned())
    }
}

/// Whether a zone's file has a rule for the future: a file of the first version has none, and in a later one the footer
/// between the last two line ends may be empty.
fn has_rule(file: &[u8]) -> bool {
    let is_later = file.starts_with(b"TZif") && file.get(4) >= Some(&b'2');
    is_later && file.ends_with(b"\n") && !file.ends_with(b"\n\n")
}

/// The release of a database by its first line, `# version 2026e`.
fn release(folder: &Path) -> Option<String> {
    let bytes = read_file(&folder.join("tzdata.zi"), 64)?;
    let text = String::from_utf8_lossy(&bytes);
    let release = text.lines().next()?.strip_prefix("# version ")?.trim();
    let is_release = release.len() >= 5 && release.chars().take(4).all(|c| c.is_ascii_digit());
    is_release.then(|| release.to_owned())
}

fn read_file(path: &Path, most: u64) -> Option<Vec<u8>> {
    let file = std::fs::File::open(path).ok().filter(|file| file.metadata().is_ok_and(|meta| meta.is_file()))?;
    let mut bytes = Vec::new();
    file.take(most).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

/// The zone that `TZ` names. A POSIX rule (`CET-1CEST`) has no name, and neither has a path to no file; then the
/// machine's own zone is the best guess.
fn named(tz: &str) -> Option<String> {
    let tz = tz.trim_start_matches(':');
    match after_database(tz) {
        Some(name) => Some(name.to_owned()).filter(|name| is_name(name)),
        // `:/etc/localtime` is common: it saves the C library a check at every call.
        None if tz.starts_with('/') => linked(Path::new(tz)),
        None => Some(tz.to_owned()).filter(|tz| is_name(tz) && tz != "localtime"),
    }
}

fn linked(path: &Path) -> Option<String> {
    let target = std::fs::canonicalize(path).ok()?;
    after_database(target.to_str()?).filter(|name| is_name(name)).map(str::to_owned)
}

fn after_database(path: &str) -> Option<&str> {
    let (_, name) = path.split_once(DATABASE)?;
    // Some hosts keep variants of the whole database below it.
    Some(name.strip_prefix("posix/").or_else(|| name.strip_prefix("right/")).unwrap_or(name))
}

/// Whether the text is a name of the zone database and not a rule.
fn is_name(text: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/_-+".contains(c);
    let is_rule = text.chars().any(|c| c.is_ascii_digit()) && !text.contains('/') && !NAMED_RULES.contains(&text);
    !text.is_empty() && text.chars().all(plain) && !is_rule
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_differ_from_rules_and_paths_lead_to_names() {
        assert!(is_name("Europe/Berlin") && is_name("UTC") && is_name("Etc/GMT+5"));
        assert!(!is_name("CET-1CEST,M3.5.0") && !is_name("EST5EDT4") && !is_name(""));
        assert_eq!(after_database("/usr/share/zoneinfo/posix/Asia/Tokyo"), Some("Asia/Tokyo"));
        assert_eq!(after_database("/etc/localtime"), None);
    }

    #[test]
    fn a_file_without_a_rule_for_the_future_is_left_out() {
        assert!(has_rule(b"TZif2...\nUTC0\n"));
        assert!(!has_rule(b"TZif2...\n\n"), "an empty rule");
        assert!(!has_rule(b"TZif\0...") && !has_rule(b"TZif2...\nUTC0") && !has_rule(b""));
    }

    #[test]
    fn every_form_of_tz_names_a_zone_or_defaults_to_the_machine() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let database = folder.path().join("zoneinfo/Asia");
        std::fs::create_dir_all(&database).expect("folders can be made");
        std::fs::write(database.join("Tokyo"), "").expect("it can be written");
        let link = folder.path().join("localtime");
        std::os::unix::fs::symlink(database.join("Tokyo"), &link).expect("it can be linked");
        let link = format!(":{}", link.display());
        let table = [
            ("Europe/Berlin", Some("Europe/Berlin")),
            (":Europe/Berlin", Some("Europe/Berlin")),
            ("/usr/share/zoneinfo/Asia/Tokyo", Some("Asia/Tokyo")),
            (link.as_str(), Some("Asia/Tokyo")),
            (":/nowhere/localtime", None),
            ("localtime", None),
            ("EST5EDT", Some("EST5EDT")),
            ("CET-1CEST", None),
        ];
        for (tz, zone) in table {
            assert_eq!(named(tz).as_deref(), zone, "{tz}");
        }
    }
}
