//! The CUDA driver, loaded at run time: a node without one is no error of the program. This is the only file of the crate
//! that calls foreign code.
#![expect(unsafe_code, reason = "the driver's library can only be called as foreign functions")]

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::marker::PhantomData;
use std::ptr;

use libloading::Library;

use super::Unproven;

type Status = c_int;
const SUCCESS: Status = 0;
const OUT_OF_MEMORY: Status = 2;

/// Declares the used functions by their exported names, and their lookup.
macro_rules! functions {
    ($($field:ident = $name:literal: fn($($argument:ty),*);)*) => {
        struct Functions { $($field: unsafe extern "C" fn($($argument),*) -> Status,)* }

        impl Functions {
            fn find(library: &Library) -> Result<Self, libloading::Error> {
                // SAFETY: the types are those of cuda.h for exactly these versioned names, which never change.
                unsafe { Ok(Self { $($field: *library.get(concat!($name, "\0").as_bytes())?,)* }) }
            }
        }
    };
}

functions! {
    init = "cuInit": fn(c_uint);
    error_name = "cuGetErrorName": fn(Status, *mut *const c_char);
    count = "cuDeviceGetCount": fn(*mut c_int);
    device = "cuDeviceGet": fn(*mut c_int, c_int);
    uuid = "cuDeviceGetUuid": fn(*mut [u8; 16], c_int);
    retain = "cuDevicePrimaryCtxRetain": fn(*mut *mut c_void, c_int);
    release = "cuDevicePrimaryCtxRelease_v2": fn(c_int);
    enter = "cuCtxSetCurrent": fn(*mut c_void);
    synchronize = "cuCtxSynchronize": fn();
    info = "cuMemGetInfo_v2": fn(*mut usize, *mut usize);
    allocate = "cuMemAlloc_v2": fn(*mut u64, usize);
    free = "cuMemFree_v2": fn(u64);
    fill = "cuMemsetD32_v2": fn(u64, c_uint, usize);
    copy_out = "cuMemcpyDtoH_v2": fn(*mut c_void, u64, usize);
}

/// The driver.
pub(super) struct Driver {
    functions: Functions,
    /// Keeps the functions loaded.
    _library: Library,
}

/// A connection to one device, for one thread: the driver stores it per thread.
pub(super) struct Context<'a> {
    driver: &'a Driver,
    device: c_int,
    _one_thread: PhantomData<*const ()>,
}

/// An allocation of device memory, freed on drop.
pub(super) struct Block<'a> {
    context: &'a Context<'a>,
    address: u64,
    bytes: u64,
}

impl Driver {
    pub(super) fn load() -> Result<Self, Unproven> {
        // SAFETY: loading runs the library's initialisers, which are the driver vendor's, installed by the node's operator.
        let library = unsafe { Library::new("libcuda.so.1") }
            .map_err(|error| Unproven(format!("there is no driver on this node: {error}")))?;
        let functions = Functions::find(&library)
            .map_err(|error| Unproven(format!("the driver lacks a function: {error}")))?;
        let driver = Self { functions, _library: library };
        // SAFETY: takes no pointer.
        driver.check("cuInit", unsafe { (driver.functions.init)(0) })?;
        Ok(driver)
    }

