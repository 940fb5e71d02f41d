-- The fleet, tenants' allocations of it, and the durable engine.

-- Evidence. Every row that is `active`, `released` or `retired` refers to a witness about itself.
CREATE TABLE witnesses (
    id UUID NOT NULL PRIMARY KEY,
    subject_id UUID NOT NULL,
    transition TEXT NOT NULL CHECK (transition IN ('active', 'destroyed', 'wiped', 'retired', 'drained', 'removed', 'fenced', 'running', 'stopped')),
    kind TEXT NOT NULL CHECK (kind IN ('witnessed', 'attested', 'lost')),
    incarnation BIGINT NOT NULL,
    operation_id UUID,
    node_id UUID,
    task_id UUID,
    actor_id TEXT,
    checked JSONB NOT NULL,
    result JSONB NOT NULL,
    at TIMESTAMPTZ NOT NULL,
    -- Distinguishes an operator's attestation from a verification by the platform.
    CHECK ((kind = 'attested') = (actor_id IS NOT NULL)),
    -- A dead cell proves that a member does no work, never that it works.
    CHECK (kind <> 'lost' OR (transition IN ('drained', 'removed') AND node_id IS NOT NULL)),
    CHECK (kind <> 'attested' OR transition <> 'drained')
);
-- References to evidence include subject and transition, and also the kind where only the platform's own verification
-- counts.
CREATE UNIQUE INDEX witnesses_of_subject ON witnesses (id, subject_id, transition);
CREATE UNIQUE INDEX witnesses_of_kind ON witnesses (id, subject_id, transition, kind);
CREATE INDEX witnesses_by_subject ON witnesses (subject_id, at);

CREATE TABLE nodes (
    id UUID NOT NULL PRIMARY KEY,
    name TEXT NOT NULL,
    labels JSONB NOT NULL,
    inventory JSONB NOT NULL,
    inventory_digest TEXT NOT NULL,
    approved_inventory JSONB,
    approved_digest TEXT,
    approved_at TIMESTAMPTZ,
    cordoned BOOLEAN NOT NULL,
    draining BOOLEAN NOT NULL,
    unreachable_since TIMESTAMPTZ,
    retired_at TIMESTAMPTZ,
    retired_witness_id UUID,
    retired_transition TEXT NOT NULL GENERATED ALWAYS AS ('retired') STORED,
    -- Generated from the facts above, so that it cannot contradict them.
    state TEXT NOT NULL GENERATED ALWAYS AS (CASE
        WHEN retired_at IS NOT NULL THEN 'retired'
        WHEN unreachable_since IS NOT NULL THEN 'unreachable'
        WHEN approved_at IS NULL THEN 'enrolling'
        WHEN draining THEN 'draining'
        WHEN cordoned THEN 'cordoned'
        ELSE 'ready' END) STORED,
    session BIGINT NOT NULL,
    -- Whether the agent of this session started without stale copies on the node; without that it gets no tasks.
    session_clean BOOLEAN NOT NULL,
    agent_version TEXT NOT NULL,
    certificate_until TIMESTAMPTZ NOT NULL,
    -- SHA-256 of the key of the agent's certificate; no other key is accepted, and NULL accepts none. The previous key stays
    -- valid until the new one is used, so that a lost renewal response does not lock the node out.
    key_sha256 BYTEA,
    previous_key_sha256 BYTEA,
    gpus_total BIGINT NOT NULL,
    gpus_free BIGINT NOT NULL,
    cpus_total BIGINT NOT NULL,
    cpus_free BIGINT NOT NULL,
    memory_mb_total BIGINT NOT NULL,
    memory_mb_free BIGINT NOT NULL,
    disk_mb_total BIGINT NOT NULL,
    disk_mb_free BIGINT NOT NULL,
    holders BIGINT NOT NULL CHECK (holders >= 0),
    exclusive BOOLEAN NOT NULL,
    -- Free capacity in the planner's encoding; nodes with the same value differ only by id.
    fit BIGINT NOT NULL,
    created_at TIMESTAMPTZ NOT NULL,
    updated_at TIMESTAMPTZ NOT NULL,
    version BIGINT NOT NULL CHECK (version > 0),
    CHECK (gpus_free >= 0 AND gpus_free <= gpus_total),
    CHECK (cpus_free >= 0 AND cpus_free <= cpus_total),
    CHECK (memory_mb_free >= 0 AND memory_mb_free <= memory_mb_total),
    CHECK (disk_mb_free >= 0 AND disk_mb_free <= disk_mb_total),
    CHECK (NOT exclusive OR holders <= 1),
    CHECK (retired_at IS NULL OR (retired_witness_id IS NOT NULL AND holders = 0)),
    FOREIGN KEY (retired_witness_id, id, retired_transition) REFERENCES witnesses (id, subject_id, transition)
);
CREATE UNIQUE INDEX nodes_by_name ON nodes (name) WHERE retired_at IS NULL;
CREATE INDEX nodes_by_fit ON nodes (fit, id) WHERE state = 'ready' AND NOT exclusive;

