//! Commands that name no version do not fail because another change was faster.

use futures::future::join_all;
use muster_testkit::{Database, Fixture, Kit};
use serde_json::json;

#[tokio::test(flavor = "multi_thread")]
async fn a_change_of_any_version_is_prepared_again_after_a_lost_race() {
    for database in Database::both() {
        let kit = Kit::start(database, 1).await;
        let fixture = Fixture::build(&kit).await;
        let admin = fixture.client(&kit, "tenant_admin");
        let path = format!("/v1/tenants/{}", fixture.id("acme"));
        let before = admin.get(&path).await.ok().body["version"].as_i64().unwrap();
        for round in 0..10 {
            let changes = (0..4).map(|number| {
                let body = json!({"display_name": format!("{round} {number}")});
                let request =
                    admin.request(reqwest::Method::PATCH, &path).header("if-match", "*").json(&body);
                admin.send(request)
            });
            for changed in join_all(changes).await {
                changed.ok();
            }
        }
        let tenant = admin.get(&path).await.ok().body;
        assert_eq!(tenant["version"].as_i64().unwrap(), before + 40, "every change was made once");
        // A caller that names a version still learns that it is outdated.
        let outdated =
            admin.request(reqwest::Method::PATCH, &path).header("if-match", format!("\"{before}\""));
        admin.send(outdated.json(&json!({"display_name": "x"}))).await.refused(412, "version_mismatch");
        kit.stop().await;
    }
}
