//! What is remembered of a service between two looks at it.

use serde::{Deserialize, Serialize};

use crate::document;
use crate::error::CellResult;
use crate::record::Place;

/// By this every process of a service is known, those among them that left their parent, unless they hide it: its value is the
/// service's name.
pub(crate) const MARK: &str = "MUSTER_SERVICE";

/// The runs of a service. Each has a folder of its own, so that nothing of an earlier one is taken for it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Run {
    /// The run that is, or was last; the first is 1.
    pub(crate) number: u32,
    /// How often it was started again.
    pub(crate) restarts: u32,
    /// How often in a row it ended soon.
    pub(crate) streak: u32,
    /// Whether it was ready when it was last asked.
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
