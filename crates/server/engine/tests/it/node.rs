//! A simulated node with a journal of its own that the engine never reads: the oracle of these tests.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use muster_db::{Store, StoreError, TaskReport};
use muster_engine::parse_act;
use muster_ids::{AllocationId, CellId, NetworkId, NodeId};
use muster_model::task::{Task, TaskKind, TaskState};
use muster_wire::act::{Act, CellCreate};
use muster_wire::cell::{CellDeath, CellFindings, ServiceFindings, ServiceState};
use muster_wire::task::{Amount, Findings, KeptLog, NodeResource, Ran, Refusal, SandboxRef};

/// Files under this path survive the incarnations of a cell.
pub(crate) const STATE: &str = "/members/";

/// A sandbox on the node.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Made {
    pub(crate) incarnation: i64,
    pub(crate) devices: BTreeSet<String>,
    pub(crate) amount: Amount,
}

/// Injected fault of the node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wrong {
    /// The next task of this kind fails without effect.
    Fails(TaskKind),
    /// The next task of this kind is refused permanently.
    Refuses(TaskKind),
    /// The next task of this kind has no room on the node's disk.
    Full(TaskKind),
    /// The agent dies before it runs the next task of this kind.
    DiesBefore(TaskKind),
    /// The agent runs it and dies before it can report.
    DiesAfter(TaskKind),
    /// The next wipe leaves something.
    LeavesResidue,
    /// The next sandbox has too few devices.
    MakesTooLittle,
    /// The next inspected cell seems to be missing.
    HidesCell,
    /// The next removal of shared directories leaves something.
    LeavesShare,
}

/// Networks with shared directories: one list for all nodes that share the file system.
pub(crate) type Shares = std::sync::Arc<parking_lot::Mutex<BTreeSet<NetworkId>>>;

/// The node.
pub(crate) struct Node {
    pub(crate) id: NodeId,
    pub(crate) sandboxes: BTreeMap<AllocationId, Made>,
    /// Cells: their allocation and incarnation.
    pub(crate) cells: BTreeMap<CellId, (AllocationId, i64)>,
    /// Files in the cells: paths and contents.
    pub(crate) files: BTreeMap<CellId, BTreeMap<String, String>>,
    /// Shared directories by network, on a file system that all nodes mount.
    pub(crate) shares: Shares,
    /// Orphans.
    pub(crate) strays: Vec<NodeResource>,
    /// Devices that were used and not wiped, and by which allocation.
    pub(crate) dirty: BTreeMap<String, AllocationId>,
    pub(crate) wrong: Vec<Wrong>,
    /// Tasks that it ran, in order, and their cells.
    pub(crate) done: Vec<(TaskKind, Option<CellId>)>,
    /// Number of injected faults.
    pub(crate) struck: usize,
    /// Every task is run and reported twice.
    pub(crate) repeats: bool,
    /// Reports that were rejected.
    pub(crate) refused: usize,
    /// Violations.
    pub(crate) violations: Vec<String>,
    /// Whether its agent can be reached.
    pub(crate) reachable: bool,
    /// Services in its cells never become ready.
    pub(crate) unready: bool,
    /// Cells with a killed init process: nothing runs in them, and their resources are still there.
    pub(crate) dead: BTreeSet<CellId>,
}

impl Node {
    pub(crate) fn new(id: NodeId) -> Self {
        Self {
            id,
            sandboxes: BTreeMap::new(),
            cells: BTreeMap::new(),
            files: BTreeMap::new(),
            shares: Shares::default(),
            strays: Vec::new(),
            dirty: BTreeMap::new(),
            wrong: Vec::new(),
            done: Vec::new(),
            struck: 0,
            repeats: false,
            refused: 0,
            violations: Vec::new(),
            reachable: true,
            unready: false,
            dead: BTreeSet::new(),
        }
    }

    /// Kills the init process of a cell.
    pub(crate) fn kill(&mut self, cell: CellId) {
        assert!(self.cells.contains_key(&cell), "{cell} is not there");
        self.dead.insert(cell);
    }

