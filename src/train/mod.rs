//! The training job: configuration, schedule, loop and the files of a run.
