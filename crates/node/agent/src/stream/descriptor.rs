//! A pipe or a terminal with non-blocking reads and writes.

use std::os::fd::{AsFd as _, OwnedFd};

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;
use tokio::io::unix::AsyncFd;

/// Registers a descriptor with the runtime.
#[expect(
    deprecated,
    reason = "it is for types that may close or change their descriptor while it is watched; an OwnedFd does neither"
)]
pub(super) fn watched(descriptor: OwnedFd) -> std::io::Result<AsyncFd<OwnedFd>> {
    AsyncFd::new(descriptor)
}

#[derive(Debug)]
pub(super) struct Descriptor(AsyncFd<OwnedFd>);

impl Descriptor {
    /// Wraps our own end of a pipe or terminal: its flags are not shared with the other end.
    pub(super) fn new(descriptor: OwnedFd) -> std::io::Result<Self> {
        let flags = fcntl_getfl(&descriptor)?;
        fcntl_setfl(&descriptor, flags | OFlags::NONBLOCK)?;
        Ok(Self(watched(descriptor)?))
    }

    /// Reads the available data; nothing at the end. A terminal without users returns EIO, which is its end.
    pub(super) async fn read(&self, buffer: &mut [u8]) -> std::io::Result<usize> {
        loop {
            let mut ready = self.0.readable().await?;
            let read = ready.try_io(|inner| Ok(rustix::io::read(inner.get_ref(), &mut *buffer)?));
            match read {
                Ok(Err(error)) if error.raw_os_error() == Some(Errno::IO.raw_os_error()) => return Ok(0),
                Ok(Err(error)) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Ok(read) => return read,
                Err(_would_block) => {}
            }
        }
    }

    /// Writes all bytes, waiting for the reader.
    pub(super) async fn write(&self, mut bytes: &[u8]) -> std::io::Result<()> {
        while !bytes.is_empty() {
            let mut ready = self.0.writable().await?;
            match ready.try_io(|inner| Ok(rustix::io::write(inner.get_ref(), bytes)?)) {
                Ok(Ok(written)) => bytes = &bytes[written..],
                Ok(Err(error)) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Ok(Err(error)) => return Err(error),
                Err(_would_block) => {}
            }
        }
        Ok(())
    }

    pub(super) fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.0.get_ref().as_fd()
    }
}
