//! Asking a cluster, in the cell of its controller; and what the cells of all components need alike.

use std::time::Duration;

use muster_adapter_kit::types::{CommandOrder, File, FilesOrder, MemberState, Ran, SnapshotMember};
use muster_adapter_kit::{Failure, StepCx, command, file};

use crate::config::Config;
use crate::key;
use crate::node::Node;
use crate::places::{CONTROLLER, MUNGE_SERVICE, PREPARE, SCONTROL, WORKER};
use crate::render::{self, Cluster};

/// How long a command of Slurm's may take. Some wait for ever by default.
const PATIENCE: i32 = 30;
/// When it is worth asking again for what another member has to bring.
pub(crate) const SOON: Duration = Duration::from_secs(2);

/// A command with a time limit.
pub(crate) fn timed<W: Into<String>>(words: impl IntoIterator<Item = W>) -> CommandOrder {
    CommandOrder { timeout_seconds: Some(PATIENCE), ..command(words) }
}

/// The controller that works.
pub(crate) fn controller(cx: &StepCx) -> Result<&SnapshotMember, Failure> {
    let works = |member: &&SnapshotMember| member.state == MemberState::Active && !member.unreachable;
    cx.members_of(CONTROLLER)
        .find(works)
        .ok_or_else(|| Failure::retry(SOON, "no_controller", "no active controller yet; a cluster needs one"))
}

/// Likewise, for a step that the platform continues without if the controller is dead: it must not wait for one.
pub(crate) fn controller_if_alive(cx: &StepCx) -> Result<&SnapshotMember, Failure> {
    let mut all = cx.members_of(CONTROLLER).peekable();
    if all.peek().is_some() && all.all(|member| member.state == MemberState::Failed) {
        return Err(Failure::new(
            "controller_failed",
            "its controller has failed: recover or replace that first",
        ));
    }
    controller(cx)
}

pub(crate) fn config(cx: &StepCx) -> Result<Config, Failure> {
    Config::read(&cx.snapshot().config)
}

/// Where a member is.
pub(crate) fn address(member: &SnapshotMember) -> Result<&str, Failure> {
    let none = || Failure::retry(SOON, "no_address", format!("{} has no address yet", member.name));
    member.address.as_deref().ok_or_else(none)
}

/// The cluster around this controller.
pub(crate) fn cluster<'a>(cx: &'a StepCx, controller: &'a SnapshotMember) -> Result<Cluster<'a>, Failure> {
    let snapshot = cx.snapshot();
    let components = snapshot.manifest.get("components").and_then(|found| found.as_array());
    let worker = components.into_iter().flatten().find(|component| component["key"] == WORKER);
    let number = |pointer: &str| worker.and_then(|worker| worker.pointer(pointer)?.as_i64());
    let (cpus, memory) =
        (number("/capacity/cpus").unwrap_or(1), number("/capacity/memory_mb").unwrap_or(1024));
    Ok(Cluster {
        name: &snapshot.instance,
        controller: &controller.name,
        address: address(controller)?,
        mem_per_cpu_mb: render::for_jobs(memory) / cpus.max(1),
        most_workers: number("/count/max").unwrap_or(512),
    })
}

/// Files of every cell: the users of the cluster, and the key by which its daemons know each other.
pub(crate) async fn write(
    cx: &StepCx,
    member: &SnapshotMember,
    config: &Config,
    key: &str,
    mut files: Vec<File>,
) -> Result<(), Failure> {
    files.push(file("/etc/slurm/users", render::users(config)));
    let secrets = vec![key::file(key)];
    cx.files(member, FilesOrder { write: files, remove: Vec::new(), secrets }).await?;
    // Reported immediately: if the cluster's key is rotated while this member joins, the record has the key it got.
    let mut detail = member.adapter_detail.clone();
    key::noted(&mut detail, member, key);
    cx.detail(detail).await;
    Ok(())
}

/// Starts what the key is for. A step that is run again with another key starts it again.
pub(crate) async fn start_munge(cx: &StepCx, member: &SnapshotMember, key: &str) -> Result<(), Failure> {
    match key::held(member) {
        Some(held) if held != key => cx.restart_service_anew(member, MUNGE_SERVICE).await,
        _ => cx.start_service(member, MUNGE_SERVICE).await,
    }
}

/// The output of a cell's preparation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Prepared {
    /// As `slurmd -V` has it.
    pub(crate) version: String,
    /// The GPUs that it may use.
    pub(crate) devices: Vec<String>,
}

/// Has directories and users of a cell made.
pub(crate) async fn prepare(cx: &StepCx, member: &SnapshotMember) -> Result<Prepared, Failure> {
    let order =
        CommandOrder { timeout_seconds: Some(120), ..command([PREPARE, member.component_key.as_str()]) };
    // Permanent errors, such as a taken uid or a full disk: no retry.
    let said = good(cx.run(member, order).await?, &format!("{} was not prepared", member.name))
        .map_err(|why| Failure { retry_after: None, ..why })?;
    let mut lines = said.lines().map(str::to_owned);
    Ok(Prepared { version: lines.next().unwrap_or_default(), devices: lines.collect() })
}

/// Output of a command that succeeded.
pub(crate) fn good(ran: Ran, what: &str) -> Result<String, Failure> {
    if ran.exit == 0 && !ran.timed_out {
        return Ok(ran.stdout);
    }
    Err(failed(&ran, what))
}

/// A failed command. A daemon's error may be transient, so it is retried.
pub(crate) fn failed(ran: &Ran, what: &str) -> Failure {
    let how = if ran.timed_out { "it timed out".to_owned() } else { format!("it ended with {}", ran.exit) };
    let said: Vec<&str> =
        [ran.stderr.trim(), ran.stdout.trim()].into_iter().filter(|said| !said.is_empty()).collect();
    Failure::retry(SOON, "slurm_refused", format!("{what}: {how}: {}", said.join("; ")))
}

/// Returns the cluster's record of a node; none if there is no such node. An error is neither.
pub(crate) async fn node(
    cx: &StepCx,
    controller: &SnapshotMember,
    name: &str,
) -> Result<Option<Node>, Failure> {
    let ran = cx.look(controller, timed([SCONTROL, "-o", "show", "node", name])).await?;
    if ran.exit == 0
        && let Some(node) = ran.stdout.lines().find_map(Node::parse)
    {
        return Ok(Some(node));
    }
    let said = format!("{} {}", ran.stdout, ran.stderr);
    if said.contains(&format!("Node {name} not found")) {
        return Ok(None);
    }
    Err(failed(&ran, &format!("Slurm did not report the state of {name}")))
}

/// Changes something of a node.
pub(crate) async fn update(
    cx: &StepCx,
    controller: &SnapshotMember,
    name: &str,
    changes: &[String],
) -> Result<(), Failure> {
    let mut words = vec![SCONTROL.to_owned(), "update".to_owned(), format!("nodename={name}")];
    words.extend_from_slice(changes);
    good(cx.run_anew(controller, timed(words)).await?, &format!("{name} could not be changed")).map(drop)
}

/// Returns the operation of a step, as a token for Slurm's reasons.
pub(crate) fn operation(cx: &StepCx) -> String {
    let step = cx.step();
    step.operation_id.as_ref().map_or_else(|| step.id.to_string(), ToString::to_string)
}
