//! Show versions, health and replicas.

use std::path::Path;

use jiff::SignedDuration;
use muster_api::status::{Check, Replica, Status};
use muster_db::Location;

use crate::{Answer, Cx, Platform, Result};

/// Time without a heartbeat after which a replica is not listed.
const SILENT: SignedDuration = SignedDuration::from_secs(30);
/// Maximum healthy size of the outbox.
const OUTBOX_LIMIT: i64 = 5_000;

/// With less room than this the next write may fail.
const LEAST_FREE_MIB: u64 = 4;

/// Returns why nothing can be written: a disk is full.
pub fn disk_fault(platform: &Platform) -> Option<String> {
    let data = platform.options.data.as_deref().map(|folder| ("the data folder", folder));
    // A database that is elsewhere has a disk of its own.
    let file = match platform.store.location() {
        Location::Sqlite(path) => {
            let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
            Some(("the database", folder.unwrap_or(Path::new("."))))
        }
        Location::Postgres(_) => None,
    };
    let full = data.into_iter().chain(file).find_map(|(name, folder)| folder_fault(name, folder));
    let refused = || {
        let why = "the disk of the database is full: its last write failed; free some space";
        platform.store.is_full().then(|| why.to_owned())
    };
    full.or_else(refused)
}

fn folder_fault(name: &str, folder: &Path) -> Option<String> {
    let system = rustix::fs::statvfs(folder).ok()?;
    let free = (u128::from(system.f_bavail) * u128::from(system.f_frsize)) >> 20;
    (free < u128::from(LEAST_FREE_MIB))
        .then(|| format!("the disk of {name} is full: {free} MiB are left; free some space"))
}

/// Answers `status_get`.
pub async fn get(cx: &Cx) -> Result<Answer> {
    cx.authenticated()?;
    let store = &cx.platform.store;
    let schema_version = store.schema_version().await?;
    let outbox = store.outbox_count().await?;
    let replicas = store.replica_list(cx.now - SILENT).await?;
    let mut versions: Vec<&str> = replicas.iter().map(|replica| replica.version.as_str()).collect();
    versions.sort_unstable();
    versions.dedup();
    let full = disk_fault(&cx.platform);
    let checks = vec![
        Check {
            name: "disk".to_owned(),
            ok: full.is_none(),
            detail: full.unwrap_or_else(|| "there is free space".to_owned()),
        },
        Check { name: "database".to_owned(), ok: true, detail: format!("{} answers", store.kind()) },
        Check {
            name: "sealer".to_owned(),
            ok: outbox < OUTBOX_LIMIT,
            detail: format!("{outbox} rows wait to be sealed"),
        },
        Check {
            name: "versions".to_owned(),
            ok: versions.len() <= 1,
            detail: if versions.len() <= 1 {
                "all replicas run the same version".to_owned()
            } else {
                format!("replicas run {}: finish the upgrade", versions.join(" and "))
            },
        },
    ];
    let replicas = if cx.is_operator() { replicas } else { Vec::new() };
    Ok(Answer::new(&Status {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        api_version: muster_api::VERSION.to_owned(),
        database: store.kind().to_owned(),
        schema_version,
        now: cx.now,
        healthy: checks.iter().all(|check| check.ok),
        checks,
        replicas: replicas
            .into_iter()
            .map(|replica| Replica {
                id: replica.id,
                address: replica.address,
                version: replica.version,
                started_at: replica.started_at,
                seen_at: replica.seen_at,
            })
            .collect(),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_without_room_is_a_fault() {
        // The kernel says of its own file system that it has no room.
        assert!(folder_fault("x", Path::new("/proc")).unwrap().contains("the disk of x is full"));
        assert_eq!(folder_fault("x", &std::env::temp_dir()), None);
    }
}
