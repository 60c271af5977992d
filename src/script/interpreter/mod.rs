//! Runs a script's function with stand-ins for tensors, in this process.

mod functions;
mod math;
mod operators;
mod recorder;
mod rewriting;
mod tensor;

use std::cell::Cell;
use std::collections::HashMap;

use starlark::PrintHandler;
use starlark::environment::{GlobalsBuilder, LibraryExtension, Module};
use starlark::eval::Evaluator;
use starlark::syntax::{AstModule, Dialect};
use starlark::values::structs::AllocStruct;

use self::functions::OpsValue;
use self::operators::{NativeFunction, OPERATORS};
use self::recorder::Recorder;
use self::rewriting::Rewritten;
use self::tensor::TensorValue;
use super::{Recording, Script, ScriptError, TraceSizes};
use crate::printable::printable;

/// What a script must define.
const FUNCTION: &str = "attention";
const SIGNATURE: &str = "attention(x, q, k, v, ops, cfg)";

/// Bounds that keep an innocent mistake from running for long. They do not stop everything that Starlark can do: a
/// script that is not trusted is traced in a process of its own.
const CALL_DEPTH: usize = 100;
const HEAP_BYTES: usize = 64 << 20;
/// The longest message: names and texts of a script may stand in it.
const MESSAGE_LIMIT: usize = 400;
const PRINTED_LINES: usize = 200;
const PRINTED_CHARACTERS: usize = 400;

/// Traces a script for every layer.
///
/// # Errors
/// What is wrong with it, with file, line and column.
pub fn trace_here(script: &Script, sizes: &TraceSizes) -> Result<Vec<Recording>, ScriptError> {
    let rewritten = rewriting::rewrite(script)?;
    (0..sizes.layers).map(|layer| trace_layer(script, &rewritten, sizes, layer)).collect()
}

fn trace_layer(
    script: &Script,
    rewritten: &Rewritten,
    sizes: &TraceSizes,
    layer: usize,
) -> Result<Recording, ScriptError> {
    let mut ast = parse(script, rewritten, &rewritten.text)?;
    let replaced = OPERATORS.iter().map(|operator| (operator.symbol.to_string(), operator.function()));
    ast.replace_binary_operators(&replaced.collect::<HashMap<_, _>>());
    let mut globals =
        GlobalsBuilder::extended_by(&[LibraryExtension::Print, LibraryExtension::Map, LibraryExtension::Filter]);
    math::add(&mut globals);
    for name in [rewriting::TRUTH, rewriting::MODULO] {
        globals.set(name, NativeFunction { name: name.into() });
    }
    for operator in OPERATORS {
        globals.set(&operator.function(), NativeFunction { name: operator.symbol.into() });
    }
    let globals = globals.build();
    let printed = Printed::default();
    let guard = Recorder::begin(sizes).map_err(|error| error.at(&script.file, 0, 0))?;
    let result = Module::with_temp_heap(|module| {
        let mut evaluator = Evaluator::new(&module);
        evaluator.set_print_handler(&printed);
        evaluator.set_max_callstack_size(CALL_DEPTH).map_err(starlark::Error::new_other)?;
        evaluator.set_max_heap_size(HEAP_BYTES).map_err(starlark::Error::new_other)?;
        evaluator.eval_module(ast, &globals)?;
        let Some(function) = module.get(FUNCTION) else { return Ok(Err(no_function(&module))) };
        let heap = module.heap();
        let [x, q, k, v] = Recorder::inputs().map(|tensor| heap.alloc(tensor));
        let number = |size: usize| i32::try_from(size).unwrap_or(i32::MAX);
        let cfg = heap.alloc(AllocStruct([
            ("d", number(sizes.width)),
            ("heads", number(sizes.heads)),
            ("d_head", number(sizes.width / sizes.heads.max(1))),
            ("context", number(sizes.context_length)),
            ("layer", number(layer)),
        ]));
        let returned = evaluator.eval_function(function, &[x, q, k, v, heap.alloc(OpsValue), cfg], &[])?;
        Ok(match TensorValue::from_value(returned) {
            Some(tensor) => Ok(tensor.clone()),
            None if returned.is_none() => Err("attention returned nothing: end it with return".to_string()),
            None => Err(format!("attention returned a {}, wanted a tensor [B, T, d]", returned.get_type())),
        })
    });
    let mut recording = guard.finish(rewritten).map_err(|error| error.at(&script.file, 0, 0))?;
    let returned = result.map_err(|error: starlark::Error| located(script, rewritten, &error))?;
    let tensor = returned.map_err(|reason| ScriptError::whole(&script.file, reason))?;
    let wanted = [sizes.batch, sizes.length, sizes.width];
    if tensor.shape != wanted {
        return Err(wrong_shape(script, &recording, &tensor, wanted));
    }
    recording.result = tensor.id;
    recording.printed = printed.lines.take();
    Ok(recording)
}

