//! How what heads do came to be over the steps of a run.

use super::panel::Panel;
use super::patterns::Pattern;
use super::sentences::find;

/// Numbers in one sentence.
const MOST: usize = 7;

/// The patterns that stand out in the last panel, each with its scores over all panels, in the head that has it last;
/// `only` one of them where it is given.
pub fn courses(panels: &[Panel], only: Option<Pattern>) -> Vec<String> {
    // Entropy is no pattern of its own: it is low wherever another one is clear.
    let all = |pattern: Pattern| pattern != Pattern::Entropy;
    let wanted = Pattern::ALL.into_iter().filter(|&pattern| only.map_or(all(pattern), |only| only == pattern));
    wanted.filter_map(|pattern| course(panels, pattern)).collect()
}

fn course(panels: &[Panel], pattern: Pattern) -> Option<String> {
    let last = find(pattern, &panels.last()?.measured);
    let (head, _) = last.best.filter(|_| last.heads > 0)?;
    let place = (head.layer, head.head);
    let own = |panel: &Panel| {
        let head = panel.measured.iter().find(|head| (head.layer, head.head) == place)?;
        Some((panel.name.clone(), *head.of(pattern)?))
    };
    let scores: Vec<_> = panels.iter().filter_map(own).collect();
    let since = scores.iter().rposition(|(_, measure)| !measure.stands_out(pattern)).map_or(0, |at| at + 1);
    let told: Vec<String> = evenly(scores.len(), MOST)
        .map(|at| &scores[at])
        .map(|(name, measure)| format!("{:.2} at {name}", measure.score))
        .collect();
    let begin = match scores.get(since) {
        Some((name, _)) if since > 0 => format!("; it stands out from {name} on"),
        _ => "; it stands out throughout".into(),
    };
    Some(format!("{}, layer {} head {}: {}{begin}", pattern.name(), place.0, place.1, told.join(", ")))
}

/// At most `most` of so many places, evenly, the first and the last among them.
pub fn evenly(count: usize, most: usize) -> impl Iterator<Item = usize> {
    let taken = count.min(most);
    (0..taken).map(move |at| if taken < 2 { at } else { at * (count - 1) / (taken - 1) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::maps::{HeadMeasures, Maps, Measure, Quantity};

    fn panel(step: u64, scores: [f64; 2]) -> Panel {
        let maps = Maps {
            tokens: Vec::new(),
            layers: 1,
            heads: 2,
            maps: Vec::new(),
            quantity: Quantity::Weight,
            source: String::new(),
        };
        let measured = |(head, score): (usize, f64)| {
            let measure = Measure { score, uniform: 0.1, distractor: Some(0.1), queries: 9 };
            HeadMeasures { layer: 0, head, measures: vec![(Pattern::Induction, measure)] }
        };
        let measured = scores.into_iter().enumerate().map(measured).collect();
        Panel { name: format!("step {step}"), about: String::new(), maps, measured }
    }

    #[test]
    fn a_course_follows_the_head_that_shows_the_pattern_at_the_end() {
        let panels = [panel(0, [0.9, 0.1]), panel(50, [0.5, 0.1]), panel(100, [0.1, 0.3]), panel(200, [0.1, 0.6])];
        let told = "induction, layer 0 head 1: 0.10 at step 0, 0.10 at step 50, 0.30 at step 100, 0.60 at step 200; it stands \
                    out from step 100 on";
        assert_eq!(courses(&panels, None), [told]);
        assert_eq!(courses(&panels, Some(Pattern::Induction)), [told]);
        assert_eq!(courses(&panels, Some(Pattern::PreviousToken)), [""; 0]);
        assert_eq!(
            courses(&panels[..1], None),
            ["induction, layer 0 head 0: 0.90 at step 0; it stands out throughout"]
        );
        assert_eq!(courses(&[panel(0, [0.1, 0.1])], None), [""; 0]);
        assert_eq!(courses(&[], None), [""; 0]);
    }

    #[test]
    fn places_are_taken_evenly_with_both_ends() {
        for (count, most, expected) in [
            (0, 3, &[][..]),
            (1, 3, &[0]),
            (3, 7, &[0, 1, 2]),
            (11, 3, &[0, 5, 10]),
            (10, 4, &[0, 3, 6, 9]),
            (5, 1, &[0]),
        ] {
            assert_eq!(evenly(count, most).collect::<Vec<_>>(), expected, "{most} of {count}");
        }
    }
}
