//! Sentences in lines of a given length.

use super::label::width;
use crate::printable::printable;

/// The most characters of a sentence that are shown; foreign text in it may be of any length.
const LONGEST: usize = 2000;

/// A sentence in lines of at most `columns` columns, broken between words, and within words that are longer than a line.
/// What a terminal would obey, or would not show, stands there as an escape.
pub fn wrapped(sentence: &str, columns: usize) -> Vec<String> {
    let columns = columns.max(2);
    let shown = printable(sentence, LONGEST);
    let mut lines = vec![String::new()];
    let mut used = 0;
    for word in shown.split(' ').filter(|word| !word.is_empty()) {
        let gap = usize::from(used > 0);
        if used + gap + width(word) <= columns {
            if let (1, Some(line)) = (gap, lines.last_mut()) {
                line.push(' ');
            }
            used += gap;
        } else if used > 0 {
            lines.push(String::new());
            used = 0;
        }
        for character in word.chars() {
            let wide = width(character.encode_utf8(&mut [0; 4]));
            if used + wide > columns {
                lines.push(String::new());
                used = 0;
            }
            if let Some(line) = lines.last_mut() {
                line.push(character);
            }
            used += wide;
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_break_between_words_and_within_long_ones() {
        for (sentence, columns, expected) in [
            ("one two three", 7, &["one two", "three"][..]),
            ("one two three", 8, &["one two", "three"]),
            ("abcdefgh ij", 3, &["abc", "def", "gh", "ij"]),
            ("a\nb", 10, &["a\\nb"]),
            ("\u{4e2d}\u{6587}\u{5b57}", 4, &["\u{4e2d}\u{6587}", "\u{5b57}"]),
            ("", 10, &[""]),
        ] {
            assert_eq!(wrapped(sentence, columns), expected);
        }
    }
}
