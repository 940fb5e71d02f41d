//! Names of the crash points of the real driver.

use muster_disk::Point;
use muster_wire::task::TaskKind;

/// Stages of every order to the real driver; the part of a point after the colon.
const STAGES: &[&str] = &["begun", "journalled", "done", "reporting"];

/// Every kind of task that a driver executes.
const KINDS: &[TaskKind] = &[
    TaskKind::Prepare,
    TaskKind::Inspect,
    TaskKind::Resize,
    TaskKind::Destroy,
    TaskKind::Wipe,
    TaskKind::Survey,
    TaskKind::CellCreate,
    TaskKind::CellInspect,
    TaskKind::CellDestroy,
    TaskKind::KeepLogs,
    TaskKind::Sweep,
    TaskKind::CellFiles,
    TaskKind::CellService,
    TaskKind::CellCommand,
    TaskKind::CellProbe,
    TaskKind::ImagePull,
    TaskKind::ShareRemove,
];

/// Returns every crash point of the real driver.
pub fn points() -> Vec<String> {
    let stages =
        KINDS.iter().flat_map(|kind| STAGES.iter().map(|stage| format!("{}:{stage}", kind.as_str())));
    let inside = [muster_cell::POINTS, muster_network::POINTS, DISK_POINTS].concat();
    stages.chain(inside.into_iter().map(str::to_owned)).collect()
}

/// Crash points while a disk is created or wiped.
const DISK_POINTS: &[&str] = &[
    "disk:file-made",
    "disk:formatted",
    "disk:named",
    "disk:attached",
    "disk:mounted",
    "disk:lengthened",
    "disk:marked",
    "disk:overwritten",
    "disk:synced",
    "disk:read-again",
];

pub(super) fn disk_point(point: Point) -> &'static str {
    match point {
        Point::FileMade => "disk:file-made",
        Point::Formatted => "disk:formatted",
        Point::Named => "disk:named",
        Point::Attached => "disk:attached",
        Point::Mounted => "disk:mounted",
        Point::Lengthened => "disk:lengthened",
        Point::Marked => "disk:marked",
        Point::Overwritten(_) => "disk:overwritten",
        Point::Synced => "disk:synced",
        Point::ReadAgain => "disk:read-again",
    }
}
