//! The speed of parsing agents' streams: recorded ones, repeated, and with the long lines of files and logs.

use loopwright::agents::{AgentInvocation, AgentLimits, ProviderEndpoints, replay_stream};
use loopwright::proc::{RunEnd, TreeCookie};
use loopwright::sandbox_view::SandboxView;
use loopwright_core::spec::{AgentUse, Role};
use serde_json::json;
use std::path::Path;

/// Bytes of each stream; the best time of several runs counts.
const BYTES: usize = 128 << 20;
const TIMES: usize = 3;

/// Recordings by their folder.
const AGENTS: [(AgentUse, &str); 4] = [
    (AgentUse::Claude, "claude-2.1.325"),
    (AgentUse::Codex, "codex-0.166.0"),
    (AgentUse::Opencode, "opencode-1.18.33"),
    (AgentUse::Gemini, "gemini-0.61.0"),
];

/// Prints MB/s for each agent whose streams are recorded.
pub(crate) fn measure() {
    for (agent, folder) in AGENTS {
        let streams = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/streams");
        let Ok(recorded) = std::fs::read(streams.join(folder).join("edit-and-run.jsonl")) else { continue };
        let short = rate(agent, &repeated(&recorded, 1));
        let long = rate(agent, &repeated(&recorded, 20_000));
        println!("{}", json!({"agent": agent.word(), "recorded": short, "long": long}));
    }
}

/// Repeats a stream, with each text of its files and output made this many times as long.
fn repeated(recorded: &[u8], times: usize) -> Vec<u8> {
    let text = String::from_utf8_lossy(recorded).replace("return a + b", &"return a + b\\n".repeat(times));
    // The last event would end the stream.
    let lines: Vec<&str> = text.lines().filter(|line| !line.contains("\"type\":\"result\"")).collect();
    let once = lines.join("\n") + "\n";
    once.repeat(BYTES.div_ceil(once.len())).into_bytes()
}

fn rate(agent: AgentUse, stream: &[u8]) -> f64 {
    let invocation = invocation();
    let mut best = f64::INFINITY;
    for _ in 0..TIMES {
        let begun = on_core();
        let heard = replay_stream(agent, &invocation, stream, RunEnd::Exited(0), &mut ());
        best = best.min(on_core() - begun);
        assert!(heard.is_some_and(|outcome| outcome.turns > 0 || !outcome.text.is_empty()), "it was understood");
    }
    stream.len() as f64 / 1e6 / best
}

/// CPU seconds of this thread, so that other load on the machine is not measured.
fn on_core() -> f64 {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    stat.split(' ').next().and_then(|nanos| nanos.parse::<f64>().ok()).expect("the kernel counts") / 1e9
}

fn invocation() -> AgentInvocation {
    AgentInvocation {
        role: Role::Maker,
        loop_name: "bench".to_owned(),
        round: "r1".to_owned(),
        attempt: 1,
        phase: None,
        attack_role: None,
        prompt: String::new(),
        workspace: "/w".into(),
        outbox: "/o".into(),
        state_file: "/s".into(),
        items: None,
        home: "/h".into(),
        tmp: "/t".into(),
        verdict: None,
        plan: None,
        model: None,
        tools: Vec::new(),
        mcp_servers: Vec::new(),
        options: Default::default(),
        endpoints: ProviderEndpoints::default(),
        prices: std::sync::Arc::default(),
        limits: AgentLimits {
            wall: None,
            idle: None,
            turns: None,
            tokens: None,
            usd: None,
            meter: Default::default(),
            output_max: u64::MAX,
        },
        cookie: TreeCookie::new("bench"),
        view: SandboxView::default(),
    }
}
