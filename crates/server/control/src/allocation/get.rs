//! Show an allocation.

use muster_authz::Permission;

use super::full_view;
use crate::{Answer, Cx, Result};

/// Handles `allocation_get`.
pub async fn get(cx: &Cx, project: &str, reference: &str) -> Result<Answer> {
    let allocation = cx.allocation(project, reference).await?;
    cx.authorize(Permission::AllocationGet, allocation.scope(), "allocation")?;
    Ok(Answer::new(&full_view(cx, &allocation).await?))
}
