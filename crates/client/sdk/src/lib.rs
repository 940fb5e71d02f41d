//! Client of the public API, with everything that a program outside the platform needs.
//!
//! Every call is driven by the API's own description ([`describe`]). [`Connection::call`] returns the document, for programs with
//! commands derived from the API, such as the command line; [`Connection::fetch`] returns one of the generated [`types`], for
//! programs that know their calls at compile time, such as adapters. A generated method for each endpoint was rejected: nothing
//! called it, and it was as long as all the types together.
//!
//! It depends on no crate of the platform: the document is all it knows, as for any other client.

mod call;
mod connect;
pub mod describe;
mod events;
mod problem;
mod sse;
mod stream;
// The file's layout is the generator's, so that it does not depend on the version of rustfmt.
#[rustfmt::skip]
pub mod types;

pub use call::{Arguments, Body, Chunks, Response};
pub use connect::{Connection, Connector, Exchange, connect, fresh_key};
pub use events::{EventStream, Follow, Item};
pub use problem::{Error, FieldError, Problem};
pub use stream::{Said, StreamInput, StreamOutput};

/// The API description, as of the build of this client.
pub const DOCUMENT: &str = include_str!("../../../../openapi/platform.json");
