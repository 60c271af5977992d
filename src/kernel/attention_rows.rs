//! The WGSL text of one class of head dimensions: the type `Row`, and loads, stores and products of rows.
//!
//! A row of `D` elements is kept as `class / 4` named vec4, zero past `D`. They are named members and not an array,
//! because an array that is indexed in a loop leaves the registers on software adapters.

use std::fmt::Write;

use super::attention_shape::AttentionShape;
use crate::gpu::Constant;

/// How a row is read from and written to its buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Storage {
    /// `array<vec4<f32>>`: offsets, strides and the head dimension are multiples of 4.
    Vec4,
    /// `array<f32>`: anything.
    Scalar,
}

/// What a kernel needs generated.
pub struct RowText {
    pub storage: Storage,
    /// Bindings of which rows are read: each `NAME` gets `load_NAME(first)`, `first` in elements.
    pub loads: &'static [&'static str],
    /// Bindings of which rows are written: each `NAME` gets `store_NAME(first, row)`.
    pub stores: &'static [&'static str],
    pub operations: Operations,
}

/// What an invocation does with rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operations {
    /// It holds whole rows, as `Row`.
    Rows,
    /// As `Rows`, and multiplies so many rows with those of all eight lanes of its subgroup: gives `products` and
    /// `accumulate`.
    Subgroup(usize),
    /// It stages vec4 of rows in workgroup memory: gives `stage_NAME(place, rows, slice, local)` for each load, and stores
    /// by vec4.
    Tiles,
}

impl RowText {
    /// The text for a shape: it depends on the class of the head dimension, and on whether the dimension fills it.
    pub fn generate(&self, shape: &AttentionShape) -> String {
        let class = shape.head_dim_class() as usize;
        let chunks = class / 4;
        let padded = shape.head_dim as usize != class;
        let mut text = String::new();
        // Writing to a `String` cannot fail.
        let _ = self.write(&mut text, chunks, padded);
        text
    }

    fn write(&self, text: &mut String, chunks: usize, padded: bool) -> std::fmt::Result {
        let element = match self.storage {
            Storage::Vec4 => "vec4<f32>",
            Storage::Scalar => "f32",
        };
        writeln!(text, "alias Element = {element};")?;
        for name in self.loads {
            self.write_load_chunk(text, name, padded)?;
        }
        for name in self.stores {
            self.write_store_chunk(text, name, padded)?;
        }
        match self.operations {
            Operations::Rows => self.write_rows(text, chunks),
            Operations::Subgroup(rows) => {
                self.write_rows(text, chunks)?;
                write_products(text, chunks, rows)?;
                write_accumulate(text, chunks, rows)
            }
            Operations::Tiles => self.loads.iter().try_for_each(|name| write_stage(text, name)),
        }
    }

    fn write_rows(&self, text: &mut String, chunks: usize) -> std::fmt::Result {
        writeln!(text, "struct Row {{ {} }}", each(chunks, |c| format!("c{c}: vec4<f32>")))?;
        for name in self.loads {
            let loads = each(chunks, |c| format!("{name}_chunk(first, {c}u)"));
            writeln!(text, "fn load_{name}(first: u32) -> Row {{\n    return Row({loads});\n}}")?;
        }
        for name in self.stores {
            writeln!(text, "fn store_{name}(first: u32, row: Row) {{")?;
            for c in 0..chunks {
                writeln!(text, "    store_{name}_chunk(first, {c}u, row.c{c});")?;
            }
            writeln!(text, "}}")?;
        }
        writeln!(text, "fn zero_row() -> Row {{\n    return Row({});\n}}", each(chunks, |_| "vec4<f32>(0.0)".into()))?;
        writeln!(
            text,
            "fn scaled_row(row: Row, factor: f32) -> Row {{\n    return Row({});\n}}",
            each(chunks, |c| format!("factor * row.c{c}"))
        )?;
        writeln!(text, "fn dot_rows(a: Row, b: Row) -> f32 {{\n    var sum = a.c0 * b.c0;")?;
        for c in 1..chunks {
            writeln!(text, "    sum += a.c{c} * b.c{c};")?;
        }
        writeln!(text, "    return (sum.x + sum.y) + (sum.z + sum.w);\n}}")?;
        writeln!(text, "fn add_scaled_row(sum: ptr<function, Row>, factor: f32, row: Row) {{")?;
        for c in 0..chunks {
            writeln!(text, "    (*sum).c{c} += factor * row.c{c};")?;
        }
        writeln!(text, "}}")
    }

    fn write_load_chunk(&self, text: &mut String, name: &str, padded: bool) -> std::fmt::Result {
        writeln!(text, "fn {name}_chunk(first: u32, chunk: u32) -> vec4<f32> {{")?;
        match (self.storage, padded) {
            (Storage::Vec4, false) => writeln!(text, "    return {name}[first / 4u + chunk];")?,
            (Storage::Vec4, true) => writeln!(
                text,
                "    return select(vec4<f32>(0.0), {name}[first / 4u + chunk], chunk * 4u < params.head_dim);"
            )?,
            (Storage::Scalar, _) => {
                writeln!(text, "    let at = first + chunk * 4u;")?;
                let values = each(4, |lane| format!("{name}[at + {lane}u]"));
                writeln!(
                    text,
                    "    let inside = chunk * 4u + vec4<u32>(0u, 1u, 2u, 3u) < vec4<u32>(params.head_dim);"
                )?;
                writeln!(text, "    return select(vec4<f32>(0.0), vec4<f32>({values}), inside);")?;
            }
        }
        writeln!(text, "}}")
    }

