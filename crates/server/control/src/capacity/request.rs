//! Interpretation of a capacity request: its defaults, and whether any node could ever satisfy it. `capacity` and
//! `allocation create` share both, so that their answers agree.
use muster_db::LargestNodes;
use muster_model::node::Capacity;
use muster_model::placement::Resource;

use crate::{Cx, Error, Result};

/// Applies the defaults for missing amounts.
pub(crate) fn with_defaults(
    gpus: Option<i64>,
    cpus: Option<i64>,
    memory_mb: Option<i64>,
    disk_mb: Option<i64>,
) -> Capacity {
    Capacity {
        gpus: gpus.unwrap_or(0),
        cpus: cpus.unwrap_or(1),
        memory_mb: memory_mb.unwrap_or(1024),
        disk_mb: disk_mb.unwrap_or(1024),
    }
}

/// Rejects a need that no node could satisfy even when empty: such a request would wait forever. Without any node nothing is
/// known about future ones, and nothing is rejected.
pub(crate) async fn ensure_possible(
    cx: &Cx,
    need: &Capacity,
    error: impl FnOnce(Resource, String) -> Error,
) -> Result<()> {
    let largest = cx.platform.store.largest_nodes(need).await?;
    match impossible(need, &largest) {
        Some((resource, why)) => Err(error(resource, why)),
        None => Ok(()),
    }
}

/// Returns the reason why no node could ever satisfy a need. Pure.
pub(super) fn impossible(need: &Capacity, largest: &LargestNodes) -> Option<(Resource, String)> {
    if largest.nodes == 0 || largest.large_enough > 0 {
        return None;
    }
    let too_much =
        Resource::ALL.into_iter().find(|resource| resource.amount(need) > resource.amount(&largest.most));
    Some(match too_much {
        Some(resource) => {
            let (needs, most) = (resource.words(resource.amount(need)), resource.amount(&largest.most));
            (resource, format!("no node has {needs}; the largest has {most}"))
        }
        None => {
            let asked = Resource::ALL.into_iter().filter(|resource| resource.amount(need) > 0);
            let asked: Vec<String> = asked.map(|resource| resource.words(resource.amount(need))).collect();
            (Resource::Gpus, format!("no node has all of this at once: {}", asked.join(", ")))
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_that_exists_is_named() {
        let most = Capacity { gpus: 8, cpus: 64, memory_mb: 100, disk_mb: 100 };
        let largest = |large_enough| LargestNodes { nodes: 2, most, large_enough };
        let need = |gpus, cpus| Capacity { gpus, cpus, memory_mb: 1, disk_mb: 0 };
        let why = |need: &Capacity| impossible(need, &largest(0)).unwrap();
        assert_eq!(why(&need(16, 1)), (Resource::Gpus, "no node has 16 GPUs; the largest has 8".to_owned()));
        assert_eq!(why(&need(1, 65)), (Resource::Cpus, "no node has 65 CPUs; the largest has 64".to_owned()));
        let apart = "no node has all of this at once: 8 GPUs, 64 CPUs, 1 MiB of memory";
        assert_eq!(why(&need(8, 64)).1, apart, "the GPUs are on one node and the CPUs on another");
        assert_eq!(impossible(&need(8, 1), &largest(1)), None);
        assert_eq!(impossible(&need(99, 1), &LargestNodes { nodes: 0, ..largest(0) }), None);
    }
}
