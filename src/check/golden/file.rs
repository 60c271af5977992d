//! Reference files: safetensors with a description of what the tensors are for (`tests/golden/README.md`).

use std::collections::BTreeMap;
use std::fs::File;
use std::io::BufReader;
use std::ops::Range;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::GoldenError;
use crate::model::tensor_file::TensorFile;
use crate::tape::Tensor;

/// What the description says of an output.
#[derive(Clone, Debug, PartialEq)]
pub struct Expected {
    /// Largest absolute error of a correct f32 program on a CPU.
    pub tolerance: f64,
    /// Elements that are left out.
    pub ignored: Range<usize>,
    /// How many elements may be -inf: rows of a log-sum-exp that see nothing.
    pub infinite: usize,
}

/// An open reference file.
pub struct GoldenFile {
    pub path: PathBuf,
    /// The file's name without its ending.
    pub name: String,
    /// The name of the op, as the file gives it.
    pub op: String,
    /// The whole description.
    pub described: Value,
    /// The outputs it describes, by name.
    pub outputs: BTreeMap<String, Expected>,
    tensors: TensorFile<BufReader<File>>,
    /// The file that holds its inputs, where it is another.
    inputs: Option<Box<GoldenFile>>,
}

impl GoldenFile {
    /// Opens a file and reads its description.
    ///
    /// # Errors
    /// A file that is no safetensors file, or whose description is missing or says nothing that can be checked.
    pub fn open(path: &Path) -> Result<Self, GoldenError> {
        let malformed = |reason: &str| GoldenError::Malformed { path: path.into(), reason: reason.into() };
        let tensors = TensorFile::open(path).map_err(|source| GoldenError::File { path: path.into(), source })?;
        let text = tensors.note("golden").ok_or_else(|| malformed("its metadata has no 'golden'"))?;
        let described = crate::json::parse(text);
        let described = described.map_err(|error| malformed(&format!("its description is no JSON: {error}")))?;
        let op = described["op"].as_str().ok_or_else(|| malformed("its description names no op"))?.to_string();
        let entries = described["tensors"].as_object().ok_or_else(|| malformed("it describes no tensors"))?;
        if entries.is_empty() {
            return Err(malformed("it describes no outputs"));
        }
        let mut outputs = BTreeMap::new();
        for (name, entry) in entries {
            let tolerance = entry["atol"].as_f64().filter(|value| value.is_finite() && *value >= 0.0);
            let tolerance =
                tolerance.ok_or_else(|| malformed(&format!("{name} has no atol that is a number of 0 or more")))?;
            let ignored = match entry.get("ignore") {
                None => 0..0,
                Some(range) => {
                    let bound = |at: usize| range[at].as_u64().and_then(|bound| usize::try_from(bound).ok());
                    let (Some(start), Some(end)) = (bound(0), bound(1)) else {
                        return Err(malformed(&format!("{name} has an 'ignore' that is no [start, end]")));
                    };
                    start..end
                }
            };
            let shape = tensors.shape(name).ok_or_else(|| malformed(&format!("it describes {name} and has none")))?;
            let elements: usize = shape.iter().product();
            if ignored.start > ignored.end || ignored.end > elements {
                return Err(malformed(&format!("{name} ignores {ignored:?} of {elements} elements")));
            }
            let infinite = match name.rsplit('.').next() {
                Some("lse") if name.contains("causal") || described["causal"] == true => {
                    let rows = described["causal_rows_without_keys"].as_u64().unwrap_or(0) as usize;
                    shape.split_last().map_or(0, |(_, lead)| lead.iter().product::<usize>() * rows)
                }
                _ => 0,
            };
            outputs.insert(name.clone(), Expected { tolerance, ignored, infinite });
        }
        let inputs = match described["inputs_from"].as_str() {
            None => None,
            // Only a name: a description must not reach for files elsewhere.
            Some(name) if !name.is_empty() && !name.contains(['/', '\\', '.']) => {
                Some(Box::new(Self::open(&path.with_file_name(format!("{name}.safetensors")))?))
            }
            Some(_) => return Err(malformed("its inputs_from is no plain name")),
        };
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        Ok(Self { path: path.into(), name, op, described, outputs, tensors, inputs })
    }

    /// The names of all tensors, f64 copies of outputs left out.
    pub fn names(&self) -> Vec<String> {
        let copy = |name: &&str| name.strip_suffix(".f64").is_some_and(|of| self.tensors.shape(of).is_some());
        self.tensors.names().filter(|name| !copy(name)).map(str::to_string).collect()
    }

    /// Whether a tensor of that name is here or in the file with the inputs.
    pub fn has_input(&self, name: &str) -> bool {
        self.tensors.shape(name).is_some() || self.inputs.as_ref().is_some_and(|inputs| inputs.has_input(name))
    }

    /// A tensor from here or from the file with the inputs.
    ///
    /// # Errors
    /// One that is in neither, or cannot be read.
    pub fn input(&mut self, name: &str) -> Result<Tensor, GoldenError> {
        match &mut self.inputs {
            Some(inputs) if self.tensors.shape(name).is_none() => inputs.input(name),
            _ => self.read(name),
        }
    }

    /// The reference value of an output: its f64 copy where there is one, which must be the tensor before rounding.
    ///
    /// # Errors
    /// As [`GoldenFile::input`]; a copy that is another tensor.
    pub fn reference(&mut self, name: &str) -> Result<Tensor, GoldenError> {
        let rounded = self.read(name)?;
        let copy = format!("{name}.f64");
        if self.tensors.shape(&copy).is_none() {
            return Ok(rounded);
        }
        let exact = self.read(&copy)?;
        let malformed = |reason| GoldenError::Malformed { path: self.path.clone(), reason };
        if exact.shape != rounded.shape {
            return Err(malformed(format!("{name} has shape {:?}, its f64 copy {:?}", rounded.shape, exact.shape)));
        }
        let pairs = || rounded.values().iter().zip(exact.values());
        match pairs().position(|(&rounded, &exact)| f64::from(exact as f32) != rounded) {
            None => Ok(exact),
            Some(index) => {
                let (rounded, exact) = (rounded.values()[index], exact.values()[index]);
                Err(malformed(format!("{name} is {rounded} at element {index}, its f64 copy {exact}")))
            }
        }
    }

    fn read(&mut self, name: &str) -> Result<Tensor, GoldenError> {
        let path = self.path.clone();
        self.tensors.read_tensor(name).map_err(|source| GoldenError::File { path, source })
    }

    /// A number of the description.
    pub fn number(&self, key: &str) -> Option<f64> {
        self.described[key].as_f64()
    }

    /// A list of numbers of the description.
    pub fn numbers(&self, key: &str) -> Option<Vec<f64>> {
        self.described[key].as_array()?.iter().map(Value::as_f64).collect()
    }

    /// A size in the model's description.
    ///
    /// # Errors
    /// One that is missing.
    pub fn model_size(&self, key: &str) -> Result<usize, GoldenError> {
        let size = self.described["config"][key].as_u64().and_then(|size| usize::try_from(size).ok());
        size.ok_or_else(|| self.lacks(&format!("config.{key}")))
    }

    /// An error: the description lacks something that its op needs.
    pub fn lacks(&self, key: &str) -> GoldenError {
        GoldenError::Malformed { path: self.path.clone(), reason: format!("its description has no {key}") }
    }
}
