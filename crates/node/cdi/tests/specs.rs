//! Specifications: of NVIDIA's and AMD's tools in their form, made for a driver's files, and hostile.

use std::collections::BTreeMap;

use muster_cdi::nvidia::{DriverFile, NvidiaDevice, driver_files};
use muster_cdi::{Edits, Link, Spec, SpecError, nvidia};
use serde_json::{Value, json};

const YAML: &str = r#"
cdiVersion: 0.5.0
kind: nvidia.com/gpu
devices:
  - name: "0"
    containerEdits:
      deviceNodes:
        - path: /dev/nvidia0
  - name: GPU-29aee2e1
    containerEdits:
      deviceNodes:
        - path: /dev/nvidia0
containerEdits:
  env:
    - NVIDIA_VISIBLE_DEVICES=void
    - NVIDIA_CTK_LIBCUDA_DIR=/usr/lib64
  deviceNodes:
    - path: /dev/nvidiactl
    - path: /dev/nvidia-uvm
      hostPath: /run/nvidia/driver/dev/nvidia-uvm
  hooks:
    - hookName: createContainer
      path: /usr/bin/nvidia-cdi-hook
      args: [nvidia-cdi-hook, create-symlinks, --link, "libcuda.so.1::/usr/lib64/libcuda.so"]
    - hookName: createContainer
      path: /usr/bin/nvidia-cdi-hook
      args: [nvidia-cdi-hook, update-ldcache, --folder, /usr/lib64]
    - hookName: createContainer
      path: /usr/bin/nvidia-cdi-hook
      args: [nvidia-cdi-hook, disable-device-node-modification]
  mounts:
    - hostPath: /usr/lib64/libcuda.so.580.1
      containerPath: /usr/lib64/libcuda.so.580.1
      options: [ro, nosuid, nodev, rbind, rprivate]
    - hostPath: /run/nvidia-persistenced/socket
      containerPath: /run/nvidia-persistenced/socket
      options: [ro, nosuid, nodev, rbind, rprivate, noexec]
"#;

fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

#[test]
fn a_specification_of_nvidias_tool_gives_its_devices_and_no_daemons_socket() {
    let spec = Spec::read(YAML).unwrap();
    Edits::check(&spec).unwrap();
    let edits = Edits::of(&spec, ["GPU-29aee2e1"]).unwrap();
    let nodes = [
        ("/dev/nvidia-uvm", "/run/nvidia/driver/dev/nvidia-uvm"),
        ("/dev/nvidia0", "/dev/nvidia0"),
        ("/dev/nvidiactl", "/dev/nvidiactl"),
    ];
    assert_eq!(edits.device_nodes, map(&nodes));
    assert_eq!(edits.mounts, map(&[("/usr/lib64/libcuda.so.580.1", "/usr/lib64/libcuda.so.580.1")]));
    assert_eq!(edits.environment, map(&[("NVIDIA_CTK_LIBCUDA_DIR", "/usr/lib64")]));
    let link = Link { target: "libcuda.so.1".to_owned(), path: "/usr/lib64/libcuda.so".to_owned() };
    assert_eq!(edits.links.into_iter().collect::<Vec<_>>(), [link]);
    assert_eq!(edits.library_folders.into_iter().collect::<Vec<_>>(), ["/usr/lib64"]);
    assert_eq!(Edits::of(&spec, []).unwrap(), Edits::default(), "a cell without devices gets nothing");
    assert_eq!(Edits::of(&spec, ["1"]), Err(SpecError::NoDevice("nvidia.com/gpu=1".to_owned())));
}

#[test]
fn another_vendors_devices_need_a_specification_alone() {
    let spec = json!({"cdiVersion": "0.6.0", "kind": "amd.com/gpu",
                      "devices": [{"name": "0", "containerEdits": {"deviceNodes": [
                          {"path": "/dev/kfd"}, {"path": "/dev/dri/card1", "type": "c"},
                          {"path": "/dev/dri/renderD128"}]}}]});
    let edits = Edits::of(&Spec::read(&spec.to_string()).unwrap(), ["0"]).unwrap();
    let nodes = ["/dev/dri/card1", "/dev/dri/renderD128", "/dev/kfd"];
    assert_eq!(edits.device_nodes.into_keys().collect::<Vec<_>>(), nodes);
}

