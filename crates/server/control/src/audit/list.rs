//! List the entries of a chain.

use futures::FutureExt as _;
use muster_api::audit::AuditListQuery;
use muster_authz::Permission;
use muster_db::AuditFilter;
use muster_model::audit::Sealed;
use serde_json::{Value, json};

use super::chain;
use crate::cursor::PageLimits;
use crate::{Answer, Cx, Error, Result};

/// Handles `audit_list`.
pub async fn list(cx: &Cx, query: AuditListQuery) -> Result<Answer> {
    let scope = chain(cx, query.tenant.as_deref(), query.project.as_deref(), Permission::AuditList).await?;
    let after = query.after.unwrap_or(0);
    let name = scope.chain();
    let store = &cx.platform.store;
    cx.large_answer().await;
    let head = store.audit_head(&name).await?;
    let (name, project) = (&name, scope.project());
    let read = |after, limit| {
        let (action, actor) = (query.action.clone(), query.actor.clone());
        let filter = AuditFilter { after, action, actor, project, limit };
        async move { store.audit_list(name, &filter).await }.boxed()
    };
    let (sequence, bytes) = (|entry: &Sealed| entry.sequence, |entry: &Sealed| entry.entry_text.len());
    let entries =
        Cx::read_sequence(after, PageLimits::of_list(query.page_size), sequence, bytes, read).await?;
    let next_after = entries.last().map_or(after, |entry| entry.sequence);
    let items: Vec<Value> = entries
        .iter()
        .map(|entry| {
            let record: Value = serde_json::from_str(&entry.entry_text)
                .map_err(|_| Error::from(muster_db::StoreError::Corrupt("an audit entry")))?;
            Ok(json!({"chain": entry.chain, "sequence": entry.sequence, "previous_hash": entry.previous_hash,
                      "hash": entry.hash, "record": record}))
        })
        .collect::<Result<_>>()?;
    let sealed_up_to = head.sequence.max(next_after);
    Ok(Answer::new(&json!({"items": items, "next_after": next_after, "sealed_up_to": sealed_up_to})))
}
