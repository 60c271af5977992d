//! A function line by line, and the first line that departs from the closed form.

use serde::Serialize;

use super::case::{Case, CaseInputs, Shape};
use super::closed_form::{ClosedForm, causal_attention};
use super::function::TracedFunction;
use super::values::{INPUTS, TensorValues, depends_on, operands};
use crate::script::TensorId;
use crate::tape::Tensor;

/// One call.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TracedLine {
    pub line: u32,
    pub op: String,
    pub shape: Vec<usize>,
    /// NaN where there is nothing but NaN.
    pub least: f64,
    pub largest: f64,
    /// Least and largest sum, where the shape is `[.., T, T]`. Masked scores do not count.
    pub row_sums: Option<[f64; 2]>,
    pub column_sums: Option<[f64; 2]>,
    pub nan: usize,
    /// The closed form's tensor that it equals, up to layout.
    pub equals: Option<String>,
}

/// Where a function leaves the closed form, or what is finite.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Departure {
    pub line: u32,
    pub op: String,
    /// What its operands are in the closed form.
    pub of: Vec<String>,
    pub why: Why,
}

/// What departs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Why {
    /// Its result is none of the closed form's.
    Value,
    /// With shifted scores its result in f32 is not finite.
    NotFinite,
}

impl Departure {
    /// As a sentence without a full stop. `shift` is what was added to every score where a result was not finite.
    pub fn words(&self, shift: f64) -> String {
        let Self { line, op, of, why } = self;
        let of = match of.as_slice() {
            [] => String::new(),
            of => format!(" of ({})", of.join(") and (")),
        };
        match why {
            Why::Value => {
                format!("line {line} is the first that departs: {op}{of} is nothing that the reference computes")
            }
            Why::NotFinite => format!(
                "line {line} is the first that departs: with {shift} added to every score, {op} is not finite in f32"
            ),
        }
    }
}

/// A function line by line, on one set of inputs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LineTrace {
    pub case: Case,
    pub lines: Vec<TracedLine>,
    /// The first departure; `None` where the whole agrees, or where each line is right and the wrong one is returned.
    pub departure: Option<Departure>,
    /// The closed form's tensor that the returned one equals, up to layout.
    pub returns: Option<String>,
}

/// A tensor of the closed form, `[B, H, ..]` with four axes.
struct Intermediate {
    name: String,
    sizes: [usize; 4],
    values: Vec<f64>,
    /// Whether it is a map whose elements above the diagonal are masked: any number as low as a mask's.
    masked: bool,
}

/// What a masked score may not exceed to count as masked.
const MASK: f64 = -1e30;

/// Equal, of the largest value.
const SAME: f64 = 1e-9;

/// Describes every call, and names those that equal a tensor of the closed form.
pub fn line_trace(
    function: &TracedFunction,
    case: Case,
    inputs: &CaseInputs,
    values: &TensorValues,
    agrees: bool,
) -> LineTrace {
    let shape = function.shape;
    let form = causal_attention(&shape, inputs);
    let known = intermediates(&shape, inputs, &form);
    let equal = |tensor: &Tensor| known.iter().find(|known| known.equals(tensor)).map(|known| known.name.clone());
    let equals: Vec<Option<String>> =
        (0..INPUTS + function.recording.calls.len()).map(|id| values.get(id as TensorId).and_then(equal)).collect();
    let depends = depends_on(function, &[0, 1, 2, 3]);
    let mut departure = None;
    let mut lines = Vec::new();
    for (at, call) in function.recording.calls.iter().enumerate() {
        let id = INPUTS + at;
        let of: Vec<usize> =
            operands(call).into_iter().map(|id| id as usize).filter(|&id| depends.get(id) == Some(&true)).collect();
        let named: Option<Vec<String>> = of.iter().map(|&id| equals.get(id).cloned().flatten()).collect();
        if let Some(of) = named
            && !agrees
            && departure.is_none()
            && depends[id]
            && equals[id].is_none()
        {
            departure = Some(Departure { line: call.line, op: call.op.clone(), of, why: Why::Value });
        }
        if let Some(tensor) = values.get(id as TensorId) {
            lines.push(described(&shape, call.line, &call.op, tensor, equals[id].clone()));
        }
    }
    let returns = equals.get(function.recording.result as usize).cloned().flatten();
    LineTrace { case, lines, departure, returns }
}

