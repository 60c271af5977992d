//! JSON of foreign files as values: an object is an object, a number is one that an f64 holds, and a key stands once.
//!
//! The parser's own values are not that. It keeps numbers as text once any crate of the program asks it to, so that 1e400
//! is one and 0.10 is not 0.1, and it takes an object with a certain key for a number.

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Error, MapAccess, Visitor};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

/// Lists and objects that may stand in each other. Each level reads its part of the text once more.
const DEPTH_LIMIT: usize = 128;

/// Why a text is no such value.
#[derive(Debug, thiserror::Error)]
pub enum JsonError {
    #[error(transparent)]
    Syntax(#[from] serde_json::Error),
    #[error("{reason} at line {line} column {column}")]
    At { reason: String, line: usize, column: usize },
}

/// The value of a text.
///
/// # Errors
/// A text that is no JSON, or holds more than JSON's values can be relied on for: a key twice in an object, a number
/// beyond f64, more than 128 levels.
pub fn parse(text: &str) -> Result<Value, JsonError> {
    // The whole text first, which takes no stack: what is wrong with it is told with its place.
    let whole: &RawValue = serde_json::from_str(text)?;
    value(text, whole, 0)
}

fn value(text: &str, part: &RawValue, depth: usize) -> Result<Value, JsonError> {
    let written = part.get();
    let refuse = |reason: &str| Err(at(text, written, reason));
    match written.as_bytes().first() {
        Some(b'{' | b'[') if depth == DEPTH_LIMIT => refuse("recursion limit exceeded"),
        Some(b'{') => {
            let Entries(entries) = of_part(text, written)?;
            let mut object = Map::new();
            for (key, part) in entries {
                if object.contains_key(&key) {
                    return refuse(&format!("the key {key:?} stands twice in the object"));
                }
                object.insert(key, value(text, part, depth + 1)?);
            }
            Ok(Value::Object(object))
        }
        Some(b'[') => {
            let parts: Vec<&RawValue> = of_part(text, written)?;
            parts.into_iter().map(|part| value(text, part, depth + 1)).collect::<Result<_, _>>().map(Value::Array)
        }
        Some(b'-' | b'0'..=b'9') => number(text, written),
        _ => of_part(text, written),
    }
}

/// The nearest of the three numbers that a value may hold: equal ones are equal however they were written.
fn number(text: &str, written: &str) -> Result<Value, JsonError> {
    if let Ok(whole) = serde_json::from_str::<u64>(written) {
        return Ok(whole.into());
    }
    if let Ok(whole) = serde_json::from_str::<i64>(written) {
        return Ok(whole.into());
    }
    Ok(of_part::<f64>(text, written)?.into())
}

/// Reads a part of a text as what it is known to be.
fn of_part<'a, T: Deserialize<'a>>(text: &str, part: &'a str) -> Result<T, JsonError> {
    serde_json::from_str(part).map_err(|error| {
        // Its place is one in the part.
        let reason = error.to_string();
        at(text, part, reason.rsplit_once(" at line ").map_or(&*reason, |(reason, _)| reason))
    })
}

/// An error about the value that begins a part of the text.
fn at(text: &str, part: &str, reason: &str) -> JsonError {
    let before = text.get(..(part.as_ptr() as usize).saturating_sub(text.as_ptr() as usize)).unwrap_or_default();
    let line = 1 + before.matches('\n').count();
    let column = 1 + before.len() - before.rfind('\n').map_or(0, |newline| newline + 1);
    JsonError::At { reason: reason.into(), line, column }
}

/// An object's entries as they stand.
struct Entries<'a>(Vec<(String, &'a RawValue)>);

impl<'de: 'a, 'a> Deserialize<'de> for Entries<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct All;

        impl<'de> Visitor<'de> for All {
            type Value = Entries<'de>;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Entries<'de>, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(Entries(entries))
            }
        }

        deserializer.deserialize_map(All)
    }
}

