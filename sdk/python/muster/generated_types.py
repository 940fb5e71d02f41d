"""The API's types. Generated from openapi/platform.json by tools/python-sdk; edit the API instead."""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypeAlias, TypedDict, Union


class Adapter(TypedDict):
    """An adapter: what it said of itself when it last asked for work."""

    # Its id.
    id: AdapterId
    # The project it works in.
    project_id: ProjectId
    # The account it works under.
    service_account_id: ServiceAccountId
    # Its own name.
    name: str
    # Its version.
    adapter_version: str
    # The version of the contract that it speaks.
    contract_version: int
    # When it first asked.
    created_at: str
    # When it last asked.
    seen_at: str
    # How many steps it holds.
    leases: int


# AdapterId
AdapterId: TypeAlias = "str"


class AdapterIs(TypedDict):
    """Who asks for work."""

    # Its own name: one process, one name.
    name: str
    # Its version.
    version: str
    # The version of the contract that it speaks.
    contract: int


class AdapterPage(TypedDict):
    """A page of adapters."""

    # This page, oldest first.
    items: list[Adapter]
    # Give it as `page_token` to get the next page; absent on the last.
    next_page_token: NotRequired[str]


class AdapterStep(TypedDict):
    """A step that an adapter carries out."""

    # Its id.
    id: AdapterStepId
    # The project.
    project_id: ProjectId
    # Of which app.
    app_id: AppId
    # Of which instance.
    instance_id: InstanceId
    # Of which member; absent for a look at the whole instance.
    member_id: NotRequired[MemberId]
    # The incarnation of that member.
    incarnation: int
    # For which operation; absent for a look on schedule.
    operation_id: NotRequired[OperationId]
    # What to do.
    verb: AdapterVerb
    # What is asked for beside the verb.
    input: dict[str, Any]
    # What it is.
    state: AdapterStepState
    # Raised whenever its lease changes hands; everything that is said of it must carry it.
    generation: int
    # Who has it.
    holder: NotRequired[str]
    # Until when.
    leased_until: NotRequired[str]
    # How often it was leased.
    attempts: int
    # What the adapter last said of it.
    message: NotRequired[str]
    # How far it is, of a hundred.
    percent: NotRequired[int]
    # Why it failed: the adapter's own word.
    reason: NotRequired[str]
    # The thread.
    correlation_id: str
    # When it was asked for.
    created_at: str
    # When nobody waits for it any more.
    expires_at: str
    # The reports on members that were not taken, in the answer to `complete`.
    refused_reports: NotRequired[list[RefusedReport]]


class AdapterStepComplete(TypedDict):
    """An adapter is done. The platform looks for itself before it believes that."""

    # The generation of the lease.
    generation: int
    # What it did, for people.
    message: NotRequired[str]
    # What there is to say of the member, for people; it replaces what was said before.
    adapter_detail: NotRequired[dict[str, Any]]
    # How the members do, after a look at the instance.
    members: NotRequired[list[MemberReport]]
    # How the adapter calls the topology.
    topology_mode: NotRequired[str]
    # When it wants to look again, in seconds; as the manifest says, if not given.
    reconcile_after_seconds: NotRequired[int]


class AdapterStepFail(TypedDict):
    """An adapter cannot do it."""

    # The generation of the lease.
    generation: int
    # Why: a word of the adapter's own.
    reason: str
    # The same in a sentence.
    message: str
    # Whether it may work later: then the step is offered again after a while instead of failing.
    retry_after_seconds: NotRequired[int]
    # What there is to say of the member, for people; it replaces what was said before.
    adapter_detail: NotRequired[dict[str, Any]]


class AdapterStepHeartbeat(TypedDict):
    """An adapter is still at it."""

    # The generation of the lease.
    generation: int
    # How long it is its own from now; 30 seconds if not given.
    lease_seconds: NotRequired[int]


# AdapterStepId
AdapterStepId: TypeAlias = "str"


class AdapterStepLease(TypedDict):
    """A wish for work."""

    # Who asks.
    adapter: AdapterIs
    # So many steps at most; 16 if not given.
    most: NotRequired[int]
    # How long to wait for the first of them; not at all if not given.
    wait_seconds: NotRequired[int]
    # How long a step is its own without a heartbeat; 30 seconds if not given.
    lease_seconds: NotRequired[int]


class AdapterStepListQuery(TypedDict):
    """Which steps to list."""

    # How many at most; 50 if not given.
    page_size: NotRequired[int]
    # The token that the page before gave.
    page_token: NotRequired[str]
    # Of this instance only, by id or name.
    instance: NotRequired[str]
    # In this state only.
    state: NotRequired[AdapterStepState]


class AdapterStepPage(TypedDict):
    """A page of adapter steps."""

    # This page, oldest first.
    items: list[AdapterStep]
    # Give it as `page_token` to get the next page; absent on the last.
    next_page_token: NotRequired[str]


class AdapterStepProgress(TypedDict):
    """How far an adapter is."""

    # The generation of the lease.
    generation: int
    # How far, of a hundred.
    percent: NotRequired[int]
    # What it is at, for people.
    message: NotRequired[str]
    # What there is to say of the member, for people; it replaces what was said before.
    adapter_detail: NotRequired[dict[str, Any]]
    # How long it is its own from now, since whoever says this is still at it; 30 seconds if not given.
    lease_seconds: NotRequired[int]


# What an adapter's step is.
AdapterStepState: TypeAlias = Literal["queued", "leased", "done", "failed", "cancelled"]


class AdapterTask(TypedDict):
    """Something that is done in a member's cell."""

    # Its id.
    id: TaskId
    # What it is for.
    key: str
    # What it is.
    state: AdapterTaskState
    # Why it failed; absent otherwise.
    reason: NotRequired[AdapterTaskReason]
    # What the node says, above all why it failed.
    message: NotRequired[str]
    # How what was run ended.
    ran: NotRequired[Ran]
    # When it was asked for.
    queued_at: str
    # When it ended.
    finished_at: NotRequired[str]


class AdapterTaskCreate(TypedDict):
    """What is to be done in a member's cell."""

    # The generation of the lease.
    generation: int
    # What it is for: who asks again with the same key under the same step is told of the same task. Under a later lease
    # it is done again if another task may have undone it since.
    key: str
    # In whose cell: a member of that very instance, by id.
    member_id: MemberId
    # What.
    act: CellTask
    # What it does to the cell; `reads` for a probe and `changes` for everything else, if not given.
    effect: NotRequired[TaskEffect]
    # How long to wait for its end; not at all if not given.
    wait_seconds: NotRequired[int]


class AdapterTaskQuery(TypedDict):
    """How long to wait."""

    # How long to wait for its end; not at all if not given.
    wait_seconds: NotRequired[int]


# Why a task failed: a closed list.
AdapterTaskReason: TypeAlias = Literal["cell_dead", "secret_unavailable", "image_damaged", "refused"]


# What a task is.
AdapterTaskState: TypeAlias = Literal["queued", "delivered", "running", "done", "failed", "expired"]


# What an adapter is asked for. Each must be safe to do again.
AdapterVerb: TypeAlias = Literal["join", "leave", "drain", "resume", "remove", "reconcile"]


class Allocation(TypedDict):
    """An allocation."""

    # Its id.
    id: AllocationId
    # The tenant.
    tenant_id: TenantId
    # The project that holds it.
    project_id: ProjectId
    # Its name, unique in the project among those that live.
    name: str
    # Labels.
    labels: Labels
    # What kind of place.
    shape: AllocationShape
    # What was asked for.
    capacity: Capacity
    # How a node is chosen.
    strategy: Strategy
    # What it is.
    state: AllocationState
    # The node it is on.
    node_id: NotRequired[NodeId]
    # Raised whenever its place is made.
    incarnation: int
    # What it holds of the node now.
    held: Capacity
    # Why it failed or cannot go on: a word of a closed list.
    reason: NotRequired[str]
    # What to do about that.
    advice: NotRequired[str]
    # What happened, in a sentence.
    message: NotRequired[str]
    # How we know that it is active, or released; absent in other states.
    evidence: NotRequired[WitnessKind]
    # The operation that last worked on it.
    operation_id: NotRequired[OperationId]
    # How many wait in line before it; only where one allocation is shown, and only while it waits.
    before_in_line: NotRequired[int]
    # Until when it waits in line.
    wait_until: NotRequired[str]
    # When it is released by itself.
    expires_at: NotRequired[str]
    # Whether its release is refused.
    protected: bool
    # When it was asked for.
    created_at: str
    # When it last changed.
    updated_at: str
    # For `If-Match`.
    version: int


class AllocationAttest(TypedDict):
    """An operator's word."""

    # What is attested and how it is known: the machine was powered off, its disks were pulled.
    statement: str


class AllocationCreate(TypedDict):
    """An allocation to be made."""

    # Its name, unique in the project among those that live.
    name: str
    # Labels.
    labels: NotRequired[Labels]
    # What kind of place; `gpu_slice` if not given.
    shape: NotRequired[AllocationShape]
    # GPUs; none if not given, which is legal.
    gpus: NotRequired[int]
    # Logical CPUs; 1 if not given.
    cpus: NotRequired[int]
    # Memory in MiB; 1024 if not given.
    memory_mb: NotRequired[int]
    # Disk in MiB; 1024 if not given.
    disk_mb: NotRequired[int]
    # How a node is chosen; `pack` if not given.
    strategy: NotRequired[Strategy]
    # Wait in line until then if there is no room now. Without it, no room is a refusal at once.
    wait_until: NotRequired[str]
    # Release it by itself at that time.
    expires_at: NotRequired[str]
    # Refuse its release until this is taken away.
    protected: NotRequired[bool]
    # Only show the plan.
    dry_run: NotRequired[bool]


# AllocationId
AllocationId: TypeAlias = "str"


class AllocationListQuery(TypedDict):
    """Which allocations to list."""

    # How many at most; 50 if not given.
    page_size: NotRequired[int]
    # The token that the page before gave.
    page_token: NotRequired[str]
    # Only those with these labels: `team=ml,stage!=test`.
    labels: NotRequired[str]
    # In this state only.
    state: NotRequired[AllocationState]


class AllocationPage(TypedDict):
    """A page of allocations."""

    # This page, oldest first.
    items: list[Allocation]
    # Give it as `page_token` to get the next page; absent on the last.
    next_page_token: NotRequired[str]


class AllocationRelease(TypedDict):
    """How an allocation is given back."""

    # For the audit.
    reason: NotRequired[str]
    # Remove the members of instances in it first. Without it an allocation that holds members is not released.
    cascade: NotRequired[bool]
    # With `cascade`: remove them without draining, and also where their instance needs them.
    force: NotRequired[bool]
    # Only show the plan.
    dry_run: NotRequired[bool]


class AllocationResize(TypedDict):
    """Another size."""

    # GPUs; as before if not given, like the others.
    gpus: NotRequired[int]
    # Logical CPUs.
    cpus: NotRequired[int]
    # Memory in MiB.
    memory_mb: NotRequired[int]
    # Disk in MiB.
    disk_mb: NotRequired[int]
    # Restart the cells in it, which a change of its GPUs needs: a cell has the GPUs that it was made with.
    restart: NotRequired[bool]
    # With `restart`: do not drain the members in it first, and restart them also where their component's quorum is
    # lost.
    force: NotRequired[bool]
    # Only show the plan.
    dry_run: NotRequired[bool]


class AllocationRestart(TypedDict):
    """How an allocation is made anew."""

    # For the audit.
    reason: NotRequired[str]
    # Do not drain the members in it first, and restart them also where their component's quorum is lost meanwhile.
    force: NotRequired[bool]
    # Only show the plan.
    dry_run: NotRequired[bool]


# What kind of place an allocation is.
AllocationShape: TypeAlias = Literal["baremetal", "gpu_slice"]


# What an allocation is.
AllocationState: TypeAlias = Literal["requested", "placing", "provisioning", "active", "releasing", "wiping", "released", "failed"]


class AllocationUpdate(TypedDict):
    """What of an allocation can change at once."""

    # Labels; they replace the old ones.
    labels: NotRequired[Labels]
    # Release it by itself at that time.
    expires_at: NotRequired[str]
    # Take the expiry away.
    never_expires: NotRequired[bool]
    # Whether its release is refused.
    protected: NotRequired[bool]


class App(TypedDict):
    """An entry of the catalog."""

    # Its id.
    id: AppId
    # The publisher's tenant.
    tenant_id: TenantId
    # The publisher's project.
    project_id: ProjectId
    # Its name in the catalog, of which there is one.
    slug: str
    # Its name for people.
    display_name: str
    # What it is.
    description: str
    # Who finds it.
    audience: Audience
    # Labels.
    labels: Labels
    # The release that starts if none is named.
    active_version: NotRequired[str]
    # The release that a part of the starts gets.
    canary_version: NotRequired[str]
    # Whether the project that asks may launch it.
    entitled: bool
    # When it was made.
    created_at: str
    # When it last changed.
    updated_at: str
    # For `If-Match`.
    version: int


class AppCompatibility(TypedDict):
    """Where an app fits."""

    # The release that was asked about.
    version: str
    # An answer for each shape.
    answers: list[Fit]


class AppCreate(TypedDict):
    """An app to be made."""

    # Its name in the catalog, of which there is one.
    slug: str
    # Name for people; default: the slug.
    display_name: NotRequired[str]
    # What it is.
    description: NotRequired[str]
    # Who finds it; the project alone, if this is not said.
    audience: NotRequired[Audience]
    # Labels.
    labels: NotRequired[Labels]


# AppId
AppId: TypeAlias = "str"


class AppListQuery(TypedDict):
    """Which apps to list."""

    # How many at most; 50 if not given.
    page_size: NotRequired[int]
    # The token that the page before gave.
    page_token: NotRequired[str]
    # Only those with these labels: `team=ml,stage!=test`.
    labels: NotRequired[str]
    # Only what the project itself publishes.
    own: NotRequired[bool]


