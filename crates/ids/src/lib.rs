//! Typed ids, and the two ambient things (time and randomness) as values that are handed in.
//!
//! An id is a UUIDv7 in the database and a prefixed, sortable text on the wire (`ten_01h455vb4pex5vsknk084sn02q`).
//! Bare UUIDs were rejected: a log line that says which noun it speaks of saves a look-up at three in the morning.

mod base32;
mod id;
mod world;

pub use id::{IdError, TypedId};
pub use world::{Clock, Entropy, ManualClock, SeededEntropy, SystemClock, SystemEntropy, World};

id::ids! {
    /// A tenant.
    TenantId = "ten";
    /// A project of a tenant.
    ProjectId = "prj";
    /// A person.
    UserId = "usr";
    /// A service account of a project.
    ServiceAccountId = "sva";
    /// A role bound to a person at a scope.
    RoleBindingId = "rob";
    /// A token or a browser session.
    TokenId = "tok";
    /// A webhook.
    WebhookId = "whk";
    /// One attempt to deliver an event to a webhook.
    DeliveryId = "dlv";
    /// An event.
    EventId = "evt";
    /// An audit entry.
    AuditId = "aud";
    /// A running server.
    ReplicaId = "rep";
}