    /// Destroys a sandbox with its cells. Its devices stay unwiped.
    pub(crate) fn destroy(&mut self, allocation: AllocationId) {
        self.sandboxes.remove(&allocation);
        self.cells.retain(|_, (of, _)| *of != allocation);
        self.dead.retain(|cell| self.cells.contains_key(cell));
        self.files.retain(|cell, _| self.cells.contains_key(cell));
    }

    /// Reports whether anything runs in a cell.
    pub(crate) fn runs(&self, cell: CellId) -> bool {
        self.cells.contains_key(&cell) && !self.dead.contains(&cell)
    }

    /// Reboots the machine: nothing runs on it any more.
    pub(crate) fn reboot(&mut self) {
        self.dead.extend(self.cells.keys().copied());
    }

    fn strikes(&mut self, wrong: Wrong) -> bool {
        let Some(at) = self.wrong.iter().position(|armed| *armed == wrong) else { return false };
        self.wrong.remove(at);
        self.struck += 1;
        true
    }

    /// Fetches tasks, runs them, and reports; returns how many it got.
    pub(crate) async fn serve(&mut self, store: &Store, now: Timestamp) -> usize {
        // While idle, polling is a read, as on a server.
        if !self.reachable || !store.task_nodes_waiting(now).await.unwrap().contains(&self.id) {
            return 0;
        }
        let tasks = store.task_deliver(self.id, 1, now, 16).await.unwrap();
        for task in &tasks {
            if self.strikes(Wrong::DiesBefore(task.kind)) {
                return self.restart(store, tasks.len()).await;
            }
            let (mut state, mut findings, mut message) = (TaskState::Done, Findings::default(), None);
            for _ in 0..=usize::from(self.repeats) {
                if self.strikes(Wrong::Refuses(task.kind)) {
                    (state, message) = (TaskState::Failed, Some("it can never do that".to_owned()));
                    findings.refusal = Some(Refusal::Unsupported);
                    break;
                }
                if self.strikes(Wrong::Full(task.kind)) {
                    (state, message) = (TaskState::Failed, Some("the node's disk is full".to_owned()));
                    findings.refusal = Some(Refusal::NodeFull);
                    break;
                }
                let fails = self.strikes(Wrong::Fails(task.kind));
                match fails {
                    true => (state, message) = (TaskState::Failed, Some("it fails on purpose".to_owned())),
                    false if self.is_in_vain(task) => {
                        (state, message) = (TaskState::Failed, Some("the cell does not run".to_owned()));
                    }
                    false => findings = self.perform(task),
                }
            }
            if self.strikes(Wrong::DiesAfter(task.kind)) {
                return self.restart(store, tasks.len()).await;
            }
            let report = TaskReport {
                id: task.id,
                incarnation: task.incarnation,
                generation: task.generation,
                state,
                result: serde_json::to_value(&findings).unwrap(),
                message,
            };
            for _ in 0..=usize::from(self.repeats) {
                self.report(store, task, &report, now).await;
            }
        }
        tasks.len()
    }

    async fn report(&mut self, store: &Store, task: &Task, report: &TaskReport, now: Timestamp) {
        let mut tx = store.begin().await.unwrap();
        match tx.task_report(self.id, report, now).await {
            Ok(()) => {
                tx.operation_wake(task.operation_id, now).await.unwrap();
                tx.commit().await.unwrap();
            }
            Err(StoreError::Fenced) => {
                tx.rollback().await;
                self.refused += 1;
            }
            Err(error) => panic!("{error}"),
        }
    }

    /// Starts a new agent on the same machine: its tasks are delivered again, and its sandboxes are still there.
    async fn restart(&mut self, store: &Store, served: usize) -> usize {
        let mut tx = store.begin().await.unwrap();
        tx.task_requeue(self.id).await.unwrap();
        tx.commit().await.unwrap();
        served
    }

    /// Reports whether a task needs a running cell and there is none.
    fn is_in_vain(&self, task: &Task) -> bool {
        let inside = matches!(
            task.kind,
            TaskKind::CellFiles | TaskKind::CellService | TaskKind::CellCommand | TaskKind::CellProbe
        );
        let cell = parse_act(task).unwrap().cell();
        inside && cell.is_some_and(|cell| self.dead.contains(&cell.cell_id))
    }

