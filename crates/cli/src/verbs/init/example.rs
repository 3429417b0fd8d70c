//! The texts that `init` writes. They explain themselves, because people read and change them first.

use super::ExampleAgents;
use loopwright_core::spec::AgentUse;

/// `.loopwright/config.yaml`.
pub(super) const CONFIG: &str = "\
# Loopwright's settings for all users of this repository. `loopwright config` prints the effective values.
# Loops are in loops/, skills for agents in skills/, scripts of scripted agents beside this file.

# The agents of loops that name none:
# agents:
#   maker: { use: claude }

# More paths that always need a person's approval:
# sensitive: [\"deploy/**\"]

# How long a question waits before it counts as denied:
# approvals: { expire: 7d }
";

/// `.loopwright/first-look.script`: a maker and a checker that need no model.
pub(super) const SCRIPT: &str = "\
# A scripted agent: each block plays a role. Replace it with a real agent in loops/first-look.md.
@ maker
say I look at the repository and change nothing.
stage report.md <<END
The repository can be read and its gates were run.
Nothing was changed; a loop at L1 only writes a report.
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
        hosts => {
            format!("network: [{}]   # an agent with its own sign-in connects to these itself\n", hosts.join(", "))
        }
    };
    format!(
        "---
name: first-look
intent: Look at this repository, run its gates, and report without changing anything.
level: L1                # L1 reports; L2 works and asks; L3 sends what `allow` lists
{agents}{network}{gates}---
# Maker

Look at the repository and report what you see: its purpose, its tests, anything odd. Change nothing.

# Checker

The report states only facts that the repository shows.
"
    )
}

/// The agents: changing one word changes the agent.
fn agents(cast: &ExampleAgents) -> String {
    const WORDS: &str = "claude, codex, opencode, gemini, acp, command, scripted";
    let script = "{ use: scripted, script: first-look.script }";
    let any = "{ use: command, run: [my-agent, --print, \"{prompt}\"] }";
    if cast.maker == AgentUse::Scripted {
        return format!(
            "agents:                  # to use another agent, write one of: {WORDS}\n  maker: {script}\n  # any command can be an agent, \
             it gets the brief as {{prompt}}:\n  # maker: {any}\n"
        );
    }
    let (maker, checker) = (cast.maker.word(), cast.checker.word());
    format!(
        "agents:                  # to use another agent, write one of: {WORDS}\n  maker: {{ use: {maker} }}\n  checker: {{ use: \
         {checker} }}\n  # to try the loop without a model: maker: {script}\n"
    )
}
