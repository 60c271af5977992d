//! A map as cells to be coloured: scaled, and pooled where it has more rows or columns than there is room for.

use std::fmt;

use crate::maps::HeadMap;

/// Which weight gets the far end of the ramp.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "cli", derive(clap::ValueEnum))]
pub enum Scale {
    /// A weight of 1: maps of different heads can be compared.
    #[default]
    Fixed,
    /// The largest of each row: what a query prefers, however little.
    Row,
}

impl fmt::Display for Scale {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Scale::Fixed => "fixed scale: weights from 0 to 1",
            Scale::Row => "scale by row: each weight is divided by the largest of its row",
        })
    }
}

impl Scale {
    /// What a weight is divided by, where its row has these weights.
    fn divisor(self, row: &[f32]) -> f32 {
        match self {
            Scale::Fixed => 1.0,
            Scale::Row => {
                let largest = row.iter().copied().fold(0.0, f32::max);
                if largest > 0.0 { largest } else { 1.0 }
            }
        }
    }
}

/// What a cell shows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Cell {
    /// No query of the cell sees any of its keys.
    Masked,
    /// The largest weight in the cell, scaled; 0 to 1 is what the ramp shows.
    Weight(f32),
    /// A weight in the cell is NaN.
    NotANumber,
}

/// A map of few enough rows and columns.
#[derive(Clone, Debug, PartialEq)]
pub struct Cells {
    pub rows: usize,
    pub columns: usize,
    /// Each cell stands for this many queries times as many keys; those at the end may have fewer.
    pub pooled: usize,
    /// Row-major `[rows, columns]`.
    pub cells: Vec<Cell>,
}

impl Cells {
    /// The cells of a map, with at most `rows` rows and `columns` columns. Where a cell stands for several weights it
    /// shows the largest of them that is not masked, so that no single bright spot is lost.
    pub fn of(map: &HeadMap, scale: Scale, rows: usize, columns: usize) -> Self {
        let pooled = map.queries.div_ceil(rows.max(1)).max(map.keys.div_ceil(columns.max(1))).max(1);
        let (rows, columns) = (map.queries.div_ceil(pooled), map.keys.div_ceil(pooled));
        let mut cells = vec![Cell::Masked; rows * columns];
        if map.keys > 0 {
            for (query, row) in map.weights.chunks(map.keys).enumerate().take(map.queries) {
                let divisor = scale.divisor(row);
                for (key, &weight) in row.iter().enumerate().filter(|&(key, _)| !map.is_masked(query, key)) {
                    let cell = &mut cells[query / pooled * columns + key / pooled];
                    *cell = cell.with(weight / divisor);
                }
            }
        }
        Self { rows, columns, pooled, cells }
    }

    pub fn at(&self, row: usize, column: usize) -> Cell {
        self.cells[row * self.columns + column]
    }

    /// The rule by which weights share a cell, where they do.
    pub fn rule(&self) -> Option<String> {
        (self.pooled > 1).then(|| format!("each cell shows the largest of {0} x {0} weights", self.pooled))
    }
}

impl Cell {
    fn with(self, weight: f32) -> Self {
        match self {
            Cell::NotANumber => self,
            _ if weight.is_nan() => Cell::NotANumber,
            Cell::Weight(other) => Cell::Weight(other.max(weight)),
            Cell::Masked => Cell::Weight(weight),
        }
    }
}

/// What must be said of weights that the fixed scale does not hold; an edited attention may have any.
pub fn beyond_the_scale<'a>(maps: impl IntoIterator<Item = &'a HeadMap>, scale: Scale) -> Option<String> {
    let weights = maps.into_iter().flat_map(|map| map.weights.iter().copied());
    let (least, most) = weights.fold((0.0f32, 1.0f32), |(least, most), weight| (least.min(weight), most.max(weight)));
    // Rows of a softmax sum to 1 up to rounding.
    let beyond = scale == Scale::Fixed && (least < 0.0 || most > 1.0 + 1e-3);
    beyond.then(|| {
        format!("the weights reach from {least:.3} to {most:.3}: what 0 to 1 does not hold is drawn as the nearer end")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::maps::picture::examples::{causal, of_rows};

    #[test]
    fn a_uniform_head_and_one_that_looks_at_one_key_differ_unless_rows_are_scaled() {
        let uniform = of_rows(&[&[0.125; 8]], false);
        let one = of_rows(&[&[0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0]], false);
        assert_eq!(Cells::of(&uniform, Scale::Fixed, 9, 9).cells, [Cell::Weight(0.125); 8]);
        assert_eq!(Cells::of(&uniform, Scale::Row, 9, 9).cells, [Cell::Weight(1.0); 8]);
        for scale in [Scale::Fixed, Scale::Row] {
            let cells = Cells::of(&one, scale, 9, 9);
            assert_eq!((cells.at(0, 1), cells.at(0, 2)), (Cell::Weight(0.0), Cell::Weight(1.0)));
        }
    }

    #[test]
    fn the_mask_ends_at_the_lower_right_corner_whatever_the_lengths() {
        for (queries, keys, expected) in [
            (1, 1, &["o"][..]),
            (3, 3, &["o..", "oo.", "ooo"]),
            (2, 4, &["ooo.", "oooo"]),
            (4, 2, &["..", "..", "o.", "oo"]),
        ] {
            let cells = Cells::of(&causal(queries, keys), Scale::Fixed, 9, 9);
            let drawn: Vec<String> = cells
                .cells
                .chunks(keys)
                .map(|row| row.iter().map(|&cell| if cell == Cell::Masked { '.' } else { 'o' }).collect())
                .collect();
            assert_eq!(drawn, expected, "{queries} x {keys}");
        }
    }

    #[test]
    fn a_pooled_cell_shows_the_largest_weight_that_is_not_masked() {
        let mut map = causal(5, 5);
        map.weights.fill(0.25);
        map.weights[4 * 5 + 1] = 0.75;
        let cells = Cells::of(&map, Scale::Fixed, 3, 3);
        assert_eq!((cells.rows, cells.columns, cells.pooled), (3, 3, 2));
        assert_eq!(cells.at(0, 0), Cell::Weight(0.25), "one of its four is masked");
        assert_eq!(cells.at(0, 1), Cell::Masked);
        assert_eq!(cells.at(2, 0), Cell::Weight(0.75));
        assert_eq!(cells.rule().unwrap(), "each cell shows the largest of 2 x 2 weights");
        assert_eq!(Cells::of(&map, Scale::Fixed, 5, 5).rule(), None);
    }

    #[test]
    fn a_weight_that_is_no_number_shows_through_every_pooling() {
        let mut map = causal(4, 4);
        map.weights[2 * 4 + 1] = f32::NAN;
        assert_eq!(Cells::of(&map, Scale::Row, 1, 1).cells, [Cell::NotANumber]);
        assert_eq!(Cells::of(&map, Scale::Fixed, 4, 4).at(2, 1), Cell::NotANumber);
    }

    #[test]
    fn weights_that_the_scale_does_not_hold_are_told() {
        let wild = of_rows(&[&[-0.5, 4.0]], false);
        let told = beyond_the_scale([&wild], Scale::Fixed).unwrap();
        assert!(told.starts_with("the weights reach from -0.500 to 4.000"), "{told}");
        assert_eq!(beyond_the_scale([&wild], Scale::Row), None);
        assert_eq!(beyond_the_scale([&causal(3, 3)], Scale::Fixed), None);
    }
}
