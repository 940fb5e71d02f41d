//! Create a cell in an allocation.

use muster_api::Code;
use muster_api::cell::CellCreate;
use muster_api::operation::Started;
use muster_authz::Permission;
use muster_engine::cell::{CREATE, CellRefusal, assign, open};
use muster_engine::{OperationRequest, accept};
use muster_ids::{ArtifactId, CellId, NetworkId, OperationId, ProjectId, TypedId as _};
use muster_model::allocation::{Allocation, AllocationState};
use muster_model::cell::Cell;
use muster_model::event::{EventType, Timeline};
use muster_model::operation_input::OperationInput;
use muster_wire::cell::{CellSpec, Root};
use serde_json::json;

use super::check::fault;
use super::path;
use crate::artifact::{Start, ensure_startable};
use crate::commit::target;
use crate::operation::started;
use crate::secret::named;
use crate::tenant::checked_labels;
use crate::{Answer, Cx, Error, PreparedCommand, Result, operation};

/// Network of a project's bare cells.
const NETWORK: &str = "default";
/// Maximum number of cells in an allocation to which a command adds one.
const MOST_CELLS: usize = 64;

/// Prepares `cell_create`.
pub async fn create(cx: &Cx, project: &str, body: CellCreate) -> Result<PreparedCommand> {
    let (project_id, scope) = cx.project_scope(project).await?;
    cx.authorize(Permission::CellCreate, scope, "project")?;
    let allocation = cx.allocation(project, &body.allocation).await?;
    let Some(node_id) = allocation.node_id.filter(|_| allocation.state == AllocationState::Active) else {
        let detail = format!("its allocation must be active; {} is {}", allocation.name, allocation.state);
        return Err(Error::new(Code::InvalidState, detail));
    };
    if cx.platform.store.cell_live_in(allocation.id).await?.len() >= MOST_CELLS {
        let detail = format!("its allocation holds {MOST_CELLS} cells, the maximum: destroy one first");
        return Err(Error::new(Code::QuotaExceeded, detail));
    }
    if let Some((field, why)) = fault(&body.spec, allocation.capacity.gpus) {
        return Err(Error::field(field, why));
    }
    ensure_secrets_exist(cx, project_id, &body.spec).await?;
    let artifact_id = startable(cx, project_id, &body.spec.root).await?;
    if body.ready_until.is_some_and(|time| time <= cx.now) {
        return Err(Error::field("/ready_until", "it is in the past"));
    }
    let deadline_at = body.ready_until.unwrap_or(cx.now + cx.platform.engine.timing().create);
    let env = &cx.platform.env;
    let (id, operation_id): (CellId, OperationId) = (env.id(), env.id());
    let plan = operation::plan(&CREATE, &[id.to_string()], deadline_at);
    let subject = target("cell", id, &body.name);
    if body.dry_run.unwrap_or(false) {
        let answer = Answer::new(&Started { operation: None, plan });
        let commit = PreparedCommand::new(scope, subject, move |_| Box::pin(async move { Ok(answer) }));
        return Ok(commit.detail(json!({"dry_run": true})));
    }
    let network_id = env.id::<NetworkId>();
    let requested =
        Cell::requested(id, &allocation, node_id, network_id, &body.name, json!(body.spec), cx.now);
    let mut cell = Cell {
        labels: checked_labels(body.labels)?,
        artifact_id,
        operation_id: Some(operation_id),
        ..requested
    };
    let opened = accept(
        &CREATE,
        OperationRequest {
            id: operation_id,
            scope,
            subject_kind: "cell",
            subject_id: id.uuid(),
            subject_name: cell.name.clone(),
            exclusive_locks: vec![id.uuid()],
            shared_locks: Vec::new(),
            timeline: Timeline::default(),
            asked_by: operation::asked_by(cx),
            correlation_id: cx.correlation_id.clone(),
            input: OperationInput::default(),
            deadline_at,
            parent_id: None,
            now: cx.now,
        },
    );
    let told = json!({"name": cell.name, "allocation_id": allocation.id, "operation_id": operation_id});
    let subject_path = path(&cell);
    let (spec, now) = (body.spec, cx.now);
    let commit = PreparedCommand::new(scope, subject, move |tx| {
        Box::pin(async move {
            if let Some(id) = cell.artifact_id
                && !tx.artifact_start(id).await?
            {
                let why = "the artifact was deprecated at this moment, and no cell can be created from it";
                return Err(Error::new(Code::InvalidState, why));
            }
            let ports = assign(tx, &mut cell, &spec, NETWORK, now)
                .await?
                .map_err(|refusal| refused(&allocation, &spec, refusal))?;
            open(tx, &cell, &ports, &opened).await?;
            Ok(started(&opened, plan))
        })
    });
    Ok(commit.wakes_engine().event(cx, EventType::CellRequested, subject_path, told))
}

async fn ensure_secrets_exist(cx: &Cx, project: ProjectId, spec: &CellSpec) -> Result<()> {
    for (index, given) in spec.secrets.iter().enumerate() {
        let found = named(&cx.platform.store, project, &given.secret, cx.now).await?;
        found.ok_or_else(|| no_secret(index))?;
    }
    Ok(())
}

fn no_secret(index: usize) -> Error {
    let why = "the project has no such secret: create it first, or name another";
    Error::field(format!("/spec/secrets/{index}/secret"), why)
}

/// Returns the artifact of an image, if the project has it and it may start (trusted, where the project requires
/// signatures). Any other image must already be on the node, put there by its operator.
async fn startable(cx: &Cx, project: ProjectId, root: &Root) -> Result<Option<ArtifactId>> {
    let Root::Image(digest) = root else { return Ok(None) };
    let found = cx.platform.store.artifact_of_project(project, digest).await?;
    let Some(artifact) = found else { return Ok(None) };
    ensure_startable(cx, &artifact, Start::New).await?;
    Ok(Some(artifact.id))
}

fn refused(allocation: &Allocation, spec: &CellSpec, refusal: CellRefusal) -> Error {
    let full = |why: &str| Error::new(Code::QuotaExceeded, format!("{why}: destroy a cell first"));
    match refusal {
        CellRefusal::NoSecret(missing) => {
            let index = spec.secrets.iter().position(|given| given.secret == missing);
            no_secret(index.unwrap_or_default())
        }
        CellRefusal::NoAddress => full("every address of the project's network is in use"),
        CellRefusal::NoPort => full("every publishable port of the node is in use"),
        CellRefusal::PortTaken(index) => {
            let node = allocation.node_name.as_deref().unwrap_or("its node");
            let port = spec.ingress[index].node_port.unwrap_or_default();
            let why = format!("port {port} of {node} is in use by another cell: name another, or none");
            Error::field(format!("/spec/ingress/{index}/node_port"), why)
        }
    }
}
