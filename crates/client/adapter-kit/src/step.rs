//! Context of an adapter's method: the step, a snapshot of the instance, and actions in its cells.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use muster_sdk::types::{
    AdapterStep, AdapterVerb, CellTask, CommandOrder, File, FilesOrder, LeasedStep, ProbeOrder, Ran,
    SecretFile, ServiceAction, ServiceOrder, Snapshot, SnapshotMember, TaskEffect,
};
use parking_lot::Mutex;
use serde_json::{Map, Value, json};

use crate::adapter::{Failure, shortened};
use crate::lease::{Lease, put};
use crate::platform::{RetryDecision, classify, detail};
use crate::work::{Keys, ResultReuse, leased_at, run_task};

/// A step in progress.
///
/// Its methods never fail because of the network: they retry as long as the lease lasts. When the lease is lost the
/// adapter's method is dropped at its current await point, because another adapter may already work on the same step.
#[derive(Debug)]
pub struct StepCx {
    leased: Arc<LeasedStep>,
    under: Under,
    /// Declared effect of its changes.
    change: TaskEffect,
}

/// Execution mode of a step.
#[derive(Debug, Clone)]
pub(crate) enum Under {
    /// Under a lease: actions are executed.
    Lease { lease: Arc<Lease>, keys: Arc<Keys>, leased_at: Option<Timestamp> },
    /// Dry run: actions are recorded.
    Dry(Arc<Mutex<Vec<Value>>>),
}

impl StepCx {
    pub(crate) fn under(leased: LeasedStep, lease: Arc<Lease>) -> Self {
        let life = Duration::from_secs(lease.platform.lease_seconds().unsigned_abs());
        let leased_at = leased_at(&leased.step, life);
        let under = Under::Lease { lease, keys: Arc::default(), leased_at };
        Self { leased: Arc::new(leased), under, change: TaskEffect::Changes }
    }

    /// Returns a step for a dry run: nothing is sent to the platform, every command succeeds without output, and
    /// [`StepCx::rehearsed`] returns the recorded actions.
    pub fn rehearsal(leased: LeasedStep) -> Self {
        Self { leased: Arc::new(leased), under: Under::Dry(Arc::default()), change: TaskEffect::Changes }
    }

    /// Returns the actions recorded by a dry run, in order; empty for a step under a lease.
    pub fn rehearsed(&self) -> Vec<Value> {
        match &self.under {
            Under::Dry(deeds) => deeds.lock().clone(),
            Under::Lease { .. } => Vec::new(),
        }
    }

    /// Returns the same step, for changes that are safe beside steps of members.
    ///
    /// A reconciliation works from a snapshot, so the platform refuses its changes while a member's step is open, and
    /// after one ended since: [`Failure::is_member_step_running`]. Changes made through this are executed anyway, so they
    /// must be correct regardless of concurrent steps.
    #[must_use]
    pub fn beside_member_steps(&self) -> Self {
        Self { leased: self.leased.clone(), under: self.under.clone(), change: TaskEffect::Concurrent }
    }

    pub(crate) fn stands_under(&self) -> &Under {
        &self.under
    }

    /// Returns the step.
    pub fn step(&self) -> &AdapterStep {
        &self.leased.step
    }

    /// Returns the verb.
    pub fn verb(&self) -> AdapterVerb {
        self.leased.step.verb
    }

    /// Returns the input of the verb.
    pub fn input(&self) -> &Map<String, Value> {
        &self.leased.step.input
    }

    /// Returns the instance, as of the lease.
    pub fn snapshot(&self) -> &Snapshot {
        &self.leased.snapshot
    }

    /// Returns the step's member. Fails for a reconciliation of the whole instance, and if the member is already gone.
    pub fn member(&self) -> Result<&SnapshotMember, Failure> {
        let Some(id) = &self.leased.step.member_id else {
            return Err(Failure::new("no_member", "this step is about an instance and names no member"));
        };
        self.leased
            .snapshot
            .members
            .iter()
            .find(|member| member.id == *id)
            .ok_or_else(|| Failure::new("no_member", format!("the instance no longer has the member {id}")))
    }

    /// Returns the members of a component, in snapshot order.
    pub fn members_of<'s>(&'s self, component: &'s str) -> impl Iterator<Item = &'s SnapshotMember> {
        self.leased.snapshot.members.iter().filter(move |member| member.component_key == component)
    }

    /// Reports progress, for people. A lost report is not retried.
    pub async fn progress(&self, percent: u8, message: &str) {
        let said = json!({"percent": percent.min(100), "message": shortened(message)});
        self.say(said).await;
    }

    /// Sets the detail on the member; replaces the previous one.
    pub async fn detail(&self, said: Map<String, Value>) {
        let mut body = json!({});
        put(&mut body, "adapter_detail", detail(&said));
        self.say(body).await;
    }

    async fn say(&self, mut said: Value) {
        match &self.under {
            Under::Dry(deeds) => {
                deeds.lock().push(json!({"progress": said}));
            }
            Under::Lease { lease, .. } => {
                said["generation"] = json!(lease.generation);
                // A report also extends the lease, which must not exceed this adapter's duration: if it dies, others wait
                // that long.
                said["lease_seconds"] = json!(lease.seconds);
                if let Err(error) = lease.platform.say("progress", &lease.step, &said).await
                    && let RetryDecision::Refused(_) = classify(&error)
                {
                    lease.must_be_ours().await;
                    tracing::warn!(step = %lease.step, %error, "a progress report of a step was rejected");
                }
            }
        }
    }

