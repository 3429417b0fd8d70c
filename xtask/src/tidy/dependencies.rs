//! The allowed dependencies between crates, checked against the manifests.

use std::path::Path;

/// A crate's folder, its package name, and the workspace packages it may use. Test code may also use the testkit.
struct CrateRule {
    folder: &'static str,
    package: &'static str,
    may_use: &'static [&'static str],
}

const TESTKIT: &str = "loopwright-testkit";

const CRATE_RULES: [CrateRule; 7] = [
    CrateRule { folder: "crates/core", package: "loopwright-core", may_use: &[] },
    CrateRule { folder: "crates/sandbox", package: "loopwright-sandbox", may_use: &[] },
    CrateRule { folder: "crates/engine", package: "loopwright", may_use: &["loopwright-core", "loopwright-sandbox"] },
    CrateRule { folder: "crates/forge", package: "loopwright-forge", may_use: &["loopwright-core"] },
    CrateRule {
        folder: "crates/cli",
        package: "loopwright-cli",
        may_use: &["loopwright", "loopwright-forge", "loopwright-core"],
    },
    CrateRule { folder: "crates/testkit", package: TESTKIT, may_use: &["loopwright-core"] },
    CrateRule { folder: "xtask", package: "xtask", may_use: &[] },
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DependencyKind {
    Shipped,
    Development,
}

pub(crate) fn check(root: &Path) -> Result<Vec<String>, String> {
    let mut findings = unknown_crates(root)?;
    let workspace = read(root, "Cargo.toml")?;
    if !forbids_unsafe(&workspace) {
        findings.push("Cargo.toml: the workspace's lints do not deny `unsafe_code`".to_owned());
    }
    for room in &CRATE_RULES {
        let manifest = read(root, &format!("{}/Cargo.toml", room.folder))?;
        findings.extend(arrows(&manifest).into_iter().filter_map(|(package, kind)| complaint(room, &package, kind)));
        if room.folder != "crates/sandbox" && !takes_workspace_lints(&manifest) {
            findings
                .push(format!("{}: `[lints] workspace = true` is missing, so `unsafe` would be allowed", room.folder));
        }
    }
    Ok(findings)
}

fn read(root: &Path, path: &str) -> Result<String, String> {
    std::fs::read_to_string(root.join(path)).map_err(|error| format!("read `{path}`: {error}"))
}

/// A crate that is missing in this table has no rules yet.
fn unknown_crates(root: &Path) -> Result<Vec<String>, String> {
    let entries = std::fs::read_dir(root.join("crates")).map_err(|error| format!("list `crates`: {error}"))?;
    let folders = entries.flatten().map(|entry| format!("crates/{}", entry.file_name().to_string_lossy()));
    let unknown = folders.filter(|folder| !CRATE_RULES.iter().any(|room| room.folder == folder));
    Ok(unknown.map(|folder| format!("{folder}: not in tidy's table of crates")).collect())
}

fn complaint(room: &CrateRule, package: &str, kind: DependencyKind) -> Option<String> {
    let ours = CRATE_RULES.iter().any(|other| other.package == package);
    // A crate may name itself among its development dependencies to test itself with a feature.
    let for_tests = kind == DependencyKind::Development && (package == TESTKIT || package == room.package);
    let allowed = room.may_use.contains(&package) || for_tests;
    (ours && !allowed).then(|| format!("{}: may not depend on `{package}`", room.folder))
}

/// The dependencies that a manifest names, by section. Reads the few forms that cargo's format has for them.
fn arrows(manifest: &str) -> Vec<(String, DependencyKind)> {
    let mut kind = None;
    let mut found = Vec::new();
    for line in manifest.lines().map(str::trim) {
        if let Some(header) = line.strip_prefix('[') {
            let header = header.trim_end_matches(']');
            kind = section(header);
            if let Some((table, package)) = header.rsplit_once('.')
                && let Some(kind) = section(table)
            {
                found.push((package.trim_matches('"').to_owned(), kind));
            }
        } else if let (Some(kind), Some((key, _))) = (kind, line.split_once('=')) {
            let package = key.split('.').next().unwrap_or(key).trim().trim_matches('"');
            found.push((package.to_owned(), kind));
        }
    }
    found.retain(|(package, _)| !package.starts_with('#'));
    found
}

fn section(header: &str) -> Option<DependencyKind> {
    match header.rsplit('.').next()? {
        "dependencies" | "build-dependencies" => Some(DependencyKind::Shipped),
        "dev-dependencies" => Some(DependencyKind::Development),
        _ => None,
    }
}

fn forbids_unsafe(workspace: &str) -> bool {
    let rule =
        |line: &str| line.trim().starts_with("unsafe_code") && (line.contains("deny") || line.contains("forbid"));
    workspace.lines().any(rule)
}

fn takes_workspace_lints(manifest: &str) -> bool {
    let after = manifest.lines().skip_while(|line| line.trim() != "[lints]").skip(1);
    after.take_while(|line| !line.starts_with('[')).any(|line| line.replace(' ', "") == "workspace=true")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_of_a_dependency_is_read() {
        let manifest = "[package]\nname = \"x\"\n[dependencies]\na.workspace = true\nb = \"1\"\n# c = \"1\"\n\
            [dev-dependencies]\nd = { path = \"d\" }\n[target.'cfg(unix)'.dependencies]\ne = \"1\"\n[dependencies.f]\nversion = \"1\"\n[lints]\nworkspace = true\n";
        let names = |wanted| {
            arrows(manifest).into_iter().filter(|(_, kind)| *kind == wanted).map(|(name, _)| name).collect::<Vec<_>>()
        };
        assert_eq!(names(DependencyKind::Shipped), ["a", "b", "e", "f"]);
        assert_eq!(names(DependencyKind::Development), ["d"]);
        assert!(takes_workspace_lints(manifest));
    }

    #[test]
    fn a_forbidden_dependency_is_found() {
        let engine = CRATE_RULES.iter().find(|room| room.package == "loopwright").expect("the engine has a room");
        assert!(complaint(engine, "loopwright-forge", DependencyKind::Shipped).is_some());
        assert!(complaint(engine, TESTKIT, DependencyKind::Shipped).is_some());
        assert_eq!(complaint(engine, TESTKIT, DependencyKind::Development), None);
        assert_eq!(complaint(engine, "loopwright-core", DependencyKind::Shipped), None);
        assert_eq!(complaint(engine, "serde", DependencyKind::Shipped), None);
    }
}
