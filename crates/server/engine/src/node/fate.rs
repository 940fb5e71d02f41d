//! What a drain of its node does with a member. Pure, so that a dry run and the drain itself decide alike.

use muster_manifest::{Manifest, ReplaceOrder, Verb};
use muster_model::member::{Member, MemberState};

/// What a drain of its node does with a member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MemberFate {
    /// It is replaced elsewhere. The order is that of the replacement.
    Replace(ReplaceOrder),
    /// It is drained where it is: its app cannot replace it.
    Drain,
    /// It stays, and the drain waits, for this reason.
    Wait(String),
    /// It stays, and only its owner can do something about that.
    Stay(String),
}

/// How a node is drained.
#[derive(Debug, Clone, Copy)]
pub struct DrainMode {
    /// Members that stop before their successors start are replaced too.
    pub force: bool,
    /// The node does not answer: its members are fenced, and their successors start before they are removed.
    pub unreachable: bool,
}

/// Decides what becomes of a member. `manifest` is that of the release which the member runs.
pub fn member_fate(member: &Member, manifest: &Manifest, mode: DrainMode) -> MemberFate {
    match member.state {
        MemberState::Active | MemberState::Drained => {}
        MemberState::Failed => {
            let why = format!("{} has failed: its owner recovers, replaces or removes it", member.name);
            return MemberFate::Stay(why);
        }
        state => return MemberFate::Wait(format!("{} is {state}", member.name)),
    }
    let Some(component) = manifest.component(&member.component_key) else {
        let why = format!("its release has no component {}: its owner removes it", member.component_key);
        return MemberFate::Stay(why);
    };
    if !manifest.supports(Verb::Replace) {
        return match manifest.supports(Verb::Drain) && member.state == MemberState::Active {
            true => MemberFate::Drain,
            false => {
                MemberFate::Stay(format!("{} cannot replace its members: its owner removes it", manifest.app))
            }
        };
    }
    // A member that is cut off has stopped for the others; its successor starts before it is removed.
    if component.replace_order == ReplaceOrder::NewFirst || mode.unreachable {
        return MemberFate::Replace(ReplaceOrder::NewFirst);
    }
    if mode.force {
        return MemberFate::Replace(ReplaceOrder::OldFirst);
    }
    MemberFate::Wait(format!(
        "{} is replaced old-first: it stops before its successor starts. Its owner replaces it (`muster member replace`), \
         or drain with --force",
        member.name
    ))
}
