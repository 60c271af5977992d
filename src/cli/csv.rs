//! Texts as fields of CSV files.

/// A text as a CSV field, on one line (RFC 4180, section 2).
pub fn quoted(text: &str) -> String {
    let line = text.replace(['\r', '\n'], " ");
    match line.contains([',', '"']) {
        true => format!("\"{}\"", line.replace('"', "\"\"")),
        false => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_end_a_field_is_quoted_and_a_field_is_one_line() {
        for (text, field) in [("", ""), ("a b", "a b"), ("a,b", "\"a,b\""), ("a\"b", "\"a\"\"b\""), ("a\r\nb", "a  b")]
        {
            assert_eq!(quoted(text), field);
        }
    }
}
