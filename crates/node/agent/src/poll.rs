//! Being there: hello, ghosts, and then asking for work for as long as the session lasts.

use std::convert::Infallible;
use std::time::Duration;

use muster_ids::TaskId;
use muster_wire::cell::Wanted;
use muster_wire::inventory::Inventory;
use muster_wire::task::{Ending, Findings, Report, Task, TaskKind};
use muster_wire::wire::{Hello, Poll, Welcome};
use serde::Deserialize;
use tokio::sync::oneshot;

use crate::AgentError;
use crate::backoff::Backoff;
use crate::lanes::{Ghost, Job};
use crate::link::{CallError, Link};
use crate::node::{Phase, Running, unless_retired};
use crate::paths;

/// The pause before something that did not work is tried again.
const FOLLOW_AGAIN: Duration = Duration::from_secs(1);
/// For so long tasks alone are asked for after an answer that was too long.
const TASKS_ONLY: Duration = Duration::from_secs(60);
/// Beyond the time that the server was asked to wait.
const PATIENCE: Duration = Duration::from_secs(15);
/// A session that was over sooner was taken by somebody else, and is not taken back in haste.
const SETTLED: Duration = Duration::from_secs(30);

pub(crate) async fn polling(node: &Running) -> Result<Infallible, AgentError> {
    let mut link = Link::new(&node.dial);
    let mut backoff = Backoff::new(&node.world);
    loop {
        let Some(welcome) = take_up(node, &mut link).await? else {
            backoff.pause().await;
            continue;
        };
        let began = tokio::time::Instant::now();
        node.session.send_replace(Some(welcome.session));
        node.phase.send_replace(Phase::Polling);
        tracing::info!(session = welcome.session, "the server has taken this node up");
        ask_for_work(node, &mut link, &welcome, &mut backoff).await?;
        node.phase.send_replace(Phase::Away);
        node.session_lost(welcome.session);
        if began.elapsed() > SETTLED {
            backoff.reset();
        } else {
            backoff.pause().await;
        }
    }
}

/// Says hello until nothing is there that must not be; `None` if it did not work.
async fn take_up(node: &Running, link: &mut Link) -> Result<Option<Welcome>, AgentError> {
    let inventory = Inventory { boot_id: node.driver.boot_id(), ..node.machine.look().await };
    let digest = inventory.hardware_digest();
    let mut hello = Hello {
        agent_version: env!("CARGO_PKG_VERSION").to_owned(),
        inventory,
        places: node.driver.places()?,
        cells: node.driver.cells()?,
        address: node.driver.address(),
        shared_files: node.driver.shared_files(),
    };
    loop {
        let answer = unless_retired(link.call(paths::HELLO, &hello, PATIENCE).await)?;
        let welcome: Welcome = match answer {
            Ok(welcome) => welcome,
            Err(error) => {
                tracing::warn!(%error, "the server does not take this node up; trying again");
                return Ok(None);
            }
        };
        crate::alone::heard(node);
        *node.told_digest.lock().expect("no holder of this lock can panic") = digest.clone();
        // The server hands out again what was not begun, unless it changed its mind meanwhile.
        node.lanes.lock().expect("no holder of this lock can panic").forget_waiting();
        if welcome.ghosts.is_empty() && welcome.ghost_cells.is_empty() {
            return Ok(Some(welcome));
        }
        let cells = welcome.ghost_cells.into_iter().map(|cell| Ghost::Cell { cell, keep_state: false });
        if !destroy_ghosts(node, cells.chain(welcome.ghosts.into_iter().map(Ghost::Place))).await {
            return Ok(None);
        }
        (hello.places, hello.cells) = (node.driver.places()?, node.driver.cells()?);
    }
}

/// Whether all are gone. Each waits for what runs in its allocation's queue.
async fn destroy_ghosts(node: &Running, ghosts: impl Iterator<Item = Ghost>) -> bool {
    let mut waiting = Vec::new();
    for ghost in ghosts {
        tracing::warn!(?ghost, "a ghost: destroying it");
        let (gone, heard) = oneshot::channel();
        node.queue(Job::Ghost(ghost, gone));
        waiting.push(heard);
    }
    let mut all = true;
    for heard in waiting {
        all &= heard.await.unwrap_or(false);
    }
    all
}

/// Work as it comes: each task is read by itself, so that one of a kind that only newer agents know holds up no other.
#[derive(Deserialize)]
struct Handed {
    tasks: Vec<serde_json::Value>,
    #[serde(default)]
    wanted: Option<Wanted>,
}

