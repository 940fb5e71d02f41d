//! Proves that a suggestion fits, that nothing smaller would, and that every sensible request gets one.

use proptest::prelude::*;
use serde_json::json;

use super::search::{combinations, made};
use super::*;
use crate::Count;

fn manifest(shapes: &[&str], least: i64, exclusive: bool, components: serde_json::Value) -> Manifest {
    serde_json::from_value(json!({
        "app": "a", "version": "1", "artifact_kind": "oci",
        "compatibility": {"requires_capacity_shape": shapes, "min_gpu_count": least, "requires_exclusive_node": exclusive},
        "components": components,
    }))
    .unwrap()
}

fn component(key: &str, reach: &str, count: (i64, i64, i64), gpus: i64) -> serde_json::Value {
    json!({"key": key, "count": {"min": count.0, "default": count.1, "max": count.2}, "reach": reach,
           "capacity": {"gpus": gpus, "cpus": 2, "memory_mb": 1024}, "runtime": {"root": {"host": ["/usr"]}}})
}

const BOTH: [&str; 2] = ["baremetal", "gpu_slice"];
const PLAIN: Site = Site { slice_network_crosses_allocations: false };
const CROSSING: Site = Site { slice_network_crosses_allocations: true };

fn answer(manifest: &Manifest, shape: Shape, spread: Spread, site: Site) -> Answer {
    compatible(manifest, &Ask::of(manifest, shape, spread, site))
}

#[test]
fn a_flat_network_crosses_slices_only_where_the_site_says_so() {
    let app = manifest(&BOTH, 0, false, json!([component("a", "flat", (1, 2, 9), 1)]));
    assert!(answer(&app, Shape::Baremetal, Spread::Apart, PLAIN).fits);
    assert!(answer(&app, Shape::GpuSlice, Spread::Apart, CROSSING).fits);
    assert!(answer(&app, Shape::GpuSlice, Spread::Together, PLAIN).fits);
    let refused = answer(&app, Shape::GpuSlice, Spread::Apart, PLAIN);
    assert!(
        !refused.fits && refused.reasons.len() == 1 && refused.reasons[0].contains("does not span"),
        "{refused:?}"
    );
    assert_eq!(refused.change.unwrap().changes, [Change::Shape(Shape::Baremetal)]);
    // Without whole machines as a choice, they must share an allocation.
    let app = manifest(&["gpu_slice"], 0, false, json!([component("a", "flat", (1, 2, 9), 1)]));
    let need = Capacity { gpus: 2, cpus: 4, memory_mb: 2048, disk_mb: 0 };
    let change = answer(&app, Shape::GpuSlice, Spread::Apart, PLAIN).change.unwrap();
    assert_eq!(change.changes, [Change::OneAllocation(need)]);
    assert_eq!(
        change.message,
        "put all members into one allocation of at least 2 GPUs, 4 CPUs, 2048 MiB of memory and 0 MiB of disk"
    );
}

#[test]
fn several_components_without_reach_belong_together_and_one_alone_does_not() {
    let one = manifest(&BOTH, 0, false, json!([component("a", "none", (1, 3, 9), 1)]));
    assert!(answer(&one, Shape::GpuSlice, Spread::Apart, PLAIN).fits);
    let two = json!([component("a", "none", (1, 1, 9), 0), component("b", "none", (1, 1, 9), 1)]);
    let two = manifest(&BOTH, 0, false, two);
    assert!(answer(&two, Shape::GpuSlice, Spread::Together, PLAIN).fits);
    for shape in [Shape::GpuSlice, Shape::Baremetal] {
        let refused = answer(&two, shape, Spread::Apart, CROSSING);
        assert!(matches!(refused.change.unwrap().changes[..], [Change::OneAllocation(_)]), "{shape:?}");
    }
    let routed = json!([component("a", "routed", (1, 1, 9), 0), component("b", "routed", (1, 1, 9), 1)]);
    assert!(answer(&manifest(&BOTH, 0, false, routed), Shape::GpuSlice, Spread::Apart, PLAIN).fits);
}

