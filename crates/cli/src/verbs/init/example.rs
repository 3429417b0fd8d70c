//! The texts that `init` writes. They explain themselves, because people read and change them first.

use super::ExampleAgents;
use super::trial::ChosenGates;
use loopwright_core::patterns::{setup_lines, yaml_list};
use loopwright_core::spec::{AgentUse, Argv, OnOff};

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

/// The facts that the example loops are written from.
pub(super) struct ExampleLoop<'a> {
    pub(super) setup: &'a [Argv],
    pub(super) gates: ChosenGates,
    pub(super) cast: &'a ExampleAgents,
    pub(super) instructions: OnOff,
    /// The files that `instructions` shows.
    pub(super) shown: &'a [&'static str],
}

impl ExampleLoop<'_> {
    /// `.loopwright/loops/first-look.md`: a report, which needs no trust.
    pub(super) fn first_look(&self) -> String {
        format!(
            "---
name: first-look
intent: Look at this repository, run its gates, and report without changing anything.
level: L1                # L1 reports; L2 works and asks; L3 sends what `allow` lists
{}---
# Maker

Look at the repository and report what you see: its purpose, its tests, anything odd. Change nothing.

# Checker

The report states only facts that the repository shows.
",
            self.keys("")
        )
    }

    /// `.loopwright/loops/first-change.md`: one small change that waits for a person. There is none without a real agent
    /// and without gates that can judge a change.
    pub(super) fn first_change(&self) -> Option<String> {
        let (all, red) = (&self.gates.gates, self.gates.gates.iter().any(super::ChosenGate::is_red));
        let can_judge = !all.is_empty() && all.iter().all(|gate| gate.is_green() || gate.is_red());
        if self.cast.maker == AgentUse::Scripted || !can_judge {
            return None;
        }
        let (intent, task, before) = if red {
            ("Make the failing tests pass.", FIX_TASK, ", red_before: true")
        } else {
            ("Make one small improvement that the tests confirm.", IMPROVE_TASK, "")
        };
        Some(format!(
            "---
name: first-change
intent: {intent}
level: L2                # every change waits for your answer: loopwright inbox
output: [pull-request]   # on the local forge, a folder; `forge:` names another one
{}---
# Maker

{task}

# Checker

The change does what the task says and nothing else, and no test is weakened.
",
            self.keys(before)
        ))
    }

    /// The keys that both loops share. `before` is added to every gate.
    fn keys(&self, before: &str) -> String {
        let agents = agents(self.cast);
        let network = match self.cast.hosts.as_slice() {
            [] => String::new(),
            hosts => {
                format!("network: [{}]   # an agent with its own sign-in connects to these itself\n", hosts.join(", "))
            }
        };
        let setup = match setup_lines(self.setup) {
            lines if lines.is_empty() => String::new(),
            lines => format!(
                "# Runs on base with the network, once for each base; makers and gates start from the result.\n{lines}"
            ),
        };
        format!("{agents}{network}{}{setup}{}", self.switch(), self.gate_lines(before))
    }

    fn gate_lines(&self, before: &str) -> String {
        if self.gates.gates.is_empty() {
            let example = "#   - { name: tests, run: [./run-tests] }   # a command that fails when the work is bad";
            return format!("# gates:\n{example}\n");
        }
        self.gates.gates.iter().fold("gates:\n".to_owned(), |text, gate| {
            let before = if gate.is_red() { before } else { "" };
            let writable = if gate.inputs_writable { ", inputs_writable: true" } else { "" };
            format!("{text}  - {{ name: {}, run: {}{before}{writable} }}\n", gate.name, yaml_list(&gate.run))
        })
    }

    /// The switch for the repository's own instructions, if it has any.
    fn switch(&self) -> String {
        match (self.instructions, self.shown) {
            (OnOff::Off, []) => String::new(),
            (OnOff::On, []) => "instructions: on\n".to_owned(),
            (OnOff::On, names) => {
                format!("instructions: on         # the maker sees {} of base, as data\n", names.join(", "))
            }
            (OnOff::Off, names) => format!("instructions: off        # the maker does not see {}\n", names.join(", ")),
        }
    }
}

const FIX_TASK: &str =
    "The tests of this repository fail. Find the cause and fix it with the smallest change. Do not change the tests.
Stage `pull-request.md`: the first line is the title, then the cause and the change.";

const IMPROVE_TASK: &str = "Find one small thing to improve: a wrong or missing sentence in a document, an edge case without a test, an unclear message.
Change only that, and run the tests. Stage `pull-request.md`: the first line is the title, then the reason for the change.";

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
