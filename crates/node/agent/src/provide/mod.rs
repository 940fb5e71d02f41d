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
use muster_wire::act::{Act, CellTarget, OwnedAllocation};
use muster_wire::cell::{Pull, Root, SecretFile};
use muster_wire::task::Refusal;
use muster_wire::wire::SecretWhat;

use crate::AgentError;
use crate::driver::{ImageOwner, Undone};
use crate::node::Running;
pub use given::Given;
use given::SecretContent;
pub(crate) use store::Store;
pub(crate) use verdict::Verdicts;

/// Content that an act needs.
struct Needed<'a> {
    allocation: OwnedAllocation,
    cell: CellTarget,
    image: Option<NeededImage<'a>>,
    secrets: &'a [SecretFile],
}

struct NeededImage<'a> {
    root: &'a Root,
    pull: Option<&'a Pull>,
    exclusive: bool,
}

/// Returns the content that an act needs, which is none for most acts.
fn find_needed<'a>(node: &Running, act: &'a Act) -> Result<Option<Needed<'a>>, AgentError> {
    let runs = |cell: CellTarget| node.driver.runs(cell.cell_id, cell.incarnation);
    Ok(match act {
        // A running cell was created completely, with all of its content.
        Act::CellCreate(act) if !runs(act.cell)? => {
            let (root, exclusive) = (&act.spec.root, act.exclusive);
            let image = Some(NeededImage { root, pull: act.pull.as_ref(), exclusive });
            Some(Needed { allocation: act.allocation, cell: act.cell, image, secrets: &act.spec.secrets })
        }
        // Independent of running cells: the image is for the next one.
        Act::ImagePull(act) => {
            let (root, exclusive) = (&act.root, act.exclusive);
            let image = Some(NeededImage { root, pull: act.pull.as_ref(), exclusive });
            Some(Needed { allocation: act.allocation, cell: act.cell, image, secrets: &[] })
        }
        // Nothing is fetched for a cell that is not running: the driver reports that.
        Act::CellFiles(act) if runs(act.cell)? => {
            let secrets = &act.files.secrets;
            Some(Needed { allocation: act.allocation, cell: act.cell, image: None, secrets })
        }
        _ => None,
    })
}

/// Fetches the content that an act needs. The inner error is the reason why it cannot be fetched.
pub(crate) async fn provide(
    node: &Running,
    act: &Act,
    until: Timestamp,
) -> Result<Result<Given, Undone>, AgentError> {
    let Some(needed) = find_needed(node, act)? else { return Ok(Ok(Given::default())) };
    let left = Duration::try_from(until.duration_since(node.env.now())).unwrap_or_default();
    let ended = tokio::time::timeout(left, Box::pin(fetch_all(node, &needed))).await;
    Ok(ended.unwrap_or_else(|_| {
        let why = "its image or its secrets did not arrive within the task's time; repeat the request: content that arrived is used";
        Err(Undone::because(if needed.image.is_some() { Refusal::ArtifactPull } else { Refusal::Secret }, why))
    }))
}

async fn fetch_all(node: &Running, needed: &Needed<'_>) -> Result<Given, Undone> {
    let image = match &needed.image {
        Some(NeededImage { root, pull: Some(pull), exclusive }) => {
            let owner = ImageOwner::of(needed.allocation, *exclusive);
            image::pull(node, needed.cell, owner, (root, pull)).await?
        }
        _ => None,
    };
    // Secrets come last, and are held only until the cell is created.
    let mut secrets = Vec::new();
    for secret in needed.secrets {
        let content = ask::ask(node, needed.cell, SecretWhat::File(secret.file.clone())).await;
        let content = content.map_err(|error| {
            let why = format!("the secret {} could not be fetched: {}", secret.secret, persist::said(&error));
            Undone::because(Refusal::Secret, why)
        })?;
        secrets.push(SecretContent { file: secret.file.clone(), uid: secret.uid, gid: secret.gid, content });
    }
    Ok(Given { image, secrets })
}
