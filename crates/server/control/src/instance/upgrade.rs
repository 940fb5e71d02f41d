//! Upgrade an instance to another release, or change its configuration.

use std::collections::BTreeSet;

use jiff::SignedDuration;
use muster_api::Code;
use muster_api::instance::InstanceUpgrade;
use muster_authz::Permission;
use muster_engine::Definition;
use muster_engine::instance::{ROLLBACK, UPGRADE};
use muster_engine::member::at_rest;
use muster_ids::{MemberId, TypedId as _};
use muster_manifest::Manifest;
use muster_model::app::AppVersion;
use muster_model::event::EventType;
use muster_model::instance::{Component, Instance};
use muster_model::member::{Member, MemberState};
use muster_model::operation::Operation;
use muster_model::operation_input::OperationInput;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::fit::{Group, ensure_groups_fit};
use super::launch::{configured, needs_secrets, not_entitled};
use super::scale::running;
use super::{default_capacity, shape_word, subject};
use crate::app_version::{self, resolve_version};
use crate::artifact::{Start, ensure_release_startable};
use crate::entitlement::admits;
use crate::operation::{self, Submission, deadline, item_of, submit_with};
use crate::{Cx, Error, PreparedCommand, Result, app};

/// Prepares `instance_upgrade`.
pub async fn upgrade(
    cx: &Cx,
    project: &str,
    reference: &str,
    body: InstanceUpgrade,
) -> Result<PreparedCommand> {
    let instance = cx.instance(project, reference).await?;
    cx.authorize(Permission::InstanceUpgrade, instance.scope(), "instance")?;
    upgraded(cx, instance, body, &[]).await
}

/// Returns the digest of a configuration, which distinguishes two of them in the audit without revealing either.
fn config_digest(config: &Value) -> String {
    muster_model::hex::encode(&Sha256::digest(config.to_string()))
}

/// Prepares an upgrade; the caller has authorized it. `remains` describes the remaining changes, for the plan.
pub(super) async fn upgraded(
    cx: &Cx,
    instance: Instance,
    body: InstanceUpgrade,
    remains: &[String],
) -> Result<PreparedCommand> {
    running(&instance, "upgraded")?;
    let app = app::found(cx, instance.scope(), &instance.app_id.to_string()).await?.app;
    let wanted = body.app_version.as_deref();
    // The current release starts nothing new, so it can be reconfigured in any state.
    let named = match wanted {
        Some(name) => Some(app_version::found(cx, instance.project_id, &app, name).await?.version),
        None => None,
    };
    let release = match named.filter(|release| release.id == instance.app_version_id) {
        Some(same) => same,
        None => resolve_version(cx, instance.project_id, &app, wanted, &instance.name).await?,
    };
    let config = body.config.map(Value::Object);
    let changes = config.as_ref().is_some_and(|config| *config != instance.config);
    if release.id == instance.app_version_id && !changes {
        let why = format!(
            "it already runs {} with that config: name another release, or another config",
            release.name
        );
        return Err(Error::new(Code::InvalidState, why));
    }
    let manifest = app_version::manifest_of(&release)?;
    let roll = Roll {
        definition: &UPGRADE,
        release,
        manifest,
        config: config.filter(|_| changes),
        reason: body.reason.unwrap_or_default(),
        deadline_at: deadline(cx, body.ready_until, SignedDuration::from_hours(2))?,
        returns: false,
        dry_run: body.dry_run.unwrap_or(false),
    };
    rolled(cx, instance, roll, remains).await
}

/// A rolling update from one release to another, member by member.
pub(super) struct Roll {
    pub(super) definition: &'static Definition,
    pub(super) release: AppVersion,
    pub(super) manifest: Manifest,
    /// New configuration, if it changes.
    pub(super) config: Option<Value>,
    pub(super) reason: String,
    pub(super) deadline_at: jiff::Timestamp,
    /// Whether it is a rollback, which accepts a deprecated release.
    pub(super) returns: bool,
    pub(super) dry_run: bool,
}

