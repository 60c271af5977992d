//! Python's operators on tensors: each becomes the op that it stands for.

use std::fmt;

use allocative::Allocative;
use starlark::eval::{Arguments, Evaluator};
use starlark::starlark_simple_value;
use starlark::values::{NoSerialize, ProvidesStaticType, StarlarkPagable, StarlarkValue, Value, starlark_value};

use super::functions::argument;
use super::recorder::{Place, Recorder};
use super::rewriting::{MODULO, TRUTH};
use super::tensor::{NO_TRUTH, TensorValue};
use crate::script::ops::{self, OpError};
use crate::script::recording::Argument;

/// An operator and the op it is for tensors.
pub struct Operator {
    pub symbol: &'static str,
    op: &'static str,
}

/// Operators of two operands. `%` stands for Python's `@`, which Starlark does not have.
pub const OPERATORS: &[Operator] = &[
    Operator { symbol: "+", op: "add" },
    Operator { symbol: "-", op: "sub" },
    Operator { symbol: "*", op: "mul" },
    Operator { symbol: "/", op: "div" },
    Operator { symbol: "%", op: "matmul" },
    Operator { symbol: "<", op: "less" },
    Operator { symbol: "<=", op: "less_equal" },
    Operator { symbol: ">", op: "greater" },
    Operator { symbol: ">=", op: "greater_equal" },
    Operator { symbol: "==", op: "equal" },
    Operator { symbol: "!=", op: "equal" },
    Operator { symbol: "&", op: "logical_and" },
    Operator { symbol: "|", op: "logical_or" },
];

impl Operator {
    /// The name of its function, which no script can write.
    pub fn function(&self) -> String {
        format!("operator {}", self.symbol)
    }
}

/// What operators and conditions of a script are rewritten to call: an operator of [`OPERATORS`] by its symbol, [`TRUTH`] or
/// [`MODULO`].
#[derive(Debug, Allocative, ProvidesStaticType, NoSerialize, StarlarkPagable)]
pub struct NativeFunction {
    pub name: String,
}

starlark_simple_value!(NativeFunction);

impl fmt::Display for NativeFunction {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.name)
    }
}

#[starlark_value(type = "function")]
impl<'v> StarlarkValue<'v> for NativeFunction {
    fn invoke(
        &self,
        _: Value<'v>,
        arguments: &Arguments<'v, '_>,
        evaluator: &mut Evaluator<'v, '_, '_>,
    ) -> starlark::Result<Value<'v>> {
        match self.name.as_str() {
            TRUTH => truth(arguments.positional1(evaluator.heap())?),
            MODULO => modulo(arguments.positional(evaluator.heap())?, evaluator),
            symbol => operator(symbol, arguments.positional(evaluator.heap())?, evaluator),
        }
    }
}

fn is_tensor(value: Value<'_>) -> bool {
    TensorValue::from_value(value).is_some()
}

/// What a condition asks: of a tensor there is no answer.
fn truth(asked: Value<'_>) -> starlark::Result<Value<'_>> {
    match is_tensor(asked) {
        false => Ok(asked),
        true => Err(starlark::Error::new_native(OpError(NO_TRUTH.into()))),
    }
}

/// A `%` of the script's own.
fn modulo<'v>([left, right]: [Value<'v>; 2], evaluator: &mut Evaluator<'v, '_, '_>) -> starlark::Result<Value<'v>> {
    if is_tensor(left) || (is_tensor(right) && left.unpack_str().is_none()) {
        return Err(starlark::Error::new_native(OpError("%: tensors have none; @ is the matrix product".into())));
    }
    left.percent(right, evaluator.heap())
}

/// An operator of [`OPERATORS`].
fn operator<'v>(
    symbol: &str,
    [left, right]: [Value<'v>; 2],
    evaluator: &mut Evaluator<'v, '_, '_>,
) -> starlark::Result<Value<'v>> {
    let heap = evaluator.heap();
    if !is_tensor(left) && !is_tensor(right) {
        return plain(symbol, left, right, evaluator);
    }
    // Comparing with None is Python's way to ask for a missing argument.
    if (left.is_none() || right.is_none()) && matches!(symbol, "==" | "!=") {
        return Ok(heap.alloc(symbol == "!="));
    }
    let shown = if symbol == "%" { "@" } else { symbol };
    let refuse = |reason: String| starlark::Error::new_native(OpError(format!("{shown}: {reason}")));
    if left.is_none() || right.is_none() {
        return Err(refuse("one side is None".into()));
    }
    let place = Place::of(evaluator);
    let zero_minus = symbol == "-" && left.unpack_i32() == Some(0);
    let name = OPERATORS.iter().find(|operator| operator.symbol == symbol).map_or("", |operator| operator.op);
    let op = ops::find(if zero_minus { "neg" } else { name }).map_err(starlark::Error::new_native)?;
    let mut operands = vec![argument(left).map_err(refuse)?, argument(right).map_err(refuse)?];
    if zero_minus {
        operands.remove(0);
    }
    operands.resize(op.parameters.len(), Argument::Omitted);
    let mut tensor = Recorder::call(op, operands, place).map_err(starlark::Error::new_native)?;
    if symbol == "!=" {
        let not = ops::find("logical_not").map_err(starlark::Error::new_native)?;
        let operand = Argument::Tensor(tensor.id);
        tensor = Recorder::call(not, vec![operand], place).map_err(starlark::Error::new_native)?;
    }
    Ok(heap.alloc(tensor))
}

/// What Starlark itself does.
fn plain<'v>(
    symbol: &str,
    left: Value<'v>,
    right: Value<'v>,
    evaluator: &mut Evaluator<'v, '_, '_>,
) -> starlark::Result<Value<'v>> {
    use std::cmp::Ordering;
    let heap = evaluator.heap();
    match symbol {
        "+" => left.add(right, heap),
        "-" => left.sub(right, heap),
        "*" => left.mul(right, heap),
        "/" => left.div(right, heap),
        "%" => left.percent(right, heap),
        "&" => left.bit_and(right, heap),
        "|" => left.bit_or(right, heap),
        "==" => Ok(heap.alloc(left.equals(right)?)),
        "!=" => Ok(heap.alloc(!left.equals(right)?)),
        "<" => Ok(heap.alloc(left.compare(right)? == Ordering::Less)),
        "<=" => Ok(heap.alloc(left.compare(right)? != Ordering::Greater)),
        ">" => Ok(heap.alloc(left.compare(right)? == Ordering::Greater)),
        _ => Ok(heap.alloc(left.compare(right)? != Ordering::Less)),
    }
}
