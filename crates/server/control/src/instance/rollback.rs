//! Roll an instance back to its previous release and configuration.

use jiff::SignedDuration;
use muster_api::Code;
use muster_api::instance::InstanceAct;
use muster_authz::Permission;
use muster_engine::instance::ROLLBACK;
use muster_model::artifact::ArtifactState;

use super::manifest_of;
use super::scale::running;
use super::upgrade::{Roll, rolled};
use crate::operation::deadline;
use crate::{Cx, Error, PreparedCommand, Result};

/// Prepares `instance_rollback`. A deprecated release is a valid target: it starts nothing new, but may run again where it
/// ran before.
pub async fn rollback(cx: &Cx, project: &str, reference: &str, body: InstanceAct) -> Result<PreparedCommand> {
    let instance = cx.instance(project, reference).await?;
    cx.authorize(Permission::InstanceRollback, instance.scope(), "instance")?;
    no_force(body.force)?;
    running(&instance, "rolled back")?;
    let Some(previous) = instance.previous_version_id else {
        let why = "it has run no other release: nothing to roll back to";
        return Err(Error::new(Code::InvalidState, why));
    };
    // Restore both the release and its configuration.
    let config = instance.previous_config.clone().filter(|config| *config != instance.config);
    if previous == instance.app_version_id && config.is_none() {
        let why = "it already runs that release with that config: nothing to roll back to";
        return Err(Error::new(Code::InvalidState, why));
    }
    let (release, manifest) = manifest_of(cx, &instance, previous).await?;
    if release.state == ArtifactState::Retired {
        let why = format!("{} is retired and can no longer run: upgrade to another", release.name);
        return Err(Error::new(Code::InvalidState, why));
    }
    let roll = Roll {
        definition: &ROLLBACK,
        release,
        manifest,
        config,
        reason: body.reason.unwrap_or_default(),
        deadline_at: deadline(cx, body.ready_until, SignedDuration::from_hours(2))?,
        returns: true,
        dry_run: body.dry_run.unwrap_or(false),
    };
    rolled(cx, instance, roll, &[]).await
}

/// Rejects `force`, which a rollback does not support.
fn no_force(force: Option<bool>) -> Result<()> {
    match force {
        Some(true) => Err(Error::field("/force", "only a decommission can be forced")),
        _ => Ok(()),
    }
}
