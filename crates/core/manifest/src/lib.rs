//! The manifest of an app's release: what it is made of, what it needs, and how each of its promises is witnessed.
//!
//! It is data that is fixed and signed with the release. The platform reads counts, orders and checks in it and knows no more
//! of the app than that; a component's key and what stands in its commands mean something to the app's adapter alone.

mod check;
mod compatibility;
mod component;
mod config;
mod document;
mod explain;
mod fault;
mod lint;
mod path;
mod schema;
mod secret_references;
mod variables;

pub use check::{Check, Expect, Witnesses};
pub use compatibility::{Answer, Ask, Change, Place, Seat, Site, Spread, Suggestion, compatible};
pub use component::{
    Capacity, Component, Count, DrainPace, Expose, Port, Quorum, Reach, ReplaceOrder, RootFrom, Runtime,
};
pub use config::check_config;
pub use document::{
    AppKind, Artifact, Compatibility, Manifest, Meter, MeterKind, RepairMode, RepairPolicy, Shape, Verb,
};
pub use fault::Fault;
pub use lint::{Context, lint};
pub use schema::{SCHEMA_ID, read, schema};
pub use secret_references::{SECRET_FORMAT, secret_references};
pub use variables::{Values, Variable, fill, variables};
