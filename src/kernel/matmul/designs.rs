//! The WGSL designs, in order of preference, and when each of them is right.

use super::Parameters;
use crate::gpu::{AdapterKind, Constant};
use crate::kernel::loop_limit::within;
use crate::kernel::piece;
use crate::tape::MutantKind::{Accumulator, Barrier, Formula, Index, Tile};
use crate::tape::{Design, Mutant, Preference};

pub(super) static DESIGNS: &[Design<Parameters>] = &[
    Design {
        name: "subgroup",
        file: "matmul_subgroup.wgsl",
        text: include_str!("../../../shaders/matmul_subgroup.wgsl"),
        pieces: &[&piece::LINEAR_INDEX, &piece::MATMUL, &piece::MATMUL_VEC4],
        preference: Preference::Only(AdapterKind::Software),
        subgroup_width: Some(8),
        supports: |parameters| {
            parameters.a_by_vec4()?;
            parameters.b_by_vec4()?;
            parameters.c_by_vec4()?;
            subgroup_iterations(parameters)
        },
        constants: |parameters| {
            let mut constants = subgroup_constants(parameters);
            constants.push(Constant::bool("A_TRANSPOSED", !parameters.a_is_by_rows()));
            constants
        },
        generated: |_| String::new(),
        workgroups: subgroup_workgroups,
        mutants: &[&[
            Mutant::new(
                Index,
                "the lanes of a column of B change places",
                "let column_read = min(column + (lane >> 1u)",
                "let column_read = min(column + ((lane ^ 2u) >> 1u)",
            ),
            Mutant::new(
                Tile,
                "a row of B past the inner dimension is not zero",
                "let own = select(vec4<f32>(), loaded, k_lane < params.inner);",
                "let own = loaded;",
            ),
            Mutant::new(Accumulator, "later chunks forget the sums of earlier ones", "if k > 0u ||", "if k > CHUNK ||"),
            Mutant::new(
                Accumulator,
                "what C held is forgotten",
                "if k > 0u || params.accumulates != 0u {",
                "if k > 0u {",
            ),
            Mutant::new(
                Tile,
                "the last four columns of a span are left out",
                "column < last_column;",
                "column + 4u < last_column;",
            ),
            Mutant::new(
                Tile,
                "a row past the edge is stored",
                "if row + 3u < params.rows {",
                "if row + 2u < params.rows {",
            ),
            Mutant::new(
                Index,
                "a transposed A is read from its first rows at the edge",
                "min(row, (params.rows - 1u) & ~3u)",
                "min(row, (params.rows - 4u) & ~3u)",
            ),
            Mutant::new(
                Index,
                "the bias of the first column serves all four",
                "bias[min(column + (lane & 3u), params.columns - 1u)]",
                "bias[min(column, params.columns - 1u)]",
            ),
        ]],
    },
    Design {
        name: "subgroup_scalar",
        file: "matmul_subgroup.wgsl",
        text: include_str!("../../../shaders/matmul_subgroup.wgsl"),
        pieces: &[&piece::LINEAR_INDEX, &piece::MATMUL, &piece::MATMUL_SCALAR],
        preference: Preference::Only(AdapterKind::Software),
        subgroup_width: Some(8),
        supports: |parameters| {
            parameters.b_by_vec4()?;
            subgroup_iterations(parameters)
        },
        constants: subgroup_constants,
        generated: |_| String::new(),
        workgroups: subgroup_workgroups,
        mutants: &[&[
            Mutant::new(Accumulator, "later chunks forget the sums of earlier ones", "if k > 0u ||", "if k > CHUNK ||"),
            Mutant::new(
                Accumulator,
                "what C held is forgotten",
                "if k > 0u || params.accumulates != 0u {",
                "if k > 0u {",
            ),
            Mutant::new(Tile, "a column past the edge is stored", "if columns > 1u {", "if columns > 0u {"),
            Mutant::new(
                Tile,
                "sums past the edge of a row begin at the next",
                "min(column + vec4<u32>(0u, 1u, 2u, 3u), vec4<u32>(params.columns - 1u))",
                "min(column + vec4<u32>(0u, 1u, 2u, 2u), vec4<u32>(params.columns - 1u))",
            ),
            Mutant::new(
                Tile,
                "an inner step of A past the end is not zero",
                "return within_inner(vec4<f32>(a[reads.x], a[reads.y], a[reads.z], a[reads.w]), k);",
                "return within_inner(vec4<f32>(a[reads.x], a[reads.y], a[reads.z], a[reads.w]), k + 1u);",
            ),
            Mutant::new(
                Index,
                "the second half of the inner steps meets the first half of A",
                "transpose(first) * a_first + transpose(second) * a_second",
                "transpose(first) * a_second + transpose(second) * a_first",
            ),
        ]],
    },
    Design {
        name: "tiled",
        file: "matmul_tiled.wgsl",
        text: include_str!("../../../shaders/matmul_tiled.wgsl"),
        pieces: &[&piece::LINEAR_INDEX, &piece::MATMUL],
        preference: Preference::Only(AdapterKind::Hardware),
        subgroup_width: None,
        supports: |_| Ok(()),
        constants: |_| Vec::new(),
        generated: |_| String::new(),
        workgroups: |parameters| tiles(parameters, 64, 64),
        mutants: &[&[
            Mutant::new(Accumulator, "each inner step replaces those before", "sums += Tile(of_b", "sums = Tile(of_b"),
            Mutant::new(Accumulator, "what C held is forgotten", "added = c[element];", "added = 0.0;"),
            Mutant::new(Barrier, "nobody waits for the tiles", "workgroupBarrier(); // the tiles are whole", ""),
            Mutant::new(
                Barrier,
                "the next tiles are written before the last are read",
                "workgroupBarrier(); // nobody reads them any more",
                "",
            ),
            Mutant::new(
                Tile,
                "inner steps past the end are not zero",
                "select(vec4<f32>(), a_values, a_step < inner)",
                "a_values",
            ),
            Mutant::new(
                Tile,
                "the last step of a tile is left out",
                "step < STEPS; step++",
                "step + 1u < STEPS; step++",
            ),
            Mutant::new(
                Tile,
                "a row past the edge is stored",
                "if row + r < params.rows {",
                "if row + r <= params.rows {",
            ),
            Mutant::new(
                Index,
                "the inner batch stride serves the outer dimension",
                "outer * params.c_outer_stride",
                "outer * params.c_inner_stride",
            ),
        ]],
    },
    Design {
        name: "rows_vec4",
        file: "matmul_rows_vec4.wgsl",
        text: include_str!("../../../shaders/matmul_rows_vec4.wgsl"),
        pieces: &[&piece::LINEAR_INDEX, &piece::MATMUL, &piece::MATMUL_VEC4],
        preference: Preference::Any,
        subgroup_width: None,
        supports: |parameters| {
            parameters.a_by_vec4()?;
            parameters.b_by_vec4()?;
            parameters.c_by_vec4()?;
            within(u64::from(parameters.inner.div_ceil(4)))
        },
        constants: |parameters| {
            vec![
                Constant::bool("A_TRANSPOSED", !parameters.a_is_by_rows()),
                Constant::bool("B_TRANSPOSED", !parameters.b_is_by_rows()),
            ]
        },
        generated: |_| String::new(),
        workgroups: |parameters| tiles(parameters, 8, 32),
        mutants: &[&[
            Mutant::new(Accumulator, "later inner steps replace the upper rows", "upper += b_tile", "upper = b_tile"),
            Mutant::new(
                Accumulator,
                "the lower rows begin with what the upper ones held",
                "lower = load_c(at.c, row + 4u, column);",
                "lower = upper;",
            ),
            Mutant::new(
                Index,
                "the lower rows take the upper rows of A",
                "load_a(at.a, row + 4u, k)",
                "load_a(at.a, row, k)",
            ),
            Mutant::new(
                Tile,
                "the last inner steps are left out",
                "k < params.inner; k += 4u",
                "k + 4u < params.inner; k += 4u",
            ),
            Mutant::new(Tile, "a row past the edge is stored", "if row + 1u < params.rows {", "if row < params.rows {"),
            Mutant::new(
                Tile,
                "an inner step of B past the end is not zero",
                "within_inner(b[(at + 3u * params.b_column_stride) / 4u], k)",
                "b[(at + 3u * params.b_column_stride) / 4u]",
            ),
            Mutant::new(
                Index,
                "the bias of the third column serves the fourth",
                "bias[column + 3u]",
                "bias[column + 2u]",
            ),
        ]],
    },
    Design {
        name: "general",
        file: "matmul_general.wgsl",
        text: include_str!("../../../shaders/matmul_general.wgsl"),
        pieces: &[&piece::LINEAR_INDEX, &piece::MATMUL],
        preference: Preference::Any,
        subgroup_width: None,
        supports: |parameters| within(u64::from(parameters.inner) + 64),
        constants: |_| Vec::new(),
        generated: |_| String::new(),
        workgroups: |parameters| tiles(parameters, 8, 64),
        mutants: &[&[
            Mutant::new(
                Accumulator,
                "each inner step replaces the last column's sums",
                "c7l += lower * right.w;",
                "c7l = lower * right.w;",
            ),
            Mutant::new(Tile, "the last product is left out", "k < params.inner; k++", "k + 1u < params.inner; k++"),
            Mutant::new(
                Tile,
                "a column past the edge is stored",
                "if column >= params.columns {",
                "if column > params.columns {",
            ),
            Mutant::new(
                Tile,
                "the tile's last row is dropped",
                "r < min(TILE_ROWS, params.rows - row)",
                "r < min(TILE_ROWS - 1u, params.rows - row)",
            ),
            Mutant::new(Accumulator, "what C held is always added to", "if params.accumulates != 0u {", "if true {"),
            Mutant::new(Formula, "the bias is always added", "if params.has_bias != 0u {", "if true {"),
            Mutant::new(
                Index,
                "batches take the inner stride of A for the outer one",
                "outer * params.a_outer_stride",
                "outer * params.a_inner_stride",
            ),
            Mutant::new(
                Index,
                "rows of tiles are counted by columns",
                "tile / tile_columns % tile_rows",
                "tile / tile_rows % tile_rows",
            ),
        ]],
    },
];

