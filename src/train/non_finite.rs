//! Numbers of a model's state that are none.

use crate::model::config::GptConfig;

/// The bits of an f32's exponent: all of them are set in infinities and NaNs, and in nothing else.
const EXPONENT: u32 = 0x7f80_0000;

/// One element that is infinite or NaN.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NonFinite {
    pub tensor: String,
    pub index: usize,
    pub bits: u32,
}

impl std::fmt::Display for NonFinite {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { tensor, index, bits } = self;
        let value = f32::from_bits(*bits);
        write!(formatter, "{tensor}[{index}] is {value} (bits {bits:#010x})")
    }
}

impl NonFinite {
    /// The first such element, by its bits, of a tensor a parameter, in the order of [`GptConfig::parameters`]. `prefix`
    /// comes before a parameter's name.
    pub fn first(prefix: &str, config: &GptConfig, tensors: &[Vec<f32>]) -> Option<Self> {
        config.parameters().into_iter().zip(tensors).find_map(|(parameter, values)| {
            let index = values.iter().position(|value| value.to_bits() & EXPONENT == EXPONENT)?;
            Some(Self { tensor: format!("{prefix}{}", parameter.name), index, bits: values[index].to_bits() })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_non_finite_number_is_found_by_its_bits_and_named() {
        let config = GptConfig::new(3, 2, 1, 1, 2).unwrap();
        let finite: Vec<Vec<f32>> =
            config.parameters().iter().map(|parameter| vec![f32::MIN_POSITIVE / 2.0; parameter.len()]).collect();
        assert_eq!(NonFinite::first("", &config, &finite), None);
        assert_eq!(NonFinite::first("", &config, &[vec![f32::MAX, -f32::MAX, -0.0]]), None);
        for (bits, text) in [
            (0x7fc0_0000, "v.transformer.wpe.weight[3] is NaN (bits 0x7fc00000)"),
            (0xffc0_0001, "v.transformer.wpe.weight[3] is NaN (bits 0xffc00001)"),
            (0x7f80_0001, "v.transformer.wpe.weight[3] is NaN (bits 0x7f800001)"),
            (0x7f80_0000, "v.transformer.wpe.weight[3] is inf (bits 0x7f800000)"),
            (0xff80_0000, "v.transformer.wpe.weight[3] is -inf (bits 0xff800000)"),
        ] {
            let mut tensors = finite.clone();
            tensors[1][3] = f32::from_bits(bits);
            assert_eq!(NonFinite::first("v.", &config, &tensors).unwrap().to_string(), text);
        }
    }
}
