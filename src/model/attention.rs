//! What a model's attention computes: the reference, or a learner's function.

use std::sync::{Arc, Mutex, PoisonError};

use crate::fingerprint::Fingerprint;
use crate::model::config::GptConfig;
use crate::script::{ParameterDeclaration, REFERENCE, Recording, Script, ScriptError, TraceHere, TraceSizes, Tracer};

/// A learner's attention in the place of the reference.
#[derive(Clone, Debug)]
pub struct EditedAttention {
    pub script: Script,
    tracer: Arc<dyn Tracer>,
    /// The learned parameters of each layer.
    pub parameters: Vec<Vec<ParameterDeclaration>>,
    /// The newest traces, by shape: training, evaluation and probes ask for the same shapes.
    traces: Arc<Mutex<Vec<Trace>>>,
    /// What the function printed when it was traced for the first layer, and what may be a mistake in it, as lines.
    pub remarks: Vec<String>,
}

/// The recordings of all layers for one shape.
#[derive(Clone, Debug)]
struct Trace {
    sizes: TraceSizes,
    recordings: Vec<Recording>,
}

/// Shapes that are remembered.
const TRACES: usize = 8;

/// Two are equal that compute the same: the file's name and who traces it do not count.
impl PartialEq for EditedAttention {
    fn eq(&self, other: &Self) -> bool {
        self.script.source == other.script.source
            && self.parameters.iter().map(Vec::len).eq(other.parameters.iter().map(Vec::len))
    }
}

impl EditedAttention {
    /// Traces a function for the sizes of a model.
    ///
    /// # Errors
    /// What is wrong with the script.
    pub fn new(script: Script, tracer: Arc<dyn Tracer>, config: &GptConfig) -> Result<Self, ScriptError> {
        let whole = sizes(config, 1, config.context_length);
        let recordings = tracer.trace(&script, &whole)?;
        let remarks = recordings.first().map(|recording| {
            let printed = recording.printed.iter().map(|line| format!("{}: {line}", script.file));
            let notes = recording.notes.iter().map(|(line, text)| format!("note: {}:{line}: {text}", script.file));
            printed.chain(notes).collect()
        });
        let parameters = recordings.into_iter().map(|recording| recording.parameters).collect();
        let edited = Self { script, tracer, parameters, traces: Arc::default(), remarks: remarks.unwrap_or_default() };
        // A function may refuse another shape, which matters when it is asked to run there; one that declares other
        // parameters there is no function of a model.
        let other = sizes(config, 2, config.context_length.div_ceil(2));
        if let Ok(recordings) = edited.tracer.trace(&edited.script, &other) {
            edited.check_parameters(config, &other, &recordings)?;
        }
        Ok(edited)
    }

    /// Tells this script's text from every other.
    pub fn fingerprint(&self) -> String {
        Fingerprint::of(self.script.source.as_bytes()).to_string()
    }

    fn trace(&self, config: &GptConfig, batch: usize, length: usize) -> Result<Vec<Recording>, ScriptError> {
        let sizes = sizes(config, batch, length);
        // What another thread left behind when it panicked is whole all the same: a trace is pushed in one go.
        let remembered = || self.traces.lock().unwrap_or_else(PoisonError::into_inner);
        let known = remembered().iter().find(|known| known.sizes == sizes).cloned();
        if let Some(known) = known {
            return Ok(known.recordings);
        }
        let recordings = self.trace_anew(config, &sizes)?;
        let mut traces = remembered();
        if traces.len() == TRACES {
            traces.remove(0);
        }
        traces.push(Trace { sizes, recordings: recordings.clone() });
        Ok(recordings)
    }

    fn trace_anew(&self, config: &GptConfig, sizes: &TraceSizes) -> Result<Vec<Recording>, ScriptError> {
        let recordings = self.tracer.trace(&self.script, sizes)?;
        self.check_parameters(config, sizes, &recordings)?;
        Ok(recordings)
    }

    /// Whether a trace declares the parameters that the model has.
    fn check_parameters(
        &self,
        config: &GptConfig,
        sizes: &TraceSizes,
        recordings: &[Recording],
    ) -> Result<(), ScriptError> {
        if recordings.len() != self.parameters.len() {
            let (found, wanted) = (recordings.len(), self.parameters.len());
            return Err(ScriptError::whole(&self.script.file, format!("{found} layers were traced, not {wanted}")));
        }
        for (recording, declared) in recordings.iter().zip(&self.parameters) {
            let named = |list: &[ParameterDeclaration]| {
                list.iter().map(|parameter| (parameter.name.clone(), parameter.shape.clone())).collect::<Vec<_>>()
            };
            let (found, wanted) = (named(&recording.parameters), named(declared));
            if found == wanted {
                continue;
            }
            let (TraceSizes { batch, length, .. }, context) = (sizes, config.context_length);
            let first = recording
                .parameters
                .iter()
                .zip(declared)
                .find(|(found, wanted)| (&found.name, &found.shape) != (&wanted.name, &wanted.shape));
            let words = |list: &[(String, Vec<usize>)]| match list {
                [] => "none".to_string(),
                list => list.iter().map(|(name, shape)| format!("{name} {shape:?}")).collect::<Vec<_>>().join(", "),
            };
            return Err(ScriptError {
                file: self.script.file.clone(),
                line: first.map_or(0, |(found, _)| found.line),
                column: 0,
                message: format!(
                    "its learned parameters are {} at B=1, T={context} and {} at B={batch}, T={length}: names and shapes \
                     may depend on cfg alone, not on the shapes of x, q, k and v",
                    words(&wanted),
                    words(&found)
                ),
            });
        }
        Ok(())
    }
}

fn sizes(config: &GptConfig, batch: usize, length: usize) -> TraceSizes {
    TraceSizes {
        batch,
        length,
        width: config.width,
        heads: config.heads,
        context_length: config.context_length,
        layers: config.layers,
    }
}

/// The script of a model's attention, and its recording for each layer.
///
/// # Errors
/// What is wrong with the script.
pub fn traced(config: &GptConfig, batch: usize, length: usize) -> Result<(Script, Vec<Recording>), ScriptError> {
    match &config.attention {
        Some(edited) => Ok((edited.script.clone(), edited.trace(config, batch, length)?)),
        None => {
            let script = REFERENCE.script();
            let recordings = TraceHere.trace(&script, &sizes(config, batch, length))?;
            Ok((script, recordings))
        }
    }
}
