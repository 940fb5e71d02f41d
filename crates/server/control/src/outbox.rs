//! Effects of machine requests: events, and an audit entry where a lease was granted or ended, in the request's transaction.
//! Commands do not use this; the command pipeline writes theirs.

use muster_db::Tx;
use muster_model::Scope;
use muster_model::audit::Actor;
use muster_model::event::{NewEvent, Timeline};
use muster_model::origin::{Audited, Origin};

use crate::Cx;
use crate::pipeline::actor_of;

impl Cx {
    /// Returns the request as the origin of a change in `scope`.
    pub(crate) fn origin(&self, scope: Scope) -> Origin {
        Origin {
            at: self.now,
            scope,
            correlation_id: self.correlation_id.clone(),
            actor: actor_of(self),
            timeline: Timeline::default(),
        }
    }

    /// Appends events and the audit entry to the outbox; the caller wakes the sealer after the commit.
    pub(crate) async fn outbox_append(
        &self,
        tx: &mut Tx,
        origin: &Origin,
        audited: Option<Audited>,
        events: Vec<NewEvent>,
    ) -> muster_db::Result<()> {
        tx.outbox_append(&self.platform.env, origin, audited, events).await
    }

    /// Appends events that the platform itself caused: without a command, there is no audit entry.
    pub(crate) async fn outbox_append_as_platform(
        &self,
        tx: &mut Tx,
        scope: Scope,
        timeline: Timeline,
        events: Vec<NewEvent>,
    ) -> muster_db::Result<()> {
        let origin = Origin { actor: Actor::platform("platform"), timeline, ..self.origin(scope) };
        self.outbox_append(tx, &origin, None, events).await
    }
}
