//! GPU products: the operator's catalog of what a slot can be, by the name that prices and requests use.

use jiff::Timestamp;
use muster_ids::{Id, IdKind};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::event::EventType;
use crate::record::record;
use crate::resource::{Resource, ResourceEvents};

record! {
    noun "gpu_product", title "GPU product", path "gpu-products", table "gpu_products",
    unique name true, changes [memory_mb, architecture, updated_at];

    /// A product of GPUs.
    #[derive(Debug, Clone, Serialize, ToSchema)]
    pub struct GpuProduct {
        /// Its id.
        pub id: GpuProductId,
        /// Its name, such as `h200`.
        pub name: String,
        /// Memory of one GPU in MiB.
        pub memory_mb: i64,
        /// Its architecture, such as `hopper`.
        pub architecture: String,
        /// Creation time.
        pub created_at: Timestamp,
        /// Time of the last change.
        pub updated_at: Timestamp,
        /// Version for `If-Match`.
        pub version: i64,
    }
}

/// A GPU product to create.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct GpuProductCreate {
    /// Its name, such as `h200`.
    #[schema(pattern = "^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$")]
    pub name: String,
    /// Memory of one GPU in MiB.
    #[schema(minimum = 1, maximum = 16777216)]
    pub memory_mb: i64,
    /// Its architecture, such as `hopper`.
    #[schema(min_length = 1, max_length = 63)]
    pub architecture: String,
}

/// Properties of a GPU product that can change.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct GpuProductUpdate {
    /// Memory of one GPU in MiB.
    #[schema(minimum = 1, maximum = 16777216)]
    pub memory_mb: Option<i64>,
    /// Its architecture, such as `hopper`.
    #[schema(min_length = 1, max_length = 63)]
    pub architecture: Option<String>,
}

/// Id of a GPU product.
pub type GpuProductId = Id<GpuProduct>;

impl IdKind for GpuProduct {
    const PREFIX: &'static str = "gpp";
    const NAME: &'static str = "GpuProductId";
}

impl Resource for GpuProduct {
    type Create = GpuProductCreate;
    type Update = GpuProductUpdate;
    const EVENTS: ResourceEvents = ResourceEvents {
        created: EventType::GpuProductCreated,
        updated: EventType::GpuProductUpdated,
        deleted: EventType::GpuProductDeleted,
    };

    fn create(id: GpuProductId, input: GpuProductCreate, now: Timestamp) -> Self {
        let GpuProductCreate { name, memory_mb, architecture } = input;
        Self { id, name, memory_mb, architecture, created_at: now, updated_at: now, version: 1 }
    }

    fn update(&mut self, input: GpuProductUpdate, now: Timestamp) {
        self.memory_mb = input.memory_mb.unwrap_or(self.memory_mb);
        self.architecture = input.architecture.unwrap_or_else(|| self.architecture.clone());
        (self.updated_at, self.version) = (now, self.version + 1);
    }

    fn example(name: &str) -> GpuProductCreate {
        GpuProductCreate { name: name.to_owned(), memory_mb: 144_384, architecture: "hopper".to_owned() }
    }

    fn example_update() -> GpuProductUpdate {
        GpuProductUpdate { memory_mb: Some(196_608), architecture: None }
    }
}
