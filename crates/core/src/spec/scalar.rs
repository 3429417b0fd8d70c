//! The type of a plain YAML word, by the core rules of YAML 1.2: `no` and `on` are text, `0o17` is fifteen.

use super::tree::YamlValue;
use saphyr_parser::ScalarStyle;

/// The value of a scalar: plain words by their form, everything in quotes or blocks as text.
pub(super) fn typed(text: &str, style: ScalarStyle) -> YamlValue {
    if style != ScalarStyle::Plain {
        return YamlValue::Text(text.to_owned());
    }
    match text {
        "" | "~" | "null" | "Null" | "NULL" => YamlValue::Null,
        "true" | "True" | "TRUE" => YamlValue::Bool(true),
        "false" | "False" | "FALSE" => YamlValue::Bool(false),
        _ => number(text).unwrap_or_else(|| YamlValue::Text(text.to_owned())),
    }
}

/// A number by YAML 1.2's core rules. Integers too large to hold become floats, as in JSON.
fn number(text: &str) -> Option<YamlValue> {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    match unsigned {
        ".inf" | ".Inf" | ".INF" => {
            return Some(YamlValue::Float(if text.starts_with('-') { f64::NEG_INFINITY } else { f64::INFINITY }));
        }
        ".nan" | ".NaN" | ".NAN" => return (unsigned == text).then_some(YamlValue::Float(f64::NAN)),
        _ => {}
    }
    if let Some(digits) = text.strip_prefix("0x") {
        return radix(digits, 16);
    }
    if let Some(digits) = text.strip_prefix("0o") {
        return radix(digits, 8);
    }
    if !looks_numeric(unsigned) {
        return None;
    }
    if unsigned.bytes().all(|byte| byte.is_ascii_digit())
        && let Ok(number) = text.parse::<i128>()
    {
        let fits = i128::from(i64::MIN) <= number && number <= i128::from(u64::MAX);
        return Some(if fits { YamlValue::Int(number) } else { YamlValue::Float(number as f64) });
    }
    text.parse().ok().map(YamlValue::Float)
}

fn radix(digits: &str, radix: u32) -> Option<YamlValue> {
    if digits.starts_with(['+', '-']) {
        return None;
    }
    u64::from_str_radix(digits, radix).ok().map(|number| YamlValue::Int(number.into()))
}

fn looks_numeric(unsigned: &str) -> bool {
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent.strip_prefix(['-', '+']).unwrap_or(exponent))),
        None => (unsigned, None),
    };
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let (whole, part) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let exponent_fits = exponent.is_none_or(|exponent| !exponent.is_empty() && digits(exponent));
    digits(whole) && digits(part) && !(whole.is_empty() && part.is_empty()) && exponent_fits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_words_are_typed_by_the_core_rules_of_yaml_1_2() {
        for text in ["no", "on", "yes", "off", "15m", "08:00", "1.2.3", "+-1", "0x", "e5", ".", "1e", "-.nan", "0x-1"] {
            assert_eq!(typed(text, ScalarStyle::Plain), YamlValue::Text(text.to_owned()));
        }
        for (text, number) in [("12", 12), ("-3", -3), ("+7", 7), ("0x1F", 31), ("0o17", 15), ("007", 7)] {
            assert_eq!(typed(text, ScalarStyle::Plain), YamlValue::Int(number), "{text}");
        }
        for (text, number) in [("2.50", 2.5), (".5", 0.5), ("1e3", 1000.0), ("5.", 5.0), ("-.inf", f64::NEG_INFINITY)] {
            assert_eq!(typed(text, ScalarStyle::Plain), YamlValue::Float(number), "{text}");
        }
        assert_eq!(typed("~", ScalarStyle::Plain), YamlValue::Null);
        assert_eq!(typed("12", ScalarStyle::DoubleQuoted), YamlValue::Text("12".to_owned()));
    }
}
