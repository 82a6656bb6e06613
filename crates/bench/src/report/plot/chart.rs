//! A chart of lines over two axes.

use super::svg::{Canvas, Position, WIDTH, at, colour};

const LEFT: f64 = 90.0;
const RIGHT: f64 = 40.0;
const TOP: f64 = 40.0;
const PLOT: f64 = 270.0;
const GRID: &str = "#dddddd";
const INK: &str = "#222222";

/// How values become lengths.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scale {
    /// From zero.
    Linear,
    /// Decades.
    Log,
    /// Quantiles: each step is a tenth of the distance to 1.
    Nines,
}

/// An axis.
pub struct Axis {
    /// What it shows.
    pub name: String,
    /// How.
    pub scale: Scale,
    /// Text of a value.
    pub label: fn(f64) -> String,
}

/// A line of a chart.
pub struct Line {
    /// Name in the legend.
    pub name: String,
    /// Number of its colour.
    pub colour: usize,
    /// Drawn with dashes.
    pub dashed: bool,
    /// Values.
    pub points: Vec<(f64, f64)>,
}

/// A chart.
pub struct Chart {
    /// Its title.
    pub title: String,
    /// Horizontal axis.
    pub x: Axis,
    /// Vertical axis.
    pub y: Axis,
    /// What it shows.
    pub lines: Vec<Line>,
}

impl Scale {
    /// Position on a line without ends.
    fn place(self, value: f64) -> f64 {
        match self {
            Scale::Linear => value,
            Scale::Log => value.max(1e-9).log10(),
            Scale::Nines => -(1.0 - value.clamp(0.0, 1.0 - 1e-12)).log10(),
        }
    }

    /// Ends of the axis around all values, and the values to mark.
    pub fn range(self, values: &[f64]) -> (f64, f64, Vec<f64>) {
        let places = values.iter().filter(|value| value.is_finite()).map(|&value| self.place(value));
        let (mut low, mut high) =
            places.fold((f64::MAX, f64::MIN), |(low, high), place| (low.min(place), high.max(place)));
        if low > high {
            (low, high) = (0.0, 1.0);
        }
        match self {
            Scale::Linear => {
                let step = nice_step(high);
                let count = (high / step).ceil().max(1.0);
                (0.0, step * count, (0..=count as usize).map(|i| i as f64 * step).collect())
            }
            Scale::Log => {
                let (low, high) = ((low - 0.02).floor(), (high + 0.02).ceil());
                let marks = if high - low <= 2.0 { &[1.0, 2.0, 5.0][..] } else { &[1.0][..] };
                let decades = low as i32..=high as i32;
                let ticks =
                    decades.flat_map(|decade| marks.iter().map(move |mark| mark * 10f64.powi(decade)));
                (low, high, ticks.filter(|tick| tick.log10() <= high + 1e-9).collect())
            }
            Scale::Nines => {
                let high = high.ceil().max(1.0);
                (0.0, high, (0..=high as i32).map(|nines| 1.0 - 10f64.powi(-nines)).collect())
            }
        }
    }
}

/// A step of 1, 2 or 5 times a power of ten that divides `high` into about five.
pub fn nice_step(high: f64) -> f64 {
    let rough = (high / 5.0).max(1e-9);
    let power = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].into_iter().find(|step| step * power >= rough * 0.999);
    step.unwrap_or(10.0) * power
}

impl Chart {
    /// Draws the chart with its upper edge at `top`.
    pub fn draw(&self, canvas: &mut Canvas, top: f64) {
        let (plot_top, plot_bottom) = (top + TOP, top + TOP + PLOT);
        let (plot_left, plot_right) = (LEFT, WIDTH - RIGHT);
        let xs: Vec<f64> =
            self.lines.iter().flat_map(|line| line.points.iter().map(|point| point.0)).collect();
        let ys: Vec<f64> =
            self.lines.iter().flat_map(|line| line.points.iter().map(|point| point.1)).collect();
        let (x_low, x_high, x_ticks) = self.x.scale.range(&xs);
        let (y_low, y_high, y_ticks) = self.y.scale.range(&ys);
        let along = |value: f64| {
            plot_left + (self.x.scale.place(value) - x_low) / (x_high - x_low) * (plot_right - plot_left)
        };
        let up = |value: f64| plot_bottom - (self.y.scale.place(value) - y_low) / (y_high - y_low) * PLOT;

        canvas.text(LEFT, top + 24.0, "start", 13.0, &self.title);
        for tick in x_ticks {
            let x = along(tick);
            canvas.line(at(x, plot_top), at(x, plot_bottom), GRID, 1.0);
            canvas.text(x, plot_bottom + 16.0, "middle", 11.0, &(self.x.label)(tick));
        }
        for tick in y_ticks {
            let y = up(tick);
            canvas.line(at(plot_left, y), at(plot_right, y), GRID, 1.0);
            canvas.text(plot_left - 8.0, y + 4.0, "end", 11.0, &(self.y.label)(tick));
        }
        canvas.line(at(plot_left, plot_bottom), at(plot_right, plot_bottom), INK, 1.0);
        canvas.line(at(plot_left, plot_top), at(plot_left, plot_bottom), INK, 1.0);
        canvas.text((plot_left + plot_right) / 2.0, plot_bottom + 34.0, "middle", 12.0, &self.x.name);
        canvas.upwards(20.0, (plot_top + plot_bottom) / 2.0, 12.0, &self.y.name);

        let mut legend = plot_left;
        for line in &self.lines {
            let points: Vec<Position> = line.points.iter().map(|&(x, y)| at(along(x), up(y))).collect();
            canvas.path(&points, colour(line.colour), line.dashed);
            if points.len() <= 40 {
                points.iter().for_each(|&point| canvas.dot(point, colour(line.colour)));
            }
            let y = plot_bottom + 54.0;
            canvas.path(&[at(legend, y - 4.0), at(legend + 24.0, y - 4.0)], colour(line.colour), line.dashed);
            canvas.text(legend + 30.0, y, "start", 11.0, &line.name);
            legend += 50.0 + 7.0 * line.name.chars().count() as f64;
        }
    }
}