-- Heartbeats are written in batches, apart from the wide node rows that they would rewrite.
CREATE TABLE node_heartbeats (
    node_id UUID NOT NULL PRIMARY KEY,
    seen_at TIMESTAMPTZ NOT NULL,
    -- Time of the agent's latest confirmation that every cell is as reported.
    observed_at TIMESTAMPTZ
);

CREATE TABLE slots (
    id UUID NOT NULL PRIMARY KEY,
    node_id UUID NOT NULL REFERENCES nodes (id),
    kind TEXT NOT NULL CHECK (kind IN ('gpu', 'mig', 'vgpu', 'mps')),
    device TEXT NOT NULL,
    ordinal BIGINT NOT NULL,
    model TEXT NOT NULL,
    memory_mb BIGINT NOT NULL,
    numa BIGINT NOT NULL,
    island BIGINT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('discovered', 'approved', 'quarantined', 'retired')),
    reason TEXT,
    -- The allocation after which it could not be verified as clean.
    quarantined_for UUID,
    -- Time since which its device is missing on the node.
    missing_since TIMESTAMPTZ,
    created_at TIMESTAMPTZ NOT NULL,
    updated_at TIMESTAMPTZ NOT NULL,
    version BIGINT NOT NULL CHECK (version > 0),
    CHECK (reason IS NULL OR state = 'quarantined'),
    -- A slot quarantined without a reason is so only while its device is missing.
    CHECK (state <> 'quarantined' OR reason IS NOT NULL OR missing_since IS NOT NULL),
    -- A slot with a missing device cannot be allocated.
    CHECK (state <> 'approved' OR missing_since IS NULL)
);
CREATE UNIQUE INDEX slots_by_device ON slots (node_id, device);
CREATE INDEX slots_by_quarantine ON slots (quarantined_for) WHERE quarantined_for IS NOT NULL;
CREATE INDEX slots_by_node ON slots (node_id, ordinal);

-- A one-time right to enrol a node. Only the hash of its token is stored. `node_id` is the node that joined; for a new
-- certificate of an existing node it is set from the start. With the same key the enrolment can be used again, because a
-- response may be lost.
CREATE TABLE enrolments (
    id UUID NOT NULL PRIMARY KEY,
    hash BYTEA NOT NULL UNIQUE,
    node_name TEXT,
    labels JSONB NOT NULL,
    created_by TEXT NOT NULL,
    created_at TIMESTAMPTZ NOT NULL,
    expires_at TIMESTAMPTZ NOT NULL,
    used_at TIMESTAMPTZ,
    node_id UUID REFERENCES nodes (id),
    key_sha256 BYTEA,
    CHECK (used_at IS NULL OR (node_id IS NOT NULL AND key_sha256 IS NOT NULL))
);

-- The platform's own certificate authority; its key is sealed under the root key.
CREATE TABLE authorities (
    name TEXT NOT NULL PRIMARY KEY,
    certificate TEXT NOT NULL,
    sealed_key BYTEA NOT NULL,
    key_version BIGINT NOT NULL,
    created_at TIMESTAMPTZ NOT NULL
);

