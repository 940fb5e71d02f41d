//! In place of `fault.rs` without the feature `test-api`: no statement and no commit fails on purpose.

#[derive(Debug, Default)]
pub(crate) struct Faults;

#[expect(dead_code, reason = "only tests inject faults")]
pub(crate) enum FaultAction {
    Proceed,
    Fail,
    Skip,
}

#[expect(dead_code, reason = "only tests inject faults")]
pub(crate) enum Fault {
    UnheardCommit,
    FailCommit,
}

impl Faults {
    pub(crate) fn skips(&self, _: &str) -> bool {
        false
    }

    pub(crate) fn on_statement(&self, _: &str) -> FaultAction {
        FaultAction::Proceed
    }

    pub(crate) fn on_commit(&self) -> Option<Fault> {
        None
    }
}
