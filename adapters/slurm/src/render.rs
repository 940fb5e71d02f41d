//! Renders the files of a cluster from its configuration. Pure: the same instance gives the same text, so a rerun step writes
//! identical files.

use std::fmt::Write as _;

use crate::config::Config;

/// The name of a cluster and the address of its controller.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cluster<'a> {
    pub(crate) name: &'a str,
    pub(crate) controller: &'a str,
    pub(crate) address: &'a str,
    /// Default memory of a job for each CPU.
    pub(crate) mem_per_cpu_mb: i64,
    /// Maximum number of workers.
    pub(crate) most_workers: i64,
}

/// `slurm.conf`. Non-obvious settings:
/// - `DefMemPerCPU`: with memory as a resource, a job that requests none would take all of a node's.
/// - `ReturnToService=1`: with 2 a node that was set down on purpose returns automatically.
/// - `TreeWidth`: messages go straight to each worker. Workers come and go, and none should relay another's.
/// - `proctrack/linuxproc`: control groups are read-only in cells.
pub(crate) fn slurm_conf(cluster: &Cluster<'_>, config: &Config) -> String {
    let mut text = format!(
        "ClusterName={name}
SlurmctldHost={controller}({address})
SlurmUser=slurm
StateSaveLocation=/var/spool/slurmctld
SlurmdSpoolDir=/var/spool/slurmd
SlurmctldPidFile=/run/slurm/slurmctld.pid
SlurmdPidFile=/run/slurm/slurmd.pid
SlurmctldParameters=enable_configless
CommunicationParameters=NoAddrCache
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
DefMemPerCPU={memory}
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/linux
MpiDefault=pmix
MailProg=/bin/true
Prolog=/usr/lib/muster-slurm/prolog
ReturnToService=1
MaxNodeCount={most}
TreeWidth=65533
GresTypes=gpu
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost={address}
AccountingStorageEnforce=associations,limits
AccountingStorageTRES=gres/gpu
",
        name = cluster.name,
        controller = cluster.controller,
        address = cluster.address,
        memory = config.default_mem_per_cpu_mb.map_or(cluster.mem_per_cpu_mb, i64::from).max(1),
        most = cluster.most_workers.max(1),
    );
    if !config.slurm_conf.contains_key("SlurmdTimeout") {
        text.push_str("SlurmdTimeout=30\n");
    }
    for (key, value) in &config.slurm_conf {
        let _ = writeln!(text, "{key}={value}");
    }
    let chosen = config.partitions.iter().any(|partition| partition.default);
    for (index, partition) in config.partitions.iter().enumerate() {
        let default = if partition.default || (!chosen && index == 0) { "YES" } else { "NO" };
        let most = minutes(partition.max_time_minutes, "INFINITE");
        let _ = write!(
            text,
            "PartitionName={} Nodes=ALL Default={default} MaxTime={most} State=UP",
            partition.name
        );
        if partition.default_time_minutes.is_some() {
            let _ = write!(text, " DefaultTime={}", minutes(partition.default_time_minutes, "NONE"));
        }
        text.push('\n');
    }
    text
}

fn minutes(limit: Option<u32>, none: &str) -> String {
    limit.map_or_else(|| none.to_owned(), |minutes| minutes.to_string())
}

/// `cgroup.conf`. It is read even where nothing uses control groups, and would look for some.
pub(crate) fn cgroup_conf() -> String {
    "CgroupPlugin=cgroup/v1\nCgroupAutomount=no\n".to_owned()
}

/// `slurmdbd.conf`. The database knows slurmdbd by the user that it runs as: there is no password.
pub(crate) fn slurmdbd_conf(cluster: &Cluster<'_>) -> String {
    format!(
        "DbdHost={}
DbdAddr={}
SlurmUser=slurm
PidFile=/run/slurm/slurmdbd.pid
StorageType=accounting_storage/mysql
StorageHost=localhost
StorageUser=slurm
StorageLoc=slurm_acct_db
",
        cluster.controller, cluster.address
    )
}

/// A line for each user: name, uid, account.
pub(crate) fn users(config: &Config) -> String {
    config.users().map(|(user, account)| format!("{} {} {}\n", user.name, user.uid, account.name)).collect()
}

