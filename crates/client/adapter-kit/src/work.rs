//! What a step does in cells: each deed is a task with a key, so that a step that is run again asks for the same one.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Duration;

use jiff::Timestamp;
use muster_sdk::types::{
    AdapterStep, AdapterTask, AdapterTaskCreate, AdapterTaskReason, AdapterTaskState, CellTask, MemberId,
    SnapshotMember, TaskEffect,
};
use sha2::{Digest as _, Sha256};

use crate::adapter::{CELL_DEAD, Failure, MEMBER_STEP_RUNNING};
use crate::lease::Lease;
use crate::platform::{Then, then};

/// How long the platform is asked to wait for a task's end before it says how it stands.
const WAIT: Duration = Duration::from_secs(20);
/// When it is worth trying again after a node was not heard.
const AFTER_SILENCE: Duration = Duration::from_secs(5);

/// What the platform answers a lease that has asked for too much.
const TOO_MANY_TASKS: &str = "too_many_tasks";

/// Whether what was done under an earlier lease counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Memory {
    /// It does: an effect is wanted once.
    Once,
    /// It does not: this is a look, and what was seen before is old.
    Fresh,
}

/// The keys of one run of a step: the same deeds in the same order give the same keys.
#[derive(Debug, Default)]
pub(crate) struct Keys(Mutex<HashMap<String, u32>>);

impl Keys {
    /// The key of this deed. Asking for the very same thing a second time in one run is a second deed. A member's cell that was
    /// made anew has nothing of what was done in the one before, so its incarnation is part of the key.
    fn next(&self, member: &SnapshotMember, act: &CellTask, memory: Memory, generation: i64) -> String {
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
            Memory::Once => format!("{what}-{digest}"),
            Memory::Fresh => format!("{what}-{digest}-g{generation}"),
        };
        let mut seen = self.0.lock().expect("no holder of this lock can panic");
        let count = seen.entry(key.clone()).or_default();
        *count += 1;
        format!("{key}-{count}")
    }
}

/// Whether a task was asked for under an earlier lease and came to nothing. Its key would say so for ever, so whoever runs the
/// step again asks under another.
fn is_spent(task: &AdapterTask, leased_at: Option<Timestamp>) -> bool {
    let earlier = leased_at.is_some_and(|leased_at| task.queued_at < leased_at);
    let in_vain = match task.state {
        AdapterTaskState::Failed | AdapterTaskState::Expired => true,
        AdapterTaskState::Done => task.ran.as_ref().is_some_and(|ran| ran.exit != 0 || ran.timed_out),
        _ => false,
    };
    earlier && in_vain
}

/// When this lease was given, by the platform's own clock.
pub(crate) fn leased_at(step: &AdapterStep, lease: Duration) -> Option<Timestamp> {
    step.leased_until?.checked_sub(lease).ok()
}

/// Has it done, and waits for its end.
pub(crate) async fn have_done(
    lease: &Lease,
    leased_at: Option<Timestamp>,
    keys: &Keys,
    member: &SnapshotMember,
    (act, effect): (CellTask, TaskEffect),
    memory: Memory,
) -> Result<AdapterTask, Failure> {
    let first = keys.next(member, &act, memory, lease.generation);
    let mut key = first.clone();
    let mut again = 0_u32;
    loop {
        let task = ended(lease, &member.id, key, (&act, effect)).await?;
        if !is_spent(&task, leased_at) {
            return judged(task, member);
        }
        tracing::info!(step = %lease.step, key = %task.key, "what came to nothing under an earlier lease is asked for anew");
        again += 1;
        key = format!("{first}-again{again}");
    }
}

/// The end of the task with this key.
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
            // The key makes it safe to ask again where the answer was lost.
            None => lease.platform.task(&lease.step, &wish).await,
            Some(task) => lease.platform.task_get(&lease.step, &task.id, WAIT).await,
        };
        match answer {
            Ok(task) if is_over(task.state) => return Ok(task),
            Ok(task) => {
                // A platform that answers at once instead of waiting must not be asked in a tight circle.
                if known.is_some() {
                    backoff.pause(None).await;
                }
                known = Some(task);
            }
            Err(error) => match then(&error) {
                Then::Again(after) => {
                    tracing::debug!(step = %lease.step, %error, "a task was not heard of");
                    backoff.pause(after).await;
                }
                Then::Refused(why) => {
                    lease.must_be_ours().await;
                    return Err(refused(&error, why));
                }
            },
        }
    }
}

/// A refusal of the platform's, by its code where the adapter can do something about it.
fn refused(error: &muster_sdk::Error, why: String) -> Failure {
    match error {
        muster_sdk::Error::Problem(problem) if problem.code == MEMBER_STEP_RUNNING => {
            Failure::retry(AFTER_SILENCE, MEMBER_STEP_RUNNING, why)
        }
        // The next lease may ask for as many again.
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
            format!("nobody heard how {} ended in {}: {why}", task.key, member.name),
        )),
        _ => Ok(task),
    }
}