#[test]
fn every_reason_is_told_and_the_change_mends_them_all() {
    let app = manifest(&["baremetal"], 8, true, json!([component("a", "flat", (3, 3, 9), 1)]));
    let seat = |count| MemberGroup { component: "a".to_owned(), count, each: app.components[0].capacity };
    let unknown = MemberGroup { component: "b".to_owned(), count: 1, each: NOTHING };
    let small = PlannedAllocation { capacity: NOTHING, seats: vec![seat(1)] };
    let ask = Ask {
        shape: Shape::GpuSlice,
        places: vec![small, PlannedAllocation::for_seats(vec![seat(1), unknown])],
        site: PLAIN,
    };
    let refused = compatible(&app, &ask);
    assert_eq!(refused.reasons.len(), 7, "{refused:#?}");
    let change = refused.change.unwrap();
    assert!(compatible(&app, &change.ask).fits);
    assert!(change.changes.contains(&Change::Members { component: "b".to_owned(), count: 0 }), "{change:?}");
    assert!(change.changes.contains(&Change::Members { component: "a".to_owned(), count: 8 }), "{change:?}");
}

#[test]
fn members_that_are_missing_are_counted_as_the_manifest_has_them() {
    let app = manifest(&BOTH, 3, false, json!([component("a", "none", (0, 0, 9), 1)]));
    // An empty seat does not define a member's capacity.
    let nobody = MemberGroup { component: "a".to_owned(), count: 0, each: NOTHING };
    let place = PlannedAllocation {
        capacity: Capacity { gpus: 8, cpus: 64, memory_mb: 65_536, disk_mb: 0 },
        seats: vec![nobody],
    };
    let mut ask = Ask { shape: Shape::GpuSlice, places: vec![place], site: PLAIN };
    let change = compatible(&app, &ask).change.unwrap();
    assert_eq!(change.changes, [Change::Members { component: "a".to_owned(), count: 3 }]);
    assert_eq!(change.message, "use 3 of a");
    // Of two with different capacities, the smaller is raised.
    let each = |gpus| MemberGroup {
        component: "a".to_owned(),
        count: 1,
        each: Capacity { gpus, ..app.components[0].capacity },
    };
    ask.places[0].seats = vec![each(0), each(2)];
    let change = compatible(&app, &ask).change.unwrap();
    assert_eq!(change.changes, [Change::Gpus { component: "a".to_owned(), each: 2 }]);
    assert_eq!(change.ask.places[0].need().gpus, 4);
}

#[test]
fn nothing_is_suggested_where_nothing_helps() {
    let app = manifest(&["gpu_slice"], 0, true, json!([component("a", "none", (1, 1, 1), 1)]));
    let refused = answer(&app, Shape::GpuSlice, Spread::Together, PLAIN);
    assert!(!refused.fits && refused.change.is_none());
}

#[test]
fn a_large_ask_is_answered_soon() {
    let app = manifest(&BOTH, 0, false, json!([component("a", "flat", (1, 10_000, 10_000), 1)]));
    let mut ask = Ask::of(&app, Shape::GpuSlice, Spread::Apart, PLAIN);
    for place in &mut ask.places {
        place.capacity.gpus = 0;
    }
    let begun = std::time::Instant::now();
    let change = compatible(&app, &ask).change.unwrap();
    assert!(
        matches!(change.changes[0], Change::Shape(_) | Change::OneAllocation(_)),
        "{:?}",
        change.changes[0]
    );
    assert!(begun.elapsed() < std::time::Duration::from_secs(30), "{:?}", begun.elapsed());
}

prop_compose! {
    fn any_component(key: &'static str)(
        reach in proptest::sample::select(vec!["none", "routed", "flat"]),
        (min, default, max) in (0i64..4, 0i64..4, 0i64..4).prop_map(|(a, b, c)| (a, a + b, (a + b + c).max(1))),
        gpus in 0i64..3,
        quorum in 0i64..5,
    ) -> Component {
        let mut component: Component =
            serde_json::from_value(component(key, reach, (min, default, max), gpus)).unwrap();
        component.quorum = match quorum {
            0..2 => None,
            2 => Some(Quorum::Majority),
            least => Some(Quorum::AtLeast((least - 2).min(max))),
        };
        component.count = Count { min, max, default: Some(default) };
        component
    }
}

