//! Members: requested, moved with evidence, and the reports on each incarnation.

use muster_db::{MemberFilter, Store};
use muster_ids::TypedId as _;
use muster_model::app::{AppVersion, Audience};
use muster_model::assess::Assessment;
use muster_model::instance::{Health, Instance};
use muster_model::member::{Member, MemberState};
use muster_model::witness::Transition;
use serde_json::json;

use crate::made::catalog::{granted, launched, member, offered, published};
use crate::made::{FIRST, at, fleet, id, is_conflict, is_stale, put, same};

on_both![
    a_member_reads_back_as_it_was_asked_for,
    a_member_moves_on_from_what_was_seen_and_with_evidence,
    members_are_listed_by_component_and_state,
    report_counts_only_for_its_own_incarnation,
    health_of_another_incarnation_is_not_counted,
    free_time_counts_for_one_incarnation_and_can_be_withdrawn,
    a_member_is_found_by_where_it_is,
];

async fn place(store: &Store) -> (Instance, AppVersion) {
    let (_, project) = fleet::place(store).await;
    let app = offered(store, &project, "pool", Audience::Project).await;
    let version = published(store, &app, "1").await;
    let (_, account) = granted(store, &project, &app).await;
    (launched(store, &project, &version, &account, "farm").await, version)
}

async fn changed(store: &Store, before: &Member, change: impl FnOnce(&mut Member)) -> Member {
    let before = store.member_lookup(before.id).await.unwrap().unwrap();
    let mut after = before.clone();
    change(&mut after);
    put(store, async |tx| tx.member_move(&before, &after, at(5)).await).await.unwrap();
    store.member_lookup(before.id).await.unwrap().unwrap()
}

async fn a_member_reads_back_as_it_was_asked_for(store: Store) {
    let (instance, version) = place(&store).await;
    let made = member(&store, &instance, &version, "farm-worker-1").await;
    same(&store.member_by_name(instance.id, "farm-worker-1").await.unwrap().unwrap(), &made);
    same(&store.member_living(instance.id).await.unwrap(), &vec![made.clone()]);
    same(
        &put(&store, async |tx| tx.member_living_now(instance.id).await).await.unwrap(),
        &vec![made.clone()],
    );
    assert!(store.member_by_name(instance.id, "farm-worker-2").await.unwrap().is_none());
    let twin = Member { id: id(), ..made };
    is_conflict(put(&store, async |tx| tx.member_request(&twin).await).await);
}

async fn a_member_moves_on_from_what_was_seen_and_with_evidence(store: Store) {
    let (instance, version) = place(&store).await;
    let made = member(&store, &instance, &version, "farm-worker-1").await;
    let joining = changed(&store, &made, |after| after.state = MemberState::Provisioning).await;
    let joining = changed(&store, &joining, |after| after.state = MemberState::Joining).await;
    is_stale(put(&store, async |tx| tx.member_move(&made, &made, at(6)).await).await);
    let active = Member { state: MemberState::Active, ..joining.clone() };
    assert!(
        put(&store, async |tx| tx.member_move(&joining, &active, at(6)).await).await.is_err(),
        "no evidence"
    );
    let other = fleet::witnessed(&store, id::<muster_ids::MemberId>().uuid(), Transition::Active).await;
    let borrowed = Member { active_witness_id: Some(other.id), ..active.clone() };
    assert!(
        put(&store, async |tx| tx.member_move(&joining, &borrowed, at(6)).await).await.is_err(),
        "another's"
    );
    let own = fleet::witnessed(&store, joining.id.uuid(), Transition::Active).await;
    let seen = Member { active_witness_id: Some(own.id), ..active };
    put(&store, async |tx| tx.member_move(&joining, &seen, at(6)).await).await.unwrap();
    let back = Member { state: MemberState::Requested, ..seen.clone() };
    is_conflict(put(&store, async |tx| tx.member_move(&seen, &back, at(7)).await).await);
}

async fn members_are_listed_by_component_and_state(store: Store) {
    let (instance, version) = place(&store).await;
    member(&store, &instance, &version, "farm-worker-1").await;
    let failed = member(&store, &instance, &version, "farm-worker-2").await;
    changed(&store, &failed, |after| after.state = MemberState::Failed).await;
    let list = async |component: Option<&str>, state| {
        let filter = MemberFilter { component, state };
        store.member_list(FIRST, instance.id, filter).await.unwrap().len()
    };
    assert_eq!(list(None, None).await, 2);
    assert_eq!(list(Some("worker"), Some(MemberState::Failed)).await, 1);
    assert_eq!(list(Some("head"), None).await, 0);
    let counts = store.member_count(instance.id).await.unwrap();
    let told: Vec<_> = counts.iter().map(|count| (count.state, count.count)).collect();
    assert_eq!(told, [(MemberState::Failed, 1), (MemberState::Requested, 1)]);
    let removed = fleet::witnessed(&store, failed.id.uuid(), Transition::Removed).await;
    changed(&store, &failed, |after| {
        after.state = MemberState::Removed;
        after.removed_witness_id = Some(removed.id);
    })
    .await;
    assert_eq!((list(None, None).await, list(None, Some(MemberState::Removed)).await), (1, 1));
}

