//! The loops of the repository around the current folder, if there is one: the part of the view that is not in the
//! store.

use super::CommandError;
use crate::context::{AgentDefaults, CheckedLoopFile, CommandContext, FleetRepo, FleetScan, RepoLoops, read_bytes};
use crate::error::CommandErrorKind;
use loopwright::daemon::STOP_FILE;
use loopwright::git::UserRepo;
use loopwright_core::autonomy::AutonomyRules;
use loopwright_core::spec::{ProbeSpec, Triggers};
use std::collections::BTreeMap;

/// A repository with its loop files.
pub(crate) struct RepoView {
    /// The repository.
    pub(crate) repo: UserRepo,
    /// Its loop files.
    pub(crate) loops: RepoLoops,
    /// The system's time zone.
    pub(crate) zone: String,
    /// The text of the file that stops everything, if it exists.
    pub(crate) stop: Option<String>,
    /// The rules of promotion and demotion.
    pub(crate) rules: AutonomyRules,
    /// The hashes of the loops as they run, by name; only if the rules compare them.
    hashes: BTreeMap<String, String>,
}

impl RepoView {
    /// Finds the current repository; `None` outside one, unless a flag names one.
    pub(crate) async fn find_current(cx: &CommandContext) -> Result<Option<Self>, CommandError> {
        let repo = match cx.repo().await {
            Ok(repo) => repo,
            Err(error) if error.kind == CommandErrorKind::Invalid && !cx.has_explicit_repo() => return Ok(None),
            Err(error) => return Err(error),
        };
        let loops = cx.loops(&repo)?;
        Ok(Some(Self::new(cx, repo, loops)))
    }

    /// A configuration with problems has the default rules here; commands that act report the problems.
    fn new(cx: &CommandContext, repo: UserRepo, loops: RepoLoops) -> Self {
        let rules = cx.config(Some(&repo.work_tree)).map(|effective| effective.autonomy()).unwrap_or_default();
        let hashes = if rules.require_promotion { run_hashes(cx, &repo, &loops) } else { BTreeMap::new() };
        Self { repo, loops, zone: cx.system_zone(), stop: read_stop_file(cx), rules, hashes }
    }

    /// The hash of a loop as it runs; empty if no rule compares it.
    pub(crate) fn run_hash(&self, name: &str) -> &str {
        self.hashes.get(name).map(String::as_str).unwrap_or_default()
    }

    /// Every repository that a daemon started here would manage; unavailable ones are left out.
    pub(crate) async fn find_fleet(cx: &CommandContext) -> Result<Vec<Self>, CommandError> {
        let wanted = FleetScan::read(cx).await?.repos;
        let of = |one: FleetRepo| {
            let mut loops = one.read_loops(cx)?;
            loops.problems.retain(|finding| one.only.is_empty() || one.only.contains(&stem(&finding.file)));
            Ok(Self::new(cx, one.repo, loops))
        };
        wanted.into_iter().map(of).collect()
    }

    /// The current repository, or if it does not have the loop, another one that has it.
    pub(crate) async fn find_with_loop(cx: &CommandContext, name: &str) -> Result<Option<Self>, CommandError> {
        let here = Self::find_current(cx).await?;
        // A broken configuration names no other repository.
        let has_others = cx.config(None).is_ok_and(|effective| !effective.config().repos.is_empty());
        if !has_others || cx.has_explicit_repo() || here.as_ref().is_some_and(|here| here.has_loop_named(name)) {
            return Ok(here);
        }
        let mut others = Self::find_fleet(cx).await.unwrap_or_default();
        others.retain(|one| one.has_loop_named(name));
        Ok(others.pop().filter(|_| others.is_empty()).or(here))
    }

    /// Whether there is a loop file at all.
    pub(crate) fn has_loops(&self) -> bool {
        !self.loops.loops.is_empty() || !self.loops.problems.is_empty()
    }

    /// One loop file by the loop's name.
    pub(crate) fn file(&self, name: &str) -> Option<&CheckedLoopFile> {
        self.loops.loops.iter().find(|file| file.spec.name == name)
    }