/// The first call whose result is not finite although all that it reads is: for runs in f32.
pub fn first_overflow(function: &TracedFunction, values: &TensorValues) -> Option<Departure> {
    let finite = |id: TensorId| {
        // Masks are no overflow.
        values
            .get(id)
            .is_none_or(|tensor| tensor.values().iter().all(|&value| value.is_finite() || value == f64::NEG_INFINITY))
    };
    let calls = function.recording.calls.iter().enumerate();
    let mut bad =
        calls.filter(|&(at, call)| !finite((INPUTS + at) as TensorId) && operands(call).into_iter().all(finite));
    bad.next().map(|(_, call)| Departure { line: call.line, op: call.op.clone(), of: Vec::new(), why: Why::NotFinite })
}

/// Whether a number is no masked score.
fn counts(score: &f64) -> bool {
    score.is_nan() || *score > MASK
}

fn described(shape: &Shape, line: u32, op: &str, tensor: &Tensor, equals: Option<String>) -> TracedLine {
    let numbers = || tensor.values().iter().copied().filter(|value| !value.is_nan());
    let least = numbers().reduce(f64::min).unwrap_or(f64::NAN);
    let largest = numbers().reduce(f64::max).unwrap_or(f64::NAN);
    let length = shape.length;
    let is_map = tensor.shape.ends_with(&[length, length]);
    let sums = |of_line: &dyn Fn(&[f64], usize) -> f64| -> Option<[f64; 2]> {
        let maps = tensor.values().chunks_exact(length * length);
        let sums: Vec<f64> = maps
            .flat_map(|map| (0..length).map(move |line| (map, line)))
            .map(|(map, line)| of_line(map, line))
            .collect();
        is_map.then(|| {
            [sums.iter().copied().fold(f64::INFINITY, f64::min), sums.iter().copied().fold(f64::NEG_INFINITY, f64::max)]
        })
    };
    TracedLine {
        line,
        op: op.into(),
        shape: tensor.shape.clone(),
        least,
        largest,
        row_sums: sums(&|map, line| {
            map[line * length..(line + 1) * length].iter().filter(|&score| counts(score)).sum()
        }),
        column_sums: sums(&|map, line| map.iter().skip(line).step_by(length).filter(|&score| counts(score)).sum()),
        nan: tensor.values().iter().filter(|value| value.is_nan()).count(),
        equals,
    }
}

/// Every tensor that a way of writing attention may pass through.
fn intermediates(shape: &Shape, inputs: &CaseInputs, form: &ClosedForm) -> Vec<Intermediate> {
    let Shape { batch, length, heads, head_width, .. } = *shape;
    let split = |tensor: &[f64], factor: f64| -> Vec<f64> {
        (0..shape.maps())
            .flat_map(|map| (0..length).map(move |position| (map, position)))
            .flat_map(|(map, position)| (0..head_width).map(move |column| (map, position, column)))
            .map(|(map, position, column)| tensor[shape.place(map, position, column)] * factor)
            .collect()
    };
    let (scale, root) = (shape.scale(), shape.scale().sqrt());
    let vectors = [batch, heads, length, head_width];
    let maps = [batch, heads, length, length];
    let column = [batch, heads, length, 1];
    let mut known = Vec::new();
    let mut add = |name: &str, sizes: [usize; 4], values: Vec<f64>, masked: bool| {
        known.push(Intermediate { name: name.into(), sizes, values, masked });
    };
    for (name, tensor) in [("x", &inputs.x), ("q", &inputs.query), ("k", &inputs.key), ("v", &inputs.value)] {
        add(name, vectors, split(tensor, 1.0), false);
    }
    for (name, tensor) in [("q", &inputs.query), ("k", &inputs.key)] {
        add(&format!("{name} / sqrt(d_head)"), vectors, split(tensor, scale), false);
        add(&format!("{name} / d_head^(1/4)"), vectors, split(tensor, root), false);
    }
    let raw: Vec<f64> = form.scores.iter().map(|score| score / scale).collect();
    let largest: Vec<f64> = form
        .scores
        .chunks_exact(length)
        .enumerate()
        .map(|(row, scores)| scores[..=row % length].iter().copied().fold(f64::NEG_INFINITY, f64::max))
        .collect();
    let below: Vec<f64> = form.scores.iter().enumerate().map(|(at, score)| score - largest[at / length]).collect();
    let visible = |at: usize| at % length <= at / length % length;
    let powers: Vec<f64> =
        below.iter().enumerate().map(|(at, score)| if visible(at) { score.exp() } else { 0.0 }).collect();
    let sums: Vec<f64> = powers.chunks_exact(length).map(|row| row.iter().sum()).collect();
    add("q k^T", maps, raw.clone(), false);
    add("q k^T, masked", maps, raw, true);
    add("scores", maps, form.scores.clone(), false);
    add("scores, masked", maps, form.scores.clone(), true);
    add("row maxima", column, largest.clone(), false);
    add("scores - row maxima", maps, below.clone(), false);
    add("scores - row maxima, masked", maps, below, true);
    add("e^(scores - row maxima)", maps, powers, false);
    add("row sums", column, sums.clone(), false);
    add("1 / row sums", column, sums.iter().map(|sum| 1.0 / sum).collect(), false);
    add("log-sum-exp", column, sums.iter().zip(&largest).map(|(sum, largest)| sum.ln() + largest).collect(), false);
    add("weights", maps, form.weights.clone(), false);
    add("output", vectors, split(&form.output, 1.0), false);
    if heads > 1 {
        // A script may take its heads one by one.
        let whole = std::mem::take(&mut known);
        for head in 0..heads {
            known.extend(whole.iter().map(|known| known.of_head(head)));
        }
        known.splice(0..0, whole);
    }
    known
}

