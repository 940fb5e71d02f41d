//! In place of `meter.rs` without the feature `test-api`: nothing is measured.

use std::sync::Arc;

#[derive(Debug, Default)]
pub(crate) struct Meter;

pub(crate) struct Held;

impl Held {
    pub(crate) fn begin(_: Arc<Meter>) -> Self {
        Self
    }

    pub(crate) fn enter_database(&mut self) {}

    pub(crate) fn leave_database(&mut self) {}

    pub(crate) fn end(self) {}
}
