//! Briefs: fills the briefs of roles with the facts of the round. The wording is core's; the maker's own text never
//! reaches a checker.

use super::StageError;
use super::context::{RoundContext, object_name, pinned_base};
use loopwright_core::forge::split_diff;
use loopwright_core::memory::MemoryEntry;
use loopwright_core::prompt::{
    self, AttemptStart, BriefText, CheckerBrief, FileDiff, GateEvidence, MakerBrief, NamedText, VerdictChannel,
    WorkItem,
};
use loopwright_core::round::{
    AgentRun, Attempt, AttemptFeedback, Phase, ProbeItem, Round, RoundFacts, ShownChange, Stage,
};
use loopwright_core::spec::LoopSpec;
use loopwright_core::verdict::{self, TreeChange};
use std::io::Read as _;

/// The most bytes of diff that a checker sees.
const DIFF_MAX: usize = 256 << 10;
const CUT: &str = "the diff was too long, or a file in it is not text: you have not seen all of it, so do not pass it";
/// The most bytes of one context file.
const CONTEXT_MAX: usize = 64 << 10;

pub(super) async fn maker_brief(
    cx: &RoundContext<'_>,
    round: &Round,
    attempt: u32,
    feedback: Option<&AttemptFeedback>,
) -> Result<String, StageError> {
    let facts = round.facts();
    let spec = &facts.started.spec;
    let brief = MakerBrief {
        own: own_words(cx, BriefText::Maker),
        intent: spec.intent.clone(),
        level: spec.level,
        outputs: spec.output.iter().map(|output| output.kind).collect(),
        protect: spec.protect.clone(),
        instructions: spec.prompts.maker.clone().unwrap_or_default(),
        skills: skills(cx, spec),
        context: context(cx, facts).await?,
        mark: mark(&format!("{}:{attempt}:{}", cx.id, facts.started.spec_hash)),
        state: facts.history.join("\n"),
        memory: facts.memory.iter().map(MemoryEntry::line).collect(),
        items: work_items(facts),
        attempt,
        attempts: spec.attempts,
        start: match round.phase() {
            Phase::Making(AgentRun::Again) => AttemptStart::Again,
            _ => AttemptStart::First,
        },
        feedback: feedback.map(prompt_feedback).unwrap_or_default(),
    };
    Ok(brief.render())
}

/// The checker's brief, and whether it holds the whole diff.
pub(super) async fn checker_brief(
    cx: &RoundContext<'_>,
    facts: &RoundFacts,
    sealed: &Attempt,
    nonce: &str,
    answer: VerdictChannel,
) -> Result<(String, ShownChange), StageError> {
    let spec = &facts.started.spec;
    let change = if sealed.has_change() { TreeChange::Some } else { TreeChange::None };
    let (diff, shown) = diff(cx, facts, sealed).await?;
    let mut remarks = if shown == ShownChange::Part { vec![CUT.to_owned()] } else { Vec::new() };
    remarks.extend(sealed.findings.notes.iter().cloned());
    remarks.extend(sealed.findings.sensitive.iter().map(|path| format!("sensitive path: {path}")));
    remarks.extend(sealed.inputs_edited.iter().map(|path| format!("gate input edited: {path}")));
    let brief = CheckerBrief {
        own: own_words(cx, BriefText::Checker),
        answer,
        intent: spec.intent.clone(),
        asked: spec.prompts.maker.clone().unwrap_or_default(),
        instructions: spec.prompts.checker.clone(),
        dimensions: verdict::dimensions(&spec.rubric, change),
        threshold: spec.rubric.threshold,
        floor: spec.rubric.floor,
        mark: mark(nonce),
        items: work_items(facts),
        diff,
        gates: sealed.gates.iter().map(evidence).collect(),
        staged: sealed.items.iter().map(|item| NamedText { name: item.name.clone(), text: item.text() }).collect(),
        remarks,
        nonce: nonce.to_owned(),
        tree: sealed.tree.clone().unwrap_or_default(),
        candidate: sealed.candidate.clone().unwrap_or_default(),
    };
    Ok((brief.render(), shown))
}