    /// Writes files in a member's cell, each atomically.
    pub async fn write_files(&self, member: &SnapshotMember, files: Vec<File>) -> Result<(), Failure> {
        self.files(member, FilesOrder { write: files, remove: Vec::new(), secrets: Vec::new() }).await
    }

    /// Removes files and empty directories in a member's cell; missing ones count as removed.
    pub async fn remove_files(
        &self,
        member: &SnapshotMember,
        paths: impl IntoIterator<Item = impl Into<String>>,
    ) -> Result<(), Failure> {
        let remove = paths.into_iter().map(Into::into).collect();
        self.files(member, FilesOrder { write: Vec::new(), remove, secrets: Vec::new() }).await
    }

    /// Writes a secret in a member's cell, as `/run/muster/secrets/FILE`. It is passed by reference: the adapter never
    /// holds its value.
    pub async fn secret_file(&self, member: &SnapshotMember, secret: SecretFile) -> Result<(), Failure> {
        self.files(member, FilesOrder { write: Vec::new(), remove: Vec::new(), secrets: vec![secret] }).await
    }

    /// Applies several of these at once.
    pub async fn files(&self, member: &SnapshotMember, order: FilesOrder) -> Result<(), Failure> {
        self.run_task(member, CellTask::Files(order), ResultReuse::Once, self.change).await.map(drop)
    }

    /// Starts a service of a member's cell unless it runs; returns when it is ready.
    pub async fn start_service(&self, member: &SnapshotMember, name: &str) -> Result<(), Failure> {
        self.service(member, name, ServiceAction::Start).await
    }

    /// Stops a service of a member's cell if it runs; returns when no process of it is left.
    pub async fn stop_service(&self, member: &SnapshotMember, name: &str) -> Result<(), Failure> {
        self.service(member, name, ServiceAction::Stop).await
    }

    /// Stops and starts a service.
    pub async fn restart_service(&self, member: &SnapshotMember, name: &str) -> Result<(), Failure> {
        self.service(member, name, ServiceAction::Restart).await
    }

    /// The same, even if it was done under an earlier lease of this step: for services that read files at start which may
    /// have changed since.
    pub async fn restart_service_anew(&self, member: &SnapshotMember, name: &str) -> Result<(), Failure> {
        let order = ServiceOrder { name: name.to_owned(), action: ServiceAction::Restart };
        self.run_task(member, CellTask::Service(order), ResultReuse::Fresh, self.change).await.map(drop)
    }

    async fn service(
        &self,
        member: &SnapshotMember,
        name: &str,
        action: ServiceAction,
    ) -> Result<(), Failure> {
        let order = ServiceOrder { name: name.to_owned(), action };
        self.run_task(member, CellTask::Service(order), ResultReuse::Once, self.change).await.map(drop)
    }

    /// Runs a command in a member's cell for its effect: if it exited with zero under an earlier lease of this step, it
    /// is not run again and the earlier result is returned, unless something else was done in that cell since. The caller
    /// evaluates the result; a non-zero status is not a failure here.
    pub async fn run(&self, member: &SnapshotMember, order: CommandOrder) -> Result<Ran, Failure> {
        self.run_task(member, CellTask::Command(order), ResultReuse::Once, self.change).await
    }

    /// Runs a command in a member's cell for its effect, even if it exited with zero under an earlier lease of this step.
    pub async fn run_anew(&self, member: &SnapshotMember, order: CommandOrder) -> Result<Ran, Failure> {
        self.run_task(member, CellTask::Command(order), ResultReuse::Fresh, self.change).await
    }

    /// Runs a command in a member's cell for its output; an earlier lease's result is never reused. It is declared as
    /// read-only; for one that changes something use [`StepCx::run_anew`].
    pub async fn look(&self, member: &SnapshotMember, order: CommandOrder) -> Result<Ran, Failure> {
        self.run_task(member, CellTask::Command(order), ResultReuse::Fresh, TaskEffect::Reads).await
    }

    /// Runs a check beside a member's cell, as the platform's own checks run: from the image's own files.
    pub async fn probe(&self, member: &SnapshotMember, order: ProbeOrder) -> Result<Ran, Failure> {
        self.run_task(member, CellTask::Probe(order), ResultReuse::Fresh, TaskEffect::Reads).await
    }

    async fn run_task(
        &self,
        member: &SnapshotMember,
        act: CellTask,
        memory: ResultReuse,
        effect: TaskEffect,
    ) -> Result<Ran, Failure> {
        let nothing =
            Ran { exit: 0, stderr: String::new(), stdout: String::new(), timed_out: false, truncated: false };
        match &self.under {
            Under::Dry(deeds) => {
                let deed = json!({"member": member.name, "component": member.component_key, "task": act});
                deeds.lock().push(deed);
                Ok(nothing)
            }
            Under::Lease { lease, keys, leased_at } => {
                let task = run_task(lease, *leased_at, keys, member, (act, effect), memory).await?;
                Ok(task.ran.unwrap_or(nothing))
            }
        }
    }
}
