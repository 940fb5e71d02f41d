//! Returns an instance to its previous release, with the steps of an upgrade.

use super::upgrade::UPGRADE;
use crate::definition::Definition;
use muster_model::operation::OperationKind;

/// `instance.rollback`.
pub const ROLLBACK: Definition = Definition { kind: OperationKind::InstanceRollback, ..UPGRADE };
