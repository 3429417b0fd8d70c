//! From a verdict file to a decision: binding, completeness, citations, floor and mean. It looks up citations only
//! through the resolver.

use super::file::{DimensionScore, VerdictCitation, VerdictFile, VerdictWord};
use crate::spec::Rubric;
use serde::{Deserialize, Serialize};

/// The largest number of reasons that are kept, whatever the checker wrote.
const REASONS_MAX: usize = 64;

/// The binding of the verdict, and the requirements for a pass.
#[derive(Debug, Clone, PartialEq)]
pub struct VerdictExpectation {
    /// The round's secret for this checker.
    pub nonce: String,
    /// The sealed tree.
    pub tree: String,
    /// The candidate.
    pub candidate: String,
    /// The dimensions that must be scored, each once.
    pub dimensions: Vec<String>,
    /// The mean score that a pass needs.
    pub threshold: f64,
    /// The score that every dimension must reach.
    pub floor: u8,
    /// Names of the gates that passed.
    pub gates: Vec<String>,
}

/// Looks up citations in the sealed candidate.
pub trait CitationResolver {
    /// The text of a line (from 1) of a file at the sealed commit.
    fn line(&self, path: &str, line: u32) -> Option<String>;
    /// The text of a line (from 1) of a staged item.
    fn item_line(&self, item: &str, line: u32) -> Option<String>;
}

/// Whether a citation was found as cited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CitationMatch {
    /// The engine found it.
    Yes,
    /// The engine did not find it.
    No,
}

/// Whether a score counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ScoreCounts {
    /// At least one citation resolved.
    Yes,
    /// No citation resolved; the dimension counts as not scored.
    No,
}

/// A citation with the result of its lookup.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResolvedCitation {
    /// The citation.
    pub evidence: VerdictCitation,
    /// Whether it was found.
    pub resolved: CitationMatch,
}

/// A score with its citations looked up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScoredDimension {
    /// The dimension.
    pub dimension: String,
    /// 1 to 5.
    pub score: u8,
    /// The checker's reason.
    pub why: String,
    /// Whether the score counts.
    pub counts: ScoreCounts,
    /// Its citations.
    pub evidence: Vec<ResolvedCitation>,
}

/// A verdict that is bound to this candidate: the `verdict` of the JSON documents.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ScoredVerdict {
    /// The decision; a `pass` that its own scores do not support becomes a `fail`.
    pub verdict: VerdictWord,
    /// The checker's own verdict.
    pub said: VerdictWord,
    /// The mean of the scores that count.
    pub mean: Option<f64>,
    /// The checker's summary.
    pub summary: String,
    /// The scores, in the order of the file.
    pub scores: Vec<ScoredDimension>,
}

/// The judgement on a checker's file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "judgement")]
pub enum Judgement {
    /// Verdict, scores, evidence, floor and mean all allow a pass.
    Pass {
        /// The scores.
        scored: ScoredVerdict,
    },
    /// The candidate was judged and rejected.
    Fail {
        /// The shortcomings, for the maker and the report.
        reasons: Vec<String>,
        /// The scores.
        scored: ScoredVerdict,
    },
    /// The checker asks for a human.
    Escalate {
        /// The reasons, in the checker's and the engine's words.
        reasons: Vec<String>,
        /// The scores.
        scored: ScoredVerdict,
    },
    /// A file that is not a valid verdict.
    Malformed {
        /// The problem with the file.
        why: String,
    },
    /// No file, or an empty one.
    Missing,
    /// A verdict for another candidate: wrong nonce, tree or candidate.
    Forged {
        /// The value that does not match.
        why: String,
    },
}

/// Judges the file of a checker.
#[must_use]
pub fn judge(bytes: Option<&[u8]>, expected: &VerdictExpectation, resolve: &dyn CitationResolver) -> Judgement {
    let Some(bytes) = bytes.filter(|bytes| !bytes.trim_ascii().is_empty()) else {
        return Judgement::Missing;
    };
    let file = match VerdictFile::parse(bytes) {
        Ok(file) => file,
        Err(malformed) => return Judgement::Malformed { why: malformed.0 },
    };
    if let Some(why) = unbound(&file, expected) {
        return Judgement::Forged { why };
    }
    if let Some(why) = misnamed(&file.scores, &expected.dimensions) {
        return Judgement::Malformed { why };
    }
    decide(file, expected, resolve)
}

/// The message names the field and never the expected value, because the guesser may see the message.
fn unbound(file: &VerdictFile, expected: &VerdictExpectation) -> Option<String> {
    let fields = [
        ("nonce", &file.nonce, &expected.nonce),
        ("tree", &file.tree, &expected.tree),
        ("candidate", &file.candidate, &expected.candidate),
    ];
    let wrong = fields.into_iter().find(|(_, said, wanted)| said != wanted || wanted.is_empty());
    wrong.map(|(name, _, _)| format!("the {name} is not this round's"))
}

fn misnamed(scores: &[DimensionScore], dimensions: &[String]) -> Option<String> {
    let mut seen = std::collections::BTreeSet::new();
    for score in scores {
        if !dimensions.contains(&score.dimension) {
            return Some(format!("{:?} is not a dimension of the rubric", score.dimension));
        }
        if !seen.insert(&score.dimension) {
            return Some(format!("dimension {:?} is scored twice", score.dimension));
        }
    }
    None
}

