//! The instructions that make stores persistent, in memory that is: the line is written back, and a fence
//! orders the write-back before later stores.
//!
//! On x86-64 that is `clwb`, which leaves the line in the cache; where the processor has none, `clflushopt`;
//! else `clflush`, of which one waits for the other. On aarch64 it is `dc cvac`, which reaches the point of
//! coherency: enough where the platform's point of persistence is there. Elsewhere nothing is persistent.

/// Orders earlier write-backs before later stores.
#[cfg(all(target_arch = "x86_64", not(miri)))]
pub(super) fn fence() {
    // A write-back is ordered like a store, so a store fence is enough.
    // SAFETY: every processor of this kind has it.
    unsafe { std::arch::x86_64::_mm_sfence() };
}

/// Writes back the line at this address.
///
/// # Safety
/// The address is of memory that is mapped.
#[cfg(all(target_arch = "x86_64", not(miri)))]
pub(super) unsafe fn line(at: *const u8) {
    use std::arch::asm;
    use std::sync::LazyLock;

    #[derive(Clone, Copy)]
    enum Instruction {
        WriteBack,
        FlushInAnyOrder,
        Flush,
    }

    /// Bits of EBX of leaf 7 of `cpuid`.
    const CLFLUSHOPT: u32 = 1 << 23;
    const CLWB: u32 = 1 << 24;

    static CHOSEN: LazyLock<Instruction> = LazyLock::new(|| {
        let leaves = std::arch::x86_64::__cpuid(0).eax;
        let flags = if leaves < 7 { 0 } else { std::arch::x86_64::__cpuid_count(7, 0).ebx };
        match flags {
            flags if flags & CLWB != 0 => Instruction::WriteBack,
            flags if flags & CLFLUSHOPT != 0 => Instruction::FlushInAnyOrder,
            _ => Instruction::Flush,
        }
    });

    // SAFETY: the memory is mapped, the processor has the instruction, and it changes no value.
    unsafe {
        match *CHOSEN {
            Instruction::WriteBack => asm!("clwb [{}]", in(reg) at, options(nostack, preserves_flags)),
            Instruction::FlushInAnyOrder => {
                asm!("clflushopt [{}]", in(reg) at, options(nostack, preserves_flags));
            }
            Instruction::Flush => std::arch::x86_64::_mm_clflush(at),
        }
    }
}

/// Orders earlier write-backs before later stores.
#[cfg(all(target_arch = "aarch64", not(miri)))]
pub(super) fn fence() {
    // SAFETY: a barrier.
    unsafe { std::arch::asm!("dsb sy", options(nostack, preserves_flags)) };
}

/// Writes back the line at this address.
///
/// # Safety
/// The address is of memory that is mapped.
#[cfg(all(target_arch = "aarch64", not(miri)))]
pub(super) unsafe fn line(at: *const u8) {
    // SAFETY: the memory is mapped, and the instruction changes no value.
    unsafe { std::arch::asm!("dc cvac, {}", in(reg) at, options(nostack, preserves_flags)) };
}

/// Orders earlier stores before later ones.
#[cfg(any(miri, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
pub(super) fn fence() {
    // SeqCst: stands for the fence of the processors above.
    std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
}

/// Nothing: no memory is persistent here.
///
/// # Safety
/// None is needed.
#[cfg(any(miri, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
pub(super) unsafe fn line(_at: *const u8) {}
