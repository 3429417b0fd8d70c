//! The zone of this machine by its name: `TZ`, else the target of `/etc/localtime`, else UTC. A loop that names a zone
//! does not use it.

use super::CommandContext;
use std::path::Path;

/// Names of the zone database that look like rules.
const NAMED_RULES: [&str; 5] = ["EST5EDT", "CST6CDT", "MST7MDT", "PST8PDT", "GMT0"];

/// The folder in a path after which the name of a zone begins.
const DATABASE: &str = "zoneinfo/";

impl CommandContext {
    /// The zone of a loop without `timezone`.
    pub(crate) fn system_zone(&self) -> String {
        let named = self.env.tz.as_deref().and_then(named);
        named.or_else(|| linked(Path::new("/etc/localtime"))).unwrap_or_else(|| "UTC".to_owned())
    }
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
