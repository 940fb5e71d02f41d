//! The act of a task: exactly the data that its kind needs.

use muster_ids::{AllocationId, CellId, NetworkId, ProjectId, TenantId};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::cell::{Attachment, CellSpec, Pull, Root};
use crate::stream::StreamOrder;
use crate::task::{Amount, CommandOrder, FilesOrder, NodeResource, ProbeOrder, ServiceOrder, TaskKind};

/// The act of a task. There is none for arbitrary shell commands on the node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Act {
    /// Provision the sandbox of an allocation. Idempotent.
    Prepare(Prepare),
    /// Inspect the sandbox. Never answered from a cache.
    Inspect(Inspect),
    /// Change the resources of the sandbox.
    Resize(Resize),
    /// Destroy the sandbox. Idempotent.
    Destroy(SandboxDevices),
    /// Wipe the devices and the disk of the sandbox.
    Wipe(SandboxDevices),
    /// List all platform resources on the node, found by inspection.
    Survey,
    /// Create a cell in an allocation's sandbox, and start its services.
    CellCreate(Box<CellCreate>),
    /// Inspect a cell and its services, or its remains. Never answered from a cache.
    CellInspect(CellInspect),
    /// Destroy a cell, with its state directories unless `keep_state` is set.
    CellDestroy(CellDestroy),
    /// Return the last log lines of the services of an allocation's cells, before the cells are destroyed.
    KeepLogs(KeepLogs),
    /// Dial the server, and connect a terminal, a command or a transfer to a cell.
    Stream(Box<StreamOrder>),
    /// Remove orphans.
    Sweep(Sweep),
    /// Write or remove files in a cell. Idempotent.
    CellFiles(CellFiles),
    /// Start or stop a service of a cell. Idempotent.
    CellService(CellService),
    /// Run a command in a cell to completion, once per task. A repeated task returns the first result.
    CellCommand(CellCommand),
    /// Run a check beside a cell: from its image's own files, in its network, among its processes. Never answered from a
    /// cache.
    CellProbe(CellProbe),
    /// Pull and unpack the image of a cell that is created later. Idempotent.
    ImagePull(ImagePull),
    /// Remove the directories shared by the cells of a network, and verify the removal. Idempotent.
    ShareRemove(ShareRemove),
}

impl Act {
    /// Returns its kind.
    pub fn kind(&self) -> TaskKind {
        match self {
            Self::Prepare(_) => TaskKind::Prepare,
            Self::Inspect(_) => TaskKind::Inspect,
            Self::Resize(_) => TaskKind::Resize,
            Self::Destroy(_) => TaskKind::Destroy,
            Self::Wipe(_) => TaskKind::Wipe,
            Self::Survey => TaskKind::Survey,
            Self::CellCreate(_) => TaskKind::CellCreate,
            Self::CellInspect(_) => TaskKind::CellInspect,
            Self::CellDestroy(_) => TaskKind::CellDestroy,
            Self::KeepLogs(_) => TaskKind::KeepLogs,
            Self::Stream(_) => TaskKind::Stream,
            Self::Sweep(_) => TaskKind::Sweep,
            Self::CellFiles(_) => TaskKind::CellFiles,
            Self::CellService(_) => TaskKind::CellService,
            Self::CellCommand(_) => TaskKind::CellCommand,
            Self::CellProbe(_) => TaskKind::CellProbe,
            Self::ImagePull(_) => TaskKind::ImagePull,
            Self::ShareRemove(_) => TaskKind::ShareRemove,
        }
    }

    /// Returns the allocation; none for an act on the whole node.
    pub fn allocation(&self) -> Option<OwnedAllocation> {
        Some(match self {
            Self::Prepare(act) => act.allocation,
            Self::Inspect(act) => act.allocation,
            Self::Resize(act) => act.allocation,
            Self::Destroy(act) | Self::Wipe(act) => act.allocation,
            Self::CellCreate(act) => act.allocation,
            Self::CellInspect(act) => act.allocation,
            Self::CellDestroy(act) => act.allocation,
            Self::KeepLogs(act) => act.allocation,
            Self::Stream(act) => act.allocation,
            Self::CellFiles(act) => act.allocation,
            Self::CellService(act) => act.allocation,
            Self::CellCommand(act) => act.allocation,
            Self::CellProbe(act) => act.allocation,
            Self::ImagePull(act) => act.allocation,
            Self::Survey | Self::Sweep(_) | Self::ShareRemove(_) => return None,
        })
    }