    fn write_store_chunk(&self, text: &mut String, name: &str, padded: bool) -> std::fmt::Result {
        writeln!(text, "fn store_{name}_chunk(first: u32, chunk: u32, values: vec4<f32>) {{")?;
        match (self.storage, padded) {
            (Storage::Vec4, false) => writeln!(text, "    {name}[first / 4u + chunk] = values;")?,
            (Storage::Vec4, true) => {
                let store = format!("{name}[first / 4u + chunk] = values;");
                writeln!(text, "    if chunk * 4u < params.head_dim {{ {store} }}")?;
            }
            (Storage::Scalar, _) => {
                for (lane, member) in "xyzw".chars().enumerate() {
                    let store = format!("{name}[first + chunk * 4u + {lane}u] = values.{member};");
                    writeln!(text, "    if chunk * 4u + {lane}u < params.head_dim {{ {store} }}")?;
                }
            }
        }
        writeln!(text, "}}")
    }
}

/// `products(rows.., own)`: each row times the eight rows that the lanes of the subgroup hold as `own`.
fn write_products(text: &mut String, chunks: usize, rows: usize) -> std::fmt::Result {
    writeln!(text, "struct Products {{ {} }}", each(rows, |r| format!("r{r}: Eight")))?;
    writeln!(text, "fn products({}, own: Row) -> Products {{", each(rows, |r| format!("row{r}: Row")))?;
    writeln!(text, "    var sums: Products;")?;
    for c in 0..chunks {
        writeln!(text, "    {{\n        let low = low_lanes(own.c{c});\n        let high = high_lanes(own.c{c});")?;
        for r in 0..rows {
            writeln!(text, "        sums.r{r}.low += row{r}.c{c} * low;")?;
            writeln!(text, "        sums.r{r}.high += row{r}.c{c} * high;")?;
        }
        writeln!(text, "    }}")?;
    }
    writeln!(text, "    return sums;\n}}")
}

/// `accumulate(sums.., weights.., own)`: adds to each sum the weighted rows of all eight lanes.
fn write_accumulate(text: &mut String, chunks: usize, rows: usize) -> std::fmt::Result {
    let sums = each(rows, |r| format!("sum{r}: ptr<function, Row>"));
    let weights = each(rows, |r| format!("weights{r}: Eight"));
    writeln!(text, "fn accumulate({sums}, {weights}, own: Row) {{")?;
    for c in 0..chunks {
        writeln!(text, "    {{\n        let low = low_lanes(own.c{c});\n        let high = high_lanes(own.c{c});")?;
        for r in 0..rows {
            writeln!(text, "        (*sum{r}).c{c} += low * weights{r}.low + high * weights{r}.high;")?;
        }
        writeln!(text, "    }}")?;
    }
    writeln!(text, "}}")
}

/// `stage_NAME(place, rows, slice, local)`: copies one slice of a tile's rows to workgroup memory.
fn write_stage(text: &mut String, name: &str) -> std::fmt::Result {
    writeln!(text, "fn stage_{name}(place: u32, rows: TileRows, slice: u32, local: u32) {{")?;
    writeln!(text, "    for (var index = local; index < TILE * SLICE; index += INVOCATIONS) {{")?;
    writeln!(text, "        let first = rows.first + min(rows.begin + index / SLICE, rows.last) * rows.stride;")?;
    writeln!(text, "        let chunk = {name}_chunk(first, slice * SLICE + index % SLICE);")?;
    writeln!(text, "        staged[place + index / SLICE * PITCH + index % SLICE] = chunk;")?;
    writeln!(text, "    }}\n}}")
}

/// The constants of `common/attention_tile.wgsl` for a shape.
pub fn tile_constants(shape: &AttentionShape) -> Vec<Constant> {
    let chunks = shape.head_dim_class() / 4;
    vec![Constant::u32("CHUNKS", chunks), Constant::u32("SLICE", chunks.min(8))]
}

fn each(count: usize, item: impl Fn(usize) -> String) -> String {
    (0..count).map(item).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn generate(storage: Storage, head_dim: u32) -> String {
        let (batch, heads, key_value_heads, query_length, key_length) = (1, 1, 1, 1, 1);
        let (causal, scale) = (false, 1.0);
        let shape = AttentionShape { batch, heads, key_value_heads, query_length, key_length, head_dim, causal, scale };
        RowText { storage, loads: &["query"], stores: &["output"], operations: Operations::Rows }.generate(&shape)
    }

    #[test]
    fn head_dimensions_of_one_class_share_a_text_except_for_the_one_that_fills_it() {
        assert_eq!(generate(Storage::Vec4, 40), generate(Storage::Vec4, 48));
        assert_ne!(generate(Storage::Vec4, 40), generate(Storage::Vec4, 64));
        assert_eq!(generate(Storage::Scalar, 1), generate(Storage::Scalar, 13));
    }

    #[test]
    fn a_row_has_a_member_for_every_four_elements_of_the_class() {
        let text = generate(Storage::Vec4, 96);
        assert!(text.contains("c23: vec4<f32>") && !text.contains("c24"), "{text}");
    }
}
