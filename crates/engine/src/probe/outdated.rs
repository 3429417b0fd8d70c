//! Programs that answer probes: a loop's own command, and for `outdated` the command of the ecosystem whose manifest
//! base has.
//!
//! Only a registry knows newer versions, so `outdated` queries it through the loop's own `network`.

use super::command::{self, ProbeExit, probe_failed};
use loopwright_core::paths::Globs;
use loopwright_core::round::{ProbeAnswer, ProbeItem};
use loopwright_core::spec::{Argv, ItemsForm};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// The program that answers a probe.
pub(crate) enum ProbeProgram {
    /// The loop's own command.
    Own {
        /// The command.
        run: Argv,
        /// The format of its output.
        items: ItemsForm,
    },
    /// An ecosystem's command that lists newer versions.
    Newer {
        /// The ecosystem.
        known: &'static PackageEcosystem,
        /// The command.
        run: Argv,
        /// The packages that count; empty means all.
        only: Globs,
    },
}

/// An ecosystem and its command that lists newer versions.
pub(crate) struct PackageEcosystem {
    manifest: &'static str,
    argv: &'static [&'static str],
    read: fn(&str) -> Result<Vec<ProbeItem>, String>,
    /// The exit code, besides 0, that means there are newer versions.
    found: i32,
}

/// In the order of preference, for a repository with several manifests.
static ECOSYSTEMS: [PackageEcosystem; 3] = [
    PackageEcosystem {
        manifest: "Cargo.toml",
        // Cargo lists the changes on standard error.
        argv: &["sh", "-c", "exec cargo update --dry-run --color never 2>&1"],
        read: cargo,
        found: 0,
    },
    PackageEcosystem { manifest: "package.json", argv: &["npm", "outdated", "--json"], read: npm, found: 1 },
    PackageEcosystem {
        manifest: "go.mod",
        argv: &[
            "go",
            "list",
            "-mod=mod",
            "-u",
            "-m",
            "-f",
            "{{if .Update}}{{if not .Indirect}}{{.Path}}@{{.Update.Version}}{{end}}{{end}}",
            "all",
        ],
        read: go,
        found: 0,
    },
];

/// The program for a base with these files, or the reason why there is none.
pub(super) fn program_for_base(
    paths: &BTreeSet<String>,
    network: &[String],
    packages: &[String],
) -> Result<ProbeProgram, String> {
    let Some(known) = ECOSYSTEMS.iter().find(|known| paths.contains(known.manifest)) else {
        let names: Vec<&str> = ECOSYSTEMS.iter().map(|known| known.manifest).collect();
        return Err(format!("`probe: outdated` supports {}, and base has no such file at its root", names.join(", ")));
    };
    if network.is_empty() {
        let text = "`probe: outdated` queries a registry, and the loop has no network";
        return Err(format!("{text}; for {} name the hosts of its registry in `network:`", known.manifest));
    }
    let only = Globs::new(packages).map_err(|error| error.to_string())?;
    Ok(ProbeProgram::Newer { known, run: known.argv.iter().map(|word| (*word).to_owned()).collect(), only })
}

impl ProbeProgram {
    pub(crate) fn argv(&self) -> &[String] {
        match self {
            Self::Own { run, .. } | Self::Newer { run, .. } => run,
        }
    }

    /// A description for progress messages.
    pub(crate) fn description(&self) -> String {
        self.argv().join(" ")
    }

    /// The probe's answer, from the program's exit.
    pub(crate) fn read(&self, said: ProbeExit) -> ProbeAnswer {
        match (self, said) {
            (Self::Own { items, .. }, said) => command::read_exit(*items, said),
            (Self::Newer { known, only, .. }, ProbeExit::Exit { code, stdout: Some(text), complaint }) => {
                if let Some(host) = unreachable_host(&text, &complaint) {
                    return probe_failed(&no_registry(&host));
                }
                if code != 0 && code != known.found {
                    return probe_failed(&format!("listing newer versions ended with code {code}: {complaint}"));
                }
                let is_wanted = |item: &ProbeItem| only.is_empty() || only.matches(package(item));
                let newer =
                    |items: Vec<ProbeItem>| command::checked_items(items.into_iter().filter(is_wanted).collect());
                (known.read)(&text).map_or_else(|text| probe_failed(&text), newer)
            }
            (Self::Newer { .. }, ProbeExit::Exit { .. }) => probe_failed("the probe printed more than the limit"),
            (Self::Newer { .. }, ProbeExit::Failed(text)) => probe_failed(&text),
            (Self::Newer { .. }, ProbeExit::Stopped) => probe_failed("the probe was stopped"),
        }
    }
}

