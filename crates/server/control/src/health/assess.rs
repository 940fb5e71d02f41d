//! Assesses the health of an instance and its members, and records changes.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use muster_db::{MemberPlace, StoreError, Tx};
use muster_ids::{InstanceId, MemberId, TypedId as _};
use muster_manifest::{AppKind, Manifest};
use muster_model::assess::{Assessment, Bounds, HealthReason, MemberFacts, NodeFacts, assess_member};
use muster_model::event::{EventType, NewEvent, Timeline};
use muster_model::instance::{Component, Health, Instance, InstanceFailure, InstanceState, health_of};
use muster_model::member::{Member, MemberFailure, MemberState};
use serde_json::json;

use super::repair::{self, Repaired};
use crate::instance::{manifest_of, standings};
use crate::{Cx, Error, instance, member};

/// Maximum downtime of a service before its member counts as broken.
const RESTART: SignedDuration = SignedDuration::from_secs(30);
/// Number of heartbeats without confirmation after which a node's cells count as unconfirmed. A node confirms them with each
/// poll.
pub(crate) const CONFIRM_HEARTBEATS: i32 = 3;

/// Result of an assessment.
#[derive(Default)]
pub(crate) struct Assessed {
    /// Events to append.
    pub(crate) told: Vec<NewEvent>,
    /// Whether an operation was submitted.
    pub(crate) opened: bool,
}

/// A member with its new health.
pub(super) struct MemberAssessed {
    pub(super) member: Member,
    pub(super) assessed: Assessment,
    before: Health,
    changed: bool,
    /// Whether its node is unreachable or does not confirm its cells.
    is_node_silent: bool,
}

impl MemberAssessed {
    /// Whether the assessment applies to its member. A drained member is assessed like an active one, though it does not count
    /// for its instance. One that is being removed loses its cell by intent: only the silence of its node counts, until that ends.
    fn counts(&self) -> bool {
        match self.member.state {
            MemberState::Active | MemberState::Draining | MemberState::Drained => true,
            MemberState::Removing => {
                let was_silent = matches!(
                    self.member.health_reason,
                    Some(HealthReason::NodeUnreachable | HealthReason::Unconfirmed)
                );
                self.is_node_silent || was_silent
            }
            _ => false,
        }
    }

    /// Whether the death of its cell makes it failed. A member that is being removed stays that.
    fn is_failed_by_loss(&self) -> bool {
        self.assessed.is_lost() && self.member.state != MemberState::Removing
    }
}

/// The release and the location, reports and observations of each member. Writers read the latter under the instance's lock.
pub(crate) struct Facts {
    pub(crate) manifest: Manifest,
    pub(crate) places: Vec<MemberPlace>,
}

impl Facts {
    /// Reads the facts.
    pub(crate) async fn read(cx: &Cx, instance: &Instance) -> crate::error::Result<Self> {
        let (_, manifest) = manifest_of(cx, instance, instance.app_version_id).await?;
        let places = cx.platform.store.member_places(instance.id).await?;
        Ok(Self { manifest, places })
    }

    fn has_adapter(&self) -> bool {
        self.manifest.artifact_kind != AppKind::Launchable
    }

    /// Returns the time without a report after which the adapter counts as silent: two missed reconciles and a margin.
    pub(crate) fn silence(&self, wish_seconds: Option<i64>) -> SignedDuration {
        let every = wish_seconds.unwrap_or(self.manifest.reconcile_seconds.into());
        SignedDuration::from_secs(every.max(i64::from(self.manifest.reconcile_seconds)) * 2 + 5)
    }

    /// Reports whether the adapter reconciles the instance, so that its silence means something.
    fn is_reconciled(&self, instance: &Instance) -> bool {
        self.has_adapter() && instance.state == InstanceState::Running
    }

    /// Reports whether an assessment would change nothing: then nothing is written and no lock is taken.
    async fn is_settled(&self, cx: &Cx, instance: &Instance) -> muster_db::Result<bool> {
        let store = &cx.platform.store;
        let (silent_at, due_at) = store.instance_assessment(instance.id).await?;
        let is_reconciled = self.is_reconciled(instance);
        if due_at.is_some_and(|due| due <= cx.now) || is_reconciled != silent_at.is_some() {
            return Ok(false);
        }
        let (living, components) =
            tokio::try_join!(store.member_living(instance.id), store.component_list(instance.id))?;
        let assessed = living.iter().map(|member| self.assess(member, silent_at, bounds(cx), cx.now));
        let unchanged = assessed.filter(MemberAssessed::counts).all(|one| {
            !one.changed && one.assessed.review_at.is_none_or(|at| due_at.is_some_and(|due| due <= at))
        });
        let health = self.health(instance, &components, &living);
        let broken = living.iter().any(repair::is_broken);
        let dead = self.places.iter().any(|place| place.dead_since.is_some());
        Ok(unchanged && !broken && !dead && health == instance.health)
    }

