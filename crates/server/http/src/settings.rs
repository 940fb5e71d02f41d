//! One table of settings, from which the file, the environment and the flags are read, and the documentation is
//! generated.
//!
//! A layering crate was rejected: it would merge the sources, but the table of names, defaults and meanings (and the
//! flags derived from it) would still have to be kept in step by hand.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// A documented setting.
#[derive(Debug, Clone, Copy)]
pub struct Setting {
    /// `section.name` in the file; `MUSTER_SECTION_NAME` in the environment; `--section-name` as a flag.
    pub key: &'static str,
    /// Default value.
    pub default: &'static str,
    /// Description.
    pub meaning: &'static str,
}

impl Setting {
    /// Returns its name in the environment.
    pub fn environment(&self) -> String {
        format!("MUSTER_{}", self.key.replace('.', "_").to_uppercase())
    }

    /// Returns its name as a flag, without the dashes.
    pub fn flag(&self) -> String {
        self.key.replace(['.', '_'], "-")
    }
}

/// Every setting of the server.
pub const TABLE: &[Setting] = &[
    Setting {
        key: "http.listen",
        default: "127.0.0.1:7480",
        meaning: "Listen address. Beyond loopback only with TLS.",
    },
    Setting {
        key: "http.hosts",
        default: "",
        meaning: "Host names to serve besides the address and localhost, separated by commas.",
    },
    Setting { key: "http.body_limit_bytes", default: "1048576", meaning: "Largest request body." },
    Setting {
        key: "http.timeout_seconds",
        default: "15",
        meaning: "Time for a client to send its headers, and then its body; a client that reads nothing of its response for twice as long is disconnected.",
    },
    Setting {
        key: "http.unread_bytes",
        default: "134217728",
        meaning: "Memory for responses that clients have not read yet; one tenant, address or node holds at most as much as it leaves free.",
    },
    Setting {
        key: "http.max_connections",
        default: "4096",
        meaning: "Maximum of concurrent connections; beyond it, probes, operators and logins are served and others wait.",
    },
    Setting {
        key: "http.connections_per_address",
        default: "1024",
        meaning: "Maximum of concurrent connections from one address (an IPv6 network of 64 bits); http.proxies are exempt.",
    },
    Setting {
        key: "http.proxies",
        default: "",
        meaning: "Addresses of proxies in front of the server, separated by commas: the last address in their X-Forwarded-For is the caller's.",
    },
    Setting { key: "tls.cert_file", default: "", meaning: "The certificate chain, PEM." },
    Setting { key: "tls.key_file", default: "", meaning: "Its private key, PEM." },
    Setting {
        key: "nodes.listen",
        default: "127.0.0.1:7481",
        meaning: "Listen address for agents, always TLS under the platform's own authority. Empty: no agents.",
    },
    Setting {
        key: "nodes.hosts",
        default: "",
        meaning: "Host names and addresses that agents use, besides localhost and nodes.listen's own, separated by commas.",
    },
    Setting {
        key: "nodes.advertise",
        default: "",
        meaning: "HOST:PORT under which agents reach this replica, to join its streams. Empty: their usual address.",
    },
    Setting {
        key: "nodes.heartbeat_seconds",
        default: "10",
        meaning: "Interval of node heartbeats; a node that misses three counts as unreachable.",
    },
    Setting {
        key: "nodes.certificate_hours",
        default: "24",
        meaning: "Lifetime of a node's certificate; agents renew it long before.",
    },
    Setting {
        key: "data.dir",
        default: "~/.local/share/muster",
        meaning: "Folder of the embedded database, the root key and the operator's first token, by default.",
    },
    Setting {
        key: "database.url",
        default: "",
        meaning: "postgres://… for PostgreSQL, or the path of a SQLite file; muster.db in data.dir if empty.",
    },
    Setting { key: "database.connections", default: "20", meaning: "Maximum of connections to PostgreSQL." },
    Setting {
        key: "registry.dir",
        default: "",
        meaning: "Folder of the registry's content; registry in data.dir if empty. Several servers must share it.",
    },
    Setting {
        key: "registry.largest_blob_bytes",
        default: "1099511627776",
        meaning: "Largest blob that can be pushed.",
    },
    Setting {
        key: "registry.garbage_grace_seconds",
        default: "86400",
        meaning: "Time that unused content is kept; longer than the slowest push.",
    },
    Setting {
        key: "registry.garbage_every_seconds",
        default: "3600",
        meaning: "Interval of the search for unused content.",
    },
    Setting {
        key: "registry.scrub_bytes_per_second",
        default: "16777216",
        meaning: "Rate of background verification of the registry's content; 0 disables it.",
    },
    Setting {
        key: "registry.external",
        default: "true",
        meaning: "Whether projects may reference content of other registries, which this server then reads.",
    },
    Setting {
        key: "registry.allow_private",
        default: "false",
        meaning: "Whether other registries may be referenced at loopback and private addresses, those at loopback by plain http.",
    },
    Setting {
        key: "apps.slice_network_crosses_allocations",
        default: "false",
        meaning: "Whether releases with `reach: flat` count as compatible with slices of several allocations. It configures no network.",
    },
    Setting {
        key: "keys.root_key_file",
        default: "",
        meaning: "The root keys, mode 0600; root.key in data.dir if empty.",
    },
    Setting {
        key: "audit.signing_key_file",
        default: "",
        meaning: "The key that signs heads of the audit, mode 0600; audit.key in data.dir if empty. Created if missing.",
    },
    Setting {
        key: "audit.heads_to",
        default: "",
        meaning: "Destination of signed audit heads: the absolute path of a file to append to, or an https URL.",
    },
    Setting {
        key: "audit.heads_every_seconds",
        default: "60",
        meaning: "Interval at which heads of chains that have grown are signed and sent.",
    },
    Setting {
        key: "operator.token_file",
        default: "",
        meaning: "File for the operator's token of the first start, mode 0600; operator.token in data.dir if empty.",
    },
    Setting { key: "limits.actor_per_second", default: "200", meaning: "Requests per second of an actor." },
    Setting { key: "limits.tenant_per_second", default: "1000", meaning: "Requests per second of a tenant." },
    Setting { key: "limits.tenant_in_flight", default: "64", meaning: "Concurrent requests of a tenant." },
    Setting {
        key: "limits.address_per_second",
        default: "50",
        meaning: "Requests per second and address without a valid credential: logins, probing tokens, joining nodes.",
    },
    Setting {
        key: "limits.address_in_flight",
        default: "16",
        meaning: "Concurrent requests of an address without a valid credential.",
    },
    Setting {
        key: "limits.downloads_per_tenant",
        default: "256",
        meaning: "Concurrent downloads and exports of a tenant at this server.",
    },
    Setting {
        key: "limits.uploads_per_tenant",
        default: "256",
        meaning: "Concurrent uploads of a tenant to the registry at this server; one actor has at most three quarters of them.",
    },
    Setting {
        key: "events.streams_per_actor",
        default: "32",
        meaning: "Concurrent event streams of an actor at this server.",
    },
    Setting {
        key: "events.streams_per_tenant",
        default: "256",
        meaning: "Concurrent event streams of a tenant at this server.",
    },
    Setting {
        key: "streams.per_tenant",
        default: "64",
        meaning: "Concurrent terminals, commands, transfers and logs of a tenant at this server.",
    },
    Setting {
        key: "engine.lease_milliseconds",
        default: "15000",
        meaning: "Lease of an operation; if its server does not renew it, another continues the operation.",
    },
    Setting {
        key: "engine.task_milliseconds",
        default: "60000",
        meaning: "Time for an agent to complete a task before it is retried.",
    },
    Setting {
        key: "engine.create_seconds",
        default: "900",
        meaning: "Time to create, restart or resize an allocation, not counting the queue.",
    },
    Setting {
        key: "engine.release_seconds",
        default: "1800",
        meaning: "Time to release an allocation before the operation is blocked.",
    },
    Setting {
        key: "engine.undo_seconds",
        default: "900",
        meaning: "Time for a rollback before the operation is blocked.",
    },
    Setting {
        key: "engine.escalate_seconds",
        default: "3600",
        meaning: "Time that an operation may stay blocked before it escalates to operators.",
    },
    #[cfg(feature = "test-api")]
    Setting {
        key: "engine.kill_at",
        default: "",
        meaning: "For tests of recovery: the process aborts at this point of a step, such as `allocation.create/claim:before_commit`.",
    },
    Setting { key: "sessions.hours", default: "12", meaning: "Lifetime of a browser session." },
    Setting { key: "retention.events_days", default: "30", meaning: "Retention of events; 0 is forever." },
    Setting {
        key: "retention.audit_days",
        default: "0",
        meaning: "Retention of audit entries; 0 is forever.",
    },
    Setting {
        key: "retention.idempotency_hours",
        default: "24",
        meaning: "Retention of responses for replays.",
    },
    Setting {
        key: "webhooks.allow_private",
        default: "false",
        meaning: "Whether webhooks may go to loopback and private addresses, and by plain http.",
    },
    Setting { key: "log.format", default: "json", meaning: "json or text." },
    Setting {
        key: "log.level",
        default: "info",
        meaning: "error, warn, info, debug or trace, or a tracing filter.",
    },
];

