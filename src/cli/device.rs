//! Opening what a command runs on, and saying so in one line.

use std::sync::Arc;

use crate::gpu::{AdapterKind, Choice, Gpu, Profile, Selection, select};

/// The `--device` of commands that run kernels.
#[derive(clap::Args)]
pub struct DeviceArgument {
    /// What to run on: auto, gpu, cpu, or a part of an adapter's name
    #[arg(long, default_value = "auto", value_name = "auto|gpu|cpu|NAME")]
    pub device: Choice,
}

/// Opens the device that `choice` names; `None` stands for the CPU executor. The text says in one line what was taken.
///
/// # Errors
/// An adapter that was asked for and is not there, or refuses a device.
pub async fn open(choice: &Choice) -> anyhow::Result<(Option<Arc<Gpu>>, String)> {
    Ok(match select(choice).await? {
        Selection::Adapter { adapter, profile } => {
            let gpu = Gpu::open(&adapter).await?;
            (Some(Arc::new(gpu)), format!("running on {}", describe(&profile)))
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
