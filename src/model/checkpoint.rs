//! A model directory in Hugging Face's layout: `config.json`, `model.safetensors`, `tokenizer.json`; and
//! `attention.star`, where the model has an attention of its own. The tokenizer is
//! text here; what it means is the business of whoever turns text into tokens.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::atomic::{FileError, read_bounded, replace_directory, surviving_directory, write_file};
use crate::model::attention::EditedAttention;
use crate::model::config::{ConfigError, GptConfig};
use crate::model::tensor_file::{TensorFile, TensorFileError, TensorView, encode};
use crate::script::{Script, ScriptError, Tracer};
use crate::tape::Tensor;

pub const CONFIG_FILE: &str = "config.json";
pub const WEIGHTS_FILE: &str = "model.safetensors";
pub const TOKENIZER_FILE: &str = "tokenizer.json";
/// The attention of a model that has another than the reference.
pub const ATTENTION_FILE: &str = "attention.star";

/// The largest `config.json` read: the published ones have some two thousand bytes.
const CONFIG_LIMIT: u64 = 1 << 18;

/// The largest `tokenizer.json` read.
pub const TOKENIZER_LIMIT: u64 = 32 << 20;

/// A model as it lies in its directory.
#[derive(Clone, Debug, PartialEq)]
pub struct Checkpoint {
    pub config: GptConfig,
    /// The values of each parameter, in the order of [`GptConfig::parameters`].
    pub parameters: Vec<Vec<f32>>,
    /// The text of `tokenizer.json`, where there is one.
    pub tokenizer: Option<String>,
}

