//! Show an instance with its topology.

use muster_authz::Permission;

use super::view;
use crate::{Answer, Cx, Result};

/// Handles `instance_get`.
pub async fn get(cx: &Cx, project: &str, reference: &str) -> Result<Answer> {
    let instance = cx.instance(project, reference).await?;
    cx.authorize(Permission::InstanceGet, instance.scope(), "instance")?;
    Ok(Answer::new(&view(cx, &instance).await?))
}