async fn report_counts_only_for_its_own_incarnation(store: Store) {
    let (instance, version) = place(&store).await;
    let made = member(&store, &instance, &version, "farm-worker-1").await;
    let made = changed(&store, &made, |after| after.incarnation = 2).await;
    let say = async |incarnation, health, message: Option<&str>| {
        let assessed = Assessment::new(health, message, at(7));
        put(&store, async |tx| tx.member_health(made.id, incarnation, &assessed, at(8)).await).await.unwrap()
    };
    assert!(!say(1, Health::Unhealthy, None).await, "that one is over");
    assert!(say(2, Health::Unhealthy, Some("slow")).await);
    assert!(!say(2, Health::Unhealthy, Some("slow")).await, "that is no news");
    assert!(say(2, Health::Unhealthy, Some("slower")).await);
    let now = store.member_lookup(made.id).await.unwrap().unwrap();
    assert_eq!(
        (now.health, now.health_incarnation, now.health_message.as_deref()),
        (Health::Unhealthy, 2, Some("slower"))
    );
    let detail = async |incarnation, detail| {
        put(&store, async |tx| tx.member_detail(made.id, incarnation, detail, at(9)).await).await.unwrap()
    };
    assert!(!detail(1, json!({"a": 1})).await);
    assert!(detail(2, json!({"a": 1})).await);
    assert!(!detail(2, json!({"a": 1})).await);
}

async fn free_time_counts_for_one_incarnation_and_can_be_withdrawn(store: Store) {
    let (instance, version) = place(&store).await;
    let made = member(&store, &instance, &version, "farm-worker-1").await;
    let made = changed(&store, &made, |after| after.incarnation = 2).await;
    let say = async |incarnation, free| {
        put(&store, async |tx| tx.member_free(made.id, incarnation, free).await).await.unwrap()
    };
    let now = async || store.member_lookup(made.id).await.unwrap().unwrap();
    assert!(!say(1, Some(at(60))).await, "that one is over");
    assert_eq!(now().await.free_at, None);
    assert!(say(2, Some(at(60))).await);
    assert_eq!((now().await.free_at, now().await.version), (Some(at(60)), made.version));
    let moved = changed(&store, &made, |after| after.state = MemberState::Provisioning).await;
    assert_eq!(moved.free_at, Some(at(60)), "what moves a member on does not touch it");
    assert!(say(2, None).await);
    assert_eq!(now().await.free_at, None);
    assert!(say(2, Some(at(60))).await);
    let anew = changed(&store, &made, |after| after.incarnation = 3).await;
    assert_eq!(anew.free_at, None, "it was said of the cell before");
}

async fn health_of_another_incarnation_is_not_counted(store: Store) {
    let (instance, version) = place(&store).await;
    let made = member(&store, &instance, &version, "farm-worker-1").await;
    let broken = Assessment::new(Health::Unhealthy, None, at(8));
    put(&store, async |tx| tx.member_health(made.id, 0, &broken, at(8)).await).await.unwrap();
    assert_eq!(store.member_count(instance.id).await.unwrap()[0].health, Health::Unhealthy);
    let anew = changed(&store, &made, |after| after.incarnation = 1).await;
    assert_eq!(store.member_count(instance.id).await.unwrap()[0].health, Health::Unknown);
    assert_eq!(anew.known_health(), Health::Unknown);
}

async fn a_member_is_found_by_where_it_is(store: Store) {
    let (instance, version) = place(&store).await;
    let made = member(&store, &instance, &version, "farm-worker-1").await;
    let nowhere = store.member_places(instance.id).await.unwrap();
    assert_eq!((nowhere.len(), nowhere[0].member_id), (1, made.id));
    assert!(nowhere[0].node_id.is_none() && nowhere[0].capacity.is_none() && nowhere[0].host.is_none());
    let project = store.project_lookup(instance.project_id).await.unwrap().unwrap();
    let (node, _) = fleet::machine(&store, "one", 1).await;
    let allocation = fleet::requested(&store, &project, "a").await;
    let mut placed = allocation.clone();
    placed.node_id = Some(node);
    placed.state = muster_model::allocation::AllocationState::Placing;
    fleet::moved(&store, &allocation, placed).await;
    changed(&store, &made, |after| after.allocation_id = Some(allocation.id)).await;
    let there = store.member_places(instance.id).await.unwrap().remove(0);
    assert_eq!(there.node_id, Some(node));
    let wanted = allocation.capacity;
    assert_eq!(there.capacity, Some((wanted.gpus, wanted.cpus, wanted.memory_mb)));
    assert_eq!(store.member_in(allocation.id).await.unwrap().len(), 1);
    assert_eq!(store.member_on(node).await.unwrap().len(), 1);
    assert!(store.member_attested(instance.id).await.unwrap().is_none());
}