/// Why a model directory could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum CheckpointError {
    #[error(transparent)]
    File(#[from] FileError),
    #[error("{}: {source}", path.display())]
    Config { path: PathBuf, source: ConfigError },
    #[error("{} {source}", path.display())]
    Tensors { path: PathBuf, source: TensorFileError },
    #[error("{} holds an lm_head.weight that is not its wte.weight: only a shared output layer is supported", path.display())]
    UntiedOutput { path: PathBuf },
    #[error(transparent)]
    Attention(#[from] ScriptError),
    #[error("{} is not the attention that the model beside it was trained with: its config.json has another fingerprint, or none", path.display())]
    OtherAttention { path: PathBuf },
    #[error("{}: it is not UTF-8 at byte {offset}", path.display())]
    NotText { path: PathBuf, offset: usize },
    #[error("{} is no model: it has no {CONFIG_FILE}, and no best or last directory of a run", path.display())]
    NoModel { path: PathBuf },
    #[error("cannot write {}: {expected} parameters are needed, {actual} were given", path.display())]
    ParameterCount { path: PathBuf, expected: usize, actual: usize },
}

impl Checkpoint {
    /// Reads a model directory. Tensor names may lack the `transformer.` prefix; the attention's constant buffers and
    /// an output layer equal to the embedding are passed over; anything else that is missing, unexpected, misshapen or
    /// not finite is an error that names it. An attention of its own is traced by `tracer`.
    pub fn read(directory: &Path, tracer: &Arc<dyn Tracer>) -> Result<Self, CheckpointError> {
        let config = read_config(directory, tracer)?;
        let tokenizer_path = directory.join(TOKENIZER_FILE);
        let tokenizer = match tokenizer_path.exists() {
            true => Some(read_text(&tokenizer_path, TOKENIZER_LIMIT)?),
            false => None,
        };
        let parameters = read_weights(&directory.join(WEIGHTS_FILE), &config)?;
        Ok(Self { config, parameters, tokenizer })
    }

    /// The parameters with their shapes, in the order of [`GptConfig::parameters`].
    pub fn tensors(&self) -> Vec<Tensor> {
        let values = |values: &Vec<f32>| values.iter().copied().map(f64::from).collect();
        let parameters = self.config.parameters().into_iter().zip(&self.parameters);
        parameters.map(|(parameter, own)| Tensor::real(parameter.shape, values(own))).collect()
    }

    /// Writes the files into `directory`, which exists; each is whole or absent, the directory is not.
    pub fn write_into(&self, directory: &Path) -> Result<(), CheckpointError> {
        let path = directory.join(WEIGHTS_FILE);
        let parameters = self.config.parameters();
        if parameters.len() != self.parameters.len() {
            let (expected, actual) = (parameters.len(), self.parameters.len());
            return Err(CheckpointError::ParameterCount { path, expected, actual });
        }
        let views = parameters
            .iter()
            .zip(&self.parameters)
            .map(|(parameter, values)| (parameter.name.clone(), TensorView { shape: &parameter.shape, values }));
        let bytes = encode(views).map_err(|source| CheckpointError::Tensors { path: path.clone(), source })?;
        write_file(&path, &bytes)?;
        if let Some(attention) = &self.config.attention {
            write_file(&directory.join(ATTENTION_FILE), attention.script.source.as_bytes())?;
        }
        write_file(&directory.join(CONFIG_FILE), self.config.to_json().as_bytes())?;
        if let Some(tokenizer) = &self.tokenizer {
            write_file(&directory.join(TOKENIZER_FILE), tokenizer.as_bytes())?;
        }
        Ok(())
    }

    /// Replaces the model directory `directory` as a whole, or creates it.
    pub fn save(&self, directory: &Path) -> Result<(), CheckpointError> {
        replace_directory(directory, |room| self.write_into(room))
    }
}

/// The model directory that `--model PATH` means: PATH itself where it holds a model, else the `best` of the run
/// directory PATH, else its `last`. One that a crash left half swapped is found under its temporary name.
pub fn resolve_model(path: &Path) -> Result<PathBuf, CheckpointError> {
    [path.to_path_buf(), path.join("best"), path.join("last")]
        .iter()
        .filter_map(|place| surviving_directory(place))
        .find(|place| place.join(CONFIG_FILE).is_file())
        .ok_or_else(|| CheckpointError::NoModel { path: path.to_path_buf() })
}

fn read_config(directory: &Path, tracer: &Arc<dyn Tracer>) -> Result<GptConfig, CheckpointError> {
    let path = directory.join(CONFIG_FILE);
    let text = read_text(&path, CONFIG_LIMIT)?;
    let located = |source| CheckpointError::Config { path: path.clone(), source };
    let (config, fingerprint) = GptConfig::sizes_from_json(&text).map_err(located)?;
    let attention_path = directory.join(ATTENTION_FILE);
    let Some(fingerprint) = fingerprint else {
        return match attention_path.exists() {
            true => Err(CheckpointError::OtherAttention { path: attention_path }),
            false => Ok(config),
        };
    };
    let script = Script::read(&attention_path)?;
    let attention = EditedAttention::new(script, Arc::clone(tracer), &config)?;
    if attention.fingerprint() != fingerprint {
        return Err(CheckpointError::OtherAttention { path: attention_path });
    }
    config.with_attention(Some(Arc::new(attention))).map_err(located)
}

fn read_text(path: &Path, limit: u64) -> Result<String, CheckpointError> {
    String::from_utf8(read_bounded(path, limit)?).map_err(|error| CheckpointError::NotText {
        path: path.to_path_buf(),
        offset: error.utf8_error().valid_up_to(),
    })
}

fn read_weights(path: &Path, config: &GptConfig) -> Result<Vec<Vec<f32>>, CheckpointError> {
    let located = |source: TensorFileError| match source {
        // It carries the path already.
        TensorFileError::File(error) => CheckpointError::File(error),
        source => CheckpointError::Tensors { path: path.to_path_buf(), source },
    };
    let mut file = TensorFile::open(path).map_err(located)?;
    let expected: Vec<(String, Vec<usize>)> =
        config.parameters().into_iter().map(|parameter| (parameter.name, parameter.shape)).collect();
    let parameters = file
        .read_exactly(&expected, canonical_name, |name| name == OUTPUT_LAYER || is_buffer(name, config.layers))
        .map_err(located)?;
    let stored_output = file.names().find(|name| canonical_name(name) == OUTPUT_LAYER).map(str::to_string);
    if let Some(name) = stored_output {
        // The shape first: what is not the embedding may be of any size.
        let tied = file.shape(&name) == expected.first().map(|(_, shape)| &shape[..])
            && Some(&file.read(&name).map_err(located)?) == parameters.first();
        if !tied {
            return Err(CheckpointError::UntiedOutput { path: path.to_path_buf() });
        }
    }
    Ok(parameters)
}

/// The output layer some writers store beside the embedding it is tied to. It never has the prefix.
const OUTPUT_LAYER: &str = "lm_head.weight";

/// The stored name with the prefix `transformer.`, which files of the bare model leave out.
fn canonical_name(name: &str) -> String {
    if name.starts_with("transformer.") || name == OUTPUT_LAYER {
        name.to_string()
    } else {
        format!("transformer.{name}")
    }
}

/// Whether a canonical name is one of the constants older files carry: `h.N.attn.bias` (the causal mask, not a bias)
/// and `h.N.attn.masked_bias` (its fill), for a layer that exists.
fn is_buffer(name: &str, layers: usize) -> bool {
    let Some((layer, rest)) = name.strip_prefix("transformer.h.").and_then(|rest| rest.split_once('.')) else {
        return false;
    };
    let exists = layer.parse::<usize>().is_ok_and(|layer_index| layer_index < layers);
    exists && (rest == "attn.bias" || rest == "attn.masked_bias")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::initialisation::Initialisation;

    fn here() -> Arc<dyn Tracer> {
        Arc::new(crate::script::TraceHere)
    }

    fn tiny() -> Checkpoint {
        let config = GptConfig::new(11, 6, 2, 2, 4).unwrap();
        let parameters = Initialisation::default().values(&config);
        Checkpoint { config, parameters, tokenizer: Some("{\"text\": \"\u{e9}\"}".to_string()) }
    }

    /// Rewrites the weights of `checkpoint` in `directory`, each tensor as `edit` wants it: its name, shape, values.
    fn rewrite(directory: &Path, checkpoint: &Checkpoint, edit: impl Fn(&mut Vec<(String, Vec<usize>, Vec<f32>)>)) {
        let mut tensors: Vec<_> = checkpoint
            .config
            .parameters()
            .into_iter()
            .zip(&checkpoint.parameters)
            .map(|(parameter, values)| (parameter.name, parameter.shape, values.clone()))
            .collect();
        edit(&mut tensors);
        let views = tensors.iter().map(|(name, shape, values)| (name.clone(), TensorView { shape, values }));
        std::fs::write(directory.join(WEIGHTS_FILE), encode(views).unwrap()).unwrap();
    }

    #[test]
    fn what_is_saved_reads_back_the_same() {
        let room = tempfile::tempdir().unwrap();
        let directory = room.path().join("model");
        let mut checkpoint = tiny();
        checkpoint.save(&directory).unwrap();
        assert_eq!(Checkpoint::read(&directory, &here()).unwrap(), checkpoint);
        checkpoint.tokenizer = None;
        checkpoint.save(&directory).unwrap();
        assert_eq!(Checkpoint::read(&directory, &here()).unwrap(), checkpoint, "the old tokenizer is still there");
    }

    #[test]
    fn a_model_that_hugging_face_wrote_is_read() {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/gpt_tiny_hf");
        let checkpoint = Checkpoint::read(&directory, &here()).unwrap();
        assert_eq!(checkpoint.config, GptConfig::new(65, 32, 2, 4, 32).unwrap());
        let sizes: Vec<usize> = checkpoint.parameters.iter().map(Vec::len).collect();
        assert_eq!(sizes, checkpoint.config.parameters().iter().map(|p| p.len()).collect::<Vec<_>>());
        assert_eq!(checkpoint.tokenizer, None);
    }

    #[test]
    fn names_without_prefix_buffers_and_a_tied_output_layer_are_read() {
        let room = tempfile::tempdir().unwrap();
        let checkpoint = tiny();
        checkpoint.save(room.path()).unwrap();
        rewrite(room.path(), &checkpoint, |tensors| {
            for (name, ..) in tensors.iter_mut() {
                *name = name.trim_start_matches("transformer.").to_string();
            }
            tensors.push(("h.0.attn.bias".into(), vec![1, 1, 6, 6], vec![f32::NAN; 36]));
            tensors.push(("h.1.attn.masked_bias".into(), vec![], vec![-1e4]));
            let embedding = tensors[0].clone();
            tensors.push((OUTPUT_LAYER.into(), embedding.1, embedding.2));
        });
        assert_eq!(Checkpoint::read(room.path(), &here()).unwrap(), checkpoint);
    }

    #[test]
    fn weights_that_are_not_the_models_are_refused_by_name() {
        type Edit = fn(&mut Vec<(String, Vec<usize>, Vec<f32>)>);
        let edits: [(Edit, &str); 7] = [
            (|t| drop(t.remove(1)), "does not hold the expected tensors: transformer.wpe.weight is missing"),
            (
                |t| t[0].1 = vec![4, 11],
                "does not hold the expected tensors: transformer.wte.weight has shape [4, 11] where [11, 4] is needed",
            ),
            (
                |t| t.push(("h.2.attn.bias".into(), vec![1], vec![0.0])),
                "does not hold the expected tensors: h.2.attn.bias is not part of the model",
            ),
            (
                |t| t.push(("score.weight".into(), vec![1], vec![0.0])),
                "does not hold the expected tensors: score.weight is not part of the model",
            ),
            (
                |t| t.push(("wte.weight".into(), vec![1], vec![0.0])),
                "does not hold the expected tensors: transformer.wte.weight and wte.weight are the same tensor; \
                 transformer.wte.weight has shape [1] where [11, 4] is needed",
            ),
            (
                |t| t[2].2[3] = f32::NAN,
                "tensor transformer.h.0.ln_1.weight has NaN at element 3: every number must be finite in f32",
            ),
            (
                |t| t.push((OUTPUT_LAYER.into(), vec![11, 4], vec![0.5; 44])),
                "holds an lm_head.weight that is not its wte.weight: only a shared output layer is supported",
            ),
        ];
        let checkpoint = tiny();
        for (edit, expected) in edits {
            let room = tempfile::tempdir().unwrap();
            checkpoint.save(room.path()).unwrap();
            rewrite(room.path(), &checkpoint, edit);
            let error = Checkpoint::read(room.path(), &here()).unwrap_err().to_string();
            assert_eq!(error, format!("{} {expected}", room.path().join(WEIGHTS_FILE).display()));
        }
    }

    #[test]
    fn a_damaged_directory_is_refused_with_the_file_named() {
        let checkpoint = tiny();
        for (file, bytes, expected) in [
            (CONFIG_FILE, &b"{}"[..], "config.json: model_type is missing"),
            (CONFIG_FILE, &b"\xff{}"[..], "config.json: it is not UTF-8 at byte 0"),
            (TOKENIZER_FILE, &b"ab\xff"[..], "tokenizer.json: it is not UTF-8 at byte 2"),
            (WEIGHTS_FILE, &b""[..], "model.safetensors is not a safetensors file"),
        ] {
            let room = tempfile::tempdir().unwrap();
            checkpoint.save(room.path()).unwrap();
            std::fs::write(room.path().join(file), bytes).unwrap();
            let error = Checkpoint::read(room.path(), &here()).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
        let room = tempfile::tempdir().unwrap();
        checkpoint.save(room.path()).unwrap();
        std::fs::remove_file(room.path().join(WEIGHTS_FILE)).unwrap();
        let error = Checkpoint::read(room.path(), &here()).unwrap_err().to_string();
        assert!(error.starts_with("cannot open ") && error.contains(WEIGHTS_FILE), "{error}");
    }

    #[test]
    fn a_failed_write_keeps_the_model_that_was_there() {
        let room = tempfile::tempdir().unwrap();
        let directory = room.path().join("model");
        let good = tiny();
        good.save(&directory).unwrap();
        let mut bad = good.clone();
        bad.parameters.pop();
        assert!(matches!(bad.save(&directory), Err(CheckpointError::ParameterCount { expected: 28, actual: 27, .. })));
        bad.parameters.push(vec![0.0; 3]);
        assert!(matches!(bad.save(&directory), Err(CheckpointError::Tensors { .. })));
        assert_eq!(Checkpoint::read(&directory, &here()).unwrap(), good);
    }

    #[test]
    fn a_model_is_found_in_itself_and_in_a_run() {
        let room = tempfile::tempdir().unwrap();
        let run = room.path().join("run");
        let checkpoint = tiny();
        assert!(matches!(resolve_model(&run), Err(CheckpointError::NoModel { .. })));
        for (place, expected) in [("last", "last"), ("best", "best")] {
            checkpoint.save(&run.join(place)).unwrap();
            assert_eq!(resolve_model(&run).unwrap(), run.join(expected));
        }
        std::fs::rename(run.join("best"), run.join("best.new")).unwrap();
        assert_eq!(resolve_model(&run).unwrap(), run.join("best.new"));
        assert_eq!(resolve_model(&run.join("last")).unwrap(), run.join("last"));
    }
}
