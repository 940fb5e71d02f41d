"""The API's types. Generated from openapi/platform.json by tools/python-sdk; edit the API instead."""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypeAlias, TypedDict, Union


class Adapter(TypedDict):
    """An adapter, as it identified itself in its last request for work."""

    # Its id.
    id: AdapterId
    # The project it works in.
    project_id: ProjectId
    # The account it uses.
    service_account_id: ServiceAccountId
    # Its own name.
    name: str
    # Its version.
    adapter_version: str
    # Contract version that it implements.
    contract_version: int
    # Time of its first request for work.
    created_at: str
    # Time of its last request for work.
    seen_at: str
    # Number of steps it holds a lease on.
    leases: int


# AdapterId
AdapterId: TypeAlias = "str"


class AdapterIs(TypedDict):
    """The adapter that requests work."""

    # Its name, unique per process.
    name: str
    # Its version.
    version: str
    # Contract version that it implements.
    contract: int


class AdapterPage(TypedDict):
    """A page of adapters."""

    # Items of this page, oldest first.
    items: list[Adapter]
    # Pass as `page_token` to get the next page; absent on the last.
    next_page_token: NotRequired[str]


class AdapterStep(TypedDict):
    """A step that an adapter carries out."""

    # Its id.
    id: AdapterStepId
    # The project.
    project_id: ProjectId
    # The app.
    app_id: AppId
    # The instance.
    instance_id: InstanceId
    # The member; absent for a reconciliation of the whole instance.
    member_id: NotRequired[MemberId]
    # Incarnation of that member.
    incarnation: int
    # The operation it belongs to; absent for a scheduled reconciliation.
    operation_id: NotRequired[OperationId]
    # The verb.
    verb: AdapterVerb
    # Input of the verb.
    input: dict[str, Any]
    # Current state.
    state: AdapterStepState
    # Fencing token: incremented with each new lease; every call on the step must carry it.
    generation: int
    # Name of the adapter that holds the lease.
    holder: NotRequired[str]
    # Expiry of the lease.
    leased_until: NotRequired[str]
    # Number of times it was leased.
    attempts: int
    # Last message from the adapter.
    message: NotRequired[str]
    # Progress in percent.
    percent: NotRequired[int]
    # Failure reason, defined by the adapter.
    reason: NotRequired[str]
    # Correlation id.
    correlation_id: str
    # Creation time.
    created_at: str
    # Time after which the step is abandoned.
    expires_at: str
    # Member reports that were rejected; only in the response to `complete`.
    refused_reports: NotRequired[list[RefusedReport]]


class AdapterStepComplete(TypedDict):
    """Completion of a step. The platform verifies the result itself."""

    # Generation of the lease.
    generation: int
    # Summary, for people.
    message: NotRequired[str]
    # Free-form detail on the member; replaces the previous one.
    adapter_detail: NotRequired[dict[str, Any]]
    # Member reports, after a reconciliation.
    members: NotRequired[list[MemberReport]]
    # The adapter's name for the topology.
    topology_mode: NotRequired[str]
    # Seconds until the next reconciliation; default: the manifest's interval.
    reconcile_after_seconds: NotRequired[int]


class AdapterStepFail(TypedDict):
    """Failure of a step."""

    # Generation of the lease.
    generation: int
    # Failure reason, defined by the adapter.
    reason: str
    # The same in a sentence.
    message: str
    # Seconds after which to retry: the step is offered again instead of failing.
    retry_after_seconds: NotRequired[int]
    # Free-form detail on the member; replaces the previous one.
    adapter_detail: NotRequired[dict[str, Any]]


class AdapterStepHeartbeat(TypedDict):
    """A heartbeat that extends the lease."""

    # Generation of the lease.
    generation: int
    # New lease duration, from now; default: 30 seconds.
    lease_seconds: NotRequired[int]


# AdapterStepId
AdapterStepId: TypeAlias = "str"


class AdapterStepLease(TypedDict):
    """A request for work."""

    # The adapter.
    adapter: AdapterIs
    # Maximum number of steps; default: 16.
    most: NotRequired[int]
    # Seconds to wait for the first step; default: do not wait.
    wait_seconds: NotRequired[int]
    # Lease duration without a heartbeat; default: 30 seconds.
    lease_seconds: NotRequired[int]


class AdapterStepListQuery(TypedDict):
    """Filters for listing steps."""

    # Maximum number of items; default: 50.
    page_size: NotRequired[int]
    # `next_page_token` of the previous page.
    page_token: NotRequired[str]
    # Only those of this instance, by id or name.
    instance: NotRequired[str]
    # Only those in this state.
    state: NotRequired[AdapterStepState]


class AdapterStepPage(TypedDict):
    """A page of adapter steps."""

    # Items of this page, oldest first.
    items: list[AdapterStep]
    # Pass as `page_token` to get the next page; absent on the last.
    next_page_token: NotRequired[str]


class AdapterStepProgress(TypedDict):
    """Progress on a step."""

    # Generation of the lease.
    generation: int
    # Progress in percent.
    percent: NotRequired[int]
    # Current activity, for people.
    message: NotRequired[str]
    # Free-form detail on the member; replaces the previous one.
    adapter_detail: NotRequired[dict[str, Any]]
    # New lease duration, from now, since progress also counts as a heartbeat; default: 30 seconds.
    lease_seconds: NotRequired[int]


# State of an adapter step.
AdapterStepState: TypeAlias = Literal["queued", "leased", "done", "failed", "cancelled"]


class AdapterTask(TypedDict):
    """A task in a member's cell."""

    # Its id.
    id: TaskId
    # Its idempotency key.
    key: str
    # Current state.
    state: AdapterTaskState
    # Failure reason; absent otherwise.
    reason: NotRequired[AdapterTaskReason]
    # The node's message, above all on failure.
    message: NotRequired[str]
    # Result of the command that was run.
    ran: NotRequired[Ran]
    # Creation time.
    queued_at: str
    # End time.
    finished_at: NotRequired[str]


class AdapterTaskCreate(TypedDict):
    """A task to run in a member's cell."""

    # Generation of the lease.
    generation: int
    # Idempotency key: repeating the request under the same step returns the same task. Under a later lease the task
    # runs again if another task may have undone it since.
    key: str
    # The member with the cell that runs it, by id; must belong to the same instance.
    member_id: MemberId
    # The action.
    act: CellTask
    # Effect on the cell; default: `reads` for a probe, `changes` otherwise.
    effect: NotRequired[TaskEffect]
    # Seconds to wait for it to end; default: do not wait.
    wait_seconds: NotRequired[int]


class AdapterTaskQuery(TypedDict):
    """Long-poll options."""

    # Seconds to wait for it to end; default: do not wait.
    wait_seconds: NotRequired[int]


# Reason a task failed, from a closed list.
AdapterTaskReason: TypeAlias = Literal["cell_dead", "secret_unavailable", "image_damaged", "refused"]


# State of a task.
AdapterTaskState: TypeAlias = Literal["queued", "delivered", "running", "done", "failed", "expired"]


# Verb of an adapter step. Each must be idempotent.
AdapterVerb: TypeAlias = Literal["join", "leave", "drain", "resume", "remove", "reconcile"]


class Allocation(TypedDict):
    """An allocation."""

    # Its id.
    id: AllocationId
    # The tenant.
    tenant_id: TenantId
    # The project that holds it.
    project_id: ProjectId
    # Name, unique among the project's live ones.
    name: str
    # Labels.
    labels: Labels
    # Shape of its capacity.
    shape: AllocationShape
    # Requested capacity.
    capacity: Capacity
    # Node selection strategy.
    strategy: Strategy
    # Current state.
    state: AllocationState
    # Its node.
    node_id: NotRequired[NodeId]
    # Incremented each time its sandbox is created.
    incarnation: int
    # Capacity that it currently holds on the node.
    held: Capacity
    # Reason for the failure or the block, from a closed list.
    reason: NotRequired[str]
    # Suggested next step.
    advice: NotRequired[str]
    # Human-readable message.
    message: NotRequired[str]
    # Kind of evidence that it is active or released; absent in other states.
    evidence: NotRequired[WitnessKind]
    # Operation that last worked on it.
    operation_id: NotRequired[OperationId]
    # Number of allocations ahead of it in the queue; only when a single allocation is returned, and only while it
    # waits.
    queue_position: NotRequired[int]
    # Time until which it stays in the queue.
    wait_until: NotRequired[str]
    # Time at which it is released automatically.
    expires_at: NotRequired[str]
    # Whether it is protected from release.
    protected: bool
    # Creation time.
    created_at: str
    # Time of the last change.
    updated_at: str
    # Version for `If-Match`.
    version: int


class AllocationAttest(TypedDict):
    """An operator's attestation."""

    # Statement of fact and its basis: the machine was powered off, its disks were pulled.
    statement: str


class AllocationCreate(TypedDict):
    """An allocation to create."""

    # Name, unique among the project's live ones.
    name: str
    # Labels.
    labels: NotRequired[Labels]
    # Shape; default: `gpu_slice`.
    shape: NotRequired[AllocationShape]
    # GPUs; default: 0.
    gpus: NotRequired[int]
    # Logical CPUs; default: 1.
    cpus: NotRequired[int]
    # Memory in MiB; default: 1024.
    memory_mb: NotRequired[int]
    # Disk in MiB; default: 1024.
    disk_mb: NotRequired[int]
    # Node selection strategy; default: `pack`.
    strategy: NotRequired[Strategy]
    # Stay in the queue until then if it does not fit now. Without it, the request is refused at once.
    wait_until: NotRequired[str]
    # Release it automatically at this time.
    expires_at: NotRequired[str]
    # Refuse its release until the protection is lifted.
    protected: NotRequired[bool]
    # Return the plan without executing it.
    dry_run: NotRequired[bool]


# AllocationId
AllocationId: TypeAlias = "str"


class AllocationListQuery(TypedDict):
    """Filters for listing allocations."""

    # Maximum number of items; default: 50.
    page_size: NotRequired[int]
    # `next_page_token` of the previous page.
    page_token: NotRequired[str]
    # Label selector: `team=ml,stage!=test`.
    labels: NotRequired[str]
    # Only those in this state.
    state: NotRequired[AllocationState]


class AllocationPage(TypedDict):
    """A page of allocations."""

    # Items of this page, oldest first.
    items: list[Allocation]
    # Pass as `page_token` to get the next page; absent on the last.
    next_page_token: NotRequired[str]


class AllocationRelease(TypedDict):
    """Options for releasing an allocation."""

    # Reason, for the audit log.
    reason: NotRequired[str]
    # Remove its members first. Without it, an allocation with members is not released.
    cascade: NotRequired[bool]
    # Do not wait for an unreachable node: leave the rest in quarantine. With `cascade`: remove members without
    # draining, and even if their instance needs them.
    force: NotRequired[bool]
    # Return the plan without executing it.
    dry_run: NotRequired[bool]


class AllocationResize(TypedDict):
    """A new size."""

    # GPUs; default: unchanged, as for the other fields.
    gpus: NotRequired[int]
    # Logical CPUs.
    cpus: NotRequired[int]
    # Memory in MiB.
    memory_mb: NotRequired[int]
    # Disk in MiB.
    disk_mb: NotRequired[int]
    # Restart its cells, which a change of GPUs requires: a cell keeps the GPUs it was created with.
    restart: NotRequired[bool]
    # With `restart`: skip draining its members, and restart them even if their component loses quorum.
    force: NotRequired[bool]
    # Return the plan without executing it.
    dry_run: NotRequired[bool]


class AllocationRestart(TypedDict):
    """Options for recreating an allocation."""

    # Reason, for the audit log.
    reason: NotRequired[str]
    # Skip draining its members, and restart them even if their component loses quorum.
    force: NotRequired[bool]
    # Return the plan without executing it.
    dry_run: NotRequired[bool]


# Shape of an allocation.
AllocationShape: TypeAlias = Literal["baremetal", "gpu_slice"]


# State of an allocation.
AllocationState: TypeAlias = Literal["requested", "placing", "provisioning", "active", "releasing", "wiping", "released", "failed"]


class AllocationUpdate(TypedDict):
    """Properties of an allocation that change immediately."""

    # Labels; replace the existing ones.
    labels: NotRequired[Labels]
    # Release it automatically at this time.
    expires_at: NotRequired[str]
    # Remove the expiry.
    never_expires: NotRequired[bool]
    # Whether it is protected from release.
    protected: NotRequired[bool]


class App(TypedDict):
    """An entry of the catalog."""

    # Its id.
    id: AppId
    # The publisher's tenant.
    tenant_id: TenantId
    # The publisher's project.
    project_id: ProjectId
    # Its name in the catalog, unique on the platform.
    slug: str
    # Display name.
    display_name: str
    # Description.
    description: str
    # Visibility.
    audience: Audience
    # Labels.
    labels: Labels
    # Release started by default.
    active_version: NotRequired[str]
    # Release given to a percentage of starts.
    canary_version: NotRequired[str]
    # Whether the requesting project may launch it.
    entitled: bool
    # Creation time.
    created_at: str
    # Time of the last change.
    updated_at: str
    # Version for `If-Match`.
    version: int


class AppCompatibility(TypedDict):
    """Shapes that an app fits."""

    # The release in question.
    version: str
    # One answer per shape.
    answers: list[Fit]


class AppCreate(TypedDict):
    """An app to create."""

    # Its name in the catalog, unique on the platform.
    slug: str
    # Name for people; default: the slug.
    display_name: NotRequired[str]
    # Description.
    description: NotRequired[str]
    # Visibility; default: `project`.
    audience: NotRequired[Audience]
    # Labels.
    labels: NotRequired[Labels]


# AppId
AppId: TypeAlias = "str"


class AppListQuery(TypedDict):
    """Filters for listing apps."""

    # Maximum number of items; default: 50.
    page_size: NotRequired[int]
    # `next_page_token` of the previous page.
    page_token: NotRequired[str]
    # Label selector: `team=ml,stage!=test`.
    labels: NotRequired[str]
    # Only apps that the project publishes itself.
    own: NotRequired[bool]


class AppPage(TypedDict):
    """A page of apps."""

    # Items of this page, oldest first.
    items: list[App]
    # Pass as `page_token` to get the next page; absent on the last.
    next_page_token: NotRequired[str]


class AppUpdate(TypedDict):
    """Properties of an app that can change."""

    # Display name.
    display_name: NotRequired[str]
    # Description.
    description: NotRequired[str]
    # Visibility.
    audience: NotRequired[Audience]
    # Labels; replace the existing ones.
    labels: NotRequired[Labels]


