//! Allocations, their phases, and the queue.

use muster_db::{AllocationFilter, Page, Result, Store};
use muster_ids::{AllocationId, ProjectId, TypedId as _};
use muster_model::allocation::{Allocation, AllocationShape, AllocationState, FailureReason};
use muster_model::node::Capacity;
use muster_model::placement::Strategy;
use muster_model::witness::{Transition, Witness, WitnessKind};

use crate::made::{self, FIRST, at, fleet, put, same};

on_both![
    an_allocation_reads_back_as_it_was_asked_for,
    a_name_is_one_living_allocations,
    lists_are_by_page_labels_project_state_and_node,
    a_move_is_from_what_was_seen_to_what_can_come_of_it,
    its_timeline_has_each_state_once_and_why,
    nothing_is_active_or_released_without_evidence_about_itself,
    nothing_that_is_over_holds_anything,
    its_owner_changes_it_on_the_version_that_was_seen,
    live_allocations_of_a_node_are_listed,
    expired_allocations_are_listed_oldest_first,
    an_owner_is_warned_twice_and_again_of_another_expiry,
    older_queued_request_asking_for_no_more_goes_first,
    history_goes_with_its_project_and_what_lives_keeps_it,
    history_goes_with_its_tenant_and_what_lives_keeps_it,
];

async fn request(store: &Store, allocation: &Allocation) -> Result<()> {
    put(store, async |tx| tx.allocation_request(allocation).await).await
}

async fn step(store: &Store, before: &Allocation, after: &Allocation) -> Result<()> {
    put(store, async |tx| tx.allocation_move(before, after, at(9)).await).await
}

async fn stored(store: &Store, id: AllocationId) -> Allocation {
    store.allocation_lookup(id).await.unwrap().unwrap()
}

/// Moves an allocation through these states, holding nothing and without evidence.
async fn through(store: &Store, mut allocation: Allocation, states: &[AllocationState]) -> Allocation {
    for state in states {
        allocation =
            fleet::moved(store, &allocation, Allocation { state: *state, ..allocation.clone() }).await;
    }
    allocation
}

/// Creates an allocation that failed before it was placed.
async fn failed(store: &Store, project: &muster_model::Project, name: &str) -> Allocation {
    through(store, fleet::requested(store, project, name).await, &[AllocationState::Failed]).await
}

async fn an_allocation_reads_back_as_it_was_asked_for(store: Store) {
    let (_, project) = fleet::place(&store).await;
    let asked = Allocation {
        labels: made::labels([("job", "7")]),
        shape: AllocationShape::Baremetal,
        strategy: Strategy::Spread,
        operation_id: Some(made::id()),
        wait_until: Some(at(60)),
        expires_at: Some(at(90)),
        protected: true,
        ..fleet::allocation(&project, "a")
    };
    request(&store, &asked).await.unwrap();
    same(&stored(&store, asked.id).await, &asked);
    same(&store.allocation_by_name(project.id, "a").await.unwrap(), &Some(asked.clone()));
    let mut tx = store.begin().await.unwrap();
    same(&tx.allocation_now(asked.id).await.unwrap(), &Some(asked.clone()));
    assert!(tx.allocation_now(made::id()).await.unwrap().is_none());
    tx.rollback().await;
    assert!(store.allocation_lookup(made::id()).await.unwrap().is_none());
    assert!(store.allocation_by_name(project.id, "b").await.unwrap().is_none());
    assert!(store.allocation_by_name(made::id(), "a").await.unwrap().is_none());
    let phases = store.phase_list(asked.id).await.unwrap();
    assert_eq!(phases.len(), 1);
    assert_eq!(
        (phases[0].state, phases[0].operation_id, phases[0].at),
        (AllocationState::Requested, asked.operation_id, at(0))
    );
    let nowhere = Allocation { project_id: made::id(), ..fleet::allocation(&project, "b") };
    made::is_gone(request(&store, &nowhere).await);
    let negative = Allocation { capacity: fleet::capacity(-1, 0, 0, 0), ..fleet::allocation(&project, "b") };
    made::is_conflict(request(&store, &negative).await);
}