/// Prepares a rolling update.
pub(super) async fn rolled(
    cx: &Cx,
    instance: Instance,
    roll: Roll,
    remains: &[String],
) -> Result<PreparedCommand> {
    let store = &cx.platform.store;
    let is_new = !roll.returns && roll.release.id != instance.app_version_id;
    let start = if is_new { Start::New } else { Start::Existing };
    ensure_release_startable(cx, roll.release.id, &roll.manifest, None, start).await?;
    if is_new {
        ensure_consented(cx, &instance, &roll.manifest).await?;
    }
    configured(&roll.manifest, roll.config.as_ref().unwrap_or(&instance.config))?;
    needs_secrets(cx, instance.project_id, &roll.manifest).await?;
    let (components, living) =
        tokio::try_join!(store.component_list(instance.id), store.member_living(instance.id))?;
    ensure_release_fits(cx, &instance, &roll.manifest, &components, &living)?;
    let mut resting = BTreeSet::new();
    for member in &living {
        if at_rest(store, member).await? {
            resting.insert(member.id);
        }
    }
    if !roll.returns {
        ensure_none_drained(&living, &resting)?;
    }
    let open = store.operation_open_on(instance.id.uuid()).await?;
    ensure_not_under_way(&open, roll.definition, roll.dry_run)?;
    let concerned = |member: &&Member| {
        !matches!(member.state, MemberState::Removing | MemberState::Failed | MemberState::Requested)
            && !resting.contains(&member.id)
    };
    let members: Vec<&Member> = living.iter().filter(concerned).collect();
    let mut touched = vec![instance.id.to_string()];
    touched.extend(members.iter().map(|member| member.id.to_string()));
    let mut plan = operation::plan(roll.definition, &touched, roll.deadline_at);
    plan.app_version = Some(roll.release.name.clone());
    plan.steps.extend(remains.iter().map(|says| muster_api::operation::PlannedStep {
        name: "remains".to_owned(),
        does: says.clone(),
        verifies: false,
        has_undo: false,
    }));
    let submission = Submission {
        definition: roll.definition,
        scope: instance.scope(),
        subject: subject(&instance),
        exclusive_locks: vec![instance.id.uuid()],
        shared_locks: Vec::new(),
        items: members.into_iter().map(item_of).collect(),
        input: OperationInput {
            app_version_id: Some(roll.release.id),
            from: Some(instance.app_version_id),
            config: roll.config.clone(),
            shape: Some(instance.shape.clone()),
            ..OperationInput::because(&roll.reason)
        },
        deadline_at: roll.deadline_at,
        event_data: json!({"name": instance.name, "app_version": roll.release.name, "reason": roll.reason,
                     "configured": roll.config.is_some()}),
        before: Some(
            json!({"app_version_id": instance.app_version_id, "config_sha256": config_digest(&instance.config)}),
        ),
        event: EventType::OperationAccepted,
        supersedes: if roll.returns { rolls(open) } else { Vec::new() },
        plan,
        dry_run: roll.dry_run,
    };
    let id = roll.release.id;
    let returns = roll.returns || id == instance.app_version_id;
    Ok(submit_with(cx, submission, move |tx, _| {
        Box::pin(async move {
            let may =
                if returns { tx.app_version_return(id).await? } else { tx.app_version_start(id).await? };
            if !may {
                let why = "the release was withdrawn concurrently: choose another one";
                return Err(Error::new(Code::InvalidState, why));
            }
            Ok(Vec::new())
        })
    }))
}

/// Ensures that the project consented to an adapter, if the release has one. A launch of a release without one needs no
/// consent.
async fn ensure_consented(cx: &Cx, instance: &Instance, manifest: &Manifest) -> Result<()> {
    let found = cx.platform.store.entitlement_of_app(instance.project_id, instance.app_id).await?;
    match found {
        Some(found) if !admits(&found.entitlement, manifest) => Err(not_entitled(&instance.app)),
        _ => Ok(()),
    }
}

/// Ensures that no member is drained: it would stay on the old release. A rollback accepts that, because a broken release
/// must not prevent the return to a working one.
fn ensure_none_drained(living: &[Member], resting: &BTreeSet<MemberId>) -> Result<()> {
    let Some(member) = living.iter().find(|member| resting.contains(&member.id)) else { return Ok(()) };
    let why = format!(
        "{} is {}, and an upgrade would leave it behind: resume it or remove it first",
        member.name, member.state
    );
    Err(Error::new(Code::InvalidState, why))
}

/// Ensures that the existing members can move to the other release: it has every component with members and allows their
/// number, and all of them fit where they are.
fn ensure_release_fits(
    cx: &Cx,
    instance: &Instance,
    manifest: &Manifest,
    components: &[Component],
    living: &[Member],
) -> Result<()> {
    let mut groups = Vec::new();
    for component in components.iter().filter(|component| component.desired > 0) {
        let Some(said) = manifest.component(&component.key) else {
            let why = format!(
                "{} {} has no component {:?}, of which the instance has members: scale it to 0 first",
                manifest.app, manifest.version, component.key
            );
            return Err(Error::new(Code::Incompatible, why));
        };
        if component.desired > said.count.max {
            let why = format!(
                "{} {} allows {} members of {}, but {} are desired: scale it down first",
                manifest.app, manifest.version, said.count.max, said.key, component.desired
            );
            return Err(Error::new(Code::Incompatible, why));
        }
        if component.allocation_id.is_none() {
            let each = default_capacity(manifest, component).unwrap_or(said.capacity);
            groups.push(Group {
                component: &component.key,
                count: component.desired,
                each,
                allocation: None,
            });
        }
    }
    // Also a failed member that is not desired: its component's removal checks would no longer be known.
    let unknown = |member: &&Member| {
        member.state != MemberState::Removing && manifest.component(&member.component_key).is_none()
    };
    if let Some(member) = living.iter().find(unknown) {
        let why = format!(
            "{} {} has no component {:?}, but {} belongs to it: remove it first",
            manifest.app, manifest.version, member.component_key, member.name
        );
        return Err(Error::new(Code::Incompatible, why));
    }
    // Members in the project's own allocations stay where they are.
    let all_made = components.iter().all(|component| component.allocation_id.is_none());
    if all_made { ensure_groups_fit(cx, manifest, shape_word(&instance.shape), &groups) } else { Ok(()) }
}

/// Returns the upgrades that a rollback supersedes: it would otherwise wait for an upgrade that does not finish, which is
/// the reason for the rollback.
fn rolls(open: Vec<Operation>) -> Vec<Operation> {
    let is_roll = |operation: &Operation| [UPGRADE.kind, ROLLBACK.kind].contains(&operation.kind);
    open.into_iter().filter(is_roll).collect()
}

/// Ensures that no such operation is already open.
fn ensure_not_under_way(open: &[Operation], definition: &Definition, dry_run: bool) -> Result<()> {
    match open.iter().find(|operation| operation.kind == definition.kind) {
        Some(same) if !dry_run => {
            let why = format!(
                "{} is already in progress: follow it with `muster operation watch {}`",
                same.kind, same.id
            );
            Err(Error::new(Code::InvalidState, why))
        }
        _ => Ok(()),
    }
}