/// A line for each account.
pub(crate) fn accounts(config: &Config) -> String {
    config.accounts.iter().map(|account| format!("{}\n", account.name)).collect()
}

/// Renders a worker's resources. Its incarnation is a feature of the node, which distinguishes the record of a removed cell from
/// its successor's.
pub(crate) fn node(cpus: i64, memory_mb: i64, gres: Option<&str>, incarnation: i64) -> String {
    let gres = gres.map(|gres| format!(" Gres={gres}")).unwrap_or_default();
    format!(
        "Boards=1 SocketsPerBoard=1 CoresPerSocket={} ThreadsPerCore=1 RealMemory={}{gres} Feature={}\n",
        cpus.max(1),
        for_jobs(memory_mb),
        feature(incarnation)
    )
}

/// How the feature of every worker begins.
pub(crate) const INCARNATION: &str = "incarnation-";

/// The feature that names an incarnation.
pub(crate) fn feature(incarnation: i64) -> String {
    format!("{INCARNATION}{incarnation}")
}

/// slurmd and munged need something too: a twentieth, and 64 MiB at the most.
pub(crate) fn for_jobs(memory_mb: i64) -> i64 {
    (memory_mb - (memory_mb / 20).min(64)).max(1)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn config(value: serde_json::Value) -> Config {
        Config::read(value.as_object().unwrap()).unwrap()
    }

    const LAB: Cluster<'_> = Cluster {
        name: "lab",
        controller: "lab-controller-1",
        address: "10.64.0.2",
        mem_per_cpu_mb: 256,
        most_workers: 512,
    };

    #[test]
    fn a_cluster_without_wishes_has_one_partition_of_all_nodes() {
        let text = slurm_conf(&LAB, &Config::default());
        for line in [
            "ClusterName=lab",
            "SlurmctldHost=lab-controller-1(10.64.0.2)",
            "AccountingStorageHost=10.64.0.2",
            "DefMemPerCPU=256",
            "ReturnToService=1",
            "MaxNodeCount=512",
            "SlurmdTimeout=30",
            "PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} is not in:\n{text}");
        }
    }

    #[test]
    fn wishes_come_after_what_is_fixed_and_replace_only_what_is_theirs() {
        let text = slurm_conf(
            &LAB,
            &config(json!({
                "default_mem_per_cpu_mb": 100,
                "slurm_conf": {"KillWait": "5", "SlurmdTimeout": "60"},
                "partitions": [
                    {"name": "short", "max_time_minutes": 60, "default_time_minutes": 10},
                    {"name": "long"},
                ],
            })),
        );
        let of = |key: &str| text.lines().filter(|line| line.starts_with(&format!("{key}="))).count();
        assert_eq!((of("DefMemPerCPU"), of("SlurmdTimeout"), of("KillWait")), (1, 1, 1), "{text}");
        assert!(
            text.contains("PartitionName=short Nodes=ALL Default=YES MaxTime=60 State=UP DefaultTime=10\n")
        );
        assert!(text.contains("PartitionName=long Nodes=ALL Default=NO MaxTime=INFINITE State=UP\n"));
    }

    #[test]
    fn the_database_has_no_password() {
        let text = slurmdbd_conf(&LAB);
        assert!(text.contains("DbdAddr=10.64.0.2\n") && !text.contains("StoragePass"), "{text}");
    }

    #[test]
    fn users_and_accounts_are_lines() {
        let config = config(json!({"accounts": [
            {"name": "physics", "users": [{"name": "alice", "uid": 2000}]},
            {"name": "idle"},
        ]}));
        assert_eq!(users(&config), "alice 2000 physics\n");
        assert_eq!(accounts(&config), "physics\nidle\n");
    }

    #[test]
    fn a_worker_says_what_it_has_and_which_incarnation_it_is() {
        assert_eq!(
            node(2, 2000, Some("gpu:a100:2"), 3),
            "Boards=1 SocketsPerBoard=1 CoresPerSocket=2 ThreadsPerCore=1 RealMemory=1936 Gres=gpu:a100:2 Feature=incarnation-3\n"
        );
        assert!(node(1, 256, None, 1).contains("RealMemory=244 Feature"));
    }
}
