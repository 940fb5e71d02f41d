//! Logic shared by all commands on members: resolving the members, checking their states and the quorum, and submitting the
//! operation.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use muster_api::Code;
use muster_authz::Permission;
use muster_db::Tx;
use muster_engine::member::{ADD, REMOVE, REPLACE, definitions_for};
use muster_engine::{has_come, successor_of};
use muster_ids::{MemberId, OperationId, TypedId as _};
use muster_manifest::{Manifest, ReplaceOrder, Verb};
use muster_model::event::EventType;
use muster_model::instance::{Component, Instance, InstanceState};
use muster_model::member::{Member, MemberState};
use muster_model::operation::{Operation, OperationKind, OperationState};
use muster_model::operation_input::OperationInput;
use serde_json::json;

use super::moved::replaced_items;
use super::successor::Successors;
use super::suits::Circumstances;
use super::{lost_members, quorum, subject, suits};
use crate::artifact::{Start, ensure_release_startable};
use crate::instance::{self, manifest_of};
use crate::operation::{self, Submission, deadline, item_of, submit_with};
use crate::{Cx, Error, PreparedCommand, Result};

/// Returns a member for the audit's previous values.
fn member_before(member: &Member) -> serde_json::Value {
    json!({"id": member.id, "name": member.name, "state": member.state})
}

/// A command on members.
pub(super) struct Order {
    pub(super) verb: Verb,
    pub(super) permission: Permission,
    /// Permission required for `force`, which does not wait for work to drain.
    pub(super) forced: Option<Permission>,
    pub(super) members: Vec<String>,
    pub(super) force: bool,
    pub(super) reason: Option<String>,
    pub(super) ready_until: Option<Timestamp>,
    /// Default time limit.
    pub(super) within: SignedDuration,
    pub(super) dry_run: bool,
}

