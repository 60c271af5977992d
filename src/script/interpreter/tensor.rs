//! A stand-in for a tensor: scripts see its shape and compute with it.

use std::fmt;

use allocative::Allocative;
use starlark::starlark_simple_value;
use starlark::values::tuple::AllocTuple;
use starlark::values::{Heap, NoSerialize, ProvidesStaticType, StarlarkPagable, StarlarkValue, Value, starlark_value};

use super::recorder::Recorder;
use crate::script::TensorId;

/// Why a tensor is neither true nor false.
pub const NO_TRUTH: &str =
    "a tensor has no values while the function is traced, so it is neither true nor false: use ops.where, & and |";

#[derive(Clone, Debug, Allocative, ProvidesStaticType, NoSerialize, StarlarkPagable)]
pub struct TensorValue {
    pub id: TensorId,
    pub shape: Vec<usize>,
}

starlark_simple_value!(TensorValue);

impl fmt::Display for TensorValue {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sizes: Vec<String> = self.shape.iter().map(ToString::to_string).collect();
        write!(formatter, "tensor [{}]", sizes.join(","))
    }
}

#[starlark_value(type = "tensor")]
impl<'v> StarlarkValue<'v> for TensorValue {
    fn get_attr(&self, attribute: &str, heap: Heap<'v>) -> Option<Value<'v>> {
        let number = |size: usize| i32::try_from(size).unwrap_or(i32::MAX);
        match attribute {
            "shape" => Some(heap.alloc(AllocTuple(self.shape.iter().map(|&size| number(size))))),
            "ndim" => Some(heap.alloc(number(self.shape.len()))),
            _ => None,
        }
    }

    fn dir_attr(&self) -> Vec<String> {
        vec!["shape".into(), "ndim".into()]
    }

    /// `bool(x)` and `any([x])` ask for this, and take no error.
    fn to_bool(&self) -> bool {
        Recorder::refuse(NO_TRUTH);
        true
    }
}
