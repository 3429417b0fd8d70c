//! The texts that `init` writes. They explain themselves, since they are the first thing people read and change.

/// `.loopwright/config.yaml`.
pub(super) const CONFIG: &str = "\
# Loopwright, for everybody who works on this repository. `loopwright config` prints what is in effect.
# Loops are in loops/, know-how for agents in skills/, scripts of scripted agents beside this file.

# Who plays a role when a loop names nobody:
# agents:
#   maker: { use: command, run: [my-agent, --print, \"{prompt}\"] }

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
pub(super) fn loop_file(tests: Option<&[String]>, agents: &[&str]) -> String {
    let gates = match tests {
        Some(run) => format!("gates:\n  - {{ name: tests, run: [{}] }}\n", run.join(", ")),
        None => "# gates:\n#   - { name: tests, run: [./run-tests] }   # a command that fails when the work is bad\n"
            .to_owned(),
    };
    let found = match agents.first() {
        Some(agent) => {
            format!("  # {agent} is on this machine; any command can be an agent, the brief comes as {{prompt}}:\n")
        }
        None => "  # any command can be an agent, the brief comes as {prompt}:\n".to_owned(),
    };
    format!(
        "---
name: first-look
intent: Look at this repository, run its gates, and report without changing anything.
level: L1                # L1 reports; L2 works and asks; L3 sends what `allow` lists
agents:
  maker: {{ use: scripted, script: first-look.script }}
{found}  # maker: {{ use: command, run: [my-agent, --print, \"{{prompt}}\"] }}
{gates}---
# Maker

Look at the repository and report what you see: what it is, how it is tested, what is odd. Change nothing.

# Checker

The report says only what the repository shows.
"
    )
}
