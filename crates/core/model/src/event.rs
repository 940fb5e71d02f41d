//! Events for timelines, streams and webhooks.

use std::str::FromStr;

use jiff::Timestamp;
use muster_ids::{EventId, InstanceId, MemberId, ProjectId, TenantId};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::Scope;
use crate::member::Member;

macro_rules! event_types {
    ($($variant:ident = $word:literal, $meaning:literal, $data:literal;)*) => {
        /// All types of events, as a closed list: name, meaning, and the fields of their data. `docs/reference/events.md` and
        /// `openapi/events.json` are generated from it and show a change in review; every test checks the data of its events.
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

            fn declared(self) -> &'static str {
                match self { $(EventType::$variant => $data,)* }
            }
        }
    };
}

/// A field of an event's data. `reason?` may be absent or null; without a kind it is text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DataField {
    /// Its name.
    pub name: &'static str,
    /// Its kind.
    pub kind: DataKind,
    /// Whether every event of the type has it.
    pub required: bool,
}

/// The kind of a field, by its name in JSON Schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DataKind {
    /// Text: an id, a name, a state, a time in RFC 3339.
    Text,
    /// A whole number.
    Integer,
    /// Yes or no.
    Boolean,
    /// Fields that depend on the resource, as in its API.
    Object,
    /// A list.
    List,
}

impl DataKind {
    /// Returns its name in JSON Schema.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Text => "string",
            Self::Integer => "integer",
            Self::Boolean => "boolean",
            Self::Object => "object",
            Self::List => "array",
        }
    }

    fn holds(self, value: &Value) -> bool {
        match self {
            Self::Text => value.is_string(),
            Self::Integer => value.is_i64() || value.is_u64(),
            Self::Boolean => value.is_boolean(),
            Self::Object => value.is_object(),
            Self::List => value.is_array(),
        }
    }
}

impl EventType {
    /// Returns the fields of its data.
    pub fn data(self) -> impl Iterator<Item = DataField> {
        self.declared().split_whitespace().map(|declared| {
            let (name, kind) = declared.split_once(':').unwrap_or((declared, "string"));
            let (name, required) = name.strip_suffix('?').map_or((name, true), |name| (name, false));
            let kinds =
                [DataKind::Text, DataKind::Integer, DataKind::Boolean, DataKind::Object, DataKind::List];
            let kind = kinds.into_iter().find(|known| known.as_str() == kind);
            DataField { name, kind: kind.expect("the kind of a field of an event"), required }
        })
    }

    /// Compares an event's data with the declared fields.
    pub fn check(self, data: &Value) -> Result<(), String> {
        let Some(given) = data.as_object() else { return Err(format!("{}: no object", self.as_str())) };
        for field in self.data() {
            match given.get(field.name).filter(|value| !value.is_null()) {
                Some(value) if !field.kind.holds(value) => {
                    return Err(format!("{}: {} is no {}", self.as_str(), field.name, field.kind.as_str()));
                }
                None if field.required => return Err(format!("{}: no {}", self.as_str(), field.name)),
                _ => {}
            }
        }
        match given.keys().find(|name| self.data().all(|field| field.name != **name)) {
            Some(name) => Err(format!("{}: {name} is not declared", self.as_str())),
            None => Ok(()),
        }
    }
}

