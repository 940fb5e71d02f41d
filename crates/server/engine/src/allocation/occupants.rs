//! Members in an allocation to be released, and the needs of their instances: pure decisions over rows read by the caller,
//! so that a command, an expiry and the step itself decide alike.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use muster_db::{Result, Store, StoreError};
use muster_ids::{AllocationId, InstanceId, MemberId, TypedId as _};
use muster_manifest::Manifest;
use muster_model::instance::{Component, InstanceState};
use muster_model::member::{Member, MemberState};
use muster_model::operation::Operation;
use muster_model::quorum::{Need, going, leaving, quorum_violation, replacing};

use crate::Releases;

/// Members of one instance in the allocation that are not being removed.
#[derive(Debug, Clone)]
pub struct Occupants {
    /// Id of their instance.
    pub instance_id: InstanceId,
    /// Name of the instance.
    pub instance: String,
    /// State of the instance.
    pub state: InstanceState,
    /// Manifest of its release.
    pub manifest: Arc<Manifest>,
    /// The members.
    pub members: Vec<Member>,
    /// Inactive members of the instance: their nodes are unreachable, or their cells are dead.
    pub absent: BTreeSet<MemberId>,
}

/// Snapshot of an instance.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Circumstances<'a> {
    /// Its components.
    pub components: &'a [Component],
    /// Its living members.
    pub living: &'a [Member],
    /// Open operations that hold locks on it.
    pub operations: &'a [Operation],
}

/// Why members cannot be removed now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Obstacle {
    /// Another operation has to end first.
    Busy(String),
    /// The instance needs them: a user has to decide.
    Needed(String),
}

/// Reports whether a member stays in its allocation unless it is removed.
pub fn is_staying(member: &Member) -> bool {
    !matches!(member.state, MemberState::Removing | MemberState::Removed) && !member.fenced
}

/// Returns the staying members of an allocation, by instance.
pub async fn occupants(store: &Store, releases: &Releases, id: AllocationId) -> Result<Vec<Occupants>> {
    let mut by_instance: BTreeMap<InstanceId, Vec<Member>> = BTreeMap::new();
    for member in store.member_in(id).await?.into_iter().filter(is_staying) {
        by_instance.entry(member.instance_id).or_default().push(member);
    }
    let mut found = Vec::new();
    for (id, members) in by_instance {
        let instance = store.instance_lookup(id).await?.ok_or(StoreError::Gone("instance".to_owned()))?;
        let manifest = releases.manifest(store, instance.app_version_id).await?;
        let places = store.member_places(id).await?;
        let absent = places
            .iter()
            .filter(|place| place.unreachable_since.is_some() || place.dead_since.is_some())
            .map(|place| place.member_id)
            .collect();
        found.push(Occupants {
            instance_id: id,
            instance: instance.name,
            state: instance.state,
            manifest,
            members,
            absent,
        });
    }
    Ok(found)
}