    /// The repository to which a list is restricted: this one, if it has loops, and the requested loop.
    pub(crate) fn scope(&self, name: Option<&str>) -> Option<String> {
        let is_here = name.is_none_or(|name| self.has_loop_named(name));
        (self.has_loops() && is_here).then(|| self.repo.id.clone())
    }

    /// As `scope`; a repository that a flag names is always the scope.
    pub(crate) fn scope_for(&self, cx: &CommandContext, name: Option<&str>) -> Option<String> {
        if cx.has_explicit_repo() { Some(self.repo.id.clone()) } else { self.scope(name) }
    }

    /// Whether a loop file, also one with problems, has that name.
    pub(crate) fn has_loop_named(&self, name: &str) -> bool {
        self.file(name).is_some() || self.invalid().iter().any(|(known, _)| known == name)
    }

    /// Unusable files: the name that the file suggests, and the file's first problem.
    pub(crate) fn invalid(&self) -> Vec<(String, String)> {
        let mut seen = std::collections::HashSet::new();
        let firsts = self.loops.problems.iter().filter(|finding| seen.insert(finding.file.as_str()));
        firsts.map(|finding| (stem(&finding.file), format!("{}: {}", finding.file, finding.text))).collect()
    }
}

/// A broken configuration compares no hash; commands that act report it.
fn run_hashes(cx: &CommandContext, repo: &UserRepo, loops: &RepoLoops) -> BTreeMap<String, String> {
    let Ok(defaults) = AgentDefaults::read(cx, &repo.work_tree) else { return BTreeMap::new() };
    let hash = |file: &CheckedLoopFile| {
        let spec = defaults.complete(file.spec.clone()).ok()?;
        Some((spec.name.clone(), spec.hash().to_owned()))
    };
    loops.loops.iter().filter_map(hash).collect()
}

/// The text of the file that stops everything, if it exists.
pub(crate) fn read_stop_file(cx: &CommandContext) -> Option<String> {
    let file = cx.state_dir().ok()?.0.join(STOP_FILE);
    // Any kind of file stops everything; only a plain file can contain the reason.
    file.symlink_metadata().ok()?;
    let text = read_bytes(&file).unwrap_or_default();
    let first: String = String::from_utf8_lossy(&text).lines().next().unwrap_or_default().chars().take(500).collect();
    Some(if first.trim().is_empty() { "no reason given".to_owned() } else { first })
}

fn stem(file: &str) -> String {
    let name = file.rsplit('/').next().unwrap_or(file);
    name.rsplit_once('.').map_or(name, |(stem, _)| stem).to_owned()
}

/// The triggers of a loop, in a few words.
pub(crate) fn describe_cadence(on: &Triggers) -> String {
    let mut parts: Vec<String> = on.every.iter().map(|span| format!("every {span}")).collect();
    let lists = [("daily", &on.daily), ("weekly", &on.weekly), ("cron", &on.cron), ("push", &on.push)];
    let more = [("files", &on.files), ("webhook", &on.webhook), ("after", &on.after)];
    for (word, values) in lists.into_iter().chain(more) {
        parts.extend(values.iter().map(|value| format!("{word} {value}")));
    }
    if parts.is_empty() {
        parts.push("manual".to_owned());
    }
    match &on.probe {
        Some(ProbeSpec::Named(name)) => parts.push(format!("if {name}")),
        Some(ProbeSpec::Ask(ask)) => parts.push(format!("if {}", ask.probe)),
        Some(ProbeSpec::Run { .. }) => parts.push("if probe".to_owned()),
        None => {}
    }
    parts.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use loopwright_core::units::TimeSpan;

    #[test]
    fn cadences_read_as_people_write_them() {
        assert_eq!(describe_cadence(&Triggers::default()), "manual");
        let on = Triggers {
            every: vec![TimeSpan::secs(900)],
            daily: vec!["08:00".to_owned()],
            probe: Some(ProbeSpec::Named("open-prs".to_owned())),
            ..Triggers::default()
        };
        assert_eq!(describe_cadence(&on), "every 15m, daily 08:00, if open-prs");
        assert_eq!(stem(".loopwright/loops/fix.v2.md"), "fix.v2");
    }
}
