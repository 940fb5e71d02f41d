//! Add the members of a new instance, component after component in the order that the manifest says. The undo removes them.

use futures::future::BoxFuture;
use muster_ids::MemberId;
use muster_model::event::EventType;
use muster_model::instance::{Instance, InstanceState};
use muster_model::member::{Member, MemberState};
use muster_model::operation::ItemState;
use muster_store::{Result, StoreError};
use serde_json::json;

use super::subject::{adding, order, path, subject};
use crate::definition::{Step, StepCx, Undo};
use crate::gather::{Gathered, Planned, TakesOver, failures, gather};
use crate::member::{ADD, REMOVE, manifest_of};
use crate::{Act, Verdict};

pub(super) const START: Step = Step {
    name: "start",
    does: "adds its members, component after component",
    verifies: false,
    run,
    undo: Undo::Run(undo),
};

const AT_ONCE: usize = 64;

async fn members(cx: &StepCx<'_>) -> Result<Vec<Member>> {
    let mut members = Vec::new();
    for item in &cx.operation.items {
        let id: MemberId = item.id.parse().map_err(|_| StoreError::Corrupt("a member of an operation"))?;
        members.push(cx.store.member_lookup(id).await?.ok_or(StoreError::Gone("member".to_owned()))?);
    }
    Ok(members)
}

fn run<'a>(cx: &'a StepCx<'a>) -> BoxFuture<'a, Result<Act>> {
    Box::pin(async move {
        let instance = subject(cx).await?;
        if instance.state == InstanceState::Created {
            let now = cx.now;
            return Ok(Act::write(move |tx, told| {
                Box::pin(async move {
                    let after = Instance { state: InstanceState::Starting, ..instance.clone() };
                    tx.instance_move(&instance, &after, now).await?;
                    told.events.push((
                        EventType::InstanceStarting,
                        path(&after),
                        json!({"name": instance.name}),
                    ));
                    Ok(Verdict::Wait { reason: "its state is written down".to_owned(), until: now })
                })
            }));
        }
        let manifest = manifest_of(cx, instance.app_version_id).await?;
        let members = members(cx).await?;
        // The first wave that is not through: those after it wait for it.
        let through = |item_of: &Member| {
            let item = cx.operation.items.iter().find(|item| item.id == item_of.id.to_string());
            item.is_some_and(|item| matches!(item.state, ItemState::Succeeded | ItemState::Failed))
        };
        let wave =
            members.iter().filter(|member| !through(member)).map(|member| order(&manifest, member)).min();
        let planned: Vec<Planned> = members
            .into_iter()
            .filter(|member| wave.is_none_or(|wave| order(&manifest, member) <= wave))
            .map(|member| Planned { member, definition: &ADD, input: adding(cx) })
            .collect();
        let whole = planned.len() == cx.operation.items.len();
        let (items, succeeded) = match gather(cx, planned, AT_ONCE, TakesOver::Nothing).await? {
            Gathered::Pending(act) => return Ok(merged(cx, act)),
            Gathered::Ended(items, succeeded) => (items, succeeded),
        };
        let mut all = cx.operation.items.clone();
        for item in &mut all {
            if let Some(now) = items.iter().find(|now| now.id == item.id) {
                *item = now.clone();
            }
        }
        // A component whose members cannot be had is not waited for; what comes after it would not work either.
        let failed = items.len() - succeeded;
        let now = cx.now;
        Ok(Act::write(move |_, told| {
            Box::pin(async move {
                let why = failures(&all);
                told.items = Some(all);
                Ok(match (failed, whole) {
                    (0, true) => Verdict::said("all of its members work"),
                    (0, false) => {
                        Verdict::Wait { reason: "the next components follow".to_owned(), until: now }
                    }
                    _ => Verdict::Refused { reason: "below_minimum", message: why },
                })
            })
        }))
    })
}

/// What a wave says of its own items, with those of the other waves as they were.
fn merged(cx: &StepCx<'_>, act: Act) -> Act {
    let before = cx.operation.items.clone();
    match act {
        Act::Say(verdict) => Act::Say(verdict),
        Act::Write(write) => Act::write(move |tx, told| {
            Box::pin(async move {
                let verdict = write(tx, told).await?;
                if let Some(items) = told.items.take() {
                    let mut all = before;
                    for item in &mut all {
                        if let Some(now) = items.iter().find(|now| now.id == item.id) {
                            *item = now.clone();
                        }
                    }
                    told.items = Some(all);
                }
                Ok(verdict)
            })
        }),
    }
}

fn undo<'a>(cx: &'a StepCx<'a>) -> BoxFuture<'a, Result<Act>> {
    Box::pin(async move {
        let mut planned: Vec<Planned> = Vec::new();
        for member in members(cx).await? {
            if member.state != MemberState::Removed {
                planned.push(Planned { member, definition: &REMOVE, input: json!({"force": true}) });
            }
        }
        if planned.is_empty() {
            return Ok(Verdict::said("none of its members is left").into());
        }
        Ok(match gather(cx, planned, AT_ONCE, TakesOver::All).await? {
            Gathered::Pending(act) => without_items(act),
            Gathered::Ended(items, succeeded) if items.len() == succeeded => {
                Verdict::said("its members are removed").into()
            }
            Gathered::Ended(items, _) => {
                Verdict::Refused { reason: "below_minimum", message: failures(&items) }.into()
            }
        })
    })
}

/// Undoing has items of its own, which must not take the place of what was asked for.
fn without_items(act: Act) -> Act {
    match act {
        Act::Say(verdict) => Act::Say(verdict),
        Act::Write(write) => Act::write(move |tx, told| {
            Box::pin(async move {
                let verdict = write(tx, told).await?;
                told.items = None;
                Ok(verdict)
            })
        }),
    }
}