    /// Returns the health of an instance with these members. One that starts keeps what it has, because members are missing
    /// by intent; one that stops is as healthy as its worst active member, and without any its health is unknown.
    fn health(&self, instance: &Instance, components: &[Component], living: &[Member]) -> Health {
        match instance.state {
            InstanceState::Created | InstanceState::Starting | InstanceState::Stopped => instance.health,
            InstanceState::Stopping => {
                let active = living.iter().filter(|member| member.state == MemberState::Active);
                active.map(Member::known_health).max_by_key(severity).unwrap_or(Health::Unknown)
            }
            // A launch that failed and left nothing.
            InstanceState::Failed if living.is_empty() => instance.health,
            InstanceState::Running | InstanceState::Failed => {
                let standings =
                    standings(&self.manifest, components, living.iter().map(|member| (member, 1)));
                health_of(&standings.into_values().collect::<Vec<_>>())
            }
        }
    }

    fn assess(
        &self,
        member: &Member,
        silent_at: Option<Timestamp>,
        bounds: Bounds,
        now: Timestamp,
    ) -> MemberAssessed {
        let place = self.places.iter().find(|place| place.member_id == member.id);
        let node = place.and_then(|place| {
            Some(NodeFacts {
                name: place.node_name.as_deref()?,
                unreachable_since: place.unreachable_since,
                confirmed_at: place.confirmed_at,
            })
        });
        let current = member.health_incarnation == member.incarnation;
        let facts = MemberFacts {
            incarnation: member.incarnation,
            // The row also changes with its health, which must not restart the time of a node that confirms nothing.
            changed_at: place.and_then(|place| place.active_at).unwrap_or(member.updated_at),
            node,
            cell: place.and_then(|place| place.cell.as_ref()),
            report: place.and_then(|place| place.report.as_ref()),
            adapter_silent_at: silent_at,
            before: member.health_reason.zip(member.health_since).filter(|_| current),
        };
        let assessed = assess_member(&facts, bounds, now);
        let before = member.known_health();
        let changed = !current
            || member.health != assessed.health
            || member.health_reason != assessed.reason
            || member.health_message != assessed.message;
        let is_node_silent = facts.node.is_some_and(|node| {
            let confirmed_at = node.confirmed_at.unwrap_or(facts.changed_at);
            node.unreachable_since.is_some() || now.duration_since(confirmed_at) >= bounds.confirm
        });
        MemberAssessed { member: member.clone(), assessed, before, changed, is_node_silent }
    }
}

/// Returns the limits on the silence of each source.
pub(crate) fn bounds(cx: &Cx) -> Bounds {
    Bounds { confirm: cx.platform.heartbeat() * CONFIRM_HEARTBEATS, restart: RESTART }
}

/// Assesses an instance; writes only changes.
pub(crate) async fn assess(cx: &Cx, id: InstanceId) -> crate::error::Result<()> {
    let store = &cx.platform.store;
    let Some(instance) = store.instance_lookup(id).await? else { return Ok(()) };
    if !instance.state.has_health() {
        return Ok(());
    }
    let mut facts = Facts::read(cx, &instance).await?;
    if facts.is_settled(cx, &instance).await? {
        return Ok(());
    }
    let mut tx = store.begin().await?;
    let written = async {
        let Some(instance) = tx.instance_hold(id).await? else { return Ok((false, false)) };
        // Read again under the lock: a report that came in between must not be overwritten by an older one.
        facts.places = tx.member_places_now(id).await?;
        let Assessed { told, opened } = assess_in(cx, &mut tx, &instance, &facts).await?;
        let news = !told.is_empty();
        if news {
            cx.outbox_append_as_platform(&mut tx, instance.scope(), Timeline::of_instance(id), told).await?;
        }
        Ok::<_, StoreError>((news, opened))
    };
    match written.await {
        Ok((news, opened)) => {
            tx.commit().await?;
            if news {
                cx.platform.sealer_wake.notify_one();
            }
            if opened {
                cx.platform.engine.wake.notify_one();
            }
            Ok(())
        }
        Err(error) => {
            tx.rollback().await;
            Err(Error::from(error))
        }
    }
}

