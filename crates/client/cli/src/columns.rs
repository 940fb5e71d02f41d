//! Table columns by noun, and the field that other commands accept as a reference. A noun that is not listed here is
//! shown with its plain fields, so a new noun works without an entry.

use crate::workload;

/// A heading and the pointer to its value; of several pointers, separated by `|`, the first non-empty one counts.
pub(crate) type Column = (&'static str, &'static str);

const TENANT: &[Column] = &[
    ("SLUG", "/slug"),
    ("DISPLAY NAME", "/display_name"),
    ("LABELS", "/labels"),
    ("MADE", "/created_at"),
    ("ID", "/id"),
];
const PROJECT: &[Column] = &[
    ("TENANT", "/tenant"),
    ("NAME", "/name"),
    ("DISPLAY NAME", "/display_name"),
    ("LABELS", "/labels"),
    ("MADE", "/created_at"),
    ("ID", "/id"),
];
const USER: &[Column] = &[
    ("EMAIL", "/email"),
    ("DISPLAY NAME", "/display_name"),
    ("TENANT", "/tenant_id"),
    ("DISABLED", "/disabled"),
    ("ADDED", "/created_at"),
    ("ID", "/id"),
];
const ROLE_BINDING: &[Column] = &[
    ("USER", "/user_email"),
    ("ROLE", "/role"),
    ("TENANT", "/tenant_id"),
    ("PROJECT", "/project_id"),
    ("SINCE", "/created_at"),
    ("ID", "/id"),
];
const SERVICE_ACCOUNT: &[Column] = &[
    ("NAME", "/name"),
    ("DESCRIPTION", "/description"),
    ("MAY", "/permissions"),
    ("DISABLED", "/disabled"),
    ("MADE", "/created_at"),
    ("ID", "/id"),
];
const TOKEN: &[Column] = &[
    ("NAME", "/name"),
    ("KIND", "/kind"),
    ("BEGINS", "/hint"),
    ("EXPIRES", "/expires_at"),
    ("LAST USED", "/last_used_at"),
    ("REVOKED", "/revoked_at"),
    ("ID", "/id"),
];
const NODE: &[Column] = &[
    ("NAME", "/name"),
    ("STATE", "/state"),
    ("TO APPROVE", "/needs_approval"),
    ("GPUS", "/total/gpus"),
    ("FREE", "/free/gpus"),
    ("CPUS FREE", "/free/cpus"),
    ("MEMORY FREE", "/free/memory_mb"),
    ("HELD BY", "/allocations"),
    ("LAST SEEN", "/seen_at"),
    ("ID", "/id"),
];
const SLOT: &[Column] = &[
    ("SLOT", "/ordinal"),
    ("MODEL", "/model"),
    ("NUMA", "/numa"),
    ("ISLAND", "/island"),
    ("STATE", "/state"),
    ("HELD BY", "/allocation_id"),
    ("REASON", "/reason"),
    ("ID", "/id"),
];
const CELL: &[Column] = &[
    ("NAME", "/name"),
    ("STATE", "/state"),
    ("ADDRESS", "/address"),
    ("ALLOCATION", "/allocation_id"),
    ("NODE", "/node_id"),
    ("INCARNATION", "/incarnation"),
    ("REASON", "/reason"),
    ("MADE", "/created_at"),
    ("ID", "/id"),
];
const NETWORK: &[Column] =
    &[("NAME", "/name"), ("ADDRESSES", "/subnet"), ("MADE", "/created_at"), ("ID", "/id")];
