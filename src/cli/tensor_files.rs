//! Tensors from and to files that a user named.

use std::path::{Path, PathBuf};

use anyhow::{anyhow, bail};

use crate::atomic::write_file;
use crate::model::tensor_file::{Precision, StoredTensor, TensorFile, encode};
use crate::op::Tensors;
use crate::printable::printable;
use crate::tape::Tensor;

/// Reads every tensor of a file.
///
/// # Errors
/// One line with the path and what is wrong.
pub fn read(path: &Path) -> anyhow::Result<Tensors> {
    let located = |error: crate::model::tensor_file::TensorFileError| match error {
        // It carries the path already.
        crate::model::tensor_file::TensorFileError::File(error) => anyhow!(error),
        error => anyhow!("{} {error}", path.display()),
    };
    let mut file = TensorFile::open(path).map_err(located)?;
    let names: Vec<String> = file.names().map(str::to_string).collect();
    let mut tensors = Tensors::new();
    for name in names {
        let tensor = file.read_tensor(&name).map_err(located)?;
        tensors.insert(name, tensor);
    }
    Ok(tensors)
}

/// Where results may go: through a link to its file, never in the place of a device or a directory, and not over what
/// they were made from.
///
/// # Errors
/// One line with the path and what is wrong.
pub fn writable(path: &Path, input: Option<&Path>) -> anyhow::Result<PathBuf> {
    let Ok(place) = path.canonicalize() else { return Ok(path.to_path_buf()) };
    if !place.is_file() {
        bail!("cannot write {}: it is there and is no file", path.display());
    }
    if input.is_some_and(|input| input.canonicalize().is_ok_and(|input| input == place)) {
        bail!("cannot write {}: the tensors are read from it; choose another file", path.display());
    }
    Ok(place)
}

/// Writes tensors to a file that [`writable`] gave, whole or not at all.
///
/// # Errors
/// One line with the path and what is wrong.
pub fn write<'a>(
    path: &Path,
    tensors: impl IntoIterator<Item = (&'a String, &'a Tensor)>,
    precision: Precision,
) -> anyhow::Result<()> {
    let stored = tensors.into_iter().map(|(name, tensor)| (name.clone(), StoredTensor { tensor, precision }));
    let bytes = encode(stored).map_err(|error| anyhow!("{} {error}", path.display()))?;
    Ok(write_file(path, &bytes)?)
}

/// A tensor's shape in words: `o [1,2,64,32]`.
pub fn described(name: &str, tensor: &Tensor) -> String {
    format!("{} [{}]", printable(name, 100), tensor.shape.iter().map(usize::to_string).collect::<Vec<_>>().join(","))
}