event_types! {
    TenantCreated = "tenant.created", "A tenant was created.",
        "slug";
    TenantUpdated = "tenant.updated", "A tenant's description changed.",
        "changed:object before:object";
    TenantDeleted = "tenant.deleted", "A tenant and everything in it was removed.",
        "slug cascade:boolean";
    TenantKeyRotated = "tenant.key_rotated", "A tenant's encryption key has a new version.",
        "key_version:integer";
    ProjectCreated = "project.created", "A project was created.",
        "name";
    ProjectUpdated = "project.updated", "A project's description changed.",
        "changed:object before:object";
    ProjectDeleted = "project.deleted", "A project and everything in it was removed.",
        "name cascade:boolean";
    UserCreated = "user.created", "A person was added.",
        "email";
    UserUpdated = "user.updated", "A person's entry changed, or the person was disabled or enabled.",
        "changed:object before:object";
    UserPasswordSet = "user.password_set", "A person's password was set; all of the person's tokens and sessions ended.",
        "own:boolean";
    UserDeleted = "user.deleted", "A person was removed, with tokens, sessions and role bindings.",
        "email";
    RoleBindingCreated = "role_binding.created", "A role was bound to a person.",
        "user_id user_email role";
    RoleBindingDeleted = "role_binding.deleted", "A role binding of a person was removed.",
        "user_id user_email role";
    ServiceAccountCreated = "service_account.created", "A service account was created.",
        "name permissions:array";
    ServiceAccountUpdated = "service_account.updated", "A service account's allow list or description changed.",
        "changed:object before:object";
    ServiceAccountDeleted = "service_account.deleted", "A service account was removed, with its tokens.",
        "name";
    TokenIssued = "token.issued", "A token was issued.",
        "name hint expires_at";
    TokenRotated = "token.rotated", "A token was replaced; the old one ends after the overlap.",
        "replaces old_ends_at hint expires_at";
    TokenRevoked = "token.revoked", "A token was revoked.",
        "name hint";
    SessionCreated = "session.created", "A person logged in.",
        "method";
    SessionDeleted = "session.deleted", "A person logged out.",
        "";
    NodeEnrolmentIssued = "node.enrolment_issued", "A join token was issued for one machine.",
        "name? node_id? labels:object expires_at";
    NodeJoined = "node.joined", "A machine joined as a node; an operator approves its hardware before it is used.",
        "name enrolment_id gpus:integer";
    NodeRejoined = "node.rejoined", "A machine rejoined as an existing node with a new token; its previous certificate is invalid.",
        "name enrolment_id";
    NodeUnreachable = "node.unreachable", "A node missed three heartbeats; its cells may still run.",
        "name last_heard_at?";
    NodeReachable = "node.reachable", "A node sends heartbeats again and holds no orphans.",
        "name unreachable_since?";
    NodeRebooted = "node.rebooted", "A node's machine was restarted: every cell on it ended.",
        "name cells:integer";
    NodeOrphansFound = "node.orphans_found", "A node holds orphaned sandboxes; it gets no work until they are removed.",
        "count:integer cells?:array sandboxes?:array";
    NodeAddressChanged = "node.address_changed", "A node reports another address than the approved one, or another node's.",
        "name address? reported_address peer_address? held_by?";
    NodeInventoryChanged = "node.inventory_changed", "A node's hardware differs from the approved inventory.",
        "name count:integer changes:array";
    FleetMassLossSuspected = "fleet.mass_loss_suspected", "Many nodes missed their heartbeats at once; the fault is presumed to be the platform's, and none is declared unreachable.",
        "silent:integer nodes:integer";
    NodeUpdated = "node.updated", "A node's labels changed.",
        "changed:object before:object";
    NodeApproved = "node.approved", "An operator approved a node's hardware.",
        "name digest capacity:object address?";
    NodeCordoned = "node.cordoned", "A node was cordoned: it gets no new work.",
        "name reason?";
    NodeUncordoned = "node.uncordoned", "A node was uncordoned.",
        "name reason?";
    SlotQuarantined = "slot.quarantined", "A slot was quarantined: it cannot be claimed.",
        "node_id device reason";
    SlotApproved = "slot.approved", "An operator approved a slot; it can be claimed again.",
        "node_id device reason on_the_word_of was was_because?";
    SlotFound = "slot.found", "A slot's device reappeared; the slot can be claimed again.",
        "node_id device";
    GpuProductCreated = "gpu_product.created", "A GPU product was added to the catalog.",
        "id name memory_mb:integer architecture created_at updated_at version:integer";
    GpuProductUpdated = "gpu_product.updated", "A GPU product's description changed.",
        "changed:object before:object";
    GpuProductDeleted = "gpu_product.deleted", "A GPU product was removed from the catalog.",
        "name";
    QuotaSet = "quota.set", "A project's limits were set.",
        "changed:object before:object";
    WebhookCreated = "webhook.created", "A webhook was created.",
        "name host";
    WebhookUpdated = "webhook.updated", "A webhook changed.",
        "changed:object before:object";
    WebhookDeleted = "webhook.deleted", "A webhook was removed.",
        "name";
    NodeDraining = "node.draining", "A node is draining and gets no new work.",
        "name operation_id";
    NodeDrained = "node.drained", "A node is drained; it stays cordoned.",
        "name operation_id";
    NodeAudited = "node.audited", "A node's contents were compared with the database, in both directions.",
        "name orphans:integer missing:integer repaired:boolean operation_id";
    NodeRetired = "node.retired", "A node left the fleet.",
        "name witness_id operation_id";
    AllocationRequested = "allocation.requested", "An allocation was requested.",
        "name capacity:object member_id? operation_id shape?";
    AllocationUpdated = "allocation.updated", "An allocation's labels, expiry or protection changed.",
        "changed:object before:object";
    AllocationPlaced = "allocation.placed", "A node was chosen for an allocation and its capacity claimed.",
        "node_id gpus:integer operation_id left_node_id?";
    AllocationActive = "allocation.active", "An allocation is active, witnessed.",
        "node_id incarnation:integer witness_id operation_id";
    AllocationExpiring = "allocation.expiring", "An allocation expires soon: sent one hour and ten minutes before.",
        "name expires_at seconds_left:integer protected:boolean members:array";
    AllocationReleasing = "allocation.releasing", "An allocation is being released.",
        "operation_id";
    AllocationQuarantined = "allocation.quarantined", "A forced release ended; what the allocation holds on an unreachable node stays claimed, and the platform finishes when the node returns or an operator attests.",
        "name node_id finished_by operation_id";
    AllocationReleased = "allocation.released", "Nothing of an allocation is left, witnessed or attested.",
        "witness_id evidence? operation_id";
    AllocationFailed = "allocation.failed", "An allocation could not be created and was rolled back.",
        "reason advice operation_id";
    AllocationAttested = "allocation.attested", "An operator attested that nothing of an allocation is left.",
        "name statement witness_id";
    CellRequested = "cell.requested", "A cell was requested.",
        "name allocation_id member_id? operation_id";
    CellRunning = "cell.running", "A cell runs and all its services are ready, witnessed.",
        "incarnation:integer witness_id operation_id";
    CellDestroying = "cell.destroying", "A cell is being destroyed.",
        "operation_id";
    CellDestroyed = "cell.destroyed", "Nothing of a cell is left, witnessed or attested.",
        "incarnation:integer witness_id operation_id";
    CellFailed = "cell.failed", "A cell could not be created and was rolled back.",
        "reason advice operation_id";
    CellExited = "cell.exited", "A standalone cell ended: its first process exited.",
        "name incarnation:integer message?";
    CellCrashLoopDetected = "cell.crash_loop_detected", "A service of a standalone cell was restarted three times within ten minutes.",
        "name service restarts:integer exit?:integer incarnation:integer";
    CellRestartSuspended = "cell.restart_suspended", "A cell ended again after three restarts within an hour; its restart policy is suspended.",
        "name incarnation:integer advice";
    StreamGranted = "stream.granted", "A terminal, command, transfer or log stream of a cell was granted.",
        "stream_id what:object";
    SshKeyCreated = "ssh_key.created", "A person's SSH key was added to a project.",
        "name user_id fingerprint allocation_id? expires_at?";
    SshKeyDeleted = "ssh_key.deleted", "A person's SSH key was removed from a project.",
        "name user_id fingerprint allocation_id? expires_at?";
    SshKeyExpired = "ssh_key.expired", "An SSH key was removed because its time or its allocation ended.",
        "name user_id fingerprint allocation_id expires_at";
    RepositoryDeleted = "repository.deleted", "A repository and everything in it was removed.",
        "name";
    ManifestPushed = "manifest.pushed", "A manifest was pushed to a repository, or a tag was set.",
        "repository digest tag? media_type";
    ManifestDeleted = "manifest.deleted", "A manifest, a tag or a blob was removed from a repository.",
        "repository digest? tag? blob?";
    BlobDamaged = "blob.damaged", "A file of the registry does not match its digest and was quarantined.",
        "digest file damage found_by";
    BlobMounted = "blob.mounted", "Content of one repository was mounted into another.",
        "digest from size:integer";
    ArtifactPublished = "artifact.published", "Content was published as an artifact.",
        "repository digest line secret? external?";
    ArtifactVerified = "artifact.verified", "The signatures of an artifact were verified.",
        "repository digest trust reason? key_id?";
    ArtifactChanged = "artifact.changed", "An artifact changed its state.",
        "repository digest before after reason trust key_id? signature? supersedes?:object";
    ArtifactRefused = "artifact.refused", "A node refused to run an artifact: it is damaged, or has no valid signature.",
        "cell_id node_id reason message operation_id";
    ArtifactDeleted = "artifact.deleted", "An artifact was removed.",
        "repository digest state";
    KeyCreated = "key.created", "A publisher's key was added to a project's trusted keys.",
        "name fingerprint algorithm";
    KeyRevoked = "key.revoked", "A publisher's key was revoked in a project.",
        "name fingerprint reason";
    TrustPolicyChanged = "trust_policy.changed", "A project's trust policy changed.",
        "changed:object before:object";
    SecretCreated = "secret.created", "A secret was created.",
        "name revision:integer registry?";
    SecretRotated = "secret.rotated", "A secret was rotated.",
        "name revision:integer";
    SecretDeleted = "secret.deleted", "A secret was removed.",
        "name revision:integer";
    SecretDelivered = "secret.delivered", "A secret was delivered to a node for a cell.",
        "name secret_id? revision?:integer cell_id incarnation:integer file runtime_secret_id?";
    SecretUsed = "secret.used", "A secret was sent to the registry it is bound to.",
        "name secret_id revision:integer registry repository";
    RuntimeSecretIssued = "runtime_secret.issued", "A runtime secret was issued.",
        "name purpose repository_id? cell_id? incarnation?:integer expires_at? reason?";
    RuntimeSecretRevoked = "runtime_secret.revoked", "A runtime secret was revoked.",
        "name purpose repository_id? cell_id? incarnation?:integer expires_at? reason?";
    AppCreated = "app.created", "An app was created.",
        "slug audience";
    AppUpdated = "app.updated", "An app's description or audience changed.",
        "changed:object before:object";
    AppDeleted = "app.deleted", "An app was removed, with its releases.",
        "slug";
    AppVersionPublished = "app_version.published", "A release of an app was published.",
        "app name digest";
    AppVersionPromoted = "app_version.promoted", "A release of an app was promoted.",
        "app name digest before after reason percent?:integer supersedes?:object";
    AppVersionDemoted = "app_version.demoted", "A release of an app was demoted.",
        "app name digest before after reason";
    EntitlementGranted = "entitlement.granted", "A project was entitled to launch an app and consented to its operator account.",
        "app permissions:array renewed:boolean operator_account_id";
    EntitlementRevoked = "entitlement.revoked", "A project's entitlement was revoked; running instances stay operable.",
        "app operator_account_id cut_off:boolean";
    OperatorTokenMinted = "operator_token.minted", "A short-lived operator token was minted for an app's adapter.",
        "app entitlement_id token_id hint expires_at consumer_project_id publisher_project_id";
    InstanceCreated = "instance.created", "An instance was requested.",
        "name app app_version components:object operation_id kind";
    InstanceUpdated = "instance.updated", "An instance's labels, protection, expiry or repair mode changed.",
        "changed:object before:object";
    InstanceStarting = "instance.starting", "An instance's members are being added.",
        "name operation_id";
    InstanceStartCompleted = "instance.start_completed", "An instance runs: every component has its minimum of active members, witnessed.",
        "name witness_id operation_id";
    InstanceHealthy = "instance.healthy", "An instance is healthy again.",
        "name witness_id? operation_id? before? health? message?";
    InstanceHealthChanged = "instance.health_changed", "An instance's health became degraded, unhealthy or unknown.",
        "name before health message?";
    InstanceAdapterSilent = "instance.adapter_silent", "The adapter of an instance missed two reconciliations; its members' health is unknown.",
        "name since?";
    InstanceUpgraded = "instance.upgraded", "Every member of an instance runs another release, witnessed.",
        "name witness_id operation_id";
    InstanceStopping = "instance.stopping", "An instance is being decommissioned.",
        "name operation_id";
    InstanceQuarantined = "instance.quarantined", "A forced decommission ended; its members on unreachable nodes are cut off, and the platform finishes when they return or an operator attests.",
        "name members:array finished_by operation_id";
    InstanceStopped = "instance.stopped", "Nothing of an instance is left.",
        "name witness_id evidence? operation_id";
    InstanceFailed = "instance.failed", "An instance failed to start, or its repair budget is spent.",
        "name reason advice? operation_id? message?";
    InstanceRepairProposed = "instance.repair_proposed", "A member failed, and a replacement is proposed.",
        "name member_id member incarnation:integer message? advice";
    InstanceRepairSuspended = "instance.repair_suspended", "The circuit breaker opened after too many repairs; further ones are only proposed.",
        "name member_id member incarnation:integer message? advice";
    MemberRequested = "member.requested", "A member was requested.",
        "name component_key instance_id allocation_id? operation_id?";
    MemberJoining = "member.joining", "A member's cell runs, and its adapter joins it.",
        "name incarnation:integer operation_id";
    MemberAdded = "member.added", "A member is active, witnessed.",
        "name component_key incarnation:integer witness_id operation_id";
    MemberDraining = "member.draining", "A member is draining.",
        "name operation_id";
    MemberDrained = "member.drained", "A member is drained, witnessed or lost.",
        "name witness_id evidence? operation_id";
    MemberResumed = "member.resumed", "A drained member is active again, witnessed.",
        "name component_key incarnation:integer witness_id operation_id";
    MemberRemoving = "member.removing", "A member is being removed.",
        "name operation_id";
    MemberRemoved = "member.removed", "Nothing of a member is left.",
        "name component_key witness_id evidence? operation_id";
    MemberFailed = "member.failed", "A member failed to start, or its cell died.",
        "name component_key reason advice? operation_id? incarnation?:integer message?";
    MemberFenced = "member.fenced", "A member on an unreachable node was cut off: the other nodes of its network confirmed it.",
        "name node_id witness_id operation_id";
    MemberQuarantined = "member.quarantined", "A forced removal ended; the member is cut off on an unreachable node, and the platform finishes when that returns or an operator attests.",
        "name component_key allocation_id cell_id finished_by operation_id";
    MemberHealthChanged = "member.health_changed", "A member's health changed.",
        "name component_key before health reason? message? since? incarnation:integer";
    MemberCrashLoopDetected = "member.crash_loop_detected", "A service of a member was restarted three times within ten minutes.",
        "name service restarts:integer exit?:integer incarnation:integer";
    MemberRestartSuspended = "member.restart_suspended", "A member's cell ended again after three restarts within an hour; repair takes over.",
        "name component_key incarnation:integer message? advice";
    AdapterStepLeased = "adapter_step.leased", "An adapter leased a step.",
        "verb holder generation:integer attempts:integer instance_id member_id? operation_id?";
    AdapterStepLapsed = "adapter_step.lapsed", "An adapter's lease lapsed; the step is offered again.",
        "verb holder generation:integer instance_id operation_id? member_id?";
    OperationAccepted = "operation.accepted", "An operation was accepted.",
        "name deadline_at? force?:boolean reason? operation_id kind part_id? members?:array components?:object component_key? count?:integer supersedes?:array from?:object to?:object restart?:boolean cells?:array app_version? configured?:boolean release_id? asked_by? attested?:boolean repair?:boolean";
    OperationStep = "operation.step", "A step of an operation ended.",
        "kind step state message? operation_id";
    OperationBlocked = "operation.blocked", "An operation is blocked; it names the reason and the role that can resolve it.",
        "kind reason resolvable_by escalates_at operation_id";
    OperationEscalated = "operation.escalated", "An operation has been blocked for too long.",
        "kind reason operation_id";
    OperationResolved = "operation.resolved", "A blocked operation was resolved.",
        "kind action statement operation_id?";
    OperationCancelRequested = "operation.cancel_requested", "Cancellation of an operation was requested.",
        "kind reason";
    OperationEnded = "operation.ended", "An operation ended; its state is the outcome.",
        "kind state operation_id superseded_by?";
    WebhookGaveUp = "webhook.gave_up", "A webhook was disabled after a day of failed deliveries.",
        "name state last_result?";
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_declaration_is_read_and_names_each_field_once() {
        for event in EventType::ALL {
            let mut names: Vec<&str> = event.data().map(|field| field.name).collect();
            names.sort_unstable();
            let count = names.len();
            names.dedup();
            assert_eq!(names.len(), count, "{}", event.as_str());
        }
    }

    #[test]
    fn data_is_compared_with_its_declaration() {
        let event = EventType::OperationStep;
        let right = json!({"kind": "member.add", "step": "join", "state": "done", "message": null, "operation_id": "op_1"});
        assert_eq!(event.check(&right), Ok(()));
        for (field, value, why) in [
            ("kind", Value::Null, "no kind"),
            ("kind", json!(1), "kind is no string"),
            ("colour", json!("red"), "colour is not declared"),
        ] {
            let mut wrong = right.clone();
            wrong[field] = value;
            let found = event.check(&wrong).unwrap_err();
            assert!(found.ends_with(why), "{found}");
        }
    }

    #[test]
    fn a_path_names_its_timeline() {
        let (instance, member) = ("ins_01m3250v00e00agtq9w310f1jz", "mem_01m3250v00e00agtq9w310f1jz");
        let path = format!("/v1/projects/prj_x/app-instances/{instance}");
        let timeline = Timeline::of_path(&path);
        assert_eq!(
            (timeline.instance_id.unwrap().to_string(), timeline.member_id),
            (instance.to_owned(), None)
        );
        let timeline = Timeline::of_path(&format!("{path}/members/{member}"));
        assert_eq!(timeline.member_id.unwrap().to_string(), member);
        assert_eq!(Timeline::of_path("/v1/operations/op_x"), Timeline::default());
    }
}
