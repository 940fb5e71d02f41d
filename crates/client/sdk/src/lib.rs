//! Client of the public API, with everything that a program outside the platform needs.
//!
//! There are two ways to call it. [`Client`] is typed and generated: for programs that know their calls at compile time,
//! such as adapters. [`Connection::call`] is driven by the API's own description ([`describe`]): for programs with
//! commands derived from the API, such as the command line, which then never lags behind the contract. Offering only one
//! was rejected: a typed command line would be a second, hand-maintained list of every noun and verb, and an adapter
//! without types would find its mistakes at run time.
//!
//! It depends on no crate of the platform: the document is all it knows, as for any other client.

mod call;
mod connect;
pub mod describe;
mod events;
// The generator allows lints where it needs to, with an attribute that our own code may not use. Its layout is the
// generator's too, so that the file does not depend on the version of rustfmt.
#[rustfmt::skip]
#[expect(clippy::allow_attributes, reason = "generated code says #[allow], which it cannot know to be needed")]
pub mod generated;
mod problem;
mod sse;
mod stream;

pub use call::{Arguments, Body, Chunks, Response};
pub use connect::{Connection, Connector, Exchange, connect, fresh_key};
pub use events::{EventStream, Follow, Item};
pub use generated::{ByteStream, Client, Error as ClientError, ResponseValue, types};
pub use problem::{Error, FieldError, Problem};
pub use stream::{Said, StreamInput, StreamOutput};

/// The API description, as of the build of this client.
pub const DOCUMENT: &str = include_str!("../../../../openapi/platform.json");