class AppVersion(TypedDict):
    """A release of an app."""

    # Its id.
    id: AppVersionId
    # The app.
    app_id: AppId
    # The app's slug.
    app: str
    # Its name, unique within the app.
    name: str
    # The manifest, as it was published.
    manifest: dict[str, Any]
    # The digest of the manifest.
    digest: str
    # Lifecycle state.
    state: ArtifactState
    # Percentage of starts that get the canary.
    canary_percent: NotRequired[int]
    # The release that superseded it.
    superseded_by: NotRequired[AppVersionId]
    # Number of instances that run it or may roll back to it.
    instances: int
    # Lint warnings from its publication.
    warnings: NotRequired[list[Fault]]
    # Publication time.
    created_at: str
    # Time of the last state change.
    updated_at: str
    # Version for `If-Match`.
    version: int


# AppVersionId
AppVersionId: TypeAlias = "str"


class AppVersionPage(TypedDict):
    """A page of releases."""

    # Items of this page, oldest first.
    items: list[AppVersion]
    # Pass as `page_token` to get the next page; absent on the last.
    next_page_token: NotRequired[str]


class AppVersionPublish(TypedDict):
    """A release to publish."""

    # The manifest; `app_schema` returns its schema.
    manifest: dict[str, Any]
    # Validate only.
    dry_run: NotRequired[bool]


class AppVersionStep(TypedDict):
    """A lifecycle transition of a release."""

    # Target state.
    to: ArtifactState
    # Percentage of starts that get the canary.
    percent: NotRequired[int]
    # Reason, for the audit log.
    reason: str


class ArchivedLogs(TypedDict):
    """Archived logs: the last output of a cell's services before it was removed."""

    # One per service and incarnation.
    logs: list[CellLog]


class Artifact(TypedDict):
    """An artifact: content by digest."""

    # Its id.
    id: ArtifactId
    # The tenant.
    tenant_id: TenantId
    # The project.
    project_id: ProjectId
    # The repository it is in.
    repository_id: RepositoryId
    # That repository's name.
    repository: str
    # The digest of its manifest.
    digest: str
    # Kind of content.
    kind: ArtifactKind
    # The media type of its manifest.
    media_type: str
    # Total size in bytes.
    size: int
    # Release line; at most one artifact per line is active.
    line: str
    # Lifecycle state.
    state: ArtifactState
    # Percentage of starts that get the canary.
    canary_percent: NotRequired[int]
    # Result of the last signature verification.
    verdict: NotRequired[Verdict]
    # Evidence that a cell of this exact digest ran, if it was staged with a smoke test.
    smoke_witness_id: NotRequired[WitnessId]
    # The artifact that superseded it.
    superseded_by: NotRequired[ArtifactId]
    # Time from which it can be retired.
    retirable_at: NotRequired[str]
    # Labels.
    labels: Labels
    # Publication time.
    created_at: str
    # Time of the last change.
    updated_at: str
    # Version for `If-Match`.
    version: int


class ArtifactChange(TypedDict):
    """A state change."""

    # State before; absent for the publication.
    before: NotRequired[ArtifactState]
    # State after.
    after: ArtifactState
    # The actor.
    actor_id: str
    # Reason.
    reason: str
    # Time.
    at: str


class ArtifactDemote(TypedDict):
    """A demotion: canary to staged, active to deprecated, deprecated to retired."""

    # Target state.
    to: ArtifactState
    # Reason, for the audit log.
    reason: str


# ArtifactId
ArtifactId: TypeAlias = "str"


# Kind of content.
ArtifactKind: TypeAlias = Literal["oci", "blob"]


class ArtifactListQuery(TypedDict):
    """Filters for listing artifacts."""

    # Maximum number of items; default: 50.
    page_size: NotRequired[int]
    # `next_page_token` of the previous page.
    page_token: NotRequired[str]
    # Label selector: `team=ml,stage!=test`.
    labels: NotRequired[str]
    # Only those in this state.
    state: NotRequired[ArtifactState]
    # Only those in this repository.
    repository: NotRequired[str]
    # Only those with this digest.
    digest: NotRequired[str]


class ArtifactPage(TypedDict):
    """A page of artifacts."""

    # Items of this page, oldest first.
    items: list[Artifact]
    # Pass as `page_token` to get the next page; absent on the last.
    next_page_token: NotRequired[str]


class ArtifactPromote(TypedDict):
    """A promotion to staged, canary or active."""

    # Target state.
    to: ArtifactState
    # Reason, for the audit log.
    reason: str
    # Percentage of starts that get the canary; default: 10.
    percent: NotRequired[int]
    # A cell of this exact digest that was verified as running, by id or name: the smoke test.
    smoke_cell: NotRequired[str]


class ArtifactPublish(TypedDict):
    """Content to publish as an artifact. A push with a tag publishes by itself; this is for everything else."""

    # The repository in the project.
    repository: str
    # Digest or tag of a manifest in the repository; with `external`, the digest there.
    reference: str
    # External registry that holds it. The manifest is read from there by digest, layers when a node first needs them.
    external: NotRequired[External]
    # Release line; default: `main`.
    line: NotRequired[str]
    # Labels.
    labels: NotRequired[Labels]


class ArtifactReferences(TypedDict):
    """Everything that depends on a digest, from signature to running cell."""

    # The artifact.
    artifact: Artifact
    # Tags that point to it.
    tags: list[str]
    # Signatures of it.
    signatures: list[SignatureReference]
    # Indexes that include it.
    indexes: list[str]
    # Live cells created from it.
    cells: list[CellReference]
    # Artifacts that it superseded.
    supersedes: list[ArtifactId]
    # Lint findings.
    lint: list[LintFinding]
    # State changes, oldest first.
    changes: list[ArtifactChange]
    # Reasons it cannot be retired or deleted now, one sentence each.
    holds: list[str]


# Lifecycle state of an artifact.
ArtifactState: TypeAlias = Literal["draft", "staged", "canary", "active", "deprecated", "retired"]


# Empty request body.
ArtifactVerify: TypeAlias = "dict[str, Any]"


# Visibility of an app in the catalog.
Audience: TypeAlias = Literal["project", "tenant", "everyone"]


class AuditActor(TypedDict):
    """The actor of a command."""

    # `user`, `service_account` or `platform`.
    kind: str
    # The actor's id.
    id: str
    # Its name at the time.
    name: str


class AuditChainQuery(TypedDict):
    """Selects a chain."""

    # A tenant's chain, by slug or id; default: the platform's.
    tenant: NotRequired[str]


class AuditEntry(TypedDict):
    """A record at its position in the chain."""

    # The chain: a tenant's id, or `platform`.
    chain: str
    # Sequence number, from 1, without gaps.
    sequence: int
    # Hash of the previous entry.
    previous_hash: str
    # SHA-256 over the previous hash, the sequence number and the record's text.
    hash: str
    # The record.
    record: AuditRecord


class AuditHead(TypedDict):
    """The head of a chain, as far as it is sealed."""

    # The chain.
    chain: str
    # Last sequence number.
    sequence: int
    # Its hash. Store it elsewhere to verify a later export against it.
    hash: str
    # Last sequence number removed by retention.
    pruned_sequence: int
    # Hash of that entry, which the first retained entry builds on.
    pruned_hash: str
    # Time of signing: now.
    signed_at: str
    # Fingerprint of the signing key, which is not in the database.
    key_id: str
    # Signature over chain, sequence number, hash and time, base64.
    signature: str


# AuditId
AuditId: TypeAlias = "str"


class AuditListQuery(TypedDict):
    """Filters for audit entries."""

    # A tenant's chain, by slug or id.
    tenant: NotRequired[str]
    # Only entries of this project, by name or id. With neither, the platform's chain.
    project: NotRequired[str]
    # Only entries after this sequence number.
    after: NotRequired[int]
    # Only this action, as `noun.verb`.
    action: NotRequired[str]
    # Only this actor, by id.
    actor: NotRequired[str]
    # Maximum number of items; default: 50.
    page_size: NotRequired[int]


# Outcome of a command.
AuditOutcome: TypeAlias = Literal["succeeded", "refused", "denied", "failed"]


class AuditPage(TypedDict):
    """A page of audit entries."""

    # Entries, in order.
    items: list[AuditEntry]
    # Pass as `after` to continue.
    next_after: int
    # Last sealed sequence number of the chain.
    sealed_up_to: int


class AuditRecord(TypedDict):
    """The hashed part of an entry: actor, action, target and outcome."""

    # Its id.
    id: AuditId
    # Time.
    at: str
    # The actor.
    actor: AuditActor
    # The action, as `noun.verb`.
    action: str
    # Outcome.
    outcome: AuditOutcome
    # The problem's code, unless it succeeded.
    code: NotRequired[str]
    # The target.
    target: NotRequired[AuditTarget]
    # Tenant, if any.
    tenant_id: NotRequired[TenantId]
    # Project, if any.
    project_id: NotRequired[ProjectId]
    # Correlation id, shared with the request, events and logs.
    correlation_id: str
    # Number of occurrences, for aggregated refusals.
    count: int
    # Details of the change, without secrets.
    detail: dict[str, Any]


class AuditTarget(TypedDict):
    """The target of a command."""

    # The noun.
    kind: str
    # Its id, or the reference from the request if it was not found.
    id: str
    # Its name.
    name: NotRequired[str]


class Blocked(TypedDict):
    """Details of a block."""

    # Reason.
    reason: str
    # Party that can unblock it: `tenant` or `operator`.
    resolvable_by: str
    # Available actions.
    actions: list[ResolveAction]
    # Time at which it was blocked.
    since: str
    # Time at which it is escalated to operators as overdue.
    escalates_at: str


class BlockedChild(TypedDict):
    """A blocked child operation, without which its parent cannot continue."""

    # The child's id, for `operation_resolve`.
    operation_id: OperationId
    # `noun.verb`.
    kind: str
    # Kind of the child's subject: `allocation`, `cell`, `instance`, `member` or `node`.
    subject_kind: str
    # Name of what the child works on.
    subject_name: str
    # Reason for the block, and the actions that resolve it.
    blocked: Blocked


class CanI(TypedDict):
    """The answer, with its reason."""

    # The permission in question.
    permission: str
    # Whether it is granted.
    allowed: bool
    # Reason.
    reason: str


class CanIQuery(TypedDict):
    """A permission query."""

    # The permission, as `noun.verb`.
    permission: str
    # Tenant, by slug or id.
    tenant: NotRequired[str]
    # Project, by name or id. With neither, the platform.
    project: NotRequired[str]


class Capacity(TypedDict):
    """Amounts of a node's resources."""

    # GPUs.
    gpus: int
    # Logical CPUs.
    cpus: int
    # Memory in MiB.
    memory_mb: int
    # Disk in MiB.
    disk_mb: int


class CapacityByGpus(TypedDict):
    """Number of nodes that could provide this many GPUs now, with the requested CPUs, memory and disk."""

    # Number of GPUs.
    gpus: int
    # Nodes that could provide them.
    nodes: int
    # Of these, nodes that could provide them inside one NVLink island.
    in_one_island: int


class CapacityNearest(TypedDict):
    """The smallest change that would fit now."""

    # The change in words.
    change: str
    # Shape that would fit.
    shape: AllocationShape
    # Amounts that would fit.
    capacity: Capacity


class CapacityQuery(TypedDict):
    """A capacity query."""

    # Shape; default: `gpu_slice`.
    shape: NotRequired[AllocationShape]
    # GPUs; default: 0, as for an allocation.
    gpus: NotRequired[int]
    # Logical CPUs; default: 1.
    cpus: NotRequired[int]
    # Memory in MiB; default: 1024.
    memory_mb: NotRequired[int]
    # Disk in MiB; default: 1024.
    disk_mb: NotRequired[int]


# Reason it does not fit now.
CapacityReason: TypeAlias = Literal["quota", "no_node", "no_whole_node", "gpus", "cpus", "memory_mb", "disk_mb", "apart"]


class CapacityReport(TypedDict):
    """Capacity that a project can allocate now. Nothing is reserved: another request may claim it first."""

    # The requesting project.
    project_id: ProjectId
    # Requested shape.
    shape: AllocationShape
    # Requested capacity.
    capacity: Capacity
    # Whether it fits now: a node has room, and the quota allows it.
    fits_now: bool
    # Number of nodes that could take it now, regardless of the quota.
    nodes: int
    # Largest amount of each resource that a single node could provide now in this shape; not necessarily the same node
    # for each.
    largest: Capacity
    # Number of nodes that could provide one GPU, two, and so on.
    by_gpus: list[CapacityByGpus]
    # Number of queued allocations.
    waiting: int
    # The project's remaining quota.
    quota_left: QuotaLeft
    # Reason it does not fit now.
    reason: NotRequired[CapacityReason]
    # Human-readable reason, with the short resource and the largest amount available.
    message: NotRequired[str]
    # The smallest change that would fit now; absent if there is none.
    nearest: NotRequired[CapacityNearest]


class Cell(TypedDict):
    """A cell."""

    # Its id.
    id: CellId
    # The tenant.
    tenant_id: TenantId
    # The project.
    project_id: ProjectId
    # Its allocation.
    allocation_id: AllocationId
    # Its node.
    node_id: NodeId
    # Its network.
    network_id: NetworkId
    # Name, unique among the project's live ones; also the host name.
    name: str
    # Labels.
    labels: Labels
    # Its specification.
    spec: CellSpec
    # Its address in its network.
    address: str
    # Node ports that forward to it.
    ports: list[CellPort]
    # Current state.
    state: CellState
    # Health last reported by the node's agent; `unknown` if no report is recent enough.
    health: Health
    # Explanation, when not healthy.
    health_message: NotRequired[str]
    # Latest status report.
    status: NotRequired[CellStatus]
    # Incremented each time it is created.
    incarnation: int
    # Reason for the failure or the block, from a closed list.
    reason: NotRequired[str]
    # Suggested next step.
    advice: NotRequired[str]
    # Human-readable message.
    message: NotRequired[str]
    # Operation that last worked on it.
    operation_id: NotRequired[OperationId]
    # Creation time.
    created_at: str
    # Time of the last change.
    updated_at: str
    # Version for `If-Match`.
    version: int


class CellAct(TypedDict):
    """An action on a cell."""

    # Reason, for the audit log.
    reason: NotRequired[str]
    # Return the plan without executing it.
    dry_run: NotRequired[bool]


class CellCreate(TypedDict):
    """A cell to create."""

    # Name, unique among the project's live ones; also the host name.
    name: str
    # Its allocation, by id or name.
    allocation: str
    # Labels.
    labels: NotRequired[Labels]
    # Its specification.
    spec: CellSpec
    # Deadline for all services to be ready; default: 15 minutes from now.
    ready_until: NotRequired[str]
    # Return the plan without executing it.
    dry_run: NotRequired[bool]


# CellId
CellId: TypeAlias = "str"


