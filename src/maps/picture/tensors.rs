//! Maps as tensors in the safetensors format.

use std::collections::HashMap;

use crate::maps::Panel;
use crate::model::tensor_file::TensorView;

/// The bytes of a file with `attn.L.H [Tq, Tk]` for each map, 0 where masked. Its notes hold `tokens`, a JSON list, and
/// `source`. Of several panels, names of tensors and notes begin with the panel's key, as in `first.attn.L.H`.
///
/// # Errors
/// Two maps of one head in one panel.
pub fn tensors(panels: &[Panel]) -> Result<Vec<u8>, safetensors::SafeTensorError> {
    let prefix = |panel: &Panel| if panels.len() == 1 { String::new() } else { panel.key() + "." };
    let maps = || panels.iter().flat_map(|panel| panel.maps.maps.iter().map(move |map| (panel, map)));
    let shapes: Vec<[usize; 2]> = maps().map(|(_, map)| [map.queries, map.keys]).collect();
    let views = maps().zip(&shapes).map(|((panel, map), shape)| {
        let name = format!("{}attn.{}.{}", prefix(panel), map.layer, map.head);
        (name, TensorView { shape, values: &map.weights })
    });
    let mut notes = HashMap::new();
    for panel in panels {
        let tokens = serde_json::Value::from(panel.maps.tokens.clone()).to_string();
        notes.insert(prefix(panel) + "tokens", tokens);
        notes.insert(prefix(panel) + "source", panel.maps.source.clone());
    }
    safetensors::serialize(views, Some(notes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::maps::picture::examples::{HOSTILE, alone, causal, text};
    use crate::model::tensor_file::TensorFile;

    #[test]
    fn weights_and_tokens_read_back() {
        let maps = text(&HOSTILE, vec![causal(8, 8), causal(2, 8)]);
        let mut file = TensorFile::new(std::io::Cursor::new(tensors(&[alone(&maps)]).unwrap())).unwrap();
        assert_eq!(file.names().collect::<Vec<_>>(), ["attn.0.0", "attn.0.1"]);
        assert_eq!(file.shape("attn.0.1"), Some(&[2, 8][..]));
        assert_eq!(file.read("attn.0.0").unwrap(), maps.maps[0].weights);
        let tokens: Vec<String> = serde_json::from_str(file.note("tokens").unwrap()).unwrap();
        assert_eq!(tokens, HOSTILE);
        assert_eq!(file.note("source"), Some("made for a test"));
        let panels = ["step 0", "step 250"].map(|name| Panel { name: name.into(), ..alone(&maps) });
        let mut file = TensorFile::new(std::io::Cursor::new(tensors(&panels).unwrap())).unwrap();
        let names: Vec<String> = file.names().map(String::from).collect();
        assert_eq!(names, ["step_0.attn.0.0", "step_0.attn.0.1", "step_250.attn.0.0", "step_250.attn.0.1"]);
        assert_eq!(file.read("step_250.attn.0.1").unwrap(), maps.maps[1].weights);
        assert_eq!(file.note("step_0.source"), Some("made for a test"));
    }
}
