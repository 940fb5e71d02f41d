//! What happened to a node, as an audit entry with its events, in the transaction in which it happened.

use jiff::Timestamp;
use muster_db::Tx;
use muster_ids::{AuditId, EventId, NodeId};
use muster_model::Scope;
use muster_model::audit::{Actor, Entry, Outcome, Target};
use muster_model::event::{Draft, EventType};
use serde_json::{Value, json};

use crate::Platform;

/// Something to tell.
pub(super) struct News<'n> {
    /// Who did it: the node's agent, or the platform.
    pub(super) actor: Actor,
    /// What, as `noun.verb`.
    pub(super) action: &'n str,
    /// On what.
    pub(super) target: Target,
    /// Where it stands in the API.
    pub(super) subject: String,
    /// What it tells; the first one's data is also the detail of the audit entry.
    pub(super) events: Vec<(EventType, Value)>,
    /// The thread.
    pub(super) correlation_id: &'n str,
    /// When.
    pub(super) at: Timestamp,
}

/// A node's agent, as an actor.
pub(super) fn agent(node: NodeId, name: &str) -> Actor {
    Actor { kind: "node".to_owned(), id: node.to_string(), name: name.to_owned() }
}

/// The platform, as an actor.
pub(super) fn platform() -> Actor {
    Actor { kind: "platform".to_owned(), id: "platform".to_owned(), name: "platform".to_owned() }
}

/// A node, as what was acted on.
pub(super) fn target(node: NodeId, name: &str) -> Target {
    Target { kind: "node".to_owned(), id: node.to_string(), name: Some(name.to_owned()) }
}

/// Where a node stands in the API.
pub(super) fn subject(node: NodeId) -> String {
    format!("/v1/nodes/{node}")
}

impl Platform {
    /// Writes it beside what happened; the sealer is to be woken after the commit.
    pub(super) async fn tell(&self, tx: &mut Tx, news: News<'_>) -> muster_db::Result<()> {
        self.tell_in(tx, Scope::Platform, news).await
    }

    /// The same for what belongs to a tenant: its audit has it, and its project's stream.
    pub(super) async fn tell_in(&self, tx: &mut Tx, scope: Scope, news: News<'_>) -> muster_db::Result<()> {
        let world = &self.world;
        let entry = Entry {
            id: world.id::<AuditId>(),
            at: news.at,
            actor: news.actor,
            action: news.action.to_owned(),
            outcome: Outcome::Succeeded,
            code: None,
            target: Some(news.target),
            tenant_id: scope.tenant(),
            project_id: scope.project(),
            correlation_id: news.correlation_id.to_owned(),
            count: 1,
            detail: news.events.first().map_or_else(|| json!({}), |(_, data)| data.clone()),
        };
        let events: Vec<Draft> = news
            .events
            .into_iter()
            .map(|(event_type, data)| Draft {
                id: world.id::<EventId>(),
                event_type: event_type.as_str().to_owned(),
                subject: news.subject.clone(),
                at: news.at,
                tenant_id: scope.tenant(),
                project_id: scope.project(),
                correlation_id: news.correlation_id.to_owned(),
                actor_id: entry.actor.id.clone(),
                data,
            })
            .collect();
        let (entry, events) = (json!(entry).to_string(), json!(events).to_string());
        tx.unsealed_insert(world.uuid(), &scope.chain(), &entry, &events).await
    }
}
