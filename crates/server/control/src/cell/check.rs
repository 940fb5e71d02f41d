//! Validation of a cell specification. Pure, and reports the field of the fault.

use std::collections::{BTreeMap, BTreeSet};

use muster_engine::cell::NODE_PORTS;
use muster_wire::cell::{CellSpec, Probe, ProbeBy, Root, SecretFile, Service};

/// Directories that the platform creates in every cell.
const OURS: &[&str] = &["/proc", "/sys", "/dev", "/etc/muster", "/run/muster"];
/// Maximum number of secrets per cell.
const MOST_SECRETS: usize = 64;
/// Maximum total size of the files.
const FILES: usize = 512 * 1024;
/// Maximum size of the specification without files, as JSON. The engine holds several copies per operation.
const REST: usize = 128 * 1024;

/// Returns the first fault, as a field and a message.
pub(super) fn fault(spec: &CellSpec, gpus: i64) -> Option<(String, String)> {
    root(&spec.root)
        .or_else(|| services(&spec.services))
        .or_else(|| environment("/spec/environment", &spec.environment))
        .or_else(|| files(spec))
        .or_else(|| state(&spec.state))
        .or_else(|| shared(&spec.shared))
        .or_else(|| devices(spec, gpus))
        .or_else(|| ingress(spec))
        .or_else(|| secrets(spec))
        .or_else(|| rest(spec))
}

/// First fault, as a field and a message.
pub(crate) type Fault = Option<(String, String)>;

fn root(root: &Root) -> Fault {
    match root {
        Root::Image(digest) => {
            let hex = digest.strip_prefix("sha256:").unwrap_or_default();
            let good = hex.len() == 64 && hex.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
            let why = "name an image by the digest of its manifest: sha256: and 64 hexadecimal digits";
            (!good).then(|| ("/spec/root/image".to_owned(), why.to_owned()))
        }
        Root::Host(directories) if directories.is_empty() => {
            Some(("/spec/root/host".to_owned(), "name at least one directory".to_owned()))
        }
        Root::Host(directories) => directories.iter().enumerate().find_map(|(index, directory)| {
            path_fault(directory).map(|why| (format!("/spec/root/host/{index}"), why))
        }),
    }
}

fn services(services: &[Service]) -> Fault {
    let mut names = BTreeSet::new();
    for (index, service) in services.iter().enumerate() {
        let at = |field: &str| format!("/spec/services/{index}/{field}");
        if !names.insert(service.name.as_str()) {
            return Some((at("name"), "another service has this name".to_owned()));
        }
        if let Some(why) = command_fault(&service.command) {
            return Some((at("command"), why));
        }
        // `/` is no place to write to or mount on, but a valid working directory.
        let directory = service.working_directory.as_deref().filter(|directory| *directory != "/");
        if let Some(why) = directory.and_then(path_fault) {
            return Some((at("working_directory"), why));
        }
        if let Some(fault) = environment(&at("environment"), &service.environment) {
            return Some(fault);
        }
        if let Some(why) = service.ready.as_ref().and_then(probe) {
            return Some((at("ready"), why));
        }
    }
    for (index, service) in services.iter().enumerate() {
        if let Some(unknown) = service.after.iter().find(|name| !names.contains(name.as_str())) {
            return Some((
                format!("/spec/services/{index}/after"),
                format!("there is no service {unknown:?}"),
            ));
        }
    }
    circle(services).map(|index| {
        (format!("/spec/services/{index}/after"), "it depends on itself through other services".to_owned())
    })
}

/// Returns a service that depends on itself, directly or through others.
fn circle(services: &[Service]) -> Option<usize> {
    let mut started: BTreeSet<&str> = BTreeSet::new();
    loop {
        let next: Vec<&str> = services
            .iter()
            .filter(|service| !started.contains(service.name.as_str()))
            .filter(|service| service.after.iter().all(|name| started.contains(name.as_str())))
            .map(|service| service.name.as_str())
            .collect();
        if next.is_empty() {
            return services.iter().position(|service| !started.contains(service.name.as_str()));
        }
        started.extend(next);
    }
}

