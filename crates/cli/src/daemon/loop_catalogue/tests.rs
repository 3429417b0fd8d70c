//! A catalogue across changes and restarts.

use super::*;
use loopwright::git::ObjectFormat;
use std::cell::RefCell;
use std::fs;

/// A working copy, and the store's rows of it.
struct World(tempfile::TempDir, RefCell<BTreeMap<String, String>>);

impl World {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a temporary folder"), RefCell::default())
    }

    fn write(&self, file: &str, name: &str, cadence: &str) {
        let folder = self.0.path().join(LOOPS_FOLDER);
        fs::create_dir_all(&folder).expect("a folder");
        let text = format!("---\nname: {name}\nintent: fix it\non: {{ {cadence} }}\n---\n# Maker\nfix\n");
        fs::write(folder.join(file), text).expect("a loop file");
    }

    fn break_file(&self, file: &str) {
        fs::write(self.0.path().join(LOOPS_FOLDER).join(file), "---\nname: [\n").expect("it can be written");
    }

    /// The catalogue of a process that starts now.
    fn catalogue(&self) -> LoopCatalogue {
        let (git_dir, work_tree) = (self.0.path().join(".git"), self.0.path().to_owned());
        let format = ObjectFormat::Sha1;
        let repo = UserRepo { common_dir: git_dir.clone(), git_dir, work_tree, id: "r1".to_owned(), format };
        let row = |(file, text): (&String, &String)| LoopFileRow {
            repo: "r1".to_owned(),
            file: file.clone(),
            text: Some(text.clone()),
        };
        LoopCatalogue::new(repo, self.1.borrow().iter().map(row).collect())
    }

    /// Saves the texts that the store does not have yet; returns their files.
    fn save(&self, catalogue: &mut LoopCatalogue) -> Vec<String> {
        let rows = catalogue.unsaved();
        for LoopFileRow { file, text, .. } in rows.clone() {
            match text {
                Some(text) => self.1.borrow_mut().insert(file, text),
                None => self.1.borrow_mut().remove(&file),
            };
        }
        catalogue.saved();
        rows.into_iter().map(|row| format!("{}{}", if row.text.is_some() { "" } else { "-" }, row.file)).collect()
    }
}

fn ground() -> LoopEntryBuilder {
    LoopEntryBuilder { repo: "r1".into(), zone: "UTC".to_owned(), agents: Vec::new() }
}

fn read(catalogue: &mut LoopCatalogue) -> Vec<LoopFileChange> {
    catalogue.read(&ground()).expect("the folder can be read")
}

fn loops(catalogue: &LoopCatalogue) -> String {
    let shown = |entry: LoopEntry| format!("{} {}", entry.key.name, entry.schedule.describe());
    catalogue.entries().map(shown).collect::<Vec<_>>().join("; ")
}

#[test]
fn only_texts_that_changed_are_saved() {
    let world = World::new();
    world.write("a.md", "a", "every: 15m, push: [main], jitter: 5m");
    world.write("b.md", "b", "daily: '02:30', quiet: '22:00-02:00'");
    let mut first = world.catalogue();
    read(&mut first);
    let before = (loops(&first), first.watched_loops());
    assert_eq!(world.save(&mut first), ["a.md", "b.md"]);
    assert!(world.save(&mut first).is_empty());
    let mut next = world.catalogue();
    read(&mut next);
    assert_eq!((loops(&next), next.watched_loops()), before);
    assert!(world.save(&mut next).is_empty(), "a restart saves nothing again");
    world.write("b.md", "b", "daily: '02:31', quiet: '22:00-02:00'");
    read(&mut next);
    assert_eq!(world.save(&mut next), ["b.md"]);
    fs::remove_file(world.0.path().join(LOOPS_FOLDER).join("a.md")).expect("it is there");
    read(&mut next);
    assert_eq!(world.save(&mut next), ["-a.md"]);
    fs::remove_file(world.0.path().join(LOOPS_FOLDER).join("b.md")).expect("it is there");
    let mut last = world.catalogue();
    read(&mut last);
    assert_eq!((world.save(&mut last), loops(&last)), (vec!["-b.md".to_owned()], String::new()));
}

#[test]
fn two_writes_within_one_tick_of_the_file_clock_are_both_read() {
    let world = World::new();
    let mut catalogue = world.catalogue();
    for minutes in 10..20 {
        world.write("a.md", "a", &format!("every: {minutes}m"));
        read(&mut catalogue);
        assert_eq!(loops(&catalogue), format!("a every {minutes}m"));
    }
}

#[test]
fn a_broken_file_keeps_its_last_good_form_across_a_restart() {
    let world = World::new();
    world.write("a.md", "a", "every: 15m");
    let mut first = world.catalogue();
    read(&mut first);
    world.save(&mut first);
    world.break_file("a.md");
    let mut next = world.catalogue();
    let changes = read(&mut next);
    assert!(matches!(changes.as_slice(), [LoopFileChange::Broken { problem: _, has_good: true }]), "{changes:?}");
    assert_eq!(loops(&next), "a every 15m");
    assert!(world.save(&mut next).is_empty(), "the last good text stays");
    assert!(matches!(next.find("a"), Ok((_, Err(file))) if file == "a.md"));
    assert!(read(&mut next).is_empty(), "a problem is reported once");
    world.write("a.md", "a", "every: 20m");
    assert_eq!(read(&mut next), [LoopFileChange::Fixed("a.md".to_owned())]);
    assert_eq!((loops(&next), world.save(&mut next)), ("a every 20m".to_owned(), vec!["a.md".to_owned()]));
    assert!(matches!(next.find("a"), Ok((_, Ok(spec))) if spec.intent == "fix it"));
}