/// Writes the assessment of an instance that the caller has locked.
pub(crate) async fn assess_in(
    cx: &Cx,
    tx: &mut Tx,
    instance: &Instance,
    facts: &Facts,
) -> muster_db::Result<Assessed> {
    if !instance.state.has_health() {
        return Ok(Assessed::default());
    }
    let (now, bounds) = (cx.now, bounds(cx));
    let silent_at = match facts.is_reconciled(instance) {
        true => tx.instance_silent_at(instance.id).await?.or(Some(now + facts.silence(None))),
        false => None,
    };
    let living = tx.member_living_now(instance.id).await?;
    let components = tx.component_list_now(instance.id).await?;
    let mut told = Vec::new();
    let mut members = Vec::new();
    for member in &living {
        let mut one = facts.assess(member, silent_at, bounds, now);
        if !one.counts() {
            continue;
        }
        if one.changed && tx.member_health(member.id, member.incarnation, &one.assessed, now).await? {
            one.member.version += 1;
            one.member.health = one.assessed.health;
            one.member.health_incarnation = member.incarnation;
            one.member.health_message.clone_from(&one.assessed.message);
            one.member.health_reason = one.assessed.reason;
            one.member.health_since = Some(one.assessed.since);
            if one.before != one.assessed.health {
                told.push(health_changed(&one));
            }
        }
        // While it starts, its operation decides about its members.
        if one.is_failed_by_loss() && instance.state != InstanceState::Starting {
            if let (MemberState::Drained, Some(cell)) = (member.state, member.cell_id) {
                // Its owner drained it: no restart policy resumes it.
                tx.cell_restart_decide(cell, member.incarnation, false, now).await?;
            }
            fail_lost(tx, &mut one, &mut told, now).await?;
        }
        members.push(one);
    }
    if silence_begins(&living, &members) {
        let data = json!({"name": instance.name, "since": silent_at});
        told.push((EventType::InstanceAdapterSilent, instance::path(instance), data));
    }
    let review_at = members.iter().filter_map(|one| one.assessed.review_at).filter(|at| *at > now).min();
    let now_living = current(&living, &members);
    let health = facts.health(instance, &components, &now_living);
    let message = match health == instance.health && instance.state == InstanceState::Starting {
        true => instance.health_message.clone(),
        false => why(health, &components, &now_living),
    };
    if tx.instance_health(instance.id, health, message.as_deref(), now).await? && instance.health != health {
        told.push(instance_changed(instance, health, message.as_deref()));
    }
    let repaired = match instance.state {
        InstanceState::Running => repair::repair(cx, tx, instance, facts, &components, &now_living).await?,
        // It starts or stops by an operation that decides about its members, or it has failed and waits for its removal.
        _ => Repaired::default(),
    };
    told.extend(repaired.told);
    if repaired.exhausted && below_minimum(&facts.manifest, &now_living, &repaired.busy) {
        fail_broken(tx, &now_living, &repaired.busy, &mut told, now).await?;
        // Repairs changed the row: use its current version.
        if let Some(held) = tx.instance_now(instance.id).await? {
            told.extend(fail_instance(tx, &held, message.as_deref(), now).await?);
        }
    }
    tx.instance_assessed(instance.id, review_at, silent_at).await?;
    Ok(Assessed { told, opened: repaired.opened })
}

/// Reports whether the adapter became silent with this assessment.
fn silence_begins(living: &[Member], assessed: &[MemberAssessed]) -> bool {
    let silent = Some(HealthReason::AdapterSilent);
    let was =
        |member: &Member| member.health_incarnation == member.incarnation && member.health_reason == silent;
    assessed.iter().any(|one| one.changed && one.assessed.reason == silent) && !living.iter().any(was)
}

/// Returns the living members, updated with the assessment.
fn current(living: &[Member], assessed: &[MemberAssessed]) -> Vec<Member> {
    let newest: BTreeMap<MemberId, &Member> =
        assessed.iter().map(|one| (one.member.id, &one.member)).collect();
    living.iter().map(|member| newest.get(&member.id).copied().unwrap_or(member).clone()).collect()
}

/// Fails a member with a dead cell, which is not active any more. If an operation works on the member, that operation
/// decides.
async fn fail_lost(
    tx: &mut Tx,
    one: &mut MemberAssessed,
    told: &mut Vec<NewEvent>,
    now: Timestamp,
) -> muster_db::Result<()> {
    if !tx.operations_locking_now(one.member.id.uuid()).await?.is_empty() {
        return Ok(());
    }
    let message = one.assessed.message.clone();
    one.member = fail_member(tx, &one.member, MemberFailure::CellEnded, message, told, now).await?;
    Ok(())
}