fn probe(probe: &Probe) -> Option<String> {
    match &probe.by {
        ProbeBy::Command(command) => command_fault(command),
        ProbeBy::Tcp(0) | ProbeBy::Http { port: 0, .. } => Some("a port must be 1 to 65535".to_owned()),
        ProbeBy::Http { path, .. }
            if !path.starts_with('/') || path.bytes().any(|byte| byte <= b' ' || byte == 127) =>
        {
            Some("a path must begin with / and have no spaces".to_owned())
        }
        ProbeBy::Tcp(_) | ProbeBy::Http { .. } => None,
    }
}

/// Validates a command.
pub(crate) fn command_fault(command: &[String]) -> Option<String> {
    match command.first() {
        None => Some("name at least the program".to_owned()),
        Some(program) if path_fault(program).is_some() => {
            Some("name the program by its absolute path in the cell; no shell resolves it".to_owned())
        }
        _ if command.iter().any(|word| word.contains('\0')) => Some("an argument contains a NUL".to_owned()),
        _ if command.iter().map(String::len).sum::<usize>() > 128 * 1024 => {
            Some("it exceeds 128 KiB".to_owned())
        }
        _ => None,
    }
}

/// Validates an environment and reports the faulty name.
pub(crate) fn environment(field: &str, environment: &BTreeMap<String, String>) -> Fault {
    environment.iter().find_map(|(name, value)| {
        let first = name.bytes().next().is_some_and(|byte| byte.is_ascii_alphabetic() || byte == b'_');
        let rest = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        let why = if !first || !rest || name.len() > 255 {
            "a name must have letters, digits and _, and not begin with a digit"
        } else if value.contains('\0') || value.len() > 32 * 1024 {
            "a value must have no NUL and at most 32 KiB"
        } else {
            return None;
        };
        Some((format!("{field}/{name}"), why.to_owned()))
    })
}

fn files(spec: &CellSpec) -> Fault {
    let mut paths = BTreeSet::new();
    for (index, file) in spec.files.iter().enumerate() {
        let why = path_fault(&file.path)
            .or_else(|| ours(&file.path))
            .or_else(|| (!paths.insert(&file.path)).then(|| "another file has this path".to_owned()));
        if let Some(why) = why {
            return Some((format!("/spec/files/{index}/path"), why));
        }
    }
    let length: usize = spec.files.iter().map(|file| file.text.len()).sum();
    (length > FILES).then(|| ("/spec/files".to_owned(), "all files together exceed 512 KiB".to_owned()))
}

fn rest(spec: &CellSpec) -> Fault {
    let rest = CellSpec { files: Vec::new(), ..spec.clone() };
    let length = serde_json::to_string(&rest).expect("a specification is JSON").len();
    let why = "the specification without its files exceeds 128 KiB: put large values into files";
    (length > REST).then(|| ("/spec".to_owned(), why.to_owned()))
}

fn state(directories: &[String]) -> Fault {
    directories.iter().enumerate().find_map(|(index, directory)| {
        let nested = || {
            let others = directories.iter().enumerate().filter(|(other, _)| *other != index);
            let inside = |other: &String| within(directory, other);
            others
                .map(|(_, other)| other)
                .find(|other| inside(other))
                .map(|other| format!("it is inside {other}"))
        };
        let why = path_fault(directory).or_else(|| ours(directory)).or_else(nested)?;
        Some((format!("/spec/state/{index}"), why))
    })
}

/// Rejects shared directories of bare cells, since nothing would remove them with the last cell.
fn shared(directories: &[String]) -> Fault {
    let why = "only the members of an app can share directories: its manifest names them";
    (!directories.is_empty()).then(|| ("/spec/shared".to_owned(), why.to_owned()))
}

