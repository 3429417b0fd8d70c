//! A scenario with its requirements for the agent's command line, read from the comments at its top.

use std::path::{Path, PathBuf};
use std::time::Duration;

/// The way in which the agent is started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LaunchMode {
    Usual,
    /// With tools that only read.
    ReadOnly,
    /// With a limit of two turns.
    FewTurns,
    /// With a schema for its answer.
    Schema,
    /// With a plan's sign-in instead of a key.
    Subscription,
    /// With no server at the model's address.
    Unreachable,
    /// Over the Agent Client Protocol.
    Acp,
    /// The same, and every permission is denied.
    AcpDenied,
}

impl LaunchMode {
    pub(super) fn is_acp(self) -> bool {
        matches!(self, Self::Acp | Self::AcpDenied)
    }
}

/// One recording for each of its agents.
#[derive(Debug)]
pub(super) struct RecordingCase {
    pub(super) name: String,
    pub(super) how: LaunchMode,
    pub(super) wall: Duration,
    agents: Vec<String>,
    /// The common scenario, or one for each agent.
    files: Vec<(Option<String>, PathBuf)>,
}

impl RecordingCase {
    /// Every case of a folder, in order of name. `NAME.AGENT.scenario` is for one agent, `NAME.scenario` for all.
    pub(super) fn all(folder: &Path, before: &str) -> Result<Vec<Self>, String> {
        let entries = std::fs::read_dir(folder).map_err(|error| format!("list `{}`: {error}", folder.display()))?;
        let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        files.sort();
        let mut cases: Vec<Self> = Vec::new();
        for file in files {
            let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let Some(stem) = name.strip_suffix(".scenario") else { continue };
            let (stem, agent) =
                stem.split_once('.').map_or((stem, None), |(stem, agent)| (stem, Some(agent.to_owned())));
            let text = std::fs::read_to_string(&file).map_err(|error| format!("read `{}`: {error}", file.display()))?;
            let stem = format!("{before}{stem}");
            match cases.iter_mut().find(|case| case.name == stem) {
                Some(case) => case.files.push((agent, file)),
                None => cases.push(Self::of(&stem, &text, (agent, file))?),
            }
        }
        Ok(cases)
    }

    fn of(name: &str, text: &str, file: (Option<String>, PathBuf)) -> Result<Self, String> {
        let said = |key: &str| text.lines().find_map(|line| line.strip_prefix("# ")?.strip_prefix(key)).map(str::trim);
        let how = match said("how:") {
            None => LaunchMode::Usual,
            Some("read-only") => LaunchMode::ReadOnly,
            Some("few-turns") => LaunchMode::FewTurns,
            Some("schema") => LaunchMode::Schema,
            Some("subscription") => LaunchMode::Subscription,
            Some("unreachable") => LaunchMode::Unreachable,
            Some("acp") => LaunchMode::Acp,
            Some("acp-denied") => LaunchMode::AcpDenied,
            Some(other) => return Err(format!("{name}: unknown way `{other}`")),
        };
        let seconds = said("wall:").map_or(Ok(60), str::parse).map_err(|_| format!("{name}: the wall is no number"))?;
        let agents = said("agents:").unwrap_or_default().split_whitespace().map(str::to_owned).collect();
        Ok(Self { name: name.to_owned(), how, wall: Duration::from_secs(seconds), agents, files: vec![file] })
    }

    pub(super) fn is_for(&self, agent: &str) -> bool {
        let named = self.agents.is_empty() || self.agents.iter().any(|name| name == agent);
        named && self.files.iter().any(|(whose, _)| whose.as_deref().is_none_or(|whose| whose == agent))
    }

    /// The agent's own scenario, otherwise the common one.
    pub(super) fn scenario_for(&self, agent: &str) -> &Path {
        let own = self.files.iter().find(|(whose, _)| whose.as_deref() == Some(agent));
        let found = own.or_else(|| self.files.iter().find(|(whose, _)| whose.is_none())).or(self.files.first());
        &found.expect("a case has a file").1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agents_own_scenario_wins_and_comments_say_how() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let put = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).expect("it can be written");
        put("a.codex.scenario", "# how: few-turns\n# wall: 7\n@ any\nsay x\n");
        put("a.scenario", "@ any\nsay y\n");
        put("b.scenario", "# agents: codex gemini\n@ any\nsay y\n");
        let cases = RecordingCase::all(folder.path(), "").expect("two cases");
        let [a, b] = cases.as_slice() else { panic!("{cases:?}") };
        assert_eq!((a.how, a.wall), (LaunchMode::FewTurns, Duration::from_secs(7)));
        assert!(a.is_for("claude") && a.scenario_for("codex").ends_with("a.codex.scenario"));
        assert!(a.scenario_for("claude").ends_with("a.scenario"));
        assert!(b.is_for("gemini") && !b.is_for("claude"));
    }
}
