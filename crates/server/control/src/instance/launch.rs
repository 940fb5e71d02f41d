//! Launch of an instance: release, configuration, components and placement are validated before anything is written; then
//! the rows and the operation.

use std::collections::{BTreeMap, BTreeSet};

use jiff::SignedDuration;
use muster_api::instance::{ComponentAsk, InstanceCreate};
use muster_api::{Code, FieldError};
use muster_db::{StoreError, Tx};
use muster_engine::instance::CREATE;
use muster_engine::member::amounts;
use muster_ids::{MemberId, OperationId, ProjectId, TypedId as _};
use muster_manifest::{Capacity, Component as ComponentManifest, Manifest, Shape, check_config};
use muster_model::Scope;
use muster_model::allocation::Allocation;
use muster_model::app::{App, Entitlement};
use muster_model::event::EventType;
use muster_model::instance::{Component, Instance, NewInstance, RepairMode};
use muster_model::member::{Member, NewMember};
use muster_model::operation::Operation;
use muster_model::operation_input::{OperationInput, RequestedCapacity};
use serde_json::{Value, json};

use super::fit::{Group, ensure_active, ensure_groups_fit, shape_of};
use super::growth::{Growth, ensure_can_grow, plan_growth};
use super::{amounts_of, subject, times, unknown_component};
use crate::app_version::{self, resolve_version};
use crate::artifact::{Start, ensure_release_startable};
use crate::entitlement::{New, admits, first, has_adapter};
use crate::member::requested_told;
use crate::operation::{self, Submission, Wrote, deadline, item_of, submit_with};
use crate::secret::named;
use crate::tenant::checked_labels;
use crate::{Cx, Error, PreparedCommand, Result, app};

/// Reserved name: an instance's network has the instance's name, and this is the network of a project's bare cells.
const NOT_A_NAME: &str = "default";

/// Prepares a launch; the caller has authorized it.
pub(super) async fn launch(cx: &Cx, project: &str, body: InstanceCreate) -> Result<PreparedCommand> {
    let (project_id, scope) = cx.project_scope(project).await?;
    let tenant_id = scope.tenant().ok_or_else(|| Error::not_found("project"))?;
    if body.name == NOT_A_NAME {
        return Err(Error::field("/name", "the project's own network has this name: choose another"));
    }
    if body.expires_at.is_some_and(|time| time <= cx.now) {
        return Err(Error::field("/expires_at", "it is in the past"));
    }
    let deadline_at = deadline(cx, body.ready_until, SignedDuration::from_hours(1))?;
    let app = app::found(cx, scope, &body.app).await?.app;
    let granted = granted(cx, project_id, &app).await?;
    let release = resolve_version(cx, project_id, &app, body.app_version.as_deref(), &body.name).await?;
    let manifest = app_version::manifest_of(&release)?;
    let right = right_to_launch(cx, scope, &app, granted, &manifest).await?;
    ensure_release_startable(cx, release.id, &manifest, None, Start::New).await?;
    let config = Value::Object(body.config.unwrap_or_default());
    configured(&manifest, &config)?;
    needs_secrets(cx, project_id, &manifest).await?;
    let planned =
        plan_components(cx, project, &manifest, body.components.as_deref().unwrap_or_default()).await?;
    let shape = shape(cx, &manifest, body.shape.map(shape_of), &planned)?;
    let growth: Vec<Growth<'_>> = planned.iter().map(PlannedComponent::growth).collect();
    ensure_can_grow(cx, project_id, &growth, false).await?;
    let env = &cx.platform.env;
    let new = NewInstance {
        id: env.id(),
        tenant_id,
        project_id,
        app_id: app.id,
        app_version_id: release.id,
        operator_account_id: right.entitlement().operator_account_id,
        network_id: env.id(),
        name: body.name,
        now: cx.now,
    };
    let instance = Instance {
        app: app.slug.clone(),
        labels: checked_labels(body.labels)?,
        config,
        shape: shape.as_str().to_owned(),
        repair: body.repair.unwrap_or_else(|| declared(&manifest)),
        protected: body.protected.unwrap_or(false),
        expires_at: body.expires_at,
        ..Instance::requested(new)
    };
    let ids: BTreeMap<String, Vec<MemberId>> = planned
        .iter()
        .map(|component| (component.declared.key.clone(), (0..component.count).map(|_| env.id()).collect()))
        .collect();
    let mut touched = vec![instance.id.to_string()];
    touched.extend(ids.values().flatten().map(ToString::to_string));
    let mut plan = operation::plan(&CREATE, &touched, deadline_at);
    plan.app_version = Some(release.name.clone());
    plan.capacity = Some(made(&planned));
    let existing = body.dry_run.unwrap_or(false).then(|| vec![instance.name.clone()]);
    let exclusive = shape == Shape::Baremetal;
    plan_growth(cx, project_id, release.id, exclusive, &growth, existing, &mut plan).await?;
    let capacity = planned.iter().map(|component| (component.declared.key.clone(), amounts(component.each)));
    let input = OperationInput {
        app_version_id: Some(release.id),
        shape: Some(shape.as_str().to_owned()),
        capacity: Some(RequestedCapacity::ByComponent(capacity.collect())),
        ..OperationInput::default()
    };
    let event_data = json!({"name": instance.name, "app": app.slug, "app_version": release.name,
                      "components": counts(&planned)});
    let submission = Submission {
        definition: &CREATE,
        scope,
        subject: subject(&instance),
        exclusive_locks: vec![instance.id.uuid()],
        shared_locks: Vec::new(),
        items: Vec::new(),
        input,
        deadline_at,
        event_data,
        before: None,
        event: EventType::InstanceCreated,
        supersedes: Vec::new(),
        plan,
        dry_run: body.dry_run.unwrap_or(false),
    };
    let write = Write { cx: cx.clone(), right, instance, planned, ids };
    Ok(submit_with(cx, submission, move |tx, operation| Box::pin(write.write(tx, operation))))
}