class CellListQuery(TypedDict):
    """Filters for listing cells."""

    # Maximum number of items; default: 50.
    page_size: NotRequired[int]
    # `next_page_token` of the previous page.
    page_token: NotRequired[str]
    # Label selector: `team=ml,stage!=test`.
    labels: NotRequired[str]
    # Only those in this state.
    state: NotRequired[CellState]
    # Only those in this allocation, by id or name.
    allocation: NotRequired[str]


class CellLog(TypedDict):
    """The last output of a service before its cell was removed."""

    # Incarnation of the cell.
    incarnation: int
    # The service.
    service: str
    # One line per entry: time, stream, text.
    text: str
    # Whether earlier output was dropped.
    truncated: bool
    # Time of archiving.
    kept_at: str


class CellPage(TypedDict):
    """A page of cells."""

    # Items of this page, oldest first.
    items: list[Cell]
    # Pass as `page_token` to get the next page; absent on the last.
    next_page_token: NotRequired[str]


class CellPort(TypedDict):
    """A node port that forwards to a cell's port."""

    # The cell's port.
    port: int
    # Protocol.
    protocol: Protocol
    # The node's port.
    node_port: int


class CellReference(TypedDict):
    """A cell created from the digest."""

    # The cell's id.
    id: CellId
    # Its name.
    name: str
    # Current state.
    state: str
    # Its incarnation.
    incarnation: int


# Restart policy of a cell.
CellRestart: TypeAlias = Literal["never", "always"]


class CellSpec(TypedDict):
    """Immutable specification of a cell. A changed specification is a new incarnation."""

    # Root file system.
    root: Root
    # Supervised services. A cell without any serves commands and shells.
    services: NotRequired[list[Service]]
    # Files written before any process starts.
    files: NotRequired[list[File]]
    # Directories that survive incarnations. They are wiped with the allocation.
    state: NotRequired[list[str]]
    # Directories shared with the other cells of the network, on the file system that the nodes share. Only cells of an
    # app's members have them, as declared in the manifest; decommissioning the app removes them.
    shared: NotRequired[list[str]]
    # Environment variables of every process.
    environment: NotRequired[dict[str, str]]
    # GPUs of the allocation that the cell may use. Default: all of them.
    gpus: NotRequired[list[int]]
    # Whether processes may reach addresses outside the network, through the node.
    egress: NotRequired[bool]
    # Ports reachable from outside the network, at the node.
    ingress: NotRequired[list[Ingress]]
    # Whether the cell has the project's users: their names and ids in `/etc/muster/passwd` and `/etc/muster/group`,
    # their SSH keys in `/etc/muster/authorized_keys`. Commands then run as the calling user by default, not as root.
    people: NotRequired[bool]
    # Secrets, each a file in `/run/muster/secrets` that is kept in memory only.
    secrets: NotRequired[list[SecretFile]]
    # Restart policy for the cell itself, after its first process dies or its node reboots.
    restart: NotRequired[CellRestart]
    # Seconds without contact to the platform after which the node destroys the cell, so that a replacement elsewhere
    # never runs beside it.
    stop_after_partition: NotRequired[int]


# State of a cell.
CellState: TypeAlias = Literal["requested", "provisioning", "running", "destroying", "destroyed", "failed"]


class CellStatus(TypedDict):
    """Status of a cell, as reported by its node's agent."""

    # Whether its first process is running.
    alive: bool
    # Time of the last change of `alive`.
    since: str
    # Time of the agent's last reported change.
    observed_at: str
    # Its services.
    services: list[ServiceStatus]


class CellTaskFiles(TypedDict):
    """Files to write, and paths to remove."""

    # Files to write, and paths to remove.
    files: FilesOrder


class CellTaskService(TypedDict):
    """A service to start or to stop."""

    # A service to start or to stop.
    service: ServiceOrder


class CellTaskCommand(TypedDict):
    """Command to run to completion."""

    # Command to run to completion.
    command: CommandOrder


class CellTaskProbe(TypedDict):
    """Check to run beside the cell."""

    # Check to run beside the cell.
    probe: ProbeOrder


# Action in or beside an existing cell.
CellTask: TypeAlias = Union["CellTaskFiles", "CellTaskService", "CellTaskCommand", "CellTaskProbe"]


# One difference between approved and found hardware.
Change = TypedDict("Change", {
    "what": "str",
    "was": "NotRequired[str]",
    "is": "NotRequired[str]",
})


class Check(TypedDict):
    """A health check."""

    # Its name.
    name: str
    # Whether it passed.
    ok: bool
    # Result.
    detail: str


# The closed list of codes. A code is stable; its text may improve.
Code: TypeAlias = Literal["malformed_request", "invalid_request", "bad_cursor", "idempotency_key_required", "unauthenticated", "permission_denied", "csrf_required", "origin_not_allowed", "not_found", "method_not_allowed", "request_timeout", "name_taken", "ambiguous_name", "not_empty", "invalid_state", "quota_exceeded", "fenced", "member_step_running", "too_many_tasks", "incompatible", "last_operator", "version_mismatch", "body_too_large", "unsupported_media_type", "host_not_allowed", "idempotency_key_reused", "untrusted", "lint_failed", "url_not_allowed", "version_required", "rate_limited", "external_registry", "internal", "unavailable", "storage_full"]


class Command(TypedDict):
    """A command in a cell."""

    # Program, by path or by name in the cell's PATH, and arguments. No shell interprets them.
    command: list[str]
    # Whether to allocate a terminal.
    terminal: NotRequired[bool]
    # The terminal's width.
    columns: NotRequired[int]
    # The terminal's height.
    rows: NotRequired[int]
    # User in the cell. Default: the calling user in a cell that has the project's users, otherwise root.
    uid: NotRequired[int]
    # Group in the cell. Default: the same number as the user.
    gid: NotRequired[int]
    # Environment variables in addition to the cell's.
    environment: NotRequired[dict[str, str]]
    # Working directory.
    working_directory: NotRequired[str]


class CommandOrder(TypedDict):
    """A command to run to completion."""

    # Program path and arguments. No shell interprets them.
    command: list[str]
    # Environment variables in addition to the cell's.
    environment: NotRequired[dict[str, str]]
    # As which user of the cell.
    uid: NotRequired[int]
    # As which group of the cell.
    gid: NotRequired[int]
    # Standard input.
    stdin: NotRequired[str]
    # After so many seconds it is killed.
    timeout_seconds: NotRequired[int]


class CompatibilityQuery(TypedDict):
    """A compatibility query."""

    # Release; default: the one that would start.
    version: NotRequired[str]
    # Shape; default: both.
    shape: NotRequired[AllocationShape]
    # Members per component: `worker=4,controller=1`; default: the manifest's numbers.
    components: NotRequired[str]
    # Number of allocations; default: one per member.
    allocations: NotRequired[int]


class Component(TypedDict):
    """A component of an instance."""

    # Its key, meaningful to the app only.
    component_key: str
    # Desired number of members.
    desired: int
    # Number of active members.
    current: int
    # Total number of members, including those that are starting, leaving or failed.
    members: int
    # Current health.
    health: Health
    # Capacity requested for each new member.
    capacity: Capacity
    # Allocation for new members, if the owner chose one.
    allocation_id: NotRequired[AllocationId]


class ComponentAsk(TypedDict):
    """Requested properties of a component."""

    # Its key in the manifest.
    component_key: str
    # Number of members; default: the manifest's number.
    count: NotRequired[int]
    # Capacity per member; default: the manifest's capacity.
    capacity: NotRequired[Capacity]
    # Allocation for the members, by id or name; default: the platform creates one per member.
    allocation: NotRequired[str]


class ControlResize(TypedDict):
    """To the cell: the terminal was resized."""

    # To the cell: the terminal was resized.
    resize: dict[str, Any]


class ControlInputEnded(TypedDict):
    """To the cell: end of input."""

    # To the cell: end of input.
    input_ended: dict[str, Any]


class ControlStarted(TypedDict):
    """From the cell: started."""

    # From the cell: started.
    started: dict[str, Any]


class ControlExited(TypedDict):
    """From the cell: ended with this exit status; 0 for complete logs and files."""

    # From the cell: ended with this exit status; 0 for complete logs and files.
    exited: dict[str, Any]


class ControlFailed(TypedDict):
    """From either end: failed."""

    # From either end: failed.
    failed: dict[str, Any]


# Control message of a stream, in either direction.
Control: TypeAlias = Union["ControlResize", "ControlInputEnded", "ControlStarted", "ControlExited", "ControlFailed"]


class Cpus(TypedDict):
    """The processors."""

    # Logical CPUs that are online.
    count: int
    # Number of sockets.
    sockets: int
    # Model name reported by the processor.
    model: str


class DeleteQuery(TypedDict):
    """Options for a removal."""

    # Whether its contents are removed too; otherwise the request is refused as `not_empty`.
    cascade: NotRequired[bool]


# DeliveryId
DeliveryId: TypeAlias = "str"


class DeliveryListQuery(TypedDict):
    """Filters for listing delivery attempts."""

    # Maximum number of items; default: 50.
    page_size: NotRequired[int]
    # `next_page_token` of the previous page.
    page_token: NotRequired[str]


class DeviceSpec(TypedDict):
    """A specification of devices that the agent applies to cells."""

    # Vendor and class of its devices.
    kind: str
    # Its file, or `agent` if the agent made it from the driver's files.
    origin: str
    # SHA-256 of its content, in hexadecimal.
    digest: str


# Encoding of a value.
Encoding: TypeAlias = Literal["text", "base64"]


# EnrolmentId
EnrolmentId: TypeAlias = "str"


class Entitlement(TypedDict):
    """A project's right to launch an app."""

    # Its id.
    id: EntitlementId
    # The consumer's tenant.
    tenant_id: TenantId
    # The consumer's project.
    project_id: ProjectId
    # The app.
    app_id: AppId
    # The app's slug.
    app: str
    # Account in the consumer's project that the app's adapter uses.
    operator_account_id: ServiceAccountId
    # Permissions of that account: exactly those consented to.
    permissions: list[str]
    # Time of revocation. No new instance starts after it; existing ones stay operable until they are decommissioned.
    revoked_at: NotRequired[str]
    # Time of the grant.
    created_at: str
    # Time of the last change.
    updated_at: str
    # Version for `If-Match`.
    version: int


class EntitlementGrant(TypedDict):
    """An entitlement to grant."""

    # The app, by slug or id.
    app: str
    # Permissions granted to the app's adapter here; must match those its release requests, which a dry run shows.
    consent: NotRequired[list[str]]
    # Only return the permissions the app requests.
    dry_run: NotRequired[bool]


# EntitlementId
EntitlementId: TypeAlias = "str"


class EntitlementListQuery(TypedDict):
    """Filters for listing entitlements."""

    # Maximum number of items; default: 50.
    page_size: NotRequired[int]
    # `next_page_token` of the previous page.
    page_token: NotRequired[str]
    # Other projects' entitlements to the apps this project publishes, instead of its own.
    published: NotRequired[bool]


class EntitlementPage(TypedDict):
    """A page of entitlements."""

    # Items of this page, oldest first.
    items: list[Entitlement]
    # Pass as `page_token` to get the next page; absent on the last.
    next_page_token: NotRequired[str]


class EntitlementRevoke(TypedDict):
    """Options for revoking an entitlement."""

    # Shut the app's adapter out at once, although it still operates live instances: its account is disabled, its tokens
    # expire within seconds, and operations that need the adapter wait and are eventually blocked. Also accepted for an
    # entitlement that is already revoked.
    cut_off: NotRequired[bool]


class Event(TypedDict):
    """An event, as a CloudEvent."""

    # CloudEvents version.
    specversion: str
    # Its id.
    id: EventId
    # Event type.
    type: str
    # Event source.
    source: str
    # Path of the resource.
    subject: str
    # Time of occurrence.
    time: str
    # Sequence number in the requested stream, from 1, without gaps; on an instance's timeline, the one in its project's
    # stream.
    sequence: int
    # Correlation id, shared with the request, audit and logs.
    correlationid: str
    # Actor of the command that caused it.
    actorid: str
    # Tenant, if any.
    tenantid: NotRequired[TenantId]
    # Project, if any.
    projectid: NotRequired[ProjectId]
    # The app instance whose timeline shows it, if any.
    instanceid: NotRequired[InstanceId]
    # The member whose timeline shows it, if any.
    memberid: NotRequired[MemberId]
    # Details.
    data: dict[str, Any]


# EventId
EventId: TypeAlias = "str"


class EventListQuery(TypedDict):
    """Selects a stream and a position in it."""

    # A tenant's stream, by slug or id: all events of the tenant.
    tenant: NotRequired[str]
    # A project's stream, by name or id. With neither, the platform's.
    project: NotRequired[str]
    # Only events after this sequence number.
    after: NotRequired[int]
    # Only events of this type; a trailing `*` is a wildcard.
    event_type: NotRequired[str]
    # Maximum number of items; default: 50.
    page_size: NotRequired[int]


class EventPage(TypedDict):
    """A page of events."""

    # Events in order, without gaps unless filtered.
    items: list[Event]
    # Pass as `after` to continue.
    next_after: int
    # Last sealed sequence number of the stream; later events are not numbered yet.
    sealed_up_to: int


class EventStreamQuery(TypedDict):
    """Selects a stream to follow."""

    # A tenant's stream, by slug or id: all events of the tenant.
    tenant: NotRequired[str]
    # A project's stream, by name or id. With neither, the platform's.
    project: NotRequired[str]
    # Start after this sequence number; default: only new events. `Last-Event-ID` does the same.
    after: NotRequired[int]


class External(TypedDict):
    """An external registry."""

    # Its host, with the port if not the default one: `registry.example`.
    registry: str
    # The repository there.
    repository: str
    # Name of the project's secret to authenticate with. It must have been created for this registry, with
    # `user:password` as its value. Needs `secret.use`.
    secret: NotRequired[str]


class Fault(TypedDict):
    """A lint finding in a manifest."""

    # Location, as a JSON pointer into the manifest.
    path: str
    # The rule.
    rule: str
    # The finding, and how to fix it.
    message: str
    # Whether it prevents publication.
    error: bool


class FieldError(TypedDict):
    """An error at one place of a request."""

    # A JSON pointer into the body, or `query/NAME`, `header/NAME`, `path/NAME`.
    pointer: str
    # Description of the error.
    detail: str


class File(TypedDict):
    """A file in a cell."""

    # Path.
    path: str
    # Content.
    text: str
    # Mode, in octal digits.
    mode: NotRequired[str]
    # Its owner in the cell.
    uid: NotRequired[int]
    # Its group in the cell.
    gid: NotRequired[int]


class FileAt(TypedDict):
    """A file of a cell."""

    # Path.
    path: str
    # Mode of the written file, in octal digits.
    mode: NotRequired[str]
    # Its owner in the cell.
    uid: NotRequired[int]
    # Its group in the cell.
    gid: NotRequired[int]


