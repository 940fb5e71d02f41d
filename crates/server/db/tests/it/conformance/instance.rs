//! Instances and their components: requested, updated, reconciled on schedule.

use muster_db::{InstanceFilter, Store};
use muster_ids::TypedId as _;
use muster_model::app::Audience;
use muster_model::instance::{Component, Health, Instance, InstanceState};
use muster_model::member::{Member, MemberState};
use muster_model::node::Capacity;
use muster_model::witness::Transition;

use crate::made::catalog::{granted, launched, member, offered, published};
use crate::made::{FIRST, at, fleet, id, is_conflict, is_gone, is_stale, put, same, selector};

on_both![
    an_instance_reads_back_as_it_was_asked_for,
    a_name_is_taken_as_long_as_its_instance_lives,
    a_failed_instance_that_left_nothing_frees_its_name,
    an_instance_in_quarantine_frees_its_name_and_keeps_its_members_names,
    an_instance_moves_on_from_what_was_seen,
    instances_are_listed_by_state_and_labels,
    an_instance_expires_unless_it_is_protected,
    an_instance_that_is_due_is_taken_once,
    reconcile_request_only_advances_an_existing_schedule_and_survives_a_run,
    that_a_member_left_unseen_is_known_and_looked_into,
    health_and_topology_are_written_only_where_they_change,
    a_component_counts_what_is_wanted_and_numbers_names,
];

async fn instance(store: &Store) -> Instance {
    let (_, project) = fleet::place(store).await;
    let app = offered(store, &project, "pool", Audience::Project).await;
    let version = published(store, &app, "1").await;
    let (_, account) = granted(store, &project, &app).await;
    launched(store, &project, &version, &account, "farm").await
}

async fn stored(store: &Store, instance: &Instance) -> Instance {
    store.instance_lookup(instance.id).await.unwrap().unwrap()
}

async fn changed(store: &Store, instance: &Instance, change: impl FnOnce(&mut Instance)) -> Instance {
    let before = stored(store, instance).await;
    let mut after = before.clone();
    change(&mut after);
    put(store, async |tx| tx.instance_move(&before, &after, at(5)).await).await.unwrap();
    stored(store, instance).await
}

async fn an_instance_reads_back_as_it_was_asked_for(store: Store) {
    let asked = instance(&store).await;
    let found = stored(&store, &asked).await;
    assert_eq!(found.app, "pool", "the app's slug is looked up");
    same(&Instance { app: String::new(), ..found.clone() }, &asked);
    same(&store.instance_by_name(asked.project_id, "farm").await.unwrap().unwrap(), &found);
    assert!(store.instance_by_name(asked.project_id, "barn").await.unwrap().is_none());
    let now = put(&store, async |tx| tx.instance_now(asked.id).await).await.unwrap().unwrap();
    same(&now, &found);
}

async fn a_name_is_taken_as_long_as_its_instance_lives(store: Store) {
    let first = instance(&store).await;
    let second = Instance { id: id(), ..first.clone() };
    is_conflict(put(&store, async |tx| tx.instance_request(&second).await).await);
    crate::made::catalog::stopped(&store, &first).await;
    put(&store, async |tx| tx.instance_request(&second).await).await.unwrap();
    let found = store.instance_by_name(first.project_id, "farm").await.unwrap().unwrap();
    assert_eq!(found.id, second.id, "the one that lives");
}