prop_compose! {
    /// A manifest that passes the lint.
    fn any_manifest()(
        components in (any_component("a"), any_component("b"), any_component("c"), 1usize..4),
        shapes in proptest::sample::select(vec![&BOTH[..], &BOTH[..1], &BOTH[1..]]),
        least in 0i64..10,
        exclusive in any::<bool>(),
    ) -> Manifest {
        let (a, b, c, count) = components;
        let components: Vec<Component> = [a, b, c].into_iter().take(count).collect();
        let most: i64 = components.iter().map(|component| component.count.max * component.capacity.gpus).sum();
        let exclusive = exclusive && !shapes.contains(&"gpu_slice");
        let mut manifest = manifest(shapes, least.min(most), exclusive, json!([]));
        manifest.components = components;
        manifest
    }
}

fn any_seat() -> impl Strategy<Value = MemberGroup> {
    let key = proptest::sample::select(vec!["a", "b", "c", "stranger"]);
    (key, 0i64..4, 0i64..3).prop_map(|(key, count, gpus)| MemberGroup {
        component: key.to_owned(),
        count,
        each: Capacity { gpus, cpus: 2, memory_mb: 1024, disk_mb: 0 },
    })
}

fn any_place() -> impl Strategy<Value = PlannedAllocation> {
    (0i64..6, 0i64..16, proptest::collection::vec(any_seat(), 0..4)).prop_map(|(gpus, cpus, seats)| {
        PlannedAllocation { capacity: Capacity { gpus, cpus, memory_mb: cpus * 512, disk_mb: 0 }, seats }
    })
}

prop_compose! {
    fn any_ask()(
        slice in any::<bool>(),
        slice_network_crosses_allocations in any::<bool>(),
        places in proptest::collection::vec(any_place(), 0..4),
    ) -> Ask {
        let shape = if slice { Shape::GpuSlice } else { Shape::Baremetal };
        Ask { shape, places, site: Site { slice_network_crosses_allocations } }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn the_suggestion_fits_and_nothing_before_it_does(manifest in any_manifest(), ask in any_ask()) {
        let answer = compatible(&manifest, &ask);
        prop_assert_eq!(answer.fits, answer.reasons.is_empty());
        if answer.fits {
            prop_assert!(answer.change.is_none());
            return Ok(());
        }
        // A manifest that passes the lint always gets a suggestion.
        let Some(change) = answer.change else { return Err(TestCaseError::fail(format!("{:?}", answer.reasons))) };
        let then = compatible(&manifest, &change.ask);
        prop_assert!(then.fits, "{:?} after {:?}", then.reasons, change.changes);
        for kinds in combinations() {
            let Some((changes, changed)) = made(&manifest, &ask, &kinds) else { continue };
            if compatible(&manifest, &changed).fits {
                prop_assert_eq!(&changes, &change.changes, "the first that fits is the one");
                break;
            }
        }
    }

    /// The preferred changes are repeated here by hand.
    #[test]
    fn single_changes_are_preferred_in_their_order(manifest in any_manifest(), ask in any_ask()) {
        let answer = compatible(&manifest, &ask);
        let Some(change) = answer.change else { return Ok(()) };
        let other = if ask.shape == Shape::Baremetal { Shape::GpuSlice } else { Shape::Baremetal };
        if compatible(&manifest, &Ask { shape: other, ..ask.clone() }).fits {
            prop_assert_eq!(change.changes, [Change::Shape(other)]);
            return Ok(());
        }
        let seats: Vec<MemberGroup> = ask.places.iter().flat_map(|place| place.seats.clone()).collect();
        let together = Ask { places: vec![PlannedAllocation::for_seats(seats)], ..ask.clone() };
        let apart = ask.places.iter().filter(|place| place.seats.iter().any(|seat| seat.count > 0)).count() > 1;
        if apart && compatible(&manifest, &together).fits {
            prop_assert_eq!(change.changes, [Change::OneAllocation(together.places[0].capacity)]);
            return Ok(());
        }
        if let [Change::Room { place, capacity }] = change.changes[..] {
            // One less of any raised amount would not suffice.
            let had = ask.places[place].capacity;
            for raised in [
                (capacity.gpus > had.gpus).then_some(Capacity { gpus: capacity.gpus - 1, ..capacity }),
                (capacity.cpus > had.cpus).then_some(Capacity { cpus: capacity.cpus - 1, ..capacity }),
                (capacity.memory_mb > had.memory_mb).then_some(Capacity { memory_mb: capacity.memory_mb - 1, ..capacity }),
            ].into_iter().flatten() {
                let mut less = change.ask.clone();
                less.places[place].capacity = raised;
                prop_assert!(!compatible(&manifest, &less).fits);
            }
        }
    }
}
