//! Events about nodes: an audit entry with its events, in the transaction of the change.

use jiff::Timestamp;
use muster_db::Tx;
use muster_ids::NodeId;
use muster_model::Scope;
use muster_model::audit::{Actor, Target};
use muster_model::event::{EventType, Timeline};
use muster_model::origin::{Audited, Origin};
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
        let origin = Origin {
            at: news.at,
            scope,
            correlation_id: news.correlation_id.to_owned(),
            actor: news.actor,
            timeline: Timeline::default(),
        };
        let detail = news.events.first().map_or_else(|| json!({}), |(_, data)| data.clone());
        let events = news.events.into_iter().map(|(event, data)| (event, news.subject.clone(), data));
        let audited = Audited::success(news.action, news.target, detail);
        tx.outbox_append(&self.env, &origin, Some(audited), events.collect()).await
    }
}
