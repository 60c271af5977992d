//! Bytes as text (RFC 4648, section 4).

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Appends the letters of `bytes`.
pub fn push(text: &mut String, bytes: &[u8]) {
    text.reserve(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let of = |at: usize| u32::from(group.get(at).copied().unwrap_or(0));
        let word = of(0) << 16 | of(1) << 8 | of(2);
        for letter in 0..4 {
            // Three bytes are four letters, two are three, one is two.
            match letter <= group.len() {
                true => text.push(char::from(ALPHABET[(word >> (18 - 6 * letter) & 63) as usize])),
                false => text.push('='),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_examples_of_the_standard_hold() {
        // RFC 4648, section 10.
        for (bytes, expected) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("fooba", "Zm9vYmE="),
            ("foobar", "Zm9vYmFy"),
        ] {
            let mut text = String::new();
            push(&mut text, bytes.as_bytes());
            assert_eq!(text, expected);
        }
        let mut text = String::new();
        push(&mut text, &[0xfb, 0xff, 0xbf]);
        assert_eq!(text, "+/+/");
    }
}
