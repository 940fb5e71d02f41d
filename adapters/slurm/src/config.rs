//! The configuration of an instance. The manifest's schema has validated it already; this validates rules that a schema cannot
//! express, and those that must not depend on a schema published by another project.

use std::collections::{BTreeMap, BTreeSet};

use muster_adapter_kit::Failure;
use serde::Deserialize;
use serde_json::{Map, Value};

/// Settings of `slurm.conf` that an instance may choose. Settings that name hosts, users, paths, plugins, ports or programs are
/// the adapter's own, because its guarantees for a cluster rest on them.
pub(crate) const ALLOWED: &[&str] = &[
    "BatchStartTimeout",
    "CompleteWait",
    "DefCpuPerGPU",
    "DefMemPerGPU",
    "EnforcePartLimits",
    "FairShareDampeningFactor",
    "InactiveLimit",
    "JobRequeue",
    "KillOnBadExit",
    "KillWait",
    "MaxArraySize",
    "MaxJobCount",
    "MaxMemPerCPU",
    "MaxMemPerNode",
    "MaxStepCount",
    "MaxTasksPerNode",
    "MessageTimeout",
    "MinJobAge",
    "OverTimeLimit",
    "PriorityCalcPeriod",
    "PriorityDecayHalfLife",
    "PriorityFavorSmall",
    "PriorityFlags",
    "PriorityMaxAge",
    "PriorityType",
    "PriorityUsageResetPeriod",
    "PriorityWeightAge",
    "PriorityWeightAssoc",
    "PriorityWeightFairshare",
    "PriorityWeightJobSize",
    "PriorityWeightPartition",
    "PriorityWeightQOS",
    "SchedulerParameters",
    "SchedulerTimeSlice",
    "SlurmctldDebug",
    "SlurmdDebug",
    "SlurmdTimeout",
    "UnkillableStepTimeout",
    "VSizeFactor",
    "WaitTime",
];

/// The first uid of the configuration's users. Those below are the image's daemons; from 30,000 on they are the platform's people.
const FIRST_UID: u32 = 1000;
const LAST_UID: u32 = 29_999;

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Config {
    pub(crate) topology: Topology,
    pub(crate) partitions: Vec<Partition>,
    pub(crate) accounts: Vec<Account>,
    pub(crate) people_account: String,
    pub(crate) default_mem_per_cpu_mb: Option<u32>,
    pub(crate) gpu_type: Option<String>,
    pub(crate) slurm_conf: BTreeMap<String, String>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            topology: Topology::default(),
            partitions: vec![Partition {
                name: "main".to_owned(),
                default: true,
                max_time_minutes: None,
                default_time_minutes: None,
            }],
            accounts: Vec::new(),
            people_account: "people".to_owned(),
            default_mem_per_cpu_mb: None,
            gpu_type: None,
            slurm_conf: BTreeMap::new(),
        }
    }
}

/// How the members are spread.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Topology {
    /// The controller and the workers share an allocation.
    SingleNode,
    /// Each has a place of its own.
    #[default]
    Split,
}

impl Topology {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::SingleNode => "single_node",
            Self::Split => "split",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Partition {
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) default: bool,
    pub(crate) max_time_minutes: Option<u32>,
    pub(crate) default_time_minutes: Option<u32>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Account {
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) users: Vec<User>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct User {
    pub(crate) name: String,
    pub(crate) uid: u32,
}

impl Config {
    /// Parses and validates the configuration.
    pub(crate) fn read(said: &Map<String, Value>) -> Result<Self, Failure> {
        let config: Self = serde_json::from_value(Value::Object(said.clone()))
            .map_err(|error| wrong(format!("it cannot be read: {error}")))?;
        config.judged().map_err(wrong)
    }

