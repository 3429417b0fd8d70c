//! Front matter of the local forge's files: a few keys that people read and edit and that the engine reads again. YAML
//! and this reader parse every value, which is one line, alike.

use serde_json::Value;

/// Keys and values at the top of a file, in order.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PageFrontMatter {
    entries: Vec<(String, Value)>,
}

/// YAML 1.1 does not read these as strings.
const RESERVED: [&str; 9] = ["true", "false", "null", "yes", "no", "on", "off", "y", "n"];

impl PageFrontMatter {
    /// Adds a key.
    #[must_use]
    pub fn with(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.entries.push((key.to_owned(), value.into()));
        self
    }

    /// The value of a key.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.entries.iter().find(|(name, _)| name == key).map(|(_, value)| value)
    }

    /// The text of a key.
    #[must_use]
    pub fn text(&self, key: &str) -> Option<&str> {
        self.get(key).and_then(Value::as_str)
    }

    /// A whole file: the front matter, an empty line, the body.
    #[must_use]
    pub fn page(&self, body: &str) -> String {
        let lines: String = self.entries.iter().map(|(key, value)| format!("{key}: {}\n", scalar(value))).collect();
        format!("---\n{lines}---\n\n{body}")
    }

    /// Parses a file; `None` if it has no front matter. Malformed lines are skipped.
    #[must_use]
    pub fn read(page: &str) -> Option<(Self, &str)> {
        let (head, body) = page.strip_prefix("---\n")?.split_once("\n---\n")?;
        let entries = head.lines().filter_map(|line| line.split_once(':'));
        let entries = entries.map(|(key, value)| (key.trim().to_owned(), unscalar(value.trim()))).collect();
        Some((Self { entries }, body.strip_prefix('\n').unwrap_or(body)))
    }
}

/// A bare word where YAML reads it as a string; otherwise JSON, which is YAML too.
fn scalar(value: &Value) -> String {
    match value {
        Value::String(text) if is_word(text) => text.clone(),
        other => other.to_string(),
    }
}

fn is_word(text: &str) -> bool {
    let plain =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'/' | b'_' | b'.' | b'-');
    text.starts_with(|c: char| c.is_ascii_lowercase()) && text.bytes().all(plain) && !RESERVED.contains(&text)
}

fn unscalar(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| text.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_front_matter_is_read_again() {
        let front = PageFrontMatter::default()
            .with("kind", "pull-request")
            .with("title", "Fix: \"it\" # now\n---\n")
            .with("head", "12e34567")
            .with("loop", "no")
            .with("draft", true)
            .with("target", Value::Null)
            .with("labels", vec!["a b", "c"]);
        let page = front.page("Body.\n---\nMore.\n");
        let expected = "---\nkind: pull-request\ntitle: \"Fix: \\\"it\\\" # now\\n---\\n\"\nhead: \"12e34567\"\nloop: \"no\"\n\
                        draft: true\ntarget: null\nlabels: [\"a b\",\"c\"]\n---\n\nBody.\n---\nMore.\n";
        assert_eq!(page, expected);
        assert_eq!(PageFrontMatter::read(&page), Some((front, "Body.\n---\nMore.\n")));
    }

    #[test]
    fn a_file_that_a_person_edited_is_still_read() {
        let page = "---\nstate: closed\nnonsense\nhead:  abc \n---\nBody";
        let (front, body) = PageFrontMatter::read(page).expect("it has front matter");
        assert_eq!((front.text("state"), front.text("head"), body), (Some("closed"), Some("abc"), "Body"));
        assert_eq!(PageFrontMatter::read("no front matter"), None);
    }
}
