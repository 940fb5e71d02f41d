//! The key by which the daemons of a cluster authenticate each other: which one each cell has, and how it is rotated.
//!
//! munged reads one key at its start, so a message in flight during a rotation is lost, and its job hangs until Slurm repeats
//! the message a minute later. So no job may start meanwhile, and jobs that are ending are waited for. A cell's key is recorded
//! with the member once it is verified, and only at the end of a look: if the adapter dies during a rotation, the record still
//! has the old key, and the next look starts over.

use std::time::Duration;

use futures::future::join_all;
use muster_adapter_kit::types::{CommandOrder, FilesOrder, MemberState, SecretFile, SnapshotMember};
use muster_adapter_kit::{Failure, StepCx, command};
use serde_json::{Map, Value, json};

use crate::places::{HOLD, MUNGE, MUNGE_PROGRAM, MUNGE_SERVICE, NOBODY, UNMUNGE, WORKER};
use crate::slurm::{SOON, good, timed};

/// The shared secret's name and size.
pub(crate) const NAME: &str = "munge";
const BYTES: u16 = 128;
/// How long jobs that start or end are waited for. One that hangs must not keep the others from starting.
const QUIET: i32 = 60;
/// Timeout for one cell to get a key and to start with it. The other cells do not wait for one that does not respond.
const ONE_CELL: Duration = Duration::from_secs(30);

/// The key that the cluster should have: the one that was issued last, unless it was revoked or a member left unseen since it was
/// issued; then another.
pub(crate) async fn wanted(cx: &StepCx) -> Result<String, Failure> {
    cx.shared_secret_after(NAME, BYTES, cx.snapshot().unwitnessed_at).await
}

/// Returns the key for a joining member: the controller's. During a rotation the join waits.
pub(crate) async fn of_cluster(cx: &StepCx, controller: &SnapshotMember) -> Result<String, Failure> {
    let key = cx.shared_secret(NAME, BYTES).await?;
    if held(controller) == Some(&key) {
        return Ok(key);
    }
    Err(Failure::retry(SOON, "key_changes", "the cluster's key is being rotated; waiting for its end"))
}

/// The key for a controller that joins.
pub(crate) async fn of_controller(cx: &StepCx) -> Result<String, Failure> {
    cx.shared_secret(NAME, BYTES).await
}

/// References the key as a file of munged's own in a cell.
pub(crate) fn file(key: &str) -> SecretFile {
    SecretFile { secret: key.to_owned(), file: "munge.key".to_owned(), uid: Some(MUNGE), gid: Some(MUNGE) }
}

/// The key that a member's munged was started with, as far as that was written down of this incarnation.
pub(crate) fn held(member: &SnapshotMember) -> Option<&str> {
    let said = member.adapter_detail.get(NAME)?;
    let same = said.get("incarnation")?.as_i64()? == member.incarnation;
    said.get("secret")?.as_str().filter(|_| same)
}

/// Records the key of a member.
pub(crate) fn noted(detail: &mut Map<String, Value>, member: &SnapshotMember, key: &str) {
    detail.insert(NAME.to_owned(), json!({"secret": key, "incarnation": member.incarnation}));
}

/// With the controller, from when a change is announced until the former key is revoked.
const CHANGES: &str = "key_changes";

/// Whether the change to this key was announced, and the former key is perhaps not revoked yet.
pub(crate) fn is_announced(controller: &SnapshotMember, key: &str) -> bool {
    controller.adapter_detail.get(CHANGES).and_then(Value::as_str) == Some(key)
}

/// Records that the rotation is announced.
pub(crate) fn announced(detail: &mut Map<String, Value>, key: &str) {
    detail.insert(CHANGES.to_owned(), json!(key));
}

/// Notes that the former key is revoked, and the change is over.
pub(crate) fn ended(detail: &mut Map<String, Value>) {
    detail.shift_remove(CHANGES);
}

/// Returns the reachable members with a munged that are not known to have this key.
pub(crate) fn others<'s>(cx: &'s StepCx, key: &str) -> Vec<&'s SnapshotMember> {
    let lacks = |member: &&SnapshotMember| match member.state {
        MemberState::Active | MemberState::Draining | MemberState::Drained => held(member) != Some(key),
        // A joining member without a recorded key gets it from its own step.
        MemberState::Joining => held(member).is_some_and(|held| held != key),
        _ => false,
    };
    let reached = |member: &&SnapshotMember| !member.unreachable && member.fenced != Some(true);
    cx.snapshot().members.iter().filter(reached).filter(lacks).collect()
}

/// How a change went.
#[derive(Debug, Default)]
pub(crate) struct Changed {
    /// Members with the new key, verified.
    pub(crate) members: Vec<String>,
    /// Members that did not get it, and why. The next look retries them.
    pub(crate) without: Vec<String>,
    /// Jobs that hung while they started or ended, and were not waited for any longer.
    pub(crate) hanging: String,
}

/// Rotates the key of the cluster, while no job starts.
pub(crate) async fn change(cx: &StepCx, controller: &SnapshotMember, key: &str) -> Result<Changed, Failure> {
    cx.progress(
        10,
        "the cluster's key is being rotated: job starts are paused, and ending jobs are waited for",
    )
    .await;
    let swap = async {
        cx.progress(50, "distributing the new key to every cell").await;
        swap(cx, controller, key).await
    };
    while_held(hold(cx, controller), swap, release(cx, controller)).await
}

