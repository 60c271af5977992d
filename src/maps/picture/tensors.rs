//! Maps as tensors in the safetensors format.

use std::collections::HashMap;

use crate::maps::Maps;
use crate::model::tensor_file::TensorView;

/// The bytes of a file with `attn.L.H [Tq, Tk]` for each map, 0 where masked. Its notes hold `tokens`, a JSON list, and
/// `source`.
///
/// # Errors
/// Two maps of one head.
pub fn tensors(maps: &Maps) -> Result<Vec<u8>, safetensors::SafeTensorError> {
    let shapes: Vec<[usize; 2]> = maps.maps.iter().map(|map| [map.queries, map.keys]).collect();
    let views =
        maps.maps.iter().zip(&shapes).map(|(map, shape)| {
            (format!("attn.{}.{}", map.layer, map.head), TensorView { shape, values: &map.weights })
        });
    let tokens = serde_json::Value::from(maps.tokens.clone()).to_string();
    let notes = HashMap::from([("tokens".to_string(), tokens), ("source".to_string(), maps.source.clone())]);
    safetensors::serialize(views, Some(notes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::maps::picture::examples::{HOSTILE, causal, text};
    use crate::model::tensor_file::TensorFile;

    #[test]
    fn weights_and_tokens_read_back() {
        let maps = text(&HOSTILE, vec![causal(8, 8), causal(2, 8)]);
        let mut file = TensorFile::new(std::io::Cursor::new(tensors(&maps).unwrap())).unwrap();
        assert_eq!(file.names().collect::<Vec<_>>(), ["attn.0.0", "attn.0.1"]);
        assert_eq!(file.shape("attn.0.1"), Some(&[2, 8][..]));
        assert_eq!(file.read("attn.0.0").unwrap(), maps.maps[0].weights);
        let tokens: Vec<String> = serde_json::from_str(file.note("tokens").unwrap()).unwrap();
        assert_eq!(tokens, HOSTILE);
        assert_eq!(file.note("source"), Some("made for a test"));
    }
}
