//! Events for timelines, streams and webhooks.

use std::str::FromStr;

use jiff::Timestamp;
use muster_ids::{EventId, InstanceId, MemberId, ProjectId, TenantId};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::Scope;
use crate::member::Member;

macro_rules! event_types {
    ($($variant:ident = $word:literal, $meaning:literal;)*) => {
        /// All types of events, as a closed list; `docs/reference/events.md` is generated from it and shows a change in
        /// review.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum EventType { $(#[doc = $meaning] $variant,)* }

        impl EventType {
            /// All values.
            pub const ALL: &'static [EventType] = &[$(EventType::$variant,)*];

            /// The CloudEvents type.
            pub fn as_str(self) -> &'static str {
                match self { $(EventType::$variant => concat!("dev.muster.", $word, ".v1"),)* }
            }

            /// Returns its description.
            pub fn meaning(self) -> &'static str {
                match self { $(EventType::$variant => $meaning,)* }
            }
        }
    };
}

event_types! {
    TenantCreated = "tenant.created", "A tenant was created.";
    TenantUpdated = "tenant.updated", "A tenant's description changed.";
    TenantDeleted = "tenant.deleted", "A tenant and everything in it was removed.";
    TenantKeyRotated = "tenant.key_rotated", "A tenant's encryption key has a new version.";
    ProjectCreated = "project.created", "A project was created.";
    ProjectUpdated = "project.updated", "A project's description changed.";
    ProjectDeleted = "project.deleted", "A project and everything in it was removed.";
    UserCreated = "user.created", "A person was added.";
    UserUpdated = "user.updated", "A person's entry changed, or the person was disabled or enabled.";
    UserPasswordSet = "user.password_set", "A person's password was set; all of the person's tokens and sessions ended.";
    UserDeleted = "user.deleted", "A person was removed, with tokens, sessions and role bindings.";
    RoleBindingCreated = "role_binding.created", "A role was bound to a person.";
    RoleBindingDeleted = "role_binding.deleted", "A role binding of a person was removed.";
    ServiceAccountCreated = "service_account.created", "A service account was created.";
    ServiceAccountUpdated = "service_account.updated", "A service account's allow list or description changed.";
    ServiceAccountDeleted = "service_account.deleted", "A service account was removed, with its tokens.";
    TokenIssued = "token.issued", "A token was issued.";
    TokenRotated = "token.rotated", "A token was replaced; the old one ends after the overlap.";
    TokenRevoked = "token.revoked", "A token was revoked.";
    SessionCreated = "session.created", "A person logged in.";
    SessionDeleted = "session.deleted", "A person logged out.";
    NodeEnrolmentIssued = "node.enrolment_issued", "A join token was issued for one machine.";
    NodeJoined = "node.joined", "A machine joined as a node; an operator approves its hardware before it is used.";
    NodeRejoined = "node.rejoined", "A machine rejoined as an existing node with a new token; its previous certificate is invalid.";
    NodeUnreachable = "node.unreachable", "A node missed three heartbeats; its cells may still run.";
    NodeReachable = "node.reachable", "A node sends heartbeats again and holds no orphans.";
    NodeRebooted = "node.rebooted", "A node's machine was restarted: every cell on it ended.";
    NodeOrphansFound = "node.orphans_found", "A node holds orphaned sandboxes; it gets no work until they are removed.";
    NodeAddressChanged = "node.address_changed", "A node reports another address than the approved one, or another node's.";
    NodeInventoryChanged = "node.inventory_changed", "A node's hardware differs from the approved inventory.";
    FleetMassLossSuspected = "fleet.mass_loss_suspected", "Many nodes missed their heartbeats at once; the fault is presumed to be the platform's, and none is declared unreachable.";
    NodeUpdated = "node.updated", "A node's labels changed.";
    NodeApproved = "node.approved", "An operator approved a node's hardware.";
    NodeCordoned = "node.cordoned", "A node was cordoned: it gets no new work.";
    NodeUncordoned = "node.uncordoned", "A node was uncordoned.";
    SlotQuarantined = "slot.quarantined", "A slot was quarantined: it cannot be claimed.";
    SlotApproved = "slot.approved", "An operator approved a slot; it can be claimed again.";
    SlotFound = "slot.found", "A slot's device reappeared; the slot can be claimed again.";
    GpuProductCreated = "gpu_product.created", "A GPU product was added to the catalog.";
    GpuProductUpdated = "gpu_product.updated", "A GPU product's description changed.";
    GpuProductDeleted = "gpu_product.deleted", "A GPU product was removed from the catalog.";
    QuotaSet = "quota.set", "A project's limits were set.";
    WebhookCreated = "webhook.created", "A webhook was created.";
    WebhookUpdated = "webhook.updated", "A webhook changed.";
    WebhookDeleted = "webhook.deleted", "A webhook was removed.";
    NodeDraining = "node.draining", "A node is draining and gets no new work.";
    NodeDrained = "node.drained", "A node is drained; it stays cordoned.";
    NodeAudited = "node.audited", "A node's contents were compared with the database, in both directions.";
    NodeRetired = "node.retired", "A node left the fleet.";
    AllocationRequested = "allocation.requested", "An allocation was requested.";
    AllocationUpdated = "allocation.updated", "An allocation's labels, expiry or protection changed.";
    AllocationPlaced = "allocation.placed", "A node was chosen for an allocation and its capacity claimed.";
    AllocationActive = "allocation.active", "An allocation is active, witnessed.";
    AllocationExpiring = "allocation.expiring", "An allocation expires soon: sent one hour and ten minutes before.";
    AllocationReleasing = "allocation.releasing", "An allocation is being released.";
    AllocationQuarantined = "allocation.quarantined", "A forced release ended; what the allocation holds on an unreachable node stays claimed, and the platform finishes when the node returns or an operator attests.";
    AllocationReleased = "allocation.released", "Nothing of an allocation is left, witnessed or attested.";
    AllocationFailed = "allocation.failed", "An allocation could not be created and was rolled back.";
    AllocationAttested = "allocation.attested", "An operator attested that nothing of an allocation is left.";
    CellRequested = "cell.requested", "A cell was requested.";
    CellRunning = "cell.running", "A cell runs and all its services are ready, witnessed.";
    CellDestroying = "cell.destroying", "A cell is being destroyed.";
    CellDestroyed = "cell.destroyed", "Nothing of a cell is left, witnessed or attested.";
    CellFailed = "cell.failed", "A cell could not be created and was rolled back.";
    CellExited = "cell.exited", "A standalone cell ended: its first process exited.";
    CellCrashLoopDetected = "cell.crash_loop_detected", "A service of a standalone cell was restarted three times within ten minutes.";
    CellRestartSuspended = "cell.restart_suspended", "A cell ended again after three restarts within an hour; its restart policy is suspended.";
    StreamGranted = "stream.granted", "A terminal, command, transfer or log stream of a cell was granted.";
    SshKeyCreated = "ssh_key.created", "A person's SSH key was added to a project.";
    SshKeyDeleted = "ssh_key.deleted", "A person's SSH key was removed from a project.";
    SshKeyExpired = "ssh_key.expired", "An SSH key was removed because its time or its allocation ended.";
    RepositoryDeleted = "repository.deleted", "A repository and everything in it was removed.";
    ManifestPushed = "manifest.pushed", "A manifest was pushed to a repository, or a tag was set.";
    ManifestDeleted = "manifest.deleted", "A manifest, a tag or a blob was removed from a repository.";
    BlobDamaged = "blob.damaged", "A file of the registry does not match its digest and was quarantined.";
    BlobMounted = "blob.mounted", "Content of one repository was mounted into another.";
    ArtifactPublished = "artifact.published", "Content was published as an artifact.";
    ArtifactVerified = "artifact.verified", "The signatures of an artifact were verified.";
    ArtifactChanged = "artifact.changed", "An artifact changed its state.";
    ArtifactRefused = "artifact.refused", "A node refused to run an artifact: it is damaged, or has no valid signature.";
    ArtifactDeleted = "artifact.deleted", "An artifact was removed.";
    KeyCreated = "key.created", "A publisher's key was added to a project's trusted keys.";
    KeyRevoked = "key.revoked", "A publisher's key was revoked in a project.";
    TrustPolicyChanged = "trust_policy.changed", "A project's trust policy changed.";
    SecretCreated = "secret.created", "A secret was created.";
    SecretRotated = "secret.rotated", "A secret was rotated.";
    SecretDeleted = "secret.deleted", "A secret was removed.";
    SecretDelivered = "secret.delivered", "A secret was delivered to a node for a cell.";
    SecretUsed = "secret.used", "A secret was sent to the registry it is bound to.";
    RuntimeSecretIssued = "runtime_secret.issued", "A runtime secret was issued.";
    RuntimeSecretRevoked = "runtime_secret.revoked", "A runtime secret was revoked.";
    AppCreated = "app.created", "An app was created.";
    AppUpdated = "app.updated", "An app's description or audience changed.";
    AppDeleted = "app.deleted", "An app was removed, with its releases.";
    AppVersionPublished = "app_version.published", "A release of an app was published.";
    AppVersionPromoted = "app_version.promoted", "A release of an app was promoted.";
    AppVersionDemoted = "app_version.demoted", "A release of an app was demoted.";
    EntitlementGranted = "entitlement.granted", "A project was entitled to launch an app and consented to its operator account.";
    EntitlementRevoked = "entitlement.revoked", "A project's entitlement was revoked; running instances stay operable.";
    OperatorTokenMinted = "operator_token.minted", "A short-lived operator token was minted for an app's adapter.";
    InstanceCreated = "instance.created", "An instance was requested.";
    InstanceUpdated = "instance.updated", "An instance's labels, protection, expiry or repair mode changed.";
    InstanceStarting = "instance.starting", "An instance's members are being added.";
    InstanceStartCompleted = "instance.start_completed", "An instance runs: every component has its minimum of active members, witnessed.";
    InstanceHealthy = "instance.healthy", "An instance is healthy again.";
    InstanceHealthChanged = "instance.health_changed", "An instance's health became degraded, unhealthy or unknown.";
    InstanceAdapterSilent = "instance.adapter_silent", "The adapter of an instance missed two reconciliations; its members' health is unknown.";
    InstanceUpgraded = "instance.upgraded", "Every member of an instance runs another release, witnessed.";
    InstanceStopping = "instance.stopping", "An instance is being decommissioned.";
    InstanceQuarantined = "instance.quarantined", "A forced decommission ended; its members on unreachable nodes are cut off, and the platform finishes when they return or an operator attests.";
    InstanceStopped = "instance.stopped", "Nothing of an instance is left.";
    InstanceFailed = "instance.failed", "An instance failed to start, or its repair budget is spent.";
    InstanceRepairProposed = "instance.repair_proposed", "A member failed, and a replacement is proposed.";
    InstanceRepairSuspended = "instance.repair_suspended", "The circuit breaker opened after too many repairs; further ones are only proposed.";
    MemberRequested = "member.requested", "A member was requested.";
    MemberJoining = "member.joining", "A member's cell runs, and its adapter joins it.";
    MemberAdded = "member.added", "A member is active, witnessed.";
    MemberDraining = "member.draining", "A member is draining.";
    MemberDrained = "member.drained", "A member is drained, witnessed or lost.";
    MemberResumed = "member.resumed", "A drained member is active again, witnessed.";
    MemberRemoving = "member.removing", "A member is being removed.";
    MemberRemoved = "member.removed", "Nothing of a member is left.";
    MemberFailed = "member.failed", "A member failed to start, or its cell died.";
    MemberFenced = "member.fenced", "A member on an unreachable node was cut off: the other nodes of its network confirmed it.";
    MemberQuarantined = "member.quarantined", "A forced removal ended; the member is cut off on an unreachable node, and the platform finishes when that returns or an operator attests.";
    MemberHealthChanged = "member.health_changed", "A member's health changed.";
    MemberCrashLoopDetected = "member.crash_loop_detected", "A service of a member was restarted three times within ten minutes.";
    MemberRestartSuspended = "member.restart_suspended", "A member's cell ended again after three restarts within an hour; repair takes over.";
    AdapterStepLeased = "adapter_step.leased", "An adapter leased a step.";
    AdapterStepLapsed = "adapter_step.lapsed", "An adapter's lease lapsed; the step is offered again.";
    OperationAccepted = "operation.accepted", "An operation was accepted.";
    OperationStep = "operation.step", "A step of an operation ended.";
    OperationBlocked = "operation.blocked", "An operation is blocked; it names the reason and the role that can resolve it.";
    OperationEscalated = "operation.escalated", "An operation has been blocked for too long.";
    OperationResolved = "operation.resolved", "A blocked operation was resolved.";
    OperationCancelRequested = "operation.cancel_requested", "Cancellation of an operation was requested.";
    OperationEnded = "operation.ended", "An operation ended; its state is the outcome.";
    WebhookGaveUp = "webhook.gave_up", "A webhook was disabled after a day of failed deliveries.";
}

