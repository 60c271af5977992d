//! Opening what a command runs on, and saying so in one line.

use std::sync::Arc;

use anyhow::bail;
use clap::ValueEnum;

use crate::gpu::{AdapterKind, Choice, DeviceFaults, Gpu, Profile, Selection, select};
use crate::model::tensor_file::Precision;
use crate::tape::RunOn;

/// The `--device` of commands that run kernels.
#[derive(clap::Args)]
pub struct DeviceArgument {
    /// What to run on: auto, gpu, cpu, or a part of an adapter's name
    #[arg(long, default_value = "auto", value_name = "auto|gpu|cpu|NAME")]
    pub device: Choice,
}

/// `--device` and `--dtype` of commands whose numbers are looked at.
#[derive(clap::Args)]
pub struct PrecisionArgument {
    #[command(flatten)]
    device: DeviceArgument,
    /// How numbers are stored, while computing and in the file; f64 runs on the CPU
    #[arg(long, value_enum, default_value_t = Dtype::F32)]
    dtype: Dtype,
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum Dtype {
    F32,
    F64,
}

impl PrecisionArgument {
    /// What to run on, how to store the results, and a line that says so.
    ///
    /// # Errors
    /// As [`open`]; f64 on an adapter.
    pub async fn open(&self) -> anyhow::Result<(RunOn, Precision, String)> {
        if self.dtype == Dtype::F64 {
            let (Choice::Auto | Choice::Cpu) = self.device.device else {
                bail!("--dtype f64 needs --device cpu: the kernels store f32");
            };
            return Ok((RunOn::CpuWide, Precision::F64, "running on the CPU executor, stored in f64".into()));
        }
        let (gpu, line) = open(&self.device.device).await?;
        Ok((gpu.map_or(RunOn::Cpu, RunOn::Gpu), Precision::F32, line))
    }
}

/// Opens the device that `choice` names; `None` stands for the CPU executor. The text says in one line what was taken.
///
/// # Errors
/// An adapter that was asked for and is not there, or refuses a device.
pub async fn open(choice: &Choice) -> anyhow::Result<(Option<Arc<Gpu>>, String)> {
    open_with(choice, DeviceFaults::default()).await
}

/// As [`open`], with faults that a test asks for.
///
/// # Errors
/// As [`open`].
pub async fn open_with(choice: &Choice, faults: DeviceFaults) -> anyhow::Result<(Option<Arc<Gpu>>, String)> {
    Ok(match select(choice).await? {
        Selection::Adapter { adapter, .. } => {
            let gpu = Gpu::open_with(&adapter, faults).await?;
            let line = format!("running on {}", describe(&gpu.profile));
            (Some(Arc::new(gpu)), line)
        }
        Selection::CpuExecutor { reason } => (None, format!("running on the CPU executor: {reason}")),
    })
}

/// An adapter in one line.
pub fn describe(profile: &Profile) -> String {
    let kind = match profile.kind {
        AdapterKind::Hardware => "GPU",
        AdapterKind::Software => "software adapter",
    };
    format!("{} ({kind}, {}, {})", profile.name, profile.backend, profile.driver)
}

/// What a device grants that a plan depends on, in one line.
pub fn describe_grants(profile: &Profile) -> String {
    let limits = &profile.limits;
    let subgroups = match profile.subgroups {
        Some(sizes) => format!("subgroups of {} to {}", sizes.minimum, sizes.maximum),
        None => "no subgroups".into(),
    };
    format!(
        "granted: {} bytes a binding, {} a buffer, {} of workgroup memory, {} invocations a workgroup, {subgroups}",
        limits.binding_bytes, limits.buffer_bytes, limits.workgroup_bytes, limits.invocations
    )
}
