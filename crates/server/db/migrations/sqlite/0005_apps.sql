-- The same tables as in the PostgreSQL folder, in SQLite's types. A test compares the two.

CREATE TABLE apps (
    id TEXT NOT NULL PRIMARY KEY,
    tenant_id TEXT NOT NULL,
    project_id TEXT NOT NULL REFERENCES projects (id),
    slug TEXT NOT NULL,
    display_name TEXT NOT NULL,
    description TEXT NOT NULL,
    audience TEXT NOT NULL CHECK (audience IN ('project', 'tenant', 'everyone')),
    labels TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    version INTEGER NOT NULL CHECK (version > 0)
) STRICT;
-- The catalog is global: a slug names the same app for all projects.
CREATE UNIQUE INDEX apps_by_slug ON apps (slug);
CREATE INDEX apps_by_project ON apps (project_id, id);

CREATE TABLE app_versions (
    id TEXT NOT NULL PRIMARY KEY,
    tenant_id TEXT NOT NULL,
    project_id TEXT NOT NULL REFERENCES projects (id),
    app_id TEXT NOT NULL REFERENCES apps (id),
    name TEXT NOT NULL,
    manifest TEXT NOT NULL,
    digest TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('draft', 'staged', 'canary', 'active', 'deprecated', 'retired')),
    canary_percent INTEGER CHECK (canary_percent >= 1 AND canary_percent <= 100),
    superseded_by TEXT REFERENCES app_versions (id),
    deprecated_at INTEGER,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    version INTEGER NOT NULL CHECK (version > 0),
    CHECK ((state = 'canary') = (canary_percent IS NOT NULL)),
    CHECK (state <> 'deprecated' OR deprecated_at IS NOT NULL)
) STRICT;
CREATE UNIQUE INDEX app_versions_by_name ON app_versions (app_id, name);
-- The guards: an app has at most one active release and one canary.
CREATE UNIQUE INDEX app_versions_active ON app_versions (app_id) WHERE state = 'active';
CREATE UNIQUE INDEX app_versions_canary ON app_versions (app_id) WHERE state = 'canary';

-- The artifacts of a release: they cannot be deleted, and their states are never behind that of the release.
CREATE TABLE app_version_artifacts (
    app_version_id TEXT NOT NULL REFERENCES app_versions (id),
    name TEXT NOT NULL,
    artifact_id TEXT NOT NULL REFERENCES artifacts (id),
    PRIMARY KEY (app_version_id, name)
) STRICT;
CREATE INDEX app_version_artifacts_by_artifact ON app_version_artifacts (artifact_id);

CREATE TABLE app_version_changes (
    app_version_id TEXT NOT NULL REFERENCES app_versions (id),
    number INTEGER NOT NULL,
    before_state TEXT,
    after_state TEXT NOT NULL,
    actor_id TEXT NOT NULL,
    reason TEXT NOT NULL,
    at INTEGER NOT NULL,
    PRIMARY KEY (app_version_id, number)
) STRICT;

-- A project's right to launch an app. A revoked one allows no launch, but is kept for running instances.
CREATE TABLE entitlements (
    id TEXT NOT NULL PRIMARY KEY,
    tenant_id TEXT NOT NULL,
    project_id TEXT NOT NULL REFERENCES projects (id),
    app_id TEXT NOT NULL REFERENCES apps (id),
    publisher_project_id TEXT NOT NULL REFERENCES projects (id),
    operator_account_id TEXT NOT NULL REFERENCES service_accounts (id),
    permissions TEXT NOT NULL,
    revoked_at INTEGER,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    version INTEGER NOT NULL CHECK (version > 0)
) STRICT;
CREATE UNIQUE INDEX entitlements_by_app ON entitlements (project_id, app_id);
CREATE INDEX entitlements_of_app ON entitlements (app_id, id);
CREATE UNIQUE INDEX entitlements_by_account ON entitlements (operator_account_id);

