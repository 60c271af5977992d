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
            Letters::Drawn if glyph(letter).is_none() => code(pictured(letter).unwrap_or(letter)),
            _ => letter.into(),
        };
        text.chars().map(spelled).collect()
    }

    /// The label of a token in these letters, cut to so many columns.
    pub fn label_within(self, token: &str, columns: usize) -> String {
        cut(&self.spell(&label(token)), columns)
    }
}

/// The control character of a control picture, which stands for nothing else in a label.
fn pictured(letter: char) -> Option<char> {
    match u32::from(letter) {
        0x2421 => Some('\u{7f}'),
        picture => picture.checked_sub(0x2400).filter(|&control| control < 0x20).and_then(char::from_u32),
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
        for (token, label) in [("\u{1b}", "⟨U+001B⟩"), ("\0", "⟨U+0000⟩"), ("\u{7f}", "⟨U+007F⟩"), ("␛", "⟨U+241B⟩")]
        {
            assert_eq!(Letters::Drawn.label_within(token, 14), label);
        }
    }
}
