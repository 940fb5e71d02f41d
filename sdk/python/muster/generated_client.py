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
        """Show who you are to the platform."""
        return self.call(
            "GET",
            "/v1/whoami",
        )

    def can_i(self, *, permission: str, tenant: str | None = None, project: str | None = None) -> CanI:
        """Ask whether you may do something, and why."""
        return self.call(
            "GET",
            "/v1/can-i",
            query={"permission": permission, "tenant": tenant, "project": project},
        )

    def session_create(self, body: SessionCreate, *, idempotency_key: str | None = None) -> Session:
        """Log in with a browser. Sets the `muster_session` cookie. Programs use tokens instead. Repeated with the
        same `Idempotency-Key` it is another login: a stored answer would have no cookie."""
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
        """Make a tenant."""
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
        """List the tenants you may see."""
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
        webhooks and what is known of allocations that ended. While an allocation lives the tenant stays: release
        it first. Its encryption keys are destroyed. Its audit chain stays."""
        return self.call(
            "DELETE",
            f"/v1/tenants/{part(tenant)}",
            query={"cascade": cascade},
            headers={"If-Match": tag(if_match)},
        )

    def tenant_rotate_key(self, tenant: str, body: Nothing, *, idempotency_key: str | None = None) -> Tenant:
        """Give a tenant a new encryption key. What was sealed under the old key is sealed anew in the background;
        nothing stops meanwhile."""
        return self.call(
            "POST",
            f"/v1/tenants/{part(tenant)}/rotate-key",
            body=body,
            headers={"Idempotency-Key": idempotency_key or fresh_key()},
        )

    def project_create(self, tenant: str, body: ProjectCreate, *, idempotency_key: str | None = None) -> Project:
        """Make a project in a tenant."""
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
        """List the projects you may see."""
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
        webhooks and what is known of allocations that ended. While an allocation lives the project stays: release
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
        """Show a person. People can always see themselves."""
        return self.call(
            "GET",
            f"/v1/users/{part(user)}",
        )

    def user_update(self, user: str, body: UserUpdate, *, if_match: int | str) -> User:
        """Change a person's entry, or shut the person out."""
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
        """Give a person a role. Nobody gives a role that reaches further than their own."""
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
        """List who holds which role."""
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
        """Take a role away."""
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
        """Make a service account."""
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
        """Give one machine the right to join. The token is shown once and can be used once; only a repeat with the
        same key, by a machine that did not hear the answer, is answered again until the token ends. What joins as
        a new node takes nothing until it is approved. With `node` an existing node is given a new certificate,
        and from the moment of the join its old one opens nothing."""
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
        """Show a node, its hardware and who holds it."""
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
        """Approve a node's hardware, so that it can be used. Names the hardware by its digest, so that nobody
        approves what they have not seen. GPUs in it become usable, GPUs that are gone are retired; a slot that is
        quarantined stays so."""
        return self.call(
            "POST",
            f"/v1/nodes/{part(node)}/approve",
            body=body,
            headers={"If-Match": tag(if_match), "Idempotency-Key": idempotency_key or fresh_key()},
        )

    def node_cordon(self, node: str, body: NodeReason, *, idempotency_key: str | None = None) -> Node:
        """Keep new work from a node. What is on the node stays there. `node_uncordon` is the way back."""
        return self.call(
            "POST",
            f"/v1/nodes/{part(node)}/cordon",
            body=body,
            headers={"Idempotency-Key": idempotency_key or fresh_key()},
        )

    def node_uncordon(self, node: str, body: NodeReason, *, idempotency_key: str | None = None) -> Node:
        """Let a node take new work again."""
        return self.call(
            "POST",
            f"/v1/nodes/{part(node)}/uncordon",
            body=body,
            headers={"Idempotency-Key": idempotency_key or fresh_key()},
        )

    def node_drain(self, node: str, body: NodeDrain, *, idempotency_key: str | None = None) -> Started:
        """Empty a node. Keeps new allocations away, and waits until its tenants have released what they hold on it.
        At the deadline the rest is released if `force` says so, protected or not, and otherwise the operation is
        blocked."""
        return self.call(
            "POST",
            f"/v1/nodes/{part(node)}/drain",
            body=body,
            headers={"Idempotency-Key": idempotency_key or fresh_key()},
        )

    def node_audit(self, node: str, body: NodeAudit, *, idempotency_key: str | None = None) -> Started:
        """Compare a node with what is written of it, both ways. Finds things on the node without rows, and rows
        without things. With `mend`, the node removes what belongs to nothing and is looked at again; what is
        missing is only told of."""
        return self.call(
            "POST",
            f"/v1/nodes/{part(node)}/audit",
            body=body,
            headers={"Idempotency-Key": idempotency_key or fresh_key()},
        )

    def node_retire(self, node: str, body: NodeRetire, *, idempotency_key: str | None = None) -> Started:
        """Take an empty node out of the fleet. Looks whether anything of ours is left on it; from then on its
        certificate opens nothing. The node must be drained first."""
        return self.call(
            "POST",
            f"/v1/nodes/{part(node)}/retire",
            body=body,
            headers={"Idempotency-Key": idempotency_key or fresh_key()},
        )

    def slot_list(self, node: str) -> SlotPage:
        """List a node's slots, with who holds them."""
        return self.call(
            "GET",
            f"/v1/nodes/{part(node)}/slots",
        )

    def slot_quarantine(self, slot: str, body: SlotQuarantine, *, idempotency_key: str | None = None) -> Slot:
        """Keep everybody from a slot. An allocation that holds it keeps it; when it is released, nobody else gets
        it."""
        return self.call(
            "POST",
            f"/v1/slots/{part(slot)}/quarantine",
            body=body,
            headers={"Idempotency-Key": idempotency_key or fresh_key()},
        )

    def slot_approve(self, slot: str, body: SlotApprove, *, idempotency_key: str | None = None) -> Slot:
        """Let a quarantined or new slot be used, on your word. Nothing is checked: the event and the audit say that
        it was an operator's word, and why."""
        return self.call(
            "POST",
            f"/v1/slots/{part(slot)}/approve",
            body=body,
            headers={"Idempotency-Key": idempotency_key or fresh_key()},
        )

    def quota_get(self, project: str) -> Quota:
        """Show what a project may hold, and what it holds."""
        return self.call(
            "GET",
            f"/v1/projects/{part(project)}/quota",
        )

    def quota_set(self, project: str, body: QuotaSet, *, if_match: int | str) -> Quota:
        """Limit what a project may hold. Sets the limits that are named and leaves the others. A limit below what
        the project holds takes nothing away; it only keeps the project from growing."""
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
        """Show what the project can get now. Answers for one allocation, which is always on one node. What does not
        fit comes with the reason and the smallest change that would fit."""
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
        """Ask for capacity on a node. The operation finds a node, claims what is asked for, has the node make the
        place and looks at it; only then is the allocation active."""
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
        """Show what an allocation went through, with durations and evidence."""
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
        """Give an allocation back. Destroys its place, verifies that it is gone, wipes what it held, verifies that
        it is wiped, and only then frees it. Whatever else is under way on it is superseded. With `cascade` the
        members of instances in it are removed first, which needs `member.remove` too, and with `force`
        `member.force_remove`."""
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
        """Make an allocation's place anew, on the same node. Stops every cell in it, destroys the place, makes it
        anew with a higher incarnation, and starts the cells again, each with a new incarnation and with its state
        directories. Members are drained first and join again, which needs `member.recover` too."""
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
        """Change the size of an allocation, on the same node. CPUs and memory change while its cells run; memory is
        not made smaller than what they use. A change of its GPUs needs `restart` where it holds cells."""
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
        """Give an operator's word that nothing of an allocation is left. Only while its node is unreachable and its
        release, or the undo of its making, is blocked or waits. Its slots stay quarantined until the node is back
        and was seen to be clean, and it is shown as attested for ever."""
        return self.call(
            "POST",
            f"/v1/projects/{part(project)}/allocations/{part(allocation)}/attest",
            body=body,
            headers={"Idempotency-Key": idempotency_key or fresh_key()},
        )

    def cell_create(self, project: str, body: CellCreate, *, idempotency_key: str | None = None) -> Started:
        """Make a cell in an allocation, and start what runs in it. The cell is running when the node's agent has
        seen it there and every service in it is ready by its own probe. What does not become ready in time is
        taken down again, and the cell has failed."""
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
        """Make a cell anew in its place. Everything in it is lost but its state directories; its name, its address
        and its ports stay."""
        return self.call(
            "POST",
            f"/v1/projects/{part(project)}/cells/{part(cell)}/restart",
            body=body,
            headers={"Idempotency-Key": idempotency_key or fresh_key()},
        )

    def cell_destroy(self, project: str, cell: str, body: CellAct, *, idempotency_key: str | None = None) -> Started:
        """Destroy a cell, and see that nothing of it is left."""
        return self.call(
            "POST",
            f"/v1/projects/{part(project)}/cells/{part(cell)}/destroy",
            body=body,
            headers={"Idempotency-Key": idempotency_key or fresh_key()},
        )

    def cell_archived_logs(self, project: str, cell: str) -> ArchivedLogs:
        """Show the last of what a cell's services wrote before it went."""
        return self.call(
            "GET",
            f"/v1/projects/{part(project)}/cells/{part(cell)}/archived-logs",
        )

    def network_list(self, project: str) -> NetworkList:
        """List a project's networks, with everybody in them."""
        return self.call(
            "GET",
            f"/v1/projects/{part(project)}/networks",
        )

    def network_get(self, project: str, network: str) -> Network:
        """Show a network, with everybody in it."""
        return self.call(
            "GET",
            f"/v1/projects/{part(project)}/networks/{part(network)}",
        )

    def ssh_key_create(self, project: str, body: SshKeyCreate, *, idempotency_key: str | None = None) -> SshKey:
        """Add an SSH key to a project, or grant one access to an allocation. The key is written to
        `/etc/muster/authorized_keys` of every cell of the project that asks for people, or of one `allocation`,
        until `expires_at`. A key for oneself counts for as long as its owner may work in the project. A grant for
        another `user` needs `allocation`, `expires_at` and the right to bind roles; it gives that person a login
        there and nowhere else."""
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
        """Ask for a terminal, a command or a transfer in a cell. The answer says where to join it, within a minute.
        What was asked for is audited, contents are not."""
        return self.call(
            "POST",
            f"/v1/projects/{part(project)}/cells/{part(cell)}/streams",
            body=body,
            headers={"Idempotency-Key": idempotency_key or fresh_key()},
        )

    def stream_logs(self, project: str, cell: str, body: Logs, *, idempotency_key: str | None = None) -> Stream:
        """Ask for what a cell's services wrote. The answer says where to join it, within a minute. Of cells that are
        gone, see cell_archived_logs."""
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
        """Publish content of a repository as an artifact. What is pushed with a tag (`podman push`, `skopeo copy`,
        `muster artifact push`) is published by that. This publishes a digest that has no tag, or one of another
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
        """Show an artifact. An artifact is named by its id, by `repository@sha256:…` or by `repository:tag`."""
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
        """Look at an artifact's signatures now. Every byte of it is read and hashed, and every signature that the
        registry has for its digest is checked against the project's keys."""
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
        """Take an artifact a step forward: staged, canary, active. Its signatures are looked at with every step.
        Staging lints it. An artifact that becomes active makes the active one of its line deprecated, in the same
        transaction."""
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
        """Take an artifact a step back or out: canary to staged, active to deprecated, deprecated to retired. It can
        be retired when its grace period is over and nothing that lives was made from it."""
        return self.call(
            "POST",
            f"/v1/projects/{part(project)}/artifacts/{part(artifact)}/demote",
            body=body,
            headers={"Idempotency-Key": idempotency_key or fresh_key()},
        )

    def artifact_references(self, project: str, artifact: str) -> ArtifactReferences:
        """Show everything that hangs on an artifact, from signature to running cell."""
        return self.call(
            "GET",
            f"/v1/projects/{part(project)}/artifacts/{part(artifact)}/references",
        )

    def key_create(self, project: str, body: KeyCreate, *, idempotency_key: str | None = None) -> Key:
        """Trust a publisher's key: signatures by it count in the project."""
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
        """Trust a key no more. From then on nothing new starts that only this key signed. What runs goes on."""
        return self.call(
            "POST",
            f"/v1/projects/{part(project)}/keys/{part(key)}/revoke",
            body=body,
            headers={"Idempotency-Key": idempotency_key or fresh_key()},
        )

    def trust_policy_get(self, project: str) -> TrustPolicy:
        """Show what a project demands of artifacts."""
        return self.call(
            "GET",
            f"/v1/projects/{part(project)}/trust-policy",
        )

    def trust_policy_set(self, project: str, body: TrustPolicySet, *, if_match: int | str) -> TrustPolicy:
        """Change what a project demands of artifacts."""
        return self.call(
            "PATCH",
            f"/v1/projects/{part(project)}/trust-policy",
            body=body,
            headers={"If-Match": tag(if_match)},
        )

    def secret_create(self, project: str, body: SecretCreate, *, idempotency_key: str | None = None) -> Secret:
        """Keep a secret for a project's apps. It is sealed before it is written, told to no person, and given to
        cells that name it as a file in memory."""
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
        """Remove a secret. Refused while a cell that lives names it."""
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
        """Give a secret another content. Cells that are made from then on have it; those that run keep what they
        were given until they are made anew."""
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
        """Issue material for a purpose. For service accounts alone, and only for purposes that their allow list
        names: `runtime_secret.artifact_pull`, `runtime_secret.cluster_bootstrap`."""
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
        """List issued material, without its contents."""
        return self.call(
            "GET",
            f"/v1/projects/{part(project)}/runtime-secrets",
            query={"page_size": page_size, "page_token": page_token, "purpose": purpose},
        )

    def runtime_secret_get(self, project: str, runtime_secret: str) -> RuntimeSecret:
        """Show issued material, without its content."""
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
        """Revoke issued material."""
        return self.call(
            "POST",
            f"/v1/projects/{part(project)}/runtime-secrets/{part(runtime_secret)}/revoke",
            body=body,
            headers={"Idempotency-Key": idempotency_key or fresh_key()},
        )

    def app_create(self, project: str, body: AppCreate, *, idempotency_key: str | None = None) -> App:
        """Make an app that this project publishes."""
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
        """List the apps that a project finds in the catalog."""
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
        """Remove an app that nobody uses, and its releases."""
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
        """Ask where an app fits, before anything is spent. Each answer has its reasons and, where it is no, the
        smallest change that would make it fit."""
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
        """Publish a release. Every fault of the manifest is told at once. What is published never changes but for
        how far it may be used."""
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
        """Take a release a step forward. A release is never ahead of what it is made of. A new active one makes the
        one before it deprecated."""
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
        """Take a release back or out of use. What is retired has no instance that runs it or may roll back to it,
        and its grace is over."""
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
        """Let a project launch an app, and consent to who operates it there. An account is made in the project, with
        exactly the permissions consented to; the publisher's adapter may have short-lived tokens for it."""
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
        """List what a project may launch, or who may launch what it publishes."""
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
        """Let nothing new be launched; what runs stays operable until it is decommissioned, or is cut off."""
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
        """Get a short-lived token for an app's operator account in a consumer's project. For the publisher's
        adapter. It lives for 15 minutes at most, and is audited in both projects."""
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
        """List the adapters that work in a project, with when they were last seen."""
        return self.call(
            "GET",
            f"/v1/projects/{part(project)}/adapters",
            query={"page_size": page_size, "page_token": page_token},
        )

    def instance_create(self, project: str, body: InstanceCreate, *, idempotency_key: str | None = None) -> Started:
        """Launch an app. It is running when every component has as many active members as it needs, each of them
        witnessed. What does not come to be is taken down again."""
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
        """Have an instance be as this says: launch it, or upgrade and scale the one with this name. What is as it
        should be is left alone; the plan says what differs."""
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
        """Say how many members the components of an instance should have."""
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
        """Have an instance run another release. Member by member, in the order and at the pace that the manifest
        says; what fails is blocked, and can be rolled back."""
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
        """Have an instance run the release that it ran before."""
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
        """Take an instance down, and see that nothing of it is left."""
        return self.call(
            "POST",
            f"/v1/projects/{part(project)}/app-instances/{part(instance)}/decommission",
            body=body,
            headers={"Idempotency-Key": idempotency_key or fresh_key()},
        )

    def instance_endpoints(self, project: str, instance: str) -> InstanceEndpoints:
        """Show where an instance can be reached."""
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
        """Add members to a component. A member is active when the platform has seen for itself that it works. One
        that does not come to work is taken down again, and the component wants one less."""
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
        """Take members out of work, and see that none is left on them. Refused where it would break a component's
        quorum."""
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
        """Put drained members back to work."""
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
        """Drain and remove members, and see that nothing is left of them."""
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
        """Have new members take the place of these. Which comes first is the component's business. A member whose
        node nobody hears from is cut off first, and stays `removing` until the node returns or an operator
        attests."""
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
        """Make failed members anew where they are."""
        return self.call(
            "POST",
            f"/v1/projects/{part(project)}/app-instances/{part(instance)}/member-operations/recover",
            body=body,
            headers={"Idempotency-Key": idempotency_key or fresh_key()},
        )

    def adapter_step_lease(self, project: str, body: AdapterStepLease) -> Leased:
        """Lease steps of the instances that this account operates. It waits for the first of them. A step whose
        lease lapsed is offered again, with a higher generation."""
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
        """List adapter steps, with who holds them."""
        return self.call(
            "GET",
            f"/v1/projects/{part(project)}/adapter-steps",
            query={"page_size": page_size, "page_token": page_token, "instance": instance, "state": state},
        )

    def adapter_step_get(self, project: str, adapter_step: str) -> LeasedStep:
        """Show an adapter step, with the instance as it is now."""
        return self.call(
            "GET",
            f"/v1/projects/{part(project)}/adapter-steps/{part(adapter_step)}",
        )

    def adapter_step_heartbeat(self, project: str, adapter_step: str, body: AdapterStepHeartbeat) -> AdapterStep:
        """Keep a lease."""
        return self.call(
            "POST",
            f"/v1/projects/{part(project)}/adapter-steps/{part(adapter_step)}/heartbeat",
            body=body,
        )

    def adapter_step_progress(self, project: str, adapter_step: str, body: AdapterStepProgress) -> AdapterStep:
        """Say how far a step is."""
        return self.call(
            "POST",
            f"/v1/projects/{part(project)}/adapter-steps/{part(adapter_step)}/progress",
            body=body,
        )

    def adapter_step_complete(self, project: str, adapter_step: str, body: AdapterStepComplete) -> AdapterStep:
        """Say that a step is done. The platform then looks for itself: a state is reached by evidence, not by this."""
        return self.call(
            "POST",
            f"/v1/projects/{part(project)}/adapter-steps/{part(adapter_step)}/complete",
            body=body,
        )

    def adapter_step_fail(self, project: str, adapter_step: str, body: AdapterStepFail) -> AdapterStep:
        """Say that a step cannot be done."""
        return self.call(
            "POST",
            f"/v1/projects/{part(project)}/adapter-steps/{part(adapter_step)}/fail",
            body=body,
        )

    def adapter_task_create(self, project: str, adapter_step: str, body: AdapterTaskCreate) -> AdapterTask:
        """Have something done in the cell of a member of that very instance."""
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
        """Show how something stands that is done in a cell."""
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
        """List operations, finished and not."""
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
        """Ask for the end of an operation. What it did is undone, and that is witnessed; then it is `cancelled`. Not
        everything can be cancelled."""
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
        """Decide how a blocked operation goes on."""
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
        `Last-Event-ID`. `event: reset` says that the asked place is no longer kept; `event: end` says why the
        server ends the stream."""
        return self.lines(
            "GET",
            "/v1/events/stream",
            query={"tenant": tenant, "project": project, "after": after},
            headers={"Last-Event-ID": last_event_id},
        )

    def webhook_create(self, body: WebhookCreate, *, idempotency_key: str | None = None) -> Webhook:
        """Have events pushed to a URL."""
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
        """Change a webhook, or switch it off or on."""
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
        """Show what was sent, and how it was answered."""
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
        """List who asked for what, with what result."""
        return self.call(
            "GET",
            "/v1/audit",
            query={"tenant": tenant, "project": project, "after": after, "action": action, "actor": actor, "page_size": page_size},
        )

    def audit_export(self, *, tenant: str | None = None) -> Iterator[str]:
        """Download a whole chain, to be verified offline."""
        return self.lines(
            "GET",
            "/v1/audit/export",
            query={"tenant": tenant},
        )

    def audit_head(self, *, tenant: str | None = None) -> AuditHead:
        """Show the end of a chain."""
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
