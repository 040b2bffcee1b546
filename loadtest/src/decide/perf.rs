//! Instructions counted by the processor, through `perf_event_open`.
#![allow(unsafe_code)] // The system call has no safe wrapper in the standard library; three calls stand here.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsRawFd, FromRawFd};

/// The attribute block of `perf_event_open(2)` as the first version of the interface had it (64 bytes); newer
/// kernels take it.
#[repr(C)]
#[derive(Default)]
struct Attributes {
    kind: u32,
    size: u32,
    config: u64,
    sample: u64,
    sample_kind: u64,
    read_format: u64,
    flags: u64,
    wakeup: u32,
    breakpoint_kind: u32,
    breakpoint: u64,
}

const HARDWARE: u32 = 0;
const INSTRUCTIONS: u64 = 1;
/// Begin switched off; count neither the kernel nor a hypervisor, which an ordinary user may not.
const FLAGS: u64 = 1 | 1 << 5 | 1 << 6;
const ENABLE: libc::c_ulong = 0x2400;
const DISABLE: libc::c_ulong = 0x2401;

/// Instructions this thread takes for `work`.
///
/// # Errors
/// Where the system doesn't allow counting, or the machine (often a virtual one) has no counter.
pub(crate) fn instructions(work: impl FnOnce()) -> io::Result<u64> {
    let mut counter = open()?;
    switch(&counter, ENABLE)?;
    work();
    switch(&counter, DISABLE)?;
    let mut count = [0; 8];
    counter.read_exact(&mut count)?;
    Ok(u64::from_ne_bytes(count))
}

fn open() -> io::Result<File> {
    let attributes = Attributes {
        kind: HARDWARE,
        size: size_of::<Attributes>() as u32,
        config: INSTRUCTIONS,
        flags: FLAGS,
        ..Attributes::default()
    };
    let (this_thread, any_cpu, no_group, no_flags) = (0, -1, -1, 0);
    // SAFETY: the pointer is to a live block whose size the block itself names; the call keeps no reference to it.
    let fd = unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            &raw const attributes,
            this_thread,
            any_cpu,
            no_group,
            no_flags,
        )
    };
    match i32::try_from(fd) {
        // SAFETY: the kernel has just made this descriptor for us; nobody else closes it.
        Ok(fd) if fd >= 0 => Ok(unsafe { File::from_raw_fd(fd) }),
        _ => Err(io::Error::last_os_error()),
    }
}

fn switch(counter: &File, request: libc::c_ulong) -> io::Result<()> {
    // SAFETY: both requests take an integer, no pointer.
    match unsafe { libc::ioctl(counter.as_raw_fd(), request as _, 0) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