CREATE TABLE allocations (
    id UUID NOT NULL PRIMARY KEY,
    tenant_id UUID NOT NULL,
    project_id UUID NOT NULL REFERENCES projects (id),
    name TEXT NOT NULL,
    labels JSONB NOT NULL,
    shape TEXT NOT NULL CHECK (shape IN ('baremetal', 'gpu_slice')),
    gpus BIGINT NOT NULL CHECK (gpus >= 0),
    cpus BIGINT NOT NULL CHECK (cpus > 0),
    memory_mb BIGINT NOT NULL CHECK (memory_mb > 0),
    disk_mb BIGINT NOT NULL CHECK (disk_mb >= 0),
    strategy TEXT NOT NULL CHECK (strategy IN ('pack', 'spread')),
    state TEXT NOT NULL CHECK (state IN ('requested', 'placing', 'provisioning', 'active', 'releasing', 'wiping', 'released', 'failed')),
    node_id UUID REFERENCES nodes (id),
    incarnation BIGINT NOT NULL CHECK (incarnation >= 0),
    held_gpus BIGINT NOT NULL CHECK (held_gpus >= 0),
    held_cpus BIGINT NOT NULL CHECK (held_cpus >= 0),
    held_memory_mb BIGINT NOT NULL CHECK (held_memory_mb >= 0),
    held_disk_mb BIGINT NOT NULL CHECK (held_disk_mb >= 0),
    reason TEXT,
    message TEXT,
    active_witness_id UUID,
    active_transition TEXT NOT NULL GENERATED ALWAYS AS ('active') STORED,
    active_kind TEXT NOT NULL GENERATED ALWAYS AS ('witnessed') STORED,
    wiped_witness_id UUID,
    wiped_transition TEXT NOT NULL GENERATED ALWAYS AS ('wiped') STORED,
    operation_id UUID,
    wait_until TIMESTAMPTZ,
    expires_at TIMESTAMPTZ,
    expiry_warnings BIGINT NOT NULL DEFAULT 0 CHECK (expiry_warnings IN (0, 1, 2)),
    protected BOOLEAN NOT NULL,
    created_at TIMESTAMPTZ NOT NULL,
    updated_at TIMESTAMPTZ NOT NULL,
    version BIGINT NOT NULL CHECK (version > 0),
    CHECK (state <> 'active' OR active_witness_id IS NOT NULL),
    CHECK (state <> 'released' OR wiped_witness_id IS NOT NULL),
    CHECK (state NOT IN ('released', 'failed') OR held_gpus + held_cpus + held_memory_mb + held_disk_mb = 0),
    FOREIGN KEY (active_witness_id, id, active_transition, active_kind) REFERENCES witnesses (id, subject_id, transition, kind),
    FOREIGN KEY (wiped_witness_id, id, wiped_transition) REFERENCES witnesses (id, subject_id, transition)
);
CREATE UNIQUE INDEX allocations_by_name ON allocations (project_id, name) WHERE state NOT IN ('released', 'failed');
CREATE INDEX allocations_by_project ON allocations (project_id, id);
CREATE INDEX allocations_on_node ON allocations (node_id) WHERE state NOT IN ('released', 'failed');
CREATE INDEX allocations_queued ON allocations (id) WHERE state = 'placing';
CREATE INDEX allocations_by_expiry ON allocations (expires_at) WHERE state = 'active';

-- The phases of an allocation.
CREATE TABLE allocation_phases (
    allocation_id UUID NOT NULL REFERENCES allocations (id),
    sequence BIGINT NOT NULL,
    state TEXT NOT NULL,
    operation_id UUID,
    reason TEXT,
    at TIMESTAMPTZ NOT NULL,
    PRIMARY KEY (allocation_id, sequence)
);

CREATE TABLE claims (
    id UUID NOT NULL PRIMARY KEY,
    slot_id UUID NOT NULL REFERENCES slots (id),
    allocation_id UUID NOT NULL REFERENCES allocations (id),
    claimed_at TIMESTAMPTZ NOT NULL,
    released_at TIMESTAMPTZ
);
-- The guard: a slot has at most one live claim.
CREATE UNIQUE INDEX claims_live ON claims (slot_id) WHERE released_at IS NULL;
CREATE INDEX claims_by_allocation ON claims (allocation_id);

-- A project's limits and usage. A limit below the usage only prevents growth.
CREATE TABLE quotas (
    project_id UUID NOT NULL PRIMARY KEY REFERENCES projects (id),
    max_allocations BIGINT,
    max_gpus BIGINT,
    max_cpus BIGINT,
    max_memory_mb BIGINT,
    max_disk_mb BIGINT,
    used_allocations BIGINT NOT NULL CHECK (used_allocations >= 0),
    used_gpus BIGINT NOT NULL CHECK (used_gpus >= 0),
    used_cpus BIGINT NOT NULL CHECK (used_cpus >= 0),
    used_memory_mb BIGINT NOT NULL CHECK (used_memory_mb >= 0),
    used_disk_mb BIGINT NOT NULL CHECK (used_disk_mb >= 0),
    version BIGINT NOT NULL CHECK (version > 0)
);

