//! Fault injection points: before a step, between its statements and their commit, and after the commit.
//!
//! The test harness strikes at every point of every step; the processes of the fleet tests abort there. Nothing else arms
//! them.

use muster_model::operation::OperationKind;
use std::collections::BTreeMap;

use parking_lot::Mutex;

use crate::{Abandon, AtDeadline, Definition, KINDS, OnFailure, Undo};

/// A point in the execution of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Point {
    /// Before it does anything.
    Before,
    /// After its statements, before their commit.
    BeforeCommit,
    /// After the commit, before its result is used.
    AfterCommit,
}

impl Point {
    /// All points.
    pub const ALL: [Point; 3] = [Point::Before, Point::BeforeCommit, Point::AfterCommit];

    /// Returns its identifier.
    pub fn as_str(self) -> &'static str {
        match self {
            Point::Before => "before",
            Point::BeforeCommit => "before_commit",
            Point::AfterCommit => "after_commit",
        }
    }
}

/// Fault at a point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Strike {
    /// The step is refused.
    Refuse,
    /// The engine stops dead: it writes nothing more and releases nothing.
    Die,
    /// The process aborts.
    Abort,
}

#[derive(Debug, Clone)]
struct Armed {
    at: String,
    strike: Strike,
    /// Strikes the n-th time, counted from 1.
    countdown: u32,
}

/// Points of an engine: those armed, and how often each was passed.
#[derive(Debug, Default)]
pub struct Points {
    armed: Mutex<Vec<Armed>>,
    passed: Mutex<BTreeMap<String, u64>>,
    struck: std::sync::atomic::AtomicU64,
}

impl Points {
    /// Arms a point, usually like `allocation.create/claim:before`; it strikes once, the n-th time it is passed.
    pub fn arm(&self, at: &str, strike: Strike, nth: u32) {
        let armed = Armed { at: at.to_owned(), strike, countdown: nth.max(1) };
        self.armed.lock().push(armed);
    }

    /// Returns the number of strikes.
    pub fn struck(&self) -> u64 {
        self.struck.load(std::sync::atomic::Ordering::Relaxed)
    }

    /// Returns how often each point was passed.
    pub fn passed(&self) -> BTreeMap<String, u64> {
        self.passed.lock().clone()
    }

    /// Passes a point outside of any operation, by its name. Only an abort can be armed there.
    pub fn reach(&self, at: &str) {
        let mut armed = self.armed.lock();
        let Some(place) = armed.iter().position(|armed| armed.at == at) else { return };
        armed[place].countdown -= 1;
        if armed[place].countdown == 0 {
            std::process::abort();
        }
    }

    /// Passes a point.
    pub(crate) fn pass(
        &self,
        kind: OperationKind,
        step: &str,
        undoing: bool,
        point: Point,
    ) -> Option<Strike> {
        let at = name(kind, step, undoing, point);
        *self.passed.lock().entry(at.clone()).or_insert(0) += 1;
        let mut armed = self.armed.lock();
        let place = armed.iter().position(|armed| armed.at == at)?;
        armed[place].countdown -= 1;
        if armed[place].countdown > 0 {
            return None;
        }
        let strike = armed.remove(place).strike;
        self.struck.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        if strike == Strike::Abort {
            std::process::abort();
        }
        Some(strike)
    }
}

fn name(kind: OperationKind, step: &str, undoing: bool, point: Point) -> String {
    let undo = if undoing { "-" } else { "" };
    format!("{kind}/{undo}{step}:{}", point.as_str())
}

/// Reports whether operations of this kind can ever roll back.
fn turns(definition: &Definition) -> bool {
    definition.on_failure == OnFailure::Undo
        || definition.at_deadline == AtDeadline::Undo
        || definition.abandon == Abandon::Undo
        || definition.cancellable
}

/// Lists every point of every step of every operation, undo included: the golden list.
pub fn kill_points() -> Vec<String> {
    let mut points = Vec::new();
    for definition in KINDS {
        for step in definition.steps {
            for undoing in [false, true] {
                if undoing && (matches!(step.undo, Undo::None(_)) || !turns(definition)) {
                    continue;
                }
                points.extend(Point::ALL.map(|point| name(definition.kind, step.name, undoing, point)));
            }
        }
    }
    points
}
