//! What `longarm doctor` tries: a READ from a device to itself.

use longarm_fabric::verbs::loopback;

#[test]
#[ignore = "wants RDMA devices: cargo x rdma"]
fn a_device_reads_from_itself() {
    let (one, two) = crate::devices();
    for device in [one, two] {
        let report = loopback(device).expect("a READ");
        assert!(report.bytes > 0 && report.nanos > 0, "{report:?}");
    }
    let error = loopback("nothing7").expect_err("nobody has this");
    assert!(error.contains("nothing7"), "{error}");
}
