//! Files of named tensors in the safetensors format. Knows the format and its hostile forms, not what the tensors are
//! for.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom};
use std::path::Path;

use safetensors::tensor::{Dtype, View};

use crate::atomic::FileError;
use crate::model::tensor_header::{self, ParsedHeader, TensorEntry};
use crate::printable::printable;
use crate::tape::{Contents, Tensor};

/// The largest header read: a model of a thousand layers needs two megabytes.
const HEADER_LIMIT: u64 = 16 << 20;

/// How many characters of a name an error shows.
const NAME_LIMIT: usize = 100;

/// Why a file is not the tensors that were expected. Names no path: the caller knows it.
#[derive(Debug, thiserror::Error)]
pub enum TensorFileError {
    #[error(transparent)]
    File(#[from] FileError),
    #[error("cannot be read: {0}")]
    Read(#[from] std::io::Error),
    #[error("is not a safetensors file: it has {length} bytes, and the length of its header alone takes 8")]
    TooShort { length: u64 },
    #[error("is not a safetensors file: its header would have {header} bytes of the file's {length} (limit {limit})")]
    HeaderLength { header: u64, length: u64, limit: u64 },
    #[error("has a malformed header: {reason}")]
    Header { reason: String },
    #[error("holds {actual} bytes of tensors where its header describes {expected}: it is cut short or has a tail")]
    DataLength { expected: u64, actual: u64 },
    #[error("does not hold the expected tensors: {faults}")]
    Mismatch { faults: String },
    #[error("tensor {name} has elements of type {dtype}: F32, F16, BF16 and F64 are read")]
    ElementType { name: String, dtype: String },
    #[error("tensor {name} has elements of type {dtype}: F16, BF16, F32, F64, I32, I64 and U32 are read")]
    AnyElementType { name: String, dtype: String },
    #[error("tensor {name} has {value} at element {index}: ids are 0 or more, and -1 where there is none")]
    Integer { name: String, index: usize, value: i64 },
    #[error("tensor {name} has {value} at element {index}: every number must be finite in f32")]
    NotFinite { name: String, index: usize, value: f64 },
    #[error("tensor {name} has {value} at element {index}: a mean of squares is at least 0")]
    Negative { name: String, index: usize, value: f32 },
}

/// An open file: its header is read and checked, its tensors are read one at a time.
pub struct TensorFile<R> {
    source: R,
    data_start: u64,
    entries: BTreeMap<String, TensorEntry>,
    notes: BTreeMap<String, String>,
}

impl TensorFile<BufReader<File>> {
    pub fn open(path: &Path) -> Result<Self, TensorFileError> {
        let file = File::open(path).map_err(FileError::at("open", path))?;
        Self::new(BufReader::new(file))
    }
}

impl<R: Read + Seek> TensorFile<R> {
    /// Reads and checks the header. Nothing larger than the source itself is allocated, whatever the header says.
    pub fn new(mut source: R) -> Result<Self, TensorFileError> {
        let length = source.seek(SeekFrom::End(0))?;
        source.rewind()?;
        let mut prefix = [0u8; 8];
        let Some(after_prefix) = length.checked_sub(8) else {
            return Err(TensorFileError::TooShort { length });
        };
        source.read_exact(&mut prefix)?;
        let header = u64::from_le_bytes(prefix);
        if header > HEADER_LIMIT || header > after_prefix {
            return Err(TensorFileError::HeaderLength { header, length, limit: HEADER_LIMIT });
        }
        let mut text = Vec::new();
        source.by_ref().take(header).read_to_end(&mut text)?;
        let ParsedHeader { entries, bytes: expected, notes } =
            tensor_header::parse(&text).map_err(|reason| TensorFileError::Header { reason })?;
        let actual = after_prefix - header;
        if expected != actual {
            return Err(TensorFileError::DataLength { expected, actual });
        }
        Ok(Self { source, data_start: 8 + header, entries, notes })
    }

    /// The names in the file, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.entries.keys().map(String::as_str)
    }

    /// The shape of a tensor, where the file has it.
    pub fn shape(&self, name: &str) -> Option<&[usize]> {
        self.entries.get(name).map(|entry| &entry.shape[..])
    }

    /// Reads one tensor as f32, row-major. A name that is not there is a mismatch; a number that is not finite in
    /// f32 is refused with its place.
    pub fn read(&mut self, name: &str) -> Result<Vec<f32>, TensorFileError> {
        let dtype = self.entry(name)?.dtype;
        let foreign = || TensorFileError::ElementType { name: shown(name), dtype: dtype.to_string() };
        let decode = decoder(dtype).ok_or_else(foreign)?;
        let values = decode(&self.read_bytes(name)?);
        match values.iter().position(|value| !value.is_finite()) {
            Some(index) => {
                Err(TensorFileError::NotFinite { name: shown(name), index, value: f64::from(values[index]) })
            }
            None => Ok(values),
        }
    }

    /// Text that the file's writer left under a key of the header's `__metadata__`.
    pub fn note(&self, key: &str) -> Option<&str> {
        self.notes.get(key).map(String::as_str)
    }

    /// Reads one tensor whole: numbers of any floating type, finite or not; integers from -1 up as words, -1 as the word
    /// with all bits set.
    pub fn read_tensor(&mut self, name: &str) -> Result<Tensor, TensorFileError> {
        let entry = self.entry(name)?;
        let (dtype, shape) = (entry.dtype, entry.shape.clone());
        if let Some(decode) = integer_decoder(dtype) {
            let word = |(index, value): (usize, i64)| match value {
                -1 => Ok(u32::MAX),
                value => u32::try_from(value)
                    .ok()
                    .filter(|&word| word != u32::MAX)
                    .ok_or_else(|| TensorFileError::Integer { name: shown(name), index, value }),
            };
            let words = decode(&self.read_bytes(name)?).into_iter().enumerate().map(word).collect::<Result<_, _>>()?;
            return Ok(Tensor::words(shape, words));
        }
        let foreign = || TensorFileError::AnyElementType { name: shown(name), dtype: dtype.to_string() };
        let narrow = decoder(dtype).ok_or_else(foreign)?;
        let bytes = self.read_bytes(name)?;
        let values = match dtype {
            Dtype::F64 => bytes.as_chunks::<8>().0.iter().map(|&chunk| f64::from_le_bytes(chunk)).collect(),
            _ => narrow(&bytes).into_iter().map(f64::from).collect(),
        };
        Ok(Tensor::real(shape, values))
    }

    fn entry(&self, name: &str) -> Result<&TensorEntry, TensorFileError> {
        let missing = || TensorFileError::Mismatch { faults: format!("{} is missing", shown(name)) };
        self.entries.get(name).ok_or_else(missing)
    }

    /// The bytes of a tensor. The file was found to be as long as its header says, so they are no more than lie there.
    fn read_bytes(&mut self, name: &str) -> Result<Vec<u8>, TensorFileError> {
        let (start, end) = self.entry(name).map(|entry| (entry.start, entry.end))?;
        let mut bytes = vec![0u8; usize::try_from(end - start).map_err(std::io::Error::other)?];
        self.source.seek(SeekFrom::Start(self.data_start + start))?;
        self.source.read_exact(&mut bytes)?;
        Ok(bytes)
    }

    /// Reads the tensors `expected` names with their shapes, in that order, and demands that the file holds nothing
    /// else. `canonical` turns a stored name into the expected spelling; a name for which `ignored` holds, in that
    /// spelling, may be there or not. Every missing, unexpected, doubled and misshapen tensor is named in the error.
    pub fn read_exactly(
        &mut self,
        expected: &[(String, Vec<usize>)],
        canonical: impl Fn(&str) -> String,
        ignored: impl Fn(&str) -> bool,
    ) -> Result<Vec<Vec<f32>>, TensorFileError> {
        let mut faults = Faults::default();
        let mut stored: HashMap<String, (String, Vec<usize>)> = HashMap::new();
        for (name, entry) in &self.entries {
            if let Some((other, _)) = stored.insert(canonical(name), (name.clone(), entry.shape.clone())) {
                faults.add(format!("{} and {} are the same tensor", shown(&other), shown(name)));
            }
        }
        let mut names = Vec::with_capacity(expected.len());
        for (name, shape) in expected {
            match stored.remove(name) {
                None => faults.add(format!("{name} is missing")),
                Some((_, found)) if found != *shape => {
                    faults.add(format!("{name} has shape {found:?} where {shape:?} is needed"))
                }
                Some((stored_name, _)) => names.push(stored_name),
            }
        }
        let mut unexpected: Vec<&String> = stored.keys().filter(|name| !ignored(name)).collect();
        unexpected.sort();
        for name in unexpected {
            faults.add(format!("{} is not part of the model", shown(&stored[name].0)));
        }
        faults.into_result()?;
        names.iter().map(|name| self.read(name)).collect()
    }
}

/// The first few faults, and how many more there are: an error stays one line that can be read.
#[derive(Default)]
struct Faults {
    shown: Vec<String>,
    more: usize,
}

impl Faults {
    fn add(&mut self, fault: String) {
        if self.shown.len() < 8 {
            self.shown.push(fault);
        } else {
            self.more += 1;
        }
    }

