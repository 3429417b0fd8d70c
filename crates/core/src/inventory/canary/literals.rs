//! The falsification of one literal: another value of the same kind, so that the text still compiles.

use super::CanaryLanguage;

/// Letters that a falsified text ends with; no syntax gives them a meaning.
const SUFFIXES: [&str; 4] = ["q", "zx", "vk", "wj"];

/// Another value for a number, as far as it is plain: a smaller one stays within its type.
pub(super) fn number(text: &str, roll: u64) -> Option<String> {
    if let Some((whole, rest)) = text.split_once('.') {
        return Some(format!("{}.{rest}", larger(whole, roll)?));
    }
    if let Some(digits) = text.strip_prefix("0x").or_else(|| text.strip_prefix("0b")) {
        return Some(format!("{}{}", &text[..2], last_digit(digits)?));
    }
    let count = text.bytes().take_while(|byte| byte.is_ascii_digit() || *byte == b'_').count();
    let (digits, suffix) = text.split_at(count);
    let is_padded = digits.len() > 1 && digits.starts_with('0');
    if is_padded || suffix.starts_with(['e', 'E', 'o', 'O', 'x', 'X', 'b', 'B']) {
        return None;
    }
    let value: u128 = digits.replace('_', "").parse().ok()?;
    let other = match value {
        0 => 1,
        1 => (roll % 2) as u128 * 2,
        2..=9 => value - 1,
        _ => value - value / 3 - 1,
    };
    Some(format!("{other}{suffix}"))
}

/// Floats have no small range, and comparisons of them have a tolerance: the whole part grows.
fn larger(whole: &str, roll: u64) -> Option<String> {
    let value: u64 = whole.replace('_', "").parse().ok()?;
    Some((value.checked_add(1 + roll % 3)?).to_string())
}

fn last_digit(digits: &str) -> Option<String> {
    let last = digits.chars().last().filter(char::is_ascii_hexdigit)?;
    let other = if last == '0' { '1' } else { '0' };
    Some(format!("{}{other}", &digits[..digits.len() - 1]))
}

/// The other boolean.
pub(super) fn boolean(word: &str) -> Option<&'static str> {
    Some(match word {
        "true" => "false",
        "false" => "true",
        "True" => "False",
        "False" => "True",
        _ => return None,
    })
}

/// Another text in the same quotes.
pub(super) fn text(literal: &str, language: CanaryLanguage, roll: u64) -> Option<String> {
    let open = literal.find(['"', '\'', '`'])?;
    let quote = literal[open..].chars().next()?;
    let marks = literal[..open].bytes().filter(|byte| *byte == b'#').count();
    let quotes =
        if literal[open..].starts_with(&quote.to_string().repeat(3)) && literal.len() - open >= 6 { 3 } else { 1 };
    let (inner_start, inner_end) = (open + quotes, literal.len().checked_sub(quotes + marks)?);
    let inner = literal.get(inner_start..inner_end)?;
    // A substitution is code, not an expected value.
    if language == CanaryLanguage::Shell && inner.contains(['$', '`']) {
        return None;
    }
    let changed = if quote == '\'' && language.has_characters() { character(inner, roll)? } else { words(inner, roll) };
    Some(format!("{}{changed}{}", &literal[..inner_start], &literal[inner_end..]))
}

/// Another text: its last digit changed, or letters added.
pub(super) fn words(inner: &str, roll: u64) -> String {
    match inner.chars().last().filter(char::is_ascii_digit).and_then(|last| last.to_digit(10)) {
        Some(digit) => {
            let other = (digit + 1 + u32::try_from(roll % 8).unwrap_or(0)) % 10;
            format!("{}{other}", &inner[..inner.len() - 1])
        }
        None => format!("{inner}{}", SUFFIXES[(roll % 4) as usize]),
    }
}

fn character(inner: &str, roll: u64) -> Option<String> {
    let is_plain = inner.chars().count() == 1 && !inner.starts_with('\\');
    let other = if roll.is_multiple_of(2) { "q" } else { "z" };
    is_plain.then(|| if inner == other { "k".to_owned() } else { other.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_becomes_another_of_its_type() {
        for (from, to) in
            [("0", "1"), ("5", "4"), ("255", "169"), ("7u8", "6u8"), ("1_000", "666"), ("0xff", "0xf0"), ("2.5", "3.5")]
        {
            assert_eq!(number(from, 0).as_deref(), Some(to), "{from}");
        }
        for odd in ["007", "1e5", "x"] {
            assert_eq!(number(odd, 0), None, "{odd}");
        }
    }

    #[test]
    fn a_text_keeps_its_quotes() {
        for (language, from, to) in [
            (CanaryLanguage::Python, "'ab'", "'abq'"),
            (CanaryLanguage::Python, "b\"\"", "b\"q\""),
            (CanaryLanguage::Python, "\"\"\"a\"\"\"", "\"\"\"aq\"\"\""),
            (CanaryLanguage::Python, "'2024-01-09'", "'2024-01-00'"),
            (CanaryLanguage::Rust, "r#\"a\"#", "r#\"aq\"#"),
            (CanaryLanguage::Rust, "'a'", "'q'"),
            (CanaryLanguage::JavaScript, "`a`", "`aq`"),
        ] {
            assert_eq!(text(from, language, 0).as_deref(), Some(to), "{from}");
        }
        assert_eq!(text("\"$(./calc 2)\"", CanaryLanguage::Shell, 0), None);
        assert_eq!(text("'\\n'", CanaryLanguage::Go, 0), None);
    }
}
