//! Which tokens of panels beside each other belong together.

use crate::maps::{Panel, Quantity, aligned};

/// For each token of each panel, the token of the first panel's text that it stands for, as [`difference`] compares them;
/// `None` in place of a token without one. Nothing at all where the texts have one length: there each token stands for the
/// one at its own place.
///
/// [`difference`]: crate::maps::difference
pub fn counterparts(panels: &[Panel]) -> Option<Vec<Vec<Option<usize>>>> {
    let first = &panels.first()?.maps.tokens;
    if panels.iter().all(|panel| panel.maps.tokens.len() == first.len()) {
        return None;
    }
    let of = |(at, panel): (usize, &Panel)| {
        let tokens = &panel.maps.tokens;
        let mut places = vec![None; tokens.len()];
        // A difference has the tokens that those two panels share which stand before it.
        let compared = panels.get(at.wrapping_sub(1)).filter(|_| panel.maps.quantity == Quantity::Difference);
        let shared =
            compared.map(|second| aligned(first, &second.maps.tokens)).filter(|shared| shared.len() == tokens.len());
        let pairs = match shared {
            Some(shared) => shared.into_iter().enumerate().map(|(own, (in_first, _))| (in_first, own)).collect(),
            None => aligned(first, tokens),
        };
        for (in_first, own) in pairs {
            places[own] = Some(in_first);
        }
        places
    };
    Some(panels.iter().enumerate().map(of).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::maps::difference;
    use crate::maps::picture::examples::{alone, causal, text};

    /// The panels of two texts, with what the second has less the first.
    fn compared(texts: [&str; 2]) -> Vec<Panel> {
        let maps = texts.map(|words| {
            let tokens: Vec<&str> = words.split(' ').collect();
            text(&tokens, vec![causal(tokens.len(), tokens.len())])
        });
        let less = difference(&maps[0], &maps[1]).ok();
        maps.iter().chain(&less).map(alone).collect()
    }

    #[test]
    fn tokens_belong_together_as_the_difference_compares_them() {
        const NONE: Option<usize> = None;
        for (texts, second, less) in [
            (["a b c", "a x y c"], &[Some(0), NONE, NONE, Some(2)][..], &[Some(0), Some(2)][..]),
            // Read by its own tokens, the difference's second would be the first text's second.
            (["a x x c", "a y z x c"], &[Some(0), NONE, NONE, Some(2), Some(3)], &[Some(0), Some(2), Some(3)]),
            (["a b", "c d e"], &[NONE, NONE, NONE], &[]),
        ] {
            let panels = compared(texts);
            let found = counterparts(&panels).unwrap();
            let own: Vec<Option<usize>> = (0..panels[0].maps.tokens.len()).map(Some).collect();
            assert_eq!(found[..2], [own, second.to_vec()], "{texts:?}");
            assert_eq!(found.get(2).map_or(&[][..], |places| places), less, "{texts:?}");
        }
    }

    #[test]
    fn texts_of_one_length_need_no_counterparts() {
        assert_eq!(counterparts(&compared(["a b c", "a x c"])), None);
        assert_eq!(counterparts(&[]), None);
    }
}
