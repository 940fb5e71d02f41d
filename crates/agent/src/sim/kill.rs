//! Places where the process ends itself, for tests alone: what a machine that loses its power leaves behind.

use std::collections::BTreeMap;
use std::sync::Mutex;

use muster_node_api::task::TaskKind;

/// Every place where the process can be made to end. Those without an effect of their own have only two.
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
];

/// Where the process ends itself; nowhere, as a rule.
#[derive(Debug, Default)]
pub struct KillPoints(Mutex<BTreeMap<&'static str, u64>>);

impl KillPoints {
    /// Reads `POINT[@N]|POINT[@N]…`: the process ends when it comes to the point for the N-th time.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut points = BTreeMap::new();
        for word in text.split(['|', ',']).map(str::trim).filter(|word| !word.is_empty()) {
            let (name, times) = word.split_once('@').unwrap_or((word, "1"));
            let known = KILL_POINTS.iter().find(|point| **point == name);
            let known = known.ok_or_else(|| {
                format!(
                    "{name:?} is no point where an agent can be killed; these are: {}",
                    KILL_POINTS.join(", ")
                )
            })?;
            let times = times.parse().ok().filter(|times| *times > 0);
            points.insert(
                *known,
                times.ok_or_else(|| format!("{word:?}: a number from 1 on belongs after the @"))?,
            );
        }
        Ok(Self(Mutex::new(points)))
    }

    /// Ends the process if this is the place.
    pub(crate) fn reach(&self, kind: TaskKind, stage: Stage) {
        if self.is_due(kind, stage) {
            eprintln!("killed at {}, as MUSTER_AGENT_KILL_AT says", name(kind, stage));
            std::process::abort();
        }
    }

    fn is_due(&self, kind: TaskKind, stage: Stage) -> bool {
        let mut points = self.0.lock().expect("no holder of this lock can panic");
        let Some(left) = points.get_mut(name(kind, stage).as_str()) else { return false };
        *left -= 1;
        if *left == 0 {
            points.remove(name(kind, stage).as_str());
            return true;
        }
        false
    }
}

/// What a task comes to next.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Stage {
    Begin,
    Journal,
    Report,
}

fn name(kind: TaskKind, stage: Stage) -> String {
    let kind = match kind {
        TaskKind::Prepare => "prepare",
        TaskKind::Inspect => "inspect",
        TaskKind::Resize => "resize",
        TaskKind::Destroy => "destroy",
        TaskKind::Wipe => "wipe",
        TaskKind::Survey => "survey",
    };
    let stage = match stage {
        Stage::Begin => "before-effect",
        Stage::Journal => "after-effect-before-journal",
        Stage::Report => "after-effect-before-report",
    };
    format!("{kind}:{stage}")
}

#[cfg(test)]
mod tests {
    use muster_node_api::task::TaskKind;

    use super::{KILL_POINTS, KillPoints, Stage, name};

    #[test]
    fn a_point_is_due_once_at_the_time_that_was_said() {
        let points = KillPoints::parse("prepare:before-effect@2|wipe:after-effect-before-report").unwrap();
        let due = |kind, stage| points.is_due(kind, stage);
        assert!(!due(TaskKind::Prepare, Stage::Begin));
        assert!(!due(TaskKind::Prepare, Stage::Report));
        assert!(due(TaskKind::Prepare, Stage::Begin));
        assert!(!due(TaskKind::Prepare, Stage::Begin));
        assert!(due(TaskKind::Wipe, Stage::Report));
        assert!(!KillPoints::parse("").unwrap().is_due(TaskKind::Wipe, Stage::Report));
    }

    #[test]
    fn a_word_that_names_no_point_is_refused() {
        assert!(KillPoints::parse("prepare:now").unwrap_err().contains("prepare:before-effect"));
        assert!(KillPoints::parse("prepare:before-effect@0").is_err());
    }

    #[test]
    fn the_list_has_every_stage_of_every_kind_that_has_it() {
        let kinds = [TaskKind::Prepare, TaskKind::Resize, TaskKind::Destroy, TaskKind::Wipe];
        let all = kinds
            .iter()
            .flat_map(|kind| [Stage::Begin, Stage::Journal, Stage::Report].map(|stage| name(*kind, stage)));
        let looks = [TaskKind::Inspect, TaskKind::Survey];
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
