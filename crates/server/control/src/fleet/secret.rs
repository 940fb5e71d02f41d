//! Delivery of secrets to nodes: for a cell that the node was ordered to create, or for a task that writes one into a cell.
//!
//! Unlike other agent requests this is a command: each delivery is audited in the cell's tenant and published in its
//! project's stream, in the transaction that verified the cell's incarnation and node. The content is returned only after
//! that commit.
//!
//! Every failure returns the same error: an agent that requests a secret of another node learns nothing, not even whether it
//! exists.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::SignedDuration;
use muster_api::Code;
use muster_db::StoreError;
use muster_engine::cell::cell_target;
use muster_engine::parse_act;
use muster_ids::{AuditId, ProjectId, RepositoryId};
use muster_model::Record as _;
use muster_model::audit::{Entry, Outcome, Target};
use muster_model::cell::{Cell, CellState};
use muster_model::event::EventType;
use muster_model::secret::{ProjectSecret, RuntimeSecret};
use muster_model::task::{Task, TaskKind, TaskState};
use muster_wire::act::Act;
use muster_wire::cell::{CellSpec, SecretFile};
use muster_wire::wire::{SecretAsk, SecretValue, SecretWhat};
use serde_json::{Value, json};
use zeroize::Zeroizing;

use super::admit::Admitted;
use super::tell;
use crate::commit::target;
use crate::runtime_secret::{self, Pull, pull};
use crate::secret::{Named, named};
use crate::{Cx, Error, Result};

const ACTION: &str = "secret.deliver";

fn absent() -> Error {
    Error::not_found("secret of this incarnation of a cell on this node")
}

/// Handles `secret`.
pub async fn secret(cx: &Cx, agent: &Admitted, body: SecretAsk) -> Result<SecretValue> {
    agent.current(body.session)?;
    agent.reachable()?;
    cx.platform.fleet.hear(agent.node);
    let told = match tried(cx, agent, &body).await {
        Ok(told) => told,
        Err(error) => {
            if error.code == Code::NotFound {
                note_refusal(cx, agent, &body).await;
            }
            return Err(error);
        }
    };
    cx.platform.sealer_wake.notify_one();
    Ok(told)
}

async fn tried(cx: &Cx, agent: &Admitted, body: &SecretAsk) -> Result<SecretValue> {
    let store = &cx.platform.store;
    let cell = store.cell_lookup(body.cell_id).await?.ok_or_else(absent)?;
    let lives = matches!(cell.state, CellState::Requested | CellState::Provisioning | CellState::Running);
    if cell.node_id != agent.node || cell.incarnation != body.incarnation || !lives {
        return Err(absent());
    }
    match &body.what {
        SecretWhat::File(file) => deliver(cx, agent, body.session, &cell, file).await,
        SecretWhat::ArtifactPull => issue(cx, agent, body.session, &cell).await,
    }
}

/// Returns the content of one of the cell's files.
async fn deliver(cx: &Cx, agent: &Admitted, session: i64, cell: &Cell, file: &str) -> Result<SecretValue> {
    let platform = &cx.platform;
    let spec: CellSpec = serde_json::from_value(cell.spec.clone())
        .map_err(|_| Error::from(StoreError::Corrupt("a cell specification")))?;
    let asked = match by_task(cx, agent, cell, file).await? {
        Some(asked) => asked,
        None => spec.secrets.into_iter().find(|given| given.file == file).ok_or_else(absent)?,
    };
    let found = named(&platform.store, cell.project_id, &asked.secret, cx.now).await?;
    let delivery = match found.ok_or_else(absent)? {
        Named::Project(found) => Delivery::of_project(cell, file, found),
        Named::Runtime(found) => Delivery::of_runtime(cell, file, found).ok_or_else(absent)?,
    };
    let owner = cell.scope().chain();
    let plain = platform.envelope.open(&platform.store, &owner, &delivery.context, &delivery.sealed).await?;
    let news = News {
        event: EventType::SecretDelivered,
        target: delivery.target,
        subject: delivery.subject,
        data: delivery.data,
    };
    write(cx, agent, session, cell, None, news).await?;
    let value = Zeroizing::new(STANDARD.encode(&*plain));
    Ok(SecretValue { value: value.to_string() })
}

