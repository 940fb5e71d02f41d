//! Validates requests before any of their values reaches a path, a file or a program.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use muster_wire::cell::{CellSpec, ProbeBy, SecretFile, Service};
use muster_wire::task::{CommandOrder, FilesOrder, ProbeOrder};

use crate::error::{CellResult, refused};
use crate::make::Make;
use crate::record::{Device, RootSource};
use crate::secret::{LONGEST, Secret};

/// Validates the name of a cell or a service, so that it is safe as a file name and a host name.
pub(crate) fn name(text: &str) -> CellResult<()> {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let good = (1..=63).contains(&text.len())
        && text.bytes().all(inner)
        && !text.starts_with('-')
        && !text.ends_with('-');
    if good {
        Ok(())
    } else {
        refused(format!("'{}' is not a name: use a-z, 0-9 and -, at most 63", text.escape_debug()))
    }
}

/// Validates the id of a command: a platform id, or a name.
pub(crate) fn command_id(text: &str) -> CellResult<()> {
    let good = (1..=64).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_');
    if good { Ok(()) } else { refused(format!("'{}' is not the id of a command", text.escape_debug())) }
}

/// Validates an absolute path without `.`, `..`, empty parts and control characters.
pub(crate) fn path(text: &str) -> CellResult<()> {
    let parts = text.strip_prefix('/').map(|rest| rest.strip_suffix('/').unwrap_or(rest));
    let good = text.len() <= 4_096
        && !text.chars().any(char::is_control)
        && (text == "/"
            || parts.is_some_and(|rest| {
                rest.split('/').all(|part| !matches!(part, "" | "." | "..") && part.len() <= 255)
            }));
    if good {
        Ok(())
    } else {
        refused(format!("'{}' is not a path: it must be absolute, without . or ..", text.escape_debug()))
    }
}

/// Validates a working directory. `/proc` is excluded: its links lead outside the cell's root.
pub(crate) fn working_directory(text: &str) -> CellResult<()> {
    path(text)?;
    if Path::new(text).starts_with("/proc") {
        refused("a working directory may not be under /proc")
    } else {
        Ok(())
    }
}

/// Validates a program and its arguments.
pub(crate) fn arguments(arguments: &[String]) -> CellResult<()> {
    if arguments.first().is_none_or(String::is_empty) {
        return refused("a command needs a program");
    }
    if arguments.len() > 256
        || arguments.iter().any(|argument| argument.contains('\0') || argument.len() > 131_072)
    {
        return refused("a command has at most 256 arguments, of 128 KiB each, without zero bytes");
    }
    Ok(())
}

/// Maximum length of a text that is written or read at once.
const LONGEST_TEXT: usize = 262_144;

/// Validates files to write and to remove.
pub(crate) fn files(order: &FilesOrder) -> CellResult<()> {
    if order.write.len() > 100 || order.remove.len() > 100 || order.secrets.len() > 64 {
        return refused("at most 100 files can be written, 100 removed and 64 secrets given at once");
    }
    for file in &order.write {
        path(&file.path)?;
        mode(&file.mode)?;
        owner(file.uid)?;
        owner(file.gid)?;
        if file.text.len() > LONGEST_TEXT {
            return refused(format!("{} is longer than {LONGEST_TEXT} bytes", file.path));
        }
    }
    order.remove.iter().try_for_each(|removed| path(removed))
}

/// Validates a command that runs to completion.
pub(crate) fn once(order: &CommandOrder) -> CellResult<()> {
    arguments(&order.command)?;
    environment(&order.environment)?;
    owner(order.uid)?;
    owner(order.gid)?;
    if order.stdin.len() > LONGEST_TEXT {
        return refused(format!("the input of a command can have at most {LONGEST_TEXT} bytes"));
    }
    Ok(())
}

/// Directories that a check never mounts from a cell: those of programs and libraries, and the kernel's.
const NEVER_SEEN: [&str; 9] = ["/bin", "/sbin", "/lib", "/lib32", "/lib64", "/usr", "/proc", "/sys", "/dev"];

/// Validates a check beside a cell.
pub(crate) fn validate_probe(order: &ProbeOrder) -> CellResult<()> {
    arguments(&order.command)?;
    path(&order.command[0])?;
    environment(&order.environment)?;
    owner(order.uid)?;
    owner(order.gid)?;
    if order.sees.len() > 16 {
        return refused("a check can access at most 16 directories of the cell");
    }
    for (number, seen) in order.sees.iter().enumerate() {
        path(seen)?;
        // /etc itself decides which libraries a program loads; a directory in it only provides data.
        let kept = NEVER_SEEN.iter().any(|kept| Path::new(seen).starts_with(kept));
        if kept || matches!(seen.trim_end_matches('/'), "" | "/etc") {
            return refused(format!(
                "{seen} cannot be used by a check: programs and libraries come only from the image; name a directory with data"
            ));
        }
        if order.sees[..number].contains(seen) {
            return refused(format!("{seen} is listed twice"));
        }
    }
    Ok(())
}

