//! Source of the node's inventory: the machine itself, or a fixed one for a node without a machine.

use std::path::PathBuf;
use std::sync::Arc;

use muster_wire::inventory::{Gpu, Inventory};

use crate::inventory::{Reserve, read};

/// Source of an inventory.
#[derive(Debug, Clone)]
pub enum Machine {
    /// This machine, optionally with fake GPUs.
    This {
        /// Directory on the file system that is measured.
        data_dir: PathBuf,
        /// Resources that are not offered to allocations.
        reserve: Reserve,
        /// Fake GPUs that replace those of the machine.
        fake_gpus: Option<Vec<Gpu>>,
    },
    /// A machine that is only described.
    Fixed(Arc<Inventory>),
}

impl Machine {
    /// Reads the inventory, on a blocking thread because NVML can take seconds.
    pub async fn look(&self) -> Inventory {
        match self {
            Self::Fixed(inventory) => Inventory::clone(inventory),
            Self::This { data_dir, reserve, fake_gpus } => {
                let (data_dir, reserve, fake_gpus) = (data_dir.clone(), *reserve, fake_gpus.clone());
                let looking = tokio::task::spawn_blocking(move || {
                    read(std::path::Path::new("/"), &data_dir, reserve, fake_gpus.as_deref())
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
