//! Guard of an open stream, which revalidates it periodically: it ends within five seconds of losing its permission.

use std::time::Duration;

use muster_authz::Permission;
use muster_wire::stream::StreamWhat;

use super::grant::usable;
use super::join::Joined;
use super::relay::Signs;
use crate::Error;
use crate::revalidate::CHECK;

/// Idle timeout.
const IDLE: Duration = Duration::from_secs(4 * 3600);

/// Returns the permission that a stream needs.
pub(super) fn permission(what: &StreamWhat) -> Permission {
    match what {
        StreamWhat::Logs(_) => Permission::StreamLogs,
        StreamWhat::Command(_) | StreamWhat::Read(_) | StreamWhat::Write(_) => Permission::StreamCreate,
    }
}

/// Returns when the stream must end, with the reason.
pub(super) async fn guard(joined: &Joined, signs: &Signs) -> String {
    let mut stopping = joined.cx.platform.stopping.subscribe();
    loop {
        tokio::select! {
            () = tokio::time::sleep(CHECK) => {}
            _ = stopping.wait_for(|stopping| *stopping) => {
                return "the server is stopping: request another stream".to_owned();
            }
        }
        if let Err(error) = allowed(joined).await {
            return error.detail;
        }
        if signs.idle() > IDLE {
            return format!("the stream was idle for {} hours", IDLE.as_secs() / 3600);
        }
    }
}

async fn allowed(joined: &Joined) -> crate::Result<()> {
    let mut cx = joined.cx.clone();
    let platform = &joined.cx.platform;
    cx.actor = Some(platform.authenticate(&joined.secret, platform.env.now()).await?);
    cx.authorize(joined.permission, joined.stream.scope(), "stream")?;
    let cell = platform.store.cell_lookup(joined.cell.id).await?;
    let cell = cell.filter(|cell| cell.incarnation == joined.stream.incarnation);
    let cell = cell.ok_or_else(|| {
        Error::new(muster_api::Code::InvalidState, "the cell was restarted or no longer exists")
    })?;
    usable(&cell)
}
