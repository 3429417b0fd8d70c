//! The operating system's user behind a command. The environment does not count: any process can set `USER`.

use super::read_bytes;
use loopwright::Actor;
use std::path::Path;

/// The kernel's number for a user that it does not know here.
const UNKNOWN_UID: u32 = 65_534;

/// The user of this process. Inside a user namespace that maps users, the caller chooses its own number, so every such caller
/// is the same unknown user.
pub(super) fn own_uid() -> u32 {
    let map = read_bytes(Path::new("/proc/self/uid_map")).unwrap_or_default();
    if is_identity(&String::from_utf8_lossy(&map)) { rustix::process::getuid().as_raw() } else { UNKNOWN_UID }
}

/// Whether a `uid_map` leaves every user as it is: one range from 0 to 0 over all numbers.
fn is_identity(map: &str) -> bool {
    map.split_whitespace().eq(["0", "0", "4294967295"])
}

/// A user as the record names it: by its entry in the password database, or `uid:1234` where there is none.
pub(super) fn actor(uid: u32) -> Actor {
    let table = read_bytes(Path::new("/etc/passwd")).unwrap_or_default();
    let name = name_of(&String::from_utf8_lossy(&table), uid);
    Actor::user(&name.unwrap_or_else(|| format!("uid:{uid}")), uid)
}

/// The first entry counts, as it does for `getpwuid`.
fn name_of(table: &str, uid: u32) -> Option<String> {
    table.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next().filter(|name| !name.is_empty())?;
        (fields.nth(1)?.parse() == Ok(uid)).then(|| name.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_entry_of_a_uid_names_it_and_broken_lines_do_not() {
        let table = "root:x:0:0::/root:/bin/sh\n:x:7::\nada\nada:x:7:7::/home/ada:/bin/sh\neve:x:7:7::/:/bin/sh\n";
        let cases = [(0, Some("root")), (7, Some("ada")), (8, None)];
        for (uid, name) in cases {
            assert_eq!(name_of(table, uid).as_deref(), name, "{uid}");
        }
    }

    #[test]
    fn only_a_map_without_changes_lets_a_process_name_its_user() {
        assert!(is_identity("         0          0 4294967295\n"));
        for map in ["", "         2       1000          1\n", "0 0 4294967295\n1 1 1\n", "0 1 4294967295\n"] {
            assert!(!is_identity(map), "{map}");
        }
    }

    #[test]
    fn a_user_without_an_entry_is_named_by_its_number() {
        assert_eq!(actor(u32::MAX - 7).name(), format!("uid:{}", u32::MAX - 7));
    }
}