async fn a_name_is_one_living_allocations(store: Store) {
    let (acme, project) = fleet::place(&store).await;
    let other = made::project(&acme, "serve");
    put(&store, async |tx| tx.project_insert(&other).await).await.unwrap();
    let first = fleet::requested(&store, &project, "a").await;
    made::is_conflict(request(&store, &fleet::allocation(&project, "a")).await);
    request(&store, &fleet::allocation(&other, "a")).await.unwrap();
    through(&store, first.clone(), &[AllocationState::Failed]).await;
    assert!(store.allocation_by_name(project.id, "a").await.unwrap().is_none());
    let second = fleet::requested(&store, &project, "a").await;
    assert_eq!(store.allocation_by_name(project.id, "a").await.unwrap().unwrap().id, second.id);
    assert_eq!(stored(&store, first.id).await.name, "a");
}

async fn lists_are_by_page_labels_project_state_and_node(store: Store) {
    let (acme, project) = fleet::place(&store).await;
    let other = made::project(&acme, "serve");
    put(&store, async |tx| tx.project_insert(&other).await).await.unwrap();
    let (node, _) = fleet::machine(&store, "gpu-1", 0).await;
    let a = Allocation { labels: made::labels([("x", "1")]), ..fleet::allocation(&project, "a") };
    let (b, c) = (fleet::allocation(&project, "b"), fleet::allocation(&other, "c"));
    for allocation in [&a, &b, &c] {
        request(&store, allocation).await.unwrap();
    }
    let placed = Allocation { state: AllocationState::Placing, node_id: Some(node), ..b.clone() };
    let placed = fleet::moved(&store, &b, placed).await;
    assert_eq!(placed.node_name.as_deref(), Some("gpu-1"));
    let list = async |page: Page, labels: &str, filter: AllocationFilter| {
        let found = store.allocation_list(page, &made::selector(labels), filter).await.unwrap();
        found.into_iter().map(|allocation| allocation.name).collect::<String>()
    };
    let all = AllocationFilter::default();
    let of = |project: ProjectId| AllocationFilter { project: Some(project), ..all };
    assert_eq!(list(FIRST, "", all).await, "abc");
    assert_eq!(list(Page { size: 2, ..FIRST }, "", all).await, "ab");
    assert_eq!(list(made::page(a.id, 9), "", all).await, "bc");
    assert_eq!(list(FIRST, "", of(project.id)).await, "ab");
    assert_eq!(list(FIRST, "x=1", of(project.id)).await, "a");
    assert_eq!(list(FIRST, "x!=1", of(project.id)).await, "b");
    assert_eq!(list(FIRST, "", of(made::id())).await, "");
    let requested = AllocationFilter { state: Some(AllocationState::Requested), ..all };
    assert_eq!(list(FIRST, "", requested).await, "ac");
    assert_eq!(list(FIRST, "", AllocationFilter { node: Some(node), ..all }).await, "b");
    assert_eq!(list(FIRST, "", AllocationFilter { node: Some(node), ..requested }).await, "");
}

async fn a_move_is_from_what_was_seen_to_what_can_come_of_it(store: Store) {
    let (_, project) = fleet::place(&store).await;
    let (node, _) = fleet::machine(&store, "gpu-1", 0).await;
    let seen = fleet::requested(&store, &project, "a").await;
    let active = Allocation { state: AllocationState::Active, ..seen.clone() };
    made::is_conflict(step(&store, &seen, &active).await);
    let placing = Allocation {
        state: AllocationState::Placing,
        node_id: Some(node),
        incarnation: 1,
        held: fleet::capacity(1, 2, 3, 4),
        capacity: fleet::capacity(5, 6, 7, 8),
        reason: Some(FailureReason::NodeUnreachable),
        message: Some("nobody hears it".to_owned()),
        operation_id: Some(made::id()),
        ..seen.clone()
    };
    step(&store, &seen, &placing).await.unwrap();
    let expected =
        Allocation { node_name: Some("gpu-1".to_owned()), version: 2, updated_at: at(9), ..placing.clone() };
    same(&stored(&store, seen.id).await, &expected);
    // A caller with the earlier row changes nothing.
    made::is_stale(step(&store, &seen, &placing).await);
    made::is_stale(step(&store, &Allocation { version: 3, ..placing.clone() }, &placing).await);
    made::is_stale(
        step(
            &store,
            &Allocation { id: made::id(), ..expected.clone() },
            &Allocation { id: made::id(), ..placing },
        )
        .await,
    );
    same(&stored(&store, seen.id).await, &expected);
    let nowhere = Allocation { node_id: Some(made::id()), ..expected.clone() };
    made::is_gone(step(&store, &expected, &nowhere).await);
}

