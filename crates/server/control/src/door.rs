//! The one door for commands: effect, idempotency key, audit entry and events in one transaction, or none of them.

use jiff::SignedDuration;
use muster_api::{Code, Problem};
use muster_db::{Door, Replay, StoreError};
use muster_ids::AuditId;
use muster_model::Scope;
use muster_model::audit::{Actor, Entry, Outcome, Target};
use serde_json::{Value, json};
use subtle::ConstantTimeEq as _;

use crate::Cx;
use crate::audit::audit_detail;
use crate::commit::{Answer, Commit, WriteError};
use crate::refuse::{Result, refuse};

/// The request, as far as the door must know it.
#[derive(Debug, Clone)]
pub struct Command {
    /// `noun.verb`, for the audit.
    pub action: String,
    /// Method and path.
    pub route: String,
    /// The caller's key; none for methods that repeat safely by `If-Match`.
    pub key: Option<String>,
    /// The keyed hash of query and body.
    pub request_hash: [u8; 32],
    /// The status of success.
    pub status: u16,
}

/// What goes back.
#[derive(Debug, Clone)]
pub struct Reply {
    /// The status.
    pub status: u16,
    /// The body.
    pub body: Value,
    /// The resource's version.
    pub version: Option<i64>,
    /// A cookie to set.
    pub cookie: Option<String>,
    /// Whether it is a stored answer.
    pub replayed: bool,
}

/// Carries a prepared command out, or explains why not; either way it is in the audit.
pub async fn execute(cx: &Cx, command: &Command, prepared: Result<Commit>) -> Result<Reply> {
    let refused = match prepared {
        Ok(commit) => match carry_out(cx, command, commit).await {
            Ok(reply) => return Ok(reply),
            Err(problem) => problem,
        },
        Err(problem) => problem,
    };
    // A repeat of something done before often fails on its own effect (the name is taken, the version has moved on):
    // the first answer is the right one then.
    if let Some(reply) = replay(cx, command, &refused).await? {
        return Ok(reply);
    }
    note_refusal(cx, command, &refused).await;
    Err(refused)
}

async fn carry_out(cx: &Cx, command: &Command, commit: Commit) -> Result<Reply> {
    let store = &cx.platform.store;
    let Commit { scope, target, detail, before, events, write, revokes, wakes_engine, actor } = commit;
    let after = After { revokes, wakes_engine };
    let mut tx = store.begin().await.map_err(refuse)?;
    let answer = match write(&mut tx).await {
        Ok(answer) => answer,
        Err(error) => {
            tx.rollback().await;
            return Err(match error {
                WriteError::Store(error) => refuse(error),
                WriteError::Refused(problem) => *problem,
            });
        }
    };
    let detail = audit_detail(&command.action, detail, before, &answer.body);
    let entry = Entry {
        id: cx.platform.world.id::<AuditId>(),
        at: cx.now,
        actor: actor.unwrap_or_else(|| actor_of(cx)),
        action: command.action.clone(),
        outcome: Outcome::Succeeded,
        code: None,
        target: Some(target),
        tenant_id: scope.tenant(),
        project_id: scope.project(),
        correlation_id: cx.correlation_id.clone(),
        count: 1,
        detail,
    };
    let door = Door {
        actor_id: cx.actor_id(),
        route: command.route.clone(),
        key: command.key.clone(),
        request_hash: command.request_hash,
        status: i64::from(command.status),
        body: stored_body(&answer).to_string(),
        scope,
        at: cx.now,
        unsealed_id: cx.platform.world.uuid(),
        entry: serde_json::to_string(&entry).expect("an audit entry is JSON"),
        events: serde_json::to_string(&events).expect("events are JSON"),
    };
    match tx.door_insert(&door).await {
        Ok(true) => {}
        Ok(false) => {
            tx.rollback().await;
            return Err(used_key());
        }
        // A single statement may also have been the commit, and lost.
        Err(StoreError::Unheard) => {
            return settle(cx, command, answer, after, Err(StoreError::Unheard)).await;
        }
        Err(error) => {
            tx.rollback().await;
            return Err(refuse(error));
        }
    }
    let committed = tx.commit().await;
    settle(cx, command, answer, after, committed).await
}

/// Whom to tell after the commit.
#[derive(Clone, Copy)]
struct After {
    revokes: bool,
    wakes_engine: bool,
}

/// What is left to do after the commit, or instead of knowing.
async fn settle(
    cx: &Cx,
    command: &Command,
    answer: Answer,
    after: After,
    committed: std::result::Result<(), StoreError>,
) -> Result<Reply> {
    match committed {
        Ok(()) => {}
        // Nobody heard whether it happened. The key was written with the effect, so it knows.
        Err(StoreError::Unheard) if command.key.is_some() && happened(cx, command).await => {}
        Err(error) => return Err(refuse(error)),
    }
    cx.platform.unsealed.notify_one();
    if after.revokes {
        cx.platform.forget_credentials();
    }
    if after.wakes_engine {
        cx.platform.engine.wake.notify_one();
    }
    Ok(live(command.status, answer))
}

