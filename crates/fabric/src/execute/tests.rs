//! Rights and bounds, against a model that adds in 128 bits.

use std::sync::Arc;

use longarm_memory::{Backing, Region, RegionOptions};
use proptest::prelude::*;

use super::*;

const BYTES: u64 = 4096;

fn lent(rights: Rights) -> Vec<Grant> {
    let options = RegionOptions { name: "lent".into(), bytes: BYTES, backing: Backing::Memory };
    let region = Arc::new(Region::create(&options).expect("memfd"));
    vec![
        Grant { id: RegionId(9), region: region.clone(), rights: Rights::from_bits(0).expect("no rights") },
        Grant { id: RegionId(1), region, rights },
    ]
}

fn offsets() -> impl Strategy<Value = u64> {
    prop_oneof![0..2 * BYTES, u64::MAX - 2 * BYTES..u64::MAX, any::<u64>()].prop_map(|at| at & !7)
}

proptest! {
    #[test]
    fn only_what_is_allowed_and_inside(bits in 0u8..8, id in prop_oneof![Just(1u32), Just(9), any::<u32>()],
                                       at in offsets(), words in 0usize..600, word: u64) {
        let rights = Rights::from_bits(bits).expect("three bits");
        let grants = lent(rights);
        let memory = grants[1].region.memory().clone();
        let bytes = vec![0xee; words * 8];
        let inside = |len: usize| u128::from(at) + len as u128 <= u128::from(BYTES);
        let known = |right: Rights| id == 1 && rights.allow(right);
        let region = RegionId(id);
        let may = may_read(&grants, region, at, bytes.len());
        prop_assert_eq!(may.is_ok(), known(Rights::READ) && inside(bytes.len()));
        let added = fetch_add(&grants, region, at, 5);
        prop_assert_eq!(added.is_ok(), known(Rights::ATOMIC) && inside(8));
        if added.is_ok() {
            prop_assert_eq!(added, Ok(0));
            prop_assert_eq!(compare_swap(&grants, region, at, 6, word), Ok(5), "not swapped");
            prop_assert_eq!(compare_swap(&grants, region, at, 5, word), Ok(5), "swapped");
            prop_assert_eq!(memory.load(at), word);
            memory.store(at, 0);
        } else {
            prop_assert!(compare_swap(&grants, region, at, 0, 1).is_err());
        }
        let written = write(&grants, region, at, &bytes);
        prop_assert_eq!(written.is_ok(), known(Rights::WRITE) && inside(bytes.len()));
        let mut image = vec![0; BYTES as usize];
        memory.copy_out(0, &mut image);
        let mut expected = vec![0; BYTES as usize];
        if written.is_ok() {
            expected[at as usize..][..bytes.len()].copy_from_slice(&bytes);
        }
        prop_assert!(image == expected, "a refused access changed nothing, an allowed one only its place");
    }
}

#[test]
fn a_refusal_names_the_fault() {
    let grants = lent(Rights::READ);
    let text = |result: Result<&Grant, Denied>| result.expect_err("refused").0;
    assert!(text(may_read(&grants, RegionId(5), 0, 8)).contains("region 5 is not granted"));
    assert!(text(may_read(&grants, RegionId(9), 0, 8)).contains("rights 0x0, the access needs 0x1"));
    assert!(text(may_read(&grants, RegionId(1), BYTES, 8)).contains("outside region 1 of 0x1000"));
    assert!(write(&grants, RegionId(1), 0, &[0; 8]).is_err());
}