/// Workgroups for tiles of so many rows and columns, all batches counted in x.
fn tiles(parameters: &Parameters, rows: u32, columns: u32) -> [u64; 3] {
    let [rows, columns] = [parameters.rows.div_ceil(rows), parameters.columns.div_ceil(columns)].map(u64::from);
    [u64::from(parameters.batches).saturating_mul(rows).saturating_mul(columns), 1, 1]
}

/// Tiles of 32 rows, divided into spans of columns where there are few: as the shader does it.
fn subgroup_workgroups(parameters: &Parameters) -> [u64; 3] {
    let (tiles, spans) = subgroup_grid(parameters);
    [tiles.saturating_mul(spans), 1, 1]
}

/// Tiles of rows in all batches, and spans of columns a tile.
fn subgroup_grid(parameters: &Parameters) -> (u64, u64) {
    const ENOUGH_WORKGROUPS: u64 = 8;
    const LEAST_SPAN: u64 = 128;
    let tiles = u64::from(parameters.batches) * u64::from(parameters.rows.div_ceil(32));
    let spans = u64::from(parameters.columns).div_ceil(LEAST_SPAN).min(ENOUGH_WORKGROUPS.div_ceil(tiles.max(1)));
    (tiles, spans)
}

/// An invocation walks its span once for every chunk of inner steps.
fn subgroup_iterations(parameters: &Parameters) -> Result<(), String> {
    let (_, spans) = subgroup_grid(parameters);
    let vectors = u64::from(parameters.columns).div_ceil(spans.max(1)).div_ceil(4) + 1;
    within(u64::from(parameters.inner.div_ceil(subgroup_chunk(parameters)).max(1)) * (vectors + 1))
}

