//! What a comparison showed, as the sentences that end it.

use super::{Comparison, Longest, Refusal, Row, Side};
use crate::bench::units;

/// The sentences below the tables: what was refused, the longest context that fits, and growth, which comes last.
pub fn closing(comparison: &Comparison) -> Vec<String> {
    let mut lines = refusals(&comparison.rows);
    lines.extend(longest(comparison));
    lines.push(growth(&comparison.rows));
    lines
}

/// A form of attention, and how its side of a row is found.
type Form = (&'static str, fn(&Row) -> &Side);

const FORMS: [Form; 2] = [("naive", |row| &row.naive), ("fused", |row| &row.fused)];

/// A line for each form that some length was refused of, with the reason of the shortest.
fn refusals(rows: &[Row]) -> Vec<String> {
    let line = |(name, side): &Form| {
        let refused: Vec<(u64, &Refusal)> =
            rows.iter().filter_map(|row| Some((row.context_length, side(row).refusal()?))).collect();
        let (first, reason) = refused.first()?;
        let others = match refused.len() {
            1 => String::new(),
            2 => format!("; refused at T={} too", refused[1].0),
            _ => format!("; refused at the {} longer ones too", refused.len() - 1),
        };
        Some(format!("{name} was refused at T={first}: {reason}{others}"))
    };
    FORMS.iter().filter_map(line).collect()
}

/// How long a context fits, a line a form.
fn longest(comparison: &Comparison) -> Vec<String> {
    let forms = [("naive", comparison.longest_naive.as_ref()), ("fused", comparison.longest_fused.as_ref())];
    let line = |(name, longest): (&str, Option<&Longest>)| {
        let Longest { context_length, refusal } = longest?;
        let fits = match context_length {
            0 => format!("no context fits {name} attention here"),
            length => format!("the longest context that fits {name} attention here is T={length}"),
        };
        Some(match refusal {
            None => format!("{fits}, and perhaps more: nobody looked further"),
            Some(refusal) => format!("{fits}; at T={} {refusal}", context_length + 1),
        })
    };
    forms.into_iter().filter_map(line).collect()
}

/// How bytes and time grew between the two longest lengths that both forms ran at.
fn growth(rows: &[Row]) -> String {
    let ran = |row: &&Row| row.naive.measured().is_some() && row.fused.measured().is_some();
    let mut both: Vec<&Row> = rows.iter().filter(ran).collect();
    both.sort_by_key(|row| row.context_length);
    let [.., shorter, longer] = both[..] else {
        return match both.first() {
            Some(row) => format!("both ran at T={} alone: growth takes two lengths", row.context_length),
            None => "no length ran in both forms".into(),
        };
    };
    let grew = |of: &dyn Fn(&Row) -> Option<f64>| {
        let (before, after) = (of(shorter)?, of(longer)?);
        (before > 0.0).then(|| units::growth(after / before))
    };
    let bytes = |side: &Side| side.bytes().map(|bytes| bytes as f64);
    let seconds = |side: &Side| side.time().map(|time| time.median);
    let scores = grew(&|row| row.naive.predicted.map(|bytes| bytes.scores as f64));
    let kept = grew(&|row| row.fused.predicted.map(|bytes| bytes.statistics as f64));
    // A time that may as well have stayed the same has not grown so many times.
    let is_clear = |side: fn(&Row) -> &Side| match (side(shorter).time(), side(longer).time()) {
        (Some(before), Some(after)) => before.high < after.low || after.high < before.low,
        _ => false,
    };
    let is_clear = is_clear(|row| &row.naive) && is_clear(|row| &row.fused);
    let parts = [
        scores.zip(kept).map(|(scores, kept)| format!("naive scores grew {scores}, what fused keeps {kept}")),
        grew(&|row| bytes(&row.naive))
            .zip(grew(&|row| bytes(&row.fused)))
            .map(|(naive, fused)| format!("all bytes {naive} and {fused}")),
        grew(&|row| seconds(&row.naive)).zip(grew(&|row| seconds(&row.fused))).map(|(naive, fused)| match is_clear {
            true => format!("time {naive} and {fused}"),
            false => "time by no more than noise".into(),
        }),
    ];
    let (from, to) = (shorter.context_length, longer.context_length);
    let times_longer = match to == 2 * from {
        true => String::new(),
        false => format!(" ({} as long)", units::growth(to as f64 / from as f64)),
    };
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    format!("from T={from} to {to}{times_longer} {}", parts.join("; "))
}

#[cfg(test)]
mod tests {
    use super::super::tests::{comparison, refused_row, row};
    use super::super::{Longest, Outcome};
    use super::*;

    #[test]
    fn the_last_line_says_how_bytes_and_time_grew() {
        for (rows, last) in [
            (vec![], "no length ran in both forms"),
            (vec![refused_row(4096)], "no length ran in both forms"),
            (vec![row(64), refused_row(4096)], "both ran at T=64 alone: growth takes two lengths"),
            (
                vec![row(64), row(512), row(1024), refused_row(4096)],
                "from T=512 to 1024 naive scores grew 4.0x, what fused keeps 2.0x; all bytes 3.7x and 2.0x; time 4.0x and \
                 3.2x",
            ),
            (
                vec![row(1024), row(512), row(2896)],
                "from T=1024 to 2896 (2.8x as long) naive scores grew 8.0x, what fused keeps 2.8x; all bytes 7.6x and \
                 2.8x; time 8.0x and 7.4x",
            ),
        ] {
            assert_eq!(closing(&comparison(rows)).last().unwrap(), last);
        }
    }

    #[test]
    fn what_was_refused_is_told_once_a_form_with_its_reason() {
        let told = |lengths: &[u64]| {
            let rows = lengths.iter().map(|&length| refused_row(length)).collect();
            refusals(&comparison(rows).rows)
        };
        let reason = "'scores' needs 268435456 bytes in one binding, the adapter binds at most 134217728";
        assert_eq!(told(&[]), Vec::<String>::new());
        assert_eq!(told(&[4096]), [format!("naive was refused at T=4096: {reason}")]);
        assert_eq!(told(&[4096, 8192]), [format!("naive was refused at T=4096: {reason}; refused at T=8192 too")]);
        let many = told(&[4096, 8192, 16384]);
        assert_eq!(many, [format!("naive was refused at T=4096: {reason}; refused at the 2 longer ones too")]);
        let mut both = refused_row(4096);
        both.fused.outcome = Outcome::Refused(Refusal::Memory { bytes: 9, available: 5 });
        assert_eq!(refusals(&[both])[1], "fused was refused at T=4096: it needs 9 bytes of memory and 5 are available");
    }

    #[test]
    fn the_longest_context_of_each_form_is_named_with_what_ends_it() {
        let mut comparison = comparison(vec![row(64)]);
        assert!(longest(&comparison).is_empty());
        let refusal = Refusal::Binding { tensor: "scores".into(), bytes: 134_281_744, limit: 128 << 20 };
        comparison.longest_naive = Some(Longest { context_length: 2896, refusal: Some(refusal) });
        comparison.longest_fused = Some(Longest { context_length: 1 << 20, refusal: None });
        assert_eq!(
            longest(&comparison),
            [
                "the longest context that fits naive attention here is T=2896; at T=2897 'scores' needs 134281744 bytes \
                 in one binding, the adapter binds at most 134217728",
                "the longest context that fits fused attention here is T=1048576, and perhaps more: nobody looked further",
            ]
        );
        let refusal = Some(Refusal::Other("it does not run".into()));
        comparison.longest_naive = Some(Longest { context_length: 0, refusal });
        assert_eq!(longest(&comparison)[0], "no context fits naive attention here; at T=1 it does not run");
    }
}
