//! Context lengths on the command line: `64,128,256`, or doubled from one to another as `64..8192`, or both.

use std::str::FromStr;

/// Context lengths in the order in which they were named, each once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contexts(pub Vec<usize>);

/// What of a list of context lengths cannot be read.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum ContextsError {
    #[error("'{0}' is no context length: whole numbers from 1 on, joined by commas, or doubled from A to B as A..B")]
    Number(String),
    #[error("'{0}' has nothing in it: it doubles from the first number up to the second, as 64..1024 does")]
    Backwards(String),
}

impl FromStr for Contexts {
    type Err = ContextsError;

    fn from_str(text: &str) -> Result<Self, ContextsError> {
        let number = |part: &str| match part.trim().parse::<usize>() {
            Ok(number) if number > 0 => Ok(number),
            _ => Err(ContextsError::Number(part.trim().into())),
        };
        let mut contexts = Vec::new();
        let mut add = |context: usize| {
            if !contexts.contains(&context) {
                contexts.push(context);
            }
        };
        for part in text.split(',') {
            match part.split_once("..") {
                None => add(number(part)?),
                Some((first, last)) => {
                    let (first, last) = (number(first)?, number(last)?);
                    if first > last {
                        return Err(ContextsError::Backwards(part.trim().into()));
                    }
                    let doubled = std::iter::successors(Some(first), |&context| context.checked_mul(2));
                    doubled.take_while(|&context| context <= last).for_each(&mut add);
                }
            }
        }
        Ok(Self(contexts))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_and_doubling_ranges_are_read_in_order_and_each_length_once() {
        for (text, expected) in [
            ("64", &[64][..]),
            ("64,128,256", &[64, 128, 256]),
            ("64..512", &[64, 128, 256, 512]),
            ("64..600", &[64, 128, 256, 512]),
            ("100..100", &[100]),
            ("512, 64..256", &[512, 64, 128, 256]),
            ("64,128..1024", &[64, 128, 256, 512, 1024]),
            ("128,64..256,128", &[128, 64, 256]),
            ("9223372036854775808..18446744073709551615", &[1 << 63]),
        ] {
            assert_eq!(text.parse(), Ok(Contexts(expected.to_vec())), "{text}");
        }
    }

    #[test]
    fn what_is_no_context_length_is_named() {
        for (text, named) in [
            ("", "''"),
            ("64,", "''"),
            ("0", "'0'"),
            ("64,-1", "'-1'"),
            ("64..", "''"),
            ("1e3", "'1e3'"),
            ("6 4", "'6 4'"),
        ] {
            let error = text.parse::<Contexts>().unwrap_err().to_string();
            assert!(error.starts_with(&format!("{named} is no context length: ")), "{text}: {error}");
        }
        let error = "512..64".parse::<Contexts>().unwrap_err().to_string();
        assert!(error.starts_with("'512..64' has nothing in it: "), "{error}");
    }
}
