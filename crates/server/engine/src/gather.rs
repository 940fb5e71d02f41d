//! Runs one child operation for each of many members, with bounded concurrency, and waits for all of them.

use muster_db::{OperationChild, Result};
use muster_ids::TypedId as _;
use muster_model::event::Timeline;
use muster_model::member::Member;
use muster_model::operation::{Item, ItemState, OperationKind, OperationState};
use muster_model::operation_input::OperationInput;

use crate::child::{self, ChildRequest};
use crate::step_outcome::QUARANTINED;
use crate::{Definition, StepAction, StepCx, StepOutcome, supersede};

/// Planned child operation of one member.
pub(crate) struct Planned {
    /// Its member.
    pub(crate) member: Member,
    /// Kind of operation.
    pub(crate) definition: &'static Definition,
    /// Input of the operation.
    pub(crate) input: OperationInput,
}

/// Progress of all planned operations.
pub(crate) enum Gathered {
    /// Some are open; the step does this meanwhile.
    Pending(StepAction),
    /// All have ended: the items, and how many succeeded.
    Ended(Vec<Item>, usize),
}

/// Open operations on its member that a child supersedes. It waits for all others.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum TakesOver {
    /// None.
    Nothing,
    /// Those left by an upgrade, not those requested by users.
    Upgrades,
    /// All: the member is being removed.
    All,
}

impl TakesOver {
    fn from(self, kind: OperationKind) -> bool {
        match self {
            Self::Nothing => false,
            Self::Upgrades => kind == OperationKind::MemberUpgrade,
            Self::All => true,
        }
    }
}

/// Opens missing children, at most `at_once` at a time, and returns the progress of all. A child supersedes an open
/// operation on its member as `takes_over` allows.
pub(crate) async fn gather(
    cx: &StepCx<'_>,
    planned: Vec<Planned>,
    at_once: usize,
    takes_over: TakesOver,
) -> Result<Gathered> {
    gather_all(cx, planned, at_once, takes_over, false).await
}

/// Like [`gather`], for a parent without locks on the members' instances: each child takes a shared lock on its member's
/// instance, so that it and operations on the whole instance exclude each other.
pub(crate) async fn gather_sharing(
    cx: &StepCx<'_>,
    planned: Vec<Planned>,
    at_once: usize,
    takes_over: TakesOver,
) -> Result<Gathered> {
    gather_all(cx, planned, at_once, takes_over, true).await
}

async fn gather_all(
    cx: &StepCx<'_>,
    planned: Vec<Planned>,
    at_once: usize,
    takes_over: TakesOver,
    shares_instance: bool,
) -> Result<Gathered> {
    let retry_epoch = cx.operation.input.retry_epoch;
    let children = cx.store.operation_children(cx.operation.id).await?;
    let purposes: Vec<String> =
        planned.iter().map(|plan| format!("{} {}", plan.definition.kind, plan.member.id)).collect();
    let prefixes: Vec<String> = purposes.iter().map(|purpose| format!("{}/{purpose}/", cx.step)).collect();
    let Tally { last, opens, succeeded, open, pending } = tally(&prefixes, &children, retry_epoch, at_once);
    let mut items: Vec<Item> =
        planned.iter().zip(&last).map(|(plan, child)| item(&plan.member, *child)).collect();
    let fresh: Vec<(String, Planned)> = purposes
        .into_iter()
        .zip(planned)
        .enumerate()
        .filter(|(place, _)| opens.contains(place))
        .map(|(_, fresh)| fresh)
        .collect();
    let (now, look) = (cx.now, cx.timing.look);
    if !fresh.is_empty() {
        let mut opened = Vec::new();
        for (purpose, plan) in fresh {
            let mut child = child::make(
                cx,
                &purpose,
                ChildRequest {
                    definition: plan.definition,
                    subject_kind: "member",
                    subject_id: plan.member.id.uuid(),
                    subject_name: plan.member.name.clone(),
                    timeline: Timeline::of_member(&plan.member),
                    input: plan.input,
                    deadline_at: cx.operation.deadline_at,
                },
            );
            let mut under_way = match takes_over {
                TakesOver::Nothing => Vec::new(),
                _ => cx.store.operation_open_on(plan.member.id.uuid()).await?,
            };
            under_way.retain(|other| takes_over.from(other.kind));
            if let Some(item) = items.iter_mut().find(|item| item.id == plan.member.id.to_string()) {
                item.state = ItemState::Running;
                item.operation_id = Some(child.id);
            }
            child.due_at = now;
            if shares_instance {
                child.shared_locks = vec![plan.member.instance_id.uuid()];
            }
            opened.push((child, under_way));
        }
        let (count, env) = (opened.len(), cx.env.clone());
        return Ok(Gathered::Pending(StepAction::commit(move |tx, effects| {
            Box::pin(async move {
                for (mut child, under_way) in opened {
                    for old in under_way {
                        supersede(tx, &env, &old, &mut child, now).await?;
                    }
                    tx.operation_open(&child).await?;
                }
                effects.items = Some(items);
                Ok(StepOutcome::Wait { reason: format!("{count} more are in progress"), until: now + look })
            })
        })));
    }
    if open > 0 || pending > 0 {
        let all = items.len();
        let blocked: Vec<String> = children
            .iter()
            .filter(|child| child.state == OperationState::Blocked)
            .map(|child| format!("{}: {}", child.id, child.message.as_deref().unwrap_or_default()))
            .collect();
        let reason = match blocked.first() {
            None if open == 0 => {
                format!("{succeeded} of {all} are done; the rest waits until enough other members are active")
            }
            None => format!("{succeeded} of {all} are done, {open} are in progress"),
            Some(first) => format!(
                "{succeeded} of {all} are done, {open} are in progress, of which {} are blocked ({first})",
                blocked.len()
            ),
        };
        if items == cx.operation.items && cx.operation.waiting.as_deref() == Some(&reason) {
            return Ok(Gathered::Pending(StepOutcome::Wait { reason, until: now + look }.into()));
        }
        return Ok(Gathered::Pending(StepAction::commit(move |_, effects| {
            Box::pin(async move {
                effects.items = Some(items);
                Ok(StepOutcome::Wait { reason, until: now + look })
            })
        })));
    }
    Ok(Gathered::Ended(items, succeeded))
}