/// Inner steps that an invocation keeps of A. Carrying C over from chunk to chunk costs time, so 128 inner steps take
/// three times as long as 32; but a part of a chunk takes as long as a whole, and the text for 128 takes seconds to
/// compile, which a small product never wins back.
fn subgroup_chunk(parameters: &Parameters) -> u32 {
    const SMALL_PRODUCT: u64 = 1 << 24;
    let [rows, columns, batches] = [parameters.rows, parameters.columns, parameters.batches].map(u64::from);
    let products = rows.saturating_mul(columns).saturating_mul(batches).saturating_mul(u64::from(parameters.inner));
    let (short, long) = (parameters.inner.div_ceil(32), parameters.inner.div_ceil(128));
    if products < SMALL_PRODUCT || short < long.saturating_mul(3) { 32 } else { 128 }
}

fn subgroup_constants(parameters: &Parameters) -> Vec<Constant> {
    let chunk = subgroup_chunk(parameters);
    vec![Constant::u32("CHUNK", chunk), Constant::bool("B_TRANSPOSED", !parameters.b_is_by_rows())]
}

/// Whether a matrix can be read by vec4: adjacent elements along one dimension, all else at multiples of four.
fn by_vec4(matrix: &str, offset: u32, batch_strides: [u32; 2], strides: [u32; 2]) -> Result<(), String> {
    let [row_stride, column_stride] = strides;
    let across = match (row_stride, column_stride) {
        (across, 1) | (1, across) => across,
        _ => {
            return Err(format!(
                "needs adjacent elements in {matrix}, its strides are {row_stride} and {column_stride}"
            ));
        }
    };
    match [offset, batch_strides[0], batch_strides[1], across].iter().find(|number| !number.is_multiple_of(4)) {
        Some(number) => Err(format!("needs the offset and strides of {matrix} to be multiples of 4, one is {number}")),
        None => Ok(()),
    }
}