class AppPage(TypedDict):
    """A page of apps."""

    # This page, oldest first.
    items: list[App]
    # Give it as `page_token` to get the next page; absent on the last.
    next_page_token: NotRequired[str]


class AppUpdate(TypedDict):
    """What of an app can change."""

    # Its name for people.
    display_name: NotRequired[str]
    # What it is.
    description: NotRequired[str]
    # Who finds it.
    audience: NotRequired[Audience]
    # Labels; they replace the old ones.
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
    # How far it may be used.
    state: ArtifactState
    # To how many of a hundred starts a canary is offered.
    canary_percent: NotRequired[int]
    # The release that took its place.
    superseded_by: NotRequired[AppVersionId]
    # How many instances run it or may roll back to it.
    instances: int
    # What lint noticed when it was published, beside errors.
    warnings: NotRequired[list[Fault]]
    # When it was published.
    created_at: str
    # When its state last changed.
    updated_at: str
    # For `If-Match`.
    version: int


# AppVersionId
AppVersionId: TypeAlias = "str"


class AppVersionPage(TypedDict):
    """A page of releases."""

    # This page, oldest first.
    items: list[AppVersion]
    # Give it as `page_token` to get the next page; absent on the last.
    next_page_token: NotRequired[str]


class AppVersionPublish(TypedDict):
    """A release to be published."""

    # The manifest; `app_schema` says what it looks like.
    manifest: dict[str, Any]
    # Only say what is wrong with it.
    dry_run: NotRequired[bool]


class AppVersionStep(TypedDict):
    """A step of a release through its states."""

    # To what.
    to: ArtifactState
    # To how many of a hundred starts a canary is offered.
    percent: NotRequired[int]
    # Why, for the record.
    reason: str


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
    # What kind of content it is.
    kind: ArtifactKind
    # The media type of its manifest.
    media_type: str
    # Bytes of everything it is made of.
    size: int
    # Which succession it belongs to: at most one of a line is active.
    line: str
    # How far it may be used.
    state: ArtifactState
    # To how many of a hundred starts a canary is offered.
    canary_percent: NotRequired[int]
    # What was found of its signatures when they were last looked at.
    verdict: NotRequired[Verdict]
    # The evidence that a cell of this very digest ran, where it was staged with one.
    smoke_witness_id: NotRequired[WitnessId]
    # The artifact that took its place.
    superseded_by: NotRequired[ArtifactId]
    # From when on it can be retired.
    retirable_at: NotRequired[str]
    # Labels.
    labels: Labels
    # When it was published.
    created_at: str
    # When it last changed.
    updated_at: str
    # For `If-Match`.
    version: int


class ArtifactChange(TypedDict):
    """A change of state."""

    # What it was before; absent for the publishing.
    before: NotRequired[ArtifactState]
    # What it became.
    after: ArtifactState
    # Who.
    actor_id: str
    # Why.
    reason: str
    # When.
    at: str


class ArtifactDemote(TypedDict):
    """A step back or out: from canary to staged, from active to deprecated, from deprecated to retired."""

    # To what.
    to: ArtifactState
    # Why, for the record.
    reason: str


# ArtifactId
ArtifactId: TypeAlias = "str"


# What kind of content it is.
ArtifactKind: TypeAlias = Literal["oci", "blob"]


class ArtifactListQuery(TypedDict):
    """Which artifacts to list."""

    # How many at most; 50 if not given.
    page_size: NotRequired[int]
    # The token that the page before gave.
    page_token: NotRequired[str]
    # Only those with these labels: `team=ml,stage!=test`.
    labels: NotRequired[str]
    # In this state only.
    state: NotRequired[ArtifactState]
    # In this repository only.
    repository: NotRequired[str]
    # With this digest only.
    digest: NotRequired[str]


class ArtifactPage(TypedDict):
    """A page of artifacts."""

    # This page, oldest first.
    items: list[Artifact]
    # Give it as `page_token` to get the next page; absent on the last.
    next_page_token: NotRequired[str]


class ArtifactPromote(TypedDict):
    """A step forward: to staged, canary or active."""

    # To what.
    to: ArtifactState
    # Why, for the record.
    reason: str
    # To how many of a hundred starts a canary is offered; 10 if this is not said.
    percent: NotRequired[int]
    # A cell of this very digest that was seen running, by id or name: the smoke test.
    smoke_cell: NotRequired[str]


class ArtifactPublish(TypedDict):
    """Content to be published as an artifact. What is pushed with a tag is published by that; this is for the rest."""

    # The repository in the project.
    repository: str
    # The digest of a manifest that is in it, or a tag; with `external`, the digest there.
    reference: str
    # Another registry that has it. It is read from there by digest, and its layers when a node first needs them.
    external: NotRequired[External]
    # Which succession it belongs to; `main` if this is not said.
    line: NotRequired[str]
    # Labels.
    labels: NotRequired[Labels]


class ArtifactReferences(TypedDict):
    """Everything that hangs on a digest, from signature to running cell."""

    # The artifact.
    artifact: Artifact
    # Tags that name it now.
    tags: list[str]
    # Signatures of it.
    signatures: list[SignatureReference]
    # Indexes that it is part of.
    indexes: list[str]
    # Cells that live and were made from it.
    cells: list[CellReference]
    # Artifacts that it took the place of.
    supersedes: list[ArtifactId]
    # What lint says of it.
    lint: list[LintFinding]
    # Its changes of state, oldest first.
    changes: list[ArtifactChange]
    # Why it cannot be retired or deleted now, a sentence each.
    holds: list[str]


# How far it may be used.
ArtifactState: TypeAlias = Literal["draft", "staged", "canary", "active", "deprecated", "retired"]


# Nothing needs to be said.
ArtifactVerify: TypeAlias = "dict[str, Any]"


# Who finds an app in the catalog.
Audience: TypeAlias = Literal["project", "tenant", "everyone"]


class AuditActor(TypedDict):
    """Who asked."""

    # `user`, `service_account` or `platform`.
    kind: str
    # The actor's id.
    id: str
    # Its name at the time.
    name: str


class AuditChainQuery(TypedDict):
    """Which chain."""

    # A tenant's chain, by slug or id; the platform's if not given.
    tenant: NotRequired[str]


class AuditEntry(TypedDict):
    """A record in its place of the chain."""

    # The chain: a tenant's id, or `platform`.
    chain: str
    # Its number, from 1, without gaps.
    sequence: int
    # The hash of the entry before.
    previous_hash: str
    # SHA-256 over the previous hash, the number and the record's text.
    hash: str
    # The record.
    record: AuditRecord


class AuditHead(TypedDict):
    """The end of a chain as far as it is sealed."""

    # The chain.
    chain: str
    # The last number.
    sequence: int
    # Its hash. Keep it elsewhere, and a later export can be checked against it.
    hash: str
    # The last number that retention removed.
    pruned_sequence: int
    # That entry's hash, which the first kept entry builds on.
    pruned_hash: str
    # When the head was signed: now.
    signed_at: str
    # The fingerprint of the key that signed it, which is not in the database.
    key_id: str
    # The signature over chain, number, hash and time, base 64.
    signature: str


# AuditId
AuditId: TypeAlias = "str"


class AuditListQuery(TypedDict):
    """Which entries."""

    # A tenant's chain, by slug or id.
    tenant: NotRequired[str]
    # Only a project's entries, by name or id. With neither, the platform's chain.
    project: NotRequired[str]
    # Only entries after this number.
    after: NotRequired[int]
    # Only this action, as `noun.verb`.
    action: NotRequired[str]
    # Only this actor, by id.
    actor: NotRequired[str]
    # How many at most; 50 if not given.
    page_size: NotRequired[int]


# How a command ended.
AuditOutcome: TypeAlias = Literal["succeeded", "refused", "denied", "failed"]


class AuditPage(TypedDict):
    """Some entries."""

    # In order.
    items: list[AuditEntry]
    # Give it as `after` to go on.
    next_after: int
    # The last number of the chain that is sealed.
    sealed_up_to: int


class AuditRecord(TypedDict):
    """What is hashed: who asked for what, with what result."""

    # Its id.
    id: AuditId
    # When.
    at: str
    # Who.
    actor: AuditActor
    # What, as `noun.verb`.
    action: str
    # How it ended.
    outcome: AuditOutcome
    # The problem's code, where it did not succeed.
    code: NotRequired[str]
    # On what.
    target: NotRequired[AuditTarget]
    # In which tenant.
    tenant_id: NotRequired[TenantId]
    # In which project.
    project_id: NotRequired[ProjectId]
    # The thread through request, events and logs.
    correlation_id: str
    # How many times, for refusals that were counted together.
    count: int
    # What changed, without secrets.
    detail: dict[str, Any]


class AuditTarget(TypedDict):
    """What was acted on."""

    # The noun.
    kind: str
    # Its id, or the words of the request where nothing was found.
    id: str
    # Its name.
    name: NotRequired[str]


class BlockedChild(TypedDict):
    """A blocked child operation, without which its parent cannot continue."""

    # The child's id, for `operation_unblock`.
    operation_id: OperationId
    # `noun.verb`.
    kind: str
    # What the child works on: `allocation`, `cell`, `instance`, `member` or `node`.
    subject_kind: str
    # Name of what the child works on.
    subject_name: str
    # Why the child is blocked, and the actions that unblock it.
    parked: Parked


class CanI(TypedDict):
    """The answer, with its reason."""

    # What was asked.
    permission: str
    # Yes or no.
    allowed: bool
    # Why.
    reason: str


class CanIQuery(TypedDict):
    """A question about rights."""

    # The permission, as `noun.verb`.
    permission: str
    # In which tenant, by slug or id.
    tenant: NotRequired[str]
    # In which project, by name or id. With neither, on the platform.
    project: NotRequired[str]


class Capacity(TypedDict):
    """An amount of each thing that a node has."""

    # GPUs.
    gpus: int
    # Logical CPUs.
    cpus: int
    # Memory in MiB.
    memory_mb: int
    # Disk in MiB.
    disk_mb: int


class CapacityByGpus(TypedDict):
    """How many nodes could give so many GPUs now, with the CPUs, memory and disk asked for beside them."""

    # So many GPUs.
    gpus: int
    # Nodes that could give them.
    nodes: int
    # Those of them that could give them inside one NVLink island.
    in_one_island: int


class CapacityNearest(TypedDict):
    """The smallest change that would fit now."""

    # The change in words.
    change: str
    # The kind of place that would fit.
    shape: AllocationShape
    # The amounts that would fit.
    capacity: Capacity


class CapacityQuery(TypedDict):
    """What is asked about."""

    # What kind of place; a slice of a node if not given.
    shape: NotRequired[AllocationShape]
    # How many GPUs; none if not given, as in a request for an allocation.
    gpus: NotRequired[int]
    # How many logical CPUs; 1 if not given.
    cpus: NotRequired[int]
    # How much memory in MiB; 1024 if not given.
    memory_mb: NotRequired[int]
    # How much disk in MiB; 1024 if not given.
    disk_mb: NotRequired[int]


# Why it cannot be had now.
CapacityReason: TypeAlias = Literal["quota", "no_node", "no_whole_node", "gpus", "cpus", "memory_mb", "disk_mb", "apart"]


class CapacityReport(TypedDict):
    """What a project can get now. It holds nothing back for anybody: somebody else may be faster."""

    # The project that asked.
    project_id: ProjectId
    # What kind of place it asked about.
    shape: AllocationShape
    # What it asked about.
    capacity: Capacity
    # Whether it could be had now: there is a node for it, and the quota allows it.
    fits_now: bool
    # How many nodes could take it now, whatever the quota says.
    nodes: int
    # The most of each thing that one node could give now in this shape; not necessarily the same node for each.
    largest: Capacity
    # How many nodes could give one GPU, two, and so on.
    by_gpus: list[CapacityByGpus]
    # How many allocations wait in line.
    waiting: int
    # What the project's quota leaves.
    quota_left: QuotaLeft
    # Why it cannot be had now.
    reason: NotRequired[CapacityReason]
    # The same in a sentence, with the resource that is short and the most of it there is.
    message: NotRequired[str]
    # The smallest change that would fit now; absent where nothing would.
    nearest: NotRequired[CapacityNearest]


class Cell(TypedDict):
    """A cell."""

    # Its id.
    id: CellId
    # The tenant.
    tenant_id: TenantId
    # The project.
    project_id: ProjectId
    # The allocation it is in.
    allocation_id: AllocationId
    # The node that is on.
    node_id: NodeId
    # The network it is in.
    network_id: NetworkId
    # Its name, unique in the project among those that live; its host name too.
    name: str
    # Labels.
    labels: Labels
    # What it is made of.
    spec: CellSpec
    # Its address in its network.
    address: str
    # The ports of its node that lead to it.
    ports: list[CellPort]
    # What it is.
    state: CellState
    # How well it does, as its node's agent reported last; `unknown` where no report is recent enough.
    health: Health
    # Why, where it is not healthy.
    health_message: NotRequired[str]
    # The newest report on it.
    status: NotRequired[CellStatus]
    # Raised whenever it is made.
    incarnation: int
    # Why it failed or cannot go on: a word of a closed list.
    reason: NotRequired[str]
    # What to do about that.
    advice: NotRequired[str]
    # What happened, in a sentence.
    message: NotRequired[str]
    # The operation that last worked on it.
    operation_id: NotRequired[OperationId]
    # When it was asked for.
    created_at: str
    # When it last changed.
    updated_at: str
    # For `If-Match`.
    version: int


class CellAct(TypedDict):
    """An order about a cell."""

    # Why, for the record.
    reason: NotRequired[str]
    # Only show the plan.
    dry_run: NotRequired[bool]


class CellCreate(TypedDict):
    """A cell to be made."""

    # Its name, unique in the project among those that live; its host name too.
    name: str
    # The allocation it is in, by id or name.
    allocation: str
    # Labels.
    labels: NotRequired[Labels]
    # What it is made of.
    spec: CellSpec
    # Until when everything in it must be ready; fifteen minutes from now if this is not said.
    ready_until: NotRequired[str]
    # Only show the plan.
    dry_run: NotRequired[bool]