/// Progress of the planned operations.
#[derive(Debug)]
struct Tally<'c> {
    /// The child that counts for each, if any.
    last: Vec<Option<&'c OperationChild>>,
    /// Indexes for which a child is opened now.
    opens: Vec<usize>,
    /// Number that succeeded.
    succeeded: usize,
    /// Number in progress.
    open: usize,
    /// Number without a child.
    pending: usize,
}

/// Counts the children by their key prefixes and selects those to open now, so that at most `at_once` are in progress. A
/// failure in an earlier retry epoch is retried in this one; a success stays.
fn tally<'c>(
    prefixes: &[String],
    children: &'c [OperationChild],
    retry_epoch: u32,
    at_once: usize,
) -> Tally<'c> {
    let last: Vec<Option<&OperationChild>> = prefixes
        .iter()
        .map(|prefix| {
            let last = children.iter().rfind(|child| child.spawn_key.starts_with(prefix.as_str()));
            last.filter(|child| {
                child.state == OperationState::Succeeded
                    || !child.state.is_final()
                    || child.spawn_key == format!("{prefix}{retry_epoch}")
            })
        })
        .collect();
    let count =
        |such: fn(OperationState) -> bool| last.iter().flatten().filter(|child| such(child.state)).count();
    let succeeded = count(|state| state == OperationState::Succeeded);
    let open = count(|state| !state.is_final());
    let waiting: Vec<usize> =
        last.iter().enumerate().filter(|(_, child)| child.is_none()).map(|(place, _)| place).collect();
    let pending = waiting.len();
    let opens = waiting.into_iter().take(at_once.saturating_sub(open)).collect();
    Tally { last, opens, succeeded, open, pending }
}

fn item(member: &Member, child: Option<&OperationChild>) -> Item {
    let state = match child.map(|child| child.state) {
        None => ItemState::Pending,
        Some(OperationState::Succeeded) => ItemState::Succeeded,
        Some(OperationState::Blocked) => ItemState::Blocked,
        Some(OperationState::Partial) => ItemState::Partial,
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
            .and_then(|child| child.message.clone()),
    }
}

/// Returns the refusal of a step whose children have all ended, and left some members in quarantine; none failed.
pub(crate) fn quarantined(items: &[Item]) -> Option<StepOutcome> {
    let is = |state: ItemState| move |item: &Item| item.state == state;
    if items.iter().any(is(ItemState::Failed)) || !items.iter().any(is(ItemState::Partial)) {
        return None;
    }
    let message = few(items, ItemState::Partial);
    Some(StepOutcome::Refused { reason: QUARANTINED, message })
}

/// Summarises the first few failures.
pub(crate) fn failures(items: &[Item]) -> String {
    few(items, ItemState::Failed)
}

