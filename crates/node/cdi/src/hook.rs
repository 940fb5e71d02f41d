//! Hooks of NVIDIA's specifications, interpreted. They would run as root on the node, so none is executed; one whose effect is
//! unknown refuses the specification.

use crate::{SpecError, SpecHook, path};

/// Effect of a hook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Hook {
    /// The linker finds the libraries in these directories.
    UpdateLinkerCache {
        /// The directories in the container.
        folders: Vec<String>,
    },
    /// Symbolic links in the container.
    CreateLinks {
        /// Target and path of each link.
        links: Vec<Link>,
    },
    /// Nothing: the cell has it already, or never allows what it prevents.
    Nothing,
}

/// A symbolic link.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Link {
    /// Its content: a path, relative to its directory or absolute in the container.
    pub target: String,
    /// Its path in the container.
    pub path: String,
}

impl Hook {
    /// Interprets a hook.
    pub(crate) fn of(hook: &SpecHook) -> Result<Self, SpecError> {
        let unknown = || SpecError::Hook(format!("{} {}", hook.path, hook.args.join(" ")));
        // The program's name, perhaps `hook` (of `nvidia-ctk hook …`), the hook's name, its arguments.
        let mut words = hook.args.iter().map(String::as_str).skip(1).peekable();
        words.next_if_eq(&"hook");
        let name = words.next().ok_or_else(unknown)?;
        let arguments: Vec<&str> = words.collect();
        match name {
            "update-ldcache" | "create-soname-symlinks" => {
                let folders = values(&arguments, "folder", &["ldconfig-path", "host-driver-version"]);
                let folders = folders.ok_or_else(unknown)?;
                for folder in &folders {
                    path::in_container(folder)?;
                }
                Ok(match name {
                    "update-ldcache" => Self::UpdateLinkerCache { folders },
                    // The linker's cache lists each library under its soname.
                    _ => Self::Nothing,
                })
            }
            "create-symlinks" => {
                let links = values(&arguments, "link", &[]).ok_or_else(unknown)?;
                let link = |text: String| {
                    let (target, at) = text.split_once("::").ok_or_else(unknown)?;
                    path::in_container(at)?;
                    if target.is_empty() || target.contains('\0') {
                        return Err(unknown());
                    }
                    Ok(Link { target: target.to_owned(), path: at.to_owned() })
                };
                Ok(Self::CreateLinks { links: links.into_iter().map(link).collect::<Result<_, _>>()? })
            }
            // Modes are the node's own; a cell's driver is the node's; its user namespace makes no device nodes.
            "chmod" | "enable-cuda-compat" | "disable-device-node-modification" => Ok(Self::Nothing),
            _ => Err(unknown()),
        }
    }
}

/// Returns the values of an option that may be repeated; none if there is an option other than `ignored`.
fn values(arguments: &[&str], option: &str, ignored: &[&str]) -> Option<Vec<String>> {
    let mut found = Vec::new();
    let mut arguments = arguments.iter();
    while let Some(argument) = arguments.next() {
        let named = argument.strip_prefix("--").or_else(|| argument.strip_prefix('-'))?;
        let (name, value) = match named.split_once('=') {
            Some((name, value)) => (name, value),
            None => (named, *arguments.next()?),
        };
        match name {
            name if name == option => found.push(value.to_owned()),
            name if ignored.contains(&name) => {}
            _ => return None,
        }
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hook(args: &[&str]) -> Result<Hook, SpecError> {
        Hook::of(&SpecHook {
            hook_name: "createContainer".to_owned(),
            path: "/usr/bin/nvidia-cdi-hook".to_owned(),
            args: args.iter().map(|word| (*word).to_owned()).collect(),
            ..SpecHook::default()
        })
    }

    #[test]
    fn known_hooks_are_read_in_both_spellings_of_their_program() {
        let folders = vec!["/usr/lib64".to_owned(), "/usr/lib".to_owned()];
        let expected = Hook::UpdateLinkerCache { folders };
        let of = |program: &[&str]| {
            let args = [program, &["update-ldcache", "--folder", "/usr/lib64", "--folder=/usr/lib"]].concat();
            hook(&args).unwrap()
        };
        assert_eq!(of(&["nvidia-cdi-hook"]), expected);
        assert_eq!(of(&["nvidia-ctk", "hook"]), expected);
        let links =
            hook(&["nvidia-cdi-hook", "create-symlinks", "--link", "libcuda.so.1::/usr/lib64/libcuda.so"]);
        let link = Link { target: "libcuda.so.1".to_owned(), path: "/usr/lib64/libcuda.so".to_owned() };
        assert_eq!(links.unwrap(), Hook::CreateLinks { links: vec![link] });
        for known in ["chmod", "enable-cuda-compat", "disable-device-node-modification"] {
            assert_eq!(hook(&["nvidia-cdi-hook", known, "--any", "value"]).unwrap(), Hook::Nothing);
        }
    }

    #[test]
    fn any_other_hook_refuses_the_specification_by_its_name() {
        for args in [
            &["nvidia-cdi-hook", "run-anything"][..],
            &["nvidia-cdi-hook"],
            &[],
            &["nvidia-cdi-hook", "update-ldcache", "--folder"],
            &["nvidia-cdi-hook", "update-ldcache", "--exec", "/bin/sh"],
            &["nvidia-cdi-hook", "create-symlinks", "--link", "no separator"],
        ] {
            let error = hook(args).unwrap_err().to_string();
            assert!(error.contains("/usr/bin/nvidia-cdi-hook"), "{error}");
        }
        for outside in ["/usr/lib/../../etc", "relative", "/proc/self/root", "/run/muster/x"] {
            let link = format!("x::{outside}");
            assert!(hook(&["nvidia-cdi-hook", "create-symlinks", "--link", &link]).is_err(), "{outside}");
            assert!(hook(&["nvidia-cdi-hook", "update-ldcache", "--folder", outside]).is_err(), "{outside}");
        }
    }
}