const SSH_KEY: &[Column] = &[
    ("NAME", "/name"),
    ("FINGERPRINT", "/fingerprint"),
    ("USER", "/user_id"),
    ("ALLOCATION", "/allocation_id"),
    ("EXPIRES", "/expires_at"),
    ("ADDED", "/created_at"),
    ("ID", "/id"),
];
const ALLOCATION: &[Column] = &[
    ("NAME", "/name"),
    ("STATE", "/state"),
    ("SHAPE", "/shape"),
    ("GPUS", "/capacity/gpus"),
    ("CPUS", "/capacity/cpus"),
    ("MEMORY MB", "/capacity/memory_mb"),
    ("WHY", "/reason"),
    ("NODE", "/node_id"),
    ("MADE", "/created_at"),
    ("EXPIRES", "/expires_at"),
    ("ID", "/id"),
];
const ARTIFACT: &[Column] = &[
    ("REPOSITORY", "/repository"),
    ("DIGEST", "/short"),
    ("KIND", "/kind"),
    ("STATE", "/shown_state"),
    ("TRUST", "/trust"),
    ("SIZE", "/shown_size"),
    ("PUBLISHED", "/created_at"),
    ("ID", "/id"),
];
const REPOSITORY: &[Column] = &[
    ("NAME", "/name"),
    ("PATH", "/path"),
    ("MANIFESTS", "/manifests"),
    ("SIZE", "/shown_size"),
    ("MADE", "/created_at"),
    ("ID", "/id"),
];
const TAG: &[Column] = &[("TAG", "/name"), ("DIGEST", "/digest"), ("SET", "/updated_at")];
const KEY: &[Column] = &[
    ("NAME", "/name"),
    ("ALGORITHM", "/algorithm"),
    ("FINGERPRINT", "/fingerprint"),
    ("ADDED", "/created_at"),
    ("REVOKED", "/revoked_at"),
    ("WHY", "/revoked_reason"),
    ("ID", "/id"),
];
const SECRET: &[Column] = &[
    ("NAME", "/name"),
    ("REVISION", "/revision"),
    ("BYTES", "/size"),
    ("MADE", "/created_at"),
    ("SET", "/updated_at"),
    ("ID", "/id"),
];
const RUNTIME_SECRET: &[Column] = &[
    ("NAME", "/name"),
    ("PURPOSE", "/purpose"),
    ("CELL", "/cell_id"),
    ("REPOSITORY", "/repository_id"),
    ("EXPIRES", "/expires_at"),
    ("REVOKED", "/revoked_at"),
    ("ISSUED", "/created_at"),
    ("ID", "/id"),
];
const OPERATION: &[Column] = &[
    ("ID", "/id"),
    ("KIND", "/kind"),
    ("SUBJECT", "/subject_name|/subject_id"),
    ("STATE", "/state"),
    ("MADE", "/created_at"),
    ("WHY", "/blocked/reason|/waiting|/reason"),
];
/// Columns of the states in `muster allocation timeline`.
pub(crate) const PHASE: &[Column] =
    &[("STATE", "/state"), ("SINCE", "/since"), ("FOR", "/for"), ("BY", "/operation_id"), ("WHY", "/reason")];
/// Columns of the sizes in `muster capacity`.
pub(crate) const BY_GPUS: &[Column] =
    &[("GPUS", "/gpus"), ("NODES", "/nodes"), ("IN ONE NVLINK DOMAIN", "/in_one_island")];
const CHANGE: &[Column] = &[("WHAT", "/what"), ("WAS", "/was"), ("IS", "/is")];
const WEBHOOK: &[Column] = &[
    ("NAME", "/name"),
    ("STATE", "/state"),
    ("URL", "/url"),
    ("EVENTS", "/event_types"),
    ("LAST RESULT", "/last_result"),
    ("ID", "/id"),
];
const DELIVERY: &[Column] = &[
    ("EVENT", "/sequence"),
    ("ATTEMPT", "/attempt"),
    ("WHEN", "/at"),
    ("DELIVERED", "/delivered"),
    ("RESULT", "/result"),
];
const AUDIT: &[Column] = &[
    ("NUMBER", "/sequence"),
    ("WHEN", "/record/at"),
    ("WHO", "/record/actor/name"),
    ("ACTION", "/record/action"),
    ("OUTCOME", "/record/outcome"),
    ("ON", "/record/target/id"),
    ("TIMES", "/record/count"),
];
const EVENT: &[Column] = &[
    ("NUMBER", "/sequence"),
    ("WHEN", "/time"),
    ("TYPE", "/type"),
    ("SUBJECT", "/subject"),
    ("BY", "/actorid"),
];
/// Columns of the servers in `muster status`.
pub(crate) const REPLICA: &[Column] = &[
    ("REPLICA", "/id"),
    ("ADDRESS", "/address"),
    ("VERSION", "/version"),
    ("STARTED", "/started_at"),
    ("LAST SEEN", "/seen_at"),
];

/// Returns the columns of a list command.
pub(crate) fn columns(words: &[&str]) -> Option<&'static [Column]> {
    match words {
        ["webhook", "deliveries"] => Some(DELIVERY),
        ["tenant", ..] => Some(TENANT),
        ["project", ..] => Some(PROJECT),
        ["user", ..] => Some(USER),
        ["role-binding", ..] => Some(ROLE_BINDING),
        ["service-account", ..] => Some(SERVICE_ACCOUNT),
        ["token", ..] => Some(TOKEN),
        ["node", ..] => Some(NODE),
        ["slot", ..] => Some(SLOT),
        ["allocation", ..] => Some(ALLOCATION),
        ["cell", ..] => Some(CELL),
        ["network", ..] => Some(NETWORK),
        ["ssh-key", ..] => Some(SSH_KEY),
        ["artifact", ..] => Some(ARTIFACT),
        ["repository", "tags", ..] => Some(TAG),
        ["repository", ..] => Some(REPOSITORY),
        ["key", ..] => Some(KEY),
        ["secret", ..] => Some(SECRET),
        ["runtime-secret", ..] => Some(RUNTIME_SECRET),
        ["operation", ..] => Some(OPERATION),
        ["webhook", ..] => Some(WEBHOOK),
        ["audit", ..] => Some(AUDIT),
        ["event", ..] => Some(EVENT),
        _ => workload::columns::columns(words),
    }
}

/// Returns the columns of a list inside a resource, if its plain fields would be too many.
pub(crate) fn part(name: &str) -> Option<&'static [Column]> {
    match name {
        "slots" => Some(SLOT),
        "difference" => Some(CHANGE),
        _ => None,
    }
}
