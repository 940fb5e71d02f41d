//! Waiting for the end of a task.

use std::time::Duration;

use muster_db::StoreError;
use muster_ids::TaskId;
use muster_model::task::{Task, TaskState};
use tokio::sync::broadcast;

use crate::{Cx, Error, Result};

/// Poll interval of a waiting request: the agent may have reported to another replica.
const LOOK: Duration = Duration::from_millis(100);

/// Interval at which a waiting request revalidates its credential, within the five-second limit for revocation.
const RECHECK: Duration = Duration::from_secs(2);

/// Returns the task once it has ended, or after the given number of seconds.
pub(super) async fn until_ended(cx: &Cx, mut task: Task, seconds: u64) -> Result<Task> {
    let platform = &cx.platform;
    let deadline = tokio::time::Instant::now() + Duration::from_secs(seconds.min(60));
    // Subscribe before the query, so that an end during it wakes this request.
    let mut ended = platform.tasks_ended.subscribe();
    let mut stopping = platform.stopping.subscribe();
    let gone = || Error::from(StoreError::Gone("task".to_owned()));
    let mut checked = tokio::time::Instant::now();
    loop {
        // An adapter revoked during the wait gets no result.
        if checked.elapsed() >= RECHECK {
            cx.again().await?;
            checked = tokio::time::Instant::now();
        }
        task = platform.store.task_lookup(task.id).await?.ok_or_else(gone)?;
        if has_ended(&task) {
            return Ok(task);
        }
        if platform.env.now() >= task.expires_at {
            return expire(cx, &task).await;
        }
        if *stopping.borrow_and_update() || tokio::time::Instant::now() >= deadline {
            return Ok(task);
        }
        let _resting = cx.rest();
        tokio::select! {
            () = until(&mut ended, task.id) => {}
            () = tokio::time::sleep(LOOK) => {}
            _ = stopping.changed() => {}
        }
    }
}

fn has_ended(task: &Task) -> bool {
    matches!(task.state, TaskState::Done | TaskState::Failed | TaskState::Expired)
}

/// Expires a task that was not delivered in time. Later reports of the agent are rejected, so that there is only one
/// outcome.
async fn expire(cx: &Cx, task: &Task) -> Result<Task> {
    let store = &cx.platform.store;
    let mut tx = store.begin().await?;
    tx.task_expire(task.id, cx.platform.env.now()).await?;
    tx.commit().await?;
    let gone = || Error::from(StoreError::Gone("task".to_owned()));
    store.task_lookup(task.id).await?.ok_or_else(gone)
}

async fn until(ended: &mut broadcast::Receiver<TaskId>, id: TaskId) {
    loop {
        match ended.recv().await {
            Ok(other) if other != id => {}
            // A receiver that lagged behind queries the database.
            _ => return,
        }
    }
}
