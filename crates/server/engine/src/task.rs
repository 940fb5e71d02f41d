//! Asking something of a node: the task is written with the journal, and its answer is waited for.

use std::borrow::Cow;

use muster_db::{Result, StoreError};
use muster_ids::{AllocationId, NodeId, TaskId};
use muster_model::node::Node;
use muster_model::task::{Task, TaskKind, TaskState};
use muster_wire::task::{Details, Findings, Refusal};

use crate::{Act, StepCx, Verdict};

/// What is asked of a node.
pub(crate) struct Ask {
    /// Of which.
    pub(crate) node: NodeId,
    /// What.
    pub(crate) kind: TaskKind,
    /// What for, within the step: a step may ask for several things, each once.
    pub(crate) purpose: Cow<'static, str>,
    /// For whom.
    pub(crate) allocation: Option<AllocationId>,
    /// Which incarnation.
    pub(crate) incarnation: i64,
    /// The details.
    pub(crate) details: Details,
}

/// How that stands.
pub(crate) enum Asked {
    /// Nothing to say yet; this is what the step does meanwhile.
    Pending(Act),
    /// The agent did it, and saw this.
    Done(Box<Task>, Box<Findings>),
    /// The agent surely did not do it.
    Failed(String),
}

/// How often something may fail before it counts as refused.
const TRIES: usize = 3;

/// Asks, or finds how what was asked stands. An agent that says nothing in time may have done it: it is asked again, and every
/// task is such that doing it twice is doing it once, so asking again is also how it is read back.
pub(crate) async fn ask(cx: &StepCx<'_>, ask: &Ask) -> Result<Asked> {
    let round = cx.operation.input["round"].as_i64().unwrap_or(0);
    let prefix = format!("{}/{}/{round}/", cx.step, ask.purpose);
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
            let why = latest.message.clone().unwrap_or_else(|| "the agent gave no reason".to_owned());
            let failed = mine.iter().filter(|task| task.state == TaskState::Failed).count();
            if failed >= TRIES || certain(latest) {
                return Ok(Asked::Failed(why));
            }
            // It surely did not happen, so it can be asked for again; a little later, as what was in the way may be gone.
            let again_at = latest.finished_at.unwrap_or(cx.now) + cx.timing.look;
            if cx.now < again_at {
                let reason = format!("the node could not {}: {why}; it is asked again", words(ask.kind));
                return Ok(Asked::Pending(Verdict::Wait { reason, until: again_at }.into()));
            }
            Ok(Asked::Pending(queue(cx, ask, &prefix, mine.len(), None)?))
        }
        TaskState::Expired => Ok(Asked::Pending(queue(cx, ask, &prefix, mine.len(), None)?)),
        TaskState::Queued | TaskState::Delivered | TaskState::Running if cx.now >= latest.expires_at => {
            let unanswered = Unanswered { task: latest.id, waiting: waiting(cx, ask).await? };
            Ok(Asked::Pending(queue(cx, ask, &prefix, mine.len(), Some(unanswered))?))
        }
        TaskState::Queued | TaskState::Delivered | TaskState::Running => {
            // An agent takes up its tasks at once: one that lies there says that the agent is away.
            let look = if latest.delivered_at.is_none() { cx.timing.look } else { cx.timing.look * 3 };
            let until = latest.expires_at.min(cx.now + look);
            Ok(Asked::Pending(Verdict::Wait { reason: waiting(cx, ask).await?, until }.into()))
        }
    }
}

/// Why the agent did not do what was asked for last, where it gave one of the reasons that have a name.
pub(crate) async fn refusal(cx: &StepCx<'_>, ask: &Ask) -> Result<Option<Refusal>> {
    let prefix = format!("{}/{}/", cx.step, ask.purpose);
    let tasks = cx.store.task_list(cx.operation.id).await?;
    Ok(tasks.iter().rfind(|task| task.key.starts_with(&prefix)).and_then(named))
}

/// Whether the agent could not do what was asked for last in this round.
pub(crate) async fn has_failed(cx: &StepCx<'_>, ask: &Ask) -> Result<bool> {
    let round = cx.operation.input["round"].as_i64().unwrap_or(0);
    let prefix = format!("{}/{}/{round}/", cx.step, ask.purpose);
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

/// Asks for the same once more, although it was answered: what was seen then may be otherwise now.
pub(crate) fn ask_anew(cx: &StepCx<'_>, ask: &Ask, answered: &Task) -> Result<Act> {
    let (prefix, attempt) = answered.key.rsplit_once('/').ok_or(StoreError::Corrupt("a task's key"))?;
    let attempt: usize = attempt.parse().map_err(|_| StoreError::Corrupt("a task's key"))?;
    queue(cx, ask, &format!("{prefix}/"), attempt + 1, None)
}

/// What a kind of task is called in a sentence about what a node has to do.
fn words(kind: TaskKind) -> &'static str {
    match kind {
        TaskKind::Prepare => "provision the allocation",
        TaskKind::CellCreate => "make the cell",
        TaskKind::CellInspect => "look at the cell",
        TaskKind::CellDestroy => "destroy the cell",
        TaskKind::KeepLogs => "hand over the logs",
        TaskKind::ImagePull => "pull the image",
        TaskKind::CellProbe => "run a check beside the cell",
        TaskKind::ShareRemove => "remove what was shared",
        kind => kind.as_str(),
    }
}

async fn waiting(cx: &StepCx<'_>, ask: &Ask) -> Result<String> {
    let Some(node) = cx.store.node_lookup(ask.node).await? else {
        return Ok(format!("waiting for the node to {}", words(ask.kind)));
    };
    Ok(match silence(cx, &node) {
        Some(silence) => format!("{silence}; waiting for it to {}", words(ask.kind)),
        None => format!("waiting for node {} to {}", node.name, words(ask.kind)),
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

/// Whether no agent was ever given what this step asked for, so that it surely did not happen.
pub(crate) fn never_delivered(tasks: &[Task], step: &str) -> bool {
    let prefix = format!("{step}/");
    let mut mine = tasks.iter().filter(|task| task.key.starts_with(&prefix));
    mine.all(|task| {
        task.delivered_at.is_none() && matches!(task.state, TaskState::Queued | TaskState::Expired)
    })
}

/// A task that no agent answered in time, and what was waited for.
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
) -> Result<Act> {
    let task = Task {
        id: cx.world.id(),
        node_id: ask.node,
        operation_id: cx.operation.id,
        key: format!("{prefix}{attempt:04}"),
        kind: ask.kind,
        allocation_id: ask.allocation,
        incarnation: ask.incarnation,
        generation: cx.operation.generation,
        payload: serde_json::to_value(&ask.details).map_err(|_| StoreError::Corrupt("details of a task"))?,
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
    let verdict = match &expired {
        None if attempt == 0 => {
            Verdict::Wait { reason: format!("waiting for the node to {}", words(ask.kind)), until }
        }
        None => Verdict::Wait { reason: format!("waiting for the node to {} again", words(ask.kind)), until },
        Some(unanswered) => Verdict::Unknown {
            message: format!("{}; no answer in time, asking again", unanswered.waiting),
            until,
        },
    };
    Ok(Act::write(move |tx, told| {
        Box::pin(async move {
            if let Some(expired) = expired {
                tx.task_expire(expired.task, now).await?;
            }
            tx.task_queue(&task).await?;
            told.tasks_for.push(task.node_id);
            Ok(verdict)
        })
    }))
}