    fn into_result(self) -> Result<(), TensorFileError> {
        if self.shown.is_empty() {
            return Ok(());
        }
        let mut faults = self.shown.join("; ");
        if self.more > 0 {
            faults.push_str(&format!("; and {} more", self.more));
        }
        Err(TensorFileError::Mismatch { faults })
    }
}

fn shown(name: &str) -> String {
    printable(name, NAME_LIMIT)
}

/// Turns little-endian elements into numbers.
type Decoder<T> = fn(&[u8]) -> Vec<T>;

/// `None` for a type that is not read.
fn decoder(dtype: Dtype) -> Option<Decoder<f32>> {
    fn each<const N: usize>(bytes: &[u8], convert: impl Fn([u8; N]) -> f32) -> Vec<f32> {
        bytes.as_chunks::<N>().0.iter().map(|chunk| convert(*chunk)).collect()
    }
    Some(match dtype {
        Dtype::F32 => |bytes| each(bytes, f32::from_le_bytes),
        Dtype::F16 => |bytes| each(bytes, |chunk| half::f16::from_le_bytes(chunk).to_f32()),
        Dtype::BF16 => |bytes| each(bytes, |chunk| half::bf16::from_le_bytes(chunk).to_f32()),
        Dtype::F64 => |bytes| each(bytes, |chunk| f64::from_le_bytes(chunk) as f32),
        _ => return None,
    })
}

/// What turns little-endian elements into whole numbers; `None` for a type of numbers with a fraction.
fn integer_decoder(dtype: Dtype) -> Option<Decoder<i64>> {
    Some(match dtype {
        Dtype::I32 => |bytes| bytes.as_chunks::<4>().0.iter().map(|&chunk| i32::from_le_bytes(chunk).into()).collect(),
        Dtype::U32 => |bytes| bytes.as_chunks::<4>().0.iter().map(|&chunk| u32::from_le_bytes(chunk).into()).collect(),
        Dtype::I64 => |bytes| bytes.as_chunks::<8>().0.iter().map(|&chunk| i64::from_le_bytes(chunk)).collect(),
        _ => return None,
    })
}

/// A tensor to be written as F32.
#[derive(Clone, Copy)]
pub struct TensorView<'a> {
    pub shape: &'a [usize],
    pub values: &'a [f32],
}