    /// Returns the devices that an act on a sandbox names.
    pub fn devices(&self) -> &[String] {
        match self {
            Self::Prepare(act) => &act.resources.devices,
            Self::Inspect(act) => &act.devices,
            Self::Resize(act) => &act.resources.devices,
            Self::Destroy(act) | Self::Wipe(act) => &act.devices,
            _ => &[],
        }
    }

    /// Returns the cell; none for an act on a sandbox or on the whole node.
    pub fn cell(&self) -> Option<CellTarget> {
        Some(match self {
            Self::CellCreate(act) => act.cell,
            Self::CellInspect(act) => act.cell,
            Self::CellDestroy(act) => act.cell,
            Self::KeepLogs(act) => return act.cell,
            Self::Stream(act) => act.cell,
            Self::CellFiles(act) => act.cell,
            Self::CellService(act) => act.cell,
            Self::CellCommand(act) => act.cell,
            Self::CellProbe(act) => act.cell,
            Self::ImagePull(act) => act.cell,
            Self::Prepare(_)
            | Self::Inspect(_)
            | Self::Resize(_)
            | Self::Destroy(_)
            | Self::Wipe(_)
            | Self::Survey
            | Self::Sweep(_)
            | Self::ShareRemove(_) => return None,
        })
    }
}

/// The allocation of a task and its owner. A node bounds what one project, and what the projects of one tenant together,
/// use of its slots and of its room for images.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct OwnedAllocation {
    /// Which.
    pub allocation_id: AllocationId,
    /// The tenant of its project.
    pub tenant_id: TenantId,
    /// Its project.
    pub project_id: ProjectId,
}

/// Runtime on the node that executes an act on a cell. An agent refuses one that it does not have. `vm` is reserved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Executor {
    /// A container.
    Cell,
}

/// The cell of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CellTarget {
    /// Runtime that executes the act.
    pub executor: Executor,
    /// Which.
    pub cell_id: CellId,
    /// Incarnation of the cell; the task carries that of the allocation, or 0 for a stream.
    pub incarnation: i64,
}

/// Resources of a sandbox.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SandboxResources {
    /// Devices, by identity.
    pub devices: Vec<String>,
    /// Other resources.
    pub amount: Amount,
}

/// A sandbox to provision.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Prepare {
    /// Allocation of the sandbox.
    pub allocation: OwnedAllocation,
    /// Its resources.
    pub resources: SandboxResources,
    /// Whether the allocation has the node to itself.
    pub exclusive: bool,
}

/// A sandbox to inspect.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Inspect {
    /// Allocation of the sandbox.
    pub allocation: OwnedAllocation,
    /// Devices that are inspected for residue, by identity.
    pub devices: Vec<String>,
    /// Cells whose remains are searched for once the sandbox is destroyed: they may name the cell and not the allocation.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    #[schema(required = false)]
    pub cells: Vec<CellId>,
}

/// New resources of a sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Resize {
    /// Allocation of the sandbox.
    pub allocation: OwnedAllocation,
    /// Its resources after the change.
    pub resources: SandboxResources,
}

/// A sandbox to destroy or to wipe, with its devices.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SandboxDevices {
    /// Allocation of the sandbox.
    pub allocation: OwnedAllocation,
    /// Devices, by identity.
    pub devices: Vec<String>,
}

/// A cell to create.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CellCreate {
    /// Allocation of the cell.
    pub allocation: OwnedAllocation,
    /// The cell.
    pub cell: CellTarget,
    /// Name of the cell: its host name, and its DNS name in the network.
    pub name: String,
    /// Whether the allocation has the node to itself.
    pub exclusive: bool,
    /// Specification.
    pub spec: CellSpec,
    /// Attachment to a network; absent for a cell that has only its loopback interface.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(required = false)]
    pub attachment: Option<Attachment>,
    /// Source of its image and the trust policy for it; absent for an image that the node's operator put there.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(required = false)]
    pub pull: Option<Pull>,
}

