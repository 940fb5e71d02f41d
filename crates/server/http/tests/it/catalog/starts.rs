//! Release selection for a start. Instances call this use-case; here it is called directly.

use muster_control::Cx;
use muster_control::app_version::resolve_version;
use muster_model::app::gets_canary;
use muster_testkit::Database;
use serde_json::json;

use super::Catalog;

#[tokio::test(flavor = "multi_thread")]
async fn a_start_gets_what_it_names_or_what_is_drawn_for_it() {
    let catalog = Catalog::new(Database::sqlite()).await;
    catalog.offer("notebook", "everyone").await;
    let ask = async |project: &str, wanted: Option<&str>, thing: &str| {
        let platform = catalog.kit.servers[0].platform.clone();
        let now = platform.env.now();
        let cx = Cx {
            platform,
            actor: None,
            correlation_id: "starts".to_owned(),
            now,
            if_match: None,
            address: None,
            answer_slot: muster_control::AnswerSlot::default(),
        };
        let (tenant, project) = match project {
            "train" => (catalog.fixture.id("acme"), catalog.fixture.id("train")),
            _ => (catalog.fixture.id("globex"), catalog.fixture.id("lab")),
        };
        let (tenant, project) = (tenant.parse().unwrap(), project.parse().unwrap());
        let app =
            catalog.kit.store().app_found_by_slug(project, tenant, "notebook").await.unwrap().unwrap().app;
        resolve_version(&cx, project, &app, wanted, thing).await.map(|version| version.name)
    };
    let says =
        async |project: &str, wanted: Option<&str>| ask(project, wanted, "x").await.unwrap_err().detail;
    assert!(says("lab", None).await.contains("has no usable release"), "{}", says("lab", None).await);
    catalog.released("notebook", "1", &[]).await;
    // A draft starts in the publisher's project, and does not exist for any other.
    assert_eq!(ask("train", Some("1"), "x").await.unwrap(), "1");
    assert!(says("lab", Some("1")).await.contains("release not found"));
    assert!(says("train", None).await.contains("name one of 1 (draft)"), "{}", says("train", None).await);
    catalog.brought("notebook", "1", "active").await;
    let two = catalog.released("notebook", "2", &[]).await;
    catalog.promote("notebook", "2", "staged").await.ok();
    assert_eq!(ask("lab", None, "x").await.unwrap(), "1");
    let path = catalog.at("train", "apps/notebook/versions/2/promote");
    catalog.admin.post(&path, json!({"to": "canary", "percent": 30, "reason": "x"})).await.ok();
    let mut canaries = 0;
    for n in 0..200 {
        let thing = format!("ins-{n}");
        let got = ask("lab", None, &thing).await.unwrap();
        assert_eq!(got, ask("lab", None, &thing).await.unwrap(), "it is drawn once and for all");
        let expected = gets_canary(two.parse().unwrap(), &thing, 30);
        assert_eq!(got == "2", expected);
        canaries += u32::from(got == "2");
    }
    assert!((30..90).contains(&canaries), "{canaries} of 200 at 30 of a hundred");
    assert_eq!(ask("lab", Some("1"), "x").await.unwrap(), "1");
    catalog.promote("notebook", "2", "active").await.ok();
    assert_eq!(ask("lab", None, "x").await.unwrap(), "2");
    assert!(says("lab", Some("1")).await.contains("is deprecated, and no instance can be created from it"));
    catalog.kit.stop().await;
}