/// The right of a project to launch an app.
enum Right {
    /// It was granted.
    Granted(Entitlement),
    /// It comes with the launch: an app without an adapter has nothing to consent to.
    Implied(New),
}

impl Right {
    fn entitlement(&self) -> &Entitlement {
        match self {
            Right::Granted(entitlement) => entitlement,
            Right::Implied(new) => &new.entitlement,
        }
    }
}

/// Returns the project's entitlement to the app, if there is one. A revoked one refuses every launch.
async fn granted(cx: &Cx, project: ProjectId, app: &App) -> Result<Option<Entitlement>> {
    let found = cx.platform.store.entitlement_of_app(project, app.id).await?;
    match found.map(|found| found.entitlement) {
        Some(revoked) if revoked.revoked_at.is_some() => Err(not_entitled(&app.slug)),
        granted => Ok(granted),
    }
}

async fn right_to_launch(
    cx: &Cx,
    scope: Scope,
    app: &App,
    granted: Option<Entitlement>,
    manifest: &Manifest,
) -> Result<Right> {
    match granted {
        Some(entitlement) if admits(&entitlement, manifest) => Ok(Right::Granted(entitlement)),
        None if !has_adapter(manifest) => Ok(Right::Implied(first(cx, scope, app, Vec::new()).await?)),
        _ => Err(not_entitled(&app.slug)),
    }
}

pub(super) fn not_entitled(app: &str) -> Error {
    let why = format!(
        "the project is not entitled to launch {app}: grant it first (`muster entitlement grant {app}`), \
         which also consents to its operator account"
    );
    Error::new(Code::PermissionDenied, why)
}

/// Validates the configuration against the release's schema.
pub(super) fn configured(manifest: &Manifest, config: &Value) -> Result<()> {
    let faults: Vec<FieldError> = check_config(manifest, config)
        .into_iter()
        .filter(|fault| fault.error)
        .map(|fault| FieldError { pointer: fault.path, detail: fault.message })
        .collect();
    match faults.first() {
        None => Ok(()),
        Some(first) => {
            let says = format!("{}: {}", first.pointer, first.detail);
            Err(Error::new(Code::InvalidRequest, says).with_fields(faults))
        }
    }
}

/// Ensures that the project has the secrets that the release's members need.
pub(super) async fn needs_secrets(cx: &Cx, project: ProjectId, manifest: &Manifest) -> Result<()> {
    let secrets: BTreeSet<&str> = manifest
        .components
        .iter()
        .flat_map(|component| &component.runtime.secrets)
        .map(|given| given.secret.as_str())
        .collect();
    for secret in secrets {
        if named(&cx.platform.store, project, secret, cx.now).await?.is_none() {
            let why = format!(
                "members of {} need the project's secret {secret:?}, which does not exist: create it first (`muster secret create`)",
                manifest.app
            );
            return Err(Error::new(Code::InvalidState, why));
        }
    }
    Ok(())
}

fn declared(manifest: &Manifest) -> RepairMode {
    match manifest.repair.mode {
        muster_manifest::RepairMode::Off => RepairMode::Off,
        muster_manifest::RepairMode::Propose => RepairMode::Propose,
        muster_manifest::RepairMode::Automatic => RepairMode::Automatic,
    }
}

