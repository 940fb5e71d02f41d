//! Persistent state of a service.

use serde::{Deserialize, Serialize};

use crate::document;
use crate::error::CellResult;
use crate::record::Place;

/// Environment variable that marks every process of a service, including orphaned ones unless they hide it; its value is the
/// service's name.
pub(crate) const MARK: &str = "MUSTER_SERVICE";

/// Runs of a service. Each has a folder of its own, so that they cannot be confused.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Run {
    /// Current or last run; the first is 1.
    pub(crate) number: u32,
    /// Number of restarts.
    pub(crate) restarts: u32,
    /// Number of consecutive early exits.
    pub(crate) streak: u32,
    /// Whether the last probe succeeded.
    pub(crate) ready: bool,
}

impl Run {
    pub(crate) fn read(place: &Place, service: &str) -> CellResult<Option<Self>> {
        document::read(&place.service(service).join("run.json"))
    }

    pub(crate) fn write(&self, place: &Place, service: &str) -> CellResult<()> {
        document::folder(&place.service(service), 0o700)?;
        document::write(&place.service(service).join("run.json"), self)
    }
}
