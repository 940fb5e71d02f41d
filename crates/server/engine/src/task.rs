//! Requests to a node: the task is written with the journal, and the step waits for its result.

use std::borrow::Cow;

use muster_db::{Result, StoreError};
use muster_ids::{NodeId, TaskId};
use muster_model::node::Node;
use muster_model::task::{Task, TaskState};
use muster_wire::act::Act;
use muster_wire::task::{Findings, Refusal, TaskKind};

use crate::act::StoredAct;
use crate::{StepAction, StepCx, StepOutcome};

/// A request to a node.
pub(crate) struct Ask {
    /// Target node.
    pub(crate) node: NodeId,
    /// Purpose within the step: a step may queue several tasks, one for each purpose.
    pub(crate) purpose: Cow<'static, str>,
    /// Incarnation of the allocation concerned; 0 for the node.
    pub(crate) incarnation: i64,
    /// Act.
    pub(crate) act: Act,
}

/// Progress of a request.
pub(crate) enum Asked {
    /// Not answered yet; the step does this meanwhile.
    Pending(StepAction),
    /// The agent did it, with these findings.
    Done(Box<Task>, Box<Findings>),
    /// The agent certainly did not do it.
    Failed(String),
}

/// Failures after which a request counts as refused.
const TRIES: usize = 3;

/// Queues the request, or returns its progress. An agent that times out may have done the work, so the task is queued again.
/// Tasks are idempotent: repeating one is also how its effect is read back.
pub(crate) async fn ask(cx: &StepCx<'_>, ask: &Ask) -> Result<Asked> {
    let retry_epoch = cx.operation.input.retry_epoch;
    let prefix = format!("{}/{}/{retry_epoch}/", cx.step, ask.purpose);
    let tasks = cx.store.task_list(cx.operation.id).await?;
    let mine: Vec<&Task> = tasks.iter().filter(|task| task.key.starts_with(&prefix)).collect();
    let Some(latest) = mine.last() else { return Ok(Asked::Pending(queue(cx, ask, &prefix, 0, None)?)) };
    match latest.state {
        TaskState::Done => {
            let findings = latest.result.clone().unwrap_or_default();
            let findings =
                serde_json::from_value(findings).map_err(|_| StoreError::Corrupt("findings of an agent"))?;
            Ok(Asked::Done(Box::new((*latest).clone()), Box::new(findings)))
        }
        TaskState::Failed => {
            let kind = ask.act.kind();
            let why = latest.message.clone().unwrap_or_else(|| "the agent gave no reason".to_owned());
            let counts = |task: &&&Task| task.state == TaskState::Failed && !is_awaited(kind, task);
            let failed = mine.iter().filter(counts).count();
            if failed >= TRIES || certain(latest) {
                return Ok(Asked::Failed(why));
            }
            // It certainly did not happen, so a retry is safe; later, as the obstacle may be temporary.
            let again_at = latest.finished_at.unwrap_or(cx.now) + cx.timing.look;
            if cx.now < again_at {
                let reason = format!("the node could not {}: {why}; retrying", kind.verb_phrase());
                return Ok(Asked::Pending(StepOutcome::Wait { reason, until: again_at }.into()));
            }
            Ok(Asked::Pending(queue(cx, ask, &prefix, mine.len(), None)?))
        }
        TaskState::Expired => Ok(Asked::Pending(queue(cx, ask, &prefix, mine.len(), None)?)),
        TaskState::Queued | TaskState::Delivered | TaskState::Running if cx.now >= latest.expires_at => {
            let unanswered = Unanswered { task: latest.id, waiting: waiting(cx, ask).await? };
            Ok(Asked::Pending(queue(cx, ask, &prefix, mine.len(), Some(unanswered))?))
        }
        TaskState::Queued | TaskState::Delivered | TaskState::Running => {
            // An agent picks up tasks at once: an undelivered task means that the agent is away.
            let look = if latest.delivered_at.is_none() { cx.timing.look } else { cx.timing.look * 3 };
            let until = latest.expires_at.min(cx.now + look);
            Ok(Asked::Pending(StepOutcome::Wait { reason: waiting(cx, ask).await?, until }.into()))
        }
    }
}

/// Returns the named reason for which the agent refused the latest request, if it gave one.
pub(crate) async fn refusal(cx: &StepCx<'_>, ask: &Ask) -> Result<Option<Refusal>> {
    let prefix = format!("{}/{}/", cx.step, ask.purpose);
    let tasks = cx.store.task_list(cx.operation.id).await?;
    Ok(tasks.iter().rfind(|task| task.key.starts_with(&prefix)).and_then(named))
}

/// Reports whether the latest request in this retry epoch failed.
pub(crate) async fn has_failed(cx: &StepCx<'_>, ask: &Ask) -> Result<bool> {
    let retry_epoch = cx.operation.input.retry_epoch;
    let prefix = format!("{}/{}/{retry_epoch}/", cx.step, ask.purpose);
    let tasks = cx.store.task_list(cx.operation.id).await?;
    let last = tasks.iter().rfind(|task| task.key.starts_with(&prefix) && task.state.is_final());
    Ok(last.is_some_and(|task| task.state == TaskState::Failed))
}

