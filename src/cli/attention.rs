//! `headlight attention`: the files that come with the program, and what a file may use.

use std::fmt::Write as _;
use std::io::Write as _;

use super::Outcome;
use crate::script::{BUGS, Builtin, GALLERY, REFERENCE, ops};
use crate::train::attention_choice::read_script;

#[derive(clap::Args)]
pub struct Arguments {
    /// The file to print, such as reference, relu or bugs/no_scale; without one, all are listed
    name: Option<String>,
    /// Print the ops that a file may use
    #[arg(long, conflicts_with = "name")]
    ops: bool,
}

pub fn run(arguments: &Arguments) -> anyhow::Result<Outcome> {
    let text = match &arguments.name {
        Some(name) => read_script(&format!("builtin:{}", name.strip_prefix("builtin:").unwrap_or(name)))?.source,
        None if arguments.ops => op_list(),
        None => file_list(),
    };
    std::io::stdout().write_all(text.as_bytes())?;
    Ok(Outcome::Fine)
}

/// Every file with what it does.
fn file_list() -> String {
    let mut text = String::from(
        "Attention files. `headlight attention NAME > mine.star` gives you one to edit, `headlight train --attention \
         mine.star`\ntrains with it, `headlight check mine.star` holds it against the reference.\n",
    );
    let mut group = |title: &str, prefix: &str, files: &[Builtin]| {
        let _ = writeln!(text, "\n{title}");
        for file in files {
            let _ = writeln!(text, "  {:<28}{}", format!("{prefix}{}", file.name), file.summary);
        }
    };
    group("what every model runs", "", std::slice::from_ref(REFERENCE));
    group("others that train", "", GALLERY);
    group("mistakes, to be found", "bugs/", BUGS);
    text
}

fn op_list() -> String {
    let mut text = String::from(
        "attention(x, q, k, v, ops, cfg) gets [B, T, d] and returns [B, T, d]; cfg has d, heads, d_head, context, layer.\n\
         Tensors have .shape and .ndim, and + - * / @ < <= > >= == != & | as in NumPy. math has sqrt, exp, log, pow, pi, e, inf.\n\n",
    );
    for op in ops::table() {
        let _ = writeln!(text, "ops.{}\n    {}", op.signature(), op.summary);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_guide_lists_every_op_and_every_file() {
        let guide = include_str!("../../docs/attention.md");
        for op in ops::table() {
            let row = format!("| `ops.{}` | {} |", op.signature(), op.summary);
            assert!(guide.contains(&row), "docs/attention.md lacks the row\n{row}");
        }
        for (prefix, files) in [("", GALLERY), ("bugs/", BUGS)] {
            for Builtin { name, summary, .. } in files {
                let row = format!("| [`{prefix}{name}`](../assets/attention/{prefix}{name}.star) | {summary} |");
                assert!(guide.contains(&row), "docs/attention.md lacks the row\n{row}");
            }
        }
    }
}
