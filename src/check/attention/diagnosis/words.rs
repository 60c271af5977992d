//! Numbers and places as sentences have them.

use crate::check::attention::measures::Extreme;

/// A number for a sentence: four digits that count.
pub fn number(value: f64) -> String {
    let size = value.abs();
    match () {
        // Of both zeros.
        () if value == 0.0 => "0".into(),
        () if !value.is_finite() => format!("{value}"),
        () if !(1e-3..1e5).contains(&size) => format!("{value:.1e}"),
        () => {
            let digits = (3 - size.log10().floor() as i32).clamp(1, 5) as usize;
            let text = format!("{value:.digits$}");
            // At least one digit stays behind the point.
            let short = text.trim_end_matches('0');
            if short.ends_with('.') { format!("{short}0") } else { short.into() }
        }
    }
}

/// Two numbers, with as many digits as tell them apart.
pub fn span_words(least: f64, largest: f64) -> [String; 2] {
    let short = [least, largest].map(number);
    if short[0] != short[1] || (largest - least).abs() <= 1e-9 * largest.abs() {
        return short;
    }
    [least, largest].map(|value| format!("{value:.10}"))
}

pub(super) fn percent(share: f64) -> String {
    format!("{:.0}%", 100.0 * share)
}

pub(super) fn row(extreme: &Extreme) -> String {
    format!("head {}, row {}", extreme.head, extreme.line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short_and_keep_the_digits_that_count() {
        for (value, text) in [
            (8.0, "8.0"),
            (0.617_44, "0.6174"),
            (1.0 / 512.0, "0.00195"),
            (512.0, "512.0"),
            (0.0, "0"),
            (-0.0, "0"),
            (1e-4, "1.0e-4"),
            (f64::NAN, "NaN"),
            (1.25e7, "1.2e7"),
        ] {
            assert_eq!(number(value), text);
        }
    }
}