fn devices(spec: &CellSpec, gpus: i64) -> Fault {
    let wanted = spec.gpus.as_ref()?;
    let mut seen = BTreeSet::new();
    wanted.iter().enumerate().find_map(|(index, gpu)| {
        let why = if i64::from(*gpu) >= gpus {
            format!("its allocation has {gpus} GPUs, counted from 0")
        } else if !seen.insert(gpu) {
            "it is named twice".to_owned()
        } else {
            return None;
        };
        Some((format!("/spec/gpus/{index}"), why))
    })
}

fn ingress(spec: &CellSpec) -> Fault {
    let mut seen = Vec::new();
    spec.ingress.iter().enumerate().find_map(|(index, ingress)| {
        if ingress.port == 0 || seen.contains(&(ingress.port, ingress.protocol)) {
            let why = "a port must be 1 to 65535, and named once per protocol";
            return Some((format!("/spec/ingress/{index}/port"), why.to_owned()));
        }
        seen.push((ingress.port, ingress.protocol));
        let port = ingress.node_port.filter(|port| !NODE_PORTS.contains(port))?;
        let why = format!("{port} cannot be published: {} to {} can", NODE_PORTS.start(), NODE_PORTS.end());
        Some((format!("/spec/ingress/{index}/node_port"), why))
    })
}

fn secrets(spec: &CellSpec) -> Fault {
    if spec.secrets.len() > MOST_SECRETS {
        let why = format!("a cell can have at most {MOST_SECRETS} secrets");
        return Some(("/spec/secrets".to_owned(), why));
    }
    let mut files = BTreeSet::new();
    spec.secrets.iter().enumerate().find_map(|(index, SecretFile { file, .. })| {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        let good = file.len() <= 127
            && file.bytes().next().is_some_and(plain)
            && file.bytes().all(|byte| plain(byte) || matches!(byte, b'.' | b'-'));
        let why = if !good {
            "a file name must have letters, digits, _, . and -, not begin with . or -, and be no path"
        } else if !files.insert(file) {
            "another secret has this file"
        } else {
            return None;
        };
        Some((format!("/spec/secrets/{index}/file"), why.to_owned()))
    })
}

/// Validates that a path is absolute and normalized.
pub(crate) fn path_fault(path: &str) -> Option<String> {
    let Some(rest) = path.strip_prefix('/') else { return Some("a path must begin with /".to_owned()) };
    if path.contains('\0') || path.len() > 4096 {
        return Some("a path must have no NUL and at most 4096 bytes".to_owned());
    }
    let odd = rest.split('/').any(|part| part.is_empty() || part == "." || part == ".." || part.len() > 255);
    odd.then(|| {
        "a path must have no empty parts, no . and no .., and no part longer than 255 bytes".to_owned()
    })
}

pub(crate) fn ours(path: &str) -> Option<String> {
    let kept = OURS.iter().find(|ours| within(path, ours) || within(ours, path))?;
    Some(format!("{kept} is reserved for the platform"))
}

