//! The GPUs that a machine pretends to have, kept from its joining on: they must be the same at every start, or an
//! operator would be asked to approve new hardware each time.

use muster_ids::World;
use serde::{Deserialize, Serialize};

use crate::AgentError;
use crate::folder::Folder;
use crate::inventory::Pretend;

const FILE: &str = "pretend.json";

#[derive(Serialize, Deserialize)]
struct Kept {
    gpus: u32,
    seed: String,
}

/// What the machine in this folder pretends to have. A number that is given now wins over the one that was kept.
pub fn pretence(
    folder: &Folder,
    gpus: Option<u32>,
    name: &str,
    world: &World,
) -> Result<Option<Pretend>, AgentError> {
    let kept: Option<Kept> = folder.read_document(FILE)?;
    let Some(gpus) = gpus.or(kept.as_ref().map(|kept| kept.gpus)) else { return Ok(None) };
    let seed = match kept {
        Some(kept) => kept.seed,
        None => {
            // Machines may have one name in common before they join, but no two have a GPU in common.
            let chance: String = world.bytes::<3>().iter().map(|byte| format!("{byte:02x}")).collect();
            format!("{name}-{chance}")
        }
    };
    folder.write_document(FILE, &Kept { gpus, seed: seed.clone() })?;
    Ok(Some(Pretend { gpus, seed }))
}

#[cfg(test)]
mod tests {
    use muster_ids::World;

    use super::pretence;
    use crate::folder::Folder;

    #[test]
    fn pretended_gpus_are_the_same_at_every_start() {
        let parent = tempfile::tempdir().unwrap();
        let (folder, world) = (Folder::new(parent.path()), World::for_tests(1));
        assert_eq!(pretence(&folder, None, "a", &world).unwrap(), None);
        let first = pretence(&folder, Some(4), "a", &world).unwrap();
        assert_eq!(pretence(&folder, None, "other", &world).unwrap(), first);
        let more = pretence(&folder, Some(8), "a", &world).unwrap().unwrap();
        assert_eq!((more.gpus, more.seed), (8, first.unwrap().seed));
    }
}
