//! The header of a safetensors file: the names, types, shapes and places of its tensors, held to the format's rules
//! before any tensor is read. Memory stays in proportion to the header, and a hostile one is left at its first fault.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use safetensors::tensor::Dtype;
use serde::de::value::{Error as NameError, StrDeserializer};
use serde::de::{Deserializer, Error, IntoDeserializer, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, de};

use crate::printable::printable;

/// More tensors than any model here can have: a thousand layers have 14,000, and their moments twice as many.
const TENSOR_LIMIT: usize = 1 << 16;

/// No tensor here has more than four dimensions; a longer shape would only make long errors.
const DIMENSION_LIMIT: usize = 8;

/// Notes that are kept; a million of them would take many times the header's room.
const NOTE_LIMIT: usize = 64;

/// How a name, or a reason that quotes one, is cut in an error.
const NAME_LIMIT: usize = 100;
const REASON_LIMIT: usize = 300;

/// The text that does not have to be a tensor's name.
const METADATA: &str = "__metadata__";

/// A tensor as the header describes it: `start..end` are its bytes, counted from the end of the header.
#[derive(Debug)]
pub(super) struct TensorEntry {
    pub dtype: Dtype,
    pub shape: Vec<usize>,
    pub start: u64,
    pub end: u64,
}

/// What a header says.
#[derive(Debug)]
pub(super) struct ParsedHeader {
    /// The tensors by name.
    pub entries: BTreeMap<String, TensorEntry>,
    /// The bytes that they take together.
    pub bytes: u64,
    /// What the writer noted down.
    pub notes: BTreeMap<String, String>,
}

/// Reads a header. An error is the rest of a sentence about the header.
///
/// The format's rules: a name stands once; shape and type take exactly the bytes of the offsets; the tensors follow
/// each other from byte 0 on without gap or overlap (so that no byte has two meanings or none).
pub(super) fn parse(text: &[u8]) -> Result<ParsedHeader, String> {
    let Header { described, notes } =
        serde_json::from_slice(text).map_err(|error| printable(&error.to_string(), REASON_LIMIT))?;
    let mut entries = BTreeMap::new();
    for (name, description) in described {
        let entry = description.check().map_err(|fault| format!("tensor {} {fault}", shown(&name)))?;
        if let Some(_twin) = entries.insert(name.clone(), entry) {
            return Err(format!("tensor {} is there twice: a name must stand once", shown(&name)));
        }
    }
    let mut ordered: Vec<(&String, &TensorEntry)> = entries.iter().collect();
    ordered.sort_by_key(|(_, entry)| (entry.start, entry.end));
    let mut next = 0;
    for (name, entry) in ordered {
        if entry.start != next {
            return Err(format!(
                "tensor {} begins at byte {} where byte {next} is next: tensors must follow each other without gap or \
                 overlap",
                shown(name),
                entry.start
            ));
        }
        next = entry.end;
    }
    Ok(ParsedHeader { entries, bytes: next, notes })
}

fn shown(name: &str) -> String {
    printable(name, NAME_LIMIT)
}

/// A tensor's description before anything in it is believed.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "a tensor: dtype, shape and data_offsets")]
struct Description<'a> {
    #[serde(borrow)]
    dtype: Cow<'a, str>,
    shape: Shape,
    data_offsets: (u64, u64),
}

impl Description<'_> {
    fn check(self) -> Result<TensorEntry, String> {
        let Self { dtype: name, shape: Shape(shape), data_offsets: (start, end) } = self;
        let spelled: StrDeserializer<'_, NameError> = (&*name).into_deserializer();
        let Ok(dtype) = Dtype::deserialize(spelled) else {
            return Err(format!("has elements of type {}: F32, F16, BF16 and F64 are read", shown(&name)));
        };
        let Some(length) = end.checked_sub(start) else {
            return Err(format!("ends at byte {end}, before byte {start}, its first"));
        };
        let bits = shape
            .iter()
            .try_fold(dtype.bitsize() as u64, |bits, &size| bits.checked_mul(u64::try_from(size).ok()?))
            .ok_or_else(|| format!("has shape {shape:?}: no file has room for it"))?;
        if bits % 8 != 0 || bits / 8 != length {
            let needed = bits.div_ceil(8);
            return Err(format!("has {length} bytes where shape {shape:?} of {dtype} takes {needed}"));
        }
        Ok(TensorEntry { dtype, shape, start, end })
    }
}

