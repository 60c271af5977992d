//! What `headlight map` sets beside each other: texts, models, weights and their gradients, the steps of a run.

use std::path::{Path, PathBuf};

use anyhow::{anyhow, bail};

use super::map_model::{Looking, MapModel};
use crate::maps::{
    Finding, HeadChoice, MAP_BYTES, Maps, Panel, Pattern, changes, courses, difference, evenly, find, pulls, sentences,
    standing_out, weight_gradients,
};
use crate::train::kept_models::kept_models;

/// What is asked for.
pub enum View<'a> {
    Alone,
    /// Another text.
    Against(&'a str),
    /// Another model, and where it lies.
    Compare(MapModel, &'a Path),
    Gradients,
    /// The models that a run kept, each with its step.
    Steps(Vec<(u64, PathBuf)>),
}

/// What is to be shown: the panels, or none where what was to be found is not there, and the sentences about them.
pub struct Shown {
    pub panels: Vec<Panel>,
    pub notes: Vec<String>,
}

/// The most steps beside each other.
const MOST_STEPS: usize = 24;

/// A head's layer and number.
type Place = (usize, usize);

impl<'a> View<'a> {
    /// # Errors
    /// One line with the path and what is wrong with the model.
    pub fn compare(path: &'a Path) -> anyhow::Result<Self> {
        Ok(Self::Compare(MapModel::open(path)?, path))
    }

    /// # Errors
    /// A run that kept no models.
    pub fn steps(run: &Path) -> anyhow::Result<Self> {
        let kept = kept_models(run)?;
        if kept.is_empty() {
            let run = run.display();
            bail!(
                "{run} keeps no models of its steps: train with --keep-checkpoints EVERY, and name the run's directory"
            );
        }
        Ok(Self::Steps(kept))
    }

    /// `model` is the one that lies at `path`.
    ///
    /// # Errors
    /// One line that says what cannot be shown, and why.
    pub async fn look(self, looking: &Looking, model: &MapModel, (path, text): (&Path, &str)) -> anyhow::Result<Shown> {
        match self {
            Self::Alone => alone(model.panel("", text, looking).await?, looking),
            Self::Against(other) => against(looking, model, [text, other]).await,
            Self::Compare(other, place) => compare(looking, [(model, path), (&other, place)], text).await,
            Self::Gradients => gradients(looking, model, text).await,
            Self::Steps(kept) => steps(looking, &kept, text).await,
        }
    }
}

/// The head that a finding names, where the pattern stands out in one.
fn place(finding: &Finding<'_>) -> Option<Place> {
    finding.best.filter(|_| finding.heads > 0).map(|(head, _)| (head.layer, head.head))
}

/// Leaves the maps of one head.
fn keep(maps: &mut Maps, place: Place) {
    maps.maps.retain(|map| (map.layer, map.head) == place);
}

fn keep_in(panel: &mut Panel, place: Place) {
    keep(&mut panel.maps, place);
    panel.measured.retain(|own| (own.layer, own.head) == place);
}

fn alone(mut panel: Panel, looking: &Looking) -> anyhow::Result<Shown> {
    let Some(pattern) = looking.find else {
        let notes = sentences(&panel.maps, &panel.measured);
        return Ok(Shown { panels: vec![panel], notes });
    };
    let finding = find(pattern, &panel.measured);
    let notes = vec![format!("{}: {}", pattern.name(), finding.sentence())];
    let panels = match place(&finding) {
        Some(place) => {
            keep_in(&mut panel, place);
            vec![panel]
        }
        None => Vec::new(),
    };
    Ok(Shown { panels, notes })
}

/// A panel of numbers that no pattern is looked for in.
fn unmeasured(name: &str, maps: Maps) -> Panel {
    Panel { name: name.into(), about: String::new(), maps, measured: Vec::new() }
}

/// What a head, the best one or another, has of a pattern in a panel.
fn told(pattern: Pattern, panel: &Panel, shown: Option<Place>) -> String {
    let finding = find(pattern, &panel.measured);
    let sentence = finding.sentence();
    let best = finding.best.map(|(head, _)| (head.layer, head.head));
    let other = shown.filter(|&shown| best.is_some_and(|best| best != shown));
    let own = other.and_then(|(layer, head)| {
        let measured = panel.measured.iter().find(|own| (own.layer, own.head) == (layer, head))?;
        let measure = measured.of(pattern)?;
        Some(format!(
            "layer {layer} head {head} has {:.2} (equal weights: {:.2}); of all heads, ",
            measure.score, measure.uniform
        ))
    });
    format!("{}, {}: {}{sentence}", pattern.name(), panel.name, own.unwrap_or_default())
}

/// Two panels with the second less the first, and what changes.
fn beside(first: Panel, second: Panel, mut notes: Vec<String>) -> Shown {
    let less = difference(&first.maps, &second.maps);
    match &less {
        Ok(maps) => notes.extend(changes(&first, &second, maps)),
        Err(fault) => notes.push(format!("no difference is shown: {fault}")),
    }
    let head = |panel: &Panel| match &panel.maps.maps[..] {
        [map] => Some((map.layer, map.head)),
        _ => None,
    };
    let about = match (head(&first), head(&second)) {
        (Some(one), Some(other)) if one != other => {
            format!("layer {}, head {} of second less layer {}, head {} of first", other.0, other.1, one.0, one.1)
        }
        _ => "second less first".into(),
    };
    let difference = less.ok().map(|maps| Panel { about, ..unmeasured("difference", maps) });
    let panels = [first, second].into_iter().chain(difference).collect();
    Shown { panels, notes }
}

/// One model over two texts.
async fn against(looking: &Looking, model: &MapModel, texts: [&str; 2]) -> anyhow::Result<Shown> {
    let tokens =
        [model.tokenizer.encode(texts[0])?, model.tokenizer.encode(texts[1]).map_err(|error| of_second(error.into()))?];
    // The texts differ, and a pair of tokens need not be in both.
    let refers = tokens.each_ref().map(|tokens| -> Option<Vec<String>> {
        let own = |pair: &&String| model.references(Some(std::slice::from_ref(*pair)), tokens).is_ok();
        Some(looking.refers.as_ref()?.iter().filter(own).cloned().collect())
    });
    let nowhere = |pair: &&String| refers.iter().flatten().all(|own| !own.contains(pair));
    if let Some(pair) = looking.refers.iter().flatten().find(nowhere) {
        model.references(Some(std::slice::from_ref(pair)), &tokens[0])?;
    }
    let [in_first, in_second] = refers.map(|refers| Looking { refers, ..looking.clone() });
    let mut first = model.panel("first", texts[0], &in_first).await?;
    let mut second = model.panel("second", texts[1], &in_second).await.map_err(of_second)?;
    (first.about, second.about) = (texts[0].into(), texts[1].into());
    let Some(pattern) = looking.find else {
        let notes = standing_out(&first, &second);
        return Ok(beside(first, second, notes));
    };
    // The same head over both: it is the text that differs.
    let shown = [&first, &second].into_iter().find_map(|panel| place(&find(pattern, &panel.measured)));
    let notes = [&first, &second].map(|panel| told(pattern, panel, shown)).into();
    let Some(shown) = shown else { return Ok(Shown { panels: Vec::new(), notes }) };
    keep_in(&mut first, shown);
    keep_in(&mut second, shown);
    Ok(beside(first, second, notes))
}

fn of_second(error: anyhow::Error) -> anyhow::Error {
    anyhow!("--against: {error}")
}

/// Two models over one text.
async fn compare(
    looking: &Looking,
    [(one, first_path), (other, second_path)]: [(&MapModel, &Path); 2],
    text: &str,
) -> anyhow::Result<Shown> {
    let mut first = one.panel("first", text, looking).await.map_err(of_model(first_path))?;
    let mut second = other.panel("second", text, looking).await.map_err(of_model(second_path))?;
    first.about = first_path.display().to_string();
    second.about = second_path.display().to_string();
    let mut notes = Vec::new();
    if first.maps.tokens != second.maps.tokens {
        let count = |panel: &Panel| panel.maps.tokens.len();
        let (one, other) = (count(&first), count(&second));
        notes.push(format!("the models read the text as different tokens: first as {one}, second as {other} of them"));
    }
    if let Some(pattern) = looking.find {
        let findings = [&first, &second].map(|panel| find(pattern, &panel.measured));
        notes.extend([&first, &second].map(|panel| told(pattern, panel, None)));
        let found = findings.iter().any(|finding| finding.heads > 0);
        // Each model's own head: which one learns a pattern is chance.
        let best = findings.each_ref().map(|finding| finding.best.map(|(head, _)| (head.layer, head.head)));
        let ([Some(one), Some(other)], true) = (best, found) else {
            return Ok(Shown { panels: Vec::new(), notes });
        };
        keep_in(&mut first, one);
        keep_in(&mut second, other);
        return Ok(beside(first, second, notes));
    }
    notes.extend(standing_out(&first, &second));
    notes.extend(keep_common(&mut first, &mut second));
    if first.maps.maps.is_empty() {
        bail!("{} and {} have no head in common", first_path.display(), second_path.display());
    }
    Ok(beside(first, second, notes))
}

/// Leaves the heads that both have; says so where that are not all.
fn keep_common(first: &mut Panel, second: &mut Panel) -> Option<String> {
    let places = |panel: &Panel| -> Vec<Place> { panel.maps.maps.iter().map(|map| (map.layer, map.head)).collect() };
    let (in_first, in_second) = (places(first), places(second));
    for (panel, others) in [(&mut *first, &in_second), (&mut *second, &in_first)] {
        panel.maps.maps.retain(|map| others.contains(&(map.layer, map.head)));
        panel.measured.retain(|own| others.contains(&(own.layer, own.head)));
    }
    let size = |panel: &Panel| format!("{} x {}", panel.maps.layers, panel.maps.heads);
    (in_first != in_second).then(|| {
        format!(
            "only heads that both models have are shown: layers x heads are {} in first, {} in second",
            size(first),
            size(second)
        )
    })
}

/// Weights and the gradient of the loss on them.
async fn gradients(looking: &Looking, model: &MapModel, text: &str) -> anyhow::Result<Shown> {
    let tokens = model.tokenizer.encode(text)?;
    let (config, parameters) = (&model.checkpoint.config, model.checkpoint.tensors());
    let tokens = (&tokens[..], |id| model.text(id));
    let mut found = weight_gradients(config, &parameters, tokens, looking.choice, &looking.run_on).await?;
    let mut measured = model.measured(&found.weights, text, looking)?;
    let mut notes = Vec::new();
    if let Some(pattern) = looking.find {
        let finding = find(pattern, &measured);
        notes.push(format!("{}: {}", pattern.name(), finding.sentence()));
        let Some(place) = place(&finding) else { return Ok(Shown { panels: Vec::new(), notes }) };
        measured.retain(|own| (own.layer, own.head) == place);
        keep(&mut found.weights, place);
        keep(&mut found.gradients, place);
        found.score_gradients.iter_mut().for_each(|maps| keep(maps, place));
    }
    notes.extend(pulls(&found));
    let on_weights = "of the loss on the weights: below 0, in blue, where more weight would lower the loss";
    let on_scores = "what the softmax hands on of it to the scores beneath, which are what training moves";
    let panels = [
        Some(Panel { measured, ..unmeasured("weights", found.weights) }),
        Some(Panel { about: on_weights.into(), ..unmeasured("gradient", found.gradients) }),
        found.score_gradients.map(|maps| Panel { about: on_scores.into(), ..unmeasured("score gradient", maps) }),
    ];
    Ok(Shown { panels: panels.into_iter().flatten().collect(), notes })
}

/// Says of which model it is that something is wrong.
fn of_model(path: &Path) -> impl FnOnce(anyhow::Error) -> anyhow::Error {
    let path = path.display().to_string();
    move |error| anyhow!("{path}: {error}")
}

/// The models that a run kept of its steps.
async fn steps(looking: &Looking, kept: &[(u64, PathBuf)], text: &str) -> anyhow::Result<Shown> {
    let chosen: Vec<&(u64, PathBuf)> = evenly(kept.len(), MOST_STEPS).map(|at| &kept[at]).collect();
    let Some((last, before)) = chosen.split_last() else { bail!("the run keeps no models of its steps") };
    let mut looking = looking.clone();
    // The last first: it says which head the others are asked for.
    let mut last = at_step(last, &looking, text).await?;
    let mut notes = Vec::new();
    if let Some(pattern) = looking.find {
        let finding = find(pattern, &last.measured);
        notes.push(format!("{} at {}: {}", pattern.name(), last.name, finding.sentence()));
        let Some(place) = place(&finding) else { return Ok(Shown { panels: Vec::new(), notes }) };
        keep_in(&mut last, place);
        looking.choice = HeadChoice { layer: Some(place.0), head: Some(place.1) };
    }
    room_for(chosen.len(), &last)?;
    let mut panels = Vec::with_capacity(chosen.len());
    for step in before {
        panels.push(at_step(step, &looking, text).await?);
    }
    panels.push(last);
    let told = courses(&panels, looking.find);
    if told.is_empty() {
        notes.extend(panels.last().map(|last| format!("nothing stands out at {}", last.name)));
    }
    notes.extend(told);
    if kept.len() > MOST_STEPS {
        notes.push(format!("{MOST_STEPS} of the {} steps that the run kept are shown, evenly chosen", kept.len()));
    }
    Ok(Shown { panels, notes })
}

async fn at_step((step, path): &(u64, PathBuf), looking: &Looking, text: &str) -> anyhow::Result<Panel> {
    let model = MapModel::open(path)?;
    model.panel(&format!("step {step}"), text, looking).await.map_err(of_model(path))
}

/// Refuses as many panels like this one as memory should not be asked for.
fn room_for(panels: usize, panel: &Panel) -> anyhow::Result<()> {
    let numbers: usize = panel.maps.maps.iter().map(|map| map.weights.len()).sum();
    let bytes = [panels, numbers, 4].iter().fold(1u64, |bytes, &size| bytes.saturating_mul(size as u64));
    if bytes > MAP_BYTES {
        let maps = panels.saturating_mul(panel.maps.maps.len());
        bail!(
            "no map, because {maps} maps of {} tokens take {bytes} bytes, of which {MAP_BYTES} are allowed: choose a \
             layer, a head, or a shorter text",
            panel.maps.tokens.len()
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::maps::{HeadMap, Quantity};

    #[test]
    fn more_steps_than_memory_should_be_asked_for_are_refused() {
        let length = 2000;
        let map = HeadMap {
            layer: 0,
            head: 0,
            queries: length,
            keys: length,
            weights: vec![0.0; length * length],
            causal: true,
        };
        let tokens = vec![String::new(); length];
        let maps =
            Maps { tokens, layers: 1, heads: 4, maps: vec![map; 4], quantity: Quantity::Weight, source: String::new() };
        let panel = unmeasured("step 0", maps);
        room_for(16, &panel).unwrap();
        let error = room_for(17, &panel).unwrap_err().to_string();
        assert_eq!(
            error,
            "no map, because 68 maps of 2000 tokens take 1088000000 bytes, of which 1073741824 are allowed: choose a layer, a \
             head, or a shorter text"
        );
    }
}
