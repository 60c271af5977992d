//! Foreign text inside SVG and HTML.

/// `text` as it may stand in an element or in a quoted attribute of HTML or XML: what ends either is written as a
/// reference, and what XML 1.0 forbids (section 2.2) as U+FFFD.
pub fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            '\t' | '\n' | '\r' => escaped.push(character),
            '\0'..='\u{1f}' | '\u{fffe}' | '\u{ffff}' => escaped.push(char::REPLACEMENT_CHARACTER),
            _ => escaped.push(character),
        }
    }
    escaped
}

/// JSON as it may stand in a `script` element, whose end HTML looks for without knowing of strings: no `<`, `>` or `&`
/// is left, and JSON has them in strings only.
pub fn inert_json(json: &str) -> String {
    json.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::maps::picture::examples::HOSTILE;

    #[test]
    fn nothing_that_ends_an_element_or_an_attribute_is_left() {
        for text in HOSTILE {
            let escaped = escaped(text);
            assert!(!escaped.contains(['<', '>', '"', '\'', '\0', '\u{1b}']), "{escaped}");
            assert!(
                !escaped
                    .replace("&amp;", "")
                    .replace("&lt;", "")
                    .replace("&gt;", "")
                    .replace("&quot;", "")
                    .replace("&#39;", "")
                    .contains('&')
            );
        }
        assert_eq!(escaped("a<b & \"c\""), "a&lt;b &amp; &quot;c&quot;");
    }

    #[test]
    fn json_in_a_script_element_reads_back_and_holds_no_tag() {
        for text in HOSTILE {
            let json = inert_json(&serde_json::to_string(text).unwrap());
            assert!(!json.contains(['<', '>', '&']), "{json}");
            assert_eq!(serde_json::from_str::<String>(&json).unwrap(), text);
        }
    }
}