/// Returns the secret file that an open task of the agent writes under this name into this incarnation of the cell. An ended
/// task grants no access.
async fn by_task(cx: &Cx, agent: &Admitted, cell: &Cell, file: &str) -> Result<Option<SecretFile>> {
    let tasks = cx.platform.store.task_open_on(agent.node).await?;
    let named = |task: Task| {
        let given = task.kind == TaskKind::CellFiles
            && matches!(task.state, TaskState::Delivered | TaskState::Running)
            && task.expires_at > cx.now;
        let Some(Act::CellFiles(act)) = given.then(|| parse_act(&task).ok()).flatten() else { return None };
        if act.cell != cell_target(cell) {
            return None;
        }
        act.files.secrets.into_iter().find(|given| given.file == file)
    };
    // The last task counts, as it does for the file.
    Ok(tasks.into_iter().rev().find_map(named))
}

/// A sealed content, and the event data of its delivery.
struct Delivery {
    context: String,
    sealed: Vec<u8>,
    target: Target,
    subject: String,
    data: Value,
}

impl Delivery {
    fn of_project(cell: &Cell, file: &str, found: ProjectSecret) -> Self {
        Self {
            context: ProjectSecret::context(found.id, found.revision),
            target: found.target(),
            subject: found.path(),
            data: json!({
                "name": found.name, "secret_id": found.id, "revision": found.revision,
                "cell_id": cell.id, "incarnation": cell.incarnation, "file": file,
            }),
            sealed: found.sealed,
        }
    }

    /// Returns none if it was erased meanwhile.
    fn of_runtime(cell: &Cell, file: &str, found: RuntimeSecret) -> Option<Self> {
        Some(Self {
            context: RuntimeSecret::context(found.id),
            target: target("runtime_secret", found.id, &found.name),
            subject: runtime_secret::path(&found),
            data: json!({
                "name": found.name, "runtime_secret_id": found.id,
                "cell_id": cell.id, "incarnation": cell.incarnation, "file": file,
            }),
            sealed: found.sealed?,
        })
    }
}

/// Issues a credential for the repository of the cell's image. It supersedes an earlier one: the response was lost, or the
/// agent restarted.
async fn issue(cx: &Cx, agent: &Admitted, session: i64, cell: &Cell) -> Result<SecretValue> {
    let platform = &cx.platform;
    let repository = match pulled_by_task(cx, agent, cell).await? {
        Some(repository) => repository,
        None => {
            let artifact = cell.artifact_id.ok_or_else(absent)?;
            let artifact = platform.store.artifact_lookup(artifact).await?;
            artifact.ok_or_else(absent)?.repository_id
        }
    };
    let Pull { secret, token } = pull(&platform.env, cell, cell.name.clone(), repository, cx.now);
    let news = News {
        event: EventType::RuntimeSecretIssued,
        target: target("runtime_secret", secret.id, &secret.name),
        subject: runtime_secret::path(&secret),
        data: runtime_secret::facts(&secret, None),
    };
    write(cx, agent, session, cell, Some(&secret), news).await?;
    let value = Zeroizing::new(STANDARD.encode(token.reveal()));
    Ok(SecretValue { value: value.to_string() })
}