/// The part of a task that every version has.
#[derive(Deserialize)]
struct Named {
    id: TaskId,
    incarnation: i64,
    generation: i64,
}

fn receive(node: &Running, task: serde_json::Value) {
    match Task::deserialize(&task) {
        // It has no lane: see `stream`.
        Ok(task) if task.kind == TaskKind::Stream => node.streams.add(Box::new(task)),
        Ok(task) => {
            let (id, kind, correlation_id) = (task.id, task.kind, task.correlation_id.clone());
            let fresh = node.queue(Job::Task(Box::new(task)));
            tracing::debug!(task = %id, ?kind, correlation_id, fresh, "a task");
        }
        Err(error) => {
            tracing::error!(%error, %task, "a task that this agent cannot read");
            let Ok(Named { id, incarnation, generation }) = Named::deserialize(&task) else { return };
            let (ending, findings) = (Ending::Failed, Findings::default());
            let message =
                Some(format!("this agent ({}) cannot read the task: {error}", env!("CARGO_PKG_VERSION")));
            node.outbox.put(Report { task_id: id, incarnation, generation, ending, findings, message });
        }
    }
}

/// Brings about what the node should have beside its places. What does not work is tried again with the next answer, after a
/// pause, because the server will send it again at once.
async fn follow(node: &Running, wanted: Wanted, so_far: i64) -> i64 {
    let revision = wanted.revision;
    match node.driver.follow(wanted).await {
        Ok(reached) => reached,
        Err(error) => {
            tracing::error!(revision, %error, "what the node should have could not be brought about; trying again");
            tokio::time::sleep(FOLLOW_AGAIN).await;
            so_far
        }
    }
}

/// Whether an answer was too long a moment ago.
fn is_tasks_only(node: &Running) -> bool {
    let until = *node.tasks_only_until.lock().expect("no holder of this lock can panic");
    until.is_some_and(|until| tokio::time::Instant::now() < until)
}

/// Asks for work until the session is over.
async fn ask_for_work(
    node: &Running,
    link: &mut Link,
    welcome: &Welcome,
    backoff: &mut Backoff,
) -> Result<(), AgentError> {
    // The server hears us when a poll begins, so one may not last as long as it would wait for the next.
    let wait_seconds = (welcome.heartbeat_seconds * 3 / 4).clamp(1, 60);
    node.poll_seconds.store(wait_seconds, std::sync::atomic::Ordering::Relaxed);
    let mut poll =
        Poll { session: welcome.session, wait_seconds, revision: 0, observed: false, tasks_only: false };
    let patience = Duration::from_secs(wait_seconds) + PATIENCE;
    loop {
        tokio::time::sleep(node.driver.heartbeat_jitter()).await;
        poll.observed = crate::observe::is_current(node);
        poll.tasks_only = is_tasks_only(node);
        let answer = tokio::select! {
            answer = link.call(paths::POLL, &poll, patience) => answer,
            () = node.session_over(welcome.session) => return Ok(()),
        };
        match unless_retired(answer)? {
            Ok(Handed { tasks, wanted }) => {
                crate::alone::heard(node);
                backoff.reset();
                tasks.into_iter().for_each(|task| receive(node, task));
                if let Some(wanted) = wanted {
                    poll.revision = follow(node, wanted, poll.revision).await;
                }
            }
            Err(CallError::Refused { status: 409, detail, .. }) => {
                tracing::warn!(detail, "the session is over; saying hello again");
                return Ok(());
            }
            // Saying hello again has its tasks handed out again, by themselves: nothing else on this node waits for what is too long.
            Err(error @ CallError::TooLong) => {
                tracing::error!(%error, "everything that this node should have is too long; asking for tasks alone for a while");
                let until = tokio::time::Instant::now() + TASKS_ONLY;
                *node.tasks_only_until.lock().expect("no holder of this lock can panic") = Some(until);
                return Ok(());
            }
            // Work may have been on its way in the lost answer. A new session has it handed out again.
            Err(error @ (CallError::Lost(_) | CallError::Strange(_))) => {
                tracing::warn!(%error, "an answer with work may be lost; saying hello again");
                return Ok(());
            }
            Err(error) => {
                tracing::warn!(%error, "no work can be asked for; trying again");
                backoff.pause().await;
            }
        }
    }
}
