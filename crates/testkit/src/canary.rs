//! Values that are planted where no agent may read them, and the search for every trace of them afterwards.

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A random value. If it appears anywhere, it was read from the place where it was planted.
#[derive(Debug, Clone)]
pub struct Canary {
    value: String,
    forms: Vec<Vec<u8>>,
}

impl Canary {
    /// Creates a unique value.
    pub fn new() -> Self {
        let mut bytes = [0_u8; 15];
        let random = fs::File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut bytes));
        random.expect("the kernel gives random bytes");
        let value = format!("cnry{}", bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>());
        Self { forms: forms(&value), value }
    }

    /// The value, to be planted.
    pub fn value(&self) -> &str {
        &self.value
    }

    /// Whether bytes contain it: plain, in hexadecimal, in base64, reversed, or in UTF-16.
    pub fn is_in(&self, bytes: &[u8]) -> bool {
        self.forms.iter().any(|form| bytes.windows(form.len()).any(|window| window == form))
    }

    /// All files and git objects below a folder that contain it, including names and links.
    pub fn find_below(&self, folder: &Path) -> Vec<String> {
        let mut found = Vec::new();
        self.search(folder, &mut found);
        found
    }

    /// Panics with the places if there are any.
    #[track_caller]
    pub fn assert_nowhere(&self, folder: &Path) {
        let places = self.find_below(folder);
        assert!(places.is_empty(), "a planted secret turned up in {places:?}");
    }

    fn search(&self, folder: &Path, found: &mut Vec<String>) {
        if folder.join("objects").is_dir() && folder.join("HEAD").exists() && self.is_in(&objects(folder)) {
            found.push(format!("objects of {}", folder.display()));
        }
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            let kind = entry.file_type().ok();
            let target = fs::read_link(&path).unwrap_or_default();
            let named = [path.file_name().map(PathBuf::from).unwrap_or_default(), target];
            let in_name = named.iter().any(|name| self.is_in(name.as_os_str().as_encoded_bytes()));
            let is_file = kind.is_some_and(|kind| kind.is_file());
            if in_name || is_file && fs::read(&path).is_ok_and(|bytes| self.is_in(&bytes)) {
                found.push(path.display().to_string());
            }
            if kind.is_some_and(|kind| kind.is_dir()) {
                self.search(&path, found);
            }
        }
    }
}

impl Default for Canary {
    fn default() -> Self {
        Self::new()
    }
}

fn forms(value: &str) -> Vec<Vec<u8>> {
    let hex: String = value.bytes().map(|byte| format!("{byte:02x}")).collect();
    let wide: Vec<u8> = value.bytes().flat_map(|byte| [byte, 0]).collect();
    let backwards: String = value.chars().rev().collect();
    let mut forms = vec![value.into(), hex.to_uppercase().into(), hex.into_bytes(), wide, backwards.into_bytes()];
    // The three offsets within base64's groups; letters that also depend on neighbours are omitted.
    forms.extend((0..3).map(|skipped| base64(&value.as_bytes()[skipped..])));
    forms
}

/// The letters of whole groups only.
fn base64(bytes: &[u8]) -> Vec<u8> {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let group = |three: &[u8]| {
        let bits = u32::from(three[0]) << 16 | u32::from(three[1]) << 8 | u32::from(three[2]);
        [18, 12, 6, 0].map(|shift| LETTERS[(bits >> shift & 63) as usize])
    };
    bytes.chunks_exact(3).flat_map(group).collect()
}

/// All objects of a repository, inflated, including unreferenced ones.
fn objects(repository: &Path) -> Vec<u8> {
    let mut command = Command::new("git");
    command.arg("--git-dir").arg(repository).args(["-c", "safe.directory=*", "cat-file"]);
    command.args(["--batch-all-objects", "--batch", "--buffer"]).stdin(Stdio::null()).env_clear();
    command.envs([("PATH", crate::TRUSTED_PATH), ("GIT_CONFIG_NOSYSTEM", "1"), ("GIT_CONFIG_GLOBAL", "/dev/null")]);
    command.output().expect("git can be started").stdout
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TestRepo;

    #[test]
    fn canary_is_found_in_files_names_links_and_objects() {
        let canary = Canary::new();
        let repo = TestRepo::new();
        repo.write("a.txt", format!("x{}y", canary.value())).commit("with it");
        repo.remove("a.txt").commit("without it");
        let found = canary.find_below(repo.path());
        assert_eq!(found, [format!("objects of {}", repo.path().join(".git").display())]);
        repo.write(&format!("deep/{}", canary.value()), "").write("deep/b.txt", canary.value());
        std::os::unix::fs::symlink(canary.value(), repo.path().join("deep/link")).expect("a link can be made");
        assert_eq!(canary.find_below(&repo.path().join("deep")).len(), 3);
    }

    #[test]
    fn canary_is_found_in_other_encodings() {
        let canary = Canary::new();
        let text = format!("user:{}:rest", canary.value());
        let hex: String = text.bytes().map(|byte| format!("{byte:02x}")).collect();
        assert!(canary.is_in(hex.as_bytes()));
        for padding in ["", "x", "xx"] {
            assert!(canary.is_in(&base64(format!("{padding}{text}..").as_bytes())), "{padding}");
        }
        assert!(canary.is_in(text.chars().rev().collect::<String>().as_bytes()));
        assert!(!canary.is_in(Canary::new().value().as_bytes()));
    }
}
