//! What a method of an adapter is handed: the step, the instance as it is, and the means to do something in its cells.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use jiff::Timestamp;
use muster_sdk::types::{
    AdapterStep, AdapterVerb, CellTask, CommandOrder, File, FilesOrder, LeasedStep, ProbeOrder, Ran,
    SecretFile, ServiceAction, ServiceOrder, Snapshot, SnapshotMember, TaskEffect,
};
use serde_json::{Map, Value, json};

use crate::adapter::{Failure, shortened};
use crate::lease::{Lease, put};
use crate::platform::{Then, detail, then};
use crate::work::{Keys, Memory, have_done, leased_at};

/// A step that is being carried out.
///
/// Its methods never fail for want of a network: they try again for as long as the lease lasts. When the lease is lost the
/// whole method of the adapter is dropped where it waits, because from then on somebody else may be at the same step.
#[derive(Debug)]
pub struct StepCx {
    leased: Arc<LeasedStep>,
    under: Under,
    /// What its changes are declared as.
    change: TaskEffect,
}

/// What stands behind a step.
#[derive(Debug, Clone)]
pub(crate) enum Under {
    /// A lease: what is asked for is done.
    Lease { lease: Arc<Lease>, keys: Arc<Keys>, leased_at: Option<Timestamp> },
    /// Nothing: what would be asked for is written down.
    Dry(Arc<Mutex<Vec<Value>>>),
}

impl StepCx {
    pub(crate) fn under(leased: LeasedStep, lease: Arc<Lease>) -> Self {
        let life = Duration::from_secs(lease.platform.lease_seconds().unsigned_abs());
        let leased_at = leased_at(&leased.step, life);
        let under = Under::Lease { lease, keys: Arc::default(), leased_at };
        Self { leased: Arc::new(leased), under, change: TaskEffect::Changes }
    }

    /// A step that is only rehearsed: nothing is asked of the platform, every command ends well and says nothing, and
    /// [`StepCx::rehearsed`] tells what would have been asked for.
    pub fn rehearsal(leased: LeasedStep) -> Self {
        Self { leased: Arc::new(leased), under: Under::Dry(Arc::default()), change: TaskEffect::Changes }
    }

    /// What a rehearsal would have asked the platform for, in order; nothing of a step under a lease.
    pub fn rehearsed(&self) -> Vec<Value> {
        match &self.under {
            Under::Dry(deeds) => deeds.lock().expect("no holder of this lock can panic").clone(),
            Under::Lease { .. } => Vec::new(),
        }
    }

    /// The same step, for changes that are safe beside steps of members.
    ///
    /// A look at the instance has a snapshot of its own moment, so the platform refuses its changes while a step of a member is open, and
    /// after one ended since: [`Failure::is_member_step_running`]. What is asked for through this is done all the same, so it must be right
    /// whatever such a step does meanwhile.
    #[must_use]
    pub fn beside_member_steps(&self) -> Self {
        Self { leased: self.leased.clone(), under: self.under.clone(), change: TaskEffect::Concurrent }
    }

    pub(crate) fn stands_under(&self) -> &Under {
        &self.under
    }

    /// The step.
    pub fn step(&self) -> &AdapterStep {
        &self.leased.step
    }

    /// What is asked for.
    pub fn verb(&self) -> AdapterVerb {
        self.leased.step.verb
    }

    /// What is asked for beside the verb.
    pub fn input(&self) -> &Map<String, Value> {
        &self.leased.step.input
    }

    /// The instance, as it was when the step was leased.
    pub fn snapshot(&self) -> &Snapshot {
        &self.leased.snapshot
    }

    /// The member that the step is about. It fails for a look at the whole instance, and where the member is gone already.
    pub fn member(&self) -> Result<&SnapshotMember, Failure> {
        let Some(id) = &self.leased.step.member_id else {
            return Err(Failure::new("no_member", "this step is about an instance and names no member"));
        };
        self.leased.snapshot.members.iter().find(|member| member.id == *id).ok_or_else(|| {
            Failure::new("no_member", format!("the member {id} is not among those of the instance any more"))
        })
    }

    /// The members of a component, in the order of the snapshot.
    pub fn members_of<'s>(&'s self, component: &'s str) -> impl Iterator<Item = &'s SnapshotMember> {
        self.leased.snapshot.members.iter().filter(move |member| member.component_key == component)
    }

    /// Says how far the step is, for people. What is not heard is not said again.
    pub async fn progress(&self, percent: u8, message: &str) {
        let said = json!({"percent": percent.min(100), "message": shortened(message)});
        self.say(said).await;
    }

    /// Says what there is to say of the member, for people; it replaces what was said before.
    pub async fn detail(&self, said: Map<String, Value>) {
        let mut body = json!({});
        put(&mut body, "adapter_detail", detail(&said));
        self.say(body).await;
    }

    async fn say(&self, mut said: Value) {
        match &self.under {
            Under::Dry(deeds) => {
                deeds.lock().expect("no holder of this lock can panic").push(json!({"progress": said}));
            }
            Under::Lease { lease, .. } => {
                said["generation"] = json!(lease.generation);
                // A word keeps the lease, and must not make it longer than this adapter keeps it: when it dies, others wait for that.
                said["lease_seconds"] = json!(lease.seconds);
                if let Err(error) = lease.platform.say("progress", &lease.step, &said).await
                    && let Then::Refused(_) = then(&error)
                {
                    lease.must_be_ours().await;
                    tracing::warn!(step = %lease.step, %error, "what was said of a step was refused");
                }
            }
        }
    }

