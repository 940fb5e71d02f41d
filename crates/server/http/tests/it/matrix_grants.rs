//! An allow list of one permission opens the endpoint of that permission and no other.

use muster_api::endpoints;
use muster_authz::Permission;
use muster_testkit::Database;
use serde_json::json;

use crate::matrix::{Templates, copy_of, knock};

/// Returns the grantable permissions of members and instances: each verb is a permission of its own, because draining a
/// member and removing it by force are different amounts of trust.
fn verbs() -> impl Iterator<Item = &'static Permission> {
    let of_workloads = |word: &str| word.starts_with("member.") || word.starts_with("instance.");
    Permission::ALL
        .iter()
        .filter(move |permission| permission.allowable() && of_workloads(permission.as_str()))
}

#[tokio::test(flavor = "multi_thread")]
async fn each_verb_of_members_and_instances_is_granted_alone() {
    let (templates, fixture) = Templates::build(Database::sqlite()).await;
    let admin_path = format!("/v1/projects/{}/service-accounts", fixture.id("train"));
    let mut opened = Vec::new();
    for permission in verbs().map(|permission| permission.as_str()) {
        let kit = copy_of(&templates.holding).await;
        let admin = fixture.client(&kit, "tenant_admin");
        let account = json!({"name": "one-verb", "permissions": [permission]});
        let account = admin.post(&admin_path, account).await.ok().text_of("id");
        let token = admin.post("/v1/tokens", json!({"service_account": account, "name": "x"})).await.ok();
        let client = kit.client_of(0, &token.text_of("secret"));
        // The granted endpoint comes last: it may change what the others are tried on.
        let mut tried: Vec<_> = endpoints()
            .into_iter()
            .filter(|endpoint| endpoint.id.starts_with("member_") || endpoint.id.starts_with("instance_"))
            .collect();
        tried.sort_by_key(|endpoint| endpoint.permission == permission);
        for endpoint in tried {
            let (status, code, _) = knock(&client, &endpoint, &fixture).await;
            if endpoint.permission == permission {
                assert!(
                    status < 300 || code == "invalid_state",
                    "{permission} does not open {}: {status} {code}",
                    endpoint.id
                );
                opened.push(endpoint.id);
            } else {
                assert_eq!(
                    (status, code.as_str()),
                    (403, "permission_denied"),
                    "{permission} opens {}",
                    endpoint.id
                );
            }
        }
        kit.stop().await;
    }
    for verb in
        ["member_add", "member_drain", "member_resume", "member_remove", "member_replace", "member_recover"]
    {
        assert!(opened.contains(&verb), "no grant opens {verb}: {opened:?}");
    }
}
