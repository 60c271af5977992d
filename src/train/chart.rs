//! `loss.svg`: the loss of a run over its steps, with the losses of simpler models as reference lines.

use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use crate::train::metrics::MetricsRecord;

/// Width and height of the picture, in its own units.
const SIZE: (u32, u32) = (960, 540);

/// The most points a curve is drawn with; a longer one keeps the extremes of each stretch.
const POINT_LIMIT: usize = 2000;

const INK: RGBColor = RGBColor(33, 37, 41);
const FAINT: RGBColor = RGBColor(233, 236, 239);
const REFERENCE: RGBColor = RGBColor(110, 118, 126);
const TRAINING: RGBColor = RGBColor(92, 147, 209);
const VALIDATION: RGBColor = RGBColor(201, 66, 10);

/// A loss that some simpler predictor of the same text has.
#[derive(Clone, Debug, PartialEq)]
pub struct ReferenceLoss {
    /// What the predictor knows, in a few words: it stands at the end of the line.
    pub label: String,
    /// Nats a token.
    pub loss: f64,
}

/// The drawing itself failed.
#[derive(Debug, thiserror::Error)]
#[error("the loss curve cannot be drawn: {reason}")]
pub struct ChartError {
    reason: String,
}

impl<E: std::error::Error + Send + Sync> From<DrawingAreaErrorKind<E>> for ChartError {
    fn from(error: DrawingAreaErrorKind<E>) -> Self {
        Self { reason: error.to_string() }
    }
}

type Chart<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<RangedCoordf64, RangedCoordf64>>;

/// The text of an SVG picture under `title` (which names the run: its preset and its text). Losses that were not
/// measured or are not finite are left out; one beyond the axis is drawn at its edge.
pub fn loss_chart(title: &str, records: &[MetricsRecord], references: &[ReferenceLoss]) -> Result<String, ChartError> {
    let training = curve(records, |record| record.train_loss);
    let validation = curve(records, |record| record.val_loss);
    let references: Vec<&ReferenceLoss> = references.iter().filter(|reference| reference.loss.is_finite()).collect();
    let (low, high) = loss_range(training.iter().chain(&validation).map(|point| point.1), &references);
    let last_step = training.iter().chain(&validation).map(|point| point.0).fold(1.0, f64::max);

    let mut svg = String::new();
    {
        let root = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
        root.fill(&WHITE)?;
        root.draw(&Text::new(printable(title), (70, 22), text(20, INK, HPos::Left)))?;
        draw_legend(&root, &training, &validation)?;
        let mut chart = ChartBuilder::on(&root)
            .margin_top(76)
            .margin_bottom(10)
            .margin_left(10)
            .margin_right(if references.is_empty() { 24 } else { 190 })
            .x_label_area_size(44)
            .y_label_area_size(60)
            .build_cartesian_2d(0.0..last_step, low..high)?;
        let decimals = decimals(high - low);
        chart
            .configure_mesh()
            .bold_line_style(FAINT)
            .light_line_style(TRANSPARENT)
            .axis_style(INK)
            .x_labels(9)
            .y_labels(9)
            .x_desc("optimizer step")
            .y_desc("loss, nats a token")
            .x_label_formatter(&|step| whole_number(*step))
            .y_label_formatter(&|loss| format!("{loss:.decimals$}"))
            .label_style(text(14, INK, HPos::Center))
            .axis_desc_style(text(15, INK, HPos::Center))
            .draw()?;
        draw_references(&root, &mut chart, &references, last_step)?;
        draw_curve(&mut chart, thin(&training), high, TRAINING.stroke_width(1), training.len() == 1)?;
        draw_curve(&mut chart, thin(&validation), high, VALIDATION.stroke_width(2), validation.len() <= 60)?;
        if training.is_empty() && validation.is_empty() {
            let middle = chart.backend_coord(&(last_step / 2.0, (low + high) / 2.0));
            root.draw(&Text::new("no loss was measured yet", middle, text(16, REFERENCE, HPos::Center)))?;
        }
        root.present()?;
    }
    Ok(svg)
}

/// The finite losses of one kind, by step.
fn curve(records: &[MetricsRecord], loss: impl Fn(&MetricsRecord) -> Option<f64>) -> Vec<(f64, f64)> {
    let point = |record: &MetricsRecord| Some((record.step as f64, loss(record).filter(|loss| loss.is_finite())?));
    records.iter().filter_map(point).collect()
}

