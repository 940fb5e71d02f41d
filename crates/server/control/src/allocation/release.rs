//! Release an allocation.

use jiff::SignedDuration;
use muster_api::Code;
use muster_api::allocation::AllocationRelease;
use muster_authz::Permission;
use muster_engine::allocation::{Obstacle, Occupants, RELEASE, find_obstacle, occupants};
use muster_model::allocation::Allocation;
use muster_model::operation_input::OperationInput;
use serde_json::json;

use super::act::{Act, act};
use crate::{Cx, Error, PreparedCommand, Result};

/// Maximum number of members named in an error message.
const NAMED: usize = 5;

/// Extra time for the removal of members, beside the release itself.
pub const MEMBERS_WITHIN: SignedDuration = SignedDuration::from_hours(1);

/// Prepares `allocation_release`. It supersedes every open operation on the allocation: a release must always be possible.
/// A forced one does not wait for an unreachable node, and also supersedes a release that does.
pub async fn release(
    cx: &Cx,
    project: &str,
    reference: &str,
    body: AllocationRelease,
) -> Result<PreparedCommand> {
    let allocation = cx.allocation(project, reference).await?;
    cx.authorize(Permission::AllocationRelease, allocation.scope(), "allocation")?;
    cx.ensure_operated(&allocation).await?;
    let (cascade, force) = (body.cascade.unwrap_or(false), body.force.unwrap_or(false));
    if cascade {
        let needed = if force { Permission::MemberForceRemove } else { Permission::MemberRemove };
        cx.authorize(needed, allocation.scope(), "allocation")?;
    }
    if allocation.state.is_final() {
        let detail = format!("it is {}: nothing is left to release", allocation.state);
        return Err(Error::new(Code::InvalidState, detail));
    }
    if allocation.protected {
        let name = &allocation.name;
        let detail =
            format!("it is protected: run `muster allocation update {name} --protected=false` first");
        return Err(Error::new(Code::InvalidState, detail));
    }
    let found = members_in(cx, &allocation).await?;
    if !cascade {
        ensure_no_members(&found)?;
    } else if let Some(Obstacle::Needed(why)) = find_obstacle(&cx.platform.store, &found, force).await? {
        return Err(Error::new(Code::InvalidState, why));
    }
    let members: Vec<&str> =
        found.iter().flat_map(|of| &of.members).map(|member| member.name.as_str()).collect();
    let touched: Vec<String> =
        found.iter().flat_map(|of| &of.members).map(|member| member.id.to_string()).collect();
    let within = if found.is_empty() { SignedDuration::ZERO } else { MEMBERS_WITHIN };
    let deadline_at = cx.now + cx.platform.engine.timing().release + within;
    let reason = body.reason.unwrap_or_default();
    let event_data = json!({"name": allocation.name, "reason": reason, "members": members, "force": force});
    act(
        cx,
        Act {
            allocation,
            definition: &RELEASE,
            input: OperationInput { cascade, force, ..OperationInput::because(&reason) },
            deadline_at,
            event_data,
            dry_run: body.dry_run.unwrap_or(false),
            supersedes: true,
            touched,
        },
    )
    .await
}

/// Returns the members in it that are not being removed, by instance.
async fn members_in(cx: &Cx, allocation: &Allocation) -> Result<Vec<Occupants>> {
    occupants(&cx.platform.store, &cx.platform.engine.releases, allocation.id).await.map_err(Error::from)
}

/// Ensures that every member left in it is already being removed: a release would tear any other out of its instance.
fn ensure_no_members(found: &[Occupants]) -> Result<()> {
    let staying: Vec<&str> =
        found.iter().flat_map(|of| &of.members).map(|member| member.name.as_str()).collect();
    if staying.is_empty() {
        return Ok(());
    }
    let more = if staying.len() > NAMED { ", …" } else { "" };
    let named = staying.iter().take(NAMED).copied().collect::<Vec<_>>().join(", ");
    let detail = format!(
        "it holds members of instances ({named}{more}): remove or replace them first (`muster member \
         remove`), remove them with it (`--cascade`), or decommission their instance"
    );
    Err(Error::new(Code::InvalidState, detail))
}
