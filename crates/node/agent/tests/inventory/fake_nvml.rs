//! A stand-in for the vendor's management library, with the machine of the test in `nvml.rs`. The test builds it as a shared
//! library with the real one's name.
//!
//! `FAKE_NVML` is its fault: `init` (the driver is not loaded), `count` (the GPUs cannot be counted), or none.

use std::ffi::{c_char, c_int, c_uint, c_void};

type Status = c_uint;
const OK: Status = 0;
const INVALID: Status = 2;
const NOT_SUPPORTED: Status = 3;
const NOT_LOADED: Status = 9;
const UNKNOWN: Status = 999;

/// GPUs 0 and 1 are linked, 2 and 3 hang on switches, 4 has no links, and 5 does not answer.
const GPUS: c_uint = 6;
const LINKS: c_uint = 18;

fn fault(name: &str) -> bool {
    std::env::var("FAKE_NVML").is_ok_and(|fault| fault == name)
}

fn number(device: *mut c_void) -> c_uint {
    device as usize as c_uint - 1
}

unsafe fn say(text: &str, to: *mut c_char, room: c_uint) -> Status {
    assert!(text.len() < room as usize);
    for (index, byte) in text.bytes().chain([0]).enumerate() {
        unsafe { *to.add(index) = byte as c_char };
    }
    OK
}

#[repr(C)]
struct Pci {
    legacy: [c_char; 16],
    domain: c_uint,
    bus: c_uint,
    device: c_uint,
    id: c_uint,
    subsystem: c_uint,
    address: [c_char; 32],
}

unsafe fn at(gpu: c_uint, pci: *mut Pci) -> Status {
    // The library writes eight digits of the domain, the kernel four.
    unsafe { say(&format!("00000000:{:02X}:00.0", 0xa0 + gpu), (&raw mut (*pci).address).cast(), 32) }
}

#[unsafe(no_mangle)]
extern "C" fn nvmlInit_v2() -> Status {
    if fault("init") { NOT_LOADED } else { OK }
}

#[unsafe(no_mangle)]
extern "C" fn nvmlShutdown() -> Status {
    OK
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlSystemGetDriverVersion(to: *mut c_char, room: c_uint) -> Status {
    unsafe { say("580.65.06", to, room) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetCount_v2(count: *mut c_uint) -> Status {
    unsafe { *count = GPUS };
    if fault("count") { UNKNOWN } else { OK }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetHandleByIndex_v2(index: c_uint, device: *mut *mut c_void) -> Status {
    unsafe { *device = (index + 1) as usize as *mut c_void };
    if index < GPUS { OK } else { INVALID }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetPciInfo_v3(device: *mut c_void, pci: *mut Pci) -> Status {
    unsafe { at(number(device), pci) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetMigMode(
    device: *mut c_void,
    now: *mut c_uint,
    next: *mut c_uint,
) -> Status {
    unsafe { (*now, *next) = (c_uint::from(number(device) == 2), 0) };
    if number(device) == 4 { NOT_SUPPORTED } else { OK }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetUUID(device: *mut c_void, to: *mut c_char, room: c_uint) -> Status {
    if number(device) == 5 {
        return UNKNOWN;
    }
    unsafe { say(&format!("GPU-0000000{}-1111-2222-3333-444444444444", number(device)), to, room) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetName(_: *mut c_void, to: *mut c_char, room: c_uint) -> Status {
    unsafe { say("NVIDIA H200", to, room) }
}

#[repr(C)]
struct Memory {
    version: c_uint,
    total: u64,
    reserved: u64,
    free: u64,
    used: u64,
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetMemoryInfo_v2(_: *mut c_void, memory: *mut Memory) -> Status {
    unsafe { (*memory).total = 143_771 << 20 };
    OK
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetNvLinkState(device: *mut c_void, link: c_uint, up: *mut c_uint) -> Status {
    // The last link of each is down.
    unsafe { *up = c_uint::from(link < LINKS - 1) };
    match (number(device), link) {
        (4, _) => NOT_SUPPORTED,
        (_, LINKS..) => INVALID,
        _ => OK,
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetNvLinkRemotePciInfo_v2(
    device: *mut c_void,
    _: c_uint,
    pci: *mut Pci,
) -> Status {
    match number(device) {
        0 => unsafe { at(1, pci) },
        1 => unsafe { at(0, pci) },
        _ => UNKNOWN,
    }
}

#[repr(C)]
struct Field {
    id: c_uint,
    scope: c_uint,
    time: i64,
    latency: i64,
    kind: c_uint,
    status: Status,
    value: u64,
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetFieldValues(
    device: *mut c_void,
    count: c_int,
    fields: *mut Field,
) -> Status {
    const LINKS_TO_SWITCHES: c_uint = 147;
    const UNSIGNED: c_uint = 1;
    for index in 0..count as usize {
        let field = unsafe { &mut *fields.add(index) };
        if field.id != LINKS_TO_SWITCHES {
            field.status = NOT_SUPPORTED;
            continue;
        }
        (field.kind, field.status) = (UNSIGNED, OK);
        field.value = u64::from(matches!(number(device), 2 | 3)) * u64::from(LINKS);
    }
    OK
}
