//! Removes paths of the machine from messages that tenants read. The agent's log keeps the whole message, for operators.

use std::path::{Path, PathBuf};

use muster_wire::cell::ServiceFindings;

/// Replacement of a path.
const REPLACEMENT: &str = "[a path on the node]";

/// Directories of every machine that hold a cell's resources and never appear under this name in a request.
const KERNEL: [&str; 3] = ["/sys/fs/cgroup", "/run/netns", "/var/run/netns"];

/// The directories of the agent on its machine.
#[derive(Debug, Clone)]
pub(crate) struct HostPaths(Vec<String>);

impl HostPaths {
    /// Combines the agent's directories with those that the kernel provides. A request names paths in its cell, which stay.
    pub(crate) fn new<'p>(folders: impl IntoIterator<Item = &'p Path>) -> Self {
        let folders: Vec<PathBuf> = folders.into_iter().map(Path::to_owned).collect();
        // A folder may be given by a link, and the kernel reports its target.
        let resolved: Vec<PathBuf> =
            folders.iter().filter_map(|folder| std::fs::canonicalize(folder).ok()).collect();
        let all = folders.iter().chain(&resolved).map(|folder| folder.display().to_string());
        let mut roots: Vec<String> = all.chain(KERNEL.map(str::to_owned)).collect();
        roots.retain(|root| root.len() > 1 && root.starts_with('/'));
        roots.sort_by_key(|root| std::cmp::Reverse(root.len()));
        roots.dedup();
        Self(roots)
    }

    /// Replaces the paths in the messages of services.
    pub(crate) fn remove_from_services(&self, services: Vec<ServiceFindings>) -> Vec<ServiceFindings> {
        let clean = |service: ServiceFindings| ServiceFindings {
            message: service.message.as_deref().map(|message| self.remove_from(message)),
            ..service
        };
        services.into_iter().map(clean).collect()
    }

    /// Replaces each path in one of the directories.
    pub(crate) fn remove_from(&self, message: &str) -> String {
        let mut clean = String::with_capacity(message.len());
        let mut rest = message;
        let mut after = None;
        while let Some(letter) = rest.chars().next() {
            let starts = !after.is_some_and(is_in_path);
            let found = self.0.iter().filter(|_| starts).find_map(|root| {
                let tail = rest.strip_prefix(root.as_str())?;
                let ends = tail.chars().next().is_none_or(|next| next == '/' || !is_in_path(next));
                ends.then_some(tail)
            });
            match found {
                Some(tail) => {
                    clean.push_str(REPLACEMENT);
                    rest = tail.trim_start_matches(is_in_path);
                    after = Some(']');
                }
                None => {
                    clean.push(letter);
                    rest = &rest[letter.len_utf8()..];
                    after = Some(letter);
                }
            }
        }
        clean
    }
}

/// Reports whether a character continues a path. The names under the agent's directories are ids, keys and digests.
fn is_in_path(letter: char) -> bool {
    letter.is_alphanumeric() || matches!(letter, '/' | '.' | '_' | '-' | '@' | '+' | '~' | '%')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths() -> HostPaths {
        HostPaths::new([
            Path::new("/var/lib/muster"),
            Path::new("/run/muster/a1b2c3"),
            Path::new("/srv/muster/n1"),
        ])
    }

    #[test]
    fn paths_of_the_machine_are_replaced_and_those_of_a_request_stay() {
        let cases = [
            (
                "could not remove /var/lib/muster/cells/layer/cel_1/x: Read-only file system",
                "could not remove [a path on the node]: Read-only file system",
            ),
            ("open \"/run/muster/a1b2c3/cells/b.json\", then", "open \"[a path on the node]\", then"),
            ("write 5 to /sys/fs/cgroup/cpu/muster/x/tasks", "write 5 to [a path on the node]"),
            (
                "/srv/muster/n1 is full (/srv/muster/n1)",
                "[a path on the node] is full ([a path on the node])",
            ),
            ("/run/muster/secrets/key: not found", "/run/muster/secrets/key: not found"),
            ("/data/var/lib/muster is kept", "/data/var/lib/muster is kept"),
            ("/var/lib/muster2 and /bin/true", "/var/lib/muster2 and /bin/true"),
            ("", ""),
        ];
        for (message, clean) in cases {
            assert_eq!(paths().remove_from(message), clean);
        }
    }

    #[test]
    fn a_directory_that_is_a_link_is_found_under_both_names() {
        let folder = tempfile::tempdir().unwrap();
        let (target, link) = (folder.path().join("target"), folder.path().join("link"));
        std::fs::create_dir(&target).unwrap();
        std::os::unix::fs::symlink(&target, &link).unwrap();
        let paths = HostPaths::new([link.as_path()]);
        for place in [&link, &target] {
            let message = format!("unmount {}/disk", place.display());
            assert_eq!(paths.remove_from(&message), "unmount [a path on the node]");
        }
    }

    #[test]
    fn nothing_of_a_path_is_left_whatever_stands_around_it() {
        for root in ["/var/lib/muster", "/run/muster/a1b2c3", "/srv/muster/n1"] {
            for before in ["", "é ", "(", "\"", "'", "a: ", "lowerdir="] {
                for name in ["", "/", "/cel_1/a.b-c_d", "/blobs/sha256/0f", "/../etc"] {
                    for after in ["", " ", ": denied", "\"", ")", ", é", "; y"] {
                        let message = format!("{before}{root}{name}{after}");
                        let clean = format!("{before}{REPLACEMENT}{after}");
                        assert_eq!(paths().remove_from(&message), clean);
                    }
                }
            }
        }
    }
}