fn decide(file: VerdictFile, expected: &VerdictExpectation, resolve: &dyn CitationResolver) -> Judgement {
    let said = file.verdict;
    let scores: Vec<_> = file.scores.into_iter().map(|score| look_up(score, expected, resolve)).collect();
    let mean = mean(&scores);
    let mut reasons = shortfalls(&scores, mean, expected);
    let verdict = if said == VerdictWord::Pass && !reasons.is_empty() { VerdictWord::Fail } else { said };
    let scored = ScoredVerdict { verdict, said, mean, summary: file.summary, scores };
    if said != VerdictWord::Pass {
        let summary = if scored.summary.trim().is_empty() { "no summary given" } else { scored.summary.trim() };
        reasons.insert(0, format!("the checker says {}: {summary}", said.word()));
    }
    reasons.truncate(REASONS_MAX);
    match verdict {
        VerdictWord::Pass => Judgement::Pass { scored },
        VerdictWord::Fail => Judgement::Fail { reasons, scored },
        VerdictWord::Escalate => Judgement::Escalate { reasons, scored },
    }
}

fn look_up(score: DimensionScore, expected: &VerdictExpectation, resolve: &dyn CitationResolver) -> ScoredDimension {
    let cite = |evidence: VerdictCitation| {
        let resolved = if resolves(&evidence, expected, resolve) { CitationMatch::Yes } else { CitationMatch::No };
        ResolvedCitation { evidence, resolved }
    };
    let evidence: Vec<_> = score.evidence.into_iter().map(cite).collect();
    let counts = if evidence.iter().any(|cited| cited.resolved == CitationMatch::Yes) {
        ScoreCounts::Yes
    } else {
        ScoreCounts::No
    };
    ScoredDimension { dimension: score.dimension, score: score.score, why: score.why, counts, evidence }
}

fn resolves(evidence: &VerdictCitation, expected: &VerdictExpectation, resolve: &dyn CitationResolver) -> bool {
    match evidence {
        VerdictCitation::Gate { gate } => expected.gates.contains(gate),
        VerdictCitation::Line { path, line, quote } => is_plain(path) && holds(resolve.line(path, *line), quote),
        VerdictCitation::Item { item, line, quote } => is_plain(item) && holds(resolve.item_line(item, *line), quote),
    }
}

/// A path inside the tree in git's own spelling, so that resolvers need no checks of their own.
fn is_plain(path: &str) -> bool {
    !path.contains('\0') && path.split('/').all(|part| !matches!(part, "" | "." | ".."))
}

fn holds(line: Option<String>, quote: &str) -> bool {
    let quote = quote.trim();
    !quote.is_empty() && line.is_some_and(|line| line.contains(quote))
}

fn mean(scores: &[ScoredDimension]) -> Option<f64> {
    let counted: Vec<f64> = counting(scores).map(|one| f64::from(one.score)).collect();
    (!counted.is_empty()).then(|| counted.iter().sum::<f64>() / counted.len() as f64)
}

fn counting(scores: &[ScoredDimension]) -> impl Iterator<Item = &ScoredDimension> {
    scores.iter().filter(|one| one.counts == ScoreCounts::Yes)
}

/// All reasons why these scores do not pass.
fn shortfalls(scores: &[ScoredDimension], mean: Option<f64>, expected: &VerdictExpectation) -> Vec<String> {
    let mut reasons = Vec::new();
    for dimension in &expected.dimensions {
        match scores.iter().find(|one| &one.dimension == dimension) {
            None => reasons.push(format!("{dimension}: not scored")),
            Some(one) if one.counts == ScoreCounts::No => reasons.push(format!("{dimension}: {}", unproven(one))),
            Some(one) if one.score < expected.floor => reasons.push(below(one, expected.floor)),
            Some(_) => {}
        }
    }
    if expected.dimensions.is_empty() {
        reasons.push("the rubric has no dimension to score".to_owned());
    }
    // If the threshold is not a number, no mean reaches it.
    let reached = mean.is_some_and(|mean| mean >= expected.threshold);
    if !reached && reasons.is_empty() {
        reasons.push(format!("the mean {:.2} is below {}", mean.unwrap_or(0.0), expected.threshold));
    }
    reasons
}

fn unproven(one: &ScoredDimension) -> String {
    let cited: Vec<_> = one.evidence.iter().map(|cited| cited.evidence.to_string()).collect();
    match cited.as_slice() {
        [] => "scored without evidence".to_owned(),
        some => format!("no evidence resolves ({})", some.join(", ")),
    }
}

fn below(one: &ScoredDimension, floor: u8) -> String {
    let why = one.why.trim();
    let tail = if why.is_empty() { String::new() } else { format!(": {why}") };
    format!("{}: {} is below the floor of {floor}{tail}", one.dimension, one.score)
}

/// Whether the candidate changes the tree or has only staged items.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TreeChange {
    /// Some files changed.
    Some,
    /// No file changed.
    None,
}

const CORRECTNESS: (&str, &str) = ("correctness", "it does what the intent asks, and what it says is true");
const SCOPE: (&str, &str) = ("scope", "nothing is done that the intent did not ask for");
const TESTS: (&str, &str) = ("tests", "the change is covered by tests that can fail, and none was weakened");

/// The dimensions with their meanings: the loop's own, else the built-in ones. Tests are only scored for a changed
/// tree.
#[must_use]
pub fn dimensions(rubric: &Rubric, change: TreeChange) -> Vec<(String, String)> {
    if !rubric.dimensions.is_empty() {
        return rubric.dimensions.iter().map(|(name, meaning)| (name.clone(), meaning.clone())).collect();
    }
    let built_in: &[_] = match change {
        TreeChange::Some => &[CORRECTNESS, SCOPE, TESTS],
        TreeChange::None => &[CORRECTNESS, SCOPE],
    };
    built_in.iter().map(|(name, meaning)| ((*name).to_owned(), (*meaning).to_owned())).collect()
}