CREATE TABLE adapters (
    id TEXT NOT NULL PRIMARY KEY,
    tenant_id TEXT NOT NULL,
    project_id TEXT NOT NULL REFERENCES projects (id),
    service_account_id TEXT NOT NULL REFERENCES service_accounts (id),
    name TEXT NOT NULL,
    adapter_version TEXT NOT NULL,
    contract_version INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    seen_at INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX adapters_by_name ON adapters (service_account_id, name);
CREATE INDEX adapters_by_project ON adapters (project_id, id);

CREATE TABLE instances (
    id TEXT NOT NULL PRIMARY KEY,
    tenant_id TEXT NOT NULL,
    project_id TEXT NOT NULL REFERENCES projects (id),
    app_id TEXT NOT NULL REFERENCES apps (id),
    app_version_id TEXT NOT NULL REFERENCES app_versions (id),
    previous_version_id TEXT REFERENCES app_versions (id),
    name TEXT NOT NULL,
    labels TEXT NOT NULL,
    config TEXT NOT NULL,
    previous_config TEXT,
    operator_account_id TEXT NOT NULL REFERENCES service_accounts (id),
    network_id TEXT NOT NULL REFERENCES networks (id),
    topology_mode TEXT,
    shape TEXT NOT NULL CHECK (shape IN ('baremetal', 'gpu_slice')),
    state TEXT NOT NULL CHECK (state IN ('created', 'starting', 'running', 'stopping', 'stopped', 'failed')),
    health TEXT NOT NULL CHECK (health IN ('healthy', 'degraded', 'unhealthy', 'unknown')),
    repair TEXT NOT NULL CHECK (repair IN ('off', 'propose', 'automatic')),
    repairs TEXT NOT NULL,
    protected INTEGER NOT NULL,
    expires_at INTEGER,
    reason TEXT,
    message TEXT,
    running_witness_id TEXT,
    running_transition TEXT NOT NULL GENERATED ALWAYS AS ('running') STORED,
    running_kind TEXT NOT NULL GENERATED ALWAYS AS ('witnessed') STORED,
    stopped_witness_id TEXT,
    stopped_transition TEXT NOT NULL GENERATED ALWAYS AS ('stopped') STORED,
    operation_id TEXT,
    reconcile_due_at INTEGER,
    reconciled_at INTEGER,
    health_message TEXT,
    health_since INTEGER,
    -- When its adapter counts as silent, and when its health is assessed next because an observation becomes stale.
    adapter_silent_at INTEGER,
    assess_due_at INTEGER,
    -- Time when a member last left without evidence of its end.
    unwitnessed_at INTEGER,
    -- Time when a failed launch was fully rolled back: another instance may use its name from then on.
    name_freed_at INTEGER,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    version INTEGER NOT NULL CHECK (version > 0),
    CHECK (state <> 'running' OR running_witness_id IS NOT NULL),
    CHECK (name_freed_at IS NULL OR (state <> 'created' AND state <> 'starting' AND state <> 'running')),
    CHECK (state <> 'stopped' OR stopped_witness_id IS NOT NULL),
    FOREIGN KEY (running_witness_id, id, running_transition, running_kind) REFERENCES witnesses (id, subject_id, transition, kind),
    FOREIGN KEY (stopped_witness_id, id, stopped_transition) REFERENCES witnesses (id, subject_id, transition)
) STRICT;
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
    instance_id TEXT NOT NULL REFERENCES instances (id),
    key TEXT NOT NULL,
    desired INTEGER NOT NULL CHECK (desired >= 0),
    last_ordinal INTEGER NOT NULL CHECK (last_ordinal >= 0),
    capacity TEXT,
    allocation_id TEXT REFERENCES allocations (id),
    PRIMARY KEY (instance_id, key)
) STRICT;

