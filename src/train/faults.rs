//! Faults of a run that a test asks for, each before a step of its own.

/// What is to go wrong in a run. The default is a run without planted faults.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrainingFaults {
    /// The step before which the device is lost.
    pub device_lost: Option<u64>,
    pub nan: Option<NanFault>,
}

/// A NaN in a weight.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NanFault {
    /// The step before which it is written.
    pub step: u64,
    /// The parameter whose first element it replaces; `None` for the model's first.
    pub parameter: Option<String>,
    /// The NaN's own bits.
    pub bits: u32,
}
