//! Every reference file in `tests/golden` on both executors: ops, the whole model, twenty steps of training.

mod device;

use std::path::Path;

use headlight::check::golden::{Row, Runs, check, files};
use headlight::tape::RunOn;
use libtest_mimic::{Arguments, Failed, Trial};

fn main() {
    let arguments = Arguments::from_args();
    let gpu = device::open();
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let paths = files(&directory).unwrap_or_else(|error| panic!("{error}"));
    assert!(!paths.is_empty(), "{} holds no reference files", directory.display());
    let mut trials = Vec::new();
    for path in paths {
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let own = path.clone();
        let on_cpu = move || holds(&own, Runs(vec![("cpu", RunOn::Cpu)]));
        trials.push(Trial::test(format!("{name} holds on the CPU executor"), on_cpu));
        let (device, missing) = (gpu.clone(), gpu.is_none());
        let on_gpu = move || match &device {
            Some(gpu) => holds(&path, Runs(vec![("gpu", RunOn::Gpu(gpu.clone()))])),
            // The CPU executor must not stand in for the adapter.
            None => Err("there is no adapter".into()),
        };
        trials.push(Trial::test(format!("{name} holds on this adapter"), on_gpu).with_ignored_flag(missing));
    }
    libtest_mimic::run(&arguments, trials).exit();
}

/// Parts of the files that are for ops which are not built.
const NOT_BUILT: [(&str, &[&str]); 1] = [("activations", &["gelu_erf", "silu", "swiglu"])];

/// All that the file describes is compared and within tolerance, but for what is known not to be built.
fn holds(path: &Path, runs: Runs) -> Result<(), Failed> {
    let report = pollster::block_on(check(path, &runs)).map_err(|error| error.to_string())?;
    let mut faults = report.faults;
    let name = path.file_stem().unwrap_or_default();
    let known = NOT_BUILT.iter().find(|(file, _)| *file == name).map_or(&[][..], |(_, ops)| ops);
    if report.missing_ops != known {
        faults.push(format!("not built: {:?}, where {known:?} is known", report.missing_ops));
    }
    for Row { case, tensor, run, index, found, expected, share, .. } in report.rows.iter().filter(|row| !row.passed()) {
        faults.push(format!("{case} {tensor} on {run} at {index:?}: {found:e} against {expected:e}, share {share:.2}"));
    }
    if report.rows.is_empty() {
        faults.push("nothing was compared".into());
    }
    if faults.is_empty() { Ok(()) } else { Err(faults.join("\n").into()) }
}