fn parse(script: &Script, rewritten: &Rewritten, text: &str) -> Result<AstModule, ScriptError> {
    AstModule::parse(&script.file, text.to_string(), &dialect()).map_err(|error| located(script, rewritten, &error))
}

/// Starlark with what Python's users expect beside it, but without `load`: a script is one file.
fn dialect() -> Dialect {
    Dialect {
        enable_load: false,
        enable_top_level_stmt: true,
        enable_f_strings: true,
        enable_keyword_only_arguments: true,
        ..Dialect::Extended
    }
}

fn no_function(module: &Module<'_>) -> String {
    let near = module
        .names()
        .map(|name| name.as_str().to_string())
        .find(|name| strsim::damerau_levenshtein(&name.to_lowercase(), FUNCTION) <= 3);
    match near {
        Some(near) => format!("it defines {near}, wanted {SIGNATURE}"),
        None => format!("it defines no {SIGNATURE}"),
    }
}

fn wrong_shape(script: &Script, recording: &Recording, tensor: &TensorValue, wanted: [usize; 3]) -> ScriptError {
    let list = |shape: &[usize]| shape.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
    let [batch, length, width] = wanted;
    let apart = tensor.shape.len() == 4
        && (tensor.shape[0], tensor.shape[2]) == (batch, length)
        && tensor.shape[1] * tensor.shape[3] == width;
    let hint = if apart { "; did you mean ops.merge_heads of it?" } else { "" };
    let made = (tensor.id as usize).checked_sub(super::recording::INPUTS).and_then(|index| recording.calls.get(index));
    ScriptError {
        file: script.file.clone(),
        line: made.map_or(0, |call| call.line),
        column: made.map_or(0, |call| call.column),
        message: format!("attention returned [{}], wanted [B,T,d] = [{}]{hint}", list(&tensor.shape), list(&wanted)),
    }
}

/// One of Starlark's errors as a line.
fn located(script: &Script, rewritten: &Rewritten, error: &starlark::Error) -> ScriptError {
    let message = error.without_diagnostic().to_string();
    let message = message.lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join(" ");
    let message = message.strip_prefix("error: ").unwrap_or(&message).to_string();
    let message = match message.contains("Heap memory limit") {
        true => "it was stopped: it keeps more values than a script may have".to_string(),
        false => printable(&message, MESSAGE_LIMIT),
    };
    let (line, column) = error.span().map_or((0, 0), |span| rewritten.place(span.span.begin().get() as usize));
    // A wrong number of arguments is found where Starlark calls, which is nowhere in the file.
    let message = match line {
        0 if message.contains("argument") || message.contains("parameter") => {
            format!("{message}; it is called as {SIGNATURE}")
        }
        _ => message,
    };
    ScriptError { file: script.file.clone(), line, column, message }
}

/// Keeps what a script prints.
#[derive(Default)]
struct Printed {
    lines: Cell<Vec<String>>,
}

impl PrintHandler for Printed {
    fn println(&self, text: &str) -> starlark::Result<()> {
        let mut lines = self.lines.take();
        if lines.len() < PRINTED_LINES {
            lines.push(text.chars().take(PRINTED_CHARACTERS).collect());
        }
        self.lines.set(lines);
        Ok(())
    }
}
