//! Fencing: the newest known incarnation of each allocation and each cell. The node refuses tasks for an older one, also
//! after a crash: they come from a superseded server or a delayed message.
//!
//! A destroyed incarnation is never created again, even if it had no sandbox on this node: a late "prepare" must not bring
//! back an allocation that the platform has given up.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use muster_wire::task::TaskKind;
use serde::{Deserialize, Serialize};

use crate::AgentError;
use crate::folder::Folder;

const FILE: &str = "fences.json";
/// No task lives as long as this, so no older message can still arrive.
const KEPT: SignedDuration = SignedDuration::from_hours(7 * 24);

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Fence {
    incarnation: i64,
    destroyed: bool,
    at: Timestamp,
}

/// Subject of a task: an allocation or a cell, and its incarnation.
#[derive(Clone, Copy)]
pub(crate) struct FencedSubject<'t> {
    pub(crate) id: &'t dyn std::fmt::Display,
    pub(crate) incarnation: i64,
}

/// Reason why a task does not pass.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Barred {
    /// The incarnation is older than the newest known, or was destroyed.
    Stale(String),
    /// An older incarnation still occupies the place.
    Occupied(String),
}

/// The known incarnations.
#[derive(Debug)]
pub(crate) struct Fences {
    folder: Folder,
    /// By the id of the allocation or the cell.
    seen: BTreeMap<String, Fence>,
}

impl Fences {
    pub(crate) fn open(folder: &Folder) -> Result<Self, AgentError> {
        Ok(Self { folder: folder.clone(), seen: folder.read_document(FILE)?.unwrap_or_default() })
    }

