//! `memory.svg` and `time.svg`: what naive and fused attention take over the context length, both axes logarithmic.

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use crate::bench::compare::{Comparison, Longest, Quantity, Row, Side};
use crate::bench::units;

/// Width and height of the picture, in its own units.
const SIZE: (u32, u32) = (960, 600);

const INK: RGBColor = RGBColor(33, 37, 41);
const FAINT: RGBColor = RGBColor(233, 236, 239);
const GUIDE: RGBColor = RGBColor(110, 118, 126);
// Vermillion and blue of Okabe and Ito's palette: apart for every kind of colour blindness, and in brightness.
const NAIVE: RGBColor = RGBColor(213, 94, 0);
const FUSED: RGBColor = RGBColor(0, 76, 140);

/// The drawing itself failed.
#[derive(Debug, thiserror::Error)]
#[error("the chart cannot be drawn: {reason}")]
pub struct ChartError {
    reason: String,
}

impl<E: std::error::Error + Send + Sync> From<DrawingAreaErrorKind<E>> for ChartError {
    fn from(error: DrawingAreaErrorKind<E>) -> Self {
        Self { reason: error.to_string() }
    }
}

type Root<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// One form of attention in the picture.
struct Curve {
    name: &'static str,
    colour: RGBColor,
    /// Filled circles, or else open squares: told apart without colour.
    filled: bool,
    points: Vec<Point>,
    /// Where it ends, if that is known.
    end: Option<End>,
}

/// A measured value, and how uncertain it is.
#[derive(Clone, Copy)]
struct Point {
    length: f64,
    value: f64,
    low: f64,
    high: f64,
    /// Whether it was only predicted, since the run was refused.
    is_refused: bool,
}

/// Where a form of attention ends on this adapter.
struct End {
    /// The longest context that fits, or the longest that ran.
    length: f64,
    words: String,
}

/// The text of an SVG picture of one quantity. What is refused, not measured or no positive number has no point.
pub fn compare_chart(comparison: &Comparison, quantity: Quantity) -> Result<String, ChartError> {
    let (naive, fused) = (comparison.longest_naive.as_ref(), comparison.longest_fused.as_ref());
    let curves = [
        curve(("naive", NAIVE, true), &comparison.rows, quantity, naive, |row| &row.naive),
        curve(("fused", FUSED, false), &comparison.rows, quantity, fused, |row| &row.fused),
    ];
    let mut lengths: Vec<f64> = comparison.rows.iter().map(|row| row.context_length.max(1) as f64).collect();
    lengths.sort_by(f64::total_cmp);
    lengths.dedup();

    let mut svg = String::new();
    {
        let root = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
        root.fill(&WHITE)?;
        let what = match quantity {
            Quantity::Bytes => "Memory",
            Quantity::Time => "Time",
        };
        let title = format!("{what} of naive and fused attention, {}", comparison.shape());
        root.draw(&Text::new(printable(&title, 96), (MARGIN_LEFT, 22), text(20, INK, HPos::Left)))?;
        root.draw(&Text::new(printable(&comparison.device, 104), (MARGIN_LEFT, 46), text(15, GUIDE, HPos::Left)))?;
        draw_legend(&root, &curves)?;
        let guides = guides(&curves, &lengths);
        let frame = Frame::new(&lengths, &curves, &guides);
        frame.draw_mesh(&root, &lengths, quantity)?;
        frame.draw_guides(&root, &guides)?;
        frame.draw_ends(&root, &curves)?;
        for curve in &curves {
            frame.draw_curve(&root, curve)?;
        }
        if curves.iter().all(|curve| curve.points.is_empty()) {
            let middle = ((frame.left + frame.right) / 2, (frame.top + frame.bottom) / 2);
            root.draw(&Text::new("nothing was measured", middle, text(16, GUIDE, HPos::Center)))?;
        }
        root.present()?;
    }
    Ok(svg)
}

const MARGIN_LEFT: i32 = 84;
const MARGIN_RIGHT: i32 = 150;
/// Where the plot begins below the title, the adapter and the legend, and how high a line on an end is.
const MARGIN_TOP: i32 = 96;
const END_HEIGHT: i32 = 20;
const MARGIN_BOTTOM: i32 = 60;

