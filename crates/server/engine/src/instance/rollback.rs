//! Returns an instance to its previous release, with the steps of an upgrade.

use super::upgrade::UPGRADE;
use crate::definition::Definition;

/// `instance.rollback`.
pub const ROLLBACK: Definition = Definition { kind: "instance.rollback", ..UPGRADE };