# CellId
CellId: TypeAlias = "str"


class CellListQuery(TypedDict):
    """Which cells to list."""

    # How many at most; 50 if not given.
    page_size: NotRequired[int]
    # The token that the page before gave.
    page_token: NotRequired[str]
    # Only those with these labels: `team=ml,stage!=test`.
    labels: NotRequired[str]
    # In this state only.
    state: NotRequired[CellState]
    # In this allocation only, by id or name.
    allocation: NotRequired[str]


class CellLog(TypedDict):
    """The last that a service wrote before its cell went."""

    # Which incarnation of the cell.
    incarnation: int
    # Which service.
    service: str
    # A line each: time, stream, text.
    text: str
    # Whether there was more.
    truncated: bool
    # When it was kept.
    kept_at: str


class CellPage(TypedDict):
    """A page of cells."""

    # This page, oldest first.
    items: list[Cell]
    # Give it as `page_token` to get the next page; absent on the last.
    next_page_token: NotRequired[str]


class CellPort(TypedDict):
    """A port of a node that leads to a port of a cell."""

    # The cell's port.
    port: int
    # How it is spoken to.
    protocol: Protocol
    # The node's port.
    node_port: int


class CellReference(TypedDict):
    """A cell that was made from the digest."""

    # Which.
    id: CellId
    # Its name.
    name: str
    # What it is.
    state: str
    # Which incarnation.
    incarnation: int


# What happens when a cell ends by itself.
CellRestart: TypeAlias = Literal["never", "always"]


class CellSpec(TypedDict):
    """What a cell is made of. It never changes: another one is another incarnation."""

    # Its file system.
    root: Root
    # What runs in it, under supervision. None at all is a place for commands and shells.
    services: NotRequired[list[Service]]
    # Files that are written before anything runs.
    files: NotRequired[list[File]]
    # Directories that survive incarnations, and are wiped with the allocation.
    state: NotRequired[list[str]]
    # Directories that it has in common with the other cells of its network, on the file system that the nodes share.
    # Only the cells of an app's members have them, as its manifest says; they are removed when the app is
    # decommissioned.
    shared: NotRequired[list[str]]
    # What every process in it finds in its environment.
    environment: NotRequired[dict[str, str]]
    # Which GPUs of the allocation it may use; all of them if this is not said.
    gpus: NotRequired[list[int]]
    # Whether what runs in it may reach addresses outside its network, through the node.
    egress: NotRequired[bool]
    # Ports that can be reached from outside its network, at the node.
    ingress: NotRequired[list[Ingress]]
    # Whether it has the project's people: their names and numbers in `/etc/muster/passwd` and `/etc/muster/group`,
    # their SSH keys in `/etc/muster/authorized_keys`. Whoever runs a command in it is then who they are, and not root,
    # unless they say otherwise.
    people: NotRequired[bool]
    # Secrets that it is given, each as a file in `/run/muster/secrets` that is kept in memory and nowhere else.
    secrets: NotRequired[list[SecretFile]]
    # What happens when the cell itself ends, by the death of its first process or a reboot of its node.
    restart: NotRequired[CellRestart]
    # After so many seconds without the platform its node destroys it: what takes its place elsewhere must not find it
    # alive.
    stop_after_partition: NotRequired[int]


# What a cell is.
CellState: TypeAlias = Literal["requested", "provisioning", "running", "destroying", "gone", "failed"]


class CellStatus(TypedDict):
    """The status of a cell, as its node's agent reported it."""

    # Whether its first process runs.
    alive: bool
    # Since when that is so.
    since: str
    # When the agent reported last that something changed.
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
    """A command to run to its end."""

    # A command to run to its end.
    command: CommandOrder


class CellTaskProbe(TypedDict):
    """A check to run beside the cell."""

    # A check to run beside the cell.
    probe: ProbeOrder


# Something to be done in a cell that is there, or beside it.
CellTask: TypeAlias = Union["CellTaskFiles", "CellTaskService", "CellTaskCommand", "CellTaskProbe"]


# One difference between what was approved and what was found.
Change = TypedDict("Change", {
    "what": "str",
    "was": "NotRequired[str]",
    "is": "NotRequired[str]",
})


class Check(TypedDict):
    """One thing that was looked at."""

    # What.
    name: str
    # Whether it is in order.
    ok: bool
    # What was seen.
    detail: str


# The closed list of codes. A code is stable; its text may improve.
Code: TypeAlias = Literal["malformed_request", "invalid_request", "bad_cursor", "idempotency_key_required", "unauthenticated", "permission_denied", "csrf_required", "origin_not_allowed", "not_found", "method_not_allowed", "request_timeout", "name_taken", "ambiguous_name", "not_empty", "invalid_state", "quota_exceeded", "fenced", "member_step_running", "too_many_tasks", "incompatible", "last_operator", "version_mismatch", "body_too_large", "unsupported_media_type", "host_not_allowed", "idempotency_key_reused", "untrusted", "lint_failed", "url_not_allowed", "version_required", "rate_limited", "external_registry", "internal", "unavailable", "storage_full"]


class Command(TypedDict):
    """A command in a cell."""

    # The program, by its path or by its name in the cell's PATH, and its arguments. No shell looks at them.
    command: list[str]
    # Whether it gets a terminal.
    terminal: NotRequired[bool]
    # The terminal's width.
    columns: NotRequired[int]
    # The terminal's height.
    rows: NotRequired[int]
    # As which user of the cell; if this is not said, as oneself in a cell that has the project's people, and else as
    # root.
    uid: NotRequired[int]
    # As which group of the cell; the user's own number if this is not said.
    gid: NotRequired[int]
    # What it finds in its environment beside what the cell has.
    environment: NotRequired[dict[str, str]]
    # Where it starts.
    working_directory: NotRequired[str]


class CommandOrder(TypedDict):
    """A command to run to its end."""

    # The program, by its path, and its arguments. No shell looks at them.
    command: list[str]
    # What it finds in its environment beside what the cell has.
    environment: NotRequired[dict[str, str]]
    # As which user of the cell.
    uid: NotRequired[int]
    # As which group of the cell.
    gid: NotRequired[int]
    # What it reads.
    stdin: NotRequired[str]
    # After so many seconds it is killed.
    timeout_seconds: NotRequired[int]


class CompatibilityQuery(TypedDict):
    """What to ask of an app's fit."""

    # Which release; the one that would start, if this is not said.
    version: NotRequired[str]
    # In which shape; both, if this is not said.
    shape: NotRequired[AllocationShape]
    # How many members of a component: `worker=4,controller=1`; the manifest's own numbers, if this is not said.
    components: NotRequired[str]
    # In how many allocations; as many as there are members, if this is not said.
    allocations: NotRequired[int]


class Component(TypedDict):
    """A component of an instance."""

    # Its key, which means something to the app alone.
    component_key: str
    # How many members its owner wants.
    desired: int
    # How many are active.
    current: int
    # How many there are in all, those that are coming, going and failed included.
    members: int
    # How well it does.
    health: Health
    # What each new member asks for.
    capacity: Capacity
    # The allocation that new members go into, where its owner chose one.
    allocation_id: NotRequired[AllocationId]


class ComponentAsk(TypedDict):
    """What is asked of a component."""

    # Which, by its key in the manifest.
    component_key: str
    # How many members; the manifest's own number, if this is not said.
    count: NotRequired[int]
    # What each asks for; what the manifest says, if this is not said.
    capacity: NotRequired[Capacity]
    # The allocation that they go into, by id or name; the platform makes one for each, if this is not said.
    allocation: NotRequired[str]


class ControlResize(TypedDict):
    """To the cell: the terminal has another size."""

    # To the cell: the terminal has another size.
    resize: dict[str, Any]


class ControlInputEnded(TypedDict):
    """To the cell: no more input comes."""

    # To the cell: no more input comes.
    input_ended: dict[str, Any]


class ControlStarted(TypedDict):
    """From the cell: it has begun."""

    # From the cell: it has begun.
    started: dict[str, Any]


class ControlExited(TypedDict):
    """From the cell: it is over, with this exit status; 0 for logs and files that came through whole."""

    # From the cell: it is over, with this exit status; 0 for logs and files that came through whole.
    exited: dict[str, Any]


class ControlFailed(TypedDict):
    """From either: it did not work, in a sentence."""

    # From either: it did not work, in a sentence.
    failed: dict[str, Any]


# What is said about a stream, in either direction.
Control: TypeAlias = Union["ControlResize", "ControlInputEnded", "ControlStarted", "ControlExited", "ControlFailed"]


class Cpus(TypedDict):
    """The processors."""

    # Logical CPUs that are online.
    count: int
    # Sockets they sit in.
    sockets: int
    # The model, as the processor calls itself.
    model: str


class DeleteQuery(TypedDict):
    """How far a removal goes."""

    # Whether what it holds is removed with it; refused as `not_empty` otherwise.
    cascade: NotRequired[bool]


# DeliveryId
DeliveryId: TypeAlias = "str"


class DeliveryListQuery(TypedDict):
    """A page of attempts."""

    # How many at most; 50 if not given.
    page_size: NotRequired[int]
    # The token that the page before gave.
    page_token: NotRequired[str]


# How a content is written.
Encoding: TypeAlias = Literal["text", "base64"]


class Endpoint(TypedDict):
    """Where an instance can be reached."""

    # What it is for, as the manifest calls it.
    name: str
    # Which member.
    member: str
    # Its component.
    component_key: str
    # Its address in the instance's network.
    address: str
    # The port there.
    port: int
    # `tcp` or `udp`.
    protocol: str
    # The node's address, where a port of the node leads there.
    node_address: NotRequired[str]
    # The node's port.
    node_port: NotRequired[int]


class Endpoints(TypedDict):
    """Where an instance can be reached."""

    # Of its active members.
    endpoints: list[Endpoint]


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
    # The account in the consumer's project under which the app's adapter works.
    operator_account_id: ServiceAccountId
    # What that account may do there: exactly what was consented to.
    permissions: list[str]
    # Since when it starts nothing new; what runs stays operable until it is decommissioned.
    revoked_at: NotRequired[str]
    # When it was granted.
    created_at: str
    # When it last changed.
    updated_at: str
    # For `If-Match`.
    version: int


class EntitlementGrant(TypedDict):
    """An app to be entitled to."""

    # The app, by slug or id.
    app: str
    # The permissions that you consent to give the app's adapter here; they must be what its release asks for, which a
    # dry run shows.
    consent: NotRequired[list[str]]
    # Only show what the app asks for.
    dry_run: NotRequired[bool]


# EntitlementId
EntitlementId: TypeAlias = "str"


class EntitlementListQuery(TypedDict):
    """Which entitlements to list."""

    # How many at most; 50 if not given.
    page_size: NotRequired[int]
    # The token that the page before gave.
    page_token: NotRequired[str]
    # Those of others to the apps that this project publishes, instead of its own to others' apps.
    published: NotRequired[bool]


class EntitlementPage(TypedDict):
    """A page of entitlements."""

    # This page, oldest first.
    items: list[Entitlement]
    # Give it as `page_token` to get the next page; absent on the last.
    next_page_token: NotRequired[str]


class EntitlementRevoke(TypedDict):
    """How an entitlement is revoked."""

    # Shut the app's adapter out at once, although instances live that it operates: its account is disabled, its tokens
    # end within seconds, and what needs the adapter waits, and is blocked in the end. Also of an entitlement that was
    # revoked before.
    cut_off: NotRequired[bool]


class Event(TypedDict):
    """Something that happened, as a CloudEvent."""

    # CloudEvents' version.
    specversion: str
    # Its id.
    id: EventId
    # What kind of event.
    type: str
    # Who says it.
    source: str
    # The resource's path.
    subject: str
    # When it happened.
    time: str
    # Its number in the stream that was asked for: from 1, without gaps.
    sequence: int
    # The thread through request, audit and logs.
    correlationid: str
    # Whose command caused it.
    actorid: str
    # In which tenant.
    tenantid: NotRequired[TenantId]
    # In which project.
    projectid: NotRequired[ProjectId]
    # The details.
    data: dict[str, Any]


# EventId
EventId: TypeAlias = "str"


class EventListQuery(TypedDict):
    """Which stream, and from where."""

    # A tenant's stream, by slug or id: everything in the tenant.
    tenant: NotRequired[str]
    # A project's stream, by name or id. With neither, the platform's.
    project: NotRequired[str]
    # Only events after this number.
    after: NotRequired[int]
    # Only events of this type; a trailing `*` matches the rest.
    event_type: NotRequired[str]
    # How many at most; 50 if not given.
    page_size: NotRequired[int]


class EventPage(TypedDict):
    """Some events."""

    # In order, without gaps unless filtered.
    items: list[Event]
    # Give it as `after` to go on.
    next_after: int
    # The last number of the stream that is sealed; what happened later is not numbered yet.
    sealed_up_to: int


class EventStreamQuery(TypedDict):
    """Which stream to follow."""

    # A tenant's stream, by slug or id: everything in the tenant.
    tenant: NotRequired[str]
    # A project's stream, by name or id. With neither, the platform's.
    project: NotRequired[str]
    # Start after this number; only what happens from now on if not given. `Last-Event-ID` does the same.
    after: NotRequired[int]


class External(TypedDict):
    """Another registry."""

    # Its host, with a port where it has an uncommon one: `registry.example`.
    registry: str
    # The repository there.
    repository: str
    # The project's secret to read it with, by name: it was created for this registry, and its content is
    # `user:password`. Needs `secret.use`.
    secret: NotRequired[str]


class Fault(TypedDict):
    """Something that a manifest has wrong."""

    # Where, as a JSON pointer into the manifest.
    path: str
    # Which rule.
    rule: str
    # What is wrong, and what to do.
    says: str
    # Whether it keeps the release from being published.
    error: bool


