//! The arguments of a call, by the names of their parameters.

use super::{Kind, OpError, ScriptOp, malformed};
use crate::graph::ops::constant;
use crate::graph::{Graph, Value};
use crate::script::recording::Argument;

/// Arguments that fit their op's parameters.
pub struct Bound<'a> {
    op: &'static str,
    parameters: Vec<&'static str>,
    arguments: &'a [Argument<Value>],
}

/// Whether an argument is of a kind.
fn fits<T>(argument: &Argument<T>, kind: Kind) -> bool {
    match (argument, kind) {
        (Argument::Tensor(_), Kind::Tensor | Kind::Operand)
        | (Argument::Number(_), Kind::Operand | Kind::Number | Kind::NumberOrText)
        | (Argument::Truth(_), Kind::Truth)
        | (Argument::Text(_), Kind::Text | Kind::NumberOrText)
        | (Argument::List(_), Kind::Sizes)
        | (Argument::Tensors(_), Kind::Tensors) => true,
        (Argument::Number(number), Kind::Whole) => number.fract() == 0.0 && number.abs() <= f64::from(1 << 30),
        _ => false,
    }
}

impl<'a> Bound<'a> {
    /// # Errors
    /// An argument of another kind than its parameter's, or one that is missing.
    pub fn new(op: &ScriptOp, arguments: &'a [Argument<Value>]) -> Result<Self, OpError> {
        if arguments.len() != op.parameters.len() {
            return Err(malformed(op.name));
        }
        for (parameter, argument) in op.parameters.iter().zip(arguments) {
            let name = parameter.name;
            if matches!(argument, Argument::Omitted) {
                if parameter.default.is_none() {
                    return Err(OpError(format!("{}: {name} is missing; it is ops.{}", op.name, op.signature())));
                }
            } else if !fits(argument, parameter.kind) {
                let (wanted, found) = (parameter.kind.words(), describe(argument));
                if matches!(argument, Argument::Number(number) if parameter.kind == Kind::Whole && number.fract() == 0.0)
                {
                    return Err(OpError(format!("{}: {name} is beyond 2^30", op.name)));
                }
                return Err(OpError(format!("{}: {name} must be {wanted}, got {found}", op.name)));
            }
        }
        let parameters = op.parameters.iter().map(|parameter| parameter.name).collect();
        Ok(Self { op: op.name, parameters, arguments })
    }

    pub fn error(&self, message: impl std::fmt::Display) -> OpError {
        OpError(format!("{}: {message}", self.op))
    }

    fn argument(&self, name: &str) -> Result<&'a Argument<Value>, OpError> {
        let index = self.parameters.iter().position(|&parameter| parameter == name);
        index.and_then(|index| self.arguments.get(index)).ok_or_else(|| malformed(self.op))
    }

    pub fn tensor(&self, name: &str) -> Result<Value, OpError> {
        match self.argument(name)? {
            Argument::Tensor(value) => Ok(*value),
            _ => Err(malformed(self.op)),
        }
    }

    pub fn tensors(&self, name: &str) -> Result<&'a [Value], OpError> {
        match self.argument(name)? {
            Argument::Tensors(values) => Ok(values),
            _ => Err(malformed(self.op)),
        }
    }

    /// The number of an operand that is one.
    pub fn number(&self, name: &str) -> Result<Option<f64>, OpError> {
        match self.argument(name)? {
            Argument::Number(number) => Ok(Some(*number)),
            Argument::Tensor(_) | Argument::Omitted => Ok(None),
            _ => Err(malformed(self.op)),
        }
    }

    pub fn number_or(&self, name: &str, default: f64) -> Result<f64, OpError> {
        Ok(self.number(name)?.unwrap_or(default))
    }

    /// An operand as a tensor: a number becomes one element.
    pub fn operand(&self, graph: &mut Graph, name: &str) -> Result<Value, OpError> {
        match self.argument(name)? {
            Argument::Tensor(value) => Ok(*value),
            Argument::Number(number) => Ok(constant(graph, &[1], *number)?),
            _ => Err(malformed(self.op)),
        }
    }

    pub fn truth_or(&self, name: &str, default: bool) -> Result<bool, OpError> {
        match self.argument(name)? {
            Argument::Truth(value) => Ok(*value),
            Argument::Omitted => Ok(default),
            _ => Err(malformed(self.op)),
        }
    }

    pub fn text_or(&self, name: &str, default: &'a str) -> Result<&'a str, OpError> {
        match self.argument(name)? {
            Argument::Text(value) => Ok(value),
            Argument::Omitted => Ok(default),
            _ => Err(malformed(self.op)),
        }
    }

    pub fn whole(&self, name: &str) -> Result<i64, OpError> {
        match self.argument(name)? {
            Argument::Number(number) => Ok(*number as i64),
            _ => Err(malformed(self.op)),
        }
    }

    pub fn is_given(&self, name: &str) -> Result<bool, OpError> {
        Ok(!matches!(self.argument(name)?, Argument::Omitted))
    }

    /// A list of sizes, each at least 1.
    pub fn sizes(&self, name: &str) -> Result<Vec<usize>, OpError> {
        let Argument::List(list) = self.argument(name)? else { return Err(malformed(self.op)) };
        let size = |&size: &i64| match usize::try_from(size) {
            Ok(size) if size > 0 => Ok(size),
            _ => Err(self.error(format!("{name} holds {size}: sizes are at least 1"))),
        };
        list.iter().map(size).collect()
    }

    pub fn list(&self, name: &str) -> Result<&'a [i64], OpError> {
        match self.argument(name)? {
            Argument::List(list) => Ok(list),
            _ => Err(malformed(self.op)),
        }
    }

    /// An axis of a tensor, counted from its end where negative.
    pub fn axis_or(&self, graph: &Graph, x: Value, name: &str, default: i64) -> Result<usize, OpError> {
        let asked = if self.is_given(name)? { self.whole(name)? } else { default };
        let rank = graph.shape(x).len();
        let axis = if asked < 0 { asked + rank as i64 } else { asked };
        match usize::try_from(axis) {
            Ok(axis) if axis < rank => Ok(axis),
            _ => {
                let shape = graph.ty(x);
                Err(self.error(format!("{shape} has no axis {asked}; its axes are {} to {}", -(rank as i64), rank - 1)))
            }
        }
    }
}

fn describe(argument: &Argument<Value>) -> String {
    match argument {
        Argument::Tensor(_) => "a tensor".into(),
        Argument::Number(number) => number.to_string(),
        Argument::Truth(true) => "True".into(),
        Argument::Truth(false) => "False".into(),
        Argument::Text(text) => format!("'{text}'"),
        Argument::List(list) => format!("{list:?}"),
        Argument::Tensors(_) => "a list of tensors".into(),
        Argument::Omitted => "nothing".into(),
    }
}