/// Error in the settings.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// The file cannot be read.
    #[error("the settings file {path}: {why}")]
    File {
        /// The file.
        path: PathBuf,
        /// The cause.
        why: String,
    },
    /// A key that is not in the table.
    #[error("{source_name}: there is no setting `{key}`{hint}; `muster server settings` lists them")]
    Unknown {
        /// Source of the key.
        source_name: String,
        /// The key.
        key: String,
        /// Suggestion of a similar key.
        hint: String,
    },
    /// An invalid value.
    #[error("{key} = `{value}` (from {source_name}): {why}")]
    Value {
        /// The key.
        key: String,
        /// The value.
        value: String,
        /// Source of the value.
        source_name: String,
        /// The cause.
        why: String,
    },
}

/// The settings, each with its source.
#[derive(Debug, Clone)]
pub struct Settings {
    values: BTreeMap<&'static str, (String, String)>,
}

impl Default for Settings {
    fn default() -> Self {
        let default = |setting: &Setting| (setting.key, (setting.default.to_owned(), "default".to_owned()));
        Self { values: TABLE.iter().map(default).collect() }
    }
}

fn find(key: &str) -> Option<&'static Setting> {
    TABLE.iter().find(|setting| setting.key == key)
}

impl Settings {
    /// Loads defaults, then the file, then the environment, then flags; later sources override earlier ones.
    pub fn load(
        file: Option<&Path>,
        environment: impl IntoIterator<Item = (String, String)>,
        flags: impl IntoIterator<Item = (String, String)>,
    ) -> Result<Self, SettingsError> {
        let mut settings = Self::default();
        if let Some(path) = file {
            let fail = |why: String| SettingsError::File { path: path.to_owned(), why };
            let text = std::fs::read_to_string(path).map_err(|error| fail(error.to_string()))?;
            let table: toml::Table =
                text.parse().map_err(|error: toml::de::Error| fail(error.to_string()))?;
            for (key, value) in flatten(&table) {
                settings.set(&key, value, &path.display().to_string())?;
            }
        }
        let environment: BTreeMap<String, String> = environment.into_iter().collect();
        for setting in TABLE {
            if let Some(value) = environment.get(&setting.environment()) {
                settings.set(setting.key, value.clone(), &setting.environment())?;
            }
        }
        // An unknown variable in one of our sections is a typo that would otherwise have no effect.
        for name in environment.keys() {
            let sections = TABLE.iter().map(|setting| setting.key.split('.').next().unwrap_or_default());
            let ours = sections
                .map(str::to_uppercase)
                .any(|section| name.starts_with(&format!("MUSTER_{section}_")));
            if ours && !TABLE.iter().any(|setting| setting.environment() == *name) {
                return Err(SettingsError::Unknown {
                    source_name: "the environment".to_owned(),
                    key: name.clone(),
                    hint: String::new(),
                });
            }
        }
        for (key, value) in flags {
            settings.set(&key, value, "a flag")?;
        }
        Ok(settings)
    }