fn curve(
    (name, colour, filled): (&'static str, RGBColor, bool),
    rows: &[Row],
    quantity: Quantity,
    longest: Option<&Longest>,
    side: impl Fn(&Row) -> &Side,
) -> Curve {
    let mut points: Vec<Point> = rows.iter().filter_map(|row| point(row, side(row), quantity)).collect();
    points.sort_by(|a, b| a.length.total_cmp(&b.length));
    let end = end(name, rows, longest, side);
    Curve { name, colour, filled, points, end }
}

/// How far beyond the longest context of the rows an end is still drawn.
const SIGHT: u64 = 2;

/// Where a form ends: at the longest context that fits where that is known, agrees with the rows and is near them, else
/// at the longest that ran.
fn end(name: &str, rows: &[Row], longest: Option<&Longest>, side: impl Fn(&Row) -> &Side) -> Option<End> {
    let refused = rows.iter().filter_map(|row| Some((row.context_length, side(row).refusal()?)));
    let refused = refused.min_by_key(|(length, _)| *length);
    let ran = rows.iter().filter(|row| side(row).measured().is_some()).map(|row| row.context_length).max();
    let last = rows.iter().map(|row| row.context_length).max()?;
    if let Some(Longest { context_length, refusal: Some(refusal) }) = longest
        && (ran.unwrap_or(1)..=last.saturating_mul(SIGHT)).contains(context_length)
        && refused.is_none_or(|(length, _)| length > *context_length)
    {
        let words = format!("{name} ends here, at T={context_length}. T={}: {}", context_length + 1, refusal.short());
        return Some(End { length: *context_length as f64, words });
    }
    let (length, refusal) = refused?;
    Some(match ran {
        Some(ran) => End {
            length: ran.max(1) as f64,
            words: format!("{name} ends here, at T={ran}. T={length}: {}", refusal.short()),
        },
        None => {
            End { length: length.max(1) as f64, words: format!("{name} does not run. T={length}: {}", refusal.short()) }
        }
    })
}

fn point(row: &Row, side: &Side, quantity: Quantity) -> Option<Point> {
    let (value, low, high) = match quantity {
        Quantity::Time => {
            let time = side.time()?;
            (time.median, time.low, time.high)
        }
        Quantity::Bytes => {
            let bytes = side.bytes()? as f64;
            (bytes, bytes, bytes)
        }
    };
    let length = row.context_length.max(1) as f64;
    let drawable = [value, low, high].iter().all(|number| number.is_finite() && *number > 0.0);
    drawable.then_some(Point { length, value, low, high, is_refused: side.refusal().is_some() })
}

/// A dashed line that shows what a power of T looks like.
struct Guide {
    label: [String; 2],
    from: (f64, f64),
    to: (f64, f64),
}

/// Lines of slope 1 and 2 from one point below all curves, across all lengths and ends. None where there are not two
/// lengths, or nothing was measured.
fn guides(curves: &[Curve], lengths: &[f64]) -> Vec<Guide> {
    let (Some(&first), Some(&last)) = (lengths.first(), lengths.last()) else { return Vec::new() };
    let start = curves.iter().filter_map(|curve| curve.points.first());
    // Where a curve begins later, what a line of slope 1 through its first point would have been at the first length.
    let start = start.map(|point| point.low * first / point.length).fold(f64::INFINITY, f64::min) / 4.0;
    if first == last || !start.is_finite() {
        return Vec::new();
    }
    let last = curves.iter().filter_map(|curve| curve.end.as_ref()).map(|end| end.length).fold(last, f64::max);
    let guide = |slope: i32, label: [&str; 2]| Guide {
        label: label.map(String::from),
        from: (first, start),
        to: (last, start * (last / first).powi(slope)),
    };
    vec![guide(2, ["slope 2: twice T,", "four times as much"]), guide(1, ["slope 1: twice T,", "twice as much"])]
}

/// The plot: where it lies in the picture, and the logarithms that its edges stand for.
struct Frame {
    left: i32,
    right: i32,
    top: i32,
    bottom: i32,
    x: (f64, f64),
    y: (f64, f64),
}

impl Frame {
    fn new(lengths: &[f64], curves: &[Curve], guides: &[Guide]) -> Self {
        let ends = curves.iter().filter(|curve| curve.end.is_some()).count() as i32;
        let lengths = lengths.iter().chain(curves.iter().filter_map(|curve| curve.end.as_ref()).map(|end| &end.length));
        let values = curves.iter().flat_map(|curve| &curve.points).flat_map(|point| [point.low, point.high]);
        let values = values.chain(guides.iter().flat_map(|guide| [guide.from.1, guide.to.1]));
        Self {
            left: MARGIN_LEFT,
            right: SIZE.0 as i32 - MARGIN_RIGHT,
            top: MARGIN_TOP + ends * END_HEIGHT,
            bottom: SIZE.1 as i32 - MARGIN_BOTTOM,
            x: log_range(lengths.copied(), 64.0),
            y: log_range(values, 1.0),
        }
    }

    fn place(&self, (length, value): (f64, f64)) -> (i32, i32) {
        let share = |logarithm: f64, (low, high): (f64, f64)| (logarithm - low) / (high - low);
        let along = share(length.log2(), self.x) * f64::from(self.right - self.left);
        let up = share(value.log2(), self.y) * f64::from(self.bottom - self.top);
        (self.left + along.round() as i32, self.bottom - up.round() as i32)
    }

    fn draw_mesh(&self, root: &Root, lengths: &[f64], quantity: Quantity) -> Result<(), ChartError> {
        for (value, label) in ticks(self.y, quantity) {
            let (_, height) = self.place((1.0, value));
            root.draw(&PathElement::new([(self.left, height), (self.right, height)], FAINT))?;
            root.draw(&Text::new(label, (self.left - 8, height), text(14, INK, HPos::Right)))?;
        }
        // Every length has its tick; a label that would touch the one before is left out.
        let mut free_from = i32::MIN;
        for &length in lengths {
            let (at, _) = self.place((length, 1.0));
            root.draw(&PathElement::new([(at, self.top), (at, self.bottom)], FAINT))?;
            let label = length.to_string();
            let half = 5 * label.len() as i32;
            if at - half >= free_from {
                root.draw(&Text::new(label, (at, self.bottom + 16), text(14, INK, HPos::Center)))?;
                free_from = at + half + 4;
            }
        }
        let corners = [(self.left, self.top), (self.left, self.bottom), (self.right, self.bottom)];
        root.draw(&PathElement::new(corners, INK))?;
        let middle = ((self.left + self.right) / 2, self.bottom + 42);
        root.draw(&Text::new("context length T, positions", middle, text(15, INK, HPos::Center)))?;
        Ok(())
    }

    fn draw_guides(&self, root: &Root, guides: &[Guide]) -> Result<(), ChartError> {
        let mut free_from = i32::MIN;
        for guide in guides {
            let (from, to) = (self.place(guide.from), self.place(guide.to));
            dashed(root, from, to, (7, 5), GUIDE.stroke_width(1))?;
            let height = to.1.max(free_from);
            for (line, words) in (0..).zip(&guide.label) {
                let place = (self.right + 8, height + 16 * line);
                root.draw(&Text::new(words.clone(), place, text(13, GUIDE, HPos::Left)))?;
            }
            free_from = height + 40;
        }
        Ok(())
    }

    /// A dotted line down from the words that say why a form ends there; the words stand above the plot, whole.
    fn draw_ends(&self, root: &Root, curves: &[Curve]) -> Result<(), ChartError> {
        let ends = curves.iter().filter_map(|curve| Some((curve, curve.end.as_ref()?)));
        for (row, (curve, end)) in (0..).zip(ends) {
            let (at, _) = self.place((end.length, 1.0));
            let height = MARGIN_TOP + row * END_HEIGHT;
            dashed(root, (at, height + 9), (at, self.bottom), (2, 4), curve.colour.stroke_width(2))?;
            let words = printable(&end.words, 110);
            // Half its width, by the widest letters that words are made of.
            let half = 4 * words.chars().count() as i32;
            let middle = at.clamp(half + 8, (SIZE.0 as i32 - half - 8).max(half + 8));
            root.draw(&Text::new(words, (middle, height), text(14, curve.colour, HPos::Center)))?;
        }
        Ok(())
    }

    fn draw_curve(&self, root: &Root, curve: &Curve) -> Result<(), ChartError> {
        let style = curve.colour.stroke_width(2);
        for pair in curve.points.windows(2) {
            let [from, to] = [0, 1].map(|end: usize| self.place((pair[end].length, pair[end].value)));
            match pair[1].is_refused {
                true => dashed(root, from, to, (2, 4), style)?,
                false => root.draw(&PathElement::new([from, to], style))?,
            }
        }
        for point in &curve.points {
            let [low, high] = [point.low, point.high].map(|value| self.place((point.length, value)));
            if high.1 < low.1 {
                root.draw(&PathElement::new([low, high], style))?;
            }
            draw_marker(root, curve, self.place((point.length, point.value)), point.is_refused)?;
        }
        Ok(())
    }
}

/// A filled circle or an open square; smaller and open where nothing ran.
fn draw_marker(root: &Root, curve: &Curve, (x, y): (i32, i32), is_refused: bool) -> Result<(), ChartError> {
    let style = curve.colour.stroke_width(2);
    if curve.filled {
        let radius = if is_refused { 4 } else { 5 };
        root.draw(&Circle::new((x, y), radius, WHITE.filled()))?;
        root.draw(&Circle::new((x, y), radius, if is_refused { style } else { curve.colour.filled() }))?;
        return Ok(());
    }
    let half = if is_refused { 3 } else { 5 };
    let corners = [(x - half, y - half), (x + half, y + half)];
    root.draw(&Rectangle::new(corners, WHITE.filled()))?;
    root.draw(&Rectangle::new(corners, style))?;
    Ok(())
}

/// One row under the title: what each curve is, and how far it goes.
fn draw_legend(root: &Root, curves: &[Curve]) -> Result<(), ChartError> {
    let is_refused = |point: &&Point| point.is_refused;
    let mut left = MARGIN_LEFT;
    for curve in curves {
        root.draw(&PathElement::new([(left, 72), (left + 30, 72)], curve.colour.stroke_width(2)))?;
        draw_marker(root, curve, (left + 15, 72), false)?;
        root.draw(&Text::new(curve.name, (left + 38, 72), text(15, INK, HPos::Left)))?;
        left += 120;
    }
    for curve in curves.iter().filter(|curve| curve.points.iter().any(|point| is_refused(&point))) {
        dashed(root, (left, 72), (left + 30, 72), (2, 4), curve.colour.stroke_width(2))?;
        draw_marker(root, curve, (left + 15, 72), true)?;
        let words = format!("{}: predicted, and refused", curve.name);
        root.draw(&Text::new(words, (left + 38, 72), text(15, INK, HPos::Left)))?;
        left += 270;
    }
    Ok(())
}

/// A line of strokes of the first length, with gaps of the second.
fn dashed(
    root: &Root,
    from: (i32, i32),
    to: (i32, i32),
    (stroke, gap): (i32, i32),
    style: ShapeStyle,
) -> Result<(), ChartError> {
    let (width, height) = (f64::from(to.0 - from.0), f64::from(to.1 - from.1));
    let length = width.hypot(height);
    let at = |along: f64| {
        let share = if length > 0.0 { (along / length).min(1.0) } else { 0.0 };
        (from.0 + (share * width).round() as i32, from.1 + (share * height).round() as i32)
    };
    let mut along = 0.0;
    while along < length {
        root.draw(&PathElement::new([at(along), at(along + f64::from(stroke))], style))?;
        along += f64::from(stroke + gap);
    }
    Ok(())
}

/// The binary logarithms of the least and the largest number with some room on both sides; around `default` where there
/// is none.
fn log_range(numbers: impl Iterator<Item = f64>, default: f64) -> (f64, f64) {
    let logarithms = numbers.filter(|number| number.is_finite() && *number > 0.0).map(f64::log2);
    let (low, high) = logarithms
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), logarithm| (low.min(logarithm), high.max(logarithm)));
    let (low, high) = if low > high { (default.log2(), default.log2()) } else { (low, high) };
    let room = (0.04 * (high - low)).max(0.3);
    (low - room, high + room)
}