/// Validates names and values of an environment.
pub(crate) fn environment(environment: &BTreeMap<String, String>) -> CellResult<()> {
    for (key, value) in environment {
        if key.is_empty() || key.contains(['=', '\0']) || value.contains('\0') {
            return refused(format!("'{}' is not a name and value of an environment", key.escape_debug()));
        }
    }
    Ok(())
}

/// Validates a user or group id of a cell.
pub(crate) fn owner(id: u32) -> CellResult<()> {
    if id < crate::range::SIZE {
        Ok(())
    } else {
        refused(format!("{id} is not an id in a cell; it has 0 to 65535"))
    }
}

/// Parses the mode of a file: octal digits.
pub(crate) fn mode(text: &str) -> CellResult<u32> {
    match u32::from_str_radix(text, 8) {
        Ok(mode) if (3..=4).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit()) => {
            Ok(mode)
        }
        _ => refused(format!("'{}' is not a file mode; write it like 644", text.escape_debug())),
    }
}

/// Validates a request to create a cell.
pub(crate) fn validate_create(make: &Make<'_>) -> CellResult<()> {
    name(make.name)?;
    if make.incarnation < 1 {
        return refused("an incarnation must be 1 or more");
    }
    spec(make.spec)?;
    if !make.storage.is_absolute() || !make.storage.is_dir() {
        return refused(format!("the storage {} does not exist; create it first", make.storage.display()));
    }
    match &make.root {
        RootSource::Image { folder, .. } if !folder.is_absolute() || !folder.is_dir() => {
            return refused(format!("the unpacked image {} does not exist", folder.display()));
        }
        RootSource::Host { directories } => {
            for directory in directories {
                path(directory.to_str().unwrap_or_default())?;
                if ["/", "/proc", "/sys", "/dev", "/etc", "/run", "/tmp"]
                    .iter()
                    .any(|kept| directory == Path::new(kept))
                {
                    return refused(format!("{} is never shared with a cell", directory.display()));
                }
            }
        }
        RootSource::Image { .. } => {}
    }
    make.devices.iter().try_for_each(device)
}

/// Ensures that exactly the secrets of the specification were supplied.
pub(crate) fn secrets(make: &Make<'_>) -> CellResult<()> {
    validate_secrets(&make.spec.secrets, make.secrets)
}