CREATE TABLE members (
    id TEXT NOT NULL PRIMARY KEY,
    tenant_id TEXT NOT NULL,
    project_id TEXT NOT NULL REFERENCES projects (id),
    instance_id TEXT NOT NULL REFERENCES instances (id),
    component_key TEXT NOT NULL,
    name TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('requested', 'provisioning', 'joining', 'active', 'draining', 'drained', 'removing', 'removed', 'failed')),
    health TEXT NOT NULL CHECK (health IN ('healthy', 'degraded', 'unhealthy', 'unknown')),
    health_message TEXT,
    health_incarnation INTEGER NOT NULL,
    health_reason TEXT,
    health_since INTEGER,
    -- Start of the unhealthy period for which a repair was last proposed or suspended: each period is announced once.
    repair_announced_for INTEGER,
    -- Reported by its adapter for this incarnation.
    free_at INTEGER,
    allocation_id TEXT REFERENCES allocations (id),
    allocation_made INTEGER NOT NULL,
    bound_capacity_shape TEXT,
    cell_id TEXT REFERENCES cells (id),
    incarnation INTEGER NOT NULL CHECK (incarnation >= 0),
    app_version_id TEXT REFERENCES app_versions (id),
    adapter_detail TEXT NOT NULL,
    failure_reason TEXT,
    message TEXT,
    fenced INTEGER NOT NULL,
    active_witness_id TEXT,
    active_transition TEXT NOT NULL GENERATED ALWAYS AS ('active') STORED,
    active_kind TEXT NOT NULL GENERATED ALWAYS AS ('witnessed') STORED,
    drained_witness_id TEXT,
    drained_transition TEXT NOT NULL GENERATED ALWAYS AS ('drained') STORED,
    removed_witness_id TEXT,
    removed_transition TEXT NOT NULL GENERATED ALWAYS AS ('removed') STORED,
    operation_id TEXT,
    correlation_id TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    version INTEGER NOT NULL CHECK (version > 0),
    -- A member is active or drained only with evidence about this member; drained cannot be attested.
    CHECK (state <> 'active' OR (active_witness_id IS NOT NULL AND app_version_id IS NOT NULL)),
    CHECK (state <> 'drained' OR drained_witness_id IS NOT NULL),
    CHECK (state <> 'removed' OR removed_witness_id IS NOT NULL),
    FOREIGN KEY (active_witness_id, id, active_transition, active_kind) REFERENCES witnesses (id, subject_id, transition, kind),
    FOREIGN KEY (drained_witness_id, id, drained_transition) REFERENCES witnesses (id, subject_id, transition),
    FOREIGN KEY (removed_witness_id, id, removed_transition) REFERENCES witnesses (id, subject_id, transition)
) STRICT;
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
    member_id TEXT NOT NULL PRIMARY KEY REFERENCES members (id),
    incarnation INTEGER NOT NULL,
    health TEXT NOT NULL CHECK (health IN ('healthy', 'degraded', 'unhealthy', 'unknown')),
    message TEXT,
    at INTEGER NOT NULL
) STRICT;

-- Work queued for adapters. Finished steps are deleted by the sweeper, scheduled reconcile steps when they end.
CREATE TABLE adapter_steps (
    id TEXT NOT NULL PRIMARY KEY,
    tenant_id TEXT NOT NULL,
    project_id TEXT NOT NULL REFERENCES projects (id),
    app_id TEXT NOT NULL REFERENCES apps (id),
    instance_id TEXT NOT NULL REFERENCES instances (id),
    member_id TEXT REFERENCES members (id),
    incarnation INTEGER NOT NULL,
    operation_id TEXT,
    key TEXT NOT NULL,
    verb TEXT NOT NULL CHECK (verb IN ('join', 'leave', 'drain', 'resume', 'remove', 'reconcile')),
    operator_account_id TEXT NOT NULL REFERENCES service_accounts (id),
    input TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('queued', 'leased', 'done', 'failed', 'cancelled')),
    generation INTEGER NOT NULL CHECK (generation >= 0),
    holder TEXT NOT NULL,
    leased_until INTEGER,
    -- Offered from this time on; an adapter can postpone it.
    due_at INTEGER NOT NULL,
    attempts INTEGER NOT NULL,
    message TEXT,
    percent INTEGER CHECK (percent >= 0 AND percent <= 100),
    reason TEXT,
    adapter_detail TEXT,
    correlation_id TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    finished_at INTEGER,
    CHECK ((state = 'leased') = (leased_until IS NOT NULL))
) STRICT;
CREATE UNIQUE INDEX adapter_steps_once ON adapter_steps (operation_id, key) WHERE operation_id IS NOT NULL;
-- The guard: at most one open reconcile step per instance.
CREATE UNIQUE INDEX adapter_steps_reconcile ON adapter_steps (instance_id) WHERE verb = 'reconcile' AND state IN ('queued', 'leased');
CREATE INDEX adapter_steps_open ON adapter_steps (operator_account_id, id) WHERE state IN ('queued', 'leased');
CREATE INDEX adapter_steps_by_instance ON adapter_steps (instance_id, id);
CREATE INDEX adapter_steps_by_project ON adapter_steps (project_id, id);
CREATE INDEX adapter_steps_by_member ON adapter_steps (member_id) WHERE member_id IS NOT NULL;
CREATE INDEX adapter_steps_by_age ON adapter_steps (finished_at) WHERE finished_at IS NOT NULL;

-- The member that the cell belongs to, if any; and whether the cell is hidden from its neighbours.
ALTER TABLE cells ADD COLUMN member_id TEXT REFERENCES members (id);
CREATE INDEX cells_by_member ON cells (member_id) WHERE member_id IS NOT NULL;
ALTER TABLE cells ADD COLUMN fenced INTEGER NOT NULL DEFAULT 0;

-- Material shared by the members of an instance is revoked with the instance.
ALTER TABLE runtime_secrets ADD COLUMN instance_id TEXT REFERENCES instances (id);
CREATE INDEX runtime_secrets_by_instance ON runtime_secrets (instance_id) WHERE instance_id IS NOT NULL;
