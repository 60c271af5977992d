//! The learning rate of each optimizer step.

/// A linear warm-up, then half a cosine down to a floor: nanoGPT's `get_lr`, whose first rate is above 0.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LearningRateSchedule {
    /// The rate at the end of the warm-up.
    pub peak: f64,
    /// The rate from the end of the decay on.
    pub minimum: f64,
    /// Optimizer steps of warm-up.
    pub warm_up: u64,
    /// The optimizer step from which the rate is the minimum: the length of the run.
    pub steps: u64,
}

impl LearningRateSchedule {
    /// The rate of optimizer step `step`, counted from 0; micro-batches do not count.
    ///
    /// `step < warm_up: peak (step + 1) / (warm_up + 1)`; `step >= steps: minimum`; else
    /// `minimum + (1 + cos(pi (step - warm_up) / (steps - warm_up))) / 2 (peak - minimum)`.
    /// Where the decay has no length (`step = warm_up = steps`) it is over: `minimum`.
    pub fn rate(&self, step: u64) -> f64 {
        if step < self.warm_up {
            return self.peak * (step as f64 + 1.0) / (self.warm_up as f64 + 1.0);
        }
        if step >= self.steps {
            return self.minimum;
        }
        let progress = (step - self.warm_up) as f64 / (self.steps - self.warm_up) as f64;
        let coefficient = 0.5 * (1.0 + (std::f64::consts::PI * progress).cos());
        self.minimum + coefficient * (self.peak - self.minimum)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schedule(peak: f64, minimum: f64, warm_up: u64, steps: u64) -> LearningRateSchedule {
        LearningRateSchedule { peak, minimum, warm_up, steps }
    }

    #[test]
    fn rates_are_those_of_the_published_formula() {
        let nano = schedule(1e-3, 1e-4, 100, 2000);
        let without_warm_up = schedule(3e-4, 0.0, 0, 10);
        let short = schedule(6e-4, 6e-5, 5, 20);
        for (schedule, step, expected) in [
            (nano, 0, 9.900990099009901e-06),
            (nano, 5, 5.9405940594059404e-05),
            (nano, 95, 0.0009504950495049505),
            (nano, 99, 0.0009900990099009901),
            (nano, 100, 0.001),
            (nano, 101, 0.0009999993848585915),
            (nano, 250, 0.0009862301196726987),
            (nano, 1000, 0.0005871607054625496),
            (nano, 1500, 0.0002452232927684166),
            (nano, 1999, 0.00010000061514140841),
            (nano, 2000, 0.0001),
            (nano, 2001, 0.0001),
            (without_warm_up, 0, 0.0003),
            (without_warm_up, 1, 0.00029265847744427303),
            (without_warm_up, 5, 0.00015),
            (without_warm_up, 9, 7.34152255572697e-06),
            (without_warm_up, 10, 0.0),
            (without_warm_up, 12, 0.0),
            (short, 0, 9.999999999999999e-05),
            (short, 4, 0.0004999999999999999),
            (short, 5, 0.0006),
            (short, 6, 0.0005940998521981274),
            (short, 12, 0.0003582226850822664),
            (short, 19, 6.590014780187247e-05),
            (short, 20, 6e-05),
            (short, 21, 6e-05),
            (short, 25, 6e-05),
            (schedule(3e-4, 3e-5, 10, 1000), 0, 2.7272727272727273e-5),
        ] {
            let rate = schedule.rate(step);
            assert!((rate - expected).abs() <= 1e-15, "{schedule:?} at {step}: {rate} where {expected} is right");
        }
    }

    #[test]
    fn every_rate_is_finite_and_between_the_floor_and_the_peak() {
        for schedule in [
            schedule(1e-3, 1e-4, 0, 0),
            schedule(1e-3, 1e-4, 5, 5),
            schedule(1e-3, 1e-4, 9, 5),
            schedule(1e-3, 1e-4, 0, 1),
            schedule(1e-3, 1e-3, 2, 7),
        ] {
            for step in (0..20).chain([u64::MAX]) {
                let rate = schedule.rate(step);
                assert!(rate > 0.0 && rate <= schedule.peak, "{schedule:?} at {step}: {rate}");
                assert!(step < schedule.warm_up || rate >= schedule.minimum, "{schedule:?} at {step}: {rate}");
            }
        }
    }
}
