//! OCI images on a node: verified against their digests and unpacked once, safely.
//!
//! The content of an image is untrusted, and root unpacks it. So a name from an image is never joined to a path: every step
//! goes from the open root directory through the kernel's own confinement (`openat2`), every blob is verified against its
//! digest, and the unpacked content is recorded for later checks. A general tar library was rejected: it guards one archive,
//! but knows neither whiteouts nor several layers.

mod budget;
mod building;
mod digest;
mod document;
mod error;
mod evict;
mod images;
mod layer;
mod limits;
mod mark;
mod member;
mod name;
mod room;
mod root;
mod seal;
mod source;
mod tree;
mod unpack;
mod zstd;

pub use budget::{Budget, ImageReservation};
pub use document::{Blob, Config, Lead, lead};
pub use error::Error;
pub use evict::ImageHold;
pub use images::{Image, Images};
pub use limits::{Footprint, Limits};
pub use muster_ids::{Digest, DigestError};
pub use room::Shortage;
pub use source::Source;
pub use unpack::LeftOut;
