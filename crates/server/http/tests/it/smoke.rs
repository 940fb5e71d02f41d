//! The minimal path: a server starts, an actor is created, and a command passes the whole pipeline.

use muster_testkit::{Database, Fixture, Kit};
use serde_json::json;

#[tokio::test(flavor = "multi_thread")]
async fn a_command_is_carried_out_audited_and_told_on_both_databases() {
    for database in Database::both() {
        let kit = Kit::start(database, 1).await;
        let fixture = Fixture::build(&kit).await;
        let admin = fixture.client(&kit, "tenant_admin");
        let made = admin
            .post("/v1/tenants/acme/projects", json!({"name": "extra", "labels": {"team": "ml"}}))
            .await
            .ok();
        let id = made.text_of("id");
        assert_eq!(made.header("etag"), "\"1\"");
        kit.sealed().await;
        let events = admin.get(&format!("/v1/events?project={id}")).await.ok();
        assert_eq!(events.body["items"][0]["type"], "dev.muster.project.created.v1");
        assert_eq!(events.body["items"][0]["sequence"], 1);
        let audit = admin.get("/v1/audit?tenant=acme&action=project.create").await.ok();
        let last = audit.body["items"].as_array().unwrap().last().unwrap().clone();
        assert_eq!(last["record"]["target"]["id"], json!(id));
        assert_eq!(last["record"]["correlation_id"], json!(made.header("x-correlation-id")));
        let found = admin.get("/v1/projects?labels=team=ml").await.ok();
        assert_eq!(found.body["items"].as_array().unwrap().len(), 1);
        kit.stop().await;
    }
}
