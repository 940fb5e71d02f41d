//! What the orders about members have in common: who is meant, whether it can be asked of them now, whether the rest can do
//! without them, and the operation that does it.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use muster_api::{Code, Problem};
use muster_authz::Permission;
use muster_ids::{MemberId, OperationId, TypedId as _};
use muster_manifest::{Manifest, ReplaceOrder, Verb};
use muster_model::event::EventType;
use muster_model::instance::{Component, Instance, InstanceState};
use muster_model::member::Member;
use muster_model::operation::Operation;
use muster_operations::member::of;
use muster_store::Tx;
use serde_json::json;

use super::successor::Successors;
use super::{path, quorum, suits};
use crate::commit::WriteError;
use crate::instance::{self, manifest_of};
use crate::operation::{Begin, begin, deadline, part_of};
use crate::refuse::{Result, refuse};
use crate::{Commit, Cx};

/// An order.
pub(super) struct Order {
    pub(super) verb: Verb,
    pub(super) permission: Permission,
    /// What it takes to have it done without waiting for work to go elsewhere.
    pub(super) forced: Option<Permission>,
    pub(super) members: Vec<String>,
    pub(super) force: bool,
    pub(super) reason: Option<String>,
    pub(super) ready_until: Option<Timestamp>,
    /// How long it has, if nothing is said.
    pub(super) within: SignedDuration,
    pub(super) dry_run: bool,
}