/// The range of the loss axis. A loss of more than twice the worst reference tells only that the run diverged: it may
/// not flatten the rest.
fn loss_range(losses: impl Iterator<Item = f64>, references: &[&ReferenceLoss]) -> (f64, f64) {
    let worst_reference = references.iter().map(|reference| reference.loss).fold(0.0, f64::max);
    let ceiling = if worst_reference > 0.0 { 2.0 * worst_reference } else { 1e6 };
    let all = losses.map(|loss| loss.clamp(0.0, ceiling)).chain(references.iter().map(|reference| reference.loss));
    let (low, high) = all.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), loss| (low.min(loss), high.max(loss)));
    if low > high {
        return (0.0, 1.0);
    }
    let margin = (0.05 * (high - low)).max(0.01 * high.abs()).max(1e-3);
    ((low - margin).max(0.0), high + margin)
}

/// At most [`POINT_LIMIT`] points: of each stretch of a longer curve the lowest and the highest, in their order.
fn thin(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    if points.len() <= POINT_LIMIT {
        return points.to_vec();
    }
    let stretch = points.len().div_ceil(POINT_LIMIT / 2);
    let extremes = points.chunks(stretch).flat_map(|chunk| {
        let order = |a: &&(f64, f64), b: &&(f64, f64)| a.1.total_cmp(&b.1);
        let mut pair: Vec<(f64, f64)> =
            chunk.iter().min_by(order).into_iter().chain(chunk.iter().max_by(order)).copied().collect();
        pair.sort_by(|a, b| a.0.total_cmp(&b.0));
        pair
    });
    extremes.collect()
}

fn draw_curve(
    chart: &mut Chart,
    mut points: Vec<(f64, f64)>,
    ceiling: f64,
    style: ShapeStyle,
    marked: bool,
) -> Result<(), ChartError> {
    for point in &mut points {
        point.1 = point.1.clamp(0.0, ceiling);
    }
    if marked {
        chart.draw_series(points.iter().map(|&point| Circle::new(point, 3, style.filled())))?;
    }
    chart.draw_series(LineSeries::new(points, style))?;
    Ok(())
}

/// A dashed line at each reference loss, its name and value to the right of the plot; names that would lie on each
/// other are moved apart.
fn draw_references(
    root: &DrawingArea<SVGBackend, plotters::coord::Shift>,
    chart: &mut Chart,
    references: &[&ReferenceLoss],
    last_step: f64,
) -> Result<(), ChartError> {
    let mut sorted = references.to_vec();
    sorted.sort_by(|a, b| b.loss.total_cmp(&a.loss));
    let mut free_from = i32::MIN;
    for reference in sorted {
        let ends = [(0.0, reference.loss), (last_step, reference.loss)];
        chart.draw_series(DashedLineSeries::new(ends, 6, 4, REFERENCE.stroke_width(1)))?;
        let (right, line) = chart.backend_coord(&ends[1]);
        let height = line.max(free_from);
        free_from = height + 17;
        let label = format!("{} {:.3}", printable(&reference.label), reference.loss);
        root.draw(&Text::new(label, (right + 8, height), text(14, REFERENCE, HPos::Left)))?;
    }
    Ok(())
}

/// One row under the title: what each curve is, and where it stands.
fn draw_legend(
    root: &DrawingArea<SVGBackend, plotters::coord::Shift>,
    training: &[(f64, f64)],
    validation: &[(f64, f64)],
) -> Result<(), ChartError> {
    let latest = training.last().map_or(String::new(), |(step, loss)| format!(": {} at step {step}", shown(*loss)));
    let lowest = validation.iter().min_by(|a, b| a.1.total_cmp(&b.1));
    let lowest = lowest.map_or(String::new(), |(step, loss)| format!(": lowest {} at step {step}", shown(*loss)));
    for (left, colour, width, label) in
        [(70, TRAINING, 1, format!("training loss{latest}")), (370, VALIDATION, 2, format!("validation loss{lowest}"))]
    {
        root.draw(&PathElement::new([(left, 54), (left + 26, 54)], colour.stroke_width(width)))?;
        if colour == VALIDATION {
            root.draw(&Circle::new((left + 13, 54), 3, colour.filled()))?;
        }
        root.draw(&Text::new(label, (left + 34, 54), text(15, INK, HPos::Left)))?;
    }
    Ok(())
}

fn text(size: i32, colour: RGBColor, anchor: HPos) -> TextStyle<'static> {
    ("sans-serif", size).into_font().color(&colour).pos(Pos::new(anchor, VPos::Center))
}

/// A loss as the legend states it.
fn shown(loss: f64) -> String {
    if loss.abs() < 1000.0 { format!("{loss:.3}") } else { format!("{loss:.2e}") }
}

/// The label of a step; none between two steps, where a short axis has ticks too.
fn whole_number(step: f64) -> String {
    if (step - step.round()).abs() < 1e-9 { format!("{step:.0}") } else { String::new() }
}