    fn perform(&mut self, task: &Task) -> Findings {
        let act = parse_act(task).unwrap();
        let cell = act.cell().map(|cell| cell.cell_id);
        self.done.push((task.kind, cell));
        let Some(allocation) = act.allocation().map(|owned| owned.allocation_id) else {
            return match &act {
                Act::ShareRemove(act) => self.remove_share(act.network_id),
                Act::Sweep(act) => {
                    self.strays.retain(|stray| !act.resources.contains(stray));
                    self.survey()
                }
                _ => self.survey(),
            };
        };
        let known = self.sandboxes.get(&allocation).cloned();
        if known.as_ref().is_some_and(|made| made.incarnation > task.incarnation) {
            self.violations.push(format!("a task of incarnation {} was let through", task.incarnation));
        }
        let devices: BTreeSet<String> = act.devices().iter().cloned().collect();
        match &act {
            Act::Prepare(act) => self.prepare(allocation, task.incarnation, devices, act.resources.amount),
            Act::Resize(act) => {
                let added: Vec<String> = match &known {
                    Some(made) => devices.difference(&made.devices).cloned().collect(),
                    None => devices.iter().cloned().collect(),
                };
                self.take(allocation, &added);
                if let Some(made) = self.sandboxes.get_mut(&allocation) {
                    (made.devices, made.amount) = (devices, act.resources.amount);
                }
            }
            Act::Destroy(_) => self.destroy(allocation),
            Act::CellCreate(act) => self.make_cell(allocation, act),
            Act::CellDestroy(act) => {
                let cell = act.cell.cell_id;
                self.cells.remove(&cell);
                self.dead.remove(&cell);
                match act.keep_state {
                    true => self.files.entry(cell).or_default().retain(|path, _| path.starts_with(STATE)),
                    false => drop(self.files.remove(&cell)),
                }
            }
            Act::Wipe(_) => {
                let leaves = self.strikes(Wrong::LeavesResidue);
                let in_use: BTreeSet<String> =
                    self.sandboxes.values().flat_map(|made| made.devices.iter().cloned()).collect();
                for device in devices.iter().skip(usize::from(leaves)) {
                    if in_use.contains(device) {
                        self.violations.push(format!("{device} was wiped while in use"));
                    }
                    self.dirty.remove(device);
                }
            }
            _ => {}
        }
        let mut findings = self.inspect(allocation, act.devices());
        findings.cell = cell.map(|cell| self.look_at(cell, task.kind));
        if let Act::CellProbe(act) = &act {
            findings.ran = Some(self.run_check(act.cell.cell_id, &act.probe.command));
        }
        if task.kind == TaskKind::KeepLogs {
            let kept = |cell: &CellId| KeptLog {
                cell_id: *cell,
                service: "main".to_owned(),
                text: "its last output".to_owned(),
                truncated: false,
            };
            findings.logs = self.cells.keys().map(kept).collect();
        }
        findings
    }

    /// Runs one of the two known programs.
    fn run_check(&self, cell: CellId, command: &[String]) -> Ran {
        let words: Vec<&str> = command.iter().map(String::as_str).collect();
        let file = |path: &str| self.files.get(&cell).and_then(|files| files.get(path));
        let (exit, stdout) = match words.as_slice() {
            _ if !self.cells.contains_key(&cell) => (127, String::new()),
            ["/bin/cat", path] => file(path).map_or((1, String::new()), |text| (0, format!("{text}\n"))),
            ["/bin/test", "-e", path] => (i32::from(file(path).is_none()), String::new()),
            _ => (127, String::new()),
        };
        Ran { exit, stdout, ..Ran::default() }
    }

