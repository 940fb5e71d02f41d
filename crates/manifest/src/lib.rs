//! The manifest of an app's release: what it is made of, what it needs, and how each of its promises is witnessed.
//!
//! It is data that is fixed and signed with the release. The platform reads counts, orders and checks in it and knows no more
//! of the app than that; a component's key and what stands in its commands mean something to the app's adapter alone.

mod check;
mod component;
mod document;

pub use check::{Check, Expect, Witnesses};
pub use component::{
    Capacity, Component, Count, DrainPace, Expose, Port, Quorum, Reach, ReplaceOrder, RootFrom, Runtime,
};
pub use document::{
    AppKind, Artifact, Compatibility, Manifest, Meter, MeterKind, RepairMode, RepairPolicy, Shape, Verb,
};
