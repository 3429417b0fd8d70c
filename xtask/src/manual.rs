//! `cargo xtask docs`: builds the manual with mdBook, under `target/manual/html`. The pages are the project's documents;
//! a copy of them gets links that fit the manual's folders.

use crate::command::{cargo, root, run as run_command, run_watched};
use crate::tidy::links;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The version of mdBook, which is installed under `target/manual` when it is missing.
const MDBOOK: &str = "0.5.4";

pub(crate) fn run() -> Result<(), String> {
    let (root, folder) = (root(), root().join("target/manual"));
    let findings = links::check(&root)?;
    if !findings.is_empty() {
        return Err(findings.join("\n"));
    }
    copy_pages(&root, &folder.join("src"))?;
    let mut build = Command::new(program(&folder)?);
    build.arg("build").current_dir(&root);
    let mut warnings = Vec::new();
    run_watched(build, &mut |line| {
        if line.contains("WARN") || line.contains("ERROR") {
            warnings.push(line.to_owned());
        }
    })?;
    if !warnings.is_empty() {
        return Err(format!("mdBook warns:\n{}", warnings.join("\n")));
    }
    println!("open {}", folder.join("html/index.html").display());
    Ok(())
}

/// mdBook, installed if it is missing.
fn program(folder: &Path) -> Result<PathBuf, String> {
    let program = folder.join("bin/mdbook");
    if !program.is_file() {
        let mut install = cargo();
        install.args(["install", "mdbook", "--version", MDBOOK, "--locked", "--no-default-features"]);
        install.args(["--features", "search", "--root"]).arg(folder);
        run_command(install)?;
    }
    Ok(program)
}

fn copy_pages(root: &Path, into: &Path) -> Result<(), String> {
    let pattern = links::link_pattern();
    if into.exists() {
        std::fs::remove_dir_all(into).map_err(|error| format!("remove `{}`: {error}", into.display()))?;
    }
    for page in links::pages(root)? {
        let failed = |error| format!("copy `{}`: {error}", page.display());
        let text = std::fs::read_to_string(root.join(&page)).map_err(failed)?;
        let text = pattern.replace_all(&text, |found: &regex::Captures<'_>| rewritten(root, into, &page, found));
        write(&into.join(chapter(&page)), text.as_bytes()).map_err(failed)?;
    }
    Ok(())
}

/// A link as the manual has it. A target that is no page, such as a licence, is plain text; a picture is copied.
fn rewritten(root: &Path, into: &Path, page: &Path, found: &regex::Captures<'_>) -> String {
    let (whole, name, link) = (&found[0], &found[1], &found[2]);
    let Some((file, heading)) = links::destination(page, link) else { return whole.to_owned() };
    let ending = file.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
    if ending == "png" {
        let _ = std::fs::read(root.join(&file)).and_then(|bytes| write(&into.join(chapter(&file)), &bytes));
    } else if ending != "md" || !root.join(&file).is_file() {
        return name.to_owned();
    }
    let heading = if heading.is_empty() { String::new() } else { format!("#{heading}") };
    format!("[{name}]({}{heading})", relative(&chapter(page), &chapter(&file)))
}

/// The place of a page in the manual: pages of `docs` at the top, those of the root in a folder of their own.
fn chapter(page: &Path) -> PathBuf {
    let place = page.strip_prefix("docs").map_or_else(|_| Path::new("project").join(page), Path::to_owned);
    match place.file_name().and_then(|name| name.to_str()) {
        // mdBook calls such a page `index.html`, but does not change the links to it.
        Some("README.md") => place.with_file_name("index.md"),
        _ => place,
    }
}

fn relative(from: &Path, to: &Path) -> String {
    let up = from.components().count().saturating_sub(1);
    format!("{}{}", "../".repeat(up), to.display())
}

fn write(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    std::fs::write(path, bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_fit_the_folders_of_the_manual() {
        let root = tempfile::tempdir().expect("a temporary folder");
        for (name, text) in [
            ("README.md", "[a](docs/x/README.md#b) [l](LICENSE) [h](https://example.org)"),
            ("docs/x/README.md", "[up](../../README.md) [a](../a.md)"),
            ("docs/a.md", "![p](p.png)"),
            ("docs/p.png", "pixels"),
            ("LICENSE", ""),
        ] {
            write(&root.path().join(name), text.as_bytes()).expect("it can be written");
        }
        let into = root.path().join("src");
        copy_pages(root.path(), &into).expect("it is copied");
        let read = |name: &str| std::fs::read_to_string(into.join(name)).expect("it is there");
        assert_eq!(read("project/index.md"), "[a](../x/index.md#b) l [h](https://example.org)");
        assert_eq!(read("x/index.md"), "[up](../project/index.md) [a](../a.md)");
        assert_eq!((read("a.md"), read("p.png")), ("![p](p.png)".to_owned(), "pixels".to_owned()));
    }
}
