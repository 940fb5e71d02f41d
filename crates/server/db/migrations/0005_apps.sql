-- Apps of the catalog, their instances in projects, and adapter steps.

CREATE TABLE apps (
    id UUID NOT NULL PRIMARY KEY,
    tenant_id UUID NOT NULL,
    project_id UUID NOT NULL REFERENCES projects (id),
    slug TEXT NOT NULL,
    display_name TEXT NOT NULL,
    description TEXT NOT NULL,
    audience TEXT NOT NULL CHECK (audience IN ('project', 'tenant', 'everyone')),
    labels JSONB NOT NULL,
    created_at TIMESTAMPTZ NOT NULL,
    updated_at TIMESTAMPTZ NOT NULL,
    version BIGINT NOT NULL CHECK (version > 0)
);
-- The catalog is global: a slug names the same app for all projects.
CREATE UNIQUE INDEX apps_by_slug ON apps (slug);
CREATE INDEX apps_by_project ON apps (project_id, id);

CREATE TABLE app_versions (
    id UUID NOT NULL PRIMARY KEY,
    tenant_id UUID NOT NULL,
    project_id UUID NOT NULL REFERENCES projects (id),
    app_id UUID NOT NULL REFERENCES apps (id),
    name TEXT NOT NULL,
    manifest JSONB NOT NULL,
    digest TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('draft', 'staged', 'canary', 'active', 'deprecated', 'retired')),
    canary_percent BIGINT CHECK (canary_percent >= 1 AND canary_percent <= 100),
    superseded_by UUID REFERENCES app_versions (id),
    deprecated_at TIMESTAMPTZ,
    created_at TIMESTAMPTZ NOT NULL,
    updated_at TIMESTAMPTZ NOT NULL,
    version BIGINT NOT NULL CHECK (version > 0),
    CHECK ((state = 'canary') = (canary_percent IS NOT NULL)),
    CHECK (state <> 'deprecated' OR deprecated_at IS NOT NULL)
);
CREATE UNIQUE INDEX app_versions_by_name ON app_versions (app_id, name);
-- The guards: an app has at most one active release and one canary.
CREATE UNIQUE INDEX app_versions_active ON app_versions (app_id) WHERE state = 'active';
CREATE UNIQUE INDEX app_versions_canary ON app_versions (app_id) WHERE state = 'canary';

-- The artifacts of a release: they cannot be deleted, and their states are never behind that of the release.
CREATE TABLE app_version_artifacts (
    app_version_id UUID NOT NULL REFERENCES app_versions (id),
    name TEXT NOT NULL,
    artifact_id UUID NOT NULL REFERENCES artifacts (id),
    PRIMARY KEY (app_version_id, name)
);
CREATE INDEX app_version_artifacts_by_artifact ON app_version_artifacts (artifact_id);

CREATE TABLE app_version_changes (
    app_version_id UUID NOT NULL REFERENCES app_versions (id),
    number BIGINT NOT NULL,
    before_state TEXT,
    after_state TEXT NOT NULL,
    actor_id TEXT NOT NULL,
    reason TEXT NOT NULL,
    at TIMESTAMPTZ NOT NULL,
    PRIMARY KEY (app_version_id, number)
);

-- A project's right to launch an app. A revoked one allows no launch, but is kept for running instances.
CREATE TABLE entitlements (
    id UUID NOT NULL PRIMARY KEY,
    tenant_id UUID NOT NULL,
    project_id UUID NOT NULL REFERENCES projects (id),
    app_id UUID NOT NULL REFERENCES apps (id),
    publisher_project_id UUID NOT NULL REFERENCES projects (id),
    operator_account_id UUID NOT NULL REFERENCES service_accounts (id),
    permissions JSONB NOT NULL,
    revoked_at TIMESTAMPTZ,
    created_at TIMESTAMPTZ NOT NULL,
    updated_at TIMESTAMPTZ NOT NULL,
    version BIGINT NOT NULL CHECK (version > 0)
);
CREATE UNIQUE INDEX entitlements_by_app ON entitlements (project_id, app_id);
CREATE INDEX entitlements_of_app ON entitlements (app_id, id);
CREATE UNIQUE INDEX entitlements_by_account ON entitlements (operator_account_id);

