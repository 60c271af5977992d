//! A model that texts are shown to, and what is looked at in it.

use std::path::Path;

use anyhow::anyhow;

use super::model_text::tokenizer;
use super::sandbox::tracer;
use crate::data::tokenizer::Tokenizer;
use crate::maps::{HeadChoice, HeadMeasures, Maps, Panel, Pattern, Reference, attention_maps, measure};
use crate::model::checkpoint::{Checkpoint, resolve_model};
use crate::tape::RunOn;

/// What is looked at in every model and text.
#[derive(Clone)]
pub struct Looking {
    pub choice: HeadChoice,
    /// What refers to what, where it was given.
    pub refers: Option<Vec<String>>,
    pub find: Option<Pattern>,
    pub run_on: RunOn,
}

pub struct MapModel {
    pub checkpoint: Checkpoint,
    pub tokenizer: Tokenizer,
}

impl MapModel {
    /// # Errors
    /// One line with the path and what is wrong with it.
    pub fn open(path: &Path) -> anyhow::Result<Self> {
        let directory = resolve_model(path)?;
        let checkpoint = Checkpoint::read(&directory, &tracer())?;
        let tokenizer = tokenizer(&directory, &checkpoint)?;
        Ok(Self { checkpoint, tokenizer })
    }

    /// The text of a token; one that the tokenizer does not have is replaced.
    pub fn text(&self, id: u32) -> String {
        self.tokenizer.token(id).unwrap_or("\u{fffd}").to_string()
    }

    /// What coreference is measured on: the pairs that were given, or those of a built-in story.
    ///
    /// # Errors
    /// One line that says which pair is none of this text.
    pub fn references(&self, given: Option<&[String]>, tokens: &[u32]) -> anyhow::Result<Vec<Reference>> {
        let Some(given) = given else { return Ok(Reference::of_stories(&self.tokenizer, tokens)) };
        let texts: Vec<String> = tokens.iter().map(|&id| self.text(id)).collect();
        given.iter().map(|pair| Reference::parse(pair, &texts).map_err(|fault| anyhow!("--refers: {fault}"))).collect()
    }

    /// The maps of a text with what is measured of them, as a panel.
    ///
    /// # Errors
    /// One line that says why there is no map.
    pub async fn panel(&self, name: &str, text: &str, looking: &Looking) -> anyhow::Result<Panel> {
        let tokens = self.tokenizer.encode(text)?;
        let references = self.references(looking.refers.as_deref(), &tokens)?;
        let parameters = self.checkpoint.tensors();
        let named = (&tokens[..], |id| self.text(id));
        let config = &self.checkpoint.config;
        let maps = attention_maps(config, &parameters, named, looking.choice, &looking.run_on).await?;
        let measured = measure(&maps, &references);
        Ok(Panel { name: name.into(), about: String::new(), maps, measured })
    }

    /// What is measured of the maps of a text.
    ///
    /// # Errors
    /// As [`MapModel::references`].
    pub fn measured(&self, maps: &Maps, text: &str, looking: &Looking) -> anyhow::Result<Vec<HeadMeasures>> {
        let references = self.references(looking.refers.as_deref(), &self.tokenizer.encode(text)?)?;
        Ok(measure(maps, &references))
    }
}
