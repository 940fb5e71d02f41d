//! A prepared command, the input of the command pipeline.

use futures::future::BoxFuture;
use muster_db::Tx;
use muster_model::Scope;
use muster_model::audit::Target;
use muster_model::event::{Draft, EventType, Timeline};
use muster_model::origin::Origin;
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::{Cx, Error, Result};

/// A command's response.
#[derive(Debug, Clone)]
pub struct Answer {
    /// Body without secrets; it is stored for replays.
    pub body: Value,
    /// Members of the body that are returned once and never stored.
    pub secrets: Vec<(&'static str, String)>,
    /// Resource version, for `ETag`.
    pub version: Option<i64>,
    /// Cookie to set.
    pub cookie: Option<String>,
}

impl Answer {
    /// Creates a response with this body.
    pub fn new(body: &impl Serialize) -> Self {
        let body = serde_json::to_value(body).expect("an API type is JSON");
        let version = body["version"].as_i64();
        Self { body, secrets: Vec::new(), version, cookie: None }
    }

    /// Adds a secret that is returned once.
    pub fn with_secret(mut self, member: &'static str, secret: &str) -> Self {
        self.secrets.push((member, secret.to_owned()));
        self
    }

    /// Adds a cookie.
    pub fn with_cookie(mut self, cookie: String) -> Self {
        self.cookie = Some(cookie);
        self
    }
}

type Write = Box<dyn for<'t> FnOnce(&'t mut Tx) -> BoxFuture<'t, Result<Answer>> + Send>;

/// A prepared command: its target, events and statements.
pub struct PreparedCommand {
    pub(crate) scope: Scope,
    pub(crate) target: Target,
    pub(crate) detail: Value,
    pub(crate) before: Option<Value>,
    pub(crate) events: Vec<Draft>,
    pub(crate) write: Write,
    pub(crate) revokes: bool,
    pub(crate) wakes_engine: bool,
    pub(crate) actor: Option<muster_model::audit::Actor>,
    timeline: Timeline,
}

impl PreparedCommand {
    /// Creates a command on `target` at `scope` with the statements `write`.
    pub fn new<W>(scope: Scope, target: Target, write: W) -> Self
    where
        W: for<'t> FnOnce(&'t mut Tx) -> BoxFuture<'t, Result<Answer>> + Send + 'static,
    {
        Self {
            scope,
            target,
            detail: Value::Object(Map::new()),
            before: None,
            events: Vec::new(),
            write: Box::new(write),
            revokes: false,
            wakes_engine: false,
            actor: None,
            timeline: Timeline::default(),
        }
    }

    /// Sets the timeline of the events whose subject names none; called before they are added.
    pub(crate) fn timeline(mut self, timeline: Timeline) -> Self {
        self.timeline = timeline;
        self
    }

    /// Adds an event. Its data is also the detail of the audit entry; neither may hold a secret.
    pub fn event(mut self, cx: &Cx, event_type: EventType, subject: String, data: Value) -> Self {
        self.detail = data.clone();
        let mut origin = Origin { timeline: self.timeline, ..cx.origin(self.scope) };
        if let Some(actor) = &self.actor {
            origin.actor = actor.clone();
        }
        self.events.push(origin.draft(&cx.platform.env, (event_type, subject, data)));
        self
    }

    /// Runs `first` before the other statements, in the same transaction.
    pub(crate) fn prepend<W>(mut self, first: W) -> Self
    where
        W: for<'t> FnOnce(&'t mut Tx) -> BoxFuture<'t, Result<(), Error>> + Send + 'static,
    {
        let rest = self.write;
        self.write = Box::new(move |tx| {
            Box::pin(async move {
                first(tx).await?;
                rest(tx).await
            })
        });
        self
    }

    /// Runs a check after the other statements, in the same transaction: an error rolls everything back.
    pub(crate) fn check_before_commit<W>(mut self, last: W) -> Self
    where
        W: for<'t> FnOnce(&'t mut Tx) -> BoxFuture<'t, Result<(), Error>> + Send + 'static,
    {
        let rest = self.write;
        self.write = Box::new(move |tx| {
            Box::pin(async move {
                let answer = rest(tx).await?;
                last(tx).await?;
                Ok(answer)
            })
        });
        self
    }

    /// Wakes this server's engine after the commit: an operation was written or changed.
    pub fn wakes_engine(mut self) -> Self {
        self.wakes_engine = true;
        self
    }

    /// Sets the detail of the audit entry, for commands without an event.
    pub fn detail(mut self, detail: Value) -> Self {
        self.detail = detail;
        self
    }

    /// Sets the previous values, for the audit alone: the resource as the API returns it, without secrets. If the response
    /// contains the resource, the audit keeps only the members that differ.
    pub fn before(mut self, shown: &impl Serialize) -> Self {
        self.before = Some(serde_json::to_value(shown).expect("an API type is JSON"));
        self
    }

    /// Marks the command as a revocation: cached credentials are dropped at once on this server, and within seconds on
    /// others.
    pub fn revokes(mut self) -> Self {
        self.revokes = true;
        self
    }

    /// Sets the actor that only the command itself determines, as in a login.
    pub fn acting_as(mut self, actor: muster_model::audit::Actor) -> Self {
        self.actor = Some(actor);
        self
    }
}

/// Returns the audit target for a resource.
pub(crate) fn target(kind: &str, id: impl std::fmt::Display, name: &str) -> Target {
    Target { kind: kind.to_owned(), id: id.to_string(), name: Some(name.to_owned()) }
}

/// Returns the changed fields with new and previous values: the audit detail of an update. `before` is the resource as the
/// API returns it; a missing field had no value.
pub(crate) fn changed(before: &impl Serialize, fields: &[(&str, Option<Value>)]) -> Value {
    let shown = serde_json::to_value(before).expect("an API type is JSON");
    let old: Vec<(&str, Option<Value>)> = fields
        .iter()
        .filter(|(_, new)| new.is_some())
        .map(|(name, _)| (*name, shown.get(*name).filter(|value| !value.is_null()).cloned()))
        .collect();
    json!({"changed": told(fields), "before": told(&old)})
}

/// Returns event data of optional members, omitting the absent ones.
pub(crate) fn told(fields: &[(&str, Option<Value>)]) -> Value {
    let present = fields.iter().filter_map(|(name, value)| Some(((*name).to_owned(), value.clone()?)));
    Value::Object(present.collect())
}
