//! The command pipeline: effect, idempotency key, audit entry and events in one transaction, or none of them.

use std::time::Duration;

use jiff::SignedDuration;
use muster_api::Code;
use muster_db::{CommandRecord, Replay, StoreError};
use muster_model::Scope;
use muster_model::audit::{Actor, Entry, Outcome, Target};
use muster_model::origin::Audited;
use serde_json::{Value, json};
use subtle::ConstantTimeEq as _;

use crate::audit::audit_detail;
use crate::commit::{Answer, PreparedCommand};
use crate::{Cx, Error, Expected, Result};

/// The parts of a request that the command pipeline needs.
#[derive(Debug, Clone)]
pub struct Command {
    /// Action as `noun.verb`, for the audit.
    pub action: String,
    /// Method and path.
    pub route: String,
    /// Idempotency key; none for methods that are repeatable by `If-Match`.
    pub key: Option<String>,
    /// Keyed hash of query and body.
    pub request_hash: [u8; 32],
    /// Status on success.
    pub status: u16,
}

/// Response of a command.
#[derive(Debug, Clone)]
pub struct Reply {
    /// HTTP status.
    pub status: u16,
    /// Response body.
    pub body: Value,
    /// Resource version.
    pub version: Option<i64>,
    /// Cookie to set.
    pub cookie: Option<String>,
    /// Whether it is a replayed response.
    pub replayed: bool,
}

/// Attempts of a command that names no version, before a lost race is returned to the caller.
const ATTEMPTS: u32 = 5;

/// Prepares and executes a command, again after a lost race: a caller that names no version has none to correct, so a change
/// between preparation and commit (a node's hello, a new health) must not refuse it. Nothing was committed then.
pub async fn prepare_and_execute<P>(cx: &Cx, command: &Command, prepare: impl Fn() -> P) -> Result<Reply>
where
    P: Future<Output = Result<PreparedCommand>>,
{
    let names_version = matches!(cx.if_match, Some(Expected::Version(_)));
    let mut attempt = 1;
    loop {
        let prepared = prepare().await;
        let retries = !names_version && attempt < ATTEMPTS;
        match prepared {
            Ok(commit) if retries => match carry_out(cx, command, commit).await {
                // The other change may be of a group that SQLite commits together, and is not readable before.
                Err(error) if error.code == Code::VersionMismatch => {
                    tokio::time::sleep(Duration::from_millis(5 << attempt)).await;
                    attempt += 1;
                }
                Ok(reply) => return Ok(reply),
                Err(error) => return refuse_command(cx, command, error).await,
            },
            prepared => return execute(cx, command, prepared).await,
        }
    }
}

/// Executes a prepared command or returns the error; both are audited.
pub async fn execute(cx: &Cx, command: &Command, prepared: Result<PreparedCommand>) -> Result<Reply> {
    let refused = match prepared {
        Ok(commit) => match carry_out(cx, command, commit).await {
            Ok(reply) => return Ok(reply),
            Err(error) => error,
        },
        Err(error) => error,
    };
    refuse_command(cx, command, refused).await
}

async fn refuse_command(cx: &Cx, command: &Command, refused: Error) -> Result<Reply> {
    // A repeated command often fails on its own effect (name taken, version changed): the first response is the right one
    // then.
    if let Some(reply) = replay(cx, command, &refused).await? {
        return Ok(reply);
    }
    note_refusal(cx, command, &refused).await;
    Err(refused)
}

async fn carry_out(cx: &Cx, command: &Command, commit: PreparedCommand) -> Result<Reply> {
    let store = &cx.platform.store;
    let PreparedCommand {
        scope, target, detail, before, events, write, revokes, wakes_engine, actor, ..
    } = commit;
    let after = After { revokes, wakes_engine };
    let mut tx = store.begin().await?;
    let answer = match write(&mut tx).await {
        Ok(answer) => answer,
        Err(error) => {
            tx.rollback().await;
            return Err(error);
        }
    };
    let detail = audit_detail(&command.action, detail, before, &answer.body);
    let mut origin = cx.origin(scope);
    if let Some(actor) = actor {
        origin.actor = actor;
    }
    let entry = origin.entry(&cx.platform.env, Audited::success(&command.action, target, detail));
    let record = CommandRecord {
        actor_id: cx.actor_id(),
        route: command.route.clone(),
        key: command.key.clone(),
        request_hash: command.request_hash,
        status: i64::from(command.status),
        body: stored_body(&answer).to_string(),
        scope,
        at: cx.now,
        outbox_id: cx.platform.env.uuid(),
        entry: serde_json::to_string(&entry).expect("an audit entry is JSON"),
        events: serde_json::to_string(&events).expect("events are JSON"),
    };
    match tx.record_command(&record).await {
        Ok(true) => {}
        Ok(false) => {
            tx.rollback().await;
            return Err(used_key());
        }
        // A single statement may also have been the commit, with its response lost.
        Err(StoreError::Unheard) => {
            return settle(cx, command, answer, after, Err(StoreError::Unheard)).await;
        }
        Err(error) => {
            tx.rollback().await;
            return Err(Error::from(error));
        }
    }
    let committed = tx.commit().await;
    settle(cx, command, answer, after, committed).await
}

/// Notifications to send after the commit.
#[derive(Clone, Copy)]
struct After {
    revokes: bool,
    wakes_engine: bool,
}

