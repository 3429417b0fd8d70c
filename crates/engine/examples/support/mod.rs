//! Shared by the examples: a temporary repository with a bug, and two agents that are shell scripts. A real program has
//! its own repository and binds real agents.
#![allow(dead_code, reason = "each example uses its own part")]

use loopwright::agents::{AgentError, CommandAgent};
use loopwright::spec::{ActionKind, Gate, OutputSpec, RunGate};
use loopwright::{LoopLevel, LoopSpec};
use loopwright_testkit::TestRepo;

/// A repository whose sum subtracts, and a test that shows it.
pub(crate) fn repository() -> TestRepo {
    let repo = TestRepo::new();
    repo.write("sum.sh", "echo $(( $1 - $2 ))\n").write("test.sh", "test \"$(sh sum.sh 2 3)\" = 5\n").commit("first");
    repo
}

/// A loop that fixes it: one gate, one kind of output.
pub(crate) fn mending(level: LoopLevel) -> LoopSpec {
    let mut spec = LoopSpec::new("mend-sum", "make the sum add", level).with_maker_prompt("Fix sum.sh.");
    spec.gates = vec![Gate::Run(RunGate::new("tests", vec!["sh".to_owned(), "test.sh".to_owned()]))];
    spec.output = vec![OutputSpec::new(ActionKind::PullRequest)];
    spec
}

/// A maker that fixes the sum.
pub(crate) fn maker() -> Result<CommandAgent, AgentError> {
    shell(r"printf 'echo $(( $1 + $2 ))\n' > sum.sh")
}

/// A checker that passes what the gate passed. Its verdict is bound to this check by nonce, tree and candidate, and each
/// score cites evidence that the engine looks up.
pub(crate) fn checker() -> Result<CommandAgent, AgentError> {
    shell(
        r#"
score() { printf '{"dimension":"%s","score":5,"why":"the test is green","evidence":[{"gate":"tests"}]}' "$1"; }
printf '{"nonce":"%s","tree":"%s","candidate":"%s","verdict":"pass","summary":"good","scores":[%s,%s,%s]}' \
    "$LOOPWRIGHT_NONCE" "$LOOPWRIGHT_TREE" "$LOOPWRIGHT_CANDIDATE" \
    "$(score correctness)" "$(score scope)" "$(score tests)" > "$LOOPWRIGHT_VERDICT"
"#,
    )
}

/// A shell script as an agent.
pub(crate) fn shell(script: &str) -> Result<CommandAgent, AgentError> {
    CommandAgent::new(&["sh", "-c", script].map(str::to_owned))
}
