-- The registry's content, trusted publisher keys, artifacts with their states, and secrets.

-- The blob folder that belongs to this database. A server with another folder refuses to start.
CREATE TABLE blob_storage (
    one BIGINT NOT NULL PRIMARY KEY CHECK (one = 1),
    storage_id UUID NOT NULL,
    -- The id by which the folder knows its database.
    database_id UUID NOT NULL
);

-- Content by digest, stored once for all repositories. `file` is never reused: removing an old file cannot remove that of a
-- newer push. Content that so far only another registry has, has no file.
CREATE TABLE blobs (
    digest TEXT NOT NULL PRIMARY KEY,
    size BIGINT NOT NULL CHECK (size >= 0),
    file TEXT UNIQUE,
    created_at TIMESTAMPTZ NOT NULL
);

CREATE TABLE repositories (
    id UUID NOT NULL PRIMARY KEY,
    tenant_id UUID NOT NULL,
    project_id UUID NOT NULL REFERENCES projects (id),
    name TEXT NOT NULL,
    created_at TIMESTAMPTZ NOT NULL,
    version BIGINT NOT NULL CHECK (version > 0)
);
CREATE UNIQUE INDEX repositories_by_name ON repositories (project_id, name);

-- The content of each repository. Read access to one repository reveals nothing about the content of others.
CREATE TABLE repository_blobs (
    repository_id UUID NOT NULL REFERENCES repositories (id),
    digest TEXT NOT NULL REFERENCES blobs (digest),
    -- Linked by reference to another registry, without the content having been pushed here: content pushed to other
    -- repositories is not served for it.
    by_reference BOOLEAN NOT NULL,
    -- For links by reference: the size that its own manifest declares, never that of another repository.
    size BIGINT CHECK (size >= 0),
    created_at TIMESTAMPTZ NOT NULL,
    PRIMARY KEY (repository_id, digest)
);
CREATE INDEX repository_blobs_by_digest ON repository_blobs (digest);
CREATE INDEX repository_blobs_by_age ON repository_blobs (created_at);

-- External sources of a repository's content that is not stored here yet.
CREATE TABLE external_sources (
    repository_id UUID NOT NULL REFERENCES repositories (id),
    digest TEXT NOT NULL,
    registry TEXT NOT NULL,
    external_repository TEXT NOT NULL,
    secret_id UUID,
    PRIMARY KEY (repository_id, digest)
);

CREATE TABLE manifests (
    repository_id UUID NOT NULL REFERENCES repositories (id),
    digest TEXT NOT NULL,
    media_type TEXT NOT NULL,
    artifact_type TEXT,
    subject TEXT,
    annotations JSONB NOT NULL,
    content BYTEA NOT NULL,
    -- Total bytes of the manifest and everything it refers to.
    total_size BIGINT NOT NULL CHECK (total_size >= 0),
    created_at TIMESTAMPTZ NOT NULL,
    PRIMARY KEY (repository_id, digest)
);
CREATE INDEX manifests_by_subject ON manifests (repository_id, subject) WHERE subject IS NOT NULL;

-- The invariant of the registry: no manifest without its blobs, and no blob is removed while a manifest needs it.
CREATE TABLE manifest_blobs (
    repository_id UUID NOT NULL,
    manifest TEXT NOT NULL,
    blob TEXT NOT NULL,
    PRIMARY KEY (repository_id, manifest, blob),
    FOREIGN KEY (repository_id, manifest) REFERENCES manifests (repository_id, digest),
    FOREIGN KEY (repository_id, blob) REFERENCES repository_blobs (repository_id, digest)
);
CREATE INDEX manifest_blobs_by_blob ON manifest_blobs (repository_id, blob);

CREATE TABLE manifest_children (
    repository_id UUID NOT NULL,
    manifest TEXT NOT NULL,
    child TEXT NOT NULL,
    PRIMARY KEY (repository_id, manifest, child),
    FOREIGN KEY (repository_id, manifest) REFERENCES manifests (repository_id, digest),
    FOREIGN KEY (repository_id, child) REFERENCES manifests (repository_id, digest)
);
CREATE INDEX manifest_children_by_child ON manifest_children (repository_id, child);

CREATE TABLE tags (
    repository_id UUID NOT NULL,
    name TEXT NOT NULL,
    digest TEXT NOT NULL,
    updated_at TIMESTAMPTZ NOT NULL,
    PRIMARY KEY (repository_id, name),
    FOREIGN KEY (repository_id, digest) REFERENCES manifests (repository_id, digest)
);
CREATE INDEX tags_by_digest ON tags (repository_id, digest);

-- Publishers' keys, and a project's trust policy.
CREATE TABLE publisher_keys (
    id UUID NOT NULL PRIMARY KEY,
    tenant_id UUID NOT NULL,
    project_id UUID NOT NULL REFERENCES projects (id),
    name TEXT NOT NULL,
    public_key TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    algorithm TEXT NOT NULL,
    created_at TIMESTAMPTZ NOT NULL,
    revoked_at TIMESTAMPTZ,
    revoked_reason TEXT,
    version BIGINT NOT NULL CHECK (version > 0)
);
CREATE UNIQUE INDEX publisher_keys_by_name ON publisher_keys (project_id, name);
CREATE UNIQUE INDEX publisher_keys_by_fingerprint ON publisher_keys (project_id, fingerprint);

