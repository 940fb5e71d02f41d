"""A method for each operation. Generated from openapi/platform.json by tools/python-sdk; edit the API instead."""

from __future__ import annotations

from collections.abc import Iterator

from .connection import Connection, fresh_key, part, tag
from .generated_types import (
    AdapterPage,
    AdapterStep,
    AdapterStepComplete,
    AdapterStepFail,
    AdapterStepHeartbeat,
    AdapterStepLease,
    AdapterStepPage,
    AdapterStepProgress,
    AdapterStepState,
    AdapterTask,
    AdapterTaskCreate,
    Allocation,
    AllocationAttest,
    AllocationCreate,
    AllocationPage,
    AllocationRelease,
    AllocationResize,
    AllocationRestart,
    AllocationShape,
    AllocationState,
    AllocationUpdate,
    App,
    AppCompatibility,
    AppCreate,
    AppPage,
    AppUpdate,
    AppVersion,
    AppVersionPage,
    AppVersionPublish,
    AppVersionStep,
    ArchivedLogs,
    Artifact,
    ArtifactDemote,
    ArtifactPage,
    ArtifactPromote,
    ArtifactPublish,
    ArtifactReferences,
    ArtifactState,
    ArtifactVerify,
    AuditHead,
    AuditPage,
    CanI,
    CapacityReport,
    Cell,
    CellAct,
    CellCreate,
    CellPage,
    CellState,
    Entitlement,
    EntitlementGrant,
    EntitlementPage,
    EntitlementRevoke,
    EventPage,
    GpuProduct,
    GpuProductCreate,
    GpuProductPage,
    GpuProductUpdate,
    Granted,
    Instance,
    InstanceAct,
    InstanceCreate,
    InstanceEndpoints,
    InstancePage,
    InstanceScale,
    InstanceState,
    InstanceUpdate,
    InstanceUpgrade,
    Key,
    KeyCreate,
    KeyPage,
    KeyRevoke,
    Leased,
    LeasedStep,
    Logs,
    ManifestSchema,
    Member,
    MemberAct,
    MemberAdd,
    MemberPage,
    MemberState,
    MemberTake,
    Network,
    NetworkList,
    Node,
    NodeApprove,
    NodeAudit,
    NodeDrain,
    NodeEnrol,
    NodeEnrolment,
    NodePage,
    NodeReason,
    NodeRetire,
    NodeState,
    NodeUpdate,
    Nothing,
    Operation,
    OperationCancel,
    OperationPage,
    OperationResolve,
    OperationState,
    OperatorTokenMint,
    Project,
    ProjectCreate,
    ProjectPage,
    ProjectUpdate,
    Published,
    Purpose,
    Quota,
    QuotaSet,
    Removed,
    Repository,
    RepositoryPage,
    RoleBinding,
    RoleBindingCreate,
    RoleBindingPage,
    RuntimeSecret,
    RuntimeSecretIssue,
    RuntimeSecretPage,
    RuntimeSecretRevoke,
    Secret,
    SecretCreate,
    SecretPage,
    SecretRotate,
    ServiceAccount,
    ServiceAccountCreate,
    ServiceAccountPage,
    ServiceAccountUpdate,
    Session,
    SessionCreate,
    Slot,
    SlotApprove,
    SlotPage,
    SlotQuarantine,
    SshKey,
    SshKeyCreate,
    SshKeyPage,
    Started,
    Status,
    Stream,
    StreamCreate,
    TagPage,
    Tenant,
    TenantCreate,
    TenantPage,
    TenantUpdate,
    Timeline,
    Token,
    TokenIssue,
    TokenPage,
    TokenRotate,
    TrustPolicy,
    TrustPolicySet,
    User,
    UserCreate,
    UserPage,
    UserSetPassword,
    UserUpdate,
    Webhook,
    WebhookCreate,
    WebhookDeliveryPage,
    WebhookPage,
    WebhookUpdate,
    WhoAmI,
    Witness,
)


