//! Columns of app resources.

use crate::columns::Column;

const APP: &[Column] = &[
    ("SLUG", "/slug"),
    ("NAME", "/display_name"),
    ("ACTIVE", "/active_version"),
    ("CANARY", "/canary_version"),
    ("ENTITLED", "/entitled"),
    ("AUDIENCE", "/audience"),
    ("ID", "/id"),
];
const APP_VERSION: &[Column] = &[
    ("APP", "/app"),
    ("VERSION", "/name"),
    ("STATE", "/state"),
    ("CANARY %", "/canary_percent"),
    ("INSTANCES", "/instances"),
    ("PUBLISHED", "/created_at"),
    ("ID", "/id"),
];
const ENTITLEMENT: &[Column] = &[
    ("APP", "/app"),
    ("PROJECT", "/project_id"),
    ("MAY", "/permissions"),
    ("GRANTED", "/created_at"),
    ("REVOKED", "/revoked_at"),
    ("ID", "/id"),
];
const ADAPTER: &[Column] = &[
    ("NAME", "/name"),
    ("VERSION", "/adapter_version"),
    ("CONTRACT", "/contract_version"),
    ("LAST SEEN", "/seen_at"),
    ("LEASES", "/leases"),
    ("ID", "/id"),
];
const INSTANCE: &[Column] = &[
    ("NAME", "/name"),
    ("APP", "/app"),
    ("VERSION", "/app_version"),
    ("STATE", "/state"),
    ("HEALTH", "/health"),
    ("COMPONENTS", "/components"),
    ("MADE", "/created_at"),
    ("WHY", "/reason"),
    ("ID", "/id"),
];
const MEMBER: &[Column] = &[
    ("NAME", "/name"),
    ("COMPONENT", "/component_key"),
    ("STATE", "/state"),
    ("HEALTH", "/health"),
    ("NODE", "/node_id"),
    ("ALLOCATION", "/allocation_id"),
    ("ADDRESS", "/address"),
    ("VERSION", "/app_version_id"),
    ("INCARNATION", "/incarnation"),
    ("FENCED", "/fenced"),
    ("LAST OPERATION", "/last_operation_id"),
    ("WHY", "/failure_reason|/health_message"),
    ("ID", "/id"),
];
const ADAPTER_STEP: &[Column] = &[
    ("VERB", "/verb"),
    ("MEMBER", "/member_id"),
    ("STATE", "/state"),
    ("HOLDER", "/holder"),
    ("LEASE ENDS", "/lease_ends"),
    ("ATTEMPTS", "/attempts"),
    ("MESSAGE", "/message"),
    ("ID", "/id"),
];
/// Columns of the components in `muster instance get`.
pub(crate) const COMPONENT: &[Column] = &[
    ("COMPONENT", "/component_key"),
    ("DESIRED", "/desired"),
    ("ACTIVE", "/current"),
    ("MEMBERS", "/members"),
    ("HEALTH", "/health"),
    ("CAPACITY", "/each"),
    ("ALLOCATION", "/allocation_id"),
];
/// Columns of the addresses in `muster instance endpoints`.
pub(crate) const ENDPOINT: &[Column] = &[
    ("NAME", "/name"),
    ("MEMBER", "/member"),
    ("COMPONENT", "/component_key"),
    ("INSIDE", "/inside"),
    ("FROM OUTSIDE", "/outside"),
    ("PROTOCOL", "/protocol"),
];
/// Columns of the snapshot's members in `muster adapter-step get`.
pub(crate) const SNAPSHOT_MEMBER: &[Column] = &[
    ("NAME", "/name"),
    ("COMPONENT", "/component_key"),
    ("STATE", "/state"),
    ("HEALTH", "/health"),
    ("ADDRESS", "/address"),
    ("INCARNATION", "/incarnation"),
    ("UNREACHABLE", "/unreachable"),
];

/// Returns the columns of a list command.
pub(crate) fn columns(words: &[&str]) -> Option<&'static [Column]> {
    match words {
        ["app", ..] => Some(APP),
        ["app-version", ..] => Some(APP_VERSION),
        ["entitlement", ..] => Some(ENTITLEMENT),
        ["adapter", ..] => Some(ADAPTER),
        ["instance", ..] => Some(INSTANCE),
        ["member", ..] => Some(MEMBER),
        ["adapter-step", ..] => Some(ADAPTER_STEP),
        _ => None,
    }
}
