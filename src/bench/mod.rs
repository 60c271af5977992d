//! The measuring job: work set up to be timed, the timing core, and what times and bytes look like.

pub mod attention;
pub mod baseline;
pub mod ceilings;
pub mod compare;
pub mod kernels;
pub mod order;
pub mod report;
pub mod shapes;
pub mod statistics;
pub mod timed_tape;
pub mod timing;
pub mod train;
pub mod units;

pub use attention::{AttentionJob, AttentionJobError, AttentionPlan, AttentionSizes, AttentionSubject, Pass};
pub use baseline::{Baseline, BaselineError, Speed, Verdict};
pub use ceilings::Ceilings;
pub use kernels::KernelJob;
pub use report::{MeasuredOn, Report, Row};
pub use statistics::Summary;
pub use timed_tape::{TimedLaunches, TimedTape};
pub use timing::{Clock, Limits, Sample, Timed, Timing, TimingError, by_wall_clock, time_together};
pub use train::{StepJob, StepJobError};