CREATE TABLE adapters (
    id UUID NOT NULL PRIMARY KEY,
    tenant_id UUID NOT NULL,
    project_id UUID NOT NULL REFERENCES projects (id),
    service_account_id UUID NOT NULL REFERENCES service_accounts (id),
    name TEXT NOT NULL,
    adapter_version TEXT NOT NULL,
    contract_version BIGINT NOT NULL,
    created_at TIMESTAMPTZ NOT NULL,
    seen_at TIMESTAMPTZ NOT NULL
);
CREATE UNIQUE INDEX adapters_by_name ON adapters (service_account_id, name);
CREATE INDEX adapters_by_project ON adapters (project_id, id);

CREATE TABLE instances (
    id UUID NOT NULL PRIMARY KEY,
    tenant_id UUID NOT NULL,
    project_id UUID NOT NULL REFERENCES projects (id),
    app_id UUID NOT NULL REFERENCES apps (id),
    app_version_id UUID NOT NULL REFERENCES app_versions (id),
    previous_version_id UUID REFERENCES app_versions (id),
    name TEXT NOT NULL,
    labels JSONB NOT NULL,
    config JSONB NOT NULL,
    previous_config JSONB,
    operator_account_id UUID NOT NULL REFERENCES service_accounts (id),
    network_id UUID NOT NULL REFERENCES networks (id),
    topology_mode TEXT,
    shape TEXT NOT NULL CHECK (shape IN ('baremetal', 'gpu_slice')),
    state TEXT NOT NULL CHECK (state IN ('created', 'starting', 'running', 'stopping', 'stopped', 'failed')),
    health TEXT NOT NULL CHECK (health IN ('healthy', 'degraded', 'unhealthy', 'unknown')),
    repair TEXT NOT NULL CHECK (repair IN ('off', 'propose', 'automatic')),
    repairs JSONB NOT NULL,
    protected BOOLEAN NOT NULL,
    expires_at TIMESTAMPTZ,
    reason TEXT,
    message TEXT,
    running_witness_id UUID,
    running_transition TEXT NOT NULL GENERATED ALWAYS AS ('running') STORED,
    running_kind TEXT NOT NULL GENERATED ALWAYS AS ('witnessed') STORED,
    stopped_witness_id UUID,
    stopped_transition TEXT NOT NULL GENERATED ALWAYS AS ('stopped') STORED,
    operation_id UUID,
    reconcile_due_at TIMESTAMPTZ,
    reconciled_at TIMESTAMPTZ,
    health_message TEXT,
    health_since TIMESTAMPTZ,
    -- When its adapter counts as silent, and when its health is assessed next because an observation becomes stale.
    adapter_silent_at TIMESTAMPTZ,
    assess_due_at TIMESTAMPTZ,
    -- Time when a member last left without evidence of its end.
    unwitnessed_at TIMESTAMPTZ,
    -- Time when a failed launch was fully rolled back: another instance may use its name from then on.
    name_freed_at TIMESTAMPTZ,
    created_at TIMESTAMPTZ NOT NULL,
    updated_at TIMESTAMPTZ NOT NULL,
    version BIGINT NOT NULL CHECK (version > 0),
    CHECK (state <> 'running' OR running_witness_id IS NOT NULL),
    CHECK (name_freed_at IS NULL OR (state <> 'created' AND state <> 'starting' AND state <> 'running')),
    CHECK (state <> 'stopped' OR stopped_witness_id IS NOT NULL),
    FOREIGN KEY (running_witness_id, id, running_transition, running_kind) REFERENCES witnesses (id, subject_id, transition, kind),
    FOREIGN KEY (stopped_witness_id, id, stopped_transition) REFERENCES witnesses (id, subject_id, transition)
);
CREATE UNIQUE INDEX instances_by_name ON instances (project_id, name) WHERE state <> 'stopped' AND name_freed_at IS NULL;
CREATE INDEX instances_by_project ON instances (project_id, id);
-- Includes stopped instances: a name resolves to the live one, or else to the latest.
CREATE INDEX instances_ever_by_name ON instances (project_id, name, id);
CREATE INDEX instances_by_version ON instances (app_version_id) WHERE state <> 'stopped';
CREATE INDEX instances_by_previous ON instances (previous_version_id) WHERE previous_version_id IS NOT NULL AND state <> 'stopped';
CREATE INDEX instances_by_due ON instances (operator_account_id, reconcile_due_at) WHERE reconcile_due_at IS NOT NULL;
CREATE INDEX instances_by_assessment ON instances (assess_due_at) WHERE assess_due_at IS NOT NULL;
CREATE INDEX instances_by_expiry ON instances (expires_at) WHERE expires_at IS NOT NULL AND state <> 'stopped';

