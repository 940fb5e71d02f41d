//! The registry's blob store, and the parts of the OCI distribution protocol that need neither network nor database.
//!
//! Whoever serves the protocol puts three things together: who may do what, which rows say that content belongs to a
//! repository, and what is here. Keeping all of it in one crate was rejected: what strangers send can be tried out here by
//! the million, without a server, and the store of content can be killed at any point without a database beside it.
//!
//! | module | what it decides |
//! | --- | --- |
//! | [`path`] | what a request for `/v2/…` is about |
//! | [`error`] | how a refusal looks |
//! | [`range`] | which part of a blob is sent or meant |
//! | [`page`] | which part of a list is sent |
//! | [`manifest`] | what a manifest says, and what it needs |
//! | [`referrers`] | the answer to who refers to a manifest |
//! | [`lint`] | what is wrong with an image or artifact before it is published |
//! | [`challenge`] | how a client is told to fetch a token, and for what it asks one |

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