/// Finishes a command after the commit, or determines whether it was committed.
async fn settle(
    cx: &Cx,
    command: &Command,
    answer: Answer,
    after: After,
    committed: Result<(), StoreError>,
) -> Result<Reply> {
    match committed {
        Ok(()) => {}
        // The outcome of the commit is unknown. The idempotency key was written with the effect, so its presence decides.
        Err(StoreError::Unheard) if command.key.is_some() && happened(cx, command).await => {}
        Err(error) => return Err(Error::from(error)),
    }
    cx.platform.sealer_wake.notify_one();
    if after.revokes {
        cx.platform.forget_credentials();
    }
    if after.wakes_engine {
        cx.platform.engine.wake.notify_one();
    }
    Ok(live(command.status, answer))
}

/// Returns the placeholder error for a used key; `replay` substitutes the stored response or the right error.
fn used_key() -> Error {
    Error::new(Code::Unavailable, "the key expired just now after a day: repeat the request")
}

async fn happened(cx: &Cx, command: &Command) -> bool {
    matches!(stored(cx, command).await, Ok(Some(replay)) if replay.request_hash == command.request_hash)
}

async fn stored(cx: &Cx, command: &Command) -> Result<Option<Replay>> {
    let Some(key) = &command.key else { return Ok(None) };
    let since = cx.now - cx.platform.options.idempotency_retention;
    cx.platform.store.replay_lookup(&cx.actor_id(), &command.route, key, since).await.map_err(Error::from)
}

/// Returns the stored response for the request's key, if there is one.
async fn replay(cx: &Cx, command: &Command, refused: &Error) -> Result<Option<Reply>> {
    let found = match stored(cx, command).await? {
        Some(replay) => Some(replay),
        None => {
            forget_old_key(cx, command).await?;
            // On SQLite the first response may still have been in the same commit group as this request; the transaction
            // above ended only after that group.
            stored(cx, command).await?
        }
    };
    let Some(replay) = found else { return Ok(None) };
    if !bool::from(replay.request_hash.ct_eq(&command.request_hash)) {
        return Err(Error::new(
            Code::IdempotencyKeyReused,
            "this Idempotency-Key was used for another request within a day: use a new key for a new request",
        ));
    }
    // A replay needs current permissions as well. If the resource itself is gone, the scope it was in decides.
    let scope = Scope::from_columns(replay.tenant_id, replay.project_id);
    let still_sees = cx.actor.as_ref().is_none_or(|actor| actor.principal.sees(scope));
    if refused.code == Code::PermissionDenied || (refused.code == Code::NotFound && !still_sees) {
        return Ok(None);
    }
    cx.platform.metrics.replays.inc();
    let body: Value = serde_json::from_str(&replay.body)
        .map_err(|_| Error::from(StoreError::Corrupt("a stored answer")))?;
    let version = body["version"].as_i64();
    let status = u16::try_from(replay.status).unwrap_or(command.status);
    Ok(Some(Reply { status, body, version, cookie: None, replayed: true }))
}

/// Deletes an expired key, which stays in the unique index until the sweeper removes it.
async fn forget_old_key(cx: &Cx, command: &Command) -> Result<()> {
    let Some(key) = &command.key else { return Ok(()) };
    let until = cx.now - cx.platform.options.idempotency_retention;
    let mut tx = cx.platform.store.begin().await?;
    tx.idempotency_forget(&cx.actor_id(), &command.route, key, until).await?;
    tx.commit().await.map_err(Error::from)
}

fn stored_body(answer: &Answer) -> Value {
    let mut body = answer.body.clone();
    if !answer.secrets.is_empty() {
        body["secret_shown_once"] = json!(true);
    }
    body
}

fn live(status: u16, answer: Answer) -> Reply {
    let mut body = answer.body;
    for (member, secret) in answer.secrets {
        body[member] = json!(secret);
    }
    Reply { status, body, version: answer.version, cookie: answer.cookie, replayed: false }
}

pub(crate) fn actor_of(cx: &Cx) -> Actor {
    match &cx.actor {
        Some(actor) => Actor {
            kind: actor.principal.kind_word().to_owned(),
            id: actor.principal.id(),
            name: actor.principal.name.clone(),
        },
        None => Actor { kind: "anonymous".to_owned(), id: "anonymous".to_owned(), name: String::new() },
    }
}

/// Audits a rejected command in a transaction of its own, in the chain of the actor's tenant. Rejections without an actor
/// are only counted, except for failed logins of existing users, which `session_create` records itself. A failed write is
/// only logged: the command was rejected anyway.
async fn note_refusal(cx: &Cx, command: &Command, error: &Error) {
    let Some(actor) = &cx.actor else {
        cx.platform.metrics.anonymous_refusals.inc();
        return;
    };
    // A request that may have been executed, or failed before it was decided, is no rejection.
    if error.code.status() >= 500 {
        return;
    }
    let denied = matches!(error.code, Code::PermissionDenied | Code::NotFound);
    let audited = Audited {
        action: command.action.clone(),
        target: Target { kind: "route".to_owned(), id: command.route.clone(), name: None },
        outcome: if denied { Outcome::Denied } else { Outcome::Refused },
        code: Some(error.code.as_str().to_owned()),
        detail: json!({"detail": error.detail}),
    };
    let scope = Scope::from_columns(actor.principal.tenant(), None);
    let entry = cx.origin(scope).entry(&cx.platform.env, audited);
    cx.count_refusal(&entry).await;
}

impl Cx {
    /// Records a rejection, or counts it with an equal one of the same minute.
    pub(crate) async fn count_refusal(&self, entry: &Entry) {
        let minute = self.now.as_second() / SignedDuration::from_mins(1).as_secs();
        let write = async {
            let mut tx = self.platform.store.begin().await?;
            tx.refusal_count(entry, minute, self.platform.env.uuid()).await?;
            tx.commit().await
        };
        match write.await {
            Ok(()) => self.platform.sealer_wake.notify_one(),
            Err(error) => tracing::warn!(%error, action = entry.action, "a refusal could not be audited"),
        }
    }
}