/// For a field that holds any object: `#[serde(deserialize_with = "crate::json::object")]`.
///
/// # Errors
/// As [`parse`], and for what is no object.
pub fn object<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Map<String, Value>, D::Error> {
    let written = <&RawValue>::deserialize(deserializer)?;
    match parse(written.get()) {
        Ok(Value::Object(object)) => Ok(object),
        Ok(_) => Err(D::Error::custom("it holds no object where one is needed")),
        // The place would be one in the field.
        Err(JsonError::At { reason, .. }) => Err(D::Error::custom(reason)),
        Err(JsonError::Syntax(error)) => Err(D::Error::custom(error)),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// The keys that the parser keeps for itself.
    const NUMBER_KEY: &str = "$serde_json::private::Number";
    const TEXT_KEY: &str = "$serde_json::private::RawValue";

    #[test]
    fn equal_numbers_are_equal_however_they_are_written() {
        let long = format!("0.5{}", "0".repeat(1000));
        for (written, expected) in [
            ("0", json!(0)),
            ("18446744073709551615", json!(u64::MAX)),
            ("-9223372036854775808", json!(i64::MIN)),
            ("18446744073709551616", json!(1.8446744073709552e19)),
            ("1.0", json!(1.0)),
            ("1.00", json!(1.0)),
            ("1e2", json!(100.0)),
            ("1E+2", json!(100.0)),
            ("0.0010", json!(1e-3)),
            ("-0", json!(-0.0)),
            ("1e-400", json!(0.0)),
            ("0.1000000000000000055511151231257827", json!(0.1)),
            (&long, json!(0.5)),
        ] {
            let found = parse(written).unwrap();
            assert_eq!(found, expected, "{written}");
            assert_eq!(found.to_string(), expected.to_string());
            assert_eq!((found.as_u64(), found.as_f64()), (expected.as_u64(), expected.as_f64()));
        }
        assert_eq!(parse("1.0").unwrap().as_u64(), None);
        assert_eq!(parse("-0").unwrap().as_f64().map(f64::is_sign_negative), Some(true));
    }

    #[test]
    fn values_are_what_is_written_and_in_its_order() {
        let text = r#" {"b": [1, {"a": null}, []], "a": {"\u0041\n": "\ud83d\ude00"}, "c": [true, false, {}]} "#;
        let expected = json!({"b": [1, {"a": null}, []], "a": {"A\n": "\u{1f600}"}, "c": [true, false, {}]});
        assert_eq!(parse(text).unwrap(), expected);
        assert_eq!(parse(text).unwrap().to_string(), expected.to_string());
        let deep = format!("{}{}", "[".repeat(DEPTH_LIMIT), "]".repeat(DEPTH_LIMIT));
        assert!(parse(&deep).is_ok());
    }

    #[test]
    fn an_object_with_a_key_of_the_parser_is_an_object() {
        for key in [NUMBER_KEY, TEXT_KEY] {
            for content in ["\"1\"", "\"no number\"", "\"[[\"", "1", "null", "{}"] {
                for text in [format!("{{{key:?}: {content}}}"), format!("{{{key:?}: {content}, \"a\": 1}}")] {
                    let found = parse(&text).unwrap();
                    assert_eq!(found[key], parse(content).unwrap());
                    let nested = parse(&format!("[{{\"a\": {text}}}]")).unwrap();
                    assert_eq!(nested[0]["a"], found);
                }
            }
            let escaped = format!("{{\"\\u0024{}\": \"1\"}}", &key[1..]);
            assert!(parse(&escaped).unwrap().is_object());
        }
    }

    #[test]
    fn what_is_no_value_is_refused_with_its_place() {
        let digits = "9".repeat(1000);
        let deep = format!("[\n{}{}", "[".repeat(100_000), "]".repeat(100_001));
        let open = "[".repeat(100_000);
        for (text, expected) in [
            ("", "EOF while parsing a value at line 1 column 0"),
            ("1 2", "trailing characters at line 1 column 3"),
            ("{\"a\": 01}", "invalid number at line 1"),
            ("{\"a\": NaN}", "expected value at line 1"),
            ("{\"a\": 1,}", "key must be a string at line 1 column 9"),
            ("[1e400]", "number out of range at line 1 column 2"),
            ("[1,\n  -1e400]", "number out of range at line 2 column 3"),
            (&digits, "number out of range at line 1 column 1"),
            (&deep, "recursion limit exceeded at line 2 column 128"),
            (&open, "EOF while parsing a list at line 1"),
            ("{\"a\": {\"b\": 1, \"b\": 1}}", "the key \"b\" stands twice in the object at line 1 column 7"),
            ("{\"a\": 1, \"\\u0061\": 2}", "the key \"a\" stands twice in the object at line 1 column 1"),
            ("[\"\\ud800\"]", "unexpected end of hex escape at line 1 column 2"),
            ("[\"\n\"]", "control character"),
        ] {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{text:.40}: {error}");
        }
    }
}
