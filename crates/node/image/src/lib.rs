//! OCI images on a node: verified against their digests and unpacked once, safely.
//!
//! What an image holds was written by a stranger, and it is unpacked by root. So nothing here joins a name from an image to a
//! path: every step goes from the open root directory through the kernel's own confinement (`openat2`), every blob is read
//! against its digest, and what was unpacked is written down so that it can be looked at again later. Unpacking with a
//! general tar library was rejected: such a library guards one archive, but knows neither whiteouts nor several layers.

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

pub use document::{Blob, Config, Lead, lead};
pub use error::Error;
pub use evict::ImageHold;
pub use images::{Image, Images};
pub use limits::{Footprint, Limits};
pub use muster_ids::{Digest, DigestError};
pub use room::Shortage;
pub use source::Source;
pub use unpack::LeftOut;
