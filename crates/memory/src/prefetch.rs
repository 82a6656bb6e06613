//! Lines that the processor is asked for before they are needed.

/// Asks for the line in which a value begins, which is wanted soon.
#[inline(always)]
pub fn prefetch<T>(value: &T) {
    prefetch_at(std::ptr::from_ref(value).cast());
}

/// Asks for the line of an address, whichever it is.
#[inline(always)]
pub(crate) fn prefetch_at(_address: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch reads nothing and never faults.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch(_address.cast(), _MM_HINT_T0);
    }
}