/// Summarises the first few items in this state.
fn few(items: &[Item], state: ItemState) -> String {
    let failed: Vec<String> = items
        .iter()
        .filter(|item| item.state == state)
        .map(|item| format!("{}: {}", item.name, item.message.as_deref().unwrap_or("it gave no reason")))
        .collect();
    let shown = failed.iter().take(3).cloned().collect::<Vec<_>>().join("; ");
    match failed.len() {
        0..=3 => shown,
        all => format!("{shown}; and {} more", all - 3),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use muster_ids::Env;
    use proptest::prelude::*;

    use super::*;

    const STATES: [OperationState; 6] = [
        OperationState::Running,
        OperationState::Blocked,
        OperationState::Succeeded,
        OperationState::Failed,
        OperationState::Cancelled,
        OperationState::Superseded,
    ];

    fn child(env: &Env, prefix: &str, retry_epoch: u32, state: OperationState) -> OperationChild {
        OperationChild {
            id: env.id(),
            kind: OperationKind::MemberAdd,
            subject_id: env.uuid(),
            state,
            spawn_key: format!("{prefix}{retry_epoch}"),
            reason: None,
            message: None,
        }
    }

    proptest! {
        /// Whatever the outcomes of the children: concurrency stays bounded, nothing runs twice, and there is progress until
        /// all have ended.
        #[test]
        fn the_pace_is_kept_and_all_come_to_their_end(
            members in 1usize..20,
            at_once in 1usize..6,
            rounds in 0u32..3,
            outcomes in prop::collection::vec(0usize..6, 1..200),
        ) {
            let env = Env::for_tests(1);
            let prefixes: Vec<String> = (0..members).map(|n| format!("each/member.add m{n:03}/")).collect();
            let mut children: Vec<OperationChild> = Vec::new();
            let mut done: BTreeMap<usize, usize> = BTreeMap::new();
            let mut outcome = outcomes.iter().cycle();
            for retry_epoch in 0..=rounds {
                for _ in 0..500 {
                    let found = tally(&prefixes, &children, retry_epoch, at_once);
                    prop_assert!(found.open + found.opens.len() <= at_once.max(found.open));
                    prop_assert!(found.succeeded + found.open + found.pending <= members);
                    let ended = found.open == 0 && found.pending == 0;
                    // While anything is left, there is something to open or to wait for.
                    prop_assert!(ended || found.open > 0 || !found.opens.is_empty());
                    if ended {
                        break;
                    }
                    let opens = found.opens.clone();
                    for place in opens {
                        prop_assert!(!done.contains_key(&place), "it was done already");
                        children.push(child(&env, &prefixes[place], retry_epoch, OperationState::Running));
                    }
                    // An open child ends, or is blocked and then ends.
                    let next = STATES[*outcome.next().unwrap()];
                    if let Some(under_way) = children.iter_mut().find(|child| !child.state.is_final()) {
                        let stuck = under_way.state == OperationState::Blocked && !next.is_final();
                        let stays = next == OperationState::Running;
                        under_way.state = if stuck || stays { OperationState::Failed } else { next };
                        if next == OperationState::Succeeded {
                            let name = under_way.spawn_key.clone();
                            let place = prefixes.iter().position(|prefix| name.starts_with(prefix.as_str())).unwrap();
                            *done.entry(place).or_default() += 1;
                        }
                    }
                }
                let found = tally(&prefixes, &children, retry_epoch, at_once);
                prop_assert_eq!((found.open, found.pending), (0, 0), "it came to no end");
                prop_assert_eq!(found.succeeded, done.len());
            }
            prop_assert!(done.values().all(|times| *times == 1));
        }
    }

    #[test]
    fn those_that_are_under_way_count_wherever_they_stand() {
        let env = Env::for_tests(1);
        let prefixes: Vec<String> = (0..3).map(|n| format!("each/member.drain m{n}/")).collect();
        let children = [
            child(&env, &prefixes[0], 0, OperationState::Failed),
            child(&env, &prefixes[1], 0, OperationState::Running),
            child(&env, &prefixes[2], 0, OperationState::Running),
        ];
        let found = tally(&prefixes, &children, 1, 2);
        assert_eq!((found.opens, found.open, found.pending), (Vec::new(), 2, 1));
    }

    #[test]
    fn a_few_failures_are_named_and_the_rest_counted() {
        let item = |n: usize, state: ItemState| Item {
            id: n.to_string(),
            name: format!("m{n}"),
            state,
            operation_id: None,
            message: (n != 2).then(|| "no".to_owned()),
        };
        let mut items = vec![item(0, ItemState::Succeeded)];
        assert_eq!(failures(&items), "");
        items.extend((1..=3).map(|n| item(n, ItemState::Failed)));
        assert_eq!(failures(&items), "m1: no; m2: it gave no reason; m3: no");
        items.extend((4..=5).map(|n| item(n, ItemState::Failed)));
        assert_eq!(failures(&items), "m1: no; m2: it gave no reason; m3: no; and 2 more");
    }
}
