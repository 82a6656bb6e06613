//! Drawings of a report, as SVG that any browser shows.
//!
//! One point: throughput as bars, latency as percentile curves. A sweep of rates: latency over the throughput
//! that was reached. Any other sweep: throughput and latency over the setting.

mod bars;
mod chart;
mod svg;

use chart::{Axis, Chart, Line, Scale};
use svg::{Canvas, WIDTH};

use super::Report;
use super::figures::{rate, time};
use crate::plan::{Pace, Sweep};

/// Height of one chart in a drawing.
const CHART: f64 = 400.0;

/// Draws one chart with its upper edge at a height.
type Drawing<'a> = Box<dyn Fn(&mut Canvas, f64) + 'a>;

/// Draws the report.
pub fn draw(report: &Report) -> String {
    let charts: Vec<Drawing<'_>> = match &report.plan.sweep {
        None => {
            let percentiles = percentiles(report);
            vec![
                Box::new(move |canvas, top| bars::draw(canvas, top, report)),
                Box::new(move |canvas, top| percentiles.draw(canvas, top)),
            ]
        }
        Some(Sweep::Rate(_)) => {
            let curve = rate_curve(report);
            vec![Box::new(move |canvas, top| curve.draw(canvas, top))]
        }
        Some(_) => {
            let (throughput, latency) = over_setting(report);
            vec![
                Box::new(move |canvas, top| throughput.draw(canvas, top)),
                Box::new(move |canvas, top| latency.draw(canvas, top)),
            ]
        }
    };
    let captions = captions(report);
    let head = 30.0 + 16.0 * captions.len() as f64;
    let mut canvas = Canvas::new(WIDTH, head + CHART * charts.len() as f64);
    canvas.text(20.0, 24.0, "start", 15.0, &title(report));
    for (i, caption) in captions.iter().enumerate() {
        canvas.text(20.0, 42.0 + 16.0 * i as f64, "start", 11.0, caption);
    }
    for (i, chart) in charts.iter().enumerate() {
        chart(&mut canvas, head + CHART * i as f64);
    }
    canvas.finish()
}

fn title(report: &Report) -> String {
    let plan = &report.plan;
    format!("{} ({}), {} records", plan.mix.name(), plan.distribution().describe(), plan.records)
}

fn captions(report: &Report) -> Vec<String> {
    let plan = &report.plan;
    let value = match plan.sweep {
        Some(Sweep::ValueBytes(_)) => String::new(),
        _ => format!("{} B values, ", plan.value_bytes),
    };
    let loop_kind = if plan.pace == Pace::Closed && !matches!(plan.sweep, Some(Sweep::Rate(_))) {
        "closed"
    } else {
        "open"
    };
    let mut captions = vec![
        format!(
            "{value}{} keys, {} client(s), depth {}, {loop_kind} loop, {} run(s) of {} s, seed {}",
            plan.key.name(),
            plan.clients,
            plan.depth,
            plan.runs,
            plan.seconds,
            plan.seed
        ),
        format!("{}, {} cores, kernel {}", report.machine.cpu, report.machine.cores, report.machine.kernel),
    ];
    if !report.is_clean() {
        captions.push("NOT CLEAN: wrong values, misses or refusals occurred; see the table".into());
    }
    captions
}

/// Labels of the targets, in the order of their colours.
fn targets(report: &Report) -> Vec<String> {
    report
        .points
        .first()
        .map_or(Vec::new(), |point| point.results.iter().map(|result| result.target.clone()).collect())
}

fn percentiles(report: &Report) -> Chart {
    let results = report.points.first().map_or(&[][..], |point| &point.results);
    let line = |(colour, result): (usize, &super::TargetResult)| Line {
        name: result.target.clone(),
        colour,
        dashed: false,
        // The 100th percentile is infinitely far to the right: it is drawn at the last finite step.
        points: result
            .summary
            .curve
            .iter()
            .filter(|(q, _)| *q < 1.0)
            .map(|&(q, nanos)| (q, nanos as f64))
            .collect(),
    };
    Chart {
        title: "Latency by percentile (all operations, all runs)".into(),
        x: Axis {
            name: "percentile".into(),
            scale: Scale::Nines,
            label: |q| format!("{}%", (q * 1e6).round() / 1e4),
        },
        y: Axis { name: "latency".into(), scale: Scale::Log, label: time },
        lines: results.iter().enumerate().map(line).collect(),
    }
}

/// Lines of one figure over a figure, one line a target.
fn lines(
    report: &Report,
    suffix: &str,
    dashed: bool,
    point: &dyn Fn(f64, &super::Summary) -> (f64, f64),
) -> Vec<Line> {
    let line = |(colour, target): (usize, String)| Line {
        name: format!("{target}{suffix}"),
        colour,
        dashed,
        points: report
            .points
            .iter()
            .filter_map(|at| {
                let x = at.setting.as_ref()?.value;
                Some(point(x, &at.results.get(colour)?.summary))
            })
            .collect(),
    };
    targets(report).into_iter().enumerate().map(line).collect()
}

fn rate_curve(report: &Report) -> Chart {
    let mut all = lines(report, " p99", false, &|_, summary| (summary.throughput.median, summary.p99.median));
    all.extend(lines(report, " p50", true, &|_, summary| (summary.throughput.median, summary.p50.median)));
    Chart {
        title: "Latency from the intended start, over the throughput reached".into(),
        x: Axis { name: "operations a second".into(), scale: Scale::Linear, label: rate },
        y: Axis { name: "latency".into(), scale: Scale::Log, label: time },
        lines: all,
    }
}

fn over_setting(report: &Report) -> (Chart, Chart) {
    let name =
        report.points.iter().find_map(|point| Some(point.setting.as_ref()?.name.clone())).unwrap_or_default();
    let x = || Axis { name: name.clone(), scale: Scale::Log, label: |value| format!("{value:.0}") };
    let throughput = Chart {
        title: format!("Throughput by {name}"),
        x: x(),
        y: Axis { name: "operations a second".into(), scale: Scale::Log, label: rate },
        lines: lines(report, "", false, &|x, summary| (x, summary.throughput.median)),
    };
    let mut all = lines(report, " p99", false, &|x, summary| (x, summary.p99.median));
    all.extend(lines(report, " p50", true, &|x, summary| (x, summary.p50.median)));
    let y = Axis { name: "latency".into(), scale: Scale::Log, label: time };
    (throughput, Chart { title: format!("Latency by {name}"), x: x(), y, lines: all })
}
