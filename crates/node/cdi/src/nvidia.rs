//! A specification for NVIDIA's driver on a node where no tool has written one.

use std::collections::BTreeMap;
use std::path::Path;

use crate::{Spec, SpecDevice, SpecDeviceNode, SpecEdits, SpecHook, SpecMount};

/// The kind of NVIDIA's devices.
pub const KIND: &str = "nvidia.com/gpu";
/// Directory of the driver's libraries in a cell.
const LIBRARIES: &str = "/usr/local/nvidia/lib64";
/// Directory of its programs in a cell, which is in the default search path of most images.
const PROGRAMS: &str = "/usr/bin";

/// Directories in which a driver's libraries are, below its root.
const LIBRARY_FOLDERS: [&str; 6] =
    ["lib64", "lib", "usr/lib64", "usr/lib/x86_64-linux-gnu", "usr/lib/aarch64-linux-gnu", "usr/lib"];
/// Directories in which its programs are, below its root.
const PROGRAM_FOLDERS: [&str; 3] = ["bin", "usr/bin", "usr/local/bin"];
/// Programs that only look. The control programs of MPS, persistence and the fabric manager are not among them.
const NAMES_OF_PROGRAMS: [&str; 2] = ["nvidia-smi", "nvidia-debugdump"];
/// Beginnings of the names of the driver's libraries.
const NAMES_OF_LIBRARIES: [&str; 9] = [
    "libcuda.so",
    "libcudadebugger.so",
    "libnvidia-",
    "libnvcuvid.so",
    "libnvoptix.so",
    "libEGL_nvidia.so",
    "libGLX_nvidia.so",
    "libGLESv2_nvidia.so",
    "libvdpau_nvidia.so",
];
/// Device nodes that all GPUs share; none gives access to a GPU without its own node.
const SHARED_NODES: [&str; 3] = ["/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools"];

/// A file of a driver's directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DriverFile {
    /// Path on the node.
    pub path: String,
    /// Content of a symbolic link; none for a file.
    pub link: Option<String>,
}

/// A GPU, or an instance of a partitioned one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NvidiaDevice {
    /// UUID of the GPU or of the instance.
    pub uuid: String,
    /// Device nodes of its own: `/dev/nvidia0`, and for an instance the two of its capabilities.
    pub nodes: Vec<String>,
}

/// Lists the files of a driver: the first directory with libraries, and the first with programs.
pub fn driver_files(root: &Path) -> Vec<DriverFile> {
    let list = |folders: &[&str], fits: &dyn Fn(&str) -> bool| {
        folders.iter().map(|folder| files_in(&root.join(folder), fits)).find(|files| !files.is_empty())
    };
    let is_library = |name: &str| NAMES_OF_LIBRARIES.iter().any(|start| name.starts_with(start));
    let is_program = |name: &str| NAMES_OF_PROGRAMS.contains(&name);
    let libraries = list(&LIBRARY_FOLDERS, &is_library).unwrap_or_default();
    let programs = list(&PROGRAM_FOLDERS, &is_program).unwrap_or_default();
    libraries.into_iter().chain(programs).collect()
}

fn files_in(folder: &Path, fits: &dyn Fn(&str) -> bool) -> Vec<DriverFile> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let read = |entry: std::fs::DirEntry| {
        let name = entry.file_name().into_string().ok().filter(|name| fits(name))?;
        let kind = entry.file_type().ok()?;
        let link = match kind.is_symlink() {
            true => Some(std::fs::read_link(entry.path()).ok()?.to_str()?.to_owned()),
            false => None,
        };
        let path = folder.join(name).to_str()?.to_owned();
        (kind.is_file() || kind.is_symlink()).then_some(DriverFile { path, link })
    };
    let mut files: Vec<DriverFile> = entries.flatten().filter_map(read).collect();
    files.sort_by(|one, other| one.path.cmp(&other.path));
    files
}

/// Builds the specification. Only libraries of this driver version are given: those of an older one may lie beside them.
pub fn spec(version: &str, files: &[DriverFile], devices: &[NvidiaDevice]) -> Spec {
    let name_of = |path: &str| path.rsplit('/').next().unwrap_or_default().to_owned();
    let mut mounts: BTreeMap<String, String> = BTreeMap::new();
    let ending = format!(".so.{version}");
    let real: BTreeMap<String, &str> = files
        .iter()
        .filter(|file| file.link.is_none())
        .map(|file| (name_of(&file.path), file.path.as_str()))
        .collect();
    for (name, path) in &real {
        if name.ends_with(&ending) {
            mounts.insert(format!("{LIBRARIES}/{name}"), (*path).to_owned());
        } else if NAMES_OF_PROGRAMS.contains(&name.as_str()) {
            mounts.insert(format!("{PROGRAMS}/{name}"), (*path).to_owned());
        }
    }
    // A link is given as its file, so that a cell needs no links.
    for file in files {
        let Some(path) = resolve(file, files) else { continue };
        if file.link.is_some() && path.ends_with(&ending) {
            mounts.insert(format!("{LIBRARIES}/{}", name_of(&file.path)), path.to_owned());
        }
    }
    let node = |path: &String| SpecDeviceNode { path: path.clone(), ..SpecDeviceNode::default() };
    let device = |device: &NvidiaDevice| SpecDevice {
        name: device.uuid.clone(),
        annotations: BTreeMap::new(),
        container_edits: SpecEdits {
            device_nodes: device.nodes.iter().map(node).collect(),
            ..SpecEdits::default()
        },
    };
    let bound = |(container_path, host_path): (String, String)| SpecMount {
        host_path,
        container_path,
        kind: None,
        options: ["ro", "nosuid", "nodev", "rbind", "rprivate"].map(str::to_owned).to_vec(),
    };
    let hook = SpecHook {
        hook_name: "createContainer".to_owned(),
        path: "/usr/bin/nvidia-cdi-hook".to_owned(),
        args: ["nvidia-cdi-hook", "update-ldcache", "--folder", LIBRARIES].map(str::to_owned).to_vec(),
        ..SpecHook::default()
    };
    Spec {
        cdi_version: "0.6.0".to_owned(),
        kind: KIND.to_owned(),
        annotations: BTreeMap::new(),
        devices: devices.iter().map(device).collect(),
        container_edits: SpecEdits {
            device_nodes: SHARED_NODES.map(|path| node(&path.to_owned())).to_vec(),
            mounts: mounts.into_iter().map(bound).collect(),
            hooks: vec![hook],
            ..SpecEdits::default()
        },
    }
}

/// Follows links inside one directory to a file; none if they lead elsewhere or in a circle.
fn resolve<'f>(file: &'f DriverFile, files: &'f [DriverFile]) -> Option<&'f str> {
    let mut at = file;
    for _ in 0..8 {
        let Some(link) = &at.link else { return Some(&at.path) };
        let folder = at.path.rsplit_once('/')?.0;
        let next = format!("{folder}/{link}");
        at = files.iter().find(|other| other.path == next)?;
    }
    None
}
