//! Give an allocation back.

use muster_api::allocation::AllocationAct;
use muster_api::{Code, Problem};
use muster_authz::Permission;
use muster_model::allocation::Allocation;
use muster_model::member::{Member, MemberState};
use muster_operations::allocation::RELEASE;
use serde_json::json;

use super::act::{Act, act};
use crate::refuse::{Result, refuse};
use crate::{Commit, Cx};

/// So many members are named in a refusal.
const NAMED: usize = 5;

/// Prepares `allocation_release`. Whatever else is under way on it is superseded: a release must always be possible.
pub async fn release(cx: &Cx, project: &str, reference: &str, body: AllocationAct) -> Result<Commit> {
    let allocation = cx.allocation(project, reference).await?;
    cx.authorize(Permission::AllocationRelease, allocation.scope(), "allocation")?;
    if allocation.state.is_final() {
        let detail = format!("it is {}: there is nothing left to release", allocation.state);
        return Err(Problem::new(Code::InvalidState, detail));
    }
    if allocation.protected {
        let detail =
            "it is protected: take the protection away first (`muster allocation update --protected false`)";
        return Err(Problem::new(Code::InvalidState, detail));
    }
    without_members(cx, &allocation).await?;
    let deadline_at = cx.now + cx.platform.engine.timing().release;
    let told = json!({"name": allocation.name, "reason": body.reason.clone().unwrap_or_default()});
    act(
        cx,
        Act {
            allocation,
            definition: &RELEASE,
            input: json!({"reason": body.reason.unwrap_or_default()}),
            deadline_at,
            told,
            dry_run: body.dry_run.unwrap_or(false),
            supersedes: true,
        },
    )
    .await
}

/// Goes on only if no member is left in it but those that are on their way out: it would be torn out of its instance otherwise.
async fn without_members(cx: &Cx, allocation: &Allocation) -> Result<()> {
    let members = cx.platform.store.member_in(allocation.id).await.map_err(refuse)?;
    let stays = |member: &&Member| member.state != MemberState::Removing && !member.fenced;
    let staying: Vec<&str> = members.iter().filter(stays).map(|member| member.name.as_str()).collect();
    if staying.is_empty() {
        return Ok(());
    }
    let more = if staying.len() > NAMED { ", …" } else { "" };
    let named = staying.iter().take(NAMED).copied().collect::<Vec<_>>().join(", ");
    let detail = format!(
        "it holds members of instances ({named}{more}): remove or replace them first (`muster member remove`), or decommission their \
         instance"
    );
    Err(Problem::new(Code::InvalidState, detail))
}
