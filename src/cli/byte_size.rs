//! Numbers of bytes on the command line: `1000000`, `512MiB`, `2GiB`.

use std::str::FromStr;

/// A number of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ByteSize(pub u64);

/// What is no number of bytes.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is no number of bytes: a whole number, alone or followed by KiB, MiB, GiB or TiB")]
pub struct NoByteSize(String);

impl FromStr for ByteSize {
    type Err = NoByteSize;

    fn from_str(text: &str) -> Result<Self, NoByteSize> {
        let refused = || NoByteSize(text.into());
        let digits = text.trim_end_matches(|character: char| !character.is_ascii_digit());
        let shift = match &text[digits.len()..] {
            "" => 0,
            "KiB" => 10,
            "MiB" => 20,
            "GiB" => 30,
            "TiB" => 40,
            _ => return Err(refused()),
        };
        let number: u64 = digits.parse().map_err(|_| refused())?;
        number.checked_mul(1 << shift).map(Self).ok_or_else(refused)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_powers_of_1024_and_anything_else_is_refused() {
        for (text, bytes) in [("0", 0), ("1000", 1000), ("3KiB", 3072), ("512MiB", 512 << 20), ("2GiB", 2 << 30)] {
            assert_eq!(text.parse(), Ok(ByteSize(bytes)), "{text}");
        }
        for text in ["", "GiB", "1 GiB", "1GB", "-1", "1.5GiB", "99999999TiB", "1\u{663}"] {
            assert_eq!(text.parse::<ByteSize>(), Err(NoByteSize(text.into())));
        }
    }
}
