//! The limits of real devices: two of them, named by LONGARM_VERBS_DEVICES (`rxe0,rxe1`), which reach each
//! other.

#![allow(missing_docs, reason = "tests")]

use longarm_bench::Style;
use longarm_bench::raw::nic::{Nic, NicPlan, NicReport, REQUEST, measure};
use longarm_bench::report::nic_table;

fn plan() -> NicPlan {
    let text = std::env::var("LONGARM_VERBS_DEVICES").expect("LONGARM_VERBS_DEVICES=DEVICE,DEVICE");
    let (near, far) = text.split_once(',').expect("LONGARM_VERBS_DEVICES=DEVICE,DEVICE");
    NicPlan {
        near: near.into(),
        far: far.into(),
        inline: false,
        pair: 704,
        entry: 256,
        reads: vec![1024, 4096],
        request: (128, 64),
        batch: 32,
        seconds: 0.02,
        runs: 2,
    }
}

fn check(report: &NicReport, runs: u32) {
    assert_eq!(report.plan.runs, runs);
    let table = nic_table(report, Style::Plain);
    let names = [
        "READ 704 B",
        "READ 64 B",
        "READ 256 B",
        "READ 1024 B",
        "READ 4096 B",
        "READ 704 B, 32 by one doorbell",
        "READ 704 B, then READ 256 B",
        "WRITE 64 B",
        "WRITE 1024 B",
        "SEND 64 B",
        "CAS",
        REQUEST,
    ];
    assert_eq!(report.results.len(), names.len());
    for name in names {
        let result = report.get(name).unwrap_or_else(|| panic!("no {name}"));
        assert!(result.nanos.min > 0.0 && result.nanos.min <= result.nanos.median, "{result:?}");
        assert!(table.contains(name), "{table}");
    }
}

#[test]
#[ignore = "wants RDMA devices: cargo x rdma"]
fn every_request_is_measured_between_two_devices_and_on_one() {
    let plan = plan();
    check(&measure(&plan).expect("two devices"), 2);
    let alone = NicPlan { far: plan.near.clone(), ..plan };
    check(&measure(&alone).expect("one device"), 2);
}

#[test]
#[ignore = "wants RDMA devices: cargo x rdma"]
fn a_report_is_of_the_runs_that_were_made() {
    let mut nic = Nic::open(plan()).expect("two devices");
    (0..3).for_each(|_| nic.run().expect("a run"));
    check(&nic.report(), 3);
}