    /// Sets one value.
    pub fn set(&mut self, key: &str, value: String, source_name: &str) -> Result<(), SettingsError> {
        let setting = find(key).ok_or_else(|| SettingsError::Unknown {
            source_name: source_name.to_owned(),
            key: key.to_owned(),
            hint: TABLE
                .iter()
                .find(|setting| setting.key.ends_with(key.rsplit('.').next().unwrap_or(key)))
                .map_or_else(String::new, |setting| format!(" (did you mean `{}`?)", setting.key)),
        })?;
        self.values.insert(setting.key, (value, source_name.to_owned()));
        Ok(())
    }

    /// Reports whether a setting has its default.
    pub fn is_default(&self, key: &str) -> bool {
        self.values.get(key).is_none_or(|(_, source_name)| source_name == "default")
    }

    /// Returns a value as text.
    pub fn text(&self, key: &str) -> &str {
        self.values.get(key).map_or("", |(value, _)| value)
    }

    /// Returns a value, parsed.
    pub fn parsed<T: std::str::FromStr>(&self, key: &str) -> Result<T, SettingsError>
    where
        T::Err: std::fmt::Display,
    {
        let (value, source_name) = self.values.get(key).cloned().unwrap_or_default();
        value.parse().map_err(|error: T::Err| SettingsError::Value {
            key: key.to_owned(),
            value,
            source_name,
            why: error.to_string(),
        })
    }