impl Intermediate {
    fn of_head(&self, head: usize) -> Self {
        let [batch, heads, rows, columns] = self.sizes;
        let size = rows * columns;
        let values = (0..batch).flat_map(|row| {
            let start = (row * heads + head) * size;
            self.values[start..start + size].iter().copied()
        });
        Self {
            name: format!("{} of head {head}", self.name),
            sizes: [batch, 1, rows, columns],
            values: values.collect(),
            masked: self.masked,
        }
    }

    /// Whether a tensor holds the same numbers, its axes in whatever order.
    fn equals(&self, tensor: &Tensor) -> bool {
        let same = |order| self.fits(&tensor.shape, order) && self.equals_in(tensor.values(), order);
        tensor.len() == self.values.len() && orders().any(same)
    }

    /// Whether a shape joins neighbours of the axes in this order, or splits them: a reshape across axes leaves the
    /// numbers in their order and gives them other places.
    fn fits(&self, shape: &[usize], order: [usize; 4]) -> bool {
        let ends = |sizes: &[usize]| -> Vec<usize> {
            sizes
                .iter()
                .scan(1, |product, size| {
                    Some({
                        *product *= size;
                        *product
                    })
                })
                .filter(|&end| end > 1)
                .collect()
        };
        let (theirs, ours) = (ends(shape), ends(&order.map(|axis| self.sizes[axis])));
        theirs.iter().all(|end| ours.contains(end)) || ours.iter().all(|end| theirs.contains(end))
    }

    fn equals_in(&self, found: &[f64], order: [usize; 4]) -> bool {
        let [_, _, rows, columns] = self.sizes;
        let largest = self.values.iter().fold(f64::MIN_POSITIVE, |largest, value| largest.max(value.abs()));
        let mut strides = [1; 4];
        for axis in (0..3).rev() {
            strides[axis] = strides[axis + 1] * self.sizes[axis + 1];
        }
        let sizes = order.map(|axis| self.sizes[axis]);
        found.iter().enumerate().all(|(place, &found)| {
            let (mut rest, mut at) = (place, 0);
            for axis in (0..4).rev() {
                at += rest % sizes[axis] * strides[order[axis]];
                rest /= sizes[axis];
            }
            if self.masked && at % columns > at / columns % rows {
                return found <= MASK;
            }
            (found - self.values[at]).abs() <= SAME * largest
        })
    }
}

/// The 24 orders of four axes, the natural one first.
fn orders() -> impl Iterator<Item = [usize; 4]> {
    (0..256).map(|code| [code / 64, code / 16 % 4, code / 4 % 4, code % 4]).filter(|order| {
        let mut seen = [false; 4];
        order.iter().for_each(|&axis| seen[axis] = true);
        seen == [true; 4]
    })
}
