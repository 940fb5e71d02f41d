//! Show a cell.

use muster_authz::Permission;

use super::view;
use crate::{Answer, Cx, Result};

/// Handles `cell_get`.
pub async fn get(cx: &Cx, project: &str, reference: &str) -> Result<Answer> {
    let cell = cx.cell(project, reference).await?;
    cx.authorize(Permission::CellGet, cell.scope(), "cell")?;
    Ok(Answer::new(&view(cx, &cell).await?))
}
