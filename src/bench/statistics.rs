//! What a handful of times says: the median, how sure it is, and how they spread.

use serde::{Deserialize, Serialize};

/// The median of some samples with its confidence interval and their quartiles, all in the unit of the samples.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    pub samples: usize,
    pub median: f64,
    /// The 95% confidence interval of the median. Fewer than six samples cannot give one: it is then all that was seen.
    pub low: f64,
    pub high: f64,
    pub lower_quartile: f64,
    pub upper_quartile: f64,
}

impl Summary {
    /// `None` where there is no sample, or one that is not a positive number.
    pub fn of(samples: &[f64]) -> Option<Self> {
        let mut sorted = samples.to_vec();
        sorted.sort_by(f64::total_cmp);
        if !sorted.iter().all(|sample| sample.is_finite() && *sample > 0.0) {
            return None;
        }
        let (first, last) = (*sorted.first()?, *sorted.last()?);
        let below = excluded(sorted.len());
        Some(Self {
            samples: sorted.len(),
            median: quantile(&sorted, 0.5),
            low: sorted.get(below).copied().unwrap_or(first),
            high: sorted.get(sorted.len().saturating_sub(1 + below)).copied().unwrap_or(last),
            lower_quartile: quantile(&sorted, 0.25),
            upper_quartile: quantile(&sorted, 0.75),
        })
    }

    /// The distance between the quartiles, as a share of the median.
    pub fn spread(&self) -> f64 {
        (self.upper_quartile - self.lower_quartile) / self.median
    }

    /// Half the width of the confidence interval, as a share of the median.
    pub fn relative_half_width(&self) -> f64 {
        (self.high - self.low) / (2.0 * self.median)
    }
}

/// How many of the smallest and of the largest of `count` samples lie outside of the median's 95% confidence interval.
/// The interval from the k-th smallest to the k-th largest holds the median with probability
/// `1 - 2 P(Binomial(count, 1/2) < k)`, whatever distribution the samples are of as long as it is one and they are
/// independent (David and Nagaraja, Order Statistics, 3rd edition, section 7.1); the largest such `k` is taken.
fn excluded(count: usize) -> usize {
    // P(Binomial = k), begun in logarithms so that hundreds of samples do not underflow.
    let mut logarithm = -(count as f64) * std::f64::consts::LN_2;
    let mut below = 0.0;
    for k in 0..count / 2 {
        below += logarithm.exp();
        if 2.0 * below > 0.05 {
            return k.saturating_sub(1);
        }
        logarithm += (((count - k) as f64) / (k + 1) as f64).ln();
    }
    0
}

/// The quantile of sorted samples, linear between neighbours (Hyndman and Fan 1996, definition 7).
fn quantile(sorted: &[f64], share: f64) -> f64 {
    let place = (sorted.len() - 1) as f64 * share;
    let (below, above) = (place.floor() as usize, place.ceil() as usize);
    sorted[below] + (sorted[above] - sorted[below]) * (place - below as f64)
}

#[cfg(test)]
mod tests {
    use rand::RngExt;

    use super::*;
    use crate::random::{Stream, generator};

    fn summary(samples: &[f64]) -> Summary {
        Summary::of(samples).unwrap()
    }

    #[test]
    fn median_and_quartiles_are_those_of_the_sorted_samples() {
        let of = |samples: &[f64]| {
            let Summary { median, lower_quartile, upper_quartile, .. } = summary(samples);
            [lower_quartile, median, upper_quartile]
        };
        assert_eq!(of(&[3.0]), [3.0; 3]);
        assert_eq!(of(&[4.0, 1.0]), [1.75, 2.5, 3.25]);
        assert_eq!(of(&[5.0, 1.0, 4.0, 2.0, 3.0]), [2.0, 3.0, 4.0]);
    }

    #[test]
    fn the_interval_is_that_of_the_tables() {
        // Samples left out at each end of the sorted ones, from tables of the sign test at 5%.
        for (count, expected) in
            [(1, 0), (5, 0), (6, 0), (8, 0), (9, 1), (11, 1), (12, 2), (15, 3), (20, 5), (25, 7), (50, 17), (100, 39)]
        {
            assert_eq!(excluded(count), expected, "{count}");
        }
        assert!((900..=970).contains(&excluded(2000)));
        let ten: Vec<f64> = (1..=10).map(f64::from).collect();
        let Summary { low, high, samples, .. } = summary(&ten);
        assert_eq!((samples, low, high), (10, 2.0, 9.0));
    }

    #[test]
    fn the_interval_holds_the_true_median_at_least_as_often_as_it_says() {
        let mut random = generator(7, Stream::Cases, 0, 0);
        let held = (0..2000)
            .filter(|_| {
                // Exponential: skewed as times are; its median is ln 2.
                let samples: Vec<f64> = (0..15).map(|_| -(1.0 - random.random::<f64>()).ln() + 1e-12).collect();
                let Summary { low, high, .. } = summary(&samples);
                (low..=high).contains(&std::f64::consts::LN_2)
            })
            .count();
        assert!((1900..2000).contains(&held), "{held}");
    }

    #[test]
    fn what_is_no_positive_number_has_no_summary() {
        for samples in [&[][..], &[0.0], &[1.0, 0.0], &[1.0, -1.0], &[f64::NAN], &[1.0, f64::INFINITY]] {
            assert_eq!(Summary::of(samples), None, "{samples:?}");
        }
    }

    #[test]
    fn an_interval_is_as_wide_as_it_is_compared_with_the_median() {
        assert_eq!(summary(&[2.0]).relative_half_width(), 0.0);
        assert_eq!(summary(&[1.0, 2.0, 3.0]).relative_half_width(), 0.5);
    }
}
