//! The measuring job: work set up to be timed, the timing core, and what times and bytes look like.

pub mod attention;
pub mod compare;
pub mod order;
pub mod statistics;
pub mod timed_tape;
pub mod timing;
pub mod units;

pub use attention::{AttentionJob, AttentionJobError, AttentionPlan, AttentionSizes, AttentionSubject, Pass};
pub use statistics::Summary;
pub use timed_tape::{TimedSegments, TimedTape};
pub use timing::{Clock, Limits, Sample, Timed, Timing, TimingError, by_wall_clock, time_together};
