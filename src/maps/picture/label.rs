//! Labels of tokens: short, of one line, and different for different tokens, whatever a token is made of.
//!
//! | token | label |
//! |---|---|
//! | a space, tab, newline, no-break space | `␣` `⇥` `⏎` `⍽` |
//! | another control character of ASCII | its control picture, such as `␛` |
//! | what has no shape of its own: other spaces, joiners, marks of direction, unassigned | its code, such as `⟨U+202E⟩` |
//! | one of the marks above, standing in the text itself | its code too, so that no two tokens share a label |
//! | nothing | `∅` |

use unicode_width::UnicodeWidthChar;

/// What stands for an empty token.
const EMPTY: char = '∅';

/// What ends a label that was cut.
const CUT: char = '…';

/// How many combining marks a letter may carry before they are shown as codes: more would climb over other lines.
const MARKS_A_LETTER: usize = 2;

/// The whole label of a token.
///
/// Two tokens have the same label only if they are the same.
pub fn label(token: &str) -> String {
    if token.is_empty() {
        return EMPTY.into();
    }
    let mut label = String::with_capacity(token.len());
    // How many more combining marks the letter before can carry.
    let mut room = 0;
    for character in token.chars() {
        if is_combining(character) && room > 0 {
            room -= 1;
            label.push(character);
            continue;
        }
        room = if push(&mut label, character) { MARKS_A_LETTER } else { 0 };
    }
    label
}

/// A name or a sentence that may hold any characters, as one line. A space needs no mark there.
pub fn in_one_line(text: &str) -> String {
    if text.is_empty() { String::new() } else { label(text).replace('␣', " ") }
}

/// The label of a token, cut to at most `columns` columns of a terminal. A label that was cut ends with `…`.
pub fn label_within(token: &str, columns: usize) -> String {
    cut(&label(token), columns)
}

/// A label that takes at most so many columns. One that was cut ends with `…`.
pub fn cut(whole: &str, columns: usize) -> String {
    if width(whole) <= columns {
        return whole.to_string();
    }
    let mut cut = String::new();
    let mut used = 1;
    for character in whole.chars() {
        used += character_width(character);
        if used > columns {
            break;
        }
        cut.push(character);
    }
    if columns > 0 {
        cut.push(CUT);
    }
    cut
}

/// How many columns of a terminal a label takes.
pub fn width(label: &str) -> usize {
    label.chars().map(character_width).sum()
}

fn character_width(character: char) -> usize {
    character.width().unwrap_or(0)
}

/// A character by its code.
pub fn code(character: char) -> String {
    format!("⟨U+{:04X}⟩", u32::from(character))
}

/// Appends a character that is not drawn onto the one before; tells whether it stands there as itself.
fn push(label: &mut String, character: char) -> bool {
    match character {
        ' ' => label.push('␣'),
        '\t' => label.push('⇥'),
        '\n' => label.push('⏎'),
        '\u{a0}' => label.push('⍽'),
        '\u{7f}' => label.push('␡'),
        '\0'..='\u{1f}' => {
            label.push(char::from_u32(0x2400 + u32::from(character)).unwrap_or(char::REPLACEMENT_CHARACTER))
        }
        // What labels are made of must not be taken for what it stands for.
        '␣' | '⇥' | '⏎' | '⍽' | '\u{2400}'..='\u{2421}' | '⟨' | '⟩' | EMPTY => {
            label.push_str(&code(character))
        }
        _ if is_printable(character) => {
            label.push(character);
            return true;
        }
        _ => label.push_str(&code(character)),
    }
    false
}

/// Whether a character is drawn on its own. The standard library's tables know what is not; letters that are blank by
/// design (fillers of Hangul, the blank of Braille) it takes for letters.
fn is_printable(character: char) -> bool {
    let blank = matches!(character, '\u{115f}' | '\u{1160}' | '\u{2800}' | '\u{3164}' | '\u{ffa0}');
    let quoted = matches!(character, '\\' | '\'' | '"');
    !blank && (quoted || character.escape_debug().nth(1).is_none()) && character.width() != Some(0)
}

/// Whether a character is drawn onto the letter before it. Selectors of a letter's form are drawn nowhere.
fn is_combining(character: char) -> bool {
    let invisible =
        matches!(character, '\u{200b}'..='\u{200f}' | '\u{34f}' | '\u{fe00}'..='\u{fe0f}' | '\u{e0000}'..='\u{e0fff}');
    let alone = character.escape_debug().nth(1).is_some();
    // Behind a letter, the standard library escapes no mark that extends it.
    alone && !invisible && !matches!(character, '\\' | '\'' | '"') && {
        let pair: String = ['a', character].iter().collect();
        pair.escape_debug().nth(2).is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    #[test]
    fn every_token_has_a_label_that_can_be_seen() {
        for (token, expected) in [
            ("a", "a"),
            (" ", "␣"),
            ("\t", "⇥"),
            ("\n", "⏎"),
            ("\u{a0}", "⍽"),
            ("", "∅"),
            ("\r\n", "␍⏎"),
            ("\u{1b}[31m", "␛[31m"),
            ("\u{7f}\u{9b}", "␡⟨U+009B⟩"),
            ("\u{202e}abc", "⟨U+202E⟩abc"),
            ("a\u{200d}b\u{200c}\u{feff}", "a⟨U+200D⟩b⟨U+200C⟩⟨U+FEFF⟩"),
            ("\u{2028}\u{3000}\u{3164}", "⟨U+2028⟩⟨U+3000⟩⟨U+3164⟩"),
            ("e\u{301}", "e\u{301}"),
            ("\u{301}", "⟨U+0301⟩"),
            ("e\u{301}\u{302}\u{303}", "e\u{301}\u{302}⟨U+0303⟩"),
            ("a b", "a␣b"),
            ("\"'\\", "\"'\\"),
            ("\u{e9}\u{4e2d}", "\u{e9}\u{4e2d}"),
            ("<b>&amp;", "<b>&amp;"),
            ("\u{fffe}", "⟨U+FFFE⟩"),
        ] {
            assert_eq!(label(token), expected, "{token:?}");
        }
    }

    #[test]
    fn no_two_tokens_share_a_label() {
        let mut tokens: Vec<String> =
            (0..0x3100).chain(0xfe00..0x1_0000).filter_map(char::from_u32).map(String::from).collect();
        tokens.extend(["", "\\u{1b}", "⟨U+202E⟩", "U+202E", "\\n", "\r\n"].map(String::from));
        let mut seen: HashMap<String, String> = HashMap::new();
        for token in tokens {
            let label = label(&token);
            assert!(width(&label) > 0, "{token:?} has a label that takes no room: {label:?}");
            assert!(!label.chars().any(char::is_whitespace), "{token:?} has a label with a gap: {label:?}");
            if let Some(other) = seen.insert(label, token.clone()) {
                panic!("{token:?} and {other:?} have the same label");
            }
        }
    }

    #[test]
    fn a_long_label_is_cut_by_what_a_terminal_shows() {
        for (token, columns, expected) in [
            ("abcdef", 6, "abcdef"),
            ("abcdef", 5, "abcd…"),
            ("\u{4e2d}\u{6587}\u{5b57}", 6, "\u{4e2d}\u{6587}\u{5b57}"),
            ("\u{4e2d}\u{6587}\u{5b57}", 4, "\u{4e2d}…"),
            ("\u{4e2d}", 1, "…"),
            ("\u{202e}", 4, "⟨U+…"),
            ("ab", 1, "…"),
            ("ab", 0, ""),
        ] {
            assert_eq!(label_within(token, columns), expected);
            assert!(width(expected) <= columns);
        }
    }
}