/// Prepares the command.
pub(super) async fn order(cx: &Cx, project: &str, reference: &str, order: Order) -> Result<PreparedCommand> {
    let instance = cx.instance(project, reference).await?;
    let permission = order.forced.filter(|_| order.force).unwrap_or(order.permission);
    cx.authorize(permission, instance.scope(), "instance")?;
    let (_, manifest) = manifest_of(cx, &instance, instance.app_version_id).await?;
    ensure_supported(&manifest, order.verb)?;
    ensure_running(&instance)?;
    let store = &cx.platform.store;
    let places = store.member_places(instance.id).await?;
    let lost = lost_members(&places);
    let members = resolve_members(cx, &instance, &order, &lost).await?;
    if matches!(order.verb, Verb::Replace | Verb::Recover) {
        let of: BTreeSet<&str> = members.iter().map(|member| member.component_key.as_str()).collect();
        ensure_release_startable(cx, instance.app_version_id, &manifest, Some(&of), Start::Existing).await?;
    }
    let UnderWay { superseded, replaced, mut uncounted } = under_way(cx, &members, &order).await?;
    let deadline_at = deadline(cx, order.ready_until, order.within)?;
    let (components, living, operations) = tokio::try_join!(
        store.component_list(instance.id),
        store.member_living(instance.id),
        store.operations_locking(instance.id.uuid())
    )?;
    let going = quorum::going(&operations);
    if let Some(gone) = members.iter().find(|member| going.contains(&member.id) && !order.force) {
        return Err(Error::new(Code::InvalidState, transition_in_words(gone)));
    }
    for member in members.iter().filter(|_| order.verb == Verb::Resume) {
        let open = store.operation_open_on(member.id.uuid()).await?;
        ensure_not_leaving(member, operations.iter().chain(&open))?;
        ensure_same_release(member, &instance)?;
    }
    let unheard = Successors::unreachable(&places);
    let taken_over: BTreeSet<OperationId> = superseded.iter().map(|operation| operation.id).collect();
    if let Some(why) = replaced_already(order.verb, &members, &operations, &taken_over) {
        return Err(Error::new(Code::InvalidState, why));
    }
    let absent: BTreeSet<MemberId> = unheard.union(&lost).copied().collect();
    let successors = quorum::successors(&operations);
    let coming = |member: &&Member| is_coming(member) && successors.contains(&member.id);
    uncounted.extend(members.iter().filter(coming).map(|member| member.id));
    let taken = Taken::of(order.verb, &members, Others { going, absent, replaced, uncounted });
    // Checked here for dry runs, and again in the transaction, which decides.
    let now_leaving = quorum::leaving(&operations);
    for component in &components {
        taken.refuse(order.verb, &manifest, component, &living, &now_leaving)?;
        taken.ensure_count_within_max(order.verb, &manifest, component, &members)?;
    }
    let touched: Vec<String> = members.iter().map(|member| member.id.to_string()).collect();
    let (one, bulk) = definitions_for(order.verb);
    let definition = if members.len() == 1 { one } else { bulk };
    let reason = order.reason.unwrap_or_default();
    let names: Vec<&str> = members.iter().map(|member| member.name.as_str()).collect();
    let mut plan = operation::plan(definition, &touched, deadline_at);
    if order.dry_run && order.verb == Verb::Replace {
        plan.items = replaced_items(cx, &members, &instance, &manifest, &components, &unheard).await?;
    }
    let event_data = json!({"name": instance.name, "members": names, "reason": reason, "force": order.force});
    let common = Submission {
        definition,
        scope: instance.scope(),
        subject: instance::subject(&instance),
        exclusive_locks: Vec::new(),
        shared_locks: vec![instance.id.uuid()],
        items: members.iter().map(item_of).collect(),
        input: OperationInput { force: order.force, ..OperationInput::because(&reason) },
        deadline_at,
        event_data,
        before: Some(json!({"members": members.iter().map(member_before).collect::<Vec<_>>()})),
        event: EventType::OperationAccepted,
        supersedes: superseded.clone(),
        plan,
        dry_run: order.dry_run,
    };
    let submission = match members.as_slice() {
        [only] => Submission {
            subject: subject(only),
            exclusive_locks: vec![only.id.uuid()],
            items: Vec::new(),
            ..common
        },
        _ => common,
    };
    let successors = (order.verb == Verb::Replace).then(|| Successors {
        instance: instance.clone(),
        manifest: manifest.clone(),
        components,
        unreachable: unheard,
    });
    let submission = match &successors {
        Some(successors) => Submission { input: successors.input(order.force, &reason), ..submission },
        None => submission,
    };
    let cx_of = cx.clone();
    let write = Write {
        cx: cx_of,
        verb: order.verb,
        forced: order.force,
        lost,
        instance,
        manifest,
        members,
        taken,
        superseded,
        successors,
    };
    Ok(submit_with(cx, submission, move |tx, operation| Box::pin(write.write(tx, operation))))
}

/// Ensures that the app supports the verb.
pub(super) fn ensure_supported(manifest: &Manifest, verb: Verb) -> Result<()> {
    if manifest.supports(verb) {
        return Ok(());
    }
    let can: Vec<&str> =
        Verb::ALL.into_iter().filter(|verb| manifest.supports(*verb)).map(Verb::as_str).collect();
    let why = format!(
        "members of {} do not support {}: they support {}",
        manifest.app,
        verb.as_str(),
        can.join(", ")
    );
    Err(Error::new(Code::InvalidState, why))
}

/// Ensures that the instance is running: otherwise its members come and go with it.
pub(super) fn ensure_running(instance: &Instance) -> Result<()> {
    match instance.state {
        InstanceState::Running => Ok(()),
        InstanceState::Created | InstanceState::Starting => {
            let why = format!(
                "{} is {}: wait until it runs (`muster operation watch`)",
                instance.name, instance.state
            );
            Err(Error::new(Code::InvalidState, why))
        }
        InstanceState::Stopping | InstanceState::Stopped | InstanceState::Failed => {
            let why = format!(
                "{} is {}: its members are removed with it (`muster instance decommission`)",
                instance.name, instance.state
            );
            Err(Error::new(Code::InvalidState, why))
        }
    }
}

