//! The local forge's files: numbered without races, written whole or not at all, found again by key. This module does
//! not interpret their content.
//!
//! A file appears in two steps under one lock: first a pointer `by-key/<key>` that names the file's path, then the file
//! itself in one rename. The draft of the file disappears last. A crash leaves no pointer, a pointer with a draft, or a
//! pointer and its file. The next attempt replaces a pointer with a draft and no file. A pointer without both belongs to
//! an item that was delivered and that a person deleted: it stays deleted.

use crate::seam::{Seam, SeamFault};
use crate::state_dir::open_plain;
use crate::workspace::private_dir;
use loopwright_core::deliver::DeliveryReceipt;
use serde::{Deserialize, Serialize};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

/// The longest file: a text and 100 comments with their front matter stay far below.
const PAGE_BYTES_MAX: u64 = 8 << 20;

/// The place of a new file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum PageSlot {
    /// `<folder>/<n>.md`, with the next free number.
    Page(&'static str),
    /// `<folder>/<target>/<nnnn>-<word>.md`, with the next free number below the target.
    Below(&'static str, String, &'static str),
    /// `issues/<n>/0001-issue.md`, with the next free issue number.
    NewIssue,
    /// The file at this path, which gets a new content.
    Replaced(String),
}

/// The path of a key's file, and its receipt.
#[derive(Debug, Serialize, Deserialize)]
struct Pointer {
    path: String,
    head: Option<String>,
    at_ms: i64,
}

/// A local forge's folder.
#[derive(Debug, Clone)]
pub(super) struct ForgeFolder {
    pub(super) root: PathBuf,
    pub(super) seam: Seam,
}

/// A file to publish under a key.
pub(super) struct PublishRequest {
    pub(super) key: String,
    pub(super) marker: String,
    pub(super) slot: PageSlot,
    pub(super) page: String,
    pub(super) head: Option<String>,
    pub(super) at_ms: i64,
}

impl ForgeFolder {
    /// The receipt of a key whose file exists.
    pub(super) fn find(&self, key: &str, marker: &str) -> io::Result<Option<DeliveryReceipt>> {
        let Some(pointer) = self.pointer(key)? else { return Ok(None) };
        let was_delivered = self.holds(&pointer.path, marker)? || !self.has_draft(key)?;
        Ok(was_delivered.then(|| self.receipt(pointer)))
    }