/// Prepares it.
pub(super) async fn order(cx: &Cx, project: &str, reference: &str, order: Order) -> Result<Commit> {
    let instance = cx.instance(project, reference).await?;
    let permission = order.forced.filter(|_| order.force).unwrap_or(order.permission);
    cx.authorize(permission, instance.scope(), "instance")?;
    let (_, manifest) = manifest_of(cx, &instance, instance.app_version_id).await?;
    supported(&manifest, order.verb)?;
    runs(&instance)?;
    let members = meant(cx, &instance, &order).await?;
    let under_way = under_way(cx, &members, &order).await?;
    let deadline_at = deadline(cx, order.ready_until, order.within)?;
    let store = &cx.platform.store;
    let (components, living, operations, places) = tokio::try_join!(
        store.component_list(instance.id),
        store.member_living(instance.id),
        store.operation_touching(instance.id.uuid()),
        store.member_places(instance.id)
    )
    .map_err(refuse)?;
    let going = quorum::going(&operations);
    if let Some(gone) = members.iter().find(|member| going.contains(&member.id) && !order.force) {
        return Err(Problem::new(Code::InvalidState, on_its_way(gone)));
    }
    for member in members.iter().filter(|_| order.verb == Verb::Resume) {
        let open = store.operation_open_on(member.id.uuid()).await.map_err(refuse)?;
        stays(member, operations.iter().chain(&open))?;
        runs_the_same(member, &instance)?;
    }
    let unheard = Successors::unreachable(&places);
    let taken_over: BTreeSet<OperationId> = under_way.iter().map(|operation| operation.id).collect();
    if let Some(why) = replaced_already(order.verb, &members, &operations, &taken_over) {
        return Err(Problem::new(Code::InvalidState, why));
    }
    let taken = Taken::of(order.verb, &members, going, unheard.clone());
    // Once here, so that a dry run says the same; and once more in the transaction, where it counts.
    let now_leaving = quorum::leaving(&operations);
    for component in &components {
        taken.refuse(order.verb, &manifest, component, &living, &now_leaving)?;
    }
    let touched: Vec<String> = members.iter().map(|member| member.id.to_string()).collect();
    let (one, bulk) = of(order.verb);
    let definition = if members.len() == 1 { one } else { bulk };
    let reason = order.reason.unwrap_or_default();
    let names: Vec<&str> = members.iter().map(|member| member.name.as_str()).collect();
    let told = json!({"name": instance.name, "members": names, "reason": reason, "force": order.force});
    let common = Begin {
        definition,
        scope: instance.scope(),
        subject_kind: "instance",
        subject_id: instance.id.uuid(),
        subject: instance.id.to_string(),
        name: instance.name.clone(),
        path: instance::path(&instance),
        touches: Vec::new(),
        shares: vec![instance.id.uuid()],
        items: members.iter().map(part_of).collect(),
        input: json!({"reason": reason, "force": order.force}),
        deadline_at,
        told,
        event: EventType::OperationAccepted,
        supersedes: under_way,
        plan: Begin::plan(definition, &touched, deadline_at),
        dry_run: order.dry_run,
    };
    let begun = match members.as_slice() {
        [only] => Begin {
            subject_kind: "member",
            subject_id: only.id.uuid(),
            subject: only.id.to_string(),
            name: only.name.clone(),
            path: path(only),
            touches: vec![only.id.uuid()],
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
    let begun = match &successors {
        Some(successors) => Begin { input: successors.input(order.force, &reason), ..begun },
        None => begun,
    };
    let cx_of = cx.clone();
    let write =
        Write { cx: cx_of, verb: order.verb, instance, manifest, members, taken, taken_over, successors };
    Ok(begin(cx, begun, move |tx, operation| Box::pin(write.write(tx, operation))))
}

/// Goes on only if the app's members can be asked that.
pub(super) fn supported(manifest: &Manifest, verb: Verb) -> Result<()> {
    if manifest.supports(verb) {
        return Ok(());
    }
    let can: Vec<&str> =
        Verb::ALL.into_iter().filter(|verb| manifest.supports(*verb)).map(Verb::as_str).collect();
    let why = format!(
        "members of {} cannot be asked to {}: they can {}",
        manifest.app,
        verb.as_str(),
        can.join(", ")
    );
    Err(Problem::new(Code::InvalidState, why))
}

/// Goes on only if the instance runs: before and after that its members come and go with it.
pub(super) fn runs(instance: &Instance) -> Result<()> {
    match instance.state {
        InstanceState::Running => Ok(()),
        InstanceState::Created | InstanceState::Starting => {
            let why = format!(
                "{} is {}: wait until it runs (`muster operation watch`)",
                instance.name, instance.state
            );
            Err(Problem::new(Code::InvalidState, why))
        }
        InstanceState::Stopping | InstanceState::Stopped | InstanceState::Failed => {
            let why = format!(
                "{} is {}: its members only go with it (`muster instance decommission`)",
                instance.name, instance.state
            );
            Err(Problem::new(Code::InvalidState, why))
        }
    }
}

/// The members, each once and each able to be asked.
async fn meant(cx: &Cx, instance: &Instance, order: &Order) -> Result<Vec<Member>> {
    let mut members: Vec<Member> = Vec::new();
    for (index, reference) in order.members.iter().enumerate() {
        let member = cx.member(instance, reference).await?;
        if members.iter().any(|named| named.id == member.id) {
            return Err(Problem::field(
                format!("/members/{index}"),
                format!("{} is named twice", member.name),
            ));
        }
        if let Some(why) = suits::fault(order.verb, &member) {
            return Err(Problem::new(Code::InvalidState, why));
        }
        members.push(member);
    }
    Ok(members)
}

/// What is under way on the members and is taken over: by force whatever else is done with one that is there, also where that is
/// parked; a member that is put back to work is not drained first. The same once more is refused, and everything else waits for
/// its turn.
async fn under_way(cx: &Cx, members: &[Member], order: &Order) -> Result<Vec<Operation>> {
    let mut taken_over = Vec::new();
    for member in members {
        let open = cx.platform.store.operation_open_on(member.id.uuid()).await.map_err(refuse)?;
        let kind = of(order.verb).0.kind;
        for operation in open {
            let forced = order.force && operation.input["force"] != json!(true);
            if operation.kind == kind && !forced && !order.dry_run {
                let why = format!(
                    "{kind} of {} is already under way: `muster operation watch {}` shows how far",
                    member.name, operation.id
                );
                return Err(Problem::new(Code::InvalidState, why));
            }
            let in_the_way = matches!(
                operation.kind.as_str(),
                "member.drain" | "member.remove" | "member.replace" | "member.resume" | "member.upgrade"
            );
            let drains = operation.kind == "member.drain";
            if (order.force && in_the_way) || (order.verb == Verb::Resume && drains) {
                taken_over.push(operation);
            }
        }
    }
    Ok(taken_over)
}

fn on_its_way(member: &Member) -> String {
    format!("{} is on its way out already: `muster operation list` shows by which operation", member.name)
}

/// Goes on only if nobody is to take a member's place: it goes then, and is not put back to work.
fn stays<'o>(member: &Member, mut operations: impl Iterator<Item = &'o Operation>) -> Result<()> {
    let replaces = |operation: &&Operation| {
        let named = operation.items.iter().any(|item| item.id == member.id.to_string());
        match operation.kind.as_str() {
            "member.replace" => operation.subject_id == member.id.uuid(),
            "members.replace" => named,
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
            Err(Problem::new(Code::InvalidState, why))
        }
    }
}

/// Goes on only if a member runs what its instance runs: beside the others it must not do otherwise.
fn runs_the_same(member: &Member, instance: &Instance) -> Result<()> {
    if member.app_version_id == Some(instance.app_version_id) {
        return Ok(());
    }
    let why = format!(
        "{} rested while {} came to run another release: replace it (`muster member replace`)",
        member.name, instance.name
    );
    Err(Problem::new(Code::InvalidState, why))
}

/// Why nobody is to take the place of these, if somebody else is to already: each would bring a new one.
fn replaced_already(
    verb: Verb,
    members: &[Member],
    operations: &[Operation],
    taken_over: &BTreeSet<OperationId>,
) -> Option<String> {
    let replacing = quorum::replacing(operations, taken_over);
    let named = members.iter().find(|member| verb == Verb::Replace && replacing.contains(&member.id))?;
    Some(format!(
        "{} is to be replaced already: `muster operation list` shows by which operation",
        named.name
    ))
}

/// Which members an order takes out of work, and how many fewer are wanted after it, by component.
struct Taken {
    without: BTreeSet<MemberId>,
    /// Those of which one fewer is wanted already, because another operation removes them.
    going: BTreeSet<MemberId>,
    /// Those whose nodes nobody hears from: they do not count as in work.
    unheard: BTreeSet<MemberId>,
    fewer: BTreeMap<String, i64>,
}

impl Taken {
    fn of(verb: Verb, members: &[Member], going: BTreeSet<MemberId>, unheard: BTreeSet<MemberId>) -> Self {
        let mut fewer: BTreeMap<String, i64> = BTreeMap::new();
        for member in members {
            let count = fewer.entry(member.component_key.clone()).or_default();
            let counts = !member.never_worked() && !going.contains(&member.id);
            if verb == Verb::Remove && counts {
                *count += 1;
            }
        }
        Self { without: members.iter().map(|member| member.id).collect(), going, unheard, fewer }
    }

    /// Goes on only if the component can do without them.
    fn refuse(
        &self,
        verb: Verb,
        manifest: &Manifest,
        component: &Component,
        living: &[Member],
        leaving: &BTreeSet<MemberId>,
    ) -> Result<()> {
        let (Some(fewer), Some(said)) = (self.fewer.get(&component.key), manifest.component(&component.key))
        else {
            return Ok(());
        };
        let desired = component.desired - fewer;
        if *fewer > 0 && desired < said.count.min {
            let why = format!(
                "{} needs {} members, and {desired} would be wanted: add others first, or decommission the instance",
                component.key, said.count.min
            );
            return Err(Problem::new(Code::InvalidState, why));
        }
        let out = match verb {
            Verb::Drain | Verb::Remove => true,
            // Where the new one comes first, the old one goes when it is not needed any more.
            Verb::Replace => said.replace_order == ReplaceOrder::OldFirst,
            Verb::Add | Verb::Resume | Verb::Recover => false,
        };
        let away: BTreeSet<MemberId> = leaving.union(&self.unheard).copied().collect();
        match out.then(|| quorum::fault(said, desired, living, &away, &self.without)).flatten() {
            Some(why) => Err(Problem::new(Code::InvalidState, why)),
            None => Ok(()),
        }
    }
}

struct Write {
    cx: Cx,
    verb: Verb,
    instance: Instance,
    manifest: Manifest,
    members: Vec<Member>,
    taken: Taken,
    taken_over: BTreeSet<OperationId>,
    successors: Option<Successors>,
}

impl Write {
    /// The components' rows are locked first, always in the same order: whoever counts their members at the same moment waits,
    /// and then sees what this left.
    async fn write(self, tx: &mut Tx, operation: &mut Operation) -> crate::operation::Wrote {
        let mut components = Vec::new();
        for key in self.taken.fewer.keys() {
            components.push(tx.component_want(self.instance.id, key, 0, 0).await?);
        }
        let living = tx.member_living_now(self.instance.id).await?;
        let operations = tx.operation_touching_now(self.instance.id.uuid()).await?;
        let (leaving, going) = (quorum::leaving(&operations), quorum::going(&operations));
        for component in &components {
            self.taken.refuse(self.verb, &self.manifest, component, &living, &leaving)?;
        }
        for member in self.members.iter().filter(|_| self.verb == Verb::Resume) {
            let open = tx.operation_open_on_now(member.id.uuid()).await?;
            stays(member, operations.iter().chain(&open))?;
        }
        if let Some(why) = replaced_already(self.verb, &self.members, &operations, &self.taken_over) {
            return Err(WriteError::from(Problem::new(Code::InvalidState, why)));
        }
        for before in &self.members {
            let now = living.iter().find(|now| now.id == before.id);
            let lately = going.contains(&before.id) && !self.taken.going.contains(&before.id);
            let why =
                suits::fault(self.verb, now.unwrap_or(before)).or_else(|| lately.then(|| on_its_way(before)));
            if let Some(why) = why {
                return Err(WriteError::from(Problem::new(Code::InvalidState, why)));
            }
        }
        // One that failed since it was looked at was counted out by that.
        let members: Vec<Member> = self
            .members
            .iter()
            .map(|before| living.iter().find(|now| now.id == before.id).unwrap_or(before).clone())
            .collect();
        let taken = Taken::of(self.verb, &members, self.taken.going, self.taken.unheard);
        for (key, fewer) in taken.fewer.iter().filter(|(_, fewer)| **fewer > 0) {
            tx.component_want(self.instance.id, key, -fewer, 0).await?;
        }
        match &self.successors {
            Some(successors) => Ok(successors.write(&self.cx, tx, operation, &self.members).await?),
            None => Ok(Vec::new()),
        }
    }
}
