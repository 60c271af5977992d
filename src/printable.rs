//! Text that a file or a flag brought in, made safe to show in an error.

/// `text` on one line: what a terminal would obey, or would not show, is written as an escape, and what is longer than
/// `limit` characters is cut.
pub fn printable(text: &str, limit: usize) -> String {
    let mut shown = String::new();
    for (count, character) in text.chars().enumerate() {
        if count == limit {
            shown.push_str("...");
            break;
        }
        match character {
            '\\' | '\'' | '"' => shown.push(character),
            _ => shown.extend(character.escape_debug()),
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_would_obey_is_shown_as_an_escape() {
        for (text, shown) in [
            ("plain \"quoted\" it's \\ \u{e9}\u{4e2d}", "plain \"quoted\" it's \\ \u{e9}\u{4e2d}"),
            ("a\u{1b}[31mb", "a\\u{1b}[31mb"),
            ("a\nb\tc\r\0", "a\\nb\\tc\\r\\0"),
            ("\u{9b}1m\u{7f}", "\\u{9b}1m\\u{7f}"),
            ("\u{202e}txt.exe\u{2028}", "\\u{202e}txt.exe\\u{2028}"),
        ] {
            assert_eq!(printable(text, 100), shown);
        }
    }

    #[test]
    fn a_long_text_is_cut_at_a_character() {
        assert_eq!(printable("\u{e9}\u{e9}\u{e9}", 3), "\u{e9}\u{e9}\u{e9}");
        assert_eq!(printable("\u{e9}\u{e9}\u{e9}\u{e9}", 3), "\u{e9}\u{e9}\u{e9}...");
    }
}
