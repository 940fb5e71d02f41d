//! The client of the public API, and all that a program outside the platform needs of it.
//!
//! There are two ways to call. [`Client`] is typed and generated: for programs that know at compile time what they
//! want, such as adapters. [`Connection::call`] is driven by the API's own description ([`describe`]): for programs
//! whose words *are* the API's words, such as the command line, which then never lags behind the contract. One of the
//! two alone was rejected: a typed command line is a second list of every noun and verb, kept by hand; an adapter
//! without types finds its mistakes at run time.
//!
//! It depends on no crate of the platform: what it knows is the document, and so is what everybody else knows.

mod call;
mod connect;
pub mod describe;
mod events;
// The generator allows lints where it needs to, with the attribute that our own code may not use. Its layout is the
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

/// The API's description, as it was when this client was built.
pub const DOCUMENT: &str = include_str!("../../../../openapi/platform.json");
