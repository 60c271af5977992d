//! Tensor files for the program to read, and what it wrote.

use std::collections::BTreeMap;

use headlight::model::tensor_file::{Precision, StoredTensor, TensorFile, encode};
use headlight::tape::Tensor;

use crate::room::Room;

pub fn real(shape: &[usize], values: &[f64]) -> Tensor {
    Tensor::real(shape, values.to_vec())
}

pub fn words(shape: &[usize], words: &[u32]) -> Tensor {
    Tensor::words(shape, words.to_vec())
}

impl Room {
    /// Writes tensors as F32 and I32.
    pub fn write_tensors(&self, name: &str, tensors: &[(&str, Tensor)]) {
        let stored =
            tensors.iter().map(|(name, tensor)| (name.to_string(), StoredTensor { tensor, precision: Precision::F32 }));
        self.write(name, encode(stored).unwrap());
    }

    pub fn read_tensors(&self, name: &str) -> BTreeMap<String, Tensor> {
        let mut file = TensorFile::open(&self.path(name)).unwrap();
        let names: Vec<String> = file.names().map(str::to_string).collect();
        names.into_iter().map(|name| (name.clone(), file.read_tensor(&name).unwrap())).collect()
    }
}