/// Swaps keys between hold and release. It is released also after an error, and after a hold that failed half way: jobs never
/// wait for a key.
async fn while_held(
    hold: impl Future<Output = Result<String, Failure>>,
    swap: impl Future<Output = Result<Changed, Failure>>,
    release: impl Future<Output = Result<(), Failure>>,
) -> Result<Changed, Failure> {
    let changed = match hold.await {
        Ok(hanging) => swap.await.map(|changed| Changed { hanging, ..changed }),
        Err(why) => Err(why),
    };
    let released = release.await;
    let changed = changed?;
    released?;
    Ok(changed)
}

async fn hold(cx: &StepCx, controller: &SnapshotMember) -> Result<String, Failure> {
    // A job that hangs on an unreachable node hangs until the node is removed.
    let reached = |worker: &&SnapshotMember| !worker.unreachable && worker.fenced != Some(true);
    let works = |worker: &&SnapshotMember| {
        matches!(worker.state, MemberState::Active | MemberState::Draining | MemberState::Drained)
    };
    let nodes = cx.members_of(WORKER).filter(reached).filter(works).map(|worker| worker.name.clone());
    let words = [HOLD.to_owned(), QUIET.to_string()].into_iter().chain(nodes);
    let order = CommandOrder { timeout_seconds: Some(QUIET + 60), ..command(words) };
    let said = good(cx.run_anew(controller, order).await?, "job starts could not be paused")?;
    Ok(said.trim().to_owned())
}

/// Lets jobs start again, where we kept them from it.
pub(crate) async fn release(cx: &StepCx, controller: &SnapshotMember) -> Result<(), Failure> {
    let order = timed([HOLD, "--release"]);
    good(cx.run_anew(controller, order).await?, "job starts could not be resumed").map(drop)
}

/// Writes the new key into every cell that lacks it, restarts every munged at the same time, then verifies. If the controller
/// already has it, these cells joined during the rotation or were unreachable: no job is held for them, as their messages are
/// rejected until then anyway.
pub(crate) async fn swap(cx: &StepCx, controller: &SnapshotMember, key: &str) -> Result<Changed, Failure> {
    let mut changed = Changed::default();
    let members = others(cx, key);
    let given = join_all(members.iter().map(|member| within(give(cx, member, key)))).await;
    let members = changed.went_on(controller, members, given)?;
    let started =
        join_all(members.iter().map(|member| within(cx.restart_service_anew(member, MUNGE_SERVICE)))).await;
    let members = changed.went_on(controller, members, started)?;
    cx.progress(80, "verifying that every cell decodes the controller's credential").await;
    let asked = asked(cx, controller, &members).await?;
    let members = changed.went_on(controller, members, asked)?;
    changed.members = members.into_iter().map(|member| member.id.to_string()).collect();
    Ok(changed)
}

impl Changed {
    /// Whether no cell lacked the key.
    pub(crate) fn is_nothing(&self) -> bool {
        self.members.is_empty() && self.without.is_empty()
    }

    /// Returns the successful members and records the others. Fails without the controller.
    fn went_on<'s>(
        &mut self,
        controller: &SnapshotMember,
        members: Vec<&'s SnapshotMember>,
        results: Vec<Result<(), Failure>>,
    ) -> Result<Vec<&'s SnapshotMember>, Failure> {
        let mut well = Vec::new();
        for (member, result) in members.into_iter().zip(results) {
            match result {
                Ok(()) => well.push(member),
                Err(why) if member.id == controller.id => return Err(why),
                Err(why) => self.without.push(format!("{}: {}", member.name, why.message)),
            }
        }
        Ok(well)
    }
}

async fn give(cx: &StepCx, member: &SnapshotMember, key: &str) -> Result<(), Failure> {
    cx.files(member, FilesOrder { write: Vec::new(), remove: Vec::new(), secrets: vec![file(key)] }).await
}

/// Reports whether each of these decodes a credential of the controller. The credential is for an unprivileged user: intercepting
/// it is useless.
async fn asked(
    cx: &StepCx,
    controller: &SnapshotMember,
    members: &[&SnapshotMember],
) -> Result<Vec<Result<(), Failure>>, Failure> {
    let order = CommandOrder { uid: Some(NOBODY), gid: Some(NOBODY), ..timed([MUNGE_PROGRAM, "--no-input"]) };
    let credential =
        good(cx.look(controller, order).await?, "the controller's munged created no credential")?;
    let asked = members.iter().map(|member| {
        let order = CommandOrder { stdin: Some(credential.clone()), ..timed([UNMUNGE, "--no-output"]) };
        within(async {
            good(cx.look(member, order).await?, "the controller's credential could not be decoded").map(drop)
        })
    });
    Ok(join_all(asked).await)
}

async fn within<T>(deed: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    tokio::time::timeout(ONE_CELL, deed).await.unwrap_or_else(|_| {
        Err(Failure::retry(SOON, "cell_is_silent", format!("no answer for {} s", ONE_CELL.as_secs())))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn jobs_start_again_also_after_a_hold_that_failed_half_way() {
        let refused = || Failure::retry(SOON, "slurm_refused", "it timed out");
        for (held, swapped) in [(true, true), (true, false), (false, true)] {
            let mut released = false;
            let changed = while_held(
                async { if held { Ok("7".to_owned()) } else { Err(refused()) } },
                async { if swapped { Ok(Changed::default()) } else { Err(refused()) } },
                async {
                    released = true;
                    Ok(())
                },
            )
            .await;
            assert!(released, "{held} {swapped}");
            assert_eq!(
                changed.ok().map(|changed| changed.hanging),
                (held && swapped).then(|| "7".to_owned())
            );
        }
    }
}
