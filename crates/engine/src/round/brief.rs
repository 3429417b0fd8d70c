//! Briefs: fills the briefs of roles with the facts of the round. The wording is core's; the maker's own text never
//! reaches a checker.

use super::StageError;
use super::context::{RoundContext, object_name, pinned_base};
use crate::git::Oid;
use crate::repo_file::{RepoFileError, read_repo_file};
use loopwright_core::forge::split_diff;
use loopwright_core::memory::MemoryEntry;
use loopwright_core::prompt::{
    self, AttackerBrief, AttemptStart, BriefPlan, BriefText, CheckerBrief, FileDiff, GateEvidence, MakerBrief,
    NamedText, PlannerBrief, VerdictChannel, WorkItem,
};
use loopwright_core::round::{
    AgentRun, Attempt, AttemptFeedback, Phase, ProbeItem, Round, RoundFacts, ShownChange, Stage,
};
use loopwright_core::spec::{Gate, INSTRUCTION_FILES, LoopSpec, OnOff};
use loopwright_core::verdict::{self, TreeChange};
use std::path::Path;

/// The most bytes of diff that a checker sees.
const DIFF_MAX: usize = 256 << 10;
const CUT: &str = "the diff was too long, or a file in it is not text: you have not seen all of it, so do not pass it";
/// The most bytes of one context file.
const CONTEXT_MAX: usize = 64 << 10;
/// The most bytes of one skill.
const SKILL_MAX: usize = 256 << 10;

pub(super) async fn maker_brief(
    cx: &RoundContext<'_>,
    round: &Round,
    attempt: u32,
    feedback: Option<&AttemptFeedback>,
    withheld: usize,
) -> Result<String, StageError> {
    let facts = round.facts();
    let spec = &facts.started.spec;
    let brief = MakerBrief {
        own: own_words(cx, BriefText::Maker, Stage::Make)?,
        intent: spec.intent.clone(),
        level: spec.level,
        outputs: spec.output.iter().map(|output| output.kind).collect(),
        protect: spec.protect.clone(),
        withheld,
        instructions: spec.prompts.maker.clone().unwrap_or_default(),
        skills: skills(cx, spec)?,
        context: context(cx, facts).await?,
        mark: mark(&format!("{}:{attempt}:{}", cx.id, facts.started.spec_hash)),
        state: facts.history.join("\n"),
        memory: facts.memory.iter().map(MemoryEntry::line).collect(),
        plan: plan(facts, attempt),
        items: work_items(facts),
        attempt,
        attempts: spec.attempts,
        start: match round.phase() {
            Phase::Making(AgentRun::Again) => AttemptStart::Again,
            _ => AttemptStart::First,
        },
        kept: facts.restarts_from().filter(|_| feedback.is_some()),
        feedback: feedback.map(prompt_feedback).unwrap_or_default(),
    };
    Ok(brief.render())
}

/// The frozen plan for a maker of this attempt.
fn plan(facts: &RoundFacts, attempt: u32) -> Option<BriefPlan> {
    let plan = facts.plan.as_ref()?;
    let phase = facts.maker_phase(attempt).map(|(at, phase)| (at + 1, plan.phases.len(), phase.title.clone()));
    Some(BriefPlan { brief: plan.brief.clone(), plan: plan.plan.clone(), hash: plan.hash.clone(), phase })
}

pub(super) async fn planner_brief(
    cx: &RoundContext<'_>,
    facts: &RoundFacts,
    answer: VerdictChannel,
) -> Result<String, StageError> {
    let spec = &facts.started.spec;
    let trouble = facts.reasons.last().filter(|reason| reason.stage == Stage::Plan && facts.planner_starts > 0);
    let brief = PlannerBrief {
        own: own_words(cx, BriefText::Planner, Stage::Plan)?,
        answer,
        intent: spec.intent.clone(),
        task: spec.prompts.maker.clone().unwrap_or_default(),
        instructions: spec.prompts.planner.clone(),
        gates: spec.gates.iter().map(gate_line).collect(),
        dimensions: verdict::dimensions(&spec.rubric, TreeChange::Some),
        protect: spec.protect.clone(),
        context: context(cx, facts).await?,
        mark: mark(&format!("{}:plan:{}", cx.id, facts.started.spec_hash)),
        items: work_items(facts),
        trouble: trouble.map(|reason| reason.text.clone()),
    };
    Ok(brief.render())
}

