//! The suite that every transport passes.

use longarm_fabric::conformance::Setup;
use longarm_fabric::verbs::Verbs;
use longarm_fabric::{Address, conformance};

pub struct OverVerbs;

impl Setup for OverVerbs {
    type Transport = Verbs;
    const SUITE: &'static str = module_path!();

    fn transport() -> Verbs {
        crate::on(crate::devices().0)
    }
    fn listening() -> Verbs {
        crate::on(crate::devices().1)
    }
    fn address() -> Address {
        crate::address()
    }
}

conformance!(
    #[ignore = "wants RDMA devices: cargo x rdma"]
    OverVerbs
);
