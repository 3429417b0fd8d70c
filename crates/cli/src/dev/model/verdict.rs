//! A checker's verdict as an honest model would write it: bound to the values of its brief, with quotes from it.

use super::scenario::{ScenarioScore, ScenarioVerdict, ScoreEvidence};
use loopwright_core::prompt;
use serde_json::{Value, json};

/// The verdict as a JSON document. Values that the brief lacks stay empty, and the engine does not accept it.
pub(super) fn verdict_json(verdict: &ScenarioVerdict, brief: &str) -> String {
    // One agent treats names after an at sign as files unless a backslash precedes them, so its brief has backslashes.
    let brief = &brief.replace("\\@", "@");
    let binding = prompt::read_binding(brief);
    let part = |of: fn(&prompt::VerdictBinding) -> &String| binding.as_ref().map(of).cloned().unwrap_or_default();
    let (nonce, tree, candidate) = (part(|all| &all.nonce), part(|all| &all.tree), part(|all| &all.candidate));
    match verdict {
        ScenarioVerdict::Raw(raw) => {
            raw.trim_end().replace("$NONCE", &nonce).replace("$TREE", &tree).replace("$CANDIDATE", &candidate)
        }
        ScenarioVerdict::Honest { word, scores, summary } => {
            let scores: Vec<Value> = scores.iter().map(|one| score(one, brief)).collect();
            json!({
                "nonce": nonce, "tree": tree, "candidate": candidate,
                "verdict": word, "summary": summary, "scores": scores,
            })
            .to_string()
        }
    }
}

fn score(score: &ScenarioScore, brief: &str) -> Value {
    let evidence: Vec<Value> = score.evidence.iter().map(|place| evidence(place, brief)).collect();
    json!({ "dimension": score.dimension, "score": score.score, "why": "scripted", "evidence": evidence })
}

fn evidence(place: &ScoreEvidence, brief: &str) -> Value {
    match place {
        ScoreEvidence::Gate(gate) => json!({ "gate": gate }),
        ScoreEvidence::Line { path, line, quote } => {
            let quote = quote.clone().or_else(|| prompt::read_diff_line(brief, path, *line));
            json!({ "path": path, "line": line, "quote": quote.unwrap_or_default().trim() })
        }
        ScoreEvidence::Item { item, line, quote } => {
            let quote = quote.clone().or_else(|| prompt::read_item_line(brief, item, *line));
            json!({ "item": item, "line": line, "quote": quote.unwrap_or_default().trim() })
        }
    }
}
