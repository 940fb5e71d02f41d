//! Removes the shared directories of an instance once no member is left. Any node with the file system can do it.

use muster_db::{Result, StoreError};
use muster_wire::act::{Act, ShareRemove};
use serde_json::json;

use super::subject::subject;
use crate::definition::{Step, StepCx, Undo};
use crate::task::{Ask, Asked, ask};
use crate::{StepAction, StepOutcome};

pub(super) const UNSHARE: Step = Step {
    name: "unshare",
    does: "remove the shared directories",
    verifies: true,
    run: |cx| Box::pin(run(cx)),
    undo: Undo::None("removed directories are not restored"),
};

async fn run(cx: &StepCx<'_>) -> Result<StepAction> {
    let instance = subject(cx).await?;
    let network = cx.store.network_lookup(instance.network_id).await?;
    let network = network.ok_or(StoreError::Gone("network".to_owned()))?;
    let Some(files) = network.shared_files else {
        return Ok(StepOutcome::with_message("its members share nothing").into());
    };
    let Some(node) = cx.store.node_sharing(&files).await? else {
        let reason = format!("no reachable node has the shared file system {files}");
        return Ok(StepOutcome::Wait { reason, until: cx.now + cx.timing.look }.into());
    };
    let removal = Ask {
        node,
        purpose: "unshare".into(),
        incarnation: 0,
        act: Act::ShareRemove(ShareRemove { network_id: network.id }),
    };
    Ok(match ask(cx, &removal).await? {
        Asked::Pending(act) => act,
        Asked::Failed(message) => StepOutcome::Refused { reason: "some_failed", message }.into(),
        Asked::Done(_, found) if !found.left.is_empty() => {
            let message = format!("shared files of its members are left: {}", found.left.join(", "));
            StepOutcome::Refused { reason: "some_failed", message }.into()
        }
        Asked::Done(task, found) => StepAction::commit(move |tx, _| {
            Box::pin(async move {
                tx.network_unshare(network.id).await?;
                let output = json!({"shared_files": files, "checked": found.checked, "left": 0,
                                    "node_id": task.node_id, "task_id": task.id});
                let message = Some("no shared files of its members are left".to_owned());
                Ok(StepOutcome::Done { output, message, witness: None })
            })
        }),
    })
}
