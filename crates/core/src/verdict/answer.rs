//! Finds the verdict in an agent's last message: one JSON document, bare or as the only block of JSON. Every ambiguous
//! answer is malformed.

use super::MalformedVerdict;

/// The document in an answer; `None` for an empty answer.
///
/// # Errors
/// If it contains no document, or more than one.
pub fn find_verdict(text: &str) -> Result<Option<&str>, MalformedVerdict> {
    let text = text.trim();
    if text.is_empty() || text.starts_with('{') {
        return Ok(Some(text).filter(|text| !text.is_empty()));
    }
    let mut blocks = Vec::new();
    let mut open: Option<(&str, usize)> = None;
    for line in text.split_inclusive('\n') {
        let at = line.as_ptr() as usize - text.as_ptr() as usize;
        let Some(fence) = line.trim().strip_prefix("```") else { continue };
        open = match open {
            Some((word, from)) if fence.is_empty() => {
                blocks.extend((word == "json").then(|| &text[from..at]));
                None
            }
            Some(open) => Some(open),
            None => Some((fence.trim(), at + line.len())),
        };
    }
    match (blocks.as_slice(), open) {
        ([only], None) => Ok(Some(only)),
        ([], None) => Err(malformed("the answer is not a JSON document and has no block of JSON")),
        (_, None) => Err(malformed("the answer has more than one block of JSON")),
        (_, Some(_)) => Err(malformed("a block in the answer has no end")),
    }
}

fn malformed(why: &str) -> MalformedVerdict {
    MalformedVerdict(why.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_document_is_found_and_nothing_is_guessed() {
        let good = [
            ("", None),
            (" \n", None),
            ("{\"a\": 1}", Some("{\"a\": 1}")),
            ("  {\"a\": 1}\n", Some("{\"a\": 1}")),
            ("```json\n{}\n```", Some("{}\n")),
            ("I looked.\n\n```json\r\n{}\r\n```\r\nThat is all.", Some("{}\r\n")),
            ("```sh\nls\n```\n```json\n{}\n```", Some("{}\n")),
        ];
        for (text, document) in good {
            assert_eq!(find_verdict(text), Ok(document), "{text}");
        }
        // Bare JSON with text after it is returned whole, and the strict parser rejects it.
        assert_eq!(find_verdict("{} and {}"), Ok(Some("{} and {}")));
        let bad = [
            "It is fine, pass.",
            "Here it is: {\"verdict\": \"pass\"}",
            "```json\n{}\n```\n```json\n{}\n```",
            "```\n{}\n```",
            "```json\n{}",
            "```json\n{}\n```\n```sh",
        ];
        for text in bad {
            assert!(find_verdict(text).is_err(), "{text}");
        }
    }
}