/// Round values within a range of binary logarithms, at most ten, with their labels: powers of 2 for bytes, of 10 and
/// what lies between for times.
fn ticks((low, high): (f64, f64), quantity: Quantity) -> Vec<(f64, String)> {
    let inside = |value: f64| (low..=high).contains(&value.log2());
    match quantity {
        Quantity::Bytes => {
            let span = high - low;
            let step = [1, 2, 5, 10].into_iter().find(|&step| span / f64::from(step) <= 10.0).unwrap_or(20);
            let first = (low.max(0.0) / f64::from(step)).ceil() as i32;
            let values = (first..).map(|index| 2f64.powi(index * step)).take_while(|value| inside(*value)).take(20);
            values.map(|value| (value, round_bytes(value))).collect()
        }
        Quantity::Time => {
            let decades = |mantissas: &[f64], step: i32| -> Vec<f64> {
                let exponents = (-12..7).filter(|exponent| exponent % step == 0);
                let values = exponents.flat_map(|exponent| mantissas.iter().map(move |m| m * 10f64.powi(exponent)));
                values.filter(|value| inside(*value)).collect()
            };
            let choices =
                [decades(&[1.0, 2.0, 5.0], 1), decades(&[1.0, 3.0], 1), decades(&[1.0], 1), decades(&[1.0], 2)];
            let values = choices.into_iter().find(|values| values.len() <= 10).unwrap_or_default();
            values.into_iter().map(|value| (value, round_seconds(value))).collect()
        }
    }
}

