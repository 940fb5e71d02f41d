//! Export a chain as JSON lines, read page by page, so that memory use depends neither on its length nor on its entries.

use std::time::Duration;

use futures::Stream;
use muster_api::audit::AuditChainQuery;
use muster_authz::Permission;
use muster_db::StoreError;

use super::{chain, line};
use crate::limits::{StreamKind, StreamSlot, UnreadBytes};
use crate::revalidate::Revalidated;
use crate::{Cx, Error, Result, Share};

/// Entries per chunk, and bytes; a chunk has at least one entry.
const PAGE: i64 = 500;
const PAGE_BYTES: i64 = 256 << 10;
/// Interval at which an export looks whether its caller has read enough.
const LOOK: Duration = Duration::from_millis(200);

/// Lines of an export, which count as unread until they are dropped.
type Lines = (String, UnreadBytes);

struct Export {
    allowed: Revalidated,
    share: Share,
    chain: String,
    after: i64,
    until: i64,
    _opened: StreamSlot,
}

/// Opens `audit_export`: one line per entry, up to the head at the start of the export.
pub async fn export(
    cx: &Cx,
    query: AuditChainQuery,
) -> Result<impl Stream<Item = Result<Lines>> + Send + 'static + use<>> {
    let scope = chain(cx, query.tenant.as_deref(), None, Permission::AuditExport).await?;
    let head = cx.platform.store.audit_head(&scope.chain()).await?;
    let export = Export {
        allowed: Revalidated::new(cx, Permission::AuditExport, scope),
        share: cx.share(),
        chain: scope.chain(),
        after: head.pruned_sequence,
        until: head.sequence,
        _opened: cx.open(StreamKind::Download)?,
    };
    Ok(futures::stream::try_unfold(export, |mut export| async move {
        Ok(export.next().await?.map(|lines| (lines, export)))
    }))
}

impl Export {
    async fn next(&mut self) -> Result<Option<Lines>> {
        if self.after >= self.until {
            return Ok(None);
        }
        loop {
            self.allowed.check().await?;
            // Nothing is read into memory for a caller that leaves too much unread.
            if self.allowed.cx.limits().has_room(&self.share)
                && let Some(lines) = self.read().await?
            {
                return Ok(Some(lines));
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Reads the next lines; `None` if there is no room for them, and they have to be read again.
    async fn read(&mut self) -> Result<Option<Lines>> {
        let limit = PAGE.min(self.until - self.after);
        let store = &self.allowed.cx.platform.store;
        let entries = store.audit_portion(&self.chain, self.after, limit, PAGE_BYTES).await?;
        let Some(last) = entries.last().map(|entry| entry.sequence) else {
            return Err(Error::from(StoreError::Corrupt("a whole audit chain")));
        };
        let mut lines = String::new();
        for entry in &entries {
            lines.push_str(&line(entry)?);
            lines.push('\n');
        }
        let held = self.allowed.cx.limits().hold(&self.share, lines.len());
        Ok(held.map(|held| {
            self.after = last;
            (lines, held)
        }))
    }
}
