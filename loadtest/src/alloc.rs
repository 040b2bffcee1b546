//! The allocator: mimalloc, as in the router, with three counters.
//!
//! Bytes are those asked for, not those reserved: they don't depend on how full the allocator's pages are, so a
//! figure per route is the same on every machine. The counters are relaxed: they are read while nothing else runs.
#![allow(unsafe_code)] // `GlobalAlloc` is an unsafe trait; every call is passed on to mimalloc unchanged.

use std::alloc::{GlobalAlloc, Layout};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use mimalloc::MiMalloc;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);
static ALLOCATED: AtomicU64 = AtomicU64::new(0);
static FREED: AtomicU64 = AtomicU64::new(0);

/// How often memory was asked for since the start; growing a block counts.
pub(crate) fn allocations() -> u64 {
    ALLOCATIONS.load(Relaxed)
}

/// Bytes in use.
pub(crate) fn live_bytes() -> u64 {
    ALLOCATED.load(Relaxed).saturating_sub(FREED.load(Relaxed))
}

/// The counting allocator.
pub(crate) struct Counting;

fn count(allocated: usize, freed: usize) {
    if allocated > 0 {
        ALLOCATIONS.fetch_add(1, Relaxed);
        ALLOCATED.fetch_add(allocated as u64, Relaxed);
    }
    FREED.fetch_add(freed as u64, Relaxed);
}

// SAFETY: each method passes its arguments on to mimalloc, which keeps the trait's contract; counting touches
// atomics only and can't unwind.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size(), 0);
        // SAFETY: the caller's promises are mimalloc's demands.
        unsafe { MiMalloc.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size(), 0);
        // SAFETY: as above.
        unsafe { MiMalloc.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        count(new_size, layout.size());
        // SAFETY: as above.
        unsafe { MiMalloc.realloc(block, layout, new_size) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        count(0, layout.size());
        // SAFETY: as above.
        unsafe { MiMalloc.dealloc(block, layout) }
    }
}
