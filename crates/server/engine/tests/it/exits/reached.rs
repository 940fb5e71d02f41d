//! States that the walks reached, and those that they have to reach.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use muster_db::{MemberFilter, Page};
use muster_ids::{InstanceId, TypedId as _};
use muster_model::instance::InstanceState;
use muster_model::member::{Member, MemberState};
use muster_model::operation::OperationState;

use crate::rig::Rig;

/// An instance, one of its members, and an operation on either.
pub(super) type Combination = (InstanceState, MemberState, OperationState);

/// States of the enums that no walk can reach, each with the reason. None today.
const UNREACHABLE: &[(&str, &str)] = &[];

/// Number of walks that must have reached a combination before it becomes part of the golden set: the others depend on a
/// single sequence of random events, and would come and go with every change of timing.
const OFTEN: usize = 4;

/// Combinations, and the seeds of the walks that reached them.
#[derive(Debug, Default)]
pub(super) struct Reached(BTreeMap<Combination, BTreeSet<u64>>);

impl Reached {
    /// Notes the states of an instance and its members beside those of the operations that are open on them.
    pub(super) async fn note_open(&mut self, rig: &Rig, id: InstanceId, seed: u64) {
        let instance = rig.app_instance(id).await.state;
        let on_instance = rig.store.operation_open_on(id.uuid()).await.unwrap();
        for member in rig.store.member_living(id).await.unwrap() {
            let on_member = rig.store.operation_open_on(member.id.uuid()).await.unwrap();
            for operation in on_instance.iter().chain(&on_member) {
                self.note((instance, member.state, operation.state), seed);
            }
        }
    }

    /// Likewise, beside those that have ended.
    pub(super) async fn note_ended(&mut self, rig: &Rig, id: InstanceId, seed: u64) {
        let (instance, members) = members_of(rig, id).await;
        let all = super::walk::operations(rig).await;
        let ended = || all.iter().filter(|operation| operation.state.is_final());
        for member in &members {
            let on_either = |subject| [id.uuid(), member.id.uuid()].contains(&subject);
            for operation in ended().filter(|operation| on_either(operation.subject_id)) {
                self.note((instance, member.state, operation.state), seed);
            }
        }
    }

    fn note(&mut self, combination: Combination, seed: u64) {
        self.0.entry(combination).or_default().insert(seed);
    }

    /// Asserts that every state of the three enums was reached, except those that are listed as unreachable.
    pub(super) fn covers_the_enums(&self) {
        let mut missing = Vec::new();
        let seen: BTreeSet<String> = self
            .0
            .keys()
            .flat_map(|(instance, member, operation)| {
                [format!("instance {instance}"), format!("member {member}"), format!("operation {operation}")]
            })
            .collect();
        let instances = InstanceState::ALL.iter().map(|state| format!("instance {state}"));
        let members = MemberState::ALL.iter().map(|state| format!("member {state}"));
        let operations = OperationState::ALL.iter().map(|state| format!("operation {state}"));
        for state in instances.chain(members).chain(operations) {
            let excepted = UNREACHABLE.iter().find(|(named, _)| *named == state);
            match (seen.contains(&state), excepted) {
                (false, None) => missing.push(format!("{state} was never reached")),
                (true, Some((_, why))) => missing.push(format!("{state} was reached, although {why}")),
                _ => {}
            }
        }
        assert!(missing.is_empty(), "{missing:#?}");
    }

    /// Asserts that every combination of the golden file was reached. `make bless` writes the frequent ones to it.
    pub(super) fn covers_the_golden_set(&self, path: &Path) {
        let text = |(instance, member, operation): &Combination| format!("{instance} {member} {operation}");
        if std::env::var_os("MUSTER_BLESS").is_some() {
            let often = self.0.iter().filter(|(_, seeds)| seeds.len() >= OFTEN);
            let lines: String = often.map(|(combination, _)| text(combination) + "\n").collect();
            let head =
                "# instance, member, and an operation on either: reached by several of the walks of exits\n";
            std::fs::write(path, format!("{head}{lines}")).unwrap();
            return;
        }
        let reached: BTreeSet<String> = self.0.keys().map(text).collect();
        let golden = std::fs::read_to_string(path).unwrap();
        let lost: Vec<&str> =
            golden.lines().filter(|line| !line.starts_with('#') && !reached.contains(*line)).collect();
        assert!(
            lost.is_empty(),
            "no walk reaches these any more; if that is meant, run `make bless` and commit it: {lost:#?}"
        );
    }
}

/// Returns the state of an instance, and its members, the removed ones included.
async fn members_of(rig: &Rig, id: InstanceId) -> (InstanceState, Vec<Member>) {
    let page = Page { after: uuid::Uuid::nil(), size: 1000 };
    let removed = MemberFilter { component: None, state: Some(MemberState::Removed) };
    let mut members = rig.store.member_living(id).await.unwrap();
    members.extend(rig.store.member_list(page, id, removed).await.unwrap());
    (rig.app_instance(id).await.state, members)
}
