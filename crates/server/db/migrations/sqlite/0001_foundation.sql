-- The same tables as in the PostgreSQL folder, in SQLite's types. A test compares the two.

CREATE TABLE tenants (
    id TEXT NOT NULL PRIMARY KEY,
    slug TEXT NOT NULL UNIQUE,
    display_name TEXT NOT NULL,
    labels TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    version INTEGER NOT NULL CHECK (version > 0),
    -- The uid of its next user; a uid is never reused.
    next_uid INTEGER NOT NULL DEFAULT 30000 CHECK (next_uid BETWEEN 30000 AND 60000)
) STRICT;

CREATE TABLE projects (
    id TEXT NOT NULL PRIMARY KEY,
    tenant_id TEXT NOT NULL REFERENCES tenants (id),
    name TEXT NOT NULL,
    display_name TEXT NOT NULL,
    labels TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    version INTEGER NOT NULL CHECK (version > 0)
) STRICT;
CREATE UNIQUE INDEX projects_by_name ON projects (tenant_id, name);

CREATE TABLE users (
    id TEXT NOT NULL PRIMARY KEY,
    tenant_id TEXT REFERENCES tenants (id),
    -- Unique among the users of a tenant, and among those of the platform.
    email TEXT NOT NULL,
    display_name TEXT NOT NULL,
    password_hash TEXT,
    disabled INTEGER NOT NULL,
    labels TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    version INTEGER NOT NULL CHECK (version > 0),
    -- The user's login name inside cells.
    login TEXT,
    uid INTEGER,
    CHECK ((login IS NULL) = (tenant_id IS NULL) AND (uid IS NULL) = (tenant_id IS NULL))
) STRICT;
CREATE INDEX users_by_tenant ON users (tenant_id, id);
CREATE UNIQUE INDEX users_by_email ON users (tenant_id, email);
CREATE UNIQUE INDEX users_of_platform_by_email ON users (email) WHERE tenant_id IS NULL;
CREATE INDEX users_by_address ON users (email);
CREATE UNIQUE INDEX users_by_login ON users (tenant_id, login);
CREATE UNIQUE INDEX users_by_uid ON users (tenant_id, uid);

CREATE TABLE role_bindings (
    id TEXT NOT NULL PRIMARY KEY,
    user_id TEXT NOT NULL REFERENCES users (id),
    role TEXT NOT NULL CHECK (role IN ('platform_operator', 'tenant_admin', 'project_admin', 'project_viewer')),
    tenant_id TEXT REFERENCES tenants (id),
    project_id TEXT REFERENCES projects (id),
    created_at INTEGER NOT NULL,
    -- Each role has exactly one level.
    CHECK (
        (role = 'platform_operator' AND tenant_id IS NULL AND project_id IS NULL)
        OR (role = 'tenant_admin' AND tenant_id IS NOT NULL AND project_id IS NULL)
        OR (role IN ('project_admin', 'project_viewer') AND tenant_id IS NOT NULL AND project_id IS NOT NULL)
    )
) STRICT;
CREATE UNIQUE INDEX role_bindings_of_platform ON role_bindings (user_id, role) WHERE tenant_id IS NULL;
CREATE UNIQUE INDEX role_bindings_of_tenant ON role_bindings (user_id, role, tenant_id) WHERE project_id IS NULL;
CREATE UNIQUE INDEX role_bindings_of_project ON role_bindings (user_id, role, project_id);
CREATE INDEX role_bindings_by_tenant ON role_bindings (tenant_id, id);
CREATE INDEX role_bindings_by_project ON role_bindings (project_id, id);

-- The tenant is the project's; a foreign key of its own would lock the tenant's row with every insert.
CREATE TABLE service_accounts (
    id TEXT NOT NULL PRIMARY KEY,
    tenant_id TEXT NOT NULL,
    project_id TEXT NOT NULL REFERENCES projects (id),
    name TEXT NOT NULL,
    description TEXT NOT NULL,
    permissions TEXT NOT NULL,
    disabled INTEGER NOT NULL,
    labels TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    version INTEGER NOT NULL CHECK (version > 0)
) STRICT;
CREATE UNIQUE INDEX service_accounts_by_name ON service_accounts (project_id, name);

-- Sessions are tokens of the kind 'ses'. Only hashes are stored.
CREATE TABLE tokens (
    id TEXT NOT NULL PRIMARY KEY,
    kind TEXT NOT NULL CHECK (kind IN ('pat', 'sat', 'ses')),
    user_id TEXT REFERENCES users (id),
    service_account_id TEXT REFERENCES service_accounts (id),
    name TEXT NOT NULL,
    hint TEXT NOT NULL,
    hash BLOB NOT NULL UNIQUE,
    created_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    revoked_at INTEGER,
    last_used_at INTEGER,
    -- The token that issued it; revoked with that one. No foreign key: tokens issued by a removed user stay.
    parent_id TEXT,
    version INTEGER NOT NULL CHECK (version > 0),
    CHECK ((user_id IS NULL) <> (service_account_id IS NULL))
) STRICT;
CREATE INDEX tokens_by_user ON tokens (user_id, id);
CREATE INDEX tokens_by_service_account ON tokens (service_account_id, id);
CREATE INDEX tokens_by_parent ON tokens (parent_id) WHERE parent_id IS NOT NULL;

