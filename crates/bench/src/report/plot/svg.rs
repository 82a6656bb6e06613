//! The few SVG elements that the charts are made of.

use std::fmt::Write;

/// Width of a drawing.
pub const WIDTH: f64 = 860.0;
/// Colours that remain apart for colour-blind readers (Okabe and Ito).
const COLOURS: [&str; 7] = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#444444"];

/// Colour number `i`, again from the first when there are more.
pub fn colour(i: usize) -> &'static str {
    COLOURS[i % COLOURS.len()]
}

/// A place in a drawing, counted from its upper left corner.
#[derive(Clone, Copy)]
pub struct Position {
    x: f64,
    y: f64,
}

/// The place that is `x` to the right of that corner, and `y` below it.
pub fn at(x: f64, y: f64) -> Position {
    Position { x, y }
}

/// A drawing under construction.
pub struct Canvas {
    text: String,
}

impl Canvas {
    /// An empty drawing.
    pub fn new(width: f64, height: f64) -> Canvas {
        let mut canvas = Canvas { text: String::new() };
        canvas.push(format_args!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" \
             height=\"{height}\" font-family=\"DejaVu Sans, Helvetica, Arial, sans-serif\">\n\
             <rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n"
        ));
        canvas
    }

    fn push(&mut self, text: std::fmt::Arguments<'_>) {
        self.text.write_fmt(text).expect("writing to a string does not fail");
    }

    /// A straight line.
    pub fn line(&mut self, from: Position, to: Position, stroke: &str, width: f64) {
        let (Position { x: x1, y: y1 }, Position { x: x2, y: y2 }) = (from, to);
        self.push(format_args!(
            "<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" stroke=\"{stroke}\" \
             stroke-width=\"{width}\"/>\n"
        ));
    }

    /// A line through points.
    pub fn path(&mut self, points: &[Position], stroke: &str, dashed: bool) {
        let dash = if dashed { " stroke-dasharray=\"6 4\"" } else { "" };
        let points: Vec<String> = points.iter().map(|Position { x, y }| format!("{x:.1},{y:.1}")).collect();
        self.push(format_args!(
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{stroke}\" stroke-width=\"2\"{dash}/>\n",
            points.join(" ")
        ));
    }

    /// A dot.
    pub fn dot(&mut self, at: Position, fill: &str) {
        self.push(format_args!("<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"3\" fill=\"{fill}\"/>\n", at.x, at.y));
    }

    /// A filled rectangle.
    pub fn rect(&mut self, at: Position, width: f64, height: f64, fill: &str) {
        self.push(format_args!(
            "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" fill=\"{fill}\"/>\n",
            at.x, at.y
        ));
    }

    /// Text; `anchor` is `start`, `middle` or `end`.
    pub fn text(&mut self, x: f64, y: f64, anchor: &str, size: f64, text: &str) {
        let text = escape(text);
        self.push(format_args!(
            "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" font-size=\"{size}\" \
             fill=\"#222222\">{text}</text>\n"
        ));
    }

    /// Text that reads upwards.
    pub fn upwards(&mut self, x: f64, y: f64, size: f64, text: &str) {
        let text = escape(text);
        self.push(format_args!(
            "<text transform=\"translate({x:.1} {y:.1}) rotate(-90)\" text-anchor=\"middle\" \
             font-size=\"{size}\" fill=\"#222222\">{text}</text>\n"
        ));
    }

    /// The document.
    pub fn finish(mut self) -> String {
        self.text.push_str("</svg>\n");
        self.text
    }
}

/// Text in which nothing is markup, and nothing is a character that XML forbids.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '"' => out.push_str("&quot;"),
            c if c.is_control() => out.push('?'),
            c => out.push(c),
        }
    }
    out
}
