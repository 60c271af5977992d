//! Lines for whoever reads along. The work does not depend on them: where the reader has gone, as `head` does after its
//! lines, or a terminal is closed, it goes on in silence.

use std::fmt::Display;
use std::io::Write;

/// A line on standard output.
pub fn say(line: impl Display) {
    let _ = writeln!(std::io::stdout(), "{line}");
}

/// Results on standard output, as a line or several. A run whose results cannot be written did not succeed.
///
/// # Errors
/// What the system says: a full disk, a closed pipe.
pub fn put(text: impl Display) -> std::io::Result<()> {
    let mut out = std::io::stdout();
    writeln!(out, "{text}")?;
    out.flush()
}

/// A line on standard error.
pub fn warn(line: impl Display) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// Lines for a terminal, whatever went into them: each is at most `limit` characters long, and no character but the
/// newlines between them moves the cursor, changes colours or turns the direction of writing.
pub fn printable_lines(text: &str, limit: usize) -> String {
    let line = |line: &str| -> String {
        let mut shown = String::new();
        for (count, character) in line.chars().enumerate() {
            if count == limit {
                shown.push_str("...");
                break;
            }
            if character.is_control() || is_direction(character) {
                shown.extend(character.escape_debug());
            } else {
                shown.push(character);
            }
        }
        shown
    };
    text.split('\n').map(line).collect::<Vec<_>>().join("\n")
}

/// The marks, embeddings, overrides and isolates of the Unicode Bidirectional Algorithm (UAX 9, section 2), and the
/// separators that some terminals break lines at.
fn is_direction(character: char) -> bool {
    matches!(character, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_stay_lines_and_accents_stay_what_they_are() {
        for (text, shown) in [
            ("one\ntwo", "one\ntwo"),
            ("e\u{301} C:\\a", "e\u{301} C:\\a"),
            ("\u{1b}]0;title\u{7}\nx", "\\u{1b}]0;title\\u{7}\nx"),
            ("12345678901\n2", "1234567890...\n2"),
            ("\u{2066}a\u{2029}b", "\\u{2066}a\\u{2029}b"),
        ] {
            assert_eq!(printable_lines(text, 10), shown);
        }
    }
}