struct Shape(Vec<usize>);

impl<'de> Deserialize<'de> for Shape {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Sizes;

        impl<'de> Visitor<'de> for Sizes {
            type Value = Shape;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(formatter, "a list of at most {DIMENSION_LIMIT} sizes")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut sizes: A) -> Result<Shape, A::Error> {
                let mut shape = Vec::new();
                while let Some(size) = sizes.next_element()? {
                    if shape.len() == DIMENSION_LIMIT {
                        return Err(A::Error::invalid_length(DIMENSION_LIMIT + 1, &self));
                    }
                    shape.push(size);
                }
                Ok(Shape(shape))
            }
        }

        deserializer.deserialize_seq(Sizes)
    }
}

/// The entries as they stand: a map would hide a name that stands twice.
struct Header<'a> {
    described: Vec<(String, Description<'a>)>,
    notes: BTreeMap<String, String>,
}

impl<'de> Deserialize<'de> for Header<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries;

        impl<'de> Visitor<'de> for Entries {
            type Value = Header<'de>;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a map from names to tensors")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Header<'de>, A::Error> {
                let mut described = Vec::new();
                let mut notes = None;
                while let Some(name) = map.next_key::<String>()? {
                    if name == METADATA {
                        if notes.replace(map.next_value::<Notes>()?.0).is_some() {
                            return Err(A::Error::duplicate_field(METADATA));
                        }
                        continue;
                    }
                    if described.len() == TENSOR_LIMIT {
                        return Err(A::Error::custom(format_args!("more than {TENSOR_LIMIT} tensors")));
                    }
                    described.push((name, map.next_value()?));
                }
                Ok(Header { described, notes: notes.unwrap_or_default() })
            }
        }

        deserializer.deserialize_map(Entries)
    }
}

/// What writers note down: texts by name, none of which changes what the tensors are.
struct Notes(BTreeMap<String, String>);

