//! `headlight bench matmul` and `headlight bench kernels`

use anyhow::bail;

use super::Outcome;
use super::bench::{CommonArguments, PlaceArguments};
use super::bench_session::Session;
use crate::bench::kernels::{KernelJob, designs};
use crate::bench::order::shuffled;
use crate::bench::shapes::{self, Shape};
use crate::bench::{Row, time_together};
use crate::gpu::GpuError;
use crate::kernel::KERNELS;
use crate::tape::{DesignInfo, ExecutionError};

#[derive(clap::Args)]
pub struct Arguments {
    /// Only shapes whose kernel or name contains this text
    filter: Option<String>,
    /// Only designs of this name; all that run here where none is given, the one that a plan takes first
    #[arg(long, value_delimiter = ',', value_name = "NAME,..")]
    design: Vec<String>,
    #[command(flatten)]
    place: PlaceArguments,
    #[command(flatten)]
    common: CommonArguments,
}

/// The kind of [`shuffled`] that shapes are.
const SHAPES: u64 = 2;

/// Refuses designs that no kernel in question has.
fn check_designs(wanted: &[String], kernel: Option<&str>) -> anyhow::Result<()> {
    let kernels = KERNELS.iter().filter(|known| kernel.is_none_or(|kernel| known.name == kernel));
    let mut known: Vec<&str> = kernels.flat_map(|kernel| (kernel.designs)()).map(|design| design.name).collect();
    known.sort_unstable();
    known.dedup();
    match wanted.iter().find(|name| !known.contains(&name.as_str())) {
        Some(name) => bail!("there is no design '{name}'; there are {}", known.join(", ")),
        None => Ok(()),
    }
}

fn title(shape: &Shape) -> String {
    format!("{} {}", shape.kernel.name, shape.name)
}

pub async fn run(arguments: Arguments, bench: &str) -> anyhow::Result<Outcome> {
    let Arguments { filter, design, place, common } = &arguments;
    let only = (bench == "matmul").then_some("matmul");
    check_designs(design, only)?;
    let mut session = Session::open(common, bench, place.of_run()).await?;
    let Some(gpu) = session.gpu.clone() else {
        bail!(
            "the designs of kernels are for adapters, and there is none to time them on ({})",
            session.report.on.kind
        );
    };
    let all =
        shapes::all(&gpu.profile).into_iter().filter(|shape| only.is_none_or(|kernel| shape.kernel.name == kernel));
    let shapes: Vec<Shape> =
        all.filter(|shape| filter.as_ref().is_none_or(|text| title(shape).contains(text))).collect();
    if shapes.is_empty() {
        let mut kernels: Vec<&str> = KERNELS.iter().map(|kernel| kernel.name).collect();
        kernels.retain(|name| only.is_none_or(|only| only == *name));
        bail!(
            "no shape has '{}' in its name; there are shapes of {}",
            filter.as_deref().unwrap_or_default(),
            kernels.join(", ")
        );
    }
    let chosen = |found: &DesignInfo| design.is_empty() || design.iter().any(|name| name == found.name);
    let stop = session.stop();
    for (done, index) in shuffled(shapes.len(), place.seed, 0, SHAPES).into_iter().enumerate() {
        if stop() {
            break;
        }
        let shape = &shapes[index];
        let title = title(shape);
        session.progress(&format!("{title} ({} of {})", done + 1, shapes.len()));
        let mut finished = Vec::new();
        let mut jobs = Vec::new();
        for design in designs(shape, &gpu.profile).into_iter().filter(&chosen) {
            match KernelJob::new(&gpu, shape, design).await {
                Ok(job) => jobs.push((design, job)),
                Err(error @ ExecutionError::Gpu(GpuError::Lost { .. })) => return Err(error.into()),
                Err(error) => finished.push(Row::without_time(&title, design.name, "", error.to_string())),
            }
        }
        let mut work: Vec<_> = jobs.iter().map(|(_, job)| job.launch()).collect();
        let timings = time_together(&mut work, &session.limits, place.seed, &stop).await;
        for (((design, _), work), timing) in jobs.iter().zip(&work).zip(timings) {
            let key = (&*title, design.name, "");
            finished.push(Row::new(key, 1, work.cost(), timing, &session.report.ceilings));
        }
        session.add(finished)?;
    }
    let titles: Vec<String> = shapes.iter().map(title).collect();
    session.finish(|row| titles.iter().position(|title| *title == row.shape))
}