pub(super) async fn attacker_brief(
    cx: &RoundContext<'_>,
    facts: &RoundFacts,
    sealed: &Attempt,
    role: &str,
    nonce: &str,
    answer: VerdictChannel,
) -> Result<String, StageError> {
    let spec = &facts.started.spec;
    let roles = spec.attack.iter().flat_map(|attack| &attack.roles);
    let look_for = roles.into_iter().find(|one| one.name() == role).and_then(|one| one.look_for());
    let (diff, _) = diff(cx, facts, sealed).await?;
    let brief = AttackerBrief {
        own: own_words(cx, BriefText::Attacker, Stage::Attack)?,
        answer,
        role: role.to_owned(),
        look_for: look_for.unwrap_or_default().to_owned(),
        instructions: spec.prompts.attacker.clone(),
        intent: spec.intent.clone(),
        mark: mark(nonce),
        diff,
        nonce: nonce.to_owned(),
        candidate: sealed.candidate.clone().unwrap_or_default(),
    };
    Ok(brief.render())
}

fn gate_line(gate: &Gate) -> String {
    match gate {
        Gate::Run(run) => format!("`{}`: {}", run.name, run.run.join(" ")),
        gate => format!("`{}`", gate.name()),
    }
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
        own: own_words(cx, BriefText::Checker, Stage::Check)?,
        answer,
        intent: spec.intent.clone(),
        asked: spec.prompts.maker.clone().unwrap_or_default(),
        instructions: spec.prompts.checker.clone(),
        dimensions: verdict::dimensions(&spec.rubric, change),
        threshold: spec.rubric.threshold,
        floor: spec.rubric.floor,
        mark: mark(nonce),
        brief: facts.plan.as_ref().map(|plan| plan.brief.clone()),
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
fn own_words(cx: &RoundContext<'_>, text: BriefText, stage: Stage) -> Result<Option<String>, StageError> {
    let path = format!(".loopwright/prompts/{}.md", text.name());
    match read_repo_file(&cx.repo.work_tree, Path::new(&path), prompt::OWN_MAX) {
        Ok(bytes) => Ok(Some(String::from_utf8_lossy(&bytes).into_owned())),
        Err(RepoFileError::NotFound) => Ok(None),
        Err(error) => Err(StageError::failed(stage, "prompt", format!("read {path}: {error}"))),
    }
}

fn work_items(facts: &RoundFacts) -> Vec<WorkItem> {
    let as_text = |item: &ProbeItem| {
        let text = [item.title.as_deref(), item.data.as_deref()];
        WorkItem { key: item.key.clone(), text: text.into_iter().flatten().collect::<Vec<_>>().join("\n") }
    };
    facts.items.iter().map(as_text).collect()
}

/// Skills are read from the trusted checkout.
fn skills(cx: &RoundContext<'_>, spec: &LoopSpec) -> Result<Vec<NamedText>, StageError> {
    let read = |name: &String| {
        let path = Path::new(".loopwright/skills").join(name);
        let failed = |error| StageError::failed(Stage::Make, "skill", format!("read skill `{name}`: {error}"));
        let bytes = read_repo_file(&cx.repo.work_tree, &path, SKILL_MAX).map_err(failed)?;
        Ok(NamedText { name: name.clone(), text: String::from_utf8_lossy(&bytes).into_owned() })
    };
    spec.skills.iter().map(read).collect()
}

/// Context files come from the pinned base, not from a working copy.
async fn context(cx: &RoundContext<'_>, facts: &RoundFacts) -> Result<Vec<NamedText>, StageError> {
    let mut files = Vec::new();
    let base = pinned_base(facts)?;
    let spec = &facts.started.spec;
    refuse_links(cx, spec, &base).await?;
    for name in spec.context.iter().map(String::as_str).chain(instruction_files(spec)) {
        let blob = cx.objects().read_blob(&base, name, CONTEXT_MAX).await;
        let blob = blob.map_err(|error| StageError::broke(Stage::Make, "context", &error))?;
        if blob.is_none() && !spec.context.iter().any(|named| named == name) {
            continue;
        }
        let text =
            blob.map_or_else(|| "(not in base)".to_owned(), |bytes| String::from_utf8_lossy(&bytes).into_owned());
        files.push(NamedText { name: name.to_owned(), text });
    }
    Ok(files)
}

/// A link's text is not the file that the loop file names, so no agent gets it.
async fn refuse_links(cx: &RoundContext<'_>, spec: &LoopSpec, base: &Oid) -> Result<(), StageError> {
    let names: Vec<&str> = spec.context.iter().map(String::as_str).collect();
    let entries = cx.objects().entries(base, &names).await;
    let entries = entries.map_err(|error| StageError::broke(Stage::Make, "context", &error))?;
    match entries.iter().find(|entry| !entry.is_file()) {
        Some(link) => {
            let text = format!("context file `{}` is not a plain file in base", link.path);
            Err(StageError::failed(Stage::Make, "context", text))
        }
        None => Ok(()),
    }
}

/// The repository's own instructions for agents that the loop shows and `context` does not name already.
fn instruction_files(spec: &LoopSpec) -> impl Iterator<Item = &str> {
    let shown = spec.instructions == OnOff::On;
    INSTRUCTION_FILES.into_iter().filter(move |name| shown && !spec.context.iter().any(|named| named == name))
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
    let binary: Vec<&str> = diff.text.lines().filter(|line| line.starts_with("Binary files ")).collect();
    let shown = if diff.whole && are_small_pictures(cx, &commit, &binary).await {
        ShownChange::Whole
    } else {
        ShownChange::Part
    };
    let files = split_diff(&diff.text).into_iter();
    let files = files.map(|file| FileDiff { path: file.path, text: file.patch.unwrap_or_default() });
    Ok((files.collect(), shown))
}

/// Most bytes of a picture that a checker need not see, and most such pictures.
const PICTURE_BYTES_MAX: usize = 256 << 10;
const PICTURES_MAX: usize = 20;
/// Pictures that no program runs, by the end of their name and their first bytes. SVG is text.
const PICTURES: [(&str, &[u8]); 5] =
    [("png", b"\x89PNG\r\n"), ("jpg", b"\xff\xd8\xff"), ("jpeg", b"\xff\xd8\xff"), ("gif", b"GIF8"), ("webp", b"RIFF")];

/// Whether all of these lines of a diff are about new or changed small pictures. Code that uses one is text, so its
/// checker sees it.
async fn are_small_pictures(cx: &RoundContext<'_>, commit: &Oid, lines: &[&str]) -> bool {
    let known: Vec<(&str, &[u8])> = lines.iter().filter_map(|line| named_picture(line)).collect();
    if known.len() < lines.len() || known.len() > PICTURES_MAX {
        return false;
    }
    let names: Vec<(&Oid, &str)> = known.iter().map(|(path, _)| (commit, *path)).collect();
    // Larger files do not fit, and count as no pictures.
    let Ok(blobs) = cx.objects().read_blobs(&names, PICTURES_MAX * PICTURE_BYTES_MAX).await else { return false };
    let is_picture = |(blob, (_, magic)): (&Option<Vec<u8>>, &(&str, &[u8]))| {
        blob.as_ref().is_some_and(|bytes| bytes.len() <= PICTURE_BYTES_MAX && bytes.starts_with(magic))
    };
    blobs.iter().zip(&known).all(is_picture)
}

/// The path that a line names as a picture's, and the first bytes of such a picture.
fn named_picture(line: &str) -> Option<(&str, &'static [u8])> {
    let path = line.strip_suffix(" differ")?.rsplit_once(" and b/")?.1;
    let (_, end) = path.rsplit_once('.')?;
    let (_, magic) = PICTURES.iter().find(|(known, _)| end.eq_ignore_ascii_case(known))?;
    Some((path, *magic))
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
    let proof = feedback
        .proof
        .iter()
        .map(|(why, output)| prompt::BriefFeedback::Proof { why: why.clone(), output: output.clone() });
    let findings = feedback.findings.iter().map(|finding| prompt::BriefFeedback::Finding {
        title: finding.title.clone(),
        trigger: finding.trigger.clone(),
        script: finding.script.clone(),
    });
    let scores =
        (!feedback.scores.is_empty()).then(|| prompt::BriefFeedback::Checker { reasons: feedback.scores.clone() });
    let mut all: Vec<_> = gates.chain(proof).chain(findings).chain(scores).collect();
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
