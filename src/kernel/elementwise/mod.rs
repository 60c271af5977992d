//! The table of element-wise operations: for each a name, a WGSL expression over `vec4<f32>` and the same function in
//! Rust. The kernels [`unary`](super::unary) and [`binary`](super::binary) run its rows; other kernels may inline them.
//!
//! Expressions may call the functions of [`piece::ELEMENTWISE`](super::piece::ELEMENTWISE), so that piece goes before
//! any text that contains one.

mod binary;
mod unary;

pub use binary::Binary;
pub use unary::Unary;

use crate::tape::Wide;

/// A row of the table.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// What a learner calls it, in snake case.
    pub name: &'static str,
    /// 1: the expression reads `x` (`vec4<f32>`) and `constant` (`f32`). 2: it reads `a` and `b` (`vec4<f32>`).
    pub arity: usize,
    /// A WGSL expression of type `vec4<f32>`.
    pub expression: &'static str,
}

impl Row {
    /// The WGSL function `apply` that evaluates this row.
    pub fn apply(&self) -> String {
        let parameters = match self.arity {
            1 => "x: vec4<f32>, constant: f32",
            _ => "a: vec4<f32>, b: vec4<f32>",
        };
        format!("// {}\nfn apply({parameters}) -> vec4<f32> {{\n    return {};\n}}\n", self.name, self.expression)
    }
}

/// 1 or 0.
fn truth<W: Wide>(holds: bool) -> W {
    W::of(if holds { 1.0 } else { 0.0 })
}

/// Declares the operations of one arity, a variant each, in the order of their numbers.
macro_rules! operations {
    (
        $(#[$meta:meta])* pub enum $name:ident with arity $arity:literal {
            $($(#[$row_meta:meta])* $variant:ident = $text:literal, $expression:literal, $function:expr;)+
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u32)]
        pub enum $name {
            $($(#[$row_meta])* $variant),+
        }

        impl $name {
            /// Every operation, in the order of their numbers.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            const ROWS: &'static [$crate::kernel::elementwise::Row] = &[$($crate::kernel::elementwise::Row {
                name: $text,
                arity: $arity,
                expression: $expression,
            }),+];

            /// The number by which a launch names the operation.
            pub const fn index(self) -> u32 {
                self as u32
            }

            /// The operation of that number; `None` past the end of the table.
            pub fn from_index(index: u32) -> Option<Self> {
                Self::ALL.get(index as usize).copied()
            }

            /// The operation of that name; `None` where there is none.
            pub fn from_name(name: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|operation| operation.row().name == name)
            }

            pub const fn row(self) -> &'static $crate::kernel::elementwise::Row {
                &Self::ROWS[self as usize]
            }

            pub const fn name(self) -> &'static str {
                self.row().name
            }

            /// What the expression computes: of `(x, constant)` or of `(a, b)`.
            pub fn function<W: $crate::tape::Wide>(self) -> fn(W, W) -> W {
                match self {
                    $(Self::$variant => $function),+
                }
            }

            /// The row of a launch's operation number.
            ///
            /// # Errors
            /// Names the number and the size of the table.
            pub(in $crate::kernel) fn row_of(
                index: u32,
            ) -> Result<&'static $crate::kernel::elementwise::Row, String> {
                let rows = Self::ROWS.len();
                Self::ROWS.get(index as usize).ok_or_else(|| format!("there are {rows} operations, asked for {index}"))
            }
        }
    };
}

use operations;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_over_both_arities_and_lead_back_to_their_operation() {
        let mut names = std::collections::BTreeSet::new();
        for &operation in Unary::ALL {
            assert!(names.insert(operation.name()), "{} twice", operation.name());
            assert_eq!(Unary::from_name(operation.name()), Some(operation));
            assert_eq!(Unary::from_index(operation.index()), Some(operation));
            assert_eq!(operation.row().arity, 1);
        }
        for &operation in Binary::ALL {
            assert!(names.insert(operation.name()), "{} twice", operation.name());
            assert_eq!(Binary::from_name(operation.name()), Some(operation));
            assert_eq!(Binary::from_index(operation.index()), Some(operation));
            assert_eq!(operation.row().arity, 2);
        }
        assert_eq!(Unary::from_index(Unary::ALL.len() as u32), None);
        assert_eq!(Binary::from_name("gelu"), None);
    }

    #[test]
    fn a_row_becomes_a_function_of_its_own_arguments() {
        assert_eq!(
            Unary::Scale.row().apply(),
            "// scale\nfn apply(x: vec4<f32>, constant: f32) -> vec4<f32> {\n    return constant * x;\n}\n"
        );
        assert!(Binary::Add.row().apply().contains("fn apply(a: vec4<f32>, b: vec4<f32>) -> vec4<f32>"));
    }
}
