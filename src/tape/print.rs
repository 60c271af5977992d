//! A tape in words: every launch in order, then every buffer.

use std::fmt::Write;

use super::plan::Tape;

/// Launches by segment, with their design, buffers and least cost, and the list of buffers.
pub fn print_tape(tape: &Tape) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    for segment in &tape.segments {
        let flops: u64 = segment.launches.iter().map(|launch| launch.cost().flops).sum();
        let _ = writeln!(text, "# segment {}: {} launches, {flops} flops", segment.name, segment.launches.len());
        for (index, launch) in segment.launches.iter().enumerate() {
            let design = launch.design.map_or("twin", |design| design.name);
            let operands: Vec<String> = launch
                .operands
                .iter()
                .enumerate()
                .map(|(operand, window)| {
                    let mark = if launch.kernel.writes.contains(&operand) { ">" } else { "" };
                    format!("{mark}b{}", window.buffer)
                })
                .collect();
            let name = format!("{}/{design}", launch.kernel.name);
            let _ = writeln!(text, "{index:>4}  {name:<34} {:<44} {}", launch.label, operands.join(" "));
        }
        text.push('\n');
    }
    let total: u64 = tape.buffers.iter().map(super::TapeBuffer::bytes).sum();
    let _ = writeln!(text, "# {} buffers, {total} bytes (written operands are marked > above)", tape.buffers.len());
    for (index, buffer) in tape.buffers.iter().enumerate() {
        let kept = if buffer.persistent { "kept" } else { "pooled" };
        let category = buffer.category.name();
        let bytes = buffer.bytes();
        let _ =
            writeln!(text, "{:>5}  {bytes:>12} bytes  {kept:<6}  {category:<17}  {}", format!("b{index}"), buffer.name);
    }
    text
}
