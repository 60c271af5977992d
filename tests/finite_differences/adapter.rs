//! A few random graphs on the adapter, in f32, against their gradients in f64.

use std::sync::Arc;

use headlight::gpu::{Gpu, Pipelines};
use headlight::graph::Reuse;
use headlight::tape::{Contents, GpuExecutor};

use super::dags::dag;
use super::problem::{GRADIENTS, Planned};

/// Graphs that are run; each brings some pipelines of its own.
const GRAPHS: u64 = 8;

pub fn random_graphs_have_the_same_gradients(gpu: &Arc<Gpu>) -> Result<(), String> {
    let mut pipelines = Pipelines::default();
    for seed in 0..GRAPHS {
        let (problem, contents) = dag(seed)?;
        let wide = Planned::new(&problem, Reuse::Pooled)?;
        wide.write(&contents);
        let expected = wide.run().split_off(1);
        let plan = problem.plan(Some(gpu.profile.clone()), Reuse::Pooled)?;
        let (leaves, gradients) = (plan.leaves, plan.gradients);
        let found: Result<Vec<Vec<f32>>, String> = pollster::block_on(async {
            let executor =
                GpuExecutor::new(gpu.clone(), plan.tape, &mut pipelines).await.map_err(|error| error.to_string())?;
            for (&buffer, contents) in leaves.iter().zip(&contents) {
                match contents {
                    Contents::Real(values) => {
                        executor.write(buffer, &values.iter().map(|&value| value as f32).collect::<Vec<f32>>())
                    }
                    Contents::Words(words) => executor.write_words(buffer, words),
                }
                .map_err(|error| error.to_string())?;
            }
            executor.run(GRADIENTS).map_err(|error| error.to_string())?;
            let mut found = Vec::new();
            for &buffer in &gradients {
                found.push(executor.read(buffer).await.map_err(|error| error.to_string())?);
            }
            Ok(found)
        });
        for (leaf, (found, expected)) in found?.iter().zip(&expected).enumerate() {
            let largest = expected.iter().fold(0.0f64, |largest, value| largest.max(value.abs()));
            for (index, (&found, &expected)) in found.iter().zip(expected).enumerate() {
                // Written so that NaN fails.
                let close = (f64::from(found) - expected).abs() <= 1e-4 * largest + 1e-5;
                if !close {
                    let graph = problem.print();
                    return Err(format!("seed {seed}: leaf {leaf}[{index}]: {found} against {expected}\n{graph}"));
                }
            }
        }
    }
    Ok(())
}
