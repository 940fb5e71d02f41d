//! Task queues: tasks of one allocation run in order, those of different allocations in parallel.
//!
//! Work in a cell may take an hour, and must block neither the other cells of the allocation nor the end of that very
//! cell: so each cell has a queue of its own for it. A service that is started is waited for until it is ready, and may be what
//! another one waits for: so each service has one of its own too. A check changes nothing, so it waits for nothing but a free
//! slot of the node's. Slots go to the tenant with the fewest running checks, then to its project with the fewest: a tenant with many
//! checks delays its own. Nor do checks of more allocations run at once than the node keeps memory back for.
//!
//! Each running task holds a thread, and a tenant decides how long: a service that never becomes ready is waited for. So other
//! tasks are bounded too, in a project, for a tenant and on the node, and slots go to the tenant with the fewest. What is done in cells
//! and what is done to sandboxes have slots of their own: a cell can be destroyed however much is waited for in it.
//!
//! Of every kind of slot a tenant with many projects takes three quarters at most, and the last free one goes to a tenant that has
//! none. So another tenant's first task never waits for a tenant's many, and a tenant alone on a node waits for few of its own.
//!
//! The next task of an allocation starts when the server has accepted the report of the previous one. Otherwise a crash
//! could leave two tasks done and unreported, and the first, delivered again, would run on the state left by the second: a
//! resize after a destroy would be reported as not done, although it was.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use muster_ids::{AllocationId, CellId, ProjectId, TaskId, TenantId};
use muster_wire::act::{Act, OwnedAllocation};
use muster_wire::task::Task;
use tokio::sync::oneshot;

use crate::driver::StaleCopy;
use crate::tenant_slots::has_slot_for_tenant;

/// A unit of work.
#[derive(Debug)]
pub(crate) enum Job {
    /// A task; it is reported.
    Task(Box<Task>),
    /// A stale copy to destroy; the sender reports whether it was removed.
    StaleCopy(StaleCopy, oneshot::Sender<bool>),
}

/// Key of a queue.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Lane {
    /// Work on the whole node.
    Node,
    /// Provisioning, changing, inspecting and destroying an allocation's sandbox and its cells.
    Sandbox(AllocationId),
    /// Work inside one cell.
    Cell(CellId),
    /// Work on one service of a cell.
    Service(CellId, String),
    /// A check beside a cell of an allocation. It waits for nothing that is done there, and only a few run at once.
    Check(CheckOwner, TaskId),
    /// Tasks that wait for nothing.
    Alone(TaskId),
}

/// The tenant and the project of a task; none for work of the platform itself.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct TaskOwner {
    tenant: Option<TenantId>,
    project: Option<ProjectId>,
}

impl TaskOwner {
    fn of(allocation: OwnedAllocation) -> Self {
        Self { tenant: Some(allocation.tenant_id), project: Some(allocation.project_id) }
    }
}

/// The owner and the allocation of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct CheckOwner {
    owner: TaskOwner,
    allocation: AllocationId,
}

/// Checks that run at once for one allocation, for one project and on the whole node: each holds a thread and a container.
const CHECKS_OF_ALLOCATION: usize = 4;
const CHECKS_OF_PROJECT: usize = 16;
const CHECKS_ON_NODE: usize = 32;

/// Kinds of tasks with slots of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum TaskClass {
    /// In cells, and pulls of images: they may wait for a tenant's programs and registries.
    Inside,
    /// On sandboxes.
    Sandbox,
}

impl TaskClass {
    /// Tasks that run at once for one project, and on the whole node. With the checks they leave a fifth of the runtime's 512 threads
    /// to observation, supervision and streams. A cell may have 32 services, which may wait for each other.
    const fn most(self) -> (usize, usize) {
        match self {
            Self::Inside => (128, 256),
            Self::Sandbox => (64, 128),
        }
    }
}

impl Lane {
    /// Returns the class of its tasks; none for checks, which have limits of their own, and for the node's one queue.
    fn class(&self) -> Option<TaskClass> {
        match self {
            Self::Cell(_) | Self::Service(..) | Self::Alone(_) => Some(TaskClass::Inside),
            Self::Sandbox(_) => Some(TaskClass::Sandbox),
            Self::Node | Self::Check(..) => None,
        }
    }
}

