//! Typed ids, and time and randomness as injected values.
//!
//! An id is a UUIDv7 in the database and a prefixed, sortable text on the wire (`ten_01h455vb4pex5vsknk084sn02q`). Bare
//! UUIDs were rejected: a log line with the kind of resource saves a lookup at three in the morning.

mod base32;
mod digest;
mod env;
mod id;

pub use digest::{Digest, DigestError};
pub use env::{Clock, Entropy, Env, ManualClock, SeededEntropy, SystemClock, SystemEntropy};
pub use id::{IdError, TypedId};

id::ids! {
    /// A tenant.
    TenantId = "ten";
    /// A project of a tenant.
    ProjectId = "prj";
    /// A user.
    UserId = "usr";
    /// A service account of a project.
    ServiceAccountId = "sva";
    /// A role bound to a user at a scope.
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
    /// A node: an enrolled machine.
    NodeId = "nod";
    /// A slot of a node: its smallest claimable GPU unit.
    SlotId = "slt";
    /// An allocation: a project's right to capacity on one node.
    AllocationId = "alc";
    /// A claim: the binding of a slot to an allocation.
    ClaimId = "clm";
    /// An operation: durable work.
    OperationId = "op";
    /// A cell.
    CellId = "cel";
    /// A network.
    NetworkId = "net";
    /// An SSH key.
    SshKeyId = "key";
    /// An open terminal, command or transfer between a user and a cell.
    StreamId = "str";
    /// A repository of the registry.
    RepositoryId = "rpo";
    /// An artifact: content by digest.
    ArtifactId = "art";
    /// A publisher's key.
    KeyId = "pky";
    /// A project's own secret.
    SecretId = "sec";
    /// A secret issued for a purpose.
    RuntimeSecretId = "rts";
    /// A witness: evidence for a transition.
    WitnessId = "wit";
    /// A task for a node's agent.
    TaskId = "tsk";
    /// A one-time right to enrol a node.
    EnrolmentId = "enr";
    /// An app of the catalog.
    AppId = "app";
    /// A release of an app.
    AppVersionId = "ver";
    /// A project's right to launch an app.
    EntitlementId = "ent";
    /// A process that implements an app.
    AdapterId = "adp";
    /// A step that an adapter runs.
    AdapterStepId = "ast";
    /// A running app in a project.
    InstanceId = "ins";
    /// One running unit of a component of an instance.
    MemberId = "mem";
    /// A running server.
    ReplicaId = "rep";
}