/// A power of two of bytes, without a digit too many.
fn round_bytes(bytes: f64) -> String {
    units::bytes(bytes as u64).replace(".0 ", " ")
}

/// A time of one digit, without a digit too many.
fn round_seconds(seconds: f64) -> String {
    let (scale, unit) = match seconds {
        seconds if seconds < 0.99e-6 => (1e9, "ns"),
        seconds if seconds < 0.99e-3 => (1e6, "us"),
        seconds if seconds < 0.99 => (1e3, "ms"),
        _ => (1.0, "s"),
    };
    format!("{:.0} {unit}", seconds * scale)
}

fn text(size: i32, colour: RGBColor, anchor: HPos) -> TextStyle<'static> {
    ("sans-serif", size).into_font().color(&colour).pos(Pos::new(anchor, VPos::Center))
}

/// Text as XML can hold it, and short enough for its line.
fn printable(text: &str, limit: usize) -> String {
    let mut shown: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(limit).collect();
    if text.chars().nth(limit).is_some() {
        shown.push_str("...");
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::Clock;
    use crate::bench::compare::tests::{comparison, refused_row, row};
    use crate::bench::compare::{Measured, Outcome, Refusal, Time};

    fn sweep() -> Comparison {
        let rows = [64, 128, 256, 512, 1024, 2048].map(row).into_iter().chain([4096, 8192].map(refused_row));
        let mut comparison = comparison(rows.collect());
        let refusal = Refusal::Binding { tensor: "scores".into(), bytes: 134_281_744, limit: 128 << 20 };
        comparison.longest_naive = Some(Longest { context_length: 2896, refusal: Some(refusal) });
        comparison
    }

    #[test]
    fn both_quantities_are_drawn_with_guides_units_and_the_end_of_naive() {
        let comparison = sweep();
        let charts = [Quantity::Bytes, Quantity::Time].map(|quantity| compare_chart(&comparison, quantity).unwrap());
        for svg in &charts {
            for expected in [
                "of naive and fused attention, B=1, H=4, d_head=32, forward and backward",
                "llvmpipe (software adapter, vulkan, Mesa 22.3.6)",
                "context length T, positions",
                "slope 1: twice T,",
                "slope 2: twice T,",
                "naive ends here, at T=2896. T=2897: one tensor of 128.1 MiB, a binding holds 128.0 MiB",
                "\n8192\n",
            ] {
                assert!(svg.contains(expected), "{expected}: {svg}");
            }
        }
        assert!(charts[0].contains("1 MiB") && charts[0].contains("naive: predicted, and refused"));
        assert!(charts[1].contains("10 ms") && !charts[1].contains("predicted, and refused"));
    }

    #[test]
    fn nothing_that_rows_can_hold_breaks_the_picture() {
        let timed = |median: f64, low: f64, high: f64| {
            let mut row = row(64);
            let time = Time { median, low, high, samples: 1, clock: Clock::WallClock };
            row.naive.outcome = Outcome::Measured(Measured { bytes: Some(0), time: Some(time) });
            row
        };
        let mut refused = refused_row(64);
        refused.naive.predicted = None;
        refused.fused = refused.naive.clone();
        for (rows, is_empty) in [
            (vec![], true),
            (vec![refused.clone()], true),
            (vec![refused.clone(), refused_row(128)], false),
            (vec![row(64)], false),
            (vec![row(64), row(64)], false),
            (vec![row(0), row(1 << 24)], false),
            (vec![timed(0.0, 0.0, 0.0), row(128)], false),
            (vec![timed(f64::NAN, 1.0, f64::INFINITY)], false),
            (vec![timed(1e-300, 1e-300, 1e300)], false),
        ] {
            for quantity in [Quantity::Bytes, Quantity::Time] {
                let svg = compare_chart(&comparison(rows.clone()), quantity).unwrap();
                assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
                assert_eq!(svg.contains("nothing was measured"), is_empty, "{rows:?}");
                let numbers = svg.split(['"', ' ', ',']).filter_map(|word| word.parse::<f64>().ok());
                assert!(numbers.into_iter().all(|number| (0.0..=9000.0).contains(&number)), "{svg}");
            }
        }
    }

    #[test]
    fn the_end_is_drawn_where_it_is_near_and_where_it_agrees_with_the_rows() {
        let rows = |lengths: &[u64]| lengths.iter().map(|&length| row(length)).collect::<Vec<_>>();
        let at = |context_length| {
            let refusal = Some(Refusal::Other("it is full".into()));
            Some(Longest { context_length, refusal })
        };
        let refused = [rows(&[64]), vec![refused_row(128)]].concat();
        for (rows, longest, expected) in [
            (rows(&[64, 128]), at(200), Some((200.0, "naive ends here, at T=200. T=201: it is full"))),
            (rows(&[64, 128]), at(257), None),
            (rows(&[64, 128]), Some(Longest { context_length: 200, refusal: None }), None),
            (rows(&[64, 128]), None, None),
            (vec![], at(200), None),
            (refused.clone(), at(100), Some((100.0, "naive ends here, at T=100. T=101: it is full"))),
            // Memory that was short for a while: what happened counts.
            (refused.clone(), at(128), Some((64.0, "naive ends here, at T=64. T=128: one tensor of 256.0 KiB,"))),
            (refused, None, Some((64.0, "naive ends here, at T=64. T=128: one tensor of 256.0 KiB,"))),
        ] {
            let found = end("naive", &rows, longest.as_ref(), |row| &row.naive);
            assert_eq!(found.as_ref().map(|end| end.length), expected.map(|(length, _)| length), "{longest:?}");
            let words = found.map_or(String::new(), |end| end.words);
            assert!(words.starts_with(expected.map_or("", |(_, words)| words)), "{words}");
        }
    }

    #[test]
    fn a_form_that_never_ran_does_not_end_but_is_said_not_to_run() {
        let svg = compare_chart(&comparison(vec![refused_row(4096)]), Quantity::Time).unwrap();
        assert!(svg.contains("naive does not run. T=4096: one tensor of 256.0 MiB"), "{svg}");
    }

    #[test]
    fn ticks_are_round_and_few() {
        for (range, quantity, first, last) in [
            ((1024f64.log2() - 0.1, (16f64 * 1024.0).log2() + 0.1), Quantity::Bytes, "1 KiB", "16 KiB"),
            ((18.0, 33.0), Quantity::Bytes, "256 KiB", "4 GiB"),
            ((1e-4f64.log2() - 0.1, 20f64.log2()), Quantity::Time, "100 us", "10 s"),
            ((0.9e-3f64.log2(), 1.1e-3f64.log2()), Quantity::Time, "1 ms", "1 ms"),
            ((0.9e-3f64.log2(), 0.07f64.log2()), Quantity::Time, "1 ms", "50 ms"),
        ] {
            let ticks = ticks(range, quantity);
            assert!(ticks.len() <= 10, "{ticks:?}");
            assert_eq!((ticks[0].1.as_str(), ticks[ticks.len() - 1].1.as_str()), (first, last), "{ticks:?}");
        }
    }

    #[test]
    fn words_of_others_cannot_break_the_picture() {
        let mut comparison = comparison(vec![row(64)]);
        comparison.device = format!("a\u{0}<b> & {}", "x".repeat(500));
        let svg = compare_chart(&comparison, Quantity::Time).unwrap();
        assert!(!svg.contains('\u{0}') && svg.contains("a &lt;b&gt; &amp; xx") && svg.contains("xxx..."), "{svg}");
    }
}
