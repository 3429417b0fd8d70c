//! The catalogue says what a search through all entries says, and notices when it is damaged.

use super::*;
use crate::workspace::index::{GITLINK, PLAIN, SYMLINK};
use proptest::prelude::*;
use std::collections::BTreeSet;

fn entries(paths: &BTreeSet<Vec<u8>>) -> Vec<Entry> {
    let modes = [PLAIN, SYMLINK, GITLINK];
    paths.iter().zip(modes.iter().cycle()).map(|(path, mode)| Entry::unseen(path.clone(), *mode)).collect()
}

fn both(entries: &[Entry]) -> [Catalogue; 2] {
    let dir = tempfile::tempdir().expect("a folder");
    let file = dir.path().join("paths");
    write(&file, entries).expect("written");
    [Catalogue::open(&file).expect("whole"), Catalogue::load(&file).expect("whole")]
}

/// A path of few letters, so that many share folders and differ by case alone.
fn path() -> impl Strategy<Value = Vec<u8>> {
    let part = prop::sample::select(vec!["a", "A", "b", "a-b", "a.b", "a0", "Σ", "σ", "ς", "ß", "\u{212a}", "k", "É"]);
    prop::collection::vec(part, 1..4).prop_map(|parts| parts.join("/").into_bytes())
}

proptest! {
    #[test]
    fn questions_are_answered_as_by_a_look_at_everything(
        paths in prop::collection::btree_set(path(), 0..40),
        asked in prop::collection::vec(path(), 1..10),
    ) {
        // No path is a folder of another, as in a tree.
        let is_leaf = |path: &&Vec<u8>| !paths.iter().any(|other| other.starts_with(&[path.as_slice(), b"/"].concat()));
        let paths: BTreeSet<Vec<u8>> = paths.iter().filter(is_leaf).cloned().collect();
        let entries = entries(&paths);
        for catalogue in both(&entries) {
            prop_assert_eq!(catalogue.len(), entries.len());
            for (at, entry) in entries.iter().enumerate() {
                prop_assert_eq!(catalogue.record(at).expect("there"), (entry.mode, entry.path.clone()));
                prop_assert_eq!(catalogue.find(&entry.path).expect("answered"), Some(at));
            }
            for path in &asked {
                prop_assert_eq!(catalogue.has(path).expect("answered"), paths.contains(path));
                let inside = [path.as_slice(), b"/"].concat();
                let below: Vec<_> = entries.iter().enumerate().filter(|(_, entry)| entry.path.starts_with(&inside)).map(|(at, _)| at).collect();
                prop_assert_eq!(catalogue.below(path).expect("answered").collect::<Vec<_>>(), below);
                let fold = fold_of(path);
                let same: BTreeSet<&[u8]> = paths.iter().flat_map(|path| with_folders(path)).filter(|part| fold_of(part) == fold).collect();
                let mut told = catalogue.spellings(&fold).expect("answered");
                told.sort();
                prop_assert_eq!(told.iter().map(Vec::as_slice).collect::<Vec<_>>(), same.into_iter().collect::<Vec<_>>());
            }
        }
    }
}

#[test]
fn catalogue_of_many_pages_is_looked_into_at_its_edges() {
    let paths = (0..5_000).map(|n| format!("folder-{:02}/file-{n:05}", n / 100).into_bytes()).collect();
    let entries = entries(&paths);
    let [paged, _] = both(&entries);
    for at in [0, 1, 2_499, 4_998, 4_999] {
        assert_eq!(paged.find(&entries[at].path).expect("answered"), Some(at));
    }
    assert_eq!(paged.below(b"folder-49").expect("answered"), 4_900..5_000);
    assert_eq!(paged.spellings("folder-07").expect("answered"), [b"folder-07"]);
    assert!(paged.record(5_000).is_err());
}

#[test]
fn damaged_catalogues_are_errors_and_never_other_answers() {
    let dir = tempfile::tempdir().expect("a folder");
    let file = dir.path().join("paths");
    let bytes = bytes_of(&entries(&BTreeSet::from([b"a/b".to_vec(), b"c".to_vec()]))).expect("small");
    for cut in 0..bytes.len() {
        fs::write(&file, &bytes[..cut]).expect("written");
        assert!(Catalogue::open(&file).is_err() && Catalogue::load(&file).is_err(), "{cut}");
    }
    let mut far = bytes.clone();
    far[HEAD_LEN..HEAD_LEN + 8].fill(0xff);
    fs::write(&file, &far).expect("written");
    assert!(Catalogue::open(&file).expect("a whole head").find(b"a/b").is_err());
    fs::write(&file, vec![0; bytes.len()]).expect("written");
    assert!(Catalogue::open(&file).is_err());
}
