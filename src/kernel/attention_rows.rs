//! The WGSL text of one class of head dimensions: the type `Row`, and loads, stores and products of rows.
//!
//! A row of `D` elements is kept as `class / 4` named vec4, zero past `D`. They are named members and not an array,
//! because an array that is indexed in a loop leaves the registers on software adapters.

use super::attention_shape::AttentionShape;
use std::fmt::Write;

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
    /// Rows that each invocation multiplies with the rows of all eight lanes of its subgroup; 0 for kernels without
    /// subgroups. Gives `products` and `accumulate`.
    pub subgroup_rows: usize,
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
        writeln!(text, "struct Row {{ {} }}", each(chunks, |c| format!("c{c}: vec4<f32>")))?;
        for name in self.loads {
            self.write_load(text, name, chunks, padded)?;
        }
        for name in self.stores {
            self.write_store(text, name, chunks, padded)?;
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
        writeln!(text, "}}")?;
        if self.subgroup_rows > 0 {
            self.write_products(text, chunks)?;
            self.write_accumulate(text, chunks)?;
        }
        Ok(())
    }

    fn write_load(&self, text: &mut String, name: &str, chunks: usize, padded: bool) -> std::fmt::Result {
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
        let loads = each(chunks, |c| format!("{name}_chunk(first, {c}u)"));
        writeln!(text, "}}\nfn load_{name}(first: u32) -> Row {{\n    return Row({loads});\n}}")
    }

    fn write_store(&self, text: &mut String, name: &str, chunks: usize, padded: bool) -> std::fmt::Result {
        writeln!(text, "fn store_{name}(first: u32, row: Row) {{")?;
        for c in 0..chunks {
            match (self.storage, padded) {
                (Storage::Vec4, false) => writeln!(text, "    {name}[first / 4u + {c}u] = row.c{c};")?,
                (Storage::Vec4, true) => {
                    writeln!(text, "    if {}u < params.head_dim {{ {name}[first / 4u + {c}u] = row.c{c}; }}", c * 4)?
                }
                (Storage::Scalar, _) => {
                    for (lane, member) in "xyzw".chars().enumerate() {
                        let at = c * 4 + lane;
                        writeln!(
                            text,
                            "    if {at}u < params.head_dim {{ {name}[first + {at}u] = row.c{c}.{member}; }}"
                        )?;
                    }
                }
            }
        }
        writeln!(text, "}}")
    }

    /// `products(rows.., own)`: each row times the eight rows that the lanes of the subgroup hold as `own`.
    fn write_products(&self, text: &mut String, chunks: usize) -> std::fmt::Result {
        let rows = self.subgroup_rows;
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
    fn write_accumulate(&self, text: &mut String, chunks: usize) -> std::fmt::Result {
        let rows = self.subgroup_rows;
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
        RowText { storage, loads: &["query"], stores: &["output"], subgroup_rows: 0 }.generate(&shape)
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
