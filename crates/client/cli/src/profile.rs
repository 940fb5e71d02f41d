//! Profiles: server, token, and default tenant and project.
//!
//! They are in one file that only its owner can read. A keyring was rejected: the machines where this runs (servers, CI,
//! containers) have none, and a token can be revoked with one command.

use std::collections::BTreeMap;
use std::fs::{DirBuilder, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::failure::{Failure, Result};

/// A profile. No `Debug`: it holds a token.
#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Profile {
    pub(crate) server: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) token: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) ca_file: Option<PathBuf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tenant: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) project: Option<String>,
}

/// The profiles file.
#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Profiles {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) current: Option<String>,
    #[serde(default)]
    pub(crate) profiles: BTreeMap<String, Profile>,
    #[serde(skip)]
    path: PathBuf,
}

/// Returns the path of the file: `$XDG_CONFIG_HOME/muster/profiles.toml`, by default under `~/.config`.
pub(crate) fn default_path() -> PathBuf {
    under("XDG_CONFIG_HOME", ".config").join("profiles.toml")
}

/// Returns the cache folder: `$XDG_CACHE_HOME/muster`, by default under `~/.cache`.
pub(crate) fn default_cache_path() -> PathBuf {
    under("XDG_CACHE_HOME", ".cache")
}

fn under(variable: &str, at_home: &str) -> PathBuf {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let folder = set(variable).or_else(|| Some(set("HOME")?.join(at_home)));
    folder.unwrap_or_default().join("muster")
}

impl Profiles {
    /// Reads the file; a missing one has no profiles.
    pub(crate) fn load(path: &Path) -> Result<Self> {
        let text = match std::fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
            Err(error) => return Err(Failure::local(&format!("{} cannot be read", path.display()), error)),
        };
        if let Ok(metadata) = std::fs::metadata(path)
            && metadata.permissions().mode() & 0o077 != 0
        {
            let detail =
                format!("{} contains tokens that other users of this machine can read", path.display());
            return Err(
                Failure::local(&detail, "it is not used so").next(format!("chmod 600 {}", path.display()))
            );
        }
        let mut profiles: Profiles = toml::from_str(&text).map_err(|error| {
            Failure::local(&format!("{} is not a file of profiles", path.display()), error.message())
        })?;
        profiles.path = path.to_owned();
        Ok(profiles)
    }

    /// Writes a new file and renames it, so that a crash leaves either version intact.
    pub(crate) fn save(&self) -> Result<()> {
        let failed = |error: std::io::Error| {
            Failure::local(&format!("{} cannot be written", self.path.display()), error)
        };
        let text =
            toml::to_string(self).map_err(|error| Failure::local("the profiles cannot be written", error))?;
        let folder = self.path.parent().unwrap_or(Path::new("."));
        DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(failed)?;
        let fresh = self.path.with_extension(format!("toml.{}", std::process::id()));
        let mut file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&fresh)
            .map_err(failed)?;
        file.write_all(text.as_bytes()).map_err(failed)?;
        file.sync_all().map_err(failed)?;
        std::fs::rename(&fresh, &self.path).map_err(failed)
    }

    /// Returns the selected profile: by name, or the current one, if any.
    pub(crate) fn chosen(&self, name: Option<&str>) -> Result<Option<(&str, &Profile)>> {
        let Some(name) = name.or(self.current.as_deref()) else { return Ok(None) };
        match self.profiles.get_key_value(name) {
            Some((name, profile)) => Ok(Some((name, profile))),
            None => Err(Failure::usage(format!("there is no profile {name:?}"))
                .next("`muster profile list` lists them; `muster login --profile NAME` creates one")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn profiles_are_kept_where_only_their_owner_reads_them() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("deep/muster/profiles.toml");
        let mut profiles = Profiles::load(&path).unwrap();
        assert!(profiles.chosen(None).unwrap().is_none());
        let profile =
            Profile { server: "http://a".to_owned(), token: Some("mst".to_owned()), ..Profile::default() };
        profiles.profiles.insert("home".to_owned(), profile);
        profiles.current = Some("home".to_owned());
        profiles.save().unwrap();
        profiles.save().unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(
            std::fs::read_dir(path.parent().unwrap()).unwrap().count(),
            1,
            "no half-written file is left"
        );
        let again = Profiles::load(&path).unwrap();
        let (name, profile) = again.chosen(None).unwrap().unwrap();
        assert_eq!((name, profile.token.as_deref()), ("home", Some("mst")));
        assert!(again.chosen(Some("away")).is_err());
    }

    #[test]
    fn a_file_that_others_may_read_or_that_is_something_else_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("profiles.toml");
        std::fs::write(&path, "current = 3").unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        let Err(open) = Profiles::load(&path) else { panic!("others may read it") };
        assert!(open.next.unwrap().starts_with("chmod 600"));
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        assert!(Profiles::load(&path).is_err());
    }
}