    /// Returns a number that must not be 0.
    pub fn positive(&self, key: &str) -> Result<u64, SettingsError> {
        match self.parsed::<u64>(key)? {
            0 => Err(self.refused(key, "it must be at least 1".to_owned())),
            number => Ok(number),
        }
    }

    /// Returns the error for a value, with its source.
    pub fn refused(&self, key: &str, why: String) -> SettingsError {
        let (value, source_name) = self.values.get(key).cloned().unwrap_or_default();
        SettingsError::Value { key: key.to_owned(), value, source_name, why }
    }

    /// Returns the data folder, with `~` resolved.
    pub fn data_dir(&self) -> PathBuf {
        let text = self.text("data.dir");
        match (text.strip_prefix("~/"), std::env::var_os("HOME")) {
            (Some(rest), Some(home)) => PathBuf::from(home).join(rest),
            _ => PathBuf::from(text),
        }
    }

    /// Returns a file path; the default is in the data folder.
    pub fn file(&self, key: &str, name: &str) -> PathBuf {
        match self.text(key) {
            "" => self.data_dir().join(name),
            path => PathBuf::from(path),
        }
    }

    /// Returns every setting with its value and source; the database password is masked.
    pub fn effective(&self) -> Vec<(&'static str, String, String)> {
        let shown = |key: &str, value: &str| {
            if key == "database.url"
                && let Ok(mut url) = url::Url::parse(value)
                && url.password().is_some()
            {
                let _ = url.set_password(Some("…"));
                return url.to_string();
            }
            value.to_owned()
        };
        self.values.iter().map(|(key, (value, from))| (*key, shown(key, value), from.clone())).collect()
    }
}

fn flatten(table: &toml::Table) -> Vec<(String, String)> {
    let text = |value: &toml::Value| match value {
        toml::Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let mut flat = Vec::new();
    for (section, value) in table {
        match value {
            toml::Value::Table(inner) => {
                flat.extend(inner.iter().map(|(name, value)| (format!("{section}.{name}"), text(value))));
            }
            other => flat.push((section.clone(), text(other))),
        }
    }
    flat
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(key: &str, value: &str) -> Vec<(String, String)> {
        vec![(key.to_owned(), value.to_owned())]
    }

    #[test]
    fn flags_win_over_environment_over_file_over_defaults() {
        let file = std::env::temp_dir().join(format!("muster-settings-{}.toml", std::process::id()));
        std::fs::write(&file, "[http]\nlisten = \"127.0.0.1:1\"\nbody_limit_bytes = 7\n").unwrap();
        let settings =
            Settings::load(Some(&file), one("MUSTER_HTTP_LISTEN", "127.0.0.1:2"), one("sessions.hours", "3"))
                .unwrap();
        std::fs::remove_file(&file).unwrap();
        assert_eq!(settings.text("http.listen"), "127.0.0.1:2");
        assert_eq!(settings.parsed::<u64>("http.body_limit_bytes").unwrap(), 7);
        assert_eq!(settings.parsed::<u32>("sessions.hours").unwrap(), 3);
        assert_eq!(settings.text("log.format"), "json");
    }

    #[test]
    fn unknown_keys_are_refused_by_name() {
        let error = Settings::load(None, one("MUSTER_HTTP_LISTN", "x"), Vec::new()).unwrap_err().to_string();
        assert!(error.contains("MUSTER_HTTP_LISTN"), "{error}");
        let error = Settings::load(None, Vec::new(), one("web.listen", "x")).unwrap_err().to_string();
        assert!(error.contains("did you mean `http.listen`"), "{error}");
        assert!(Settings::load(None, one("MUSTER_TOKEN", "x"), Vec::new()).is_ok(), "the command line's own");
    }

    #[test]
    fn a_password_is_not_shown() {
        let settings =
            Settings::load(None, Vec::new(), one("database.url", "postgres://a:secret@h/d")).unwrap();
        assert!(!format!("{:?}", settings.effective()).contains("secret"));
    }
}
