//! The zone of this machine by its name: `TZ`, else where `/etc/localtime` leads, else UTC. A loop that names a zone does not
//! ask.

use super::Context;
use std::path::Path;

/// Where names of the zone database begin in a path.
const DATABASE: &str = "zoneinfo/";

impl Context {
    /// The zone that a loop without `timezone` means.
    pub(crate) fn system_zone(&self) -> String {
        let named = self.env.tz.as_deref().map(|tz| tz.trim_start_matches(':'));
        // A rule in the manner of POSIX (`CET-1CEST`) has no name; the machine's own zone is nearer to it than nothing.
        let named = named.filter(|tz| is_name(tz)).map(|tz| after_database(tz).unwrap_or(tz).to_owned());
        named.or_else(|| linked(Path::new("/etc/localtime"))).unwrap_or_else(|| "UTC".to_owned())
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

/// Whether it looks like a name of the database and not like a rule.
fn is_name(text: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/_-+".contains(c);
    let is_rule = text.chars().any(|c| c.is_ascii_digit()) && !text.contains('/');
    !text.is_empty() && text.chars().all(plain) && !is_rule
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_told_from_rules_and_paths_lead_to_names() {
        assert!(is_name("Europe/Berlin") && is_name("UTC") && is_name("Etc/GMT+5"));
        assert!(!is_name("CET-1CEST,M3.5.0") && !is_name("EST5EDT4") && !is_name(""));
        assert_eq!(after_database("/usr/share/zoneinfo/posix/Asia/Tokyo"), Some("Asia/Tokyo"));
        assert_eq!(after_database("/etc/localtime"), None);
    }
}
