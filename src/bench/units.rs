//! Bytes, seconds and ratios as people read them.

/// A number of bytes with the unit that leaves it below 1024: `402.0 KiB`.
pub fn bytes(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut value = bytes as f64 / 1024.0;
    let mut unit = 0;
    // What would be printed as 1024.0 is 1.0 of the next unit.
    while value >= 1023.95 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{value:.1} {}", UNITS[unit])
}

/// A time to three digits: `1.23 ms`. What is no time, zero among it, is `n/a`: nothing takes none.
pub fn seconds(seconds: f64) -> String {
    if !(seconds.is_finite() && seconds > 0.0) {
        return "n/a".into();
    }
    const UNITS: [(f64, &str); 4] = [(1e-9, "ns"), (1e-6, "us"), (1e-3, "ms"), (1.0, "s")];
    // The largest unit of which there is one, once rounded.
    let (scale, unit) = UNITS.into_iter().rev().find(|(scale, _)| seconds >= scale * 0.9995).unwrap_or(UNITS[0]);
    format!("{} {unit}", digits(seconds / scale))
}

/// How many times something grew: `4.0x`.
pub fn growth(factor: f64) -> String {
    format!("{factor:.1}x")
}

/// A ratio of two costs: `0.62x`.
pub fn ratio(ratio: f64) -> String {
    match ratio.is_finite() {
        true => format!("{}x", digits(ratio)),
        false => "n/a".into(),
    }
}

/// Three digits, and those before the point where there are more.
fn digits(value: f64) -> String {
    let decimals = match value.abs() {
        value if value >= 99.95 => 0,
        value if value >= 9.995 => 1,
        _ => 2,
    };
    format!("{value:.decimals$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_have_the_unit_that_keeps_them_short() {
        for (number, text) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.0 KiB"),
            (411_648, "402.0 KiB"),
            ((1 << 20) - 1, "1.0 MiB"),
            (128 << 20, "128.0 MiB"),
            (17_179_869_184, "16.0 GiB"),
            (u64::MAX, "16384.0 PiB"),
        ] {
            assert_eq!(bytes(number), text, "{number}");
        }
    }

    #[test]
    fn times_have_three_digits_and_are_never_nothing() {
        for (time, text) in [
            (1.2345e-3, "1.23 ms"),
            (12.345e-3, "12.3 ms"),
            (0.99999e-3, "1.00 ms"),
            (123.45e-6, "123 us"),
            (2.5e-9, "2.50 ns"),
            (1e-12, "0.00 ns"),
            (75.0, "75.0 s"),
            (0.0, "n/a"),
            (-1.0, "n/a"),
            (f64::NAN, "n/a"),
            (f64::INFINITY, "n/a"),
        ] {
            assert_eq!(seconds(time), text, "{time}");
        }
    }

    #[test]
    fn ratios_have_three_digits() {
        for (value, text) in
            [(0.618, "0.62x"), (9.999, "10.0x"), (85.33, "85.3x"), (1365.3, "1365x"), (f64::NAN, "n/a")]
        {
            assert_eq!(ratio(value), text);
        }
    }
}
