//! Which adapter a run takes, and why.

use super::GpuError;
use super::profile::{AdapterKind, BindingLimits, Profile, SubgroupSizes};

/// What the user asked to run on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Choice {
    /// A hardware GPU, else a software adapter, else the CPU executor.
    Auto,
    /// A hardware GPU, else a software adapter, else an error.
    Gpu,
    /// The CPU executor.
    Cpu,
    /// The adapter whose name, driver or backend contains this text, ignoring case.
    Named(String),
}

impl std::str::FromStr for Choice {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(match text.to_ascii_lowercase().as_str() {
            "auto" => Self::Auto,
            "gpu" => Self::Gpu,
            "cpu" => Self::Cpu,
            _ => Self::Named(text.to_string()),
        })
    }
}

/// The outcome of [`select`].
pub enum Selection {
    Adapter {
        adapter: Box<wgpu::Adapter>,
        profile: Profile,
    },
    /// No adapter is used: launches run on the CPU twins. The text says why.
    CpuExecutor {
        reason: String,
    },
}

/// One adapter as `headlight info` lists it.
#[derive(Clone, Debug)]
pub struct AdapterDescription {
    pub profile: Profile,
    pub device_type: String,
    /// Why a run cannot use it; `None` where it can.
    pub unusable: Option<String>,
}

fn instance() -> wgpu::Instance {
    wgpu::Instance::new(wgpu::InstanceDescriptor::new_without_display_handle_from_env())
}

/// The backends this build can try on this platform, for messages.
fn backends_tried() -> String {
    let names: Vec<String> = wgpu::Instance::enabled_backend_features().iter().map(backend_name).collect();
    names.join(", ")
}

fn backend_name(backend: wgpu::Backends) -> String {
    let lower = format!("{backend:?}").to_lowercase();
    lower.trim_start_matches("backends(").trim_end_matches(')').to_string()
}

async fn adapters() -> Vec<wgpu::Adapter> {
    instance().enumerate_adapters(wgpu::Backends::all()).await
}

/// How an adapter is described that grants everything it has.
fn profile(adapter: &wgpu::Adapter) -> Profile {
    granted_profile(adapter.get_info(), &adapter.limits(), adapter.features())
}

/// How an adapter is described that grants these limits and features. A binding limit that is not a multiple of four
/// bytes is rounded down, since no binding of whole words could use the rest.
pub(super) fn granted_profile(info: wgpu::AdapterInfo, limits: &wgpu::Limits, features: wgpu::Features) -> Profile {
    Profile {
        name: info.name,
        backend: info.backend.to_string(),
        driver: [info.driver, info.driver_info].join(" ").trim().to_string(),
        kind: if info.device_type == wgpu::DeviceType::Cpu { AdapterKind::Software } else { AdapterKind::Hardware },
        subgroups: features
            .contains(wgpu::Features::SUBGROUP)
            .then_some(SubgroupSizes { minimum: info.subgroup_min_size, maximum: info.subgroup_max_size }),
        timestamps: features.contains(wgpu::Features::TIMESTAMP_QUERY),
        limits: BindingLimits {
            binding_bytes: limits.max_storage_buffer_binding_size & !3,
            buffer_bytes: limits.max_buffer_size & !3,
            workgroup_bytes: limits.max_compute_workgroup_storage_size,
            invocations: limits.max_compute_invocations_per_workgroup,
            workgroups: limits.max_compute_workgroups_per_dimension,
            storage_alignment: u64::from(limits.min_storage_buffer_offset_alignment),
            uniform_alignment: u64::from(limits.min_uniform_buffer_offset_alignment),
        },
    }
}

fn unusable(adapter: &wgpu::Adapter) -> Option<String> {
    let downlevel = adapter.get_downlevel_capabilities();
    if !downlevel.flags.contains(wgpu::DownlevelFlags::COMPUTE_SHADERS) {
        return Some("it has no compute shaders".into());
    }
    let storage = adapter.limits().max_storage_buffers_per_shader_stage;
    (storage < super::profile::STORAGE_BUFFERS as u32)
        .then(|| format!("it binds {storage} storage buffers, {} are needed", super::profile::STORAGE_BUFFERS))
}

/// Every adapter of every backend of this build, best first: hardware before software, discrete before integrated.
pub async fn describe_adapters() -> Vec<AdapterDescription> {
    ranked()
        .await
        .iter()
        .map(|adapter| AdapterDescription {
            profile: profile(adapter),
            device_type: format!("{:?}", adapter.get_info().device_type),
            unusable: unusable(adapter),
        })
        .collect()
}

async fn ranked() -> Vec<wgpu::Adapter> {
    let mut found = adapters().await;
    found.sort_by_key(|adapter| match adapter.get_info().device_type {
        wgpu::DeviceType::DiscreteGpu => 0,
        wgpu::DeviceType::IntegratedGpu => 1,
        wgpu::DeviceType::VirtualGpu => 2,
        wgpu::DeviceType::Other => 3,
        wgpu::DeviceType::Cpu => 4,
    });
    found
}

/// Picks what to run on.
///
/// # Errors
/// [`GpuError::NoAdapter`] where a GPU was asked for and there is none, [`GpuError::NoSuchAdapter`] where a name matches
/// nothing: what was asked for is never replaced in silence.
pub async fn select(choice: &Choice) -> Result<Selection, GpuError> {
    if *choice == Choice::Cpu {
        return Ok(Selection::CpuExecutor { reason: "the CPU executor was asked for".into() });
    }
    let mut usable = ranked().await;
    usable.retain(|adapter| unusable(adapter).is_none());
    let described =
        |adapter: wgpu::Adapter| Selection::Adapter { profile: profile(&adapter), adapter: Box::new(adapter) };
    match choice {
        Choice::Named(name) => {
            let wanted = name.to_lowercase();
            let available: Vec<String> = usable.iter().map(|adapter| adapter.get_info().name).collect();
            let matches = |adapter: &wgpu::Adapter| {
                let profile = profile(adapter);
                [&profile.name, &profile.driver, &profile.backend]
                    .iter()
                    .any(|text| text.to_lowercase().contains(&wanted))
            };
            usable.into_iter().find(matches).map(described).ok_or_else(|| GpuError::NoSuchAdapter {
                name: name.clone(),
                tried: backends_tried(),
                available: if available.is_empty() { "none".into() } else { available.join("; ") },
            })
        }
        _ => match usable.into_iter().next() {
            Some(adapter) => Ok(described(adapter)),
            None if *choice == Choice::Auto => Ok(Selection::CpuExecutor {
                reason: format!("no adapter was found (tried: {}); {}", backends_tried(), GpuError::DRIVER_FIX),
            }),
            None => Err(GpuError::NoAdapter { tried: backends_tried() }),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_word_is_read_whatever_its_case() {
        for (text, choice) in [
            ("auto", Choice::Auto),
            ("GPU", Choice::Gpu),
            ("Cpu", Choice::Cpu),
            ("llvmpipe", Choice::Named("llvmpipe".into())),
        ] {
            assert_eq!(text.parse::<Choice>(), Ok(choice));
        }
    }
}
