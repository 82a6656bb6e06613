//! Statistics, and the forms a report takes.

use super::plot::draw;
use super::*;
use crate::plan::Plan;
use crate::record::histogram;
use crate::run::run;
use crate::testing::{Fault, Memory};

/// Every form of a report must be complete and well-formed.
pub fn check_forms(report: &Report) {
    let plain = report.table(Style::Plain);
    let targets = &report.points[0].results;
    for target in targets {
        let rows = plain.lines().filter(|line| line.contains(&target.target) && line.contains(".."));
        assert!(rows.count() >= report.points.len(), "{plain}");
    }
    for word in ["workload:", "seed", "machine:", "kernel", "ratio", "p99.9", "CPU server"] {
        assert!(plain.contains(word), "no '{word}' in\n{plain}");
    }
    let markdown = report.table(Style::Markdown);
    let pipes: Vec<usize> =
        markdown.lines().filter(|line| line.starts_with('|')).map(|line| line.matches('|').count()).collect();
    assert!(pipes.len() == 2 + report.points.len() * targets.len(), "{markdown}");
    assert!(pipes.iter().all(|&count| count == pipes[0]), "{markdown}");

    let back: Report = serde_json::from_str(&report.to_json()).expect("a report is read back");
    assert!(back.plan == report.plan && back.points.len() == report.points.len());
    assert_eq!(back.points[0].results[0].summary, report.points[0].results[0].summary);

    let svg = draw(report);
    well_formed(&svg);
    assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
    assert!(targets.iter().all(|target| svg.contains(&svg_text(&target.target))));
}

fn svg_text(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// Elements are closed in order, and nothing else stands between angle brackets.
fn well_formed(svg: &str) {
    let mut open = Vec::new();
    for piece in svg.split('<').skip(1) {
        let (tag, _) = piece.split_once('>').expect("a tag ends");
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(name), "{tag}");
        } else if !tag.ends_with('/') {
            open.push(tag.split(' ').next().unwrap());
        }
        assert!(tag.matches('"').count() % 2 == 0, "{tag}");
    }
    assert!(open.is_empty(), "{open:?} not closed");
}

#[test]
fn a_report_takes_every_form() {
    let plan = Plan { records: 200, seconds: 0.03, warmup_seconds: 0.0, runs: 3, ..Plan::default() };
    // A label may come from a command line: it must not become markup.
    let names = ["map", "<b>&\"map"];
    let targets: Vec<_> = names.iter().map(|name| Memory::boxed(name, Fault::None).0).collect();
    let report = run(&plan, &targets).unwrap();
    check_forms(&report);
    let directory = std::env::temp_dir().join(format!("longarm-hgrm-{}", std::process::id()));
    let files = hgrm::write_all(&report, &directory).unwrap();
    assert_eq!(files.len(), 4, "reads and all operations of two targets: {files:?}");
    for file in &files {
        assert!(file.parent() == Some(&*directory), "{file:?}");
        assert!(std::fs::read_to_string(file).unwrap().contains("#[Mean"));
    }
    std::fs::remove_dir_all(directory).unwrap();
}

#[test]
fn percentile_files_follow_the_distribution() {
    let mut histogram = histogram();
    (1..=10_000).for_each(|i| histogram.record(i * 1000).unwrap());
    let text = hgrm::text(&histogram);
    let rows: Vec<Vec<f64>> = text
        .lines()
        .skip(2)
        .take_while(|line| !line.starts_with('#'))
        .map(|line| line.split_whitespace().map(|field| field.parse().unwrap()).collect())
        .collect();
    assert!(rows.windows(2).all(|pair| pair[0][0] <= pair[1][0] && pair[0][1] <= pair[1][1]));
    assert_eq!(rows.last().unwrap()[2], 10_000.0, "all are counted at the end");
    let median = rows.iter().find(|row| row[1] >= 0.5).unwrap();
    assert!((4900.0..5100.0).contains(&median[0]), "{median:?} microseconds");
    let latency = Latency::of(&histogram);
    assert!(latency.count == 10_000 && latency.p99.abs_diff(9_900_000) < 10_000, "{latency:?}");
}

#[test]
fn medians_and_spreads() {
    assert_eq!(Spread::of([3.0, 1.0, 2.0]), Spread { median: 2.0, min: 1.0, max: 3.0 });
    assert_eq!(Spread::of([4.0, 1.0, 2.0, 3.0]).median, 2.5);
    assert_eq!(Spread::of([]), Spread::default());
}

#[test]
fn raw_limits_print_with_the_report_and_alone() {
    let plan = crate::raw::RawPlan {
        bytes: 1 << 16,
        copies: vec![64],
        seconds: 0.001,
        runs: 1,
        ..Default::default()
    };
    let raw = crate::raw::on_fresh_region(&plan).unwrap();
    let table = raw_table(&raw, Style::Plain);
    assert!(table.contains(crate::raw::name::CHASE) && table.contains("GB/s"), "{table}");
    let plan = Plan { records: 10, seconds: 0.01, warmup_seconds: 0.0, runs: 1, ..Plan::default() };
    let mut report = run(&plan, &[Memory::boxed("map", Fault::None).0]).unwrap();
    report.raw = Some(raw);
    assert!(report.table(Style::Plain).ends_with(&table));
}

#[test]
fn gets_and_puts_stand_beside_the_requests_that_they_need() {
    use crate::raw::RawResult;
    use crate::raw::nic::{NicPlan, NicReport, REQUEST};
    use crate::workload::Mix;
    let plan = Plan { mix: Mix::A, records: 50, seconds: 0.02, warmup_seconds: 0.0, ..Plan::default() };
    let mut report = run(&plan, &[Memory::boxed("map", Fault::None).0]).unwrap();
    let nic = NicPlan {
        near: "a".into(),
        far: "b".into(),
        inline: true,
        pair: 704,
        entry: 256,
        reads: vec![],
        request: (112, 64),
        batch: 32,
        seconds: 0.1,
        runs: 3,
    };
    let limit = |name: &str, (min, median, max): (f64, f64, f64)| {
        let nanos = Spread { median, min, max };
        RawResult { name: name.into(), nanos, rate: 1e9 / median, bytes: None }
    };
    for run in &mut report.points[0].results[0].runs {
        run.kinds
            .iter_mut()
            .for_each(|(name, latency)| latency.p50 = if name == "read" { 1100 } else { 3000 });
    }
    let results = vec![
        limit("READ 704 B", (900.0, 1000.0, 1100.0)),
        limit("READ 64 B", (500.0, 500.0, 500.0)),
        limit(REQUEST, (1500.0, 2000.0, 9000.0)),
    ];
    report.nic = Some(NicReport { plan: nic, results });
    let table = report.table(Style::Plain);
    let get = "map: median GET is 1.10 times READ 704 B (0 % from remembered places)\n";
    assert!(table.contains("request 112 B, reply 64 B") && table.contains(get), "{table}");
    let put = format!("map: median PUT is 1.50 times {REQUEST}; 2.00 times its fastest run");
    assert!(table.contains(&put), "{table}");
    let counts = &mut report.points[0].results[0].summary.counts;
    counts.remembered = counts.hits;
    let get = "map: median GET is 2.20 times READ 64 B (100 % from remembered places)\n";
    assert!(report.table(Style::Plain).contains(get), "what is remembered is one slot");
    report.plan.depth = 2;
    assert!(!report.table(Style::Plain).contains("median GET"), "a batch's latency is no operation's");
}