/// The tasks that run, other than checks.
#[derive(Debug, Default)]
struct RunningTasks {
    of_project: BTreeMap<(TaskClass, TaskOwner), usize>,
    of_tenant: BTreeMap<(TaskClass, Option<TenantId>), usize>,
    on_node: BTreeMap<TaskClass, usize>,
}

impl RunningTasks {
    fn add(&mut self, class: TaskClass, owner: TaskOwner) {
        *self.of_project.entry((class, owner)).or_default() += 1;
        *self.of_tenant.entry((class, owner.tenant)).or_default() += 1;
        *self.on_node.entry(class).or_default() += 1;
    }

    /// How many run for its tenant and for its project.
    fn count_of(&self, class: TaskClass, owner: TaskOwner) -> (usize, usize) {
        let of_tenant = self.of_tenant.get(&(class, owner.tenant)).copied().unwrap_or_default();
        (of_tenant, self.of_project.get(&(class, owner)).copied().unwrap_or_default())
    }

    fn has_room_for(&self, class: TaskClass, owner: TaskOwner) -> bool {
        let (most_of_project, slots) = class.most();
        let (of_tenant, of_project) = self.count_of(class, owner);
        let used = self.on_node.get(&class).copied().unwrap_or_default();
        of_project < most_of_project && has_slot_for_tenant(of_tenant, used, slots)
    }
}

/// The checks that run, counted by their owners.
#[derive(Debug)]
struct RunningChecks {
    /// Allocations whose checks may run at once.
    allocations_at_once: usize,
    of_tenant: BTreeMap<Option<TenantId>, usize>,
    of_project: BTreeMap<TaskOwner, usize>,
    of_allocation: BTreeMap<CheckOwner, usize>,
    on_node: usize,
}

impl RunningChecks {
    fn new(allocations_at_once: usize) -> Self {
        let (of_tenant, of_project, of_allocation) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        Self { allocations_at_once, of_tenant, of_project, of_allocation, on_node: 0 }
    }

    fn add(&mut self, owner: CheckOwner) {
        *self.of_tenant.entry(owner.owner.tenant).or_default() += 1;
        *self.of_project.entry(owner.owner).or_default() += 1;
        *self.of_allocation.entry(owner).or_default() += 1;
        self.on_node += 1;
    }

    /// How many run for its tenant, for its project and for its allocation.
    fn count_of(&self, owner: CheckOwner) -> (usize, usize, usize) {
        let of_tenant = self.of_tenant.get(&owner.owner.tenant).copied().unwrap_or_default();
        let of_project = self.of_project.get(&owner.owner).copied().unwrap_or_default();
        (of_tenant, of_project, self.of_allocation.get(&owner).copied().unwrap_or_default())
    }

    /// Whether there is memory for checks of another allocation: half of the node's for one project.
    fn has_memory_for(&self, owner: CheckOwner) -> bool {
        let all = self.of_allocation.keys().map(|other| other.owner);
        let of_tenant = all.clone().filter(|other| other.tenant == owner.owner.tenant).count();
        let of_project = all.filter(|other| *other == owner.owner).count();
        self.of_allocation.contains_key(&owner)
            || has_slot_for_tenant(of_tenant, self.of_allocation.len(), self.allocations_at_once)
                && of_project < self.allocations_at_once.div_ceil(2)
    }

    fn has_room_for(&self, owner: CheckOwner) -> bool {
        let (of_tenant, of_project, of_allocation) = self.count_of(owner);
        has_slot_for_tenant(of_tenant, self.on_node, CHECKS_ON_NODE)
            && of_project < CHECKS_OF_PROJECT
            && of_allocation < CHECKS_OF_ALLOCATION
            && self.has_memory_for(owner)
    }
}

