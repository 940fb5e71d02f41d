//! Evidence.

use muster_db::Store;
use muster_model::witness::{Transition, Witness, WitnessKind};

use crate::made::{self, at, fleet, put, same, uuid};

on_both![
    evidence_reads_back_as_it_was_kept,
    all_evidence_about_a_subject_is_listed_oldest_first,
    attested_evidence_alone_names_an_actor,
];

async fn evidence_reads_back_as_it_was_kept(store: Store) {
    let seen = fleet::witness(uuid(), Transition::Active);
    let word = Witness {
        kind: WitnessKind::Attested,
        actor_id: Some("usr_1".to_owned()),
        operation_id: None,
        node_id: None,
        task_id: None,
        ..fleet::witness(uuid(), Transition::Wiped)
    };
    for witness in [&seen, &word] {
        put(&store, async |tx| tx.witness_insert(witness).await).await.unwrap();
        same(&store.witness_lookup(witness.id).await.unwrap(), &Some(witness.clone()));
    }
    assert!(store.witness_lookup(made::id()).await.unwrap().is_none());
    made::is_conflict(put(&store, async |tx| tx.witness_insert(&seen).await).await);
}

async fn all_evidence_about_a_subject_is_listed_oldest_first(store: Store) {
    let thing = uuid();
    let mut all =
        Transition::ALL.iter().map(|transition| fleet::witness(thing, *transition)).collect::<Vec<_>>();
    all[0].at = at(9);
    all[3].at = at(1);
    for witness in &all {
        put(&store, async |tx| tx.witness_insert(witness).await).await.unwrap();
    }
    fleet::witnessed(&store, uuid(), Transition::Destroyed).await;
    let mut listed: Vec<_> = all.iter().collect();
    listed.sort_by_key(|witness| (witness.at, witness.id));
    assert_eq!((listed[0].id, listed[all.len() - 1].id), (all[3].id, all[0].id));
    same(&store.witness_list(thing).await.unwrap(), &listed);
    assert!(store.witness_list(uuid()).await.unwrap().is_empty());
}

async fn attested_evidence_alone_names_an_actor(store: Store) {
    let seen = fleet::witness(uuid(), Transition::Wiped);
    let by = Some("usr_1".to_owned());
    for strange in
        [Witness { actor_id: by, ..seen.clone() }, Witness { kind: WitnessKind::Attested, ..seen.clone() }]
    {
        made::is_conflict(put(&store, async |tx| tx.witness_insert(&strange).await).await);
    }
}
