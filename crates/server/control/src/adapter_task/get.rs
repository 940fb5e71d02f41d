//! Show the state of a task in a cell.
use muster_api::adapter_step::AdapterTaskQuery;
use muster_authz::Permission;
use muster_ids::TaskId;
use muster_model::task::Task;

use super::wait::until_ended;
use super::{key_of, operation_of, view};
use crate::adapter_step::own;
use crate::{Answer, Cx, Error, Result};

/// Handles `adapter_task_get`. A task of another step is reported as not found.
pub async fn get(
    cx: &Cx,
    project: &str,
    reference: &str,
    task: &str,
    query: AdapterTaskQuery,
) -> Result<Answer> {
    let step = own(cx, project, reference, Permission::AdapterTaskGet).await?;
    let absent = || Error::not_found("task");
    let id = task.parse::<TaskId>().map_err(|_| absent())?;
    let found = cx.platform.store.task_lookup(id).await?;
    let own =
        |task: &Task| task.operation_id == operation_of(&step) && task.key.starts_with(&key_of(&step, ""));
    let task = found.filter(own).ok_or_else(absent)?;
    let task = until_ended(cx, task, query.wait_seconds.unwrap_or(0)).await?;
    Ok(Answer::new(&view(&step, &task)))
}
