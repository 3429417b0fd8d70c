//! Toolchains laid out in a temporary home.

use super::*;
use std::fs;
use std::os::unix::fs::symlink;

struct Home {
    _folder: tempfile::TempDir,
    home: PathBuf,
}

impl Home {
    fn new(files: &[&str], links: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let home = folder.path().canonicalize().expect("it exists").join("u/me");
        for file in files {
            let path = home.join(file);
            fs::create_dir_all(path.parent().expect("it has a folder")).expect("a folder can be made");
            fs::write(path, "").expect("a file can be written");
        }
        for (link, target) in links {
            let path = home.join(link);
            fs::create_dir_all(path.parent().expect("it has a folder")).expect("a folder can be made");
            symlink(home.join(target), path).expect("a link can be made");
        }
        Self { _folder: folder, home }
    }

    fn detect(&self, path: &[&str], declared: &[&str]) -> Result<Toolchains, Vec<ToolchainError>> {
        let ground = PathRoots { repo: self.home.join("project"), home: Some(self.home.clone()) };
        let dirs: Vec<_> = path.iter().map(|dir| self.home.join(dir)).collect();
        let declared: Vec<_> = declared.iter().map(|home| (*home).to_owned()).collect();
        let keep_out = HiddenPaths { whole: vec![self.home.join("state")], around: vec![self.home.clone()] };
        detect(&ground, &dirs, &declared, &keep_out)
    }

    /// The shown paths and the variables, relative to the home.
    fn seen(&self, path: &[&str]) -> String {
        let found = self.detect(path, &[]).expect("nothing was declared");
        let short = |path: &Path| path.strip_prefix(&self.home).unwrap_or(path).to_string_lossy().into_owned();
        let mut shown: Vec<_> = found.shown.iter().map(|shown| short(&shown.at)).collect();
        shown.sort();
        let vars = found.env.iter().map(|(name, home)| format!("{}={}", name.display(), short(Path::new(home))));
        shown.into_iter().chain(vars).collect::<Vec<_>>().join(" ")
    }
}

#[test]
fn rustup_is_shown_with_its_toolchains_and_without_its_credentials() {
    let home = Home::new(
        &[".cargo/bin/cargo", ".cargo/credentials.toml", ".cargo/registry/x", ".rustup/toolchains/stable/bin/rustc"],
        &[],
    );
    assert_eq!(home.seen(&[".cargo/bin"]), ".cargo/bin .rustup RUSTUP_HOME=.rustup");
}

#[test]
fn shims_bring_the_versions_they_start() {
    let home = Home::new(
        &[".pyenv/shims/python3", ".pyenv/versions/3.11/bin/python3", ".pyenv/libexec/pyenv", ".rbenv/shims/ruby"],
        &[],
    );
    let seen = home.seen(&[".pyenv/shims", ".pyenv/bin", ".rbenv/shims"]);
    assert_eq!(seen, ".pyenv .rbenv PYENV_ROOT=.pyenv RBENV_ROOT=.rbenv");
}

#[test]
fn links_are_followed_to_the_real_programs() {
    let home = Home::new(
        &[
            ".local/share/keyrings/login.keyring",
            ".local/lib/python3/site/x.py",
            ".local/pipx/venvs/ruff/bin/ruff",
            ".local/pipx/venvs/ruff/pyvenv.cfg",
            ".local/share/uv/python/3.12/bin/python3",
            ".local/share/uv/python/3.12/lib/os.py",
            "tools/lib/node_modules/eslint/bin/eslint.js",
            "single/program",
        ],
        &[
            (".local/bin/ruff", ".local/pipx/venvs/ruff/bin/ruff"),
            (".local/pipx/venvs/ruff/bin/python", ".local/share/uv/python/3.12/bin/python3"),
            (".local/bin/eslint", "tools/lib/node_modules/eslint/bin/eslint.js"),
            (".local/bin/one", "single/program"),
        ],
    );
    let seen = home.seen(&[".local/bin"]);
    assert_eq!(
        seen,
        ".local/bin .local/lib .local/pipx/venvs/ruff .local/share/uv/python/3.12/bin .local/share/uv/python/3.12/lib \
         single/program tools/lib/node_modules"
    );
}

#[test]
fn installations_are_shown_by_their_parts_and_go_sources_not_at_all() {
    let home = Home::new(
        &[
            ".nvm/versions/node/v22/bin/node",
            ".nvm/versions/node/v22/lib/node_modules/npm/x",
            ".nvm/versions/node/v22/etc/npmrc",
            "go/bin/gopls",
            "go/src/private/x.go",
            ".sdkman/candidates/java/21/bin/java",
            ".sdkman/candidates/java/21/lib/modules",
            "bin/script",
        ],
        &[(".sdkman/candidates/java/current", ".sdkman/candidates/java/21")],
    );
    let node = ".nvm/versions/node/v22/bin .nvm/versions/node/v22/lib";
    assert_eq!(home.seen(&[".nvm/versions/node/v22/bin"]), node);
    assert_eq!(home.seen(&["go/bin", "bin"]), "bin go/bin");
    let java = home.seen(&[".sdkman/candidates/java/current/bin"]);
    assert!(java.contains("java/current") && java.contains("java/21"), "{java}");
    assert!(java.contains("JAVA_HOME=.sdkman/candidates/java/current"), "{java}");
}

#[test]
fn home_folder_and_folders_with_credentials_are_left_out() {
    let home = Home::new(&["program", "tool/.netrc", "tool/program", "state/bin/x"], &[]);
    let found = home.detect(&["", "tool", "state/bin", "none"], &[]).expect("nothing was declared");
    assert_eq!((found.path.len(), found.shown.len()), (0, 0), "{found:?}");
    assert_eq!(found.left_out.len(), 4, "{found:?}");
}

#[test]
fn declared_homes_are_shown_or_refused_with_the_reason() {
    let home = Home::new(&["sdk/bin/tool", "sdk/shims/x", "leaky/a/b/.npmrc", ".rustup/toolchains/x/bin/rustc"], &[]);
    let found = home.detect(&[], &["~/sdk", "~/.rustup"]).expect("both can be shown");
    assert_eq!(found.path, [home.home.join("sdk/bin"), home.home.join("sdk/shims")]);
    assert_eq!(found.shown.len(), 2);
    assert!(found.env.contains_key(std::ffi::OsStr::new("RUSTUP_HOME")), "{found:?}");
    let errors = home.detect(&[], &["~", "~/none", "~/leaky", "~/sdk"]).expect_err("three of them cannot");
    let texts: Vec<_> = errors.iter().map(ToString::to_string).collect();
    assert!(texts[0].contains("cannot be shown"), "{texts:?}");
    assert!(texts[1].contains("is not a folder"), "{texts:?}");
    assert!(texts[2].contains("holds credentials") && texts[2].contains(".npmrc"), "{texts:?}");
}

#[test]
fn link_into_a_project_shows_its_programs_and_nothing_else_of_it() {
    let files = ["proj/bin/tool", "proj/VERSION", "proj/release", "proj/.git/config", "proj/lib/a", "proj/conf/.env"];
    let home = Home::new(&files, &[("bin/tool", "proj/bin/tool")]);
    assert_eq!(home.seen(&["bin"]), "bin proj/bin");
    let loose = Home::new(&["dev/bin/tool", "dev/VERSION", "dev/shims/x", "dev/notes/secret"], &[]);
    assert_eq!(loose.seen(&["dev/bin", "dev/shims"]), "dev/bin dev/shims");
}
