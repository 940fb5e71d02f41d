//! Effects of machine requests: events, and an audit entry where a lease was granted or ended, in the request's transaction.
//! Commands do not use this; the command pipeline writes theirs.

use muster_db::Tx;
use muster_ids::{AuditId, EventId};
use muster_model::Scope;
use muster_model::audit::{Entry, Outcome, Target};
use muster_model::event::{Draft, EventType};
use serde_json::Value;

use crate::Cx;
use crate::pipeline::actor_of;

/// An event: its type, the path of its subject, and its data.
pub(crate) type EventDraft = (EventType, String, Value);

/// An audit entry.
pub(crate) struct Audited {
    /// Action as `noun.verb`.
    pub(crate) action: &'static str,
    /// Target of the action.
    pub(crate) target: Target,
    /// Further detail.
    pub(crate) detail: Value,
}

impl Cx {
    /// Appends events and the audit entry to the outbox; the caller wakes the sealer after the commit. Does nothing if both
    /// are empty.
    pub(crate) async fn outbox_append(
        &self,
        tx: &mut Tx,
        scope: Scope,
        audited: Option<Audited>,
        events: Vec<EventDraft>,
    ) -> muster_db::Result<()> {
        if audited.is_none() && events.is_empty() {
            return Ok(());
        }
        let env = &self.platform.env;
        let entry = audited.map(|audited| Entry {
            id: env.id::<AuditId>(),
            at: self.now,
            actor: actor_of(self),
            action: audited.action.to_owned(),
            outcome: Outcome::Succeeded,
            code: None,
            target: Some(audited.target),
            tenant_id: scope.tenant(),
            project_id: scope.project(),
            correlation_id: self.correlation_id.clone(),
            count: 1,
            detail: audited.detail,
        });
        let drafts = self.drafts(scope, &self.actor_id(), events);
        let entry = entry
            .map(|entry| serde_json::to_string(&entry).expect("an audit entry is JSON"))
            .unwrap_or_default();
        let drafts = serde_json::to_string(&drafts).expect("events are JSON");
        tx.outbox_append(env.uuid(), &scope.chain(), &entry, &drafts).await
    }

    /// Appends events that the platform itself caused: without a command, there is no audit entry.
    pub(crate) async fn outbox_append_as_platform(
        &self,
        tx: &mut Tx,
        scope: Scope,
        events: Vec<EventDraft>,
    ) -> muster_db::Result<()> {
        let drafts = self.drafts(scope, "platform", events);
        let drafts = serde_json::to_string(&drafts).expect("events are JSON");
        tx.outbox_append(self.platform.env.uuid(), &scope.chain(), "", &drafts).await
    }

    fn drafts(&self, scope: Scope, actor_id: &str, events: Vec<EventDraft>) -> Vec<Draft> {
        let draft = |(event_type, subject, data): EventDraft| Draft {
            id: self.platform.env.id::<EventId>(),
            event_type: event_type.as_str().to_owned(),
            subject,
            at: self.now,
            tenant_id: scope.tenant(),
            project_id: scope.project(),
            correlation_id: self.correlation_id.clone(),
            actor_id: actor_id.to_owned(),
            data,
        };
        events.into_iter().map(draft).collect()
    }
}