#[test]
fn files_and_folders_that_cannot_be_read_remove_no_loop() {
    let world = World::new();
    world.write("a.md", "a", "every: 15m");
    world.write("b.md", "b", "every: 20m");
    let mut catalogue = world.catalogue();
    read(&mut catalogue);
    // Links to themselves: they are listed, and the system reports the same error as for a broken disk.
    let folder = world.0.path().join(LOOPS_FOLDER);
    fs::remove_file(folder.join("a.md")).expect("it is there");
    std::os::unix::fs::symlink("a.md", folder.join("a.md")).expect("a link");
    let changes = read(&mut catalogue);
    assert!(matches!(changes.as_slice(), [LoopFileChange::Broken { problem: _, has_good: true }]), "{changes:?}");
    assert_eq!(loops(&catalogue), "a every 15m; b every 20m");
    let aside = world.0.path().join("aside");
    fs::rename(&folder, &aside).expect("it can be moved");
    std::os::unix::fs::symlink("loops", &folder).expect("a link");
    assert!(catalogue.read(&ground()).is_err());
    assert_eq!(loops(&catalogue), "a every 15m; b every 20m");
    fs::remove_file(&folder).expect("it is there");
    assert_eq!(read(&mut catalogue), []);
    assert_eq!(loops(&catalogue), "", "a folder that is gone removes its loops");
}

#[test]
fn a_name_belongs_to_the_file_that_had_it_first() {
    let world = World::new();
    world.write("b.md", "same", "every: 15m");
    let mut catalogue = world.catalogue();
    read(&mut catalogue);
    world.write("a.md", "same", "every: 20m");
    let changes = read(&mut catalogue);
    assert!(matches!(changes.as_slice(), [LoopFileChange::Broken { problem: _, has_good: true }]), "{changes:?}");
    assert_eq!(loops(&catalogue), "same every 15m");
    world.write("b.md", "other", "every: 15m");
    assert!(read(&mut catalogue).is_empty());
    assert_eq!(loops(&catalogue), "same every 20m; other every 15m");
    assert_eq!(catalogue.find("other").expect("a loop").0, format!("{LOOPS_FOLDER}/b.md"));
    assert_eq!(catalogue.find("same").expect("a loop").0, format!("{LOOPS_FOLDER}/a.md"));
}

#[test]
fn many_files_are_read_on_all_cores_and_reported_in_order() {
    const MANY: usize = 199;
    let world = World::new();
    for number in 0..MANY {
        world.write(&format!("{number:04}.md"), &format!("l{number:04}"), "daily: '02:30'");
    }
    let broken = [3, 65, 128, MANY - 1].map(|number| format!("{number:04}.md"));
    broken.iter().for_each(|file| world.break_file(file));
    let mut catalogue = world.catalogue();
    let reported = |changes: Vec<LoopFileChange>| -> Vec<String> {
        let file = |change| match change {
            LoopFileChange::Broken { problem: text, has_good: false } => {
                text.split(':').next().unwrap_or_default().to_owned()
            }
            other => format!("{other:?}"),
        };
        changes.into_iter().map(file).collect()
    };
    assert_eq!(reported(read(&mut catalogue)), broken.each_ref().map(|file| format!("{LOOPS_FOLDER}/{file}")));
    assert_eq!(catalogue.entries().count(), MANY - broken.len());
    assert!(read(&mut catalogue).is_empty(), "a problem is reported once");
    world.write(&broken[0], "back", "daily: '02:30'");
    assert_eq!(read(&mut catalogue), [LoopFileChange::Fixed(broken[0].clone())]);
    assert_eq!(world.save(&mut catalogue).len(), MANY - broken.len() + 1);
}

#[test]
fn a_file_that_vanishes_beside_a_new_one_with_the_same_text_is_pointed_out() {
    let world = World::new();
    world.write("a.md", "a", "every: 15m");
    world.write("b.md", "b", "every: 20m");
    let mut catalogue = world.catalogue();
    assert!(read(&mut catalogue).is_empty());
    world.save(&mut catalogue);
    let remove = |file: &str| fs::remove_file(world.0.path().join(LOOPS_FOLDER).join(file)).expect("it is there");
    let renamed = |from: &str, to: &str| LoopFileChange::Renamed { from: from.to_owned(), to: to.to_owned() };
    remove("a.md");
    world.write("c.md", "c", "every: 15m");
    // Another process finds the same from the texts in the store.
    assert_eq!(read(&mut world.catalogue()), [renamed("a", "c")]);
    assert_eq!(read(&mut catalogue), [renamed("a", "c")]);
    assert!(read(&mut catalogue).is_empty(), "it is reported once");
    // A moved file with the same name is the same loop, and a loop with another text is another one.
    remove("c.md");
    world.write("d.md", "c", "every: 15m");
    remove("b.md");
    world.write("e.md", "e", "every: 25m");
    assert!(read(&mut catalogue).is_empty());
}
