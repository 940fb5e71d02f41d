//! Any interrupted step is repeated and ends in the same state.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use muster_network::{Fabric, POINTS};
use muster_wire::cell::{Ingress, Protocol};
use parking_lot::Mutex;

use crate::ground::{Cell, Ground, Net, OUTSIDER, connects, listen};

const INGRESS: [Ingress; 1] = [Ingress { port: 80, protocol: Protocol::Tcp, node_port: Some(30080) }];

/// Steps of an agent in the life of a cell, in order.
#[derive(Clone, Copy, Debug)]
enum Step {
    Apply,
    Attach,
    Detach,
    Remove,
}

const LIFE: [Step; 4] = [Step::Apply, Step::Attach, Step::Detach, Step::Remove];
/// A cell may be attached before its network is applied.
const EARLY: [Step; 4] = [Step::Attach, Step::Apply, Step::Detach, Step::Remove];

struct Scene {
    ground: Ground,
    net: Net,
    cell: Cell,
    far: Cell,
}

impl Scene {
    fn new() -> Self {
        let ground = Ground::new(2);
        let net = ground.net(1);
        let (cell, far) = (ground.cell(&net, 2), ground.cell(&net, 3));
        ground.nodes[1].fabric.apply(&[ground.state(&net, &[(&cell, 0), (&far, 1)])]).unwrap();
        ground.nodes[1].attach(&far, &net);
        Self { ground, net, cell, far }
    }

    fn take(&self, step: Step) {
        let node = &self.ground.nodes[0];
        let done = match step {
            Step::Apply => {
                node.fabric.apply(&[self.ground.state(&self.net, &[(&self.cell, 0), (&self.far, 1)])])
            }
            Step::Attach => node.attach_with(&self.cell, &self.net, true, &INGRESS),
            Step::Detach => node.fabric.detach(self.cell.id),
            Step::Remove => node.fabric.apply(&[]),
        };
        done.unwrap_or_else(|error| panic!("{step:?}: {error}"));
    }

    /// Asserts the state after a step.
    fn check(&self, step: Step, pristine: &str) {
        let node = &self.ground.nodes[0];
        let fabric = &node.fabric;
        let strange: Vec<_> = fabric.survey().unwrap().into_iter().filter(|found| !found.recorded).collect();
        assert_eq!(strange, [], "after {step:?}");
        match step {
            Step::Apply => {}
            Step::Attach => {
                if fabric.hosts(self.net.id).unwrap().is_some() {
                    assert!(self.cell.pings(self.far.address) && self.far.pings(self.cell.address));
                }
                assert!(self.cell.pings(self.net.gateway()) && self.cell.pings(OUTSIDER));
                let _server = listen(&self.cell.path(), 80);
                assert!(connects(&self.ground.outside, node.settings.address, 30080));
                assert!(fabric.look(self.cell.id, self.cell.pid()).unwrap().unwrap().joined);
            }
            Step::Detach => {
                assert!(fabric.leftovers(self.cell.id).unwrap().is_empty());
                assert_eq!(fabric.look(self.cell.id, self.cell.pid()).unwrap(), None);
            }
            Step::Remove => {
                assert_eq!(fabric.survey().unwrap(), []);
                assert_eq!(node.snapshot(), pristine);
            }
        }
    }
}

/// Runs the life of a cell, and stops when a point is first reached; then the agent restarts and repeats. Returns whether
/// the point was reached at all.
fn live(scene: &mut Scene, life: [Step; 4], point: &'static str, pristine: &str) -> bool {
    let armed = Arc::new(AtomicBool::new(true));
    let trap = Arc::clone(&armed);
    let mut settings = scene.ground.nodes[0].settings.clone();
    settings.reach = Arc::new(move |reached| {
        if reached == point && trap.swap(false, Ordering::SeqCst) {
            std::panic::resume_unwind(Box::new("stopped on purpose"));
        }
    });
    scene.ground.nodes[0].fabric = Fabric::open(settings).unwrap();
    for step in life {
        let stopped = catch_unwind(AssertUnwindSafe(|| scene.take(step)));
        if let Err(why) = stopped {
            assert_eq!(why.downcast_ref(), Some(&"stopped on purpose"), "{step:?} at {point}");
            scene.ground.nodes[0].restart();
            scene.take(step);
            scene.check(step, pristine);
        }
    }
    scene.check(Step::Remove, pristine);
    !armed.load(Ordering::SeqCst)
}

