//! Checks each op as it is called and writes it down.

use std::cell::RefCell;

use starlark::eval::Evaluator;

use super::rewriting::Rewritten;
use super::tensor::TensorValue;
use crate::graph::ops::input;
use crate::graph::{Graph, TensorType, Value};
use crate::script::ops::{self, Bound, OBSERVE, OpError, PARAMETER, ScriptOp};
use crate::script::recording::{Argument, Call, INPUTS, ParameterDeclaration, Recording};
use crate::script::{TensorId, TraceSizes};

/// Calls that one layer may make. Real ones make some dozens.
const CALL_LIMIT: usize = 1_000;

/// How many times as large a tensor may be as queries and scores together, `B T d + B H T T` elements: more is a mistake,
/// and would be computed before anybody sees it.
const GROWTH_LIMIT: u64 = 1024;

/// Dimensions that kernels and files have room for.
const RANK_LIMIT: usize = 8;

thread_local! {
    /// What the function that runs on this thread is recorded in. Starlark hands values no context of their own.
    static RECORDER: RefCell<Option<Recorder>> = const { RefCell::new(None) };
}

/// A recording in the making, and the graph that checks it.
pub struct Recorder {
    graph: Graph,
    most_elements: u64,
    tensors: Vec<Value>,
    recording: Recording,
    /// Where each call stands.
    places: Vec<Place>,
    notes: Vec<(Place, String)>,
    refusal: Option<String>,
}

/// Where a script calls: a byte of its rewritten text.
#[derive(Clone, Copy)]
pub struct Place(usize);

impl Place {
    /// The innermost call of a function of the script.
    pub fn of(evaluator: &Evaluator<'_, '_, '_>) -> Self {
        Self(evaluator.call_stack_top_location().map_or(0, |span| span.span.begin().get() as usize))
    }
}

/// Ends the recording of this thread when it is dropped.
pub struct Guard(());

impl Drop for Guard {
    fn drop(&mut self) {
        RECORDER.set(None);
    }
}

impl Guard {
    /// The recording, without its result.
    ///
    /// # Errors
    /// What was refused where the script could not be told.
    pub fn finish(self, rewritten: &Rewritten) -> Result<Recording, OpError> {
        let Some(recorder) = RECORDER.take() else { return Ok(Recording::default()) };
        if let Some(refusal) = recorder.refusal {
            return Err(OpError(refusal));
        }
        let mut recording = recorder.recording;
        for (call, place) in recording.calls.iter_mut().zip(&recorder.places) {
            (call.line, call.column) = rewritten.place(place.0);
        }
        let note = |(place, text): &(Place, String)| (rewritten.place(place.0).0, text.clone());
        recording.notes = recorder.notes.iter().map(note).collect();
        for parameter in &mut recording.parameters {
            let call = recording.calls.get(parameter.tensor as usize - INPUTS);
            parameter.line = call.map_or(0, |call| call.line);
        }
        Ok(recording)
    }
}

impl Recorder {
    /// Begins a recording on this thread.
    ///
    /// # Errors
    /// None in practice: leaves are always taken.
    pub fn begin(sizes: &TraceSizes) -> Result<Guard, OpError> {
        let mut graph = Graph::new();
        let ty = TensorType::real([sizes.batch, sizes.length, sizes.width]);
        let tensors = ["x", "q", "k", "v"].iter().map(|name| input(&mut graph, name, ty.clone()));
        let tensors = tensors.collect::<Result<Vec<_>, _>>()?;
        let product = |sizes: &[usize]| sizes.iter().fold(1u64, |all, &size| all.saturating_mul(size as u64));
        let queries = product(&[sizes.batch, sizes.length, sizes.width]);
        let scores = product(&[sizes.batch, sizes.heads, sizes.length, sizes.length]);
        let most_elements = queries.saturating_add(scores).saturating_mul(GROWTH_LIMIT);
        let recorder = Self {
            graph,
            most_elements,
            tensors,
            recording: Recording::default(),
            places: Vec::new(),
            notes: Vec::new(),
            refusal: None,
        };
        RECORDER.set(Some(recorder));
        Ok(Guard(()))
    }

    /// x, q, k and v.
    pub fn inputs() -> [TensorValue; INPUTS] {
        [0, 1, 2, 3].map(|id| {
            let shape = RECORDER.with_borrow(|recorder| recorder.as_ref().map(|recorder| recorder.shape(id)));
            TensorValue { id, shape: shape.unwrap_or_default() }
        })
    }