/// Resolves the members, without duplicates and each in a suitable state.
async fn resolve_members(
    cx: &Cx,
    instance: &Instance,
    order: &Order,
    lost: &BTreeSet<MemberId>,
) -> Result<Vec<Member>> {
    let mut members: Vec<Member> = Vec::new();
    for (index, reference) in order.members.iter().enumerate() {
        let member = cx.member(instance, reference).await?;
        if members.iter().any(|named| named.id == member.id) {
            return Err(Error::field(format!("/members/{index}"), format!("{} is named twice", member.name)));
        }
        let known = Circumstances { lost: lost.contains(&member.id), forced: order.force };
        if let Some(why) = suits::fault(order.verb, &member, known) {
            return Err(Error::new(Code::InvalidState, why));
        }
        members.push(member);
    }
    Ok(members)
}

/// Open operations on the members of a command.
#[derive(Default)]
struct UnderWay {
    /// Operations to supersede.
    superseded: Vec<Operation>,
    /// Members that are being replaced.
    replaced: BTreeMap<MemberId, Replaced>,
    /// Members that the desired number does not include yet.
    uncounted: BTreeSet<MemberId>,
}

/// Progress of a member's replacement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Replaced {
    /// Whether its successor has joined.
    arrived: bool,
    /// Whether its removal has begun.
    removal: bool,
}

/// Returns the open operations on the members that the command supersedes. With force, these are all that work on an
/// existing member, blocked ones included; a resume supersedes a drain. An identical command is rejected, unless it is
/// blocked and forced; all other operations are queued behind.
async fn under_way(cx: &Cx, members: &[Member], order: &Order) -> Result<UnderWay> {
    let store = &cx.platform.store;
    let mut found = UnderWay::default();
    for member in members {
        let open = store.operation_open_on(member.id.uuid()).await?;
        if let Some(replace) = open.iter().find(|operation| operation.kind == REPLACE.kind) {
            let successor = match successor_of(replace) {
                Some(id) => store.member_lookup(id).await?,
                None => None,
            };
            let arrived = successor.is_some_and(|successor| has_come(replace, &successor));
            let removal =
                open.iter().any(|other| other.parent_id == Some(replace.id) && other.kind == REMOVE.kind);
            found.replaced.insert(member.id, Replaced { arrived, removal });
        }
        if is_uncounted(member, &open) {
            found.uncounted.insert(member.id);
        }
        let kind = definitions_for(order.verb).0.kind;
        for operation in open {
            let again = order.force && (!operation.input.force || is_blocked(cx, &operation).await?);
            if operation.kind == kind && !again && !order.dry_run {
                let why = format!(
                    "{kind} of {} is already in progress: follow it with `muster operation watch {}`",
                    member.name, operation.id
                );
                return Err(Error::new(Code::InvalidState, why));
            }
            // Also children: their parents find them ended, and a blocked one would keep its member from leaving.
            let in_the_way = matches!(
                operation.kind,
                OperationKind::MemberAdd
                    | OperationKind::MemberRecover
                    | OperationKind::MemberDrain
                    | OperationKind::MemberRemove
                    | OperationKind::MemberReplace
                    | OperationKind::MemberResume
                    | OperationKind::MemberUpgrade
            );
            let drains = operation.kind == OperationKind::MemberDrain;
            if (order.force && in_the_way) || (order.verb == Verb::Resume && drains) {
                found.superseded.push(operation);
            }
        }
    }
    Ok(found)
}

/// Reports whether a member has never joined, and may yet.
fn is_coming(member: &Member) -> bool {
    member.active_witness_id.is_none() && member.state != MemberState::Failed
}

/// Reports whether the desired number does not include a member: it is to succeed another and has not joined, or had not
/// when its removal was accepted.
fn is_uncounted(member: &Member, open: &[Operation]) -> bool {
    let succeeds = |operation: &Operation| operation.kind == ADD.kind && operation.input.replaces.is_some();
    let coming = is_coming(member) && open.iter().any(succeeds);
    coming || open.iter().any(|operation| operation.input.uncounted.contains(&member.id))
}

