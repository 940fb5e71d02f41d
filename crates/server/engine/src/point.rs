//! Where things can be made to go wrong on purpose: before a step, between its statements and their commit, and after it.
//!
//! The harness strikes at every point of every step; the real processes of the chaos tests abort there. Nothing else does.

use std::collections::BTreeMap;
use std::sync::Mutex;

use crate::{Abandon, AtDeadline, Definition, KINDS, OnFailure, Undo};

/// A place in the life of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Point {
    /// Before it does anything.
    Before,
    /// After its statements, before they are committed.
    BeforeCommit,
    /// After they are committed, before anybody knows.
    AfterCommit,
}

impl Point {
    /// All of them.
    pub const ALL: [Point; 3] = [Point::Before, Point::BeforeCommit, Point::AfterCommit];

    /// Its word.
    pub fn as_str(self) -> &'static str {
        match self {
            Point::Before => "before",
            Point::BeforeCommit => "before_commit",
            Point::AfterCommit => "after_commit",
        }
    }
}

/// What happens there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Strike {
    /// The step is refused.
    Refuse,
    /// The engine stops dead: nothing more is written, and nothing is given back.
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

/// The points of an engine: what is armed, and how often each was passed.
#[derive(Debug, Default)]
pub struct Points {
    armed: Mutex<Vec<Armed>>,
    passed: Mutex<BTreeMap<String, u64>>,
    struck: std::sync::atomic::AtomicU64,
}

impl Points {
    /// Arms a point, `allocation.create/claim:before` as a rule; it strikes once, the n-th time it is passed.
    pub fn arm(&self, at: &str, strike: Strike, nth: u32) {
        let armed = Armed { at: at.to_owned(), strike, countdown: nth.max(1) };
        self.armed.lock().expect("no holder of this lock can panic").push(armed);
    }

    /// How often something struck.
    pub fn struck(&self) -> u64 {
        self.struck.load(std::sync::atomic::Ordering::Relaxed)
    }

    /// How often each point was passed.
    pub fn passed(&self) -> BTreeMap<String, u64> {
        self.passed.lock().expect("no holder of this lock can panic").clone()
    }

    /// Passes a point outside of any operation, by its name. Only an abort can be armed there.
    pub fn reach(&self, at: &str) {
        let mut armed = self.armed.lock().expect("no holder of this lock can panic");
        let Some(place) = armed.iter().position(|armed| armed.at == at) else { return };
        armed[place].countdown -= 1;
        if armed[place].countdown == 0 {
            std::process::abort();
        }
    }

    /// Passes a point.
    pub(crate) fn pass(&self, kind: &str, step: &str, undoing: bool, point: Point) -> Option<Strike> {
        let at = name(kind, step, undoing, point);
        *self.passed.lock().expect("no holder of this lock can panic").entry(at.clone()).or_insert(0) += 1;
        let mut armed = self.armed.lock().expect("no holder of this lock can panic");
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

fn name(kind: &str, step: &str, undoing: bool, point: Point) -> String {
    let undo = if undoing { "-" } else { "" };
    format!("{kind}/{undo}{step}:{}", point.as_str())
}

/// Whether anything can make operations of this kind go back.
fn turns(definition: &Definition) -> bool {
    definition.on_failure == OnFailure::Undo
        || definition.at_deadline == AtDeadline::Undo
        || definition.abandon == Abandon::Undo
        || definition.cancellable
}

/// Every point of every step of every operation, undo included: the golden list.
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
