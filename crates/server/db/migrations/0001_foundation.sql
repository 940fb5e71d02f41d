-- Identity, the command record, the outbox, and the sealed audit log and events.
--
-- Migrations are written for PostgreSQL and translated for SQLite (src/migrations.rs). A line `-- sqlite: …` replaces the line
-- above it there.

CREATE TABLE tenants (
    id UUID NOT NULL PRIMARY KEY,
    slug TEXT NOT NULL UNIQUE,
    display_name TEXT NOT NULL,
    labels JSONB NOT NULL,
    created_at TIMESTAMPTZ NOT NULL,
    updated_at TIMESTAMPTZ NOT NULL,
    version BIGINT NOT NULL CHECK (version > 0),
    -- The uid of its next user; a uid is never reused.
    next_uid BIGINT NOT NULL DEFAULT 30000 CHECK (next_uid BETWEEN 30000 AND 60000)
);

CREATE TABLE projects (
    id UUID NOT NULL PRIMARY KEY,
    tenant_id UUID NOT NULL REFERENCES tenants (id),
    name TEXT NOT NULL,
    display_name TEXT NOT NULL,
    labels JSONB NOT NULL,
    created_at TIMESTAMPTZ NOT NULL,
    updated_at TIMESTAMPTZ NOT NULL,
    version BIGINT NOT NULL CHECK (version > 0)
);
CREATE UNIQUE INDEX projects_by_name ON projects (tenant_id, name);

CREATE TABLE users (
    id UUID NOT NULL PRIMARY KEY,
    tenant_id UUID REFERENCES tenants (id),
    -- Unique among the users of a tenant, and among those of the platform.
    email TEXT NOT NULL,
    display_name TEXT NOT NULL,
    password_hash TEXT,
    disabled BOOLEAN NOT NULL,
    labels JSONB NOT NULL,
    created_at TIMESTAMPTZ NOT NULL,
    updated_at TIMESTAMPTZ NOT NULL,
    version BIGINT NOT NULL CHECK (version > 0),
    -- The user's login name inside cells.
    login TEXT,
    uid BIGINT,
    CHECK ((login IS NULL) = (tenant_id IS NULL) AND (uid IS NULL) = (tenant_id IS NULL))
);
CREATE INDEX users_by_tenant ON users (tenant_id, id);
CREATE UNIQUE INDEX users_by_email ON users (tenant_id, email);
CREATE UNIQUE INDEX users_of_platform_by_email ON users (email) WHERE tenant_id IS NULL;
CREATE INDEX users_by_address ON users (email);
CREATE UNIQUE INDEX users_by_login ON users (tenant_id, login);
CREATE UNIQUE INDEX users_by_uid ON users (tenant_id, uid);

CREATE TABLE role_bindings (
    id UUID NOT NULL PRIMARY KEY,
    user_id UUID NOT NULL REFERENCES users (id),
    role TEXT NOT NULL CHECK (role IN ('platform_operator', 'tenant_admin', 'project_admin', 'project_viewer')),
    tenant_id UUID REFERENCES tenants (id),
    project_id UUID REFERENCES projects (id),
    created_at TIMESTAMPTZ NOT NULL,
    -- Each role has exactly one level.
    CHECK (
        (role = 'platform_operator' AND tenant_id IS NULL AND project_id IS NULL)
        OR (role = 'tenant_admin' AND tenant_id IS NOT NULL AND project_id IS NULL)
        OR (role IN ('project_admin', 'project_viewer') AND tenant_id IS NOT NULL AND project_id IS NOT NULL)
    )
);
CREATE UNIQUE INDEX role_bindings_of_platform ON role_bindings (user_id, role) WHERE tenant_id IS NULL;
CREATE UNIQUE INDEX role_bindings_of_tenant ON role_bindings (user_id, role, tenant_id) WHERE project_id IS NULL;
CREATE UNIQUE INDEX role_bindings_of_project ON role_bindings (user_id, role, project_id);
CREATE INDEX role_bindings_by_tenant ON role_bindings (tenant_id, id);
CREATE INDEX role_bindings_by_project ON role_bindings (project_id, id);