class FieldError(TypedDict):
    """One fault of a request, by the place where it is."""

    # A JSON pointer into the body, or `query/NAME`, `header/NAME`, `path/NAME`.
    pointer: str
    # What is wrong there.
    detail: str


class File(TypedDict):
    """A file in a cell."""

    # Where.
    path: str
    # What it says.
    text: str
    # Its mode, in octal digits.
    mode: NotRequired[str]
    # Its owner in the cell.
    uid: NotRequired[int]
    # Its group in the cell.
    gid: NotRequired[int]


class FileAt(TypedDict):
    """A file of a cell."""

    # Where.
    path: str
    # The mode of what is written, in octal digits.
    mode: NotRequired[str]
    # Its owner in the cell.
    uid: NotRequired[int]
    # Its group in the cell.
    gid: NotRequired[int]


class FilesOrder(TypedDict):
    """Files to write and to remove in a cell. Each is whole or not there at all: it is renamed into its place."""

    # What to write.
    write: NotRequired[list[File]]
    # Files and empty directories to remove; what is not there is removed already.
    remove: NotRequired[list[str]]
    # Secrets to write, by reference, each as a file of mode 0400 in `/run/muster/secrets`.
    secrets: NotRequired[list[SecretFile]]


class Fit(TypedDict):
    """Whether an app fits a shape."""

    # The shape.
    shape: AllocationShape
    # Whether it fits.
    fits: bool
    # Why, or why not.
    reasons: list[str]
    # The smallest change that would make it fit.
    change: NotRequired[str]


class Gpu(TypedDict):
    """A GPU."""

    # The driver's number for it, from 0. It shifts when a GPU before it is gone: the UUID is its identity.
    ordinal: int
    # Its identity, which it keeps in any machine.
    uuid: str
    # The model.
    model: str
    # Its memory in MiB.
    memory_mb: int
    # Its address on the PCI bus; a pretended one has none.
    pci: NotRequired[str]
    # The NUMA node it hangs on; -1 where the machine does not say.
    numa: int
    # Its NVLink island: GPUs that reach each other over NVLink have the same number, one without links has its own.
    island: int
    # How many of its NVLinks are up.
    nvlinks: int
    # Whether it is in MIG mode.
    mig: bool
    # Its virtual functions, if it can have any.
    vfs: NotRequired[Vfs]
    # The driver's version.
    driver: NotRequired[str]


class Granted(TypedDict):
    """What came of it."""

    # The entitlement; absent after a dry run.
    entitlement: NotRequired[Entitlement]
    # What the app's adapter may do in the project.
    permissions: list[str]


# How well something does.
Health: TypeAlias = Literal["healthy", "degraded", "unhealthy", "unknown"]


class HeldRole(TypedDict):
    """A role and where it counts."""

    # Which role.
    role: Role
    # In which tenant.
    tenant_id: NotRequired[TenantId]
    # In which project.
    project_id: NotRequired[ProjectId]


class Ingress(TypedDict):
    """A port of a cell that can be reached from outside its network."""

    # The cell's port.
    port: int
    # How it is spoken to.
    protocol: NotRequired[Protocol]
    # The node's port; the platform chooses one if this is not said.
    node_port: NotRequired[int]


class Instance(TypedDict):
    """An app that runs in a project."""

    # Its id.
    id: InstanceId
    # The tenant.
    tenant_id: TenantId
    # The project.
    project_id: ProjectId
    # Its name, unique in the project among those that live.
    name: str
    # Labels.
    labels: Labels
    # The app.
    app_id: AppId
    # The app's slug.
    app: str
    # The release that it should run.
    app_version_id: AppVersionId
    # The name of that release.
    app_version: str
    # The release that a rollback goes to.
    previous_version_id: NotRequired[AppVersionId]
    # What it was configured with.
    config: dict[str, Any]
    # The account that alone may lease its adapter steps.
    operator_service_account: ServiceAccountId
    # Its members' network.
    network_id: NetworkId
    # The shape of the allocations that it runs in.
    bound_capacity_shape: AllocationShape
    # What it is.
    state: InstanceState
    # How well it does.
    health: Health
    # Why, where it is not healthy.
    health_message: NotRequired[str]
    # Since when its health is what it is.
    health_since: NotRequired[str]
    # What it is made of.
    topology: Topology
    # Who decides when a member fails.
    repair: RepairMode
    # Whether it is kept from being decommissioned.
    protected: bool
    # When it is decommissioned by itself.
    expires_at: NotRequired[str]
    # Why it failed: a word of a closed list.
    reason: NotRequired[str]
    # What to do about that.
    advice: NotRequired[str]
    # What happened, in a sentence.
    message: NotRequired[str]
    # The evidence that it came to run.
    running_witness_id: NotRequired[WitnessId]
    # The evidence that nothing of it is left.
    stopped_witness_id: NotRequired[WitnessId]
    # The operation that last worked on it.
    operation_id: NotRequired[OperationId]
    # When its adapter last looked at it.
    reconciled_at: NotRequired[str]
    # When it was asked for.
    created_at: str
    # When it last changed.
    updated_at: str
    # For `If-Match`.
    version: int


class InstanceAct(TypedDict):
    """An order about an instance."""

    # Why, for the record.
    reason: NotRequired[str]
    # Without waiting for members to be drained.
    force: NotRequired[bool]
    # Until when it must be done; two hours from now if this is not said.
    ready_until: NotRequired[str]
    # Only show the plan.
    dry_run: NotRequired[bool]


class InstanceCreate(TypedDict):
    """An instance to be made."""

    # Its name, unique in the project among those that live.
    name: str
    # The app, by slug or id.
    app: str
    # The release, by name or id; the active one or the canary, if this is not said.
    app_version: NotRequired[str]
    # What it is configured with; the manifest's schema says what that may be.
    config: NotRequired[dict[str, Any]]
    # The components that differ from what the manifest says.
    components: NotRequired[list[ComponentAsk]]
    # The shape of the allocations that the platform makes; a slice of a node if that fits, if this is not said.
    shape: NotRequired[AllocationShape]
    # Labels.
    labels: NotRequired[Labels]
    # Whether it is kept from being decommissioned.
    protected: NotRequired[bool]
    # When it is decommissioned by itself.
    expires_at: NotRequired[str]
    # Who decides when a member fails; what the manifest says, if this is not said.
    repair: NotRequired[RepairMode]
    # Until when it must run; an hour from now if this is not said.
    ready_until: NotRequired[str]
    # Only show the plan.
    dry_run: NotRequired[bool]


# InstanceId
InstanceId: TypeAlias = "str"


class InstanceListQuery(TypedDict):
    """Which instances to list."""

    # How many at most; 50 if not given.
    page_size: NotRequired[int]
    # The token that the page before gave.
    page_token: NotRequired[str]
    # Only those with these labels: `team=ml,stage!=test`.
    labels: NotRequired[str]
    # In this state only.
    state: NotRequired[InstanceState]


class InstancePage(TypedDict):
    """A page of instances."""

    # This page, oldest first.
    items: list[Instance]
    # Give it as `page_token` to get the next page; absent on the last.
    next_page_token: NotRequired[str]


class InstanceScale(TypedDict):
    """How many members an instance should have."""

    # The components that change.
    components: list[ComponentAsk]
    # Why, for the record.
    reason: NotRequired[str]
    # Until when it must be done; an hour from now if this is not said.
    ready_until: NotRequired[str]
    # Only show the plan.
    dry_run: NotRequired[bool]


# What an instance is.
InstanceState: TypeAlias = Literal["created", "starting", "running", "stopping", "stopped", "failed"]


class InstanceUpdate(TypedDict):
    """What of an instance can change without any of its members changing."""

    # Labels; they replace the old ones.
    labels: NotRequired[Labels]
    # Whether it is kept from being decommissioned.
    protected: NotRequired[bool]
    # When it is decommissioned by itself; a time that is long past takes an expiry away.
    expires_at: NotRequired[str]
    # Who decides when a member fails.
    repair: NotRequired[RepairMode]


class InstanceUpgrade(TypedDict):
    """Another release for an instance."""

    # The release, by name or id; the active one or the canary, if this is not said.
    app_version: NotRequired[str]
    # What it is configured with from then on; as before, if this is not said.
    config: NotRequired[dict[str, Any]]
    # Why, for the record.
    reason: NotRequired[str]
    # Until when it must be done; two hours from now if this is not said.
    ready_until: NotRequired[str]
    # Only show the plan.
    dry_run: NotRequired[bool]


class Inventory(TypedDict):
    """What a machine has. `Inventory::hardware_digest` says which part of it an operator approves."""

    # The machine's own name for itself. The platform's name for it is the node's.
    hostname: str
    # The running kernel's release.
    kernel: str
    # The distribution, as it calls itself.
    os: str
    # The processor architecture.
    architecture: str
    # Made anew by the kernel at each start; two inventories with the same one come from the same start.
    boot_id: str
    # The processors.
    cpus: Cpus
    # Memory that the kernel can give out, in MiB: a little less than is built in.
    memory_mb: int
    # Size of the file system that holds the agent's data, in MiB.
    disk_mb: int
    # The NUMA nodes, by number.
    numa: list[NumaNode]
    # Graphics, accelerator, network and NVMe devices on the PCI bus, by address. Virtual functions are not listed: the
    # device they belong to says how many there are.
    pci: list[PciDevice]
    # Network devices with hardware behind them, by name. Bridges, tunnels and virtual functions come and go with the
    # cells and are not listed.
    network: list[NetworkDevice]
    # The GPUs, by number.
    gpus: list[Gpu]
    # Whether the GPUs are invented, for machines that have none.
    pretended: bool
    # What could not be read, and why.
    notes: list[str]


class Item(TypedDict):
    """One part of a bulk operation."""

    # The thing.
    id: str
    # Its name.
    name: str
    # What it is.
    state: ItemState
    # The operation that works on it.
    operation_id: NotRequired[OperationId]
    # What it says.
    message: NotRequired[str]


# What one part of a bulk operation is.
ItemState: TypeAlias = Literal["pending", "running", "parked", "succeeded", "failed"]


class KeptLogs(TypedDict):
    """The last that the services of a cell wrote before it went."""

    # One for each service and incarnation.
    logs: list[CellLog]


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
    # When it was added.
    created_at: str
    # Since when its signatures count no more.
    revoked_at: NotRequired[str]
    # Why.
    revoked_reason: NotRequired[str]
    # For `If-Match`.
    version: int


class KeyCreate(TypedDict):
    """A key to be trusted."""

    # Its name, unique in the project.
    name: str
    # The public key, as PEM: what cosign writes to `cosign.pub`.
    public_key: str


# KeyId
KeyId: TypeAlias = "str"


class KeyListQuery(TypedDict):
    """Which keys to list."""

    # How many at most; 50 if not given.
    page_size: NotRequired[int]
    # The token that the page before gave.
    page_token: NotRequired[str]


class KeyPage(TypedDict):
    """A page of keys."""

    # This page, oldest first.
    items: list[Key]
    # Give it as `page_token` to get the next page; absent on the last.
    next_page_token: NotRequired[str]


class KeyRevoke(TypedDict):
    """A key that counts no more."""

    # Why, for the record.
    reason: str


# Labels
Labels: TypeAlias = "dict[str, str]"


class Leased(TypedDict):
    """Work."""

    # The steps; none if there was nothing to do in that time.
    steps: list[LeasedStep]


class LeasedStep(TypedDict):
    """A step with everything that is needed to carry it out."""

    # The step.
    step: AdapterStep
    # The instance.
    snapshot: Snapshot


class LintFinding(TypedDict):
    """What lint found."""

    # Whether it keeps the artifact from being staged.
    error: bool
    # Which rule.
    rule: str
    # What was found.
    says: str
    # What to do about it.
    fix: str


class ListQuery(TypedDict):
    """What lists of labelled things take."""

    # How many at most; 50 if not given.
    page_size: NotRequired[int]
    # The token that the page before gave.
    page_token: NotRequired[str]
    # Only those with these labels: `team=ml,stage!=test`.
    labels: NotRequired[str]


# How a person proves who they are. One method today; single sign-on becomes a second variant.
LoginMethod: TypeAlias = Literal["password"]


class Logs(TypedDict):
    """Which lines of a log."""

    # Of which service; of all if this is not said.
    service: NotRequired[str]
    # Whether to go on with what is written from now on.
    follow: NotRequired[bool]
    # At most so many of the last lines.
    tail: NotRequired[int]
    # Only what was written from then on.
    since: NotRequired[str]
    # Only lines that contain this text.
    search: NotRequired[str]


class ManifestSchema(TypedDict):
    """What manifests look like."""

    # A JSON Schema, draft 2020-12.
    schema: dict[str, Any]


