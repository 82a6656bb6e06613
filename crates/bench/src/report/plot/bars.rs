//! Throughput of the targets as bars from zero, with the spread of the runs.

use super::chart::nice_step;
use super::svg::{Canvas, WIDTH, at, colour};
use crate::report::Report;
use crate::report::figures::rate;

const LEFT: f64 = 90.0;
const RIGHT: f64 = 40.0;
const TOP: f64 = 50.0;
const PLOT: f64 = 270.0;

/// Draws the first point of the report with its upper edge at `top`.
pub fn draw(canvas: &mut Canvas, top: f64, report: &Report) {
    let results = report.points.first().map_or(&[][..], |point| &point.results);
    let highest = results.iter().map(|result| result.summary.throughput.max).fold(1.0, f64::max);
    let step = nice_step(highest);
    let high = (highest / step).ceil() * step;
    let (bottom, right) = (top + TOP + PLOT, WIDTH - RIGHT);
    let up = |value: f64| bottom - value / high * PLOT;

    canvas.text(
        LEFT,
        top + 24.0,
        "start",
        13.0,
        "Throughput (median of the runs, whiskers: smallest and largest)",
    );
    let mut mark = 0.0;
    while mark <= high + step / 2.0 {
        canvas.line(at(LEFT, up(mark)), at(right, up(mark)), "#dddddd", 1.0);
        canvas.text(LEFT - 8.0, up(mark) + 4.0, "end", 11.0, &rate(mark));
        mark += step;
    }
    canvas.upwards(20.0, top + TOP + PLOT / 2.0, 12.0, "operations a second");

    let first = results.first().map_or(0.0, |result| result.summary.throughput.median);
    let space = (right - LEFT) / results.len().max(1) as f64;
    let width = (space * 0.5).min(120.0);
    for (i, result) in results.iter().enumerate() {
        let throughput = result.summary.throughput;
        let centre = LEFT + space * (i as f64 + 0.5);
        let y = up(throughput.median);
        canvas.rect(at(centre - width / 2.0, y), width, bottom - y, colour(i));
        canvas.line(at(centre, up(throughput.min)), at(centre, up(throughput.max)), "#222222", 1.5);
        for end in [throughput.min, throughput.max] {
            canvas.line(at(centre - 6.0, up(end)), at(centre + 6.0, up(end)), "#222222", 1.5);
        }
        let ratio = if i > 0 && first > 0.0 {
            format!(" ({:.2}x)", throughput.median / first)
        } else {
            String::new()
        };
        canvas.text(
            centre,
            up(throughput.max) - 6.0,
            "middle",
            11.0,
            &format!("{}{ratio}", rate(throughput.median)),
        );
        canvas.text(centre, bottom + 16.0, "middle", 11.0, &result.target);
        canvas.text(centre, bottom + 30.0, "middle", 10.0, &result.server.version);
    }
    canvas.line(at(LEFT, bottom), at(right, bottom), "#222222", 1.0);
}
