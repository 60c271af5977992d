//! The numbers of a map as a page holds them: in 16 or 8 bits each, between a least and a largest number of that map.

use crate::maps::{HeadMap, Quantity};

/// How the numbers of one map are written.
///
/// The code with all bits set says that a number is not finite. The others run from `low` to `high`: as squares where
/// weights have 8 bits, so that small ones keep their differences, evenly else. Numbers with a sign reach as far below 0
/// as above, so that 0 and the number furthest from it are kept as they are, however small.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Packing {
    pub low: f32,
    pub high: f32,
    bits: u32,
    even: bool,
}

impl Packing {
    /// `bits` is 16 or 8.
    pub fn of(map: &HeadMap, quantity: Quantity, bits: u32) -> Self {
        let finite = map.weights.iter().copied().filter(|number| number.is_finite());
        let (low, high) = match quantity.is_signed() {
            true => {
                let furthest = finite.fold(0.0f32, |furthest, number| furthest.max(number.abs()));
                (-furthest, furthest)
            }
            // 0 to 1, or further apart.
            false => finite.fold((0.0, 1.0), |(low, high), weight| (weight.min(low), weight.max(high))),
        };
        Self { low, high, bits, even: Self::is_even(quantity, bits) }
    }

    /// Whether equal numbers of codes stand for equal differences.
    pub fn is_even(quantity: Quantity, bits: u32) -> bool {
        bits == 16 || quantity.is_signed()
    }

    /// How far a number that is read may lie from the one that was written: half a step, where steps are widest.
    pub fn precision(self) -> f64 {
        let steps = f64::from(self.last());
        self.width() / if self.even { 2.0 * steps } else { steps }
    }

    /// The numbers that are not masked, row by row, the lowest byte of each first.
    pub fn bytes(self, map: &HeadMap) -> Vec<u8> {
        let mut bytes = Vec::new();
        for query in 0..map.queries {
            for &number in &map.weights[query * map.keys..][..map.visible(query)] {
                let code = self.code(number);
                match self.bits {
                    16 => bytes.extend(code.to_le_bytes()),
                    _ => bytes.push(code as u8),
                }
            }
        }
        bytes
    }

    fn code(self, number: f32) -> u16 {
        if !number.is_finite() {
            return self.last() + 1;
        }
        let share = match self.width() {
            width if width > 0.0 => (f64::from(number) - f64::from(self.low)) / width,
            _ => 0.0,
        };
        let share = if self.even { share } else { share.sqrt() };
        (share * f64::from(self.last())).round() as u16
    }

    /// In double precision, where the difference of any two numbers is finite.
    fn width(self) -> f64 {
        f64::from(self.high) - f64::from(self.low)
    }

    /// The code of `high`.
    fn last(self) -> u16 {
        if self.bits == 16 { u16::MAX - 1 } else { u16::from(u8::MAX) - 1 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::maps::picture::examples::{causal, of_rows};

    /// The numbers as a page reads them.
    fn read(packing: Packing, bytes: &[u8]) -> Vec<f64> {
        let (low, high) = (f64::from(packing.low), f64::from(packing.high));
        let number = |share: f64| if share > 1.0 { f64::NAN } else { low + (high - low) * share };
        let share = |code: f64, last: f64| if packing.even { code / last } else { (code / last).powi(2) };
        match packing.bits {
            16 => bytes
                .as_chunks()
                .0
                .iter()
                .map(|&code| share(u16::from_le_bytes(code).into(), 65534.0))
                .map(number)
                .collect(),
            _ => bytes.iter().map(|&code| share(code.into(), 254.0)).map(number).collect(),
        }
    }

    #[test]
    fn numbers_are_kept_within_the_precision_that_is_stated() {
        let nan = f32::NAN;
        for (quantity, rows, range) in [
            (Quantity::Weight, [[0.0, 1.0, 0.25], [0.001, 0.5, 0.499]], (0.0, 1.0)),
            (Quantity::Weight, [[0.0, 1e-5, 0.0], [0.0, 0.0, 0.0]], (0.0, 1.0)),
            (Quantity::Weight, [[-0.5, 3.0, nan], [0.001, f32::INFINITY, 0.499]], (-0.5, 3.0)),
            (Quantity::Difference, [[0.5, -0.75, 0.1], [0.0, -0.001, nan]], (-0.75, 0.75)),
            (Quantity::Gradient, [[1e-6, -1.23e-5, 0.0], [4.5e-7, -7e-9, f32::NEG_INFINITY]], (-1.23e-5, 1.23e-5)),
            (Quantity::Gradient, [[2e-41, -1e-40, 0.0], [0.0; 3]], (-1e-40, 1e-40)),
            (Quantity::Gradient, [[f32::MAX, -1e30, 0.0], [0.0; 3]], (-f32::MAX, f32::MAX)),
            (Quantity::Gradient, [[0.0; 3], [0.0; 3]], (0.0, 0.0)),
        ] {
            let map = of_rows(&[&rows[0], &rows[1]], false);
            for bits in [16, 8] {
                let packing = Packing::of(&map, quantity, bits);
                assert_eq!((packing.low, packing.high), range, "{quantity:?}");
                let found = read(packing, &packing.bytes(&map));
                assert_eq!(found.len(), 6);
                for (&number, found) in map.weights.iter().zip(found) {
                    let told = format!("{quantity:?} in {bits} bits: {number} is {found}");
                    if !number.is_finite() {
                        assert!(found.is_nan(), "{told}");
                        continue;
                    }
                    assert!((found - f64::from(number)).abs() <= packing.precision() * 1.000_001, "{told}");
                    if quantity.is_signed() && [0.0, range.1].contains(&number.abs()) {
                        assert_eq!(found, f64::from(number), "{told}");
                    }
                }
            }
        }
    }

    #[test]
    fn only_what_is_not_masked_is_kept() {
        for (queries, keys, expected) in [(1, 1, 1), (3, 3, 6), (2, 4, 7), (4, 2, 3)] {
            let map = causal(queries, keys);
            for (bits, bytes) in [(8, 1), (16, 2)] {
                let packed = Packing::of(&map, Quantity::Weight, bits).bytes(&map);
                assert_eq!(packed.len(), expected * bytes, "{queries} x {keys}");
            }
        }
        let all = of_rows(&[&[1.0, 0.0], &[0.0, 1.0]], false);
        assert_eq!(Packing::of(&all, Quantity::Weight, 16).bytes(&all).len(), 8);
    }
}