#[test]
fn hostile_specifications_are_refused_by_what_is_wrong() {
    let with = |edits: Value| {
        let spec = json!({"cdiVersion": "0.6.0", "kind": "a.com/b",
                          "devices": [{"name": "0", "containerEdits": edits}]});
        Spec::read(&spec.to_string()).and_then(|spec| Edits::check(&spec)).unwrap_err().to_string()
    };
    let mount = |source: &str, target: &str, more: &[&str]| {
        with(json!({"mounts": [{"hostPath": source, "containerPath": target, "options": more}]}))
    };
    for (what, error) in [
        ("/usr/../etc/shadow", mount("/usr/../etc/shadow", "/x", &[])),
        ("relative", mount("relative", "/x", &[])),
        ("/proc/sys/kernel", mount("/lib", "/proc/sys/kernel", &[])),
        ("/dev/shm", mount("/lib", "/dev/shm", &[])),
        ("/run/muster/secrets", mount("/lib", "/run/muster/secrets", &[])),
        ("read-only", mount("/lib", "/lib", &["rbind", "rw"])),
        ("read-only", with(json!({"mounts": [{"hostPath": "/x", "containerPath": "/x", "type": "tmpfs"}]}))),
        ("/etc/passwd", with(json!({"deviceNodes": [{"path": "/etc/passwd"}]}))),
        ("/dev/pts/0", with(json!({"deviceNodes": [{"path": "/dev/pts/0"}]}))),
        ("/dev/../etc", with(json!({"deviceNodes": [{"path": "/dev/x", "hostPath": "/dev/../etc"}]}))),
        ("character", with(json!({"deviceNodes": [{"path": "/dev/sda", "type": "b"}]}))),
        ("LD_PRELOAD", with(json!({"env": ["LD_PRELOAD=/x.so"]}))),
        ("no value", with(json!({"env": ["no value"]}))),
        (
            "/bin/sh",
            with(json!({"hooks": [{"hookName": "poststop", "path": "/bin/sh", "args": ["sh", "-c", "id"]}]})),
        ),
        ("intelRdt", with(json!({"intelRdt": {"closID": "x"}}))),
        (
            "/y",
            with(
                json!({"mounts": [{"hostPath": "/a", "containerPath": "/y"}, {"hostPath": "/b", "containerPath": "/y"}]}),
            ),
        ),
    ] {
        assert!(error.contains(what), "{what}: {error}");
    }
    let many: Vec<String> = (0..5000).map(|number| format!("N{number}=1")).collect();
    assert!(with(json!({"env": many})).contains("more than 4096 edits"));
    let large = format!("cdiVersion: 0.6.0\nkind: a.com/b\ndevices: []\n# {}", "x".repeat(5 << 20));
    assert_eq!(Spec::read(&large), Err(SpecError::TooLarge));
    for (what, text) in [
        ("cdiVersion 9.0.0", "cdiVersion: 9.0.0\nkind: a.com/b\ndevices: []"),
        ("not vendor/class", "cdiVersion: 0.6.0\nkind: a.com\ndevices: []"),
        ("does not parse", "devices: []"),
        ("does not parse", "cdiVersion: 0.6.0\nkind: a.com/b\nkind: c.com/d\ndevices: []"),
    ] {
        let error = Spec::read(text).unwrap_err().to_string();
        assert!(error.contains(what), "{what}: {error}");
    }
}

#[test]
fn a_specification_is_made_of_a_drivers_files_and_reads_back() {
    let folder = std::env::temp_dir().join(format!("muster-cdi-{}", std::process::id()));
    let (libraries, programs) = (folder.join("lib64"), folder.join("bin"));
    std::fs::create_dir_all(&libraries).unwrap();
    std::fs::create_dir_all(&programs).unwrap();
    let write = |path: std::path::PathBuf| std::fs::write(path, "x").unwrap();
    for name in ["libcuda.so.580.1", "libnvidia-ml.so.580.1", "libcuda.so.535.9", "libother.so.580.1"] {
        write(libraries.join(name));
    }
    for (link, target) in [
        ("libcuda.so.1", "libcuda.so.580.1"),
        ("libcuda.so", "libcuda.so.1"),
        ("libnvidia-ml.so.1", "libnvidia-ml.so.580.1"),
        ("libnvidia-out.so.1", "../../../etc/shadow"),
        ("libnvidia-loop.so.1", "libnvidia-loop.so.1"),
    ] {
        std::os::unix::fs::symlink(target, libraries.join(link)).unwrap();
    }
    for name in ["nvidia-smi", "nvidia-cuda-mps-control", "nvidia-persistenced"] {
        write(programs.join(name));
    }
    let files: Vec<DriverFile> = driver_files(&folder);
    let device = |uuid: &str, nodes: &[&str]| NvidiaDevice {
        uuid: uuid.to_owned(),
        nodes: nodes.iter().map(|path| (*path).to_owned()).collect(),
    };
    let devices = [
        device("GPU-1", &["/dev/nvidia0"]),
        device(
            "MIG-1",
            &["/dev/nvidia1", "/dev/nvidia-caps/nvidia-cap102", "/dev/nvidia-caps/nvidia-cap103"],
        ),
    ];
    let made = nvidia::spec("580.1", &files, &devices);
    std::fs::remove_dir_all(&folder).unwrap();
    let spec = Spec::read(&serde_json::to_string(&made).unwrap()).unwrap();
    assert_eq!(spec, made);
    let edits = Edits::of(&spec, ["GPU-1"]).unwrap();
    let at = |name: &str| format!("/usr/local/nvidia/lib64/{name}");
    let of = |name: &str| libraries.join(name).to_str().unwrap().to_owned();
    let expected = BTreeMap::from([
        (at("libcuda.so"), of("libcuda.so.580.1")),
        (at("libcuda.so.1"), of("libcuda.so.580.1")),
        (at("libcuda.so.580.1"), of("libcuda.so.580.1")),
        (at("libnvidia-ml.so.1"), of("libnvidia-ml.so.580.1")),
        (at("libnvidia-ml.so.580.1"), of("libnvidia-ml.so.580.1")),
        ("/usr/bin/nvidia-smi".to_owned(), programs.join("nvidia-smi").to_str().unwrap().to_owned()),
    ]);
    assert_eq!(edits.mounts, expected);
    assert_eq!(edits.library_folders.into_iter().collect::<Vec<_>>(), ["/usr/local/nvidia/lib64"]);
    assert!(!edits.device_nodes.contains_key("/dev/nvidia1"), "the other GPU's");
    let instance = Edits::of(&spec, ["MIG-1"]).unwrap();
    assert!(instance.device_nodes.contains_key("/dev/nvidia-caps/nvidia-cap103"));
    assert!(!instance.device_nodes.contains_key("/dev/nvidia0"));
}
