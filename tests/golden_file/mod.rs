//! Reading reference files in the format of `tests/golden/README.md`, and comparing with them.

use std::collections::BTreeMap;
use std::path::Path;

use libtest_mimic::Failed;
use safetensors::SafeTensors;
use safetensors::tensor::Dtype;
use serde_json::Value;

/// A reference file: tensors and their tolerances.
pub struct GoldenFile {
    bytes: Vec<u8>,
    described: Value,
}

impl GoldenFile {
    pub fn read(path: &Path) -> Self {
        let bytes = std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let (_, metadata) = SafeTensors::read_metadata(&bytes).unwrap();
        let text = &metadata.metadata().as_ref().unwrap()["golden"];
        let described = serde_json::from_str(text).unwrap();
        Self { bytes, described }
    }

    fn tensors(&self) -> SafeTensors<'_> {
        SafeTensors::deserialize(&self.bytes).unwrap()
    }

    /// The first of these names that the file has.
    pub fn first_of(&self, names: &[&str]) -> Option<String> {
        let tensors = self.tensors();
        names.iter().find(|name| tensors.tensor(name).is_ok()).map(|name| name.to_string())
    }

    pub fn real(&self, name: &str) -> Vec<f32> {
        let tensors = self.tensors();
        let tensor = tensors.tensor(name).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(tensor.dtype(), Dtype::F32, "{name}");
        bytemuck::pod_collect_to_vec(tensor.data())
    }

    pub fn words(&self, name: &str) -> Vec<u32> {
        let tensors = self.tensors();
        let tensor = tensors.tensor(name).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(tensor.dtype(), Dtype::I32, "{name}");
        bytemuck::pod_collect_to_vec(tensor.data())
    }

    /// A number in the metadata.
    pub fn number(&self, name: &str) -> f64 {
        self.described[name].as_f64().unwrap_or_else(|| panic!("{name} is no number"))
    }

    /// A list of numbers in the metadata.
    pub fn numbers(&self, name: &str) -> Vec<f64> {
        self.described[name].as_array().unwrap().iter().map(|value| value.as_f64().unwrap()).collect()
    }

    /// Compares with every tensor that has a tolerance, times `factor`. An output that is not compared is a failure
    /// unless `may_miss` allows it; so is a reference that is not finite.
    pub fn compare(
        &self,
        found: impl IntoIterator<Item = (String, Vec<f32>)>,
        factor: f64,
        may_miss: impl Fn(&str) -> bool,
    ) -> Result<(), Failed> {
        let found: BTreeMap<String, Vec<f32>> = found.into_iter().collect();
        let mut worst = (0.0, String::new());
        let mut faults = Vec::new();
        for (name, entry) in self.described["tensors"].as_object().unwrap() {
            let Some(values) = found.get(name) else {
                if !may_miss(name) {
                    faults.push(format!("{name} is not compared"));
                }
                continue;
            };
            let expected = self.real(name);
            assert_eq!(values.len(), expected.len(), "{name}");
            let tolerance = entry["atol"].as_f64().unwrap() * factor;
            let ignored = entry["ignore"]
                .as_array()
                .map_or(0..0, |range| range[0].as_u64().unwrap() as usize..range[1].as_u64().unwrap() as usize);
            for (index, (&found, &expected)) in values.iter().zip(&expected).enumerate() {
                if ignored.contains(&index) {
                    continue;
                }
                assert!(expected.is_finite(), "{name}[{index}] of the reference is {expected}");
                let share = f64::from((found - expected).abs()) / tolerance;
                // Written so that NaN fails.
                let close = share <= 1.0;
                if !close {
                    faults
                        .push(format!("{name}[{index}]: {found:e} against {expected:e}, {share:.2} of the tolerance"));
                    break;
                }
                if share > worst.0 {
                    worst = (share, format!("{name}[{index}]"));
                }
            }
        }
        for name in found.keys().filter(|name| self.described["tensors"].get(name.as_str()).is_none()) {
            faults.push(format!("{name} has no reference"));
        }
        assert!(!worst.1.is_empty() || !faults.is_empty(), "nothing differs at all: was anything compared?");
        if faults.is_empty() { Ok(()) } else { Err(faults.join("\n").into()) }
    }
}