class Member(TypedDict):
    """One realised unit of a component."""

    # Its id.
    id: MemberId
    # Of which instance.
    instance_id: InstanceId
    # Of which component; the key means something to the app alone.
    component_key: str
    # Its name, and its host name.
    name: str
    # What it is.
    state: MemberState
    # How well it does. What was said of another incarnation does not count.
    health: Health
    # Why that is so.
    health_message: NotRequired[str]
    # What its health rests on, where it is not healthy: a word of a closed list.
    health_reason: NotRequired[str]
    # What to do about that.
    health_advice: NotRequired[str]
    # Since when its health is what it is.
    health_since: NotRequired[str]
    # Its services, as its node's agent reported them last; how often each was restarted is in it.
    services: NotRequired[list[ServiceStatus]]
    # When what it does now is expected to be over, as its adapter said at its last look; in the past if it did nothing
    # then, and absent where nobody knows. Whoever is free first goes first when fewer are wanted.
    free_at: NotRequired[str]
    # Raised whenever its cell is made.
    incarnation: int
    # The allocation that it is in.
    allocation_id: NotRequired[AllocationId]
    # Whether the platform made that allocation for it.
    allocation_made: bool
    # The shape of it.
    bound_capacity_shape: NotRequired[AllocationShape]
    # The node that it is bound to.
    node_id: NotRequired[NodeId]
    # Its cell.
    cell_id: NotRequired[CellId]
    # Its address in the instance's network.
    address: NotRequired[str]
    # The release that really runs in it.
    app_version_id: NotRequired[AppVersionId]
    # What its adapter says of it.
    adapter_detail: dict[str, Any]
    # Why it failed: a word of a closed list.
    failure_reason: NotRequired[str]
    # What to do about that.
    advice: NotRequired[str]
    # What happened, in a sentence.
    message: NotRequired[str]
    # Whether the rest of its network was told to forget it, because nobody hears from its node.
    fenced: bool
    # The evidence that it works, or worked.
    active_witness_id: NotRequired[WitnessId]
    # The evidence that it is drained.
    drained_witness_id: NotRequired[WitnessId]
    # The evidence that nothing is left of it.
    removed_witness_id: NotRequired[WitnessId]
    # The operation that last worked on it.
    last_operation_id: NotRequired[OperationId]
    # Its thread.
    correlation_id: str
    # When it was asked for.
    created_at: str
    # When it last changed.
    updated_at: str
    # For `If-Match`.
    version: int


class MemberAct(TypedDict):
    """An order about members."""

    # Which, by id or name.
    members: list[str]
    # Why, for the record.
    reason: NotRequired[str]
    # Until when it must be done; half an hour from now if this is not said.
    ready_until: NotRequired[str]
    # Only show the plan.
    dry_run: NotRequired[bool]


class MemberAdd(TypedDict):
    """Members to be added."""

    # To which component.
    component_key: str
    # How many; one if not given.
    count: NotRequired[int]
    # Where they go; as the instance's component says, if this is not said.
    allocation: NotRequired[MemberAllocation]
    # Why, for the record.
    reason: NotRequired[str]
    # Until when they must work; half an hour from now if this is not said.
    ready_until: NotRequired[str]
    # Only show the plan.
    dry_run: NotRequired[bool]


class MemberAllocationId(TypedDict):
    """One that the project holds, by id or name."""

    # One that the project holds, by id or name.
    id: str


class MemberAllocationCapacity(TypedDict):
    """One that the platform makes, with this capacity."""

    # One that the platform makes, with this capacity.
    capacity: Capacity


# Where a member goes: into an allocation that the project holds, or into one that the platform makes.
MemberAllocation: TypeAlias = Union["MemberAllocationId", "MemberAllocationCapacity"]


# MemberId
MemberId: TypeAlias = "str"


class MemberListQuery(TypedDict):
    """Which members to list."""

    # How many at most; 50 if not given.
    page_size: NotRequired[int]
    # The token that the page before gave.
    page_token: NotRequired[str]
    # Of this component only.
    component: NotRequired[str]
    # In this state only; those that are removed are not shown otherwise.
    state: NotRequired[MemberState]


class MemberPage(TypedDict):
    """A page of members."""

    # This page, oldest first.
    items: list[Member]
    # Give it as `page_token` to get the next page; absent on the last.
    next_page_token: NotRequired[str]


class MemberReport(TypedDict):
    """What an adapter found of a member."""

    # Which.
    member_id: MemberId
    # Which incarnation of it: what is said of another one does not count.
    incarnation: int
    # How well it does.
    health: Health
    # Why.
    message: NotRequired[str]
    # When what it does now is expected to be over: now or earlier if it does nothing, and nothing if that is unknown.
    # When fewer members are wanted, those go first that are free first. A report without it takes back what was said
    # before.
    free_at: NotRequired[str]
    # What there is to say of it, for people; it replaces what was said before.
    adapter_detail: NotRequired[dict[str, Any]]


# What a member is.
MemberState: TypeAlias = Literal["requested", "provisioning", "joining", "active", "draining", "drained", "removing", "removed", "failed"]


class MemberTake(TypedDict):
    """Members to be removed or replaced."""

    # Which, by id or name.
    members: list[str]
    # Without waiting for them to be drained; needs a permission of its own. It takes over from a drain that is under
    # way.
    force: NotRequired[bool]
    # Why, for the record.
    reason: NotRequired[str]
    # Until when it must be done; an hour from now if this is not said.
    ready_until: NotRequired[str]
    # Only show the plan.
    dry_run: NotRequired[bool]


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
    # Its addresses.
    subnet: str
    # Everybody in it.
    members: list[NetworkMember]
    # When it was made.
    created_at: str
    # When it last changed.
    updated_at: str
    # Raised with each change.
    version: int


class NetworkDevice(TypedDict):
    """A network device with hardware behind it."""

    # The interface's name.
    name: str
    # Its permanent address. Of InfiniBand's twenty bytes only the last eight, the port's GUID: the others change from
    # start to start. Empty where the kernel made an address up.
    mac: str
    # The largest packet, in bytes.
    mtu: int
    # The link's speed in Mbit/s; absent while there is no link, and where the device does not say.
    speed_mbps: NotRequired[int]
    # The link's state in the kernel's word: `up`, `down`, `unknown` and a few more.
    state: str
    # The kernel driver that holds it.
    driver: NotRequired[str]
    # The PCI device behind it.
    pci: NotRequired[str]
    # Whether it can do RDMA.
    rdma: bool


# NetworkId
NetworkId: TypeAlias = "str"


class NetworkList(TypedDict):
    """A project's networks."""

    # All of them.
    items: list[Network]


class NetworkMember(TypedDict):
    """A cell in a network."""

    # Which cell.
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
    # Its name, unique among those that are not retired.
    name: str
    # Labels.
    labels: Labels
    # What it is, in one word. The facts behind it stand beside it.
    state: NodeState
    # Whether it is kept from new work.
    cordoned: bool
    # Whether it is being emptied.
    draining: bool
    # Since when nobody has heard from it.
    unreachable_since: NotRequired[str]
    # When it was retired.
    retired_at: NotRequired[str]
    # All it has, as approved. A GPU that is quarantined counts.
    total: Capacity
    # What is not held. A GPU that is quarantined does not count.
    free: Capacity
    # How many allocations hold something of it.
    allocations: int
    # The digest of the hardware that its agent last found: what `node_approve` is given.
    inventory_digest: str
    # The digest of the hardware that was approved.
    approved_digest: NotRequired[str]
    # When it was approved.
    approved_at: NotRequired[str]
    # Whether the hardware that was found, or the address that is reported, is not the one that was approved.
    needs_approval: bool
    # When it was last heard, to some seconds.
    seen_at: NotRequired[str]
    # The agent's version.
    agent_version: str
    # When the certificate that it holds ends.
    certificate_until: str
    # Which file system it shares with other nodes: those with the same word have the same one. Apps whose members share
    # directories run on such nodes alone.
    shared_files: NotRequired[str]
    # Where other nodes reach it, as approved.
    address: NotRequired[str]
    # The address that its agent reported last. Where it is another one, it is not used before it is approved.
    reported_address: NotRequired[str]
    # The address that its agent called from when it reported that: the same, unless something is between.
    peer_address: NotRequired[str]
    # When it joined.
    created_at: str
    # When it last changed.
    updated_at: str
    # For `If-Match`.
    version: int
    # What is gone, added or changed since the approval; only where one node is shown, and only if there is any.
    difference: NotRequired[list[Change]]
    # Its slots, with who holds them; only where one node is shown.
    slots: NotRequired[list[Slot]]
    # What its agent last found; only where one node is shown.
    inventory: NotRequired[Inventory]


class NodeApprove(TypedDict):
    """Hardware to be approved."""

    # The `inventory_digest` of what you looked at.
    digest: str
    # The `reported_address` of what you looked at; the one that is reported now if not given.
    address: NotRequired[str]


class NodeAudit(TypedDict):
    """How a node is compared with what is written of it."""

    # Remove what belongs to nothing.
    mend: NotRequired[bool]
    # Only show the plan.
    dry_run: NotRequired[bool]


class NodeDrain(TypedDict):
    """How a node is emptied."""

    # How long its tenants have to release what they hold on it; an hour if not given.
    deadline_seconds: NotRequired[int]
    # Also replace members that stop before their successors start, and release what is left at the deadline. Without it
    # such members stay, and the operation is blocked at the deadline.
    force: NotRequired[bool]
    # For the audit, and for the tenants' timelines.
    reason: NotRequired[str]
    # Only show the plan.
    dry_run: NotRequired[bool]


class NodeEnrol(TypedDict):
    """A right for one machine to join."""

    # A node that is there, by id or name, for whose machine this is: its certificate has ended, or its disk was
    # replaced. It keeps its name, its labels and what it holds. Not together with `name` or `labels`.
    node: NotRequired[str]
    # The name a new node must take; the machine's own name for itself if not given.
    name: NotRequired[str]
    # Labels that a new node gets.
    labels: NotRequired[Labels]
    # How long the token can be used; an hour if not given, a week at most.
    expires_in_seconds: NotRequired[int]


class NodeEnrolment(TypedDict):
    """A right for one machine to join, once."""

    # Its id.
    id: EnrolmentId
    # The node that is given a new certificate, where it is not for a new one.
    node_id: NotRequired[NodeId]
    # The name the node must take, or has.
    name: NotRequired[str]
    # Labels that the node gets, or has.
    labels: Labels
    # Until when the token can be used.
    expires_at: str
    # SHA-256 of the platform's certificate authority for nodes, by which the machine knows the server.
    ca_sha256: str
    # The token, in the one answer that shows it.
    token: NotRequired[str]
    # What to run on the machine, once the token is in a file there: command lines can be read by everybody.
    command: str
    # True in a replayed answer: the token was in the first one and is kept nowhere.
    secret_shown_once: NotRequired[bool]


# NodeId
NodeId: TypeAlias = "str"


class NodeListQuery(TypedDict):
    """What lists of nodes take."""

    # How many at most; 50 if not given.
    page_size: NotRequired[int]
    # The token that the page before gave.
    page_token: NotRequired[str]
    # Only those with these labels: `rack=7,stage!=test`.
    labels: NotRequired[str]
    # Only those in this state.
    state: NotRequired[NodeState]


class NodePage(TypedDict):
    """A page of nodes."""

    # This page, oldest first.
    items: list[Node]
    # Give it as `page_token` to get the next page; absent on the last.
    next_page_token: NotRequired[str]


class NodeReason(TypedDict):
    """Why."""

    # Why, for the audit and for whoever reads the event.
    reason: NotRequired[str]


class NodeRetire(TypedDict):
    """How a node leaves the fleet."""

    # An operator's word that nothing of ours is left on it: only for a node that is unreachable.
    attest: NotRequired[str]
    # Only show the plan.
    dry_run: NotRequired[bool]


# What a node is.
NodeState: TypeAlias = Literal["enrolling", "ready", "cordoned", "draining", "unreachable", "retired"]


class NodeUpdate(TypedDict):
    """What of a node can change."""

    # Labels; they replace the old ones.
    labels: NotRequired[Labels]
    # The `reported_address` that other nodes should use from now on.
    address: NotRequired[str]


# An empty body, for acts that need no words.
Nothing: TypeAlias = "dict[str, Any]"


class NumaNode(TypedDict):
    """Memory and the CPUs nearest to it."""

    # The kernel's number for it.
    ordinal: int
    # Its CPUs, in the kernel's list form.
    cpus: str
    # Its memory in MiB.
    memory_mb: int


class Operation(TypedDict):
    """An operation."""

    # Its id.
    id: OperationId
    # `noun.verb`.
    kind: str
    # The tenant, where there is one.
    tenant_id: NotRequired[TenantId]
    # The project, where there is one.
    project_id: NotRequired[ProjectId]
    # What it works on: `allocation` or `node`.
    subject_kind: str
    # Its id.
    subject_id: str
    # Its name.
    subject_name: str
    # Who asked: the id.
    actor_id: str
    # Who asked: the name.
    actor_name: str
    # The thread through audit, events, tasks and logs.
    correlation_id: str
    # What it is.
    state: OperationState
    # Its steps: the plan, and what became of it.
    steps: list[Step]
    # The parts of a bulk operation.
    items: NotRequired[list[Item]]
    # Why it waits.
    waiting: NotRequired[str]
    # Why it is parked, and who can unblock it.
    parked: NotRequired[Parked]
    # Blocked children (and their children), present while nothing else of the operation advances; only where one
    # operation is shown. Unblock them to let the operation continue.
    blocked_by: NotRequired[list[BlockedChild]]
    # Why it failed: a word of a closed list.
    reason: NotRequired[str]
    # The same in a sentence.
    message: NotRequired[str]
    # Whether somebody asked to cancel it.
    cancel_requested: bool
    # The operation it took over from.
    supersedes: NotRequired[OperationId]
    # The bulk operation it is a part of.
    parent_id: NotRequired[OperationId]
    # When it must have ended; what has not by then is undone or parked.
    deadline_at: str
    # When it was accepted.
    created_at: str
    # When it last changed.
    updated_at: str
    # When it ended.
    finished_at: NotRequired[str]
    # The evidence that its steps collected; only where one operation is shown.
    witnesses: NotRequired[list[Witness]]
    # For `If-Match`.
    version: int


class OperationCancel(TypedDict):
    """Why it should end."""

    # For the audit.
    reason: NotRequired[str]


class OperationGetQuery(TypedDict):
    """Whether to wait for a change."""

    # Wait so many seconds for it to end or to be parked before answering.
    wait_seconds: NotRequired[int]


# OperationId
OperationId: TypeAlias = "str"


class OperationListQuery(TypedDict):
    """Which operations to list."""

    # How many at most; 50 if not given.
    page_size: NotRequired[int]
    # The token that the page before gave.
    page_token: NotRequired[str]
    # Of this project only; operators may leave it out.
    project: NotRequired[str]
    # On this thing only: the id of an allocation or a node.
    subject: NotRequired[str]
    # In this state only.
    state: NotRequired[OperationState]


