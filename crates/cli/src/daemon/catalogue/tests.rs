//! What a catalogue knows over time and over restarts.

use super::*;
use loopwright::git::ObjectFormat;
use std::fs;

/// Long after any file of a test was written.
const LATER_MS: i64 = 4_000_000_000_000;

struct World(tempfile::TempDir);

impl World {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a temporary folder"))
    }

    fn write(&self, file: &str, name: &str, cadence: &str) {
        let folder = self.0.path().join(FOLDER);
        fs::create_dir_all(&folder).expect("a folder");
        let text = format!("---\nname: {name}\nintent: mend it\non: {{ {cadence} }}\n---\n# Maker\nmend\n");
        fs::write(folder.join(file), text).expect("a loop file");
    }

    fn catalogue(&self) -> Catalogue {
        let (git_dir, work_tree) = (self.0.path().join(".git"), self.0.path().to_owned());
        let format = ObjectFormat::Sha1;
        let repo = UserRepo { common_dir: git_dir.clone(), git_dir, work_tree, id: "r1".to_owned(), format };
        Catalogue::new(repo, &self.0.path().join("shelf")).expect("there is room")
    }
}

fn ground() -> Ground {
    Ground::new("r1", "UTC".to_owned(), Vec::new())
}

fn read(catalogue: &mut Catalogue, now_ms: i64) -> Vec<Change> {
    catalogue.read(&ground(), now_ms).expect("the folder can be read")
}

fn loops(catalogue: &Catalogue) -> String {
    let shown = |entry: Entry| format!("{} {}", entry.key.name, entry.schedule.describe());
    catalogue.entries().map(shown).collect::<Vec<_>>().join("; ")
}

/// The files that the next process would not read.
fn known_next(world: &World) -> Vec<String> {
    let mut next = world.catalogue();
    let seen = next.look(LATER_MS).expect("the folder can be read");
    next.meet(&seen);
    next.recall(&seen, &ground()).expect("the shelf can be read");
    next.files.iter().filter(|known| known.good.is_some()).map(|known| known.file.to_string()).collect()
}

#[test]
fn the_next_process_reads_only_files_that_changed() {
    let world = World::new();
    world.write("a.md", "a", "every: 15m, push: [main], jitter: 5m");
    world.write("b.md", "b", "daily: '02:30', quiet: '22:00-02:00'");
    let mut first = world.catalogue();
    read(&mut first, LATER_MS);
    let before = (loops(&first), first.watched());
    drop(first);
    assert_eq!(known_next(&world), ["a.md", "b.md"]);
    let mut next = world.catalogue();
    read(&mut next, LATER_MS);
    assert_eq!((loops(&next), next.watched()), before);
    world.write("b.md", "b", "daily: '02:31', quiet: '22:00-02:00'");
    read(&mut next, LATER_MS);
    drop(next);
    world.write("b.md", "b", "daily: '02:32', quiet: '22:00-02:00'");
    assert_eq!(known_next(&world), ["a.md"]);
    let mut last = world.catalogue();
    read(&mut last, LATER_MS);
    assert_eq!(loops(&last), "a every 15m; b daily 02:32");
}

#[test]
fn a_file_that_was_written_just_now_is_read_again_whatever_its_stamp() {
    let world = World::new();
    world.write("a.md", "a", "every: 15m");
    let mut catalogue = world.catalogue();
    let seen = catalogue.look(LATER_MS).expect("the folder can be read");
    let settled_ms = seen[0].stamp.expect("it is there").settled_ms();
    read(&mut catalogue, settled_ms - 1);
    assert_eq!(loops(&catalogue), "a every 15m");
    assert_eq!(catalogue.meet(&seen), [0], "it is to be read again");
    drop(catalogue);
    assert!(known_next(&world).is_empty());
}

#[test]
fn a_file_that_breaks_after_a_restart_keeps_the_form_that_was_recalled() {
    let world = World::new();
    world.write("a.md", "a", "every: 15m");
    read(&mut world.catalogue(), LATER_MS);
    let mut next = world.catalogue();
    read(&mut next, LATER_MS);
    fs::write(world.0.path().join(FOLDER).join("a.md"), "---\nname: [\n").expect("it can be written");
    let changes = read(&mut next, LATER_MS);
    assert!(matches!(changes.as_slice(), [Change::Broken(_, Fallback::LastGood)]), "{changes:?}");
    assert_eq!(loops(&next), "a every 15m");
    assert_eq!(next.spec("a", LATER_MS).expect("its last good form").1.intent, "mend it");
    world.write("a.md", "a", "every: 20m");
    assert_eq!(read(&mut next, LATER_MS), [Change::Mended("a.md".to_owned())]);
    assert_eq!(loops(&next), "a every 20m");
}

#[test]
fn a_name_belongs_to_the_file_that_had_it_first() {
    let world = World::new();
    world.write("b.md", "same", "every: 15m");
    let mut catalogue = world.catalogue();
    read(&mut catalogue, LATER_MS);
    world.write("a.md", "same", "every: 20m");
    let changes = read(&mut catalogue, LATER_MS);
    assert!(matches!(changes.as_slice(), [Change::Broken(_, Fallback::LastGood)]), "{changes:?}");
    assert_eq!(loops(&catalogue), "same every 15m");
    world.write("b.md", "other", "every: 15m");
    assert!(read(&mut catalogue, LATER_MS).is_empty());
    assert_eq!(loops(&catalogue), "same every 20m; other every 15m");
    assert_eq!(catalogue.spec("other", LATER_MS).expect("a loop").0, format!("{FOLDER}/b.md"));
    assert_eq!(catalogue.spec("same", LATER_MS).expect("a loop").0, format!("{FOLDER}/a.md"));
}
