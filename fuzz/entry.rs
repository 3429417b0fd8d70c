//! The readers of foreign bytes, each as one function of bytes: output of agents, files of checkers and makers, and
//! loop files. No input may make them panic. The fuzz targets here and `tests/mutations.rs` run them.

use loopwright::agents::{AgentInvocation, AgentLimits, ProviderEndpoints, replay_stream};
use loopwright::proc::{RunEnd, TreeCookie};
use loopwright::sandbox_view::SandboxView;
use loopwright_core::outbox::{self, StagedFile};
use loopwright_core::spec::{AgentUse, Role, read_loop_file};
use loopwright_core::verdict::{self, VerdictFile};

/// The agents whose streams are read.
pub(crate) const AGENTS: [AgentUse; 4] = [AgentUse::Claude, AgentUse::Codex, AgentUse::Opencode, AgentUse::Gemini];

/// A stream of one of the agents; the first byte selects it.
pub(crate) fn stream(bytes: &[u8]) {
    let Some((first, rest)) = bytes.split_first() else { return };
    let agent = AGENTS[usize::from(*first) % AGENTS.len()];
    let how = if first & 0x40 == 0 { RunEnd::Exited(i32::from(first & 0x3f)) } else { RunEnd::Finished };
    drop(replay_stream(agent, &invocation(), rest, how, &mut ()));
}

/// A verdict, as a file and in a checker's last message.
pub(crate) fn verdict(bytes: &[u8]) {
    drop(VerdictFile::parse(bytes));
    if let Ok(Some(document)) = verdict::find_verdict(&String::from_utf8_lossy(bytes)) {
        drop(VerdictFile::parse(document.as_bytes()));
    }
}

/// Staged files: names and contents in turn, separated by a zero byte.
pub(crate) fn outbox(bytes: &[u8]) {
    let parts: Vec<&[u8]> = bytes.split(|byte| *byte == 0).take(64).collect();
    let file = |pair: &[&[u8]]| {
        let content = pair.get(1).copied().unwrap_or_default();
        StagedFile::regular(String::from_utf8_lossy(pair[0]), content)
    };
    let files: Vec<StagedFile> = parts.chunks(2).map(file).collect();
    drop(outbox::cannot_reason(&files));
    drop(outbox::parse_batch(&files));
}

/// A loop file in each of its forms.
pub(crate) fn loop_file(bytes: &[u8]) {
    for name in ["loop.md", "loop.yaml", "loop.json"] {
        drop(read_loop_file(name, bytes));
    }
}

fn invocation() -> AgentInvocation {
    AgentInvocation {
        role: Role::Checker,
        loop_name: "fuzz".to_owned(),
        round: "r1".to_owned(),
        attempt: 1,
        prompt: String::new(),
        workspace: "/w".into(),
        outbox: "/o".into(),
        state_file: "/s".into(),
        items: None,
        home: "/h".into(),
        tmp: "/t".into(),
        phase: None,
        attack_role: None,
        plan: None,
        verdict: None,
        model: None,
        tools: Vec::new(),
        mcp_servers: Vec::new(),
        options: Default::default(),
        endpoints: ProviderEndpoints::default(),
        prices: std::sync::Arc::default(),
        limits: AgentLimits {
            wall: None,
            idle: None,
            turns: Some(1_000),
            tokens: Some(1 << 40),
            usd: None,
            meter: Default::default(),
            output_max: u64::MAX,
        },
        cookie: TreeCookie::from_recorded("lw-fuzz".to_owned()),
        view: SandboxView::default(),
    }
}
