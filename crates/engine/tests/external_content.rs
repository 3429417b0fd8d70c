//! Submodules and large files in workspaces, as copies and as overlays on the real kernel: their content comes from the
//! user's own clones and LFS store, their pointers are sealed as they are, and every edit is refused with its path.
#![expect(clippy::unwrap_used, reason = "tests")]

mod git_fixture;
mod overlay_fixture;

use std::fs;
use std::path::Path;

use git_fixture::{Fixture, git, refusals, seal, statuses, write};
use loopwright::workspace::{
    CheckoutMethod, ExternalContent, SnapshotKind, Workspace, WorkspaceError, WorkspaceOptions, Workspaces,
};
use loopwright_core::spec::OnOff;
use overlay_fixture::inside;
use sha2::{Digest as _, Sha256};

const ON: ExternalContent = ExternalContent { submodules: OnOff::On, lfs: OnOff::On };
const CONTENT: &str = "a large file\n";

/// A repository with a submodule in a submodule, and a large file.
fn fixture() -> Fixture {
    let fixture = Fixture::new();
    let deep = library(&fixture, "deep", &[("deep.txt", "deep\n")]);
    let lib = library(&fixture, "lib", &[("lib.txt", "lib\n"), (".gitignore", "build/\n")]);
    add_submodule(&lib, &deep, "inner/deep");
    git(&lib, &["commit", "-q", "-m", "deep"]);
    add_submodule(&fixture.repo(), &lib, "vendor/lib");
    git(
        &fixture.repo(),
        &["-c", "protocol.file.allow=always", "submodule", "update", "--init", "--recursive", "--quiet"],
    );
    fixture.write(".gitattributes", "*.bin filter=lfs diff=lfs merge=lfs -text\n");
    fixture.write("data/big.bin", &pointer(CONTENT));
    let sha = sha256(CONTENT);
    let store = fixture.repo().join(".git/lfs/objects").join(&sha[..2]).join(&sha[2..4]);
    write(&store, &sha, CONTENT);
    fixture.commit_all("external content");
    fixture
}

fn library(fixture: &Fixture, name: &str, files: &[(&str, &str)]) -> std::path::PathBuf {
    let path = fixture.path(name);
    fs::create_dir(&path).unwrap();
    git(&path, &["init", "-q", "-b", "main"]);
    files.iter().for_each(|(file, text)| write(&path, file, text));
    git(&path, &["add", "-A"]);
    git(&path, &["commit", "-q", "-m", name]);
    path
}

fn add_submodule(repo: &Path, library: &Path, at: &str) {
    let url = library.display().to_string();
    git(repo, &["-c", "protocol.file.allow=always", "submodule", "--quiet", "add", &url, at]);
}

