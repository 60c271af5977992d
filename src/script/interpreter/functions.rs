//! `ops`, and the functions that it holds.

use std::fmt;

use allocative::Allocative;
use starlark::eval::{Arguments, Evaluator};
use starlark::starlark_simple_value;
use starlark::values::float::UnpackFloat;
use starlark::values::list_or_tuple::UnpackListOrTuple;
use starlark::values::{
    Heap, NoSerialize, ProvidesStaticType, StarlarkPagable, StarlarkValue, UnpackValue, Value, starlark_value,
};

use super::recorder::{Place, Recorder};
use super::tensor::TensorValue;
use crate::script::TensorId;
use crate::script::ops::{self, OpError, OpParameter, ScriptOp};
use crate::script::recording::Argument;

/// The namespace of all ops.
#[derive(Debug, Allocative, ProvidesStaticType, NoSerialize, StarlarkPagable)]
pub struct OpsValue;

starlark_simple_value!(OpsValue);

impl fmt::Display for OpsValue {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("ops")
    }
}

#[starlark_value(type = "ops")]
impl<'v> StarlarkValue<'v> for OpsValue {
    /// An unknown name gives a function that says so when it is called: then its place is known, and the names near it.
    fn get_attr(&self, attribute: &str, heap: Heap<'v>) -> Option<Value<'v>> {
        Some(heap.alloc(OpValue { name: attribute.into() }))
    }

    fn dir_attr(&self) -> Vec<String> {
        ops::table().map(|op| op.name.to_string()).collect()
    }
}

/// One op, to be called.
#[derive(Debug, Allocative, ProvidesStaticType, NoSerialize, StarlarkPagable)]
pub struct OpValue {
    name: String,
}

starlark_simple_value!(OpValue);

impl fmt::Display for OpValue {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "ops.{}", self.name)
    }
}

#[starlark_value(type = "function")]
impl<'v> StarlarkValue<'v> for OpValue {
    fn invoke(
        &self,
        _: Value<'v>,
        arguments: &Arguments<'v, '_>,
        evaluator: &mut Evaluator<'v, '_, '_>,
    ) -> starlark::Result<Value<'v>> {
        let op = ops::find(&self.name).map_err(starlark::Error::new_native)?;
        let heap = evaluator.heap();
        let positional: Vec<Value<'v>> = arguments.positions(heap)?.collect();
        let named = arguments.names_map()?;
        let named: Vec<(&str, Value<'v>)> = named.iter().map(|(name, value)| (name.as_str(), *value)).collect();
        let bound = bind(op, &positional, &named).map_err(starlark::Error::new_native)?;
        let place = Place::of(evaluator);
        let tensor = Recorder::call(op, bound, place).map_err(starlark::Error::new_native)?;
        Ok(heap.alloc(tensor))
    }
}

/// Python's rules for arguments, with errors that show the signature.
fn bind<'v>(
    op: &ScriptOp,
    positional: &[Value<'v>],
    named: &[(&str, Value<'v>)],
) -> Result<Vec<Argument<TensorId>>, OpError> {
    let refuse = |reason: String| OpError(format!("{}: {reason}; it is ops.{}", op.name, op.signature()));
    if positional.len() > op.parameters.len() {
        return Err(refuse(format!("takes {} arguments, got {}", op.parameters.len(), positional.len())));
    }
    let mut bound = vec![Argument::Omitted; op.parameters.len()];
    let convert = |index: usize, value: Value<'v>| {
        let OpParameter { name, kind, default } = op.parameters[index];
        match value.is_none() && default.is_none() {
            true => Err(refuse(format!("{name} must be {}, got None", kind.words()))),
            false => argument(value).map_err(|reason| refuse(format!("{name}: {reason}"))),
        }
    };
    for (index, &value) in positional.iter().enumerate() {
        bound[index] = convert(index, value)?;
    }
    for &(name, value) in named {
        let Some(index) = op.parameters.iter().position(|parameter| parameter.name == name) else {
            return Err(refuse(format!("has no argument {name}")));
        };
        if index < positional.len() {
            return Err(refuse(format!("{name} is given twice")));
        }
        bound[index] = convert(index, value)?;
    }
    Ok(bound)
}

/// A value of Starlark as an argument.
pub fn argument(value: Value<'_>) -> Result<Argument<TensorId>, String> {
    if let Some(tensor) = TensorValue::from_value(value) {
        return Ok(Argument::Tensor(tensor.id));
    }
    if value.is_none() {
        return Ok(Argument::Omitted);
    }
    if let Some(truth) = value.unpack_bool() {
        return Ok(Argument::Truth(truth));
    }
    if let Ok(Some(UnpackFloat(number))) = UnpackFloat::unpack_value(value) {
        return match number.is_nan() {
            true => Err("NaN is no constant".into()),
            false => Ok(Argument::Number(number)),
        };
    }
    if let Some(text) = value.unpack_str() {
        return Ok(Argument::Text(text.into()));
    }
    if let Ok(Some(list)) = UnpackListOrTuple::<&TensorValue>::unpack_value(value)
        && !list.items.is_empty()
    {
        return Ok(Argument::Tensors(list.items.iter().map(|tensor| tensor.id).collect()));
    }
    if let Ok(Some(list)) = UnpackListOrTuple::<i32>::unpack_value(value) {
        return Ok(Argument::List(list.items.into_iter().map(i64::from).collect()));
    }
    match value.get_type() {
        "list" | "tuple" => Err("a list must hold tensors alone, or whole numbers below 2^31 alone".into()),
        other => Err(format!("a {other} is of no use here")),
    }
}
