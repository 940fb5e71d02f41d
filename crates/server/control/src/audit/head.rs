//! Show the sealed head of a chain.

use muster_api::audit::{AuditChainQuery, AuditHead};
use muster_authz::Permission;

use super::chain;
use crate::{Answer, Cx, Result};

/// Handles `audit_head`.
pub async fn head(cx: &Cx, query: AuditChainQuery) -> Result<Answer> {
    let scope = chain(cx, query.tenant.as_deref(), None, Permission::AuditHead).await?;
    let head = cx.platform.store.audit_head(&scope.chain()).await?;
    let signed = cx.platform.audit_key.sign(&head, cx.now);
    Ok(Answer::new(&AuditHead {
        chain: head.chain,
        sequence: head.sequence,
        hash: head.hash,
        pruned_sequence: head.pruned_sequence,
        pruned_hash: head.pruned_hash,
        signed_at: signed.signed_at,
        key_id: signed.key_id,
        signature: signed.signature,
    }))
}
