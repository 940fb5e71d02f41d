//! Faults on purpose: the tests' way to ask "and if it fails right here?". Nothing else sets them.

use std::sync::Mutex;

/// One fault, armed until it strikes.
#[derive(Debug, Clone)]
pub enum Fault {
    /// The n-th statement inside transactions from now, counted from 1, fails before it is sent.
    FailStatement(u64),
    /// The next statement of this name fails before it is sent. Whatever else the server does meanwhile, in the background
    /// or for others, cannot be struck in its place.
    FailBefore(&'static str),
    /// The next COMMIT happens, but its answer is not heard.
    UnheardCommit,
    /// The next COMMIT fails before it is sent: surely not done.
    FailCommit,
    /// The named statement is silently left out, every time: a planted bug.
    Skip(&'static str),
}

/// The armed faults of a store, and how often they struck.
#[derive(Debug, Default)]
pub struct Faults {
    armed: Mutex<Vec<Fault>>,
    struck: std::sync::atomic::AtomicU64,
}

/// What a statement must do about it.
pub(crate) enum Verdict {
    Proceed,
    Fail,
    Skip,
}

impl Faults {
    /// Arms a fault.
    pub fn arm(&self, fault: Fault) {
        self.armed.lock().expect("no holder of this lock can panic").push(fault);
    }

    /// Disarms all.
    pub fn clear(&self) {
        self.armed.lock().expect("no holder of this lock can panic").clear();
    }

    /// How many have struck: a test that injects asserts that it hit.
    pub fn struck(&self) -> u64 {
        self.struck.load(std::sync::atomic::Ordering::Relaxed)
    }

    fn strike(&self) {
        self.struck.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    }

    pub(crate) fn skips(&self, name: &str) -> bool {
        let armed = self.armed.lock().expect("no holder of this lock can panic");
        armed.iter().any(|fault| matches!(fault, Fault::Skip(skipped) if *skipped == name))
    }

    pub(crate) fn on_statement(&self, name: &str) -> Verdict {
        let mut armed = self.armed.lock().expect("no holder of this lock can panic");
        let mut verdict = Verdict::Proceed;
        armed.retain_mut(|fault| match fault {
            Fault::FailStatement(left) => {
                *left -= 1;
                if *left == 0 {
                    verdict = Verdict::Fail;
                }
                *left > 0
            }
            Fault::FailBefore(struck) => {
                let hit = *struck == name;
                if hit {
                    verdict = Verdict::Fail;
                }
                !hit
            }
            Fault::Skip(skipped) => {
                if *skipped == name {
                    verdict = Verdict::Skip;
                }
                true
            }
            Fault::UnheardCommit | Fault::FailCommit => true,
        });
        if !matches!(verdict, Verdict::Proceed) {
            self.strike();
        }
        verdict
    }

    pub(crate) fn on_commit(&self) -> Option<Fault> {
        let mut armed = self.armed.lock().expect("no holder of this lock can panic");
        let at = armed.iter().position(|fault| matches!(fault, Fault::UnheardCommit | Fault::FailCommit))?;
        self.strike();
        Some(armed.remove(at))
    }
}