/// The messages of package managers when they cannot reach a registry, each before or around its host.
const UNREACHED: [&str; 9] = [
    "ENOTFOUND",
    "ECONNREFUSED",
    "ETIMEDOUT",
    "EAI_AGAIN",
    "E403",
    "Could not resolve host",
    "failed to query replaced source",
    "CONNECT tunnel failed",
    "dial tcp",
];

/// The host of a registry that a package manager could not reach, if its output says so; empty if it does not name one. A
/// list without that registry would look like "no newer versions".
fn unreachable_host(output: &str, complaint: &str) -> Option<String> {
    let has_sign = |line: &&str| UNREACHED.iter().any(|sign| line.contains(sign));
    let line = output.lines().chain(complaint.lines()).find(has_sign)?;
    let around = || output.lines().chain(complaint.lines());
    let host = host_in(line).or_else(|| around().find_map(host_in));
    Some(host.unwrap_or_default())
}

/// The host of the first URL in a line, or the word after npm's and curl's messages.
fn host_in(line: &str) -> Option<String> {
    let after = line.split_once("://").map(|(_, rest)| rest);
    let after = after.or_else(|| line.split_once("getaddrinfo ENOTFOUND ").map(|(_, rest)| rest));
    let after = after.or_else(|| line.split_once("Could not resolve host: ").map(|(_, rest)| rest));
    let is_host = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-');
    let host: String = after?.chars().take_while(|c| is_host(*c)).collect();
    host.contains('.').then_some(host)
}

fn no_registry(host: &str) -> String {
    match host {
        "" => "`probe: outdated` cannot reach the package registry: name its hosts in `network:`".to_owned(),
        host => format!("`probe: outdated` cannot reach {host}: add `network: [{host}]` to the loop"),
    }
}

/// The package of an item. Package names may contain an `@` themselves.
fn package(item: &ProbeItem) -> &str {
    item.key.rsplit_once('@').map_or(item.key.as_str(), |(name, _)| name)
}

fn item(name: &str, from: Option<&str>, to: &str) -> ProbeItem {
    let title = from.map(|from| format!("{name} {from} can be {to}"));
    ProbeItem { key: format!("{name}@{to}"), title, data: None, chain: 0 }
}

/// `    Updating serde v1.0.1 -> v1.0.2`
fn cargo(text: &str) -> Result<Vec<ProbeItem>, String> {
    let lines = text.lines().filter_map(|line| line.trim().strip_prefix("Updating "));
    let items = lines.filter_map(|line| {
        let (before, after) = line.split_once(" -> ")?;
        let (name, from) = before.split_once(' ')?;
        let to = after.split_whitespace().next()?;
        Some(item(name, Some(from.trim_start_matches('v')), to.trim_start_matches('v')))
    });
    Ok(items.collect())
}

/// `{"left-pad": {"current": "1.0.0", "wanted": "1.0.2", "latest": "2.0.0"}}`; a package that is not installed has no
/// `current`.
fn npm(text: &str) -> Result<Vec<ProbeItem>, String> {
    if text.trim().is_empty() {
        return Ok(Vec::new());
    }
    let all: Value = serde_json::from_str(text).map_err(|error| format!("npm printed no JSON: {error}"))?;
    let Some(all) = all.as_object() else { return Err("npm printed no list of packages".to_owned()) };
    if let Some(code) = all.get("error").and_then(|error| error.get("code")).and_then(Value::as_str) {
        return Err(format!("npm failed with {code}"));
    }
    // Sorted by name, so that the order of items does not depend on how the document is stored in memory.
    let all: BTreeMap<&String, &Value> = all.iter().collect();
    let items = all.into_iter().filter_map(|(name, facts)| {
        // A package that several workspaces need is a list.
        let facts = facts.as_array().and_then(|all| all.first()).unwrap_or(facts);
        let fact = |key: &str| facts.get(key).and_then(Value::as_str);
        let (has, latest) = (fact("current").or(fact("wanted")), fact("latest")?);
        (has != Some(latest)).then(|| item(name, has, latest))
    });
    Ok(items.collect())
}

