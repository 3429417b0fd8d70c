//! The same walls on macOS, as far as Seatbelt has them: a profile for `sandbox-exec`, as text. Not compiled into a start
//! and not tested on macOS: this crate builds for Linux only, and only the text is tested here.
//!
//! Seatbelt has no mounts and no namespaces: places stay where the host has them (an overlay is a private copy there), the
//! network's door is the proxy's socket, and nobody is hidden, only out of reach.

use crate::confine::{Confine, Network, What};
use std::fmt::Write;
use std::path::Path;

/// What every program reads to start at all.
const SYSTEM: &[&str] = &[
    "/System",
    "/Library/Developer",
    "/Library/Frameworks",
    "/usr",
    "/bin",
    "/sbin",
    "/opt/homebrew",
    "/private/etc/ssl",
    "/private/var/db/timezone",
    "/private/var/select",
    "/dev/null",
    "/dev/zero",
    "/dev/random",
    "/dev/urandom",
];

/// Where the host's secrets lie even when a place above them was given.
const NEVER: &[&str] = &["/private/etc/master.passwd", "/private/var/db/dslocal", "/Library/Keychains"];

/// The profile that holds a program to `confine`, for `sandbox-exec -p`.
pub fn profile(confine: &Confine) -> String {
    let mut text = String::from("(version 1)\n(deny default)\n(deny mach-lookup)\n");
    text.push_str("(allow process-fork process-exec)\n(allow signal (target same-sandbox))\n");
    text.push_str("(allow sysctl-read)\n(allow file-read-metadata)\n");
    SYSTEM.iter().for_each(|path| allow(&mut text, "file-read*", Path::new(path)));
    text.push_str("(allow file-write-data (literal \"/dev/null\"))\n");
    confine.mounts.iter().for_each(|mount| places(&mut text, &mount.at, &mount.what));
    network(&mut text, &confine.network);
    NEVER.iter().for_each(|path| rule(&mut text, "deny", "file*", Path::new(path)));
    text
}

fn places(text: &mut String, at: &Path, what: &What) {
    match what {
        What::ReadOnly(path) => allow(text, "file-read*", path),
        What::Writable(path) => allow(text, "file-read* file-write*", path),
        // What Linux puts into memory or layers, the caller has made as a folder at that very place.
        What::Memory(_) | What::Overlay { .. } => allow(text, "file-read* file-write*", at),
        What::Layers(_) | What::File(_) => allow(text, "file-read*", at),
    }
}

fn network(text: &mut String, network: &Network) {
    text.push_str("(deny network*)\n");
    match network {
        Network::None => {}
        Network::Door { socket, port } => {
            let _ = writeln!(text, "(allow network-outbound (literal {}))", quoted(socket));
            let _ = writeln!(text, "(allow network-outbound (remote ip \"localhost:{port}\"))");
        }
        Network::Host => text.push_str("(allow network*)\n"),
    }
}

fn allow(text: &mut String, what: &str, path: &Path) {
    rule(text, "allow", what, path);
}

fn rule(text: &mut String, verb: &str, what: &str, path: &Path) {
    let _ = writeln!(text, "({verb} {what} (subpath {}))", quoted(path));
}

/// A string of the profile's language. What it cannot say becomes a path that is nowhere, which allows nothing.
fn quoted(path: &Path) -> String {
    match path.to_str().filter(|text| !text.chars().any(char::is_control)) {
        Some(text) => format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"")),
        None => "\"/nowhere\"".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn profile_denies_by_default_and_allows_only_what_is_given() {
        let mut confine = Confine::default();
        confine.mount("/items", What::ReadOnly("/state/items".into()));
        confine.mount("/workspace", What::Writable("/state/w".into()));
        let text = profile(&confine);
        assert!(text.starts_with("(version 1)\n(deny default)\n"), "{text}");
        assert!(text.contains("(allow file-read* (subpath \"/state/items\"))"), "{text}");
        assert!(text.contains("(allow file-read* file-write* (subpath \"/state/w\"))"), "{text}");
        assert!(text.contains("(deny network*)") && !text.contains("(allow network"), "{text}");
        assert!(!text.contains("/Users") && !text.contains("(allow default)"), "{text}");
        let last = text.lines().last().unwrap_or_default();
        assert!(last.starts_with("(deny file*"), "the last rule that matches wins: {text}");
    }

    #[test]
    fn door_opens_the_proxy_alone() {
        let network = Network::Door { socket: "/s/proxy".into(), port: 3128 };
        let text = profile(&Confine { network, ..Confine::default() });
        assert!(text.contains("(allow network-outbound (literal \"/s/proxy\"))"), "{text}");
        assert!(text.contains("\"localhost:3128\"") && !text.contains("(allow network*)"), "{text}");
    }

    #[test]
    fn names_cannot_break_out_of_their_quotes() {
        let mut confine = Confine::default();
        confine.mount("/x", What::Writable("/a\") (allow default) (\"".into()));
        confine.mount("/y", What::Writable("/line\nbreak".into()));
        let text = profile(&confine);
        assert!(text.contains(r#"(subpath "/a\") (allow default) (\"")"#), "{text}");
        assert!(text.contains("\"/nowhere\"") && !text.contains("/line"), "{text}");
    }
}