    fn make_cell(&mut self, allocation: AllocationId, act: &CellCreate) {
        let cell = act.cell.cell_id;
        if !self.sandboxes.contains_key(&allocation) {
            self.violations.push(format!("{cell} was made in no place"));
        }
        if act.attachment.is_none() {
            self.violations.push(format!("{cell} was made in no network"));
        }
        if !act.spec.shared.is_empty() {
            let network = act.attachment.as_ref().expect("who shares is in a network").network_id;
            self.shares.lock().insert(network);
        }
        let made = (allocation, act.cell.incarnation);
        if let Some(there) = self.cells.insert(cell, made)
            && there != made
        {
            self.violations.push(format!("{cell} was made over another incarnation"));
        }
    }

    fn look_at(&mut self, cell: CellId, kind: TaskKind) -> CellFindings {
        let hidden = kind == TaskKind::CellInspect && self.strikes(Wrong::HidesCell);
        let counted =
            |processes| Some(CellDeath { boot_id: "boot".to_owned(), processes, namespaces: 0, mounts: 1 });
        match self.cells.get(&cell) {
            // It only seems to be missing, and no processes were counted: that proves nothing.
            _ if hidden => CellFindings::default(),
            Some((_, incarnation)) if self.dead.contains(&cell) => {
                CellFindings { incarnation: *incarnation, death: counted(0), ..CellFindings::default() }
            }
            Some((_, incarnation)) => CellFindings {
                present: true,
                incarnation: *incarnation,
                pid: 1,
                services: vec![ServiceFindings {
                    name: "main".to_owned(),
                    state: ServiceState::Running,
                    pid: 2,
                    ready: !self.unready,
                    restarts: 0,
                    exit: None,
                    message: None,
                }],
                ..CellFindings::default()
            },
            None => CellFindings { death: counted(0), ..CellFindings::default() },
        }
    }

    fn prepare(
        &mut self,
        allocation: AllocationId,
        incarnation: i64,
        devices: BTreeSet<String>,
        amount: Amount,
    ) {
        if self.sandboxes.get(&allocation).is_some_and(|made| made.incarnation == incarnation) {
            return;
        }
        let mut devices = devices;
        if self.strikes(Wrong::MakesTooLittle) {
            devices.pop_first();
        }
        let fresh: Vec<String> = devices.iter().cloned().collect();
        self.take(allocation, &fresh);
        self.sandboxes.insert(allocation, Made { incarnation, devices, amount });
    }

    fn take(&mut self, allocation: AllocationId, devices: &[String]) {
        for device in devices {
            let holder =
                self.sandboxes.iter().find(|(of, made)| **of != allocation && made.devices.contains(device));
            if let Some((of, _)) = holder {
                self.violations.push(format!("{device} went to {allocation} while {of} has it"));
            }
            // A device used by its owner stays with it until it is released.
            if self.dirty.get(device).is_some_and(|by| *by != allocation) {
                self.violations.push(format!("{device} went to {allocation} unwiped"));
            }
            self.dirty.insert(device.clone(), allocation);
        }
    }

    fn inspect(&self, allocation: AllocationId, devices: &[String]) -> Findings {
        let made = self.sandboxes.get(&allocation);
        Findings {
            present: made.is_some(),
            incarnation: made.map_or(0, |made| made.incarnation),
            devices: made.map(|made| made.devices.iter().cloned().collect()).unwrap_or_default(),
            amount: made.map(|made| made.amount).unwrap_or_default(),
            residue: devices.iter().filter(|device| self.dirty.contains_key(*device)).cloned().collect(),
            ..Findings::default()
        }
    }

    fn remove_share(&mut self, network: NetworkId) -> Findings {
        if self.strikes(Wrong::LeavesShare) {
            return Findings { left: vec![network.to_string()], ..Findings::default() };
        }
        self.shares.lock().remove(&network);
        Findings { checked: vec![network.to_string()], ..Findings::default() }
    }

    fn survey(&self) -> Findings {
        let place = |(id, made): (&AllocationId, &Made)| SandboxRef {
            allocation_id: *id,
            incarnation: made.incarnation,
        };
        Findings {
            sandboxes: self.sandboxes.iter().map(place).collect(),
            resources: self.strays.clone(),
            ..Findings::default()
        }
    }
}
