//! The WGSL designs and when each of them is right.

use super::Parameters;
use crate::kernel::piece;
use crate::tape::{Design, Mutant, Preference};

/// Workgroups for tiles of so many rows and columns, all batches counted in x.
fn tiles(parameters: &Parameters, rows: u32, columns: u32) -> [u64; 3] {
    let [rows, columns] = [parameters.rows.div_ceil(rows), parameters.columns.div_ceil(columns)].map(u64::from);
    [u64::from(parameters.batches) * rows * columns, 1, 1]
}

pub(super) static DESIGNS: &[Design<Parameters>] = &[Design {
    name: "general",
    file: "matmul_general.wgsl",
    text: include_str!("../../../shaders/matmul_general.wgsl"),
    pieces: &[&piece::LINEAR_INDEX],
    preference: Preference::Any,
    subgroup_width: None,
    supports: |_| Ok(()),
    constants: |_| Vec::new(),
    generated: |_| String::new(),
    workgroups: |parameters| tiles(parameters, 8, 64),
    mutants: &[
        Mutant {
            name: "the last product is left out",
            original: "k < params.inner; k++",
            replacement: "k + 1u < params.inner; k++",
        },
        Mutant {
            name: "a column past the edge is stored",
            original: "if column >= params.columns {",
            replacement: "if column > params.columns {",
        },
        Mutant {
            name: "the tile's last row is dropped",
            original: "r < min(TILE_ROWS, params.rows - row)",
            replacement: "r < min(TILE_ROWS - 1u, params.rows - row)",
        },
        Mutant { name: "the bias is always added", original: "if params.has_bias != 0u {", replacement: "if true {" },
        Mutant {
            name: "batches take the inner stride of A for the outer one",
            original: "outer * params.a_outer_stride",
            replacement: "outer * params.a_inner_stride",
        },
        Mutant {
            name: "rows past the edge wrap",
            original: "tile / tile_columns % tile_rows",
            replacement: "tile / tile_rows % tile_rows",
        },
    ],
}];