impl View for TensorView<'_> {
    fn dtype(&self) -> Dtype {
        Dtype::F32
    }

    fn shape(&self) -> &[usize] {
        self.shape
    }

    fn data(&self) -> Cow<'_, [u8]> {
        let mut bytes = vec![0u8; self.data_len()];
        for (chunk, value) in bytes.as_chunks_mut::<4>().0.iter_mut().zip(self.values) {
            *chunk = value.to_le_bytes();
        }
        Cow::Owned(bytes)
    }

    fn data_len(&self) -> usize {
        self.values.len() * 4
    }
}

/// How numbers are stored in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precision {
    F32,
    F64,
}

/// A tensor to be written: its numbers in the given precision, its words as I32.
#[derive(Clone, Copy)]
pub struct StoredTensor<'a> {
    pub tensor: &'a Tensor,
    pub precision: Precision,
}

impl View for StoredTensor<'_> {
    fn dtype(&self) -> Dtype {
        match (&self.tensor.contents, self.precision) {
            (Contents::Words(_), _) => Dtype::I32,
            (Contents::Real(_), Precision::F32) => Dtype::F32,
            (Contents::Real(_), Precision::F64) => Dtype::F64,
        }
    }

    fn shape(&self) -> &[usize] {
        &self.tensor.shape
    }

    fn data(&self) -> Cow<'_, [u8]> {
        Cow::Owned(match (&self.tensor.contents, self.precision) {
            (Contents::Words(words), _) => words.iter().flat_map(|word| word.to_le_bytes()).collect(),
            (Contents::Real(values), Precision::F32) => {
                values.iter().flat_map(|&value| (value as f32).to_le_bytes()).collect()
            }
            (Contents::Real(values), Precision::F64) => values.iter().flat_map(|value| value.to_le_bytes()).collect(),
        })
    }

    fn data_len(&self) -> usize {
        let bytes = if self.dtype() == Dtype::F64 { 8 } else { 4 };
        self.tensor.len() * bytes
    }
}