/// Reports whether an operation is blocked, or waits for a blocked child.
async fn is_blocked(cx: &Cx, operation: &Operation) -> Result<bool> {
    if operation.state == OperationState::Blocked {
        return Ok(true);
    }
    let children = cx.platform.store.operation_children(operation.id).await?;
    Ok(children.iter().any(|child| child.state == OperationState::Blocked))
}

fn transition_in_words(member: &Member) -> String {
    format!("{} is already being removed: `muster operation list` shows the operation", member.name)
}

/// Ensures that a member is not being replaced: it will be removed, so it cannot be resumed.
fn ensure_not_leaving<'o>(
    member: &Member,
    mut operations: impl Iterator<Item = &'o Operation>,
) -> Result<()> {
    let replaces = |operation: &&Operation| {
        let named = operation.items.iter().any(|item| item.id == member.id.to_string());
        match operation.kind {
            OperationKind::MemberReplace => operation.subject_id == member.id.uuid(),
            OperationKind::MembersReplace => named,
            _ => false,
        }
    };
    match operations.find(replaces) {
        None => Ok(()),
        Some(replace) => {
            let why = format!(
                "{} is being replaced by {}: cancel that first (`muster operation cancel {}`), or leave it",
                member.name, replace.id, replace.id
            );
            Err(Error::new(Code::InvalidState, why))
        }
    }
}

/// Ensures that a member runs the same release as its instance: it must not join the others with another one.
fn ensure_same_release(member: &Member, instance: &Instance) -> Result<()> {
    if member.app_version_id == Some(instance.app_version_id) {
        return Ok(());
    }
    let why = format!(
        "{} was drained while {} was upgraded: replace it (`muster member replace`)",
        member.name, instance.name
    );
    Err(Error::new(Code::InvalidState, why))
}

/// Returns an error message if one of these members is already being replaced: each replacement would create another
/// successor.
fn replaced_already(
    verb: Verb,
    members: &[Member],
    operations: &[Operation],
    taken_over: &BTreeSet<OperationId>,
) -> Option<String> {
    let replacing = quorum::replacing(operations, taken_over);
    let named = members.iter().find(|member| verb == Verb::Replace && replacing.contains(&member.id))?;
    Some(format!("{} is already being replaced: `muster operation list` shows the operation", named.name))
}

/// Facts about the other members, and operations on them.
#[derive(Debug, Clone, Default)]
struct Others {
    /// Members that another operation removes and has already subtracted from the desired number.
    going: BTreeSet<MemberId>,
    /// Members that do not count as active: their nodes are unreachable, or their cells are dead.
    absent: BTreeSet<MemberId>,
    /// Members that are being replaced.
    replaced: BTreeMap<MemberId, Replaced>,
    /// Members that the desired number does not include yet: those that are to succeed others.
    uncounted: BTreeSet<MemberId>,
}

/// Members that a command takes out of service, and the change of the desired numbers by component.
struct Taken {
    without: BTreeSet<MemberId>,
    others: Others,
    /// Reduction of the desired number as written by this command.
    fewer: BTreeMap<String, i64>,
    /// Final reduction of the desired number: a superseded replacement leaves its successor, if that has joined.
    in_the_end: BTreeMap<String, i64>,
}

impl Taken {
    fn of(verb: Verb, members: &[Member], others: Others) -> Self {
        let (mut fewer, mut in_the_end): (BTreeMap<String, i64>, BTreeMap<String, i64>) = Default::default();
        for member in members {
            let (written, end) = (
                fewer.entry(member.component_key.clone()).or_default(),
                in_the_end.entry(member.component_key.clone()).or_default(),
            );
            if verb != Verb::Remove || member.never_worked() || others.going.contains(&member.id) {
                continue;
            }
            // Whether it ever counts is known when its removal ends, which subtracts it then.
            if others.uncounted.contains(&member.id) {
                continue;
            }
            let replaced = others.replaced.get(&member.id);
            // It was subtracted when its removal was accepted, or is no longer counted since its successor is, also if that
            // operation has ended or does not lock the instance.
            if member.state == MemberState::Removing && replaced.is_none() {
                continue;
            }
            // A superseded replacement counts its own successor, and a removal that has begun has already subtracted its
            // member.
            *written += i64::from(replaced.is_none_or(|replaced| !replaced.removal));
            *end += i64::from(replaced.is_none_or(|replaced| !replaced.arrived));
        }
        Self { without: members.iter().map(|member| member.id).collect(), others, fewer, in_the_end }
    }