CREATE TABLE instance_components (
    instance_id UUID NOT NULL REFERENCES instances (id),
    key TEXT NOT NULL,
    desired BIGINT NOT NULL CHECK (desired >= 0),
    last_ordinal BIGINT NOT NULL CHECK (last_ordinal >= 0),
    capacity JSONB,
    allocation_id UUID REFERENCES allocations (id),
    PRIMARY KEY (instance_id, key)
);

CREATE TABLE members (
    id UUID NOT NULL PRIMARY KEY,
    tenant_id UUID NOT NULL,
    project_id UUID NOT NULL REFERENCES projects (id),
    instance_id UUID NOT NULL REFERENCES instances (id),
    component_key TEXT NOT NULL,
    name TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('requested', 'provisioning', 'joining', 'active', 'draining', 'drained', 'removing', 'removed', 'failed')),
    health TEXT NOT NULL CHECK (health IN ('healthy', 'degraded', 'unhealthy', 'unknown')),
    health_message TEXT,
    health_incarnation BIGINT NOT NULL,
    health_reason TEXT,
    health_since TIMESTAMPTZ,
    -- Start of the unhealthy period for which a repair was last proposed or suspended: each period is announced once.
    repair_announced_for TIMESTAMPTZ,
    -- Reported by its adapter for this incarnation.
    free_at TIMESTAMPTZ,
    allocation_id UUID REFERENCES allocations (id),
    allocation_made BOOLEAN NOT NULL,
    bound_capacity_shape TEXT,
    cell_id UUID REFERENCES cells (id),
    incarnation BIGINT NOT NULL CHECK (incarnation >= 0),
    app_version_id UUID REFERENCES app_versions (id),
    adapter_detail JSONB NOT NULL,
    failure_reason TEXT,
    message TEXT,
    fenced BOOLEAN NOT NULL,
    active_witness_id UUID,
    active_transition TEXT NOT NULL GENERATED ALWAYS AS ('active') STORED,
    active_kind TEXT NOT NULL GENERATED ALWAYS AS ('witnessed') STORED,
    drained_witness_id UUID,
    drained_transition TEXT NOT NULL GENERATED ALWAYS AS ('drained') STORED,
    removed_witness_id UUID,
    removed_transition TEXT NOT NULL GENERATED ALWAYS AS ('removed') STORED,
    operation_id UUID,
    correlation_id TEXT NOT NULL,
    created_at TIMESTAMPTZ NOT NULL,
    updated_at TIMESTAMPTZ NOT NULL,
    version BIGINT NOT NULL CHECK (version > 0),
    -- A member is active or drained only with evidence about this member; drained cannot be attested.
    CHECK (state <> 'active' OR (active_witness_id IS NOT NULL AND app_version_id IS NOT NULL)),
    CHECK (state <> 'drained' OR drained_witness_id IS NOT NULL),
    CHECK (state <> 'removed' OR removed_witness_id IS NOT NULL),
    FOREIGN KEY (active_witness_id, id, active_transition, active_kind) REFERENCES witnesses (id, subject_id, transition, kind),
    FOREIGN KEY (drained_witness_id, id, drained_transition) REFERENCES witnesses (id, subject_id, transition),
    FOREIGN KEY (removed_witness_id, id, removed_transition) REFERENCES witnesses (id, subject_id, transition)
);
CREATE UNIQUE INDEX members_by_name ON members (project_id, name) WHERE state <> 'removed';
CREATE INDEX members_by_instance ON members (instance_id, id);
CREATE INDEX members_ever_by_name ON members (instance_id, name, id);
CREATE INDEX members_living ON members (instance_id) WHERE state <> 'removed';
CREATE INDEX members_by_allocation ON members (allocation_id) WHERE state <> 'removed';
CREATE INDEX members_by_version ON members (app_version_id) WHERE state <> 'removed';
CREATE INDEX members_by_cell ON members (cell_id) WHERE cell_id IS NOT NULL;
CREATE INDEX members_by_update ON members (updated_at);