/// Returns the repository that an open task of the agent pulls from for the next incarnation of the cell.
async fn pulled_by_task(cx: &Cx, agent: &Admitted, cell: &Cell) -> Result<Option<RepositoryId>> {
    let tasks = cx.platform.store.task_open_on(agent.node).await?;
    let pulled = |task: Task| {
        let under_way = task.kind == TaskKind::ImagePull
            && matches!(task.state, TaskState::Delivered | TaskState::Running)
            && task.expires_at > cx.now;
        let Some(Act::ImagePull(act)) = under_way.then(|| parse_act(&task).ok()).flatten() else {
            return None;
        };
        act.pull.filter(|_| act.cell == cell_target(cell))
    };
    let Some(pull) = tasks.into_iter().rev().find_map(pulled) else { return Ok(None) };
    let place = pull.repository.split_once('/');
    let place = place.and_then(|(project, name)| Some((project.parse::<ProjectId>().ok()?, name)));
    let (project, name) = place.ok_or_else(absent)?;
    let found = cx.platform.store.repository_by_name(project, name).await?;
    Ok(Some(found.ok_or_else(absent)?.id))
}

/// An event to publish.
struct News {
    event: EventType,
    target: Target,
    subject: String,
    data: Value,
}

/// Writes the audit entry and the event, and the credential if one is issued, provided that the agent is still the node's
/// and the cell's incarnation is unchanged.
async fn write(
    cx: &Cx,
    agent: &Admitted,
    session: i64,
    cell: &Cell,
    credential: Option<&RuntimeSecret>,
    news: News,
) -> Result<()> {
    let platform = &cx.platform;
    let node = platform.store.node_lookup(agent.node).await?.ok_or_else(absent)?;
    let mut tx = platform.store.begin().await?;
    let written = async {
        tx.cell_hold(cell.id, cell.incarnation).await?;
        if let Some(secret) = credential {
            if let Some(repository) = secret.repository_id {
                tx.runtime_secret_revoke_earlier(cell.id, cell.incarnation, repository, cx.now).await?;
            }
            tx.runtime_secret_insert(secret).await?;
        }
        // After the cell's row, in the engine's lock order: a newer agent may have started a session since this one was
        // admitted.
        tx.node_in_session(agent.node, session).await?;
        let news = tell::News {
            actor: tell::agent(agent.node, &node.name),
            action: ACTION,
            target: news.target,
            subject: news.subject,
            events: vec![(news.event, news.data)],
            correlation_id: &cx.correlation_id,
            at: cx.now,
        };
        platform.tell_in(&mut tx, cell.scope(), news).await
    };
    match written.await {
        Ok(()) => tx.commit().await.map_err(Error::from),
        Err(error) => {
            tx.rollback().await;
            Err(match error {
                StoreError::Fenced => absent(),
                error => Error::from(error),
            })
        }
    }
}

/// Audits a rejected request in the platform's chain: the first of each minute at once, further ones counted. The request is
/// unverified, so it does not appear in the audit of the cell's supposed tenant.
async fn note_refusal(cx: &Cx, agent: &Admitted, body: &SecretAsk) {
    let platform = &cx.platform;
    let write = async {
        let node = platform.store.node_lookup(agent.node).await?;
        let name = node.map(|node| node.name).unwrap_or_default();
        let entry = Entry {
            id: platform.env.id::<AuditId>(),
            at: cx.now,
            actor: tell::agent(agent.node, &name),
            action: ACTION.to_owned(),
            outcome: Outcome::Denied,
            code: Some(Code::NotFound.as_str().to_owned()),
            target: Some(Target { kind: "cell".to_owned(), id: body.cell_id.to_string(), name: None }),
            tenant_id: None,
            project_id: None,
            correlation_id: cx.correlation_id.clone(),
            count: 1,
            detail: json!({"incarnation": body.incarnation}),
        };
        let minute = cx.now.as_second() / SignedDuration::from_mins(1).as_secs();
        let mut tx = platform.store.begin().await?;
        tx.refusal_count(&entry, minute, platform.env.uuid()).await?;
        tx.commit().await
    };
    match write.await {
        Ok(()) => platform.sealer_wake.notify_one(),
        Err(error) => tracing::warn!(%error, node = %agent.node, "a refusal could not be audited"),
    }
}
