use muster_ids::{AllocationId, Env};
use muster_wire::act::{Act, Inspect, OwnedAllocation, Prepare, Resize, SandboxDevices, SandboxResources};
use muster_wire::task::{Amount, SandboxRef, TaskKind};

use super::{Holdings, Plan};
use crate::journal::Effect;

struct Node {
    holdings: Holdings,
    a: AllocationId,
    b: AllocationId,
}

fn node() -> Node {
    let env = Env::for_tests(1);
    Node { holdings: Holdings::default(), a: env.id(), b: env.id() }
}

fn names(devices: &[&str]) -> Vec<String> {
    devices.iter().map(|device| (*device).to_owned()).collect()
}

/// Builds an act on a sandbox with these devices.
fn act(kind: TaskKind, allocation_id: AllocationId, devices: &[&str]) -> Act {
    let env = Env::for_tests(2);
    let allocation = OwnedAllocation { allocation_id, tenant_id: env.id(), project_id: env.id() };
    let devices = names(devices);
    let amount = Amount { cpus: 1, memory_mb: 1, disk_mb: 1 };
    let resources = SandboxResources { devices: devices.clone(), amount };
    match kind {
        TaskKind::Prepare => Act::Prepare(Prepare { allocation, resources, exclusive: false }),
        TaskKind::Resize => Act::Resize(Resize { allocation, resources }),
        TaskKind::Destroy => Act::Destroy(SandboxDevices { allocation, devices }),
        TaskKind::Wipe => Act::Wipe(SandboxDevices { allocation, devices }),
        TaskKind::Inspect => Act::Inspect(Inspect { allocation, devices, cells: Vec::new() }),
        other => panic!("{other:?} is not about a sandbox"),
    }
}

impl Node {
    /// Applies an order if possible, and returns its effect.
    fn try_to(
        &mut self,
        kind: TaskKind,
        allocation: AllocationId,
        incarnation: i64,
        devices: &[&str],
    ) -> Plan {
        self.try_act(&act(kind, allocation, devices), incarnation)
    }

    fn try_act(&mut self, act: &Act, incarnation: i64) -> Plan {
        let allocation_id = act.allocation().unwrap().allocation_id;
        let place = SandboxRef { allocation_id, incarnation };
        let plan = self.holdings.plan(act, &place, Env::for_tests(3).id(), Vec::new());
        if let Plan::Change(_, _, next) = &plan {
            self.holdings = (**next).clone();
        }
        plan
    }

    fn does(
        &mut self,
        kind: TaskKind,
        allocation: AllocationId,
        incarnation: i64,
        devices: &[&str],
    ) -> Effect {
        match self.try_to(kind, allocation, incarnation, devices) {
            Plan::Change(effect, ..) => effect,
            other => panic!("{kind:?}: {other:?}"),
        }
    }
}

#[test]
fn a_repetition_of_any_verb_changes_nothing() {
    let mut node = node();
    let a = node.a;
    let steps = [
        (TaskKind::Prepare, &["g0", "g1"][..]),
        (TaskKind::Resize, &["g0"]),
        (TaskKind::Wipe, &["g1"]),
        (TaskKind::Destroy, &["g0"]),
        (TaskKind::Wipe, &["g0"]),
    ];
    for (kind, devices) in steps {
        node.does(kind, a, 1, devices);
        assert_eq!(node.try_to(kind, a, 1, devices), Plan::Nothing, "{kind:?}");
    }
    assert_eq!(node.holdings.effects, 5);
    assert_eq!(node.holdings.look(a, &names(&["g0", "g1"]), None), Default::default());
}

#[test]
fn residue_of_a_tenant_is_reported_until_it_is_wiped() {
    let mut node = node();
    let (a, asked) = (node.a, names(&["g0"]));
    node.does(TaskKind::Prepare, a, 1, &["g0"]);
    assert!(node.holdings.look(a, &asked, None).residue.is_empty(), "what is in use is no residue");
    node.does(TaskKind::Destroy, a, 1, &["g0"]);
    assert_eq!(node.holdings.look(a, &asked, None).residue, ["g0", "disk"]);
    node.does(TaskKind::Wipe, a, 1, &["g0"]);
    assert!(node.holdings.look(a, &asked, None).residue.is_empty());
}

#[test]
fn a_device_with_anothers_residue_or_in_anothers_place_is_never_given_out() {
    let mut node = node();
    let (a, b) = (node.a, node.b);
    node.does(TaskKind::Prepare, a, 1, &["g0"]);
    assert!(matches!(node.try_to(TaskKind::Prepare, b, 1, &["g0"]), Plan::Violation(_)));
    assert!(matches!(node.try_to(TaskKind::Wipe, b, 1, &["g0"]), Plan::Violation(_)));
    assert!(matches!(node.try_to(TaskKind::Wipe, a, 1, &["g0"]), Plan::Refuse(_)));
    node.does(TaskKind::Destroy, a, 1, &["g0"]);
    assert!(matches!(node.try_to(TaskKind::Prepare, b, 1, &["g0"]), Plan::Violation(_)));
    node.does(TaskKind::Prepare, b, 1, &["g1"]);
    assert!(matches!(node.try_to(TaskKind::Resize, b, 1, &["g0", "g1"]), Plan::Violation(_)));
    node.does(TaskKind::Wipe, a, 1, &["g0"]);
    node.does(TaskKind::Resize, b, 1, &["g0", "g1"]);
}

#[test]
fn a_restarted_allocation_has_its_own_devices_back_unwiped() {
    let mut node = node();
    let a = node.a;
    node.does(TaskKind::Prepare, a, 1, &["g0"]);
    node.does(TaskKind::Destroy, a, 1, &["g0"]);
    assert_eq!(node.does(TaskKind::Prepare, a, 2, &["g0"]), Effect::Prepared);
    assert_eq!(node.holdings.incarnation(a), Some(2));
    assert!(matches!(node.try_to(TaskKind::Destroy, a, 1, &[]), Plan::Refuse(_)));
}

#[test]
fn exclusive_allocation_is_the_only_one_on_its_node() {
    let mut node = node();
    let (a, b) = (node.a, node.b);
    let Act::Prepare(prepare) = act(TaskKind::Prepare, a, &["g0"]) else { unreachable!() };
    let whole = Act::Prepare(Prepare { exclusive: true, ..prepare });
    node.does(TaskKind::Prepare, b, 1, &[]);
    assert!(matches!(node.try_act(&whole, 1), Plan::Violation(_)));
    node.does(TaskKind::Destroy, b, 1, &[]);
    assert!(matches!(node.try_act(&whole, 1), Plan::Change(..)));
    assert!(matches!(node.try_to(TaskKind::Prepare, b, 2, &[]), Plan::Violation(_)));
}
