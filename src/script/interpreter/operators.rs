//! Python's operators on tensors: each becomes the op that it stands for.

use std::fmt;

use allocative::Allocative;
use starlark::eval::{Arguments, Evaluator};
use starlark::starlark_simple_value;
use starlark::values::{NoSerialize, ProvidesStaticType, StarlarkPagable, StarlarkValue, Value, starlark_value};

use super::functions::argument;
use super::recorder::{Place, Recorder};
use super::tensor::{NO_TRUTH, TensorValue};
use crate::script::ops::{self, OpError};

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

#[derive(Debug, Allocative, ProvidesStaticType, NoSerialize, StarlarkPagable)]
pub struct OperatorValue {
    pub symbol: String,
}

starlark_simple_value!(OperatorValue);

impl fmt::Display for OperatorValue {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.symbol)
    }
}

#[starlark_value(type = "function")]
impl<'v> StarlarkValue<'v> for OperatorValue {
    fn invoke(
        &self,
        _: Value<'v>,
        arguments: &Arguments<'v, '_>,
        evaluator: &mut Evaluator<'v, '_, '_>,
    ) -> starlark::Result<Value<'v>> {
        let heap = evaluator.heap();
        let [left, right] = arguments.positional(heap)?;
        if TensorValue::from_value(left).is_none() && TensorValue::from_value(right).is_none() {
            return plain(&self.symbol, left, right, evaluator);
        }
        // Comparing with None is Python's way to ask for a missing argument.
        if (left.is_none() || right.is_none()) && matches!(self.symbol.as_str(), "==" | "!=") {
            return Ok(heap.alloc(self.symbol == "!="));
        }
        let shown = if self.symbol == "%" { "@" } else { &self.symbol };
        let refuse = |reason: String| starlark::Error::new_native(OpError(format!("{shown}: {reason}")));
        if left.is_none() || right.is_none() {
            return Err(refuse("one side is None".into()));
        }
        let place = Place::of(evaluator);
        let zero_minus = self.symbol == "-" && left.unpack_i32() == Some(0);
        let name = OPERATORS.iter().find(|operator| operator.symbol == self.symbol).map_or("", |operator| operator.op);
        let op = ops::find(if zero_minus { "neg" } else { name }).map_err(starlark::Error::new_native)?;
        let mut operands = vec![argument(left).map_err(refuse)?, argument(right).map_err(refuse)?];
        if zero_minus {
            operands.remove(0);
        }
        operands.resize(op.parameters.len(), crate::script::recording::Argument::Omitted);
        let mut tensor = Recorder::call(op, operands, place).map_err(starlark::Error::new_native)?;
        if self.symbol == "!=" {
            let not = ops::find("logical_not").map_err(starlark::Error::new_native)?;
            let operand = crate::script::recording::Argument::Tensor(tensor.id);
            tensor = Recorder::call(not, vec![operand], place).map_err(starlark::Error::new_native)?;
        }
        Ok(heap.alloc(tensor))
    }
}

/// The function that `%` goes through where a script writes it.
#[derive(Debug, Allocative, ProvidesStaticType, NoSerialize, StarlarkPagable)]
pub struct ModuloValue;

starlark_simple_value!(ModuloValue);

impl fmt::Display for ModuloValue {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("%")
    }
}

#[starlark_value(type = "function")]
impl<'v> StarlarkValue<'v> for ModuloValue {
    fn invoke(
        &self,
        _: Value<'v>,
        arguments: &Arguments<'v, '_>,
        evaluator: &mut Evaluator<'v, '_, '_>,
    ) -> starlark::Result<Value<'v>> {
        let [left, right] = arguments.positional(evaluator.heap())?;
        let is_tensor = |value| TensorValue::from_value(value).is_some();
        if is_tensor(left) || (is_tensor(right) && left.unpack_str().is_none()) {
            return Err(starlark::Error::new_native(OpError("%: tensors have none; @ is the matrix product".into())));
        }
        left.percent(right, evaluator.heap())
    }
}

/// The function that conditions go through.
#[derive(Debug, Allocative, ProvidesStaticType, NoSerialize, StarlarkPagable)]
pub struct TruthValue;

starlark_simple_value!(TruthValue);

impl fmt::Display for TruthValue {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("truth")
    }
}

#[starlark_value(type = "function")]
impl<'v> StarlarkValue<'v> for TruthValue {
    fn invoke(
        &self,
        _: Value<'v>,
        arguments: &Arguments<'v, '_>,
        evaluator: &mut Evaluator<'v, '_, '_>,
    ) -> starlark::Result<Value<'v>> {
        let asked = arguments.positional1(evaluator.heap())?;
        match TensorValue::from_value(asked) {
            None => Ok(asked),
            Some(_) => Err(starlark::Error::new_native(OpError(NO_TRUTH.into()))),
        }
    }
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