    fn judged(self) -> Result<Self, String> {
        let names = || self.partitions.iter().map(|partition| partition.name.as_str());
        if self.partitions.is_empty() {
            return Err("name at least one partition, or leave partitions out".to_owned());
        }
        each_once("partition", names())?;
        if self.partitions.iter().filter(|partition| partition.default).count() > 1 {
            return Err("at most one partition can be the default".to_owned());
        }
        each_once("account", self.accounts.iter().map(|account| account.name.as_str()))?;
        each_once("user", self.users().map(|(user, _)| user.name.as_str()))?;
        let accounts = self.accounts.iter().map(|account| account.name.as_str());
        let users = self.users().map(|(user, _)| user.name.as_str());
        let people = Some(self.people_account.as_str()).filter(|account| !account.is_empty());
        for word in names().chain(accounts).chain(users).chain(people).chain(self.gpu_type.as_deref()) {
            if !is_name(word) {
                return Err(format!(
                    "{word:?} is not a name: use at most 32 lower-case letters, digits, _ and -, beginning with a letter"
                ));
            }
        }
        if let Some((user, _)) = self.users().find(|(user, _)| !(FIRST_UID..=LAST_UID).contains(&user.uid)) {
            return Err(format!(
                "the uid of {} is {}: choose one from {FIRST_UID} to {LAST_UID}",
                user.name, user.uid
            ));
        }
        let mut seen = BTreeSet::new();
        if let Some((user, _)) = self.users().find(|(user, _)| !seen.insert(user.uid)) {
            return Err(format!("the uid {} is given twice: each user needs its own", user.uid));
        }
        for (key, value) in &self.slurm_conf {
            if !ALLOWED.contains(&key.as_str()) {
                return Err(format!(
                    "an instance cannot set slurm_conf/{key}; it can set: {}",
                    ALLOWED.join(", ")
                ));
            }
            if !is_value(value) {
                return Err(format!(
                    "slurm_conf/{key}: a value must be one line of letters, digits and , . : _ = / + * - without spaces"
                ));
            }
        }
        Ok(self)
    }

    /// Every user with the account that its jobs are counted under.
    pub(crate) fn users(&self) -> impl Iterator<Item = (&User, &Account)> {
        self.accounts.iter().flat_map(|account| account.users.iter().map(move |user| (user, account)))
    }
}

fn wrong(why: String) -> Failure {
    Failure::new("config", format!("the instance's config: {why}; upgrade it with a valid one"))
}

fn each_once<'a>(what: &str, names: impl Iterator<Item = &'a str>) -> Result<(), String> {
    let mut seen = BTreeSet::new();
    for name in names {
        if !seen.insert(name) {
            return Err(format!("the {what} {name:?} is given twice"));
        }
    }
    Ok(())
}

/// Characters allowed in a configuration file, in a shell's word and as a user's name alike.
fn is_name(word: &str) -> bool {
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_' || c == '-';
    word.len() <= 32 && word.starts_with(|c: char| c.is_ascii_lowercase()) && word.chars().all(fits)
}

/// No space, quote, `#` or line end: nothing that would begin another setting.
fn is_value(value: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || ",.:_=/+*-".contains(c);
    !value.is_empty() && value.len() <= 500 && value.chars().all(fits)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(value: Value) -> Result<Config, String> {
        let Value::Object(map) = value else { panic!() };
        Config::read(&map).map_err(|failure| failure.message)
    }

    #[test]
    fn nothing_said_is_one_partition_and_no_accounts() {
        assert_eq!(read(json!({})).unwrap(), Config::default());
        assert_eq!(read(json!({"topology": "single_node"})).unwrap().topology, Topology::SingleNode);
    }

    #[test]
    fn violation_beyond_the_schema_is_refused_by_name() {
        let refused = |value, word: &str| {
            let why = read(value).unwrap_err();
            assert!(why.contains(word), "{why}");
        };
        refused(json!({"partitions": []}), "at least one");
        refused(json!({"partitions": [{"name": "a"}, {"name": "a"}]}), "twice");
        refused(
            json!({"partitions": [{"name": "a", "default": true}, {"name": "b", "default": true}]}),
            "default",
        );
        refused(json!({"partitions": [{"name": "a b"}]}), "not a name");
        let users = |one, other| json!({"accounts": [{"name": "a", "users": [one]}, {"name": "b", "users": [other]}]});
        refused(users(json!({"name": "x", "uid": 2000}), json!({"name": "y", "uid": 2000})), "twice");
        refused(users(json!({"name": "x", "uid": 2000}), json!({"name": "x", "uid": 2001})), "twice");
        refused(users(json!({"name": "x", "uid": 120}), json!({"name": "y", "uid": 2001})), "120");
        refused(json!({"people_account": "a b"}), "not a name");
        refused(json!({"unknown": 1}), "unknown");
    }

    #[test]
    fn only_harmless_settings_are_an_instances_own() {
        assert!(
            read(json!({"slurm_conf": {"KillWait": "5", "SchedulerParameters": "bf_interval=5,defer"}}))
                .is_ok()
        );
        for (key, value) in [
            ("SlurmUser", "root"),
            ("Epilog", "/tmp/x"),
            ("KillWait", "5\nSlurmUser=root"),
            ("KillWait", "5 SlurmUser=root"),
            ("KillWait", ""),
        ] {
            assert!(read(json!({"slurm_conf": {key: value}})).is_err(), "{key}={value}");
        }
    }
}
