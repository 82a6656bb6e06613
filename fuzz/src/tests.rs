//! The seeds, on any toolchain.

use std::path::Path;

type Target = fn(&[u8]);

const TARGETS: [(&str, Target); 9] = [
    ("control_page", crate::control_page::run),
    ("entry_reader", crate::entry_reader::run),
    ("handshake", crate::handshake::run),
    ("hash_reader", crate::hash_reader::run),
    ("ring", crate::ring::run),
    ("scan_messages", crate::scan_messages::run),
    ("shm_queue", crate::shm_queue::run),
    ("tcp_frame", crate::tcp_frame::run),
    ("tree_reader", crate::tree_reader::run),
];

#[test]
fn every_seed_passes() {
    let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("seeds");
    for (name, target) in TARGETS {
        let files: Vec<_> = std::fs::read_dir(seeds.join(name)).expect("a folder of seeds").collect();
        assert!(!files.is_empty(), "{name} has no seeds");
        for file in files {
            let path = file.expect("an entry").path();
            println!("{}", path.display());
            target(&std::fs::read(&path).expect("a seed"));
        }
    }
}

#[test]
fn noise_passes() {
    let mut state = 1u64;
    for (_, target) in TARGETS {
        for len in (0..600).step_by(7) {
            let mut next = || {
                state = state.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(1);
                (state >> 56) as u8
            };
            let bytes: Vec<u8> = (0..len).map(|_| next()).collect();
            target(&bytes);
        }
    }
}
