//! What stands out in the maps of a model, in plain sentences with the numbers.

use super::alike::{HeadPair, pairs_by_distance};
use super::map::Maps;
use super::measures::{HeadMeasures, Measure};
use super::patterns::Pattern;

/// Pairs closer than this look the same.
const SAME: f64 = 0.1;

/// Pairs further apart than this look at different keys.
const DIFFERENT: f64 = 0.5;

/// Entropy from which on a head looks nearly equally at all it sees.
const EVEN: f64 = 0.95;

/// The head that does most of a pattern.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Finding<'a> {
    pub pattern: Pattern,
    /// The head that does it most among those where it stands out, or among all where it does in none; `None` where the
    /// text has no place for the pattern.
    pub best: Option<(&'a HeadMeasures, Measure)>,
    /// How many heads it stands out in.
    pub heads: usize,
}

/// Looks for the head that does a pattern most.
pub fn find(pattern: Pattern, measured: &[HeadMeasures]) -> Finding<'_> {
    let all: Vec<(&HeadMeasures, Measure)> =
        measured.iter().filter_map(|head| head.of(pattern).map(|&measure| (head, measure))).collect();
    let outstanding: Vec<_> = all.iter().copied().filter(|(_, measure)| measure.stands_out(pattern)).collect();
    let among = if outstanding.is_empty() { &all } else { &outstanding };
    let better = |a: &f64, b: &f64| if pattern.less_is_more() { a < b } else { a > b };
    let best =
        among.iter().copied().reduce(|best, next| if better(&next.1.score, &best.1.score) { next } else { best });
    Finding { pattern, best, heads: outstanding.len() }
}

impl Finding<'_> {
    /// The head, with the numbers; or that there is none, with the best there was.
    pub fn sentence(&self) -> String {
        let Some((head, measure)) = self.best else { return format!("none found: {}", self.no_place()) };
        let Measure { score, uniform, distractor, queries } = measure;
        let (what, unit) = match self.pattern {
            Pattern::Diagonal => ("half of a row lies on the nearest", " keys"),
            Pattern::Entropy => ("the entropy of a row is", " of the largest"),
            _ => ("weight", ""),
        };
        if self.heads == 0 {
            let distractor = distractor.map_or(String::new(), |value| format!(", distractor {value:.2}"));
            let advice = match queries {
                // One reference is enough.
                1 | 2 if score >= super::LEAST_WEIGHT && self.pattern != Pattern::Coreference => "give a longer text",
                _ => "train longer or try another seed",
            };
            let place = format!("layer {} head {}, {}", head.layer, head.head, over(queries));
            return format!("none found (best {score:.2}, uniform {uniform:.2}{distractor}; {place}): {advice}");
        }
        let beside = self.pattern.distractor();
        let distractor = distractor.map_or(String::new(), |value| format!("; {beside}: {value:.2}"));
        let more = match self.heads - 1 {
            0 => String::new(),
            1 => ", and so does 1 head more".into(),
            count => format!(", and so do {count} heads more"),
        };
        format!(
            "layer {} head {} {}: {what} {score:.2}{unit} (equal weights: {uniform:.2}{distractor}; {}){more}",
            head.layer,
            head.head,
            self.pattern.verb(),
            over(queries)
        )
    }

    /// Why the pattern is measured nowhere.
    fn no_place(&self) -> &'static str {
        match self.pattern {
            Pattern::Induction | Pattern::SameToken => {
                "no token of the text comes again far enough behind its first place"
            }
            Pattern::Delimiters => "the text has no delimiter between other tokens",
            Pattern::Coreference => "it is not known what refers to what",
            Pattern::UpperTriangle => "no query sees a later key",
            _ => "the text is too short",
        }
    }
}

fn over(queries: usize) -> String {
    format!("over {queries} quer{}", if queries == 1 { "y" } else { "ies" })
}

/// What there is to see in the maps, one sentence each; that nothing stands out, where nothing does. `measured` is what
/// [`measure`](super::measure) made of them.
pub fn sentences(maps: &Maps, measured: &[HeadMeasures]) -> Vec<String> {
    let mut lines = Vec::new();
    let found: Vec<Finding<'_>> = Pattern::ALL
        .into_iter()
        .filter(|&pattern| pattern != Pattern::Entropy)
        .map(|pattern| find(pattern, measured))
        .filter(|finding| finding.heads > 0)
        .collect();
    lines.extend(found.iter().map(Finding::sentence));
    let pairs = pairs_by_distance(maps);
    let name = |index: usize| {
        maps.maps.get(index).map_or(String::new(), |map| format!("layer {} head {}", map.layer, map.head))
    };
    let pair = |pair: &HeadPair, what: &str| {
        let (first, second) = (name(pair.first), name(pair.second));
        format!("{first} and {second} {what}: {:.2} of a row's weight lies elsewhere", pair.distance)
    };
    let same: Vec<&HeadPair> = pairs.iter().filter(|pair| pair.distance < SAME).collect();
    let even = measured.iter().filter_map(|head| head.of(Pattern::Entropy)).filter(|measure| measure.score >= EVEN);
    let all_even = !measured.is_empty() && even.count() == measured.len();
    if let Some(closest) = same.first().filter(|_| !all_even) {
        let more = match same.len() - 1 {
            0 => String::new(),
            1 => format!(" (1 pair more is closer than {SAME})"),
            count => format!(" ({count} pairs more are closer than {SAME})"),
        };
        lines.push(pair(closest, "look the same") + &more);
    }
    lines.extend(pairs.last().filter(|pair| pair.distance >= DIFFERENT).map(|last| pair(last, "differ most")));
    if lines.is_empty() {
        lines.push(format!(
            "nothing stands out: no head has {} times the weight of equal weights, and of the keys beside, on anything measured",
            super::FACTOR
        ));
    }
    if all_even {
        let means = measured.iter().filter_map(|head| head.of(Pattern::Entropy)).map(|measure| measure.score);
        let least = means.fold(1.0, f64::min);
        lines.push(format!(
            "every head looks nearly equally at all that it sees: the least entropy is {least:.2}, of 1 at most"
        ));
    }
    if !maps.maps.is_empty() && maps.maps.iter().all(|map| map.causal) {
        lines.push("the upper triangle is empty: no query sees a later key".into());
    }
    lines
}
