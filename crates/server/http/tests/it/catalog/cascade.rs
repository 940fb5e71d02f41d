//! Removal of a project or a tenant: what the cascade removes, and what it does not reach.

use muster_testkit::Database;
use serde_json::json;

use super::Catalog;

#[tokio::test(flavor = "multi_thread")]
async fn a_publisher_does_not_go_while_others_have_something_of_its_apps() {
    for database in Database::both() {
        let catalog = Catalog::new(database).await;
        catalog.offer("notebook", "everyone").await;
        let version = catalog.released("notebook", "1", &[]).await;
        catalog.promote("notebook", "1", "staged").await.ok();
        let operator = catalog.kit.operator();
        let project = format!("/v1/projects/{}?cascade=true", catalog.fixture.id("train"));
        let tenant = format!("/v1/tenants/{}?cascade=true", catalog.fixture.id("acme"));
        let held = async |says: &str| {
            for path in [&project, &tenant] {
                let refused = operator.delete(path).await.refused(409, "not_empty");
                assert!(refused.text.contains(says), "{}", refused.text);
            }
            catalog.admin.get(&catalog.at("train", "apps/notebook")).await.ok();
        };
        let entitlement = catalog.grant(&catalog.stranger, "lab", "notebook").await;
        held("1 entitlements that are not revoked").await;
        let instance = catalog.runs(&entitlement, &version, "mine").await;
        let revoke = format!("entitlements/{}/revoke", entitlement["id"].as_str().unwrap());
        catalog.stranger.post(&catalog.at("lab", &revoke), json!({})).await.ok();
        held("1 instances on record").await;
        // The consumer cannot be removed either while its instance is live.
        let lab = format!("/v1/projects/{}", catalog.fixture.id("lab"));
        let refused = operator.delete(&format!("{lab}?cascade=true")).await.refused(409, "not_empty");
        assert!(refused.text.contains("1 live instance"), "{}", refused.text);
        catalog.stops(&instance).await;
        held("1 instances on record").await;
        let refused = operator.delete(&lab).await.refused(409, "not_empty");
        for noun in ["1 instances", "1 entitlements", "1 service_accounts", "1 networks"] {
            assert!(refused.text.contains(noun), "{noun}: {}", refused.text);
        }
        let removed = operator.delete(&format!("{lab}?cascade=true")).await.ok().body["removed"].clone();
        assert_eq!((&removed["instances"], &removed["entitlements"]), (&json!(1), &json!(1)));
        // Nothing uses it any more: it is removed, with its apps.
        catalog.image("one", None).await;
        catalog.released("notebook", "2", &["one"]).await;
        catalog.grant(&catalog.admin, "train", "notebook").await;
        let bare = format!("/v1/projects/{}", catalog.fixture.id("train"));
        let refused = operator.delete(&bare).await.refused(409, "not_empty");
        assert!(refused.text.contains("1 apps"), "{}", refused.text);
        let removed = operator.delete(&project).await.ok().body["removed"].clone();
        assert_eq!((&removed["apps"], &removed["entitlements"]), (&json!(1), &json!(1)));
        catalog.kit.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tenant_goes_with_its_apps_and_what_its_own_projects_have_of_them() {
    for database in Database::both() {
        let catalog = Catalog::new(database).await;
        catalog.offer("notebook", "everyone").await;
        let version = catalog.released("notebook", "1", &[]).await;
        catalog.promote("notebook", "1", "staged").await.ok();
        let entitlement = catalog.grant(&catalog.sibling, "serve", "notebook").await;
        let instance = catalog.runs(&entitlement, &version, "mine").await;
        let operator = catalog.kit.operator();
        let tenant = format!("/v1/tenants/{}?cascade=true", catalog.fixture.id("acme"));
        let refused = operator.delete(&tenant).await.refused(409, "not_empty");
        assert!(refused.text.contains("1 live instance"), "{}", refused.text);
        catalog.stops(&instance).await;
        // A revoked entitlement of another tenant does not block the removal; its account stays in that tenant, disabled.
        let theirs = catalog.grant(&catalog.stranger, "lab", "notebook").await;
        operator.delete(&tenant).await.refused(409, "not_empty");
        let revoke = format!("entitlements/{}/revoke", theirs["id"].as_str().unwrap());
        catalog.stranger.post(&catalog.at("lab", &revoke), json!({})).await.ok();
        let removed = operator.delete(&tenant).await.ok().body["removed"].clone();
        assert_eq!(
            (&removed["apps"], &removed["entitlements"], &removed["instances"]),
            (&json!(1), &json!(1), &json!(1))
        );
        catalog.stranger.get(&catalog.at("lab", "apps/notebook")).await.refused(404, "not_found");
        let account =
            catalog.stranger.get(&catalog.at("lab", "service-accounts/app-notebook")).await.ok().body;
        assert_eq!(account["disabled"], json!(true));
        catalog.kit.stop().await;
    }
}
