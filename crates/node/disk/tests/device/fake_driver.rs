//! A fake driver with a file as its device, so that its memory outlives the processes that used it. The tests build it as a
//! shared library with the real one's name.
//!
//! `FAKE_DEVICE` is the file; `FAKE_FAULT` is its fault: `skips` (one part is never written), `ignores` (nothing is
//! written), `held` (another process holds most of the memory), or none.

use std::ffi::{c_char, c_int, c_uint, c_void};
use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU64, Ordering};

const BASE: u64 = 0x7000_0000;
const SIZE: u64 = 50 << 20;
static TAKEN: AtomicU64 = AtomicU64::new(0);

fn device() -> File {
    let path = std::env::var_os("FAKE_DEVICE").expect("FAKE_DEVICE says which file the device is");
    OpenOptions::new().read(true).write(true).open(path).expect("the device is there")
}

fn fault(name: &str) -> bool {
    std::env::var("FAKE_FAULT").is_ok_and(|fault| fault == name)
}

#[unsafe(no_mangle)]
extern "C" fn cuInit(_: c_uint) -> c_int {
    0
}

#[unsafe(no_mangle)]
extern "C" fn cuGetErrorName(_: c_int, name: *mut *const c_char) -> c_int {
    unsafe { *name = c"CUDA_ERROR_FAKE".as_ptr() };
    0
}

#[unsafe(no_mangle)]
extern "C" fn cuDeviceGetCount(count: *mut c_int) -> c_int {
    unsafe { *count = 2 };
    0
}

#[unsafe(no_mangle)]
extern "C" fn cuDeviceGet(device: *mut c_int, index: c_int) -> c_int {
    unsafe { *device = index + 10 };
    0
}

#[unsafe(no_mangle)]
extern "C" fn cuDeviceGetUuid(uuid: *mut [u8; 16], device: c_int) -> c_int {
    unsafe { *uuid = [device as u8; 16] };
    0
}

#[unsafe(no_mangle)]
extern "C" fn cuDevicePrimaryCtxRetain(context: *mut *mut c_void, device: c_int) -> c_int {
    unsafe { *context = device as usize as *mut c_void };
    if device == 11 { 0 } else { 46 }
}

#[unsafe(no_mangle)]
extern "C" fn cuDevicePrimaryCtxRelease_v2(_: c_int) -> c_int {
    0
}

#[unsafe(no_mangle)]
extern "C" fn cuCtxSetCurrent(context: *mut c_void) -> c_int {
    if context as usize == 11 { 0 } else { 201 }
}

#[unsafe(no_mangle)]
extern "C" fn cuCtxSynchronize() -> c_int {
    0
}

#[unsafe(no_mangle)]
extern "C" fn cuMemGetInfo_v2(free: *mut usize, total: *mut usize) -> c_int {
    unsafe {
        *free = (SIZE - TAKEN.load(Ordering::SeqCst)) as usize;
        *total = if fault("held") { 4 << 30 } else { SIZE as usize + (1 << 20) };
    }
    0
}

#[unsafe(no_mangle)]
extern "C" fn cuMemAlloc_v2(address: *mut u64, bytes: usize) -> c_int {
    let at = TAKEN.load(Ordering::SeqCst);
    if at + bytes as u64 > SIZE {
        return 2;
    }
    TAKEN.store(at + bytes as u64, Ordering::SeqCst);
    unsafe { *address = BASE + at };
    0
}

#[unsafe(no_mangle)]
extern "C" fn cuMemFree_v2(_: u64) -> c_int {
    0
}

#[unsafe(no_mangle)]
extern "C" fn cuMemsetD32_v2(address: u64, word: c_uint, words: usize) -> c_int {
    if fault("ignores") {
        return 0;
    }
    let mut at = address - BASE;
    let end = at + 4 * words as u64;
    let page = word.to_ne_bytes().repeat(1024);
    while at < end {
        // In the middle, where a check of only the ends does not find it.
        if !(fault("skips") && at == 20 << 20) {
            device().write_all_at(&page, at).expect("the device can be written");
        }
        at += page.len() as u64;
    }
    0
}

#[unsafe(no_mangle)]
extern "C" fn cuMemcpyDtoH_v2(to: *mut c_void, from: u64, bytes: usize) -> c_int {
    let buffer = unsafe { std::slice::from_raw_parts_mut(to.cast::<u8>(), bytes) };
    device().read_exact_at(buffer, from - BASE).expect("the device can be read");
    0
}