class OperationPage(TypedDict):
    """A page of operations."""

    # This page, oldest first.
    items: list[Operation]
    # Give it as `page_token` to get the next page; absent on the last.
    next_page_token: NotRequired[str]


# What an operation is.
OperationState: TypeAlias = Literal["accepted", "running", "verifying", "compensating", "parked", "succeeded", "partial", "failed", "cancelled", "superseded"]


class OperationUnblock(TypedDict):
    """How a parked operation goes on."""

    # One of the choices that it gives.
    choice: Unblock
    # For the audit. To `abandon` it is needed: it stands in for the evidence.
    statement: NotRequired[str]


class OperatorTokenMint(TypedDict):
    """A token for an adapter in a consumer's project."""

    # The entitlement, by id.
    entitlement: str
    # How long it lives; 15 minutes at most, and if not given.
    expires_in_seconds: NotRequired[int]


class PageQuery(TypedDict):
    """What lists of things without labels take."""

    # How many at most; 50 if not given.
    page_size: NotRequired[int]
    # The token that the page before gave.
    page_token: NotRequired[str]


class Parked(TypedDict):
    """Why an operation cannot go on, and who can change that."""

    # Why.
    reason: str
    # Who can unblock it: `tenant` or `operator`.
    unblock_by: str
    # With what.
    choices: list[Unblock]
    # Since when.
    since: str
    # When operators are told that it is overdue.
    escalates_at: str


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
    """One state that an allocation went through."""

    # Which.
    state: AllocationState
    # From when.
    at: str
    # For how long, in milliseconds; until now for the one it is in, absent for a final one.
    milliseconds: NotRequired[int]
    # By which operation.
    operation_id: NotRequired[OperationId]
    # Why.
    reason: NotRequired[str]


class Plan(TypedDict):
    """What an operation would do."""

    # `noun.verb`.
    kind: str
    # The steps, in order.
    steps: list[PlannedStep]
    # What it touches; operations that touch the same things run one after the other.
    touches: list[str]
    # How much it takes, or gives back.
    capacity: NotRequired[Capacity]
    # Whether there is room for it now; a claim is only sure once it is made.
    fits_now: NotRequired[bool]
    # What would become of each thing that it works on, where that differs.
    items: NotRequired[list[PlannedItem]]
    # Where it does not fit now: which resource or limit is short.
    short: NotRequired[str]
    # How many members it adds; they have no ids before they are made.
    adds: NotRequired[list[PlannedMembers]]
    # Images of these members that no cell runs from now: a node pulls them first, unless it kept them.
    pulls: NotRequired[list[PlannedPull]]
    # How long it takes as a rule, where nothing is in the way; with the time to pull the images.
    expected_seconds: int
    # When it must have ended.
    deadline_at: str


# What would become of one thing.
PlannedAction: TypeAlias = Literal["replace", "drain", "wait", "release"]


class PlannedItem(TypedDict):
    """What would become of one of the things that an operation works on."""

    # Its id.
    id: str
    # Its name.
    name: str
    # What would become of it.
    action: PlannedAction
    # How, or why not: the order, the resource that is short, the state that is lost.
    message: str


class PlannedMembers(TypedDict):
    """Members of one component that an operation would add."""

    # The component.
    component_key: str
    # How many.
    count: int


class PlannedPull(TypedDict):
    """An image that an operation would have nodes pull."""

    # Its repository and digest.
    image: str
    # Its size in bytes.
    size: int


class PlannedStep(TypedDict):
    """A step that would be taken."""

    # Its name.
    name: str
    # What it does.
    does: str
    # Whether it collects evidence.
    verifies: bool
    # Whether it can be undone.
    has_undo: bool


class Probe(TypedDict):
    """How something is asked whether it is ready."""

    # What is tried.
    by: ProbeBy
    # How long to wait between two tries.
    every_seconds: NotRequired[int]
    # How long one try may take.
    timeout_seconds: NotRequired[int]


class ProbeByCommand(TypedDict):
    """A command in the cell, which must end with zero."""

    # A command in the cell, which must end with zero.
    command: list[str]


class ProbeByTcp(TypedDict):
    """A connection to this port of the cell."""

    # A connection to this port of the cell.
    tcp: int


class ProbeByHttp(TypedDict):
    """A GET of this path at this port of the cell, which must be answered with 200 to 399."""

    # A GET of this path at this port of the cell, which must be answered with 200 to 399.
    http: dict[str, Any]


# What a probe tries.
ProbeBy: TypeAlias = Union["ProbeByCommand", "ProbeByTcp", "ProbeByHttp"]


class ProbeOrder(TypedDict):
    """A check to run beside a cell."""

    # The program, by its path in the image, and its arguments.
    command: list[str]
    # Its whole environment.
    environment: NotRequired[dict[str, str]]
    # Directories of the cell that it sees, to read; nothing in them is ever run.
    sees: NotRequired[list[str]]
    # As which user of the cell.
    uid: NotRequired[int]
    # As which group of the cell.
    gid: NotRequired[int]
    # After so many seconds it is killed.
    timeout_seconds: NotRequired[int]


class Problem(TypedDict):
    """Why a request was not carried out."""

    # A stable reference for the code.
    type: str
    # The code in words.
    title: str
    # The HTTP status.
    status: int
    # What happened, and what to do next.
    detail: str
    # The code.
    code: Code
    # Give it when you ask for help.
    correlation_id: str
    # Whether the same request may succeed later.
    retryable: bool
    # Where the code is explained.
    docs: str
    # The faults one by one, where there are several.
    errors: NotRequired[list[FieldError]]


class Project(TypedDict):
    """A project: ownership and quota inside a tenant."""

    # Its id.
    id: ProjectId
    # The tenant that owns it.
    tenant_id: TenantId
    # That tenant's slug.
    tenant: str
    # Its name, unique in the tenant; `tenant.name` is its name on the platform.
    name: str
    # What people read.
    display_name: str
    # Labels.
    labels: Labels
    # When it was made.
    created_at: str
    # When it last changed.
    updated_at: str
    # For `If-Match`.
    version: int


class ProjectCreate(TypedDict):
    """A project to be made."""

    # Its name, unique in the tenant.
    name: str
    # What people read; the name if not given.
    display_name: NotRequired[str]
    # Labels.
    labels: NotRequired[Labels]


# ProjectId
ProjectId: TypeAlias = "str"


class ProjectPage(TypedDict):
    """A page of projects."""

    # This page, oldest first.
    items: list[Project]
    # Give it as `page_token` to get the next page; absent on the last.
    next_page_token: NotRequired[str]


class ProjectUpdate(TypedDict):
    """What of a project can change."""

    # What people read.
    display_name: NotRequired[str]
    # Labels; they replace the old ones.
    labels: NotRequired[Labels]


# A transport.
Protocol: TypeAlias = Literal["tcp", "udp"]


class Published(TypedDict):
    """What came of a manifest."""

    # The release; absent after a dry run.
    app_version: NotRequired[AppVersion]
    # What lint found, all of it.
    faults: list[Fault]


# What a runtime secret is for: a closed list.
Purpose: TypeAlias = Literal["artifact_pull", "cluster_bootstrap"]


class Quota(TypedDict):
    """What a project may hold at most, and what it holds."""

    # Whose it is.
    project_id: ProjectId
    # Most allocations at once; no limit if absent, as with the others.
    max_allocations: NotRequired[int]
    # Most GPUs.
    max_gpus: NotRequired[int]
    # Most logical CPUs.
    max_cpus: NotRequired[int]
    # Most memory in MiB.
    max_memory_mb: NotRequired[int]
    # Most disk in MiB.
    max_disk_mb: NotRequired[int]
    # What it holds now. It may be above a limit that was lowered: then it can only shrink.
    used: QuotaUse
    # For `If-Match`.
    version: int


class QuotaLeft(TypedDict):
    """What a quota leaves; absent where there is no limit."""

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
    """Limits to be set. What is not named stays as it is."""

    # Most allocations at once.
    max_allocations: NotRequired[int]
    # Most GPUs.
    max_gpus: NotRequired[int]
    # Most logical CPUs.
    max_cpus: NotRequired[int]
    # Most memory in MiB.
    max_memory_mb: NotRequired[int]
    # Most disk in MiB.
    max_disk_mb: NotRequired[int]
    # Limits that are taken away.
    unlimited: NotRequired[list[QuotaLimit]]


class QuotaUse(TypedDict):
    """What a project holds now, counted as it was promised."""

    # Allocations that live.
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
    """How a command or a check ended."""

    # Its exit status; 128 and the signal's number for one that was killed.
    exit: int
    # The last 16 KiB of what it wrote.
    stdout: str
    # The last 16 KiB of what it complained of.
    stderr: str
    # Whether it wrote more than is said here.
    truncated: bool
    # Whether it was killed because its time was over.
    timed_out: bool


class RefusedReport(TypedDict):
    """A report on a member that was not taken. It changed nothing; the others of the same look did."""

    # The member that it named.
    member_id: MemberId
    # The incarnation that it named.
    incarnation: int
    # Why.
    reason: ReportRefusal


class Removed(TypedDict):
    """What a removal took with it."""

    # The id of what was asked for.
    id: str
    # How many of each other noun went with it.
    removed: dict[str, int]


# Who decides when a member fails.
RepairMode: TypeAlias = Literal["off", "propose", "automatic"]


class Replica(TypedDict):
    """A server that shares the database."""

    # Its id; a new one at every start.
    id: ReplicaId
    # Where it listens.
    address: str
    # Its version.
    version: str
    # Since when it runs.
    started_at: str
    # When it was last heard of.
    seen_at: str


# ReplicaId
ReplicaId: TypeAlias = "str"


# Why a report on a member was not taken.
ReportRefusal: TypeAlias = Literal["unknown_member", "stale_incarnation"]


class Repository(TypedDict):
    """A repository. It is made by the first push to it."""

    # Its id.
    id: RepositoryId
    # The tenant.
    tenant_id: TenantId
    # The project.
    project_id: ProjectId
    # Its name in the project; it may have parts: `train/base`.
    name: str
    # How clients of registries write it after the server's name: `acme.ml/train/base`.
    path: str
    # How many manifests it holds.
    manifests: int
    # Bytes of everything it holds.
    size: int
    # When it was made.
    created_at: str
    # For `If-Match`.
    version: int


# RepositoryId
RepositoryId: TypeAlias = "str"


class RepositoryListQuery(TypedDict):
    """Which repositories to list."""

    # How many at most; 50 if not given.
    page_size: NotRequired[int]
    # The token that the page before gave.
    page_token: NotRequired[str]


class RepositoryPage(TypedDict):
    """A page of repositories."""

    # This page, oldest first.
    items: list[Repository]
    # Give it as `page_token` to get the next page; absent on the last.
    next_page_token: NotRequired[str]


class RepositoryTagsQuery(TypedDict):
    """Which tags to list."""

    # How many at most; 50 if not given.
    page_size: NotRequired[int]
    # The token that the page before gave.
    page_token: NotRequired[str]


# What happens when a service ends.
Restart: TypeAlias = Literal["never", "on_failure", "always"]


# A role.
Role: TypeAlias = Literal["platform_operator", "tenant_admin", "project_admin", "project_viewer"]


class RoleBinding(TypedDict):
    """A role that a person holds somewhere."""

    # Its id.
    id: RoleBindingId
    # Who.
    user_id: UserId
    # The person's address.
    user_email: str
    # Which role.
    role: Role
    # In which tenant, for roles of a tenant or a project.
    tenant_id: NotRequired[TenantId]
    # In which project, for roles of a project.
    project_id: NotRequired[ProjectId]
    # Since when.
    created_at: str
    # For `If-Match`; a binding never changes, so it is always 1.
    version: int


class RoleBindingCreate(TypedDict):
    """A role to be given."""

    # The person, by address or id.
    user: str
    # Which role.
    role: Role
    # The tenant, by slug or id: for `tenant_admin` alone.
    tenant: NotRequired[str]
    # The project, by name or id: for `project_admin` and `project_viewer`.
    project: NotRequired[str]


# RoleBindingId
RoleBindingId: TypeAlias = "str"


class RoleBindingListQuery(TypedDict):
    """Whose bindings to list."""

    # How many at most; 50 if not given.
    page_size: NotRequired[int]
    # The token that the page before gave.
    page_token: NotRequired[str]
    # Those of a tenant and its projects, by slug or id.
    tenant: NotRequired[str]
    # Those of a project, by name or id. With neither, the whole platform's.
    project: NotRequired[str]


class RoleBindingPage(TypedDict):
    """A page of role bindings."""

    # This page, oldest first.
    items: list[RoleBinding]
    # Give it as `page_token` to get the next page; absent on the last.
    next_page_token: NotRequired[str]


class RootImage(TypedDict):
    """An image, by the digest of its manifest: `sha256:…`."""

    # An image, by the digest of its manifest: `sha256:…`.
    image: str


class RootHost(TypedDict):
    """Directories of the node, read-only, with an `/etc` that is made for the cell. The node's operator says which
    there are."""

    # Directories of the node, read-only, with an `/etc` that is made for the cell. The node's operator says which there
    # are.
    host: list[str]


# Where a cell's file system comes from.
Root: TypeAlias = Union["RootImage", "RootHost"]


class RuntimeSecret(TypedDict):
    """Material that the platform issued for a stated purpose."""

    # Its id: cells name it by this.
    id: RuntimeSecretId
    # The tenant.
    tenant_id: TenantId
    # The project.
    project_id: ProjectId
    # What for.
    purpose: Purpose
    # What it is called, where it was given a name.
    name: str
    # The repository that it reads.
    repository_id: NotRequired[RepositoryId]
    # The cell that it was issued to.
    cell_id: NotRequired[CellId]
    # Which incarnation of that.
    incarnation: NotRequired[int]
    # The instance that it was issued to: it ends with that.
    instance_id: NotRequired[InstanceId]
    # When it ends by itself.
    expires_at: NotRequired[str]
    # When it was revoked, or its cell or its instance went.
    revoked_at: NotRequired[str]
    # When it was issued.
    created_at: str
    # For `If-Match`.
    version: int
    # The material, in the one answer that shows it.
    value: NotRequired[str]
    # True in a replayed answer: the material was in the first one and is not shown again.
    secret_shown_once: NotRequired[bool]


