//! Which letters a picture can write.

use super::font::glyph;
use super::label::{code, cut, label};

/// The letters there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Letters {
    /// Any: the fonts of whoever looks at the picture are used.
    Any,
    /// Those that Headlight draws itself; any other is written by its code.
    Drawn,
}

impl Letters {
    /// A text in these letters.
    pub fn spell(self, text: &str) -> String {
        let spelled = |letter: char| match self {
            Letters::Drawn if glyph(letter).is_none() => code(letter),
            _ => letter.into(),
        };
        text.chars().map(spelled).collect()
    }

    /// The label of a token in these letters, cut to so many columns.
    pub fn label_within(self, token: &str, columns: usize) -> String {
        cut(&self.spell(&label(token)), columns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_that_are_not_drawn_are_written_by_their_codes() {
        let text = "a␣⟨é\u{301}\u{4e2d}…";
        assert_eq!(Letters::Any.spell(text), text);
        assert_eq!(Letters::Drawn.spell(text), "a␣⟨⟨U+00E9⟩⟨U+0301⟩⟨U+4E2D⟩…");
        assert_eq!(Letters::Drawn.label_within("\u{4e2d}", 14), "⟨U+4E2D⟩");
        assert_eq!(Letters::Drawn.label_within("\u{1f600}\u{1f600}", 14), "⟨U+1F600⟩⟨U+1…");
        assert_eq!(Letters::Drawn.label_within("\u{1b}", 14), Letters::Drawn.spell("␛"));
    }
}