async fn its_timeline_has_each_state_once_and_why(store: Store) {
    let (_, project) = fleet::place(&store).await;
    let asked = fleet::requested(&store, &project, "a").await;
    let other = fleet::requested(&store, &project, "b").await;
    let operation = made::id();
    let placing =
        Allocation { state: AllocationState::Placing, operation_id: Some(operation), ..asked.clone() };
    let placing = fleet::moved(&store, &asked, placing).await;
    let same_state = fleet::moved(&store, &placing, Allocation { incarnation: 1, ..placing.clone() }).await;
    let failed = Allocation {
        state: AllocationState::Failed,
        reason: Some(FailureReason::WaitExpired),
        ..same_state.clone()
    };
    fleet::moved(&store, &same_state, failed).await;
    let phases = store.phase_list(asked.id).await.unwrap();
    let told: Vec<_> = phases
        .iter()
        .map(|phase| (phase.state.as_str(), phase.operation_id, phase.reason.as_deref(), phase.at))
        .collect();
    let expected = [
        ("requested", None, None, at(0)),
        ("placing", Some(operation), None, at(9)),
        ("failed", Some(operation), Some("wait_expired"), at(9)),
    ];
    assert_eq!(told, expected);
    assert_eq!(store.phase_list(other.id).await.unwrap().len(), 1);
    assert!(store.phase_list(made::id()).await.unwrap().is_empty());
}

async fn nothing_is_active_or_released_without_evidence_about_itself(store: Store) {
    let (_, project) = fleet::place(&store).await;
    let (a, b) =
        (fleet::requested(&store, &project, "a").await, fleet::requested(&store, &project, "b").await);
    let there = fleet::witnessed(&store, a.id.uuid(), Transition::Active).await;
    let anothers = fleet::witnessed(&store, b.id.uuid(), Transition::Active).await;
    let provisioning = through(&store, a, &[AllocationState::Placing, AllocationState::Provisioning]).await;
    let active = |witness| Allocation {
        state: AllocationState::Active,
        active_witness_id: witness,
        ..provisioning.clone()
    };
    made::is_conflict(step(&store, &provisioning, &active(None)).await);
    made::is_gone(step(&store, &provisioning, &active(Some(made::id()))).await);
    made::is_gone(step(&store, &provisioning, &active(Some(anothers.id))).await);
    // Evidence for another transition, and an attestation where only verification counts.
    let gone = fleet::witnessed(&store, provisioning.id.uuid(), Transition::Destroyed).await;
    made::is_gone(step(&store, &provisioning, &active(Some(gone.id))).await);
    let word = Witness {
        kind: WitnessKind::Attested,
        actor_id: Some("usr_1".to_owned()),
        ..fleet::witness(provisioning.id.uuid(), Transition::Active)
    };
    put(&store, async |tx| tx.witness_insert(&word).await).await.unwrap();
    made::is_gone(step(&store, &provisioning, &active(Some(word.id))).await);
    let active = fleet::moved(&store, &provisioning, active(Some(there.id))).await;
    assert_eq!(active.active_witness_id, Some(there.id));

    let releasing = through(&store, active, &[AllocationState::Releasing]).await;
    let wiped = fleet::witnessed(&store, releasing.id.uuid(), Transition::Wiped).await;
    let released = |witness| Allocation {
        state: AllocationState::Released,
        wiped_witness_id: witness,
        ..releasing.clone()
    };
    made::is_conflict(step(&store, &releasing, &released(None)).await);
    made::is_gone(step(&store, &releasing, &released(Some(anothers.id))).await);
    made::is_gone(step(&store, &releasing, &released(Some(there.id))).await);
    step(&store, &releasing, &released(Some(wiped.id))).await.unwrap();
    assert_eq!(stored(&store, releasing.id).await.state, AllocationState::Released);
}