class FilesOrder(TypedDict):
    """Files to write and to remove in a cell. Each is renamed into its path, so it is never partially written."""

    # Files to write.
    write: NotRequired[list[File]]
    # Files and empty directories to remove. Missing ones are ignored.
    remove: NotRequired[list[str]]
    # Secrets to write, by reference, each as a file of mode 0400 in `/run/muster/secrets`.
    secrets: NotRequired[list[SecretFile]]


class Fit(TypedDict):
    """Whether an app fits a shape."""

    # The shape.
    shape: AllocationShape
    # Whether it fits.
    fits: bool
    # Reasons for the answer.
    reasons: list[str]
    # The smallest change that would make it fit.
    change: NotRequired[str]


class Gpu(TypedDict):
    """A GPU."""

    # Ordinal assigned by the driver, from 0. It shifts when an earlier GPU is missing: the UUID is the identity.
    ordinal: int
    # Identity of the GPU, the same in any machine.
    uuid: str
    # The model.
    model: str
    # Its memory in MiB.
    memory_mb: int
    # PCI address; absent for a simulated GPU.
    pci: NotRequired[str]
    # NUMA node it is attached to; -1 if the machine does not report one.
    numa: int
    # NVLink island. GPUs connected over NVLink share a number; one without links has its own.
    island: int
    # Number of NVLinks that are up.
    nvlinks: int
    # Whether MIG mode is enabled.
    mig: bool
    # Its virtual functions, if it can have any.
    vfs: NotRequired[Vfs]
    # Driver version.
    driver: NotRequired[str]
    # Architecture, in lower case.
    architecture: NotRequired[str]
    # Latest CUDA version that the driver supports.
    cuda: NotRequired[str]
    # Its MIG instances, by UUID; empty unless MIG mode is enabled.
    mig_instances: NotRequired[list[MigInstance]]


class GpuProduct(TypedDict):
    """A product of GPUs."""

    # Its id.
    id: GpuProductId
    # Its name, such as `h200`.
    name: str
    # Memory of one GPU in MiB.
    memory_mb: int
    # Its architecture, such as `hopper`.
    architecture: str
    # Creation time.
    created_at: str
    # Time of the last change.
    updated_at: str
    # Version for `If-Match`.
    version: int


class GpuProductCreate(TypedDict):
    """A GPU product to create."""

    # Its name, such as `h200`.
    name: str
    # Memory of one GPU in MiB.
    memory_mb: int
    # Its architecture, such as `hopper`.
    architecture: str


# GpuProductId
GpuProductId: TypeAlias = "str"


class GpuProductPage(TypedDict):
    """A page of GPU products."""

    # Items of this page, oldest first.
    items: list[GpuProduct]
    # Pass as `page_token` to get the next page; absent on the last.
    next_page_token: NotRequired[str]


class GpuProductUpdate(TypedDict):
    """Properties of a GPU product that can change."""

    # Memory of one GPU in MiB.
    memory_mb: NotRequired[int]
    # Its architecture, such as `hopper`.
    architecture: NotRequired[str]


class Granted(TypedDict):
    """Result of a grant."""

    # The entitlement; absent after a dry run.
    entitlement: NotRequired[Entitlement]
    # Permissions of the app's adapter in the project.
    permissions: list[str]


# Health: a second axis besides the state.
Health: TypeAlias = Literal["healthy", "degraded", "unhealthy", "unknown"]


class HeldRole(TypedDict):
    """A role and its scope."""

    # The role.
    role: Role
    # Tenant, if any.
    tenant_id: NotRequired[TenantId]
    # Project, if any.
    project_id: NotRequired[ProjectId]


class Ingress(TypedDict):
    """A port of a cell that is reachable from outside its network."""

    # The cell's port.
    port: int
    # Transport protocol.
    protocol: NotRequired[Protocol]
    # The node's port. Default: chosen by the platform.
    node_port: NotRequired[int]


class Instance(TypedDict):
    """An instance of an app in a project."""

    # Its id.
    id: InstanceId
    # The tenant.
    tenant_id: TenantId
    # The project.
    project_id: ProjectId
    # Name, unique among the project's live ones.
    name: str
    # Labels.
    labels: Labels
    # The app.
    app_id: AppId
    # The app's slug.
    app: str
    # Release that it should run.
    app_version_id: AppVersionId
    # Name of that release.
    app_version: str
    # Release that a rollback returns to.
    previous_version_id: NotRequired[AppVersionId]
    # Its configuration.
    config: dict[str, Any]
    # The only account that may lease its adapter steps.
    operator_service_account: ServiceAccountId
    # Network of its members.
    network_id: NetworkId
    # Shape of its allocations.
    bound_capacity_shape: AllocationShape
    # Current state.
    state: InstanceState
    # Current health.
    health: Health
    # Explanation, when not healthy.
    health_message: NotRequired[str]
    # Time of the last change of its health.
    health_since: NotRequired[str]
    # Its composition.
    topology: Topology
    # Repair policy for failed members.
    repair: RepairMode
    # Whether it is protected from decommissioning.
    protected: bool
    # Time at which it is decommissioned automatically.
    expires_at: NotRequired[str]
    # Failure reason, from a closed list.
    reason: NotRequired[str]
    # Suggested next step.
    advice: NotRequired[str]
    # Human-readable message.
    message: NotRequired[str]
    # Evidence that it ran.
    running_witness_id: NotRequired[WitnessId]
    # Evidence that nothing of it is left.
    stopped_witness_id: NotRequired[WitnessId]
    # Operation that last worked on it.
    operation_id: NotRequired[OperationId]
    # Time of its adapter's last reconciliation.
    reconciled_at: NotRequired[str]
    # Creation time.
    created_at: str
    # Time of the last change.
    updated_at: str
    # Version for `If-Match`.
    version: int


class InstanceAct(TypedDict):
    """An action on an instance."""

    # Reason, for the audit log.
    reason: NotRequired[str]
    # Skip draining the members.
    force: NotRequired[bool]
    # Deadline; default: two hours from now.
    ready_until: NotRequired[str]
    # Return the plan without executing it.
    dry_run: NotRequired[bool]


class InstanceCreate(TypedDict):
    """An instance to create."""

    # Name, unique among the project's live ones.
    name: str
    # The app, by slug or id.
    app: str
    # Release, by name or id; default: the active one or the canary.
    app_version: NotRequired[str]
    # Configuration, validated against the manifest's schema.
    config: NotRequired[dict[str, Any]]
    # Components that differ from the manifest's defaults.
    components: NotRequired[list[ComponentAsk]]
    # Shape of the allocations that the platform creates; default: `gpu_slice` if it fits.
    shape: NotRequired[AllocationShape]
    # Labels.
    labels: NotRequired[Labels]
    # Whether it is protected from decommissioning.
    protected: NotRequired[bool]
    # Time at which it is decommissioned automatically.
    expires_at: NotRequired[str]
    # Repair policy for failed members; default: the manifest's policy.
    repair: NotRequired[RepairMode]
    # Deadline for it to run; default: one hour from now.
    ready_until: NotRequired[str]
    # Return the plan without executing it.
    dry_run: NotRequired[bool]


class InstanceEndpoint(TypedDict):
    """An endpoint of an instance."""

    # Its name in the manifest.
    name: str
    # The member.
    member: str
    # Its component.
    component_key: str
    # Its address in the instance's network.
    address: str
    # The port there.
    port: int
    # `tcp` or `udp`.
    protocol: str
    # Address of the node, if a node port forwards to the endpoint.
    node_address: NotRequired[str]
    # Port of the node.
    node_port: NotRequired[int]


class InstanceEndpoints(TypedDict):
    """Endpoints of an instance."""

    # Endpoints of its active members.
    endpoints: list[InstanceEndpoint]


class InstanceEventListQuery(TypedDict):
    """Selects events of an instance's timeline."""

    # Only events after this sequence number.
    after: NotRequired[int]
    # Only events of this type; a trailing `*` is a wildcard.
    event_type: NotRequired[str]
    # Maximum number of items; default: 50.
    page_size: NotRequired[int]


class InstanceEventStreamQuery(TypedDict):
    """Selects a position in an instance's timeline."""

    # Start after this sequence number; default: only new events. `Last-Event-ID` does the same.
    after: NotRequired[int]


# InstanceId
InstanceId: TypeAlias = "str"


class InstanceListQuery(TypedDict):
    """Filters for listing instances."""

    # Maximum number of items; default: 50.
    page_size: NotRequired[int]
    # `next_page_token` of the previous page.
    page_token: NotRequired[str]
    # Label selector: `team=ml,stage!=test`.
    labels: NotRequired[str]
    # Only those in this state.
    state: NotRequired[InstanceState]


class InstancePage(TypedDict):
    """A page of instances."""

    # Items of this page, oldest first.
    items: list[Instance]
    # Pass as `page_token` to get the next page; absent on the last.
    next_page_token: NotRequired[str]


class InstanceScale(TypedDict):
    """Desired numbers of members."""

    # Components to change.
    components: list[ComponentAsk]
    # Reason, for the audit log.
    reason: NotRequired[str]
    # Deadline; default: one hour from now.
    ready_until: NotRequired[str]
    # Return the plan without executing it.
    dry_run: NotRequired[bool]


# State of an instance.
InstanceState: TypeAlias = Literal["created", "starting", "running", "stopping", "stopped", "failed"]


class InstanceUpdate(TypedDict):
    """Properties of an instance that can change without changing its members."""

    # Labels; replace the existing ones.
    labels: NotRequired[Labels]
    # Whether it is protected from decommissioning.
    protected: NotRequired[bool]
    # Time at which it is decommissioned automatically; a time in the distant past removes the expiry.
    expires_at: NotRequired[str]
    # Repair policy for failed members.
    repair: NotRequired[RepairMode]


class InstanceUpgrade(TypedDict):
    """An upgrade to another release."""

    # Release, by name or id; default: the active one or the canary.
    app_version: NotRequired[str]
    # New configuration; default: unchanged.
    config: NotRequired[dict[str, Any]]
    # Reason, for the audit log.
    reason: NotRequired[str]
    # Deadline; default: two hours from now.
    ready_until: NotRequired[str]
    # Return the plan without executing it.
    dry_run: NotRequired[bool]


class Inventory(TypedDict):
    """Inventory of a machine. `Inventory::hardware_digest` defines the part that an operator approves."""

    # Host name of the machine; the node's name is the platform's.
    hostname: str
    # Release of the running kernel.
    kernel: str
    # Distribution name.
    os: str
    # The processor architecture.
    architecture: str
    # Boot id, generated by the kernel at each start.
    boot_id: str
    # The processors.
    cpus: Cpus
    # Memory available to the kernel in MiB, slightly less than installed.
    memory_mb: int
    # Size of the file system with the agent's data, in MiB.
    disk_mb: int
    # The part of CPUs and memory that is not offered to allocations.
    reserved: NotRequired[Reserved]
    # NUMA nodes, by number.
    numa: list[NumaNode]
    # Graphics, accelerator, network and NVMe devices on the PCI bus, by address. Virtual functions are counted at their
    # device and not listed.
    pci: list[PciDevice]
    # Physical network devices, by name. Bridges, tunnels and virtual functions come and go with the cells and are not
    # listed.
    network: list[NetworkDevice]
    # GPUs, by ordinal.
    gpus: list[Gpu]
    # Specifications of devices (Container Device Interface) that the agent applies to cells, by kind.
    device_specs: NotRequired[list[DeviceSpec]]
    # Whether the GPUs are simulated, for machines without any.
    simulated: bool
    # Read errors and their reasons.
    notes: list[str]


class Item(TypedDict):
    """One item of a bulk operation."""

    # Id of the resource.
    id: str
    # Its name.
    name: str
    # Current state.
    state: ItemState
    # Its operation.
    operation_id: NotRequired[OperationId]
    # Human-readable message.
    message: NotRequired[str]


# State of one item of a bulk operation.
ItemState: TypeAlias = Literal["pending", "running", "blocked", "succeeded", "partial", "failed"]


class Key(TypedDict):
    """A publisher's public key."""

    # Its id.
    id: KeyId
    # The tenant.
    tenant_id: TenantId
    # The project.
    project_id: ProjectId
    # Its name, unique in the project.
    name: str
    # The key, as PEM.
    public_key: str
    # `SHA256:` and the hexadecimal digest of the key.
    fingerprint: str
    # `ecdsa-p256`, `ecdsa-p384`, `ed25519` or `rsa`.
    algorithm: str
    # Creation time.
    created_at: str
    # Time since which its signatures are no longer accepted.
    revoked_at: NotRequired[str]
    # Reason for the revocation.
    revoked_reason: NotRequired[str]
    # Version for `If-Match`.
    version: int


class KeyCreate(TypedDict):
    """A key to trust."""

    # Its name, unique in the project.
    name: str
    # The public key, as PEM: the content of `cosign.pub`.
    public_key: str


# KeyId
KeyId: TypeAlias = "str"


class KeyListQuery(TypedDict):
    """Filters for listing keys."""

    # Maximum number of items; default: 50.
    page_size: NotRequired[int]
    # `next_page_token` of the previous page.
    page_token: NotRequired[str]


class KeyPage(TypedDict):
    """A page of keys."""

    # Items of this page, oldest first.
    items: list[Key]
    # Pass as `page_token` to get the next page; absent on the last.
    next_page_token: NotRequired[str]


class KeyRevoke(TypedDict):
    """A key revocation."""

    # Reason, for the audit log.
    reason: str


# Labels
Labels: TypeAlias = "dict[str, str]"


class Leased(TypedDict):
    """Leased steps."""

    # The steps; empty if there was no work within the wait.
    steps: list[LeasedStep]


class LeasedStep(TypedDict):
    """A step with everything needed to carry it out."""

    # The step.
    step: AdapterStep
    # The instance.
    snapshot: Snapshot


class LintFinding(TypedDict):
    """A lint finding."""

    # Whether it prevents staging.
    error: bool
    # The rule.
    rule: str
    # The finding.
    message: str
    # How to fix it.
    fix: str


class ListQuery(TypedDict):
    """Paging and label parameters for lists."""

    # Maximum number of items; default: 50.
    page_size: NotRequired[int]
    # `next_page_token` of the previous page.
    page_token: NotRequired[str]
    # Label selector: `team=ml,stage!=test`.
    labels: NotRequired[str]


# Authentication method. Password is the only one today; single sign-on becomes a second variant.
LoginMethod: TypeAlias = Literal["password"]


class Logs(TypedDict):
    """Selection of log lines."""

    # Service. Default: all of them.
    service: NotRequired[str]
    # Whether to follow the log.
    follow: NotRequired[bool]
    # Maximum number of last lines.
    tail: NotRequired[int]
    # Earliest time.
    since: NotRequired[str]
    # Text that each line must contain.
    search: NotRequired[str]


class ManifestSchema(TypedDict):
    """Schema of manifests."""

    # A JSON Schema, draft 2020-12.
    schema: dict[str, Any]


