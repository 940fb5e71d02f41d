//! The edits of specifications for the devices of a cell, checked and merged.

use std::collections::{BTreeMap, BTreeSet};

use crate::{Hook, Link, Spec, SpecDeviceNode, SpecEdits, SpecError, SpecMount, path};

/// Variables by which an image asks for devices or changes what the loader does. No specification sets them for a cell, and
/// a cell's own have no effect on its devices.
const IGNORED_VARIABLES: [&str; 1] = ["NVIDIA_VISIBLE_DEVICES"];
const REFUSED_VARIABLES: [&str; 3] = ["LD_PRELOAD", "LD_AUDIT", "PATH"];

/// Configuration of a cell with devices.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Edits {
    /// Device nodes: path in the cell, and on the node.
    pub device_nodes: BTreeMap<String, String>,
    /// Read-only mounts: path in the cell, and on the node.
    pub mounts: BTreeMap<String, String>,
    /// Symbolic links to create in the cell.
    pub links: BTreeSet<Link>,
    /// Directories in the cell in which the linker finds libraries.
    pub library_folders: BTreeSet<String>,
    /// Environment variables.
    pub environment: BTreeMap<String, String>,
}

impl Edits {
    /// Resolves devices of a specification, by name.
    pub fn of<'n>(spec: &Spec, names: impl IntoIterator<Item = &'n str>) -> Result<Self, SpecError> {
        let mut edits = Self::default();
        let mut any = false;
        for name in names {
            let device = spec.devices.iter().find(|device| device.name == name);
            let device = device.ok_or_else(|| SpecError::NoDevice(format!("{}={name}", spec.kind)))?;
            edits.add(&device.container_edits)?;
            any = true;
        }
        if any {
            edits.add(&spec.container_edits)?;
        }
        Ok(edits)
    }

    /// Checks all edits of a specification, so that it is refused when it is read and not when a cell needs it.
    pub fn check(spec: &Spec) -> Result<(), SpecError> {
        Self::of(spec, spec.devices.iter().map(|device| device.name.as_str())).map(drop)
    }

    fn add(&mut self, edits: &SpecEdits) -> Result<(), SpecError> {
        for pair in &edits.env {
            let (name, value) = pair.split_once('=').ok_or_else(|| SpecError::Variable(pair.clone()))?;
            if name.is_empty() || pair.contains('\0') || REFUSED_VARIABLES.contains(&name) {
                return Err(SpecError::Variable(pair.clone()));
            }
            if !IGNORED_VARIABLES.contains(&name) {
                self.environment.insert(name.to_owned(), value.to_owned());
            }
        }
        for node in &edits.device_nodes {
            self.add_device(node)?;
        }
        for mount in &edits.mounts {
            self.add_mount(mount)?;
        }
        for hook in &edits.hooks {
            match Hook::of(hook)? {
                Hook::UpdateLinkerCache { folders } => self.library_folders.extend(folders),
                Hook::CreateLinks { links } => self.links.extend(links),
                Hook::Nothing => {}
            }
        }
        // The device nodes of a cell belong to it; a group of the node has no meaning there.
        Ok(())
    }

    fn add_device(&mut self, node: &SpecDeviceNode) -> Result<(), SpecError> {
        path::of_device(&node.path)?;
        let source = node.host_path.as_ref().unwrap_or(&node.path);
        path::on_node(source)?;
        if !matches!(node.kind.as_deref(), None | Some("" | "c" | "u")) {
            return Err(SpecError::NotCharacterDevice(node.path.clone()));
        }
        add(&mut self.device_nodes, &node.path, source)
    }

    fn add_mount(&mut self, mount: &SpecMount) -> Result<(), SpecError> {
        path::in_container(&mount.container_path)?;
        path::on_node(&mount.host_path)?;
        let is_bind = matches!(mount.kind.as_deref(), None | Some("" | "bind"))
            && mount.options.iter().all(|option| option != "rw" || is_socket(&mount.host_path));
        if !is_bind {
            return Err(SpecError::NotReadOnly(mount.host_path.clone()));
        }
        // Sockets of daemons give power over GPUs of others: persistence, MPS, fabric manager.
        if is_socket(&mount.host_path) {
            return Ok(());
        }
        add(&mut self.mounts, &mount.container_path, &mount.host_path)
    }
}

/// Reports whether a path of NVIDIA's specifications is a daemon's socket, by its name.
fn is_socket(path: &str) -> bool {
    path.starts_with("/run/")
        || path.starts_with("/var/run/")
        || path.ends_with(".sock")
        || path.ends_with("/socket")
}

/// Adds a path of a cell. Two specifications may name it, but not for different things.
fn add(all: &mut BTreeMap<String, String>, target: &str, source: &str) -> Result<(), SpecError> {
    match all.insert(target.to_owned(), source.to_owned()) {
        Some(before) if before != source => Err(SpecError::Conflict(target.to_owned())),
        _ => Ok(()),
    }
}
