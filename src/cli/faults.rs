//! `HEADLIGHT_FAULT`: faults that a test plants in a training run, by their names.

use std::str::FromStr;

use anyhow::{anyhow, bail};

use crate::gpu::DeviceFaults;
use crate::train::{NanFault, TrainingFaults};

/// Where the faults are named.
pub const VARIABLE: &str = "HEADLIGHT_FAULT";

/// Every fault there is, as it is written.
const KNOWN: &str = "device-lost:STEP, allocation:N, default-limits, no-subgroups, nan:STEP[:TENSOR[:BITS]]; several are joined by commas";

/// The bits of the NaN that is planted where none are given: the quiet NaN of most hardware.
const QUIET_NAN: u32 = 0x7fc0_0000;

/// Planted faults. The default has none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    pub device: DeviceFaults,
    pub training: TrainingFaults,
    /// As they were written.
    text: String,
}

impl std::fmt::Display for Faults {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{VARIABLE}={}", self.text)
    }
}

impl FromStr for Faults {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Self> {
        let mut faults = Self { text: text.into(), ..Self::default() };
        for fault in text.split(',').map(str::trim).filter(|fault| !fault.is_empty()) {
            faults.add(fault)?;
        }
        Ok(faults)
    }
}

impl Faults {
    pub fn is_empty(&self) -> bool {
        self.device == DeviceFaults::default() && self.training == TrainingFaults::default()
    }

    fn add(&mut self, fault: &str) -> anyhow::Result<()> {
        let words: Vec<&str> = fault.split(':').collect();
        let twice = match words[..] {
            ["device-lost", step] => self.training.device_lost.replace(counted(fault, step)?).is_some(),
            ["allocation", number] => self.device.allocation.replace(counted(fault, number)?).is_some(),
            ["default-limits"] => std::mem::replace(&mut self.device.default_limits, true),
            ["no-subgroups"] => std::mem::replace(&mut self.device.no_subgroups, true),
            ["nan", step, ref more @ ..] if more.len() <= 2 => {
                let bits = more.get(1).map_or(Ok(QUIET_NAN), |bits| nan_bits(fault, bits))?;
                let parameter = more.first().map(|name| name.to_string());
                self.training.nan.replace(NanFault { step: counted(fault, step)?, parameter, bits }).is_some()
            }
            _ => bail!("{VARIABLE}: there is no fault '{fault}'; there are {KNOWN}"),
        };
        if twice {
            bail!("{VARIABLE}: '{fault}' is the second of its kind: one run has room for one");
        }
        Ok(())
    }

    /// Refuses faults that need a device where a run has none.
    ///
    /// # Errors
    /// The first of them, by name.
    pub fn check_device(&self, adapter: bool) -> anyhow::Result<()> {
        let needing = [
            ("device-lost", self.training.device_lost.is_some()),
            ("allocation", self.device.allocation.is_some()),
            ("default-limits", self.device.default_limits),
            ("no-subgroups", self.device.no_subgroups),
        ];
        match needing.iter().find(|(_, asked)| *asked && !adapter) {
            Some((name, _)) => bail!("{VARIABLE}: {name} needs an adapter, and this run is on the CPU executor"),
            None => Ok(()),
        }
    }

    /// Refuses steps that the run, which goes on after step `done` and ends with step `last`, does not come to.
    ///
    /// # Errors
    /// The first of them.
    pub fn check_steps(&self, done: u64, last: u64) -> anyhow::Result<()> {
        let steps =
            [("device-lost", self.training.device_lost), ("nan", self.training.nan.as_ref().map(|nan| nan.step))];
        match steps.iter().find(|(_, step)| step.is_some_and(|step| step <= done || step > last)) {
            Some((name, step)) => {
                let step = step.unwrap_or(0);
                let taken = if last > done { format!("steps {} to {last}", done + 1) } else { "no step".into() };
                bail!("{VARIABLE}: {name} at step {step} never happens: this run takes {taken}")
            }
            None => Ok(()),
        }
    }

    /// Refuses an allocation that was never asked for, once all are made.
    ///
    /// # Errors
    /// Both numbers.
    pub fn check_allocations(&self, made: u64) -> anyhow::Result<()> {
        match self.device.allocation {
            Some(number) if number > made => {
                bail!("{VARIABLE}: allocation {number} never happens: this run makes {made}")
            }
            _ => Ok(()),
        }
    }
}

/// A step or a place, counted from 1.
fn counted(fault: &str, text: &str) -> anyhow::Result<u64> {
    match text.parse() {
        Ok(number) if number > 0 => Ok(number),
        _ => bail!("{VARIABLE}: '{text}' in '{fault}' is no number from 1 on; there are {KNOWN}"),
    }
}

