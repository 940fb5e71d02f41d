//! Having an instance run the release that it ran before: the steps of an upgrade, the other way.

use super::upgrade::UPGRADE;
use crate::definition::Definition;

/// `instance.rollback`.
pub const ROLLBACK: Definition = Definition { kind: "instance.rollback", ..UPGRADE };
