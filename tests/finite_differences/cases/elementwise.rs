//! The element-wise table: each function of one tensor in every shape, each of two in every way to broadcast.

use headlight::graph::Domain;
use headlight::graph::ops::{
    Reduction, add, add_constant, binary, constant, index, multiply, permute, reduce, slice, unary,
};
use headlight::kernel::elementwise::{Binary, Unary};

use super::super::case::{Case, in_all_layouts, real};
use super::SHAPES;

/// Pairs of shapes that broadcast.
const PAIRS: [(&[usize], &[usize]); 17] = [
    (&[7], &[7]),
    (&[2, 3], &[2, 3]),
    // A dimension is missing.
    (&[2, 3], &[3]),
    (&[3], &[2, 3]),
    (&[5], &[1, 2, 1, 1, 5]),
    (&[], &[2, 3]),
    // Ones before, between and behind.
    (&[1, 3], &[2, 3]),
    (&[2, 4, 3], &[2, 1, 3]),
    (&[2, 3, 1], &[2, 3, 5]),
    // Both sides at once.
    (&[2, 1], &[1, 3]),
    (&[3, 1], &[2, 1, 5]),
    (&[2, 1, 3, 1], &[1, 2, 1, 3]),
    (&[2, 1, 2, 1, 3], &[1, 2, 2, 3, 1]),
    (&[1, 1], &[5]),
    (&[1], &[2, 2]),
    (&[1], &[1]),
    (&[1, 1, 1], &[1]),
];

pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for &operation in Unary::ALL {
        let constants = match operation {
            Unary::Power => &[1.7, -1.3, 3.0, 2.0, 1.0, 0.0, -1.0, -2.0][..],
            Unary::Scale | Unary::AddConstant => &[1.7, -0.4, 0.0],
            _ => &[1.7],
        };
        for &constant in constants {
            for shape in SHAPES {
                let name = format!("{} {constant} {shape:?}", operation.name());
                cases.extend(in_all_layouts(name, &real(&[shape]), move |g, x| unary(g, x[0], operation, constant)));
            }
        }
        let of_one_number = move |g: &mut _, x: &[_]| {
            let sum = reduce(g, x[0], 0, Reduction::Mean)?;
            unary(g, sum, operation, 1.0)
        };
        // A mean of positive numbers is positive; that of others may be anything.
        if operation.row().domain == Domain::SMOOTH {
            cases.extend(in_all_layouts(format!("{} of one number", operation.name()), &real(&[&[3]]), of_one_number));
        }
    }
    for &operation in Binary::ALL {
        if matches!(operation.row().domain, Domain::NotDifferentiable { .. }) {
            continue;
        }
        for (a, b) in PAIRS {
            let name = format!("{} {a:?} {b:?}", operation.name());
            cases.extend(in_all_layouts(name, &real(&[a, b]), move |g, x| binary(g, x[0], x[1], operation)));
        }
    }
    // One tensor as both operands: two terms for one value.
    for operation in [Binary::Add, Binary::Subtract, Binary::Multiply, Binary::Divide] {
        let name = format!("{} of a tensor and itself", operation.name());
        cases.extend(in_all_layouts(name, &real(&[&[2, 3]]), move |g, x| {
            let y = binary(g, x[0], x[0], operation)?;
            add(g, y, x[0])
        }));
    }
    cases.extend(in_all_layouts("constant that multiplies", &real(&[&[2, 3]]), |g, x| {
        let factor = constant(g, &[3], 1.7)?;
        multiply(g, x[0], factor)
    }));
    for (shape, axis) in [(&[2, 3][..], 0), (&[2, 3], 1), (&[2, 1], 0), (&[1, 3], 1), (&[2, 1, 3], 1), (&[2, 5, 3], 1)]
    {
        let name = format!("index of {shape:?} along axis {axis} that multiplies");
        cases.extend(in_all_layouts(name, &real(&[&[2, 3]]), move |g, x| {
            let positions = index(g, shape, axis)?;
            let flat = g.shape(positions).to_vec();
            let positions = if flat == [2, 5, 3] { slice(g, positions, 1, 2, 4)? } else { positions };
            let rows = if flat.len() == 3 { permute(g, positions, &[1, 0, 2])? } else { positions };
            let from_one = add_constant(g, rows, 1.0)?;
            multiply(g, x[0], from_one)
        }));
    }
    cases
}