fn stop_everywhere(life: [Step; 4]) {
    let mut scene = Scene::new();
    let pristine = scene.ground.nodes[0].snapshot();
    for point in POINTS {
        assert!(live(&mut scene, life, point, &pristine), "{point} was never reached");
    }
}

#[test]
fn an_agent_that_is_stopped_at_any_point_ends_in_the_same_state_when_it_is_asked_again() {
    stop_everywhere(LIFE);
}

#[test]
fn a_stop_at_any_point_does_no_harm_to_a_cell_that_comes_before_its_network_is_told_of() {
    stop_everywhere(EARLY);
}

#[test]
fn every_point_that_is_passed_is_in_the_list() {
    let mut scene = Scene::new();
    let passed = Arc::new(Mutex::new(BTreeSet::new()));
    let note = Arc::clone(&passed);
    let mut settings = scene.ground.nodes[0].settings.clone();
    settings.reach = Arc::new(move |point| {
        note.lock().insert(point);
    });
    scene.ground.nodes[0].fabric = Fabric::open(settings).unwrap();
    for step in LIFE {
        scene.take(step);
    }
    assert_eq!(*passed.lock(), POINTS.iter().copied().collect());
}

#[test]
fn repeated_network_step_changes_nothing() {
    let scene = Scene::new();
    let pristine = scene.ground.nodes[0].snapshot();
    for step in LIFE {
        scene.take(step);
        let once = scene.ground.nodes[0].snapshot();
        scene.take(step);
        assert_eq!(scene.ground.nodes[0].snapshot(), once, "{step:?}");
        scene.check(step, &pristine);
    }
}

#[test]
fn repeating_an_attach_does_not_cut_a_connection() {
    let scene = Scene::new();
    scene.take(Step::Apply);
    scene.take(Step::Attach);
    let listener = listen(&scene.far.path(), 9000);
    let to = scene.far.address;
    let mut near =
        crate::ground::inside(&scene.cell.path(), || std::net::TcpStream::connect((to, 9000)).unwrap());
    let (mut far, _) = listener.accept().unwrap();
    scene.take(Step::Attach);
    scene.take(Step::Apply);
    std::io::Write::write_all(&mut near, b"still here").unwrap();
    let mut said = [0; 10];
    std::io::Read::read_exact(&mut far, &mut said).unwrap();
    assert_eq!(&said, b"still here");
}

#[test]
fn a_new_incarnation_of_a_cell_takes_the_place_of_the_old_one() {
    let mut scene = Scene::new();
    scene.take(Step::Apply);
    scene.take(Step::Attach);
    let mut fresh = scene.ground.cell(&scene.net, 2);
    std::mem::swap(&mut fresh.id, &mut scene.cell.id);
    // The old one is still alive, and was not detached.
    let old = std::mem::replace(&mut scene.cell, fresh);
    scene.take(Step::Attach);
    scene.check(Step::Attach, "");
    assert!(old.misses(scene.far.address));
    // Another cell is refused while this one holds the address.
    let other = scene.ground.cell(&scene.net, 2);
    let error = scene.ground.nodes[0].attach_with(&other, &scene.net, false, &[]).unwrap_err().to_string();
    assert!(error.contains("is in use by"), "{error}");
}

#[test]
fn a_cell_that_died_leaves_nothing_once_it_is_detached() {
    let mut scene = Scene::new();
    scene.take(Step::Apply);
    scene.take(Step::Attach);
    scene.cell.child.kill().unwrap();
    scene.cell.child.wait().unwrap();
    scene.take(Step::Detach);
    assert!(scene.ground.nodes[0].fabric.leftovers(scene.cell.id).unwrap().is_empty());
}

#[test]
fn a_machine_that_starts_anew_is_put_right_by_what_is_written_down() {
    let mut scene = Scene::new();
    scene.take(Step::Apply);
    scene.take(Step::Attach);
    // A reboot removes every namespace, link and rule, and leaves the records.
    let node = &scene.ground.nodes[0];
    rustix::mount::unmount(node.router(&scene.net), rustix::mount::UnmountFlags::DETACH).unwrap();
    std::fs::remove_file(node.router(&scene.net)).unwrap();
    crate::ground::nft(node.path(), "flush ruleset");
    scene.ground.nodes[0].restart();
    scene.take(Step::Apply);
    crate::ground::eventually("the cell's old link is gone", || {
        scene.ground.nodes[0].fabric.look(scene.cell.id, scene.cell.pid()).unwrap().is_none()
    });
    scene.take(Step::Attach);
    scene.check(Step::Attach, "");
}
