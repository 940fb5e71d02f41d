//! Every change has its previous values in the audit log.

use muster_api::{Endpoint, Kind, endpoints};
use muster_control::audit::{WITHOUT_BEFORE, is_without_before};
use muster_db::AuditFilter;
use muster_testkit::{ACTORS, Database, Fixture, Kit};
use serde_json::Value;

use crate::matrix::{Templates, copy_of, knock};

/// Commands that cannot succeed on the access matrix's platform. Each has its own test in which it succeeds and the
/// command pipeline asserts the previous values.
const NOT_REACHED: &[(&str, &str)] = &[
    ("allocation_attest", "only where the node is lost: tests/fleet"),
    ("cell_restart", "only a running cell: cell/restarts.rs"),
    ("instance_upgrade", "the app has one release: instance/releases.rs"),
    ("instance_rollback", "the app has one release: instance/releases.rs"),
    ("member_drain", "the manifest has no such verb: instance/quorum.rs"),
    ("member_resume", "the manifest has no such verb: instance/orders.rs"),
    ("member_remove", "the component needs its one member: instance/drains.rs"),
    ("member_replace", "the manifest has no such verb: instance/drains.rs"),
    ("member_recover", "the manifest has no such verb: instance/health.rs"),
    ("operation_resolve", "only a blocked operation: instance/drains.rs"),
];

/// Actors with the permission for each endpoint, at least one.
const ABLE: &[&str] = &["tenant_admin", "operator", "project_admin", "account_with_grant"];

fn is_without(operation: &Endpoint) -> bool {
    is_without_before(&operation.action())
}

/// Returns the detail of the audit entry for `operation`, after the first permitted actor has executed it.
async fn detail_of(operation: &Endpoint, templates: &Templates, fixture: &Fixture) -> Result<Value, String> {
    let mut refused = Vec::new();
    for actor in ABLE {
        let kit = copy_of(templates.of(operation)).await;
        let (status, _, body) = knock(&kit.client_of(0, fixture.token(actor)), operation, fixture).await;
        if status >= 300 {
            refused.push(format!("{actor}: {status} {body}"));
            kit.stop().await;
            continue;
        }
        kit.sealed().await;
        let found = entry(&kit, fixture, operation).await;
        kit.stop().await;
        return found.ok_or_else(|| "no entry".to_owned());
    }
    Err(refused.join("\n    "))
}

async fn entry(kit: &Kit, fixture: &Fixture, operation: &Endpoint) -> Option<Value> {
    let filter = AuditFilter { limit: 1000, ..AuditFilter::default() };
    for chain in ["platform", fixture.id("acme")] {
        for sealed in kit.store().audit_list(chain, &filter).await.unwrap() {
            let record: Value = serde_json::from_str(&sealed.entry_text).unwrap();
            if record["action"] == operation.action().as_str() && record["outcome"] == "succeeded" {
                return Some(record["detail"].clone());
            }
        }
    }
    None
}

#[tokio::test(flavor = "multi_thread")]
async fn every_change_has_its_values_before_in_the_audit() {
    let commands: Vec<Endpoint> = endpoints().into_iter().filter(|one| one.kind == Kind::Command).collect();
    let (templates, fixture) = Templates::build(Database::sqlite()).await;
    let mut wrong = Vec::new();
    for operation in commands.iter().filter(|operation| !is_without(operation)) {
        let expected = NOT_REACHED.iter().any(|(id, _)| *id == operation.id);
        match detail_of(operation, &templates, &fixture).await {
            Ok(_) if expected => wrong.push(format!("{} is reached: take it off the list", operation.id)),
            Ok(detail) => {
                let before = &detail["before"];
                let is_empty = before.is_null() || before.as_object().is_some_and(serde_json::Map::is_empty);
                let text = before.to_string();
                let has_token = ACTORS.iter().any(|actor| {
                    let token = fixture.token(actor);
                    !token.is_empty() && text.contains(token)
                });
                if is_empty || has_token || text.contains("$argon2") {
                    wrong.push(format!("{}: before is {before}", operation.id));
                }
            }
            Err(_) if expected => {}
            Err(why) => wrong.push(format!("{} did not succeed:\n    {why}", operation.id)),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_exceptions_are_commands() {
    let known: Vec<String> = endpoints().iter().map(Endpoint::action).collect();
    for (action, _) in WITHOUT_BEFORE {
        let is_registry = action.starts_with("blob.") || action.starts_with("manifest.");
        assert!(is_registry || known.iter().any(|name| name == action), "{action} is no command");
    }
    for (id, _) in NOT_REACHED {
        assert!(endpoints().iter().any(|operation| operation.id == *id), "{id} is no command");
    }
    // A replacement or removal has previous values.
    for operation in
        endpoints().iter().filter(|one| matches!(one.method.as_str(), "PATCH" | "PUT" | "DELETE"))
    {
        assert!(!is_without(operation), "{} changes something that was there", operation.id);
    }
}