-- The tenant is the project's; a foreign key of its own would lock the tenant's row with every insert.
CREATE TABLE service_accounts (
    id UUID NOT NULL PRIMARY KEY,
    tenant_id UUID NOT NULL,
    project_id UUID NOT NULL REFERENCES projects (id),
    name TEXT NOT NULL,
    description TEXT NOT NULL,
    permissions JSONB NOT NULL,
    disabled BOOLEAN NOT NULL,
    labels JSONB NOT NULL,
    created_at TIMESTAMPTZ NOT NULL,
    updated_at TIMESTAMPTZ NOT NULL,
    version BIGINT NOT NULL CHECK (version > 0)
);
CREATE UNIQUE INDEX service_accounts_by_name ON service_accounts (project_id, name);

-- Sessions are tokens of the kind 'ses'. Only hashes are stored.
CREATE TABLE tokens (
    id UUID NOT NULL PRIMARY KEY,
    kind TEXT NOT NULL CHECK (kind IN ('pat', 'sat', 'ses')),
    user_id UUID REFERENCES users (id),
    service_account_id UUID REFERENCES service_accounts (id),
    name TEXT NOT NULL,
    hint TEXT NOT NULL,
    hash BYTEA NOT NULL UNIQUE,
    created_at TIMESTAMPTZ NOT NULL,
    expires_at TIMESTAMPTZ NOT NULL,
    revoked_at TIMESTAMPTZ,
    last_used_at TIMESTAMPTZ,
    -- The token that issued it; revoked with that one. No foreign key: tokens issued by a removed user stay.
    parent_id UUID,
    version BIGINT NOT NULL CHECK (version > 0),
    CHECK ((user_id IS NULL) <> (service_account_id IS NULL))
);
CREATE INDEX tokens_by_user ON tokens (user_id, id);
CREATE INDEX tokens_by_service_account ON tokens (service_account_id, id);
CREATE INDEX tokens_by_parent ON tokens (parent_id) WHERE parent_id IS NOT NULL;

-- One row per executed command, in the transaction of its effect. No primary key: the unique index is the guard, and the
-- sabotage test drops it.
CREATE TABLE idempotency (
    -- SHA-256 of actor, route and key: one narrow unique column instead of three wide ones.
    key_hash BYTEA NOT NULL,
    request_hash BYTEA NOT NULL,
    status BIGINT NOT NULL,
    body TEXT NOT NULL,
    tenant_id UUID,
    project_id UUID,
    created_at TIMESTAMPTZ NOT NULL
);
CREATE UNIQUE INDEX idempotency_once ON idempotency (key_hash);
CREATE INDEX idempotency_by_age ON idempotency USING brin (created_at);
-- sqlite: CREATE INDEX idempotency_by_age ON idempotency (created_at);

-- The outbox: a command's audit entry as text, and its events, for the sealer.
CREATE TABLE outbox (
    id UUID NOT NULL PRIMARY KEY,
    chain TEXT NOT NULL,
    entry TEXT NOT NULL,
    events TEXT NOT NULL
);

-- Counts of refusals by actor, action and code within a minute.
CREATE TABLE refusals (
    actor_id TEXT NOT NULL,
    action TEXT NOT NULL,
    code TEXT NOT NULL,
    minute BIGINT NOT NULL,
    count BIGINT NOT NULL,
    entry TEXT NOT NULL,
    chain TEXT NOT NULL,
    PRIMARY KEY (actor_id, action, code, minute)
);

-- Counters of event streams and audit chains; written only by the sealer.
CREATE TABLE streams (
    name TEXT NOT NULL PRIMARY KEY,
    sequence BIGINT NOT NULL,
    hash TEXT,
    pruned_sequence BIGINT NOT NULL,
    pruned_hash TEXT
);

CREATE TABLE audit_entries (
    chain TEXT NOT NULL,
    sequence BIGINT NOT NULL,
    previous_hash TEXT NOT NULL,
    hash TEXT NOT NULL,
    entry TEXT NOT NULL,
    at TIMESTAMPTZ NOT NULL,
    actor_id TEXT NOT NULL,
    action TEXT NOT NULL,
    project_id UUID,
    PRIMARY KEY (chain, sequence)
);
CREATE INDEX audit_entries_by_project ON audit_entries (project_id, sequence) WHERE project_id IS NOT NULL;