class Member(TypedDict):
    """A single running unit of a component."""

    # Its id.
    id: MemberId
    # The instance.
    instance_id: InstanceId
    # The component; its key is meaningful to the app only.
    component_key: str
    # Name and host name.
    name: str
    # Current state.
    state: MemberState
    # Current health. Reports on other incarnations do not count.
    health: Health
    # Explanation.
    health_message: NotRequired[str]
    # Cause of a health other than healthy, from a closed list.
    health_reason: NotRequired[str]
    # Suggested next step.
    health_advice: NotRequired[str]
    # Time of the last change of its health.
    health_since: NotRequired[str]
    # Its services and their restart counts, as last reported by the node's agent.
    services: NotRequired[list[ServiceStatus]]
    # Time at which its current work is expected to end, from its adapter's last report; in the past if it was idle,
    # absent if unknown. Scaling down removes the members that become free first.
    free_at: NotRequired[str]
    # Incremented each time its cell is created.
    incarnation: int
    # Its allocation.
    allocation_id: NotRequired[AllocationId]
    # Whether the platform created that allocation for it.
    allocation_made: bool
    # Shape of the allocation.
    bound_capacity_shape: NotRequired[AllocationShape]
    # Its node.
    node_id: NotRequired[NodeId]
    # Its cell.
    cell_id: NotRequired[CellId]
    # Its address in the instance's network.
    address: NotRequired[str]
    # Release that actually runs in it.
    app_version_id: NotRequired[AppVersionId]
    # Detail last reported by its adapter.
    adapter_detail: dict[str, Any]
    # Failure reason, from a closed list.
    failure_reason: NotRequired[str]
    # Suggested next step.
    advice: NotRequired[str]
    # Human-readable message.
    message: NotRequired[str]
    # Whether its network peers dropped it, because its node is unreachable.
    fenced: bool
    # Evidence that it is, or was, in service.
    active_witness_id: NotRequired[WitnessId]
    # The evidence that it is drained.
    drained_witness_id: NotRequired[WitnessId]
    # Evidence that nothing of it is left.
    removed_witness_id: NotRequired[WitnessId]
    # Operation that last worked on it.
    last_operation_id: NotRequired[OperationId]
    # Correlation id.
    correlation_id: str
    # Creation time.
    created_at: str
    # Time of the last change.
    updated_at: str
    # Version for `If-Match`.
    version: int


class MemberAct(TypedDict):
    """An action on members."""

    # Members, by id or name.
    members: list[str]
    # Reason, for the audit log.
    reason: NotRequired[str]
    # Deadline; default: 30 minutes from now.
    ready_until: NotRequired[str]
    # Return the plan without executing it.
    dry_run: NotRequired[bool]


class MemberAdd(TypedDict):
    """Members to add."""

    # The component.
    component_key: str
    # Number of members; default: 1.
    count: NotRequired[int]
    # Allocation for them; default: as configured for the instance's component.
    allocation: NotRequired[MemberAllocation]
    # Reason, for the audit log.
    reason: NotRequired[str]
    # Deadline for them to be active; default: 30 minutes from now.
    ready_until: NotRequired[str]
    # Return the plan without executing it.
    dry_run: NotRequired[bool]


class MemberAllocationId(TypedDict):
    """An allocation of the project, by id or name."""

    # An allocation of the project, by id or name.
    id: str


class MemberAllocationCapacity(TypedDict):
    """A new allocation with this capacity."""

    # A new allocation with this capacity.
    capacity: Capacity


# Allocation for a member: one that the project holds, or one that the platform creates.
MemberAllocation: TypeAlias = Union["MemberAllocationId", "MemberAllocationCapacity"]


# MemberId
MemberId: TypeAlias = "str"


class MemberListQuery(TypedDict):
    """Filters for listing members."""

    # Maximum number of items; default: 50.
    page_size: NotRequired[int]
    # `next_page_token` of the previous page.
    page_token: NotRequired[str]
    # Only those of this component.
    component: NotRequired[str]
    # Only those in this state; removed ones are not listed otherwise.
    state: NotRequired[MemberState]


class MemberPage(TypedDict):
    """A page of members."""

    # Items of this page, oldest first.
    items: list[Member]
    # Pass as `page_token` to get the next page; absent on the last.
    next_page_token: NotRequired[str]


class MemberReport(TypedDict):
    """An adapter's findings on a member."""

    # The member.
    member_id: MemberId
    # Its incarnation; a report on any other incarnation is rejected.
    incarnation: int
    # Current health.
    health: Health
    # Explanation.
    message: NotRequired[str]
    # Time at which its current work is expected to end: now or earlier if it is idle, absent if unknown. Scaling down
    # removes the members that become free first. A report without it clears the previous value.
    free_at: NotRequired[str]
    # Free-form detail on the member; replaces the previous one.
    adapter_detail: NotRequired[dict[str, Any]]


# State of a member.
MemberState: TypeAlias = Literal["requested", "provisioning", "joining", "active", "draining", "drained", "removing", "removed", "failed"]


class MemberTake(TypedDict):
    """Members to remove or replace."""

    # Members, by id or name.
    members: list[str]
    # Skip draining; needs its own permission. Supersedes a running drain.
    force: NotRequired[bool]
    # Reason, for the audit log.
    reason: NotRequired[str]
    # Deadline; default: one hour from now.
    ready_until: NotRequired[str]
    # Return the plan without executing it.
    dry_run: NotRequired[bool]


class MigInstance(TypedDict):
    """A MIG instance: an isolated part of a GPU."""

    # Its identity. A repartitioned GPU has instances with other UUIDs.
    uuid: str
    # Its profile.
    profile: str
    # Its memory in MiB.
    memory_mb: int
    # Id of its GPU instance on the GPU.
    gpu_instance: int
    # Id of its compute instance in the GPU instance.
    compute_instance: int


class Network(TypedDict):
    """A network."""

    # Its id.
    id: NetworkId
    # The tenant.
    tenant_id: TenantId
    # The project.
    project_id: ProjectId
    # Its name, unique in the project.
    name: str
    # Its address range.
    subnet: str
    # Its cells.
    members: list[NetworkMember]
    # Creation time.
    created_at: str
    # Time of the last change.
    updated_at: str
    # Incremented with each change.
    version: int


class NetworkDevice(TypedDict):
    """A physical network device."""

    # Interface name.
    name: str
    # Permanent address. Only the last eight of InfiniBand's twenty bytes, the port's GUID, because the others change at
    # each start. Empty if the kernel generated the address.
    mac: str
    # MTU in bytes.
    mtu: int
    # Link speed in Mbit/s; absent without a link, and if the device does not report one.
    speed_mbps: NotRequired[int]
    # Link state as reported by the kernel, for example `up`, `down` or `unknown`.
    state: str
    # Kernel driver bound to it.
    driver: NotRequired[str]
    # Address of its PCI device.
    pci: NotRequired[str]
    # Whether it supports RDMA.
    rdma: bool


# NetworkId
NetworkId: TypeAlias = "str"


class NetworkList(TypedDict):
    """Networks of a project."""

    # All networks.
    items: list[Network]


class NetworkMember(TypedDict):
    """A cell in a network."""

    # The cell.
    cell_id: CellId
    # Its name, which resolves inside the network.
    name: str
    # Its address.
    address: str
    # Its node.
    node_id: NodeId


class Node(TypedDict):
    """An enrolled machine."""

    # Its id.
    id: NodeId
    # Name, unique among nodes that are not retired.
    name: str
    # Labels.
    labels: Labels
    # Summary state, derived from the fields beside it.
    state: NodeState
    # Whether it accepts no new allocations.
    cordoned: bool
    # Whether it is being drained.
    draining: bool
    # Time since which it has been unreachable.
    unreachable_since: NotRequired[str]
    # Time of retirement.
    retired_at: NotRequired[str]
    # Approved capacity, including quarantined GPUs.
    total: Capacity
    # Capacity not held, without quarantined GPUs.
    free: Capacity
    # Number of allocations that hold capacity on it.
    allocations: int
    # Digest of the hardware that its agent last reported; pass it to `node_approve`.
    inventory_digest: str
    # Digest of the approved hardware.
    approved_digest: NotRequired[str]
    # Time of approval.
    approved_at: NotRequired[str]
    # Whether the reported hardware or address differs from the approved one.
    needs_approval: bool
    # Time of the last heartbeat, accurate to a few seconds.
    seen_at: NotRequired[str]
    # Version of the agent.
    agent_version: str
    # Expiry of its certificate.
    certificate_until: str
    # Name of the file system it shares with other nodes; nodes with the same name share the same one. Apps whose
    # members share directories run only on such nodes.
    shared_files: NotRequired[str]
    # Address at which other nodes reach it, as approved.
    address: NotRequired[str]
    # Address last reported by its agent. A different address is not used before it is approved.
    reported_address: NotRequired[str]
    # Source address of that report: the same, unless there is a proxy or NAT in between.
    peer_address: NotRequired[str]
    # Time of joining.
    created_at: str
    # Time of the last change.
    updated_at: str
    # Version for `If-Match`.
    version: int
    # Hardware removed, added or changed since the approval; only when a single node is returned, and only if there is
    # any.
    difference: NotRequired[list[Change]]
    # Its slots and their holders; only when a single node is returned.
    slots: NotRequired[list[Slot]]
    # Hardware last reported by its agent; only when a single node is returned.
    inventory: NotRequired[Inventory]


class NodeApprove(TypedDict):
    """Hardware to approve."""

    # The `inventory_digest` that you reviewed.
    digest: str
    # The `reported_address` that you reviewed; default: the one reported now.
    address: NotRequired[str]


class NodeAudit(TypedDict):
    """Options for comparing a node with the database."""

    # Remove orphans.
    repair: NotRequired[bool]
    # Return the plan without executing it.
    dry_run: NotRequired[bool]


class NodeDrain(TypedDict):
    """Options for draining a node."""

    # Seconds its tenants have to release their allocations; default: one hour.
    deadline_seconds: NotRequired[int]
    # Also replace members that stop before their successors start, and release what is left at the deadline. Without
    # it, such members stay and the operation is blocked at the deadline.
    force: NotRequired[bool]
    # Reason, for the audit log and the tenants' timelines.
    reason: NotRequired[str]
    # Return the plan without executing it.
    dry_run: NotRequired[bool]


class NodeEnrol(TypedDict):
    """An enrolment token for one machine."""

    # Existing node, by id or name, to re-enrol: its certificate has expired, or its disk was replaced. It keeps its
    # name, labels and allocations. Excludes `name` and `labels`.
    node: NotRequired[str]
    # Name of the new node; default: the machine's host name.
    name: NotRequired[str]
    # Labels of the new node.
    labels: NotRequired[Labels]
    # Lifetime of the token; default: one hour, at most a week.
    expires_in_seconds: NotRequired[int]


class NodeEnrolment(TypedDict):
    """A single-use enrolment for one machine."""

    # Its id.
    id: EnrolmentId
    # Node that gets a new certificate; absent for a new node.
    node_id: NotRequired[NodeId]
    # Name of the node.
    name: NotRequired[str]
    # Labels of the node.
    labels: Labels
    # Expiry of the token.
    expires_at: str
    # SHA-256 of the platform's certificate authority for nodes, which authenticates the server to the machine.
    ca_sha256: str
    # The token; only in the first response.
    token: NotRequired[str]
    # Command to run on the machine, once the token is in a file there: command lines are world-readable.
    command: str
    # True in a replayed response: the token was only in the first one and is not stored.
    secret_shown_once: NotRequired[bool]


# NodeId
NodeId: TypeAlias = "str"


class NodeListQuery(TypedDict):
    """Filters for listing nodes."""

    # Maximum number of items; default: 50.
    page_size: NotRequired[int]
    # `next_page_token` of the previous page.
    page_token: NotRequired[str]
    # Label selector: `rack=7,stage!=test`.
    labels: NotRequired[str]
    # Only those in this state.
    state: NotRequired[NodeState]


class NodePage(TypedDict):
    """A page of nodes."""

    # Items of this page, oldest first.
    items: list[Node]
    # Pass as `page_token` to get the next page; absent on the last.
    next_page_token: NotRequired[str]


class NodeReason(TypedDict):
    """A reason."""

    # Reason, for the audit log and the event.
    reason: NotRequired[str]


class NodeRetire(TypedDict):
    """Options for retiring a node."""

    # An operator's attestation that nothing of the platform is left on it; only for an unreachable node.
    attest: NotRequired[str]
    # Return the plan without executing it.
    dry_run: NotRequired[bool]


# State of a node.
NodeState: TypeAlias = Literal["enrolling", "ready", "cordoned", "draining", "unreachable", "retired"]


class NodeUpdate(TypedDict):
    """Properties of a node that can change."""

    # Labels; replace the existing ones.
    labels: NotRequired[Labels]
    # The `reported_address` that other nodes should use from now on.
    address: NotRequired[str]


# An empty request body.
Nothing: TypeAlias = "dict[str, Any]"


class NumaNode(TypedDict):
    """Memory and the CPUs nearest to it."""

    # Ordinal assigned by the kernel.
    ordinal: int
    # Its CPUs, in the kernel's list format.
    cpus: str
    # Its memory in MiB.
    memory_mb: int


class Operation(TypedDict):
    """An operation."""

    # Its id.
    id: OperationId
    # `noun.verb`.
    kind: str
    # The tenant, if any.
    tenant_id: NotRequired[TenantId]
    # The project, if any.
    project_id: NotRequired[ProjectId]
    # Kind of its subject, such as `allocation` or `node`.
    subject_kind: str
    # Its id.
    subject_id: str
    # Its name.
    subject_name: str
    # Id of the requesting actor.
    actor_id: str
    # Name of the requesting actor.
    actor_name: str
    # Correlation id, shared with audit, events, tasks and logs.
    correlation_id: str
    # Current state.
    state: OperationState
    # Its steps: the plan and its progress.
    steps: list[Step]
    # Items of a bulk operation.
    items: NotRequired[list[Item]]
    # The reason it waits.
    waiting: NotRequired[str]
    # Reason it is blocked, and the party that can resolve it.
    blocked: NotRequired[Blocked]
    # Blocked children, at any depth, while they are all that keeps the operation from advancing; only when a single
    # operation is returned. Resolve them so that it continues.
    blocked_by: NotRequired[list[BlockedChild]]
    # Failure reason, from a closed list.
    reason: NotRequired[str]
    # The same in a sentence.
    message: NotRequired[str]
    # Whether its cancellation was requested.
    cancel_requested: bool
    # The operation it superseded.
    supersedes: NotRequired[OperationId]
    # The parent operation.
    parent_id: NotRequired[OperationId]
    # Deadline; an operation that has not ended by then is rolled back or blocked.
    deadline_at: str
    # Time of acceptance.
    created_at: str
    # Time of the last change.
    updated_at: str
    # End time.
    finished_at: NotRequired[str]
    # Evidence collected by its steps; only when a single operation is returned.
    witnesses: NotRequired[list[Witness]]
    # Version for `If-Match`.
    version: int


