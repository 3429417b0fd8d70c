//! The texts that `init` writes. They explain themselves, since they are the first thing people read and change.

use super::ExampleAgents;
use loopwright_core::spec::AgentUse;

/// `.loopwright/config.yaml`.
pub(super) const CONFIG: &str = "\
# Loopwright, for everybody who works on this repository. `loopwright config` prints what is in effect.
# Loops are in loops/, know-how for agents in skills/, scripts of scripted agents beside this file.

# Who plays a role when a loop names nobody:
# agents:
#   maker: { use: claude }

# Further paths that always need a human:
# sensitive: [\"deploy/**\"]

# How long a question waits before silence means no:
# approvals: { expire: 7d }
";

/// `.loopwright/first-look.script`: a maker and a checker that need no model.
pub(super) const SCRIPT: &str = "\
# A scripted agent: each block plays a role. Replace it by a real agent in loops/first-look.md.
@ maker
say I look at the repository and change nothing.
stage report.md <<END
The repository can be read and its gates were run.
Nothing was changed; this report is all that leaves at L1.
END
usage input=0 output=0

@ checker
verdict pass correctness=5@item:report.md:1 scope=5@item:report.md:2
";

/// `.loopwright/loops/first-look.md`.
pub(super) fn loop_file(tests: Option<&[String]>, cast: &ExampleAgents) -> String {
    let gates = match tests {
        Some(run) => format!("gates:\n  - {{ name: tests, run: [{}] }}\n", run.join(", ")),
        None => "# gates:\n#   - { name: tests, run: [./run-tests] }   # a command that fails when the work is bad\n"
            .to_owned(),
    };
    let agents = agents(cast);
    let network = match cast.hosts.as_slice() {
        [] => String::new(),
        hosts => format!("network: [{}]   # an agent with its own sign-in talks to these itself\n", hosts.join(", ")),
    };
    format!(
        "---
name: first-look
intent: Look at this repository, run its gates, and report without changing anything.
level: L1                # L1 reports; L2 works and asks; L3 sends what `allow` lists
{agents}{network}{gates}---
# Maker

Look at the repository and report what you see: what it is, how it is tested, what is odd. Change nothing.

# Checker

The report says only what the repository shows.
"
    )
}

/// Who plays: one word changes it.
fn agents(cast: &ExampleAgents) -> String {
    const WORDS: &str = "claude, codex, opencode, gemini, acp, command, scripted";
    let script = "{ use: scripted, script: first-look.script }";
    let any = "{ use: command, run: [my-agent, --print, \"{prompt}\"] }";
    if cast.maker == AgentUse::Scripted {
        return format!(
            "agents:                  # another agent is another word: {WORDS}\n  maker: {script}\n  # any command can be an agent, \
             the brief comes as {{prompt}}:\n  # maker: {any}\n"
        );
    }
    let (maker, checker) = (cast.maker.word(), cast.checker.word());
    format!(
        "agents:                  # another agent is another word: {WORDS}\n  maker: {{ use: {maker} }}\n  checker: {{ use: \
         {checker} }}\n  # to try the loop without a model: maker: {script}\n"
    )
}
