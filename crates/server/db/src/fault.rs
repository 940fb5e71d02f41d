//! Fault injection for tests. No other code arms faults.

use parking_lot::Mutex;

/// A fault, armed until it is triggered.
#[derive(Debug, Clone)]
pub enum Fault {
    /// The n-th statement inside transactions from now on, counted from 1, fails before it is sent.
    FailStatement(u64),
    /// The next statement of this name fails before it is sent. Concurrent background work cannot trigger it by accident.
    FailBefore(&'static str),
    /// The next COMMIT happens, but its response is lost.
    UnheardCommit,
    /// The next COMMIT fails before it is sent, so it did not happen.
    FailCommit,
    /// The named statement is silently skipped, every time: an injected bug.
    Skip(&'static str),
}

/// The armed faults of a store, and the number of triggered ones.
#[derive(Debug, Default)]
pub struct Faults {
    armed: Mutex<Vec<Fault>>,
    struck: std::sync::atomic::AtomicU64,
}

/// The effect of the armed faults on a statement.
pub(crate) enum FaultAction {
    Proceed,
    Fail,
    Skip,
}

impl Faults {
    /// Arms a fault.
    pub fn arm(&self, fault: Fault) {
        self.armed.lock().push(fault);
    }

    /// Disarms all faults.
    pub fn clear(&self) {
        self.armed.lock().clear();
    }

    /// Returns the number of triggered faults, so that tests can assert that they hit.
    pub fn struck(&self) -> u64 {
        self.struck.load(std::sync::atomic::Ordering::Relaxed)
    }

    fn strike(&self) {
        self.struck.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    }

    pub(crate) fn skips(&self, name: &str) -> bool {
        let armed = self.armed.lock();
        armed.iter().any(|fault| matches!(fault, Fault::Skip(skipped) if *skipped == name))
    }

    pub(crate) fn on_statement(&self, name: &str) -> FaultAction {
        let mut armed = self.armed.lock();
        let mut verdict = FaultAction::Proceed;
        armed.retain_mut(|fault| match fault {
            Fault::FailStatement(left) => {
                *left -= 1;
                if *left == 0 {
                    verdict = FaultAction::Fail;
                }
                *left > 0
            }
            Fault::FailBefore(struck) => {
                let hit = *struck == name;
                if hit {
                    verdict = FaultAction::Fail;
                }
                !hit
            }
            Fault::Skip(skipped) => {
                if *skipped == name {
                    verdict = FaultAction::Skip;
                }
                true
            }
            Fault::UnheardCommit | Fault::FailCommit => true,
        });
        if !matches!(verdict, FaultAction::Proceed) {
            self.strike();
        }
        verdict
    }

    pub(crate) fn on_commit(&self) -> Option<Fault> {
        let mut armed = self.armed.lock();
        let at = armed.iter().position(|fault| matches!(fault, Fault::UnheardCommit | Fault::FailCommit))?;
        self.strike();
        Some(armed.remove(at))
    }
}