class OperationCancel(TypedDict):
    """A cancellation."""

    # Reason, for the audit log.
    reason: NotRequired[str]


class OperationGetQuery(TypedDict):
    """Long-poll options."""

    # Wait up to this many seconds for it to end or to be blocked.
    wait_seconds: NotRequired[int]


# OperationId
OperationId: TypeAlias = "str"


class OperationListQuery(TypedDict):
    """Filters for listing operations."""

    # Maximum number of items; default: 50.
    page_size: NotRequired[int]
    # `next_page_token` of the previous page.
    page_token: NotRequired[str]
    # Only those of this project; optional for operators.
    project: NotRequired[str]
    # Only those on this resource: id of an allocation or a node.
    subject: NotRequired[str]
    # Only those in this state.
    state: NotRequired[OperationState]


class OperationPage(TypedDict):
    """A page of operations."""

    # Items of this page, oldest first.
    items: list[Operation]
    # Pass as `page_token` to get the next page; absent on the last.
    next_page_token: NotRequired[str]


class OperationResolve(TypedDict):
    """A decision on a blocked operation."""

    # One of its available actions.
    action: ResolveAction
    # Statement for the audit log. Required to `abandon`: it replaces the evidence.
    statement: NotRequired[str]


# State of an operation.
OperationState: TypeAlias = Literal["accepted", "running", "verifying", "compensating", "blocked", "succeeded", "partial", "failed", "cancelled", "superseded"]


class OperatorTokenMint(TypedDict):
    """A token for an adapter in a consumer's project."""

    # The entitlement, by id.
    entitlement: str
    # Lifetime; at most, and by default, 15 minutes.
    expires_in_seconds: NotRequired[int]


class PageQuery(TypedDict):
    """Paging parameters for lists without labels."""

    # Maximum number of items; default: 50.
    page_size: NotRequired[int]
    # `next_page_token` of the previous page.
    page_token: NotRequired[str]


# A device on the PCI bus.
PciDevice = TypedDict("PciDevice", {
    "address": "str",
    "vendor": "str",
    "device": "str",
    "class": "str",
    "driver": "NotRequired[str]",
    "numa": "NotRequired[int]",
    "vfs": "NotRequired[Vfs]",
})


class Phase(TypedDict):
    """One state in an allocation's history."""

    # The state.
    state: AllocationState
    # Start time.
    at: str
    # Duration in milliseconds; up to now for the current state, absent for a final one.
    milliseconds: NotRequired[int]
    # The operation that caused it.
    operation_id: NotRequired[OperationId]
    # Reason.
    reason: NotRequired[str]


class Plan(TypedDict):
    """The plan of an operation."""

    # `noun.verb`.
    kind: str
    # The steps, in order.
    steps: list[PlannedStep]
    # Resources that it locks; operations on the same resources run one after the other.
    locks: list[str]
    # Release that it starts members from. A request that names none gets the default, which a canary may change.
    app_version: NotRequired[str]
    # Capacity that it takes or releases.
    capacity: NotRequired[Capacity]
    # Whether it fits now; not a reservation.
    fits_now: NotRequired[bool]
    # Planned action on each resource, where they differ.
    items: NotRequired[list[PlannedItem]]
    # Resource or limit that is short, if it does not fit now.
    short: NotRequired[str]
    # Number of members it adds; they have no ids yet.
    adds: NotRequired[list[PlannedMembers]]
    # Images of these members that no cell runs now: a node pulls them first, unless cached.
    pulls: NotRequired[list[PlannedPull]]
    # Typical duration without obstacles, including image pulls.
    expected_seconds: int
    # Deadline.
    deadline_at: str


# Planned action on one resource.
PlannedAction: TypeAlias = Literal["replace", "drain", "wait", "release"]


class PlannedItem(TypedDict):
    """A resource that an operation would act on."""

    # Its id.
    id: str
    # Its name.
    name: str
    # Planned action.
    action: PlannedAction
    # Explanation: the order, the short resource, the state that is lost.
    message: str


class PlannedMembers(TypedDict):
    """Members of a component that an operation would add."""

    # The component.
    component_key: str
    # Number of members.
    count: int


class PlannedPull(TypedDict):
    """An image that nodes would have to pull."""

    # Its repository and digest.
    image: str
    # Its size in bytes.
    size: int


class PlannedStep(TypedDict):
    """A planned step."""

    # Its name.
    name: str
    # Description.
    does: str
    # Whether it collects evidence.
    verifies: bool
    # Whether it can be rolled back.
    has_undo: bool


class Probe(TypedDict):
    """Readiness probe."""

    # Probe method.
    by: ProbeBy
    # Interval between two attempts.
    every_seconds: NotRequired[int]
    # Timeout of one attempt.
    timeout_seconds: NotRequired[int]


class ProbeByCommand(TypedDict):
    """Command in the cell that must exit with zero."""

    # Command in the cell that must exit with zero.
    command: list[str]


class ProbeByTcp(TypedDict):
    """TCP connection to this port of the cell."""

    # TCP connection to this port of the cell.
    tcp: int


class ProbeByHttp(TypedDict):
    """HTTP GET of this path at this port of the cell; a status of 200 to 399 succeeds."""

    # HTTP GET of this path at this port of the cell; a status of 200 to 399 succeeds.
    http: dict[str, Any]


# Probe method.
ProbeBy: TypeAlias = Union["ProbeByCommand", "ProbeByTcp", "ProbeByHttp"]


class ProbeOrder(TypedDict):
    """A check to run beside a cell."""

    # Program path in the image, and arguments.
    command: list[str]
    # Complete environment.
    environment: NotRequired[dict[str, str]]
    # Directories of the cell mounted for reading; nothing in them is executed.
    sees: NotRequired[list[str]]
    # As which user of the cell.
    uid: NotRequired[int]
    # As which group of the cell.
    gid: NotRequired[int]
    # After so many seconds it is killed.
    timeout_seconds: NotRequired[int]


class Problem(TypedDict):
    """An error response."""

    # Stable URI of the code.
    type: str
    # Title of the code.
    title: str
    # The HTTP status.
    status: int
    # Cause, and how to continue.
    detail: str
    # The code.
    code: Code
    # Correlation id; quote it when you ask for help.
    correlation_id: str
    # Whether the identical request may succeed later.
    retryable: bool
    # Documentation of the code.
    docs: str
    # Errors by field, if there are several.
    errors: NotRequired[list[FieldError]]


class Project(TypedDict):
    """A project: ownership and quota inside a tenant."""

    # Its id.
    id: ProjectId
    # The tenant that owns it.
    tenant_id: TenantId
    # That tenant's slug.
    tenant: str
    # Name, unique in the tenant; `tenant.name` is unique on the platform.
    name: str
    # Display name.
    display_name: str
    # Labels.
    labels: Labels
    # Creation time.
    created_at: str
    # Time of the last change.
    updated_at: str
    # Version for `If-Match`.
    version: int


class ProjectCreate(TypedDict):
    """A project to create."""

    # Its name, unique in the tenant.
    name: str
    # Display name; default: the name.
    display_name: NotRequired[str]
    # Labels.
    labels: NotRequired[Labels]


# ProjectId
ProjectId: TypeAlias = "str"


class ProjectPage(TypedDict):
    """A page of projects."""

    # Items of this page, oldest first.
    items: list[Project]
    # Pass as `page_token` to get the next page; absent on the last.
    next_page_token: NotRequired[str]


class ProjectUpdate(TypedDict):
    """Properties of a project that can change."""

    # Display name.
    display_name: NotRequired[str]
    # Labels; replace the existing ones.
    labels: NotRequired[Labels]


# Transport protocol.
Protocol: TypeAlias = Literal["tcp", "udp"]


class Published(TypedDict):
    """Result of publishing a manifest."""

    # The release; absent after a dry run.
    app_version: NotRequired[AppVersion]
    # All lint findings.
    faults: list[Fault]


# Purpose of a runtime secret, from a closed list.
Purpose: TypeAlias = Literal["artifact_pull", "cluster_bootstrap"]


class Quota(TypedDict):
    """Limits of a project, and its usage."""

    # The project.
    project_id: ProjectId
    # Maximum number of allocations; absent: no limit, as for the other fields.
    max_allocations: NotRequired[int]
    # Maximum number of GPUs.
    max_gpus: NotRequired[int]
    # Maximum number of logical CPUs.
    max_cpus: NotRequired[int]
    # Maximum memory in MiB.
    max_memory_mb: NotRequired[int]
    # Maximum disk in MiB.
    max_disk_mb: NotRequired[int]
    # Current usage. It may exceed a limit that was lowered; then it can only shrink.
    used: QuotaUse
    # Version for `If-Match`.
    version: int


class QuotaLeft(TypedDict):
    """Remaining quota; absent where there is no limit."""

    # Allocations.
    allocations: NotRequired[int]
    # GPUs.
    gpus: NotRequired[int]
    # Logical CPUs.
    cpus: NotRequired[int]
    # Memory in MiB.
    memory_mb: NotRequired[int]
    # Disk in MiB.
    disk_mb: NotRequired[int]


# A limit by name.
QuotaLimit: TypeAlias = Literal["allocations", "gpus", "cpus", "memory_mb", "disk_mb"]


class QuotaSet(TypedDict):
    """Limits to set. Omitted fields keep their value."""

    # Maximum number of allocations.
    max_allocations: NotRequired[int]
    # Maximum number of GPUs.
    max_gpus: NotRequired[int]
    # Maximum number of logical CPUs.
    max_cpus: NotRequired[int]
    # Maximum memory in MiB.
    max_memory_mb: NotRequired[int]
    # Maximum disk in MiB.
    max_disk_mb: NotRequired[int]
    # Limits to remove.
    unlimited: NotRequired[list[QuotaLimit]]


class QuotaUse(TypedDict):
    """Capacity a project holds now, as it was requested."""

    # Live allocations.
    allocations: int
    # GPUs.
    gpus: int
    # Logical CPUs.
    cpus: int
    # Memory in MiB.
    memory_mb: int
    # Disk in MiB.
    disk_mb: int


class Ran(TypedDict):
    """Result of a command or a check."""

    # Exit status; 128 plus the signal number after a kill.
    exit: int
    # Last 16 KiB of standard output.
    stdout: str
    # Last 16 KiB of standard error.
    stderr: str
    # Whether the output was truncated.
    truncated: bool
    # Whether it was killed by the timeout.
    timed_out: bool


class RefusedReport(TypedDict):
    """A rejected member report. It has no effect; the other reports of the same request do."""

    # Member named in the report.
    member_id: MemberId
    # Incarnation named in the report.
    incarnation: int
    # Reason for the rejection.
    reason: ReportRefusal


class Removed(TypedDict):
    """Result of a removal."""

    # Id of the removed resource.
    id: str
    # Number of resources removed with it, by noun.
    removed: dict[str, int]


# Repair policy for failed members.
RepairMode: TypeAlias = Literal["off", "propose", "automatic"]


class Replica(TypedDict):
    """A server that shares the database."""

    # Its id; new at every start.
    id: ReplicaId
    # Address it listens on.
    address: str
    # Its version.
    version: str
    # Start time.
    started_at: str
    # Time of its last heartbeat.
    seen_at: str


# ReplicaId
ReplicaId: TypeAlias = "str"


# Reason a member report was rejected.
ReportRefusal: TypeAlias = Literal["unknown_member", "stale_incarnation"]


class Repository(TypedDict):
    """A repository. The first push creates it."""

    # Its id.
    id: RepositoryId
    # The tenant.
    tenant_id: TenantId
    # The project.
    project_id: ProjectId
    # Its name in the project; may have several segments: `train/base`.
    name: str
    # Its path after the server's name, as registry clients write it: `acme.ml/train/base`.
    path: str
    # Number of manifests.
    manifests: int
    # Total size in bytes.
    size: int
    # Creation time.
    created_at: str
    # Version for `If-Match`.
    version: int


# RepositoryId
RepositoryId: TypeAlias = "str"


class RepositoryListQuery(TypedDict):
    """Filters for listing repositories."""

    # Maximum number of items; default: 50.
    page_size: NotRequired[int]
    # `next_page_token` of the previous page.
    page_token: NotRequired[str]


class RepositoryPage(TypedDict):
    """A page of repositories."""

    # Items of this page, oldest first.
    items: list[Repository]
    # Pass as `page_token` to get the next page; absent on the last.
    next_page_token: NotRequired[str]


class RepositoryTagsQuery(TypedDict):
    """Filters for listing tags."""

    # Maximum number of items; default: 50.
    page_size: NotRequired[int]
    # `next_page_token` of the previous page.
    page_token: NotRequired[str]


class Reserved(TypedDict):
    """CPUs and memory that are not offered to allocations: the platform's checks on the node use them."""

    # Logical CPUs.
    cpus: int
    # Memory in MiB.
    memory_mb: int


# Actions on a blocked operation.
ResolveAction: TypeAlias = Literal["retry", "compensate", "accept_partial", "abandon"]


# Restart policy of a service.
Restart: TypeAlias = Literal["never", "on_failure", "always"]


# Role of a user. Service accounts have allow lists instead.
Role: TypeAlias = Literal["platform_operator", "tenant_admin", "project_admin", "project_viewer"]


class RoleBinding(TypedDict):
    """A person's role in a scope."""

    # Its id.
    id: RoleBindingId
    # The person.
    user_id: UserId
    # The person's e-mail address.
    user_email: str
    # The role.
    role: Role
    # Tenant, for tenant and project roles.
    tenant_id: NotRequired[TenantId]
    # Project, for project roles.
    project_id: NotRequired[ProjectId]
    # Creation time.
    created_at: str
    # Version for `If-Match`; a binding never changes, so it is always 1.
    version: int


class RoleBindingCreate(TypedDict):
    """A role to grant."""

    # The person, by e-mail address or id.
    user: str
    # The role.
    role: Role
    # Tenant, by slug or id: only for `tenant_admin`.
    tenant: NotRequired[str]
    # Project, by name or id: for `project_admin` and `project_viewer`.
    project: NotRequired[str]


# RoleBindingId
RoleBindingId: TypeAlias = "str"


class RoleBindingListQuery(TypedDict):
    """Filters for listing role bindings."""

    # Maximum number of items; default: 50.
    page_size: NotRequired[int]
    # `next_page_token` of the previous page.
    page_token: NotRequired[str]
    # Of this tenant and its projects, by slug or id.
    tenant: NotRequired[str]
    # Of this project, by name or id. With neither, the whole platform's.
    project: NotRequired[str]