/// A cell to inspect.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CellInspect {
    /// Allocation of the cell.
    pub allocation: OwnedAllocation,
    /// The cell.
    pub cell: CellTarget,
}

/// A cell to destroy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CellDestroy {
    /// Allocation of the cell.
    pub allocation: OwnedAllocation,
    /// The cell.
    pub cell: CellTarget,
    /// Whether its state directories are kept, as they are when the cell is recreated.
    pub keep_state: bool,
}

/// Logs to archive.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct KeepLogs {
    /// Allocation of the cells.
    pub allocation: OwnedAllocation,
    /// The cell. Default: every cell of the allocation.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(required = false)]
    pub cell: Option<CellTarget>,
}

/// Orphans to remove.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Sweep {
    /// The orphans.
    pub resources: Vec<NodeResource>,
}

/// Files to write and to remove in a cell.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CellFiles {
    /// Allocation of the cell.
    pub allocation: OwnedAllocation,
    /// The cell.
    pub cell: CellTarget,
    /// The files.
    pub files: FilesOrder,
}

/// A service of a cell to start or to stop.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CellService {
    /// Allocation of the cell.
    pub allocation: OwnedAllocation,
    /// The cell.
    pub cell: CellTarget,
    /// The service.
    pub service: ServiceOrder,
}

/// A command to run in a cell.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CellCommand {
    /// Allocation of the cell.
    pub allocation: OwnedAllocation,
    /// The cell.
    pub cell: CellTarget,
    /// The command.
    pub command: CommandOrder,
}

/// A check to run beside a cell.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CellProbe {
    /// Allocation of the cell.
    pub allocation: OwnedAllocation,
    /// The cell.
    pub cell: CellTarget,
    /// The check.
    pub probe: ProbeOrder,
}

/// An image to pull and to unpack.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ImagePull {
    /// Allocation of the cell that uses it later.
    pub allocation: OwnedAllocation,
    /// The cell.
    pub cell: CellTarget,
    /// Whether the allocation has the node to itself.
    pub exclusive: bool,
    /// Root of the cell: its image.
    pub root: Root,
    /// Source of the image and the trust policy for it; absent for an image that the node's operator put there.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(required = false)]
    pub pull: Option<Pull>,
}

/// Shared directories to remove.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ShareRemove {
    /// Network of the cells that shared them.
    pub network_id: NetworkId,
}

#[cfg(test)]
mod tests {
    use muster_ids::Env;
    use serde_json::{Value, json};

    use super::*;
    use crate::task::{ServiceAction, TaskSubject};

    fn allocation(env: &Env) -> OwnedAllocation {
        OwnedAllocation { allocation_id: env.id(), tenant_id: env.id(), project_id: env.id() }
    }

    fn target(env: &Env) -> CellTarget {
        CellTarget { executor: Executor::Cell, cell_id: env.id(), incarnation: 1 }
    }