-- The adapter's latest report on each member: one source of its health among others.
CREATE TABLE member_reports (
    member_id UUID NOT NULL PRIMARY KEY REFERENCES members (id),
    incarnation BIGINT NOT NULL,
    health TEXT NOT NULL CHECK (health IN ('healthy', 'degraded', 'unhealthy', 'unknown')),
    message TEXT,
    at TIMESTAMPTZ NOT NULL
);

-- Work queued for adapters. Finished steps are deleted by the sweeper, scheduled reconcile steps when they end.
CREATE TABLE adapter_steps (
    id UUID NOT NULL PRIMARY KEY,
    tenant_id UUID NOT NULL,
    project_id UUID NOT NULL REFERENCES projects (id),
    app_id UUID NOT NULL REFERENCES apps (id),
    instance_id UUID NOT NULL REFERENCES instances (id),
    member_id UUID REFERENCES members (id),
    incarnation BIGINT NOT NULL,
    operation_id UUID,
    key TEXT NOT NULL,
    verb TEXT NOT NULL CHECK (verb IN ('join', 'leave', 'drain', 'resume', 'remove', 'reconcile')),
    operator_account_id UUID NOT NULL REFERENCES service_accounts (id),
    input JSONB NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('queued', 'leased', 'done', 'failed', 'cancelled')),
    generation BIGINT NOT NULL CHECK (generation >= 0),
    holder TEXT NOT NULL,
    leased_until TIMESTAMPTZ,
    -- Offered from this time on; an adapter can postpone it.
    due_at TIMESTAMPTZ NOT NULL,
    attempts BIGINT NOT NULL,
    message TEXT,
    percent BIGINT CHECK (percent >= 0 AND percent <= 100),
    reason TEXT,
    adapter_detail JSONB,
    correlation_id TEXT NOT NULL,
    created_at TIMESTAMPTZ NOT NULL,
    expires_at TIMESTAMPTZ NOT NULL,
    finished_at TIMESTAMPTZ,
    CHECK ((state = 'leased') = (leased_until IS NOT NULL))
);
CREATE UNIQUE INDEX adapter_steps_once ON adapter_steps (operation_id, key) WHERE operation_id IS NOT NULL;
-- The guard: at most one open reconcile step per instance.
CREATE UNIQUE INDEX adapter_steps_reconcile ON adapter_steps (instance_id) WHERE verb = 'reconcile' AND state IN ('queued', 'leased');
CREATE INDEX adapter_steps_open ON adapter_steps (operator_account_id, id) WHERE state IN ('queued', 'leased');
CREATE INDEX adapter_steps_by_instance ON adapter_steps (instance_id, id);
CREATE INDEX adapter_steps_by_project ON adapter_steps (project_id, id);
CREATE INDEX adapter_steps_by_member ON adapter_steps (member_id) WHERE member_id IS NOT NULL;
CREATE INDEX adapter_steps_by_age ON adapter_steps (finished_at) WHERE finished_at IS NOT NULL;

-- The member that the cell belongs to, if any; and whether the cell is hidden from its neighbours.
ALTER TABLE cells ADD COLUMN member_id UUID REFERENCES members (id);
CREATE INDEX cells_by_member ON cells (member_id) WHERE member_id IS NOT NULL;
ALTER TABLE cells ADD COLUMN fenced BOOLEAN NOT NULL DEFAULT FALSE;

-- Material shared by the members of an instance is revoked with the instance.
ALTER TABLE runtime_secrets ADD COLUMN instance_id UUID REFERENCES instances (id);
CREATE INDEX runtime_secrets_by_instance ON runtime_secrets (instance_id) WHERE instance_id IS NOT NULL;
