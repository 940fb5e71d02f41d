//! What a command's preparation hands to the door.

use futures::future::BoxFuture;
use muster_api::Problem;
use muster_db::{StoreError, Tx};
use muster_ids::EventId;
use muster_model::Scope;
use muster_model::audit::Target;
use muster_model::event::{Draft, EventType};
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::Cx;

/// What the caller gets.
#[derive(Debug, Clone)]
pub struct Answer {
    /// The body, without secrets: it is stored for replays.
    pub body: Value,
    /// Members of the body that are shown now and kept nowhere.
    pub secrets: Vec<(&'static str, String)>,
    /// The resource's version, for `ETag`.
    pub version: Option<i64>,
    /// A cookie to set.
    pub cookie: Option<String>,
}

impl Answer {
    /// An answer with this body.
    pub fn new(body: &impl Serialize) -> Self {
        let body = serde_json::to_value(body).expect("an API type is JSON");
        let version = body["version"].as_i64();
        Self { body, secrets: Vec::new(), version, cookie: None }
    }

    /// With a secret that is shown once.
    pub fn with_secret(mut self, member: &'static str, secret: &str) -> Self {
        self.secrets.push((member, secret.to_owned()));
        self
    }

    /// With a cookie.
    pub fn with_cookie(mut self, cookie: String) -> Self {
        self.cookie = Some(cookie);
        self
    }
}

/// Why the statements did not go through: the store's word, or a rule that only the transaction could check.
pub enum WriteError {
    /// The store's.
    Store(StoreError),
    /// A rule's.
    Refused(Box<Problem>),
}

impl From<StoreError> for WriteError {
    fn from(error: StoreError) -> Self {
        WriteError::Store(error)
    }
}

impl From<Problem> for WriteError {
    fn from(problem: Problem) -> Self {
        WriteError::Refused(Box::new(problem))
    }
}

type Write = Box<dyn for<'t> FnOnce(&'t mut Tx) -> BoxFuture<'t, Result<Answer, WriteError>> + Send>;

/// A prepared command: what it touches, what it tells, and its statements.
pub struct Commit {
    pub(crate) scope: Scope,
    pub(crate) target: Target,
    pub(crate) detail: Value,
    pub(crate) before: Option<Value>,
    pub(crate) events: Vec<Draft>,
    pub(crate) write: Write,
    pub(crate) revokes: bool,
    pub(crate) wakes_engine: bool,
    pub(crate) actor: Option<muster_model::audit::Actor>,
}

impl Commit {
    /// A command on `target` at `scope`, whose statements are `write`.
    pub fn new<W>(scope: Scope, target: Target, write: W) -> Self
    where
        W: for<'t> FnOnce(&'t mut Tx) -> BoxFuture<'t, Result<Answer, WriteError>> + Send + 'static,
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
        }
    }

    /// Tells an event. Its data is also the detail of the audit entry; neither may hold a secret.
    pub fn event(mut self, cx: &Cx, event_type: EventType, subject: String, data: Value) -> Self {
        self.detail = data.clone();
        self.events.push(Draft {
            id: cx.platform.world.id::<EventId>(),
            event_type: event_type.as_str().to_owned(),
            subject,
            at: cx.now,
            tenant_id: self.scope.tenant(),
            project_id: self.scope.project(),
            correlation_id: cx.correlation_id.clone(),
            actor_id: self.actor.as_ref().map_or_else(|| cx.actor_id(), |actor| actor.id.clone()),
            data,
        });
        self
    }

    /// Writes something before the rest, in the same transaction.
    pub(crate) fn after<W>(mut self, first: W) -> Self
    where
        W: for<'t> FnOnce(&'t mut Tx) -> BoxFuture<'t, Result<(), WriteError>> + Send + 'static,
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

    /// Looks once more after the rest, in the same transaction: a refusal takes all of it back.
    pub(crate) fn unless<W>(mut self, last: W) -> Self
    where
        W: for<'t> FnOnce(&'t mut Tx) -> BoxFuture<'t, Result<(), WriteError>> + Send + 'static,
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

    /// Has the engine of this server look at once: an operation was written down, or changed.
    pub fn wakes_engine(mut self) -> Self {
        self.wakes_engine = true;
        self
    }

    /// What the audit entry says beside the target, where no event says it.
    pub fn detail(mut self, detail: Value) -> Self {
        self.detail = detail;
        self
    }

    /// The values before the change, for the audit alone: the resource as the API shows it, which holds no secret. Where the
    /// answer shows the resource afterwards, the audit keeps the members that differ.
    pub fn before(mut self, shown: &impl Serialize) -> Self {
        self.before = Some(serde_json::to_value(shown).expect("an API type is JSON"));
        self
    }

    /// Takes a right away from somebody: cached credentials are dropped at once on this server, and within seconds on others.
    pub fn revokes(mut self) -> Self {
        self.revokes = true;
        self
    }

    /// Acts in the name of somebody who only became known by the command itself: a login.
    pub fn acting_as(mut self, actor: muster_model::audit::Actor) -> Self {
        self.actor = Some(actor);
        self
    }
}

/// The audit's name for a resource.
pub(crate) fn target(kind: &str, id: impl std::fmt::Display, name: &str) -> Target {
    Target { kind: kind.to_owned(), id: id.to_string(), name: Some(name.to_owned()) }
}

/// Which fields a change touched, with the new values and those before: the audit's detail of an update. `before` is the
/// resource as the API shows it; what it does not show had no value.
pub(crate) fn changed(before: &impl Serialize, fields: &[(&str, Option<Value>)]) -> Value {
    let shown = serde_json::to_value(before).expect("an API type is JSON");
    let old: Vec<(&str, Option<Value>)> = fields
        .iter()
        .filter(|(_, new)| new.is_some())
        .map(|(name, _)| (*name, shown.get(*name).filter(|value| !value.is_null()).cloned()))
        .collect();
    json!({"changed": told(fields), "before": told(&old)})
}

/// An event's data of members that may be absent: our JSON leaves out what is not there.
pub(crate) fn told(fields: &[(&str, Option<Value>)]) -> Value {
    let present = fields.iter().filter_map(|(name, value)| Some(((*name).to_owned(), value.clone()?)));
    Value::Object(present.collect())
}
