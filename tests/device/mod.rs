//! The one device of a test process, and what happens where there is none.

use std::sync::Arc;

use headlight::gpu::{Choice, Gpu, Selection, select};

/// Opens the adapter that `auto` takes. `None` where there is none: the caller then ignores its trials.
///
/// # Panics
/// With `HEADLIGHT_REQUIRE_GPU=1` and no adapter: continuous integration must not pass by skipping.
pub fn open() -> Option<Arc<Gpu>> {
    let opened = pollster::block_on(async {
        match select(&Choice::Gpu).await {
            Ok(Selection::Adapter { adapter, .. }) => {
                Gpu::open(&adapter).await.map(Arc::new).map_err(|e| e.to_string())
            }
            Ok(Selection::CpuExecutor { reason }) => Err(reason),
            Err(error) => Err(error.to_string()),
        }
    });
    match opened {
        Ok(gpu) => Some(gpu),
        Err(reason) => {
            let required = std::env::var("HEADLIGHT_REQUIRE_GPU").is_ok_and(|value| value == "1");
            assert!(!required, "HEADLIGHT_REQUIRE_GPU=1 and no adapter: {reason}");
            eprintln!("no adapter, GPU tests are ignored: {reason}");
            None
        }
    }
}
