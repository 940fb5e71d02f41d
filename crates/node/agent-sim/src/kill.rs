//! Crash points where the process of an agent with either driver ends itself, for tests only: they leave the state of a power
//! loss.

use std::collections::BTreeMap;
use std::sync::Arc;

use muster_agent::{CrashHook, PULL_POINTS, real};
use muster_wire::task::TaskKind;
use parking_lot::Mutex;

/// Every crash point of the simulated driver. Tasks without an effect have only two.
pub const KILL_POINTS: &[&str] = &[
    "prepare:before-effect",
    "prepare:after-effect-before-journal",
    "prepare:after-effect-before-report",
    "inspect:before-effect",
    "inspect:after-effect-before-report",
    "resize:before-effect",
    "resize:after-effect-before-journal",
    "resize:after-effect-before-report",
    "destroy:before-effect",
    "destroy:after-effect-before-journal",
    "destroy:after-effect-before-report",
    "wipe:before-effect",
    "wipe:after-effect-before-journal",
    "wipe:after-effect-before-report",
    "survey:before-effect",
    "survey:after-effect-before-report",
    "cell_files:before-effect",
    "cell_files:after-effect-before-journal",
    "cell_files:after-effect-before-report",
    "cell_service:before-effect",
    "cell_service:after-effect-before-journal",
    "cell_service:after-effect-before-report",
    "cell_command:before-effect",
    "cell_command:after-effect-before-journal",
    "cell_command:after-effect-before-report",
    "cell_probe:before-effect",
    "cell_probe:after-effect-before-report",
];

/// Whether this build takes kill points from its environment. A release does not: a variable must not be able to end its agents.
pub const HAS_KILL_POINTS: bool = cfg!(feature = "test-api");

/// The enabled crash points; normally none.
#[derive(Debug, Default)]
pub struct KillPoints(Mutex<BTreeMap<String, u64>>);

impl KillPoints {
    /// Parses `POINT[@N]|POINT[@N]…`: the process ends when it reaches the point for the N-th time.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut points = BTreeMap::new();
        for word in text.split(['|', ',']).map(str::trim).filter(|word| !word.is_empty()) {
            let (name, times) = word.split_once('@').unwrap_or((word, "1"));
            let pulls = PULL_POINTS.contains(&name);
            if !pulls && !KILL_POINTS.contains(&name) && !real::points().iter().any(|point| point == name) {
                return Err(format!(
                    "{name:?} is not a kill point of an agent; these are: {}, where an image is pulled: {}, and with real cells: {}",
                    KILL_POINTS.join(", "),
                    PULL_POINTS.join(", "),
                    real::points().join(", ")
                ));
            }
            let times = times.parse().ok().filter(|times| *times > 0);
            points.insert(
                name.to_owned(),
                times.ok_or_else(|| format!("{word:?}: a number from 1 on must follow the @"))?,
            );
        }
        Ok(Self(Mutex::new(points)))
    }

    /// Returns the hook for a real driver.
    pub fn hook(self: &Arc<Self>) -> CrashHook {
        if self.0.lock().is_empty() {
            return CrashHook::default();
        }
        let points = self.clone();
        CrashHook::new(move |point| points.reach_point(point))
    }

    /// Ends the process if this crash point is due.
    pub(crate) fn reach(&self, kind: TaskKind, stage: Stage) {
        self.reach_point(&name(kind, stage));
    }

    /// Like `reach`, for a point by name.
    pub fn reach_point(&self, point: &str) {
        if self.is_due(point) {
            eprintln!("killed at {point}, as configured by MUSTER_AGENT_KILL_AT");
            std::process::abort();
        }
    }

    fn is_due(&self, point: &str) -> bool {
        let mut points = self.0.lock();
        let Some(left) = points.get_mut(point) else { return false };
        *left -= 1;
        if *left == 0 {
            points.remove(point);
            return true;
        }
        false
    }
}

/// Next stage of a task.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Stage {
    Begin,
    Journal,
    Report,
}

fn name(kind: TaskKind, stage: Stage) -> String {
    let stage = match stage {
        Stage::Begin => "before-effect",
        Stage::Journal => "after-effect-before-journal",
        Stage::Report => "after-effect-before-report",
    };
    format!("{}:{stage}", kind.as_str())
}

#[cfg(test)]
mod tests {
    use muster_wire::task::TaskKind;

    use super::{KILL_POINTS, KillPoints, Stage, name};

    #[test]
    fn a_point_is_due_once_at_the_time_that_was_said() {
        let points = KillPoints::parse("prepare:before-effect@2|wipe:after-effect-before-report").unwrap();
        let due = |kind, stage| points.is_due(&name(kind, stage));
        assert!(!due(TaskKind::Prepare, Stage::Begin));
        assert!(!due(TaskKind::Prepare, Stage::Report));
        assert!(due(TaskKind::Prepare, Stage::Begin));
        assert!(!due(TaskKind::Prepare, Stage::Begin));
        assert!(due(TaskKind::Wipe, Stage::Report));
        assert!(!KillPoints::parse("").unwrap().is_due("wipe:after-effect-before-report"));
    }

    #[test]
    fn a_word_that_names_no_point_is_refused() {
        assert!(KillPoints::parse("prepare:now").unwrap_err().contains("prepare:before-effect"));
        assert!(KillPoints::parse("prepare:before-effect@0").is_err());
    }

    #[test]
    fn the_list_has_every_stage_of_every_kind_that_has_it() {
        let kinds = [
            TaskKind::Prepare,
            TaskKind::Resize,
            TaskKind::Destroy,
            TaskKind::Wipe,
            TaskKind::CellFiles,
            TaskKind::CellService,
            TaskKind::CellCommand,
        ];
        let all = kinds
            .iter()
            .flat_map(|kind| [Stage::Begin, Stage::Journal, Stage::Report].map(|stage| name(*kind, stage)));
        let looks = [TaskKind::Inspect, TaskKind::Survey, TaskKind::CellProbe];
        let all = all.chain(
            looks.iter().flat_map(|kind| [Stage::Begin, Stage::Report].map(|stage| name(*kind, stage))),
        );
        let mut all: Vec<String> = all.collect();
        let mut listed = KILL_POINTS.to_vec();
        all.sort();
        listed.sort_unstable();
        assert_eq!(all, listed);
    }
}