/// Digits after the point that keep neighbouring labels of an axis of this length apart.
fn decimals(span: f64) -> usize {
    match span {
        span if span >= 2.0 => 1,
        span if span >= 0.2 => 2,
        span if span >= 0.02 => 3,
        _ => 4,
    }
}

/// Text as XML can hold it, and short enough for its line.
fn printable(text: &str) -> String {
    let mut shown: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(90).collect();
    if text.chars().nth(90).is_some() {
        shown.push_str("...");
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(steps: u64) -> Vec<MetricsRecord> {
        (0..steps)
            .map(|step| {
                let trend = 1.6 + 2.6 * (-(step as f64) / 30.0).exp();
                MetricsRecord {
                    step: step * 10,
                    train_loss: Some(trend + 0.06 * (step as f64 * 1.7).sin()),
                    val_loss: step.is_multiple_of(25).then_some(trend + 0.08),
                    ..MetricsRecord::default()
                }
            })
            .collect()
    }

    fn references() -> Vec<ReferenceLoss> {
        [("uniform, ln 65", 4.174), ("unigrams", 3.32), ("bigrams", 2.46)]
            .map(|(label, loss)| ReferenceLoss { label: label.into(), loss })
            .to_vec()
    }

    #[test]
    fn a_run_is_drawn_with_its_title_axes_legend_and_references() {
        let svg = loss_chart("nano on <a & b>", &run(200), &references()).unwrap();
        for expected in [
            "nano on &lt;a &amp; b&gt;",
            "optimizer step",
            "loss, nats a token",
            "training loss: 1.5",
            "validation loss: lowest 1.6",
            "uniform, ln 65 4.174",
            "unigrams 3.320",
            "bigrams 2.460",
        ] {
            assert!(svg.contains(expected), "no {expected:?}");
        }
        assert!(svg.trim_end().ends_with("</svg>"));
    }

    #[test]
    fn any_run_can_be_drawn() {
        let with = |train_loss, val_loss| MetricsRecord { step: 3, train_loss, val_loss, ..MetricsRecord::default() };
        let endless = |step| MetricsRecord { step, ..with(Some(2.0), None) };
        for (records, references, empty) in [
            (vec![], vec![], true),
            (vec![], references(), true),
            (run(1), references(), false),
            (run(1), vec![], false),
            (run(2), references(), false),
            (vec![with(None, None)], vec![], true),
            (vec![with(Some(f64::NAN), Some(f64::INFINITY))], references(), true),
            (vec![with(Some(f64::MAX), Some(-1.0))], references(), false),
            (vec![with(Some(f64::MAX), Some(f64::MIN))], vec![], false),
            (vec![with(Some(2.0), Some(2.0)); 3], vec![], false),
            (vec![with(Some(0.0), None)], vec![ReferenceLoss { label: "x".into(), loss: 0.0 }], false),
            (vec![with(Some(0.0), None)], vec![ReferenceLoss { label: "x".into(), loss: f64::NAN }], false),
            (vec![endless(0), endless(u64::MAX)], vec![], false),
        ] {
            let svg = loss_chart("a run", &records, &references).unwrap();
            assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
            assert_eq!(svg.contains("no loss was measured yet"), empty, "{records:?}");
        }
    }

    #[test]
    fn a_long_curve_is_thinned_and_keeps_its_spikes() {
        let mut points: Vec<(f64, f64)> = (0..123_456).map(|step| (f64::from(step), 1.0)).collect();
        points[77_777].1 = 9.0;
        points[100_001].1 = 0.5;
        let thinned = thin(&points);
        assert!(thinned.len() <= POINT_LIMIT);
        assert!(thinned.contains(&(77_777.0, 9.0)) && thinned.contains(&(100_001.0, 0.5)));
        assert!(thinned.windows(2).all(|pair| pair[0].0 <= pair[1].0));
        assert_eq!(thin(&points[..POINT_LIMIT]), points[..POINT_LIMIT]);
    }

    #[test]
    fn a_diverged_run_does_not_flatten_the_rest() {
        let reference = ReferenceLoss { label: "uniform".into(), loss: 4.0 };
        let (low, high) = loss_range([2.0, 3.0, 1e9].into_iter(), &[&reference]);
        assert!(low > 1.0 && low < 2.0 && high > 8.0 && high < 9.0, "{low} to {high}");
    }

    #[test]
    fn a_title_cannot_break_the_picture() {
        let svg = loss_chart(&format!("a\u{0}\n{}", "x".repeat(500)), &[], &[]).unwrap();
        assert!(!svg.contains('\u{0}') && svg.contains("xxx...") && !svg.contains(&"x".repeat(100)));
    }
}