-- Unfinished operations. Finished ones move to `operations_finished`, so that this table stays as small as the work in
-- progress.
CREATE TABLE operations (
    id UUID NOT NULL PRIMARY KEY,
    kind TEXT NOT NULL,
    tenant_id UUID,
    project_id UUID,
    subject_kind TEXT NOT NULL,
    subject_id UUID NOT NULL,
    subject_name TEXT NOT NULL,
    -- The timelines that show its events.
    instance_id UUID,
    member_id UUID,
    asked_by JSONB NOT NULL,
    correlation_id TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('accepted', 'running', 'verifying', 'compensating', 'blocked', 'succeeded', 'partial', 'failed', 'cancelled', 'superseded')),
    input JSONB NOT NULL,
    exclusive_locks JSONB NOT NULL,
    shared_locks JSONB NOT NULL,
    steps JSONB NOT NULL,
    items JSONB NOT NULL,
    waiting TEXT,
    blocked JSONB,
    reason TEXT,
    message TEXT,
    cancel_requested BOOLEAN NOT NULL,
    supersedes UUID,
    parent_id UUID,
    due_at TIMESTAMPTZ NOT NULL,
    deadline_at TIMESTAMPTZ NOT NULL,
    holder TEXT NOT NULL,
    generation BIGINT NOT NULL CHECK (generation >= 0),
    leased_until TIMESTAMPTZ NOT NULL,
    wakes BIGINT NOT NULL,
    created_at TIMESTAMPTZ NOT NULL,
    updated_at TIMESTAMPTZ NOT NULL,
    version BIGINT NOT NULL CHECK (version > 0),
    -- A blocked operation has a reason; finished ones are not in this table.
    CHECK ((state = 'blocked') = (blocked IS NOT NULL)),
    CHECK (state NOT IN ('succeeded', 'partial', 'failed', 'cancelled', 'superseded'))
);
CREATE INDEX operations_by_due ON operations (due_at);
CREATE INDEX operations_by_subject ON operations (subject_id, id);
CREATE INDEX operations_by_project ON operations (project_id, id);
CREATE INDEX operations_by_parent ON operations (parent_id) WHERE parent_id IS NOT NULL;

-- The locks of an operation. `held` means acquired: by one exclusive holder, or by several shared ones.
CREATE TABLE operation_locks (
    operation_id UUID NOT NULL REFERENCES operations (id),
    thing UUID NOT NULL,
    held BOOLEAN NOT NULL,
    shared BOOLEAN NOT NULL,
    PRIMARY KEY (operation_id, thing)
);
CREATE UNIQUE INDEX operation_locks_held ON operation_locks (thing) WHERE held AND NOT shared;
CREATE INDEX operation_locks_by_thing ON operation_locks (thing, operation_id);

CREATE TABLE operations_finished (
    id UUID NOT NULL PRIMARY KEY,
    project_id UUID,
    subject_id UUID NOT NULL,
    parent_id UUID,
    kind TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('accepted', 'running', 'verifying', 'compensating', 'blocked', 'succeeded', 'partial', 'failed', 'cancelled', 'superseded')),
    finished_at TIMESTAMPTZ NOT NULL,
    document JSONB NOT NULL,
    CHECK (state IN ('succeeded', 'partial', 'failed', 'cancelled', 'superseded'))
);
CREATE INDEX operations_finished_by_project ON operations_finished (project_id, id);
CREATE INDEX operations_finished_by_state ON operations_finished (state, id);
CREATE INDEX operations_finished_by_subject ON operations_finished (subject_id, id);
CREATE INDEX operations_finished_by_parent ON operations_finished (parent_id) WHERE parent_id IS NOT NULL;

CREATE TABLE node_tasks (
    id UUID NOT NULL PRIMARY KEY,
    node_id UUID NOT NULL REFERENCES nodes (id),
    operation_id UUID NOT NULL,
    key TEXT NOT NULL,
    kind TEXT NOT NULL CHECK (kind IN ('prepare', 'inspect', 'resize', 'destroy', 'wipe', 'survey', 'cell_create', 'cell_inspect', 'cell_destroy', 'keep_logs', 'stream', 'sweep', 'cell_files', 'cell_service', 'cell_command', 'cell_probe', 'image_pull', 'share_remove')),
    allocation_id UUID,
    incarnation BIGINT NOT NULL,
    generation BIGINT NOT NULL,
    payload JSONB NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('queued', 'delivered', 'running', 'done', 'failed', 'expired')),
    result JSONB,
    message TEXT,
    correlation_id TEXT NOT NULL,
    queued_at TIMESTAMPTZ NOT NULL,
    delivered_at TIMESTAMPTZ,
    finished_at TIMESTAMPTZ,
    expires_at TIMESTAMPTZ NOT NULL
);
CREATE UNIQUE INDEX node_tasks_once ON node_tasks (operation_id, key);
CREATE INDEX node_tasks_queued ON node_tasks (node_id, id) WHERE state = 'queued';
CREATE INDEX node_tasks_open ON node_tasks (node_id, id) WHERE state IN ('queued', 'delivered', 'running');
CREATE INDEX node_tasks_by_age ON node_tasks (finished_at) WHERE finished_at IS NOT NULL;

CREATE TABLE gpu_products (
    id UUID NOT NULL PRIMARY KEY,
    name TEXT NOT NULL,
    memory_mb BIGINT NOT NULL CHECK (memory_mb > 0),
    architecture TEXT NOT NULL,
    created_at TIMESTAMPTZ NOT NULL,
    updated_at TIMESTAMPTZ NOT NULL,
    version BIGINT NOT NULL CHECK (version > 0)
);
CREATE UNIQUE INDEX gpu_products_by_name ON gpu_products (name);