async fn nothing_that_is_over_holds_anything(store: Store) {
    let (_, project) = fleet::place(&store).await;
    let asked = fleet::requested(&store, &project, "a").await;
    for held in [
        fleet::capacity(1, 0, 0, 0),
        fleet::capacity(0, 1, 0, 0),
        fleet::capacity(0, 0, 1, 0),
        fleet::capacity(0, 0, 0, 1),
    ] {
        let failed = Allocation { state: AllocationState::Failed, held, ..asked.clone() };
        made::is_conflict(step(&store, &asked, &failed).await);
    }
    let negative = Allocation { held: fleet::capacity(-1, 1, 0, 0), ..asked.clone() };
    made::is_conflict(step(&store, &asked, &negative).await);
    let failed = Allocation { state: AllocationState::Failed, held: Capacity::default(), ..asked.clone() };
    step(&store, &asked, &failed).await.unwrap();
}

async fn its_owner_changes_it_on_the_version_that_was_seen(store: Store) {
    let (_, project) = fleet::place(&store).await;
    let (asked, other) =
        (fleet::requested(&store, &project, "a").await, fleet::requested(&store, &project, "b").await);
    let changed = Allocation {
        labels: made::labels([("x", "y")]),
        expires_at: Some(at(60)),
        protected: true,
        updated_at: at(5),
        version: 2,
        ..asked.clone()
    };
    let update =
        async |allocation: &Allocation| put(&store, async |tx| tx.allocation_update(allocation).await).await;
    update(&changed).await.unwrap();
    same(&stored(&store, asked.id).await, &changed);
    made::is_stale(update(&changed).await);
    made::is_stale(update(&Allocation { id: made::id(), ..changed.clone() }).await);
    // The owner cannot change the columns that the engine decides on.
    let more = Allocation { state: AllocationState::Active, incarnation: 7, version: 3, ..changed.clone() };
    update(&more).await.unwrap();
    same(&stored(&store, asked.id).await, &Allocation { version: 3, ..changed });
    same(&stored(&store, other.id).await, &other);
}

async fn live_allocations_of_a_node_are_listed(store: Store) {
    let (_, project) = fleet::place(&store).await;
    let (node, _) = fleet::machine(&store, "gpu-1", 0).await;
    let mut here = Vec::new();
    for name in ["a", "b", "c"] {
        let asked = fleet::requested(&store, &project, name).await;
        let placing = Allocation { state: AllocationState::Placing, node_id: Some(node), ..asked.clone() };
        here.push(fleet::moved(&store, &asked, placing).await);
    }
    fleet::requested(&store, &project, "d").await;
    through(&store, here[1].clone(), &[AllocationState::Failed]).await;
    same(&store.allocation_live_on(node).await.unwrap(), &[&here[0], &here[2]]);
    assert!(store.allocation_live_on(made::id()).await.unwrap().is_empty());
}

async fn expired_allocations_are_listed_oldest_first(store: Store) {
    let (_, project) = fleet::place(&store).await;
    let expiring = async |name: &str, expires_at: Option<i64>, live: bool| {
        let asked = Allocation { expires_at: expires_at.map(at), ..fleet::allocation(&project, name) };
        request(&store, &asked).await.unwrap();
        if live {
            let states = [AllocationState::Placing, AllocationState::Provisioning];
            let before = through(&store, asked.clone(), &states).await;
            let witness = fleet::witnessed(&store, asked.id.uuid(), Transition::Active).await;
            let after = Allocation {
                state: AllocationState::Active,
                active_witness_id: Some(witness.id),
                ..before.clone()
            };
            step(&store, &before, &after).await.unwrap();
        }
        asked.id
    };
    let late = expiring("late", Some(30), true).await;
    let early = expiring("early", Some(20), true).await;
    expiring("never", None, true).await;
    expiring("asked-for", Some(10), false).await;
    assert!(store.allocation_expired(at(19)).await.unwrap().is_empty());
    assert_eq!(store.allocation_expired(at(20)).await.unwrap(), [early]);
    assert_eq!(store.allocation_expired(at(40)).await.unwrap(), [early, late]);
}