/// A component of the launch.
struct PlannedComponent {
    declared: ComponentManifest,
    count: i64,
    each: Capacity,
    /// Capacity per member, where the request overrides the manifest.
    overridden: Option<Capacity>,
    allocation: Option<Allocation>,
    /// JSON pointer to the capacity in the request, if given.
    pointer: Option<String>,
}

impl PlannedComponent {
    fn growth(&self) -> Growth<'_> {
        Growth {
            component: &self.declared,
            count: self.count,
            each: self.each,
            makes_room: self.allocation.is_none(),
            pointer: self.pointer.clone(),
        }
    }
}

/// Returns every component of the manifest, merged with the request.
async fn plan_components(
    cx: &Cx,
    project: &str,
    manifest: &Manifest,
    asked: &[ComponentAsk],
) -> Result<Vec<PlannedComponent>> {
    let mut seen = BTreeSet::new();
    for (index, ask) in asked.iter().enumerate() {
        let field = format!("/components/{index}/component_key");
        if manifest.component(&ask.component_key).is_none() {
            return Err(unknown_component(&field, manifest, &ask.component_key));
        }
        if !seen.insert(ask.component_key.as_str()) {
            return Err(Error::field(field, "it is given twice"));
        }
    }
    let mut planned = Vec::new();
    for declared in &manifest.components {
        let ask = asked.iter().enumerate().find(|(_, ask)| ask.component_key == declared.key);
        let default = declared.count.default.unwrap_or(declared.count.min);
        let mut component = PlannedComponent {
            declared: declared.clone(),
            count: default,
            each: declared.capacity,
            overridden: None,
            allocation: None,
            pointer: None,
        };
        if let Some((index, ask)) = ask {
            component.count = ask.count.unwrap_or(default);
            within(&format!("/components/{index}/count"), declared, component.count)?;
            if let Some(capacity) = ask.capacity {
                let pointer = format!("/components/{index}/capacity");
                component.each = validate_capacity(&pointer, capacity)?;
                component.pointer = Some(pointer);
                component.overridden = Some(component.each);
            }
            if let Some(name) = &ask.allocation {
                let allocation = cx.allocation(project, name).await?;
                ensure_active(&format!("/components/{index}/allocation"), &allocation)?;
                component.allocation = Some(allocation);
            }
        }
        planned.push(component);
    }
    Ok(planned)
}

/// Validates the number of members of a component.
pub(super) fn within(field: &str, declared: &ComponentManifest, count: i64) -> Result<()> {
    let allowed = declared.count;
    if (allowed.min..=allowed.max).contains(&count) {
        return Ok(());
    }
    let why = format!("{} must have {} to {} members, not {count}", declared.key, allowed.min, allowed.max);
    Err(Error::field(field, why))
}

/// Upper limit of any amount: more than any node has, and small enough to be summed up.
const MOST: i64 = 1 << 40;

/// Validates a member's capacity: at least the minimum to run, at most what a node could have.
pub(crate) fn validate_capacity(field: &str, capacity: muster_api::capacity::Capacity) -> Result<Capacity> {
    let amounts = amounts_of(capacity);
    let wrong = |what: &str, why: &str| Err(Error::field(format!("{field}/{what}"), why));
    let all = [amounts.gpus, amounts.cpus, amounts.memory_mb, amounts.disk_mb];
    if let Some(place) = all.iter().position(|amount| *amount > MOST) {
        return wrong(["gpus", "cpus", "memory_mb", "disk_mb"][place], "no node has this much");
    }
    match amounts {
        Capacity { gpus: ..=-1, .. } => wrong("gpus", "it must be 0 or more"),
        Capacity { cpus: ..=0, .. } => wrong("cpus", "it must be 1 or more"),
        Capacity { memory_mb: ..=0, .. } => wrong("memory_mb", "it must be 1 or more"),
        Capacity { disk_mb: ..=-1, .. } => wrong("disk_mb", "it must be 0 or more"),
        amounts => Ok(amounts),
    }
}

/// Returns the instance's shape: the requested one, that of the named allocations, or a slice if that fits.
fn shape(cx: &Cx, manifest: &Manifest, asked: Option<Shape>, planned: &[PlannedComponent]) -> Result<Shape> {
    let groups: Vec<Group<'_>> = planned
        .iter()
        .map(|component| Group {
            component: &component.declared.key,
            count: component.count,
            each: component.each,
            allocation: component.allocation.as_ref(),
        })
        .collect();
    let named = planned.iter().find_map(|component| component.allocation.as_ref());
    let only = asked.or(named.map(|allocation| shape_of(allocation.shape)));
    if let Some(shape) = only {
        let other = planned.iter().filter_map(|component| component.allocation.as_ref());
        if let Some(other) = other.into_iter().find(|allocation| shape_of(allocation.shape) != shape) {
            let why = format!(
                "{} is {}, and all allocations of an instance have the same shape",
                other.name,
                other.shape.as_str()
            );
            return Err(Error::field("/shape", why));
        }
        return ensure_groups_fit(cx, manifest, shape, &groups).map(|()| shape);
    }
    let slice = ensure_groups_fit(cx, manifest, Shape::GpuSlice, &groups);
    match slice {
        Ok(()) => Ok(Shape::GpuSlice),
        Err(why) => match ensure_groups_fit(cx, manifest, Shape::Baremetal, &groups) {
            Ok(()) => Ok(Shape::Baremetal),
            Err(_) => Err(why),
        },
    }
}

