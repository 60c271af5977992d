//! `math`: functions of plain numbers, which Starlark has none of.

use starlark::environment::GlobalsBuilder;
use starlark::starlark_module;
use starlark::values::float::UnpackFloat;

use crate::script::ops::OpError;

/// Adds `math` to what a script sees.
pub fn add(globals: &mut GlobalsBuilder) {
    globals.namespace("math", |members| {
        members.set("pi", std::f64::consts::PI);
        members.set("e", std::f64::consts::E);
        members.set("inf", f64::INFINITY);
        functions(members);
    });
}

fn defined(name: &str, x: f64, value: f64) -> starlark::Result<f64> {
    match value.is_nan() {
        true => Err(starlark::Error::new_native(OpError(format!("math.{name} of {x} is no number")))),
        false => Ok(value),
    }
}

#[starlark_module]
fn functions(members: &mut GlobalsBuilder) {
    fn sqrt(#[starlark(require = pos)] x: UnpackFloat) -> starlark::Result<f64> {
        defined("sqrt", x.0, x.0.sqrt())
    }

    fn exp(#[starlark(require = pos)] x: UnpackFloat) -> starlark::Result<f64> {
        defined("exp", x.0, x.0.exp())
    }

    fn log(#[starlark(require = pos)] x: UnpackFloat) -> starlark::Result<f64> {
        defined("log", x.0, x.0.ln())
    }

    fn pow(
        #[starlark(require = pos)] x: UnpackFloat,
        #[starlark(require = pos)] y: UnpackFloat,
    ) -> starlark::Result<f64> {
        defined("pow", x.0, x.0.powf(y.0))
    }
}