async fn an_owner_is_warned_twice_and_again_of_another_expiry(store: Store) {
    let (_, project) = fleet::place(&store).await;
    let made = Allocation { expires_at: Some(at(100)), ..fleet::allocation(&project, "warned") };
    request(&store, &made).await.unwrap();
    let before = through(&store, made, &[AllocationState::Placing, AllocationState::Provisioning]).await;
    let witness = fleet::witnessed(&store, before.id.uuid(), Transition::Active).await;
    let state = AllocationState::Active;
    step(&store, &before, &Allocation { state, active_witness_id: Some(witness.id), ..before.clone() })
        .await
        .unwrap();
    let made = stored(&store, before.id).await;
    let due = async |now: i64| {
        let (now, hour) = (at(now), jiff::SignedDuration::from_secs(60));
        let ten = jiff::SignedDuration::from_secs(10);
        store.allocation_expiring(now, now + hour, now + ten).await.unwrap()
    };
    let warned = async |warnings: i64, expiry: i64| {
        put(&store, async |tx| tx.allocation_warned(made.id, warnings, at(expiry)).await).await
    };
    assert!(due(39).await.is_empty());
    assert_eq!(due(40).await, [(made.id, at(100))]);
    warned(1, 100).await.unwrap();
    made::is_stale(warned(1, 100).await);
    assert!(due(89).await.is_empty(), "the first was given");
    assert_eq!(due(90).await, [(made.id, at(100))]);
    warned(2, 100).await.unwrap();
    assert!(due(99).await.is_empty(), "both were given");
    assert!(due(100).await.is_empty(), "it is over");
    // A new expiry resets the warnings; the same expiry does not.
    let later = Allocation { expires_at: Some(at(200)), version: made.version + 1, ..made.clone() };
    put(&store, async |tx| tx.allocation_update(&later).await).await.unwrap();
    assert_eq!(due(150).await, [(made.id, at(200))]);
    made::is_stale(warned(1, 100).await);
    warned(2, 200).await.unwrap();
    let same = Allocation { version: later.version + 1, ..later };
    put(&store, async |tx| tx.allocation_update(&same).await).await.unwrap();
    assert!(due(195).await.is_empty());
}

async fn older_queued_request_asking_for_no_more_goes_first(store: Store) {
    let (_, project) = fleet::place(&store).await;
    let waiting = async |name: &str, capacity: Capacity, shape: AllocationShape| {
        let asked = Allocation { capacity, shape, ..fleet::allocation(&project, name) };
        request(&store, &asked).await.unwrap();
        through(&store, asked, &[AllocationState::Placing]).await
    };
    let slice = AllocationShape::GpuSlice;
    let large = waiting("large", fleet::capacity(4, 4, 4, 4), slice).await;
    let small = waiting("small", fleet::capacity(1, 4, 4, 4), slice).await;
    let alone = waiting("alone", fleet::capacity(0, 1, 1, 0), AllocationShape::Baremetal).await;
    let before = async |allocation: &Allocation| store.queue_position(allocation.id).await.unwrap();
    assert_eq!([before(&large).await, before(&small).await, before(&alone).await], [0, 1, 2]);

    let yields = async |capacity: Capacity, shape: AllocationShape| {
        let asked = Allocation { capacity, shape, ..fleet::allocation(&project, "x") };
        store.queue_yield_to(&asked).await.unwrap()
    };
    assert_eq!(yields(fleet::capacity(4, 4, 4, 4), slice).await, Some(large.id));
    assert_eq!(yields(fleet::capacity(1, 4, 4, 4), slice).await, Some(small.id));
    assert_eq!(yields(fleet::capacity(8, 3, 8, 8), slice).await, None, "it asks for less of one thing");
    assert_eq!(yields(fleet::capacity(8, 8, 3, 8), slice).await, None);
    assert_eq!(yields(fleet::capacity(8, 8, 8, 3), slice).await, None);
    assert_eq!(yields(fleet::capacity(0, 9, 9, 9), slice).await, None, "a slice fits where no whole node is");
    let whole = yields(fleet::capacity(0, 9, 9, 9), AllocationShape::Baremetal).await;
    assert_eq!(whole, Some(alone.id));
    assert_eq!(store.queue_yield_to(&large).await.unwrap(), None, "nobody waits longer");
    assert_eq!(store.queue_yield_to(&small).await.unwrap(), None);
}

