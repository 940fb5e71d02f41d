//! What a machine's word tells: events, and the audit's line where the word was a grant or an end, in the transaction that took
//! the word. Commands do not come here; the door writes theirs.

use muster_db::Tx;
use muster_ids::{AuditId, EventId};
use muster_model::Scope;
use muster_model::audit::{Entry, Outcome, Target};
use muster_model::event::{Draft, EventType};
use serde_json::Value;

use crate::Cx;
use crate::door::actor_of;

/// What happened, and to what: the type of event, the path of the thing, and the data.
pub(crate) type Told = (EventType, String, Value);

/// The audit's line.
pub(crate) struct Audited {
    /// What was done, as `noun.verb`.
    pub(crate) action: &'static str,
    /// On what.
    pub(crate) target: Target,
    /// What there is to say beside that.
    pub(crate) detail: Value,
}

impl Cx {
    /// Leaves events and the audit's line for the sealer, who is to be woken after the commit. Nothing at all where there is
    /// nothing to tell.
    pub(crate) async fn tell(
        &self,
        tx: &mut Tx,
        scope: Scope,
        audited: Option<Audited>,
        told: Vec<Told>,
    ) -> muster_db::Result<()> {
        if audited.is_none() && told.is_empty() {
            return Ok(());
        }
        let world = &self.platform.world;
        let entry = audited.map(|audited| Entry {
            id: world.id::<AuditId>(),
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
        let drafts = self.drafts(scope, &self.actor_id(), told);
        let entry = entry
            .map(|entry| serde_json::to_string(&entry).expect("an audit entry is JSON"))
            .unwrap_or_default();
        let drafts = serde_json::to_string(&drafts).expect("events are JSON");
        tx.unsealed_insert(world.uuid(), &scope.chain(), &entry, &drafts).await
    }

    /// Appends events that the platform itself caused: no command, so no line of the audit.
    pub(crate) async fn tell_as_platform(
        &self,
        tx: &mut Tx,
        scope: Scope,
        told: Vec<Told>,
    ) -> muster_db::Result<()> {
        let drafts = self.drafts(scope, "platform", told);
        let drafts = serde_json::to_string(&drafts).expect("events are JSON");
        tx.unsealed_insert(self.platform.world.uuid(), &scope.chain(), "", &drafts).await
    }

    fn drafts(&self, scope: Scope, actor_id: &str, told: Vec<Told>) -> Vec<Draft> {
        let draft = |(event_type, subject, data): Told| Draft {
            id: self.platform.world.id::<EventId>(),
            event_type: event_type.as_str().to_owned(),
            subject,
            at: self.now,
            tenant_id: scope.tenant(),
            project_id: scope.project(),
            correlation_id: self.correlation_id.clone(),
            actor_id: actor_id.to_owned(),
            data,
        };
        told.into_iter().map(draft).collect()
    }
}
