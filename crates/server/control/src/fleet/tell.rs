//! Events about nodes: an audit entry with its events, in the transaction of the change.

use jiff::Timestamp;
use muster_db::Tx;
use muster_ids::{AuditId, EventId, NodeId};
use muster_model::Scope;
use muster_model::audit::{Actor, Entry, Outcome, Target};
use muster_model::event::{Draft, EventType};
use serde_json::{Value, json};

use crate::Platform;

/// An audit entry and its events.
pub struct News<'n> {
    /// Actor: the node's agent, or the platform.
    pub actor: Actor,
    /// Action as `noun.verb`.
    pub action: &'n str,
    /// Target of the action.
    pub target: Target,
    /// API path of the subject.
    pub subject: String,
    /// Events; the data of the first is also the detail of the audit entry.
    pub events: Vec<(EventType, Value)>,
    /// Correlation id.
    pub correlation_id: &'n str,
    /// Time of the change.
    pub at: Timestamp,
}

/// Returns a node's agent as an actor.
pub fn agent(node: NodeId, name: &str) -> Actor {
    Actor { kind: "node".to_owned(), id: node.to_string(), name: name.to_owned() }
}

/// Returns the platform as an actor.
pub fn platform() -> Actor {
    Actor { kind: "platform".to_owned(), id: "platform".to_owned(), name: "platform".to_owned() }
}

/// Returns a node as a target.
pub fn target(node: NodeId, name: &str) -> Target {
    Target { kind: "node".to_owned(), id: node.to_string(), name: Some(name.to_owned()) }
}

/// Returns the API path of a node.
pub fn subject(node: NodeId) -> String {
    format!("/v1/nodes/{node}")
}

impl Platform {
    /// Appends it to the outbox; the caller wakes the sealer after the commit.
    pub async fn outbox_append(&self, tx: &mut Tx, news: News<'_>) -> muster_db::Result<()> {
        self.tell_in(tx, Scope::Platform, news).await
    }

    /// Appends it to the outbox of a tenant: to its audit and its project's stream.
    pub async fn tell_in(&self, tx: &mut Tx, scope: Scope, news: News<'_>) -> muster_db::Result<()> {
        let env = &self.env;
        let entry = Entry {
            id: env.id::<AuditId>(),
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
                id: env.id::<EventId>(),
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
        tx.outbox_append(env.uuid(), &scope.chain(), &entry, &events).await
    }
}
