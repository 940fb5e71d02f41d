//! Specifications of devices by the Container Device Interface (CDI): what a container needs to use a device, as the vendor's
//! tools write it to `/etc/cdi` and `/var/run/cdi`. Pure, but for the listing of a driver's files.
//!
//! A specification is the operator's word and still checked: it names files of the node that every cell with the device gets
//! to see. Nothing of it is executed, every mount is read-only, and what this crate does not know refuses the whole.

mod edits;
mod hook;
pub mod linker_cache;
pub mod nvidia;
mod path;
mod spec;

pub use edits::Edits;
pub use hook::{Hook, Link};
pub use spec::{LONGEST, Spec, SpecDevice, SpecDeviceNode, SpecEdits, SpecHook, SpecMount};

/// Why a specification is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SpecError {
    /// It is too large.
    #[error("it is larger than {} MiB", LONGEST >> 20)]
    TooLarge,
    /// It is neither JSON nor YAML of the format.
    #[error("it does not parse: {0}")]
    Syntax(String),
    /// A version of the format that this release does not know.
    #[error("cdiVersion {0} is unknown")]
    Version(String),
    /// A kind that is not `vendor/class`.
    #[error("kind {0:?} is not vendor/class")]
    Kind(String),
    /// It has too many edits.
    #[error("it has more than {0} edits")]
    TooMany(usize),
    /// A hook whose effect is unknown.
    #[error("the hook `{0}` is unknown, and no hook is executed")]
    Hook(String),
    /// A path that is not absolute, has detours, or is not a vendor's to give.
    #[error("the path {0:?} is not allowed")]
    Path(String),
    /// A variable without a value, or one that changes how programs are loaded.
    #[error("the variable {0:?} is not allowed")]
    Variable(String),
    /// A device node of another type.
    #[error("{0} is not a character device")]
    NotCharacterDevice(String),
    /// A mount that is not a read-only bind mount.
    #[error("the mount of {0} is not a read-only bind mount")]
    NotReadOnly(String),
    /// Two different things at one path.
    #[error("two different things are to be at {0}")]
    Conflict(String),
    /// A device that it does not have.
    #[error("there is no device {0}")]
    NoDevice(String),
    /// A linker's cache that does not parse.
    #[error("the linker's cache of the image is damaged")]
    LinkerCache,
}
