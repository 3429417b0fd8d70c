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

    fn folder(&self) -> Folder {
        Folder::open(self.0.path()).expect("the folder can be read")
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
    let (folder, ground) = (world.folder(), ground());
    next.meet(&folder);
    next.recall(&Look { folder: &folder, ground: &ground, now_ms: LATER_MS }).expect("the shelf can be read");
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
    let settled_ms = stamp_of(&world.folder(), "a.md").expect("it is there").settled_ms();
    read(&mut catalogue, settled_ms - 1);
    assert_eq!(loops(&catalogue), "a every 15m");
    assert_eq!(catalogue.stale(&world.folder()), [(0, "a.md".into())], "it is to be read again");
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
fn files_and_folders_that_cannot_be_read_take_no_loop_away() {
    let world = World::new();
    world.write("a.md", "a", "every: 15m");
    world.write("b.md", "b", "every: 20m");
    let mut catalogue = world.catalogue();
    read(&mut catalogue, LATER_MS);
    // Links to themselves: they are listed, and the system says of them what it says of a broken disk.
    let folder = world.0.path().join(FOLDER);
    fs::remove_file(folder.join("a.md")).expect("it is there");
    std::os::unix::fs::symlink("a.md", folder.join("a.md")).expect("a link");
    let changes = read(&mut catalogue, LATER_MS);
    assert!(matches!(changes.as_slice(), [Change::Broken(_, Fallback::LastGood)]), "{changes:?}");
    assert_eq!(loops(&catalogue), "a every 15m; b every 20m");
    let aside = world.0.path().join("aside");
    fs::rename(&folder, &aside).expect("it can be moved");
    std::os::unix::fs::symlink("loops", &folder).expect("a link");
    assert!(catalogue.read(&ground(), LATER_MS).is_err());
    assert_eq!(loops(&catalogue), "a every 15m; b every 20m");
    fs::remove_file(&folder).expect("it is there");
    assert_eq!(read(&mut catalogue, LATER_MS), []);
    assert_eq!(loops(&catalogue), "", "a folder that is gone takes its loops along");
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

#[test]
fn many_files_are_read_on_two_cores_and_told_of_in_order() {
    let world = World::new();
    let many = 3 * AT_A_TIME + 7;
    for number in 0..many {
        world.write(&format!("{number:04}.md"), &format!("l{number:04}"), "daily: '02:30'");
    }
    let broken = [3, AT_A_TIME + 1, 2 * AT_A_TIME, many - 1].map(|number| format!("{number:04}.md"));
    let (first, rest) = broken.split_first().expect("there are some");
    for file in &broken {
        fs::write(world.0.path().join(FOLDER).join(file), "---\nname: [\n").expect("it can be written");
    }
    let mut catalogue = world.catalogue();
    let told = |changes: Vec<Change>| -> Vec<String> {
        let said = |change| match change {
            Change::Broken(text, Fallback::Nothing) => text.split(':').next().unwrap_or_default().to_owned(),
            other => format!("{other:?}"),
        };
        changes.into_iter().map(said).collect()
    };
    assert_eq!(told(read(&mut catalogue, LATER_MS)), broken.each_ref().map(|file| format!("{FOLDER}/{file}")));
    assert_eq!(catalogue.entries().count(), many - broken.len());
    assert!(read(&mut catalogue, LATER_MS).is_empty(), "what was told is not told again");
    world.write(first, "back", "daily: '02:30'");
    assert_eq!(read(&mut catalogue, LATER_MS), [Change::Mended(first.clone())]);
    drop(catalogue);
    assert_eq!(known_next(&world).len(), many - rest.len());
    let mut next = world.catalogue();
    assert_eq!(read(&mut next, LATER_MS).len(), rest.len());
    assert_eq!(next.entries().count(), many - rest.len());
    for name in ["l0000", "back", "l0100"] {
        assert_eq!(next.spec(name, LATER_MS).expect("a loop").1.name, name);
    }
}