CREATE TABLE trust_policies (
    project_id UUID NOT NULL PRIMARY KEY REFERENCES projects (id),
    unsigned_up_to TEXT NOT NULL CHECK (unsigned_up_to IN ('draft', 'staged', 'canary', 'active')),
    smoke_to_stage BOOLEAN NOT NULL,
    grace_hours BIGINT NOT NULL CHECK (grace_hours >= 0),
    -- Bumped with every change of the rules or the keys: a verdict is valid for one edition.
    policy BIGINT NOT NULL CHECK (policy > 0),
    version BIGINT NOT NULL CHECK (version > 0)
);

CREATE TABLE artifacts (
    id UUID NOT NULL PRIMARY KEY,
    tenant_id UUID NOT NULL,
    project_id UUID NOT NULL REFERENCES projects (id),
    repository_id UUID NOT NULL,
    digest TEXT NOT NULL,
    kind TEXT NOT NULL CHECK (kind IN ('oci', 'blob')),
    media_type TEXT NOT NULL,
    size BIGINT NOT NULL,
    line TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('draft', 'staged', 'canary', 'active', 'deprecated', 'retired')),
    canary_percent BIGINT CHECK (canary_percent >= 1 AND canary_percent <= 100),
    -- The result of signature verification, and the edition of the policy it is valid for.
    verdict JSONB,
    policy BIGINT,
    smoke_witness_id UUID REFERENCES witnesses (id),
    superseded_by UUID REFERENCES artifacts (id),
    deprecated_at TIMESTAMPTZ,
    labels JSONB NOT NULL,
    created_at TIMESTAMPTZ NOT NULL,
    updated_at TIMESTAMPTZ NOT NULL,
    version BIGINT NOT NULL CHECK (version > 0),
    CHECK ((state = 'canary') = (canary_percent IS NOT NULL)),
    -- No artifact leaves draft before its signatures are verified.
    CHECK (state = 'draft' OR (verdict IS NOT NULL AND policy IS NOT NULL)),
    CHECK (state <> 'deprecated' OR deprecated_at IS NOT NULL),
    FOREIGN KEY (repository_id, digest) REFERENCES manifests (repository_id, digest)
);
CREATE UNIQUE INDEX artifacts_by_digest ON artifacts (repository_id, digest);
CREATE INDEX artifacts_by_project ON artifacts (project_id, id);
CREATE INDEX artifacts_by_project_digest ON artifacts (project_id, digest);
-- The guard: a line has at most one active artifact.
CREATE UNIQUE INDEX artifacts_active ON artifacts (repository_id, line) WHERE state = 'active';

-- Every state change, for as long as the artifact exists.
CREATE TABLE artifact_changes (
    artifact_id UUID NOT NULL REFERENCES artifacts (id),
    number BIGINT NOT NULL,
    before_state TEXT,
    after_state TEXT NOT NULL,
    actor_id TEXT NOT NULL,
    reason TEXT NOT NULL,
    at TIMESTAMPTZ NOT NULL,
    PRIMARY KEY (artifact_id, number)
);

-- The artifact that a cell was created from; a live cell keeps it from being removed.
ALTER TABLE cells ADD COLUMN artifact_id UUID REFERENCES artifacts (id);
CREATE INDEX cells_by_artifact ON cells (artifact_id) WHERE state NOT IN ('destroyed', 'failed');

CREATE TABLE secrets (
    id UUID NOT NULL PRIMARY KEY,
    tenant_id UUID NOT NULL,
    project_id UUID NOT NULL REFERENCES projects (id),
    name TEXT NOT NULL,
    -- The registry (host and port) that it is a credential for; it is sent to no other.
    registry TEXT,
    revision BIGINT NOT NULL CHECK (revision > 0),
    size BIGINT NOT NULL,
    sealed BYTEA NOT NULL,
    created_at TIMESTAMPTZ NOT NULL,
    updated_at TIMESTAMPTZ NOT NULL,
    version BIGINT NOT NULL CHECK (version > 0)
);
CREATE UNIQUE INDEX secrets_by_name ON secrets (project_id, name);

-- Secrets issued by the platform. A credential is stored as a hash only, other material sealed.
CREATE TABLE runtime_secrets (
    id UUID NOT NULL PRIMARY KEY,
    tenant_id UUID NOT NULL,
    project_id UUID NOT NULL REFERENCES projects (id),
    purpose TEXT NOT NULL CHECK (purpose IN ('artifact_pull', 'cluster_bootstrap')),
    name TEXT NOT NULL,
    repository_id UUID REFERENCES repositories (id),
    cell_id UUID REFERENCES cells (id),
    incarnation BIGINT,
    hash BYTEA UNIQUE,
    sealed BYTEA,
    expires_at TIMESTAMPTZ,
    revoked_at TIMESTAMPTZ,
    created_at TIMESTAMPTZ NOT NULL,
    version BIGINT NOT NULL CHECK (version > 0),
    CHECK (purpose <> 'artifact_pull' OR (hash IS NOT NULL AND sealed IS NULL AND repository_id IS NOT NULL
        AND cell_id IS NOT NULL AND incarnation IS NOT NULL AND expires_at IS NOT NULL)),
    CHECK (purpose <> 'cluster_bootstrap' OR (hash IS NULL AND (sealed IS NOT NULL OR revoked_at IS NOT NULL)))
);
CREATE INDEX runtime_secrets_by_project ON runtime_secrets (project_id, id);
CREATE INDEX runtime_secrets_by_cell ON runtime_secrets (cell_id);
CREATE INDEX runtime_secrets_by_expiry ON runtime_secrets (expires_at);
