use super::harness::*;
#[test]
fn speed() {
    let (server, _) = start(|o| { o.memory = 1 << 30; o.expected_items = 1_000_000; });
    let raw = Raw::try_connect(&server.addresses()[0], 9, 256 << 10).expect("c");
    let look = || { let mut v = std::collections::BTreeMap::new(); for t in std::fs::read_dir("/proc/self/task").unwrap() { let p = t.unwrap().path(); let n = std::fs::read_to_string(p.join("comm")).unwrap(); let s = std::fs::read_to_string(p.join("schedstat")).unwrap(); let f: Vec<u64> = s.split_whitespace().map(|x| x.parse().unwrap()).collect(); v.insert(format!("{} {}", n.trim(), p.display()), (f[0], f[2])); } v };
    std::thread::sleep(std::time::Duration::from_secs(1));
    let a = look();
    std::thread::sleep(std::time::Duration::from_secs(5));
    for (k, (ns, n)) in look() { let b = a[&k]; eprintln!("pass {k}: {:.2} ms, {} slices", (ns - b.0) as f64 / 1e6, n - b.1); }
    drop(raw);
}
