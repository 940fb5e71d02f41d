//! Actions in cells: each is a task with an idempotency key, so that a repeated step requests the same task.

use std::collections::HashMap;
use std::time::Duration;

use jiff::Timestamp;
use muster_sdk::types::{
    AdapterStep, AdapterTask, AdapterTaskCreate, AdapterTaskReason, AdapterTaskState, CellTask, MemberId,
    SnapshotMember, TaskEffect,
};
use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};

use crate::adapter::{CELL_DEAD, Failure, MEMBER_STEP_RUNNING};
use crate::lease::Lease;
use crate::platform::{RetryDecision, classify};

/// Long-poll duration for a task's end.
const WAIT: Duration = Duration::from_secs(20);
/// Retry delay after a node did not respond.
const AFTER_SILENCE: Duration = Duration::from_secs(5);

/// The platform's code for a lease with too many tasks.
const TOO_MANY_TASKS: &str = "too_many_tasks";

/// Whether results of an earlier lease count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ResultReuse {
    /// They do: the effect is wanted once.
    Once,
    /// They do not: this is a read, and earlier results are stale.
    Fresh,
}

/// Keys of one run of a step: the same actions in the same order give the same keys.
#[derive(Debug, Default)]
pub(crate) struct Keys(Mutex<HashMap<String, u32>>);

impl Keys {
    /// Returns the key of an action. The identical action a second time in one run gets a second key. A recreated cell
    /// has lost all earlier effects, so its incarnation is part of the key.
    fn next(&self, member: &SnapshotMember, act: &CellTask, memory: ResultReuse, generation: i64) -> String {
        let said = serde_json::json!([member.id, member.incarnation, act]).to_string();
        let digest: String =
            Sha256::digest(said.as_bytes())[..10].iter().map(|byte| format!("{byte:02x}")).collect();
        let what = match act {
            CellTask::Files(_) => "files",
            CellTask::Service(_) => "service",
            CellTask::Command(_) => "command",
            CellTask::Probe(_) => "probe",
        };
        let key = match memory {
            ResultReuse::Once => format!("{what}-{digest}"),
            ResultReuse::Fresh => format!("{what}-{digest}-g{generation}"),
        };
        let mut seen = self.0.lock();
        let count = seen.entry(key.clone()).or_default();
        *count += 1;
        format!("{key}-{count}")
    }
}

/// Reports whether a task of an earlier lease failed, expired or exited with an error. Its key would return that result
/// forever, so a repeated step uses a new key.
fn is_spent(task: &AdapterTask, leased_at: Option<Timestamp>) -> bool {
    let earlier = leased_at.is_some_and(|leased_at| task.queued_at < leased_at);
    let in_vain = match task.state {
        AdapterTaskState::Failed | AdapterTaskState::Expired => true,
        AdapterTaskState::Done => task.ran.as_ref().is_some_and(|ran| ran.exit != 0 || ran.timed_out),
        _ => false,
    };
    earlier && in_vain
}

/// Returns the start of this lease, by the platform's clock.
pub(crate) fn leased_at(step: &AdapterStep, lease: Duration) -> Option<Timestamp> {
    step.leased_until?.checked_sub(lease).ok()
}

/// Creates the task, and waits for its end.
pub(crate) async fn run_task(
    lease: &Lease,
    leased_at: Option<Timestamp>,
    keys: &Keys,
    member: &SnapshotMember,
    (act, effect): (CellTask, TaskEffect),
    memory: ResultReuse,
) -> Result<AdapterTask, Failure> {
    let first = keys.next(member, &act, memory, lease.generation);
    let mut key = first.clone();
    let mut again = 0_u32;
    loop {
        let task = ended(lease, &member.id, key, (&act, effect)).await?;
        if !is_spent(&task, leased_at) {
            return judged(task, member);
        }
        tracing::info!(step = %lease.step, key = %task.key, "a failed task of an earlier lease is requested again");
        again += 1;
        key = format!("{first}-again{again}");
    }
}

/// Returns the task with this key once it has ended.
async fn ended(
    lease: &Lease,
    member: &MemberId,
    key: String,
    (act, effect): (&CellTask, TaskEffect),
) -> Result<AdapterTask, Failure> {
    let wish = AdapterTaskCreate {
        act: act.clone(),
        effect: Some(effect),
        generation: lease.generation,
        key,
        member_id: member.clone(),
        wait_seconds: Some(WAIT.as_secs().try_into().unwrap_or_default()),
    };
    let mut backoff = lease.backoff();
    let mut known: Option<AdapterTask> = None;
    loop {
        let answer = match &known {
            // The key makes it safe to repeat the request if the response was lost.
            None => lease.platform.task(&lease.step, &wish).await,
            Some(task) => lease.platform.task_get(&lease.step, &task.id, WAIT).await,
        };
        match answer {
            Ok(task) if is_over(task.state) => return Ok(task),
            Ok(task) => {
                // Back off, in case the platform responds immediately instead of waiting.
                if known.is_some() {
                    backoff.pause(None).await;
                }
                known = Some(task);
            }
            Err(error) => match classify(&error) {
                RetryDecision::Again(after) => {
                    tracing::debug!(step = %lease.step, %error, "the state of a task could not be read");
                    backoff.pause(after).await;
                }
                RetryDecision::Refused(why) => {
                    lease.must_be_ours().await;
                    return Err(refused(&error, why));
                }
            },
        }
    }
}

/// Converts the platform's refusal, keeping codes that the adapter can act on.
fn refused(error: &muster_sdk::Error, why: String) -> Failure {
    match error {
        muster_sdk::Error::Problem(problem) if problem.code == MEMBER_STEP_RUNNING => {
            Failure::retry(AFTER_SILENCE, MEMBER_STEP_RUNNING, why)
        }
        // The next lease has a new limit.
        muster_sdk::Error::Problem(problem) if problem.code == TOO_MANY_TASKS => {
            Failure::retry(Duration::ZERO, TOO_MANY_TASKS, why)
        }
        _ => Failure::new("task_refused", why),
    }
}

fn is_over(state: AdapterTaskState) -> bool {
    matches!(state, AdapterTaskState::Done | AdapterTaskState::Failed | AdapterTaskState::Expired)
}

fn judged(task: AdapterTask, member: &SnapshotMember) -> Result<AdapterTask, Failure> {
    let why = task.message.as_deref().unwrap_or("the node gave no reason");
    match task.state {
        AdapterTaskState::Failed if task.reason == Some(AdapterTaskReason::CellDead) => Err(Failure::new(
            CELL_DEAD,
            format!("{} could not be done in {}, whose cell is dead: {why}", task.key, member.name),
        )),
        AdapterTaskState::Failed => Err(Failure::new(
            "task_failed",
            format!("{} could not be done in {}: {why}", task.key, member.name),
        )),
        AdapterTaskState::Expired => Err(Failure::retry(
            AFTER_SILENCE,
            "task_expired",
            format!("the result of {} in {} is unknown: {why}", task.key, member.name),
        )),
        _ => Ok(task),
    }
}
