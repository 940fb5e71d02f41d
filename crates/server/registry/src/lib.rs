//! The registry's blob store, and the parts of the OCI distribution protocol that need neither network nor database.
//!
//! A server of the protocol combines three things: permissions, the rows that link content to repositories, and this crate.
//! Putting all of it into one crate was rejected: here, untrusted input can be tested by the million without a server, and
//! the blob store can be killed at any point without a database.
//!
//! | module | responsibility |
//! | --- | --- |
//! | [`path`] | routes of requests to `/v2/…` |
//! | [`error`] | error responses |
//! | [`range`] | byte ranges of blobs and upload chunks |
//! | [`page`] | pagination of lists |
//! | [`manifest`] | contents and dependencies of a manifest |
//! | [`referrers`] | the list of manifests that refer to a manifest |
//! | [`lint`] | problems of an image or artifact, found before it is published |
//! | [`challenge`] | the token challenge, and requested scopes |

pub mod blobs;
pub mod challenge;
pub mod error;
mod hash;
pub mod lint;
pub mod manifest;
pub mod page;
pub mod path;
pub mod range;
pub mod referrers;
mod strict;

pub use blobs::{Blobs, Finished, FoundFile, Reading, StorageError, UploadError};
pub use muster_ids::{Digest, DigestError};