fn lane_of(task: &Task) -> Lane {
    match &task.act {
        // A pull changes no sandbox and no cell, and may take minutes.
        Act::ImagePull(_) => Lane::Alone(task.id),
        Act::CellProbe(act) => {
            let (owner, allocation) = (TaskOwner::of(act.allocation), act.allocation.allocation_id);
            Lane::Check(CheckOwner { owner, allocation }, task.id)
        }
        Act::CellService(act) => Lane::Service(act.cell.cell_id, act.service.name.clone()),
        Act::CellFiles(act) => Lane::Cell(act.cell.cell_id),
        Act::CellCommand(act) => Lane::Cell(act.cell.cell_id),
        act => act.allocation().map_or(Lane::Node, |owned| Lane::Sandbox(owned.allocation_id)),
    }
}

impl Job {
    pub(crate) fn lane(&self) -> Lane {
        match self {
            Self::Task(task) => lane_of(task),
            Self::StaleCopy(StaleCopy::Sandbox(place), _) => Lane::Sandbox(place.allocation_id),
            Self::StaleCopy(StaleCopy::Cell { cell, .. }, _) => Lane::Sandbox(cell.allocation_id),
        }
    }

    /// Returns its owner and its id, by which the oldest is found; none for a stale copy.
    fn task(&self) -> Option<(TaskOwner, TaskId)> {
        match self {
            Self::Task(task) => Some((task.act.allocation().map(TaskOwner::of).unwrap_or_default(), task.id)),
            Self::StaleCopy(..) => None,
        }
    }
}

/// The queues.
#[derive(Debug)]
pub(crate) struct Lanes {
    /// Allocations whose checks may run at once.
    checked_at_once: usize,
    waiting: BTreeMap<Lane, VecDeque<Job>>,
    /// The queues with a running job, and its owner.
    running: BTreeMap<Lane, TaskOwner>,
    /// Finished tasks whose reports the server has not accepted.
    unreported: BTreeMap<TaskId, Lane>,
    /// Received tasks whose reports the server has not accepted. A task delivered again is ignored.
    held: BTreeSet<TaskId>,
}

impl Lanes {
    pub(crate) fn new(checked_at_once: usize) -> Self {
        let (waiting, running) = (BTreeMap::new(), BTreeMap::new());
        Self { checked_at_once, waiting, running, unreported: BTreeMap::new(), held: BTreeSet::new() }
    }

    /// Queues a job; false for a task that is already held.
    pub(crate) fn add(&mut self, job: Job) -> bool {
        if let Job::Task(task) = &job
            && !self.held.insert(task.id)
        {
            return false;
        }
        self.waiting.entry(job.lane()).or_default().push_back(job);
        true
    }

    /// Dequeues the jobs that can start: the first of each queue without a running job and without an unaccepted report, where there
    /// is room for it. A stale copy does not wait for reports, because none is accepted before it is removed, nor for room.
    pub(crate) fn begin(&mut self) -> Vec<Job> {
        let mut begun = self.begin_checks();
        let (mut free, mut bounded) = (Vec::new(), Vec::new());
        for (lane, jobs) in &self.waiting {
            let Some(job) = jobs.front() else { continue };
            if matches!(lane, Lane::Check(..)) || self.running.contains_key(lane) {
                continue;
            }
            match (job.task(), lane.class()) {
                (None, _) => free.push(lane.clone()),
                (Some(_), _) if self.unreported.values().any(|other| other == lane) => {}
                (Some(_), None) => free.push(lane.clone()),
                (Some((owner, task)), Some(class)) => bounded.push((class, owner, task, lane.clone())),
            }
        }
        for lane in free {
            begun.extend(self.start(&lane));
        }
        let mut running = RunningTasks::default();
        for (lane, owner) in &self.running {
            lane.class().into_iter().for_each(|class| running.add(class, *owner));
        }
        loop {
            bounded.retain(|(class, owner, ..)| running.has_room_for(*class, *owner));
            let first = bounded
                .iter()
                .enumerate()
                .min_by_key(|(_, (class, owner, task, _))| (running.count_of(*class, *owner), *task));
            let Some((at, _)) = first else { return begun };
            let (class, owner, _, lane) = bounded.swap_remove(at);
            begun.extend(self.start(&lane));
            running.add(class, owner);
        }
    }