/// Ensures that exactly the named secrets were supplied, with matching names and owners.
pub(crate) fn validate_secrets(wanted: &[SecretFile], secrets: &[Secret<'_>]) -> CellResult<()> {
    let mut names = BTreeSet::new();
    for named in wanted {
        let inner = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-');
        let good = (1..=127).contains(&named.file.len())
            && named.file.bytes().all(inner)
            && !named.file.starts_with(['.', '-']);
        if !good {
            let name = named.file.escape_debug();
            return refused(format!(
                "'{name}' is not a file name of a secret: use letters, digits, _ . and -, and do not begin with . or -"
            ));
        }
        if !names.insert(named.file.as_str()) {
            return refused(format!("two secrets have the file {}", named.file));
        }
        owner(named.uid)?;
        owner(named.gid)?;
        let told = secrets.iter().filter(|secret| secret.file == named.file);
        if told.filter(|secret| (secret.uid, secret.gid) == (named.uid, named.gid)).count() != 1 {
            return refused(format!("the secret {} is missing; request it again", named.file));
        }
    }
    if secrets.len() != names.len() {
        return refused("a secret was given that the cell does not use");
    }
    match secrets.iter().find(|secret| secret.content.len() > LONGEST) {
        Some(long) => refused(format!("the secret {} is longer than {LONGEST} bytes", long.file)),
        None => Ok(()),
    }
}

fn device(device: &Device) -> CellResult<()> {
    use std::os::unix::fs::{FileTypeExt, MetadataExt};
    path(&device.target)?;
    if !Path::new(&device.target).starts_with("/dev") || device.target == "/dev" {
        return refused(format!("the device {} must be under /dev in the cell", device.target));
    }
    // Verified on the node, whatever the request claims.
    let seen =
        std::fs::symlink_metadata(&device.source).ok().filter(|seen| seen.file_type().is_char_device());
    let numbers = seen.map(|seen| (rustix::fs::major(seen.rdev()), rustix::fs::minor(seen.rdev())));
    if numbers != Some((device.major, device.minor)) {
        return refused(format!(
            "{} is not the character device {}:{}",
            device.source.display(),
            device.major,
            device.minor
        ));
    }
    Ok(())
}

fn spec(spec: &CellSpec) -> CellResult<()> {
    environment(&spec.environment)?;
    let mut lasting = BTreeSet::new();
    for directory in spec.state.iter().chain(&spec.shared) {
        path(directory)?;
        let kept = ["/proc", "/sys", "/dev", "/run/muster", "/etc/muster"];
        let ours = kept.iter().any(|kept| Path::new(directory).starts_with(kept));
        if directory == "/" || directory == "/etc" || ours {
            return refused(format!("{directory} cannot be a state directory, nor shared"));
        }
        if !lasting.insert(directory) {
            return refused(format!("{directory} is named twice as a state directory or as shared"));
        }
    }
    for file in &spec.files {
        path(&file.path)?;
        mode(&file.mode)?;
        owner(file.uid)?;
        owner(file.gid)?;
    }
    services(&spec.services)
}

fn services(services: &[Service]) -> CellResult<()> {
    let mut names = BTreeSet::new();
    for service in services {
        name(&service.name)?;
        if !names.insert(service.name.as_str()) {
            return refused(format!("two services are named {}", service.name));
        }
        arguments(&service.command)?;
        environment(&service.environment)?;
        owner(service.uid)?;
        owner(service.gid)?;
        service.working_directory.as_deref().map_or(Ok(()), working_directory)?;
        match service.ready.as_ref().map(|probe| &probe.by) {
            Some(ProbeBy::Command(command)) => arguments(command)?,
            Some(ProbeBy::Http { path, .. })
                if !path.starts_with('/') || path.contains(|c: char| c.is_whitespace() || c.is_control()) =>
            {
                return refused(format!("'{}' is not the path of an HTTP probe", path.escape_debug()));
            }
            _ => {}
        }
    }
    // Every service must depend on existing ones, without cycles.
    let mut placed: BTreeSet<&str> = BTreeSet::new();
    while placed.len() < services.len() {
        let ready: Vec<&str> = services
            .iter()
            .filter(|service| !placed.contains(service.name.as_str()))
            .filter(|service| service.after.iter().all(|other| placed.contains(other.as_str())))
            .map(|service| service.name.as_str())
            .collect();
        if ready.is_empty() {
            return refused("the services wait for each other, or for a missing one: check 'after'");
        }
        placed.extend(ready);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_could_leave_their_folder_are_no_names() {
        for good in ["a", "web-1", "0"] {
            name(good).unwrap();
        }
        for bad in ["", ".", "..", "a/b", "../x", "-a", "a-", "A", "a b", "a\0", &"a".repeat(64)] {
            assert!(name(bad).is_err(), "{bad:?}");
            assert!(
                bad.starts_with('-')
                    || bad.ends_with('-')
                    || bad == "A"
                    || bad.len() == 64
                    || command_id(bad).is_err(),
                "{bad:?}"
            );
        }
    }

    #[test]
    fn paths_that_climb_or_hide_something_are_refused() {
        for good in ["/", "/a", "/a/b.c/", "/etc/..hidden"] {
            path(good).unwrap();
        }
        for bad in ["", "a", "./a", "/a/../b", "/..", "//", "/a//b", "/a/.", "/a\nb", "/a\0"] {
            assert!(path(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_working_directory_under_proc_is_refused() {
        working_directory("/procession").unwrap();
        for bad in ["/proc", "/proc/", "/proc/self/fd/7", "/proc/1/root"] {
            assert!(working_directory(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn services_that_wait_for_each_other_are_refused() {
        let service = |name: &str, after: &[&str]| -> Service {
            serde_json::from_value(serde_json::json!({ "name": name, "command": ["/x"], "after": after }))
                .unwrap()
        };
        services(&[service("b", &["a"]), service("a", &[])]).unwrap();
        assert!(services(&[service("a", &["b"]), service("b", &["a"])]).is_err());
        assert!(services(&[service("a", &["nobody"])]).is_err());
        assert!(services(&[service("a", &[]), service("a", &[])]).is_err());
    }

    #[test]
    fn modes_are_octal_digits() {
        assert_eq!(mode("0640").unwrap(), 0o640);
        for bad in ["", "+64", "8", "99999", "rwx", "64"] {
            assert!(mode(bad).is_err(), "{bad}");
        }
    }
}
