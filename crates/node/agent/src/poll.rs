//! Session handling: hello, removal of stale copies, then polling for work for as long as the session lasts.

use std::convert::Infallible;
use std::time::Duration;

use muster_ids::TaskId;
use muster_wire::act::Act;
use muster_wire::cell::DesiredState;
use muster_wire::inventory::Inventory;
use muster_wire::task::{Ending, Findings, Refusal, Report, Task};
use muster_wire::wire::{Hello, Poll, Welcome};
use serde::Deserialize;
use tokio::sync::oneshot;

use crate::AgentError;
use crate::backoff::Backoff;
use crate::driver::StaleCopy;
use crate::lanes::Job;
use crate::link::{CallError, Link};
use crate::node::{Phase, Running, unless_retired};
use crate::paths;
use crate::stream::StreamTask;

/// Delay before a failed reconciliation is retried.
const RECONCILE_RETRY: Duration = Duration::from_secs(1);
/// Period of requesting only tasks after a response that was too long.
const TASKS_ONLY: Duration = Duration::from_secs(60);
/// Timeout beyond the requested long-poll duration.
const PATIENCE: Duration = Duration::from_secs(15);
/// A session that ends sooner was superseded by another agent, and is not taken back at once.
const SETTLED: Duration = Duration::from_secs(30);