async fn history_goes_with_its_project_and_what_lives_keeps_it(store: Store) {
    let (acme, project) = fleet::place(&store).await;
    let other = made::project(&acme, "serve");
    put(&store, async |tx| tx.project_insert(&other).await).await.unwrap();
    let (node, slots) = fleet::machine(&store, "gpu-1", 1).await;
    let over = fleet::requested(&store, &project, "a").await;
    fleet::held(&store, node, over.id, &[slots[0].id]).await;
    fleet::released(&store, node, over.id, 1).await;
    through(&store, over.clone(), &[AllocationState::Failed]).await;
    let kept = failed(&store, &other, "a").await;
    let living = fleet::requested(&store, &project, "b").await;
    let live =
        async || put(&store, async |tx| tx.allocation_live_of_project(project.id).await).await.unwrap();
    let delete = async || {
        put(&store, async |tx| {
            let gone = tx.allocation_delete_of_project(project.id).await?;
            tx.quota_delete_of_project(project.id).await?;
            tx.project_delete(project.id, project.version).await.map(|()| gone)
        })
        .await
    };
    assert_eq!(live().await, 1);
    made::is_gone(delete().await);
    assert!(store.allocation_lookup(over.id).await.unwrap().is_some(), "nothing happened");
    through(&store, living, &[AllocationState::Failed]).await;
    assert_eq!((live().await, delete().await.unwrap()), (0, 2));
    assert!(store.allocation_lookup(over.id).await.unwrap().is_none());
    assert!(store.phase_list(over.id).await.unwrap().is_empty());
    assert!(store.allocation_lookup(kept.id).await.unwrap().is_some(), "another project's is not touched");
    assert_eq!(store.phase_list(kept.id).await.unwrap().len(), 2);
}

async fn history_goes_with_its_tenant_and_what_lives_keeps_it(store: Store) {
    let (acme, project) = fleet::place(&store).await;
    let second = made::project(&acme, "serve");
    let globex = made::tenant("globex");
    let theirs = made::project(&globex, "train");
    put(&store, async |tx| {
        tx.project_insert(&second).await?;
        tx.tenant_insert(&globex).await?;
        tx.project_insert(&theirs).await
    })
    .await
    .unwrap();
    let over = [failed(&store, &project, "a").await, failed(&store, &second, "a").await];
    let kept = failed(&store, &theirs, "a").await;
    let living = fleet::requested(&store, &second, "b").await;
    let live = async || put(&store, async |tx| tx.allocation_live_of_tenant(acme.id).await).await.unwrap();
    assert_eq!(live().await, 1);
    let delete = async || put(&store, async |tx| tx.allocation_delete_of_tenant(acme.id).await).await;
    assert_eq!(delete().await.unwrap(), 2);
    assert_eq!(store.phase_list(living.id).await.unwrap().len(), 1, "what lives keeps its timeline");
    through(&store, living, &[AllocationState::Failed]).await;
    assert_eq!((live().await, delete().await.unwrap()), (0, 1));
    for gone in over {
        assert!(store.allocation_lookup(gone.id).await.unwrap().is_none());
    }
    same(&stored(&store, kept.id).await, &kept);
}
