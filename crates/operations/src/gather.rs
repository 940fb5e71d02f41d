//! Many members, one operation: each has an operation of its own, so many at once, and the whole waits for all of them.

use muster_ids::TypedId as _;
use muster_model::member::Member;
use muster_model::operation::{Item, ItemState, OperationState};
use muster_store::{OperationChild, Result};
use serde_json::Value;

use crate::child::{self, Part};
use crate::{Act, Definition, StepCx, Verdict, supersede};

/// What is to be done with one member.
pub(crate) struct Planned {
    /// Which.
    pub(crate) member: Member,
    /// By which operation.
    pub(crate) definition: &'static Definition,
    /// With what.
    pub(crate) input: Value,
}

/// How it stands with all of them.
pub(crate) enum Gathered {
    /// Some are under way; this is what the step does meanwhile.
    Pending(Act),
    /// All of them have ended: the items, and how many did what they were for.
    Ended(Vec<Item>, usize),
}

/// Opens what is not open yet, `at_once` at a time, and looks how the rest stands. A newer operation takes over from one that
/// is under way on the same member where `takes_over` says so.
pub(crate) async fn gather(
    cx: &StepCx<'_>,
    planned: Vec<Planned>,
    at_once: usize,
    takes_over: bool,
) -> Result<Gathered> {
    let round = cx.operation.input["round"].as_i64().unwrap_or(0);
    let children = cx.store.operation_children(cx.operation.id).await?;
    let (mut items, mut open, mut fresh) = (Vec::new(), 0, Vec::new());
    let (mut succeeded, mut pending) = (0, 0);
    for plan in planned {
        let purpose = format!("{} {}", plan.definition.kind, plan.member.id);
        let prefix = format!("{}/{purpose}/", cx.step);
        let last = children.iter().rfind(|child| child.opened_for.starts_with(&prefix));
        // What failed in an earlier round is tried again in this one; what was done then stays done.
        let last = last.filter(|child| {
            child.state == OperationState::Succeeded
                || !child.state.is_final()
                || child.opened_for == format!("{prefix}{round}")
        });
        items.push(item(&plan.member, last));
        match last {
            Some(child) if child.state == OperationState::Succeeded => succeeded += 1,
            Some(child) if child.state.is_final() => {}
            Some(_) => open += 1,
            None => {
                pending += 1;
                if open + fresh.len() < at_once {
                    fresh.push((purpose, plan));
                }
            }
        }
    }
    let (now, look) = (cx.now, cx.timing.look);
    if !fresh.is_empty() {
        let mut opened = Vec::new();
        for (purpose, plan) in fresh {
            let mut part = child::make(
                cx,
                &purpose,
                Part {
                    definition: plan.definition,
                    subject_kind: "member",
                    subject_id: plan.member.id.uuid(),
                    subject_name: plan.member.name.clone(),
                    input: plan.input,
                    deadline_at: cx.operation.deadline_at,
                },
            );
            let under_way = match takes_over {
                true => cx.store.operation_open_on(plan.member.id.uuid()).await?,
                false => Vec::new(),
            };
            if let Some(item) = items.iter_mut().find(|item| item.id == plan.member.id.to_string()) {
                item.state = ItemState::Running;
                item.operation_id = Some(part.id);
            }
            part.due_at = now;
            opened.push((part, under_way));
        }
        let count = opened.len();
        return Ok(Gathered::Pending(Act::write(move |tx, told| {
            Box::pin(async move {
                for (mut part, under_way) in opened {
                    for old in under_way {
                        supersede(tx, &old, &mut part, now).await?;
                    }
                    tx.operation_open(&part).await?;
                }
                told.items = Some(items);
                Ok(Verdict::Wait { reason: format!("{count} more are under way"), until: now + look })
            })
        })));
    }
    if open > 0 || pending > 0 {
        let all = items.len();
        let parked: Vec<String> = children
            .iter()
            .filter(|child| child.state == OperationState::Parked)
            .map(|child| format!("{}: {}", child.id, child.says.as_deref().unwrap_or_default()))
            .collect();
        let reason = match parked.first() {
            None => format!("{succeeded} of {all} are done, {open} are under way"),
            Some(first) => format!(
                "{succeeded} of {all} are done, {open} are under way, of which {} are parked ({first})",
                parked.len()
            ),
        };
        if items == cx.operation.items && cx.operation.waiting.as_deref() == Some(&reason) {
            return Ok(Gathered::Pending(Verdict::Wait { reason, until: now + look }.into()));
        }
        return Ok(Gathered::Pending(Act::write(move |_, told| {
            Box::pin(async move {
                told.items = Some(items);
                Ok(Verdict::Wait { reason, until: now + look })
            })
        })));
    }
    Ok(Gathered::Ended(items, succeeded))
}

fn item(member: &Member, child: Option<&OperationChild>) -> Item {
    let state = match child.map(|child| child.state) {
        None => ItemState::Pending,
        Some(OperationState::Succeeded) => ItemState::Succeeded,
        Some(state) if state.is_final() => ItemState::Failed,
        Some(_) => ItemState::Running,
    };
    Item {
        id: member.id.to_string(),
        name: member.name.clone(),
        state,
        operation_id: child.map(|child| child.id),
        message: child
            .filter(|child| child.state != OperationState::Succeeded)
            .and_then(|child| child.says.clone()),
    }
}

/// What the failures say, the first few of them.
pub(crate) fn failures(items: &[Item]) -> String {
    let failed: Vec<String> = items
        .iter()
        .filter(|item| item.state == ItemState::Failed)
        .map(|item| format!("{}: {}", item.name, item.message.as_deref().unwrap_or("it gave no reason")))
        .collect();
    let shown = failed.iter().take(3).cloned().collect::<Vec<_>>().join("; ");
    match failed.len() {
        0..=3 => shown,
        all => format!("{shown}; and {} more", all - 3),
    }
}
