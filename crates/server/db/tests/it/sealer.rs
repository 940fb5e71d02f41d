//! A sealer for tests: numbers, chains and writes its input like the real one.

use std::collections::BTreeMap;

use muster_db::{SealBatch, Store};
use muster_ids::TypedId as _;
use muster_model::Scope;
use muster_model::audit::{GENESIS, Sealed};
use muster_model::event::{Draft, Event, stream_name};
use serde_json::json;

use crate::made::{self, put};

#[derive(Default)]
pub(crate) struct Sealer {
    heads: BTreeMap<String, (i64, Option<String>)>,
    batch: SealBatch,
}

impl Sealer {
    fn next(&mut self, name: &str) -> i64 {
        let head = self.heads.entry(name.to_owned()).or_default();
        head.0 += 1;
        head.0
    }

    /// Adds an audit entry, this many seconds after the start.
    pub(crate) fn entry(&mut self, scope: Scope, actor: &str, action: &str, seconds: i64) -> Sealed {
        let text = format!("{{\"action\":\"{action}\",\"n\":{seconds}}}");
        self.text(scope, actor, action, seconds, &text)
    }

    /// Does the same with a given text.
    pub(crate) fn text(
        &mut self,
        scope: Scope,
        actor: &str,
        action: &str,
        seconds: i64,
        text: &str,
    ) -> Sealed {
        let name = format!("audit:{}", scope.chain());
        let sequence = self.next(&name);
        let previous = self.heads[&name].1.clone().unwrap_or_else(|| GENESIS.to_owned());
        let sealed = made::sealed(&scope.chain(), sequence, &previous, text);
        self.heads.insert(name, (sequence, Some(sealed.hash.clone())));
        let project = scope.project().map(|project| project.uuid());
        let columns = (sealed.clone(), made::at(seconds), actor.to_owned(), action.to_owned(), project);
        self.batch.audit.push(columns);
        sealed
    }

    /// Adds an event to the streams of its scope and of the scopes above.
    pub(crate) fn event(&mut self, draft: Draft) -> Event {
        let scope = Scope::from_columns(draft.tenant_id, draft.project_id);
        let event = Event {
            platform_sequence: self.next("event:platform"),
            tenant_sequence: scope.tenant().map(|tenant| self.next(&format!("event:{tenant}"))),
            project_sequence: scope.project().map(|_| self.next(&format!("event:{}", stream_name(scope)))),
            draft,
        };
        self.batch.events.push(json!({
            "platform_sequence": event.platform_sequence, "tenant_sequence": event.tenant_sequence,
            "project_sequence": event.project_sequence, "id": event.draft.id.uuid(), "type": event.draft.event_type,
            "subject": event.draft.subject, "at": event.draft.at.as_microsecond(),
            "tenant_id": event.draft.tenant_id.map(|id| id.uuid()),
            "project_id": event.draft.project_id.map(|id| id.uuid()), "correlation_id": event.draft.correlation_id,
            "actor_id": event.draft.actor_id, "data": event.draft.data,
        }));
        event
    }

    /// Returns the current round with the counters' values; the next one starts empty.
    pub(crate) fn round(&mut self) -> SealBatch {
        let mut batch = std::mem::take(&mut self.batch);
        batch.heads = self
            .heads
            .iter()
            .map(|(name, (sequence, hash))| (name.clone(), *sequence, hash.clone()))
            .collect();
        batch
    }

    /// Writes the round.
    pub(crate) async fn seal(&mut self, store: &Store) {
        let batch = self.round();
        put(store, async |tx| tx.seal(&batch).await).await.unwrap();
    }
}