    /// Fails the recording when it ends: for places where Starlark takes no error.
    pub fn refuse(reason: &str) {
        RECORDER.with_borrow_mut(|recorder| {
            if let Some(recorder) = recorder {
                recorder.refusal.get_or_insert_with(|| reason.to_string());
            }
        });
    }

    /// Checks an op and writes it down.
    ///
    /// # Errors
    /// What the op refuses; whatever was refused before.
    pub fn call(op: &ScriptOp, arguments: Vec<Argument<TensorId>>, place: Place) -> Result<TensorValue, OpError> {
        RECORDER.with_borrow_mut(|recorder| match recorder {
            Some(recorder) => recorder.add(op, arguments, place),
            None => Err(OpError(format!("{}: ops work only while attention runs", op.name))),
        })
    }

    fn shape(&self, id: TensorId) -> Vec<usize> {
        self.tensors.get(id as usize).map(|&value| self.graph.shape(value).to_vec()).unwrap_or_default()
    }

    fn add(&mut self, op: &ScriptOp, arguments: Vec<Argument<TensorId>>, place: Place) -> Result<TensorValue, OpError> {
        if let Some(refusal) = &self.refusal {
            return Err(OpError(refusal.clone()));
        }
        if self.recording.calls.len() >= CALL_LIMIT {
            return Err(OpError(format!("{}: attention calls more than {CALL_LIMIT} ops", op.name)));
        }
        let find = |id: &TensorId| self.tensors.get(*id as usize).copied();
        let looked_up = arguments.iter().map(|argument| argument.look_up(find)).collect::<Option<Vec<_>>>();
        let looked_up = looked_up.ok_or_else(|| ops::malformed(op.name))?;
        let id = self.tensors.len() as TensorId;
        if op.name == PARAMETER {
            let bound = Bound::new(op, &looked_up)?;
            let declaration = self.declare(&bound, id)?;
            self.recording.parameters.push(declaration);
        }
        let value = op.build(&mut self.graph, &looked_up)?;
        let ty = self.graph.ty(value);
        if ty.shape.len() > RANK_LIMIT {
            let rank = ty.shape.len();
            return Err(OpError(format!("{}: the result has {rank} dimensions, {RANK_LIMIT} are possible", op.name)));
        }
        if ty.elements().is_none_or(|elements| elements > self.most_elements) {
            let most = self.most_elements;
            return Err(OpError(format!("{}: {ty} has more than the {most} elements that are possible here", op.name)));
        }
        if op.name == OBSERVE
            && let [Argument::Text(name), Argument::Tensor(tensor)] = arguments.as_slice()
        {
            if self.recording.observed.iter().any(|(known, _)| known == name) {
                return Err(OpError(format!("observe: '{name}' names a tensor already")));
            }
            self.recording.observed.push((name.clone(), *tensor));
        }
        let infinite =
            |argument: &Argument<TensorId>| matches!(argument, Argument::Number(number) if number.is_infinite());
        if matches!(op.name, "mul" | "scale" | "constant") && arguments.iter().any(infinite) {
            let text = "an infinity as a factor: 0 times it is NaN; ops.causal_mask and ops.where mask without it";
            self.notes.push((place, text.into()));
        }
        self.recording.calls.push(Call { op: op.name.into(), arguments, line: 0, column: 0 });
        self.places.push(place);
        self.tensors.push(value);
        Ok(TensorValue { id, shape: self.shape(id) })
    }

    fn declare(&self, bound: &Bound<'_>, tensor: TensorId) -> Result<ParameterDeclaration, OpError> {
        let name = bound.text_or("name", "")?;
        let letters = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '_';
        let begins = name.starts_with(|letter: char| letter.is_ascii_lowercase());
        if !begins || !name.chars().all(letters) || name.len() > 64 {
            return Err(bound.error(format!(
                "the name '{name}' must begin with a small letter and hold only small letters, digits and _"
            )));
        }
        if ["c_attn", "c_proj", "bias", "masked_bias"].contains(&name) {
            return Err(bound.error(format!("the model has a '{name}' of its own in this place: choose another name")));
        }
        if self.recording.parameters.iter().any(|known| known.name == name) {
            return Err(bound.error(format!("'{name}' is declared already: keep it in a variable and use that")));
        }
        let (shape, initial) = (bound.sizes("shape")?, ops::initial(bound)?);
        Ok(ParameterDeclaration { name: name.into(), shape, initial, tensor, line: 0 })
    }
}
