//! A map as cells to be coloured: scaled, and pooled where it has more rows or columns than there is room for.

use std::fmt;

use crate::maps::{HeadMap, Maps, Quantity};

/// Which number gets the far end of the ramp.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "cli", derive(clap::ValueEnum))]
pub enum Scale {
    /// A weight of 1: maps of different heads can be compared.
    #[default]
    Fixed,
    /// The largest of each row: what a query prefers, however little.
    Row,
}

/// What the colours of a picture stand for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tone {
    pub quantity: Quantity,
    pub scale: Scale,
    /// The number at the far end of a fixed scale: 1, or the largest gradient.
    pub bound: f32,
}

impl fmt::Display for Tone {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [one, several] = self.quantity.names();
        match (self.scale, self.quantity) {
            (Scale::Fixed, Quantity::Weight) => write!(formatter, "fixed scale: {several} from 0 to 1"),
            (Scale::Fixed, Quantity::Difference) => write!(formatter, "fixed scale: {several} from -1 to 1"),
            (Scale::Fixed, Quantity::Gradient) => {
                write!(formatter, "scale of {several}: -{0:.3e} to {0:.3e}, the largest here", self.bound)
            }
            (Scale::Row, _) => write!(formatter, "scale by row: each {one} is divided by the largest of its row"),
        }
    }
}

impl Tone {
    pub fn of(maps: &Maps, scale: Scale) -> Self {
        let bound = match maps.quantity {
            Quantity::Weight | Quantity::Difference => 1.0,
            Quantity::Gradient => match largest(maps.maps.iter().flat_map(|map| &map.weights)) {
                largest if largest > 0.0 => largest,
                _ => 1.0,
            },
        };
        Self { quantity: maps.quantity, scale, bound }
    }

    /// What a number is divided by, where its row has these.
    fn divisor(self, row: &[f32]) -> f32 {
        match self.scale {
            Scale::Fixed => self.bound,
            Scale::Row => {
                let largest = match self.quantity.is_signed() {
                    true => largest(row),
                    false => row.iter().copied().fold(0.0, f32::max),
                };
                if largest > 0.0 { largest } else { 1.0 }
            }
        }
    }

    /// The numbers beside the ramp, from its upper end to its lower one.
    pub fn ticks(self) -> Vec<String> {
        match (self.quantity, self.scale) {
            (Quantity::Weight, _) => ["1", "0.75", "0.5", "0.25", "0"].map(String::from).into(),
            (Quantity::Gradient, Scale::Fixed) => {
                vec![format!("{:+.1e}", self.bound), "0".into(), format!("{:+.1e}", -self.bound)]
            }
            _ => ["+1", "+0.5", "0", "-0.5", "-1"].map(String::from).into(),
        }
    }
}

/// The number furthest from 0.
fn largest<'a>(numbers: impl IntoIterator<Item = &'a f32>) -> f32 {
    numbers.into_iter().fold(0.0, |largest, number| largest.max(number.abs()))
}

/// What a cell shows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Cell {
    /// No query of the cell sees any of its keys.
    Masked,
    /// The largest weight in the cell, scaled; 0 to 1 is what the ramp shows.
    Weight(f32),
    /// The number furthest from 0 in the cell, of those that have a sign; scaled, -1 to 1 is what the ramp shows.
    Signed(f32),
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
    /// shows the largest of them that is not masked, or the one furthest from 0 where they have a sign, so that no single
    /// bright spot is lost.
    pub fn of(map: &HeadMap, tone: Tone, rows: usize, columns: usize) -> Self {
        let pooled = map.queries.div_ceil(rows.max(1)).max(map.keys.div_ceil(columns.max(1))).max(1);
        let (rows, columns) = (map.queries.div_ceil(pooled), map.keys.div_ceil(pooled));
        let mut cells = vec![Cell::Masked; rows * columns];
        if map.keys > 0 {
            for (query, row) in map.weights.chunks(map.keys).enumerate().take(map.queries) {
                let divisor = tone.divisor(row);
                for (key, &weight) in row.iter().enumerate().filter(|&(key, _)| !map.is_masked(query, key)) {
                    let cell = &mut cells[query / pooled * columns + key / pooled];
                    *cell = cell.with(weight / divisor, tone.quantity);
                }
            }
        }
        Self { rows, columns, pooled, cells }
    }

    pub fn at(&self, row: usize, column: usize) -> Cell {
        self.cells[row * self.columns + column]
    }

    /// The rule by which numbers share a cell, where they do.
    pub fn rule(&self, quantity: Quantity) -> Option<String> {
        let [_, several] = quantity.names();
        (self.pooled > 1).then(|| format!("each cell shows the largest of {0} x {0} {several}", self.pooled))
    }
}

impl Cell {
    fn with(self, number: f32, quantity: Quantity) -> Self {
        match self {
            Cell::NotANumber => self,
            _ if number.is_nan() => Cell::NotANumber,
            Cell::Weight(other) => Cell::Weight(other.max(number)),
            Cell::Signed(other) => Cell::Signed(if number.abs() > other.abs() { number } else { other }),
            Cell::Masked if quantity.is_signed() => Cell::Signed(number),
            Cell::Masked => Cell::Weight(number),
        }
    }
}

