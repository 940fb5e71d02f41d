//! Export a chain as JSON lines, read page by page, so that memory use does not depend on its length.

use futures::Stream;
use muster_api::audit::AuditChainQuery;
use muster_authz::Permission;
use muster_db::{AuditFilter, StoreError};

use super::{chain, line};
use crate::Cx;
use crate::refuse::{Result, refuse};

const PAGE: i64 = 500;

/// Opens `audit_export`: one line per entry, up to the head at the start of the export.
pub async fn export(
    cx: &Cx,
    query: AuditChainQuery,
) -> Result<impl Stream<Item = Result<String>> + Send + 'static + use<>> {
    let scope = chain(cx, query.tenant.as_deref(), None, Permission::AuditExport).await?;
    let name = scope.chain();
    let store = cx.platform.store.clone();
    let head = store.audit_head(&name).await.map_err(refuse)?;
    let opened = cx.open(crate::limits::Open::Download)?;
    let start = (head.pruned_sequence, store, name, head.sequence, opened);
    Ok(futures::stream::try_unfold(start, |(after, store, chain, until, opened)| async move {
        if after >= until {
            return Ok(None);
        }
        let filter = AuditFilter { after, limit: PAGE.min(until - after), ..AuditFilter::default() };
        let entries = store.audit_list(&chain, &filter).await.map_err(refuse)?;
        let Some(last) = entries.last().map(|entry| entry.sequence) else {
            return Err(refuse(StoreError::Corrupt("a whole audit chain")));
        };
        let mut lines = String::new();
        for entry in &entries {
            lines.push_str(&line(entry)?);
            lines.push('\n');
        }
        Ok(Some((lines, (last, store, chain, until, opened))))
    }))
}