    /// Dequeues the first job of a queue.
    fn start(&mut self, lane: &Lane) -> Option<Job> {
        let jobs = self.waiting.get_mut(lane)?;
        let job = jobs.pop_front()?;
        if jobs.is_empty() {
            self.waiting.remove(lane);
        }
        self.running.insert(lane.clone(), job.task().map(|(owner, _)| owner).unwrap_or_default());
        Some(job)
    }

    /// Takes out the checks for which there is room: those of the tenant with the fewest running ones first, of its projects and
    /// then of its allocations the one with the fewest, and of those the oldest.
    fn begin_checks(&mut self) -> Vec<Job> {
        let check = |lane: &Lane| match lane {
            Lane::Check(owner, task) => Some((*owner, *task)),
            _ => None,
        };
        let mut running = RunningChecks::new(self.checked_at_once);
        for (owner, _) in self.running.keys().filter_map(check) {
            running.add(owner);
        }
        let mut waiting: Vec<(CheckOwner, TaskId)> = self.waiting.keys().filter_map(check).collect();
        let mut begun = Vec::new();
        loop {
            waiting.retain(|(owner, _)| running.has_room_for(*owner));
            let next = waiting.iter().copied().min_by_key(|(owner, task)| (running.count_of(*owner), *task));
            let Some((owner, task)) = next else { return begun };
            waiting.retain(|(_, other)| *other != task);
            let lane = Lane::Check(owner, task);
            begun.extend(self.waiting.remove(&lane).into_iter().flatten());
            self.running.insert(lane, owner.owner);
            running.add(owner);
        }
    }

    /// Marks the job of this queue as finished. A task's report is next.
    pub(crate) fn end(&mut self, lane: Lane, task: Option<TaskId>) {
        self.running.remove(&lane);
        self.unreported.extend(task.map(|task| (task, lane)));
    }

    /// Releases a task after its report was accepted, or if it has none.
    pub(crate) fn release(&mut self, task: TaskId) {
        self.held.remove(&task);
        self.unreported.remove(&task);
    }

    /// Drops the tasks that have not started. The server delivers them again in a new session unless they were cancelled.
    pub(crate) fn forget_waiting(&mut self) {
        for job in std::mem::take(&mut self.waiting).into_values().flatten() {
            if let Job::Task(task) = job {
                self.held.remove(&task.id);
            }
        }
    }

