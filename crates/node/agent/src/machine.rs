//! Source of the node's inventory: the machine itself, or a simulated one.

use std::path::PathBuf;

use muster_wire::inventory::Inventory;

use crate::inventory::{Pretend, Reserve, read, simulated};

/// Source of an inventory.
#[derive(Debug, Clone)]
pub enum Machine {
    /// This machine, optionally with simulated GPUs.
    This {
        /// Directory on the file system that is measured.
        data_dir: PathBuf,
        /// Resources that are not offered to allocations.
        reserve: Reserve,
        /// GPUs to simulate.
        simulated: Option<Pretend>,
    },
    /// A simulated machine.
    Simulated {
        /// Its name.
        name: String,
        /// Its GPUs.
        gpus: u32,
        /// Its CPUs.
        cpus: u32,
        /// Its memory in MiB.
        memory_mb: i64,
        /// Its disk in MiB.
        disk_mb: i64,
    },
}

impl Machine {
    /// Reads the inventory, on a blocking thread because NVML can take seconds.
    pub async fn look(&self) -> Inventory {
        match self {
            Self::Simulated { name, gpus, cpus, memory_mb, disk_mb } => {
                simulated(name, *gpus, *cpus, *memory_mb, *disk_mb)
            }
            Self::This { data_dir, reserve, simulated } => {
                let (data_dir, reserve, simulated) = (data_dir.clone(), *reserve, simulated.clone());
                let looking = tokio::task::spawn_blocking(move || {
                    read(std::path::Path::new("/"), &data_dir, reserve, simulated)
                });
                looking.await.unwrap_or_else(|error| Inventory {
                    notes: vec![format!("The machine could not be read: {error}.")],
                    ..Inventory::default()
                })
            }
        }
    }

    /// Reports whether the inventory can change while the agent runs.
    pub(crate) fn can_change(&self) -> bool {
        matches!(self, Self::This { .. })
    }
}