    /// Ensures that the component keeps its quorum without them.
    fn refuse(
        &self,
        verb: Verb,
        manifest: &Manifest,
        component: &Component,
        living: &[Member],
        leaving: &BTreeSet<MemberId>,
    ) -> Result<()> {
        let (Some(fewer), Some(said)) =
            (self.in_the_end.get(&component.key), manifest.component(&component.key))
        else {
            return Ok(());
        };
        let desired = component.desired - fewer;
        if *fewer > 0 && desired < said.count.min {
            let why = format!(
                "{} needs {} members, but {desired} would be desired: add others first, or decommission the instance",
                component.key, said.count.min
            );
            return Err(Error::new(Code::InvalidState, why));
        }
        let out = match verb {
            Verb::Drain | Verb::Remove => true,
            // With the successor first, the old member is removed only once it is not needed any more.
            Verb::Replace => said.replace_order == ReplaceOrder::OldFirst,
            Verb::Add | Verb::Resume | Verb::Recover => false,
        };
        let away: BTreeSet<MemberId> = leaving.union(&self.others.absent).copied().collect();
        match out.then(|| quorum::quorum_violation(said, desired, living, &away, &self.without)).flatten() {
            Some(why) => Err(Error::new(Code::InvalidState, why)),
            None => Ok(()),
        }
    }
}

impl Taken {
    /// Ensures that the desired number stays within the component's maximum: a member that was never active is not counted,
    /// but its successor is, and so is the member itself once it is active.
    fn ensure_count_within_max(
        &self,
        verb: Verb,
        manifest: &Manifest,
        component: &Component,
        members: &[Member],
    ) -> Result<()> {
        let Some(declared) = manifest.component(&component.key) else { return Ok(()) };
        let counts = |member: &&Member| {
            member.component_key == component.key
                && self.without.contains(&member.id)
                && member.never_worked()
                && !self.others.replaced.contains_key(&member.id)
        };
        // A removal that is superseded has already been subtracted, and its member or successor counts again.
        let counts_again = |member: &&Member| {
            member.component_key == component.key
                && self.without.contains(&member.id)
                && self.others.going.contains(&member.id)
                && !member.never_worked()
                && !self.others.uncounted.contains(&member.id)
                && !self.others.replaced.contains_key(&member.id)
        };
        let more = members.iter().filter(|member| counts(member) || counts_again(member)).count() as i64;
        let desired = component.desired + more;
        if !matches!(verb, Verb::Replace | Verb::Recover) || more == 0 || desired <= declared.count.max {
            return Ok(());
        }
        let why = format!(
            "{} can have {} members, but {desired} would be desired: remove the failed one instead",
            component.key, declared.count.max
        );
        Err(Error::new(Code::InvalidState, why))
    }
}

struct Write {
    cx: Cx,
    verb: Verb,
    forced: bool,
    lost: BTreeSet<MemberId>,
    instance: Instance,
    manifest: Manifest,
    members: Vec<Member>,
    taken: Taken,
    superseded: Vec<Operation>,
    successors: Option<Successors>,
}