    /// One act of every kind.
    fn acts(env: &Env) -> Vec<Act> {
        let (allocation, cell) = (allocation(env), target(env));
        let (devices, resources) = (vec!["GPU-0".to_owned()], SandboxResources::default());
        let order = |value: Value| serde_json::from_value(value).unwrap();
        let stream = json!({"stream_id": env.id::<muster_ids::StreamId>(), "allocation": allocation, "cell": cell,
                            "what": {"logs": {}}});
        let spec = serde_json::from_value(json!({"root": {"host": ["/usr"]}})).unwrap();
        let create = CellCreate {
            allocation,
            cell,
            name: "c".to_owned(),
            exclusive: false,
            spec,
            attachment: None,
            pull: None,
        };
        let service = ServiceOrder { name: "web".to_owned(), action: ServiceAction::Start };
        let root = Root::Image("sha256:0".to_owned());
        vec![
            Act::Prepare(Prepare { allocation, resources: resources.clone(), exclusive: true }),
            Act::Inspect(Inspect { allocation, devices: devices.clone(), cells: vec![cell.cell_id] }),
            Act::Resize(Resize { allocation, resources }),
            Act::Destroy(SandboxDevices { allocation, devices: devices.clone() }),
            Act::Wipe(SandboxDevices { allocation, devices }),
            Act::Survey,
            Act::CellCreate(Box::new(create)),
            Act::CellInspect(CellInspect { allocation, cell }),
            Act::CellDestroy(CellDestroy { allocation, cell, keep_state: true }),
            Act::KeepLogs(KeepLogs { allocation, cell: Some(cell) }),
            Act::Stream(Box::new(serde_json::from_value(stream).unwrap())),
            Act::Sweep(Sweep { resources: Vec::new() }),
            Act::CellFiles(CellFiles { allocation, cell, files: FilesOrder::default() }),
            Act::CellService(CellService { allocation, cell, service }),
            Act::CellCommand(CellCommand {
                allocation,
                cell,
                command: order(json!({"command": ["/bin/true"], "timeout_seconds": 5})),
            }),
            Act::CellProbe(CellProbe {
                allocation,
                cell,
                probe: serde_json::from_value(json!({"command": ["/bin/true"]})).unwrap(),
            }),
            Act::ImagePull(ImagePull { allocation, cell, exclusive: false, root, pull: None }),
            Act::ShareRemove(ShareRemove { network_id: env.id() }),
        ]
    }

    fn fault(value: Value) -> String {
        serde_json::from_value::<Act>(value).unwrap_err().to_string()
    }

    #[test]
    fn an_act_is_read_as_it_was_written_under_the_name_of_its_kind() {
        for act in acts(&Env::for_tests(1)) {
            let written = json!(act);
            assert_eq!(written["kind"], act.kind().as_str());
            assert_eq!(json!(act.kind()), act.kind().as_str());
            assert_eq!(serde_json::from_value::<Act>(written).unwrap(), act);
        }
    }

    #[test]
    fn an_act_names_what_its_kind_is_about() {
        for act in acts(&Env::for_tests(1)) {
            let subject = act.kind().subject();
            assert_eq!(act.cell().is_some(), subject == TaskSubject::Cell, "{act:?}");
            assert_eq!(act.allocation().is_none(), subject == TaskSubject::Node, "{act:?}");
        }
    }

    #[test]
    fn an_unknown_kind_is_refused_by_name() {
        let why = fault(json!({"kind": "shell", "command": ["sh"]}));
        assert!(why.contains("unknown variant `shell`") && why.contains("`prepare`"), "{why}");
        assert!(
            fault(json!({"allocation": allocation(&Env::for_tests(1))})).contains("missing field `kind`")
        );
    }

    /// Every field that no act can do without, one by one.
    #[test]
    fn a_missing_field_is_refused_by_name() {
        let optional = ["cells", "attachment", "pull", "address"];
        for act in acts(&Env::for_tests(1)) {
            let written = json!(act);
            let fields = written.as_object().unwrap().keys();
            let keeps_logs = act.kind() == TaskKind::KeepLogs;
            let needed = |field: &&String| {
                !optional.contains(&field.as_str()) && *field != "kind" && !(keeps_logs && *field == "cell")
            };
            for field in fields.filter(needed) {
                let mut without = written.clone();
                without.as_object_mut().unwrap().remove(field);
                assert_eq!(fault(without), format!("missing field `{field}`"), "{:?}", act.kind());
            }
        }
    }

    #[test]
    fn a_reserved_executor_is_refused_by_name() {
        let env = Env::for_tests(1);
        let act = Act::CellInspect(CellInspect { allocation: allocation(&env), cell: target(&env) });
        let mut written = json!(act);
        assert_eq!(written["cell"]["executor"], "cell");
        written["cell"]["executor"] = json!("vm");
        assert_eq!(fault(written), "unknown variant `vm`, expected `cell`");
    }
}
