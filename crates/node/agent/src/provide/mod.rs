//! Provides the content that a cell needs from the server: its image, the proof that the image may run, and its secrets.
//!
//! All of it is fetched before the driver is called, because it is network I/O and drivers block. If it cannot be fetched,
//! the driver gets the error instead, and ensures that nothing is left of the cell. The driver does not fetch by itself: it
//! would need a second connection to the server, which no simulated partition would cut.

mod ask;
mod blob;
mod connection;
mod given;
mod image;
mod persist;
mod registry;
mod store;
mod verdict;

use std::time::Duration;

use jiff::Timestamp;
use muster_wire::cell::{CellOrder, SecretFile};
use muster_wire::task::{CellAct, Refusal, TaskKind};
use muster_wire::wire::SecretWhat;

use crate::AgentError;
use crate::driver::{ImageOwner, Order, Undone};
use crate::node::Running;
pub use given::Given;
use given::SecretContent;
pub(crate) use store::Store;
pub(crate) use verdict::Verdicts;

/// Fetches the content that an order needs, which is none for most orders. The inner error is the reason why it cannot be
/// fetched.
pub(crate) async fn provide(
    node: &Running,
    order: &Order,
    until: Timestamp,
) -> Result<Result<Given, Undone>, AgentError> {
    let Some(cell) = &order.details.cell else { return Ok(Ok(Given::default())) };
    let runs = || node.driver.runs(cell.cell_id, cell.incarnation);
    let secrets = match (order.kind, &order.details.act) {
        // A running cell was created completely, with all of its content.
        (TaskKind::CellCreate, _) if !runs()? => {
            cell.spec.as_ref().map(|spec| &spec.secrets[..]).unwrap_or_default()
        }
        // Independent of running cells: the image is for the next one.
        (TaskKind::ImagePull, _) => &[],
        // Nothing is fetched for a cell that is not running: the driver reports that.
        (TaskKind::CellFiles, Some(CellAct::Files(files))) if runs()? => &files.secrets[..],
        _ => return Ok(Ok(Given::default())),
    };
    let left = Duration::try_from(until.duration_since(node.env.now())).unwrap_or_default();
    let owner = ImageOwner::of(&order.details);
    let ended = tokio::time::timeout(left, Box::pin(everything(node, cell, owner, secrets))).await;
    Ok(ended.unwrap_or_else(|_| {
        let why = "its image or its secrets did not arrive within the task's time; repeat the request: content that arrived is used";
        let making = matches!(order.kind, TaskKind::CellCreate | TaskKind::ImagePull);
        Err(Undone::because(if making { Refusal::ArtifactPull } else { Refusal::Secret }, why))
    }))
}

async fn everything(
    node: &Running,
    cell: &CellOrder,
    owner: ImageOwner,
    named: &[SecretFile],
) -> Result<Given, Undone> {
    let image = match &cell.pull {
        Some(pull) if cell.spec.is_some() => image::pull(node, cell, owner, pull).await?,
        _ => None,
    };
    // Secrets come last, and are held only until the cell is created.
    let mut secrets = Vec::new();
    for secret in named {
        let content = ask::ask(node, cell, SecretWhat::File(secret.file.clone())).await;
        let content = content.map_err(|error| {
            let why = format!("the secret {} could not be fetched: {}", secret.secret, persist::said(&error));
            Undone::because(Refusal::Secret, why)
        })?;
        secrets.push(SecretContent { file: secret.file.clone(), uid: secret.uid, gid: secret.gid, content });
    }
    Ok(Given { image, secrets })
}
