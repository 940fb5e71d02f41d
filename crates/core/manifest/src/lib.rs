//! The manifest of an app's release: its components, its requirements, and the checks that verify its states.
//!
//! It is data, fixed and signed with the release. The platform reads counts, orders and checks from it and knows nothing
//! else about the app; a component's key and its commands are meaningful only to the app's adapter.

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
pub use compatibility::{
    Answer, Ask, Change, MemberGroup, PlannedAllocation, Site, Spread, Suggestion, compatible,
};
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