async fn fail_member(
    tx: &mut Tx,
    member: &Member,
    reason: MemberFailure,
    message: Option<String>,
    told: &mut Vec<NewEvent>,
    now: Timestamp,
) -> muster_db::Result<Member> {
    let after = Member {
        state: MemberState::Failed,
        failure_reason: Some(reason),
        message: message.clone(),
        ..member.clone()
    };
    tx.member_move(member, &after, now).await?;
    let data = json!({"name": after.name, "component_key": after.component_key, "incarnation": after.incarnation,
                      "reason": reason, "message": message});
    told.push((EventType::MemberFailed, member::path(&after), data));
    Ok(Member { version: after.version + 1, ..after })
}

/// Reports whether a running instance must fail: the repair budget is spent, and a component has fewer members that are not
/// broken than its minimum. Silence never causes this, nor a service that still has time to restart, nor a member that an
/// operation works on.
fn below_minimum(manifest: &Manifest, living: &[Member], busy: &BTreeSet<MemberId>) -> bool {
    manifest.components.iter().any(|component| {
        let broken = |member: &Member| {
            (member.state == MemberState::Failed || repair::is_broken(member)) && !busy.contains(&member.id)
        };
        let of_it = living.iter().filter(|member| member.component_key == component.key);
        let left = of_it.filter(|member| !broken(member)).count();
        i64::try_from(left).unwrap_or(i64::MAX) < component.count.min
    })
}

/// Fails the broken members together with their instance: no further repair follows.
async fn fail_broken(
    tx: &mut Tx,
    living: &[Member],
    busy: &BTreeSet<MemberId>,
    told: &mut Vec<NewEvent>,
    now: Timestamp,
) -> muster_db::Result<()> {
    let broken = living.iter().filter(|member| {
        member.state == MemberState::Active && repair::is_broken(member) && !busy.contains(&member.id)
    });
    for member in broken {
        fail_member(tx, member, MemberFailure::Unhealthy, member.health_message.clone(), told, now).await?;
    }
    Ok(())
}

async fn fail_instance(
    tx: &mut Tx,
    held: &Instance,
    message: Option<&str>,
    now: Timestamp,
) -> muster_db::Result<Vec<NewEvent>> {
    let reason = InstanceFailure::RepairsExhausted;
    let after = Instance {
        state: InstanceState::Failed,
        reason: Some(reason),
        message: message.map(str::to_owned),
        reconcile_due_at: None,
        ..held.clone()
    };
    tx.instance_move(held, &after, now).await?;
    let data = json!({"name": held.name, "reason": reason.as_str(), "message": message});
    Ok(vec![(EventType::InstanceFailed, instance::path(held), data)])
}

/// Orders the healths of members, the worst last.
fn severity(health: &Health) -> u8 {
    match health {
        Health::Healthy => 0,
        Health::Degraded => 1,
        Health::Unknown => 2,
        Health::Unhealthy => 3,
    }
}

/// Returns why an instance is not healthy: its first unhealthy member, or the component that lacks members.
fn why(health: Health, components: &[Component], living: &[Member]) -> Option<String> {
    if health == Health::Healthy {
        return None;
    }
    let unwell = living.iter().filter(|member| {
        member.state == MemberState::Failed
            || (member.state == MemberState::Active && member.known_health() != Health::Healthy)
    });
    let worst = unwell.max_by_key(|member| severity(&member.known_health()));
    if let Some(member) = worst {
        let message = member.health_message.as_deref().or(member.message.as_deref()).unwrap_or("no details");
        return Some(format!("{}: {message}", member.name));
    }
    let active = |key: &str| {
        let of_it = living.iter().filter(|member| member.component_key == key);
        of_it.filter(|member| member.state == MemberState::Active).count()
    };
    let short = components
        .iter()
        .find(|component| i64::try_from(active(&component.key)).unwrap_or(i64::MAX) < component.desired);
    let Some(short) = short else {
        // A decommission lowers the desired counts.
        let is_active = |member: &Member| member.state == MemberState::Active;
        return (!living.iter().any(is_active)).then(|| "none of its members is active".to_owned());
    };
    Some(format!("{} has {} of {} active members", short.key, active(&short.key), short.desired))
}

fn health_changed(one: &MemberAssessed) -> NewEvent {
    let member = &one.member;
    let data = json!({"name": member.name, "component_key": member.component_key, "before": one.before,
                      "health": one.assessed.health, "reason": one.assessed.reason, "message": one.assessed.message,
                      "since": one.assessed.since, "incarnation": member.incarnation});
    (EventType::MemberHealthChanged, member::path(member), data)
}

fn instance_changed(of: &Instance, health: Health, message: Option<&str>) -> NewEvent {
    let event = match health {
        Health::Healthy => EventType::InstanceHealthy,
        _ => EventType::InstanceHealthChanged,
    };
    let data = json!({"name": of.name, "before": of.health, "health": health, "message": message});
    (event, instance::path(of), data)
}