# RuntimeSecretId
RuntimeSecretId: TypeAlias = "str"


class RuntimeSecretIssue(TypedDict):
    """Material to be issued."""

    # What for.
    purpose: Purpose
    # What to call it, for lists.
    name: str
    # For `artifact_pull`: the repository.
    repository: NotRequired[str]
    # For `artifact_pull`: the cell that it is for, by id or name. It ends with that incarnation of it.
    cell: NotRequired[str]
    # For `cluster_bootstrap`: the instance whose members share it, by id. It ends with the instance; only the account
    # that operates the instance may say this.
    instance: NotRequired[InstanceId]
    # For `cluster_bootstrap`: how many random bytes; 32 if this is not said.
    bytes: NotRequired[int]


class RuntimeSecretListQuery(TypedDict):
    """Which runtime secrets to list."""

    # How many at most; 50 if not given.
    page_size: NotRequired[int]
    # The token that the page before gave.
    page_token: NotRequired[str]
    # For this purpose only.
    purpose: NotRequired[Purpose]


class RuntimeSecretPage(TypedDict):
    """A page of runtime secrets."""

    # This page, oldest first.
    items: list[RuntimeSecret]
    # Give it as `page_token` to get the next page; absent on the last.
    next_page_token: NotRequired[str]


class RuntimeSecretRevoke(TypedDict):
    """Material that is to be used no more."""

    # Why, for the record.
    reason: NotRequired[str]


class Secret(TypedDict):
    """A project's own secret. Its content is told to nobody but to cells that name it."""

    # Its id.
    id: SecretId
    # The tenant.
    tenant_id: TenantId
    # The project.
    project_id: ProjectId
    # Its name, unique in the project.
    name: str
    # The registry that it is a credential for: `artifact publish` may have it sent there, and nowhere else.
    registry: NotRequired[str]
    # How often its content was set. A cell has the content of the moment in which it was made.
    revision: int
    # How long the content is, in bytes.
    size: int
    # When it was made.
    created_at: str
    # When its content was last set.
    updated_at: str
    # For `If-Match`.
    version: int


class SecretCreate(TypedDict):
    """A secret to be kept."""

    # Its name, unique in the project.
    name: str
    # Its content. It never comes back.
    value: str
    # How that is written.
    encoding: NotRequired[Encoding]
    # The registry that it is a credential (`user:password`) for, as `host` or `host:port`; for no registry if absent.
    registry: NotRequired[str]


class SecretFile(TypedDict):
    """A secret, as a cell is given it: a file of mode 0400. It is named here and said nowhere: the node asks for it
    by this name, for this very incarnation of the cell."""

    # The secret: one of the project's by its name or id, or a runtime secret by its id.
    secret: str
    # The name of the file.
    file: str
    # Its owner in the cell.
    uid: NotRequired[int]
    # Its group in the cell.
    gid: NotRequired[int]


# SecretId
SecretId: TypeAlias = "str"


class SecretListQuery(TypedDict):
    """Which secrets to list."""

    # How many at most; 50 if not given.
    page_size: NotRequired[int]
    # The token that the page before gave.
    page_token: NotRequired[str]


class SecretPage(TypedDict):
    """A page of secrets."""

    # This page, oldest first.
    items: list[Secret]
    # Give it as `page_token` to get the next page; absent on the last.
    next_page_token: NotRequired[str]


class SecretRotate(TypedDict):
    """Another content."""

    # Its content. It never comes back.
    value: str
    # How that is written.
    encoding: NotRequired[Encoding]


class Service(TypedDict):
    """Something that runs in a cell for as long as the cell does."""

    # Its name.
    name: str
    # The program, by its path, and its arguments. No shell looks at them.
    command: list[str]
    # As which user of the cell.
    uid: NotRequired[int]
    # As which group of the cell.
    gid: NotRequired[int]
    # What it finds in its environment beside what the cell has.
    environment: NotRequired[dict[str, str]]
    # Where it starts; the image's own directory, or `/`.
    working_directory: NotRequired[str]
    # When it is started.
    start: NotRequired[Start]
    # What happens when it ends.
    restart: NotRequired[Restart]
    # Services that must be ready before it starts.
    after: NotRequired[list[str]]
    # How it is known to be ready. Without this it is so when it has run for a second.
    ready: NotRequired[Probe]
    # How long it may take to stop before it is killed.
    stop_seconds: NotRequired[int]


class ServiceAccount(TypedDict):
    """Automation inside one project."""

    # Its id.
    id: ServiceAccountId
    # Its project, outside of which it can do nothing.
    project_id: ProjectId
    # Its name, unique in the project.
    name: str
    # What it is for.
    description: str
    # What it may do there: nothing is implied.
    permissions: list[str]
    # A disabled account's tokens are refused.
    disabled: bool
    # Labels.
    labels: Labels
    # When it was made.
    created_at: str
    # When it last changed.
    updated_at: str
    # For `If-Match`.
    version: int


class ServiceAccountCreate(TypedDict):
    """A service account to be made."""

    # Its name, unique in the project.
    name: str
    # What it is for.
    description: NotRequired[str]
    # What it may do, as `noun.verb`. Some permissions can never be given, and none that you do not hold.
    permissions: list[str]
    # Labels.
    labels: NotRequired[Labels]


# ServiceAccountId
ServiceAccountId: TypeAlias = "str"


class ServiceAccountPage(TypedDict):
    """A page of service accounts."""

    # This page, oldest first.
    items: list[ServiceAccount]
    # Give it as `page_token` to get the next page; absent on the last.
    next_page_token: NotRequired[str]


class ServiceAccountUpdate(TypedDict):
    """What of a service account can change."""

    # What it is for.
    description: NotRequired[str]
    # The allow list; it replaces the old one.
    permissions: NotRequired[list[str]]
    # Whether its tokens are refused.
    disabled: NotRequired[bool]
    # Labels; they replace the old ones.
    labels: NotRequired[Labels]


# What to do with a service.
ServiceAction: TypeAlias = Literal["start", "stop", "restart"]


class ServiceOrder(TypedDict):
    """A service to start or to stop."""

    # Which, as the cell's own list has it.
    name: str
    # What with it.
    action: ServiceAction


# What a service is.
ServiceState: TypeAlias = Literal["idle", "waiting", "running", "restarting", "ended"]


class ServiceStatus(TypedDict):
    """The status of a service."""

    # Which.
    name: str
    # What it is doing.
    state: ServiceState
    # Whether it is ready, by its probe.
    ready: bool
    # How often it was restarted.
    restarts: int
    # Its last exit status.
    exit: NotRequired[int]
    # Why it is not ready.
    message: NotRequired[str]


class Session(TypedDict):
    """A session. The token itself travels only in the `muster_session` cookie."""

    # Its id.
    id: TokenId
    # Who logged in.
    user_id: UserId
    # When it ends by itself.
    expires_at: str
    # What a page must send as `X-CSRF-Token` with every request that is not a GET; in the one answer that shows it.
    csrf_token: NotRequired[str]
    # True in a replayed answer: the secret was in the first one and is kept nowhere.
    secret_shown_once: NotRequired[bool]


class SessionCreate(TypedDict):
    """A login."""

    # How.
    method: LoginMethod
    # The tenant that the person belongs to, by slug or id; none for people who run the platform.
    tenant: NotRequired[str]
    # The address.
    email: str
    # The password.
    password: str


class SignatureReference(TypedDict):
    """A signature, as far as the registry has one for the digest."""

    # The digest of the manifest that carries it.
    digest: str
    # `tag` (`sha256-….sig`) or `referrer`.
    by: str
    # What kind it is.
    artifact_type: str


class Slot(TypedDict):
    """A node's smallest claimable GPU unit."""

    # Its id.
    id: SlotId
    # The node it is in.
    node_id: NodeId
    # Which kind: `gpu`.
    kind: str
    # The device's own identity.
    device: str
    # Its number on the node.
    ordinal: int
    # The device's model.
    model: str
    # Its memory in MiB.
    memory_mb: int
    # The NUMA node it hangs on.
    numa: int
    # Its NVLink island: GPUs that reach each other over NVLink have the same number.
    island: int
    # What it is.
    state: SlotState
    # Why it is quarantined.
    reason: NotRequired[str]
    # The allocation that holds it.
    allocation_id: NotRequired[AllocationId]
    # Raised with every change.
    version: int


class SlotApprove(TypedDict):
    """A slot to be used on an operator's word."""

    # What was checked, and by whom: the platform itself has seen nothing.
    reason: str


# SlotId
SlotId: TypeAlias = "str"


class SlotPage(TypedDict):
    """A node's slots."""

    # This page, oldest first.
    items: list[Slot]
    # Give it as `page_token` to get the next page; absent on the last.
    next_page_token: NotRequired[str]


class SlotQuarantine(TypedDict):
    """A slot to be kept from everybody."""

    # Why.
    reason: str


# What a slot is.
SlotState: TypeAlias = Literal["discovered", "approved", "quarantined", "retired"]


class Snapshot(TypedDict):
    """Everything that an adapter needs to know of an instance, at the moment of the lease."""

    # The instance.
    instance_id: InstanceId
    # Its name.
    instance: str
    # The app's slug.
    app: str
    # The release that it should run.
    app_version_id: AppVersionId
    # The name of that release.
    app_version: str
    # What it was configured with.
    config: dict[str, Any]
    # The release's manifest.
    manifest: dict[str, Any]
    # Its members, those that are removed not among them.
    members: list[SnapshotMember]
    # When a member last left without anybody having seen its end: it was cut off with its node, or an operator's word
    # stands in for the evidence. What was shared with the members before that may be in other hands. Absent if that
    # never happened.
    unwitnessed_at: NotRequired[str]


class SnapshotMember(TypedDict):
    """A member, as an adapter needs to know it."""

    # Its id.
    id: MemberId
    # Of which component.
    component_key: str
    # Its name, and its host name.
    name: str
    # What it is.
    state: MemberState
    # How well it does.
    health: Health
    # Raised whenever its cell is made.
    incarnation: int
    # Its address in the instance's network.
    address: NotRequired[str]
    # Whether nobody hears from its node.
    unreachable: bool
    # Whether it was cut off because of that: the rest of its network has forgotten it, and what ran there is as good as
    # gone.
    fenced: NotRequired[bool]
    # The allocation that it is in; members that share one are on the same node.
    allocation_id: NotRequired[AllocationId]
    # The release that really runs in it.
    app_version_id: NotRequired[AppVersionId]
    # What it holds.
    gpus: int
    # Logical CPUs.
    cpus: int
    # Memory in MiB.
    memory_mb: int
    # What the adapter last said of it.
    adapter_detail: dict[str, Any]


class SshKey(TypedDict):
    """A person's public key."""

    # Its id.
    id: SshKeyId
    # The project.
    project_id: ProjectId
    # Whose.
    user_id: UserId
    # Its name, unique among the person's in the project.
    name: str
    # As a line of `authorized_keys`.
    public_key: str
    # `SHA256:…`, as OpenSSH prints it.
    fingerprint: str
    # The only allocation whose cells accept it; absent: every cell of the project.
    allocation_id: NotRequired[AllocationId]
    # When the platform removes it.
    expires_at: NotRequired[str]
    # The person who granted it; absent: its owner added it.
    granted_by: NotRequired[UserId]
    # When it was added.
    created_at: str
    # For `If-Match`.
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
    """Which keys to list."""

    # How many at most; 50 if not given.
    page_size: NotRequired[int]
    # The token that the page before gave.
    page_token: NotRequired[str]


class SshKeyPage(TypedDict):
    """A page of keys."""

    # This page, oldest first.
    items: list[SshKey]
    # Give it as `page_token` to get the next page; absent on the last.
    next_page_token: NotRequired[str]


# When a service is started.
Start: TypeAlias = Literal["with_cell", "on_request"]


class Started(TypedDict):
    """An operation was accepted, or its plan was shown."""

    # The operation; absent in a dry run.
    operation: NotRequired[Operation]
    # What it does.
    plan: Plan


class Status(TypedDict):
    """The platform at one look."""

    # The version of the server that answered.
    version: str
    # The version of the contract.
    api_version: str
    # `sqlite` or `postgres`.
    database: str
    # The newest migration that was applied.
    schema_version: int
    # The server's clock.
    now: str
    # Whether every check is in order.
    healthy: bool
    # The checks.
    checks: list[Check]
    # The servers that share the database; only operators see them.
    replicas: list[Replica]


class Step(TypedDict):
    """One step."""

    # Its name.
    name: str
    # What it does.
    does: str
    # Whether it collects evidence.
    verifies: bool
    # Whether it can be undone.
    has_undo: bool
    # What it is.
    state: StepState
    # How often it was looked at.
    attempts: int
    # When it began.
    started_at: NotRequired[str]
    # When it ended.
    ended_at: NotRequired[str]
    # What it says.
    message: NotRequired[str]
    # The evidence; the witness itself stands in `witnesses` where one operation is shown.
    witness_id: NotRequired[WitnessId]


# What a step is.
StepState: TypeAlias = Literal["pending", "running", "done", "failed", "undoing", "undone", "skipped"]


# How a node is chosen.
Strategy: TypeAlias = Literal["pack", "spread"]


class Stream(TypedDict):
    """A stream that was granted."""

    # Its id.
    id: StreamId
    # To which cell.
    cell_id: CellId
    # Until when it can be joined, by whoever asked for it.
    expires_at: str
    # Where it is joined.
    path: str


class StreamCreateCommand(TypedDict):
    """Runs a command in the cell, with or without a terminal."""

    # Runs a command in the cell, with or without a terminal.
    command: Command