class RoleBindingPage(TypedDict):
    """A page of role bindings."""

    # Items of this page, oldest first.
    items: list[RoleBinding]
    # Pass as `page_token` to get the next page; absent on the last.
    next_page_token: NotRequired[str]


class RootImage(TypedDict):
    """Image, by the digest of its manifest: `sha256:…`."""

    # Image, by the digest of its manifest: `sha256:…`.
    image: str


class RootHost(TypedDict):
    """Directories of the node, read-only, with an `/etc` made for the cell. The node's operator allows them."""

    # Directories of the node, read-only, with an `/etc` made for the cell. The node's operator allows them.
    host: list[str]


# Source of a cell's file system.
Root: TypeAlias = Union["RootImage", "RootHost"]


class RuntimeSecret(TypedDict):
    """A secret issued by the platform for a stated purpose."""

    # Its id, which cells reference it by.
    id: RuntimeSecretId
    # The tenant.
    tenant_id: TenantId
    # The project.
    project_id: ProjectId
    # Purpose.
    purpose: Purpose
    # Its name, if it was given one.
    name: str
    # Repository that it can read.
    repository_id: NotRequired[RepositoryId]
    # Cell that it was issued to.
    cell_id: NotRequired[CellId]
    # Incarnation of that cell.
    incarnation: NotRequired[int]
    # Instance that it was issued to, and ends with.
    instance_id: NotRequired[InstanceId]
    # Expiry time.
    expires_at: NotRequired[str]
    # Time it was revoked, or its cell or instance was removed.
    revoked_at: NotRequired[str]
    # Time of issue.
    created_at: str
    # Version for `If-Match`.
    version: int
    # The value; only in the first response.
    value: NotRequired[str]
    # True in a replayed response: the value was only in the first one and is not shown again.
    secret_shown_once: NotRequired[bool]


# RuntimeSecretId
RuntimeSecretId: TypeAlias = "str"


class RuntimeSecretIssue(TypedDict):
    """A runtime secret to issue."""

    # Purpose.
    purpose: Purpose
    # Its name in lists.
    name: str
    # For `artifact_pull`: the repository.
    repository: NotRequired[str]
    # For `artifact_pull`: the cell, by id or name. The secret ends with the cell's current incarnation.
    cell: NotRequired[str]
    # For `cluster_bootstrap`: the instance with the members that share it, by id. It ends with the instance; only the
    # account that operates the instance may set this.
    instance: NotRequired[InstanceId]
    # For `cluster_bootstrap`: number of random bytes; default: 32.
    bytes: NotRequired[int]


class RuntimeSecretListQuery(TypedDict):
    """Filters for listing runtime secrets."""

    # Maximum number of items; default: 50.
    page_size: NotRequired[int]
    # `next_page_token` of the previous page.
    page_token: NotRequired[str]
    # Only those for this purpose.
    purpose: NotRequired[Purpose]


class RuntimeSecretPage(TypedDict):
    """A page of runtime secrets."""

    # Items of this page, oldest first.
    items: list[RuntimeSecret]
    # Pass as `page_token` to get the next page; absent on the last.
    next_page_token: NotRequired[str]


class RuntimeSecretRevoke(TypedDict):
    """A revocation."""

    # Reason, for the audit log.
    reason: NotRequired[str]


class Secret(TypedDict):
    """A project's secret. Its value is only delivered to cells that reference it."""

    # Its id.
    id: SecretId
    # The tenant.
    tenant_id: TenantId
    # The project.
    project_id: ProjectId
    # Its name, unique in the project.
    name: str
    # Registry that it is a credential for; `artifact publish` sends it there and nowhere else.
    registry: NotRequired[str]
    # Number of times its value was set. A cell keeps the value from the time of its creation.
    revision: int
    # Size of the value in bytes.
    size: int
    # Creation time.
    created_at: str
    # Time its value was last set.
    updated_at: str
    # Version for `If-Match`.
    version: int


class SecretCreate(TypedDict):
    """A secret to store."""

    # Its name, unique in the project.
    name: str
    # The value. It is write-only.
    value: str
    # Encoding of the value.
    encoding: NotRequired[Encoding]
    # Registry that it is a credential (`user:password`) for, as `host` or `host:port`; absent: none.
    registry: NotRequired[str]


class SecretFile(TypedDict):
    """A secret of a cell: a file of mode 0400. The specification carries only its name; the node requests the
    content by this name, for this incarnation of the cell."""

    # Project secret by name or id, or runtime secret by id.
    secret: str
    # File name.
    file: str
    # Its owner in the cell.
    uid: NotRequired[int]
    # Its group in the cell.
    gid: NotRequired[int]


# SecretId
SecretId: TypeAlias = "str"


class SecretListQuery(TypedDict):
    """Filters for listing secrets."""

    # Maximum number of items; default: 50.
    page_size: NotRequired[int]
    # `next_page_token` of the previous page.
    page_token: NotRequired[str]


class SecretPage(TypedDict):
    """A page of secrets."""

    # Items of this page, oldest first.
    items: list[Secret]
    # Pass as `page_token` to get the next page; absent on the last.
    next_page_token: NotRequired[str]


class SecretRotate(TypedDict):
    """A new value."""

    # The value. It is write-only.
    value: str
    # Encoding of the value.
    encoding: NotRequired[Encoding]


class Service(TypedDict):
    """A process that runs for as long as its cell."""

    # Its name.
    name: str
    # Program path and arguments. No shell interprets them.
    command: list[str]
    # As which user of the cell.
    uid: NotRequired[int]
    # As which group of the cell.
    gid: NotRequired[int]
    # Environment variables in addition to the cell's.
    environment: NotRequired[dict[str, str]]
    # Working directory. Default: the image's own, or `/`.
    working_directory: NotRequired[str]
    # Start condition.
    start: NotRequired[Start]
    # Restart policy.
    restart: NotRequired[Restart]
    # Services that must be ready before this one starts.
    after: NotRequired[list[str]]
    # Readiness probe. Without one, the service is ready after running for a second.
    ready: NotRequired[Probe]
    # Seconds to stop before it is killed.
    stop_seconds: NotRequired[int]


class ServiceAccount(TypedDict):
    """An identity for automation inside one project."""

    # Its id.
    id: ServiceAccountId
    # Its project; it has no access elsewhere.
    project_id: ProjectId
    # Its name, unique in the project.
    name: str
    # Description.
    description: str
    # Its permissions; none are implied.
    permissions: list[str]
    # Whether its tokens are refused.
    disabled: bool
    # Labels.
    labels: Labels
    # Creation time.
    created_at: str
    # Time of the last change.
    updated_at: str
    # Version for `If-Match`.
    version: int


class ServiceAccountCreate(TypedDict):
    """A service account to create."""

    # Its name, unique in the project.
    name: str
    # Description.
    description: NotRequired[str]
    # Permissions, as `noun.verb`. Some can never be granted, and none of a role that you do not hold; those of service
    # accounts alone can be.
    permissions: list[str]
    # Labels.
    labels: NotRequired[Labels]


# ServiceAccountId
ServiceAccountId: TypeAlias = "str"


class ServiceAccountPage(TypedDict):
    """A page of service accounts."""

    # Items of this page, oldest first.
    items: list[ServiceAccount]
    # Pass as `page_token` to get the next page; absent on the last.
    next_page_token: NotRequired[str]


class ServiceAccountUpdate(TypedDict):
    """Properties of a service account that can change."""

    # Description.
    description: NotRequired[str]
    # Permissions; replace the existing ones.
    permissions: NotRequired[list[str]]
    # Whether its tokens are refused.
    disabled: NotRequired[bool]
    # Labels; replace the existing ones.
    labels: NotRequired[Labels]


# Action on a service.
ServiceAction: TypeAlias = Literal["start", "stop", "restart"]


class ServiceOrder(TypedDict):
    """A service to start or to stop."""

    # Name, from the cell's services.
    name: str
    # Action.
    action: ServiceAction


# State of a service.
ServiceState: TypeAlias = Literal["idle", "waiting", "running", "restarting", "ended"]


class ServiceStatus(TypedDict):
    """Status of a service."""

    # Its name.
    name: str
    # Current state.
    state: ServiceState
    # Whether its probe reports it as ready.
    ready: bool
    # Number of restarts.
    restarts: int
    # Its last exit status.
    exit: NotRequired[int]
    # Reason it is not ready.
    message: NotRequired[str]


class Session(TypedDict):
    """A session. The token itself is only in the `muster_session` cookie."""

    # Its id.
    id: TokenId
    # The person.
    user_id: UserId
    # Expiry time.
    expires_at: str
    # Value for the `X-CSRF-Token` header of every request that is not a GET; only in the first response.
    csrf_token: NotRequired[str]
    # True in a replayed response: the secret was only in the first one and is not stored.
    secret_shown_once: NotRequired[bool]


class SessionCreate(TypedDict):
    """A login."""

    # Authentication method.
    method: LoginMethod
    # The person's tenant, by slug or id; absent for platform staff.
    tenant: NotRequired[str]
    # E-mail address.
    email: str
    # The password.
    password: str


class SignatureReference(TypedDict):
    """A signature that the registry holds for the digest."""

    # Digest of the manifest that carries it.
    digest: str
    # `tag` (`sha256-….sig`) or `referrer`.
    by: str
    # Its artifact type.
    artifact_type: str


class Slot(TypedDict):
    """A node's smallest claimable GPU unit."""

    # Its id.
    id: SlotId
    # The node it is in.
    node_id: NodeId
    # Its kind: `gpu`.
    kind: str
    # The device's own identifier.
    device: str
    # Its number on the node.
    ordinal: int
    # The device's model.
    model: str
    # Its memory in MiB.
    memory_mb: int
    # Its NUMA node.
    numa: int
    # Its NVLink island: GPUs that reach each other over NVLink have the same number.
    island: int
    # Current state.
    state: SlotState
    # Reason it is quarantined.
    reason: NotRequired[str]
    # The allocation that holds it.
    allocation_id: NotRequired[AllocationId]
    # Incremented with each change.
    version: int


class SlotApprove(TypedDict):
    """An approval on an operator's responsibility."""

    # Checks made and the person responsible; the platform verified nothing itself.
    reason: str


# SlotId
SlotId: TypeAlias = "str"


class SlotPage(TypedDict):
    """A node's slots."""

    # Items of this page, oldest first.
    items: list[Slot]
    # Pass as `page_token` to get the next page; absent on the last.
    next_page_token: NotRequired[str]


class SlotQuarantine(TypedDict):
    """A quarantine."""

    # Reason.
    reason: str


# State of a slot.
SlotState: TypeAlias = Literal["discovered", "approved", "quarantined", "retired"]


class Snapshot(TypedDict):
    """An instance as an adapter needs it, taken at the time of the lease."""

    # The instance.
    instance_id: InstanceId
    # Its name.
    instance: str
    # The app's slug.
    app: str
    # Release that it should run.
    app_version_id: AppVersionId
    # Name of that release.
    app_version: str
    # Its configuration.
    config: dict[str, Any]
    # Manifest of the release.
    manifest: dict[str, Any]
    # Its members, except removed ones.
    members: list[SnapshotMember]
    # Time a member last left without witnessed evidence: it was fenced with its node, or an operator attested its
    # removal. Anything shared with the members before that time may have leaked. Absent if this never happened.
    unwitnessed_at: NotRequired[str]


class SnapshotMember(TypedDict):
    """A member, as an adapter needs it."""

    # Its id.
    id: MemberId
    # Its component.
    component_key: str
    # Name and host name.
    name: str
    # Current state.
    state: MemberState
    # Current health.
    health: Health
    # Incremented each time its cell is created.
    incarnation: int
    # Its address in the instance's network.
    address: NotRequired[str]
    # Whether its node is unreachable.
    unreachable: bool
    # Whether it was fenced because of that: its network dropped it, and its processes count as lost.
    fenced: NotRequired[bool]
    # Its allocation; members that share one are on the same node.
    allocation_id: NotRequired[AllocationId]
    # Release that actually runs in it.
    app_version_id: NotRequired[AppVersionId]
    # GPUs.
    gpus: int
    # Logical CPUs.
    cpus: int
    # Memory in MiB.
    memory_mb: int
    # Detail last reported by the adapter.
    adapter_detail: dict[str, Any]


class SshKey(TypedDict):
    """A person's public key."""

    # Its id.
    id: SshKeyId
    # The project.
    project_id: ProjectId
    # Its owner.
    user_id: UserId
    # Name, unique among the owner's keys in the project.
    name: str
    # The key, as a line of `authorized_keys`.
    public_key: str
    # `SHA256:…`, as OpenSSH prints it.
    fingerprint: str
    # The only allocation with cells that accept it; absent: every cell of the project.
    allocation_id: NotRequired[AllocationId]
    # Time at which the platform removes it.
    expires_at: NotRequired[str]
    # The person that granted it; absent: its owner added it.
    granted_by: NotRequired[UserId]
    # Creation time.
    created_at: str
    # Version for `If-Match`.
    version: int


class SshKeyCreate(TypedDict):
    """A public key for the cells of a project, or a grant for those of one allocation."""

    # Its name.
    name: str
    # The text of the `.pub` file.
    public_key: str
    # Accept it only in the cells of this allocation, by id or name.
    allocation: NotRequired[str]
    # Remove it at this time.
    expires_at: NotRequired[str]
    # Grant another person of the tenant, by e-mail address or id, a login in the cells of `allocation` until
    # `expires_at`.
    user: NotRequired[str]


# SshKeyId
SshKeyId: TypeAlias = "str"


class SshKeyListQuery(TypedDict):
    """Filters for listing keys."""

    # Maximum number of items; default: 50.
    page_size: NotRequired[int]
    # `next_page_token` of the previous page.
    page_token: NotRequired[str]


class SshKeyPage(TypedDict):
    """A page of keys."""

    # Items of this page, oldest first.
    items: list[SshKey]
    # Pass as `page_token` to get the next page; absent on the last.
    next_page_token: NotRequired[str]


# Start condition of a service.
Start: TypeAlias = Literal["with_cell", "on_request"]


class Started(TypedDict):
    """An accepted operation, or its plan."""

    # The operation; absent in a dry run.
    operation: NotRequired[Operation]
    # Its plan.
    plan: Plan


class Status(TypedDict):
    """Status of the platform."""

    # Version of the responding server.
    version: str
    # Version of the contract.
    api_version: str
    # `sqlite` or `postgres`.
    database: str
    # The newest applied migration.
    schema_version: int
    # The server's clock.
    now: str
    # Whether every check passed.
    healthy: bool
    # The checks.
    checks: list[Check]
    # Servers that share the database; only visible to operators.
    replicas: list[Replica]