    /// Connects to the device with this UUID, `GPU-` and 32 hexadecimal digits with dashes.
    pub(super) fn context(&self, uuid: &str) -> Result<Context<'_>, Unproven> {
        let device = self.find(uuid)?;
        let mut context = ptr::null_mut();
        // SAFETY: the pointer is to a place for one pointer.
        self.check("cuDevicePrimaryCtxRetain", unsafe { (self.functions.retain)(&mut context, device) })?;
        let connected = Context { driver: self, device, _one_thread: PhantomData };
        // SAFETY: the context was just given by the driver and is retained until `connected` is dropped.
        self.check("cuCtxSetCurrent", unsafe { (self.functions.enter)(context) })?;
        Ok(connected)
    }

    fn find(&self, uuid: &str) -> Result<c_int, Unproven> {
        let wanted: String = uuid.trim_start_matches("GPU-").chars().filter(|digit| *digit != '-').collect();
        let mut count = 0;
        // SAFETY: the pointer is to a place for one number.
        self.check("cuDeviceGetCount", unsafe { (self.functions.count)(&mut count) })?;
        for index in 0..count {
            let (mut device, mut bytes) = (0, [0; 16]);
            // SAFETY: the pointer is to a place for one number.
            self.check("cuDeviceGet", unsafe { (self.functions.device)(&mut device, index) })?;
            // SAFETY: the pointer is to a place for the 16 bytes of a CUuuid.
            self.check("cuDeviceGetUuid", unsafe { (self.functions.uuid)(&mut bytes, device) })?;
            let found: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            if found == wanted.to_lowercase() {
                return Ok(device);
            }
        }
        Err(Unproven(format!("the driver shows {count} devices, and {uuid} is not among them")))
    }

    fn check(&self, call: &str, status: Status) -> Result<(), Unproven> {
        if status == SUCCESS {
            return Ok(());
        }
        let mut name = ptr::null();
        // SAFETY: the pointer is to a place for one pointer.
        let named = unsafe { (self.functions.error_name)(status, &mut name) };
        let name = if named == SUCCESS && !name.is_null() {
            // SAFETY: the driver gives a text of its own that ends with NUL and is never freed.
            unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned()
        } else {
            "unknown".to_owned()
        };
        Err(Unproven(format!("{call} failed with {status} ({name})")))
    }
}

impl Context<'_> {
    /// Returns the free and the total bytes.
    pub(super) fn free_and_total(&self) -> Result<(u64, u64), Unproven> {
        let (mut free, mut total) = (0, 0);
        // SAFETY: the pointers are to places for one number each.
        let status = unsafe { (self.driver.functions.info)(&mut free, &mut total) };
        self.driver.check("cuMemGetInfo", status)?;
        Ok((free as u64, total as u64))
    }

    /// Allocates memory; none if there is not enough.
    pub(super) fn allocate(&self, bytes: u64) -> Result<Option<Block<'_>>, Unproven> {
        let size =
            usize::try_from(bytes).map_err(|_| Unproven(format!("{bytes} bytes at once are too many")))?;
        let mut address = 0;
        // SAFETY: the pointer is to a place for one address.
        match unsafe { (self.driver.functions.allocate)(&mut address, size) } {
            OUT_OF_MEMORY => Ok(None),
            status => {
                self.driver.check("cuMemAlloc", status)?;
                Ok(Some(Block { context: self, address, bytes }))
            }
        }
    }

    /// Fills a block with a word.
    pub(super) fn fill(&self, block: &Block<'_>, word: u32) -> Result<(), Unproven> {
        let words = usize::try_from(block.bytes / 4).unwrap_or(usize::MAX);
        // SAFETY: the block is this long, and exclusively ours.
        let status = unsafe { (self.driver.functions.fill)(block.address, word, words) };
        self.driver.check("cuMemsetD32", status)
    }

    /// Waits until all requested work is done.
    pub(super) fn settle(&self) -> Result<(), Unproven> {
        // SAFETY: takes no pointer.
        self.driver.check("cuCtxSynchronize", unsafe { (self.driver.functions.synchronize)() })
    }

    /// Reads from a block.
    pub(super) fn read(&self, block: &Block<'_>, offset: u64, into: &mut [u8]) -> Result<(), Unproven> {
        let end = offset.checked_add(into.len() as u64);
        if end.is_none_or(|end| end > block.bytes) {
            return Err(Unproven(format!("{} bytes at {offset} are not in this block", into.len())));
        }
        // SAFETY: the range is within the block, as checked above, and `into` has room for its own length.
        let status = unsafe {
            (self.driver.functions.copy_out)(into.as_mut_ptr().cast(), block.address + offset, into.len())
        };
        self.driver.check("cuMemcpyDtoH", status)
    }
}

impl Block<'_> {
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Drop for Block<'_> {
    fn drop(&mut self) {
        // SAFETY: the address came from the driver and is given back once.
        let status = unsafe { (self.context.driver.functions.free)(self.address) };
        if let Err(error) = self.context.driver.check("cuMemFree", status) {
            tracing::warn!(%error, "memory of a device could not be returned; it is freed when the process ends");
        }
    }
}

impl Drop for Context<'_> {
    fn drop(&mut self) {
        // SAFETY: it was retained once when it was made.
        let status = unsafe { (self.driver.functions.release)(self.device) };
        if let Err(error) = self.driver.check("cuDevicePrimaryCtxRelease", status) {
            tracing::warn!(%error, "a device's context could not be released");
        }
    }
}
