//! Choice of the release for a launch or an upgrade.
use muster_api::Code;
use muster_db::Page;
use muster_ids::ProjectId;
use muster_model::app::{App, AppVersion, gets_canary};
use muster_model::artifact::ArtifactState;

use super::found;
use crate::{Cx, Error, Result};

/// Returns the release for a launch or upgrade in `project`. A named release must be in a state that new instances may start
/// from; a draft starts only inside the publisher's own project and is not found elsewhere. If none is named, a
/// deterministic draw on `thing` (the instance) picks the canary for its percentage, else the active release.
///
/// The release may be demoted right after: the caller must check `Tx::app_version_start` in the transaction that records the
/// start.
pub async fn resolve_version(
    cx: &Cx,
    project: ProjectId,
    app: &App,
    wanted: Option<&str>,
    thing: &str,
) -> Result<AppVersion> {
    if let Some(name) = wanted {
        let version = found(cx, project, app, name).await?.version;
        if version.state.may_start() {
            return Ok(version);
        }
        let says = format!(
            "the release {} of {} is {}, and no instance can be created from it: name another, or none for the active one",
            version.name, app.slug, version.state
        );
        return Err(Error::new(Code::InvalidState, says));
    }
    let in_state = async |state| {
        let found = cx.platform.store.app_version_in_state(project, app.id, state).await;
        Ok::<_, Error>(found?.map(|found| found.version))
    };
    if let Some(canary) = in_state(ArtifactState::Canary).await?
        && gets_canary(canary.id, thing, canary.canary_percent.unwrap_or_default())
    {
        return Ok(canary);
    }
    match in_state(ArtifactState::Active).await? {
        Some(active) => Ok(active),
        None => Err(none_active(cx, project, app).await?),
    }
}

/// Returns the error for an app without an active release, listing the releases that could be named.
async fn none_active(cx: &Cx, project: ProjectId, app: &App) -> Result<Error> {
    let page = Page { after: uuid::Uuid::nil(), size: 200 };
    let all = cx.platform.store.app_version_list(page, project, app.id).await?;
    let could: Vec<String> = all
        .into_iter()
        .map(|found| found.version)
        .filter(|version| version.state.may_start())
        .map(|version| format!("{} ({})", version.name, version.state))
        .collect();
    let says = match could.is_empty() {
        true => format!("{} has no usable release: its publisher must promote one first", app.slug),
        false => format!("{} has no active release: name one of {}", app.slug, could.join(", ")),
    };
    Ok(Error::new(Code::InvalidState, says))
}
