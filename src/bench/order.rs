//! The order in which things are measured: random, so that a machine that grows warm or slow during a run favours none,
//! and the same for the same seed.

use rand::seq::SliceRandom;

use crate::random::{Stream, generator};

/// The numbers below `count` in an order of their own for each seed, round and kind of thing that is ordered.
pub fn shuffled(count: usize, seed: u64, round: u64, kind: u64) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    order.shuffle(&mut generator(seed, Stream::BenchOrder, round, kind));
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_round_has_every_number_once_in_an_order_of_its_own_that_can_be_repeated() {
        let rounds: Vec<Vec<usize>> = (0..60).map(|round| shuffled(6, 1, round, 0)).collect();
        assert_eq!(rounds, (0..60).map(|round| shuffled(6, 1, round, 0)).collect::<Vec<_>>());
        let mut firsts = [false; 6];
        for round in &rounds {
            firsts[round[0]] = true;
            let mut sorted = round.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, [0, 1, 2, 3, 4, 5]);
        }
        assert_eq!(firsts, [true; 6]);
        assert_ne!(shuffled(20, 1, 0, 0), shuffled(20, 2, 0, 0));
        assert_ne!(shuffled(20, 1, 0, 0), shuffled(20, 1, 0, 1));
    }
}