/// What must be said of numbers that the fixed scale does not hold; an edited attention may have any weights.
pub fn beyond_the_scale<'a>(maps: impl IntoIterator<Item = &'a HeadMap>, tone: Tone) -> Option<String> {
    let (low, high) = if tone.quantity.is_signed() { (-tone.bound, tone.bound) } else { (0.0, 1.0) };
    let numbers = maps.into_iter().flat_map(|map| map.weights.iter().copied());
    let (least, most) = numbers.fold((low, high), |(least, most), number| (least.min(number), most.max(number)));
    // Rows of a softmax sum to 1 up to rounding.
    let rounding = 1e-3 * high;
    let below = least < if tone.quantity.is_signed() { low - rounding } else { low };
    let beyond = tone.scale == Scale::Fixed && (below || most > high + rounding);
    let [_, several] = tone.quantity.names();
    beyond.then(|| {
        format!(
            "the {several} reach from {least:.3} to {most:.3}: what {low} to {high} does not hold is drawn as the nearer end"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::maps::picture::examples::{causal, of_rows, text};

    fn weights(scale: Scale) -> Tone {
        Tone { quantity: Quantity::Weight, scale, bound: 1.0 }
    }

    #[test]
    fn a_uniform_head_and_one_that_looks_at_one_key_differ_unless_rows_are_scaled() {
        let uniform = of_rows(&[&[0.125; 8]], false);
        let one = of_rows(&[&[0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0]], false);
        assert_eq!(Cells::of(&uniform, weights(Scale::Fixed), 9, 9).cells, [Cell::Weight(0.125); 8]);
        assert_eq!(Cells::of(&uniform, weights(Scale::Row), 9, 9).cells, [Cell::Weight(1.0); 8]);
        for scale in [Scale::Fixed, Scale::Row] {
            let cells = Cells::of(&one, weights(scale), 9, 9);
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
            let cells = Cells::of(&causal(queries, keys), weights(Scale::Fixed), 9, 9);
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
        let cells = Cells::of(&map, weights(Scale::Fixed), 3, 3);
        assert_eq!((cells.rows, cells.columns, cells.pooled), (3, 3, 2));
        assert_eq!(cells.at(0, 0), Cell::Weight(0.25), "one of its four is masked");
        assert_eq!(cells.at(0, 1), Cell::Masked);
        assert_eq!(cells.at(2, 0), Cell::Weight(0.75));
        assert_eq!(cells.rule(Quantity::Weight).unwrap(), "each cell shows the largest of 2 x 2 weights");
        assert_eq!(Cells::of(&map, weights(Scale::Fixed), 5, 5).rule(Quantity::Weight), None);
    }

    #[test]
    fn a_weight_that_is_no_number_shows_through_every_pooling() {
        let mut map = causal(4, 4);
        map.weights[2 * 4 + 1] = f32::NAN;
        assert_eq!(Cells::of(&map, weights(Scale::Row), 1, 1).cells, [Cell::NotANumber]);
        assert_eq!(Cells::of(&map, weights(Scale::Fixed), 4, 4).at(2, 1), Cell::NotANumber);
    }

    #[test]
    fn weights_that_the_scale_does_not_hold_are_told() {
        let wild = of_rows(&[&[-0.5, 4.0]], false);
        let told = beyond_the_scale([&wild], weights(Scale::Fixed)).unwrap();
        assert!(told.starts_with("the weights reach from -0.500 to 4.000"), "{told}");
        assert_eq!(beyond_the_scale([&wild], weights(Scale::Row)), None);
        assert_eq!(beyond_the_scale([&causal(3, 3)], weights(Scale::Fixed)), None);
    }

    #[test]
    fn what_has_a_sign_is_scaled_by_what_is_furthest_from_0_and_keeps_its_sign() {
        let signed = |quantity| Maps {
            quantity,
            ..text(
                &["a", "b"],
                vec![of_rows(&[&[0.125, 0.0], &[-0.5, 0.25]], true), of_rows(&[&[0.0; 2], &[0.0; 2]], true)],
            )
        };
        for (quantity, scale, expected) in [
            (Quantity::Difference, Scale::Fixed, [0.125, -0.5, 0.25]),
            (Quantity::Difference, Scale::Row, [1.0, -1.0, 0.5]),
            (Quantity::Gradient, Scale::Fixed, [0.25, -1.0, 0.5]),
            (Quantity::Gradient, Scale::Row, [1.0, -1.0, 0.5]),
        ] {
            let maps = signed(quantity);
            let tone = Tone::of(&maps, scale);
            let cells = Cells::of(&maps.maps[0], tone, 2, 2);
            let [first, second, third] = expected.map(Cell::Signed);
            assert_eq!(cells.cells, [first, Cell::Masked, second, third], "{quantity:?}, {scale:?}");
            // Of two that are as far from 0, the first.
            let furthest = if scale == Scale::Row { first } else { second };
            assert_eq!(Cells::of(&maps.maps[0], tone, 1, 1).cells, [furthest], "{quantity:?}, {scale:?}");
            assert_eq!(Cells::of(&maps.maps[1], tone, 1, 1).cells, [Cell::Signed(0.0)]);
            assert_eq!(beyond_the_scale(&maps.maps, tone), None);
            assert!(tone.to_string().contains("scale"), "{tone}");
        }
        // Weights without a softmax can differ by more than 1.
        let wild = Maps { quantity: Quantity::Difference, ..text(&["a"], vec![of_rows(&[&[-3.0]], true)]) };
        let told = beyond_the_scale(&wild.maps, Tone::of(&wild, Scale::Fixed)).unwrap();
        assert!(told.starts_with("the differences reach from -3.000 to 1.000: what -1 to 1 does not"), "{told}");
        // Where all gradients are 0 nothing is divided by it.
        let zero = Maps { quantity: Quantity::Gradient, ..text(&["a"], vec![of_rows(&[&[0.0]], true)]) };
        assert_eq!(Cells::of(&zero.maps[0], Tone::of(&zero, Scale::Fixed), 1, 1).cells, [Cell::Signed(0.0)]);
    }
}