/// The app instance and the member whose timelines show an event or an operation.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Timeline {
    /// The instance.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub instance_id: Option<InstanceId>,
    /// The member.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub member_id: Option<MemberId>,
}

impl Timeline {
    /// Returns the timeline of an instance alone.
    pub fn of_instance(id: InstanceId) -> Self {
        Self { instance_id: Some(id), member_id: None }
    }

    /// Returns the timeline of a member.
    pub fn of_member(member: &Member) -> Self {
        Self { instance_id: Some(member.instance_id), member_id: Some(member.id) }
    }

    /// Returns the timeline that a resource's path names, if it is that of an instance or a member.
    pub fn of_path(path: &str) -> Self {
        fn after<I: FromStr>(path: &str, collection: &str) -> Option<I> {
            path.split('/').skip_while(|segment| *segment != collection).nth(1)?.parse().ok()
        }
        Self { instance_id: after(path, "app-instances"), member_id: after(path, "members") }
    }

    /// Returns this timeline, and the other one where this one names no instance.
    pub fn or(self, other: Self) -> Self {
        if self.instance_id.is_some() { self } else { other }
    }
}

/// A new event: its type, the path of its subject, and its data.
pub type NewEvent = (EventType, String, Value);

/// An event as the outbox stores it: everything but its sequence numbers.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Draft {
    /// Its id.
    pub id: EventId,
    /// Its type, in CloudEvents form.
    #[serde(rename = "type")]
    pub event_type: String,
    /// The resource's path.
    pub subject: String,
    /// Time of the event.
    pub at: Timestamp,
    /// Its tenant.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenant_id: Option<TenantId>,
    /// Its project.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub project_id: Option<ProjectId>,
    /// The timelines that show it.
    #[serde(flatten)]
    pub timeline: Timeline,
    /// Correlation id.
    pub correlation_id: String,
    /// Actor of the command.
    pub actor_id: String,
    /// Details for the timeline.
    pub data: Value,
}

/// An event with its sequence numbers: in the platform's stream, its tenant's and its project's.
#[derive(Debug, Clone)]
pub struct Event {
    /// The event.
    pub draft: Draft,
    /// Sequence number among all events, from 1, without gaps.
    pub platform_sequence: i64,
    /// Sequence number in the tenant's stream.
    pub tenant_sequence: Option<i64>,
    /// Sequence number in the project's stream.
    pub project_sequence: Option<i64>,
}

impl Event {
    /// Returns its sequence number in the stream of `scope`; `None` when it is not part of that stream.
    pub fn sequence_in(&self, scope: Scope) -> Option<i64> {
        match scope {
            Scope::Platform => Some(self.platform_sequence),
            Scope::Tenant(tenant) => self.tenant_sequence.filter(|_| self.draft.tenant_id == Some(tenant)),
            Scope::Project(_, project) => {
                self.project_sequence.filter(|_| self.draft.project_id == Some(project))
            }
        }
    }
}

/// Returns the stream's name in the table of counters.
pub fn stream_name(scope: Scope) -> String {
    match scope {
        Scope::Platform => "platform".to_owned(),
        Scope::Tenant(tenant) => tenant.to_string(),
        Scope::Project(_, project) => project.to_string(),
    }
}
