//! Rows of cells under each other, for a terminal.

use crate::maps::picture::label::width;

/// Rows as lines, two spaces between columns that are as wide as their widest cell. Cells of a column of numbers stand at
/// its right, others at its left.
pub fn columns<const N: usize>(rows: &[[String; N]], numbers: [bool; N]) -> String {
    let widths: [usize; N] =
        std::array::from_fn(|column| rows.iter().map(|row| width(&row[column])).max().unwrap_or(0));
    let mut lines = String::new();
    for row in rows {
        let mut line = String::new();
        for ((cell, widest), number) in row.iter().zip(widths).zip(numbers) {
            let gap = " ".repeat(widest - width(cell));
            line += &if number { format!("{gap}{cell}  ") } else { format!("{cell}{gap}  ") };
        }
        lines.push_str(line.trim_end());
        lines.push('\n');
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_stand_under_each_other_by_what_a_terminal_shows() {
        let rows =
            [["at", "token", "p"], ["0", "\u{4e2d}", "0.5"], ["10", "", "12.25"]].map(|row| row.map(String::from));
        assert_eq!(columns(&rows, [true, false, true]), "at  token      p\n 0  \u{4e2d}       0.5\n10         12.25\n");
        assert_eq!(columns::<2>(&[], [true, false]), "");
    }
}