pub(crate) async fn polling(node: &Running) -> Result<Infallible, AgentError> {
    let mut link = Link::new(&node.dial);
    let mut backoff = Backoff::new(&node.env);
    loop {
        let Some(welcome) = start_session(node, &mut link).await? else {
            backoff.pause().await;
            continue;
        };
        let began = tokio::time::Instant::now();
        node.session.send_replace(Some(welcome.session));
        node.phase.send_replace(Phase::Polling);
        tracing::info!(session = welcome.session, "the server accepted this node");
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

/// Sends hellos until no stale copy is left; `None` on failure.
async fn start_session(node: &Running, link: &mut Link) -> Result<Option<Welcome>, AgentError> {
    let inventory = Inventory { boot_id: node.driver.boot_id(), ..node.machine.look().await };
    let digest = inventory.hardware_digest();
    let mut hello = Hello {
        agent_version: env!("CARGO_PKG_VERSION").to_owned(),
        inventory,
        sandboxes: node.driver.sandboxes()?,
        cells: node.driver.cells()?,
        address: node.driver.address(),
        shared_files: node.driver.shared_files(),
    };
    loop {
        let answer = unless_retired(link.call(paths::HELLO, &hello, PATIENCE).await)?;
        let welcome: Welcome = match answer {
            Ok(welcome) => welcome,
            Err(error) => {
                tracing::warn!(%error, "the server does not accept this node; retrying");
                return Ok(None);
            }
        };
        crate::self_fencing::heard(node);
        *node.told_digest.lock() = digest.clone();
        // The server delivers tasks again that were not started, unless they were cancelled.
        node.lanes.lock().forget_waiting();
        if welcome.stale_allocations.is_empty() && welcome.stale_cells.is_empty() {
            return Ok(Some(welcome));
        }
        let cells = welcome.stale_cells.into_iter().map(|cell| StaleCopy::Cell { cell, keep_state: false });
        if !destroy_stale_copies(
            node,
            cells.chain(welcome.stale_allocations.into_iter().map(StaleCopy::Sandbox)),
        )
        .await
        {
            return Ok(None);
        }
        (hello.sandboxes, hello.cells) = (node.driver.sandboxes()?, node.driver.cells()?);
    }
}

/// Reports whether all were removed. Each waits for the running job of its allocation's queue.
async fn destroy_stale_copies(node: &Running, stale_allocations: impl Iterator<Item = StaleCopy>) -> bool {
    let mut waiting = Vec::new();
    for stale_copy in stale_allocations {
        tracing::warn!(?stale_copy, "destroying a stale copy");
        let (gone, heard) = oneshot::channel();
        node.queue(Job::StaleCopy(stale_copy, gone));
        waiting.push(heard);
    }
    let mut all = true;
    for heard in waiting {
        all &= heard.await.unwrap_or(false);
    }
    all
}

/// Unparsed work. Each task is parsed separately, so that one of an unknown kind does not block the others.
#[derive(Deserialize)]
struct Handed {
    tasks: Vec<serde_json::Value>,
    #[serde(default)]
    desired: Option<DesiredState>,
}

/// Fields of a task that every version has.
#[derive(Deserialize)]
struct Named {
    id: TaskId,
    incarnation: i64,
    generation: i64,
}

fn receive(node: &Running, task: serde_json::Value) {
    match Task::deserialize(&task) {
        // It has no queue; the `stream` module runs it.
        Ok(Task { id, incarnation, generation, act: Act::Stream(order), correlation_id, expires_at }) => {
            node.streams.add(StreamTask { id, incarnation, generation, correlation_id, expires_at, order });
        }
        Ok(task) => {
            let (id, kind, correlation_id) = (task.id, task.act.kind(), task.correlation_id.clone());
            let fresh = node.queue(Job::Task(Box::new(task)));
            tracing::debug!(task = %id, ?kind, correlation_id, fresh, "a task");
        }
        Err(error) => {
            // Its content may hold secrets, so only its id and kind are logged.
            let (id, kind) = (&task["id"], &task["act"]["kind"]);
            tracing::error!(%error, %id, %kind, "a task that this agent does not support");
            let Ok(Named { id, incarnation, generation }) = Named::deserialize(&task) else { return };
            let findings = Findings { refusal: Some(Refusal::Unsupported), ..Findings::default() };
            let ending = Ending::Failed;
            let message = Some(format!(
                "this agent ({}) does not support the task: {error}",
                env!("CARGO_PKG_VERSION")
            ));
            node.outbox.put(Report { task_id: id, incarnation, generation, ending, findings, message });
        }
    }
}

/// Reconciles the node with its desired state beside its sandboxes. A failure is retried with the next response, after a
/// delay because the server sends it again at once.
async fn reconcile(node: &Running, desired: DesiredState, so_far: i64) -> i64 {
    let revision = desired.revision;
    match node.driver.clone().reconcile(desired).await {
        Ok(reached) => reached,
        Err(error) => {
            tracing::error!(revision, %error, "the desired state of the node could not be reached; retrying");
            tokio::time::sleep(RECONCILE_RETRY).await;
            so_far
        }
    }
}

/// Pages of the desired state received so far.
#[derive(Default)]
struct Pages(Option<DesiredState>);

impl Pages {
    /// Adds a page, and returns the desired state once it is complete. Without a page it starts over.
    fn add(&mut self, page: Option<DesiredState>) -> Option<DesiredState> {
        let so_far = self.0.take();
        let page = page?;
        let desired = match so_far {
            Some(mut so_far) => {
                so_far.add_page(page);
                so_far
            }
            None => page,
        };
        if desired.next.is_none() {
            return Some(desired);
        }
        self.0 = Some(desired);
        None
    }

    /// Returns where the next page begins.
    fn next(&self) -> Option<String> {
        self.0.as_ref()?.next.clone()
    }
}

/// Reports whether a response was recently too long.
fn is_tasks_only(node: &Running) -> bool {
    let until = *node.tasks_only_until.lock();
    until.is_some_and(|until| tokio::time::Instant::now() < until)
}

/// Polls for work until the session ends.
async fn ask_for_work(
    node: &Running,
    link: &mut Link,
    welcome: &Welcome,
    backoff: &mut Backoff,
) -> Result<(), AgentError> {
    // A poll counts as a heartbeat when it begins, so it must be shorter than the heartbeat interval.
    let wait_seconds = (welcome.heartbeat_seconds * 3 / 4).clamp(1, 60);
    node.poll_seconds.store(wait_seconds, std::sync::atomic::Ordering::Relaxed);
    let mut poll = Poll {
        session: welcome.session,
        wait_seconds,
        revision: 0,
        desired_after: None,
        observed: false,
        tasks_only: false,
    };
    let mut pages = Pages::default();
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
            Ok(Handed { tasks, desired }) => {
                crate::self_fencing::heard(node);
                backoff.reset();
                tasks.into_iter().for_each(|task| receive(node, task));
                if let Some(desired) = pages.add(desired) {
                    poll.revision = reconcile(node, desired, poll.revision).await;
                }
                poll.desired_after = pages.next();
            }
            Err(CallError::Refused { status: 409, detail, .. }) => {
                tracing::warn!(detail, "the session is over; sending hello again");
                return Ok(());
            }
            // A new hello requeues its tasks, and they are then delivered without the desired state. Nothing else on this
            // node depends on that.
            Err(error @ CallError::TooLong) => {
                tracing::error!(%error, "the desired state of this node is too long; requesting only tasks for a while");
                let until = tokio::time::Instant::now() + TASKS_ONLY;
                *node.tasks_only_until.lock() = Some(until);
                return Ok(());
            }
            // The lost response may have carried tasks. A new session requeues them.
            Err(error @ (CallError::Lost(_) | CallError::Strange(_))) => {
                tracing::warn!(%error, "a response with work may be lost; sending hello again");
                return Ok(());
            }
            Err(error) => {
                tracing::warn!(%error, "no work can be requested; retrying");
                backoff.pause().await;
            }
        }
    }
}
