//! Percentile distributions in the text form that HdrHistogram's plotters read (`.hgrm`), in microseconds.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use hdrhistogram::Histogram;

use super::{Report, TICKS};
use crate::workload::OpKind;

const NANOS_PER_UNIT: f64 = 1000.0;

/// The distribution as text.
pub fn text(histogram: &Histogram<u64>) -> String {
    let mut out = String::from("       Value     Percentile TotalCount 1/(1-Percentile)\n\n");
    let mut total = 0;
    let line = "writing to a string does not fail";
    for point in histogram.iter_quantiles(TICKS) {
        total += point.count_since_last_iteration();
        let quantile = point.quantile_iterated_to();
        let value = point.value_iterated_to() as f64 / NANOS_PER_UNIT;
        write!(out, "{value:12.3} {quantile:14.12} {total:10}").expect(line);
        if quantile < 1.0 {
            write!(out, " {:14.2}", 1.0 / (1.0 - quantile)).expect(line);
        }
        out.push('\n');
    }
    let (mean, deviation) = (histogram.mean() / NANOS_PER_UNIT, histogram.stdev() / NANOS_PER_UNIT);
    let max = histogram.max() as f64 / NANOS_PER_UNIT;
    writeln!(out, "#[Mean    = {mean:12.3}, StdDeviation   = {deviation:12.3}]").expect(line);
    writeln!(out, "#[Max     = {max:12.3}, Total count    = {:12}]", histogram.len()).expect(line);
    out
}

/// Writes one file a point, target and kind of operation into `directory` (created if missing) and returns
/// their paths.
pub fn write_all(report: &Report, directory: &Path) -> std::io::Result<Vec<PathBuf>> {
    std::fs::create_dir_all(directory)?;
    let mut written = Vec::new();
    for point in &report.points {
        let setting = point.setting.as_ref().map(|s| format!("{}-{}.", s.name, s.value)).unwrap_or_default();
        for result in &point.results {
            let kinds = OpKind::ALL.into_iter().map(|kind| (kind.name(), result.record.of(kind)));
            for (kind, histogram) in kinds.chain([("all", result.record.all())]) {
                if histogram.is_empty() {
                    continue;
                }
                let path = directory.join(file_name(&format!("{}.{setting}{kind}.hgrm", result.target)));
                std::fs::write(&path, text(&histogram))?;
                written.push(path);
            }
        }
    }
    Ok(written)
}

/// A name without characters that mean something in paths.
fn file_name(text: &str) -> String {
    text.chars().map(|c| if c.is_ascii_alphanumeric() || c == '.' { c } else { '-' }).collect()
}