/// The bits of a NaN, in eight hexadecimal digits.
fn nan_bits(fault: &str, text: &str) -> anyhow::Result<u32> {
    u32::from_str_radix(text.trim_start_matches("0x"), 16)
        .ok()
        .filter(|&bits| f32::from_bits(bits).is_nan())
        .ok_or_else(|| anyhow!("{VARIABLE}: '{text}' in '{fault}' is no NaN: give its bits, such as 7fc00000"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn training(device_lost: Option<u64>, nan: Option<NanFault>) -> Faults {
        Faults { training: TrainingFaults { device_lost, nan }, ..Default::default() }
    }

    fn nan(step: u64, parameter: Option<&str>, bits: u32) -> Option<NanFault> {
        Some(NanFault { step, parameter: parameter.map(str::to_string), bits })
    }

    #[test]
    fn faults_are_read_alone_and_together() {
        let device = |device| Faults { device, ..Default::default() };
        let none = DeviceFaults::default();
        for (text, expected) in [
            ("", Faults::default()),
            (" , ", Faults::default()),
            ("device-lost:7", training(Some(7), None)),
            ("allocation:3", device(DeviceFaults { allocation: Some(3), ..none })),
            ("default-limits", device(DeviceFaults { default_limits: true, ..none })),
            ("no-subgroups", device(DeviceFaults { no_subgroups: true, ..none })),
            ("nan:3", training(None, nan(3, None, 0x7fc0_0000))),
            ("nan:3:transformer.wpe.weight", training(None, nan(3, Some("transformer.wpe.weight"), 0x7fc0_0000))),
            ("nan:3:a:ffc00001", training(None, nan(3, Some("a"), 0xffc0_0001))),
            ("nan:3:a:0x7f800001", training(None, nan(3, Some("a"), 0x7f80_0001))),
        ] {
            assert_eq!(text.parse::<Faults>().unwrap(), Faults { text: text.into(), ..expected });
        }
        let all: Faults = "default-limits, no-subgroups,allocation:9,device-lost:2,nan:1".parse().unwrap();
        assert_eq!(all.device, DeviceFaults { allocation: Some(9), default_limits: true, no_subgroups: true });
        assert_eq!(all.training, TrainingFaults { device_lost: Some(2), nan: nan(1, None, 0x7fc0_0000) });
        assert!(!all.is_empty() && Faults::default().is_empty());
    }

    #[test]
    fn what_is_no_fault_is_refused_and_the_list_is_told() {
        for (text, part) in [
            ("nonsense", "there is no fault 'nonsense'; there are device-lost:STEP, allocation:N, default-limits, "),
            ("device-lost", "there is no fault 'device-lost'; there are "),
            ("default-limits:1", "there is no fault 'default-limits:1'; there are "),
            ("nan:1:a:7fc00000:b", "there is no fault 'nan:1:a:7fc00000:b'; there are "),
            ("device-lost:0", "'0' in 'device-lost:0' is no number from 1 on"),
            ("allocation:-1", "'-1' in 'allocation:-1' is no number from 1 on"),
            ("no-subgroups,nan:x", "'x' in 'nan:x' is no number from 1 on"),
            ("nan:1:a:3f800000", "'3f800000' in 'nan:1:a:3f800000' is no NaN: "),
            ("nan:1:a:7f800000", "'7f800000' in 'nan:1:a:7f800000' is no NaN: "),
            ("nan:1,nan:2", "'nan:2' is the second of its kind"),
            ("no-subgroups,no-subgroups", "'no-subgroups' is the second of its kind"),
        ] {
            let error = text.parse::<Faults>().unwrap_err().to_string();
            assert!(error.starts_with(&format!("HEADLIGHT_FAULT: {part}")), "{error}");
        }
    }

    #[test]
    fn a_fault_that_cannot_happen_is_refused_by_name() {
        for (text, name) in [
            ("nan:1,device-lost:7", "device-lost"),
            ("allocation:1", "allocation"),
            ("default-limits", "default-limits"),
            ("no-subgroups", "no-subgroups"),
        ] {
            let faults: Faults = text.parse().unwrap();
            assert!(faults.check_device(true).is_ok());
            let error = faults.check_device(false).unwrap_err().to_string();
            assert!(error.starts_with(&format!("HEADLIGHT_FAULT: {name} needs an adapter")), "{error}");
        }
        assert!("nan:1".parse::<Faults>().unwrap().check_device(false).is_ok());

        let faults: Faults = "nan:3,device-lost:7".parse().unwrap();
        assert!(faults.check_steps(2, 7).is_ok());
        for (done, last, text) in [
            (3, 9, "nan at step 3 never happens: this run takes steps 4 to 9"),
            (0, 6, "device-lost at step 7 never happens: this run takes steps 1 to 6"),
        ] {
            assert_eq!(faults.check_steps(done, last).unwrap_err().to_string(), format!("HEADLIGHT_FAULT: {text}"));
        }

        let faults: Faults = "allocation:10".parse().unwrap();
        assert!(faults.check_allocations(10).is_ok() && Faults::default().check_allocations(0).is_ok());
        let error = faults.check_allocations(9).unwrap_err().to_string();
        assert_eq!(error, "HEADLIGHT_FAULT: allocation 10 never happens: this run makes 9");
    }
}
