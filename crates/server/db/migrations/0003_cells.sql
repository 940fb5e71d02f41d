-- Cells, the networks between them, and users' access to them.

-- The address to which other nodes send packets for its cells.
ALTER TABLE nodes ADD COLUMN address TEXT;
-- The address that its agent reported last; if it differs from `address`, it waits for an operator.
ALTER TABLE nodes ADD COLUMN reported_address TEXT;
-- The peer address of the agent's connection when it reported that.
ALTER TABLE nodes ADD COLUMN peer_address TEXT;
-- The guard: an address belongs to one node.
CREATE UNIQUE INDEX nodes_by_address ON nodes (address) WHERE retired_at IS NULL;
-- The file system that it shares with other nodes, as reported by its agent; equal values mean the same file system.
ALTER TABLE nodes ADD COLUMN shared_files TEXT;

-- A node's desired networks and keys are derived from other tables; these revisions record when they changed and which
-- revision the agent has applied. Separate from the wide node rows, which placement locks.
CREATE TABLE node_revisions (
    node_id UUID NOT NULL PRIMARY KEY REFERENCES nodes (id),
    desired_revision BIGINT NOT NULL,
    observed_revision BIGINT NOT NULL
);

-- One for the bare cells of a project; each instance has its own.
CREATE TABLE networks (
    id UUID NOT NULL PRIMARY KEY,
    tenant_id UUID NOT NULL,
    project_id UUID NOT NULL REFERENCES projects (id),
    name TEXT NOT NULL,
    -- The VXLAN network identifier, which also determines the addresses.
    vni BIGINT NOT NULL UNIQUE CHECK (vni > 0 AND vni < 16777216),
    subnet TEXT NOT NULL,
    -- The nodes' file system for files shared by its cells; set with the first such cell, cleared when their removal is
    -- verified.
    shared_files TEXT,
    created_at TIMESTAMPTZ NOT NULL,
    updated_at TIMESTAMPTZ NOT NULL,
    version BIGINT NOT NULL CHECK (version > 0)
);
CREATE UNIQUE INDEX networks_by_name ON networks (project_id, name);

CREATE TABLE cells (
    id UUID NOT NULL PRIMARY KEY,
    tenant_id UUID NOT NULL,
    project_id UUID NOT NULL REFERENCES projects (id),
    allocation_id UUID NOT NULL REFERENCES allocations (id),
    node_id UUID NOT NULL REFERENCES nodes (id),
    network_id UUID NOT NULL REFERENCES networks (id),
    name TEXT NOT NULL,
    labels JSONB NOT NULL,
    spec JSONB NOT NULL,
    people BOOLEAN NOT NULL,
    -- Its host number within the network's subnet, from 1.
    host BIGINT NOT NULL CHECK (host > 0),
    state TEXT NOT NULL CHECK (state IN ('requested', 'provisioning', 'running', 'destroying', 'destroyed', 'failed')),
    incarnation BIGINT NOT NULL CHECK (incarnation >= 0),
    reason TEXT,
    message TEXT,
    running_witness_id UUID,
    running_transition TEXT NOT NULL GENERATED ALWAYS AS ('active') STORED,
    running_kind TEXT NOT NULL GENERATED ALWAYS AS ('witnessed') STORED,
    destroyed_witness_id UUID,
    destroyed_transition TEXT NOT NULL GENERATED ALWAYS AS ('destroyed') STORED,
    operation_id UUID,
    created_at TIMESTAMPTZ NOT NULL,
    updated_at TIMESTAMPTZ NOT NULL,
    version BIGINT NOT NULL CHECK (version > 0),
    CHECK (state <> 'running' OR running_witness_id IS NOT NULL),
    CHECK (state <> 'destroyed' OR destroyed_witness_id IS NOT NULL),
    FOREIGN KEY (running_witness_id, id, running_transition, running_kind) REFERENCES witnesses (id, subject_id, transition, kind),
    FOREIGN KEY (destroyed_witness_id, id, destroyed_transition) REFERENCES witnesses (id, subject_id, transition)
);
CREATE UNIQUE INDEX cells_by_name ON cells (project_id, name) WHERE state NOT IN ('destroyed', 'failed');
-- The guard: an address of a network has at most one live cell.
CREATE UNIQUE INDEX cells_by_address ON cells (network_id, host) WHERE state NOT IN ('destroyed', 'failed');
CREATE INDEX cells_by_project ON cells (project_id, id);
CREATE INDEX cells_by_allocation ON cells (allocation_id) WHERE state NOT IN ('destroyed', 'failed');
CREATE INDEX cells_by_node ON cells (node_id) WHERE state NOT IN ('destroyed', 'failed');