impl<'de> Deserialize<'de> for Notes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Texts;

        impl<'de> Visitor<'de> for Texts {
            type Value = Notes;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a map from texts to texts")
            }

            fn visit_map<A: de::MapAccess<'de>>(self, mut map: A) -> Result<Notes, A::Error> {
                let mut texts = BTreeMap::new();
                while let Some((name, text)) = map.next_entry()? {
                    if texts.len() < NOTE_LIMIT {
                        texts.insert(name, text);
                    }
                }
                Ok(Notes(texts))
            }
        }

        deserializer.deserialize_map(Texts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(header: &str) -> String {
        parse(header.as_bytes()).unwrap_err()
    }

    fn x(dtype: &str, shape: &str, offsets: &str) -> String {
        format!(r#"{{"x":{{"dtype":"{dtype}","shape":{shape},"data_offsets":{offsets}}}}}"#)
    }

    #[test]
    fn a_header_that_keeps_the_rules_is_read_in_any_order() {
        let text = r#"{"b":{"dtype":"BF16","shape":[2,3],"data_offsets":[4,16]},"__metadata__":{"format":"pt"},
            "a":{"data_offsets":[0,4],"dtype":"F32","shape":[]},"none":{"dtype":"U8","shape":[0,7],"data_offsets":[4,4]}}"#;
        let ParsedHeader { entries, bytes, notes } = parse(text.as_bytes()).unwrap();
        assert_eq!(bytes, 16);
        let found: Vec<_> = entries.iter().map(|(name, entry)| (&**name, entry.start, entry.end)).collect();
        assert_eq!(found, [("a", 0, 4), ("b", 4, 16), ("none", 4, 4)]);
        assert_eq!(entries["b"].shape, [2, 3]);
        assert_eq!(notes["format"], "pt");
        assert_eq!(parse(b"{}").unwrap().bytes, 0);
    }

    #[test]
    fn each_broken_rule_is_named_with_its_tensor_and_numbers() {
        let two = |second: &str| {
            format!(
                r#"{{"x":{{"dtype":"F32","shape":[2],"data_offsets":[0,8]}},"y":{{"dtype":"F32","shape":[2],"data_offsets":{second}}}}}"#
            )
        };
        let half = u64::MAX / 2;
        for (header, expected) in [
            (x("F32", "[2]", "[0,4]"), "tensor x has 4 bytes where shape [2] of F32 takes 8"),
            (x("F32", "[]", "[0,0]"), "tensor x has 0 bytes where shape [] of F32 takes 4"),
            (x("F4", "[3]", "[0,1]"), "tensor x has 1 bytes where shape [3] of F4 takes 2"),
            (x("F32", "[1]", "[4,0]"), "tensor x ends at byte 0, before byte 4, its first"),
            (
                x("F32", "[1]", "[4,8]"),
                "tensor x begins at byte 4 where byte 0 is next: tensors must follow each other without gap or overlap",
            ),
            (two("[4,12]"), "tensor y begins at byte 4 where byte 8 is next: "),
            (two("[12,20]"), "tensor y begins at byte 12 where byte 8 is next: "),
            (two("[0,8]"), "tensor y begins at byte 0 where byte 8 is next: "),
            (two("[8,16]").replace("\"y\"", "\"x\""), "tensor x is there twice: a name must stand once"),
            (x("Q4", "[1]", "[0,4]"), "tensor x has elements of type Q4: F32, F16, BF16 and F64 are read"),
            (x("\\u001b[31m", "[1]", "[0,4]"), "tensor x has elements of type \\u{1b}[31m: "),
            (
                x("F32", &format!("[{half},{half},0]"), "[0,0]"),
                "tensor x has shape [9223372036854775807, 9223372036854775807, 0]: no file has room for it",
            ),
            (x("U8", "[18446744073709551616]", "[0,0]"), "invalid type: floating point"),
            (x("F32", "[-1]", "[0,4]"), "invalid value: integer `-1`, expected usize"),
            (x("F32", "[1.5]", "[0,4]"), "invalid type: floating point `1.5`, expected usize"),
            (x("F32", "[1.0]", "[0,4]"), "invalid type: floating point `1.0`, expected usize"),
            (x("F32", "[1]", "[-0,4]"), "invalid type: floating point `-0.0`, expected u64"),
            (x("F32", "[1e400]", "[0,4]"), "number out of range"),
            (x("F32", &format!("[{}]", "9".repeat(1000)), "[0,4]"), "number out of range"),
            (x("F32", r#"[{"$serde_json::private::Number":"1"}]"#, "[0,4]"), "invalid type: map, expected usize"),
            (r#"{"$serde_json::private::Number":"1"}"#.into(), "invalid type: string \"1\", expected a tensor: dtype"),
            (x("F32", "[1,1,1,1,1,1,1,1,1]", "[0,4]"), "invalid length 9, expected a list of at most 8 sizes"),
            (x("F32", "[1]", "[0,4,8]"), "trailing characters"),
            (x("F32", "[1]", "[0]"), "invalid length 1, expected a tuple of size 2"),
            (x("F32", "[1]", "[0,4],\"strides\":[2]"), "unknown field `strides`"),
            (x("F32", "[1]", "[0,4],\"shape\":[1]"), "duplicate field `shape`"),
            (r#"{"x":3}"#.into(), "invalid type: integer `3`, expected a tensor: dtype, shape and data_offsets"),
            (r#"{"x":{"dtype":"F32","shape":[1]}}"#.into(), "missing field `data_offsets`"),
            (r#"{"__metadata__":{"a":1}}"#.into(), "invalid type: integer `1`, expected a string"),
            (r#"{"__metadata__":{},"__metadata__":{}}"#.into(), "duplicate field `__metadata__`"),
            (format!("{{\"x\":{}", "[".repeat(200_000)), "invalid type: sequence"),
            ("[1]".into(), "invalid type: sequence, expected a map from names to tensors"),
            (String::new(), "EOF while parsing a value"),
        ] {
            let line = fault(&header);
            assert!(line.starts_with(expected), "{line}\nexpected: {expected}");
            assert!(!line.contains(['\n', '\u{1b}']) && line.len() < 400, "{line}");
        }
    }

    #[test]
    fn a_header_of_too_many_tensors_is_left_before_its_end() {
        let mut header = String::from("{");
        for index in 0..=TENSOR_LIMIT {
            header.push_str(&format!(r#""{index}":{{"dtype":"F32","shape":[0],"data_offsets":[0,0]}},"#));
        }
        assert!(fault(&header).starts_with("more than 65536 tensors at line 1"), "{}", fault(&header));
    }
}