impl Parameters {
    fn a_is_by_rows(&self) -> bool {
        self.a_column_stride == 1 && self.a_row_stride.is_multiple_of(4)
    }

    fn b_is_by_rows(&self) -> bool {
        self.b_column_stride == 1 && self.b_row_stride.is_multiple_of(4)
    }

    fn a_by_vec4(&self) -> Result<(), String> {
        let strides = [self.a_row_stride, self.a_column_stride];
        by_vec4("A", self.a_offset, [self.a_outer_stride, self.a_inner_stride], strides)
    }

    fn b_by_vec4(&self) -> Result<(), String> {
        let strides = [self.b_row_stride, self.b_column_stride];
        by_vec4("B", self.b_offset, [self.b_outer_stride, self.b_inner_stride], strides)
    }

    fn c_by_vec4(&self) -> Result<(), String> {
        by_vec4("C", self.c_offset, [self.c_outer_stride, self.c_inner_stride], [self.c_row_stride, 1])?;
        match self.columns.is_multiple_of(4) {
            true => Ok(()),
            false => Err(format!("needs a multiple of 4 columns, there are {}", self.columns)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_product_whose_loops_some_adapters_would_end_early_is_left_to_a_design_with_shorter_ones() {
        let supporting = |parameters: &Parameters| -> Vec<&str> {
            DESIGNS.iter().filter(|design| (design.supports)(parameters).is_ok()).map(|design| design.name).collect()
        };
        let everything = ["subgroup", "subgroup_scalar", "tiled", "rows_vec4", "general"];
        assert_eq!(supporting(&Parameters::plain(768, 512, 128)), everything);
        // GPT-2's vocabulary, 768 wide: six rounds over 12,564 vectors of columns.
        assert_eq!(supporting(&Parameters::plain(4096, 50256, 768)), ["tiled", "rows_vec4", "general"]);
        assert_eq!(
            supporting(&Parameters::plain(128, 128, 100_000)),
            ["subgroup", "subgroup_scalar", "tiled", "rows_vec4"]
        );
    }
}