    /// Publishes a file once for each key: a second call returns the first receipt.
    pub(super) fn publish(&self, new: &PublishRequest) -> io::Result<DeliveryReceipt> {
        let _lock = self.lock()?;
        if let Some(receipt) = self.find(&new.key, &new.marker)? {
            return Ok(receipt);
        }
        let draft = self.draft(new)?;
        // A program that ignores our lock may take a number; then the next one is tried.
        for path in self.candidates(&new.slot)? {
            let pointer = Pointer { path, head: new.head.clone(), at_ms: new.at_ms };
            self.step("forge.pointer", || self.point(&new.key, &pointer))?;
            match self.step("forge.file", || self.place(&draft, &pointer.path, &new.slot)) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
                Ok(()) => {
                    fs::remove_file(&draft)?;
                    return Ok(self.receipt(pointer));
                }
            }
        }
        Err(io::Error::other("no free number"))
    }

    /// A page by its path below the root.
    pub(super) fn read(&self, path: &str) -> io::Result<Option<String>> {
        match open_plain(&self.root.join(path)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
            Ok(file) => {
                let mut bytes = Vec::new();
                file.take(PAGE_BYTES_MAX).read_to_end(&mut bytes)?;
                Ok(Some(String::from_utf8_lossy(&bytes).into_owned()))
            }
        }
    }

    fn receipt(&self, pointer: Pointer) -> DeliveryReceipt {
        let place = self.root.join(pointer.path).display().to_string();
        DeliveryReceipt { place, head: pointer.head, at_ms: pointer.at_ms, note: None }
    }

    /// One deliverer holds it at a time; the kernel releases it when the holder dies.
    fn lock(&self) -> io::Result<File> {
        private_dir(&self.root)?;
        let file = options().open(self.root.join("lock"))?;
        file.lock()?;
        Ok(file)
    }

    fn pointer(&self, key: &str) -> io::Result<Option<Pointer>> {
        // A pointer that cannot be read counts as missing: it is written before the file, in one rename.
        Ok(self.read(&format!("by-key/{key}"))?.and_then(|text| serde_json::from_str(&text).ok()))
    }

    fn holds(&self, path: &str, marker: &str) -> io::Result<bool> {
        Ok(self.read(path)?.is_some_and(|page| page.contains(marker)))
    }

    fn draft_path(&self, key: &str) -> PathBuf {
        self.root.join("tmp").join(key)
    }

    fn has_draft(&self, key: &str) -> io::Result<bool> {
        fs::exists(self.draft_path(key))
    }

    /// The whole page under a temporary name, flushed to the disk.
    fn draft(&self, new: &PublishRequest) -> io::Result<PathBuf> {
        let draft = self.draft_path(&new.key);
        write_synced(&draft, new.page.as_bytes())?;
        Ok(draft)
    }

    fn point(&self, key: &str, pointer: &Pointer) -> io::Result<()> {
        let text = serde_json::to_vec(pointer).map_err(io::Error::other)?;
        let draft = self.root.join("tmp").join(format!("{key}.pointer"));
        write_synced(&draft, &text)?;
        let place = self.root.join("by-key").join(key);
        make_parent(&place)?;
        fs::rename(&draft, &place)?;
        sync_parent(&place)
    }

    fn place(&self, draft: &Path, path: &str, slot: &PageSlot) -> io::Result<()> {
        match slot {
            PageSlot::Replaced(_) => self.replace(draft, path),
            PageSlot::Page(_) | PageSlot::Below(..) | PageSlot::NewIssue => self.appear(draft, path),
        }
    }

    /// Links the draft to its final name, unless that name is taken.
    fn appear(&self, draft: &Path, path: &str) -> io::Result<()> {
        let place = self.root.join(path);
        make_parent(&place)?;
        fs::hard_link(draft, &place)?;
        sync_parent(&place)
    }

    /// Gives the draft the name of an existing file, in one step.
    fn replace(&self, draft: &Path, path: &str) -> io::Result<()> {
        let (place, copy) = (self.root.join(path), draft.with_extension("copy"));
        write_synced(&copy, &fs::read(draft)?)?;
        fs::rename(&copy, &place)?;
        sync_parent(&place)
    }

    /// Free paths for a slot, lowest first.
    fn candidates(&self, slot: &PageSlot) -> io::Result<impl Iterator<Item = String>> {
        const TRIES: u64 = 100;
        let folder = match slot {
            PageSlot::Page(folder) => (*folder).to_owned(),
            PageSlot::Below(folder, target, _) => format!("{folder}/{target}"),
            PageSlot::NewIssue => "issues".to_owned(),
            PageSlot::Replaced(path) => path.clone(),
        };
        if let PageSlot::Replaced(_) = slot {
            return Ok(vec![folder].into_iter());
        }
        let next = highest(&self.root.join(&folder))? + 1;
        let path = |number: u64| match slot {
            PageSlot::Page(_) | PageSlot::Replaced(_) => format!("{folder}/{number}.md"),
            PageSlot::Below(_, _, word) => format!("{folder}/{number:04}-{word}.md"),
            PageSlot::NewIssue => format!("{folder}/{number}/0001-issue.md"),
        };
        Ok((next..next.saturating_add(TRIES)).map(path).collect::<Vec<_>>().into_iter())
    }

    fn step(&self, site: &'static str, work: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        let fault = |fault: SeamFault| io::Error::other(fault);
        self.seam.before(site).map_err(fault)?;
        work()?;
        self.seam.after(site).map_err(fault)
    }
}

/// The highest number that a name in the folder starts with: `12.md`, `12/` and `0012-comment.md` are all 12.
fn highest(folder: &Path) -> io::Result<u64> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
        entries => entries?,
    };
    let mut highest = 0;
    for entry in entries {
        let name = entry?.file_name().to_string_lossy().into_owned();
        let digits: String = name.chars().take_while(char::is_ascii_digit).collect();
        highest = highest.max(digits.parse().unwrap_or(0));
    }
    Ok(highest)
}

fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    options
}

fn write_synced(path: &Path, bytes: &[u8]) -> io::Result<()> {
    make_parent(path)?;
    // A draft of a crashed attempt may already be linked to a published page: it is unlinked, never overwritten.
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = options().open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

fn make_parent(path: &Path) -> io::Result<()> {
    let parent = path.parent().unwrap_or(path);
    if parent.is_dir() {
        return Ok(());
    }
    private_dir(parent)?;
    sync_parent(parent)
}

fn sync_parent(path: &Path) -> io::Result<()> {
    File::open(path.parent().unwrap_or(path))?.sync_all()
}