async fn a_failed_instance_that_left_nothing_frees_its_name(store: Store) {
    let first = instance(&store).await;
    let version = store.app_version_of_instance(first.app_version_id).await.unwrap().unwrap();
    let member = member(&store, &first, &version, "farm-worker-1").await;
    let free = async || put(&store, async |tx| tx.instance_free_name(&first, at(7)).await).await.unwrap();
    assert!(!free().await, "it lives");
    changed(&store, &first, |after| after.state = InstanceState::Failed).await;
    assert!(!free().await, "a member of it is left");
    let second = Instance { id: id(), network_id: id(), ..first.clone() };
    let launch = async || {
        put(&store, async |tx| {
            let (tenant, project) = (second.tenant_id, second.project_id);
            let network = tx.network_ensure(second.network_id, tenant, project, "farm", at(7)).await?;
            tx.instance_request(&Instance { network_id: network.id, ..second.clone() }).await
        })
        .await
    };
    is_conflict(launch().await);
    let removed = Transition::Removed;
    let witness = fleet::witnessed(&store, member.id.uuid(), removed).await;
    for state in [MemberState::Failed, MemberState::Removing, MemberState::Removed] {
        let before = store.member_lookup(member.id).await.unwrap().unwrap();
        let after = Member { state, removed_witness_id: Some(witness.id), ..before.clone() };
        put(&store, async |tx| tx.member_move(&before, &after, at(7)).await).await.unwrap();
    }
    assert!(free().await);
    assert!(!free().await, "once");
    let found = async || store.instance_by_name(first.project_id, "farm").await.unwrap().unwrap();
    assert_eq!(found().await.id, first.id, "until another has the name");
    assert!(store.instance_with_name(first.project_id, "farm").await.unwrap().is_none());
    launch().await.unwrap();
    let second = found().await;
    assert_ne!((second.id, second.network_id), (first.id, first.network_id), "a network of its own");
    assert_eq!(store.instance_with_name(first.project_id, "farm").await.unwrap().unwrap().id, second.id);
    let network = store.network_lookup(first.network_id).await.unwrap().unwrap();
    assert_eq!(network.name, first.id.to_string());
}

async fn an_instance_in_quarantine_frees_its_name_and_keeps_its_members_names(store: Store) {
    let first = instance(&store).await;
    let version = store.app_version_of_instance(first.app_version_id).await.unwrap().unwrap();
    let member = member(&store, &first, &version, "farm-worker-1").await;
    let free = async || {
        put(&store, async |tx| tx.instance_free_name_of_quarantined(&first, at(7)).await).await.unwrap()
    };
    let last = async |key: &str| {
        put(&store, async |tx| tx.component_last_ordinal(first.project_id, "farm", key).await).await.unwrap()
    };
    assert!(!free().await, "it lives");
    changed(&store, &first, |after| after.state = InstanceState::Stopping).await;
    assert!(!free().await, "a member of it is not on its way out");
    let before = store.member_lookup(member.id).await.unwrap().unwrap();
    let removing = Member { state: MemberState::Removing, ..before.clone() };
    put(&store, async |tx| tx.member_move(&before, &removing, at(7)).await).await.unwrap();
    let counted = put(&store, async |tx| {
        tx.component_ensure(first.id, "worker").await?;
        tx.component_change_desired(first.id, "worker", 0, 3).await
    });
    let counted = counted.await.unwrap();
    assert_eq!(last("worker").await, 0, "the name is its own");
    assert!(free().await);
    assert!(!free().await, "once");
    assert_eq!((last("worker").await, last("other").await), (counted.last_ordinal, 0));
    assert!(store.instance_with_name(first.project_id, "farm").await.unwrap().is_none());
    assert_eq!(store.instance_by_name(first.project_id, "farm").await.unwrap().unwrap().id, first.id);
    let network = store.network_lookup(first.network_id).await.unwrap().unwrap();
    assert_eq!(network.name, first.id.to_string());
}

async fn an_instance_moves_on_from_what_was_seen(store: Store) {
    let asked = instance(&store).await;
    let before = stored(&store, &asked).await;
    let starting = Instance { state: InstanceState::Starting, ..before.clone() };
    put(&store, async |tx| tx.instance_move(&before, &starting, at(5)).await).await.unwrap();
    is_stale(put(&store, async |tx| tx.instance_move(&before, &starting, at(6)).await).await);
    let now = stored(&store, &asked).await;
    assert_eq!((now.state, now.version, now.updated_at), (InstanceState::Starting, 2, at(5)));
    let back = Instance { state: InstanceState::Created, ..now.clone() };
    is_conflict(put(&store, async |tx| tx.instance_move(&now, &back, at(6)).await).await);
    // An attestation is not enough for a running instance.
    let runs = Instance { state: InstanceState::Running, ..now.clone() };
    assert!(put(&store, async |tx| tx.instance_move(&now, &runs, at(6)).await).await.is_err());
}

