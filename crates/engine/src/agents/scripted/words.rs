//! Words of a script line: separated by spaces, or in double quotes with `\n`, `\t`, `\"` and `\\`.

/// Splits a line into words.
///
/// # Errors
/// A quote that is not closed, or an unknown escape.
pub fn words(line: &str) -> Result<Vec<String>, String> {
    let mut found = Vec::new();
    let mut rest = line.trim();
    while !rest.is_empty() {
        let (word, after) = next(rest)?;
        found.push(word);
        rest = after.trim_start();
    }
    Ok(found)
}

/// The first word and the rest after it.
///
/// # Errors
/// A quote that is not closed, or an unknown escape.
pub fn next(text: &str) -> Result<(String, &str), String> {
    match text.strip_prefix('"') {
        Some(quoted) => unquote(quoted),
        None => {
            let end = text.find(char::is_whitespace).unwrap_or(text.len());
            Ok((text[..end].to_owned(), &text[end..]))
        }
    }
}

fn unquote(text: &str) -> Result<(String, &str), String> {
    let mut word = String::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return ended(word, &text[at + 1..]),
            '\\' => word.push(escaped(chars.next().map(|(_, c)| c))?),
            other => word.push(other),
        }
    }
    Err("a quote is not closed".to_owned())
}

fn ended(word: String, after: &str) -> Result<(String, &str), String> {
    if after.starts_with(|c: char| !c.is_whitespace()) {
        return Err("a closing quote must be followed by a space or the end of the line".to_owned());
    }
    Ok((word, after))
}

fn escaped(c: Option<char>) -> Result<char, String> {
    match c {
        Some('n') => Ok('\n'),
        Some('t') => Ok('\t'),
        Some(c @ ('"' | '\\')) => Ok(c),
        Some(other) => Err(format!("unknown escape `\\{other}`; known are \\n, \\t, \\\" and \\\\")),
        None => Err("a quote is not closed".to_owned()),
    }
}
