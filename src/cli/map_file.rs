//! Files that maps are written to: which kind by the name's ending, and a name that says layer and head.

use std::path::{Path, PathBuf};

use anyhow::bail;

use super::tensor_files::writable;
use crate::atomic::write_file;
use crate::maps::picture::{Drawing, Letters, Scale, Theme, html, json, png, svg, tensors};
use crate::maps::{HeadMap, Panel};

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Png,
    Svg,
    Html,
    Json,
    Safetensors,
}

const KINDS: [(&str, Kind); 5] = [
    ("png", Kind::Png),
    ("svg", Kind::Svg),
    ("html", Kind::Html),
    ("json", Kind::Json),
    ("safetensors", Kind::Safetensors),
];

/// A file to be written.
#[derive(Debug, PartialEq)]
pub struct MapFile {
    path: PathBuf,
    kind: Kind,
}

impl MapFile {
    /// The file that a user named.
    ///
    /// # Errors
    /// An ending that says no kind.
    pub fn named(path: &Path) -> anyhow::Result<Self> {
        let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
        let Some(&(_, kind)) = KINDS.iter().find(|(name, _)| ending.eq_ignore_ascii_case(name)) else {
            let known = KINDS.map(|(name, _)| format!(".{name}")).join(", ");
            bail!("--out {}: the name must end in one of {known}", path.display());
        };
        Ok(Self { path: path.to_path_buf(), kind })
    }

    /// Asks for JSON, where what is written has no picture.
    ///
    /// # Errors
    /// Another kind of file.
    pub fn json_only(&self, what: &str) -> anyhow::Result<()> {
        match self.kind {
            Kind::Json => Ok(()),
            _ => bail!("--out {}: {what} is written as .json", self.path.display()),
        }
    }

    /// Writes a JSON document, and gives the path.
    ///
    /// # Errors
    /// A place that cannot be written.
    pub fn write_json(&self, document: &str) -> anyhow::Result<&Path> {
        write_file(&writable(&self.path, None)?, document.as_bytes())?;
        Ok(&self.path)
    }

    /// Writes maps, and gives the path that was written. A picture of one head has its layer and head in its name, those of
    /// one layer or of one head of several layers what they have in common.
    ///
    /// # Errors
    /// A place that cannot be written.
    pub fn write(
        &self,
        panels: &[Panel],
        notes: &[String],
        (scale, theme): (Scale, Option<Theme>),
    ) -> anyhow::Result<PathBuf> {
        let drawing = |letters| Drawing::of(panels, scale, notes, letters);
        let bytes = match self.kind {
            Kind::Png => png(&drawing(Letters::Drawn), theme.unwrap_or(Theme::Light))?,
            Kind::Svg => svg(&drawing(Letters::Any), theme).into_bytes(),
            Kind::Html => html(panels, notes, scale).into_bytes(),
            Kind::Json => json(panels, notes)?.into_bytes(),
            Kind::Safetensors => tensors(panels)?,
        };
        let path = match self.kind {
            Kind::Png | Kind::Svg => self.path_of(panels),
            Kind::Html | Kind::Json | Kind::Safetensors => self.path.clone(),
        };
        let place = writable(&path, None)?;
        write_file(&place, &bytes)?;
        Ok(path)
    }

    fn path_of(&self, panels: &[Panel]) -> PathBuf {
        let stem = self.path.file_stem().unwrap_or_default().to_string_lossy();
        let ending = self.path.extension().unwrap_or_default().to_string_lossy();
        let all = || panels.iter().flat_map(|panel| &panel.maps.maps);
        let common = |of: fn(&HeadMap) -> usize, of_model: fn(&Panel) -> usize| {
            let first = all().next().map(of)?;
            // That of a model with one layer goes without saying, unless it is that of one map.
            let says = panels.iter().any(|panel| of_model(panel) > 1 || panel.maps.maps.len() == 1);
            (says && all().all(|map| of(map) == first)).then_some(first)
        };
        let heads = |panel: &Panel| -> Vec<(usize, usize)> {
            panel.maps.maps.iter().map(|map| (map.layer, map.head)).collect()
        };
        // Of panels with different heads no head is that of the picture.
        if panels.windows(2).any(|pair| heads(&pair[0]) != heads(&pair[1])) {
            return self.path.clone();
        }
        let mut name = String::new();
        if let Some(layer) = common(|map| map.layer, |panel| panel.maps.layers) {
            name.push_str(&format!("-layer{layer}"));
        }
        if let Some(head) = common(|map| map.head, |panel| panel.maps.heads) {
            name.push_str(&format!("-head{head}"));
        }
        if stem.ends_with(&name) {
            return self.path.clone();
        }
        self.path.with_file_name(format!("{stem}{name}.{ending}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::maps::{Maps, Quantity};

    #[test]
    fn pictures_say_layer_and_head_in_their_names() {
        let map = |(layer, head): &(usize, usize)| HeadMap {
            layer: *layer,
            head: *head,
            queries: 1,
            keys: 1,
            weights: vec![1.0],
            causal: true,
        };
        for (heads, out, expected) in [
            (&[(2, 3)][..], "a/map.png", "a/map-layer2-head3.png"),
            (&[(2, 3)], "map-layer2-head3.svg", "map-layer2-head3.svg"),
            (&[(0, 0), (0, 1)], "map.svg", "map-layer0.svg"),
            (&[(0, 1), (1, 1)], "map.svg", "map-head1.svg"),
            (&[(0, 0), (0, 1), (1, 0), (1, 1)], "map.PNG", "map.PNG"),
            (&[(0, 0), (1, 1)], "map.v2.png", "map.v2.png"),
        ] {
            let maps = heads.iter().map(map).collect();
            let maps = Maps {
                tokens: vec!["a".into()],
                layers: 4,
                heads: 4,
                maps,
                quantity: Quantity::Weight,
                source: String::new(),
            };
            let file = MapFile::named(Path::new(out)).unwrap();
            let panel = Panel { name: String::new(), about: String::new(), maps, measured: Vec::new() };
            assert_eq!(file.path_of(&[panel.clone(), panel]), Path::new(expected));
        }
    }

    #[test]
    fn another_ending_is_refused_with_those_there_are() {
        for out in ["map.gif", "map", ".png", "map.png.bak"] {
            let error = MapFile::named(Path::new(out)).unwrap_err().to_string();
            assert!(error.starts_with(&format!("--out {out}: the name must end in one of .png, .svg")), "{error}");
        }
    }
}