/// Returns the first reason why the members in an allocation cannot be removed now, if any. The step decides again under
/// locks.
pub async fn find_obstacle(store: &Store, occupants: &[Occupants], force: bool) -> Result<Option<Obstacle>> {
    for of in occupants {
        let id = of.instance_id;
        let (components, living, operations) = (
            store.component_list(id).await?,
            store.member_living(id).await?,
            store.operations_locking(id.uuid()).await?,
        );
        let known = Circumstances { components: &components, living: &living, operations: &operations };
        if let Some(found) = obstacle(of, known, &BTreeSet::new(), force) {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

/// Explains why the members in an allocation cannot be interrupted, if so: their instance is changing state, or their
/// component would lose its quorum. If forced, only the first counts.
pub async fn find_interruption(
    store: &Store,
    occupants: &[Occupants],
    force: bool,
) -> Result<Option<String>> {
    for of in occupants {
        let (name, id) = (&of.instance, of.instance_id);
        if !matches!(of.state, InstanceState::Running | InstanceState::Failed) {
            let state = of.state;
            return Ok(Some(format!(
                "the instance {name} of one of its members is {state}: wait until that has ended"
            )));
        }
        let comes = |member: &&Member| {
            matches!(member.state, MemberState::Requested | MemberState::Provisioning | MemberState::Joining)
        };
        if let Some(member) = of.members.iter().find(comes) {
            let (member, state) = (&member.name, member.state);
            return Ok(Some(format!(
                "{member} is {state}: wait until it is active (`muster operation list`)"
            )));
        }
        if force {
            continue;
        }
        let (living, operations) =
            (store.member_living(id).await?, store.operations_locking(id.uuid()).await?);
        let mut away = leaving(&operations);
        away.extend(&of.absent);
        let without: BTreeSet<MemberId> = of.members.iter().map(|member| member.id).collect();
        for component in store.component_list(id).await? {
            let declared = of.manifest.component(&component.key);
            let quorum = declared.and_then(|declared| declared.quorum).filter(|_| component.desired > 0);
            let Some(quorum) = quorum else { continue };
            let need = Need { need: quorum.of(component.desired), desired: component.desired };
            if let Some(why) = quorum_violation(&component.key, need, &living, &away, &without) {
                return Ok(Some(format!(
                    "the instance {name} would lose its quorum meanwhile: {why}; or add `--force`"
                )));
            }
        }
    }
    Ok(None)
}

/// Returns the obstacle to removing the members, if any. `counted` are those that an earlier operation has already
/// uncounted.
pub(super) fn obstacle(
    of: &Occupants,
    known: Circumstances<'_>,
    counted: &BTreeSet<MemberId>,
    force: bool,
) -> Option<Obstacle> {
    let name = &of.instance;
    match of.state {
        InstanceState::Running => {}
        InstanceState::Stopping => {
            return Some(Obstacle::Busy(format!("{name} is being decommissioned, with its members")));
        }
        InstanceState::Failed | InstanceState::Stopped if force => {}
        state => {
            return Some(Obstacle::Needed(format!(
                "the instance {name} is {state}, and its members are removed with it: wait until it runs, or \
                 decommission it (`muster instance decommission {name}`)"
            )));
        }
    }
    // A forced release supersedes every other operation on them.
    if force {
        return None;
    }
    let mut going = going(known.operations);
    going.extend(replacing(known.operations, &BTreeSet::new()));
    let busy = |member: &&Member| going.contains(&member.id) && !counted.contains(&member.id);
    if let Some(member) = of.members.iter().find(busy) {
        return Some(Obstacle::Busy(format!(
            "{} is being removed or replaced by another operation",
            member.name
        )));
    }
    needed(of, known, counted).map(|why| {
        Obstacle::Needed(format!(
            "the instance {name} would be broken: {why}; or decommission it (`muster instance decommission {name}`), or release \
             with `--cascade --force`"
        ))
    })
}

/// Explains why a component needs them, if so: its minimum, or its quorum.
fn needed(of: &Occupants, known: Circumstances<'_>, counted: &BTreeSet<MemberId>) -> Option<String> {
    let without: BTreeSet<MemberId> = of.members.iter().map(|member| member.id).collect();
    let mut away = leaving(known.operations);
    away.extend(&of.absent);
    for component in known.components {
        let Some(declared) = of.manifest.component(&component.key) else { continue };
        let fewer = counted_members(of, &component.key, counted).count();
        let desired = component.desired - i64::try_from(fewer).unwrap_or(i64::MAX);
        if fewer > 0 && desired < declared.count.min {
            return Some(format!(
                "{} needs {} members, and {desired} would be left: add others elsewhere first",
                component.key, declared.count.min
            ));
        }
        let quorum = declared.quorum.filter(|_| desired > 0);
        let need = quorum.map(|quorum| Need { need: quorum.of(desired), desired });
        if let Some(why) =
            need.and_then(|need| quorum_violation(&component.key, need, known.living, &away, &without))
        {
            return Some(why);
        }
    }
    None
}

/// Returns the members of a component that their removal uncounts: those that ever worked, each once.
pub(super) fn counted_members<'o>(
    of: &'o Occupants,
    component: &'o str,
    counted: &'o BTreeSet<MemberId>,
) -> impl Iterator<Item = &'o Member> {
    of.members.iter().filter(move |member| {
        member.component_key == component && !member.never_worked() && !counted.contains(&member.id)
    })
}

#[cfg(test)]
mod tests {
    use muster_ids::Env;
    use muster_model::instance::{Health, Instance, NewInstance};
    use muster_model::member::NewMember;
    use serde_json::json;

    use super::*;

    fn member(env: &Env, key: &str, worked: bool) -> Member {
        let instance = Instance::requested(NewInstance {
            id: env.id(),
            tenant_id: env.id(),
            project_id: env.id(),
            app_id: env.id(),
            app_version_id: env.id(),
            operator_account_id: env.id(),
            network_id: env.id(),
            name: "i".to_owned(),
            now: env.now(),
        });
        let new = NewMember {
            id: env.id(),
            instance: &instance,
            component_key: key,
            ordinal: 1,
            allocation_id: None,
            operation_id: env.id(),
            correlation_id: "",
            now: env.now(),
        };
        Member {
            state: MemberState::Active,
            health: Health::Healthy,
            health_incarnation: 1,
            incarnation: 1,
            active_witness_id: worked.then(|| env.id()),
            ..Member::requested(new)
        }
    }

    fn manifest() -> Manifest {
        let component = |key: &str, min: i64| {
            json!({"key": key, "count": {"min": min, "max": 8}, "capacity": {"cpus": 1, "memory_mb": 64},
                   "runtime": {"root": {"host": ["/usr"]}}})
        };
        let mut voter = component("voter", 0);
        voter["quorum"] = json!("majority");
        serde_json::from_value(json!({
            "app": "thing", "version": "1", "artifact_kind": "controller",
            "compatibility": {"requires_capacity_shape": ["gpu_slice"]},
            "components": [component("head", 1), component("unit", 0), voter],
            "operations": ["add", "remove"],
        }))
        .unwrap()
    }

    fn component(env: &Env, key: &str, desired: i64) -> Component {
        let instance_id = env.id();
        Component {
            instance_id,
            key: key.to_owned(),
            desired,
            last_ordinal: 0,
            capacity: None,
            allocation_id: None,
        }
    }

    #[test]
    fn a_minimum_and_a_quorum_keep_their_members_unless_it_is_forced() {
        let env = Env::for_tests(1);
        let (head, unit) = (member(&env, "head", true), member(&env, "unit", true));
        let voters: Vec<Member> = (0..3).map(|_| member(&env, "voter", true)).collect();
        let mut living = vec![head.clone(), unit.clone()];
        living.extend(voters.clone());
        let components =
            [component(&env, "head", 1), component(&env, "unit", 1), component(&env, "voter", 3)];
        let known = Circumstances { components: &components, living: &living, operations: &[] };
        let of = |members: Vec<Member>| Occupants {
            instance_id: env.id(),
            instance: "i".to_owned(),
            state: InstanceState::Running,
            manifest: Arc::new(manifest()),
            members,
            absent: BTreeSet::new(),
        };
        let none = BTreeSet::new();
        assert_eq!(obstacle(&of(vec![unit.clone()]), known, &none, false), None);
        for members in [vec![head.clone()], vec![unit, head.clone()], voters.clone()] {
            // With no voter desired any more, there is no quorum to keep.
            let found = obstacle(&of(members.clone()), known, &none, false);
            let all_voters = members.len() == 3;
            assert_eq!(matches!(found, Some(Obstacle::Needed(_))), !all_voters, "{found:?}");
            assert_eq!(obstacle(&of(members), known, &none, true), None);
        }
        let two = of(voters[..2].to_vec());
        assert_eq!(obstacle(&two, known, &none, false), None, "one of one is a majority");
        let ill = Occupants { absent: BTreeSet::from([voters[2].id]), ..two };
        assert!(matches!(obstacle(&ill, known, &none, false), Some(Obstacle::Needed(_))));
        // A member already uncounted is not counted again.
        assert_eq!(obstacle(&of(vec![head.clone()]), known, &BTreeSet::from([head.id]), false), None);
    }

    #[test]
    fn members_of_an_instance_that_does_not_run_only_go_with_it() {
        let env = Env::for_tests(1);
        let of = |state| Occupants {
            instance_id: env.id(),
            instance: "i".to_owned(),
            state,
            manifest: Arc::new(manifest()),
            members: vec![member(&env, "unit", true)],
            absent: BTreeSet::new(),
        };
        let known = Circumstances { components: &[], living: &[], operations: &[] };
        let found = |state, force| obstacle(&of(state), known, &BTreeSet::new(), force);
        for state in [InstanceState::Created, InstanceState::Starting] {
            assert!(matches!(found(state, true), Some(Obstacle::Needed(_))), "{state}");
        }
        assert!(matches!(found(InstanceState::Failed, false), Some(Obstacle::Needed(_))));
        assert_eq!(found(InstanceState::Failed, true), None);
        assert!(matches!(found(InstanceState::Stopping, true), Some(Obstacle::Busy(_))));
    }
}