    /// Admits a task, and persists its incarnation before any work starts.
    pub(crate) fn admit(
        &mut self,
        kind: TaskKind,
        thing: FencedSubject<'_>,
        there: Option<i64>,
        now: Timestamp,
    ) -> Result<Result<(), Barred>, AgentError> {
        let incarnation = thing.incarnation;
        let id = thing.id.to_string();
        let seen = self.seen.get(&id);
        // An existing incarnation counts as known: its fence may have expired.
        let newest = seen.map(|fence| fence.incarnation).max(there);
        if let Some(newest) = newest.filter(|newest| incarnation < *newest) {
            return Ok(Err(Barred::Stale(format!(
                "stale incarnation: {incarnation} was requested, but {newest} is known"
            ))));
        }
        let same = seen.filter(|fence| fence.incarnation == incarnation);
        let destroyed = same.is_some_and(|fence| fence.destroyed);
        if matches!(kind, TaskKind::Prepare | TaskKind::CellCreate) {
            if destroyed {
                return Ok(Err(Barred::Stale(format!("stale incarnation: {incarnation} was destroyed"))));
            }
            // The incarnation is not recorded: the task that destroys the older one names the older one.
            if let Some(older) = there.filter(|there| *there < incarnation) {
                return Ok(Err(Barred::Occupied(format!("incarnation {older} still exists"))));
            }
        }
        let destroyed = destroyed || matches!(kind, TaskKind::Destroy | TaskKind::CellDestroy);
        if same.is_none_or(|fence| fence.destroyed != destroyed) {
            let mut next = self.seen.clone();
            next.insert(id, Fence { incarnation, destroyed, at: now });
            next.retain(|_, fence| now.duration_since(fence.at) < KEPT);
            // A fence that is known but not persisted would let a retry pass without persisting it.
            self.folder.write_document(FILE, &next)?;
            self.seen = next;
        }
        Ok(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use jiff::{SignedDuration, Timestamp};
    use muster_ids::{AllocationId, Env};
    use muster_wire::task::TaskKind;

    use super::{Barred, FencedSubject, Fences};
    use crate::folder::Folder;

    struct Case {
        fences: Fences,
        id: AllocationId,
        now: Timestamp,
    }

    fn case(folder: &Folder) -> Case {
        let env = Env::for_tests(1);
        Case { fences: Fences::open(folder).unwrap(), id: env.id(), now: env.now() }
    }

    impl Case {
        fn admit(&mut self, kind: TaskKind, incarnation: i64, there: Option<i64>) -> Result<(), Barred> {
            let id = self.id;
            self.fences.admit(kind, FencedSubject { id: &id, incarnation }, there, self.now).unwrap()
        }
    }

    #[test]
    fn an_older_incarnation_is_refused_also_after_a_restart() {
        let parent = tempfile::tempdir().unwrap();
        let folder = Folder::new(parent.path());
        let mut case = case(&folder);
        assert_eq!(case.admit(TaskKind::Prepare, 1, None), Ok(()));
        assert_eq!(case.admit(TaskKind::Destroy, 1, Some(1)), Ok(()));
        assert_eq!(case.admit(TaskKind::Prepare, 2, None), Ok(()));
        case.fences = Fences::open(&folder).unwrap();
        for kind in
            [TaskKind::Prepare, TaskKind::Inspect, TaskKind::Resize, TaskKind::Destroy, TaskKind::Wipe]
        {
            assert!(matches!(case.admit(kind, 1, Some(2)), Err(Barred::Stale(_))), "{kind:?}");
            assert_eq!(case.admit(TaskKind::Prepare, 2, Some(2)), Ok(()));
        }
    }

    #[test]
    fn destroyed_incarnation_is_never_provisioned_even_if_it_never_existed() {
        let parent = tempfile::tempdir().unwrap();
        let mut case = case(&Folder::new(parent.path()));
        assert_eq!(case.admit(TaskKind::Destroy, 1, None), Ok(()));
        assert!(matches!(case.admit(TaskKind::Prepare, 1, None), Err(Barred::Stale(_))));
        assert_eq!(case.admit(TaskKind::Wipe, 1, None), Ok(()));
        assert!(matches!(case.admit(TaskKind::Prepare, 1, None), Err(Barred::Stale(_))));
        assert_eq!(case.admit(TaskKind::Prepare, 2, None), Ok(()));
    }

    #[test]
    fn a_place_is_not_made_over_an_older_one_which_can_still_be_destroyed() {
        let parent = tempfile::tempdir().unwrap();
        let mut case = case(&Folder::new(parent.path()));
        assert_eq!(case.admit(TaskKind::Prepare, 1, None), Ok(()));
        assert!(matches!(case.admit(TaskKind::Prepare, 2, Some(1)), Err(Barred::Occupied(_))));
        assert_eq!(case.admit(TaskKind::Destroy, 1, Some(1)), Ok(()));
        assert_eq!(case.admit(TaskKind::Prepare, 2, None), Ok(()));
    }

    #[test]
    fn a_fence_that_could_not_be_persisted_does_not_pass_the_next_time_either() {
        let parent = tempfile::tempdir().unwrap();
        let missing = Folder::new(parent.path().join("missing"));
        let mut case = case(&missing);
        let thing = FencedSubject { id: &case.id.clone(), incarnation: 1 };
        for _ in 0..2 {
            case.fences.admit(TaskKind::Prepare, thing, None, case.now).unwrap_err();
        }
        missing.make().unwrap();
        assert_eq!(case.admit(TaskKind::Prepare, 1, None), Ok(()));
        case.fences = Fences::open(&missing).unwrap();
        assert_eq!(case.fences.seen.len(), 1);
    }

    #[test]
    fn incarnations_of_long_ago_are_forgotten() {
        let parent = tempfile::tempdir().unwrap();
        let mut case = case(&Folder::new(parent.path()));
        assert_eq!(case.admit(TaskKind::Destroy, 5, None), Ok(()));
        case.now += SignedDuration::from_hours(8 * 24);
        case.id = Env::for_tests(2).id();
        assert_eq!(case.admit(TaskKind::Prepare, 1, None), Ok(()));
        assert_eq!(case.fences.seen.len(), 1);
        case.id = Env::for_tests(1).id();
        assert!(matches!(case.admit(TaskKind::Destroy, 4, Some(5)), Err(Barred::Stale(_))));
    }
}