class Client(Connection):
    """The platform. Every method raises Problem when the platform refuses and Lost when nobody knows what it did.
    Not here, because it needs a web socket: stream_join."""

    def whoami(self) -> WhoAmI:
        """Show your identity."""
        return self.call(
            "GET",
            "/v1/whoami",
        )

    def can_i(self, *, permission: str, tenant: str | None = None, project: str | None = None) -> CanI:
        """Check whether you have a permission, and why."""
        return self.call(
            "GET",
            "/v1/can-i",
            query={"permission": permission, "tenant": tenant, "project": project},
        )

    def session_create(self, body: SessionCreate, *, idempotency_key: str | None = None) -> Session:
        """Log in with a browser. Sets the `muster_session` cookie. Programs use tokens instead. A repeat with the
        same `Idempotency-Key` is another login: a stored response would have no cookie."""
        return self.call(
            "POST",
            "/v1/sessions",
            body=body,
            headers={"Idempotency-Key": idempotency_key or fresh_key()},
        )

    def session_delete(self, body: Nothing, *, idempotency_key: str | None = None) -> Removed:
        """Log out: ends the session of this request."""
        return self.call(
            "POST",
            "/v1/sessions/current/end",
            body=body,
            headers={"Idempotency-Key": idempotency_key or fresh_key()},
        )

    def tenant_create(self, body: TenantCreate, *, idempotency_key: str | None = None) -> Tenant:
        """Create a tenant."""
        return self.call(
            "POST",
            "/v1/tenants",
            body=body,
            headers={"Idempotency-Key": idempotency_key or fresh_key()},
        )

    def tenant_list(
        self,
        *,
        page_size: int | None = None,
        page_token: str | None = None,
        labels: str | None = None,
    ) -> TenantPage:
        """List the tenants you have access to."""
        return self.call(
            "GET",
            "/v1/tenants",
            query={"page_size": page_size, "page_token": page_token, "labels": labels},
        )

    def tenant_get(self, tenant: str) -> Tenant:
        """Show a tenant."""
        return self.call(
            "GET",
            f"/v1/tenants/{part(tenant)}",
        )

    def tenant_update(self, tenant: str, body: TenantUpdate, *, if_match: int | str) -> Tenant:
        """Change a tenant's description."""
        return self.call(
            "PATCH",
            f"/v1/tenants/{part(tenant)}",
            body=body,
            headers={"If-Match": tag(if_match)},
        )

    def tenant_delete(self, tenant: str, *, if_match: int | str, cascade: bool | None = None) -> Removed:
        """Remove a tenant. Removes the tenant; with `cascade` also its projects, people, service accounts, tokens,
        webhooks and the records of ended allocations. A tenant with a live allocation cannot be removed: release
        it first. Its encryption keys are destroyed. Its audit chain stays."""
        return self.call(
            "DELETE",
            f"/v1/tenants/{part(tenant)}",
            query={"cascade": cascade},
            headers={"If-Match": tag(if_match)},
        )

    def tenant_rotate_key(self, tenant: str, body: Nothing, *, idempotency_key: str | None = None) -> Tenant:
        """Rotate a tenant's encryption key. Content sealed under the old key is sealed again in the background,
        without interruption."""
        return self.call(
            "POST",
            f"/v1/tenants/{part(tenant)}/rotate-key",
            body=body,
            headers={"Idempotency-Key": idempotency_key or fresh_key()},
        )

    def project_create(self, tenant: str, body: ProjectCreate, *, idempotency_key: str | None = None) -> Project:
        """Create a project in a tenant."""
        return self.call(
            "POST",
            f"/v1/tenants/{part(tenant)}/projects",
            body=body,
            headers={"Idempotency-Key": idempotency_key or fresh_key()},
        )

    def project_list(
        self,
        *,
        page_size: int | None = None,
        page_token: str | None = None,
        labels: str | None = None,
    ) -> ProjectPage:
        """List the projects you have access to."""
        return self.call(
            "GET",
            "/v1/projects",
            query={"page_size": page_size, "page_token": page_token, "labels": labels},
        )

    def project_get(self, project: str) -> Project:
        """Show a project."""
        return self.call(
            "GET",
            f"/v1/projects/{part(project)}",
        )

    def project_update(self, project: str, body: ProjectUpdate, *, if_match: int | str) -> Project:
        """Change a project's description."""
        return self.call(
            "PATCH",
            f"/v1/projects/{part(project)}",
            body=body,
            headers={"If-Match": tag(if_match)},
        )

    def project_delete(self, project: str, *, if_match: int | str, cascade: bool | None = None) -> Removed:
        """Remove a project. Removes the project; with `cascade` also its service accounts, tokens, role bindings,
        webhooks and the records of ended allocations. A project with a live allocation cannot be removed: release
        it first."""
        return self.call(
            "DELETE",
            f"/v1/projects/{part(project)}",
            query={"cascade": cascade},
            headers={"If-Match": tag(if_match)},
        )

    def user_create(self, body: UserCreate, *, idempotency_key: str | None = None) -> User:
        """Add a person."""
        return self.call(
            "POST",
            "/v1/users",
            body=body,
            headers={"Idempotency-Key": idempotency_key or fresh_key()},
        )

    def user_list(
        self,
        *,
        page_size: int | None = None,
        page_token: str | None = None,
        labels: str | None = None,
        tenant: str | None = None,
    ) -> UserPage:
        """List people."""
        return self.call(
            "GET",
            "/v1/users",
            query={"page_size": page_size, "page_token": page_token, "labels": labels, "tenant": tenant},
        )

    def user_get(self, user: str) -> User:
        """Show a person. People can always see their own entry."""
        return self.call(
            "GET",
            f"/v1/users/{part(user)}",
        )

    def user_update(self, user: str, body: UserUpdate, *, if_match: int | str) -> User:
        """Change a person's entry, or disable or enable the person."""
        return self.call(
            "PATCH",
            f"/v1/users/{part(user)}",
            body=body,
            headers={"If-Match": tag(if_match)},
        )

    def user_delete(self, user: str, *, if_match: int | str) -> Removed:
        """Remove a person, with tokens, sessions and role bindings."""
        return self.call(
            "DELETE",
            f"/v1/users/{part(user)}",
            headers={"If-Match": tag(if_match)},
        )

    def user_set_password(self, user: str, body: UserSetPassword, *, idempotency_key: str | None = None) -> User:
        """Set a password. Every token and session of the person ends. People can always set their own."""
        return self.call(
            "POST",
            f"/v1/users/{part(user)}/set-password",
            body=body,
            headers={"Idempotency-Key": idempotency_key or fresh_key()},
        )

    def role_binding_create(self, body: RoleBindingCreate, *, idempotency_key: str | None = None) -> RoleBinding:
        """Bind a role to a person. Only a role within your own can be given."""
        return self.call(
            "POST",
            "/v1/role-bindings",
            body=body,
            headers={"Idempotency-Key": idempotency_key or fresh_key()},
        )

    def role_binding_list(
        self,
        *,
        page_size: int | None = None,
        page_token: str | None = None,
        tenant: str | None = None,
        project: str | None = None,
    ) -> RoleBindingPage:
        """List role bindings."""
        return self.call(
            "GET",
            "/v1/role-bindings",
            query={"page_size": page_size, "page_token": page_token, "tenant": tenant, "project": project},
        )

    def role_binding_get(self, role_binding: str) -> RoleBinding:
        """Show a role binding."""
        return self.call(
            "GET",
            f"/v1/role-bindings/{part(role_binding)}",
        )

    def role_binding_delete(self, role_binding: str, *, if_match: int | str) -> Removed:
        """Remove a role binding."""
        return self.call(
            "DELETE",
            f"/v1/role-bindings/{part(role_binding)}",
            headers={"If-Match": tag(if_match)},
        )

    def service_account_create(
        self,
        project: str,
        body: ServiceAccountCreate,
        *,
        idempotency_key: str | None = None,
    ) -> ServiceAccount:
        """Create a service account."""
        return self.call(
            "POST",
            f"/v1/projects/{part(project)}/service-accounts",
            body=body,
            headers={"Idempotency-Key": idempotency_key or fresh_key()},
        )

    def service_account_list(
        self,
        project: str,
        *,
        page_size: int | None = None,
        page_token: str | None = None,
        labels: str | None = None,
    ) -> ServiceAccountPage:
        """List a project's service accounts."""
        return self.call(
            "GET",
            f"/v1/projects/{part(project)}/service-accounts",
            query={"page_size": page_size, "page_token": page_token, "labels": labels},
        )

    def service_account_get(self, project: str, service_account: str) -> ServiceAccount:
        """Show a service account."""
        return self.call(
            "GET",
            f"/v1/projects/{part(project)}/service-accounts/{part(service_account)}",
        )

    def service_account_update(
        self,
        project: str,
        service_account: str,
        body: ServiceAccountUpdate,
        *,
        if_match: int | str,
    ) -> ServiceAccount:
        """Change a service account's allow list or description."""
        return self.call(
            "PATCH",
            f"/v1/projects/{part(project)}/service-accounts/{part(service_account)}",
            body=body,
            headers={"If-Match": tag(if_match)},
        )

    def service_account_delete(self, project: str, service_account: str, *, if_match: int | str) -> Removed:
        """Remove a service account and its tokens."""
        return self.call(
            "DELETE",
            f"/v1/projects/{part(project)}/service-accounts/{part(service_account)}",
            headers={"If-Match": tag(if_match)},
        )

    def token_issue(self, body: TokenIssue, *, idempotency_key: str | None = None) -> Token:
        """Issue a token for yourself or for a service account."""
        return self.call(
            "POST",
            "/v1/tokens",
            body=body,
            headers={"Idempotency-Key": idempotency_key or fresh_key()},
        )

    def token_list(
        self,
        *,
        page_size: int | None = None,
        page_token: str | None = None,
        service_account: str | None = None,
        user: str | None = None,
    ) -> TokenPage:
        """List tokens."""
        return self.call(
            "GET",
            "/v1/tokens",
            query={"page_size": page_size, "page_token": page_token, "service_account": service_account, "user": user},
        )

    def token_get(self, token: str) -> Token:
        """Show a token."""
        return self.call(
            "GET",
            f"/v1/tokens/{part(token)}",
        )

    def token_rotate(self, token: str, body: TokenRotate, *, idempotency_key: str | None = None) -> Token:
        """Replace a token by a new one, with an overlap."""
        return self.call(
            "POST",
            f"/v1/tokens/{part(token)}/rotate",
            body=body,
            headers={"Idempotency-Key": idempotency_key or fresh_key()},
        )

    def token_revoke(self, token: str, body: Nothing, *, idempotency_key: str | None = None) -> Token:
        """Revoke a token: it and every stream opened with it end within seconds."""
        return self.call(
            "POST",
            f"/v1/tokens/{part(token)}/revoke",
            body=body,
            headers={"Idempotency-Key": idempotency_key or fresh_key()},
        )

    def node_enrol(self, body: NodeEnrol, *, idempotency_key: str | None = None) -> NodeEnrolment:
        """Issue a join token for one machine. The token is shown once and can be used once; only a repeat with the
        same key, by a machine that missed the response, gets it again until the token expires. A new node gets no
        work until it is approved. With `node`, an existing node gets a new certificate, and its old one becomes
        invalid at the join."""
        return self.call(
            "POST",
            "/v1/nodes/enrol",
            body=body,
            headers={"Idempotency-Key": idempotency_key or fresh_key()},
        )

    def node_list(
        self,
        *,
        page_size: int | None = None,
        page_token: str | None = None,
        labels: str | None = None,
        state: NodeState | None = None,
    ) -> NodePage:
        """List nodes."""
        return self.call(
            "GET",
            "/v1/nodes",
            query={"page_size": page_size, "page_token": page_token, "labels": labels, "state": state},
        )

    def node_get(self, node: str) -> Node:
        """Show a node, its hardware and its allocations."""
        return self.call(
            "GET",
            f"/v1/nodes/{part(node)}",
        )

    def node_update(self, node: str, body: NodeUpdate, *, if_match: int | str) -> Node:
        """Change a node's labels."""
        return self.call(
            "PATCH",
            f"/v1/nodes/{part(node)}",
            body=body,
            headers={"If-Match": tag(if_match)},
        )

    def node_approve(
        self,
        node: str,
        body: NodeApprove,
        *,
        if_match: int | str,
        idempotency_key: str | None = None,
    ) -> Node:
        """Approve a node's hardware for use. Names the hardware by its digest, so that the approval is for the
        hardware that was shown. Its GPUs become usable, GPUs that are gone are retired; a quarantined slot stays
        quarantined."""
        return self.call(
            "POST",
            f"/v1/nodes/{part(node)}/approve",
            body=body,
            headers={"If-Match": tag(if_match), "Idempotency-Key": idempotency_key or fresh_key()},
        )

    def node_cordon(self, node: str, body: NodeReason, *, idempotency_key: str | None = None) -> Node:
        """Cordon a node: it gets no new work. Its allocations stay. `node_uncordon` reverts it."""
        return self.call(
            "POST",
            f"/v1/nodes/{part(node)}/cordon",
            body=body,
            headers={"Idempotency-Key": idempotency_key or fresh_key()},
        )

    def node_uncordon(self, node: str, body: NodeReason, *, idempotency_key: str | None = None) -> Node:
        """Uncordon a node."""
        return self.call(
            "POST",
            f"/v1/nodes/{part(node)}/uncordon",
            body=body,
            headers={"Idempotency-Key": idempotency_key or fresh_key()},
        )

    def node_drain(self, node: str, body: NodeDrain, *, idempotency_key: str | None = None) -> Started:
        """Drain a node. Prevents new allocations, and waits until its tenants have released theirs. At the deadline,
        `force` releases the rest, protected or not; otherwise the operation is blocked."""
        return self.call(
            "POST",
            f"/v1/nodes/{part(node)}/drain",
            body=body,
            headers={"Idempotency-Key": idempotency_key or fresh_key()},
        )

    def node_audit(self, node: str, body: NodeAudit, *, idempotency_key: str | None = None) -> Started:
        """Compare a node with the database, in both directions. Finds resources on the node without rows (orphans),
        and rows without resources (missing). With `repair`, the node removes the orphans and is verified again;
        missing resources are only reported."""
        return self.call(
            "POST",
            f"/v1/nodes/{part(node)}/audit",
            body=body,
            headers={"Idempotency-Key": idempotency_key or fresh_key()},
        )

    def node_retire(self, node: str, body: NodeRetire, *, idempotency_key: str | None = None) -> Started:
        """Retire an empty node from the fleet. Verifies that no resource of the platform is left on it; its
        certificate then becomes invalid. The node must be drained first."""
        return self.call(
            "POST",
            f"/v1/nodes/{part(node)}/retire",
            body=body,
            headers={"Idempotency-Key": idempotency_key or fresh_key()},
        )

    def slot_list(self, node: str) -> SlotPage:
        """List a node's slots with their allocations."""
        return self.call(
            "GET",
            f"/v1/nodes/{part(node)}/slots",
        )

    def slot_quarantine(self, slot: str, body: SlotQuarantine, *, idempotency_key: str | None = None) -> Slot:
        """Quarantine a slot. An allocation that holds it keeps it; after its release, the slot cannot be claimed."""
        return self.call(
            "POST",
            f"/v1/slots/{part(slot)}/quarantine",
            body=body,
            headers={"Idempotency-Key": idempotency_key or fresh_key()},
        )

    def slot_approve(self, slot: str, body: SlotApprove, *, idempotency_key: str | None = None) -> Slot:
        """Approve a quarantined or new slot. Nothing is verified: the event and the audit entry record it as an
        operator's statement, with the reason."""
        return self.call(
            "POST",
            f"/v1/slots/{part(slot)}/approve",
            body=body,
            headers={"Idempotency-Key": idempotency_key or fresh_key()},
        )

    def quota_get(self, project: str) -> Quota:
        """Show a project's quota and usage."""
        return self.call(
            "GET",
            f"/v1/projects/{part(project)}/quota",
        )

    def quota_set(self, project: str, body: QuotaSet, *, if_match: int | str) -> Quota:
        """Set a project's quota. Sets the given limits and leaves the others. A limit below the current usage
        removes nothing; it only prevents growth."""
        return self.call(
            "PATCH",
            f"/v1/projects/{part(project)}/quota",
            body=body,
            headers={"If-Match": tag(if_match)},
        )

    def capacity_get(
        self,
        project: str,
        *,
        shape: AllocationShape | None = None,
        gpus: int | None = None,
        cpus: int | None = None,
        memory_mb: int | None = None,
        disk_mb: int | None = None,
    ) -> CapacityReport:
        """Show the capacity available to the project now. Answers for one allocation, which is always on one node. A
        request that does not fit comes with the reason and the smallest change that would fit."""
        return self.call(
            "GET",
            f"/v1/projects/{part(project)}/capacity",
            query={"shape": shape, "gpus": gpus, "cpus": cpus, "memory_mb": memory_mb, "disk_mb": disk_mb},
        )

    def allocation_create(
        self,
        project: str,
        body: AllocationCreate,
        *,
        idempotency_key: str | None = None,
    ) -> Started:
        """Create an allocation on a node. The operation chooses a node, claims the capacity, provisions the sandbox
        on the node and verifies it; only then is the allocation active."""
        return self.call(
            "POST",
            f"/v1/projects/{part(project)}/allocations",
            body=body,
            headers={"Idempotency-Key": idempotency_key or fresh_key()},
        )

    def allocation_list(
        self,
        project: str,
        *,
        page_size: int | None = None,
        page_token: str | None = None,
        labels: str | None = None,
        state: AllocationState | None = None,
    ) -> AllocationPage:
        """List a project's allocations."""
        return self.call(
            "GET",
            f"/v1/projects/{part(project)}/allocations",
            query={"page_size": page_size, "page_token": page_token, "labels": labels, "state": state},
        )

    def allocation_get(self, project: str, allocation: str) -> Allocation:
        """Show an allocation."""
        return self.call(
            "GET",
            f"/v1/projects/{part(project)}/allocations/{part(allocation)}",
        )

    def allocation_update(
        self,
        project: str,
        allocation: str,
        body: AllocationUpdate,
        *,
        if_match: int | str,
    ) -> Allocation:
        """Change an allocation's labels, expiry or protection."""
        return self.call(
            "PATCH",
            f"/v1/projects/{part(project)}/allocations/{part(allocation)}",
            body=body,
            headers={"If-Match": tag(if_match)},
        )

    def allocation_timeline(self, project: str, allocation: str) -> Timeline:
        """Show the history of an allocation, with durations and evidence."""
        return self.call(
            "GET",
            f"/v1/projects/{part(project)}/allocations/{part(allocation)}/timeline",
        )

    def allocation_release(
        self,
        project: str,
        allocation: str,
        body: AllocationRelease,
        *,
        idempotency_key: str | None = None,
    ) -> Started:
        """Release an allocation. Destroys its sandbox, verifies that it is gone, wipes its devices and disk,
        verifies the wipe, and only then frees them. Supersedes every operation in progress on it. With `cascade`
        the members of instances in it are removed first, which also needs `member.remove`, and with `force`
        `member.force_remove`. With `force` it ends `partial`, reason `quarantined`, if the node is unreachable;
        the capacity stays claimed until the node returns or an operator attests."""
        return self.call(
            "POST",
            f"/v1/projects/{part(project)}/allocations/{part(allocation)}/release",
            body=body,
            headers={"Idempotency-Key": idempotency_key or fresh_key()},
        )

    def allocation_restart(
        self,
        project: str,
        allocation: str,
        body: AllocationRestart,
        *,
        idempotency_key: str | None = None,
    ) -> Started:
        """Restart an allocation: recreate its sandbox on the same node. Stops every cell in it, destroys the
        sandbox, recreates it with a higher incarnation, and starts the cells again, each with a new incarnation
        and with its state directories. Members are drained first and join again, which also needs
        `member.recover`."""
        return self.call(
            "POST",
            f"/v1/projects/{part(project)}/allocations/{part(allocation)}/restart",
            body=body,
            headers={"Idempotency-Key": idempotency_key or fresh_key()},
        )

    def allocation_resize(
        self,
        project: str,
        allocation: str,
        body: AllocationResize,
        *,
        idempotency_key: str | None = None,
    ) -> Started:
        """Resize an allocation on the same node. CPUs and memory change while its cells run; memory cannot shrink
        below their use. A change of its GPUs needs `restart` if it has cells."""
        return self.call(
            "POST",
            f"/v1/projects/{part(project)}/allocations/{part(allocation)}/resize",
            body=body,
            headers={"Idempotency-Key": idempotency_key or fresh_key()},
        )

    def allocation_attest(
        self,
        project: str,
        allocation: str,
        body: AllocationAttest,
        *,
        idempotency_key: str | None = None,
    ) -> Witness:
        """Attest that nothing of an allocation is left. Only while its node is unreachable and its release, or the
        rollback of its creation, is blocked or waits. Its slots stay quarantined until the node is reachable and
        verified to be clean, and it is shown as attested forever."""
        return self.call(
            "POST",
            f"/v1/projects/{part(project)}/allocations/{part(allocation)}/attest",
            body=body,
            headers={"Idempotency-Key": idempotency_key or fresh_key()},
        )

    def cell_create(self, project: str, body: CellCreate, *, idempotency_key: str | None = None) -> Started:
        """Create a cell in an allocation and start its services. The cell is running when the node's agent has
        verified it and every service is ready by its own probe. A cell that does not become ready in time is
        rolled back and has failed."""
        return self.call(
            "POST",
            f"/v1/projects/{part(project)}/cells",
            body=body,
            headers={"Idempotency-Key": idempotency_key or fresh_key()},
        )

    def cell_list(
        self,
        project: str,
        *,
        page_size: int | None = None,
        page_token: str | None = None,
        labels: str | None = None,
        state: CellState | None = None,
        allocation: str | None = None,
    ) -> CellPage:
        """List a project's cells."""
        return self.call(
            "GET",
            f"/v1/projects/{part(project)}/cells",
            query={"page_size": page_size, "page_token": page_token, "labels": labels, "state": state, "allocation": allocation},
        )

    def cell_get(self, project: str, cell: str) -> Cell:
        """Show a cell."""
        return self.call(
            "GET",
            f"/v1/projects/{part(project)}/cells/{part(cell)}",
        )

    def cell_restart(self, project: str, cell: str, body: CellAct, *, idempotency_key: str | None = None) -> Started:
        """Restart a cell. Everything in it is lost except its state directories; its name, its address and its ports
        stay."""
        return self.call(
            "POST",
            f"/v1/projects/{part(project)}/cells/{part(cell)}/restart",
            body=body,
            headers={"Idempotency-Key": idempotency_key or fresh_key()},
        )

    def cell_destroy(self, project: str, cell: str, body: CellAct, *, idempotency_key: str | None = None) -> Started:
        """Destroy a cell and verify that nothing of it is left."""
        return self.call(
            "POST",
            f"/v1/projects/{part(project)}/cells/{part(cell)}/destroy",
            body=body,
            headers={"Idempotency-Key": idempotency_key or fresh_key()},
        )

    def cell_archived_logs(self, project: str, cell: str) -> ArchivedLogs:
        """Show the archived logs of a cell's services."""
        return self.call(
            "GET",
            f"/v1/projects/{part(project)}/cells/{part(cell)}/archived-logs",
        )

    def network_list(self, project: str) -> NetworkList:
        """List a project's networks with their cells and nodes."""
        return self.call(
            "GET",
            f"/v1/projects/{part(project)}/networks",
        )

    def network_get(self, project: str, network: str) -> Network:
        """Show a network with its cells and nodes."""
        return self.call(
            "GET",
            f"/v1/projects/{part(project)}/networks/{part(network)}",
        )

    def ssh_key_create(self, project: str, body: SshKeyCreate, *, idempotency_key: str | None = None) -> SshKey:
        """Add an SSH key to a project, or grant one access to an allocation. The key is written to
        `/etc/muster/authorized_keys` of every cell of the project that requests people, or of one `allocation`,
        until `expires_at`. A key of your own is valid as long as you have access to the project. A grant for
        another `user` needs `allocation`, `expires_at` and the permission to bind roles; it gives that person a
        login there and nowhere else."""
        return self.call(
            "POST",
            f"/v1/projects/{part(project)}/ssh-keys",
            body=body,
            headers={"Idempotency-Key": idempotency_key or fresh_key()},
        )

    def ssh_key_list(self, project: str, *, page_size: int | None = None, page_token: str | None = None) -> SshKeyPage:
        """List a project's SSH keys."""
        return self.call(
            "GET",
            f"/v1/projects/{part(project)}/ssh-keys",
            query={"page_size": page_size, "page_token": page_token},
        )

    def ssh_key_get(self, project: str, ssh_key: str) -> SshKey:
        """Show an SSH key."""
        return self.call(
            "GET",
            f"/v1/projects/{part(project)}/ssh-keys/{part(ssh_key)}",
        )

    def ssh_key_delete(self, project: str, ssh_key: str, *, if_match: int | str) -> Removed:
        """Remove an SSH key from a project and its cells."""
        return self.call(
            "DELETE",
            f"/v1/projects/{part(project)}/ssh-keys/{part(ssh_key)}",
            headers={"If-Match": tag(if_match)},
        )

    def stream_create(
        self,
        project: str,
        cell: str,
        body: StreamCreate,
        *,
        idempotency_key: str | None = None,
    ) -> Stream:
        """Request a terminal, a command or a transfer in a cell. The response names the path to join, within a
        minute. The request is audited, contents are not."""
        return self.call(
            "POST",
            f"/v1/projects/{part(project)}/cells/{part(cell)}/streams",
            body=body,
            headers={"Idempotency-Key": idempotency_key or fresh_key()},
        )

    def stream_logs(self, project: str, cell: str, body: Logs, *, idempotency_key: str | None = None) -> Stream:
        """Request the logs of a cell's services. The response names the path to join, within a minute. For cells
        that are gone, see cell_archived_logs."""
        return self.call(
            "POST",
            f"/v1/projects/{part(project)}/cells/{part(cell)}/logs",
            body=body,
            headers={"Idempotency-Key": idempotency_key or fresh_key()},
        )

    def repository_list(
        self,
        project: str,
        *,
        page_size: int | None = None,
        page_token: str | None = None,
    ) -> RepositoryPage:
        """List a project's repositories."""
        return self.call(
            "GET",
            f"/v1/projects/{part(project)}/repositories",
            query={"page_size": page_size, "page_token": page_token},
        )

    def repository_get(self, project: str, repository: str) -> Repository:
        """Show a repository."""
        return self.call(
            "GET",
            f"/v1/projects/{part(project)}/repositories/{part(repository)}",
        )

    def repository_delete(self, project: str, repository: str, *, if_match: int | str) -> Removed:
        """Remove a repository and everything in it. Refused while an artifact in it is staged, canary, active or
        deprecated."""
        return self.call(
            "DELETE",
            f"/v1/projects/{part(project)}/repositories/{part(repository)}",
            headers={"If-Match": tag(if_match)},
        )

    def repository_tags(
        self,
        project: str,
        repository: str,
        *,
        page_size: int | None = None,
        page_token: str | None = None,
    ) -> TagPage:
        """List the tags of a repository."""
        return self.call(
            "GET",
            f"/v1/projects/{part(project)}/repositories/{part(repository)}/tags",
            query={"page_size": page_size, "page_token": page_token},
        )

    def artifact_publish(self, project: str, body: ArtifactPublish, *, idempotency_key: str | None = None) -> Artifact:
        """Publish content of a repository as an artifact. Content pushed with a tag (`podman push`, `skopeo copy`,
        `muster artifact push`) is published by the push. This publishes a digest without a tag, or one of another
        registry."""
        return self.call(
            "POST",
            f"/v1/projects/{part(project)}/artifacts",
            body=body,
            headers={"Idempotency-Key": idempotency_key or fresh_key()},
        )

    def artifact_list(
        self,
        project: str,
        *,
        page_size: int | None = None,
        page_token: str | None = None,
        labels: str | None = None,
        state: ArtifactState | None = None,
        repository: str | None = None,
        digest: str | None = None,
    ) -> ArtifactPage:
        """List a project's artifacts."""
        return self.call(
            "GET",
            f"/v1/projects/{part(project)}/artifacts",
            query={"page_size": page_size, "page_token": page_token, "labels": labels, "state": state, "repository": repository, "digest": digest},
        )

    def artifact_get(self, project: str, artifact: str) -> Artifact:
        """Show an artifact. Name an artifact by its id, by `repository@sha256:…` or by `repository:tag`."""
        return self.call(
            "GET",
            f"/v1/projects/{part(project)}/artifacts/{part(artifact)}",
        )

    def artifact_delete(self, project: str, artifact: str, *, if_match: int | str) -> Removed:
        """Remove an artifact that is a draft or retired, and its content."""
        return self.call(
            "DELETE",
            f"/v1/projects/{part(project)}/artifacts/{part(artifact)}",
            headers={"If-Match": tag(if_match)},
        )

    def artifact_verify(
        self,
        project: str,
        artifact: str,
        body: ArtifactVerify,
        *,
        idempotency_key: str | None = None,
    ) -> Artifact:
        """Verify an artifact's content and signatures now. Reads and hashes every byte, and verifies every signature
        of its digest in the registry with the project's keys."""
        return self.call(
            "POST",
            f"/v1/projects/{part(project)}/artifacts/{part(artifact)}/verify",
            body=body,
            headers={"Idempotency-Key": idempotency_key or fresh_key()},
        )

    def artifact_promote(
        self,
        project: str,
        artifact: str,
        body: ArtifactPromote,
        *,
        idempotency_key: str | None = None,
    ) -> Artifact:
        """Promote an artifact: staged, canary, active. Each promotion verifies its signatures. Staging lints it. An
        artifact that becomes active makes the active one of its line deprecated, in the same transaction."""
        return self.call(
            "POST",
            f"/v1/projects/{part(project)}/artifacts/{part(artifact)}/promote",
            body=body,
            headers={"Idempotency-Key": idempotency_key or fresh_key()},
        )

    def artifact_demote(
        self,
        project: str,
        artifact: str,
        body: ArtifactDemote,
        *,
        idempotency_key: str | None = None,
    ) -> Artifact:
        """Demote an artifact: canary to staged, active to deprecated, deprecated to retired. It can be retired when
        its grace period is over and nothing live was created from it."""
        return self.call(
            "POST",
            f"/v1/projects/{part(project)}/artifacts/{part(artifact)}/demote",
            body=body,
            headers={"Idempotency-Key": idempotency_key or fresh_key()},
        )

    def artifact_references(self, project: str, artifact: str) -> ArtifactReferences:
        """Show everything that depends on an artifact, from signature to running cell."""
        return self.call(
            "GET",
            f"/v1/projects/{part(project)}/artifacts/{part(artifact)}/references",
        )

    def key_create(self, project: str, body: KeyCreate, *, idempotency_key: str | None = None) -> Key:
        """Trust a publisher's key in a project."""
        return self.call(
            "POST",
            f"/v1/projects/{part(project)}/keys",
            body=body,
            headers={"Idempotency-Key": idempotency_key or fresh_key()},
        )

    def key_list(self, project: str, *, page_size: int | None = None, page_token: str | None = None) -> KeyPage:
        """List the keys that a project trusts or trusted."""
        return self.call(
            "GET",
            f"/v1/projects/{part(project)}/keys",
            query={"page_size": page_size, "page_token": page_token},
        )

    def key_get(self, project: str, key: str) -> Key:
        """Show a publisher's key."""
        return self.call(
            "GET",
            f"/v1/projects/{part(project)}/keys/{part(key)}",
        )

    def key_revoke(self, project: str, key: str, body: KeyRevoke, *, idempotency_key: str | None = None) -> Key:
        """Revoke a publisher's key. From then on, nothing signed only by this key can start. Running cells continue."""
        return self.call(
            "POST",
            f"/v1/projects/{part(project)}/keys/{part(key)}/revoke",
            body=body,
            headers={"Idempotency-Key": idempotency_key or fresh_key()},
        )

    def trust_policy_get(self, project: str) -> TrustPolicy:
        """Show a project's trust policy."""
        return self.call(
            "GET",
            f"/v1/projects/{part(project)}/trust-policy",
        )

    def trust_policy_set(self, project: str, body: TrustPolicySet, *, if_match: int | str) -> TrustPolicy:
        """Change a project's trust policy."""
        return self.call(
            "PATCH",
            f"/v1/projects/{part(project)}/trust-policy",
            body=body,
            headers={"If-Match": tag(if_match)},
        )

    def secret_create(self, project: str, body: SecretCreate, *, idempotency_key: str | None = None) -> Secret:
        """Create a secret for a project's apps. It is sealed before it is written, never shown again, and delivered
        to cells that name it as a file in memory."""
        return self.call(
            "POST",
            f"/v1/projects/{part(project)}/secrets",
            body=body,
            headers={"Idempotency-Key": idempotency_key or fresh_key()},
        )

    def secret_list(self, project: str, *, page_size: int | None = None, page_token: str | None = None) -> SecretPage:
        """List a project's secrets, without their contents."""
        return self.call(
            "GET",
            f"/v1/projects/{part(project)}/secrets",
            query={"page_size": page_size, "page_token": page_token},
        )

    def secret_get(self, project: str, secret: str) -> Secret:
        """Show a secret, without its content."""
        return self.call(
            "GET",
            f"/v1/projects/{part(project)}/secrets/{part(secret)}",
        )

    def secret_delete(self, project: str, secret: str, *, if_match: int | str) -> Removed:
        """Remove a secret. Refused while a live cell names it."""
        return self.call(
            "DELETE",
            f"/v1/projects/{part(project)}/secrets/{part(secret)}",
            headers={"If-Match": tag(if_match)},
        )

    def secret_rotate(
        self,
        project: str,
        secret: str,
        body: SecretRotate,
        *,
        idempotency_key: str | None = None,
    ) -> Secret:
        """Rotate a secret. Cells created from then on get the new content; running cells keep the old one until they
        restart."""
        return self.call(
            "POST",
            f"/v1/projects/{part(project)}/secrets/{part(secret)}/rotate",
            body=body,
            headers={"Idempotency-Key": idempotency_key or fresh_key()},
        )

    def runtime_secret_issue(
        self,
        project: str,
        body: RuntimeSecretIssue,
        *,
        idempotency_key: str | None = None,
    ) -> RuntimeSecret:
        """Issue a runtime secret for a purpose. Only for service accounts, and only for purposes in their allow
        list: `runtime_secret.artifact_pull`, `runtime_secret.cluster_bootstrap`."""
        return self.call(
            "POST",
            f"/v1/projects/{part(project)}/runtime-secrets",
            body=body,
            headers={"Idempotency-Key": idempotency_key or fresh_key()},
        )

    def runtime_secret_list(
        self,
        project: str,
        *,
        page_size: int | None = None,
        page_token: str | None = None,
        purpose: Purpose | None = None,
    ) -> RuntimeSecretPage:
        """List runtime secrets, without their contents."""
        return self.call(
            "GET",
            f"/v1/projects/{part(project)}/runtime-secrets",
            query={"page_size": page_size, "page_token": page_token, "purpose": purpose},
        )

    def runtime_secret_get(self, project: str, runtime_secret: str) -> RuntimeSecret:
        """Show a runtime secret, without its content."""
        return self.call(
            "GET",
            f"/v1/projects/{part(project)}/runtime-secrets/{part(runtime_secret)}",
        )

    def runtime_secret_revoke(
        self,
        project: str,
        runtime_secret: str,
        body: RuntimeSecretRevoke,
        *,
        idempotency_key: str | None = None,
    ) -> RuntimeSecret:
        """Revoke a runtime secret."""
        return self.call(
            "POST",
            f"/v1/projects/{part(project)}/runtime-secrets/{part(runtime_secret)}/revoke",
            body=body,
            headers={"Idempotency-Key": idempotency_key or fresh_key()},
        )

    def app_create(self, project: str, body: AppCreate, *, idempotency_key: str | None = None) -> App:
        """Create an app that this project publishes."""
        return self.call(
            "POST",
            f"/v1/projects/{part(project)}/apps",
            body=body,
            headers={"Idempotency-Key": idempotency_key or fresh_key()},
        )

    def app_list(
        self,
        project: str,
        *,
        page_size: int | None = None,
        page_token: str | None = None,
        labels: str | None = None,
        own: bool | None = None,
    ) -> AppPage:
        """List the apps in a project's catalog."""
        return self.call(
            "GET",
            f"/v1/projects/{part(project)}/apps",
            query={"page_size": page_size, "page_token": page_token, "labels": labels, "own": own},
        )

    def app_get(self, project: str, app: str) -> App:
        """Show an app."""
        return self.call(
            "GET",
            f"/v1/projects/{part(project)}/apps/{part(app)}",
        )

    def app_update(self, project: str, app: str, body: AppUpdate, *, if_match: int | str) -> App:
        """Change an app's description or audience."""
        return self.call(
            "PATCH",
            f"/v1/projects/{part(project)}/apps/{part(app)}",
            body=body,
            headers={"If-Match": tag(if_match)},
        )

    def app_delete(self, project: str, app: str, *, if_match: int | str) -> Removed:
        """Remove an unused app and its releases."""
        return self.call(
            "DELETE",
            f"/v1/projects/{part(project)}/apps/{part(app)}",
            headers={"If-Match": tag(if_match)},
        )

    def app_compatibility(
        self,
        project: str,
        app: str,
        *,
        version: str | None = None,
        shape: AllocationShape | None = None,
        components: str | None = None,
        allocations: int | None = None,
    ) -> AppCompatibility:
        """Check where an app fits, before anything is spent. Each answer has its reasons and, if the app does not
        fit, the smallest change that would make it fit."""
        return self.call(
            "GET",
            f"/v1/projects/{part(project)}/apps/{part(app)}/compatibility",
            query={"version": version, "shape": shape, "components": components, "allocations": allocations},
        )

    def app_schema(self) -> ManifestSchema:
        """Show the JSON schema of manifests."""
        return self.call(
            "GET",
            "/v1/manifest-schema",
        )

    def app_version_publish(
        self,
        project: str,
        app: str,
        body: AppVersionPublish,
        *,
        idempotency_key: str | None = None,
    ) -> Published:
        """Publish a release. Reports all faults of the manifest at once. A published release never changes, except
        for its state."""
        return self.call(
            "POST",
            f"/v1/projects/{part(project)}/apps/{part(app)}/versions",
            body=body,
            headers={"Idempotency-Key": idempotency_key or fresh_key()},
        )

    def app_version_list(
        self,
        project: str,
        app: str,
        *,
        page_size: int | None = None,
        page_token: str | None = None,
    ) -> AppVersionPage:
        """List the releases of an app."""
        return self.call(
            "GET",
            f"/v1/projects/{part(project)}/apps/{part(app)}/versions",
            query={"page_size": page_size, "page_token": page_token},
        )

    def app_version_get(self, project: str, app: str, app_version: str) -> AppVersion:
        """Show a release with its manifest."""
        return self.call(
            "GET",
            f"/v1/projects/{part(project)}/apps/{part(app)}/versions/{part(app_version)}",
        )

    def app_version_promote(
        self,
        project: str,
        app: str,
        app_version: str,
        body: AppVersionStep,
        *,
        idempotency_key: str | None = None,
    ) -> AppVersion:
        """Promote a release. A release is never ahead of its artifacts. A new active release makes the previous one
        deprecated."""
        return self.call(
            "POST",
            f"/v1/projects/{part(project)}/apps/{part(app)}/versions/{part(app_version)}/promote",
            body=body,
            headers={"Idempotency-Key": idempotency_key or fresh_key()},
        )

    def app_version_demote(
        self,
        project: str,
        app: str,
        app_version: str,
        body: AppVersionStep,
        *,
        idempotency_key: str | None = None,
    ) -> AppVersion:
        """Demote or retire a release. A release can be retired when no instance runs it or may roll back to it, and
        its grace period is over."""
        return self.call(
            "POST",
            f"/v1/projects/{part(project)}/apps/{part(app)}/versions/{part(app_version)}/demote",
            body=body,
            headers={"Idempotency-Key": idempotency_key or fresh_key()},
        )

    def entitlement_grant(
        self,
        project: str,
        body: EntitlementGrant,
        *,
        idempotency_key: str | None = None,
    ) -> Granted:
        """Entitle a project to launch an app, and consent to its operator account. Creates an account in the project
        with exactly the permissions consented to; the publisher's adapter can mint short-lived tokens for it."""
        return self.call(
            "POST",
            f"/v1/projects/{part(project)}/entitlements",
            body=body,
            headers={"Idempotency-Key": idempotency_key or fresh_key()},
        )

    def entitlement_list(
        self,
        project: str,
        *,
        page_size: int | None = None,
        page_token: str | None = None,
        published: bool | None = None,
    ) -> EntitlementPage:
        """List a project's entitlements, or the consumers of its apps."""
        return self.call(
            "GET",
            f"/v1/projects/{part(project)}/entitlements",
            query={"page_size": page_size, "page_token": page_token, "published": published},
        )

    def entitlement_get(self, project: str, entitlement: str) -> Entitlement:
        """Show an entitlement."""
        return self.call(
            "GET",
            f"/v1/projects/{part(project)}/entitlements/{part(entitlement)}",
        )

    def entitlement_revoke(
        self,
        project: str,
        entitlement: str,
        body: EntitlementRevoke,
        *,
        idempotency_key: str | None = None,
    ) -> Entitlement:
        """Revoke an entitlement; running instances stay operable until decommissioned, or are cut off."""
        return self.call(
            "POST",
            f"/v1/projects/{part(project)}/entitlements/{part(entitlement)}/revoke",
            body=body,
            headers={"Idempotency-Key": idempotency_key or fresh_key()},
        )

    def operator_token_mint(
        self,
        project: str,
        body: OperatorTokenMint,
        *,
        idempotency_key: str | None = None,
    ) -> Token:
        """Mint a short-lived token for an app's operator account in a consumer's project. For the publisher's
        adapter. It lives for at most 15 minutes and is audited in both projects."""
        return self.call(
            "POST",
            f"/v1/projects/{part(project)}/operator-tokens",
            body=body,
            headers={"Idempotency-Key": idempotency_key or fresh_key()},
        )

    def adapter_list(
        self,
        project: str,
        *,
        page_size: int | None = None,
        page_token: str | None = None,
    ) -> AdapterPage:
        """List the adapters of a project and when they last asked for work."""
        return self.call(
            "GET",
            f"/v1/projects/{part(project)}/adapters",
            query={"page_size": page_size, "page_token": page_token},
        )

    def instance_create(self, project: str, body: InstanceCreate, *, idempotency_key: str | None = None) -> Started:
        """Launch an app. It is running when every component has its minimum of active members, each of them
        witnessed. A failed launch is rolled back."""
        return self.call(
            "POST",
            f"/v1/projects/{part(project)}/app-instances",
            body=body,
            headers={"Idempotency-Key": idempotency_key or fresh_key()},
        )

    def instance_list(
        self,
        project: str,
        *,
        page_size: int | None = None,
        page_token: str | None = None,
        labels: str | None = None,
        state: InstanceState | None = None,
    ) -> InstancePage:
        """List a project's instances."""
        return self.call(
            "GET",
            f"/v1/projects/{part(project)}/app-instances",
            query={"page_size": page_size, "page_token": page_token, "labels": labels, "state": state},
        )

    def instance_apply(self, project: str, body: InstanceCreate, *, idempotency_key: str | None = None) -> Started:
        """Create or update an instance from a file. Creates the instance, or upgrades and scales the one with this
        name. Parts that already match are left alone; the plan lists the differences."""
        return self.call(
            "POST",
            f"/v1/projects/{part(project)}/app-instances/apply",
            body=body,
            headers={"Idempotency-Key": idempotency_key or fresh_key()},
        )

    def instance_get(self, project: str, instance: str) -> Instance:
        """Show an instance with its topology."""
        return self.call(
            "GET",
            f"/v1/projects/{part(project)}/app-instances/{part(instance)}",
        )

    def instance_update(self, project: str, instance: str, body: InstanceUpdate, *, if_match: int | str) -> Instance:
        """Change an instance's labels, protection, expiry or repair mode."""
        return self.call(
            "PATCH",
            f"/v1/projects/{part(project)}/app-instances/{part(instance)}",
            body=body,
            headers={"If-Match": tag(if_match)},
        )

    def instance_scale(
        self,
        project: str,
        instance: str,
        body: InstanceScale,
        *,
        idempotency_key: str | None = None,
    ) -> Started:
        """Set the number of members of an instance's components."""
        return self.call(
            "POST",
            f"/v1/projects/{part(project)}/app-instances/{part(instance)}/scale",
            body=body,
            headers={"Idempotency-Key": idempotency_key or fresh_key()},
        )

    def instance_upgrade(
        self,
        project: str,
        instance: str,
        body: InstanceUpgrade,
        *,
        idempotency_key: str | None = None,
    ) -> Started:
        """Upgrade an instance to another release. Member by member, in the order and at the pace of the manifest; a
        failure blocks the operation, which can be rolled back."""
        return self.call(
            "POST",
            f"/v1/projects/{part(project)}/app-instances/{part(instance)}/upgrade",
            body=body,
            headers={"Idempotency-Key": idempotency_key or fresh_key()},
        )

    def instance_rollback(
        self,
        project: str,
        instance: str,
        body: InstanceAct,
        *,
        idempotency_key: str | None = None,
    ) -> Started:
        """Roll an instance back to its previous release."""
        return self.call(
            "POST",
            f"/v1/projects/{part(project)}/app-instances/{part(instance)}/rollback",
            body=body,
            headers={"Idempotency-Key": idempotency_key or fresh_key()},
        )

    def instance_decommission(
        self,
        project: str,
        instance: str,
        body: InstanceAct,
        *,
        idempotency_key: str | None = None,
    ) -> Started:
        """Decommission an instance and verify that nothing of it is left."""
        return self.call(
            "POST",
            f"/v1/projects/{part(project)}/app-instances/{part(instance)}/decommission",
            body=body,
            headers={"Idempotency-Key": idempotency_key or fresh_key()},
        )

    def instance_endpoints(self, project: str, instance: str) -> InstanceEndpoints:
        """Show the endpoints of an instance."""
        return self.call(
            "GET",
            f"/v1/projects/{part(project)}/app-instances/{part(instance)}/endpoints",
        )

    def member_list(
        self,
        project: str,
        instance: str,
        *,
        page_size: int | None = None,
        page_token: str | None = None,
        component: str | None = None,
        state: MemberState | None = None,
    ) -> MemberPage:
        """List the members of an instance."""
        return self.call(
            "GET",
            f"/v1/projects/{part(project)}/app-instances/{part(instance)}/members",
            query={"page_size": page_size, "page_token": page_token, "component": component, "state": state},
        )

    def member_get(self, project: str, instance: str, member: str) -> Member:
        """Show a member."""
        return self.call(
            "GET",
            f"/v1/projects/{part(project)}/app-instances/{part(instance)}/members/{part(member)}",
        )

    def member_add(
        self,
        project: str,
        instance: str,
        body: MemberAdd,
        *,
        idempotency_key: str | None = None,
    ) -> Started:
        """Add members to a component. A member is active when the platform has verified that it works. A member that
        fails to start is rolled back, and the component's desired number decreases by one."""
        return self.call(
            "POST",
            f"/v1/projects/{part(project)}/app-instances/{part(instance)}/member-operations/add",
            body=body,
            headers={"Idempotency-Key": idempotency_key or fresh_key()},
        )

    def member_drain(
        self,
        project: str,
        instance: str,
        body: MemberAct,
        *,
        idempotency_key: str | None = None,
    ) -> Started:
        """Drain members and verify that no work is left on them. Refused if it would break a component's quorum."""
        return self.call(
            "POST",
            f"/v1/projects/{part(project)}/app-instances/{part(instance)}/member-operations/drain",
            body=body,
            headers={"Idempotency-Key": idempotency_key or fresh_key()},
        )

    def member_resume(
        self,
        project: str,
        instance: str,
        body: MemberAct,
        *,
        idempotency_key: str | None = None,
    ) -> Started:
        """Resume drained members."""
        return self.call(
            "POST",
            f"/v1/projects/{part(project)}/app-instances/{part(instance)}/member-operations/resume",
            body=body,
            headers={"Idempotency-Key": idempotency_key or fresh_key()},
        )

    def member_remove(
        self,
        project: str,
        instance: str,
        body: MemberTake,
        *,
        idempotency_key: str | None = None,
    ) -> Started:
        """Drain and remove members and verify that nothing of them is left."""
        return self.call(
            "POST",
            f"/v1/projects/{part(project)}/app-instances/{part(instance)}/member-operations/remove",
            body=body,
            headers={"Idempotency-Key": idempotency_key or fresh_key()},
        )

    def member_replace(
        self,
        project: str,
        instance: str,
        body: MemberTake,
        *,
        idempotency_key: str | None = None,
    ) -> Started:
        """Replace members with new ones. The component's manifest defines which comes first. A member on an
        unreachable node is fenced first, and stays `removing` until the node returns or an operator attests."""
        return self.call(
            "POST",
            f"/v1/projects/{part(project)}/app-instances/{part(instance)}/member-operations/replace",
            body=body,
            headers={"Idempotency-Key": idempotency_key or fresh_key()},
        )

    def member_recover(
        self,
        project: str,
        instance: str,
        body: MemberAct,
        *,
        idempotency_key: str | None = None,
    ) -> Started:
        """Recover failed members in place."""
        return self.call(
            "POST",
            f"/v1/projects/{part(project)}/app-instances/{part(instance)}/member-operations/recover",
            body=body,
            headers={"Idempotency-Key": idempotency_key or fresh_key()},
        )

    def adapter_step_lease(self, project: str, body: AdapterStepLease) -> Leased:
        """Lease adapter steps of this account's instances. Waits for the first of them. A step whose lease lapsed is
        offered again, with a higher generation."""
        return self.call(
            "POST",
            f"/v1/projects/{part(project)}/adapter-steps/lease",
            body=body,
        )

    def adapter_step_list(
        self,
        project: str,
        *,
        page_size: int | None = None,
        page_token: str | None = None,
        instance: str | None = None,
        state: AdapterStepState | None = None,
    ) -> AdapterStepPage:
        """List adapter steps with their holders."""
        return self.call(
            "GET",
            f"/v1/projects/{part(project)}/adapter-steps",
            query={"page_size": page_size, "page_token": page_token, "instance": instance, "state": state},
        )

    def adapter_step_get(self, project: str, adapter_step: str) -> LeasedStep:
        """Show an adapter step with the current state of its instance."""
        return self.call(
            "GET",
            f"/v1/projects/{part(project)}/adapter-steps/{part(adapter_step)}",
        )

    def adapter_step_heartbeat(self, project: str, adapter_step: str, body: AdapterStepHeartbeat) -> AdapterStep:
        """Extend a lease."""
        return self.call(
            "POST",
            f"/v1/projects/{part(project)}/adapter-steps/{part(adapter_step)}/heartbeat",
            body=body,
        )

    def adapter_step_progress(self, project: str, adapter_step: str, body: AdapterStepProgress) -> AdapterStep:
        """Report the progress of a step."""
        return self.call(
            "POST",
            f"/v1/projects/{part(project)}/adapter-steps/{part(adapter_step)}/progress",
            body=body,
        )

    def adapter_step_complete(self, project: str, adapter_step: str, body: AdapterStepComplete) -> AdapterStep:
        """Complete a step. The platform then verifies it: a state is reached by evidence, not by this report."""
        return self.call(
            "POST",
            f"/v1/projects/{part(project)}/adapter-steps/{part(adapter_step)}/complete",
            body=body,
        )

    def adapter_step_fail(self, project: str, adapter_step: str, body: AdapterStepFail) -> AdapterStep:
        """Fail a step."""
        return self.call(
            "POST",
            f"/v1/projects/{part(project)}/adapter-steps/{part(adapter_step)}/fail",
            body=body,
        )

    def adapter_task_create(self, project: str, adapter_step: str, body: AdapterTaskCreate) -> AdapterTask:
        """Create a task in the cell of a member of the step's instance."""
        return self.call(
            "POST",
            f"/v1/projects/{part(project)}/adapter-steps/{part(adapter_step)}/tasks",
            body=body,
        )

    def adapter_task_get(
        self,
        project: str,
        adapter_step: str,
        task: str,
        *,
        wait_seconds: int | None = None,
    ) -> AdapterTask:
        """Show the state of a task in a cell."""
        return self.call(
            "GET",
            f"/v1/projects/{part(project)}/adapter-steps/{part(adapter_step)}/tasks/{part(task)}",
            query={"wait_seconds": wait_seconds},
        )

    def operation_list(
        self,
        *,
        page_size: int | None = None,
        page_token: str | None = None,
        project: str | None = None,
        subject: str | None = None,
        state: OperationState | None = None,
    ) -> OperationPage:
        """List operations, in progress and finished."""
        return self.call(
            "GET",
            "/v1/operations",
            query={"page_size": page_size, "page_token": page_token, "project": project, "subject": subject, "state": state},
        )

    def operation_get(self, operation: str, *, wait_seconds: int | None = None) -> Operation:
        """Show an operation with its steps and evidence."""
        return self.call(
            "GET",
            f"/v1/operations/{part(operation)}",
            query={"wait_seconds": wait_seconds},
        )

    def operation_cancel(
        self,
        operation: str,
        body: OperationCancel,
        *,
        idempotency_key: str | None = None,
    ) -> Operation:
        """Cancel an operation. Its effects are rolled back and the rollback is witnessed; then it is `cancelled`.
        Not every operation can be cancelled."""
        return self.call(
            "POST",
            f"/v1/operations/{part(operation)}/cancel",
            body=body,
            headers={"Idempotency-Key": idempotency_key or fresh_key()},
        )

    def operation_resolve(
        self,
        operation: str,
        body: OperationResolve,
        *,
        idempotency_key: str | None = None,
    ) -> Operation:
        """Resolve a blocked operation with one of its actions."""
        return self.call(
            "POST",
            f"/v1/operations/{part(operation)}/resolve",
            body=body,
            headers={"Idempotency-Key": idempotency_key or fresh_key()},
        )

    def event_list(
        self,
        *,
        tenant: str | None = None,
        project: str | None = None,
        after: int | None = None,
        event_type: str | None = None,
        page_size: int | None = None,
    ) -> EventPage:
        """List events of a stream."""
        return self.call(
            "GET",
            "/v1/events",
            query={"tenant": tenant, "project": project, "after": after, "event_type": event_type, "page_size": page_size},
        )

    def event_stream(
        self,
        *,
        tenant: str | None = None,
        project: str | None = None,
        after: int | None = None,
        last_event_id: str | None = None,
    ) -> Iterator[str]:
        """Follow a stream live, without gaps. Server-sent events; `id` is the number in the stream. Reconnect with
        `Last-Event-ID`. `event: reset` means that the requested position is no longer stored; `event: end` gives
        the reason for the end of the stream."""
        return self.lines(
            "GET",
            "/v1/events/stream",
            query={"tenant": tenant, "project": project, "after": after},
            headers={"Last-Event-ID": last_event_id},
        )

    def instance_event_list(
        self,
        project: str,
        instance: str,
        *,
        after: int | None = None,
        event_type: str | None = None,
        page_size: int | None = None,
    ) -> EventPage:
        """List the timeline of an instance. Events of the instance, its members, the operations on them, and of what
        these do: adapter steps, allocations, cells. They are numbered as in the project's stream, so the numbers
        have gaps."""
        return self.call(
            "GET",
            f"/v1/projects/{part(project)}/app-instances/{part(instance)}/events",
            query={"after": after, "event_type": event_type, "page_size": page_size},
        )

    def instance_event_stream(
        self,
        project: str,
        instance: str,
        *,
        after: int | None = None,
        last_event_id: str | None = None,
    ) -> Iterator[str]:
        """Follow the timeline of an instance live. Server-sent events, as of the project's stream: `id` is the
        number there. Reconnect with `Last-Event-ID`. A new instance of the same name has another timeline."""
        return self.lines(
            "GET",
            f"/v1/projects/{part(project)}/app-instances/{part(instance)}/events/stream",
            query={"after": after},
            headers={"Last-Event-ID": last_event_id},
        )

    def webhook_create(self, body: WebhookCreate, *, idempotency_key: str | None = None) -> Webhook:
        """Create a webhook: push events to a URL."""
        return self.call(
            "POST",
            "/v1/webhooks",
            body=body,
            headers={"Idempotency-Key": idempotency_key or fresh_key()},
        )

    def webhook_list(
        self,
        *,
        page_size: int | None = None,
        page_token: str | None = None,
        tenant: str | None = None,
        project: str | None = None,
    ) -> WebhookPage:
        """List webhooks."""
        return self.call(
            "GET",
            "/v1/webhooks",
            query={"page_size": page_size, "page_token": page_token, "tenant": tenant, "project": project},
        )

    def webhook_get(self, webhook: str) -> Webhook:
        """Show a webhook."""
        return self.call(
            "GET",
            f"/v1/webhooks/{part(webhook)}",
        )

    def webhook_update(self, webhook: str, body: WebhookUpdate, *, if_match: int | str) -> Webhook:
        """Change, disable or enable a webhook."""
        return self.call(
            "PATCH",
            f"/v1/webhooks/{part(webhook)}",
            body=body,
            headers={"If-Match": tag(if_match)},
        )

    def webhook_delete(self, webhook: str, *, if_match: int | str) -> Removed:
        """Remove a webhook."""
        return self.call(
            "DELETE",
            f"/v1/webhooks/{part(webhook)}",
            headers={"If-Match": tag(if_match)},
        )

    def webhook_deliveries(
        self,
        webhook: str,
        *,
        page_size: int | None = None,
        page_token: str | None = None,
    ) -> WebhookDeliveryPage:
        """List deliveries and their responses."""
        return self.call(
            "GET",
            f"/v1/webhooks/{part(webhook)}/deliveries",
            query={"page_size": page_size, "page_token": page_token},
        )

    def audit_list(
        self,
        *,
        tenant: str | None = None,
        project: str | None = None,
        after: int | None = None,
        action: str | None = None,
        actor: str | None = None,
        page_size: int | None = None,
    ) -> AuditPage:
        """List audit entries: actor, action and outcome."""
        return self.call(
            "GET",
            "/v1/audit",
            query={"tenant": tenant, "project": project, "after": after, "action": action, "actor": actor, "page_size": page_size},
        )

    def audit_export(self, *, tenant: str | None = None) -> Iterator[str]:
        """Download a whole audit chain, to be verified offline."""
        return self.lines(
            "GET",
            "/v1/audit/export",
            query={"tenant": tenant},
        )

    def audit_head(self, *, tenant: str | None = None) -> AuditHead:
        """Show the end of an audit chain."""
        return self.call(
            "GET",
            "/v1/audit/head",
            query={"tenant": tenant},
        )

    def status_get(self) -> Status:
        """Show versions, health and replicas."""
        return self.call(
            "GET",
            "/v1/status",
        )

    def gpu_product_create(self, body: GpuProductCreate, *, idempotency_key: str | None = None) -> GpuProduct:
        """Create a GPU product."""
        return self.call(
            "POST",
            "/v1/gpu-products",
            body=body,
            headers={"Idempotency-Key": idempotency_key or fresh_key()},
        )

    def gpu_product_list(self, *, page_size: int | None = None, page_token: str | None = None) -> GpuProductPage:
        """List GPU products."""
        return self.call(
            "GET",
            "/v1/gpu-products",
            query={"page_size": page_size, "page_token": page_token},
        )

    def gpu_product_get(self, gpu_product: str) -> GpuProduct:
        """Show a GPU product."""
        return self.call(
            "GET",
            f"/v1/gpu-products/{part(gpu_product)}",
        )

    def gpu_product_update(self, gpu_product: str, body: GpuProductUpdate, *, if_match: int | str) -> GpuProduct:
        """Change a GPU product."""
        return self.call(
            "PATCH",
            f"/v1/gpu-products/{part(gpu_product)}",
            body=body,
            headers={"If-Match": tag(if_match)},
        )

    def gpu_product_delete(self, gpu_product: str, *, if_match: int | str) -> Removed:
        """Remove a GPU product."""
        return self.call(
            "DELETE",
            f"/v1/gpu-products/{part(gpu_product)}",
            headers={"If-Match": tag(if_match)},
        )