fn sha256(text: &str) -> String {
    Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn pointer(text: &str) -> String {
    format!("version https://git-lfs.github.com/spec/v1\noid sha256:{}\nsize {}\n", sha256(text), text.len())
}

async fn made(fixture: &Fixture, all: &Workspaces, method: CheckoutMethod) -> Result<Workspace, WorkspaceError> {
    let making = WorkspaceOptions { method, external: ON, ..WorkspaceOptions::default() };
    all.create("fixer", "r1", &fixture.head().await, &making).await
}

/// Runs a maker's commands in a new workspace and seals it.
async fn after(method: CheckoutMethod, script: &str) -> (Vec<String>, Vec<String>) {
    let fixture = fixture();
    let all = fixture.workspaces().await;
    let workspace = made(&fixture, &all, method).await.unwrap();
    inside(&workspace.files, script);
    let sealed = seal(&all, &workspace).await;
    (statuses(&sealed), refusals(&sealed))
}

const METHODS: [CheckoutMethod; 2] = [CheckoutMethod::Copy, CheckoutMethod::Overlay];

#[tokio::test]
async fn workspace_and_snapshots_have_the_files_of_submodules_and_the_content_of_large_files() {
    for method in METHODS {
        let fixture = fixture();
        let all = fixture.workspaces().await;
        let workspace = made(&fixture, &all, method).await.unwrap();
        let show = "cat vendor/lib/lib.txt vendor/lib/inner/deep/deep.txt data/big.bin; git status --porcelain";
        let expected = format!("lib\ndeep\n{CONTENT}");
        assert_eq!(inside(&workspace.files, show), expected, "{method:?}");
        let sealed = seal(&all, &workspace).await;
        assert!(sealed.is_unchanged() && sealed.refused.is_empty(), "{method:?}: {:?}", sealed.refused);
        inside(&workspace.files, "touch data/big.bin vendor/lib/lib.txt; echo n > src/new");
        let sealed = seal(&all, &workspace).await;
        assert_eq!((statuses(&sealed), refusals(&sealed)), (vec!["src/new:Added".to_owned()], vec![]), "{method:?}");
        let gate = all.snapshot(&workspace, "gate", &sealed.commit, SnapshotKind::WithGit, &[]).await.unwrap();
        assert_eq!(inside(&gate.files, show), expected, "{method:?}");
        let read = all.snapshot(&workspace, "read", &sealed.commit, SnapshotKind::ReadOnly, &[]).await.unwrap();
        assert_eq!(inside(&read.files, "cat vendor/lib/lib.txt data/big.bin"), format!("lib\n{CONTENT}"), "{method:?}");
        let tree = git(&fixture.folder(&all, "engine.git"), &["show", &format!("{}:data/big.bin", sealed.commit)]);
        assert_eq!(format!("{tree}\n"), pointer(CONTENT), "the pointer is sealed as it is");
    }
}

#[tokio::test]
async fn snapshot_of_changed_attributes_still_has_the_external_content() {
    for method in METHODS {
        let fixture = fixture();
        let all = fixture.workspaces().await;
        let workspace = made(&fixture, &all, method).await.unwrap();
        inside(&workspace.files, "echo '*.md text' >> .gitattributes");
        let sealed = seal(&all, &workspace).await;
        assert_eq!(statuses(&sealed), [".gitattributes:Modified"], "{method:?}: {:?}", sealed.refused);
        let gate = all.snapshot(&workspace, "gate", &sealed.commit, SnapshotKind::WithGit, &[]).await.unwrap();
        assert_eq!(inside(&gate.files, "cat vendor/lib/lib.txt data/big.bin"), format!("lib\n{CONTENT}"), "{method:?}");
        let restored =
            all.restore_paths(&workspace, &gate, &sealed.commit, &["data/big.bin".to_owned()]).await.unwrap();
        assert_eq!((restored.len(), inside(&gate.files, "cat data/big.bin")), (1, CONTENT.to_owned()), "{method:?}");
    }
}

#[tokio::test]
async fn edit_in_a_submodule_is_refused_with_the_path() {
    for method in METHODS {
        for (script, refused) in [
            ("echo x >> vendor/lib/lib.txt", "vendor/lib/lib.txt:Submodule"),
            ("rm vendor/lib/inner/deep/deep.txt", "vendor/lib/inner/deep/deep.txt:Submodule"),
            ("echo x > vendor/lib/new.txt", "vendor/lib/new.txt:Submodule"),
            ("chmod +x vendor/lib/lib.txt", "vendor/lib/lib.txt:Submodule"),
            ("rm vendor/lib/lib.txt; ln -s .gitignore vendor/lib/lib.txt", "vendor/lib/lib.txt:Submodule"),
            ("rm -r vendor/lib", "vendor/lib:Submodule"),
            ("echo '*.txt' > vendor/lib/.gitignore; echo x > vendor/lib/n.txt", "vendor/lib/.gitignore:Submodule"),
            (
                "rm -r vendor/lib/inner; mkdir -p vendor/lib/inner/deep; echo x > vendor/lib/inner/deep/other",
                "vendor/lib/inner/deep/deep.txt:Submodule",
            ),
        ] {
            let (changed, found) = after(method, script).await;
            assert!(found.contains(&refused.to_owned()), "{method:?} `{script}`: {found:?}");
            assert!(changed.is_empty(), "{method:?} `{script}`: {changed:?}");
        }
        let build = "mkdir vendor/lib/build vendor/lib/__pycache__; echo x | tee vendor/lib/build/a.o > vendor/lib/__pycache__/a.pyc";
        assert_eq!(after(method, build).await, (vec![], vec![]), "{method:?}: ignored files are not an edit");
    }
}

#[tokio::test]
async fn edit_to_a_large_file_is_refused_with_the_path() {
    for method in METHODS {
        for (script, refused) in [
            ("echo x >> data/big.bin", "data/big.bin:LargeFile"),
            ("chmod +x data/big.bin", "data/big.bin:LargeFile"),
            ("ln -sf ../run.sh data/big.bin", "data/big.bin:LargeFile"),
            ("echo x > data/other.bin", "data/other.bin:LargeFile"),
        ] {
            assert_eq!(after(method, script).await, (vec![], vec![refused.to_owned()]), "{method:?} `{script}`");
        }
        let (changed, refused) = after(method, "rm data/big.bin").await;
        assert_eq!((changed, refused), (vec!["data/big.bin:Deleted".to_owned()], vec![]), "{method:?}");
        let (changed, refused) = after(method, "rm data/big.bin; git checkout -q -- data/big.bin").await;
        assert_eq!((changed, refused), (vec![], vec![]), "{method:?}: the pointer itself is not an edit");
    }
}

#[tokio::test]
async fn absent_content_names_the_path_and_the_command_that_fetches_it() {
    let missing = fixture();
    fs::remove_dir_all(missing.repo().join(".git/modules/vendor/lib/modules")).unwrap();
    let error = made(&missing, &missing.workspaces().await, CheckoutMethod::Copy).await.unwrap_err().to_string();
    assert!(error.contains("`vendor/lib/inner/deep`") && error.contains("git submodule update --init"), "{error}");
    let sha = sha256(CONTENT);
    for damage in [None, Some("a large FILE\n")] {
        let missing = fixture();
        let object = missing.repo().join(".git/lfs/objects").join(&sha[..2]).join(&sha[2..4]).join(&sha);
        damage.map_or_else(|| fs::remove_file(&object), |text| fs::write(&object, text)).unwrap();
        let error = made(&missing, &missing.workspaces().await, CheckoutMethod::Copy).await.unwrap_err().to_string();
        assert!(error.contains("`data/big.bin`") && error.contains("git lfs fetch"), "{error}");
    }
}