class Step(TypedDict):
    """One step."""

    # Its name.
    name: str
    # Description.
    does: str
    # Whether it collects evidence.
    verifies: bool
    # Whether it can be rolled back.
    has_undo: bool
    # Current state.
    state: StepState
    # Number of evaluations.
    attempts: int
    # Start time.
    started_at: NotRequired[str]
    # End time.
    ended_at: NotRequired[str]
    # Human-readable message.
    message: NotRequired[str]
    # The evidence; the witness is in `witnesses` when a single operation is returned.
    witness_id: NotRequired[WitnessId]


# State of a step.
StepState: TypeAlias = Literal["pending", "running", "done", "failed", "undoing", "undone", "skipped"]


# How nodes are filled: one after the other, or evenly.
Strategy: TypeAlias = Literal["pack", "spread"]


class Stream(TypedDict):
    """A granted stream."""

    # Its id.
    id: StreamId
    # The cell.
    cell_id: CellId
    # Time until which its creator can join it.
    expires_at: str
    # Path to join it at.
    path: str


class StreamCreateCommand(TypedDict):
    """Run a command in the cell, with or without a terminal."""

    # Run a command in the cell, with or without a terminal.
    command: Command


class StreamCreateRead(TypedDict):
    """Read a file of the cell or, if the path ends in a slash, a directory as a tar archive."""

    # Read a file of the cell or, if the path ends in a slash, a directory as a tar archive.
    read: FileAt


class StreamCreateWrite(TypedDict):
    """Write a file of the cell."""

    # Write a file of the cell.
    write: FileAt


# Purpose of a stream. The variants are defined in the node contract, which executes them.
StreamCreate: TypeAlias = Union["StreamCreateCommand", "StreamCreateRead", "StreamCreateWrite"]


# StreamId
StreamId: TypeAlias = "str"


class Tag(TypedDict):
    """A tag. It is mutable; digests are not."""

    # Its name.
    name: str
    # Digest that it points to.
    digest: str
    # Time it was last set.
    updated_at: str


class TagPage(TypedDict):
    """A page of tags, sorted by name."""

    # Items of this page, oldest first.
    items: list[Tag]
    # Pass as `page_token` to get the next page; absent on the last.
    next_page_token: NotRequired[str]


# Effect of a task on the cell, as declared by the adapter. It decides which tasks a reconciliation of the whole
# instance may run beside steps of its members: a reconciliation works from an older snapshot, and its repair could undo
# a drain that began since.
TaskEffect: TypeAlias = Literal["reads", "changes", "concurrent"]


# TaskId
TaskId: TypeAlias = "str"


class Tenant(TypedDict):
    """A tenant: the outermost isolation boundary."""

    # Its id.
    id: TenantId
    # Name, unique on the platform.
    slug: str
    # Display name.
    display_name: str
    # Labels.
    labels: Labels
    # Creation time.
    created_at: str
    # Time of the last change.
    updated_at: str
    # Version for `If-Match`.
    version: int


class TenantCreate(TypedDict):
    """A tenant to create."""

    # Name, unique on the platform.
    slug: str
    # Display name; default: the slug.
    display_name: NotRequired[str]
    # Labels.
    labels: NotRequired[Labels]


# TenantId
TenantId: TypeAlias = "str"


class TenantPage(TypedDict):
    """A page of tenants."""

    # Items of this page, oldest first.
    items: list[Tenant]
    # Pass as `page_token` to get the next page; absent on the last.
    next_page_token: NotRequired[str]


class TenantUpdate(TypedDict):
    """Properties of a tenant that can change."""

    # Display name.
    display_name: NotRequired[str]
    # Labels; replace the existing ones.
    labels: NotRequired[Labels]


class Timeline(TypedDict):
    """History of an allocation."""

    # The states, oldest first.
    phases: list[Phase]
    # The evidence, oldest first.
    witnesses: list[Witness]


class Token(TypedDict):
    """A token. Its secret is shown once, when it is issued."""

    # Its id.
    id: TokenId
    # Its kind.
    kind: TokenKind
    # The person it authenticates.
    user_id: NotRequired[UserId]
    # The service account it authenticates.
    service_account_id: NotRequired[ServiceAccountId]
    # Its name.
    name: str
    # Its first characters.
    hint: str
    # Time of issue.
    created_at: str
    # Expiry time.
    expires_at: str
    # Time of revocation.
    revoked_at: NotRequired[str]
    # Time of last use, to the minute.
    last_used_at: NotRequired[str]
    # Version for `If-Match`.
    version: int
    # The token that issued it, if any: it is revoked with that token, and expires no later.
    parent_id: NotRequired[TokenId]
    # The token itself; only in the first response.
    secret: NotRequired[str]
    # True in a replayed response: the secret was only in the first one and is not stored.
    secret_shown_once: NotRequired[bool]


# TokenId
TokenId: TypeAlias = "str"


class TokenIssue(TypedDict):
    """A token to issue."""

    # Service account, by id; default: yourself. A token for another person cannot be issued.
    service_account: NotRequired[str]
    # Its name.
    name: str
    # Lifetime; default: 90 days. A token issued by a token expires no later than its issuer; a browser session may
    # issue longer-lived ones.
    expires_in_seconds: NotRequired[int]


# Kind of token.
TokenKind: TypeAlias = Literal["personal", "service_account", "session"]


class TokenListQuery(TypedDict):
    """Filters for listing tokens."""

    # Maximum number of items; default: 50.
    page_size: NotRequired[int]
    # `next_page_token` of the previous page.
    page_token: NotRequired[str]
    # Of this service account, by id.
    service_account: NotRequired[str]
    # Of another person, by e-mail address or id. With neither, your own.
    user: NotRequired[str]


class TokenPage(TypedDict):
    """A page of tokens."""

    # Items of this page, oldest first.
    items: list[Token]
    # Pass as `page_token` to get the next page; absent on the last.
    next_page_token: NotRequired[str]


class TokenRotate(TypedDict):
    """A token rotation."""

    # Seconds the old token keeps working beside the new one; default: one hour.
    overlap_seconds: NotRequired[int]
    # Lifetime of the new token; default: 90 days.
    expires_in_seconds: NotRequired[int]


class Topology(TypedDict):
    """Composition of an instance."""

    # The adapter's name for it; opaque.
    mode: NotRequired[str]
    # Its components.
    components: list[Component]


# Trust in an artifact's signatures.
Trust: TypeAlias = Literal["trusted", "unsigned", "untrusted"]


class TrustPolicy(TypedDict):
    """A project's requirements for artifacts before they may be used."""

    # The project.
    project_id: ProjectId
    # Highest state an unsigned artifact may reach: `draft`, `staged`, `canary` or `active`.
    unsigned_up_to: ArtifactState
    # Whether staging requires a smoke test: a cell of the exact digest that was verified as running.
    smoke_to_stage: bool
    # Hours an artifact stays deprecated before it can be retired.
    grace_hours: int
    # Incremented when the keys or the policy change; a verification result is valid for one revision.
    policy: int
    # Version for `If-Match`.
    version: int


class TrustPolicySet(TypedDict):
    """Policy changes. Omitted fields keep their value."""

    # Highest state an unsigned artifact may reach.
    unsigned_up_to: NotRequired[ArtifactState]
    # Whether staging requires a smoke test.
    smoke_to_stage: NotRequired[bool]
    # Hours an artifact stays deprecated before it can be retired.
    grace_hours: NotRequired[int]


class User(TypedDict):
    """A person."""

    # Its id.
    id: UserId
    # The person's tenant; absent for platform staff.
    tenant_id: NotRequired[TenantId]
    # E-mail address, unique in the tenant.
    email: str
    # Login name inside cells that include the project's people; derived from the e-mail address.
    login: NotRequired[str]
    # User and group id there: the same in every cell, and never reused.
    uid: NotRequired[int]
    # Display name.
    display_name: str
    # Whether login and tokens are refused.
    disabled: bool
    # Whether a password is set.
    has_password: bool
    # Labels.
    labels: Labels
    # Creation time.
    created_at: str
    # Time of the last change.
    updated_at: str
    # Version for `If-Match`.
    version: int


class UserCreate(TypedDict):
    """A person to add."""

    # E-mail address, unique in the tenant.
    email: str
    # Display name; default: the e-mail address.
    display_name: NotRequired[str]
    # The person's tenant, by slug or id; absent for platform staff.
    tenant: NotRequired[str]
    # Initial password. Without one, the person cannot log in until it is set.
    password: NotRequired[str]
    # Labels.
    labels: NotRequired[Labels]


# UserId
UserId: TypeAlias = "str"


class UserListQuery(TypedDict):
    """Filters for listing people."""

    # Maximum number of items; default: 50.
    page_size: NotRequired[int]
    # `next_page_token` of the previous page.
    page_token: NotRequired[str]
    # Label selector: `team=ml,stage!=test`.
    labels: NotRequired[str]
    # Tenant, by slug or id; default: your own, or all tenants for operators.
    tenant: NotRequired[str]


class UserPage(TypedDict):
    """A page of people."""

    # Items of this page, oldest first.
    items: list[User]
    # Pass as `page_token` to get the next page; absent on the last.
    next_page_token: NotRequired[str]


class UserSetPassword(TypedDict):
    """A new password."""

    # The new password.
    password: str
    # The current password; required when people change their own and have one.
    current_password: NotRequired[str]


class UserUpdate(TypedDict):
    """Properties of a person that can change."""

    # Display name.
    display_name: NotRequired[str]
    # Disable the person: tokens and sessions are refused within seconds, and work again once this is lifted.
    disabled: NotRequired[bool]
    # Labels; replace the existing ones.
    labels: NotRequired[Labels]


class Verdict(TypedDict):
    """Result of signature verification."""

    # Trust level.
    trust: Trust
    # Reason no signature is valid: `other_key`, `revoked_key`, `wrong_digest`, `malformed` or `bad_signature`.
    reason: NotRequired[str]
    # The same in a sentence.
    message: str
    # Key of the valid signature.
    key_id: NotRequired[KeyId]
    # Digest of the valid signature.
    signature: NotRequired[str]
    # Revision of the project's keys and trust policy that it was verified under.
    policy: int
    # Verification time.
    checked_at: str


class Vfs(TypedDict):
    """Virtual functions of a device."""

    # Supported number.
    total: int
    # Enabled number.
    active: int


class Webhook(TypedDict):
    """Delivery of events to a URL, signed and in order."""

    # Its id.
    id: WebhookId
    # Name, unique in its scope.
    name: str
    # Tenant with the events to deliver.
    tenant_id: NotRequired[TenantId]
    # Project with the events to deliver. With neither, the platform's events.
    project_id: NotRequired[ProjectId]
    # Target URL.
    url: str
    # Event types; empty means all.
    event_types: list[str]
    # Delivery state.
    state: WebhookState
    # Last event delivered or skipped, by its sequence number in the platform's stream; only for the platform's own
    # webhooks.
    cursor: NotRequired[int]
    # Number of delivery attempts for the next event.
    attempts: int
    # Time since which all deliveries have failed.
    failing_since: NotRequired[str]
    # Last response or error.
    last_result: NotRequired[str]
    # Labels.
    labels: Labels
    # Creation time.
    created_at: str
    # Time of the last change.
    updated_at: str
    # Version for `If-Match`.
    version: int
    # The signing key; only in the first response.
    secret: NotRequired[str]
    # True in a replayed response: the secret was only in the first one and is not shown again.
    secret_shown_once: NotRequired[bool]


class WebhookCreate(TypedDict):
    """A webhook to create."""

    # Name, unique in its scope.
    name: str
    # Target URL: https, or http to addresses that the operator allowed.
    url: str
    # Events of this tenant, by slug or id.
    tenant: NotRequired[str]
    # Events of this project, by name or id. With neither, the platform's.
    project: NotRequired[str]
    # Event types; a trailing `*` is a wildcard; empty means all.
    event_types: NotRequired[list[str]]
    # Labels.
    labels: NotRequired[Labels]


class WebhookDelivery(TypedDict):
    """A delivery attempt."""

    # Its id.
    id: DeliveryId
    # The event.
    event_id: EventId
    # The event's sequence number in the platform's stream.
    sequence: int
    # Number of the attempt for this event, from 1.
    attempt: int
    # Time.
    at: str
    # Whether the receiver responded with success.
    delivered: bool
    # Response or error.
    result: str


class WebhookDeliveryPage(TypedDict):
    """A page of delivery attempts."""

    # Items of this page, oldest first.
    items: list[WebhookDelivery]
    # Pass as `page_token` to get the next page; absent on the last.
    next_page_token: NotRequired[str]


# WebhookId
WebhookId: TypeAlias = "str"


class WebhookListQuery(TypedDict):
    """Filters for listing webhooks."""

    # Maximum number of items; default: 50.
    page_size: NotRequired[int]
    # `next_page_token` of the previous page.
    page_token: NotRequired[str]
    # Of this tenant, by slug or id.
    tenant: NotRequired[str]
    # Of this project, by name or id. With neither, the platform's.
    project: NotRequired[str]


class WebhookPage(TypedDict):
    """A page of webhooks."""

    # Items of this page, oldest first.
    items: list[Webhook]
    # Pass as `page_token` to get the next page; absent on the last.
    next_page_token: NotRequired[str]


# Delivery state of a webhook.
WebhookState: TypeAlias = Literal["enabled", "disabled", "failing"]


class WebhookUpdate(TypedDict):
    """Properties of a webhook that can change."""

    # Target URL.
    url: NotRequired[str]
    # Event types; replace the existing ones.
    event_types: NotRequired[list[str]]
    # Disable or re-enable it; it then resumes after the last delivered event.
    enabled: NotRequired[bool]
    # Labels; replace the existing ones.
    labels: NotRequired[Labels]


class WhoAmI(TypedDict):
    """The actor of a request."""

    # `user` or `service_account`.
    kind: str
    # The actor's id.
    id: str
    # E-mail address or name.
    name: str
    # Its tenant.
    tenant_id: NotRequired[TenantId]
    # The project of a service account.
    project_id: NotRequired[ProjectId]
    # The roles of a person.
    roles: list[HeldRole]
    # The allow list of a service account.
    permissions: list[str]
    # The credential in use.
    token_id: TokenId
    # Expiry of that credential.
    expires_at: str


class Witness(TypedDict):
    """Evidence for a transition."""

    # Its id.
    id: WitnessId
    # Transition that it is evidence for: `active`, `gone`, `wiped` or `retired`.
    transition: str
    # Kind of evidence.
    kind: WitnessKind
    # Incarnation of the resource that it applies to.
    incarnation: int
    # Node with the agent that collected it.
    node_id: NotRequired[NodeId]
    # Task that collected it.
    task_id: NotRequired[TaskId]
    # Operator that attested it.
    actor_id: NotRequired[str]
    # Checks and their results.
    evidence: dict[str, Any]
    # Time.
    at: str


# WitnessId
WitnessId: TypeAlias = "str"


# Kind of evidence.
WitnessKind: TypeAlias = Literal["witnessed", "attested", "lost"]
