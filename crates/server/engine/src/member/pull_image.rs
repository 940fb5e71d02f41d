//! Pulls and unpacks the image of a member's next release on its node while the old cell still runs, so that the downtime is
//! a start and not a download. A node that cannot get the image, or that forbids a directory of the release, fails before
//! anything is stopped.

use muster_db::Result;
use muster_model::cell::Cell;
use muster_model::member::MemberFailure;
use muster_wire::task::Refusal;

use super::provision::{artifact_of, spec_of};
use super::subject::{instance, manifest_of, refused, subject, wanted_version};
use crate::cell::{allocation, order, pull_act};
use crate::definition::{Step, StepCx, Undo};
use crate::proof::{cell_of, component};
use crate::task::{Asked, ask, refusal};
use crate::{StepAction, StepOutcome};

pub(super) const PULL_IMAGE: Step = Step {
    name: "pull_image",
    does: "pull and unpack the new image while the old cell runs",
    verifies: false,
    run: |cx| Box::pin(run(cx)),
    undo: Undo::None("an additional image does not affect the running cell"),
};

async fn run(cx: &StepCx<'_>) -> Result<StepAction> {
    let member = subject(cx).await?;
    let instance = instance(cx, &member).await?;
    let version = wanted_version(cx, &instance);
    let manifest = manifest_of(cx, version).await?;
    let component = component(&manifest, &member)?;
    let artifact_id = artifact_of(cx, version, component).await?;
    let Some(cell) = cell_of(cx, &member).await?.filter(|cell| !cell.state.is_final()) else {
        return Ok(StepOutcome::with_message("it has no cell that could run meanwhile").into());
    };
    let spec = spec_of(&manifest, component, &member, &instance.name)?;
    let next = Cell { artifact_id, ..cell };
    let allocation = allocation(cx, &next).await?;
    let wanted = order(&next, &allocation, pull_act(cx, &next, &allocation, spec).await?, "pull");
    Ok(match ask(cx, &wanted).await? {
        Asked::Pending(act) => act,
        Asked::Done(..) => StepOutcome::with_message("the image is on its node").into(),
        Asked::Failed(why) => {
            let reason = match refusal(cx, &wanted).await? {
                Some(Refusal::ArtifactUntrusted | Refusal::ArtifactDamaged) => MemberFailure::Permission,
                _ => MemberFailure::ArtifactPull,
            };
            refused(reason, why).into()
        }
    })
}
