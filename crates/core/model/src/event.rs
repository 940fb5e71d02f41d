//! Events for timelines, streams and webhooks.

use jiff::Timestamp;
use muster_ids::{EventId, ProjectId, TenantId};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::Scope;

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
    TenantCreated = "tenant.created", "A tenant was made.";
    TenantUpdated = "tenant.updated", "A tenant's description changed.";
    TenantDeleted = "tenant.deleted", "A tenant and everything in it was removed.";
    TenantKeyRotated = "tenant.key_rotated", "A tenant's encryption key has a new version.";
    ProjectCreated = "project.created", "A project was made.";
    ProjectUpdated = "project.updated", "A project's description changed.";
    ProjectDeleted = "project.deleted", "A project and everything in it was removed.";
    UserCreated = "user.created", "A person was added.";
    UserUpdated = "user.updated", "A person's entry changed, or the person was disabled or enabled.";
    UserPasswordSet = "user.password_set", "A person's password was set; all of the person's tokens and sessions ended.";
    UserDeleted = "user.deleted", "A person was removed, with tokens, sessions and role bindings.";
    RoleBindingCreated = "role_binding.created", "A person was given a role.";
    RoleBindingDeleted = "role_binding.deleted", "A role was taken from a person.";
    ServiceAccountCreated = "service_account.created", "A service account was made.";
    ServiceAccountUpdated = "service_account.updated", "A service account's allow list or description changed.";
    ServiceAccountDeleted = "service_account.deleted", "A service account was removed, with its tokens.";
    TokenIssued = "token.issued", "A token was issued.";
    TokenRotated = "token.rotated", "A token was replaced; the old one ends after the overlap.";
    TokenRevoked = "token.revoked", "A token was revoked.";
    SessionCreated = "session.created", "A person logged in.";
    SessionDeleted = "session.deleted", "A person logged out.";
    NodeEnrolmentIssued = "node.enrolment_issued", "One machine was given the right to join.";
    NodeJoined = "node.joined", "A machine joined as a node; an operator approves its hardware before it is used.";
    NodeRejoined = "node.rejoined", "A machine took a node up again with a fresh token; the certificate before opens nothing any more.";
    NodeUnreachable = "node.unreachable", "A node was not heard for three heartbeats; what runs on it may well go on.";
    NodeReachable = "node.reachable", "A node is heard again, and nothing is on it that must not be there.";
    NodeRebooted = "node.rebooted", "A node said hello after a start of its machine: every cell that ran on it ended.";
    NodeOrphansFound = "node.orphans_found", "A node holds places that must not be there; it gets no work before they are gone.";
    NodeAddressChanged = "node.address_changed", "A node reports another address than the approved one, or another node's.";
    NodeInventoryChanged = "node.inventory_changed", "A node's hardware is not what was approved.";
    FleetMassLossSuspected = "fleet.mass_loss_suspected", "Many nodes fell silent at once; the fault is presumed ours, none is declared lost.";
    NodeUpdated = "node.updated", "A node's labels changed.";
    NodeApproved = "node.approved", "An operator approved a node's hardware.";
    NodeCordoned = "node.cordoned", "A node is kept from new work.";
    NodeUncordoned = "node.uncordoned", "A node takes new work again.";
    SlotQuarantined = "slot.quarantined", "A slot is kept from everybody.";
    SlotApproved = "slot.approved", "A slot may be used again on an operator's word.";
    SlotFound = "slot.found", "A slot's device is there again, and the slot may be used as before.";
    QuotaSet = "quota.set", "A project's limits were set.";
    WebhookCreated = "webhook.created", "A webhook was made.";
    WebhookUpdated = "webhook.updated", "A webhook changed.";
    WebhookDeleted = "webhook.deleted", "A webhook was removed.";
    NodeDraining = "node.draining", "A node is being emptied and takes nothing new.";
    NodeDrained = "node.drained", "Nothing is left on a node; it stays cordoned.";
    NodeAudited = "node.audited", "A node was compared with what is written of it, both ways.";
    NodeRetired = "node.retired", "A node left the fleet.";
    AllocationRequested = "allocation.requested", "An allocation was asked for.";
    AllocationUpdated = "allocation.updated", "An allocation's labels, expiry or protection changed.";
    AllocationPlaced = "allocation.placed", "A node was found for an allocation, and what it asks for was claimed there.";
    AllocationActive = "allocation.active", "An allocation is there, witnessed.";
    AllocationExpiring = "allocation.expiring", "An allocation is released by itself soon: an hour before, and ten minutes before.";
    AllocationReleasing = "allocation.releasing", "An allocation is being given back.";
    AllocationReleased = "allocation.released", "Nothing of an allocation is left, witnessed or attested.";
    AllocationFailed = "allocation.failed", "An allocation did not come to be, and nothing of it is left.";
    AllocationAttested = "allocation.attested", "An operator gave their word that nothing of an allocation is left.";
    CellRequested = "cell.requested", "A cell was asked for.";
    CellRunning = "cell.running", "A cell is there and everything in it is ready, witnessed.";
    CellDestroying = "cell.destroying", "A cell is being destroyed.";
    CellGone = "cell.gone", "Nothing of a cell is left, witnessed or attested.";
    CellFailed = "cell.failed", "A cell did not come to be, and nothing of it is left.";
    CellExited = "cell.exited", "A cell of no app ended: its first process is gone, and with it everything in it.";
    CellCrashLoopDetected = "cell.crash_loop_detected", "A service of a cell of no app was restarted three times within ten minutes.";
    CellRestartSuspended = "cell.restart_suspended", "A cell ended again after three restarts within an hour; its policy does not restart it any more.";
    StreamGranted = "stream.granted", "Somebody asked for a terminal, a command, a transfer or logs of a cell.";
    SshKeyCreated = "ssh_key.created", "A person's SSH key was added to a project.";
    SshKeyDeleted = "ssh_key.deleted", "A person's SSH key was removed from a project.";
    SshKeyExpired = "ssh_key.expired", "An SSH key was removed because its time or its allocation ended.";
    RepositoryDeleted = "repository.deleted", "A repository and everything in it was removed.";
    ManifestPushed = "manifest.pushed", "A manifest came into a repository, or a tag of one was set.";
    ManifestDeleted = "manifest.deleted", "A manifest, a tag or a blob was removed from a repository.";
    BlobDamaged = "blob.damaged", "A file of the registry is not what its digest says, and was taken out of use.";
    BlobMounted = "blob.mounted", "Content of one repository was taken over into another.";
    ArtifactPublished = "artifact.published", "Content was published as an artifact.";
    ArtifactVerified = "artifact.verified", "The signatures of an artifact were looked at.";
    ArtifactChanged = "artifact.changed", "An artifact went from one state to another.";
    ArtifactRefused = "artifact.refused", "A node refused to run an artifact: it was damaged, or no signature of it counts.";
    ArtifactDeleted = "artifact.deleted", "An artifact was removed.";
    KeyCreated = "key.created", "A project trusts a publisher's key.";
    KeyRevoked = "key.revoked", "A project trusts a publisher's key no more.";
    TrustPolicyChanged = "trust_policy.changed", "What a project demands of artifacts changed.";
    SecretCreated = "secret.created", "A project keeps a secret.";
    SecretRotated = "secret.rotated", "A secret has another content.";
    SecretDeleted = "secret.deleted", "A secret was removed.";
    SecretDelivered = "secret.delivered", "A node was told a secret for a cell.";
    SecretUsed = "secret.used", "A secret was sent to the registry that it is for.";
    RuntimeSecretIssued = "runtime_secret.issued", "Material was issued for a purpose.";
    RuntimeSecretRevoked = "runtime_secret.revoked", "Issued material was revoked.";
    AppCreated = "app.created", "An app was made.";
    AppUpdated = "app.updated", "An app's description or audience changed.";
    AppDeleted = "app.deleted", "An app was removed, with its releases.";
    AppVersionPublished = "app_version.published", "A release of an app was published.";
    AppVersionPromoted = "app_version.promoted", "A release of an app took a step forward.";
    AppVersionDemoted = "app_version.demoted", "A release of an app was taken back or out of use.";
    EntitlementGranted = "entitlement.granted", "A project may launch an app, and consented to who operates it.";
    EntitlementRevoked = "entitlement.revoked", "A project may not launch an app any more; what runs stays operable.";
    OperatorTokenMinted = "operator_token.minted", "An app's adapter was given a short-lived token for a consumer's project.";
    InstanceCreated = "instance.created", "An instance was asked for.";
    InstanceUpdated = "instance.updated", "An instance's labels, protection, expiry or repair mode changed.";
    InstanceStarting = "instance.starting", "An instance's members are being added.";
    InstanceStartCompleted = "instance.start_completed", "An instance runs: every component has as many active members as it needs, witnessed.";
    InstanceHealthy = "instance.healthy", "An instance does well again.";
    InstanceHealthChanged = "instance.health_changed", "An instance does worse, or nobody can say how it does.";
    InstanceAdapterSilent = "instance.adapter_silent", "The adapter of an instance missed two looks; how its members do is not known.";
    InstanceUpgraded = "instance.upgraded", "Every member of an instance runs another release, witnessed.";
    InstanceStopping = "instance.stopping", "An instance is being taken down.";
    InstanceStopped = "instance.stopped", "Nothing of an instance is left.";
    InstanceFailed = "instance.failed", "An instance did not come to run, or cannot go on.";
    InstanceRepairProposed = "instance.repair_proposed", "A member failed, and a replacement is proposed.";
    InstanceRepairSuspended = "instance.repair_suspended", "Too many repairs were needed: the breaker is open, and the next ones are only proposed.";
    MemberRequested = "member.requested", "A member was asked for.";
    MemberJoining = "member.joining", "A member's place is there, and its adapter takes it in.";
    MemberAdded = "member.added", "A member works, witnessed.";
    MemberDraining = "member.draining", "A member's work goes elsewhere.";
    MemberDrained = "member.drained", "No work is on a member and none comes, witnessed or lost.";
    MemberResumed = "member.resumed", "A drained member works again, witnessed.";
    MemberRemoving = "member.removing", "A member is being removed.";
    MemberRemoved = "member.removed", "Nothing is left of a member.";
    MemberFailed = "member.failed", "A member did not come to work, or works no more.";
    MemberFenced = "member.fenced", "The rest of its network does not know a member any more, whose node nobody hears from.";
    MemberHealthChanged = "member.health_changed", "A member does better or worse.";
    MemberCrashLoopDetected = "member.crash_loop_detected", "A service of a member was restarted three times within ten minutes.";
    MemberRestartSuspended = "member.restart_suspended", "A member's cell ended again after three restarts within an hour; repair decides from here on.";
    AdapterStepLeased = "adapter_step.leased", "An adapter took up a step.";
    AdapterStepLapsed = "adapter_step.lapsed", "An adapter was not heard from in time; the step is offered again.";
    OperationAccepted = "operation.accepted", "An operation was written down.";
    OperationStep = "operation.step", "A step of an operation ended.";
    OperationBlocked = "operation.blocked", "An operation cannot go on by itself; it says why and who can unblock it.";
    OperationEscalated = "operation.escalated", "An operation has been blocked for too long.";
    OperationResolved = "operation.resolved", "Somebody decided how a blocked operation goes on.";
    OperationCancelRequested = "operation.cancel_requested", "Somebody asked for the end of an operation.";
    OperationEnded = "operation.ended", "An operation ended; its state says how.";
    WebhookGaveUp = "webhook.gave_up", "A webhook got nothing through for a day and was switched off.";
}

/// An event as its command writes it: everything but its sequence numbers.
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