-- The latest status of each cell as reported by its node's agent: observations that age, apart from the cell's state.
CREATE TABLE cell_observations (
    cell_id UUID NOT NULL PRIMARY KEY REFERENCES cells (id),
    incarnation BIGINT NOT NULL,
    alive BOOLEAN NOT NULL,
    services JSONB NOT NULL,
    message TEXT,
    boot_id TEXT NOT NULL,
    -- Time since which it is alive, or dead.
    since TIMESTAMPTZ NOT NULL,
    observed_at TIMESTAMPTZ NOT NULL
);

CREATE INDEX cell_observations_dead ON cell_observations (cell_id) WHERE NOT alive;

-- The restart decision for each ended incarnation of a cell: one per incarnation, so that no end causes two restarts.
CREATE TABLE cell_restarts (
    cell_id UUID NOT NULL REFERENCES cells (id),
    incarnation BIGINT NOT NULL,
    -- Whether a restart was submitted; false if its budget was exhausted or its member was drained.
    opened BOOLEAN NOT NULL,
    at TIMESTAMPTZ NOT NULL,
    PRIMARY KEY (cell_id, incarnation)
);

-- Node ports that lead to cells. A port has at most one cell.
CREATE TABLE node_ports (
    node_id UUID NOT NULL REFERENCES nodes (id),
    protocol TEXT NOT NULL CHECK (protocol IN ('tcp', 'udp')),
    port BIGINT NOT NULL CHECK (port > 0 AND port < 65536),
    cell_id UUID NOT NULL REFERENCES cells (id),
    cell_port BIGINT NOT NULL CHECK (cell_port > 0 AND cell_port < 65536),
    PRIMARY KEY (node_id, protocol, port)
);
CREATE INDEX node_ports_by_cell ON node_ports (cell_id);

-- The archived tail of the service logs of removed cells.
CREATE TABLE cell_logs (
    cell_id UUID NOT NULL REFERENCES cells (id),
    incarnation BIGINT NOT NULL,
    service TEXT NOT NULL,
    text TEXT NOT NULL,
    truncated BOOLEAN NOT NULL,
    kept_at TIMESTAMPTZ NOT NULL,
    PRIMARY KEY (cell_id, incarnation, service)
);
CREATE INDEX cell_logs_by_age ON cell_logs (kept_at);

-- A key is valid in all cells of its project, or is a grant for those of one allocation, usually until a time.
CREATE TABLE ssh_keys (
    id UUID NOT NULL PRIMARY KEY,
    tenant_id UUID NOT NULL,
    project_id UUID NOT NULL REFERENCES projects (id),
    user_id UUID NOT NULL REFERENCES users (id),
    name TEXT NOT NULL,
    public_key TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    allocation_id UUID REFERENCES allocations (id),
    expires_at TIMESTAMPTZ,
    granted_by UUID,
    created_at TIMESTAMPTZ NOT NULL,
    version BIGINT NOT NULL CHECK (version > 0),
    CHECK (granted_by IS NULL OR (allocation_id IS NOT NULL AND expires_at IS NOT NULL))
);
CREATE UNIQUE INDEX ssh_keys_by_name ON ssh_keys (project_id, user_id, name);
CREATE UNIQUE INDEX ssh_keys_by_fingerprint ON ssh_keys (project_id, user_id, fingerprint) WHERE allocation_id IS NULL;
CREATE UNIQUE INDEX ssh_keys_by_grant ON ssh_keys (allocation_id, user_id, fingerprint) WHERE allocation_id IS NOT NULL;
CREATE INDEX ssh_keys_by_expiry ON ssh_keys (expires_at) WHERE expires_at IS NOT NULL;

-- Terminals, commands and transfers that were granted and not joined yet. The requesting actor joins once, and soon.
CREATE TABLE cell_streams (
    id UUID NOT NULL PRIMARY KEY,
    tenant_id UUID NOT NULL,
    project_id UUID NOT NULL REFERENCES projects (id),
    cell_id UUID NOT NULL REFERENCES cells (id),
    incarnation BIGINT NOT NULL,
    actor_id TEXT NOT NULL,
    what JSONB NOT NULL,
    created_at TIMESTAMPTZ NOT NULL,
    expires_at TIMESTAMPTZ NOT NULL,
    joined_at TIMESTAMPTZ
);
CREATE INDEX cell_streams_by_expiry ON cell_streams (expires_at);
