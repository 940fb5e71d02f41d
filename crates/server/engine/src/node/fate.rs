//! Decides how a node drain treats a member. Pure, so that a dry run and the drain decide alike.

use muster_manifest::{Manifest, ReplaceOrder, Verb};
use muster_model::member::{Member, MemberState};

/// How a node drain treats a member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MemberFate {
    /// It is replaced elsewhere, in this order.
    Replace(ReplaceOrder),
    /// It is drained in place: its app cannot replace it.
    Drain,
    /// It stays, and the drain waits, for this reason.
    Wait(String),
    /// It stays until its owner acts, for this reason.
    Stay(String),
}

/// Mode of a node drain.
#[derive(Debug, Clone, Copy)]
pub struct DrainMode {
    /// Also replace members that stop before their successors start.
    pub force: bool,
    /// The node is unreachable: its members are fenced, and their successors start before they are removed.
    pub unreachable: bool,
}

/// Decides how a member is treated. `manifest` is that of the release which the member runs.
pub fn member_fate(member: &Member, manifest: &Manifest, mode: DrainMode) -> MemberFate {
    match member.state {
        MemberState::Active | MemberState::Drained => {}
        MemberState::Failed => {
            let why = format!("{} has failed: its owner must recover, replace or remove it", member.name);
            return MemberFate::Stay(why);
        }
        state => return MemberFate::Wait(format!("{} is {state}", member.name)),
    }
    let Some(component) = manifest.component(&member.component_key) else {
        let why = format!("its release has no component {}: its owner must remove it", member.component_key);
        return MemberFate::Stay(why);
    };
    if !manifest.supports(Verb::Replace) {
        return match manifest.supports(Verb::Drain) && member.state == MemberState::Active {
            true => MemberFate::Drain,
            false => MemberFate::Stay(format!(
                "{} cannot replace its members: its owner must remove it",
                manifest.app
            )),
        };
    }
    // A fenced member has already stopped for its peers; its successor starts before it is removed.
    if component.replace_order == ReplaceOrder::NewFirst || mode.unreachable {
        return MemberFate::Replace(ReplaceOrder::NewFirst);
    }
    if mode.force {
        return MemberFate::Replace(ReplaceOrder::OldFirst);
    }
    MemberFate::Wait(format!(
        "{} is replaced old-first: it stops before its successor starts. Its owner must replace it (`muster \
         member replace`), or drain with --force",
        member.name
    ))
}
