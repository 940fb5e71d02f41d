//! Join a stream: only its requester, once, within the time limit. All checks are done here, before there is a socket.
use muster_api::Code;
use muster_authz::Permission;
use muster_db::{StoreError, Stream};
use muster_ids::StreamId;
use muster_model::cell::Cell;
use muster_wire::stream::StreamWhat;

use super::grant::usable;
use super::guard::permission;
use super::hub::MemberGroup;
use crate::{Cx, Error, Result};

/// A joined stream that waits for its other end.
pub struct Joined {
    pub(super) cx: Cx,
    /// Credential, for revalidation.
    pub(super) secret: String,
    pub(super) stream: Stream,
    pub(super) cell: Cell,
    pub(super) what: StreamWhat,
    pub(super) permission: Permission,
    pub(super) seat: MemberGroup,
}

fn absent() -> Error {
    Error::not_found("stream")
}

fn over(why: &str) -> Error {
    Error::new(Code::InvalidState, format!("the stream {why}: request another one"))
}

/// Handles `stream_join`.
pub async fn join(cx: &Cx, reference: &str, secret: String) -> Result<Joined> {
    let store = &cx.platform.store;
    let id = reference.parse::<StreamId>().map_err(|_| absent())?;
    let found = store.stream_lookup(id).await?;
    let stream = found.filter(|stream| stream.actor_id == cx.actor_id()).ok_or_else(absent)?;
    let what: StreamWhat = serde_json::from_value(stream.what.clone())
        .map_err(|_| Error::from(StoreError::Corrupt("what a stream does")))?;
    let permission = permission(&what);
    cx.authorize(permission, stream.scope(), "stream")?;
    if stream.joined_at.is_some() {
        return Err(over("was joined before"));
    }
    if stream.expires_at <= cx.now {
        return Err(over("was not joined in time"));
    }
    let cell = store.cell_lookup(stream.cell_id).await?;
    let cell = cell.filter(|cell| cell.incarnation == stream.incarnation);
    let cell = cell.ok_or_else(|| over("was for a cell that was restarted since"))?;
    usable(&cell)?;
    let seat = MemberGroup::take(&cx.platform, stream.tenant_id, id, cell.node_id).ok_or_else(|| {
        cx.platform.metrics.rate_limited.inc();
        Error::new(
            Code::RateLimited,
            format!(
                "the tenant has {} streams at this server, the maximum: close one",
                cx.platform.options.streams_per_tenant
            ),
        )
    })?;
    // The check above is for a good error message; this one decides.
    let mut tx = store.begin().await?;
    match tx.stream_join(id, &stream.actor_id, cx.now).await {
        Ok(()) => tx.commit().await?,
        Err(StoreError::Stale) => {
            tx.rollback().await;
            return Err(over("was joined before"));
        }
        Err(error) => {
            tx.rollback().await;
            return Err(Error::from(error));
        }
    }
    Ok(Joined { cx: cx.clone(), secret, stream, cell, what, permission, seat })
}
