//! Lists of referrers and tags: limited in bytes, paged, and complete.

use std::collections::BTreeSet;

use muster_testkit::{Database, Fixture, Kit};
use serde_json::{Value, json};

use super::{Image, MANIFEST, Remote, descriptor, digest};

/// Returns a manifest that refers to an image, with an annotation.
fn about(image: &Image, number: usize, annotation: String) -> Vec<u8> {
    json!({
        "schemaVersion": 2, "mediaType": MANIFEST, "artifactType": "application/vnd.example",
        "config": descriptor("application/vnd.oci.empty.v1+json", b"{}"), "layers": [],
        "subject": descriptor(MANIFEST, &image.manifest),
        "annotations": {"number": number.to_string(), "text": annotation},
    })
    .to_string()
    .into_bytes()
}

#[tokio::test(flavor = "multi_thread")]
async fn referrers_come_in_pages_of_a_bounded_size() {
    for database in Database::both() {
        let kit = Kit::start(database, 1).await;
        let fixture = Fixture::build(&kit).await;
        let base = Remote::new(&kit, 0, fixture.token("project_admin"), "acme.train/base");
        let image = Image::of("one");
        base.push("v1", &image).await.is(201);
        base.blob(b"{}").await.is(201);
        let long = about(&image, 0, "x".repeat(65 << 10));
        base.manifest(&digest(&long), &long).await.refused(400, "MANIFEST_INVALID");
        // Twelve of these fit on a page: a control character is six bytes of JSON.
        let mut pushed = BTreeSet::new();
        for number in 0..30 {
            let manifest = about(&image, number, "\u{1}".repeat(60 << 10));
            base.manifest(&digest(&manifest), &manifest).await.is(201);
            pushed.insert(digest(&manifest));
        }
        for start in ["", "?artifactType=application%2Fvnd.example", "?n=7"] {
            let mut path = format!("{{}}/referrers/{}{start}", image.digest());
            let (mut found, mut pages) = (BTreeSet::new(), 0);
            loop {
                let page = base.get(&path).await.is(200);
                assert!(page.bytes.len() <= 4 << 20, "{}", page.bytes.len());
                let listed = page.json()["manifests"].as_array().unwrap().clone();
                assert!(!listed.is_empty() && (start != "?n=7" || listed.len() <= 7));
                found.extend(listed.iter().map(|one| one["digest"].as_str().unwrap().to_owned()));
                pages += 1;
                let link = page.header("link");
                let Some(next) = link.strip_prefix("</v2/").and_then(|link| link.split('>').next()) else {
                    break;
                };
                path = next.to_owned();
            }
            assert_eq!(found, pushed, "{start}");
            assert!(pages >= 3, "{pages}");
        }
        let none = base.get(&format!("{{}}/referrers/{}", digest(b"nothing"))).await.is(200);
        assert_eq!((none.json()["manifests"].clone(), none.header("link")), (json!([]), String::new()));
        kit.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_tag_of_a_repository_is_on_some_page() {
    let kit = Kit::start(Database::sqlite(), 1).await;
    let fixture = Fixture::build(&kit).await;
    let base = Remote::new(&kit, 0, fixture.token("project_admin"), "acme.train/base");
    let image = Image::of("one");
    let names: Vec<String> = (0..23).map(|number| format!("v{number:03}")).collect();
    for name in &names {
        base.push(name, &image).await.is(201);
    }
    let admin = fixture.client(&kit, "project_admin");
    let path = format!("/v1/projects/{}/repositories/base/tags", fixture.id("train"));
    let mut found = Vec::new();
    let mut token: Option<String> = None;
    loop {
        let query = token.map(|token| format!("&page_token={token}")).unwrap_or_default();
        let page = admin.get(&format!("{path}?page_size=10{query}")).await.ok().body;
        let items = page["items"].as_array().unwrap();
        assert!(items.len() <= 10);
        found.extend(items.iter().map(|tag: &Value| tag["name"].as_str().unwrap().to_owned()));
        match page["next_page_token"].as_str() {
            Some(next) => token = Some(next.to_owned()),
            None => break,
        }
    }
    assert_eq!(found, names);
    admin.get(&format!("{path}?page_token=forged")).await.refused(400, "bad_cursor");
    // A page token is only valid for its own list.
    let other = base.named("acme.train/other");
    other.push("v1", &image).await.is(201);
    let first = admin.get(&format!("{path}?page_size=10")).await.ok().text_of("next_page_token");
    let elsewhere =
        format!("/v1/projects/{}/repositories/other/tags?page_token={first}", fixture.id("train"));
    admin.get(&elsewhere).await.refused(400, "bad_cursor");
    kit.stop().await;
}