async fn instances_are_listed_by_state_and_labels(store: Store) {
    let asked = instance(&store).await;
    changed(&store, &asked, |after| after.labels = crate::made::labels([("team", "ml")])).await;
    let list = async |labels: &str, state| {
        let filter = InstanceFilter { state };
        store.instance_list(FIRST, &selector(labels), asked.project_id, filter).await.unwrap().len()
    };
    assert_eq!(list("", None).await, 1);
    assert_eq!(list("team=ml", Some(InstanceState::Created)).await, 1);
    assert_eq!(list("team=web", None).await, 0);
    assert_eq!(list("", Some(InstanceState::Running)).await, 0);
}

async fn an_instance_expires_unless_it_is_protected(store: Store) {
    let asked = instance(&store).await;
    changed(&store, &asked, |after| after.expires_at = Some(at(50))).await;
    let expired = async |seconds| store.instance_expired(at(seconds), 10).await.unwrap().len();
    assert_eq!((expired(49).await, expired(50).await), (0, 1));
    changed(&store, &asked, |after| after.protected = true).await;
    assert_eq!(expired(50).await, 0);
}

async fn an_instance_that_is_due_is_taken_once(store: Store) {
    let asked = instance(&store).await;
    let account = asked.operator_account_id;
    assert!(!store.instance_reconcile_any(account, at(100)).await.unwrap(), "nobody looks at it");
    changed(&store, &asked, |after| after.reconcile_due_at = Some(at(50))).await;
    assert!(!store.instance_reconcile_any(account, at(49)).await.unwrap());
    assert!(store.instance_reconcile_any(account, at(50)).await.unwrap());
    assert_eq!(store.instance_reconcile_accounts(at(50)).await.unwrap(), [account]);
    let take = async |seconds, until| {
        put(&store, async |tx| tx.instance_reconcile_take(account, at(seconds), at(until), 10).await)
            .await
            .unwrap()
    };
    let taken = take(50, 200).await;
    assert_eq!((taken.len(), taken[0].id, taken[0].app.as_str()), (1, asked.id, "pool"));
    assert!(take(60, 300).await.is_empty());
    assert!(store.instance_reconcile_accounts(at(60)).await.unwrap().is_empty());
    put(&store, async |tx| tx.instance_reconciled(asked.id, at(70), at(90)).await).await.unwrap();
    let now = stored(&store, &asked).await;
    assert_eq!((now.reconciled_at, now.reconcile_due_at), (Some(at(70)), Some(at(90))));
}

async fn reconcile_request_only_advances_an_existing_schedule_and_survives_a_run(store: Store) {
    let asked = instance(&store).await;
    let suspect = async |seconds| {
        put(&store, async |tx| tx.instance_schedule_reconcile(asked.id, at(seconds)).await).await.unwrap()
    };
    let looked = async |seconds, next| {
        put(&store, async |tx| tx.instance_reconciled(asked.id, at(seconds), at(next)).await).await.unwrap();
    };
    let due = async || stored(&store, &asked).await.reconcile_due_at;
    suspect(10).await;
    looked(10, 20).await;
    assert_eq!(due().await, None, "it is not looked at");
    changed(&store, &asked, |after| after.reconcile_due_at = Some(at(500))).await;
    suspect(30).await;
    suspect(40).await;
    assert_eq!(due().await, Some(at(30)), "only ever sooner");
    looked(35, 95).await;
    assert_eq!(due().await, Some(at(30)), "it came while somebody looked");
}