/// The repository's own brief for a role, read from the trusted checkout; `None` for the built-in one.
fn own_words(cx: &RoundContext<'_>, text: BriefText) -> Option<String> {
    let path = cx.repo.work_tree.join(".loopwright").join("prompts").join(format!("{}.md", text.name()));
    let file = std::fs::File::open(path).ok().filter(|file| file.metadata().is_ok_and(|found| found.is_file()))?;
    let mut bytes = Vec::new();
    file.take(prompt::OWN_MAX as u64).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

fn work_items(facts: &RoundFacts) -> Vec<WorkItem> {
    let as_text = |item: &ProbeItem| {
        let text = [item.title.as_deref(), item.data.as_deref()];
        WorkItem { key: item.key.clone(), text: text.into_iter().flatten().collect::<Vec<_>>().join("\n") }
    };
    facts.items.iter().map(as_text).collect()
}

/// Skills are read from the trusted checkout. A missing skill was an error before the round started.
fn skills(cx: &RoundContext<'_>, spec: &LoopSpec) -> Vec<NamedText> {
    let folder = cx.repo.work_tree.join(".loopwright").join("skills");
    let read = |name: &String| {
        let text = std::fs::read_to_string(folder.join(name)).ok()?;
        Some(NamedText { name: name.clone(), text })
    };
    spec.skills.iter().filter_map(read).collect()
}

/// Context files come from the pinned base, not from a working copy.
async fn context(cx: &RoundContext<'_>, facts: &RoundFacts) -> Result<Vec<NamedText>, StageError> {
    let mut files = Vec::new();
    let base = pinned_base(facts)?;
    for name in &facts.started.spec.context {
        let blob = cx.objects().read_blob(&base, name, CONTEXT_MAX).await;
        let blob = blob.map_err(|error| StageError::broke(Stage::Make, "context", &error))?;
        let text =
            blob.map_or_else(|| "(not in base)".to_owned(), |bytes| String::from_utf8_lossy(&bytes).into_owned());
        files.push(NamedText { name: name.clone(), text });
    }
    Ok(files)
}

/// The diff from raw trees. A diff that does not fit is cut, and a binary file (one zero byte is enough) is not
/// shown; the checker's brief then says that the diff is incomplete.
async fn diff(
    cx: &RoundContext<'_>,
    facts: &RoundFacts,
    sealed: &Attempt,
) -> Result<(Vec<FileDiff>, ShownChange), StageError> {
    let base = pinned_base(facts)?;
    let commit = object_name(sealed.commit.as_deref())?;
    let diff = cx.objects().unified_diff(&base, &commit, DIFF_MAX).await;
    let diff = diff.map_err(|error| StageError::broke(Stage::Check, "diff", &error))?;
    // Every line of a file has a prefix in the diff, so a file cannot forge this line.
    let all_text = !diff.text.lines().any(|line| line.starts_with("Binary files "));
    let shown = if diff.whole && all_text { ShownChange::Whole } else { ShownChange::Part };
    let files = split_diff(&diff.text).into_iter();
    let files = files.map(|file| FileDiff { path: file.path, text: file.patch.unwrap_or_default() });
    Ok((files.collect(), shown))
}

/// A delimiter that an author of quoted text cannot have known: the maker's derives from its round, the checker's from
/// its nonce.
fn mark(secret: &str) -> String {
    loopwright_core::hash::hash_fields(&[b"loopwright mark 1", secret.as_bytes()]).chars().take(16).collect()
}

fn prompt_feedback(feedback: &AttemptFeedback) -> Vec<prompt::BriefFeedback> {
    let gates = feedback.gates.iter().map(|(name, why, output)| prompt::BriefFeedback::Gate {
        name: name.clone(),
        why: why.clone(),
        output: output.clone(),
    });
    let scores =
        (!feedback.scores.is_empty()).then(|| prompt::BriefFeedback::Checker { reasons: feedback.scores.clone() });
    let mut all: Vec<_> = gates.chain(scores).collect();
    if all.is_empty() {
        all.push(prompt::BriefFeedback::Rule { why: feedback.reason.text.clone() });
    }
    all
}

/// Facts such as names of tests were printed by the maker's code, so they are quoted with the output, inside the fence.
fn evidence(gate: &loopwright_core::gate::GateResult) -> GateEvidence {
    // The candidate's code can print anything and still pass, so a checker gets no output of a gate that passed.
    let excerpt = (!gate.is_passed()).then_some(&gate.excerpt);
    let facts = gate.evidence.iter().chain(excerpt).filter(|text| !text.is_empty());
    let output = facts.cloned().collect::<Vec<_>>().join("\n");
    GateEvidence { name: gate.name.clone(), result: gate.status.to_string(), output }
}
