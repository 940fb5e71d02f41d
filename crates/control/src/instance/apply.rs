//! Have an instance be as this says: launch it, or upgrade and scale the one with this name. One difference at a time; what is as
//! it should be is left alone.

use jiff::SignedDuration;
use muster_api::instance::{ComponentAsk, InstanceCreate, InstanceScale, InstanceUpgrade};
use muster_api::operations::{Plan, Started};
use muster_api::{Code, Problem};
use muster_authz::Permission;
use muster_model::instance::{Component, Instance, InstanceState};
use serde_json::{Value, json};

use super::launch::launch;
use super::scale::scaled;
use super::upgrade::upgraded;
use crate::app_version;
use crate::commit::target;
use crate::refuse::{Result, refuse};
use crate::{Answer, Commit, Cx, app};

/// Prepares `instance_apply`.
pub async fn apply(cx: &Cx, project: &str, body: InstanceCreate) -> Result<Commit> {
    let (project_id, scope) = cx.project_scope(project).await?;
    cx.authorize(Permission::InstanceApply, scope, "project")?;
    let store = &cx.platform.store;
    let found = store.instance_by_name(project_id, &body.name).await.map_err(refuse)?;
    let Some(instance) = found.filter(|instance| instance.state != InstanceState::Stopped) else {
        return launch(cx, project, body).await;
    };
    let app = app::found(cx, scope, &body.app).await?.app;
    if app.id != instance.app_id {
        let why = format!(
            "{} is an instance of {}: choose another name, or decommission it first",
            instance.name, instance.app
        );
        return Err(Problem::new(Code::NameTaken, why));
    }
    let release = match &body.app_version {
        Some(named) => Some(app_version::found(cx, project_id, &app, named).await?.version.id),
        None => None,
    };
    let config = body.config.clone().map(Value::Object);
    let upgrades = release.is_some_and(|release| release != instance.app_version_id)
        || config.as_ref().is_some_and(|config| *config != instance.config);
    let components = store.component_list(instance.id).await.map_err(refuse)?;
    let scales = differing(&components, body.components.as_deref().unwrap_or_default());
    if upgrades {
        let remains: Vec<String> = scales.iter().map(remaining).collect();
        let upgrade = InstanceUpgrade {
            // Where only the configuration differs, the release stays.
            app_version: Some(body.app_version.unwrap_or_else(|| instance.app_version_id.to_string())),
            config: body.config,
            reason: Some("applied".to_owned()),
            ready_until: body.ready_until,
            dry_run: body.dry_run,
        };
        return upgraded(cx, instance, upgrade, &remains).await;
    }
    if !scales.is_empty() {
        let scale = InstanceScale {
            components: scales,
            reason: Some("applied".to_owned()),
            ready_until: body.ready_until,
            dry_run: body.dry_run,
        };
        return scaled(cx, project, instance, scale).await;
    }
    Ok(nothing(cx, &instance))
}

/// The components that should have another number of members than they have.
fn differing(components: &[Component], asked: &[ComponentAsk]) -> Vec<ComponentAsk> {
    let has = |key: &str| components.iter().find(|component| component.key == key).map_or(0, |of| of.desired);
    let differs = |ask: &&ComponentAsk| ask.count.is_some_and(|count| count != has(&ask.component_key));
    asked.iter().filter(differs).cloned().collect()
}

fn remaining(ask: &ComponentAsk) -> String {
    let count = ask.count.unwrap_or_default();
    format!("{} is to have {count} members: apply the same again when this is done", ask.component_key)
}

/// All of it is as it should be.
fn nothing(cx: &Cx, instance: &Instance) -> Commit {
    let plan = Plan {
        kind: "instance.apply".to_owned(),
        steps: Vec::new(),
        touches: Vec::new(),
        capacity: None,
        fits_now: None,
        expected_seconds: 0,
        deadline_at: cx.now + SignedDuration::ZERO,
    };
    let answer = Answer::new(&Started { operation: None, plan });
    let named = target("instance", instance.id, &instance.name);
    let commit = Commit::new(instance.scope(), named, move |_| Box::pin(async move { Ok(answer) }));
    commit.detail(json!({"changed": {}}))
}