fn go(text: &str) -> Result<Vec<ProbeItem>, String> {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    Ok(lines.filter_map(|line| line.split_once('@')).map(|(name, to)| item(name, None, to)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(items: Result<Vec<ProbeItem>, String>) -> Vec<String> {
        items.expect("can be read").into_iter().map(|item| item.key).collect()
    }

    #[test]
    fn newer_versions_are_items_bound_to_the_version() {
        let printed = "    Updating index\n     Locking 2 packages to latest compatible versions\n\
            \x20   Updating serde v1.0.1 -> v1.0.220\n    Updating a-b v0.1.0 -> v0.1.2 (available: v2.0.0)\n\
            warning: not updating lockfile due to dry run\n";
        assert_eq!(keys(cargo(printed)), ["serde@1.0.220", "a-b@0.1.2"]);
        let printed = r#"{"left-pad":{"current":"1.0.0","wanted":"1.0.2","latest":"2.0.0"},
            "absent":{"wanted":"3.1.0","latest":"3.1.0"},"@a/b":[{"wanted":"1.0.0","latest":"1.1.0"}]}"#;
        assert_eq!(keys(npm(printed)), ["@a/b@1.1.0", "left-pad@2.0.0"]);
        assert_eq!(keys(npm("")), [""; 0]);
        assert!(npm("[]").is_err() && npm("oops").is_err());
        assert_eq!(keys(go("example.org/x/text@v0.3.8\n\n")), ["example.org/x/text@v0.3.8"]);
    }

    #[test]
    fn loop_without_network_gets_a_reason() {
        let paths = |name: &str| BTreeSet::from([name.to_owned()]);
        let why = |paths, network: &[String]| program_for_base(&paths, network, &[]).err().unwrap_or_default();
        assert!(why(paths("Makefile"), &[]).contains("supports Cargo.toml, package.json, go.mod"));
        assert!(why(paths("package.json"), &[]).contains("for package.json name the hosts"));
        assert_eq!(why(paths("go.mod"), &["packages.example.org".to_owned()]), "");
    }

    #[test]
    fn unreachable_registry_is_an_error_with_the_entry_to_add() {
        let program = |manifest: &str| {
            let paths = BTreeSet::from([manifest.to_owned()]);
            program_for_base(&paths, &["elsewhere.example".to_owned()], &[]).unwrap_or_else(|why| panic!("{why}"))
        };
        let table = [
            (
                "package.json",
                1,
                r#"{"error":{"code":"ENOTFOUND","summary":"request to https://packages.example.org/left-pad failed"}}"#,
                "",
            ),
            (
                "package.json",
                1,
                "",
                "npm error network request to https://packages.example.org/x failed, reason: connect ECONNREFUSED",
            ),
            (
                "Cargo.toml",
                0,
                "warning: spurious network error: [6] Could not resolve host: packages.example.org\n",
                "",
            ),
            ("go.mod", 0, "", "go: Get \"https://packages.example.org/x/@v/list\": dial tcp: connection refused"),
        ];
        for (manifest, code, stdout, complaint) in table {
            let (stdout, complaint) = (Some(stdout.to_owned()), complaint.to_owned());
            let answer = program(manifest).read(ProbeExit::Exit { code, stdout, complaint });
            let ProbeAnswer::Failed { text } = answer else { panic!("{manifest}: {answer:?}") };
            assert!(text.contains("add `network: [packages.example.org]`"), "{manifest}: {text}");
        }
    }

    #[test]
    fn npm_exits_with_code_one_when_there_are_newer_versions() {
        let asked = |only: &[String]| {
            program_for_base(&BTreeSet::from(["package.json".to_owned()]), &["packages.example.org".to_owned()], only)
        };
        let known = asked(&[]);
        let Ok(program) = known else { panic!("npm is known") };
        let said = |code| ProbeExit::Exit { code, stdout: Some("{}".to_owned()), complaint: "no network".to_owned() };
        assert_eq!(program.read(said(1)), ProbeAnswer::Nothing);
        assert!(matches!(program.read(said(2)), ProbeAnswer::Failed { text } if text.contains("no network")));
        let Ok(scoped) = asked(&["@a/*".to_owned(), "left-*".to_owned()]) else { panic!("npm is known") };
        let printed = r#"{"left-pad":{"wanted":"1","latest":"2"},"@a/b":{"wanted":"1","latest":"2"},"b":{"wanted":"1","latest":"2"}}"#;
        let said = ProbeExit::Exit { code: 1, stdout: Some(printed.to_owned()), complaint: String::new() };
        let ProbeAnswer::Work { items } = scoped.read(said) else { panic!("there are some") };
        assert_eq!(items.iter().map(|item| item.key.as_str()).collect::<Vec<_>>(), ["@a/b@2", "left-pad@2"]);
    }
}
