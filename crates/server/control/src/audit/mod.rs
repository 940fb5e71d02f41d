//! The audit: actor, action and result of every command.

mod before;
mod export;
mod head;
mod heads;
mod list;

pub(crate) use before::audit_detail;
pub use before::{WITHOUT_BEFORE, is_without_before};
pub use export::export;
pub use head::head;
pub use heads::{AuditHeadsError, AuditKey, HeadsDestination, SignedHead};
pub use list::list;

use muster_api::Code;
use muster_authz::Permission;
use muster_ids::TenantId;
use muster_model::Scope;
use muster_model::audit::Sealed;
use serde_json::value::RawValue;

use crate::{Cx, Error, Result};

/// Resolves the chain of a request. The chain of a deleted tenant remains, and operators can still read it by the tenant's
/// id.
async fn chain(
    cx: &Cx,
    tenant: Option<&str>,
    project: Option<&str>,
    permission: Permission,
) -> Result<Scope> {
    let scope = match (cx.scope(tenant, project).await, tenant.map(str::parse::<TenantId>)) {
        (Ok(scope), _) => scope,
        (Err(error), Some(Ok(removed))) if error.code == Code::NotFound && cx.is_operator() => {
            Scope::Tenant(removed)
        }
        (Err(error), _) => return Err(error),
    };
    cx.authorize(permission, scope, "chain")?;
    Ok(scope)
}

/// An entry on the wire. The record is byte for byte the hashed one, so that a client can verify the hash.
#[derive(serde::Serialize)]
struct Line<'e> {
    chain: &'e str,
    sequence: i64,
    previous_hash: &'e str,
    hash: &'e str,
    record: &'e RawValue,
}

fn line(sealed: &Sealed) -> Result<String> {
    let corrupt = |_| Error::from(muster_db::StoreError::Corrupt("an audit entry"));
    let record: &RawValue = serde_json::from_str(&sealed.entry_text).map_err(corrupt)?;
    let line = Line {
        chain: &sealed.chain,
        sequence: sealed.sequence,
        previous_hash: &sealed.previous_hash,
        hash: &sealed.hash,
        record,
    };
    serde_json::to_string(&line).map_err(corrupt)
}