fn named(task: &Task) -> Option<Refusal> {
    let findings: Findings = serde_json::from_value(task.result.clone()?).ok()?;
    findings.refusal
}

/// Whether the agent would refuse each retry for the same reason.
fn certain(task: &Task) -> bool {
    matches!(named(task), Some(Refusal::ArtifactUntrusted | Refusal::Secret | Refusal::Unsupported))
}

/// Whether a failure passes by itself and does not count. A full disk has room again some day, and until then a release
/// must not be given up; a request for more on that node is.
fn is_awaited(kind: TaskKind, task: &Task) -> bool {
    let adds =
        matches!(kind, TaskKind::Prepare | TaskKind::Resize | TaskKind::CellCreate | TaskKind::ImagePull);
    !adds && named(task) == Some(Refusal::NodeFull)
}

/// Queues an answered request again: its result may be stale.
pub(crate) fn ask_anew(cx: &StepCx<'_>, ask: &Ask, answered: &Task) -> Result<StepAction> {
    let (prefix, attempt) = answered.key.rsplit_once('/').ok_or(StoreError::Corrupt("a task's key"))?;
    let attempt: usize = attempt.parse().map_err(|_| StoreError::Corrupt("a task's key"))?;
    queue(cx, ask, &format!("{prefix}/"), attempt + 1, None)
}

async fn waiting(cx: &StepCx<'_>, ask: &Ask) -> Result<String> {
    let verb_phrase = ask.act.kind().verb_phrase();
    let Some(node) = cx.store.node_lookup(ask.node).await? else {
        return Ok(format!("waiting for the node to {verb_phrase}"));
    };
    Ok(match silence(cx, &node) {
        Some(silence) => format!("{silence}; waiting for it to {verb_phrase}"),
        None => format!("waiting for node {} to {verb_phrase}", node.name),
    })
}

/// Why a node may not answer, if its heartbeat is late: `node n1: last heartbeat 60 s ago`.
pub(crate) fn silence(cx: &StepCx<'_>, node: &Node) -> Option<String> {
    let is_late = node.seen_at.is_none_or(|at| at < cx.timing.heard_since(cx.now));
    if !is_late && node.unreachable_since.is_none() {
        return None;
    }
    let unreachable = if node.unreachable_since.is_some() { "unreachable, " } else { "" };
    Some(match node.seen_at {
        Some(at) => {
            format!(
                "node {}: {unreachable}last heartbeat {} s ago",
                node.name,
                cx.now.duration_since(at).as_secs()
            )
        }
        None => format!("node {}: {unreachable}no heartbeat yet", node.name),
    })
}

/// Reports whether no task of this step was ever delivered, so that it certainly had no effect.
pub(crate) fn never_delivered(tasks: &[Task], step: &str) -> bool {
    let prefix = format!("{step}/");
    let mut mine = tasks.iter().filter(|task| task.key.starts_with(&prefix));
    mine.all(|task| {
        task.delivered_at.is_none() && matches!(task.state, TaskState::Queued | TaskState::Expired)
    })
}

/// A task that expired without a result, and its waiting message.
struct Unanswered {
    task: TaskId,
    waiting: String,
}

fn queue(
    cx: &StepCx<'_>,
    ask: &Ask,
    prefix: &str,
    attempt: usize,
    expired: Option<Unanswered>,
) -> Result<StepAction> {
    let StoredAct { kind, allocation_id, payload } = StoredAct::from_act(&ask.act)?;
    let task = Task {
        id: cx.env.id(),
        node_id: ask.node,
        operation_id: cx.operation.id,
        key: format!("{prefix}{attempt:04}"),
        kind,
        allocation_id,
        incarnation: ask.incarnation,
        generation: cx.operation.generation,
        payload,
        state: TaskState::Queued,
        result: None,
        message: None,
        correlation_id: cx.operation.correlation_id.clone(),
        queued_at: cx.now,
        delivered_at: None,
        finished_at: None,
        expires_at: cx.now + cx.timing.task,
    };
    let (now, until) = (cx.now, task.expires_at.min(cx.now + cx.timing.look));
    let verb_phrase = ask.act.kind().verb_phrase();
    let outcome = match &expired {
        None if attempt == 0 => {
            StepOutcome::Wait { reason: format!("waiting for the node to {verb_phrase}"), until }
        }
        None => StepOutcome::Wait { reason: format!("waiting for the node to {verb_phrase} again"), until },
        Some(unanswered) => StepOutcome::Unknown {
            message: format!("{}; no answer in time, retrying", unanswered.waiting),
            until,
        },
    };
    Ok(StepAction::commit(move |tx, effects| {
        Box::pin(async move {
            if let Some(expired) = expired {
                tx.task_expire(expired.task, now).await?;
            }
            tx.task_queue(&task).await?;
            effects.tasks_for.push(task.node_id);
            Ok(outcome)
        })
    }))
}
