//! Agents poll for tasks.

use std::pin::pin;
use std::time::Duration;

use muster_engine::parse_act;
use muster_ids::NodeId;
use muster_model::task::Task;
use muster_wire::task::Task as Wired;
use muster_wire::wire::{Poll, Work};

use super::admit::{Admitted, look_up};
use super::desired::desired;
use crate::{Cx, Platform, Result};

/// Maximum number of tasks per response.
const MOST: i64 = 16;

/// Counts a poll while it waits.
struct Counted<'p>(&'p Platform);

impl<'p> Counted<'p> {
    fn new(platform: &'p Platform) -> Self {
        platform.metrics.polls_waiting.inc();
        Self(platform)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.metrics.polls_waiting.dec();
    }
}

/// Handles `poll`: records a heartbeat, then returns available tasks, now or within the requested wait.
pub async fn poll(cx: &Cx, agent: &Admitted, body: Poll) -> Result<Work> {
    agent.current(body.session)?;
    agent.reachable()?;
    let platform = &cx.platform;
    platform.fleet.hear(agent.node);
    if body.observed {
        platform.fleet.confirm(agent.node);
    }
    let wait = Duration::from_secs(body.wait_seconds).min(platform.options.heartbeat);
    let mut over = pin!(tokio::time::sleep(wait));
    let mut stopping = platform.stopping.subscribe();
    if body.revision != agent.standing.observed_revision && agent.standing.desired_revision > 0 {
        applied(platform, agent.node, body.revision).await?;
    }
    let seat = platform.fleet.polls.enter(agent.node, &agent.standing, body.revision);
    let _counted = Counted::new(platform);
    let mut agent = *agent;
    loop {
        // Subscribe before the query, so that a task queued meanwhile wakes this request.
        let mut woken = pin!(seat.notify.notified());
        woken.as_mut().enable();
        let behind = agent.standing.clean && agent.standing.desired_revision > body.revision;
        let desired = match behind && !body.tasks_only {
            true => {
                let after = body.desired_after.as_deref();
                Some(desired(&platform.store, agent.node, after, platform.env.now()).await?)
            }
            false => None,
        };
        let tasks = match agent.standing.clean && agent.standing.waiting {
            true => deliver(platform, &agent, body.session).await?,
            false => Vec::new(),
        };
        if !tasks.is_empty() || desired.is_some() {
            return Ok(Work { tasks, desired });
        }
        if *stopping.borrow_and_update() {
            return Ok(nothing());
        }
        tokio::select! {
            () = woken => {}
            () = &mut over => return Ok(nothing()),
            // The agent retries on another replica and does not delay this one's shutdown.
            _ = stopping.changed() => return Ok(nothing()),
        }
        agent = look_up(platform, agent.node, agent.key).await?;
        agent.current(body.session)?;
        agent.reachable()?;
    }
}

fn nothing() -> Work {
    Work { tasks: Vec::new(), desired: None }
}

/// Records the agent's observed revision, and wakes operations that may wait for it. If the wake-up is lost, they poll by
/// themselves.
async fn applied(platform: &Platform, node: NodeId, revision: i64) -> Result<()> {
    let mut tx = platform.store.begin().await?;
    tx.set_observed_revision(node, revision).await?;
    tx.commit().await?;
    let mut tx = platform.store.begin().await?;
    tx.wake_revision_waiters(node, platform.env.now()).await?;
    tx.commit().await?;
    platform.fleet.engine_wake.notify_one();
    Ok(())
}

async fn deliver(platform: &Platform, agent: &Admitted, session: i64) -> Result<Vec<Wired>> {
    let now = platform.env.now();
    let tasks = platform.store.task_deliver(agent.node, session, now, MOST).await?;
    Ok(tasks.into_iter().filter_map(wired).collect())
}

/// Converts a task to the wire format. An unreadable task stays until it expires and delays no other.
fn wired(task: Task) -> Option<Wired> {
    let act = parse_act(&task).inspect_err(
        |error| tracing::error!(task = %task.id, %error, "a task is invalid and is not dispatched"),
    );
    Some(Wired {
        id: task.id,
        incarnation: task.incarnation,
        generation: task.generation,
        act: act.ok()?,
        correlation_id: task.correlation_id,
        expires_at: task.expires_at,
    })
}

#[cfg(test)]
mod tests {
    use muster_wire::task::TaskKind;

    #[test]
    fn every_kind_of_task_has_a_word_on_the_wire() {
        for kind in muster_model::task::TaskKind::ALL {
            let on_the_wire = serde_json::from_value::<TaskKind>(kind.as_str().into()).unwrap();
            assert_eq!(on_the_wire.as_str(), kind.as_str());
        }
    }
}