CREATE TABLE events (
    platform_sequence BIGINT NOT NULL PRIMARY KEY,
    id UUID NOT NULL,
    type TEXT NOT NULL,
    subject TEXT NOT NULL,
    at TIMESTAMPTZ NOT NULL,
    tenant_id UUID,
    tenant_sequence BIGINT,
    project_id UUID,
    project_sequence BIGINT,
    instance_id UUID,
    member_id UUID,
    correlation_id TEXT NOT NULL,
    actor_id TEXT NOT NULL,
    data JSONB NOT NULL
);
CREATE UNIQUE INDEX events_of_tenant ON events (tenant_id, tenant_sequence) WHERE tenant_id IS NOT NULL;
CREATE UNIQUE INDEX events_of_project ON events (project_id, project_sequence) WHERE project_id IS NOT NULL;
CREATE INDEX events_of_instance ON events (instance_id, project_sequence) WHERE instance_id IS NOT NULL;

CREATE TABLE leases (
    name TEXT NOT NULL PRIMARY KEY,
    holder TEXT NOT NULL,
    generation BIGINT NOT NULL,
    expires_at TIMESTAMPTZ NOT NULL
);

CREATE TABLE replicas (
    id UUID NOT NULL PRIMARY KEY,
    address TEXT NOT NULL,
    version TEXT NOT NULL,
    started_at TIMESTAMPTZ NOT NULL,
    seen_at TIMESTAMPTZ NOT NULL
);

-- Keys that seal secrets, a sequence of versions per owner (a tenant's id, or 'platform'), each wrapped by a root key.
CREATE TABLE sealing_keys (
    owner TEXT NOT NULL,
    key_version BIGINT NOT NULL,
    root_key_id TEXT NOT NULL,
    wrapped BYTEA NOT NULL,
    created_at TIMESTAMPTZ NOT NULL,
    PRIMARY KEY (owner, key_version)
);

CREATE TABLE webhooks (
    id UUID NOT NULL PRIMARY KEY,
    name TEXT NOT NULL,
    tenant_id UUID REFERENCES tenants (id),
    project_id UUID REFERENCES projects (id),
    url TEXT NOT NULL,
    event_types JSONB NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('enabled', 'disabled', 'failing')),
    secret_sealed BYTEA NOT NULL,
    cursor BIGINT NOT NULL,
    attempts BIGINT NOT NULL,
    next_attempt_at TIMESTAMPTZ NOT NULL,
    failing_since TIMESTAMPTZ,
    last_result TEXT,
    labels JSONB NOT NULL,
    created_at TIMESTAMPTZ NOT NULL,
    updated_at TIMESTAMPTZ NOT NULL,
    version BIGINT NOT NULL CHECK (version > 0)
);
CREATE UNIQUE INDEX webhooks_of_platform ON webhooks (name) WHERE tenant_id IS NULL;
CREATE UNIQUE INDEX webhooks_of_tenant ON webhooks (tenant_id, name) WHERE project_id IS NULL;
CREATE UNIQUE INDEX webhooks_of_project ON webhooks (project_id, name);
CREATE INDEX webhooks_due ON webhooks (next_attempt_at) WHERE state = 'enabled';

CREATE TABLE webhook_deliveries (
    id UUID NOT NULL PRIMARY KEY,
    -- Cascades, because a delivery may be recorded while its webhook is being deleted.
    webhook_id UUID NOT NULL REFERENCES webhooks (id) ON DELETE CASCADE,
    event_id UUID NOT NULL,
    sequence BIGINT NOT NULL,
    attempt BIGINT NOT NULL,
    at TIMESTAMPTZ NOT NULL,
    delivered BOOLEAN NOT NULL,
    result TEXT NOT NULL
);
CREATE INDEX webhook_deliveries_by_webhook ON webhook_deliveries (webhook_id, id);