/// Reports whether `path` is `parent` or lies in it.
fn within(path: &str, parent: &str) -> bool {
    path.strip_prefix(parent).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn spec(extra: serde_json::Value) -> CellSpec {
        let mut spec = json!({"root": {"host": ["/usr"]}});
        spec.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        serde_json::from_value(spec).unwrap()
    }

    /// Each value is allowed, but together they are too long.
    fn long_environment() -> serde_json::Value {
        (0..5)
            .map(|n| (format!("V{n}"), json!("x".repeat(32 * 1024))))
            .collect::<serde_json::Map<_, _>>()
            .into()
    }

    fn field(extra: serde_json::Value) -> Option<String> {
        fault(&spec(extra), 2).map(|(field, _)| field)
    }

    #[test]
    fn valid_spec_passes() {
        let good = json!({
            "services": [{"name": "b", "command": ["/bin/b", "x y"], "after": ["a"]},
                         {"name": "a", "command": ["/bin/a"], "ready": {"by": {"tcp": 80}}, "working_directory": "/"}],
            "files": [{"path": "/etc/app.conf", "text": "x"}], "state": ["/var/lib/a", "/var/lib/ab"],
            "environment": {"A_1": "x"}, "gpus": [1, 0], "ingress": [{"port": 80}, {"port": 80, "protocol": "udp"}],
        });
        assert_eq!(field(good), None);
        let files: Vec<_> =
            (0..64).map(|n| json!({"secret": "token", "file": format!("_{n}.a-b")})).collect();
        assert_eq!(field(json!({"secrets": files})), None);
        assert_eq!(fault(&spec(json!({"root": {"image": format!("sha256:{}", "0a".repeat(32))}})), 0), None);
    }

    #[test]
    fn invalid_spec_is_refused_naming_its_field() {
        let service = |service: serde_json::Value| json!({"services": [service]});
        let secrets = |files: &[&str]| {
            let files: Vec<_> = files.iter().map(|file| json!({"secret": "x", "file": file})).collect();
            json!({"secrets": files})
        };
        let cases = [
            (json!({"environment": long_environment()}), "/spec"),
            (json!({"root": {"image": "nginx:latest"}}), "/spec/root/image"),
            (json!({"root": {"host": ["/usr", "/../etc"]}}), "/spec/root/host/1"),
            (service(json!({"name": "a", "command": ["sh"]})), "/spec/services/0/command"),
            (
                service(json!({"name": "a", "command": ["/a"], "working_directory": "//"})),
                "/spec/services/0/working_directory",
            ),
            (service(json!({"name": "a", "command": ["/a/../b"]})), "/spec/services/0/command"),
            (service(json!({"name": "a", "command": ["/a", "b\u{0}c"]})), "/spec/services/0/command"),
            (service(json!({"name": "a", "command": ["/a"], "after": ["b"]})), "/spec/services/0/after"),
            (service(json!({"name": "a", "command": ["/a"], "after": ["a"]})), "/spec/services/0/after"),
            (
                service(json!({"name": "a", "command": ["/a"], "working_directory": "x"})),
                "/spec/services/0/working_directory",
            ),
            (json!({"environment": {"A=B": "x"}}), "/spec/environment/A=B"),
            (json!({"files": [{"path": "/etc/../shadow", "text": ""}]}), "/spec/files/0/path"),
            (json!({"files": [{"path": "/proc/self/mem", "text": ""}]}), "/spec/files/0/path"),
            (json!({"files": [{"path": "/etc/muster/authorized_keys", "text": ""}]}), "/spec/files/0/path"),
            (json!({"state": ["/"]}), "/spec/state/0"),
            (json!({"state": ["/etc"]}), "/spec/state/0"),
            (json!({"state": ["/srv/data", "/srv/data/x"]}), "/spec/state/1"),
            (json!({"gpus": [2]}), "/spec/gpus/0"),
            (json!({"gpus": [1, 1]}), "/spec/gpus/1"),
            (json!({"ingress": [{"port": 80, "node_port": 22}]}), "/spec/ingress/0/node_port"),
            (json!({"ingress": [{"port": 80}, {"port": 80}]}), "/spec/ingress/1/port"),
            (secrets(&["a", ""]), "/spec/secrets/1/file"),
            (secrets(&[".hidden"]), "/spec/secrets/0/file"),
            (secrets(&["-rf"]), "/spec/secrets/0/file"),
            (secrets(&[".."]), "/spec/secrets/0/file"),
            (secrets(&["a/b"]), "/spec/secrets/0/file"),
            (secrets(&["a\nb"]), "/spec/secrets/0/file"),
            (secrets(&["é"]), "/spec/secrets/0/file"),
            (secrets(&[&"a".repeat(128)]), "/spec/secrets/0/file"),
            (secrets(&["a", "b", "a"]), "/spec/secrets/2/file"),
            (secrets(&["a"; 65]), "/spec/secrets"),
            (json!({"files": [{"path": "/run/muster/secrets/a", "text": ""}]}), "/spec/files/0/path"),
            (json!({"state": ["/run/muster"]}), "/spec/state/0"),
            (json!({"state": ["/run"]}), "/spec/state/0"),
        ];
        for (extra, wanted) in cases {
            assert_eq!(field(extra.clone()).as_deref(), Some(wanted), "{extra}");
        }
    }
}
