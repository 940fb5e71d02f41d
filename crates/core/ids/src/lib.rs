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
pub use id::{Id, IdError, IdKind, TypedId};

id::ids! {
    /// A tenant.
    TenantId of Tenant = "ten";
    /// A project of a tenant.
    ProjectId of Project = "prj";
    /// A user.
    UserId of User = "usr";
    /// A service account of a project.
    ServiceAccountId of ServiceAccount = "sva";
    /// A role bound to a user at a scope.
    RoleBindingId of RoleBinding = "rob";
    /// A token or a browser session.
    TokenId of Token = "tok";
    /// A webhook.
    WebhookId of Webhook = "whk";
    /// One attempt to deliver an event to a webhook.
    DeliveryId of Delivery = "dlv";
    /// An event.
    EventId of Event = "evt";
    /// An audit entry.
    AuditId of Audit = "aud";
    /// A node: an enrolled machine.
    NodeId of Node = "nod";
    /// A slot of a node: its smallest claimable GPU unit.
    SlotId of Slot = "slt";
    /// An allocation: a project's right to capacity on one node.
    AllocationId of Allocation = "alc";
    /// A claim: the binding of a slot to an allocation.
    ClaimId of Claim = "clm";
    /// An operation: durable work.
    OperationId of Operation = "op";
    /// A cell.
    CellId of Cell = "cel";
    /// A network.
    NetworkId of Network = "net";
    /// An SSH key.
    SshKeyId of SshKey = "key";
    /// An open terminal, command or transfer between a user and a cell.
    StreamId of Stream = "str";
    /// A repository of the registry.
    RepositoryId of Repository = "rpo";
    /// An artifact: content by digest.
    ArtifactId of Artifact = "art";
    /// A publisher's key.
    KeyId of Key = "pky";
    /// A project's own secret.
    SecretId of Secret = "sec";
    /// A secret issued for a purpose.
    RuntimeSecretId of RuntimeSecret = "rts";
    /// A witness: evidence for a transition.
    WitnessId of Witness = "wit";
    /// A task for a node's agent.
    TaskId of Task = "tsk";
    /// A one-time right to enrol a node.
    EnrolmentId of Enrolment = "enr";
    /// An app of the catalog.
    AppId of App = "app";
    /// A release of an app.
    AppVersionId of AppVersion = "ver";
    /// A project's right to launch an app.
    EntitlementId of Entitlement = "ent";
    /// A process that implements an app.
    AdapterId of Adapter = "adp";
    /// A step that an adapter runs.
    AdapterStepId of AdapterStep = "ast";
    /// A running app in a project.
    InstanceId of Instance = "ins";
    /// One running unit of a component of an instance.
    MemberId of Member = "mem";
    /// A running server.
    ReplicaId of Replica = "rep";
}