-- One row per executed command, in the transaction of its effect. No primary key: the unique index is the guard, and the
-- sabotage test drops it.
CREATE TABLE idempotency (
    -- SHA-256 of actor, route and key: one narrow unique column instead of three wide ones.
    key_hash BLOB NOT NULL,
    request_hash BLOB NOT NULL,
    status INTEGER NOT NULL,
    body TEXT NOT NULL,
    tenant_id TEXT,
    project_id TEXT,
    created_at INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX idempotency_once ON idempotency (key_hash);
CREATE INDEX idempotency_by_age ON idempotency (created_at);

-- The outbox: a command's audit entry as text, and its events, for the sealer.
CREATE TABLE outbox (
    id TEXT NOT NULL PRIMARY KEY,
    chain TEXT NOT NULL,
    entry TEXT NOT NULL,
    events TEXT NOT NULL
) STRICT;

-- Counts of refusals by actor, action and code within a minute.
CREATE TABLE refusals (
    actor_id TEXT NOT NULL,
    action TEXT NOT NULL,
    code TEXT NOT NULL,
    minute INTEGER NOT NULL,
    count INTEGER NOT NULL,
    entry TEXT NOT NULL,
    chain TEXT NOT NULL,
    PRIMARY KEY (actor_id, action, code, minute)
) STRICT;

-- Counters of event streams and audit chains; written only by the sealer.
CREATE TABLE streams (
    name TEXT NOT NULL PRIMARY KEY,
    sequence INTEGER NOT NULL,
    hash TEXT,
    pruned_sequence INTEGER NOT NULL,
    pruned_hash TEXT
) STRICT;

CREATE TABLE audit_entries (
    chain TEXT NOT NULL,
    sequence INTEGER NOT NULL,
    previous_hash TEXT NOT NULL,
    hash TEXT NOT NULL,
    entry TEXT NOT NULL,
    at INTEGER NOT NULL,
    actor_id TEXT NOT NULL,
    action TEXT NOT NULL,
    project_id TEXT,
    PRIMARY KEY (chain, sequence)
) STRICT;
CREATE INDEX audit_entries_by_project ON audit_entries (project_id, sequence) WHERE project_id IS NOT NULL;

CREATE TABLE events (
    platform_sequence INTEGER NOT NULL PRIMARY KEY,
    id TEXT NOT NULL,
    type TEXT NOT NULL,
    subject TEXT NOT NULL,
    at INTEGER NOT NULL,
    tenant_id TEXT,
    tenant_sequence INTEGER,
    project_id TEXT,
    project_sequence INTEGER,
    correlation_id TEXT NOT NULL,
    actor_id TEXT NOT NULL,
    data TEXT NOT NULL
) STRICT;
CREATE UNIQUE INDEX events_of_tenant ON events (tenant_id, tenant_sequence) WHERE tenant_id IS NOT NULL;
CREATE UNIQUE INDEX events_of_project ON events (project_id, project_sequence) WHERE project_id IS NOT NULL;

CREATE TABLE leases (
    name TEXT NOT NULL PRIMARY KEY,
    holder TEXT NOT NULL,
    generation INTEGER NOT NULL,
    expires_at INTEGER NOT NULL
) STRICT;

CREATE TABLE replicas (
    id TEXT NOT NULL PRIMARY KEY,
    address TEXT NOT NULL,
    version TEXT NOT NULL,
    started_at INTEGER NOT NULL,
    seen_at INTEGER NOT NULL
) STRICT;

-- Keys that seal secrets, a sequence of versions per owner (a tenant's id, or 'platform'), each wrapped by a root key.
CREATE TABLE sealing_keys (
    owner TEXT NOT NULL,
    key_version INTEGER NOT NULL,
    root_key_id TEXT NOT NULL,
    wrapped BLOB NOT NULL,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (owner, key_version)
) STRICT;

CREATE TABLE webhooks (
    id TEXT NOT NULL PRIMARY KEY,
    name TEXT NOT NULL,
    tenant_id TEXT REFERENCES tenants (id),
    project_id TEXT REFERENCES projects (id),
    url TEXT NOT NULL,
    event_types TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('enabled', 'disabled', 'failing')),
    secret_sealed BLOB NOT NULL,
    cursor INTEGER NOT NULL,
    attempts INTEGER NOT NULL,
    next_attempt_at INTEGER NOT NULL,
    failing_since INTEGER,
    last_result TEXT,
    labels TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    version INTEGER NOT NULL CHECK (version > 0)
) STRICT;
CREATE UNIQUE INDEX webhooks_of_platform ON webhooks (name) WHERE tenant_id IS NULL;
CREATE UNIQUE INDEX webhooks_of_tenant ON webhooks (tenant_id, name) WHERE project_id IS NULL;
CREATE UNIQUE INDEX webhooks_of_project ON webhooks (project_id, name);
CREATE INDEX webhooks_due ON webhooks (next_attempt_at) WHERE state = 'enabled';

CREATE TABLE webhook_deliveries (
    id TEXT NOT NULL PRIMARY KEY,
    -- Cascades, because a delivery may be recorded while its webhook is being deleted.
    webhook_id TEXT NOT NULL REFERENCES webhooks (id) ON DELETE CASCADE,
    event_id TEXT NOT NULL,
    sequence INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    at INTEGER NOT NULL,
    delivered INTEGER NOT NULL,
    result TEXT NOT NULL
) STRICT;
CREATE INDEX webhook_deliveries_by_webhook ON webhook_deliveries (webhook_id, id);