/// The bytes of a file that holds `tensors`, marked as Hugging Face expects (`format: pt`). The order of the arguments
/// does not show in it. Values that do not fill their shape are refused.
pub fn encode<V: View>(tensors: impl IntoIterator<Item = (String, V)>) -> Result<Vec<u8>, TensorFileError> {
    let format = HashMap::from([("format".to_string(), "pt".to_string())]);
    safetensors::serialize(tensors, Some(format)).map_err(|error| TensorFileError::Header { reason: error.to_string() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Cursor;

    fn file(header: &str, data: &[u8]) -> Vec<u8> {
        [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), data].concat()
    }

    fn one(dtype: &str, data: &[u8], count: usize) -> Vec<u8> {
        file(&format!(r#"{{"x":{{"dtype":"{dtype}","shape":[{count}],"data_offsets":[0,{}]}}}}"#, data.len()), data)
    }

    fn error(bytes: &[u8]) -> String {
        let opened = TensorFile::new(Cursor::new(bytes)).and_then(|mut file| file.read("x"));
        opened.unwrap_err().to_string()
    }

    #[test]
    fn what_is_written_reads_back_bit_for_bit_edge_shapes_included() {
        let tensors: [(&str, &[usize], &[f32]); 4] = [
            ("b", &[2, 3], &[1.0, -0.0, f32::MIN_POSITIVE / 2.0, f32::MAX, 1e-30, 3.25]),
            ("a", &[1], &[7.0]),
            ("scalar", &[], &[2.0]),
            ("empty", &[0, 5], &[]),
        ];
        let views = tensors.map(|(name, shape, values)| (name.to_string(), TensorView { shape, values }));
        let bytes = encode(views).unwrap();
        assert_eq!(bytes, encode(views_reversed(&tensors)).unwrap(), "the order of writing shows");
        let mut file = TensorFile::new(Cursor::new(&bytes)).unwrap();
        assert_eq!(file.names().collect::<Vec<_>>(), ["a", "b", "empty", "scalar"]);
        for (name, _, values) in tensors {
            let bits = |values: &[f32]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
            assert_eq!(bits(&file.read(name).unwrap()), bits(values), "{name}");
        }
        assert!(String::from_utf8_lossy(&bytes).contains(r#""__metadata__":{"format":"pt"}"#));
    }

    fn views_reversed<'a>(
        tensors: &'a [(&str, &'a [usize], &'a [f32])],
    ) -> impl Iterator<Item = (String, TensorView<'a>)> {
        tensors.iter().rev().map(|(name, shape, values)| (name.to_string(), TensorView { shape, values }))
    }

    #[test]
    fn values_that_do_not_fill_their_shape_are_not_written() {
        let view = TensorView { shape: &[2, 2], values: &[1.0; 3] };
        assert!(encode([("x".to_string(), view)]).is_err());
    }

    #[test]
    fn each_floating_type_is_read() {
        for (dtype, data) in [
            ("F32", vec![0, 0, 0xc0, 0x3f]),
            ("F16", vec![0x00, 0x3e]),
            ("BF16", vec![0xc0, 0x3f]),
            ("F64", 1.5f64.to_le_bytes().to_vec()),
        ] {
            let bytes = one(dtype, &data, 1);
            assert_eq!(TensorFile::new(Cursor::new(bytes)).unwrap().read("x").unwrap(), [1.5], "{dtype}");
        }
        assert_eq!(
            error(&one("I32", &[1, 0, 0, 0], 1)),
            "tensor x has elements of type I32: F32, F16, BF16 and F64 are read"
        );
    }

    #[test]
    fn a_number_that_is_not_finite_is_named_with_its_place() {
        for (dtype, data, expected) in [
            ("F32", [1f32.to_le_bytes(), 0x7fc0_0000u32.to_le_bytes()].concat(), "tensor x has NaN at element 1"),
            ("F32", [1f32.to_le_bytes(), 0xffc0_0001u32.to_le_bytes()].concat(), "tensor x has NaN at element 1"),
            ("F16", vec![0x00, 0x7c, 0, 0], "tensor x has inf at element 0"),
            ("BF16", vec![0, 0, 0x80, 0xff], "tensor x has -inf at element 1"),
            ("F64", [0f64.to_le_bytes(), 1e39f64.to_le_bytes()].concat(), "tensor x has inf at element 1"),
        ] {
            assert!(error(&one(dtype, &data, 2)).starts_with(expected), "{}", error(&one(dtype, &data, 2)));
        }
    }

    #[test]
    fn a_hostile_file_is_refused_with_a_line() {
        let header = |text: &str, data: usize| file(text, &vec![0; data]);
        let wrapping: Vec<String> = (0..8u64)
            .map(|i| {
                let size = (1u64 << 61) - 1;
                format!(r#""t{i}":{{"dtype":"U8","shape":[{size}],"data_offsets":[{},{}]}}"#, i * size, (i + 1) * size)
            })
            .collect();
        for (bytes, expected) in [
            (vec![], "it has 0 bytes, and the length of its header alone takes 8"),
            (vec![1, 2, 3], "it has 3 bytes"),
            ((1u64 << 63).to_le_bytes().to_vec(), "its header would have 9223372036854775808 bytes of the file's 8"),
            ([&100u64.to_le_bytes()[..], b"{}"].concat(), "its header would have 100 bytes of the file's 10"),
            (header("", 0), "has a malformed header"),
            (header("[1]", 0), "has a malformed header"),
            (file("{\"\u{1b}[31m\":3}", &[]), "has a malformed header"),
            (header(&"[".repeat(200_000), 0), "has a malformed header"),
            (header("{}", 1), "holds 1 bytes of tensors where its header describes 0"),
            (header(r#"{"x":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}"#, 4), "holds 4 bytes of tensors"),
            (
                header(r#"{"x":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}}"#, 4),
                "has a malformed header: tensor x",
            ),
            (header(&format!("{{{}}}", wrapping.join(",")), 0), "holds 0 bytes of tensors where its header describes"),
            (header("{}", 0), "does not hold the expected tensors: x is missing"),
        ] {
            let line = error(&bytes);
            assert!(line.contains(expected), "{line}\nexpected: {expected}");
            assert!(!line.contains(['\n', '\u{1b}']) && line.len() < 400, "{line}");
        }
    }

    #[test]
    fn every_fault_of_a_file_is_named_and_a_long_list_is_cut() {
        let values = [0.0; 4];
        let stored = |names: &[&str]| {
            let views = names.iter().map(|name| (name.to_string(), TensorView { shape: &[4], values: &values }));
            TensorFile::new(Cursor::new(encode(views).unwrap())).unwrap()
        };
        let expected = [("p.a".to_string(), vec![4]), ("p.b".to_string(), vec![2, 2]), ("p.c".to_string(), vec![4])];
        let read = |names: &[&str]| {
            let canonical = |name: &str| format!("p.{}", name.trim_start_matches("p."));
            stored(names).read_exactly(&expected, canonical, |name| name == "p.buffer").map_err(|e| e.to_string())
        };
        assert_eq!(
            read(&["a", "p.a", "b", "buffer", "odd"]),
            Err("does not hold the expected tensors: a and p.a are the same tensor; \
                 p.b has shape [4] where [2, 2] is needed; p.c is missing; odd is not part of the model"
                .to_string())
        );
        let many: Vec<String> = (0..20).map(|i| format!("odd{i}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert!(read(&many).unwrap_err().ends_with("; and 15 more"));
    }
}