class StreamCreateRead(TypedDict):
    """Reads a file of the cell, or, where the path ends in a slash, a directory as a tar archive."""

    # Reads a file of the cell, or, where the path ends in a slash, a directory as a tar archive.
    read: FileAt


class StreamCreateWrite(TypedDict):
    """Writes a file of the cell."""

    # Writes a file of the cell.
    write: FileAt


# What a stream is to do. Its words are those of the nodes' contract, where they are carried out.
StreamCreate: TypeAlias = Union["StreamCreateCommand", "StreamCreateRead", "StreamCreateWrite"]


# StreamId
StreamId: TypeAlias = "str"


class Tag(TypedDict):
    """A tag. It can move; digests cannot."""

    # Its name.
    name: str
    # The digest that it names now.
    digest: str
    # When it was last set.
    updated_at: str


class TagPage(TypedDict):
    """A page of tags, in the order of their names."""

    # This page, oldest first.
    items: list[Tag]
    # Give it as `page_token` to get the next page; absent on the last.
    next_page_token: NotRequired[str]


# What a task does to a cell, by the adapter's own word. It decides what a look at the whole instance (`reconcile`) may
# do beside steps of its members: a look has a snapshot of its own moment, and a repair by it would undo a drain that
# began since.
TaskEffect: TypeAlias = Literal["reads", "changes", "concurrent"]


# TaskId
TaskId: TypeAlias = "str"


class Tenant(TypedDict):
    """A tenant: the outer wall of isolation."""

    # Its id.
    id: TenantId
    # Its name, unique on the platform.
    slug: str
    # What people read.
    display_name: str
    # Labels.
    labels: Labels
    # When it was made.
    created_at: str
    # When it last changed.
    updated_at: str
    # For `If-Match`.
    version: int


class TenantCreate(TypedDict):
    """A tenant to be made."""

    # Its name, unique on the platform.
    slug: str
    # What people read; the slug if not given.
    display_name: NotRequired[str]
    # Labels.
    labels: NotRequired[Labels]


# TenantId
TenantId: TypeAlias = "str"


class TenantPage(TypedDict):
    """A page of tenants."""

    # This page, oldest first.
    items: list[Tenant]
    # Give it as `page_token` to get the next page; absent on the last.
    next_page_token: NotRequired[str]


class TenantUpdate(TypedDict):
    """What of a tenant can change."""

    # What people read.
    display_name: NotRequired[str]
    # Labels; they replace the old ones.
    labels: NotRequired[Labels]


class Timeline(TypedDict):
    """What an allocation went through."""

    # The states, oldest first.
    phases: list[Phase]
    # The evidence, oldest first.
    witnesses: list[Witness]


class Token(TypedDict):
    """A token. Its secret is shown once, when it is issued."""

    # Its id.
    id: TokenId
    # Whose it is.
    kind: TokenKind
    # The person it speaks for.
    user_id: NotRequired[UserId]
    # The service account it speaks for.
    service_account_id: NotRequired[ServiceAccountId]
    # What it is for.
    name: str
    # Its first letters.
    hint: str
    # When it was issued.
    created_at: str
    # When it ends by itself.
    expires_at: str
    # When it was revoked.
    revoked_at: NotRequired[str]
    # When it was last seen, to the minute.
    last_used_at: NotRequired[str]
    # For `If-Match`.
    version: int
    # The token that issued it, if a token did: it ends when that one is revoked, and no later than that one.
    parent_id: NotRequired[TokenId]
    # The token itself, in the one answer that shows it.
    secret: NotRequired[str]
    # True in a replayed answer: the secret was in the first one and is kept nowhere.
    secret_shown_once: NotRequired[bool]


# TokenId
TokenId: TypeAlias = "str"


class TokenIssue(TypedDict):
    """A token to be issued."""

    # The service account's id; yourself if not given. Nobody issues a token for another person.
    service_account: NotRequired[str]
    # What it is for.
    name: str
    # How long it lives; 90 days if not given. What a token issues ends with it at the latest; a browser session may
    # issue what lasts longer.
    expires_in_seconds: NotRequired[int]


# Whose token it is.
TokenKind: TypeAlias = Literal["personal", "service_account", "session"]


class TokenListQuery(TypedDict):
    """Whose tokens to list."""

    # How many at most; 50 if not given.
    page_size: NotRequired[int]
    # The token that the page before gave.
    page_token: NotRequired[str]
    # A service account's, by id.
    service_account: NotRequired[str]
    # Another person's, by address or id. With neither, your own.
    user: NotRequired[str]


class TokenPage(TypedDict):
    """A page of tokens."""

    # This page, oldest first.
    items: list[Token]
    # Give it as `page_token` to get the next page; absent on the last.
    next_page_token: NotRequired[str]


class TokenRotate(TypedDict):
    """A token to be replaced."""

    # How long the old one still works beside the new one; an hour if not given.
    overlap_seconds: NotRequired[int]
    # How long the new one lives; 90 days if not given.
    expires_in_seconds: NotRequired[int]


class Topology(TypedDict):
    """What an instance is made of."""

    # How its adapter calls it: opaque.
    mode: NotRequired[str]
    # Its components.
    components: list[Component]


# What is known of its signatures.
Trust: TypeAlias = Literal["trusted", "unsigned", "untrusted"]


class TrustPolicy(TypedDict):
    """What a project demands of artifacts before they may be used."""

    # The project.
    project_id: ProjectId
    # How far an artifact may go that nobody signed: `draft`, `staged`, `canary` or `active`.
    unsigned_up_to: ArtifactState
    # Whether staging needs a smoke test: a cell of the very digest that was seen running.
    smoke_to_stage: bool
    # How long an artifact stays deprecated before it can be retired.
    grace_hours: int
    # Raised whenever the keys or the rules change; verdicts count for one edition.
    policy: int
    # For `If-Match`.
    version: int


class TrustPolicySet(TypedDict):
    """Rules to be set. What is not named stays as it is."""

    # How far an artifact may go that nobody signed.
    unsigned_up_to: NotRequired[ArtifactState]
    # Whether staging needs a smoke test.
    smoke_to_stage: NotRequired[bool]
    # How long an artifact stays deprecated before it can be retired.
    grace_hours: NotRequired[int]


# What can be decided about a parked operation.
Unblock: TypeAlias = Literal["retry", "compensate", "accept_partial", "abandon"]


class User(TypedDict):
    """A person."""

    # Its id.
    id: UserId
    # The tenant that the person belongs to; platform people belong to none.
    tenant_id: NotRequired[TenantId]
    # The address, unique in the tenant.
    email: str
    # What the person is called inside of cells that have the project's people; made from the address.
    login: NotRequired[str]
    # The person's number there, user and group alike: the same in every cell, and never given to another.
    uid: NotRequired[int]
    # What people read.
    display_name: str
    # A disabled person can neither log in nor use a token.
    disabled: bool
    # Whether a password was set.
    has_password: bool
    # Labels.
    labels: Labels
    # When the person was added.
    created_at: str
    # When the entry last changed.
    updated_at: str
    # For `If-Match`.
    version: int


class UserCreate(TypedDict):
    """A person to be added."""

    # The address, unique in the tenant.
    email: str
    # What people read; the address if not given.
    display_name: NotRequired[str]
    # The tenant that the person belongs to, by slug or id; none for people who run the platform.
    tenant: NotRequired[str]
    # A first password. Without one the person cannot log in until it is set.
    password: NotRequired[str]
    # Labels.
    labels: NotRequired[Labels]


# UserId
UserId: TypeAlias = "str"


class UserListQuery(TypedDict):
    """What a list of people takes."""

    # How many at most; 50 if not given.
    page_size: NotRequired[int]
    # The token that the page before gave.
    page_token: NotRequired[str]
    # Only those with these labels: `team=ml,stage!=test`.
    labels: NotRequired[str]
    # Whose people, by slug or id; your own tenant's if not given, everybody's for operators.
    tenant: NotRequired[str]


class UserPage(TypedDict):
    """A page of people."""

    # This page, oldest first.
    items: list[User]
    # Give it as `page_token` to get the next page; absent on the last.
    next_page_token: NotRequired[str]


class UserSetPassword(TypedDict):
    """A new password."""

    # The new one.
    password: str
    # The one until now; needed when people change their own and have one.
    current_password: NotRequired[str]


class UserUpdate(TypedDict):
    """What of a person's entry can change."""

    # What people read.
    display_name: NotRequired[str]
    # Whether the person is shut out: tokens and sessions end within seconds, and come back to life if lifted.
    disabled: NotRequired[bool]
    # Labels; they replace the old ones.
    labels: NotRequired[Labels]


class Verdict(TypedDict):
    """What was found when its signatures were looked at."""

    # In a word.
    trust: Trust
    # Why no signature counts: `other_key`, `revoked_key`, `wrong_digest`, `malformed` or `bad_signature`.
    reason: NotRequired[str]
    # The same in a sentence.
    says: str
    # Whose signature counts.
    key_id: NotRequired[KeyId]
    # The digest of the signature that counts.
    signature: NotRequired[str]
    # The edition of the project's keys and rules under which it was found.
    policy: int
    # When.
    checked_at: str


class Vfs(TypedDict):
    """Virtual functions of a device."""

    # How many it can have.
    total: int
    # How many are switched on.
    active: int


class Webhook(TypedDict):
    """Events pushed to a URL, signed and in order."""

    # Its id.
    id: WebhookId
    # Its name, unique where it belongs.
    name: str
    # Whose events: a tenant's.
    tenant_id: NotRequired[TenantId]
    # Whose events: a project's. With neither, the platform's.
    project_id: NotRequired[ProjectId]
    # Where they go.
    url: str
    # Which types; empty means all.
    event_types: list[str]
    # Whether it is on.
    state: WebhookState
    # The last event that was delivered or passed over, by its number in the platform's stream; of the platform's own
    # webhooks alone.
    cursor: NotRequired[int]
    # How often the next event was tried.
    attempts: int
    # Since when nothing got through.
    failing_since: NotRequired[str]
    # The last answer or fault.
    last_result: NotRequired[str]
    # Labels.
    labels: Labels
    # When it was made.
    created_at: str
    # When it last changed.
    updated_at: str
    # For `If-Match`.
    version: int
    # The signing key, in the one answer that shows it.
    secret: NotRequired[str]
    # True in a replayed answer: the secret was in the first one and is not shown again.
    secret_shown_once: NotRequired[bool]


class WebhookCreate(TypedDict):
    """A webhook to be made."""

    # Its name, unique where it belongs.
    name: str
    # Where events go: https, or http to addresses that the operator allowed.
    url: str
    # A tenant's events, by slug or id.
    tenant: NotRequired[str]
    # A project's events, by name or id. With neither, the platform's.
    project: NotRequired[str]
    # Which types; a trailing `*` matches the rest; none means all.
    event_types: NotRequired[list[str]]
    # Labels.
    labels: NotRequired[Labels]


class WebhookDelivery(TypedDict):
    """One attempt to deliver."""

    # Its id.
    id: DeliveryId
    # Which event.
    event_id: EventId
    # That event's platform number.
    sequence: int
    # Which attempt at it, from 1.
    attempt: int
    # When.
    at: str
    # Whether the receiver answered with a success.
    delivered: bool
    # The answer or the fault.
    result: str


class WebhookDeliveryPage(TypedDict):
    """A page of attempts to deliver."""

    # This page, oldest first.
    items: list[WebhookDelivery]
    # Give it as `page_token` to get the next page; absent on the last.
    next_page_token: NotRequired[str]


# WebhookId
WebhookId: TypeAlias = "str"


class WebhookListQuery(TypedDict):
    """Whose webhooks to list."""

    # How many at most; 50 if not given.
    page_size: NotRequired[int]
    # The token that the page before gave.
    page_token: NotRequired[str]
    # A tenant's, by slug or id.
    tenant: NotRequired[str]
    # A project's, by name or id. With neither, the platform's.
    project: NotRequired[str]


class WebhookPage(TypedDict):
    """A page of webhooks."""

    # This page, oldest first.
    items: list[Webhook]
    # Give it as `page_token` to get the next page; absent on the last.
    next_page_token: NotRequired[str]


# Whether events are sent.
WebhookState: TypeAlias = Literal["enabled", "disabled", "failing"]


class WebhookUpdate(TypedDict):
    """What of a webhook can change."""

    # Where events go.
    url: NotRequired[str]
    # Which types; they replace the old ones.
    event_types: NotRequired[list[str]]
    # Switches it off, or on again: then it goes on after the last event that got through.
    enabled: NotRequired[bool]
    # Labels; they replace the old ones.
    labels: NotRequired[Labels]


class WhoAmI(TypedDict):
    """The actor of a request."""

    # `user` or `service_account`.
    kind: str
    # The actor's id.
    id: str
    # An address or a name.
    name: str
    # The tenant it belongs to.
    tenant_id: NotRequired[TenantId]
    # The project of a service account.
    project_id: NotRequired[ProjectId]
    # The roles of a person.
    roles: list[HeldRole]
    # The allow list of a service account.
    permissions: list[str]
    # The credential that was used.
    token_id: TokenId
    # When that credential ends by itself.
    expires_at: str


class Witness(TypedDict):
    """Evidence."""

    # Its id.
    id: WitnessId
    # What it is evidence for: `active`, `gone`, `wiped` or `retired`.
    transition: str
    # How we know.
    kind: WitnessKind
    # Which incarnation of the thing it speaks of.
    incarnation: int
    # By whose agent it was collected.
    node_id: NotRequired[NodeId]
    # By which task.
    task_id: NotRequired[TaskId]
    # Who attested.
    actor_id: NotRequired[str]
    # What was checked, and what was found.
    evidence: dict[str, Any]
    # When.
    at: str


# WitnessId
WitnessId: TypeAlias = "str"


# How we know.
WitnessKind: TypeAlias = Literal["witnessed", "attested", "lost"]