    /// Reports whether no job is running.
    pub(crate) fn is_idle(&self) -> bool {
        self.running.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use jiff::Timestamp;
    use muster_ids::{CellId, Env, ProjectId, TenantId, TypedId as _};
    use muster_wire::act::{
        Act, CellFiles, CellProbe, CellService, CellTarget, Executor, OwnedAllocation, Prepare,
        SandboxResources,
    };
    use muster_wire::task::{FilesOrder, ProbeOrder, SandboxRef, ServiceAction, ServiceOrder, Task};

    use super::{
        CHECKS_OF_ALLOCATION, CHECKS_OF_PROJECT, CHECKS_ON_NODE, CheckOwner, Job, Lane, Lanes, StaleCopy,
        TaskClass, TaskOwner,
    };

    fn task_for(env: &Env, act: Act) -> Job {
        Job::Task(Box::new(Task {
            id: env.id(),
            incarnation: 1,
            generation: 1,
            act,
            correlation_id: "c".into(),
            expires_at: Timestamp::MAX,
        }))
    }

    fn task(env: &Env, lane: Lane) -> Job {
        let Lane::Sandbox(allocation_id) = lane else { return task_for(env, Act::Survey) };
        let allocation = OwnedAllocation { allocation_id, tenant_id: env.id(), project_id: env.id() };
        let resources = SandboxResources::default();
        task_for(env, Act::Prepare(Prepare { allocation, resources, exclusive: false }))
    }

    fn target(cell_id: CellId) -> CellTarget {
        CellTarget { executor: Executor::Cell, cell_id, incarnation: 1 }
    }

    #[test]
    fn next_task_of_an_allocation_waits_until_the_previous_is_reported() {
        let env = Env::for_tests(1);
        let (a, b) = (Lane::Sandbox(env.id()), Lane::Sandbox(env.id()));
        let mut lanes = Lanes::new(usize::MAX);
        for lane in [&a, &a, &b, &Lane::Node] {
            assert!(lanes.add(task(&env, lane.clone())));
        }
        let begun = lanes.begin();
        assert_eq!(begun.len(), 3);
        assert!(lanes.begin().is_empty());
        lanes.end(b, None);
        assert!(lanes.begin().is_empty());
        let Some(Job::Task(first)) = begun.into_iter().find(|job| job.lane() == a) else { unreachable!() };
        lanes.end(a.clone(), Some(first.id));
        assert!(lanes.begin().is_empty());
        lanes.release(first.id);
        assert_eq!(lanes.begin().len(), 1);
        assert!(!lanes.is_idle());
        lanes.end(a, None);
        lanes.end(Lane::Node, None);
        assert!(lanes.is_idle());
    }

    fn check(env: &Env, owner: CheckOwner) -> Job {
        let allocation = OwnedAllocation {
            allocation_id: owner.allocation,
            tenant_id: owner.owner.tenant.unwrap(),
            project_id: owner.owner.project.unwrap(),
        };
        let probe = ProbeOrder {
            command: vec!["/bin/true".into()],
            environment: BTreeMap::new(),
            sees: Vec::new(),
            uid: 0,
            gid: 0,
            timeout_seconds: 10,
        };
        task_for(env, Act::CellProbe(CellProbe { allocation, cell: target(env.id()), probe }))
    }

    /// Returns the only project of a tenant.
    fn only_project(project: ProjectId) -> TaskOwner {
        TaskOwner { tenant: Some(TenantId::from_uuid(project.uuid())), project: Some(project) }
    }

    fn owner_in(env: &Env, project: ProjectId) -> CheckOwner {
        CheckOwner { owner: only_project(project), allocation: env.id() }
    }

    /// Returns an allocation in another project of the tenant.
    fn owner_of(env: &Env, tenant: TenantId) -> CheckOwner {
        let owner = TaskOwner { tenant: Some(tenant), project: Some(env.id()) };
        CheckOwner { owner, allocation: env.id() }
    }

    /// Begins what can begin; says whose checks those are.
    fn begin_checks(lanes: &mut Lanes) -> Vec<(CheckOwner, Lane)> {
        let owner = |job: &Job| match job.lane() {
            Lane::Check(owner, task) => (owner, Lane::Check(owner, task)),
            _ => unreachable!(),
        };
        lanes.begin().iter().map(owner).collect()
    }

    #[test]
    fn a_few_checks_of_an_allocation_run_at_once_and_hold_up_no_other() {
        let env = Env::for_tests(1);
        let project = env.id();
        let (busy, quiet) = (owner_in(&env, project), owner_in(&env, project));
        let mut lanes = Lanes::new(usize::MAX);
        for _ in 0..100 {
            assert!(lanes.add(check(&env, busy)));
        }
        assert!(lanes.add(check(&env, quiet)));
        let begun = begin_checks(&mut lanes);
        assert_eq!(begun.len(), CHECKS_OF_ALLOCATION + 1);
        assert!(begun.iter().any(|(owner, _)| *owner == quiet));
        assert!(begin_checks(&mut lanes).is_empty());
        let (_, ended) = begun.into_iter().find(|(owner, _)| *owner == busy).unwrap();
        lanes.end(ended, None);
        assert_eq!(begin_checks(&mut lanes).len(), 1, "the next one begins when one has ended");
        for _ in 0..CHECKS_ON_NODE {
            let elsewhere = owner_in(&env, env.id());
            assert!(lanes.add(check(&env, elsewhere)));
        }
        assert_eq!(begin_checks(&mut lanes).len(), CHECKS_ON_NODE - CHECKS_OF_ALLOCATION - 1);
    }

    /// Attack: a tenant asks for more checks than the node runs at once, each of them long, before another tenant asks for one.
    #[test]
    fn a_project_with_more_checks_than_a_node_runs_delays_only_its_own() {
        let env = Env::for_tests(1);
        let (greedy, modest): (ProjectId, ProjectId) = (env.id(), env.id());
        let mut lanes = Lanes::new(usize::MAX);
        for _ in 0..CHECKS_ON_NODE {
            let owner = owner_in(&env, greedy);
            for _ in 0..2 * CHECKS_OF_ALLOCATION {
                assert!(lanes.add(check(&env, owner)));
            }
        }
        assert_eq!(begin_checks(&mut lanes).len(), CHECKS_OF_PROJECT, "no project has the whole node");
        let owner = owner_in(&env, modest);
        assert!(lanes.add(check(&env, owner)));
        let begun = begin_checks(&mut lanes);
        assert_eq!(begun.iter().map(|(owner, _)| *owner).collect::<Vec<_>>(), [owner], "it does not wait");
    }

    /// Attack: a tenant spreads its checks over projects, each within its bound.
    #[test]
    fn checks_of_a_tenant_with_many_projects_leave_slots_to_other_tenants() {
        let env = Env::for_tests(1);
        let (greedy, others): (TenantId, [TenantId; 2]) = (env.id(), [env.id(), env.id()]);
        let mut lanes = Lanes::new(usize::MAX);
        for _ in 0..CHECKS_ON_NODE {
            let owner = owner_of(&env, greedy);
            for _ in 0..CHECKS_OF_ALLOCATION {
                assert!(lanes.add(check(&env, owner)));
            }
        }
        assert_eq!(begin_checks(&mut lanes).len(), CHECKS_ON_NODE - CHECKS_ON_NODE / 4);
        for _ in 0..CHECKS_ON_NODE {
            let owner = owner_of(&env, others[0]);
            assert!(lanes.add(check(&env, owner)));
        }
        let begun = begin_checks(&mut lanes);
        assert_eq!(begun.len(), CHECKS_ON_NODE / 4 - 1, "one is left for a third");
        assert!(begun.iter().all(|(owner, _)| owner.owner.tenant == Some(others[0])));
        for _ in 0..2 {
            let owner = owner_of(&env, others[1]);
            assert!(lanes.add(check(&env, owner)));
        }
        assert_eq!(begin_checks(&mut lanes).len(), 1);
        lanes.end(begun[0].1.clone(), None);
        let next = begin_checks(&mut lanes);
        assert!(next.is_empty(), "the last free slot is for a tenant that has none");
    }

    /// A tenant alone on a node with memory for the checks of one allocation is not locked out.
    #[test]
    fn a_lone_tenant_uses_a_node_of_any_size() {
        for at_once in 1..5 {
            let env = Env::for_tests(1);
            let tenant = env.id();
            let mut lanes = Lanes::new(at_once);
            for _ in 0..8 {
                let owner = owner_of(&env, tenant);
                assert!(lanes.add(check(&env, owner)));
            }
            let begun = begin_checks(&mut lanes).len();
            assert_eq!(begun, at_once.saturating_sub(1).max(1), "of {at_once}");
        }
    }

    /// Attack: a tenant starts services that never become ready in many projects.
    #[test]
    fn tasks_of_a_tenant_with_many_projects_leave_slots_to_other_tenants() {
        let env = Env::for_tests(1);
        let (greedy, modest): (TenantId, TenantId) = (env.id(), env.id());
        let (_, slots) = TaskClass::Inside.most();
        let mut lanes = Lanes::new(usize::MAX);
        let start = |tenant| {
            let allocation =
                OwnedAllocation { allocation_id: env.id(), tenant_id: tenant, project_id: env.id() };
            service_start_in(&env, allocation, env.id(), "web")
        };
        for _ in 0..2 * slots {
            assert!(lanes.add(start(greedy)));
        }
        assert_eq!(lanes.begin().len(), slots - slots / 4);
        for _ in 0..10 {
            assert!(lanes.add(start(modest)));
        }
        assert_eq!(lanes.begin().len(), 10);
    }

    #[test]
    fn on_a_node_without_room_the_next_check_is_of_the_tenant_with_the_fewest() {
        let env = Env::for_tests(1);
        let projects: [ProjectId; 3] = [(); 3].map(|()| env.id());
        let mut lanes = Lanes::new(usize::MAX);
        for project in &projects[..2] {
            for _ in 0..CHECKS_ON_NODE {
                let owner = owner_in(&env, *project);
                assert!(lanes.add(check(&env, owner)));
            }
        }
        let begun = begin_checks(&mut lanes);
        assert_eq!(begun.len(), CHECKS_ON_NODE - 1);
        let first = owner_in(&env, projects[2]);
        assert!(lanes.add(check(&env, first)));
        assert_eq!(begin_checks(&mut lanes).len(), 1, "the last slot is for a tenant that has none");
        let late: Vec<CheckOwner> = (0..3).map(|_| owner_in(&env, projects[2])).collect();
        for owner in &late {
            assert!(lanes.add(check(&env, *owner)));
        }
        assert!(begin_checks(&mut lanes).is_empty(), "there is no room");
        let mut begun = begun.into_iter();
        lanes.end(begun.next().unwrap().1, None);
        assert!(begin_checks(&mut lanes).is_empty(), "that slot is for a fourth tenant");
        for ((_, ended), owner) in begun.zip(&late) {
            lanes.end(ended, None);
            let next: Vec<CheckOwner> = begin_checks(&mut lanes).iter().map(|(owner, _)| *owner).collect();
            assert_eq!(next, [*owner], "the youngest check of all, before an older backlog");
        }
    }

    /// Attack: many small allocations, to use more memory for checks than the node keeps back.
    #[test]
    fn checks_of_more_allocations_than_there_is_memory_for_wait_and_no_project_has_all_of_it() {
        let env = Env::for_tests(1);
        let (greedy, modest): (ProjectId, ProjectId) = (env.id(), env.id());
        let mut lanes = Lanes::new(5);
        for _ in 0..20 {
            let owner = owner_in(&env, greedy);
            for _ in 0..2 {
                assert!(lanes.add(check(&env, owner)));
            }
        }
        let allocations = |begun: &[(CheckOwner, Lane)]| {
            begun.iter().map(|(owner, _)| owner.allocation).collect::<std::collections::BTreeSet<_>>().len()
        };
        let begun = begin_checks(&mut lanes);
        assert_eq!((allocations(&begun), begun.len()), (3, 6), "all checks of three of them");
        for _ in 0..3 {
            let owner = owner_in(&env, modest);
            assert!(lanes.add(check(&env, owner)));
        }
        assert_eq!(allocations(&begin_checks(&mut lanes)), 1, "the other has the rest, but for one");
        let ended = begun[0].0;
        for (_, lane) in begun.into_iter().filter(|(owner, _)| *owner == ended) {
            assert!(begin_checks(&mut lanes).is_empty(), "its allocation still has one");
            lanes.end(lane, None);
        }
        let next = begin_checks(&mut lanes);
        assert_eq!(next.iter().map(|(owner, _)| owner.owner.project).collect::<Vec<_>>(), [Some(modest)]);
    }

    #[test]
    fn a_stale_copy_waits_for_running_tasks_and_not_for_unreported_ones() {
        let env = Env::for_tests(1);
        let allocation_id = env.id();
        let a = Lane::Sandbox(allocation_id);
        let mut lanes = Lanes::new(usize::MAX);
        lanes.add(task(&env, a.clone()));
        let Some(Job::Task(first)) = lanes.begin().pop() else { unreachable!() };
        let (gone, _) = tokio::sync::oneshot::channel();
        lanes.add(Job::StaleCopy(StaleCopy::Sandbox(SandboxRef { allocation_id, incarnation: 1 }), gone));
        assert!(lanes.begin().is_empty());
        lanes.end(a, Some(first.id));
        assert_eq!(lanes.begin().len(), 1);
    }

    #[test]
    fn a_task_that_comes_twice_is_the_same_until_its_report_is_taken() {
        let env = Env::for_tests(1);
        let Job::Task(first) = task(&env, Lane::Node) else { unreachable!() };
        let again = || Job::Task(first.clone());
        let mut lanes = Lanes::new(usize::MAX);
        assert!(lanes.add(again()));
        assert!(!lanes.add(again()));
        assert_eq!(lanes.begin().len(), 1);
        lanes.end(Lane::Node, Some(first.id));
        assert!(!lanes.add(again()));
        lanes.release(first.id);
        assert!(lanes.add(again()));
        lanes.forget_waiting();
        assert!(lanes.begin().is_empty());
        assert!(lanes.add(again()));
    }

    #[test]
    fn services_of_a_cell_wait_for_each_other_only_where_they_say_so_and_a_command_for_none_of_them() {
        let env = Env::for_tests(1);
        let (cell_id, allocation_id) = (env.id(), env.id());
        let allocation = OwnedAllocation { allocation_id, tenant_id: env.id(), project_id: env.id() };
        let service = |name: &str| service_start_in(&env, allocation, cell_id, name);
        let files = CellFiles { allocation, cell: target(cell_id), files: FilesOrder::default() };
        let mut lanes = Lanes::new(usize::MAX);
        for job in
            [service("database"), service("web"), service("web"), task_for(&env, Act::CellFiles(files))]
        {
            assert!(lanes.add(job));
        }
        let mut begun: Vec<Lane> = lanes.begin().iter().map(Job::lane).collect();
        begun.sort();
        assert_eq!(
            begun,
            [
                Lane::Cell(cell_id),
                Lane::Service(cell_id, "database".into()),
                Lane::Service(cell_id, "web".into())
            ]
        );
        assert!(lanes.begin().is_empty());
    }

    /// Starts a service of a cell.
    fn service_start(env: &Env, project: ProjectId, cell_id: CellId, name: &str) -> Job {
        let tenant_id = TenantId::from_uuid(project.uuid());
        let allocation = OwnedAllocation { allocation_id: env.id(), tenant_id, project_id: project };
        service_start_in(env, allocation, cell_id, name)
    }

    fn service_start_in(env: &Env, allocation: OwnedAllocation, cell_id: CellId, name: &str) -> Job {
        let service = ServiceOrder { name: name.into(), action: ServiceAction::Start };
        task_for(env, Act::CellService(CellService { allocation, cell: target(cell_id), service }))
    }

    /// Attack: a project starts more services that never become ready than the agent has threads.
    #[test]
    fn services_that_never_become_ready_hold_a_bounded_number_of_threads() {
        let env = Env::for_tests(1);
        let (greedy, modest): (ProjectId, ProjectId) = (env.id(), env.id());
        let (of_project, on_node) = TaskClass::Inside.most();
        let mut lanes = Lanes::new(usize::MAX);
        for _ in 0..17 {
            let cell = env.id();
            for service in 0..32 {
                assert!(lanes.add(service_start(&env, greedy, cell, &format!("s{service}"))));
            }
        }
        let begun = lanes.begin();
        assert_eq!(begun.len(), of_project);
        assert!(lanes.begin().is_empty());
        // Another project's cell starts at once, and the end of a cell waits for no service.
        assert!(lanes.add(service_start(&env, modest, env.id(), "web")));
        assert!(lanes.add(task(&env, Lane::Sandbox(env.id()))));
        assert_eq!(lanes.begin().len(), 2);
        lanes.end(begun[0].lane(), None);
        assert_eq!(lanes.begin().len(), 1, "the next one begins when one has ended");
        // Nor do many projects together take every thread.
        for _ in 0..2 * on_node {
            assert!(lanes.add(service_start(&env, env.id(), env.id(), "web")));
        }
        assert_eq!(lanes.begin().len(), on_node - of_project - 1);
        let all = [TaskClass::Inside, TaskClass::Sandbox].map(|class| class.most().1).iter().sum::<usize>();
        assert!(all + CHECKS_ON_NODE <= 512 * 5 / 6, "the runtime has 512 threads");
    }
}
