//! Apply a specification: launch the instance, or upgrade and scale the existing one of this name. One difference at a time;
//! everything that already matches is left alone.

use jiff::SignedDuration;
use muster_api::Code;
use muster_api::instance::{ComponentAsk, InstanceCreate, InstanceScale, InstanceUpdate, InstanceUpgrade};
use muster_api::operation::{Plan, Started};
use muster_authz::Permission;
use muster_manifest::Manifest;
use muster_model::event::EventType;
use muster_model::instance::{Component, Instance};
use serde_json::Value;

use super::launch::launch;
use super::scale::{running, scaled};
use super::update::updated;
use super::upgrade::upgraded;
use super::{amounts_of, default_capacity, manifest_of, path, shape};
use crate::app_version;
use crate::commit::target;
use crate::{Answer, Cx, Error, PreparedCommand, Result, app};

/// Prepares `instance_apply`.
pub async fn apply(cx: &Cx, project: &str, body: InstanceCreate) -> Result<PreparedCommand> {
    let (project_id, scope) = cx.project_scope(project).await?;
    cx.authorize(Permission::InstanceApply, scope, "project")?;
    let store = &cx.platform.store;
    let Some(instance) = store.instance_with_name(project_id, &body.name).await? else {
        return launch(cx, project, body).await;
    };
    let app = app::found(cx, scope, &body.app).await?.app;
    if app.id != instance.app_id {
        let why = format!(
            "{} is an instance of {}: choose another name, or decommission it first",
            instance.name, instance.app
        );
        return Err(Error::new(Code::NameTaken, why));
    }
    running(&instance, "changed by applying")?;
    // The current expiry may be in the past by now, and is left unchanged.
    let expires_at = body.expires_at.filter(|time| Some(*time) != instance.expires_at);
    if expires_at.is_some_and(|time| time <= cx.now) {
        return Err(Error::field("/expires_at", "it is in the past"));
    }
    let release = match &body.app_version {
        Some(named) => Some(app_version::found(cx, project_id, &app, named).await?.version.id),
        None => None,
    };
    let config = body.config.clone().map(Value::Object);
    let upgrades = release.is_some_and(|release| release != instance.app_version_id)
        || config.as_ref().is_some_and(|config| *config != instance.config);
    let components = store.component_list(instance.id).await?;
    let (_, manifest) = manifest_of(cx, &instance, instance.app_version_id).await?;
    let asked = body.components.as_deref().unwrap_or_default();
    ensure_immutable(&instance, &manifest, &components, &body)?;
    let scales = differing(&components, asked);
    let settings =
        InstanceUpdate { labels: body.labels, protected: body.protected, expires_at, repair: body.repair };
    let (after, told) = updated(cx, &instance, settings)?;
    let is_settled = after == instance;
    // The following change applies to the instance as this one leaves it.
    let next = Instance { version: instance.version + i64::from(!is_settled), ..after.clone() };
    let dry_run = body.dry_run.unwrap_or(false);
    let commit = if upgrades {
        let remains: Vec<String> = scales.iter().map(remaining).collect();
        let upgrade = InstanceUpgrade {
            // If only the configuration differs, the release stays.
            app_version: Some(body.app_version.unwrap_or_else(|| instance.app_version_id.to_string())),
            config: body.config,
            reason: Some("applied".to_owned()),
            ready_until: body.ready_until,
            dry_run: body.dry_run,
        };
        upgraded(cx, next, upgrade, &remains).await?
    } else if !scales.is_empty() {
        let scale = InstanceScale {
            components: scales,
            reason: Some("applied".to_owned()),
            ready_until: body.ready_until,
            dry_run: body.dry_run,
        };
        scaled(cx, project, next, scale).await?
    } else {
        nothing(cx, &instance, &told)
    };
    if is_settled || dry_run {
        return Ok(commit);
    }
    let (now, subject) = (cx.now, path(&instance));
    let detail = commit.detail.clone();
    let mut commit = commit.event(cx, EventType::InstanceUpdated, subject, told.clone()).detail(detail);
    // Previous values of the settings, beside those of the operation.
    if let (Some(Value::Object(all)), Value::Object(settings)) = (&mut commit.before, &told["before"]) {
        all.extend(settings.clone());
    }
    Ok(commit.prepend(move |tx| {
        Box::pin(async move {
            tx.instance_move(&instance, &after, now).await?;
            Ok(())
        })
    }))
}

/// Rejects changes to immutable properties.
fn ensure_immutable(
    instance: &Instance,
    manifest: &Manifest,
    components: &[Component],
    body: &InstanceCreate,
) -> Result<()> {
    if body.shape.is_some_and(|asked| asked != shape(&instance.shape)) {
        let why = format!(
            "{} runs in allocations of the shape {}, which cannot change: leave this out, or create another instance",
            instance.name, instance.shape
        );
        return Err(Error::field("/shape", why));
    }
    for (index, ask) in body.components.iter().flatten().enumerate() {
        let Some(component) = components.iter().find(|component| component.key == ask.component_key) else {
            continue;
        };
        // New members are created with the requested capacity; existing ones keep theirs.
        let grows = ask.count.is_some_and(|count| count > component.desired);
        let wanted = ask.capacity.map(amounts_of);
        if !grows && wanted.is_some_and(|wanted| Some(wanted) != default_capacity(manifest, component)) {
            let why = "its members keep their capacity: leave this out, or add members with the new capacity";
            return Err(Error::field(format!("/components/{index}/capacity"), why));
        }
    }
    Ok(())
}

/// Returns the components with a different desired number of members.
fn differing(components: &[Component], asked: &[ComponentAsk]) -> Vec<ComponentAsk> {
    let has = |key: &str| components.iter().find(|component| component.key == key).map_or(0, |of| of.desired);
    let differs = |ask: &&ComponentAsk| ask.count.is_some_and(|count| count != has(&ask.component_key));
    asked.iter().filter(differs).cloned().collect()
}

fn remaining(ask: &ComponentAsk) -> String {
    let count = ask.count.unwrap_or_default();
    format!("{} should have {count} members: apply the same again when this is done", ask.component_key)
}

/// Prepares a command that changes no member.
fn nothing(cx: &Cx, instance: &Instance, told: &Value) -> PreparedCommand {
    let plan = Plan {
        kind: "instance.apply".to_owned(),
        steps: Vec::new(),
        locks: Vec::new(),
        app_version: None,
        capacity: None,
        fits_now: None,
        items: Vec::new(),
        short: None,
        adds: Vec::new(),
        pulls: Vec::new(),
        expected_seconds: 0,
        deadline_at: cx.now + SignedDuration::ZERO,
    };
    let answer = Answer::new(&Started { operation: None, plan });
    let named = target("instance", instance.id, &instance.name);
    let commit = PreparedCommand::new(instance.scope(), named, move |_| Box::pin(async move { Ok(answer) }));
    commit.detail(told.clone())
}