/// The placeholder for "the key was used before"; `replay` puts the stored answer, or the right problem, in its place.
fn used_key() -> Problem {
    Problem::new(Code::Unavailable, "the key's day is just over: repeat the request")
}

async fn happened(cx: &Cx, command: &Command) -> bool {
    matches!(stored(cx, command).await, Ok(Some(replay)) if replay.request_hash == command.request_hash)
}

async fn stored(cx: &Cx, command: &Command) -> Result<Option<Replay>> {
    let Some(key) = &command.key else { return Ok(None) };
    let since = cx.now - cx.platform.options.idempotency_retention;
    cx.platform.store.replay_lookup(&cx.actor_id(), &command.route, key, since).await.map_err(refuse)
}

/// The stored answer for the request's key, if there is one.
async fn replay(cx: &Cx, command: &Command, refused: &Problem) -> Result<Option<Reply>> {
    let found = match stored(cx, command).await? {
        Some(replay) => Some(replay),
        None => {
            forget_old_key(cx, command).await?;
            // On SQLite the first answer may still have been on its way to the disk, in the same group of commits as
            // this request; the transaction above ended only after that group did.
            stored(cx, command).await?
        }
    };
    let Some(replay) = found else { return Ok(None) };
    if !bool::from(replay.request_hash.ct_eq(&command.request_hash)) {
        return Err(Problem::new(
            Code::IdempotencyKeyReused,
            "this Idempotency-Key was used for another request within a day: use a new key for a new request",
        ));
    }
    // What the actor may not do or see any more is not shown again either. Where the thing itself is gone, the place
    // where it was decides.
    let scope = Scope::from_columns(replay.tenant_id, replay.project_id);
    let still_sees = cx.actor.as_ref().is_none_or(|actor| actor.principal.sees(scope));
    if refused.code == Code::PermissionDenied || (refused.code == Code::NotFound && !still_sees) {
        return Ok(None);
    }
    cx.platform.metrics.replays.inc();
    let body: Value =
        serde_json::from_str(&replay.body).map_err(|_| refuse(StoreError::Corrupt("a stored answer")))?;
    let version = body["version"].as_i64();
    let status = u16::try_from(replay.status).unwrap_or(command.status);
    Ok(Some(Reply { status, body, version, cookie: None, replayed: true }))
}

/// A key whose day is over still stands in the unique index until the sweeper comes by.
async fn forget_old_key(cx: &Cx, command: &Command) -> Result<()> {
    let Some(key) = &command.key else { return Ok(()) };
    let until = cx.now - cx.platform.options.idempotency_retention;
    let mut tx = cx.platform.store.begin().await.map_err(refuse)?;
    tx.idempotency_forget(&cx.actor_id(), &command.route, key, until).await.map_err(refuse)?;
    tx.commit().await.map_err(refuse)
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

/// Refusals are audited in a transaction of their own, in the chain of the actor's tenant; those without an actor are only
/// counted, but for failed logins of people who exist, which `session_create` notes itself. A failure to write one is logged and changes nothing: the command was refused anyway.
async fn note_refusal(cx: &Cx, command: &Command, problem: &Problem) {
    let Some(actor) = &cx.actor else {
        cx.platform.metrics.anonymous_refusals.inc();
        return;
    };
    // A request that may have happened, or could not even be judged, is not a refusal.
    if problem.code.status() >= 500 {
        return;
    }
    let denied = matches!(problem.code, Code::PermissionDenied | Code::NotFound);
    let entry = Entry {
        id: cx.platform.world.id::<AuditId>(),
        at: cx.now,
        actor: actor_of(cx),
        action: command.action.clone(),
        outcome: if denied { Outcome::Denied } else { Outcome::Refused },
        code: Some(problem.code.as_str().to_owned()),
        target: Some(Target { kind: "route".to_owned(), id: command.route.clone(), name: None }),
        tenant_id: actor.principal.tenant(),
        project_id: None,
        correlation_id: cx.correlation_id.clone(),
        count: 1,
        detail: json!({"detail": problem.detail}),
    };
    cx.count_refusal(&entry).await;
}

impl Cx {
    /// Writes a refusal down, or counts it with the same one of this minute.
    pub(crate) async fn count_refusal(&self, entry: &Entry) {
        let minute = self.now.as_second() / SignedDuration::from_mins(1).as_secs();
        let write = async {
            let mut tx = self.platform.store.begin().await?;
            tx.refusal_count(entry, minute, self.platform.world.uuid()).await?;
            tx.commit().await
        };
        match write.await {
            Ok(()) => self.platform.unsealed.notify_one(),
            Err(error) => tracing::warn!(%error, action = entry.action, "a refusal could not be audited"),
        }
    }
}