async fn that_a_member_left_unseen_is_known_and_looked_into(store: Store) {
    let asked = instance(&store).await;
    assert_eq!(store.instance_unwitnessed_at(asked.id).await.unwrap(), None);
    let asked = changed(&store, &asked, |after| after.reconcile_due_at = Some(at(500))).await;
    for seconds in [30, 40] {
        put(&store, async |tx| tx.instance_unwitnessed(asked.id, at(seconds)).await).await.unwrap();
        assert_eq!(store.instance_unwitnessed_at(asked.id).await.unwrap(), Some(at(seconds)));
    }
    let now = stored(&store, &asked).await;
    assert_eq!((now.reconcile_due_at, now.version), (Some(at(30)), asked.version));
}

async fn health_and_topology_are_written_only_where_they_change(store: Store) {
    let asked = instance(&store).await;
    let health = async |health| {
        put(&store, async |tx| tx.instance_health(asked.id, health, Some("slow"), at(7)).await).await.unwrap()
    };
    assert!(health(Health::Degraded).await);
    assert!(!health(Health::Degraded).await);
    let mode = async |mode: &str| {
        put(&store, async |tx| tx.instance_topology(asked.id, mode, at(8)).await).await.unwrap()
    };
    assert!(mode("star").await && !mode("star").await);
    put(&store, async |tx| tx.instance_repaired(asked.id, &[at(1), at(2)], at(9)).await).await.unwrap();
    let now = stored(&store, &asked).await;
    assert_eq!((now.health, now.topology_mode.as_deref(), now.version), (Health::Degraded, Some("star"), 4));
    assert_eq!((now.health_message.as_deref(), now.health_since), (Some("slow"), Some(at(7))));
    assert_eq!(now.repairs, [at(1), at(2)]);
}

async fn a_component_counts_what_is_wanted_and_numbers_names(store: Store) {
    let asked = instance(&store).await;
    let worker = Component {
        instance_id: asked.id,
        key: "worker".to_owned(),
        desired: 2,
        last_ordinal: 2,
        capacity: None,
        allocation_id: None,
    };
    put(&store, async |tx| {
        tx.component_request(&worker).await?;
        tx.component_ensure(asked.id, "worker").await?;
        tx.component_ensure(asked.id, "head").await
    })
    .await
    .unwrap();
    let want = async |key: &str, more, ordinals| {
        put(&store, async |tx| tx.component_change_desired(asked.id, key, more, ordinals).await).await
    };
    let wanted = want("worker", 3, 3).await.unwrap();
    assert_eq!((wanted.desired, wanted.last_ordinal), (5, 5));
    let fewer = want("worker", -5, 0).await.unwrap();
    assert_eq!((fewer.desired, fewer.last_ordinal), (0, 5), "a name is never used again");
    assert!(want("worker", -1, 0).await.is_err(), "fewer than none");
    is_gone(want("cook", 1, 1).await);
    let capacity = Capacity { cpus: 4, ..Capacity::default() };
    put(&store, async |tx| tx.component_place(asked.id, "head", Some(capacity), None).await).await.unwrap();
    let all = store.component_list(asked.id).await.unwrap();
    assert_eq!((all[0].key.as_str(), all[0].desired, all[0].capacity), ("head", 0, Some(capacity)));
    assert_eq!(all[1].key, "worker");
    same(&put(&store, async |tx| tx.component_list_now(asked.id).await).await.unwrap(), &all);
    // Operations with a lock on an instance are found by its id, exclusive or shared.
    let operation = fleet::operation(id::<muster_ids::MemberId>().uuid(), &[asked.id.uuid()]);
    let opened = fleet::opened(&store, operation).await;
    let touching = store.operations_locking(asked.id.uuid()).await.unwrap();
    assert_eq!(touching.iter().map(|one| one.id).collect::<Vec<_>>(), [opened.id]);
    let now = put(&store, async |tx| tx.operations_locking_now(asked.id.uuid()).await).await.unwrap();
    assert_eq!(now.len(), 1);
}
