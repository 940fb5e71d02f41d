//! Fake GPUs of a machine, stored when it joins. They must be the same at every start, or an operator would have to
//! approve new hardware each time.

use muster_agent::{AgentError, Folder};
use muster_ids::Env;
use muster_wire::inventory::Gpu;
use serde::{Deserialize, Serialize};

use crate::hardware::FakeGpus;

const FILE: &str = "fake_gpus.json";

#[derive(PartialEq, Serialize, Deserialize)]
struct Kept {
    gpus: u32,
    seed: String,
}

/// Returns the fake GPUs of the machine in this folder. A count given now overrides the stored one.
pub fn fake_gpus(
    folder: &Folder,
    gpus: Option<u32>,
    name: &str,
    env: &Env,
) -> Result<Option<Vec<Gpu>>, AgentError> {
    let kept: Option<Kept> = folder.read_document(FILE)?;
    let Some(gpus) = gpus.or(kept.as_ref().map(|kept| kept.gpus)) else { return Ok(None) };
    let seed = match &kept {
        Some(kept) => kept.seed.clone(),
        None => {
            // Machines may share a name before they join, but never a GPU.
            let chance: String = env.bytes::<3>().iter().map(|byte| format!("{byte:02x}")).collect();
            format!("{name}-{chance}")
        }
    };
    let next = Kept { gpus, seed };
    // An agent must start on a full disk too.
    if kept.as_ref() != Some(&next) {
        folder.write_document(FILE, &next)?;
    }
    Ok(Some(FakeGpus { gpus, seed: next.seed }.gpus()))
}

#[cfg(test)]
mod tests {
    use muster_agent::Folder;
    use muster_ids::Env;

    use super::fake_gpus;

    #[test]
    fn fake_gpus_are_the_same_at_every_start() {
        let parent = tempfile::tempdir().unwrap();
        let (folder, env) = (Folder::new(parent.path()), Env::for_tests(1));
        assert_eq!(fake_gpus(&folder, None, "a", &env).unwrap(), None);
        let first = fake_gpus(&folder, Some(4), "a", &env).unwrap();
        assert_eq!(fake_gpus(&folder, None, "other", &env).unwrap(), first);
        let more = fake_gpus(&folder, Some(8), "a", &env).unwrap().unwrap();
        assert_eq!((more.len(), &more[0].uuid), (8, &first.unwrap()[0].uuid));
    }
}