    /// Writes files in a member's cell, each whole or not at all.
    pub async fn write_files(&self, member: &SnapshotMember, files: Vec<File>) -> Result<(), Failure> {
        self.files(member, FilesOrder { write: files, remove: Vec::new(), secrets: Vec::new() }).await
    }

    /// Removes files and empty directories in a member's cell; what is not there is removed already.
    pub async fn remove_files(
        &self,
        member: &SnapshotMember,
        paths: impl IntoIterator<Item = impl Into<String>>,
    ) -> Result<(), Failure> {
        let remove = paths.into_iter().map(Into::into).collect();
        self.files(member, FilesOrder { write: Vec::new(), remove, secrets: Vec::new() }).await
    }

    /// Has a secret written in a member's cell, as `/run/muster/secrets/FILE`. It is named by reference: the adapter never
    /// holds it.
    pub async fn secret_file(&self, member: &SnapshotMember, secret: SecretFile) -> Result<(), Failure> {
        self.files(member, FilesOrder { write: Vec::new(), remove: Vec::new(), secrets: vec![secret] }).await
    }

    /// Several of these at once.
    pub async fn files(&self, member: &SnapshotMember, order: FilesOrder) -> Result<(), Failure> {
        self.have_done(member, CellTask::Files(order), Memory::Once, self.change).await.map(drop)
    }

    /// Starts a service of a member's cell, unless it runs; done when it is ready.
    pub async fn start_service(&self, member: &SnapshotMember, name: &str) -> Result<(), Failure> {
        self.service(member, name, ServiceAction::Start).await
    }

    /// Stops a service of a member's cell, unless it does not run; done when no process of it is left.
    pub async fn stop_service(&self, member: &SnapshotMember, name: &str) -> Result<(), Failure> {
        self.service(member, name, ServiceAction::Stop).await
    }

    /// Stops a service and starts it.
    pub async fn restart_service(&self, member: &SnapshotMember, name: &str) -> Result<(), Failure> {
        self.service(member, name, ServiceAction::Restart).await
    }

    /// The same, also where it was done under an earlier lease of this step: for what reads at its start what may have been
    /// written since.
    pub async fn restart_service_anew(&self, member: &SnapshotMember, name: &str) -> Result<(), Failure> {
        let order = ServiceOrder { name: name.to_owned(), action: ServiceAction::Restart };
        self.have_done(member, CellTask::Service(order), Memory::Fresh, self.change).await.map(drop)
    }

    async fn service(
        &self,
        member: &SnapshotMember,
        name: &str,
        action: ServiceAction,
    ) -> Result<(), Failure> {
        let order = ServiceOrder { name: name.to_owned(), action };
        self.have_done(member, CellTask::Service(order), Memory::Once, self.change).await.map(drop)
    }

    /// Runs a command in a member's cell for its effect: one that ended with zero under an earlier lease of this step is not
    /// run again, and its ending is told, unless something else was done in that cell since. How it ended is for the caller to judge; a
    /// status other than zero is no failure here.
    pub async fn run(&self, member: &SnapshotMember, order: CommandOrder) -> Result<Ran, Failure> {
        self.have_done(member, CellTask::Command(order), Memory::Once, self.change).await
    }

    /// Runs a command in a member's cell for its effect, also where it ended with zero under an earlier lease of this step.
    pub async fn run_anew(&self, member: &SnapshotMember, order: CommandOrder) -> Result<Ran, Failure> {
        self.have_done(member, CellTask::Command(order), Memory::Fresh, self.change).await
    }

    /// Runs a command in a member's cell for what it says: never told from an earlier lease. It is declared to change nothing; for one that
    /// does there is [`StepCx::run_anew`].
    pub async fn look(&self, member: &SnapshotMember, order: CommandOrder) -> Result<Ran, Failure> {
        self.have_done(member, CellTask::Command(order), Memory::Fresh, TaskEffect::Reads).await
    }

    /// Runs a check beside a member's cell, as the platform runs its witnesses: from the image's own files.
    pub async fn probe(&self, member: &SnapshotMember, order: ProbeOrder) -> Result<Ran, Failure> {
        self.have_done(member, CellTask::Probe(order), Memory::Fresh, TaskEffect::Reads).await
    }

    async fn have_done(
        &self,
        member: &SnapshotMember,
        act: CellTask,
        memory: Memory,
        effect: TaskEffect,
    ) -> Result<Ran, Failure> {
        let nothing =
            Ran { exit: 0, stderr: String::new(), stdout: String::new(), timed_out: false, truncated: false };
        match &self.under {
            Under::Dry(deeds) => {
                let deed = json!({"member": member.name, "component": member.component_key, "task": act});
                deeds.lock().expect("no holder of this lock can panic").push(deed);
                Ok(nothing)
            }
            Under::Lease { lease, keys, leased_at } => {
                let task = have_done(lease, *leased_at, keys, member, (act, effect), memory).await?;
                Ok(task.ran.unwrap_or(nothing))
            }
        }
    }
}
