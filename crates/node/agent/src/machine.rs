//! What the node says it has: the machine under it, or one that is made up.

use std::path::PathBuf;

use muster_wire::inventory::Inventory;

use crate::inventory::{DiskReserve, Pretend, read, simulated};

/// Where an inventory comes from.
#[derive(Debug, Clone)]
pub enum Machine {
    /// This machine, with invented GPUs if wanted.
    This {
        /// Whose file system counts.
        data_dir: PathBuf,
        /// How much of that is not offered.
        reserve: DiskReserve,
        /// The GPUs to invent.
        pretend: Option<Pretend>,
    },
    /// One that does not exist.
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
    /// Looks. NVML can take seconds, and so it is done beside everything else.
    pub async fn look(&self) -> Inventory {
        match self {
            Self::Simulated { name, gpus, cpus, memory_mb, disk_mb } => {
                simulated(name, *gpus, *cpus, *memory_mb, *disk_mb)
            }
            Self::This { data_dir, reserve, pretend } => {
                let (data_dir, reserve, pretend) = (data_dir.clone(), *reserve, pretend.clone());
                let looking = tokio::task::spawn_blocking(move || {
                    read(std::path::Path::new("/"), &data_dir, reserve, pretend)
                });
                looking.await.unwrap_or_else(|error| Inventory {
                    notes: vec![format!("The machine could not be read: {error}.")],
                    ..Inventory::default()
                })
            }
        }
    }

    /// Whether what it has can change while the agent runs.
    pub(crate) fn can_change(&self) -> bool {
        matches!(self, Self::This { .. })
    }
}