/// Returns the total capacity of the new allocations.
fn made(planned: &[PlannedComponent]) -> muster_api::capacity::Capacity {
    let mut sum = muster_api::capacity::Capacity::default();
    for component in planned.iter().filter(|component| component.allocation.is_none()) {
        let more = times(component.each, component.count);
        sum.gpus = sum.gpus.saturating_add(more.gpus);
        sum.cpus = sum.cpus.saturating_add(more.cpus);
        sum.memory_mb = sum.memory_mb.saturating_add(more.memory_mb);
        sum.disk_mb = sum.disk_mb.saturating_add(more.disk_mb);
    }
    sum
}

fn counts(planned: &[PlannedComponent]) -> BTreeMap<&str, i64> {
    planned.iter().map(|component| (component.declared.key.as_str(), component.count)).collect()
}

struct Write {
    cx: Cx,
    right: Right,
    instance: Instance,
    planned: Vec<PlannedComponent>,
    ids: BTreeMap<String, Vec<MemberId>>,
}

impl Write {
    async fn write(mut self, tx: &mut Tx, operation: &mut Operation) -> Wrote {
        let mut events = Vec::new();
        match &self.right {
            Right::Granted(entitlement) => {
                if !tx.entitlement_start(entitlement.id).await? {
                    return Err(not_entitled(&self.instance.app));
                }
            }
            Right::Implied(new) => events.push(new.insert(tx, &self.instance.app).await?),
        }
        if !tx.app_version_start(self.instance.app_version_id).await? {
            let why = "the release was withdrawn concurrently: choose another one";
            return Err(Error::new(Code::InvalidState, why));
        }
        let Scope::Project(tenant, project) = self.instance.scope() else {
            return Err(StoreError::Corrupt("the scope of an instance").into());
        };
        let name = &self.instance.name;
        let network = tx.network_ensure(self.instance.network_id, tenant, project, name, self.cx.now).await?;
        self.instance.network_id = network.id;
        self.instance.operation_id = Some(operation.id);
        tx.instance_request(&self.instance).await.map_err(|error| taken(error, name))?;
        let mut members: Vec<(u32, Member)> = Vec::new();
        for component in &self.planned {
            let first = tx.component_last_ordinal(project, name, &component.declared.key).await? + 1;
            let row = Component {
                instance_id: self.instance.id,
                key: component.declared.key.clone(),
                desired: component.count,
                last_ordinal: first - 1 + component.count,
                capacity: component.overridden.map(amounts),
                allocation_id: component.allocation.as_ref().map(|allocation| allocation.id),
            };
            tx.component_request(&row).await?;
            for (ordinal, id) in (first..).zip(self.ids.get(&component.declared.key).into_iter().flatten()) {
                let member = self.member(component, *id, ordinal, operation.id);
                tx.member_request(&member).await.map_err(|error| taken(error, &member.name))?;
                members.push((component.declared.update_order, member));
            }
        }
        members.sort_by_key(|(order, member)| (*order, member.id));
        operation.items = members.iter().map(|(_, member)| item_of(member)).collect();
        events.extend(members.iter().map(|(_, member)| requested_told(member)));
        Ok(events)
    }

    fn member(
        &self,
        component: &PlannedComponent,
        id: MemberId,
        ordinal: i64,
        operation_id: OperationId,
    ) -> Member {
        Member::requested(NewMember {
            id,
            instance: &self.instance,
            component_key: &component.declared.key,
            ordinal,
            allocation_id: component.allocation.as_ref().map(|allocation| allocation.id),
            operation_id,
            correlation_id: &self.cx.correlation_id,
            now: self.cx.now,
        })
    }
}

/// Maps a name conflict to an error that includes the name.
fn taken(error: StoreError, name: &str) -> Error {
    match error {
        StoreError::Conflict(_) => {
            let why = format!(
                "another resource of the project is named {name}: choose another name for the instance"
            );
            Error::new(Code::NameTaken, why)
        }
        error => error.into(),
    }
}
