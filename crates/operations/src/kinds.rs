//! Every kind of operation there is.

use crate::definition::Definition;
use crate::{allocation, node};

/// All of them. A journal of an older release names its kind and its steps, so neither is ever renamed.
pub const KINDS: &[Definition] = &[
    allocation::CREATE,
    allocation::RELEASE,
    allocation::RESTART,
    allocation::RESIZE,
    allocation::CLEAN,
    node::DRAIN,
    node::RETIRE,
];

/// The definition of a kind.
pub fn definition(kind: &str) -> Option<&'static Definition> {
    KINDS.iter().find(|definition| definition.kind == kind)
}