impl Write {
    /// Writes the command. Locks the components' rows first, in a fixed order: concurrent commands that count the members
    /// wait, and then read the result.
    async fn write(self, tx: &mut Tx, operation: &mut Operation) -> crate::operation::Wrote {
        let mut components = Vec::new();
        for key in self.taken.fewer.keys() {
            components.push(tx.component_change_desired(self.instance.id, key, 0, 0).await?);
        }
        let living = tx.member_living_now(self.instance.id).await?;
        let operations = tx.operations_locking_now(self.instance.id.uuid()).await?;
        let (leaving, going) = (quorum::leaving(&operations), quorum::going(&operations));
        for component in &components {
            self.taken.refuse(self.verb, &self.manifest, component, &living, &leaving)?;
            self.taken.ensure_count_within_max(self.verb, &self.manifest, component, &living)?;
        }
        for member in self.members.iter().filter(|_| self.verb == Verb::Resume) {
            let open = tx.operation_open_on_now(member.id.uuid()).await?;
            ensure_not_leaving(member, operations.iter().chain(&open))?;
        }
        let superseded: BTreeSet<OperationId> =
            self.superseded.iter().map(|operation| operation.id).collect();
        if let Some(why) = replaced_already(self.verb, &self.members, &operations, &superseded) {
            return Err(Error::new(Code::InvalidState, why));
        }
        for before in &self.members {
            let now = living.iter().find(|now| now.id == before.id);
            let lately = going.contains(&before.id) && !self.taken.others.going.contains(&before.id);
            let known = Circumstances { lost: self.lost.contains(&before.id), forced: self.forced };
            let why = suits::fault(self.verb, now.unwrap_or(before), known)
                .or_else(|| lately.then(|| transition_in_words(before)));
            if let Some(why) = why {
                return Err(Error::new(Code::InvalidState, why));
            }
        }
        // A member that failed since it was read has already been subtracted.
        let members: Vec<Member> = self
            .members
            .iter()
            .map(|before| living.iter().find(|now| now.id == before.id).unwrap_or(before).clone())
            .collect();
        let taken = Taken::of(self.verb, &members, self.taken.others);
        let uncounted: Vec<MemberId> = members
            .iter()
            .filter(|member| self.verb == Verb::Remove && taken.others.uncounted.contains(&member.id))
            .map(|member| member.id)
            .collect();
        operation.input.uncounted = uncounted;
        for (key, fewer) in taken.fewer.iter().filter(|(_, fewer)| **fewer > 0) {
            tx.component_change_desired(self.instance.id, key, -fewer, 0).await?;
        }
        match &self.successors {
            Some(successors) => {
                Ok(successors.write(&self.cx, tx, operation, &self.members, &self.superseded).await?)
            }
            None => Ok(Vec::new()),
        }
    }
}

#[cfg(test)]
mod tests {
    use muster_ids::Env;
    use muster_model::instance::Health;

    use super::*;
    use crate::member::tests::member;

    /// Returns the reduction of the desired number as written by a command, and the final one.
    fn counts(state: MemberState, others: impl FnOnce(MemberId) -> Others) -> (i64, i64) {
        let env = Env::for_tests(1);
        let one = Member { active_witness_id: Some(env.id()), ..member(&env, state, Health::Healthy) };
        let taken = Taken::of(Verb::Remove, std::slice::from_ref(&one), others(one.id));
        (taken.fewer["worker"], taken.in_the_end["worker"])
    }

    #[test]
    fn a_removal_over_a_replacement_counts_its_member_once() {
        let replaced = |arrived, removal| {
            move |id| Others {
                replaced: BTreeMap::from([(id, Replaced { arrived, removal })]),
                ..Others::default()
            }
        };
        let active = MemberState::Active;
        assert_eq!(counts(active, |_| Others::default()), (1, 1));
        assert_eq!(counts(active, |id| Others { going: BTreeSet::from([id]), ..Others::default() }), (0, 0));
        // A superseded replacement adds one for a successor that has joined, and subtracts one for a removal without a
        // successor.
        assert_eq!(counts(active, replaced(true, false)), (1, 0));
        assert_eq!(counts(MemberState::Draining, replaced(true, true)), (0, 0));
        assert_eq!(counts(MemberState::Draining, replaced(false, true)), (0, 1));
        assert_eq!(counts(active, replaced(false, false)), (1, 1));
        // Its removal goes on after the replacement that began it: another one subtracts nothing.
        assert_eq!(counts(MemberState::Removing, |_| Others::default()), (0, 0));
        assert_eq!(counts(MemberState::Removing, replaced(false, true)), (0, 1));
    }
}
